//! What a Solana ledger publishes beside its accounts, and the door through which it takes
//! transactions. A ledger (`localnet`, later a followed chain) writes here, servers (`rpc`) read.
//!
//! Not here: accounts (`query`, `solana`), execution (`localnet`), sockets (`rpc`).

mod bank;
mod block;
mod cluster;
mod door;
mod event;
mod history;
mod inflation;
mod signatures;

use solana::Account;

pub use bank::{BLOCKHASHES_KEPT, BLOCKHASHES_VALID, Bank, BlockhashQueue};
pub use block::{AccountWrite, Block, Executed};
pub use cluster::Cluster;
pub use door::{
    AirdropError, QueueBound, SendError, Sender, Simulation, SimulationError, SimulationRequest,
    TransactionDoor, VerifiedTransaction, VerifyError,
};
pub use event::{Event, EventSink, Vote};
pub use history::{AddressEntry, History, HistoryLimits, HistorySnapshot};
pub use inflation::InflationSchedule;

/// The accounts of a Solana ledger, for whoever reads them.
pub type Reader = query::Reader<Account, Bank>;
/// The accounts of a Solana ledger at one block.
pub type View = query::View<Account, Bank>;
