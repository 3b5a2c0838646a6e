//! Rows: what the ledger on disk consists of, and the seal that every value carries.
//!
//! | table    | key            | value                                              |
//! |----------|----------------|----------------------------------------------------|
//! | meta     | `genesis`      | the caller's bytes, written once                   |
//! | meta     | `head`         | the newest block, and what the other tables hold   |
//! | meta     | `epochs`       | the caller's bytes, written at times with a block  |
//! | blocks   | slot, 8 B BE   | one whole block with its transactions              |
//! | accounts | pubkey, 32 B   | the account as the newest block left it            |
//!
//! A value on disk: version (1 byte), form (1: 0 plain, 1 zstd), checksum (4, little-endian), body. A
//! zstd body begins with the plain length (4). The checksum covers table, key, version, form and body,
//! so a value that ends up under another key is noticed as well.
//! Bounds: values past 4 KiB are compressed; none is larger than 1 GiB plain.

use std::fmt;

use ledger::Slot;
use solana_pubkey::Pubkey;

/// The version of the bytes that this code writes.
const VERSION: u8 = 1;
/// Where a value's body begins.
const HEADER_BYTES: usize = 6;
/// Past this, compressing costs less than writing. SlotHistory is 131 KB of almost nothing.
const PLAIN_BYTES_MAX: usize = 4096;
/// No value of ours is larger; a length that says so is not ours.
const VALUE_BYTES_MAX: usize = 1 << 30;
const ZSTD_LEVEL: i32 = 1;

/// Which table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// A handful of rows about the ledger as a whole.
    Meta,
    /// Blocks by slot.
    Blocks,
    /// Accounts by pubkey.
    Accounts,
}

/// A table's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// What the caller wrote when the ledger was made.
    Genesis,
    /// The newest block.
    Head,
    /// What the caller keeps of epochs.
    Epochs,
    /// One block.
    Block(Slot),
    /// One account.
    Account(Pubkey),
}

/// A row to be written: a sealed value, or `None` to remove it.
#[derive(Debug)]
pub struct Row {
    /// Where.
    pub key: Key,
    /// What.
    pub value: Option<Vec<u8>>,
}

impl Table {
    /// All tables.
    pub const ALL: [Self; 3] = [Self::Meta, Self::Blocks, Self::Accounts];

    /// What the engine calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Meta => "meta",
            Self::Blocks => "blocks",
            Self::Accounts => "accounts",
        }
    }

    /// The row that a key's bytes name, if they are a key of this table.
    pub fn key(self, bytes: &[u8]) -> Option<Key> {
        match self {
            Self::Meta if bytes == b"genesis" => Some(Key::Genesis),
            Self::Meta if bytes == b"head" => Some(Key::Head),
            Self::Meta if bytes == b"epochs" => Some(Key::Epochs),
            Self::Meta => None,
            Self::Blocks => Some(Key::Block(Slot::from_be_bytes(bytes.try_into().ok()?))),
            Self::Accounts => Some(Key::Account(Pubkey::new_from_array(bytes.try_into().ok()?))),
        }
    }
}

impl Key {
    /// The table it is in.
    pub fn table(&self) -> Table {
        match self {
            Self::Genesis | Self::Head | Self::Epochs => Table::Meta,
            Self::Block(_) => Table::Blocks,
            Self::Account(_) => Table::Accounts,
        }
    }

    /// Hands the key's bytes to `take`.
    pub fn with_bytes<T>(&self, take: impl FnOnce(&[u8]) -> T) -> T {
        match self {
            Self::Genesis => take(b"genesis"),
            Self::Head => take(b"head"),
            Self::Epochs => take(b"epochs"),
            Self::Block(slot) => take(&slot.to_be_bytes()),
            Self::Account(pubkey) => take(pubkey.as_array()),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Genesis => f.write_str("genesis"),
            Self::Head => f.write_str("head"),
            Self::Epochs => f.write_str("epochs"),
            Self::Block(slot) => write!(f, "block {slot}"),
            Self::Account(pubkey) => write!(f, "account {pubkey}"),
        }
    }
}

