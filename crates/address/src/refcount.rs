//! The reference count and state of an id, in one byte.
//!
//! Most ids are referenced once or a few times: a byte counts up to [`LOW_MAX`]. A count that overflows its
//! byte carries [`CARRY`] into a map, so the map is changed only once in that many increments.

use std::collections::BTreeMap;

use ledger::AddressId;

/// The maximum count in a byte.
const LOW_MAX: u8 = (1 << 6) - 1;
/// The count that one unit in the map represents.
const CARRY: u8 = 32;

/// The state of an id: free, referenced, or retired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefState {
    /// The id has no address.
    Free,
    /// The id is referenced.
    Counted {
        /// The count, without the part in [`RefOverflow`].
        low: u8,
        /// Whether it is still in the queue of retired ids, from an earlier release.
        is_queued: bool,
    },
    /// It is not referenced, but readers may have it. It is in the queue of retired ids.
    Idle {
        /// Set if it was referenced and released again since it was queued.
        retired_again: Option<RetireEpoch>,
    },
}

impl RefState {
    pub(crate) fn from_byte(byte: u8) -> Self {
        let low = byte & LOW_MAX;
        match byte >> 6 {
            0 => Self::Free,
            1 => Self::Counted { low, is_queued: false },
            2 => Self::Counted { low, is_queued: true },
            _ => Self::Idle { retired_again: low.checked_sub(1).map(RetireEpoch) },
        }
    }

    pub(crate) fn to_byte(self) -> u8 {
        match self {
            Self::Free => 0,
            Self::Counted { low, is_queued } => low | if is_queued { 2 << 6 } else { 1 << 6 },
            Self::Idle { retired_again } => {
                retired_again.map_or(0, |RetireEpoch(low)| low + 1) | 3 << 6
            }
        }
    }
}

/// An epoch, reduced to its low bits to fit into a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RetireEpoch(u8);

impl RetireEpoch {
    const ROUND: u64 = LOW_MAX as u64;

    pub(crate) fn from_epoch(epoch: u64) -> Self {
        Self((epoch % Self::ROUND) as u8)
    }

    /// Returns the epoch, which is one of `from..=newest`; `newest` if it is ambiguous.
    pub(crate) fn epoch(self, from: u64, newest: u64) -> u64 {
        if newest - from >= Self::ROUND {
            return newest;
        }
        let ahead = u64::from(self.0) + Self::ROUND - from % Self::ROUND;
        from + ahead % Self::ROUND
    }
}

/// The counts that do not fit into bytes.
#[derive(Default)]
pub(crate) struct RefOverflow(BTreeMap<u32, u32>);

impl RefOverflow {
    /// Adds a reference. Returns the new low count of the id.
    pub(crate) fn increment(&mut self, id: AddressId, low: u8) -> u8 {
        if low < LOW_MAX {
            return low + 1;
        }
        let carried = self.0.entry(id.0).or_default();
        // 137 billion references: beyond that we stop rather than lose one.
        assert!(*carried < u32::MAX, "address id {} has too many references", id.0);
        *carried += 1;
        LOW_MAX + 1 - CARRY
    }

    /// Removes a reference. Returns the new low count of the id; `None` if that was the last reference.
    pub(crate) fn decrement(&mut self, id: AddressId, low: u8) -> Option<u8> {
        if low > 1 {
            return Some(low - 1);
        }
        let carried = self.0.get_mut(&id.0)?;
        *carried -= 1;
        if *carried == 0 {
            self.0.remove(&id.0);
        }
        Some(CARRY + low - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ref_state_survives_its_byte() {
        let counted = |low, is_queued| RefState::Counted { low, is_queued };
        let idle = |retired_again| RefState::Idle { retired_again };
        let states = [
            RefState::Free,
            counted(1, false),
            counted(1, true),
            counted(LOW_MAX, true),
            idle(None),
            idle(Some(RetireEpoch::from_epoch(62))),
            idle(Some(RetireEpoch::from_epoch(63))),
        ];
        for state in states {
            assert_eq!(RefState::from_byte(state.to_byte()), state);
        }
    }

    #[test]
    fn an_epoch_comes_back_if_it_was_not_long_ago() {
        for from in [0, 1, 62, 63, 64, 7 << 40] {
            for epoch in from..from + 63 {
                assert_eq!(RetireEpoch::from_epoch(epoch).epoch(from, epoch), epoch);
                assert_eq!(RetireEpoch::from_epoch(epoch).epoch(from, from + 62), epoch);
                assert_eq!(RetireEpoch::from_epoch(epoch).epoch(from, from + 63), from + 63);
            }
        }
    }

    #[test]
    fn a_count_of_any_size_ends_after_as_many_decrements() {
        let mut overflow = RefOverflow::default();
        let id = AddressId(5);
        for most in [1, 2, 62, 63, 64, 65, 95, 96, 1_000] {
            let mut low = 1;
            for _ in 1..most {
                low = overflow.increment(id, low);
            }
            for left in (1..most).rev() {
                let less = overflow.decrement(id, low);
                assert!(less.is_some(), "{left} of {most} are left");
                low = less.unwrap_or_default();
            }
            assert_eq!(overflow.decrement(id, low), None, "of {most}");
            assert!(overflow.0.is_empty());
        }
    }

    #[test]
    fn a_count_that_goes_to_and_fro_leaves_the_map_alone() {
        let mut overflow = RefOverflow::default();
        let id = AddressId(5);
        let low = (0..100).fold(1, |low, _| overflow.increment(id, low));
        let before = overflow.0.clone();
        let less = overflow
            .decrement(id, low)
            .and_then(|low| overflow.decrement(id, low))
            .unwrap_or_default();
        assert_eq!(overflow.increment(id, less), low - 1);
        assert_eq!(overflow.0, before);
    }
}
