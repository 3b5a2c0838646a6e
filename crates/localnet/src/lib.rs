//! An embedded Solana ledger: executes transactions, makes slots and blocks, stores them.
//!
//! Shape: [`open`] makes or reads a ledger, [`open_snapshot`] makes one from a
//! [`snapshot_ledger::LoadedSnapshot`], and
//! [`Localnet::start`] runs it on its own thread. It writes accounts through `query` and blocks through
//! `chain_solana`, and takes transactions as a [`chain_solana::TransactionSender`].
//! Invariant: reads never wait for execution, and execution never for reads.
//! Not here: sockets (`http_server`), JSON (`solana`), flags (`hydrant`).

mod account_bytes;
mod accounts_sum;
mod adopted_accounts;
mod adoption;
mod airdrop_limits;
mod baseline;
mod block_builder;
mod bundles;
mod chain_clock;
mod checkpoints;
mod code_charge;
mod config;
mod control;
mod cost;
mod directory;
mod epoch;
mod error;
mod executor;
mod executor_blocks;
mod executor_events;
mod executor_metrics;
mod executor_retries;
mod executor_transactions;
mod faucet;
mod features;
mod fees;
mod fork_control;
mod forks;
mod from_snapshot;
mod genesis;
mod genesis_accounts;
mod hidden_statuses;
mod keypairs;
mod local_control;
mod localnet;
mod payouts;
mod programs;
mod proof_of_history;
mod queue;
mod restore;
mod retries;
mod simulator;
mod status_cache;
mod vote;

pub use account_bytes::AccountBytes;
pub use airdrop_limits::AirdropLimits;
pub use config::{
    ADDRESSES_MAX_DEFAULT, BASELINE_BYTES_MAX_DEFAULT, Config, ConfigError, FINALIZE_AFTER_DEFAULT,
    FeatureBase, FeatureChoice, GenesisAccount, GenesisLoader, GenesisProgram,
    HISTORY_BYTES_DEFAULT, HISTORY_SLOTS_DEFAULT, QUEUE_COMPUTE_UNITS_MAX_DEFAULT,
    QUEUE_COMPUTE_UNITS_MAX_MIN, QUEUE_MAX_DEFAULT, SLOT_MS_DEFAULT, SLOTS_PER_EPOCH_DEFAULT,
    WARP_SLOT_MAX,
};
pub use directory::{
    NotRemoved, check_directory, contains_agave_ledger, empty_directory, reset_directory,
};
pub use error::{GenesisError, LocalnetError, SourceError};
pub use executor::ExecutorError;
pub use executor_metrics::ExecutorMetrics;
pub use faucet::{AirdropRequest, LocalFaucet};
pub use features::FeatureError;
pub use genesis_accounts::{GenesisAccountSource, SLOTS_PER_EPOCH_MAX, check_account};
pub use keypairs::{KeyError, NodeKeypairs, read_keypair};
pub use localnet::{
    ADMIN_SOCKET, LOG_FILE, Localnet, LocalnetHandle, SNAPSHOTS_DIR, check, contains_ledger, open,
    open_snapshot, open_snapshot_with, open_with,
};
pub use programs::{ProgramFault, program_faults};
pub use queue::{CallKind, CallStats, QueueStats, QueuedLoad, RetryStats, TransactionQueue};
pub use svm::RuntimeLimits;
