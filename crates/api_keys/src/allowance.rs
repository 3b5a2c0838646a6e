//! The usage of a client within its tier: one bucket for each rate, and the requests of the day.
//!
//! Invariant: a request that is refused is charged to nothing.
//! Bounds: threads that are admitted at the same time may exceed the rate of a class or a method, or the quota, by one
//! request each. The rate of all classes is exact. Requests that exceed a rate are owed: later requests wait for them.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::atomic_bucket::AtomicBucket;
use crate::error::LimitReached;
use crate::ids::Charge;
use crate::tier::Tier;
use crate::utc::{DAY_S, day_number, until_next_day};

/// The time of a request: by the clock of rates, and by the calendar.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    pub(crate) monotonic: Duration,
    pub(crate) unix_s: u64,
}

/// The usage of a client within its tier. A new client has used nothing.
#[derive(Debug, Default)]
pub(crate) struct Allowance {
    requests: AtomicBucket,
    classes: [AtomicBucket; 3],
    /// One for each method with a limit, once such a method is called.
    methods: OnceLock<Box<[AtomicBucket]>>,
    today: DayCount,
}

/// A limit in error messages.
#[derive(Clone, Copy)]
struct LimitText {
    /// The limited quantity, in words.
    what: &'static str,
    setting: &'static str,
}

/// The limits of classes, in the order of [`Charge::classes`].
const CLASS_LIMITS: [LimitText; 3] = [
    LimitText { what: "light requests a second", setting: "tiers.light.requests_per_s" },
    LimitText { what: "medium requests a second", setting: "tiers.medium.requests_per_s" },
    LimitText { what: "heavy requests a second", setting: "tiers.heavy.requests_per_s" },
];
const METHOD_LIMIT: LimitText =
    LimitText { what: "calls of this method a second", setting: "tiers.methods.requests_per_s" };
const REQUEST_LIMIT: LimitText =
    LimitText { what: "requests a second", setting: "tiers.requests_per_s" };

