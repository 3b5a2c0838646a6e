//! The keys of a node, which all its servers share.
//!
//! Shape: readers load the current table, and never wait for a reload. The caller reads the file and passes the time.
//! Cost: without an allocation, a key is checked in one SHA-256 and a binary search, and a request is admitted by some
//! atomic operations.

use core::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;

use crate::allowance::Now;
use crate::atomic_bucket::{AtomicBucket, Rate};
use crate::client_table::ClientTable;
use crate::error::{AuthError, LimitReached};
use crate::ids::{Caller, Charge, KeyNumber};
use crate::key_file::KeyFile;
use crate::key_hash::{KEY_BYTES_MAX, KeyHash};
use crate::key_table::{Key, KeyTable};
use crate::permit::{Permit, PermitKind, SubscriptionGauge};
use crate::tier::Tier;
use crate::usage::{KeyState, Usage};

/// Clients without a key that have a usage of their own: about 6 MB, if `anonymous` names a tier.
pub const ANONYMOUS_CLIENTS_MAX: usize = 32_768;
/// Clients that have sent wrong keys: about 200 KB.
pub const FAILING_CLIENTS_MAX: usize = 4_096;
/// Wrong keys of a client that get a response of their own, and its requests without a valid key that are refused at
/// once: each costs a connection, because the refusal closes it.
const FAILURES: Rate = Rate { per_s: 10, burst: 100 };
/// Refusals of a client that are sent at once: later ones wait, so that a client over a limit costs no more than these.
const REFUSALS: Rate = Rate { per_s: 100, burst: 100 };
/// Maximum delay of a refusal. A client with more requests at once than the rate allows in this time gets one refusal
/// for each of them in it.
pub const REFUSAL_DELAY_MAX: Duration = Duration::from_millis(500);

/// The keys of a node, and their usage.
pub struct ApiKeys {
    pub(crate) table: ArcSwap<KeyTable>,
    next_number: AtomicU32,
    /// Seconds since 1970, as the caller last passed them.
    unix_s: AtomicU64,
    pub(crate) anonymous: ClientTable<Arc<KeyState>>,
    /// The usage of all clients without a key.
    pub(crate) anonymous_usage: Usage,
    failing: ClientTable<Failures>,
    pub(crate) counters: Counters,
}

/// The refused requests of a client without a valid key.
#[derive(Default)]
struct Failures {
    wrong_keys: AtomicBucket,
    refusals: AtomicBucket,
}

impl Failures {
    fn is_unused(&self, now: Duration) -> bool {
        self.wrong_keys.is_full(now) && self.refusals.is_full(now)
    }
}

/// Counts of events without a key.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) unauthorized: AtomicU64,
    pub(crate) throttled: AtomicU64,
    pub(crate) reloads: AtomicU64,
    pub(crate) failed_reloads: AtomicU64,
    pub(crate) delayed_refusals: AtomicU64,
}

/// The parts of a request that identify its client.
#[derive(Clone, Copy, Debug, Default)]
pub struct Credentials<'a> {
    /// The key that the request contains.
    pub key: Option<&'a [u8]>,
    /// A part of the path that may be a key. If it is not a key, the request has no key.
    pub path: Option<&'a [u8]>,
    /// The origin of the requesting page.
    pub origin: Option<&'a [u8]>,
    /// The address of the client, if it is known.
    pub address: Option<IpAddr>,
}

/// The changes that a reload made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reload {
    /// Number of keys of the table now.
    pub keys: usize,
    /// Keys that are no longer in the table: their sockets and streams must be closed.
    pub removed: Vec<KeyNumber>,
}

/// The state of a client's rate, for the headers of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateStatus {
    /// Requests that may come at once.
    pub limit: u32,
    /// Requests that may come at once now.
    pub remaining: u32,
    /// Seconds until all of the limit is available.
    pub reset_s: u64,
}

impl ApiKeys {
    /// Creates the keys of a file, at a time in seconds since 1970.
    pub fn new(file: KeyFile, unix_s: u64) -> Self {
        let keys = Self {
            table: ArcSwap::default(),
            next_number: AtomicU32::new(1),
            unix_s: AtomicU64::new(unix_s),
            anonymous: ClientTable::new(ANONYMOUS_CLIENTS_MAX),
            anonymous_usage: Usage::default(),
            failing: ClientTable::new(FAILING_CLIENTS_MAX),
            counters: Counters::default(),
        };
        keys.replace(file);
        keys
    }

