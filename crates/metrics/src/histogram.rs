//! Histograms of durations, with powers of two of a microsecond as bounds of their buckets, or also the middles between
//! them (log-linear).
//!
//! In: durations. Out: the count of each bucket, and the sum.
//! Shape: [`BucketBounds`] defines the buckets. [`Histogram`] has the values, for one thread or as a snapshot.
//! [`Histograms`] are recorded by many threads.
//! Bounds: at most [`BOUNDS_MAX`] buckets, and one for longer durations.

use std::time::Duration;

use crate::Counters;

/// Maximum number of buckets that have a bound.
const BOUNDS_MAX: usize = 52;

/// The upper bounds of a histogram's buckets. A duration is in the first bucket that has a bound at or above it, as in
/// Prometheus. There is one more bucket, without a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketBounds {
    /// The unit of the bounds is half a microsecond, times two to the power of this.
    shift: u32,
    /// There are two to the power of this buckets per power of two.
    parts_log2: u32,
    len: usize,
}

impl BucketBounds {
    /// Two buckets per power of two: 1, 1.5, 2, 3, 4, 6, 8, 12, … microseconds, up to 50 seconds. So a quantile read
    /// from them is at most 1.5 times the true one.
    pub const LOG_LINEAR: Self = Self { shift: 0, parts_log2: 1, len: BOUNDS_MAX };

    /// Returns bounds with one bucket per power of two: `len` of them, from `first_us` microseconds. `first_us` must
    /// be a power of two.
    pub const fn powers_of_two(first_us: u64, len: usize) -> Self {
        assert!(first_us.is_power_of_two(), "the first bound is a power of two");
        assert!(len <= BOUNDS_MAX, "too many bounds");
        let shift = first_us.ilog2() + 1;
        assert!(shift as usize + len <= u64::BITS as usize, "a bound would overflow");
        Self { shift, parts_log2: 0, len }
    }

    /// Returns the bucket of a duration.
    fn bucket(self, ns: u64) -> usize {
        // In these units all bounds are whole numbers.
        let units = ns.div_ceil(500).saturating_sub(1) >> self.shift;
        let parts = 1 << self.parts_log2;
        if units < parts {
            return 0;
        }
        let power = units.ilog2() - self.parts_log2;
        let part = (units >> power) - parts;
        (((power as usize) << self.parts_log2) + part as usize + 1).min(self.len)
    }

    /// Returns the bound of a bucket in seconds. It is infinite for the last bucket.
    fn bound_s(self, bucket: usize) -> f64 {
        if bucket >= self.len {
            return f64::INFINITY;
        }
        let parts = 1 << self.parts_log2;
        let power = bucket >> self.parts_log2;
        let part = bucket as u64 % parts;
        let halves = (parts + part) << power << self.shift;
        halves as f64 / 2e6
    }
}

/// The values of one histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Histogram {
    bounds: BucketBounds,
    /// Count per bucket, without the lower buckets.
    counts: [u64; BOUNDS_MAX + 1],
    sum_ns: u64,
}

impl Histogram {
    /// Creates a histogram without durations.
    pub const fn new(bounds: BucketBounds) -> Self {
        Self { bounds, counts: [0; BOUNDS_MAX + 1], sum_ns: 0 }
    }

    /// Counts a duration in its bucket.
    pub fn record(&mut self, took: Duration) {
        let ns = nanoseconds(took);
        self.counts[self.bounds.bucket(ns)] += 1;
        self.sum_ns = self.sum_ns.saturating_add(ns);
    }

    /// Returns the number of durations recorded.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the sum of the durations.
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum_ns)
    }

    /// Returns each bucket: upper bound in seconds, and count. The bound of the last one is infinite.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        let counts = self.counts.iter().take(self.bounds.len + 1);
        counts.enumerate().map(|(bucket, count)| (self.bounds.bound_s(bucket), *count))
    }
}

/// Histograms that many threads record into without contention, all with the same bounds.
///
/// Memory: eight bytes a bucket and two more words, for each histogram and thread.
pub struct Histograms {
    bounds: BucketBounds,
    counters: Counters,
}

impl Histograms {
    /// Creates `len` histograms without durations.
    pub fn new(len: usize, bounds: BucketBounds) -> Self {
        Self { bounds, counters: Counters::new(len * cells(bounds)) }
    }