impl Allowance {
    /// Charges a request with its methods, or refuses all of it.
    pub(crate) fn admit<'m>(
        &self,
        tier: &Tier,
        charge: Charge,
        methods: impl Iterator<Item = &'m str> + Clone,
        now: Now,
    ) -> Result<(), LimitReached> {
        let time = now.monotonic;
        let classes = || self.classes.iter().zip(tier.classes).zip(charge.classes);
        let classes =
            || classes().filter_map(|((bucket, rate), calls)| Some((bucket, rate?, calls)));
        let limited = || methods.clone().filter_map(move |method| tier.method_rate(method));
        for (((bucket, rate), calls), limit) in
            self.classes.iter().zip(tier.classes).zip(charge.classes).zip(CLASS_LIMITS)
        {
            if let Some(rate) = rate.filter(|_| calls > 0) {
                let checked = bucket.check(rate, calls, time);
                checked.map_err(|wait| limit_reached(limit, rate.per_s, wait))?;
            }
        }
        for (at, rate) in limited() {
            let checked = self.method_bucket(tier, at).check(rate, 1, time);
            checked.map_err(|wait| limit_reached(METHOD_LIMIT, rate.per_s, wait))?;
        }
        if let Some(limit) = tier.requests_per_day.filter(|_| charge.requests > 0) {
            self.today.check(limit, charge.requests, now.unix_s)?;
        }
        if let Some(rate) = tier.requests.filter(|_| charge.requests > 0) {
            let taken = self.requests.try_take(rate, charge.requests, time);
            taken.map_err(|wait| limit_reached(REQUEST_LIMIT, rate.per_s, wait))?;
        }
        for (bucket, rate, calls) in classes() {
            bucket.take(rate, calls, time);
        }
        for (at, rate) in limited() {
            self.method_bucket(tier, at).take(rate, 1, time);
        }
        self.today.add(charge.requests, now.unix_s);
        Ok(())
    }

    /// Charges requests that are admitted unconditionally.
    pub(crate) fn charge(&self, tier: &Tier, requests: u32, now: Now) {
        if let Some(rate) = tier.requests {
            self.requests.take_up_to_debt(rate, requests, now.monotonic);
        }
        self.today.add(requests, now.unix_s);
    }

    /// Returns the burst of the rate of all classes, the requests that are left of it, and the time until it is whole.
    pub(crate) fn remaining(&self, tier: &Tier, now: Now) -> Option<(u32, u32, Duration)> {
        let rate = tier.requests?;
        let (tokens, until_full) = self.requests.remaining(rate, now.monotonic);
        Some((rate.burst, tokens, until_full))
    }

    /// Returns the requests of the current day.
    pub(crate) fn requests_today(&self, unix_s: u64) -> u64 {
        self.today.requests(unix_s)
    }

    /// Sets the requests of the current day, if it has fewer.
    pub(crate) fn restore_today(&self, requests: u64, unix_s: u64) {
        self.today.restore(requests, unix_s);
    }

    /// Returns whether it equals a new one and need not be stored.
    pub(crate) fn is_unused(&self, tier: &Tier, now: Now) -> bool {
        let methods = self.methods.get().into_iter().flat_map(|methods| methods.iter());
        let mut buckets = self.classes.iter().chain([&self.requests]).chain(methods);
        buckets.all(|bucket| bucket.is_full(now.monotonic))
            && (tier.requests_per_day.is_none() || self.requests_today(now.unix_s) == 0)
    }

    /// Returns its heap size in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.methods.get().map_or(0, |methods| methods.len() * size_of::<AtomicBucket>())
    }

    /// Returns the bucket of a method. A reload may have changed the number of methods with a limit; the methods past
    /// the buckets then share the last one.
    fn method_bucket(&self, tier: &Tier, at: usize) -> &AtomicBucket {
        let new = || tier.methods.iter().map(|_| AtomicBucket::default()).collect();
        let buckets = self.methods.get_or_init(new);
        buckets.get(at).or_else(|| buckets.last()).unwrap_or(&self.requests)
    }
}

fn limit_reached(text: LimitText, limit: u32, retry_after: Duration) -> LimitReached {
    let LimitText { what, setting: knob } = text;
    LimitReached { what, limit: limit.into(), knob, retry_after, resets_at: None }
}

/// Requests of a UTC day: the day in the upper 16 bits, their number in the lower 48.
#[derive(Debug, Default)]
struct DayCount(AtomicU64);

const COUNT_BITS: u32 = 48;
const COUNT_MAX: u64 = (1 << COUNT_BITS) - 1;

impl DayCount {
    fn requests(&self, unix_s: u64) -> u64 {
        let value = self.0.load(Ordering::Relaxed);
        if value >> COUNT_BITS == day_number(unix_s) { value & COUNT_MAX } else { 0 }
    }

    fn check(&self, limit: u64, requests: u32, unix_s: u64) -> Result<(), LimitReached> {
        if self.requests(unix_s) + u64::from(requests) <= limit {
            return Ok(());
        }
        let left_s = until_next_day(unix_s);
        Err(LimitReached {
            what: "requests a day",
            limit,
            knob: "tiers.requests_per_day",
            retry_after: Duration::from_secs(left_s),
            resets_at: Some((day_number(unix_s) + 1) * DAY_S),
        })
    }

    fn restore(&self, requests: u64, unix_s: u64) {
        // A later day, or more requests of this one, is greater.
        let value = day_number(unix_s) << COUNT_BITS | requests.min(COUNT_MAX);
        self.0.fetch_max(value, Ordering::Relaxed);
    }

