//! An account as JSON: Agave's encodings with their limits and error texts.
//!
//! Cost: base64 about 1 ns a byte, base58 quadratic (hence its limit), zstd about 10 ns a byte.
//! Not here: reading a token account's mint; the caller passes a lookup.

use std::io::Write;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use solana_account::{AccountSharedData, ReadableAccount};
use solana_account_decoder::parse_account_data::AccountAdditionalDataV3;
use solana_account_decoder::{MAX_BASE58_BYTES, encode_ui_account};
use solana_account_decoder_client_types::{
    UiAccount, UiAccountData, UiAccountEncoding, UiDataSliceConfig,
};
use solana_pubkey::Pubkey;
use spl_generic_token::is_known_spl_token_id;

use crate::token::{MintInfo, mint_of};

/// Data too long for base58. Fix: use another encoding, or a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "Encoded binary (base 58) data should be less than {MAX_BASE58_BYTES} bytes, please use Base64 encoding."
)]
pub struct Base58TooLong;

/// The encoding of accounts in a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Encoding {
    /// The form of the data.
    pub form: UiAccountEncoding,
    /// The slice of the data; all of it if `None`. A slice that exceeds the data is cut.
    pub slice: Option<UiDataSliceConfig>,
}

impl Encoding {
    /// Checks that `account` can have this encoding.
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
    /// `mint` looks up a mint's info, for token accounts as `jsonParsed`. Data that cannot be
    /// parsed is base64: of a token account without the slice, of other accounts with it, as in
    /// Agave. Data too long for base58 becomes the text that Agave's PubSub sends; call
    /// [`Self::check`] first where that is an error.
    pub fn encode(
        &self,
        pubkey: &Pubkey,
        account: &AccountSharedData,
        mint: impl FnOnce(&Pubkey) -> Option<MintInfo>,
    ) -> UiAccount {
        if self.form == UiAccountEncoding::JsonParsed && is_known_spl_token_id(account.owner()) {
            return parse_token(pubkey, account, mint);
        }
        encode_ui_account(pubkey, account, self.form, None, self.slice)
    }
}

impl Encoding {
    /// Appends the JSON of [`Self::encode`]. In base64, which most clients use, the data is copied
    /// once.
    pub fn write(
        &self,
        out: &mut Vec<u8>,
        pubkey: &Pubkey,
        account: &AccountSharedData,
        mint: impl FnOnce(&Pubkey) -> Option<MintInfo>,
    ) -> serde_json::Result<()> {
        if self.form != UiAccountEncoding::Base64 {
            return serde_json::to_writer(out, &self.encode(pubkey, account, mint));
        }
        let data = self.sliced(account.data());
        // Room for the other fields.
        out.reserve(data.len().div_ceil(3) * 4 + 256);
        // Writing to a Vec never fails.
        let _ = write!(out, r#"{{"lamports":{},"data":[""#, account.lamports());
        write_base64(out, data);
        let _ = write!(
            out,
            r#"","base64"],"owner":"{}","executable":{},"rentEpoch":{},"space":{}}}"#,
            account.owner(),
            account.executable(),
            account.rent_epoch(),
            account.data().len(),
        );
        Ok(())
    }

    /// The part of an account's data that this encoding reads.
    pub fn sliced<'a>(&self, data: &'a [u8]) -> &'a [u8] {
        let Some(UiDataSliceConfig { offset, length }) = self.slice else { return data };
        let rest = data.get(offset..).unwrap_or_default();
        &rest[..length.min(rest.len())]
    }
}

pub(crate) fn write_base64(out: &mut Vec<u8>, data: &[u8]) {
    let start = out.len();
    out.resize(start + data.len().div_ceil(3) * 4, 0);
    let written = BASE64_STANDARD.encode_slice(data, &mut out[start..]);
    debug_assert_eq!(written, Ok(out.len() - start), "room for all of it and no more");
}

/// A token program's account, parsed; `None` if it cannot be parsed. Lists of token accounts omit
/// those.
pub fn parsed_token(
    pubkey: &Pubkey,
    account: &AccountSharedData,
    mint: impl FnOnce(&Pubkey) -> Option<MintInfo>,
) -> Option<UiAccount> {
    let encoded = parse_token(pubkey, account, mint);
    matches!(encoded.data, UiAccountData::Json(_)).then_some(encoded)
}

fn parse_token(
    pubkey: &Pubkey,
    account: &AccountSharedData,
    mint: impl FnOnce(&Pubkey) -> Option<MintInfo>,
) -> UiAccount {
    let mint_info = mint_of(account)
        .and_then(|key| mint(&key))
        .map(|mint_info| AccountAdditionalDataV3 { spl_token_additional_data: Some(mint_info.0) });
    encode_ui_account(pubkey, account, UiAccountEncoding::JsonParsed, mint_info, None)
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
    fn write_gives_the_json_of_encode() {
        use UiAccountEncoding::{Base58, Base64, Base64Zstd, Binary, JsonParsed};
        let slices = [None, Some((0, 3)), Some((5, 100)), Some((100, 5)), Some((9, 0))];
        for form in [Binary, Base58, Base64, Base64Zstd, JsonParsed] {
            for slice in
                slices.map(|it| it.map(|(offset, length)| UiDataSliceConfig { offset, length }))
            {
                for len in [0, 1, 2, 3, 9, 165] {
                    let (account, key) = (account(&vec![len as u8; len]), Pubkey::default());
                    let encoding = Encoding { form, slice };
                    let mut written = b"before".to_vec();
                    encoding.write(&mut written, &key, &account, |_| None).expect("it is JSON");
                    let encoded = serde_json::to_string(&encoding.encode(&key, &account, |_| None));
                    let encoded = format!("before{}", encoded.expect("it is JSON"));
                    assert_eq!(String::from_utf8_lossy(&written), encoded);
                }
            }
        }
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