    /// Records a duration in the histogram with this index.
    pub fn record(&self, number: usize, took: Duration) {
        let at = number * cells(self.bounds);
        let ns = nanoseconds(took);
        let sum = at + self.bounds.len + 1;
        self.counters.add_all([(at + self.bounds.bucket(ns), 1), (sum, ns)]);
    }

    /// Returns the histogram with this index.
    pub fn histogram(&self, number: usize) -> Histogram {
        let len = cells(self.bounds);
        let mut all = [0; BOUNDS_MAX + 2];
        self.counters.add_sums(number * len, &mut all[..len]);
        let mut histogram = Histogram::new(self.bounds);
        let buckets = len - 1;
        histogram.counts[..buckets].copy_from_slice(&all[..buckets]);
        histogram.sum_ns = all[buckets];
        histogram
    }
}

/// Counters per histogram: the buckets, the one without a bound, the sum in nanoseconds.
fn cells(bounds: BucketBounds) -> usize {
    bounds.len + 2
}

fn nanoseconds(took: Duration) -> u64 {
    u64::try_from(took.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(layout: BucketBounds, first_us: &[f64]) {
        let bounds: Vec<f64> = (0..layout.len).map(|bucket| layout.bound_s(bucket)).collect();
        let first: Vec<f64> = first_us.iter().map(|us| us / 1e6).collect();
        assert_eq!(bounds[..first.len()], first);
        assert!(layout.bound_s(layout.len).is_infinite());
        let mut ns = 0;
        while ns < 100_000_000_000 {
            let s = ns as f64 / 1e9;
            let expected = bounds.iter().position(|bound| s <= *bound).unwrap_or(layout.len);
            assert_eq!(layout.bucket(ns), expected, "{ns} ns");
            ns += 1 + ns / 97;
        }
        for (at, bound) in bounds.iter().enumerate() {
            let ns = (bound * 1e9).round() as u64;
            let buckets = (layout.bucket(ns), layout.bucket(ns + 1));
            assert_eq!(buckets, (at, at + 1), "at the bound {bound}");
        }
    }

    #[test]
    fn a_time_is_in_the_first_bucket_whose_bound_is_not_below_it() {
        check(BucketBounds::LOG_LINEAR, &[1.0, 1.5, 2.0, 3.0, 4.0, 6.0]);
        assert!(BucketBounds::LOG_LINEAR.bound_s(BOUNDS_MAX - 1) > 50.0);
        check(BucketBounds::powers_of_two(1, 25), &[1.0, 2.0, 4.0, 8.0]);
        check(BucketBounds::powers_of_two(2, 31), &[2.0, 4.0, 8.0, 16.0]);
    }

    #[test]
    fn values_that_one_thread_records_add_up() {
        let mut histogram = Histogram::new(BucketBounds::powers_of_two(1, 25));
        for us in [0, 1, 3, 4, 5, 1_000_000_000] {
            histogram.record(Duration::from_micros(us));
        }
        let counted: Vec<_> = histogram.buckets().filter(|(_, count)| *count > 0).collect();
        assert_eq!(counted, [(1e-6, 2), (4e-6, 2), (8e-6, 1), (f64::INFINITY, 1)]);
        assert_eq!(histogram.buckets().count(), 26);
        let sum = Duration::from_micros(1_000_000_013);
        assert_eq!((histogram.count(), histogram.sum()), (6, sum));
    }

    #[test]
    fn a_series_has_its_own_count_and_sum() {
        let histograms = Histograms::new(2, BucketBounds::LOG_LINEAR);
        for us in [1, 2, 5_000] {
            histograms.record(1, Duration::from_micros(us));
        }
        let [none, three] = [0, 1].map(|number| histograms.histogram(number));
        assert_eq!((none.count(), three.count()), (0, 3));
        assert_eq!(three.sum(), Duration::from_micros(5_003));
        assert_eq!(three.buckets().map(|(_, count)| count).sum::<u64>(), 3);
        let mut same = Histogram::new(BucketBounds::LOG_LINEAR);
        [1, 2, 5_000].into_iter().for_each(|us| same.record(Duration::from_micros(us)));
        assert_eq!(three, same);
    }
}
