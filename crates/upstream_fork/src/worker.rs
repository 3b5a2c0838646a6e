//! The threads that fetch: they take requests, look into the cache, ask the upstream, and hand accounts to the ledger.
//!
//! Order of one request: scan what is missing, claim it, fetch it, hand it over, scan again, until nothing is missing.
//! Another thread that needs a claimed address waits for its result.
//! Bounds: the request's deadline; [`ROUNDS_MAX`] rounds.
//! Invariant: a thread waits for other claims only while it has none.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use chain_solana::{
    AdoptedAccount, ControlCommand, ControlError, FetchError, LedgerControl, Reader,
};
use clients::ClientId;
use foldhash::quality::RandomState;
use ledger::Commitment;
use parking_lot::{Condvar, Mutex};
use solana_pubkey::Pubkey;

use crate::cache::{CachedAccount, DiskCache};
use crate::counters::Counters;
use crate::fetch_queue::{FetchQueue, Fetched, QueuedFetch};
use crate::localize::localize;
use crate::needs::Scan;
use crate::registry::Registry;
use crate::upstream::{Link, Upstream, now};

/// Fetches of one request, each of what the one before showed to be missing: accounts, then what tables list, then code
/// and mints. Other requests may forget accounts meanwhile.
const ROUNDS_MAX: usize = 16;
/// How long a thread waits between two looks whether the ledger has written what another thread handed to it.
const ARRIVAL_POLL_INTERVAL: Duration = Duration::from_millis(5);

pub(crate) struct Shared {
    pub(crate) registry: Arc<Registry>,
    pub(crate) fetches: FetchQueue,
    pub(crate) upstream: Upstream,
    pub(crate) cache: Option<Mutex<DiskCache>>,
    /// With the records of the registry below its own.
    pub(crate) reader: Reader,
    pub(crate) control: Arc<dyn LedgerControl>,
    pub(crate) counters: Counters,
    pub(crate) claims: Claims,
    pub(crate) timeout: Duration,
}

/// Addresses that are being fetched.
#[derive(Default)]
pub(crate) struct Claims {
    keys: Mutex<HashSet<Pubkey, RandomState>>,
    released: Condvar,
}

/// Claimed addresses. They are released when this is dropped.
struct Claim<'a> {
    claims: &'a Claims,
    keys: Vec<Pubkey>,
}

impl Claims {
    /// Claims those that no other thread has; `None` if it has all of them.
    fn claim(&self, wanted: &[Pubkey]) -> Option<Claim<'_>> {
        let mut claimed = self.keys.lock();
        let keys: Vec<_> = wanted.iter().copied().filter(|key| claimed.insert(*key)).collect();
        (!keys.is_empty()).then_some(Claim { claims: self, keys })
    }

    /// Waits until something is released, or for an interval.
    fn wait(&self, until: Instant) {
        let mut claimed = self.keys.lock();
        self.released.wait_until(&mut claimed, until);
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut claimed = self.claims.keys.lock();
        self.keys.iter().for_each(|key| {
            claimed.remove(key);
        });
        drop(claimed);
        self.claims.released.notify_all();
    }
}

/// Fetches for one request after the other, until the queue is closed.
pub(crate) fn run(shared: &Shared, mut link: Link) {
    while let Some(fetch) = shared.fetches.pop() {
        if fetch.end.is_abandoned() {
            shared.fetches.finish(fetch.client);
            continue;
        }
        // A bug of ours ends only this request.
        let fetched = catch_unwind(AssertUnwindSafe(|| shared.fetch(&fetch, &mut link)));
        let result = fetched.unwrap_or_else(|_| Err(ControlError::Panicked.into()));
        if let Err(err) = &result {
            shared.counters.count_failed_request();
            tracing::warn!(%err, "accounts of the upstream could not be fetched");
        }
        shared.fetches.finish(fetch.client);
        fetch.end.send(result);
    }
}

