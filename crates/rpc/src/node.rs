//! Everything that a method may read or do, in one place.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use chain::{Cluster, History, Reader, TransactionDoor};
use pool::Pool;

use crate::Config;

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
    /// Where heavy reads run.
    pub pool: Arc<Pool>,
    /// How the ledger is, as `getHealth` and `GET /health` tell.
    pub health: Arc<Health>,
    /// Limits.
    pub config: Config,
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
