//! The work of the node while clients subscribed and left: transactions a second, and the lag of a client that has only
//! one address.
//!
//! Lag: from the confirmation of a block, by the node's clock, to the client's socket. Up to 1 ms too large.

use std::collections::BTreeMap;

use super::block_reader::Block;
use super::client::{Interval, Period};
use super::measurement::Observed;
use crate::subs::observations::Arrival;

/// The node's work during an interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Activity {
    pub(super) seconds: f64,
    /// Transactions a second, in blocks that were confirmed in the interval.
    pub(super) rate: f64,
    /// Lag of the probe for these blocks, in milliseconds; NaN without such blocks.
    pub(super) lag: Quantiles,
}

/// Median, 99th percentile and maximum; NaN without values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Quantiles {
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) max: f64,
}

/// The activity of the node during one cycle of all clients.
pub(super) struct CycleActivity {
    /// From the first request until all pairs were subscribed.
    pub(super) subscribing: Activity,
    /// From the first request until all had left.
    pub(super) leaving: Activity,
    /// The clients that have completed it.
    pub(super) clients: usize,
}

/// The confirmed blocks of a set-up, by the time of their confirmation in microseconds since 1970.
pub(super) struct ConfirmedBlocks {
    /// Transactions in each block.
    transactions: BTreeMap<(u64, u64), usize>,
    confirmed_us: BTreeMap<u64, u64>,
    arrivals: Vec<Arrival>,
}

impl ConfirmedBlocks {
    /// The blocks of a set-up, without the transactions to the probe.
    pub(super) fn new(observed: &Observed, probe: u32) -> Self {
        let confirmed = observed.probe.confirmed.lock();
        let confirmed_us: BTreeMap<u64, u64> =
            confirmed.iter().map(|(slot, at_ms)| (*slot, at_ms * 1_000)).collect();
        let transactions = observed.blocks.iter().filter_map(|Block { slot, recipients }| {
            let others = recipients.iter().filter(|recipient| **recipient != probe).count();
            Some(((*confirmed_us.get(slot)?, *slot), others))
        });
        Self {
            transactions: transactions.collect(),
            arrivals: observed.probe.arrivals.lock().clone(),
            confirmed_us,
        }
    }

    /// The time of the first block.
    pub(super) fn start_us(&self) -> u64 {
        self.transactions.keys().next().map_or(0, |(at_us, _)| *at_us)
    }

    pub(super) fn activity(&self, during: Interval) -> Activity {
        let blocks = self.transactions.range((during.start_us, 0)..=(during.end_us, u64::MAX));
        let transactions: usize = blocks.map(|(_, transactions)| transactions).sum();
        let seconds = during.seconds();
        let lags = self.arrivals.iter().filter_map(|arrival| {
            let confirmed_us = self.confirmed_us.get(&arrival.slot)?;
            during.contains(*confirmed_us).then(|| to_ms(*confirmed_us, arrival.at_us))
        });
        Activity {
            seconds,
            rate: transactions as f64 / seconds,
            lag: Quantiles::new(lags.collect()),
        }
    }

    /// The lag of all notifications of clients, in milliseconds.
    pub(super) fn lag(&self, periods: &[Period]) -> Quantiles {
        let notifications = periods.iter().flat_map(|period| &period.notifications);
        let lags = notifications.filter_map(|notification| {
            let confirmed_us = self.confirmed_us.get(&notification.slot)?;
            Some(to_ms(*confirmed_us, notification.at_us))
        });
        Quantiles::new(lags.collect())
    }

    /// The cycles of all clients, in their order.
    pub(super) fn cycles(&self, periods: &[Period]) -> Vec<CycleActivity> {
        let mut by_cycle: BTreeMap<usize, Vec<&Period>> = BTreeMap::new();
        periods.iter().for_each(|period| by_cycle.entry(period.cycle).or_default().push(period));
        let joined = |periods: &[&Period], interval: fn(&Period) -> Interval| {
            let all = periods.iter().map(|period| interval(period));
            self.activity(all.reduce(Interval::join).unwrap_or_default())
        };
        let cycle = |periods: Vec<&Period>| CycleActivity {
            subscribing: joined(&periods, |period| period.subscribing),
            leaving: joined(&periods, |period| period.leaving),
            clients: periods.len(),
        };
        by_cycle.into_values().map(cycle).collect()
    }
}

fn to_ms(confirmed_us: u64, at_us: u64) -> f64 {
    (at_us as f64 - confirmed_us as f64) / 1e3
}

impl Quantiles {
    pub(super) fn new(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |part: f64| {
            let index = (values.len() as f64 * part) as usize;
            values.get(index.min(values.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
        };
        Self { p50: at(0.5), p99: at(0.99), max: at(1.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_has_the_blocks_that_were_confirmed_in_it() {
        let arrival = |slot, at_us| Arrival { slot, at_us, accounts: 1 };
        let blocks = ConfirmedBlocks {
            transactions: [((1_000_000, 1), 10), ((1_200_000, 2), 20), ((1_400_000, 3), 40)]
                .into_iter()
                .collect(),
            confirmed_us: [(1, 1_000_000), (2, 1_200_000), (3, 1_400_000)].into_iter().collect(),
            arrivals: vec![arrival(1, 1_003_000), arrival(2, 1_207_000), arrival(3, 1_500_000)],
        };
        let during = Interval { start_us: 1_000_000, end_us: 1_300_000 };
        let lag = Quantiles { p50: 7.0, p99: 7.0, max: 7.0 };
        assert_eq!(blocks.activity(during), Activity { seconds: 0.3, rate: 100.0, lag });
        assert_eq!(blocks.start_us(), 1_000_000);
        let empty = blocks.activity(Interval { start_us: 5, end_us: 6 });
        assert!(empty.lag.p50.is_nan());
    }
}