    /// Replaces the table. The keys that are in both files continue with their usage.
    pub fn reload(&self, file: KeyFile) -> Reload {
        let reload = self.replace(file);
        self.counters.reloads.fetch_add(1, Ordering::Release);
        reload
    }

    /// Counts a file that could not be read or is not valid. The table does not change.
    pub fn record_failed_reload(&self) {
        self.counters.failed_reloads.fetch_add(1, Ordering::Relaxed);
    }

    fn replace(&self, file: KeyFile) -> Reload {
        let before = self.table.load_full();
        let next = || KeyNumber(self.next_number.fetch_add(1, Ordering::Relaxed));
        let table = KeyTable::new(file, &before, next);
        let removed = before.keys.iter().map(|key| key.number);
        let removed = removed.filter(|number| table.find(*number).is_none()).collect();
        let keys = table.keys.len();
        self.table.store(Arc::new(table));
        Reload { keys, removed }
    }

    /// Sets the time of daily quotas, in seconds since 1970. Must be called about once a second.
    pub fn set_unix_time(&self, unix_s: u64) {
        self.unix_s.store(unix_s, Ordering::Relaxed);
    }

    pub(crate) fn unix_s(&self) -> u64 {
        self.unix_s.load(Ordering::Relaxed)
    }

    pub(crate) fn now(&self, monotonic: Duration) -> Now {
        Now { monotonic, unix_s: self.unix_s() }
    }

    /// Returns the key of a request; `None` for a client without one, if those are served. A wrong key is counted to
    /// `client`.
    pub fn authenticate(
        &self,
        credentials: &Credentials<'_>,
        client: u128,
        now: Duration,
    ) -> Result<Option<KeyNumber>, AuthError> {
        self.find_key(credentials).map_err(|err| {
            self.counters.unauthorized.fetch_add(1, Ordering::Relaxed);
            if !matches!(err, AuthError::Unknown | AuthError::TooLong) {
                return err;
            }
            let is_unused = |failures: &Failures| failures.is_unused(now);
            let counted = self.failing.with(client, now, is_unused, |failures| {
                failures.wrong_keys.try_take(FAILURES, 1, now)
            });
            match counted {
                Ok(()) => err,
                Err(retry_after) => {
                    self.counters.throttled.fetch_add(1, Ordering::Relaxed);
                    AuthError::Throttled { retry_after }
                }
            }
        })
    }

    fn find_key(&self, credentials: &Credentials<'_>) -> Result<Option<KeyNumber>, AuthError> {
        let table = self.table.load();
        let in_path = |key: &[u8]| table.find_hash(&KeyHash::of_key(key));
        let key = match credentials.key {
            Some(key) if key.len() > KEY_BYTES_MAX => return Err(AuthError::TooLong),
            Some(key) => Some(table.find_hash(&KeyHash::of_key(key)).ok_or(AuthError::Unknown)?),
            None => credentials.path.filter(|key| key.len() <= KEY_BYTES_MAX).and_then(in_path),
        };
        match key {
            Some(key) => check_rules(key, credentials).map(|()| Some(key.number)),
            None if table.anonymous.is_some() => Ok(None),
            None => Err(AuthError::Missing),
        }
    }

    /// Returns the key that the identity of a QUIC client counts as; `None` for a client without one, if those are
    /// served.
    pub fn authenticate_identity(&self, identity: &str) -> Result<Option<KeyNumber>, AuthError> {
        let table = self.table.load();
        match table.find_identity(identity) {
            Some(number) => Ok(Some(number)),
            None if table.anonymous.is_some() => Ok(None),
            None => Err(AuthError::Missing),
        }
    }

    /// Returns whether a key is in the table.
    pub fn contains(&self, number: KeyNumber) -> bool {
        self.table.load().find(number).is_some()
    }

    /// Returns a number that changes when the table changes.
    pub fn version(&self) -> u64 {
        self.counters.reloads.load(Ordering::Acquire)
    }

    /// Returns the name of a key, for the log.
    pub fn name(&self, number: KeyNumber) -> Option<String> {
        self.table.load().find(number).map(|key| key.name.to_string())
    }

