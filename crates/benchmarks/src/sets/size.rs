//! The size of the measurement, the five set-ups, and when clients subscribe and leave.

use std::ops::Range;

use crate::subs::client_sets::{self, ClientSets};

/// The size of the measurement.
#[derive(Clone, Copy)]
pub(super) struct Size {
    pub(super) sets: ClientSets,
    /// Accounts of the ledger besides those of its programs. The sets are of the first of them.
    pub(super) ledger_accounts: u32,
    /// Transactions in each set-up.
    pub(super) transactions: u32,
    /// Transactions a second.
    pub(super) rate: f64,
    /// The names of the set-ups, one letter each.
    pub(super) set_ups: &'static str,
    /// A bound for the cycles of a set-up.
    pub(super) cycles_max: u32,
    /// Seconds between two samples of the resident memory.
    pub(super) sample_seconds: f64,
}

pub(super) const FULL: Size = Size {
    sets: client_sets::FULL,
    ledger_accounts: 5_000_000,
    transactions: 1_500_000,
    rate: 1_500.0,
    set_ups: "abcde",
    cycles_max: u32::MAX,
    sample_seconds: 1.0,
};

pub(super) const TOY: Size = Size {
    sets: client_sets::TOY,
    ledger_accounts: 10_000,
    transactions: 300,
    rate: 200.0,
    set_ups: "be",
    cycles_max: 2,
    sample_seconds: 0.1,
};

/// A set-up of the original experiment.
#[derive(Clone, Copy)]
pub(super) struct SetUp {
    pub(super) name: char,
    /// Periods in which all clients are subscribed: 1,500,000 transactions took about 15,000 s there, and a cycle
    /// 7,200, 1,800 and 180 s.
    pub(super) cycles: u32,
    /// Published mean of the resident memory of kaspad: of A, and of the others above A.
    pub(super) kaspad_gb: f64,
}

pub(super) const SET_UPS: [SetUp; 5] = [
    SetUp { name: 'a', cycles: 0, kaspad_gb: 2.7 },
    SetUp { name: 'b', cycles: 1, kaspad_gb: 0.5 },
    SetUp { name: 'c', cycles: 2, kaspad_gb: 1.1 },
    SetUp { name: 'd', cycles: 8, kaspad_gb: 1.3 },
    SetUp { name: 'e', cycles: 83, kaspad_gb: 2.8 },
];

/// The part of the time before the first client subscribes, for comparison.
pub(super) const LEAD: f64 = 0.02;
/// The part of the time at which the clients of a single cycle leave: while transactions come, as in the other set-ups.
const SINGLE_CYCLE_END: f64 = 0.97;
/// The part of a cycle in which clients are subscribed.
const SUBSCRIBED: f64 = 2.0 / 3.0;
/// The part of the time that means are taken over: the first quarter is warm-up, and it ends before the clients of B
/// leave.
pub(super) const COUNTED: Range<f64> = 0.25..0.96;
pub(super) const SECOND_QUARTER: Range<f64> = 0.25..0.5;
/// The last quarter, without the part after [`COUNTED`].
pub(super) const LAST_QUARTER: Range<f64> = 0.75..0.96;

/// A cycle of all clients, in seconds since the first transaction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cycle {
    pub(super) subscribe_at: f64,
    pub(super) leave_at: f64,
}

impl Size {
    /// Returns the planned seconds of a set-up.
    pub(super) fn seconds(&self) -> f64 {
        f64::from(self.transactions) / self.rate
    }

    /// Returns the number of cycles of a set-up.
    pub(super) fn cycle_count(&self, set_up: &SetUp) -> u32 {
        set_up.cycles.min(self.cycles_max)
    }

    /// Returns the cycles of a set-up.
    pub(super) fn cycles(&self, set_up: &SetUp) -> Vec<Cycle> {
        let seconds = self.seconds();
        let lead = LEAD * seconds;
        let count = self.cycle_count(set_up);
        if count == 1 {
            return vec![Cycle { subscribe_at: lead, leave_at: SINGLE_CYCLE_END * seconds }];
        }
        let length = (seconds - lead) / f64::from(count.max(1));
        let cycle = |nth: u32| {
            let subscribe_at = lead + length * f64::from(nth);
            Cycle { subscribe_at, leave_at: subscribe_at + length * SUBSCRIBED }
        };
        (0..count).map(cycle).collect()
    }

    /// Returns the recipients of the transactions: every fourth address of the sets, so that each has been written once
    /// when the warm-up is over.
    pub(super) fn recipients(&self) -> impl Iterator<Item = u32> + Send + use<> {
        let distinct = u64::from(self.sets.addresses / 4);
        // A prime step: each once in as many transfers, and each client is hit soon.
        (0..self.transactions).map(move |n| (u64::from(n) * 7_919 % distinct) as u32 * 4)
    }

    /// An address in no client's set.
    pub(super) fn probe(&self) -> u32 {
        self.ledger_accounts - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_cycles_end_within_the_time() {
        for set_up in &SET_UPS {
            let cycles = FULL.cycles(set_up);
            assert_eq!(cycles.len(), set_up.cycles as usize);
            let is_in_order = cycles.is_sorted_by(|one, next| one.leave_at < next.subscribe_at);
            assert!(is_in_order && cycles.iter().all(|it| it.subscribe_at < it.leave_at));
            assert!(cycles.last().is_none_or(|last| last.leave_at < FULL.seconds()));
        }
    }

    #[test]
    fn every_client_is_hit_before_samples_count() {
        let warm_up = (f64::from(FULL.transactions) * COUNTED.start) as usize;
        let hit: Vec<bool> = FULL.recipients().take(warm_up).fold(
            vec![false; FULL.sets.addresses as usize],
            |mut hit, recipient| {
                hit[recipient as usize] = true;
                hit
            },
        );
        assert_eq!(hit.iter().filter(|is_hit| **is_hit).count(), 250_000);
        let is_hit = |mut range: Range<u32>| range.any(|number| hit[number as usize]);
        assert!(FULL.sets.ranges().all(is_hit));
    }
}
