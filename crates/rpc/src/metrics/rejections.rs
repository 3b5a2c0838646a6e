//! Requests that were refused though nothing was wrong with them: what is counted neither by the CPU pool nor by the
//! clients' shares, which count their own.

use pool::Class;

use super::counters::Counters;
use super::exposition::MetricFamily;

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// As many transactions wait for execution as may (`--queue-max`).
    TransactionQueue,
    /// As many clients wait for a transaction as may.
    Waits,
    /// The deadline of its class was over before any of its answer was sent.
    Deadline(Class),
}

const REJECTIONS: usize = 5;

/// The counts.
pub(super) struct Rejections(Counters);

impl Rejection {
    fn all() -> impl Iterator<Item = Self> {
        [Self::TransactionQueue, Self::Waits].into_iter().chain(Class::ALL.map(Self::Deadline))
    }

    fn number(self) -> usize {
        match self {
            Self::TransactionQueue => 0,
            Self::Waits => 1,
            Self::Deadline(class) => 2 + class.index(),
        }
    }

    /// The labels `class` and `cause`.
    fn labels(self) -> (&'static str, &'static str) {
        match self {
            Self::TransactionQueue => ("any", "transaction_queue"),
            Self::Waits => ("any", "waits"),
            Self::Deadline(class) => (class.name(), "deadline"),
        }
    }
}

impl Rejections {
    pub(super) fn new() -> Self {
        Self(Counters::new(REJECTIONS))
    }

    pub(super) fn record(&self, why: Rejection) {
        self.0.add(why.number(), 1);
    }

    pub(super) fn write(&self, family: &mut MetricFamily<'_>) {
        for why in Rejection::all() {
            let (class, cause) = why.labels();
            family.put(&[("class", class), ("cause", cause)], self.0.sum(why.number()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_has_its_own_counter() {
        let numbers: Vec<_> = Rejection::all().map(Rejection::number).collect();
        assert_eq!(numbers, (0..REJECTIONS).collect::<Vec<_>>());
    }
}
