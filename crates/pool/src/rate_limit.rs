//! What one client may ask for in a time: requests and bytes a second.
//!
//! Shape: of each client and each rate one number, the time by which all that it had so far would have
//! come at its rate (the "generic cell rate algorithm"): a request that would be a burst ahead of that
//! is refused with the time to wait. Bytes are counted as they go: those of a long answer wait for their
//! moment ([`RateLimiter::reserve_bytes`]), and no request is let in that comes while they are a second more ahead.
//! Bounds: nobody owes more than [`DEBT_MAX`] and one piece. [`CLIENTS_MAX`] clients that used up something of
//! theirs, about 64 bytes each; those past it share one allowance. With no limits set nothing is kept and nothing is asked.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::ClientId;

/// Clients that are told apart at once: 4 MiB.
const CLIENTS_MAX: usize = 65_536;

/// How many tables there are, so that threads seldom wait for each other.
const SHARDS: usize = 16;

/// How often a full table is looked through for those who have all of theirs again: some 50 microseconds.
const SWEEP_INTERVAL: Duration = Duration::from_millis(100);

/// How far ahead of its rate an answer goes: a second's worth at once.
const BURST: Duration = Duration::from_secs(1);

/// How far ahead a client may be and ask for more: one that reads a long answer at its pace still may.
const ADMITTED_BURST: Duration = Duration::from_secs(2);

/// A long answer is counted in pieces that take so long: a client that reads several at once, each with a piece
/// counted ahead, still may ask for more.
const RESERVATION: Duration = Duration::from_millis(50);

/// No piece is shorter, however low the rate.
const RESERVATION_BYTES_MIN: usize = 4 * 1024;

/// What short answers, which go at once, and the next pieces of long ones may come to: who opens many
/// connections and leaves is not shut out for longer.
const DEBT_MAX: Duration = Duration::from_secs(60);

/// Whoever comes when all places are taken.
const SHARED_CLIENT: ClientId = ClientId(u128::MAX);

/// What each client may have. 0 is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Requests a second, calls of a batch each counted; a second's worth may come at once.
    pub requests_per_s: u32,
    /// Bytes of answers a second; a second's worth may go at once, then long answers go at this pace. A
    /// request that comes when two seconds' worth are owed is refused.
    pub bytes_per_s: u64,
}

/// A client had more than its share. Fix: send less, or raise the knob that it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("more than {limit} {what} of one client ({knob}), come again in {} ms", retry_after.as_millis())]
pub struct RateLimited {
    /// What was too much, in words.
    pub what: &'static str,
    /// How much there may be.
    pub limit: u64,
    /// What sets it.
    pub knob: &'static str,
    /// When there is room again.
    pub retry_after: Duration,
}

/// The clients that used up something of theirs.
pub struct RateLimiter {
    limits: Limits,
    shards: [Mutex<Shard>; SHARDS],
    /// Refused for their rate, and for their bytes.
    rejected: [AtomicU64; 2],
}

#[derive(Default)]
struct Shard {
    client_tats: HashMap<ClientId, ClientTat>,
    /// Not before then is it looked through again.
    next_sweep: Duration,
}

/// When each allowance of a client is whole again.
#[derive(Clone, Copy, Default)]
struct ClientTat {
    requests: Duration,
    bytes: Duration,
}

impl RateLimiter {
    /// Nobody has had anything yet.
    pub fn new(limits: Limits) -> Self {
        Self { limits, shards: Default::default(), rejected: Default::default() }
    }

    /// Whether there is anything to ask [`Self::admit`] about.
    pub fn is_enabled(&self) -> bool {
        self.limits != Limits::default()
    }

    /// Whether there is anything to tell [`Self::charge_bytes`].
    pub fn limits_bytes(&self) -> bool {
        self.limits.bytes_per_s > 0
    }

