//! Rate limits of a client: requests and bytes per second.
//!
//! Shape: one [`TokenBucket`] for each client and each rate. A request that exceeds the burst is refused with the time
//! to wait, or waits until it is due ([`RateLimiter::reserve_request`]). Bytes are counted as they are sent: those of a
//! long response wait until they are due ([`RateLimiter::reserve_bytes`]), and a request is refused while the client is
//! more than [`ADMITTED_BURST`] ahead.
//! Bounds: a client owes at most [`DEBT_MAX`] and one reservation. The table has [`CLIENTS_MAX`] clients that have used
//! some of their allowance, about 64 bytes each; clients past that share one allowance. Without limits it is
//! empty.
//! With API keys ([`RateLimiter::with_api_keys`]) a key has the limits of its tier instead, and a client without a key has
//! those of the tier `anonymous` in addition.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use api_keys::{ApiKeys, Charge, LimitReached, utc_text};
use parking_lot::Mutex;

use crate::ClientId;
use crate::token_bucket::TokenBucket;

/// Maximum clients that are counted separately: 4 MiB.
const CLIENTS_MAX: usize = 65_536;

/// Number of shards, so that threads seldom wait for each other.
const SHARDS: usize = 16;

/// Minimum interval between two sweeps of a full table for clients that owe nothing. A sweep takes some 50 µs.
const SWEEP_INTERVAL: Duration = Duration::from_millis(100);

/// Lead of a response over its rate: one second's worth is sent at once.
const BURST: Duration = Duration::from_secs(1);

/// Maximum lead of a client that sends a request: a client may send one while it reads a long response at its rate.
const ADMITTED_BURST: Duration = Duration::from_secs(2);

/// Duration of one reservation of a long response. It is short, so that a client that reads several responses at once,
/// each with one reservation ahead, may still send requests.
const RESERVATION: Duration = Duration::from_millis(50);

/// Minimum reservation, however low the rate.
const RESERVATION_BYTES_MIN: usize = 4 * 1024;

/// Maximum debt from short responses, which are sent at once, and from reservations: a client that opens many
/// connections and leaves is not refused for longer than this.
const DEBT_MAX: Duration = Duration::from_secs(60);

/// The client that all clients share once the table is full.
const SHARED_CLIENT: ClientId = ClientId(u128::MAX);

/// Rate limits of each client. 0: no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Requests per second, each call of a batch counted. One second's worth may come at once.
    pub requests_per_s: u32,
    /// Bytes of responses per second. One second's worth is sent at once, then long responses are sent at this rate.
    /// A request is refused while two seconds' worth are owed.
    pub bytes_per_s: u64,
}

/// A client exceeded its rate. Fix: send less, or raise the setting that it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("more than {limit} {what} of one client ({knob}){}", when(*retry_after, *resets_at))]
pub struct RateLimited {
    /// Name of the exceeded quantity, with its unit.
    pub what: &'static str,
    /// The limit.
    pub limit: u64,
    /// The setting of the limit.
    pub knob: &'static str,
    /// When a request will be admitted again.
    pub retry_after: Duration,
    /// When a daily quota is whole again, in seconds since 1970.
    pub resets_at: Option<u64>,
}

fn when(retry_after: Duration, resets_at: Option<u64>) -> String {
    match resets_at {
        Some(unix_s) => format!(", used up until {}", utc_text(unix_s)),
        None => format!(", retry in {} ms", retry_after.as_millis()),
    }
}

impl From<LimitReached> for RateLimited {
    fn from(reached: LimitReached) -> Self {
        let LimitReached { what, limit, knob, retry_after, resets_at } = reached;
        Self { what, limit, knob, retry_after, resets_at }
    }
}

/// The rate limiter of all clients.
pub struct RateLimiter {
    limits: Limits,
    shards: [Mutex<Shard>; SHARDS],
    /// Rejected for their request rate, and for their byte rate.
    rejected: [AtomicU64; 2],
    api_keys: Option<Arc<ApiKeys>>,
}

#[derive(Default)]
struct Shard {
    clients: HashMap<ClientId, ClientBuckets>,
    /// The earliest time of the next sweep.
    next_sweep: Duration,
}