    /// Charges a request with the methods that it calls, or refuses all of it. A client that is in no table is
    /// admitted: its key was removed after its request had come.
    pub fn admit<'m>(
        &self,
        caller: Caller,
        charge: Charge,
        methods: impl Iterator<Item = &'m str> + Clone,
        now: Duration,
    ) -> Result<(), LimitReached> {
        let now = self.now(now);
        let admitted = self.with_client(caller, now, |tier, state, usage| {
            let admitted = state.allowance.admit(tier, charge, methods, now);
            match admitted {
                Ok(()) => usage.record(charge.requests, charge.classes),
                Err(_) => usage.record_refused(charge.requests.max(1)),
            }
            admitted
        });
        admitted.unwrap_or(Ok(()))
    }

    /// Charges requests that are admitted unconditionally.
    pub fn charge(&self, caller: Caller, requests: u32, now: Duration) {
        let now = self.now(now);
        let charged = self.with_client(caller, now, |tier, state, usage| {
            state.allowance.charge(tier, requests, now);
            usage.record(requests, [0; 3]);
        });
        // `None`: the client has no tier.
        charged.unwrap_or_default();
    }

    /// Returns the delay of the response to a refused request; `None`: it is sent at once. Nothing else should be
    /// read from the connection meanwhile.
    pub fn delay_refusal(&self, caller: Caller, now: Duration) -> Option<Duration> {
        let delay = self.with_client(caller, self.now(now), |_, state, _| {
            state.refusals.take_delayed(REFUSALS, REFUSAL_DELAY_MAX, now)
        });
        let delay = delay.filter(|delay| !delay.is_zero())?;
        self.counters.delayed_refusals.fetch_add(1, Ordering::Relaxed);
        Some(delay)
    }

    /// Returns the delay of the response to a request that [`Self::authenticate`] refused; `None`: it is sent at once.
    /// Nothing else should be read from the connection meanwhile.
    pub fn delay_failure(&self, client: u128, now: Duration) -> Option<Duration> {
        let is_unused = |failures: &Failures| failures.is_unused(now);
        let delay = self.failing.with(client, now, is_unused, |failures| {
            failures.refusals.take_delayed(FAILURES, REFUSAL_DELAY_MAX, now)
        });
        if delay.is_zero() {
            return None;
        }
        self.counters.delayed_refusals.fetch_add(1, Ordering::Relaxed);
        Some(delay)
    }

    /// Returns whether a client may not call a method. The call is counted as refused then.
    pub fn denies(&self, caller: Caller, method: &str) -> bool {
        let table = self.table.load();
        let (tier, usage) = match caller {
            Caller::Key(number) => match table.find(number) {
                Some(key) => (&key.tier, &key.state.usage),
                None => return false,
            },
            Caller::Anonymous(_) => match &table.anonymous {
                Some(tier) => (tier, &self.anonymous_usage),
                None => return false,
            },
        };
        let denies = tier.denies(method);
        if denies {
            usage.record_refused(1);
        }
        denies
    }

    /// Returns whether a client may read `/metrics`.
    pub fn may_read_metrics(&self, caller: Caller) -> bool {
        let table = self.table.load();
        match caller {
            Caller::Key(number) => table.find(number).is_some_and(|key| key.tier.may_read_metrics),
            Caller::Anonymous(_) => table.anonymous.as_ref().is_some_and(|it| it.may_read_metrics),
        }
    }

    /// Returns the response bytes per second of a client; `None`: its tier has no limit of its own.
    pub fn bytes_per_s(&self, caller: Caller) -> Option<u64> {
        let table = self.table.load();
        match caller {
            Caller::Key(number) => table.find(number).and_then(|key| key.tier.bytes_per_s),
            Caller::Anonymous(_) => table.anonymous.as_ref().and_then(|tier| tier.bytes_per_s),
        }
    }

    /// Returns whether any tier limits bytes.
    pub fn limits_bytes(&self) -> bool {
        self.table.load().limits_bytes
    }

    /// Returns the state of a client's rate; `None` if it has no limit.
    pub fn rate_status(&self, caller: Caller, now: Duration) -> Option<RateStatus> {
        let now = self.now(now);
        let status = |tier: &Tier, state: &KeyState| {
            let (limit, remaining, until_full) = state.allowance.remaining(tier, now)?;
            let reset_s = until_full.as_nanos().div_ceil(1_000_000_000);
            Some(RateStatus {
                limit,
                remaining,
                reset_s: u64::try_from(reset_s).unwrap_or(u64::MAX),
            })
        };
        let table = self.table.load();
        match caller {
            Caller::Key(number) => table.find(number).and_then(|key| status(&key.tier, &key.state)),
            Caller::Anonymous(client) => {
                let tier = table.anonymous.as_ref()?;
                let found = self.anonymous.find(client, |state| status(tier, state));
                found.unwrap_or_else(|| status(tier, &KeyState::default()))
            }
        }
    }

    /// Returns a permit for a WebSocket.
    pub fn open_socket(&self, caller: Caller, now: Duration) -> Result<Permit, LimitReached> {
        let limit = ("WebSocket connections", "tiers.websocket_connections");
        self.open(caller, PermitKind::Socket, |tier| tier.websocket_connections, limit, now)
    }

    /// Returns a permit for a stream of gRPC.
    pub fn open_stream(&self, caller: Caller, now: Duration) -> Result<Permit, LimitReached> {
        let limit = ("gRPC streams", "tiers.grpc_streams");
        self.open(caller, PermitKind::Stream, |tier| tier.grpc_streams, limit, now)
    }

    fn open(
        &self,
        caller: Caller,
        kind: PermitKind,
        limit_of: impl FnOnce(&Tier) -> Option<u32>,
        (what, knob): (&'static str, &'static str),
        now: Duration,
    ) -> Result<Permit, LimitReached> {
        let opened = self.with_client(caller, self.now(now), |tier, state, usage| {
            let limit = limit_of(tier);
            Permit::try_acquire(state, kind, limit).ok_or_else(|| {
                usage.record_refused(1);
                let limit = limit.unwrap_or(u32::MAX).into();
                LimitReached { what, limit, knob, retry_after: Duration::ZERO, resets_at: None }
            })
        });
        opened.unwrap_or_else(|| Ok(Permit::new_uncounted()))
    }

    /// Counts the subscriptions of a socket.
    pub fn count_subscriptions(&self, caller: Caller, now: Duration) -> SubscriptionGauge {
        let state = self.with_client(caller, self.now(now), |_, state, _| Arc::clone(state));
        SubscriptionGauge::new(state)
    }

    /// Checks that a client may have one more subscription.
    pub fn admit_subscription(&self, caller: Caller, now: Duration) -> Result<(), LimitReached> {
        let admitted = self.with_client(caller, self.now(now), |tier, state, usage| {
            let Some(limit) = tier.subscriptions else { return Ok(()) };
            if state.subscriptions.load(Ordering::Relaxed) < limit {
                return Ok(());
            }
            usage.record_refused(1);
            Err(LimitReached {
                what: "subscriptions",
                limit: limit.into(),
                knob: "tiers.subscriptions",
                retry_after: Duration::ZERO,
                resets_at: None,
            })
        });
        admitted.unwrap_or(Ok(()))
    }

    /// Returns the heap bytes of the tables of clients without a key. The state behind an entry is as large as that
    /// of a key.
    pub(crate) fn client_bytes(&self) -> usize {
        let states = self.anonymous.len() * (size_of::<KeyState>() + 2 * size_of::<usize>());
        self.anonymous.bytes() + states + self.failing.bytes()
    }

    /// Calls `then` with the tier, the state and the usage of a client, if it has a tier.
    fn with_client<R>(
        &self,
        caller: Caller,
        now: Now,
        then: impl FnOnce(&Tier, &Arc<KeyState>, &Usage) -> R,
    ) -> Option<R> {
        let table = self.table.load();
        match caller {
            Caller::Key(number) => {
                let key = table.find(number)?;
                Some(then(&key.tier, &key.state, &key.state.usage))
            }
            Caller::Anonymous(client) => {
                let tier = table.anonymous.as_ref()?;
                let is_unused = |state: &Arc<KeyState>| {
                    Arc::strong_count(state) == 1 && state.allowance.is_unused(tier, now)
                };
                let then = |state: &Arc<KeyState>| then(tier, state, &self.anonymous_usage);
                Some(self.anonymous.with(client, now.monotonic, is_unused, then))
            }
        }
    }
}

/// Checks that a key may be used from the origin and the address of the request.
fn check_rules(key: &Key, credentials: &Credentials<'_>) -> Result<(), AuthError> {
    let Some(rules) = &key.rules else { return Ok(()) };
    let has_origin = |origin: &[u8]| rules.origins.iter().any(|it| it.as_bytes() == origin);
    if !rules.origins.is_empty() && !credentials.origin.is_some_and(has_origin) {
        return Err(AuthError::Origin);
    }
    let has_address = |address| rules.addresses.iter().any(|range| range.contains(address));
    if !rules.addresses.is_empty() && !credentials.address.is_some_and(has_address) {
        return Err(AuthError::Address);
    }
    Ok(())
}
