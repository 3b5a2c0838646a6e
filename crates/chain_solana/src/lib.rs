//! What a Solana ledger publishes beside its accounts, and the door through which it takes
//! transactions. A ledger (`localnet`, later a followed chain) writes here, servers (`rpc`) read.
//!
//! Not here: accounts (`query`, `solana`), execution (`localnet`), sockets (`rpc`).

mod block;
mod block_info;
mod cluster;
mod event;
mod history;
mod inflation;
mod signatures;
mod transaction_service;

use solana::Account;

pub use block::{AccountWrite, Block, ExecutedTransaction};
pub use block_info::{BLOCKHASHES_VALID, BlockInfo, BlockhashQueue, RECENT_BLOCKHASHES_MAX};
pub use cluster::ClusterInfo;
pub use event::{EventSink, LedgerEvent, Vote};
pub use history::{AddressSignature, History, HistoryLimits, HistorySnapshot};
pub use inflation::InflationSchedule;
pub use transaction_service::{
    AirdropError, QueueBound, SendError, Sender, Simulation, SimulationError, SimulationRequest,
    TransactionService, VerifiedTransaction, VerifyError,
};

/// The accounts of a Solana ledger, for whoever reads them.
pub type Reader = query::Reader<Account, BlockInfo>;
/// The accounts of a Solana ledger at one block.
pub type View = query::View<Account, BlockInfo>;