/// A client's bucket for each rate.
#[derive(Clone, Copy, Default)]
struct ClientBuckets {
    requests: TokenBucket,
    bytes: TokenBucket,
}

impl RateLimiter {
    /// A limiter with no clients.
    pub fn new(limits: Limits) -> Self {
        Self { limits, shards: Default::default(), rejected: Default::default(), api_keys: None }
    }

    /// Sets the API keys, whose tiers have limits of their own.
    #[must_use]
    pub fn with_api_keys(self, api_keys: Option<Arc<ApiKeys>>) -> Self {
        Self { api_keys, ..self }
    }

    /// The API keys of the node, if it has some.
    pub fn api_keys(&self) -> Option<&Arc<ApiKeys>> {
        self.api_keys.as_ref()
    }

    /// Whether [`Self::admit`] may refuse a request.
    pub fn is_enabled(&self) -> bool {
        self.limits != Limits::default() || self.api_keys.is_some()
    }

    /// Whether [`Self::charge_bytes`] has any effect.
    pub fn limits_bytes(&self) -> bool {
        self.limits.bytes_per_s > 0 || self.api_keys.as_ref().is_some_and(|it| it.limits_bytes())
    }

    /// Bytes per second of a client; 0: no limit.
    pub fn bytes_per_s(&self, client: ClientId) -> u64 {
        let Some(keys) = &self.api_keys else { return self.limits.bytes_per_s };
        match (keys.bytes_per_s(client.caller()), client.key()) {
            (Some(of_tier), _) => of_tier,
            (None, Some(_)) => 0,
            (None, None) => self.limits.bytes_per_s,
        }
    }

    /// Number of refusals by [`Self::admit`]: for the request rate, and for the byte rate.
    pub fn rejected(&self) -> (u64, u64) {
        let [requests, bytes] = self.rejected.each_ref().map(|it| it.load(Ordering::Relaxed));
        (requests, bytes)
    }

    /// Charges `requests` to a client at `now`, or refuses them.
    pub fn admit(&self, client: ClientId, requests: u32, now: Duration) -> Result<(), RateLimited> {
        self.admit_calls(client, Charge::requests(requests), std::iter::empty(), now)
    }

