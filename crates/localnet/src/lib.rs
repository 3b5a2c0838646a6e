//! An embedded Solana ledger: executes transactions, makes slots and blocks, keeps them.
//!
//! Shape: [`open`] makes or reads a ledger, [`load_snapshot`] and [`open_snapshot`] make one of a snapshot, [`Localnet::start`] runs it on one thread of its own.
//! It writes accounts through `query`, blocks through `chain`, and takes transactions through its
//! [`chain::TransactionDoor`].
//! Invariant: reads never wait for execution, and execution never for reads.
//! Not here: sockets (`rpc`), JSON (`solana`), flags (`hydrant`).

mod chain_clock;
mod config;
mod cost;
mod door;
mod epoch;
mod executor;
mod features;
mod fees;
mod filling;
mod from_snapshot;
mod genesis;
mod genesis_accounts;
mod held;
mod keys;
mod loading;
mod meta;
mod nonce;
mod open;
mod open_block;
mod payouts;
mod precompiles;
mod programs;
mod queue;
mod restore;
mod simulator;
mod stakes;
mod statuses;
pub mod store;
mod sysvars;
mod vm;
mod vote;
mod work;
mod working_set;

pub use config::{
    ADDRESSES_MAX_DEFAULT, Config, ConfigError, FINALIZE_AFTER_DEFAULT, FeatureBase, FeatureChoice,
    GenesisAccount, GenesisLoader, GenesisProgram, HISTORY_BYTES_DEFAULT, HISTORY_SLOTS_DEFAULT,
    QUEUE_COMPUTE_UNITS_MAX_DEFAULT, QUEUE_COMPUTE_UNITS_MAX_LEAST, QUEUE_MAX_DEFAULT,
    SLOT_MS_DEFAULT, SLOTS_PER_EPOCH_DEFAULT, WARP_SLOT_MAX,
};
pub use executor::ExecutorError;
pub use features::FeatureError;
pub use from_snapshot::{LoadedSnapshot, load_snapshot};
pub use genesis::GenesisError;
pub use genesis_accounts::{AccountSource, SLOTS_PER_EPOCH_MAX, SourceError, check_account};
pub use keys::{KeyError, NodeKeys, read_keypair};
pub use open::{
    LOG_FILE, Localnet, LocalnetError, Running, check, holds_ledger, open, open_snapshot,
    open_snapshot_with, open_with, remove,
};
pub use queue::{Load, QueueStats, TransactionQueue};
pub use store::StoreError;
pub use work::Work;
