//! Valid requests that were rejected because of overload. The CPU pool and the rate limiter count their own
//! rejections; all others are counted here.

use cpu_pool::Class;
use metrics::{Counters, MetricFamily};

/// Why a request was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// The transaction queue is full (`--queue-max`).
    TransactionQueue,
    /// Too many clients wait for a transaction, or for a slot.
    Waits,
    /// The deadline of its class passed before the first byte of its response was sent.
    Deadline(Class),
}

const REJECTIONS: usize = 5;

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

    pub(super) fn record(&self, rejection: Rejection) {
        self.0.add(rejection.number(), 1);
    }

    pub(super) fn write(&self, family: &mut MetricFamily<'_>) {
        for rejection in Rejection::all() {
            let (class, cause) = rejection.labels();
            family.put(&[("class", class), ("cause", cause)], self.0.sum(rejection.number()));
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
