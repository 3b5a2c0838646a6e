//! The read API of a ledger, and its one writer: the only access to the state and its indices.
//!
//! Shape: [`Ledger`] applies blocks and changes; [`Reader`] returns a [`View`] of one block at a
//! commitment. Readers see each publish as a whole, and take no lock that the writer takes.
//! Bounds: addresses ([`LedgerConfig::addresses_max`]) and unrooted blocks ([`UNROOTED_MAX`]). A view
//! holds its state in memory as long as it lives.
//! Not here: the meaning of a record (the chain's implementation), limits and scheduling of reads (`cpu_pool`, `jsonrpc`).
#![forbid(unsafe_code)]

mod address_resolver;
mod base_records;
mod batch_read;
mod block_writes;
mod change_tracker;
#[cfg(test)]
mod change_tracker_tests;
mod index_config;
mod key_query;
mod ledger_memory;
mod ledger_writer;
mod memory_usage;
mod page;
mod publish_wakers;
mod published;
mod rank_index;
mod resolve_changes;
mod scan;
mod top_records;
mod view;

pub use address::{AddressRef, AddressTable, TableFull};
pub use base_records::BaseRecords;
pub use change_tracker::{ChangeTracker, Dependency, WATCHED_MAX};
pub use index::KeyKindUsage;
pub use index_config::{IndexConfig, IndexCoverage, IndexKeyFilter};
pub use ledger_memory::LedgerMemory;
pub use ledger_writer::{Ledger, LedgerConfig, LedgerError, LedgerUsage, Retired};
pub use page::{Cursor, Page, PageLimits, PageSearch, StaleCursor};
pub use publish_wakers::PublishWakers;
pub use rank_index::RankBounds;
pub use scan::WrittenRecord;
pub use state::{BlockError, UNROOTED_MAX};
pub use top_records::RankedRecord;
pub use view::{CommitmentViews, Reader, View};
