//! From a stream's chunks to a transaction: without copying if it came in one piece, else joined in a
//! buffer that is used again.
//!
//! Bounds: a transaction's length by its version; the bytes of all unfinished ones, of which a connection
//! may hold as much as is still free: so however greedy some are, there is room for the next.
//! Not here: when a stream has taken too long (`connection`).

use bytes::{Bytes, BytesMut};

use crate::buffer_pool::BufferPool;
use crate::config::{Config, PACKET_BYTES_MAX};
use crate::counters::DropReason;

/// The first byte from which on a transaction is of version 1 or later.
const VERSION_1: u8 = 0x81;

/// What there is of a transaction.
#[derive(Default)]
pub(crate) enum PartialTransaction {
    #[default]
    Nothing,
    /// One piece, where the datagram left it.
    Whole(Bytes),
    /// Several pieces, or one that has to wait for the next.
    Joined(BytesMut),
}

/// Where transactions of several pieces are put together.
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

    /// Adds a piece.
    pub(crate) fn add(&mut self, piece: Bytes, bench: &mut Reassembler) -> Result<(), DropReason> {
        let first = match &*self {
            Self::Nothing => piece.first(),
            Self::Whole(bytes) => bytes.first(),
            Self::Joined(bytes) => bytes.first(),
        };
        let limit = bench.limit(first.copied().unwrap_or_default());
        if self.len() + piece.len() > limit {
            return Err(DropReason::TooLong);
        }
        match self {
            Self::Nothing => *self = Self::Whole(piece),
            Self::Whole(first) => {
                let mut joined = bench.take_buffer(first);
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

    /// A buffer of the right size that begins with `first`.
    fn take_buffer(&mut self, first: &[u8]) -> BytesMut {
        let is_large = first.first().is_some_and(|byte| *byte >= VERSION_1);
        let mut joined =
            if is_large { self.large.take_buffer() } else { self.packets.take_buffer() };
        joined.extend_from_slice(first);
        joined
    }

    /// The finished transaction.
    pub(crate) fn finish(&mut self, held: PartialTransaction) -> Option<Bytes> {
        match held {
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

    /// Makes what there is wait for more: out of the datagram's buffer, which would be pinned. `own` are
    /// the bytes that its connection keeps already.
    pub(crate) fn store_partial(
        &mut self,
        held: PartialTransaction,
        own: &mut usize,
    ) -> Result<PartialTransaction, DropReason> {
        let joined = match held {
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

    /// Takes back what [`Reassembler::store_partial`] gave out, to go on with it.
    pub(crate) fn resume_partial(&mut self, held: &PartialTransaction, own: &mut usize) {
        if let PartialTransaction::Joined(joined) = held {
            self.unfinished_bytes -= joined.capacity();
            *own -= joined.capacity();
        }
    }

    /// Throws away what is not needed any more.
    pub(crate) fn discard(&mut self, held: PartialTransaction) {
        if let PartialTransaction::Joined(joined) = held {
            self.recycle_joined(joined);
        }
    }

    fn recycle_joined(&mut self, mut joined: BytesMut) {
        let first = joined.first().copied();
        joined.clear();
        self.recycle(first, joined);
    }

    /// Buffers made so far.
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

    fn join(bench: &mut Reassembler, pieces: &[&[u8]]) -> Result<Option<Bytes>, DropReason> {
        let mut held = PartialTransaction::default();
        for piece in pieces {
            held.add(Bytes::copy_from_slice(piece), bench)?;
        }
        Ok(bench.finish(held))
    }

    #[test]
    fn one_piece_is_not_copied() {
        let mut bench = reassembler();
        let piece = Bytes::from(vec![1; 300]);
        let mut held = PartialTransaction::default();
        held.add(piece.clone(), &mut bench).expect("short enough");
        let whole = bench.finish(held).expect("something");
        assert_eq!((whole.as_ptr(), whole.len()), (piece.as_ptr(), 300));
    }

    #[test]
    fn the_limit_is_that_of_the_version() {
        let mut bench = reassembler();
        assert!(join(&mut bench, &[&[1; 1_000], &[1; 232]]).is_ok());
        assert_eq!(join(&mut bench, &[&[1; 1_000], &[1; 233]]), Err(DropReason::TooLong));
        assert!(join(&mut bench, &[&[0x81; 3_000], &[1; 1_096]]).is_ok());
        assert_eq!(join(&mut bench, &[&[0x81; 3_000], &[1; 1_097]]), Err(DropReason::TooLong));
    }

    #[test]
    fn unfinished_transactions_are_bounded_and_release_their_memory() {
        let mut bench = reassembler();
        let begin = || PartialTransaction::Whole(Bytes::from_static(b"begin"));
        let (mut kept, mut greedy, mut modest) = (Vec::new(), 0, 0);
        while let Ok(held) = bench.store_partial(begin(), &mut greedy) {
            kept.push(held);
        }
        assert_eq!(kept.len(), 4);
        // However greedy it was, there is room for another.
        let other = bench.store_partial(begin(), &mut modest).expect("room");
        for held in kept {
            bench.resume_partial(&held, &mut greedy);
            bench.discard(held);
        }
        bench.resume_partial(&other, &mut modest);
        assert_eq!((bench.unfinished_bytes, greedy, modest), (0, 0, 0));
        assert!(bench.store_partial(begin(), &mut greedy).is_ok());
    }

    proptest! {
        #[test]
        fn pieces_come_out_in_order(pieces in prop::collection::vec(prop::collection::vec(0u8..0x80, 1..200), 1..6)) {
            let mut bench = reassembler();
            let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
            let whole = join(&mut bench, &pieces).expect("short enough").expect("something");
            prop_assert_eq!(whole, pieces.concat());
        }
    }
}
