//! The fork: its start, and what other parts call.
//!
//! Shape: [`UpstreamFork::connect`] checks which cluster the upstream is, and opens the cache. [`ConnectedFork::start`]
//! starts the fetching threads once the ledger is open. They end when the fork is dropped.
//! An upstream that does not respond at the start is not an error if the cache has its cluster: what is in the cache is served,
//! and the upstream is checked when it answers.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use chain_solana::{
    AccountsRequest, FetchCall, FetchError, LedgerControl, Reader, RemoteAccounts, StartPoint,
    pending,
};
use clients::ClientId;
use parking_lot::Mutex;
use solana_hash::Hash;
use solana_pubkey::Pubkey;
use solana_transaction::versioned::VersionedTransaction;

use crate::cache::{self, DiskCache};
use crate::config::Config;
use crate::counters::Counters;
use crate::error::UpstreamForkError;
use crate::fetch_queue::{ClientLimits, FetchQueue, FetchReply, Fetched, QueuedFetch};
use crate::needs::Scan;
use crate::registry::Registry;
use crate::start::{self, StartError};
use crate::upstream::{Link, Upstream, now};
use crate::worker::{self, Claims, Shared};

/// A fork whose upstream is known.
pub struct ConnectedFork {
    upstream: Upstream,
    cache: Option<DiskCache>,
    config: Config,
    genesis: Hash,
    slot: u64,
    failure: Option<FetchError>,
    start: Result<StartPoint, StartError>,
}

/// The fork of another cluster.
pub struct UpstreamFork {
    shared: Arc<Shared>,
}

impl UpstreamFork {
    /// Checks the upstream, and opens the cache. It blocks.
    pub fn connect(config: Config) -> Result<ConnectedFork, UpstreamForkError> {
        let upstream = Upstream::new(&config.url, config.slot, config.timeout_ms);
        let mut link = Link::new().map_err(UpstreamForkError::Thread)?;
        let deadline = now() + Duration::from_millis(config.timeout_ms);
        let identified = upstream.identify(&mut link, &Counters::default(), deadline);
        let (genesis, slot, failure) = match identified {
            Ok((genesis, slot)) => (genesis, slot, None),
            Err(err) => (offline_genesis(&config, &err)?, 0, Some(err)),
        };
        if let Some(expected) = config.genesis.filter(|expected| *expected != genesis) {
            let upstream = upstream.name().to_owned();
            let found = genesis.to_string();
            let expected = expected.to_string();
            return Err(UpstreamForkError::OtherCluster { upstream, found, expected });
        }
        upstream.set_genesis(genesis);
        let limits = (config.slot, config.bytes_max);
        let open = |dir: &Path| DiskCache::open(dir, &genesis, limits);
        let mut cache = config.cache_dir.as_deref().map(open).transpose()?;
        let cached = cache.as_ref().and_then(DiskCache::newest_slot).unwrap_or(0);
        // With those of the cache, no account is older than another one by more than the cluster's finality.
        let slot = slot.max(cached);
        upstream.set_min_slot(config.slot.map_or(slot, |pin| slot.min(pin)));
        let fetched = match &failure {
            Some(err) => Err(err.clone()),
            None => {
                // No client waits for them.
                let charge = || ();
                let sysvars = &start::SYSVARS;
                upstream.accounts(&mut link, &Counters::default(), deadline, sysvars, &charge)
            }
        };
        let start = start::start_point(fetched, cache.as_mut());
        Ok(ConnectedFork { upstream, cache, config, genesis, slot, failure, start })
    }

    /// Whether a transaction names accounts that are missing.
    pub(crate) fn is_missing_for(&self, transaction: &VersionedTransaction) -> bool {
        let add = |scan: &mut Scan<'_>| scan.add_transaction(transaction);
        !self.shared.scan(add, |scan| scan.is_complete())
    }

    /// Fetches what is missing for a request, then calls `end`.
    pub(crate) fn push(
        &self,
        client: ClientId,
        request: AccountsRequest,
        end: FetchReply,
    ) -> Result<(), FetchError> {
        let deadline = now() + self.shared.timeout;
        self.shared.fetches.push(QueuedFetch { client, request, deadline, end })
    }

