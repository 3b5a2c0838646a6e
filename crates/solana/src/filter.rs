//! Filters over a program's accounts.
//!
//! Bounds: 4 filters, 128 bytes each. Bytes are decoded once, not for each account.

use ledger::KeyKind;
use solana_account::{AccountSharedData, ReadableAccount};
use solana_pubkey::Pubkey;
use solana_rpc_client_types::filter::{Memcmp, RpcFilterError, RpcFilterType};
use solana_rpc_client_types::request::MAX_GET_PROGRAM_ACCOUNT_FILTERS;
use spl_generic_token::token::GenericTokenAccount;
use spl_generic_token::{is_known_spl_token_id, token, token_2022};

use crate::key_kind;

/// Offsets within a token account, of either program.
mod offset {
    pub(super) const MINT: usize = 0;
    pub(super) const OWNER: usize = 32;
    /// Whether there is a delegate.
    pub(super) const DELEGATE_TAG: usize = 72;
    pub(super) const DELEGATE: usize = 76;
    /// The account type of Token-2022; past the end of an account of the older program.
    pub(super) const KIND: usize = 165;
}

/// At `offset::KIND`: a token account.
const KIND_ACCOUNT: u8 = 2;

/// At `offset::DELEGATE_TAG`: there is one.
const SOME: [u8; 4] = [1, 0, 0, 0];

/// Why filters are refused. The texts are Agave's.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// More than four.
    #[error("Too many filters provided; max {MAX_GET_PROGRAM_ACCOUNT_FILTERS}")]
    TooMany,
    /// Too many bytes, or an invalid encoding.
    #[error("Invalid param: {0:?}")]
    Bytes(RpcFilterError),
    /// An owner or mint of a token account that is not 32 bytes.
    #[error("Incorrect byte length {bytes} for SPL token {what} filter, expected 32")]
    KeyLength {
        /// `owner` or `mint`.
        what: &'static str,
        /// Number of bytes.
        bytes: usize,
    },
}

/// Checked filters: an account must pass all of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Filters(Vec<RpcFilterType>);

impl Filters {
    /// Checks and decodes filters.
    pub fn new(mut filters: Vec<RpcFilterType>) -> Result<Self, FilterError> {
        if filters.len() > MAX_GET_PROGRAM_ACCOUNT_FILTERS {
            return Err(FilterError::TooMany);
        }
        for filter in &mut filters {
            filter.verify().map_err(FilterError::Bytes)?;
            if let RpcFilterType::Memcmp(compare) = filter {
                compare.convert_to_raw_bytes().map_err(FilterError::Bytes)?;
            }
        }
        Ok(Self(filters))
    }

    /// Whether there are no filters.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an account passes all filters.
    pub fn matches(&self, account: &AccountSharedData) -> bool {
        let data = account.data();
        self.0.iter().all(|filter| match filter {
            RpcFilterType::DataSize(size) => data.len() as u64 == *size,
            RpcFilterType::Memcmp(compare) => compare.bytes_match(data),
            RpcFilterType::TokenAccountState => token_2022::Account::valid_account_data(data),
        })
    }

    /// The index keys with which the matching accounts of `program` can be found, each of them
    /// alone: the program; also a token account's owner, mint and delegate, if the filters compare
    /// them and match only token accounts.
    ///
    /// Errors: an owner, or without an owner a mint, that is not 32 bytes. As in Agave, which uses
    /// the owner if both are compared.
    pub fn keys(&self, program: &Pubkey) -> Result<Vec<(KeyKind, Pubkey)>, FilterError> {
        let mut keys = vec![(key_kind::PROGRAM, *program)];
        if !is_known_spl_token_id(program) {
            return Ok(keys);
        }
        let only_token_accounts = self.only_token_accounts(program);
        let owner = self.key_at(offset::OWNER, "owner")?;
        let mint = match self.key_at(offset::MINT, "mint") {
            Err(_) if owner.is_some() && only_token_accounts => None,
            mint => mint?,
        };
        if only_token_accounts {
            keys.extend(owner.map(|owner| (key_kind::OWNER, owner)));
            keys.extend(mint.map(|mint| (key_kind::MINT, mint)));
            keys.extend(self.delegate().map(|delegate| (key_kind::DELEGATE, delegate)));
        }
        Ok(keys)
    }

