//! Statistics of measured times: number, median and 99th percentile.

use std::time::Duration;

use crate::percentiles::{find_percentile, sort_values};

/// Times of one kind in milliseconds. A difference between two times may be negative.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples(Vec<f64>);

/// The statistics of at least one sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Statistics {
    pub(crate) number: usize,
    pub(crate) median_ms: f64,
    /// The longest time if there are fewer than a hundred.
    pub(crate) p99_ms: f64,
}

impl Samples {
    /// Adds a time.
    pub(crate) fn add(&mut self, time: Duration) {
        self.add_ms(to_ms(time));
    }

    /// Adds a time, or a difference between two times, in milliseconds.
    pub(crate) fn add_ms(&mut self, ms: f64) {
        self.0.push(ms);
    }

    /// Returns the statistics. `None` without samples.
    pub(crate) fn statistics(&self) -> Option<Statistics> {
        let sorted = sort_values(self.0.iter().copied());
        Some(Statistics {
            number: sorted.len(),
            median_ms: find_percentile(&sorted, 50)?,
            p99_ms: find_percentile(&sorted, 99)?,
        })
    }
}

/// Returns a time in milliseconds.
pub(crate) fn to_ms(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1_000_000.0
}

/// Formats the ratio of a value of Hydrant to that of kaspad. A value of zero has no ratio.
pub(crate) fn format_ratio(hydrant: f64, kaspad: f64) -> String {
    if kaspad > 0.0 { format!("{:.3}", hydrant / kaspad) } else { "-".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statistics(values: impl IntoIterator<Item = u64>) -> Option<Statistics> {
        let mut samples = Samples::default();
        values.into_iter().for_each(|ms| samples.add(Duration::from_millis(ms)));
        samples.statistics()
    }

    #[test]
    fn percentiles_are_values_of_the_sorted_samples() {
        let expected = Statistics { number: 200, median_ms: 100.0, p99_ms: 198.0 };
        assert_eq!(statistics((1..=200).rev()), Some(expected));
        let expected = Statistics { number: 100, median_ms: 50.0, p99_ms: 99.0 };
        assert_eq!(statistics(1..=100), Some(expected));
    }

    #[test]
    fn few_samples_have_their_longest_as_p99() {
        let expected = Statistics { number: 3, median_ms: 2.0, p99_ms: 9.0 };
        assert_eq!(statistics([9, 1, 2]), Some(expected));
        let expected = Statistics { number: 2, median_ms: 1.0, p99_ms: 4.0 };
        assert_eq!(statistics([4, 1]), Some(expected));
        let expected = Statistics { number: 1, median_ms: 7.0, p99_ms: 7.0 };
        assert_eq!(statistics([7]), Some(expected));
        assert_eq!(statistics([]), None);
    }

    #[test]
    fn differences_may_be_negative() {
        let mut samples = Samples::default();
        for ms in [0.5, -0.25, -1.0] {
            samples.add_ms(ms);
        }
        let expected = Statistics { number: 3, median_ms: -0.25, p99_ms: 0.5 };
        assert_eq!(samples.statistics(), Some(expected));
    }

    #[test]
    fn a_ratio_is_that_of_hydrant_to_kaspad() {
        assert_eq!(format_ratio(1.0, 4.0), "0.250");
        assert_eq!(format_ratio(3.0, 2.0), "1.500");
        assert_eq!(format_ratio(3.0, 0.0), "-");
    }
}
