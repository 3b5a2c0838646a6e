//! What a call is going to touch, as far as that can be told before it runs: its class, and whether its answer
//! can be kept at all.
//!
//! Of few accounts the bytes are summed, of many they are taken to be like the first.
//! Bounds: [`SAMPLE_MAX`] accounts are looked at: some ten microseconds.

use chain_solana::View;
use ledger::{Address, AddressId, KeyKind};
use solana::{Account, Encoding};
use solana_account_decoder_client_types::UiAccountEncoding;

/// Accounts looked at above which a list is a scan.
pub(super) const SCAN_MIN: usize = 1_000;

/// Bytes of accounts' data from which on a call is heavy whatever it does with them: some ten milliseconds of
/// encoding and compressing.
const HEAVY_BYTES_MIN: u64 = 1024 * 1024;

/// Accounts whose bytes are summed.
const SAMPLE_MAX: usize = 64;

/// What an account of a list takes as JSON beside its data, at least: names, its pubkey and its owner.
const JSON_BYTES_MIN: u64 = 160;

/// A byte as base58, or parsed, beside one as base64: a pubkey of 32 bytes is most of a microsecond.
const EXPENSIVE_BYTE_COST: u64 = 32;

/// What a call touches.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CostEstimate {
    /// Accounts that are looked at, at most.
    pub(super) accounts: usize,
    /// Bytes of their data that are encoded if all are wanted; an estimate if they are many.
    pub(super) bytes: u64,
}

impl CostEstimate {
    /// Some accounts that are at hand.
    pub(super) fn of_accounts<'a>(
        accounts: impl IntoIterator<Item = &'a Account>,
        encoding: Encoding,
    ) -> Self {
        let mut touches = Self::default();
        for account in accounts {
            touches.accounts += 1;
            touches.bytes += encoding.encoded_len(&account.0) as u64;
        }
        touches
    }

    /// The accounts found by keys. The bytes of a scan are not looked at: it is heavy without them.
    pub(super) fn of_keys(view: &View, keys: &[(KeyKind, Address)], encoding: Encoding) -> Self {
        let accounts = view.records_by_keys_len(keys);
        if accounts >= SCAN_MIN {
            return Self { accounts, bytes: 0 };
        }
        let bytes = sample_bytes(view, keys, encoding);
        let bytes = bytes * accounts.max(SAMPLE_MAX) as u64 / SAMPLE_MAX as u64;
        Self { accounts, bytes }
    }

    /// The class of a call that is not answered where it arrives.
    pub(super) fn class(self) -> pool::Class {
        if self.accounts >= SCAN_MIN || self.bytes >= HEAVY_BYTES_MIN {
            pool::Class::Heavy
        } else {
            pool::Class::Medium
        }
    }
}

/// What it costs to encode so many bytes of accounts, in bytes of base64; `None` if that is more than is ever
/// done where the socket is polled.
pub(super) fn inline_bytes(bytes: u64, form: UiAccountEncoding) -> Option<u64> {
    match form {
        // Setting up the compressor alone costs more than small accounts do.
        UiAccountEncoding::Base64Zstd => None,
        UiAccountEncoding::Binary | UiAccountEncoding::Base58 | UiAccountEncoding::JsonParsed => {
            Some(bytes.saturating_mul(EXPENSIVE_BYTE_COST))
        }
        UiAccountEncoding::Base64 => Some(bytes),
    }
}

/// So many bytes a list of all accounts found by keys takes at least, however they are encoded.
pub(super) fn bytes_min(view: &View, keys: &[(KeyKind, Address)], encoding: Encoding) -> u64 {
    let accounts = view.records_by_keys_len(keys);
    let is_data_as_it_is = encoding.form == UiAccountEncoding::Base64;
    let data = if accounts <= SAMPLE_MAX && is_data_as_it_is {
        sample_bytes(view, keys, encoding) / 3 * 4
    } else {
        0
    };
    accounts as u64 * JSON_BYTES_MIN + data
}

fn sample_bytes(view: &View, keys: &[(KeyKind, Address)], encoding: Encoding) -> u64 {
    let mut bytes = 0;
    view.scan(keys, AddressId(0), SAMPLE_MAX, |_, account| {
        bytes += encoding.encoded_len(&account().0) as u64;
    });
    bytes
}
