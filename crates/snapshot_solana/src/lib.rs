//! Loads snapshot archives as Agave 4 writes them: reads them as a stream, checks them completely,
//! and passes on the newest version of each account. Writes full ones ([`write_archive`]).
//!
//! Shape: [`load`] reads a full archive and optionally an incremental one, puts every account as of
//! its slot into the caller's [`AccountSink`], and returns a [`Snapshot`]: the bank's fields and
//! the totals of the accounts. [`load_on_top`] reads an incremental archive into a sink that has a state already.
//! Another thread may read [`Progress`]. [`check_start`] only looks at the start of an archive.
//! Bounds: besides the sink a few batches of about a megabyte for each thread, and 8 bytes for each
//! id of the sink.
//! Invariant: the loaded state is the validator's. The lattice hash over all accounts, their
//! lamports and the bank hash are computed here and compared with the archive's own values.
//! Not here: creating a ledger from it (`localnet`), terminals (`hydrant`).

mod account_versions;
mod append_vec;
mod archive;
mod archive_name;
mod archive_writer;
mod archived_bank;
mod bank_fields;
mod bincode_reader;
mod decompressor;
mod epoch_stakes;
mod error;
mod fields_writer;
mod load;
mod progress;
mod status_cache;
pub mod stored_rows;
mod summary;
mod version_position;

pub use account_versions::AccountSink;
pub use archive_name::ArchiveName;
pub use archive_writer::{ArchiveWriteError, WrittenArchive, write_archive};
pub use archived_bank::ArchivedBank;
pub use bank_fields::BankFields;
pub use error::{AccountSinkError, ArchiveOffset, SnapshotError};
pub use load::{LoadedState, Snapshot, check_start, load, load_on_top};
pub use progress::Progress;
pub use status_cache::{STATUS_KEY_BYTES, StatusCache, StatusKey};
pub use summary::{LargestAccount, ProgramHoldings, Summary};