impl Shared {
    /// Scans what is missing for a request.
    pub(crate) fn scan<T>(
        &self,
        add: impl FnOnce(&mut Scan<'_>),
        read: impl FnOnce(&Scan<'_>) -> T,
    ) -> T {
        let view = self.reader.view(Commitment::Processed);
        let mut scan = Scan::new(&self.registry, &view);
        add(&mut scan);
        if scan.is_complete() {
            // What the ledger has itself is not fetched once it was closed.
            self.registry.mark_local(&scan.local);
        }
        read(&scan)
    }

    fn fetch(&self, fetch: &QueuedFetch, link: &mut Link) -> Fetched {
        let is_late_start = now() >= fetch.deadline;
        let mut rounds = 0;
        loop {
            let (missing, is_complete) = self.scan(
                |scan| scan.add(&fetch.request),
                |scan| (scan.missing.clone(), scan.is_complete()),
            );
            if is_complete {
                return Ok(());
            }
            if is_late_start {
                let why = "it waited in the queue: all threads were busy (--fork-requests-max), \
                           or the client is above --fork-client-calls-per-s";
                return Err(self.timed_out(why));
            }
            if now() >= fetch.deadline || rounds >= ROUNDS_MAX {
                return Err(self.timed_out("other requests for the same accounts took as long"));
            }
            match self.claims.claim(&missing) {
                None => self.claims.wait(fetch.deadline.min(now() + ARRIVAL_POLL_INTERVAL)),
                Some(claim) => {
                    rounds += 1;
                    // Another thread may have fetched them between the scan and the claim.
                    let unknown = |key: &&Pubkey| {
                        self.registry.knowledge(key) == crate::registry::Knowledge::Unknown
                    };
                    let keys: Vec<_> = claim.keys.iter().filter(unknown).copied().collect();
                    self.take_over(&keys, fetch, link)?;
                }
            }
        }
    }

    /// Fetches accounts, and waits until the ledger has written them.
    fn take_over(&self, keys: &[Pubkey], fetch: &QueuedFetch, link: &mut Link) -> Fetched {
        let deadline = fetch.deadline;
        let mut found: Vec<CachedAccount> = match &self.cache {
            Some(cache) => {
                let cache = cache.lock();
                keys.iter().filter_map(|key| cache.get(key)).collect()
            }
            None => Vec::new(),
        };
        self.counters.count_cache_hits(found.len());
        let cached: HashSet<Pubkey, RandomState> = found.iter().map(|it| it.pubkey).collect();
        let keys: Vec<_> = keys.iter().filter(|key| !cached.contains(key)).copied().collect();
        if !keys.is_empty() {
            let charge = || self.fetches.charge_call(fetch.client);
            let fetched = self.upstream.accounts(link, &self.counters, deadline, &keys, &charge)?;
            self.store(&fetched);
            found.extend(fetched);
        }
        let local = found.into_iter().map(|it| (it.pubkey, it.account.and_then(localize)));
        let adopted = self.registry.mark_fetched(local.collect())?;
        let result = self.hand_over(&adopted, deadline);
        if result.is_err() {
            self.registry.forget(adopted.iter().map(|it| it.pubkey()));
        }
        result
    }

    fn store(&self, fetched: &[CachedAccount]) {
        let Some(cache) = &self.cache else { return };
        match cache.lock().put(fetched) {
            Ok(left_out) => self.counters.count_left_out(left_out),
            Err(err) => {
                self.counters.count_left_out(fetched.len());
                tracing::error!(%err, "accounts could not be stored in the cache of the fork");
            }
        }
    }

    fn hand_over(&self, adopted: &[Arc<AdoptedAccount>], deadline: Instant) -> Fetched {
        if adopted.is_empty() {
            return Ok(());
        }
        loop {
            match self.control.control(ClientId::INTERNAL, ControlCommand::Adopt(adopted.to_vec()))
            {
                Ok(call) => {
                    let done = call.wait().unwrap_or(Err(ControlError::Closed));
                    return done.map(drop).map_err(FetchError::from);
                }
                Err(ControlError::QueueFull { .. }) if now() < deadline => {
                    self.claims.wait(deadline.min(now() + ARRIVAL_POLL_INTERVAL));
                }
                Err(err) => return Err(err.into()),
            }
        }
    }

    fn timed_out(&self, why: &str) -> FetchError {
        FetchError::TimedOut {
            upstream: self.upstream.name().to_owned(),
            timeout_ms: u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX),
            why: why.to_owned(),
        }
    }

    /// Accounts and bytes of the cache on disk.
    pub(crate) fn cache_usage(&self) -> (u64, u64) {
        let usage = |cache: &Mutex<DiskCache>| {
            let cache = cache.lock();
            (cache.len() as u64, cache.bytes())
        };
        self.cache.as_ref().map_or((0, 0), usage)
    }

    /// Bytes of the maps.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let cache = self.cache.as_ref().map_or(0, |cache| cache.lock().memory_bytes());
        cache + self.registry.memory_bytes()
    }
}