    /// Reads accounts of the ledger. A view of an older block sees fetched accounts as they were fetched.
    pub fn reader(&self) -> &Reader {
        &self.shared.reader
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

impl ConnectedFork {
    /// Starts the threads that fetch accounts for the ledger of `reader`.
    pub fn start(
        self,
        reader: Reader,
        control: Arc<dyn LedgerControl>,
    ) -> Result<Arc<UpstreamFork>, UpstreamForkError> {
        let Self { upstream, cache, config, .. } = self;
        let registry = Arc::new(Registry::new(config.bytes_max));
        let limits = ClientLimits {
            calls_per_s: config.client_calls_per_s,
            running_max: config.requests_max.saturating_sub(1).max(1),
        };
        let base = Arc::clone(&registry) as Arc<dyn query::BaseRecords<solana::Account>>;
        let shared = Arc::new(Shared {
            registry,
            fetches: FetchQueue::new(limits),
            upstream,
            cache: cache.map(Mutex::new),
            reader: reader.with_base(base),
            control,
            counters: Counters::default(),
            claims: Claims::default(),
            timeout: Duration::from_millis(config.timeout_ms),
        });
        let fork = Arc::new(UpstreamFork { shared });
        for _ in 0..config.requests_max {
            let shared = Arc::clone(&fork.shared);
            let link = Link::new().map_err(UpstreamForkError::Thread)?;
            let thread = std::thread::Builder::new().name("fork".into());
            thread.spawn(move || worker::run(&shared, link)).map_err(UpstreamForkError::Thread)?;
        }
        Ok(fork)
    }

    /// The genesis hash of the upstream.
    pub fn genesis(&self) -> Hash {
        self.genesis
    }

    /// The host of the upstream.
    pub fn upstream(&self) -> &str {
        self.upstream.name()
    }

    /// The slot of the upstream at the start, or of the newest account in the cache.
    pub fn slot(&self) -> u64 {
        self.slot
    }

    /// Slot, time and epochs of the upstream, or as the cache has them.
    pub fn start_point(&self) -> Result<&StartPoint, &StartError> {
        self.start.as_ref()
    }

    /// Accounts in the cache, without the sysvars of [`Self::start_point`].
    pub fn cached_accounts(&self) -> usize {
        let sysvars =
            |cache: &DiskCache| start::SYSVARS.iter().filter(|key| cache.has(key)).count();
        self.cache.as_ref().map_or(0, |cache| cache.len() - sysvars(cache))
    }

    /// Why the upstream did not answer, if it did not.
    pub fn failure(&self) -> Option<&FetchError> {
        self.failure.as_ref()
    }
}

/// The cluster of the cache, if the upstream does not answer.
fn offline_genesis(config: &Config, err: &FetchError) -> Result<Hash, UpstreamForkError> {
    let Some(dir) = &config.cache_dir else { return Err(UpstreamForkError::Upstream(err.clone())) };
    let clusters = cache::clusters(dir);
    if let Some(genesis) = config.genesis {
        return if clusters.contains(&genesis) {
            Ok(genesis)
        } else {
            Err(UpstreamForkError::Upstream(err.clone()))
        };
    }
    match clusters.as_slice() {
        [] => Err(UpstreamForkError::Upstream(err.clone())),
        [genesis] => Ok(*genesis),
        all => Err(UpstreamForkError::Ambiguous { dir: dir.clone(), clusters: all.len() }),
    }
}

impl RemoteAccounts for UpstreamFork {
    fn is_missing(&self, request: &AccountsRequest) -> bool {
        !self.shared.scan(|scan| scan.add(request), |scan| scan.is_complete())
    }

    fn request(
        &self,
        client: ClientId,
        request: AccountsRequest,
    ) -> Result<Option<FetchCall>, FetchError> {
        if !self.is_missing(&request) {
            return Ok(None);
        }
        let (call, reply) = pending::<Fetched>();
        self.push(client, request, FetchReply::Reply(reply))?;
        Ok(Some(call))
    }

    fn is_upstreams(&self, pubkey: &Pubkey) -> bool {
        self.shared.registry.is_upstreams(pubkey)
    }

    fn forget(&self, pubkey: &Pubkey) {
        self.shared.registry.forget([*pubkey]);
    }

    fn forget_all(&self) {
        self.shared.registry.forget_all();
    }

    fn set_offline(&self, pubkey: Pubkey, with_owned: bool) -> Result<(), FetchError> {
        self.shared.registry.set_offline(pubkey, with_owned)
    }
}

impl Drop for UpstreamFork {
    fn drop(&mut self) {
        self.shared.fetches.close();
    }
}
