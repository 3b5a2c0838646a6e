//! Snapshot archives as Agave 4 writes them: read as a stream, checked whole, newest accounts kept.
//!
//! Shape: [`load`] takes a full archive and perhaps an incremental one, puts every account as of its slot
//! into the caller's [`Table`], and gives a [`Snapshot`]: the bank's fields and what the accounts come to.
//! [`Progress`] may be watched from another thread.
//! Bounds: beside the table a few batches of about a megabyte each for every thread, and 8 bytes for each
//! of the table's numbers.
//! Invariant: what is loaded is what the validator had. The lattice hash over all accounts, their
//! lamports and the bank hash are computed here and compared with what the archive says of itself.
//! Not here: making a ledger of it (`localnet`), terminals (`hydrant`), writing archives.

mod accounts;
mod archive;
mod bank;
mod error;
mod fields;
mod lattice;
mod load;
mod name;
mod progress;
mod storage;
mod summary;

pub use accounts::{Table, TableError};
pub use bank::BankFields;
pub use error::{Place, SnapshotError};
pub use load::{Snapshot, load};
pub use progress::Progress;
pub use summary::{Holding, Largest, Summary};
