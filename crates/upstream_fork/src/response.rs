//! Reads the responses of an upstream, which may be anything.
//!
//! In: bytes. Out: a result, the upstream's error, or what is wrong.
//! Bounds: [`ACCOUNT_BYTES_MAX`] for an account's data; the caller bounds a whole response.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use chain_solana::ACCOUNT_BYTES_MAX;
use serde::Deserialize;
use solana::{Account, JsonU64};
use solana_account::AccountSharedData;
use solana_pubkey::Pubkey;

/// Accounts as of a slot, in the order of their addresses.
#[derive(Debug)]
pub(crate) struct AccountsAt {
    pub(crate) slot: u64,
    pub(crate) accounts: Vec<Option<Arc<Account>>>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub(crate) struct CallError {
    pub(crate) code: i64,
    pub(crate) message: String,
}

/// A response of JSON-RPC.
#[derive(Deserialize)]
#[serde(bound = "T: Deserialize<'de>")]
struct Response<T> {
    #[serde(default = "none")]
    result: Option<T>,
    error: Option<CallError>,
}

fn none<T>() -> Option<T> {
    None
}

#[derive(Deserialize)]
struct InContext<T> {
    context: Context,
    value: T,
}

#[derive(Deserialize)]
struct Context {
    slot: JsonU64,
}

/// An account as `getMultipleAccounts` has it in base64.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JsonAccount {
    lamports: JsonU64,
    owner: String,
    executable: bool,
    rent_epoch: JsonU64,
    data: (String, String),
}

/// The result of a call: the upstream's error in the inner one, and what is wrong in the outer one.
pub(crate) fn result<'a, T: Deserialize<'a>>(
    body: &'a [u8],
) -> Result<Result<T, CallError>, String> {
    let response: Response<T> =
        serde_json::from_slice(body).map_err(|err| format!("no response of JSON-RPC: {err}"))?;
    match (response.result, response.error) {
        (_, Some(err)) => Ok(Err(err)),
        (Some(result), None) => Ok(Ok(result)),
        (None, None) => Err("a response without a result".to_owned()),
    }
}

/// The accounts of a response of `getMultipleAccounts` to a request for as many as `addresses`.
pub(crate) fn accounts(
    body: &[u8],
    addresses: &[Pubkey],
) -> Result<Result<AccountsAt, CallError>, String> {
    let result = match result::<InContext<Vec<Option<JsonAccount>>>>(body)? {
        Ok(result) => result,
        Err(err) => return Ok(Err(err)),
    };
    let found = result.value.len();
    let expected = addresses.len();
    if found != expected {
        return Err(format!("{found} accounts for {expected} addresses"));
    }
    let decode = |(address, account): (&Pubkey, Option<JsonAccount>)| {
        let decoded = account.map(decode_account).transpose();
        decoded.map_err(|why| format!("the account {address}: {why}"))
    };
    let accounts = addresses.iter().zip(result.value).map(decode).collect::<Result<_, _>>()?;
    Ok(Ok(AccountsAt { slot: result.context.slot.into(), accounts }))
}

fn decode_account(account: JsonAccount) -> Result<Arc<Account>, String> {
    let JsonAccount { lamports, owner, executable, rent_epoch, data: (text, encoding) } = account;
    let lamports = u64::from(lamports);
    let rent_epoch = rent_epoch.into();
    if encoding != "base64" {
        return Err(format!("data in {encoding:?}, and base64 was requested"));
    }
    let data = BASE64_STANDARD.decode(text).map_err(|err| format!("data: {err}"))?;
    if data.len() > ACCOUNT_BYTES_MAX {
        return Err(format!("{} bytes of data, at most {ACCOUNT_BYTES_MAX}", data.len()));
    }
    if lamports == 0 {
        return Err("no lamports".to_owned());
    }
    let owner: Pubkey = owner.parse().map_err(|err| format!("owner: {err}"))?;
    let account = solana_account::Account { lamports, data, owner, executable, rent_epoch };
    Ok(Arc::new(Account(AccountSharedData::from(account))))
}

#[cfg(test)]
mod tests {
    use solana_account::ReadableAccount;

    use super::*;

    const OWNER: &str = "11111111111111111111111111111111";

    fn with_account(account: &str) -> String {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"result":{{"context":{{"slot":7}},"value":[{account}]}}}}"#
        )
    }

    fn account(lamports: u64, data: &str, encoding: &str, owner: &str) -> String {
        format!(
            r#"{{"lamports":{lamports},"owner":"{owner}","executable":false,"rentEpoch":1,"data":["{data}","{encoding}"],"space":3}}"#
        )
    }

    #[test]
    fn accounts_are_read_with_their_slot() {
        let body = with_account(&format!("{},null", account(5, "AQID", "base64", OWNER)));
        let read =
            accounts(body.as_bytes(), &[Pubkey::default(); 2]).expect("valid").expect("a result");
        assert_eq!(read.slot, 7);
        let first = read.accounts[0].as_ref().expect("it exists");
        assert_eq!((first.0.lamports(), first.0.data()), (5, &[1, 2, 3][..]));
        assert!(read.accounts[1].is_none());
    }

    #[test]
    fn what_is_no_valid_response_says_why() {
        let one = [Pubkey::default()];
        let long = BASE64_STANDARD.encode(vec![0; ACCOUNT_BYTES_MAX + 1]);
        for (body, why) in [
            ("<html>".to_owned(), "no response of JSON-RPC"),
            ("{}".to_owned(), "without a result"),
            ("[]".to_owned(), "no response of JSON-RPC"),
            (with_account(""), "0 accounts for 1 addresses"),
            (with_account("null,null"), "2 accounts for 1 addresses"),
            (with_account(&account(5, "AQI", "base64", OWNER)), "data: "),
            (with_account(&account(5, "AQID", "base58", OWNER)), "base64 was requested"),
            (with_account(&account(0, "AQID", "base64", OWNER)), "no lamports"),
            (with_account(&account(5, "AQID", "base64", "x")), "owner: "),
            (with_account(&account(5, &long, "base64", OWNER)), "10485761 bytes of data"),
        ] {
            let err = accounts(body.as_bytes(), &one).expect_err("it is invalid");
            assert!(err.contains(why), "{why}: {err}");
        }
        let error = br#"{"error":{"code":-32005,"message":"too many"}}"#;
        let err = accounts(error, &one).expect("valid").expect_err("an error");
        assert_eq!((err.code, err.message.as_str()), (-32005, "too many"));
    }
}
