//! Who counts on an id, in one byte.
//!
//! Most ids are counted once or a few times: a byte has room for [`LOW_MAX`]. What is counted more
//! often has [`CARRY`] of its counts moved to a map at a time, so that the map is asked once in that
//! many times, and when the byte has none left.

use std::collections::BTreeMap;

use ledger::AddressId;

/// The most that a byte counts.
const LOW_MAX: u8 = (1 << 6) - 1;
/// What one in the map is worth.
const CARRY: u8 = 32;

/// Where an id stands in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefState {
    /// It has no address.
    Free,
    /// Somebody counts on it.
    Counted {
        /// So many, and what is in [`RefOverflow`].
        low: u8,
        /// Whether it is still in the queue of those that wait, from an earlier release.
        is_queued: bool,
    },
    /// Nobody counts on it, readers may hold it. It is in the queue of those that wait.
    Idle {
        /// Set if it was taken up and freed again since it was queued.
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
            Self::Counted { low, is_queued: is_waiting } => {
                low | if is_waiting { 2 << 6 } else { 1 << 6 }
            }
            Self::Idle { retired_again: again } => {
                again.map_or(0, |RetireEpoch(low)| low + 1) | 3 << 6
            }
        }
    }
}

/// An epoch, by what a byte has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RetireEpoch(u8);

impl RetireEpoch {
    const ROUND: u64 = LOW_MAX as u64;

    pub(crate) fn from_epoch(epoch: u64) -> Self {
        Self((epoch % Self::ROUND) as u8)
    }

    /// The epoch that was meant, which is one of `from..=newest`; the newest, if that cannot be told.
    pub(crate) fn epoch(self, from: u64, newest: u64) -> u64 {
        if newest - from >= Self::ROUND {
            return newest;
        }
        let ahead = u64::from(self.0) + Self::ROUND - from % Self::ROUND;
        from + ahead % Self::ROUND
    }
}

/// The counts that have no room in bytes.
#[derive(Default)]
pub(crate) struct RefOverflow(BTreeMap<u32, u32>);

impl RefOverflow {
    /// The low count of an id after one more.
    pub(crate) fn increment(&mut self, id: AddressId, low: u8) -> u8 {
        if low < LOW_MAX {
            return low + 1;
        }
        let carried = self.0.entry(id.0).or_default();
        // 137 billion counts: beyond that we stop rather than forget somebody.
        assert!(*carried < u32::MAX, "address id {} is counted too often", id.0);
        *carried += 1;
        LOW_MAX + 1 - CARRY
    }

    /// The low count of an id after one less; `None` if that was the last.
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
        let counted = |low, is_waiting| RefState::Counted { low, is_queued: is_waiting };
        let idle = |again| RefState::Idle { retired_again: again };
        let lives = [
            RefState::Free,
            counted(1, false),
            counted(1, true),
            counted(LOW_MAX, true),
            idle(None),
            idle(Some(RetireEpoch::from_epoch(62))),
            idle(Some(RetireEpoch::from_epoch(63))),
        ];
        for life in lives {
            assert_eq!(RefState::from_byte(life.to_byte()), life);
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
    fn counts_of_any_size_end_where_they_began() {
        let (mut carried, id) = (RefOverflow::default(), AddressId(5));
        for most in [1, 2, 62, 63, 64, 65, 95, 96, 1_000] {
            let mut low = 1;
            for _ in 1..most {
                low = carried.increment(id, low);
            }
            for left in (1..most).rev() {
                let less = carried.decrement(id, low);
                assert!(less.is_some(), "{left} of {most} are left");
                low = less.unwrap_or_default();
            }
            assert_eq!(carried.decrement(id, low), None, "of {most}");
            assert!(carried.0.is_empty());
        }
    }

    #[test]
    fn a_count_that_goes_to_and_fro_leaves_the_map_alone() {
        let (mut carried, id) = (RefOverflow::default(), AddressId(5));
        let low = (0..100).fold(1, |low, _| carried.increment(id, low));
        let before = carried.0.clone();
        let less = carried
            .decrement(id, low)
            .and_then(|low| carried.decrement(id, low))
            .unwrap_or_default();
        assert_eq!(carried.increment(id, less), low - 1);
        assert_eq!(carried.0, before);
    }
}