    /// How often [`Self::admit`] refused: for too many requests, and for too many bytes.
    pub fn rejected(&self) -> (u64, u64) {
        let [requests, bytes] = self.rejected.each_ref().map(|it| it.load(Ordering::Relaxed));
        (requests, bytes)
    }

    /// Takes `requests` of a client's share at `now`, or refuses them.
    pub fn admit(&self, client: ClientId, requests: u32, now: Duration) -> Result<(), RateLimited> {
        if !self.is_enabled() {
            return Ok(());
        }
        let Limits { requests_per_s, bytes_per_s } = self.limits;
        self.with_client_tat(client, now, |used| {
            let owed = used.bytes.saturating_sub(now);
            if bytes_per_s > 0 && owed > ADMITTED_BURST {
                let retry_after = owed - ADMITTED_BURST;
                let (what, knob) = ("bytes a second", "pool.clients.bytes_per_s");
                self.rejected[1].fetch_add(1, Ordering::Relaxed);
                return Err(RateLimited { what, limit: bytes_per_s, knob, retry_after });
            }
            if requests_per_s == 0 {
                return Ok(());
            }
            let cost = Duration::from_secs(1) * requests / requests_per_s;
            let after = used.requests.max(now) + cost;
            // A batch that is longer than the burst is let in when the client had nothing before.
            let allowed = now + cost.max(Duration::from_secs(1));
            if after > allowed {
                let (what, knob) = ("requests a second", "pool.clients.requests_per_s");
                self.rejected[0].fetch_add(1, Ordering::Relaxed);
                let (limit, retry_after) = (u64::from(requests_per_s), after - allowed);
                return Err(RateLimited { what, limit, knob, retry_after });
            }
            used.requests = after;
            Ok(())
        })
    }

    /// Counts requests that are let in whatever the client has had.
    pub fn charge_requests(&self, client: ClientId, requests: u32, now: Duration) {
        let requests_per_s = self.limits.requests_per_s;
        if requests_per_s == 0 {
            return;
        }
        let cost = Duration::from_secs(1) * requests / requests_per_s;
        self.with_client_tat(client, now, |used| {
            let owed = used.requests.max(now) + cost;
            used.requests = used.requests.max(owed.min(now + DEBT_MAX));
        });
    }

    /// Counts bytes that go to a client at once.
    pub fn charge_bytes(&self, client: ClientId, bytes: u64, now: Duration) {
        let Some(cost) = self.byte_cost(bytes) else { return };
        self.with_client_tat(client, now, |used| {
            let owed = used.bytes.max(now) + cost;
            used.bytes = used.bytes.max(owed.min(now + DEBT_MAX));
        });
    }

    /// How many bytes of a long answer [`Self::reserve_bytes`] is to count at once, at most.
    pub fn max_reservation_bytes(&self) -> usize {
        let bytes = self.limits.bytes_per_s as f64 * RESERVATION.as_secs_f64();
        (bytes as usize).max(RESERVATION_BYTES_MIN)
    }

    /// Counts bytes that are to go to a client, and gives in how long. Each piece of an answer asks once the
    /// one before it has gone, so those of several answers go in turn.
    ///
    /// Errors: when to ask again, if the client owes so much that none of it was counted.
    pub fn reserve_bytes(
        &self,
        client: ClientId,
        bytes: u64,
        now: Duration,
    ) -> Result<Duration, Duration> {
        let Some(cost) = self.byte_cost(bytes) else { return Ok(Duration::ZERO) };
        self.with_client_tat(client, now, |used| {
            let owed = used.bytes.saturating_sub(now);
            if owed > DEBT_MAX {
                return Err(owed - DEBT_MAX / 2);
            }
            used.bytes = used.bytes.max(now) + cost;
            Ok(owed.saturating_sub(BURST))
        })
    }

    fn byte_cost(&self, bytes: u64) -> Option<Duration> {
        let bytes_per_s = self.limits.bytes_per_s;
        (bytes_per_s > 0).then(|| Duration::from_secs_f64(bytes as f64 / bytes_per_s as f64))
    }

