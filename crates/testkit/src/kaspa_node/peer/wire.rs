//! Messages between nodes as protocol buffers, written field by field: independent of the product's types.

use bytes::Bytes;
use kaspa::{Hash, Outpoint, UtxoEntry};

/// The numbers of messages.
pub(crate) mod number {
    pub(crate) const ADDRESSES: u64 = 1;
    pub(crate) const REQUEST_ADDRESSES: u64 = 6;
    pub(crate) const INV_RELAY_BLOCK: u64 = 14;
    pub(crate) const PING: u64 = 16;
    pub(crate) const PONG: u64 = 17;
    pub(crate) const VERACK: u64 = 19;
    pub(crate) const VERSION: u64 = 20;
    pub(crate) const REJECT: u64 = 22;
    pub(crate) const UTXO_CHUNK: u64 = 25;
    pub(crate) const UNEXPECTED_PRUNING_POINT: u64 = 27;
    pub(crate) const REQUEST_NEXT_UTXO_CHUNK: u64 = 33;
    pub(crate) const UTXO_CHUNKS_END: u64 = 34;
    pub(crate) const REQUEST_UTXO_SET: u64 = 44;
    pub(crate) const READY: u64 = 50;
}

/// A message that is being written.
#[derive(Default)]
pub(crate) struct Fields(Vec<u8>);

impl Fields {
    /// Adds a number. A zero is left out.
    pub(crate) fn number(mut self, field: u64, value: u64) -> Self {
        if value != 0 {
            self.put_varint(field << 3);
            self.put_varint(value);
        }
        self
    }

    /// Adds bytes, a text or a message.
    pub(crate) fn bytes(mut self, field: u64, bytes: &[u8]) -> Self {
        self.put_varint(field << 3 | 2);
        self.put_varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    /// Adds a hash, which is a message of its own.
    pub(crate) fn hash(self, field: u64, hash: &Hash) -> Self {
        let inner = Self::default().bytes(1, &hash.0);
        self.bytes(field, &inner.0)
    }

    /// Adds a message.
    pub(crate) fn message(self, field: u64, message: Self) -> Self {
        self.bytes(field, &message.0)
    }

    /// Removes the last byte.
    pub(crate) fn cut(mut self) -> Self {
        self.0.pop();
        self
    }

    /// Returns the message.
    pub(crate) fn finish(self) -> Bytes {
        self.0.into()
    }

    fn put_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

/// Returns a message between nodes.
pub(crate) fn peer_message(number: u64, content: Fields) -> Bytes {
    Fields::default().message(number, content).finish()
}

/// Returns the content of a chunk.
pub(crate) fn chunk<'a>(utxos: impl IntoIterator<Item = &'a (Outpoint, UtxoEntry)>) -> Fields {
    let mut chunk = Fields::default();
    for (outpoint, entry) in utxos {
        let outpoint = Fields::default()
            .hash(1, &outpoint.transaction_id)
            .number(2, u64::from(outpoint.index));
        let script = &entry.script_public_key;
        let script =
            Fields::default().bytes(1, &script.script).number(2, u64::from(script.version));
        let mut fields = Fields::default()
            .number(1, entry.amount)
            .message(2, script)
            .number(3, entry.block_daa_score)
            .number(4, u64::from(entry.is_coinbase));
        if let Some(covenant_id) = &entry.covenant_id {
            fields = fields.hash(5, covenant_id);
        }
        chunk = chunk.message(1, Fields::default().message(1, outpoint).message(2, fields));
    }
    chunk
}

/// A field that was read.
pub(crate) struct ReadField<'a> {
    pub(crate) number: u64,
    /// The bytes of a message or of a text. Empty for a number.
    pub(crate) bytes: &'a [u8],
    /// The value of a number.
    pub(crate) value: u64,
}

/// Reads the fields of a message.
pub(crate) fn read_fields(mut bytes: &[u8]) -> Option<Vec<ReadField<'_>>> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = read_varint(&mut bytes)?;
        let number = key >> 3;
        let value = read_varint(&mut bytes)?;
        let field = match key & 7 {
            0 => ReadField { number, bytes: &[], value },
            2 => {
                let (field, rest) = bytes.split_at_checked(usize::try_from(value).ok()?)?;
                bytes = rest;
                ReadField { number, bytes: field, value: 0 }
            }
            _ => return None,
        };
        fields.push(field);
    }
    Some(fields)
}

fn read_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            return Some(value);
        }
    }
    None
}
