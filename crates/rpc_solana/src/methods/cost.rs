//! Cost estimate of a call before it runs: its class, and whether its result is small enough for the cache.
//!
//! The bytes of few accounts are summed. Many accounts are assumed to be as large as the first ones.
//! Bounds: at most [`SAMPLE_MAX`] accounts are read: some ten microseconds.

use chain_solana::View;
use ledger::{Address, AddressId, KeyKind};
use solana::{Account, Encoding};
use solana_account_decoder_client_types::UiAccountEncoding;

/// A list of at least this many accounts is a scan.
pub(super) const SCAN_MIN: usize = 1_000;

/// A call that encodes at least this many bytes of account data is heavy: some ten milliseconds of encoding and
/// compression.
const HEAVY_BYTES_MIN: u64 = 1024 * 1024;

/// Maximum number of accounts whose bytes are summed.
const SAMPLE_MAX: usize = 64;

/// Minimum length of the JSON of a list's account, without its data: field names, pubkey and owner.
const JSON_BYTES_MIN: u64 = 160;

/// Cost of a byte in base58 or parsed, relative to one in base64: a 32-byte pubkey takes almost a microsecond.
const EXPENSIVE_BYTE_COST: u64 = 32;

/// The cost of a call: the accounts that it reads and the bytes that it encodes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CostEstimate {
    /// Maximum number of accounts that are read.
    pub(super) accounts: usize,
    /// Bytes of their data that are encoded if all match. An estimate if there are many accounts.
    pub(super) bytes: u64,
}

impl CostEstimate {
    /// Computes the cost of accounts that are already loaded.
    pub(super) fn from_accounts<'a>(
        accounts: impl IntoIterator<Item = &'a Account>,
        encoding: Encoding,
    ) -> Self {
        let mut cost = Self::default();
        for account in accounts {
            cost.accounts += 1;
            cost.bytes += encoding.encoded_len(&account.0) as u64;
        }
        cost
    }

    /// Estimates the cost of the accounts found by keys. The bytes of a scan are not counted: it is heavy without them.
    pub(super) fn from_keys(view: &View, keys: &[(KeyKind, Address)], encoding: Encoding) -> Self {
        let accounts = view.records_by_keys_len(keys);
        if accounts >= SCAN_MIN {
            return Self { accounts, bytes: 0 };
        }
        let bytes = sample_bytes(view, keys, encoding);
        let bytes = bytes * accounts.max(SAMPLE_MAX) as u64 / SAMPLE_MAX as u64;
        Self { accounts, bytes }
    }

    /// Returns the class of a call that does not run inline.
    pub(super) fn class(self) -> cpu_pool::Class {
        if self.accounts >= SCAN_MIN || self.bytes >= HEAVY_BYTES_MIN {
            cpu_pool::Class::Heavy
        } else {
            cpu_pool::Class::Medium
        }
    }
}

/// Returns the cost of encoding `bytes` of account data, in bytes of base64. `None` if it is never done on the thread
/// that polls the socket.
pub(super) fn inline_bytes(bytes: u64, form: UiAccountEncoding) -> Option<u64> {
    match form {
        // The setup of the compressor alone costs more than a small account.
        UiAccountEncoding::Base64Zstd => None,
        UiAccountEncoding::Binary | UiAccountEncoding::Base58 | UiAccountEncoding::JsonParsed => {
            Some(bytes.saturating_mul(EXPENSIVE_BYTE_COST))
        }
        UiAccountEncoding::Base64 => Some(bytes),
    }
}

/// Returns the minimum length in bytes of a list of all accounts found by keys, in any encoding.
pub(super) fn bytes_min(view: &View, keys: &[(KeyKind, Address)], encoding: Encoding) -> u64 {
    let accounts = view.records_by_keys_len(keys);
    let is_base64 = encoding.form == UiAccountEncoding::Base64;
    let data = if accounts <= SAMPLE_MAX && is_base64 {
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
