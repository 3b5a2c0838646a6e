//! Snapshot archives as Agave 4 writes them: read as a stream, checked whole, newest accounts kept.
//!
//! Shape: [`load`] takes a full archive and perhaps an incremental one, and gives a [`Snapshot`]: the
//! bank's fields and every account as of its slot. [`Progress`] may be watched from another thread.
//! Bounds: beside the accounts themselves a few batches of about a megabyte each for every thread.
//! Invariant: what is returned is what the validator had. The lattice hash over all accounts, their
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

pub use bank::BankFields;
pub use error::{Place, SnapshotError};
pub use load::{Snapshot, load};
pub use progress::Progress;
pub use summary::{Holding, Largest, Summary};
