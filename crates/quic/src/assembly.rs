//! From a stream's chunks to a transaction: without copying if it came in one piece, else joined in a
//! buffer that is used again.
//!
//! Bounds: a transaction's length by its version; the bytes of all unfinished ones, of which a connection
//! may hold as much as is still free: so however greedy some are, there is room for the next.
//! Not here: when a stream has taken too long (`connection`).

use bytes::{Bytes, BytesMut};

use crate::buffers::Ring;
use crate::config::{Config, PACKET_BYTES_MAX};
use crate::counters::Cause;

/// The first byte from which on a transaction is of version 1 or later.
const VERSION_1: u8 = 0x81;

/// What there is of a transaction.
#[derive(Default)]
pub(crate) enum Held {
    #[default]
    Nothing,
    /// One piece, where the datagram left it.
    Whole(Bytes),
    /// Several pieces, or one that has to wait for the next.
    Joined(BytesMut),
}

/// Where transactions of several pieces are put together.
pub(crate) struct Workbench {
    packets: Ring,
    large: Ring,
    large_bytes: usize,
    unfinished_bytes: usize,
    unfinished_bytes_max: usize,
}

impl Held {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Whole(bytes) => bytes.len(),
            Self::Joined(bytes) => bytes.len(),
        }
    }

    /// Adds a piece.
    pub(crate) fn add(&mut self, piece: Bytes, bench: &mut Workbench) -> Result<(), Cause> {
        let first = match &*self {
            Self::Nothing => piece.first(),
            Self::Whole(bytes) => bytes.first(),
            Self::Joined(bytes) => bytes.first(),
        };
        let limit = bench.limit(first.copied().unwrap_or_default());
        if self.len() + piece.len() > limit {
            return Err(Cause::TooLong);
        }
        match self {
            Self::Nothing => *self = Self::Whole(piece),
            Self::Whole(first) => {
                let mut joined = bench.take(first);
                joined.extend_from_slice(&piece);
                *self = Self::Joined(joined);
            }
            Self::Joined(joined) => joined.extend_from_slice(&piece),
        }
        Ok(())
    }
}

impl Workbench {
    pub(crate) fn new(config: &Config) -> Self {
        let large_bytes = config.transaction_bytes_max;
        Self {
            packets: Ring::new(PACKET_BYTES_MAX, config.buffers_max),
            large: Ring::new(large_bytes, config.buffers_max / 4 + 1),
            large_bytes,
            unfinished_bytes: 0,
            unfinished_bytes_max: config.unfinished_bytes_max,
        }
    }

    fn limit(&self, first: u8) -> usize {
        if first >= VERSION_1 { self.large_bytes } else { PACKET_BYTES_MAX }
    }

    /// A buffer of the right size that begins with `first`.
    fn take(&mut self, first: &[u8]) -> BytesMut {
        let is_large = first.first().is_some_and(|byte| *byte >= VERSION_1);
        let mut joined = if is_large { self.large.take() } else { self.packets.take() };
        joined.extend_from_slice(first);
        joined
    }

    /// The finished transaction.
    pub(crate) fn finish(&mut self, held: Held) -> Option<Bytes> {
        match held {
            Held::Nothing => None,
            Held::Whole(bytes) => Some(bytes),
            Held::Joined(mut joined) => {
                let bytes = joined.split().freeze();
                self.give(bytes.first().copied(), joined);
                Some(bytes)
            }
        }
    }

    fn give(&mut self, first: Option<u8>, buffer: BytesMut) {
        match first {
            Some(VERSION_1..) => self.large.give(buffer),
            _ => self.packets.give(buffer),
        }
    }

