//! Incremental encoding of long accounts: JSON is written in pieces, so that the caller can yield
//! in between.
//!
//! The result is that of [`Encoding::write`]. Bounds: [`STEP_BYTES`] of data a step. With
//! `jsonParsed` only data that becomes base64 is written in pieces, such as a program's code;
//! parsed accounts are written at once.

use std::io::{self, Write};
use std::ops::Range;

use solana_account::{AccountSharedData, ReadableAccount, WritableAccount};
use solana_account_decoder::parse_account_data::PARSABLE_PROGRAM_IDS;
use solana_account_decoder::{UiAccount, UiAccountData, UiAccountEncoding, encode_ui_account};
use solana_pubkey::Pubkey;
use solana_sdk_ids::bpf_loader_upgradeable;

use crate::encode::write_base64;
use crate::{Encoding, MintInfo};

/// Accounts with at least this much data are long.
pub const LONG_BYTES_MIN: usize = 64 * 1024;

/// Bytes of data a step: a multiple of three, so that pieces of base64 can be joined.
const STEP_BYTES: usize = 48 * 1024;

/// The unwritten part of an account.
pub struct AccountEncoder {
    /// Range of its data.
    remaining: Range<usize>,
    zstd: Option<zstd::stream::write::Encoder<'static, Vec<u8>>>,
    /// JSON after the data.
    tail: Vec<u8>,
}

impl Encoding {
    /// Appends an account as JSON. Of a long account only the beginning is appended, and the
    /// returned [`AccountEncoder`] writes the rest.
    pub fn start(
        &self,
        out: &mut Vec<u8>,
        pubkey: &Pubkey,
        account: &AccountSharedData,
        mint: impl FnOnce(&Pubkey) -> Option<MintInfo>,
    ) -> serde_json::Result<Option<AccountEncoder>> {
        let Some(data) = self.long_data(account).filter(|data| data.len() >= LONG_BYTES_MIN) else {
            return self.write(out, pubkey, account, mint).map(|()| None);
        };
        let text = serde_json::to_vec(&self.encode_without_data(pubkey, account, &data))?;
        let begin = text.windows(MARK.len()).position(|window| window == MARK);
        let zstd = (self.form == UiAccountEncoding::Base64Zstd)
            .then(|| zstd::stream::write::Encoder::new(Vec::new(), 0));
        let (Some(begin), Ok(zstd)) = (begin, zstd.transpose()) else {
            return self.write(out, pubkey, account, mint).map(|()| None);
        };
        let (head, tail) = text.split_at(begin + 2);
        out.extend_from_slice(head);
        Ok(Some(AccountEncoder { remaining: data, zstd, tail: tail.to_vec() }))
    }

    /// The range of the data that is written as base64, compressed or not; `None` if it is written
    /// in another form.
    fn long_data(&self, account: &AccountSharedData) -> Option<Range<usize>> {
        let data = account.data();
        let owner = account.owner();
        match self.form {
            UiAccountEncoding::Base64 | UiAccountEncoding::Base64Zstd => {
                Some(self.range(data.len()))
            }
            UiAccountEncoding::JsonParsed if *owner == bpf_loader_upgradeable::id() => {
                Some(code_at(data)?..data.len())
            }
            UiAccountEncoding::JsonParsed if !PARSABLE_PROGRAM_IDS.contains_key(owner) => {
                Some(self.range(data.len()))
            }
            _ => None,
        }
    }

    fn range(&self, len: usize) -> Range<usize> {
        self.slice.map_or(0..len, |slice| {
            let begin = slice.offset.min(len);
            begin..begin + slice.length.min(len - begin)
        })
    }

    /// The JSON of the account without that range of its data.
    fn encode_without_data(
        &self,
        pubkey: &Pubkey,
        account: &AccountSharedData,
        data: &Range<usize>,
    ) -> UiAccount {
        let mut shell = AccountSharedData::new(account.lamports(), 0, account.owner());
        shell.set_executable(account.executable());
        shell.set_rent_epoch(account.rent_epoch());
        let space = account.data().len() as u64;
        let is_code = account.owner() == &bpf_loader_upgradeable::id();
        let mut around = if self.form == UiAccountEncoding::JsonParsed && is_code {
            shell.set_data_from_slice(&account.data()[..data.start]);
            encode_ui_account(pubkey, &shell, self.form, None, None)
        } else {
            encode_ui_account(pubkey, &shell, UiAccountEncoding::Base64, None, None)
        };
        match &mut around.data {
            UiAccountData::Json(parsed) => parsed.space = space,
            UiAccountData::Binary(_, form) if self.form == UiAccountEncoding::Base64Zstd => {
                *form = self.form;
            }
            _ => {}
        }
        around.space = Some(space);
        around
    }
}

