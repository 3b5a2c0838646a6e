//! The read API, and the one writer behind it: the only door to the state and its indices.
//!
//! Shape: [`Ledger`] takes blocks and changes; [`Reader`] gives a [`View`] of one block at a
//! commitment. Readers see what was published, whole, and take no lock that the writer takes.
//! Bounds: addresses ([`LedgerConfig::addresses_max`]) and unrooted blocks ([`UNROOTED_MAX`]). A view
//! keeps its state alive: whoever holds one for long holds that memory.
//! Not here: what a record is (the dialect says), who may ask what and for how long (`pool`, `rpc`).
#![forbid(unsafe_code)]

mod batch;
mod changes;
#[cfg(test)]
mod changes_model;
mod highest;
mod indices;
mod keyed;
mod page;
mod prepare;
mod ranks;
mod touched;
mod usage;
mod view;
mod visit;
mod writer;

pub use address::{AddressRef, AddressTable, TableFull};
pub use changes::{Changes, Read, WATCHED_MAX};
pub use highest::Ranked;
pub use index::FacetUsage;
pub use indices::{IndexKeys, Indexed, Indices};
pub use page::{Cursor, Page, PageLimits, PageSearch, StaleCursor};
pub use ranks::RankBounds;
pub use state::{BlockError, UNROOTED_MAX};
pub use view::{Reader, View, Views};
pub use writer::{Ledger, LedgerBytes, LedgerConfig, LedgerError, LedgerUsage};
