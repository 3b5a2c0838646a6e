//! From a stream's chunks to a transaction: not copied if it arrived in one piece, otherwise joined in a
//! reused buffer.
//!
//! Bounds: a transaction's length by its version; the bytes of all unfinished transactions. A
//! connection may use as much as is still free, so there is always room for another connection.
//! Not here: timeouts of streams (`connection`).

use bytes::{Bytes, BytesMut};

use crate::buffer_pool::BufferPool;
use crate::config::{Config, PACKET_BYTES_MAX};
use crate::counters::DropReason;

/// A transaction with this first byte, or a higher one, is of version 1 or later.
const VERSION_1: u8 = 0x81;

/// The received part of a transaction.
#[derive(Default)]
pub(crate) enum PartialTransaction {
    #[default]
    Nothing,
    /// One piece, in the datagram's buffer.
    Whole(Bytes),
    /// Several pieces, or one that waits for the next.
    Joined(BytesMut),
}

/// Joins transactions of several pieces.
pub(crate) struct Reassembler {
    packets: BufferPool,
    large: BufferPool,
    large_bytes: usize,
    unfinished_bytes: usize,
    unfinished_bytes_max: usize,
}

impl PartialTransaction {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Whole(bytes) => bytes.len(),
            Self::Joined(bytes) => bytes.len(),
        }
    }

    /// Adds a piece to a partial transaction.
    pub(crate) fn add(
        &mut self,
        piece: Bytes,
        reassembler: &mut Reassembler,
    ) -> Result<(), DropReason> {
        let first = match &*self {
            Self::Nothing => piece.first(),
            Self::Whole(bytes) => bytes.first(),
            Self::Joined(bytes) => bytes.first(),
        };
        let limit = reassembler.limit(first.copied().unwrap_or_default());
        if self.len() + piece.len() > limit {
            return Err(DropReason::TooLong);
        }
        match self {
            Self::Nothing => *self = Self::Whole(piece),
            Self::Whole(first) => {
                let mut joined = reassembler.take_buffer(first);
                joined.extend_from_slice(&piece);
                *self = Self::Joined(joined);
            }
            Self::Joined(joined) => joined.extend_from_slice(&piece),
        }
        Ok(())
    }
}

impl Reassembler {
    pub(crate) fn new(config: &Config) -> Self {
        let large_bytes = config.transaction_bytes_max;
        Self {
            packets: BufferPool::new(PACKET_BYTES_MAX, config.buffers_max),
            large: BufferPool::new(large_bytes, config.buffers_max / 4 + 1),
            large_bytes,
            unfinished_bytes: 0,
            unfinished_bytes_max: config.unfinished_bytes_max,
        }
    }

    fn limit(&self, first: u8) -> usize {
        if first >= VERSION_1 { self.large_bytes } else { PACKET_BYTES_MAX }
    }

    /// Returns a buffer of the right size that starts with `first`.
    fn take_buffer(&mut self, first: &[u8]) -> BytesMut {
        let is_large = first.first().is_some_and(|byte| *byte >= VERSION_1);
        let mut joined =
            if is_large { self.large.take_buffer() } else { self.packets.take_buffer() };
        joined.extend_from_slice(first);
        joined
    }

    /// Returns the finished transaction.
    pub(crate) fn finish(&mut self, partial: PartialTransaction) -> Option<Bytes> {
        match partial {
            PartialTransaction::Nothing => None,
            PartialTransaction::Whole(bytes) => Some(bytes),
            PartialTransaction::Joined(mut joined) => {
                let bytes = joined.split().freeze();
                self.recycle(bytes.first().copied(), joined);
                Some(bytes)
            }
        }
    }

    fn recycle(&mut self, first: Option<u8>, buffer: BytesMut) {
        match first {
            Some(VERSION_1..) => self.large.release(buffer),
            _ => self.packets.release(buffer),
        }
    }

    /// Stores a partial transaction outside the datagram's buffer, which would be pinned. `own` is
    /// the number of bytes that its connection has stored already.
    pub(crate) fn store_partial(
        &mut self,
        partial: PartialTransaction,
        own: &mut usize,
    ) -> Result<PartialTransaction, DropReason> {
        let joined = match partial {
            PartialTransaction::Nothing => return Ok(PartialTransaction::Nothing),
            PartialTransaction::Whole(bytes) => self.take_buffer(&bytes),
            PartialTransaction::Joined(joined) => joined,
        };
        let free = self.unfinished_bytes_max.saturating_sub(self.unfinished_bytes);
        if *own + joined.capacity() > free {
            self.recycle_joined(joined);
            return Err(DropReason::UnfinishedFull);
        }
        self.unfinished_bytes += joined.capacity();
        *own += joined.capacity();
        Ok(PartialTransaction::Joined(joined))
    }

