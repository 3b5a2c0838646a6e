//! Slot, time and epochs of another cluster, at which a new ledger starts.

use bincode::Options;
use ledger::Slot;
use solana_clock::Clock;
use solana_epoch_schedule::EpochSchedule;
use solana_stake_interface::stake_history::{MAX_ENTRIES, StakeHistory};

/// The end of the year 9999, in seconds since 1970: programs and clients represent every time before it.
const UNIX_TIMESTAMP_MAX: i64 = 253_402_300_799;

/// The start of a new ledger: its first block has no parent, but the slot and the time of another cluster's block.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StartPoint {
    /// The slot of the first block.
    pub slot: Slot,
    /// The time of the first block in seconds since 1970.
    pub unix_timestamp: i64,
    /// The start of its epoch in seconds since 1970.
    pub epoch_start_timestamp: i64,
    /// The epoch schedule of the ledger.
    pub epoch_schedule: EpochSchedule,
    /// The stakes of the epochs before it.
    pub stake_history: StakeHistory,
}

/// The data of the sysvars that a [`StartPoint`] is read from.
#[derive(Clone, Copy, Debug)]
pub struct StartSysvars<'a> {
    /// The data of the Clock sysvar.
    pub clock: &'a [u8],
    /// The data of the EpochSchedule sysvar.
    pub epoch_schedule: &'a [u8],
    /// The data of the StakeHistory sysvar.
    pub stake_history: &'a [u8],
}

/// Why a ledger cannot start at these sysvars.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartPointError {
    /// The data of a sysvar does not have its layout.
    #[error("its {0} sysvar is malformed")]
    Malformed(&'static str),
    /// Too few slots remain above the slot.
    #[error("its slot {slot} is more than {max}")]
    Slot {
        /// The slot of the Clock sysvar.
        slot: Slot,
        /// The last slot that leaves enough slots.
        max: Slot,
    },
    /// Programs and clients could not represent the time.
    #[error("its time {0} is not from 0 to the year 9999")]
    Time(i64),
    /// The epochs contradict each other. The value is the number of the epoch.
    #[error("its slot, its epoch {0} and its epoch schedule contradict each other")]
    Epochs(u64),
}

impl StartPoint {
    /// The last slot at which a ledger may start: 2^32 slots remain, which is 54 years of 400 ms slots.
    pub const SLOT_MAX: Slot = u64::MAX - (1 << 32);

    /// Reads the sysvars of another cluster, which may be wrong.
    pub fn from_sysvars(sysvars: &StartSysvars<'_>) -> Result<Self, StartPointError> {
        let StartSysvars { clock, epoch_schedule, stake_history } = *sysvars;
        let Clock { slot, epoch, unix_timestamp, epoch_start_timestamp, .. } =
            read(clock).ok_or(StartPointError::Malformed("Clock"))?;
        let schedule: EpochSchedule =
            read(epoch_schedule).ok_or(StartPointError::Malformed("EpochSchedule"))?;
        let history: StakeHistory =
            read(stake_history).ok_or(StartPointError::Malformed("StakeHistory"))?;
        if slot > Self::SLOT_MAX {
            return Err(StartPointError::Slot { slot, max: Self::SLOT_MAX });
        }
        if !(0..=UNIX_TIMESTAMP_MAX).contains(&unix_timestamp) {
            return Err(StartPointError::Time(unix_timestamp));
        }
        if !is_consistent(&schedule) || schedule.get_epoch(slot) != epoch {
            return Err(StartPointError::Epochs(epoch));
        }
        Ok(Self {
            slot,
            unix_timestamp,
            epoch_start_timestamp: epoch_start_timestamp.min(unix_timestamp),
            epoch_schedule: schedule,
            stake_history: newest_without_gap(&history, epoch),
        })
    }

    /// Returns the start with epochs of another length, for which no stakes are known.
    #[must_use]
    pub fn with_slots_per_epoch(self, slots: u64) -> Self {
        let epoch_schedule = EpochSchedule::custom(slots, slots, false);
        if epoch_schedule == self.epoch_schedule {
            return self;
        }
        Self { epoch_schedule, stake_history: StakeHistory::default(), ..self }
    }
}

/// Returns the newest entries without a gap, up to the epoch before `epoch`. The stake program panics at a gap, and a
/// cluster that was warped may have one.
fn newest_without_gap(history: &StakeHistory, epoch: u64) -> StakeHistory {
    let expected = (0..epoch).rev().take(MAX_ENTRIES);
    let whole = history.iter().zip(expected).take_while(|((found, _), expected)| found == expected);
    let newest_first: Vec<_> = whole.map(|(entry, _)| entry.clone()).collect();
    let mut without_gap = StakeHistory::default();
    newest_first.into_iter().rev().for_each(|(epoch, entry)| without_gap.add(epoch, entry));
    without_gap
}

