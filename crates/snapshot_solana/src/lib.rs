//! Snapshot archives as Agave 4 writes them: read as a stream, checked whole, newest accounts kept.
//!
//! Shape: [`load`] takes a full archive and perhaps an incremental one, puts every account as of its slot
//! into the caller's [`AccountSink`], and gives a [`Snapshot`]: the bank's fields and what the accounts come to.
//! [`StreamState`] may be watched from another thread.
//! Bounds: beside the table a few batches of about a megabyte each for every thread, and 8 bytes for each
//! of the table's numbers.
//! Invariant: what is loaded is what the validator had. The lattice hash over all accounts, their
//! lamports and the bank hash are computed here and compared with what the archive says of itself.
//! Not here: making a ledger of it (`localnet`), terminals (`hydrant`), writing archives.

mod account_versions;
mod append_vec;
mod archive;
mod archive_name;
mod bank_fields;
mod bincode_reader;
mod error;
mod load;
mod lt_hash;
mod progress;
mod summary;

pub use account_versions::{AccountSink, AccountSinkError};
pub use bank_fields::BankFields;
pub use error::{ArchiveOffset, SnapshotError};
pub use load::{Snapshot, load};
pub use progress::Progress;
pub use summary::{LargestAccount, ProgramHoldings, Summary};
