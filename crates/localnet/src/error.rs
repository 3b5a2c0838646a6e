//! Why a ledger could not be created or opened, and why it ended.

use ledger::Slot;
use query::LedgerError;
use solana_pubkey::Pubkey;
use store::StoreError;

use crate::config::{ConfigError, HEAD_SLOT_MAX};
use crate::executor::ExecutorError;
use crate::features::FeatureError;
use crate::keypairs::KeyError;

/// Why a ledger could not be opened, or why it ended.
#[derive(Debug, thiserror::Error)]
pub enum LocalnetError {
    /// A setting is out of its range.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The ledger's newest block leaves too few slots for the next ones: an older version warped it there.
    #[error(
        "the ledger's newest block is at slot {slot}, and a ledger past slot {HEAD_SLOT_MAX} is not opened (start with --reset)"
    )]
    NoSlotLeft {
        /// The slot of its newest block.
        slot: Slot,
    },
    /// The genesis is invalid.
    #[error(transparent)]
    Genesis(#[from] GenesisError),
    /// The accounts of a new ledger have too many bytes. Fix: raise the limit.
    #[error("the accounts have {bytes} bytes, at most {limit} (--account-bytes-max)")]
    AccountBytes {
        /// Bytes of the accounts.
        bytes: u64,
        /// The limit of the bytes.
        limit: u64,
    },
    /// The ledger cannot have the features that were chosen.
    #[error(transparent)]
    Features(#[from] FeatureError),
    /// The source of genesis accounts failed.
    #[error(transparent)]
    Source(SourceError),
    /// A keypair file of the ledger directory is invalid.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The store of the ledger directory failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The ledger has no space for its own accounts.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The ledger directory contains a ledger that this version cannot read.
    #[error("{dir} holds a ledger that this version cannot read: {reason} (start with --reset)")]
    Foreign {
        /// Which directory.
        dir: String,
        /// What was wrong.
        reason: String,
    },
    /// The directory has the state of a followed chain. Fix: name another directory.
    #[error("{dir} holds the state of hydrant follow: give --ledger a directory of its own")]
    Followed {
        /// Which directory.
        dir: String,
    },
    /// Another process has the ledger directory open. Fix: stop it, or name another directory.
    #[error("ledger {dir} is in use by {user}; fix: stop it, or name another directory (--ledger)")]
    InUse {
        /// Which directory.
        dir: String,
        /// The other process as far as known: `process 123`.
        user: String,
    },
    /// The directory contains a ledger, so no ledger is made there from a snapshot.
    #[error("{dir} holds a ledger already: a snapshot makes a new one (start with --reset)")]
    Exists {
        /// Which directory.
        dir: String,
    },
    /// The directory could not be created.
    #[error("ledger directory {dir}")]
    Dir {
        /// Which directory.
        dir: String,
        /// The system's error.
        #[source]
        err: std::io::Error,
    },
    /// The executing thread could not be started.
    #[error("executing thread")]
    Thread(#[source] std::io::Error),
    /// The executing thread failed.
    #[error(transparent)]
    Executor(#[from] ExecutorError),
    /// The executing thread panicked; that is our bug.
    #[error("the executing thread panicked")]
    Panicked,
}

/// The genesis is invalid.
#[derive(Debug, thiserror::Error)]
pub enum GenesisError {
    /// The VM does not accept a program's ELF.
    #[error("program {program_id} does not load: {reason}")]
    Program {
        /// Which program.
        program_id: Pubkey,
        /// The VM's error.
        reason: String,
    },
    /// A snapshot lacks an account that the next block needs.
    #[error("the snapshot has no usable {0}")]
    Incomplete(&'static str),
    /// Together with the node's own accounts there are more lamports than fit into a `u64`.
    #[error("the snapshot's lamports and those of the node's own accounts exceed a u64")]
    TooManyLamports,
    /// A sysvar of the genesis accounts is invalid.
    #[error("sysvar {address}: {reason}")]
    Sysvar {
        /// Which sysvar.
        address: Pubkey,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The accounts together have too many lamports: inflation could exceed a `u64`.
    #[error("the genesis accounts have {lamports} lamports together, at most {max}")]
    Lamports {
        /// Lamports of all genesis accounts.
        lamports: u128,
        /// The limit.
        max: u64,
    },
    /// Making the first block panicked, which is a bug of ours or of the VM.
    #[error("making the first block panicked: {0}")]
    Panicked(String),
    /// An epoch is too short.
    #[error("an epoch has at least 32 slots, not {0} (--slots-per-epoch)")]
    EpochTooShort(u64),
}

/// Why a source of accounts failed.
pub type SourceError = Box<dyn std::error::Error + Send + Sync>;