    /// Undoes the accounting of [`Reassembler::store_partial`] before the transaction continues.
    pub(crate) fn resume_partial(&mut self, partial: &PartialTransaction, own: &mut usize) {
        if let PartialTransaction::Joined(joined) = partial {
            self.unfinished_bytes -= joined.capacity();
            *own -= joined.capacity();
        }
    }

    /// Discards a partial transaction.
    pub(crate) fn discard(&mut self, partial: PartialTransaction) {
        if let PartialTransaction::Joined(joined) = partial {
            self.recycle_joined(joined);
        }
    }

    fn recycle_joined(&mut self, mut joined: BytesMut) {
        let first = joined.first().copied();
        joined.clear();
        self.recycle(first, joined);
    }

    /// Returns the bytes of unfinished transactions.
    pub(crate) fn unfinished_bytes(&self) -> u64 {
        self.unfinished_bytes as u64
    }

    /// Returns the number of buffers allocated so far.
    pub(crate) fn buffers_made(&self) -> u64 {
        self.packets.made + self.large.made
    }

    pub(crate) fn shrink(&mut self) {
        self.packets.shrink();
        self.large.shrink();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn reassembler() -> Reassembler {
        Reassembler::new(&Config { unfinished_bytes_max: 10_000, ..Config::default() })
    }

    fn join(reassembler: &mut Reassembler, pieces: &[&[u8]]) -> Result<Option<Bytes>, DropReason> {
        let mut partial = PartialTransaction::default();
        for piece in pieces {
            partial.add(Bytes::copy_from_slice(piece), reassembler)?;
        }
        Ok(reassembler.finish(partial))
    }

    #[test]
    fn one_piece_is_not_copied() {
        let mut reassembler = reassembler();
        let piece = Bytes::from(vec![1; 300]);
        let mut partial = PartialTransaction::default();
        partial.add(piece.clone(), &mut reassembler).expect("short enough");
        let whole = reassembler.finish(partial).expect("something");
        assert_eq!((whole.as_ptr(), whole.len()), (piece.as_ptr(), 300));
    }

    #[test]
    fn the_length_limit_depends_on_the_version() {
        let mut reassembler = reassembler();
        assert!(join(&mut reassembler, &[&[1; 1_000], &[1; 232]]).is_ok());
        assert_eq!(join(&mut reassembler, &[&[1; 1_000], &[1; 233]]), Err(DropReason::TooLong));
        assert!(join(&mut reassembler, &[&[0x81; 3_000], &[1; 1_096]]).is_ok());
        assert_eq!(
            join(&mut reassembler, &[&[0x81; 3_000], &[1; 1_097]]),
            Err(DropReason::TooLong)
        );
    }

    #[test]
    fn unfinished_transactions_are_bounded_and_release_their_memory() {
        let mut reassembler = reassembler();
        let begin = || PartialTransaction::Whole(Bytes::from_static(b"begin"));
        let mut stored = Vec::new();
        let mut greedy = 0;
        let mut modest = 0;
        while let Ok(partial) = reassembler.store_partial(begin(), &mut greedy) {
            stored.push(partial);
        }
        assert_eq!(stored.len(), 4);
        // There is always room for another connection.
        let other = reassembler.store_partial(begin(), &mut modest).expect("room");
        for partial in stored {
            reassembler.resume_partial(&partial, &mut greedy);
            reassembler.discard(partial);
        }
        reassembler.resume_partial(&other, &mut modest);
        assert_eq!((reassembler.unfinished_bytes, greedy, modest), (0, 0, 0));
        assert!(reassembler.store_partial(begin(), &mut greedy).is_ok());
    }

    proptest! {
        #[test]
        fn pieces_come_out_in_order(pieces in prop::collection::vec(prop::collection::vec(0u8..0x80, 1..200), 1..6)) {
            let mut reassembler = reassembler();
            let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
            let whole = join(&mut reassembler, &pieces).expect("short enough").expect("something");
            prop_assert_eq!(whole, pieces.concat());
        }
    }
}
