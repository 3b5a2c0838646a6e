//! Filters over a program's accounts: which accounts a client wants of many.
//!
//! Bounds: 4 filters, 128 bytes each. Bytes are decoded once, not once an account.

use solana_account::{AccountSharedData, ReadableAccount};
use solana_pubkey::Pubkey;
use solana_rpc_client_types::filter::{Memcmp, RpcFilterError, RpcFilterType};
use solana_rpc_client_types::request::MAX_GET_PROGRAM_ACCOUNT_FILTERS;
use spl_generic_token::token::GenericTokenAccount;
use spl_generic_token::{is_known_spl_token_id, token, token_2022};

/// Offsets within a token account, of either program.
mod offset {
    pub(super) const MINT: usize = 0;
    pub(super) const OWNER: usize = 32;
    /// Where Token-2022 says what kind of account it is; past the end of the older program's.
    pub(super) const KIND: usize = 165;
}

/// At `offset::KIND`: a token account.
const KIND_ACCOUNT: u8 = 2;

/// Why filters are refused. The texts are Agave's.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// More than four.
    #[error("Too many filters provided; max {MAX_GET_PROGRAM_ACCOUNT_FILTERS}")]
    TooMany,
    /// Bytes that are too many or are not in their encoding.
    #[error("Invalid param: {0:?}")]
    Bytes(RpcFilterError),
    /// An owner or mint of a token account that is not 32 bytes.
    #[error("Incorrect byte length {bytes} for SPL token {what} filter, expected 32")]
    KeyLength {
        /// Which of the two.
        what: &'static str,
        /// How many bytes were given.
        bytes: usize,
    },
}

/// Filters that have been checked: an account must pass all of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Filters(Vec<RpcFilterType>);

/// By which key of the index a filtered list of a token program's accounts can be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKey {
    /// The wallet that owns them.
    Owner(Pubkey),
    /// The mint whose tokens they hold.
    Mint(Pubkey),
}

impl Filters {
    /// Checks and decodes.
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

    /// Whether there is nothing to pass.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an account passes all.
    pub fn allow(&self, account: &AccountSharedData) -> bool {
        let data = account.data();
        self.0.iter().all(|filter| match filter {
            RpcFilterType::DataSize(size) => data.len() as u64 == *size,
            RpcFilterType::Memcmp(compare) => compare.bytes_match(data),
            RpcFilterType::TokenAccountState => token_2022::Account::valid_account_data(data),
        })
    }

    /// The key by which the accounts of `program` that pass can be found, if the filters name an
    /// owner or a mint and let only token accounts pass; the owner if they name both.
    pub fn token_key(&self, program: &Pubkey) -> Result<Option<TokenKey>, FilterError> {
        if !is_known_spl_token_id(program) {
            return Ok(None);
        }
        let owner = self.key_at(offset::OWNER, "owner")?;
        if owner.is_some() && self.only_token_accounts(program) {
            return Ok(owner.map(TokenKey::Owner));
        }
        let mint = self.key_at(offset::MINT, "mint")?;
        Ok(mint.filter(|_| self.only_token_accounts(program)).map(TokenKey::Mint))
    }

    /// The last of the keys that are compared at `offset`.
    fn key_at(&self, offset: usize, what: &'static str) -> Result<Option<Pubkey>, FilterError> {
        let mut key = None;
        for bytes in self.compared().filter(|(at, _)| *at == offset).map(|(_, bytes)| bytes) {
            let found = Pubkey::try_from(bytes);
            key = Some(found.map_err(|_| FilterError::KeyLength { what, bytes: bytes.len() })?);
        }
        Ok(key)
    }

    /// As Agave judges it: the last `dataSize` is a token account's, or the last comparison at the
    /// kind is with an account's, or `tokenAccountState` is asked.
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
        let given = serde_json::from_str(json).map_err(|err| err.to_string())?;
        Filters::new(given).map_err(|err| err.to_string())
    }

    fn passes(json: &str, data: &[u8]) -> bool {
        let mut account = AccountSharedData::new(1, 0, &Pubkey::default());
        account.set_data_from_slice(data);
        filters(json).expect("they are right").allow(&account)
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
        let key = |json: &str, program| {
            let filters = filters(json).expect("they are right");
            filters.token_key(&program).map_err(|err| err.to_string())
        };
        let one = Pubkey::new_from_array([1; 32]);
        let owner = format!(r#"{{"memcmp":{{"offset":32,"bytes":"{one}"}}}}"#);
        let mint = format!(r#"{{"memcmp":{{"offset":0,"bytes":"{one}"}}}}"#);
        let size = r#"{"dataSize":165}"#;
        let (old, new) = (token::id(), token_2022::id());
        assert_eq!(key(&format!("[{owner},{size}]"), old), Ok(Some(TokenKey::Owner(one))));
        assert_eq!(key(&format!("[{mint},{owner},{size}]"), old), Ok(Some(TokenKey::Owner(one))));
        assert_eq!(key(&format!("[{mint},{size}]"), new), Ok(Some(TokenKey::Mint(one))));
        assert_eq!(key(&format!("[{mint}]"), new), Ok(None));
        assert_eq!(key(&format!("[{mint},{size}]"), one), Ok(None));
        let kind = r#"{"memcmp":{"offset":165,"bytes":[2]}}"#;
        assert_eq!(key(&format!("[{mint},{kind}]"), new), Ok(Some(TokenKey::Mint(one))));
        assert_eq!(key(&format!("[{mint},{kind}]"), old), Ok(None));
        assert_eq!(
            key(r#"[{"memcmp":{"offset":32,"bytes":[1]}}]"#, old),
            Err("Incorrect byte length 1 for SPL token owner filter, expected 32".into())
        );
    }
}