/// Empty data, then its encoding. Nothing else in an account's JSON matches this.
const MARK: &[u8] = br#"["","#;

/// Offset of a program's code in an account of the upgradeable loader: after the state's number,
/// the slot if it is deployed, and the authority if it has one.
fn code_at(data: &[u8]) -> Option<usize> {
    let (state, rest) = data.split_first_chunk()?;
    let fixed = match u32::from_le_bytes(*state) {
        1 => 0,
        3 => 8,
        _ => return None,
    };
    match rest.get(fixed)? {
        0 => Some(4 + fixed + 1),
        1 => Some(4 + fixed + 1 + 32),
        _ => None,
    }
}

impl AccountEncoder {
    /// Appends the next piece of the same account. Returns whether there is more.
    pub fn write(&mut self, out: &mut Vec<u8>, account: &AccountSharedData) -> io::Result<bool> {
        let end = self.remaining.end.min(self.remaining.start + STEP_BYTES);
        let data = account.data().get(self.remaining.start..end).unwrap_or_default();
        self.remaining.start = end;
        let is_last = self.remaining.is_empty();
        match self.zstd.take() {
            None => write_base64(out, data),
            Some(mut encoder) => {
                encoder.write_all(data)?;
                if is_last {
                    write_base64(out, &encoder.finish()?);
                } else {
                    let coded = encoder.get_mut();
                    let whole = coded.len() / 3 * 3;
                    write_base64(out, &coded[..whole]);
                    coded.drain(..whole);
                    self.zstd = Some(encoder);
                }
            }
        }
        if is_last {
            out.append(&mut self.tail);
        }
        Ok(!is_last)
    }
}

#[cfg(test)]
mod tests {
    use solana_account_decoder_client_types::UiDataSliceConfig;

    use super::*;

    /// Checks that the pieces equal the JSON of `write`. Returns the number of pieces.
    fn check(owner: Pubkey, data: &[u8], encoding: Encoding) -> usize {
        let mut account = AccountSharedData::new(7, 0, &owner);
        account.set_data_from_slice(data);
        let mut out = b"before".to_vec();
        let key = Pubkey::default();
        let mut rest = encoding.start(&mut out, &key, &account, |_| None).expect("it is JSON");
        let mut pieces = 1;
        while let Some(more) = &mut rest {
            let before = out.len();
            if !more.write(&mut out, &account).expect("it is written") {
                rest = None;
            }
            assert!(out.len() - before < 3 * STEP_BYTES, "a piece");
            pieces += 1;
        }
        let mut whole = b"before".to_vec();
        encoding.write(&mut whole, &key, &account, |_| None).expect("it is JSON");
        assert!(out == whole, "{encoding:?} of {} bytes for {owner}", data.len());
        pieces
    }

    #[test]
    fn pieces_join_to_the_json_of_write() {
        use UiAccountEncoding::{Base64, Base64Zstd, JsonParsed};
        let noise = |n: usize| ((n * n) >> 7 ^ n) as u8;
        let data: Vec<u8> = (0..500_000).map(noise).collect();
        let loader = bpf_loader_upgradeable::id();
        for form in [Base64, Base64Zstd, JsonParsed] {
            let slice = |offset, length| Some(UiDataSliceConfig { offset, length });
            for slice in [None, slice(7, 300_001), slice(400_000, usize::MAX), slice(9, 9)] {
                let encoding = Encoding { form, slice };
                for len in [0, LONG_BYTES_MIN, 3 * STEP_BYTES, 499_999, 500_000] {
                    check(Pubkey::new_from_array([3; 32]), &data[..len], encoding);
                }
                for (state, fixed) in [(0_u32, 0), (1, 0), (2, 32), (3, 8), (9, 0)] {
                    for authority in [&[0][..], &[1; 33], &[5]] {
                        let state = state.to_le_bytes();
                        let head = [&state, &data[..fixed], authority].concat();
                        check(loader, &[&head, &data[..200_000]].concat(), encoding);
                    }
                }
            }
            let encoding = Encoding { form, slice: None };
            assert!(check(Pubkey::new_from_array([3; 32]), &data, encoding) > 10);
        }
        let code = [&3_u32.to_le_bytes()[..], &[0; 8], &[1; 33], &data].concat();
        assert!(check(loader, &code, Encoding { form: JsonParsed, slice: None }) > 10);
    }
}