    /// Makes what there is wait for more: out of the datagram's buffer, which would be pinned. `own` are
    /// the bytes that its connection keeps already.
    pub(crate) fn keep(&mut self, held: Held, own: &mut usize) -> Result<Held, Cause> {
        let joined = match held {
            Held::Nothing => return Ok(Held::Nothing),
            Held::Whole(bytes) => self.take(&bytes),
            Held::Joined(joined) => joined,
        };
        let free = self.unfinished_bytes_max.saturating_sub(self.unfinished_bytes);
        if *own + joined.capacity() > free {
            self.drop_joined(joined);
            return Err(Cause::UnfinishedFull);
        }
        self.unfinished_bytes += joined.capacity();
        *own += joined.capacity();
        Ok(Held::Joined(joined))
    }

    /// Takes back what [`Workbench::keep`] gave out, to go on with it.
    pub(crate) fn go_on(&mut self, held: &Held, own: &mut usize) {
        if let Held::Joined(joined) = held {
            self.unfinished_bytes -= joined.capacity();
            *own -= joined.capacity();
        }
    }

    /// Throws away what is not needed any more.
    pub(crate) fn discard(&mut self, held: Held) {
        if let Held::Joined(joined) = held {
            self.drop_joined(joined);
        }
    }

    fn drop_joined(&mut self, mut joined: BytesMut) {
        let first = joined.first().copied();
        joined.clear();
        self.give(first, joined);
    }

    /// Buffers made so far.
    pub(crate) fn made(&self) -> u64 {
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

    fn bench() -> Workbench {
        Workbench::new(&Config { unfinished_bytes_max: 10_000, ..Config::default() })
    }

    fn join(bench: &mut Workbench, pieces: &[&[u8]]) -> Result<Option<Bytes>, Cause> {
        let mut held = Held::default();
        for piece in pieces {
            held.add(Bytes::copy_from_slice(piece), bench)?;
        }
        Ok(bench.finish(held))
    }

    #[test]
    fn one_piece_is_not_copied() {
        let mut bench = bench();
        let piece = Bytes::from(vec![1; 300]);
        let mut held = Held::default();
        held.add(piece.clone(), &mut bench).expect("short enough");
        let whole = bench.finish(held).expect("something");
        assert_eq!((whole.as_ptr(), whole.len()), (piece.as_ptr(), 300));
    }

    #[test]
    fn the_limit_is_that_of_the_version() {
        let mut bench = bench();
        assert!(join(&mut bench, &[&[1; 1_000], &[1; 232]]).is_ok());
        assert_eq!(join(&mut bench, &[&[1; 1_000], &[1; 233]]), Err(Cause::TooLong));
        assert!(join(&mut bench, &[&[0x81; 3_000], &[1; 1_096]]).is_ok());
        assert_eq!(join(&mut bench, &[&[0x81; 3_000], &[1; 1_097]]), Err(Cause::TooLong));
    }

    #[test]
    fn unfinished_transactions_are_bounded_and_give_their_room_back() {
        let mut bench = bench();
        let begin = || Held::Whole(Bytes::from_static(b"begin"));
        let (mut kept, mut greedy, mut modest) = (Vec::new(), 0, 0);
        while let Ok(held) = bench.keep(begin(), &mut greedy) {
            kept.push(held);
        }
        assert_eq!(kept.len(), 4);
        // However greedy it was, there is room for another.
        let other = bench.keep(begin(), &mut modest).expect("room");
        for held in kept {
            bench.go_on(&held, &mut greedy);
            bench.discard(held);
        }
        bench.go_on(&other, &mut modest);
        assert_eq!((bench.unfinished_bytes, greedy, modest), (0, 0, 0));
        assert!(bench.keep(begin(), &mut greedy).is_ok());
    }

    proptest! {
        #[test]
        fn pieces_come_out_in_order(pieces in prop::collection::vec(prop::collection::vec(0u8..0x80, 1..200), 1..6)) {
            let mut bench = bench();
            let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
            let whole = join(&mut bench, &pieces).expect("short enough").expect("something");
            prop_assert_eq!(whole, pieces.concat());
        }
    }
}