/// Decodes a sysvar; bytes after it are ignored. A length in it allocates no more than the data has.
fn read<T: serde::de::DeserializeOwned>(data: &[u8]) -> Option<T> {
    let options = bincode::DefaultOptions::new().with_fixint_encoding().allow_trailing_bytes();
    options.with_limit(data.len() as u64).deserialize(data).ok()
}

/// Whether a schedule is one that a cluster may have: its parts follow from its length and its warm-up.
fn is_consistent(schedule: &EpochSchedule) -> bool {
    let EpochSchedule { slots_per_epoch, leader_schedule_slot_offset, warmup, .. } = *schedule;
    (solana_epoch_schedule::MINIMUM_SLOTS_PER_EPOCH..=1 << 32).contains(&slots_per_epoch)
        && leader_schedule_slot_offset == slots_per_epoch
        && *schedule == EpochSchedule::custom(slots_per_epoch, leader_schedule_slot_offset, warmup)
}

#[cfg(test)]
mod tests {
    use solana_stake_interface::stake_history::StakeHistoryEntry;

    use super::*;

    fn data(value: &impl serde::Serialize) -> Vec<u8> {
        bincode::serialize(value).expect("it has a form")
    }

    fn history(epochs: impl IntoIterator<Item = u64>) -> StakeHistory {
        let mut history = StakeHistory::default();
        epochs.into_iter().for_each(|epoch| history.add(epoch, StakeHistoryEntry::default()));
        history
    }

    fn clock(slot: Slot, epoch: u64, unix_timestamp: i64) -> Clock {
        Clock { slot, epoch, unix_timestamp, ..Clock::default() }
    }

    fn read_all(
        clock: &Clock,
        schedule: &EpochSchedule,
        stakes: &StakeHistory,
    ) -> Result<StartPoint, StartPointError> {
        let clock = data(clock);
        let schedule = data(schedule);
        let mut stakes = data(stakes);
        stakes.resize(16_392, 0);
        let sysvars =
            StartSysvars { clock: &clock, epoch_schedule: &schedule, stake_history: &stakes };
        StartPoint::from_sysvars(&sysvars)
    }

    #[test]
    fn a_cluster_is_read_and_one_that_contradicts_itself_is_not() {
        let schedule = EpochSchedule::custom(32, 32, false);
        let whole = history(0..204);
        let start =
            read_all(&clock(6_540, 204, 1_700_000_000), &schedule, &whole).expect("it is valid");
        assert_eq!((start.slot, start.stake_history.len()), (6_540, 204));
        let other = start.clone().with_slots_per_epoch(64);
        assert_eq!(
            (other.epoch_schedule.get_epoch(other.slot), other.stake_history.len()),
            (102, 0)
        );
        assert_eq!(start.clone().with_slots_per_epoch(32), start);
        // Devnet's epochs began with short ones.
        let warmup = EpochSchedule::custom(432_000, 432_000, true);
        let slot = warmup.get_first_slot_in_epoch(900);
        assert!(read_all(&clock(slot, 900, 5), &warmup, &history(400..900)).is_ok());

        let refused = |clock: &Clock, schedule: &EpochSchedule, history: &StakeHistory| {
            read_all(clock, schedule, history).expect_err("it is refused").to_string()
        };
        for (wrong, why) in [
            (clock(6_540, 203, 5), "its slot, its epoch 203"),
            (clock(u64::MAX, 204, 5), "its slot 18446744073709551615 is more than"),
            (clock(6_540, 204, -1), "its time -1"),
            (clock(6_540, 204, i64::MAX), "year 9999"),
        ] {
            let err = refused(&wrong, &schedule, &whole);
            assert!(err.contains(why), "{err}");
        }
        let with_gap = history((0..204).filter(|epoch| *epoch != 9));
        for (stakes, len) in [(with_gap, 194), (history(0..203), 0), (history([]), 0)] {
            let start = read_all(&clock(6_540, 204, 5), &schedule, &stakes).expect("it is valid");
            assert_eq!(start.stake_history.len(), len);
        }
        for slots_per_epoch in [0, 1, u64::MAX] {
            let wrong = EpochSchedule { slots_per_epoch, ..schedule.clone() };
            assert!(refused(&clock(6_540, 204, 5), &wrong, &whole).contains("contradict"));
        }
        let malformed = [u8::MAX; 40];
        let empty = StartSysvars { clock: &[], epoch_schedule: &[], stake_history: &[] };
        for sysvars in [empty, StartSysvars { clock: &malformed, ..empty }] {
            assert!(StartPoint::from_sysvars(&sysvars).is_err());
        }
        let clock = data(&Clock::default());
        let long = StartSysvars {
            clock: &clock,
            epoch_schedule: &data(&schedule),
            stake_history: &malformed,
        };
        assert_eq!(
            StartPoint::from_sysvars(&long),
            Err(StartPointError::Malformed("StakeHistory"))
        );
    }
}