    fn with_client_tat<T>(
        &self,
        client: ClientId,
        now: Duration,
        then: impl FnOnce(&mut ClientTat) -> T,
    ) -> T {
        let shard = (client.0 ^ client.0 >> 64 ^ client.0 >> 17) as usize % SHARDS;
        let mut shard = self.shards[shard].lock();
        let mut client = client;
        if shard.client_tats.len() >= CLIENTS_MAX / SHARDS
            && !shard.client_tats.contains_key(&client)
        {
            if shard.next_sweep <= now {
                shard.next_sweep = now + SWEEP_INTERVAL;
                shard.client_tats.retain(|_, used| used.requests > now || used.bytes > now);
            }
            if shard.client_tats.len() >= CLIENTS_MAX / SHARDS {
                client = SHARED_CLIENT;
            }
        }
        then(shard.client_tats.entry(client).or_default())
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
        let clients = RateLimiter::new(Limits { requests_per_s: 10, bytes_per_s: 0 });
        let wait = |now| clients.admit(A, 1, now).map_err(|err| err.retry_after);
        clients.charge_requests(A, 10, ms(0));
        assert_eq!(wait(ms(0)), Err(ms(100)));
        clients.charge_requests(A, 10, ms(0));
        assert_eq!(wait(ms(0)), Err(ms(1_100)));
        clients.charge_requests(A, 1_000_000, ms(0));
        assert_eq!(wait(ms(0)), Err(DEBT_MAX + ms(100) - ms(1_000)), "nobody owes more");
        assert_eq!(clients.rejected(), (3, 0), "who was only counted was not refused");
    }

    #[test]
    fn a_client_gets_its_rate_and_a_seconds_burst() {
        let clients = RateLimiter::new(Limits { requests_per_s: 10, bytes_per_s: 0 });
        let admitted = |client, now| clients.admit(client, 1, now).is_ok();
        assert_eq!((0..20).filter(|_| admitted(A, ms(0))).count(), 10);
        assert_eq!(clients.rejected(), (10, 0));
        let err = clients.admit(A, 1, ms(0)).expect_err("it had its burst");
        assert_eq!(err.retry_after, ms(100));
        assert!(err.to_string().contains("pool.clients.requests_per_s"), "{err}");
        assert!(admitted(B, ms(0)), "another client does not notice");
        let mut steady = (0..10_000).step_by(10).filter(|now| admitted(A, ms(*now)));
        assert!((98..=100).contains(&steady.by_ref().count()), "ten seconds at ten a second");
    }

    #[test]
    fn a_batch_longer_than_the_burst_gets_in_when_nothing_was_before() {
        let clients = RateLimiter::new(Limits { requests_per_s: 10, bytes_per_s: 0 });
        assert!(clients.admit(A, 50, ms(0)).is_ok());
        assert!(clients.admit(A, 1, ms(4_000)).is_err());
        assert!(clients.admit(A, 1, ms(4_200)).is_ok());
    }

    #[test]
    fn bytes_are_paid_back_before_the_next_response() {
        let clients = RateLimiter::new(Limits { requests_per_s: 0, bytes_per_s: 1_000 });
        assert!(clients.admit(A, 1, ms(0)).is_ok());
        clients.charge_bytes(A, 5_000, ms(0));
        let err = clients.admit(A, 1, ms(1_000)).expect_err("five seconds' worth");
        assert_eq!(err.retry_after, ms(2_000));
        assert!(clients.admit(A, 1, ms(3_000)).is_ok());
        assert_eq!(clients.rejected(), (0, 1));
    }

