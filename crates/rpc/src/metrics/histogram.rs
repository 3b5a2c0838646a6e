//! Log-linear histograms of durations.
//!
//! There are two buckets per power of two, with the bounds 1, 1.5, 2, 3, 4, 6, 8, 12, … microseconds, up to
//! [`BOUNDS`] of them (50 seconds), and one for longer durations. So a quantile read from them is at most 1.5 times
//! the true one.

use std::time::Duration;

use super::counters::Counters;

/// Number of buckets that have a bound.
const BOUNDS: usize = 52;

/// Counters per histogram: the buckets, the one without a bound, the sum in nanoseconds.
const CELLS: usize = BOUNDS + 2;

/// Histograms that many threads record into without contention.
pub struct Histograms(Counters);

/// The values of one histogram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// Count per bucket, without the lower buckets.
    buckets: [u64; BOUNDS + 1],
    sum_ns: u64,
}

impl Histograms {
    /// `len` empty histograms.
    pub fn new(len: usize) -> Self {
        Self(Counters::new(len * CELLS))
    }

    /// Records a duration in the histogram with this index.
    pub fn record(&self, number: usize, took: Duration) {
        let at = number * CELLS;
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.0.add_all([(at + bucket(ns), 1), (at + BOUNDS + 1, ns)]);
    }

    /// The histogram with this index.
    pub fn histogram(&self, number: usize) -> Histogram {
        let at = number * CELLS;
        Histogram {
            buckets: std::array::from_fn(|bucket| self.0.sum(at + bucket)),
            sum_ns: self.0.sum(at + BOUNDS + 1),
        }
    }
}

impl Histogram {
    /// Number of durations recorded.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Sum of the durations.
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum_ns)
    }

    /// Each bucket: upper bound in seconds, and count. The bound of the last one is infinite.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        self.buckets.iter().enumerate().map(|(number, count)| (bound_s(number), *count))
    }
}

/// The bucket of a duration: the first whose bound is not below it.
fn bucket(ns: u64) -> usize {
    // In half microseconds bounds are 2, 3, 4, 6, 8, 12, …: whole, and two to each power of two.
    let halves = ns.div_ceil(500).saturating_sub(1);
    if halves < 2 {
        return 0;
    }
    let power = halves.ilog2() as usize;
    let upper = (halves >> (power - 1)) as usize & 1;
    (2 * power - 1 + upper).min(BOUNDS)
}

fn bound_s(bucket: usize) -> f64 {
    if bucket >= BOUNDS {
        return f64::INFINITY;
    }
    let halves = (2 + bucket as u64 % 2) << (bucket / 2);
    halves as f64 / 2e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_the_first_bucket_whose_bound_is_not_below_it() {
        let bounds: Vec<f64> = (0..BOUNDS).map(bound_s).collect();
        assert_eq!(&bounds[..6], &[1e-6, 1.5e-6, 2e-6, 3e-6, 4e-6, 6e-6]);
        assert!(bounds[BOUNDS - 1] > 50.0 && bound_s(BOUNDS).is_infinite());
        let mut ns = 0;
        while ns < 100_000_000_000 {
            let s = ns as f64 / 1e9;
            let expected = bounds.iter().position(|bound| s <= *bound).unwrap_or(BOUNDS);
            assert_eq!(bucket(ns), expected, "{ns} ns");
            ns += 1 + ns / 97;
        }
        for (at, bound) in bounds.iter().enumerate() {
            let ns = (bound * 1e9).round() as u64;
            assert_eq!((bucket(ns), bucket(ns + 1)), (at, at + 1), "at the bound {bound}");
        }
    }

    #[test]
    fn a_series_has_its_own_count_and_sum() {
        let histograms = Histograms::new(2);
        for us in [1, 2, 5_000] {
            histograms.record(1, Duration::from_micros(us));
        }
        let [none, three] = [0, 1].map(|number| histograms.histogram(number));
        assert_eq!((none.count(), three.count()), (0, 3));
        assert_eq!(three.sum(), Duration::from_micros(5_003));
        assert_eq!(three.buckets().map(|(_, count)| count).sum::<u64>(), 3);
    }
}
