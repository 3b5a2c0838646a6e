//! The times at which a subscriber first had each of its sets of UTXOs.
//!
//! Equal sets of two subscribers have equal fingerprints (`stream_state`), so the same change is found in both streams.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::kaspa_rig::statistics::{Samples, to_ms};

/// Arrival times by the fingerprint of the set that a notification led to.
#[derive(Debug, Default)]
pub(crate) struct Arrivals(HashMap<u64, Option<Instant>>);

impl Arrivals {
    /// Records that the subscriber has a set by a notification. Only the first time counts.
    pub(crate) fn add(&mut self, set: u64, at: Instant) {
        self.0.entry(set).or_insert(Some(at));
    }

    /// Records a set that the subscriber has read at the start of a connection. It has no arrival time.
    pub(crate) fn add_start(&mut self, set: u64) {
        self.0.entry(set).or_insert(None);
    }

    /// Returns the time from `start` until the first new set. `None` if there was none.
    pub(crate) fn find_first_after(&self, start: Instant) -> Option<Duration> {
        self.0.values().flatten().filter_map(|at| at.checked_duration_since(start)).min()
    }

    /// Returns the delays of the sets that arrived here and at another subscriber. A negative one arrived here first.
    pub(crate) fn measure_delays(&self, other: &Self) -> Samples {
        let mut delays = Samples::default();
        for (set, at) in &self.0 {
            if let Some(at) = at
                && let Some(Some(reference)) = other.0.get(set)
            {
                delays.add_ms(subtract_ms(*at, *reference));
            }
        }
        delays
    }
}

/// Returns `at` less `reference` in milliseconds.
fn subtract_ms(at: Instant, reference: Instant) -> f64 {
    match at.checked_duration_since(reference) {
        Some(later) => to_ms(later),
        None => -to_ms(reference.saturating_duration_since(at)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kaspa_rig::statistics::Statistics;
    use crate::rig::clock::now;

    #[test]
    fn the_first_set_after_a_start_is_found() {
        let start = now() + Duration::from_secs(1);
        let after = |ms| start + Duration::from_millis(ms);
        let mut arrivals = Arrivals::default();
        assert_eq!(arrivals.find_first_after(start), None);
        arrivals.add(1, start - Duration::from_millis(5));
        arrivals.add_start(2);
        assert_eq!(arrivals.find_first_after(start), None);
        arrivals.add(3, after(7));
        arrivals.add(4, after(9));
        // A set that the subscriber had before is not new.
        arrivals.add(1, after(1));
        arrivals.add(2, after(1));
        assert_eq!(arrivals.find_first_after(start), Some(Duration::from_millis(7)));
    }

    #[test]
    fn delays_are_those_of_sets_that_arrived_at_both() {
        let start = now();
        let after = |ms| start + Duration::from_millis(ms);
        let mut kaspad = Arrivals::default();
        let mut hydrant = Arrivals::default();
        kaspad.add(1, after(10));
        hydrant.add(1, after(12));
        kaspad.add(2, after(20));
        hydrant.add(2, after(19));
        kaspad.add(3, after(30));
        hydrant.add(4, after(40));
        kaspad.add_start(5);
        hydrant.add(5, after(50));
        kaspad.add(6, after(60));
        hydrant.add_start(6);
        let expected = Statistics { number: 2, median_ms: -1.0, p99_ms: 2.0 };
        assert_eq!(hydrant.measure_delays(&kaspad).statistics(), Some(expected));
        assert_eq!(hydrant.measure_delays(&Arrivals::default()).statistics(), None);
    }
}
