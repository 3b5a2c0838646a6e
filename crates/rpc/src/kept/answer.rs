//! One answer as it is kept: the value, and what is written around it for who asks.
//!
//! Invariant: what goes out is one member of gzip, one frame of zstd, or plain text.
//! Not here: how it is coded ([`super::coder`]), which are kept ([`super::store`]).

use bytes::Bytes;
use cache::Weight;

use super::around::{gzip_around, raw_blocks};
use crate::bare::Told;
use crate::compress::Coding;
use crate::envelope::Id;
use crate::methods::close_response;

/// Magic, frame header, window: what a zstd frame of unknown length begins with.
pub(super) const ZSTD_HEAD_BYTES: usize = 6;

/// An answer without slot and id.
pub(crate) struct Kept {
    /// Up to the slot, or to the result if it has none.
    pub(super) head: Vec<u8>,
    pub(super) has_slot: bool,
    /// From the slot to the value.
    pub(super) middle: Vec<u8>,
    /// The value.
    pub(super) pieces: Vec<Bytes>,
    /// Its first bytes, as they are.
    pub(super) beginning: Vec<u8>,
    /// Of its bytes, as they are coded.
    pub(super) hash: [u8; 16],
    pub(super) coded: Coded,
}

/// What is needed to put something around it.
pub(super) enum Coded {
    Plain,
    /// The checksum of the plain bytes, and how many they are.
    Gzip(crc32fast::Hasher, u64),
    Zstd([u8; ZSTD_HEAD_BYTES]),
}

impl Weight for Kept {
    fn bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.len() as u64).sum()
    }
}

impl Kept {
    pub(crate) fn coding(&self) -> Coding {
        match self.coded {
            Coded::Plain => Coding::Plain,
            Coded::Gzip(..) => Coding::Gzip,
            Coded::Zstd(_) => Coding::Zstd,
        }
    }

    /// The reply to request `id`, true at `slot`.
    pub(crate) fn reply(&self, slot: u64, id: &Id) -> Vec<Bytes> {
        let (mut head, mut tail) = (Vec::new(), Vec::new());
        self.write_head(slot, &mut head);
        self.write_end(&mut tail);
        close_response(&mut tail, id);
        tail.push(b'\n');
        self.between(head, tail)
    }

    /// The same as one of several in a batch, if it is plain.
    pub(crate) fn reply_in_batch(&self, slot: u64, id: &Id) -> Vec<Bytes> {
        let mut reply = self.reply(slot, id);
        if let Some(tail) = reply.last_mut() {
            tail.truncate(tail.len() - 1); // the newline, which is never alone
        }
        reply
    }

    /// Appends what precedes the value.
    pub(super) fn write_head(&self, slot: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.head);
        if self.has_slot {
            out.extend_from_slice(slot.to_string().as_bytes());
        }
        out.extend_from_slice(&self.middle);
    }

    /// Appends what follows the value within the result.
    pub(super) fn write_end(&self, out: &mut Vec<u8>) {
        if self.has_slot {
            out.push(b'}');
        }
    }

    /// The value alone.
    pub(crate) fn bare(&self) -> Vec<Bytes> {
        self.between(Vec::new(), Vec::new())
    }

    /// What is told of the value, true at `slot`.
    pub(crate) fn told(&self, slot: u64) -> Told {
        Told {
            slot: self.has_slot.then_some(slot),
            beginning: self.beginning.clone(),
            hash: Some(self.hash),
            ..Told::default()
        }
    }

    /// The value between two things that are not coded.
    fn between(&self, head: Vec<u8>, tail: Vec<u8>) -> Vec<Bytes> {
        let (head, tail) = match &self.coded {
            Coded::Plain => (head, tail),
            Coded::Gzip(crc, bytes) => gzip_around((crc, *bytes), &head, &tail),
            Coded::Zstd(begin) => {
                let head = [&begin[..], &raw_blocks(&head, false)].concat();
                (head, raw_blocks(&tail, true))
            }
        };
        let mut reply = Vec::with_capacity(self.pieces.len() + 2);
        reply.push(head.into());
        reply.extend(self.pieces.iter().cloned());
        reply.push(tail.into());
        reply.retain(|part| !part.is_empty());
        reply
    }
}
