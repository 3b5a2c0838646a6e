//! Reads accounts and mints from a view, by pubkey: as records, as JSON, or as raw data.

use std::sync::Arc;

use bytes::Bytes;
use chain_solana::View;
use jsonrpc::error::RpcError;
use jsonrpc::{MethodOutput, RawValue, StreamState};
use ledger::{Address, KeyKind};
use solana::{Account, AccountEncoder, Encoding, MintInfo};
use solana_account::ReadableAccount;
use solana_pubkey::Pubkey;

pub(crate) fn address(pubkey: &Pubkey) -> Address {
    Address::from(pubkey.to_bytes())
}

/// Converts index keys to those of the ledger.
pub(crate) fn keys(keys: impl IntoIterator<Item = (KeyKind, Pubkey)>) -> Vec<(KeyKind, Address)> {
    keys.into_iter().map(|(kind, key)| (kind, address(&key))).collect()
}

/// Returns the account of a pubkey.
pub(crate) fn account(view: &View, pubkey: &Pubkey) -> Option<Arc<Account>> {
    view.record(&address(pubkey))
}

/// Returns the lamports of a pubkey's account, which is not unpacked.
pub(crate) fn lamports(view: &View, pubkey: &Pubkey) -> Option<u64> {
    view.global_rank(&address(pubkey))
}

/// Checks that an account can be encoded; -32600 if it is too long for base58.
pub(crate) fn check_encoding(account: &Account, encoding: Encoding) -> Result<(), RpcError> {
    encoding.check(&account.0).map_err(|err| RpcError::invalid_request(err.to_string()))
}

/// Appends a whole account, as [`start_account`] does with the beginning of one.
pub(crate) fn write_account(
    out: &mut Vec<u8>,
    view: &View,
    pubkey: &Pubkey,
    account: Option<&Account>,
    encoding: Encoding,
) -> Result<(), RpcError> {
    let mut encoder = start_account(out, view, pubkey, account, encoding)?;
    while let (Some(unfinished), Some(account)) = (&mut encoder, account) {
        if write_next_chunk(unfinished, account, out)? == StreamState::Done {
            encoder = None;
        }
    }
    Ok(())
}

/// Appends the next chunk of an account.
pub(crate) fn write_next_chunk(
    encoder: &mut AccountEncoder,
    account: &Account,
    out: &mut Vec<u8>,
) -> Result<StreamState, RpcError> {
    let has_more = encoder.write(out, &account.0).map_err(|err| {
        tracing::error!(%err, "an account could not be compressed");
        RpcError::internal()
    })?;
    Ok(if has_more { StreamState::More } else { StreamState::Done })
}

/// Appends an account as JSON, or `null` if it does not exist. Of a long account only the beginning is appended; the
/// encoder writes the rest. -32600 if the account is too long for base58.
pub(crate) fn start_account(
    out: &mut Vec<u8>,
    view: &View,
    pubkey: &Pubkey,
    account: Option<&Account>,
    encoding: Encoding,
) -> Result<Option<AccountEncoder>, RpcError> {
    let Some(account) = account else {
        out.extend_from_slice(b"null");
        return Ok(None);
    };
    check_encoding(account, encoding)?;
    let written = encoding.start(out, pubkey, &account.0, |mint| mint_info(view, mint));
    written.map_err(|err| jsonrpc::not_json(&err))
}

/// Returns the data of an account as bytes, or a slice of it. It is not copied: the account stays in memory until it is
/// sent.
pub(crate) fn raw_account(view: &View, account: Arc<Account>, encoding: Encoding) -> MethodOutput {
    let fields = vec![
        ("lamports", account.0.lamports().to_string()),
        ("owner", account.0.owner().to_string()),
        ("executable", account.0.executable().to_string()),
        ("space", account.0.data().len().to_string()),
    ];
    let data = Bytes::from_owner(AccountData(Arc::clone(&account)));
    let bytes = data.slice_ref(encoding.sliced(account.0.data()));
    MethodOutput::raw(RawValue { slot: view.block().slot, fields, bytes })
}

struct AccountData(Arc<Account>);

impl AsRef<[u8]> for AccountData {
    fn as_ref(&self) -> &[u8] {
        self.0.0.data()
    }
}

/// Returns the properties of a mint that the JSON of its token accounts needs; `None` if `mint` is not a mint.
pub(crate) fn mint_info(view: &View, mint: &Pubkey) -> Option<MintInfo> {
    if solana::is_native_mint(mint) {
        return Some(MintInfo::native());
    }
    MintInfo::from_data(account(view, mint)?.0.data(), view.meta().unix_timestamp)
}

/// Returns the program and the [`MintInfo`] of a mint that a client names; -32602 if it is not a mint.
pub(crate) fn require_mint(view: &View, mint: &Pubkey) -> Result<(Pubkey, MintInfo), RpcError> {
    if solana::is_native_mint(mint) {
        return Ok((spl_token_interface::id(), MintInfo::native()));
    }
    let found = account(view, mint)
        .ok_or_else(|| RpcError::invalid_params("Invalid param: could not find mint"))?;
    let mint_info =
        MintInfo::from_data(found.0.data(), view.meta().unix_timestamp).ok_or_else(|| {
            RpcError::invalid_params("Invalid param: Token mint could not be unpacked")
        })?;
    Ok((*found.0.owner(), mint_info))
}

/// Converts an address to a pubkey. Every address of a Solana ledger is one.
pub(crate) fn pubkey(address: &Address) -> Option<Pubkey> {
    address.to_array().map(Pubkey::new_from_array)
}
