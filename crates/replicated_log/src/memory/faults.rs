//! Rates of faults, and the draws that decide which operation has one.
//!
//! Invariant: the same seed and the same order of operations give the same faults.

use fastrand::Rng;

/// The unit of all rates: a rate of 1,000 affects each operation.
const RATE_MAX: u16 = 1_000;

/// Faults of a log in memory. All rates are in thousandths of the operations. The default has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Seed of the random decisions.
    pub seed: u64,
    /// Faults of appends: lost, late, repeated or refused ones.
    pub append: AppendFaults,
    /// Faults of reads. Each reader has its own, as if each read from another server.
    pub read: ReadFaults,
    /// Rate of the calls of `tail` that fail.
    pub failed_tail: u16,
    /// Operations before which up to half of the messages are removed, the oldest first.
    pub truncation: u16,
    /// Operations before which the log loses one of its messages, for all readers and for good.
    pub holes: u16,
    /// Operations before which the generation is deleted and created again without messages.
    pub recreation: u16,
    /// Number of messages that are retained in each generation. 0: all.
    pub messages_max: usize,
}

/// Rates of faults of appends, in thousandths. At most one happens to an append, so their sum is at most 1,000.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AppendFaults {
    /// Appends that are applied although their caller gets [`AppendError::Unknown`](crate::AppendError::Unknown).
    pub unconfirmed: u16,
    /// Appends that are lost. Their caller gets [`AppendError::Unknown`](crate::AppendError::Unknown).
    pub lost: u16,
    /// Appends that are attempted some operations later. Their caller gets
    /// [`AppendError::Unknown`](crate::AppendError::Unknown) at once.
    pub late: u16,
    /// Appends that are applied, confirmed, and delivered a second time some operations later.
    pub repeated: u16,
    /// Appends that are refused as fenced although no writer appended, as a leader of the log does that counted an
    /// append which was lost in an election.
    pub fenced: u16,
    /// Appends that are refused because the log is full.
    pub full: u16,
}

/// Rates of faults of reads, in thousandths of the messages. At most one happens to a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadFaults {
    /// Messages that are delivered with a flipped bit.
    pub flipped_bit: u16,
    /// Messages that are not delivered: the sequences have a gap. Another reader gets them.
    pub missing: u16,
    /// Messages that are delivered twice, with the same sequence.
    pub doubled: u16,
    /// Messages that swap their content with the next one. Their sequences are not swapped.
    pub swapped: u16,
    /// Reads that fail once with [`ReadError::Log`](crate::ReadError::Log). The next call continues.
    pub failed: u16,
}

/// The course of one append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AppendFate {
    /// Applied and confirmed.
    Applied,
    /// Applied without confirmation.
    Unconfirmed,
    /// Neither applied nor refused.
    Lost,
    /// Attempted later, without confirmation.
    Late,
    /// Applied, and delivered again later.
    Repeated,
    /// Refused as fenced without another writer.
    Fenced,
    /// Refused as full.
    Full,
}

/// The course of one message to a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadFate {
    /// Delivered as it was appended.
    Delivered,
    /// Delivered with a flipped bit.
    FlippedBit,
    /// Skipped on the way to the reader.
    Missing,
    /// Delivered twice in a row.
    Doubled,
    /// Delivered with the next message's content.
    Swapped,
    /// The read fails instead.
    Failed,
}

/// Seeded decisions about the faults of operations.
#[derive(Debug)]
pub(super) struct FaultSchedule {
    faults: Faults,
    rng: Rng,
}

impl FaultSchedule {
    pub(super) fn new(faults: Faults) -> Self {
        Self { faults, rng: Rng::with_seed(faults.seed) }
    }

    pub(super) const fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Decides the course of an append.
    pub(super) fn draw_append_fate(&mut self) -> AppendFate {
        let rates = self.faults.append;
        self.draw_fate(
            &[
                (rates.unconfirmed, AppendFate::Unconfirmed),
                (rates.lost, AppendFate::Lost),
                (rates.late, AppendFate::Late),
                (rates.repeated, AppendFate::Repeated),
                (rates.fenced, AppendFate::Fenced),
                (rates.full, AppendFate::Full),
            ],
            AppendFate::Applied,
        )
    }

    /// Decides the course of a message to a reader.
    pub(super) fn draw_read_fate(&mut self) -> ReadFate {
        let rates = self.faults.read;
        self.draw_fate(
            &[
                (rates.flipped_bit, ReadFate::FlippedBit),
                (rates.missing, ReadFate::Missing),
                (rates.doubled, ReadFate::Doubled),
                (rates.swapped, ReadFate::Swapped),
                (rates.failed, ReadFate::Failed),
            ],
            ReadFate::Delivered,
        )
    }

    /// Decides whether a fault of this rate happens.
    pub(super) fn draw_fault(&mut self, rate: u16) -> bool {
        rate > 0 && self.rng.u16(..RATE_MAX) < rate
    }

    /// Draws a number below `limit`, which is at least 1.
    pub(super) fn draw_below(&mut self, limit: usize) -> usize {
        self.rng.usize(..limit)
    }

    fn draw_fate<F: Copy>(&mut self, fates: &[(u16, F)], otherwise: F) -> F {
        if fates.iter().all(|(rate, _)| *rate == 0) {
            return otherwise;
        }
        let mut drawn = self.rng.u16(..RATE_MAX);
        for (rate, fate) in fates {
            match drawn.checked_sub(*rate) {
                Some(rest) => drawn = rest,
                None => return *fate,
            }
        }
        otherwise
    }
}