    /// The delegate, if the filters compare it and require that it is set: a revoked delegate's
    /// bytes stay in the account.
    fn delegate(&self) -> Option<Pubkey> {
        let at = |offset| self.compared().filter(move |(at, _)| *at == offset);
        let tagged = at(offset::DELEGATE_TAG).find_map(|(_, bytes)| {
            bytes.strip_prefix(&SOME).and_then(|delegate| Pubkey::try_from(delegate).ok())
        });
        let is_some = || at(offset::DELEGATE_TAG).any(|(_, bytes)| bytes == SOME);
        let untagged = || at(offset::DELEGATE).find_map(|(_, bytes)| Pubkey::try_from(bytes).ok());
        tagged.or_else(|| untagged().filter(|_| is_some()))
    }

    /// The key of the last comparison at `offset`.
    fn key_at(&self, offset: usize, what: &'static str) -> Result<Option<Pubkey>, FilterError> {
        let mut key = None;
        for bytes in self.compared().filter(|(at, _)| *at == offset).map(|(_, bytes)| bytes) {
            let found = Pubkey::try_from(bytes);
            key = Some(found.map_err(|_| FilterError::KeyLength { what, bytes: bytes.len() })?);
        }
        Ok(key)
    }

    /// Agave's rule: the last `dataSize` is a token account's, or the last comparison at the
    /// account type is with a token account, or there is a `tokenAccountState`.
    fn only_token_accounts(&self, program: &Pubkey) -> bool {
        let size = self.0.iter().rev().find_map(|filter| match filter {
            RpcFilterType::DataSize(size) => Some(*size),
            _ => None,
        });
        let kind = (*program == token_2022::id())
            .then(|| self.compared().filter(|(at, _)| *at == offset::KIND).last())
            .flatten();
        size == Some(token::Account::get_packed_len() as u64)
            || kind.is_some_and(|(_, bytes)| bytes == [KIND_ACCOUNT])
            || self.0.contains(&RpcFilterType::TokenAccountState)
    }

    fn compared(&self) -> impl Iterator<Item = (usize, &[u8])> {
        self.0.iter().filter_map(|filter| match filter {
            RpcFilterType::Memcmp(compare) => compared(compare),
            _ => None,
        })
    }
}

