//! Appends JSON to a buffer.

use crate::address::KaspaAddress;
use crate::hash::Hash;

/// Appends the parts of a message.
pub(crate) trait JsonBuffer {
    /// Appends text that is JSON already.
    fn put_json(&mut self, text: &str);
    fn put_number(&mut self, number: u64);
    fn put_flag(&mut self, flag: bool);
    fn put_string(&mut self, text: &str);
    fn put_hash(&mut self, hash: &Hash);
    fn put_address(&mut self, address: &KaspaAddress);
    /// Appends a list of hashes.
    fn put_hashes(&mut self, hashes: &[Hash]);
    /// Appends a list. `put` appends each element.
    fn put_list<T>(&mut self, elements: &[T], put: impl FnMut(&mut Self, &T));
}

impl JsonBuffer for Vec<u8> {
    fn put_json(&mut self, text: &str) {
        self.extend_from_slice(text.as_bytes());
    }

    fn put_number(&mut self, number: u64) {
        self.put_json(itoa::Buffer::new().format(number));
    }

    fn put_flag(&mut self, flag: bool) {
        self.put_json(if flag { "true" } else { "false" });
    }

    fn put_string(&mut self, text: &str) {
        // A string is written to a buffer without an error.
        let _ = serde_json::to_writer(self, text);
    }

    fn put_hash(&mut self, hash: &Hash) {
        self.push(b'"');
        hash.encode_hex_into(self);
        self.push(b'"');
    }

    fn put_address(&mut self, address: &KaspaAddress) {
        self.push(b'"');
        address.encode_into(self);
        self.push(b'"');
    }

    fn put_hashes(&mut self, hashes: &[Hash]) {
        self.put_list(hashes, |out, hash| out.put_hash(hash));
    }

    fn put_list<T>(&mut self, elements: &[T], mut put: impl FnMut(&mut Self, &T)) {
        self.push(b'[');
        for (at, element) in elements.iter().enumerate() {
            if at > 0 {
                self.push(b',');
            }
            put(self, element);
        }
        self.push(b']');
    }
}
