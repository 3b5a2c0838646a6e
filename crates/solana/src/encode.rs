//! An account as JSON: Agave's encodings with their limits and error texts.
//!
//! Cost: base64 about 1 ns a byte, base58 quadratic (hence its limit), zstd about 10 ns a byte.
//! Not here: reading a token account's mint; the caller passes a lookup.

use std::cell::RefCell;

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

/// Maximum characters of a pubkey in base58.
const PUBKEY_CHARS_MAX: usize = 44;

/// Owners whose text a thread remembers.
const OWNER_TEXTS_LEN: usize = 16;

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
        out.extend_from_slice(br#"{"lamports":"#);
        write_number(out, account.lamports());
        out.extend_from_slice(br#","data":[""#);
        write_base64(out, data);
        out.extend_from_slice(br#"","base64"],"owner":""#);
        OWNER_TEXTS.with_borrow_mut(|texts| out.extend_from_slice(texts.text_of(account.owner())));
        out.extend_from_slice(br#"","executable":"#);
        out.extend_from_slice(if account.executable() { b"true" } else { b"false" });
        out.extend_from_slice(br#","rentEpoch":"#);
        write_number(out, account.rent_epoch());
        out.extend_from_slice(br#","space":"#);
        write_number(out, account.data().len() as u64);
        out.push(b'}');
        Ok(())
    }

    /// The part of an account's data that this encoding reads.
    pub fn sliced<'a>(&self, data: &'a [u8]) -> &'a [u8] {
        let Some(UiDataSliceConfig { offset, length }) = self.slice else { return data };
        let rest = data.get(offset..).unwrap_or_default();
        &rest[..length.min(rest.len())]
    }
}

fn write_number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

thread_local! {
    /// The owners of the accounts that this thread encoded last.
    static OWNER_TEXTS: RefCell<OwnerTexts> =
        const { RefCell::new(OwnerTexts([OwnerText::EMPTY; OWNER_TEXTS_LEN])) };
}

/// Owners in base58. Nearly all accounts belong to a few programs, and base58 costs as much as the base64 of a token
/// account.
struct OwnerTexts([OwnerText; OWNER_TEXTS_LEN]);

/// An owner in base58. Empty if `len` is 0.
#[derive(Clone, Copy)]
struct OwnerText {
    owner: [u8; 32],
    text: [u8; PUBKEY_CHARS_MAX],
    len: u8,
}

impl OwnerTexts {
    /// The text of an owner. It replaces the text of another owner in the same entry.
    fn text_of(&mut self, owner: &Pubkey) -> &[u8] {
        let owner = owner.as_array();
        let entry = &mut self.0[usize::from(owner[31]) % OWNER_TEXTS_LEN];
        if entry.len == 0 || entry.owner != *owner {
            entry.owner = *owner;
            entry.len = five8::encode_32(owner, &mut entry.text);
        }
        &entry.text[..usize::from(entry.len)]
    }
}

impl OwnerText {
    const EMPTY: Self = Self { owner: [0; 32], text: [0; PUBKEY_CHARS_MAX], len: 0 };
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
                    let account = account(&vec![len as u8; len]);
                    let key = Pubkey::default();
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
    fn an_owner_has_its_own_text_whatever_owners_were_encoded_before() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut owners = vec![Pubkey::default(), Pubkey::new_from_array([255; 32])];
        // Some of them share an entry.
        owners.extend((0..40).map(|_| {
            let zeros = random.usize(..3) * 10;
            let byte = |at| if at < zeros { 0 } else { random.u8(..) };
            Pubkey::new_from_array(std::array::from_fn(byte))
        }));
        let encoding = Encoding { form: UiAccountEncoding::Base64, slice: None };
        for _ in 0..2_000 {
            let owner = owners[random.usize(..owners.len())];
            let mut written = Vec::new();
            let account = AccountSharedData::new(1, 0, &owner);
            encoding.write(&mut written, &owner, &account, |_| None).expect("it is JSON");
            let written = String::from_utf8(written).expect("text");
            assert!(written.contains(&format!(r#""owner":"{owner}","#)), "{written}");
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