    fn add(&self, requests: u32, unix_s: u64) {
        let day = day_number(unix_s);
        // The closure always returns a value.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |value| {
            let before = if value >> COUNT_BITS == day { value & COUNT_MAX } else { 0 };
            Some(day << COUNT_BITS | (before + u64::from(requests)).min(COUNT_MAX))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::atomic_bucket::Rate;

    const NOON: u64 = 1_795_478_400 + 43_200;

    fn at(ms: u64) -> Now {
        Now { monotonic: Duration::from_millis(ms), unix_s: NOON }
    }

    fn rate(per_s: u32) -> Option<Rate> {
        Some(Rate { per_s, burst: per_s })
    }

    fn call(class: usize) -> Charge {
        Charge { requests: 1, ..Charge::call(class) }
    }

    #[test]
    fn each_class_and_method_has_a_rate_within_the_total() {
        let methods = [("getBlock".into(), Rate { per_s: 2, burst: 2 })].into();
        let classes = [None, rate(5), rate(1)];
        let tier = Tier { requests: rate(8), classes, methods, ..Tier::default() };
        let allowance = Allowance::default();
        let admit = |class, methods: &[&'static str]| {
            let admitted = allowance.admit(&tier, call(class), methods.iter().copied(), at(0));
            admitted.map_err(|reached| (reached.knob, reached.retry_after.as_millis()))
        };
        assert_eq!(admit(2, &[]), Ok(()));
        assert_eq!(admit(2, &[]), Err(("tiers.heavy.requests_per_s", 1_000)));
        assert_eq!(admit(1, &["getBlock"]), Ok(()));
        assert_eq!(admit(1, &["getBlock"]), Ok(()));
        assert_eq!(admit(1, &["getBlock"]), Err(("tiers.methods.requests_per_s", 500)));
        // Refused requests were charged to nothing: two of five medium and three of eight are used.
        assert!((0..3).all(|_| admit(1, &["getBlocks"]) == Ok(())));
        assert_eq!(admit(1, &[]), Err(("tiers.medium.requests_per_s", 200)));
        assert_eq!(allowance.remaining(&tier, at(0)), Some((8, 2, Duration::from_millis(750))));
        assert!((0..2).all(|_| admit(0, &[]) == Ok(())));
        assert_eq!(admit(0, &[]), Err(("tiers.requests_per_s", 125)));
        assert_eq!(allowance.requests_today(NOON), 8);
    }

    #[test]
    fn a_quota_is_whole_again_at_midnight() {
        let tier = Tier { requests_per_day: Some(10), ..Tier::default() };
        let allowance = Allowance::default();
        let admit = |requests, unix_s| {
            let now = Now { monotonic: Duration::ZERO, unix_s };
            allowance.admit(&tier, Charge::requests(requests), std::iter::empty(), now)
        };
        assert_eq!(admit(7, NOON), Ok(()));
        let reached = admit(4, NOON).expect_err("eleven");
        assert_eq!(
            reached.to_string(),
            "more than 10 requests a day of one client (tiers.requests_per_day), used up until \
             2026-11-25T00:00:00Z"
        );
        assert_eq!(reached.retry_after, Duration::from_secs(43_200));
        assert_eq!(admit(3, NOON), Ok(()));
        assert!(!allowance.is_unused(&tier, at(0)));
        let midnight = NOON + 43_200;
        assert!(admit(1, midnight - 1).is_err());
        assert_eq!(admit(10, midnight), Ok(()));
        assert_eq!((allowance.requests_today(midnight), allowance.requests_today(NOON)), (10, 0));
    }

    #[test]
    fn calls_that_are_never_refused_delay_later_ones() {
        let tier = Tier { requests: rate(10), ..Tier::default() };
        let allowance = Allowance::default();
        (0..20).for_each(|_| allowance.charge(&tier, 1, at(0)));
        let reached = allowance.admit(&tier, call(0), std::iter::empty(), at(0));
        assert_eq!(reached.map_err(|it| it.retry_after), Err(Duration::from_millis(1_100)));
        assert!(!allowance.is_unused(&tier, at(1_999)) && allowance.is_unused(&tier, at(2_000)));
    }
}
