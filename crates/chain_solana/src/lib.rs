//! What a Solana ledger publishes besides its accounts, and the service that receives its
//! transactions. A ledger (`localnet`, later a followed chain) writes here; servers (`rpc`) read.
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

/// A reader of a Solana ledger's accounts.
pub type Reader = query::Reader<Account, BlockInfo>;
/// The accounts of a Solana ledger at one block.
pub type View = query::View<Account, BlockInfo>;