fn compared(compare: &Memcmp) -> Option<(usize, &[u8])> {
    Some((compare.offset(), compare.raw_bytes_as_ref()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filters(json: &str) -> Result<Filters, String> {
        let filters = serde_json::from_str(json).map_err(|err| err.to_string())?;
        Filters::new(filters).map_err(|err| err.to_string())
    }

    fn passes(json: &str, data: &[u8]) -> bool {
        let mut account = AccountSharedData::new(1, 0, &Pubkey::default());
        account.set_data_from_slice(data);
        filters(json).expect("they are right").matches(&account)
    }

    #[test]
    fn limits_have_agaves_words() {
        let err = |json: &str| filters(json).err().unwrap_or_default();
        let five =
            r#"[{"dataSize":1},{"dataSize":1},{"dataSize":1},{"dataSize":1},{"dataSize":1}]"#;
        assert_eq!(err(five), "Too many filters provided; max 4");
        let long = format!(r#"[{{"memcmp":{{"offset":0,"bytes":"{}"}}}}]"#, "1".repeat(129));
        assert_eq!(err(&long), "Invalid param: DataTooLarge");
        assert_eq!(
            err(r#"[{"memcmp":{"offset":0,"bytes":"0"}}]"#),
            "Invalid param: Base58DecodeError(InvalidCharacter { character: '0', index: 0 })"
        );
    }

    #[test]
    fn bytes_are_compared_in_each_encoding_and_never_past_the_end() {
        assert!(passes(r#"[{"memcmp":{"offset":1,"bytes":[2,3]}}]"#, &[1, 2, 3]));
        assert!(passes(
            r#"[{"memcmp":{"offset":1,"bytes":"AgM=","encoding":"base64"}}]"#,
            &[1, 2, 3]
        ));
        assert!(passes(r#"[{"memcmp":{"offset":0,"bytes":"2"}}]"#, &[1, 2, 3]));
        assert!(!passes(r#"[{"memcmp":{"offset":2,"bytes":[3,4]}}]"#, &[1, 2, 3]));
        assert!(!passes(r#"[{"memcmp":{"offset":18446744073709551615,"bytes":[3]}}]"#, &[1, 2, 3]));
        assert!(passes(r#"[{"dataSize":3},{"memcmp":{"offset":3,"bytes":[]}}]"#, &[1, 2, 3]));
    }

    #[test]
    fn the_index_is_used_only_when_nothing_but_token_accounts_can_pass() {
        let keys = |json: &str, program| {
            let filters = filters(json).expect("they are right");
            let keys = filters.keys(&program).map_err(|err| err.to_string())?;
            assert_eq!(keys[0], (key_kind::PROGRAM, program));
            Ok::<_, String>(keys[1..].to_vec())
        };
        let one = Pubkey::new_from_array([1; 32]);
        let at = |offset, bytes: &[u8]| {
            let bytes = serde_json::to_string(bytes).expect("bytes are JSON");
            format!(r#"{{"memcmp":{{"offset":{offset},"bytes":{bytes}}}}}"#)
        };
        let owner = at(32, one.as_array());
        let mint = at(0, one.as_array());
        let size = r#"{"dataSize":165}"#;
        let old = token::id();
        let new = token_2022::id();
        let by_owner = (key_kind::OWNER, one);
        let by_mint = (key_kind::MINT, one);
        assert_eq!(keys(&format!("[{owner},{size}]"), old), Ok(vec![by_owner]));
        let both = format!("[{mint},{owner},{size}]");
        assert_eq!(keys(&both, old), Ok(vec![by_owner, by_mint]));
        assert_eq!(keys(&format!("[{mint},{size}]"), new), Ok(vec![by_mint]));
        assert_eq!(keys(&format!("[{mint}]"), new), Ok(vec![]));
        assert_eq!(keys(&format!("[{mint},{size}]"), one), Ok(vec![]));
        let kind = r#"{"memcmp":{"offset":165,"bytes":[2]}}"#;
        assert_eq!(keys(&format!("[{mint},{kind}]"), new), Ok(vec![by_mint]));
        assert_eq!(keys(&format!("[{mint},{kind}]"), old), Ok(vec![]));
        let refusal =
            |what| Err(format!("Incorrect byte length 1 for SPL token {what} filter, expected 32"));
        assert_eq!(keys(&format!("[{}]", at(32, &[1])), old), refusal("owner"));
        assert_eq!(keys(&format!("[{}]", at(0, &[1])), old), refusal("mint"));
        let short_mint = format!("[{owner},{},{size}]", at(0, &[1]));
        assert_eq!(keys(&short_mint, old), Ok(vec![by_owner]), "the mint is not checked");

        let by_delegate = Ok(vec![(key_kind::DELEGATE, one)]);
        let tag = [1, 0, 0, 0];
        let tagged = at(72, &[&tag, one.as_ref()].concat());
        assert_eq!(keys(&format!("[{tagged},{size}]"), old), by_delegate);
        let tag = at(72, &tag);
        let untagged = at(76, one.as_array());
        assert_eq!(keys(&format!("[{tag},{untagged},{size}]"), old), by_delegate);
        assert_eq!(keys(&format!("[{untagged},{size}]"), old), Ok(vec![]), "it may be revoked");
        let none = at(72, &[0; 4]);
        assert_eq!(keys(&format!("[{none},{untagged},{size}]"), old), Ok(vec![]));
    }
}
