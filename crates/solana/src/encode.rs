//! An account as JSON: each of Agave's encodings, with its limits and its words.
//!
//! Cost: base64 about 1 ns a byte, base58 quadratic (hence its limit), zstd about 10 ns a byte.
//! Not here: where a token account's mint is found; the caller passes a look-up.

use solana_account::{AccountSharedData, ReadableAccount};
use solana_account_decoder::parse_account_data::AccountAdditionalDataV3;
use solana_account_decoder::{MAX_BASE58_BYTES, encode_ui_account};
use solana_account_decoder_client_types::{
    UiAccount, UiAccountData, UiAccountEncoding, UiDataSliceConfig,
};
use solana_pubkey::Pubkey;
use spl_generic_token::is_known_spl_token_id;

use crate::token::{MintFacts, mint_of};

/// Data too long for base58. Fix: ask for another encoding, or for a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "Encoded binary (base 58) data should be less than {MAX_BASE58_BYTES} bytes, please use Base64 encoding."
)]
pub struct Base58TooLong;

/// How a client wants accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Encoding {
    /// The form of the data.
    pub form: UiAccountEncoding,
    /// Which bytes of it; all if `None`. What lies past the end is left out.
    pub slice: Option<UiDataSliceConfig>,
}

impl Encoding {
    /// Whether `account` can be had in this encoding.
    pub fn check(&self, account: &AccountSharedData) -> Result<(), Base58TooLong> {
        let base58 = matches!(self.form, UiAccountEncoding::Binary | UiAccountEncoding::Base58);
        if base58 && self.encoded_len(account) > MAX_BASE58_BYTES {
            return Err(Base58TooLong);
        }
        Ok(())
    }

    /// How many bytes of the account's data this encoding reads.
    pub fn encoded_len(&self, account: &AccountSharedData) -> usize {
        let len = account.data().len();
        self.slice.map_or(len, |slice| slice.length.min(len.saturating_sub(slice.offset)))
    }

    /// The account as JSON.
    ///
    /// `mint` gives the facts of a mint, for token accounts as `jsonParsed`. What cannot be parsed
    /// is base64: a token account unsliced, anything else sliced, as Agave does.
    /// Data too long for base58 becomes the text that Agave's PubSub sends; call [`Self::check`]
    /// first where that is an error.
    pub fn encode(
        &self,
        pubkey: &Pubkey,
        account: &AccountSharedData,
        mint: impl FnOnce(&Pubkey) -> Option<MintFacts>,
    ) -> UiAccount {
        if self.form == UiAccountEncoding::JsonParsed && is_known_spl_token_id(account.owner()) {
            return parse_token(pubkey, account, mint);
        }
        encode_ui_account(pubkey, account, self.form, None, self.slice)
    }
}

/// A token program's account, parsed; `None` if it cannot be. Lists of token accounts leave those out.
pub fn parsed_token(
    pubkey: &Pubkey,
    account: &AccountSharedData,
    mint: impl FnOnce(&Pubkey) -> Option<MintFacts>,
) -> Option<UiAccount> {
    let encoded = parse_token(pubkey, account, mint);
    matches!(encoded.data, UiAccountData::Json(_)).then_some(encoded)
}

fn parse_token(
    pubkey: &Pubkey,
    account: &AccountSharedData,
    mint: impl FnOnce(&Pubkey) -> Option<MintFacts>,
) -> UiAccount {
    let facts = mint_of(account)
        .and_then(|key| mint(&key))
        .map(|facts| AccountAdditionalDataV3 { spl_token_additional_data: Some(facts.0) });
    encode_ui_account(pubkey, account, UiAccountEncoding::JsonParsed, facts, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(data: &[u8]) -> AccountSharedData {
        let mut account = AccountSharedData::new(7, 0, &Pubkey::new_from_array([3; 32]));
        account.set_data_from_slice(data);
        account
    }

    fn data(form: UiAccountEncoding, slice: Option<(usize, usize)>, bytes: &[u8]) -> String {
        let slice = slice.map(|(offset, length)| UiDataSliceConfig { offset, length });
        let encoded =
            Encoding { form, slice }.encode(&Pubkey::default(), &account(bytes), |_| None);
        serde_json::to_string(&encoded.data).unwrap_or_default()
    }

    #[test]
    fn each_encoding_has_its_form() {
        use UiAccountEncoding::{Base58, Base64, Base64Zstd, Binary, JsonParsed};
        let text = b"test data";
        assert_eq!(data(Binary, None, text), r#""2Uw1bpnsXxu3e""#);
        assert_eq!(data(Base58, None, text), r#"["2Uw1bpnsXxu3e","base58"]"#);
        assert_eq!(data(Base64, None, text), r#"["dGVzdCBkYXRh","base64"]"#);
        assert_eq!(data(Base64Zstd, None, text), r#"["KLUv/QBYSQAAdGVzdCBkYXRh","base64+zstd"]"#);
        assert_eq!(data(JsonParsed, None, text), r#"["dGVzdCBkYXRh","base64"]"#);
    }

    #[test]
    fn a_slice_is_cut_to_the_data() {
        use UiAccountEncoding::Base64;
        assert_eq!(data(Base64, Some((5, 100)), b"test data"), r#"["ZGF0YQ==","base64"]"#);
        assert_eq!(data(Base64, Some((100, 5)), b"test data"), r#"["","base64"]"#);
        assert_eq!(data(Base64, Some((usize::MAX, usize::MAX)), b"test"), r#"["","base64"]"#);
    }

    #[test]
    fn base58_is_for_128_bytes_after_slicing() {
        let check = |form, slice: Option<(usize, usize)>, len| {
            let slice = slice.map(|(offset, length)| UiDataSliceConfig { offset, length });
            Encoding { form, slice }.check(&account(&vec![1; len]))
        };
        use UiAccountEncoding::{Base58, Base64, Binary};
        assert_eq!(check(Binary, None, 128), Ok(()));
        assert_eq!(check(Binary, None, 129), Err(Base58TooLong));
        assert_eq!(check(Base58, None, 129), Err(Base58TooLong));
        assert_eq!(check(Base58, Some((1, 200)), 129), Ok(()));
        assert_eq!(check(Base64, None, 129), Ok(()));
    }
}
