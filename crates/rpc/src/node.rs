//! Everything that a method may read or do, in one place.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use chain::{Cluster, History, Reader, TransactionDoor};
use pool::{ClientId, Clients, Pool, TooMany};

use crate::{Answers, Config};

/// The node as its methods see it.
pub struct Node {
    /// What never changes while the node runs.
    pub cluster: Arc<Cluster>,
    /// Accounts and block facts, at each commitment.
    pub reader: Reader,
    /// Blocks, transactions, signatures by address.
    pub history: Arc<History>,
    /// Where transactions go in.
    pub door: Arc<dyn TransactionDoor>,
    /// Where whatever is not cheap runs.
    pub pool: Arc<Pool>,
    /// Answers that are still good.
    pub answers: Arc<Answers>,
    /// What each client has had.
    pub clients: Arc<Clients>,
    /// How the ledger is, as `getHealth` and `GET /health` tell.
    pub health: Arc<Health>,
    /// Limits.
    pub config: Config,
}

impl Node {
    /// Counts bytes that go to a client.
    pub(crate) fn charge(&self, client: ClientId, bytes: usize) {
        if self.clients.counts_bytes() {
            self.clients.charge(client, bytes as u64, self.pool.now());
        }
    }

    /// Takes requests of a client's share.
    pub(crate) fn admit(&self, client: ClientId, requests: usize) -> Result<(), TooMany> {
        if self.clients.has_limits() {
            let requests = u32::try_from(requests).unwrap_or(u32::MAX);
            return self.clients.admit(client, requests, self.pool.now());
        }
        Ok(())
    }
}

/// How the ledger is. Set by whoever feeds it, read by anyone; starts as [`Status::Ok`].
#[derive(Debug, Default)]
pub struct Health(AtomicU64);

/// What a health check is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The state is as fresh as it can be.
    Ok,
    /// The state is so many slots behind its source.
    Behind {
        /// How many; at least 1.
        slots: u64,
    },
    /// Nobody can say.
    Unknown,
}

impl Health {
    /// Tells how the ledger is.
    pub fn set(&self, status: Status) {
        let word = match status {
            Status::Ok => 0,
            Status::Behind { slots } => slots.clamp(1, u64::MAX - 1),
            Status::Unknown => u64::MAX,
        };
        self.0.store(word, Ordering::Relaxed);
    }

    /// How the ledger is.
    pub fn status(&self) -> Status {
        match self.0.load(Ordering::Relaxed) {
            0 => Status::Ok,
            u64::MAX => Status::Unknown,
            slots => Status::Behind { slots },
        }
    }
}

/// Time for [`Pool`]: the system's, from its making on.
pub struct SystemClock(Instant);

impl SystemClock {
    /// Now is 0.
    #[expect(clippy::disallowed_methods, reason = "where time enters the pool")]
    pub fn new() -> Self {
        Self(Instant::now())
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl pool::Clock for SystemClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}
