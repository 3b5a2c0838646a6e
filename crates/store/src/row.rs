//! The values of rows: header, checksum and compression.
//!
//! A value on disk: version (1 byte), form (1: 0 plain, 1 zstd), checksum (4, little-endian), body. A
//! zstd body starts with the plain length (4). The checksum covers table, key, version, form and body, so
//! a value under a wrong key is detected as well.
//! Bounds: values above 4 KiB are compressed; none is larger than 1 GiB plain.

use crate::table::{Key, Row};

/// The version of the bytes that this code writes.
const VERSION: u8 = 1;
/// Length of the header: the offset of a value's body.
const HEADER_BYTES: usize = 6;
/// Above this, compressing costs less than writing. SlotHistory is 131 KB of mostly equal bytes.
const PLAIN_BYTES_MAX: usize = 4096;
/// No value is larger; a larger length is damage.
const VALUE_BYTES_MAX: usize = 1 << 30;
const ZSTD_LEVEL: i32 = 1;

/// Encodes values. Reuses the compressor's tables between values.
pub struct RowCodec(zstd::bulk::Compressor<'static>);

impl RowCodec {
    /// Creates a codec. Fails only if the compressor cannot allocate its memory.
    pub fn new() -> std::io::Result<Self> {
        zstd::bulk::Compressor::new(ZSTD_LEVEL).map(Self)
    }

    /// Returns the row with the encoded `body` as its value.
    pub fn encode_row<K: Key>(&mut self, key: K, body: &[u8]) -> Row<K> {
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

/// The kinds of damage of a value.
#[derive(Debug, thiserror::Error)]
pub enum RowError {
    /// The value is shorter than its header.
    #[error("{0} bytes are too few for a value")]
    Short(usize),
    /// The bytes differ from those that were written, or the value belongs to another key.
    #[error("checksum {found:08x}, expected {expected:08x}")]
    Checksum {
        /// Checksum that is stored in the value.
        expected: u32,
        /// Checksum of the bytes that were read.
        found: u32,
    },
    /// A newer version of Hydrant wrote the value.
    #[error("value of version {0}, this version reads {VERSION}")]
    Version(u8),
    /// The value is neither plain nor compressed.
    #[error("value of unknown form {0}")]
    Form(u8),
    /// The compressed body is damaged.
    #[error("cannot be decompressed")]
    Compression,
}

/// Returns the body of a value, if the value is undamaged.
pub fn decode_row(key: impl Key, value: &[u8]) -> Result<Vec<u8>, RowError> {
    let Some((header, body)) = value.split_at_checked(HEADER_BYTES) else {
        return Err(RowError::Short(value.len()));
    };
    let expected = stored_checksum(value);
    let found = checksum(key, value);
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

/// Returns a number that distinguishes versions of a row. The head has the sum over all accounts. Only a well-mixed
/// number may be summed, hence the last step (splitmix64's).
pub fn fingerprint(value: &[u8]) -> u64 {
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

/// Returns the checksum in a value. 0 if the value is too short.
fn stored_checksum(value: &[u8]) -> u32 {
    let stored = value.get(2..HEADER_BYTES).and_then(|bytes| bytes.try_into().ok());
    stored.map_or(0, u32::from_le_bytes)
}

/// Returns the expected checksum of a value of at least [`HEADER_BYTES`].
fn checksum(key: impl Key, value: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(key.table().name.as_bytes());
    key.with_bytes(|bytes| hasher.update(bytes));
    hasher.update(&value[..2]);
    hasher.update(&value[HEADER_BYTES..]);
    hasher.finalize()
}