/// Seals values. Keeps the compressor's tables between values.
pub(crate) struct RowCodec(zstd::bulk::Compressor<'static>);

impl RowCodec {
    /// A sealer. Fails only if there is no memory for the compressor.
    pub(crate) fn new() -> std::io::Result<Self> {
        zstd::bulk::Compressor::new(ZSTD_LEVEL).map(Self)
    }

    /// `body` as the row's value on disk.
    pub(crate) fn encode_row(&mut self, key: Key, body: &[u8]) -> Row {
        assert!(body.len() <= VALUE_BYTES_MAX, "{key} has {} bytes", body.len());
        let compressed = (body.len() > PLAIN_BYTES_MAX)
            .then(|| self.0.compress(body).ok())
            .flatten()
            .filter(|compressed| compressed.len() + 4 < body.len());
        let mut value =
            Vec::with_capacity(HEADER_BYTES + 4 + compressed.as_deref().unwrap_or(body).len());
        value.extend([VERSION, u8::from(compressed.is_some()), 0, 0, 0, 0]);
        match compressed {
            Some(compressed) => {
                value.extend((body.len() as u32).to_le_bytes());
                value.extend(compressed);
            }
            None => value.extend(body),
        }
        let checksum = checksum(key, &value);
        value[2..HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
        Row { key, value: Some(value) }
    }
}

/// What is wrong with a value.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RowError {
    #[error("{0} bytes are too few for a value")]
    Short(usize),
    #[error("checksum {found:08x}, expected {expected:08x}")]
    Checksum { expected: u32, found: u32 },
    #[error("value of version {0}, this version reads {VERSION}")]
    Version(u8),
    #[error("value of unknown form {0}")]
    Form(u8),
    #[error("cannot be decompressed")]
    Compression,
}

/// The body of a value, if it is as it was sealed.
pub(crate) fn decode_row(key: Key, value: &[u8]) -> Result<Vec<u8>, RowError> {
    let Some((header, body)) = value.split_at_checked(HEADER_BYTES) else {
        return Err(RowError::Short(value.len()));
    };
    let (expected, found) = (stored_checksum(value), checksum(key, value));
    if expected != found {
        return Err(RowError::Checksum { expected, found });
    }
    if header[0] != VERSION {
        return Err(RowError::Version(header[0]));
    }
    match header[1] {
        0 => Ok(body.to_vec()),
        1 => decompress(body),
        form => Err(RowError::Form(form)),
    }
}

/// A number that tells one version of a row from every other: what the head sums up for the accounts.
/// Only a well-mixed number may be summed, hence the last step (splitmix64's).
pub(crate) fn fingerprint(value: &[u8]) -> u64 {
    let seed = (value.len() as u64) << 32 | u64::from(stored_checksum(value));
    let mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn decompress(body: &[u8]) -> Result<Vec<u8>, RowError> {
    let (plain_bytes, compressed) = body.split_first_chunk().ok_or(RowError::Compression)?;
    let plain_bytes = u32::from_le_bytes(*plain_bytes) as usize;
    if plain_bytes > VALUE_BYTES_MAX {
        return Err(RowError::Compression);
    }
    let plain = zstd::bulk::decompress(compressed, plain_bytes);
    plain.ok().filter(|plain| plain.len() == plain_bytes).ok_or(RowError::Compression)
}

/// The checksum that a value carries; 0 if it is too short to carry one.
fn stored_checksum(value: &[u8]) -> u32 {
    let carried = value.get(2..HEADER_BYTES).and_then(|bytes| bytes.try_into().ok());
    carried.map_or(0, u32::from_le_bytes)
}

/// The checksum that a value of at least [`HEADER_BYTES`] should carry.
fn checksum(key: Key, value: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(key.table().name().as_bytes());
    key.with_bytes(|bytes| hasher.update(bytes));
    hasher.update(&value[..2]);
    hasher.update(&value[HEADER_BYTES..]);
    hasher.finalize()
}