    /// Charges requests with the methods that they call, by class, or refuses them.
    pub fn admit_calls<'m>(
        &self,
        client: ClientId,
        charge: Charge,
        methods: impl Iterator<Item = &'m str> + Clone,
        now: Duration,
    ) -> Result<(), RateLimited> {
        if !self.is_enabled() {
            return Ok(());
        }
        self.admit_bytes(client, now)?;
        if client.key().is_none() {
            self.admit_requests(client, charge.requests, now)?;
        }
        let Some(keys) = &self.api_keys else { return Ok(()) };
        keys.admit(client.caller(), charge, methods, now).map_err(|reached| {
            self.rejected[0].fetch_add(1, Ordering::Relaxed);
            reached.into()
        })
    }

    /// Refuses a request of a client that is too far ahead of its byte rate.
    fn admit_bytes(&self, client: ClientId, now: Duration) -> Result<(), RateLimited> {
        let limit = self.bytes_per_s(client);
        if limit == 0 {
            return Ok(());
        }
        let owed = self.with_buckets(client, now, |buckets| buckets.bytes.time_to_full(now));
        if owed <= ADMITTED_BURST {
            return Ok(());
        }
        self.rejected[1].fetch_add(1, Ordering::Relaxed);
        let is_of_tier = self.api_keys.is_some() && limit != self.limits.bytes_per_s;
        let knob = if is_of_tier { "tiers.bytes_per_s" } else { "pool.clients.bytes_per_s" };
        let what = "bytes a second";
        let retry_after = owed - ADMITTED_BURST;
        Err(RateLimited { what, limit, knob, retry_after, resets_at: None })
    }

    fn admit_requests(
        &self,
        client: ClientId,
        requests: u32,
        now: Duration,
    ) -> Result<(), RateLimited> {
        let requests_per_s = self.limits.requests_per_s;
        if requests_per_s == 0 || requests == 0 {
            return Ok(());
        }
        let cost = Duration::from_secs(1) * requests / requests_per_s;
        // A batch that is longer than the burst is admitted if the client owes nothing.
        let burst = cost.max(Duration::from_secs(1));
        let taken =
            self.with_buckets(client, now, |buckets| buckets.requests.try_take(cost, burst, now));
        taken.map_err(|retry_after| {
            let what = "requests a second";
            let knob = "pool.clients.requests_per_s";
            self.rejected[0].fetch_add(1, Ordering::Relaxed);
            let limit = requests_per_s.into();
            RateLimited { what, limit, knob, retry_after, resets_at: None }
        })
    }

    /// Charges one request, and returns the time until it is due: one second's worth is due at once. A client with an
    /// API key has this rate as well; the limits of its tier are not charged.
    ///
    /// Errors: the time until the request would be due, which is longer than `wait_max`. Nothing is charged.
    pub fn reserve_request(
        &self,
        client: ClientId,
        wait_max: Duration,
        now: Duration,
    ) -> Result<Duration, Duration> {
        let requests_per_s = self.limits.requests_per_s;
        if requests_per_s == 0 {
            return Ok(Duration::ZERO);
        }
        let cost = Duration::from_secs(1) / requests_per_s;
        self.with_buckets(client, now, |buckets| {
            match buckets.requests.try_take(cost, BURST + wait_max, now) {
                Ok(()) => Ok(buckets.requests.time_to_full(now).saturating_sub(BURST)),
                Err(excess) => Err(wait_max + excess),
            }
        })
    }

    /// Charges requests that are admitted unconditionally.
    pub fn charge_requests(&self, client: ClientId, requests: u32, now: Duration) {
        if let Some(keys) = &self.api_keys {
            keys.charge(client.caller(), requests, now);
        }
        let requests_per_s = self.limits.requests_per_s;
        if requests_per_s == 0 || client.key().is_some() {
            return;
        }
        let cost = Duration::from_secs(1) * requests / requests_per_s;
        self.with_buckets(client, now, |buckets| buckets.requests.take_up_to(cost, DEBT_MAX, now));
    }

    /// Charges bytes that are sent to a client at once.
    pub fn charge_bytes(&self, client: ClientId, bytes: u64, now: Duration) {
        let Some(cost) = self.byte_cost(client, bytes) else { return };
        self.with_buckets(client, now, |buckets| buckets.bytes.take_up_to(cost, DEBT_MAX, now));
    }

    /// Maximum bytes of one [`Self::reserve_bytes`] call for a long response.
    pub fn max_reservation_bytes(&self, client: ClientId) -> usize {
        let bytes = self.bytes_per_s(client) as f64 * RESERVATION.as_secs_f64();
        (bytes as usize).max(RESERVATION_BYTES_MIN)
    }

    /// Charges bytes that will be sent to a client, and returns the delay until they are due. A response reserves its
    /// next bytes after the previous ones have been sent, so several responses alternate.
    ///
    /// Errors: the delay until the next attempt, if the client owes so much that nothing was charged.
    pub fn reserve_bytes(
        &self,
        client: ClientId,
        bytes: u64,
        now: Duration,
    ) -> Result<Duration, Duration> {
        let Some(cost) = self.byte_cost(client, bytes) else { return Ok(Duration::ZERO) };
        self.with_buckets(client, now, |buckets| {
            let owed = buckets.bytes.time_to_full(now);
            if owed > DEBT_MAX {
                return Err(owed - DEBT_MAX / 2);
            }
            buckets.bytes.take(cost, now);
            Ok(owed.saturating_sub(BURST))
        })
    }

    fn byte_cost(&self, client: ClientId, bytes: u64) -> Option<Duration> {
        let bytes_per_s = self.bytes_per_s(client);
        (bytes_per_s > 0).then(|| Duration::from_secs_f64(bytes as f64 / bytes_per_s as f64))
    }

    fn with_buckets<T>(
        &self,
        client: ClientId,
        now: Duration,
        then: impl FnOnce(&mut ClientBuckets) -> T,
    ) -> T {
        let shard = (client.0 ^ client.0 >> 64 ^ client.0 >> 17) as usize % SHARDS;
        let mut shard = self.shards[shard].lock();
        let mut client = client;
        if shard.clients.len() >= CLIENTS_MAX / SHARDS && !shard.clients.contains_key(&client) {
            if shard.next_sweep <= now {
                shard.next_sweep = now + SWEEP_INTERVAL;
                shard.clients.retain(|_, buckets| {
                    !buckets.requests.is_full(now) || !buckets.bytes.is_full(now)
                });
            }
            if shard.clients.len() >= CLIENTS_MAX / SHARDS {
                client = SHARED_CLIENT;
            }
        }
        then(shard.clients.entry(client).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ClientId = ClientId(1);
    const B: ClientId = ClientId(2);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn charged_requests_are_admitted_and_delay_later_ones() {
        let limiter = RateLimiter::new(Limits { requests_per_s: 10, bytes_per_s: 0 });
        let wait = |now| limiter.admit(A, 1, now).map_err(|err| err.retry_after);
        limiter.charge_requests(A, 10, ms(0));
        assert_eq!(wait(ms(0)), Err(ms(100)));
        limiter.charge_requests(A, 10, ms(0));
        assert_eq!(wait(ms(0)), Err(ms(1_100)));
        limiter.charge_requests(A, 1_000_000, ms(0));
        assert_eq!(wait(ms(0)), Err(DEBT_MAX + ms(100) - ms(1_000)), "the debt is bounded");
        assert_eq!(limiter.rejected(), (3, 0), "charged requests are not refused");
    }

    #[test]
    fn a_client_gets_its_rate_and_a_seconds_burst() {
        let limiter = RateLimiter::new(Limits { requests_per_s: 10, bytes_per_s: 0 });
        let admitted = |client, now| limiter.admit(client, 1, now).is_ok();
        assert_eq!((0..20).filter(|_| admitted(A, ms(0))).count(), 10);
        assert_eq!(limiter.rejected(), (10, 0));
        let err = limiter.admit(A, 1, ms(0)).expect_err("the burst is used up");
        assert_eq!(err.retry_after, ms(100));
        assert!(err.to_string().contains("pool.clients.requests_per_s"), "{err}");
        assert!(admitted(B, ms(0)), "another client does not notice");
        let mut steady = (0..10_000).step_by(10).filter(|now| admitted(A, ms(*now)));
        assert!((98..=100).contains(&steady.by_ref().count()), "ten seconds at ten a second");
    }

    #[test]
    fn reserved_requests_are_due_at_the_rate_until_they_would_wait_too_long() {
        let limiter = RateLimiter::new(Limits { requests_per_s: 10, bytes_per_s: 0 });
        let reserve = |client, now| limiter.reserve_request(client, ms(300), now);
        for _ in 0..10 {
            assert_eq!(reserve(A, ms(0)), Ok(ms(0)));
        }
        for due in [100, 200, 300] {
            assert_eq!(reserve(A, ms(0)), Ok(ms(due)));
        }
        assert_eq!(reserve(A, ms(0)), Err(ms(400)));
        assert_eq!(reserve(A, ms(50)), Err(ms(350)), "the refused one was not charged");
        assert_eq!(reserve(A, ms(100)), Ok(ms(300)));
        assert_eq!(reserve(B, ms(100)), Ok(ms(0)), "another client does not notice");
        let unlimited = RateLimiter::new(Limits::default());
        assert_eq!(unlimited.reserve_request(A, ms(0), ms(0)), Ok(ms(0)));
    }

    #[test]
    fn a_batch_longer_than_the_burst_gets_in_when_nothing_was_before() {
        let limiter = RateLimiter::new(Limits { requests_per_s: 10, bytes_per_s: 0 });
        assert!(limiter.admit(A, 50, ms(0)).is_ok());
        assert!(limiter.admit(A, 1, ms(4_000)).is_err());
        assert!(limiter.admit(A, 1, ms(4_200)).is_ok());
    }

    #[test]
    fn bytes_are_paid_back_before_the_next_response() {
        let limiter = RateLimiter::new(Limits { requests_per_s: 0, bytes_per_s: 1_000 });
        assert!(limiter.admit(A, 1, ms(0)).is_ok());
        limiter.charge_bytes(A, 5_000, ms(0));
        let err = limiter.admit(A, 1, ms(1_000)).expect_err("five seconds' worth");
        assert_eq!(err.retry_after, ms(2_000));
        assert!(limiter.admit(A, 1, ms(3_000)).is_ok());
        assert_eq!(limiter.rejected(), (0, 1));
    }

    #[test]
    fn reservations_of_many_responses_are_scheduled_one_after_another_at_the_rate() {
        let limiter = RateLimiter::new(Limits { requests_per_s: 0, bytes_per_s: 1_000 });
        let reserve = |client, now| limiter.reserve_bytes(client, 500, now);
        // One second's worth at once, and the reservation that exceeds it.
        let delays: Vec<_> =
            (0..6).map(|_| reserve(A, ms(0)).expect("counted").as_millis()).collect();
        assert_eq!(delays, [0, 0, 0, 500, 1_000, 1_500]);
        assert_eq!(reserve(B, ms(0)), Ok(ms(0)), "another client does not notice");
        assert_eq!(reserve(A, ms(2_000)), Ok(ms(0)));
        // A client that reads at its rate may send requests meanwhile.
        let mut now = ms(2_000);
        for _ in 0..100 {
            now += reserve(A, now).expect("counted");
            assert!(limiter.admit(A, 1, now).is_ok());
        }
        assert_eq!(now, ms(52_000));
    }

    #[test]
    fn a_client_that_reads_sixteen_long_responses_at_once_may_send_more_requests() {
        let limiter = RateLimiter::new(Limits { requests_per_s: 0, bytes_per_s: 1_000_000 });
        let bytes = limiter.max_reservation_bytes(A) as u64;
        // When each response makes its next reservation.
        let mut next = [ms(0); 16];
        for _ in 0..16 * 100 {
            let next = next.iter_mut().min().expect("there are some");
            let now = *next;
            *next += limiter.reserve_bytes(A, bytes, now).expect("counted");
            assert_eq!(limiter.admit(A, 1, now), Ok(()));
        }
        assert!(next.iter().all(|next| *next > ms(75_000)), "{next:?}");
        let slow = RateLimiter::new(Limits { requests_per_s: 0, bytes_per_s: 1 });
        assert_eq!(slow.max_reservation_bytes(A), RESERVATION_BYTES_MIN);
    }

    #[test]
    fn the_debt_of_a_client_is_bounded() {
        let limiter = RateLimiter::new(Limits { requests_per_s: 0, bytes_per_s: 1_000 });
        for _ in 0..1_000 {
            limiter.charge_bytes(A, 1_000_000, ms(0));
            let _ = limiter.reserve_bytes(B, 1_000, ms(0));
        }
        assert_eq!(limiter.admit(A, 1, ms(0)).map_err(|err| err.retry_after), Err(ms(58_000)));
        assert_eq!(limiter.admit(B, 1, ms(0)).map_err(|err| err.retry_after), Err(ms(59_000)));
        assert_eq!(limiter.reserve_bytes(B, 1_000, ms(0)), Err(ms(31_000)));
        assert_eq!(limiter.reserve_bytes(B, 1_000, ms(31_000)), Ok(ms(29_000)));
    }

    #[test]
    fn a_full_table_is_not_swept_for_every_new_client() {
        let limiter = RateLimiter::new(Limits { requests_per_s: 1, bytes_per_s: 0 });
        for client in 0..CLIENTS_MAX as u128 {
            let _ = limiter.admit(ClientId(client), 1, ms(0));
        }
        let admits = |n: u128, now| limiter.admit(ClientId(n << 68), 1, now).is_ok();
        assert!(admits(1, ms(999)), "the first client past the bound");
        assert!(!admits(2, ms(1_050)), "entries are free since 1,000 ms, but a sweep has just run");
        assert!(admits(2, ms(1_100)));
    }

    #[test]
    fn clients_past_the_bound_share_one_allowance() {
        let limiter = RateLimiter::new(Limits { requests_per_s: 1, bytes_per_s: 0 });
        for client in 0..2 * CLIENTS_MAX as u128 {
            let _ = limiter.admit(ClientId(client), 1, ms(0));
        }
        let tracked: usize = limiter.shards.iter().map(|shard| shard.lock().clients.len()).sum();
        assert!(tracked <= CLIENTS_MAX + SHARDS, "{tracked}");
        assert!(limiter.admit(ClientId(u128::MAX / 2), 1, ms(0)).is_err());
        assert!(
            limiter.admit(ClientId(u128::MAX / 2), 1, ms(2_000)).is_ok(),
            "the allowance is whole again"
        );
    }
}
