//! The number and the length of a list's entries in protobuf, where numbers have variable lengths: each entry is
//! encoded once to be measured, before the first byte of the list is written.

use kaspa::{Method, ReplyTooLong, encode_protobuf_list_head};

/// The number and the length of entries.
#[derive(Default)]
pub(crate) struct EntryTotals {
    count: u64,
    bytes: u64,
    /// The entry that was measured last.
    encoded: Vec<u8>,
}

impl EntryTotals {
    /// Adds the entry that `encode` appends.
    pub(crate) fn add(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        self.encoded.clear();
        encode(&mut self.encoded);
        self.count += 1;
        self.bytes += self.encoded.len() as u64;
    }

    /// Encodes the reply to a method up to its first entry.
    pub(crate) fn encode_head(&self, id: u64, method: Method) -> Result<Vec<u8>, ReplyTooLong> {
        encode_protobuf_list_head(id, method, self.count, self.bytes)
    }
}