    #[test]
    fn reservations_of_many_responses_are_scheduled_one_after_another_at_the_rate() {
        let clients = RateLimiter::new(Limits { requests_per_s: 0, bytes_per_s: 1_000 });
        let piece = |client, now| clients.reserve_bytes(client, 500, now);
        // A second's worth at once, and the piece that goes past it.
        let moments: Vec<_> =
            (0..6).map(|_| piece(A, ms(0)).expect("counted").as_millis()).collect();
        assert_eq!(moments, [0, 0, 0, 500, 1_000, 1_500]);
        assert_eq!(piece(B, ms(0)), Ok(ms(0)), "another client does not notice");
        assert_eq!(piece(A, ms(2_000)), Ok(ms(0)));
        // One that reads at its pace may ask for more meanwhile.
        let mut now = ms(2_000);
        for _ in 0..100 {
            now += piece(A, now).expect("counted");
            assert!(clients.admit(A, 1, now).is_ok());
        }
        assert_eq!(now, ms(52_000));
    }

    #[test]
    fn a_client_that_reads_sixteen_long_responses_at_once_may_send_more_requests() {
        let clients = RateLimiter::new(Limits { requests_per_s: 0, bytes_per_s: 1_000_000 });
        let piece = clients.max_reservation_bytes() as u64;
        // When each asks for its next piece.
        let mut next = [ms(0); 16];
        for _ in 0..16 * 100 {
            let next = next.iter_mut().min().expect("there are some");
            let now = *next;
            *next += clients.reserve_bytes(A, piece, now).expect("counted");
            assert_eq!(clients.admit(A, 1, now), Ok(()));
        }
        assert!(next.iter().all(|next| *next > ms(75_000)), "{next:?}");
        let slow = RateLimiter::new(Limits { requests_per_s: 0, bytes_per_s: 1 });
        assert_eq!(slow.max_reservation_bytes(), RESERVATION_BYTES_MIN);
    }

    #[test]
    fn the_debt_of_a_client_is_bounded() {
        let clients = RateLimiter::new(Limits { requests_per_s: 0, bytes_per_s: 1_000 });
        for _ in 0..1_000 {
            clients.charge_bytes(A, 1_000_000, ms(0));
            let _ = clients.reserve_bytes(B, 1_000, ms(0));
        }
        assert_eq!(clients.admit(A, 1, ms(0)).map_err(|err| err.retry_after), Err(ms(58_000)));
        assert_eq!(clients.admit(B, 1, ms(0)).map_err(|err| err.retry_after), Err(ms(59_000)));
        assert_eq!(clients.reserve_bytes(B, 1_000, ms(0)), Err(ms(31_000)));
        assert_eq!(clients.reserve_bytes(B, 1_000, ms(31_000)), Ok(ms(29_000)));
    }

    #[test]
    fn a_full_table_is_not_swept_for_every_new_client() {
        let clients = RateLimiter::new(Limits { requests_per_s: 1, bytes_per_s: 0 });
        for client in 0..CLIENTS_MAX as u128 {
            let _ = clients.admit(ClientId(client), 1, ms(0));
        }
        let newcomer = |n: u128, now| clients.admit(ClientId(n << 68), 1, now).is_ok();
        assert!(newcomer(1, ms(999)), "the first of those who share");
        assert!(!newcomer(2, ms(1_050)), "places are free since 1,000, but it has just looked");
        assert!(newcomer(2, ms(1_100)));
    }

    #[test]
    fn clients_past_the_bound_share_one_allowance() {
        let clients = RateLimiter::new(Limits { requests_per_s: 1, bytes_per_s: 0 });
        for client in 0..2 * CLIENTS_MAX as u128 {
            let _ = clients.admit(ClientId(client), 1, ms(0));
        }
        let kept: usize = clients.shards.iter().map(|shard| shard.lock().client_tats.len()).sum();
        assert!(kept <= CLIENTS_MAX + SHARDS, "{kept}");
        assert!(clients.admit(ClientId(u128::MAX / 2), 1, ms(0)).is_err());
        assert!(clients.admit(ClientId(u128::MAX / 2), 1, ms(2_000)).is_ok(), "room again");
    }
}
