//! Snapshot archives of a ledger of this process, made on request and served over HTTP as a validator serves its own.
//!
//! In: a ledger ([`ArchivedLedger`]), and requests for `/snapshot.tar.bz2` and for archives by their names. Out: a
//! redirect to the newest archive, and its bytes from the disk. Other paths are passed to another [`jsonrpc::HttpApi`].
//! Bounds: one archive is made at a time, four without a pause and then one a minute, and none for a page of another
//! site; two are on the disk; [`DOWNLOADS_MAX`] downloads at once, [`CLIENT_DOWNLOADS_MAX`] of a client, each with a
//! deadline by its length; [`REQUESTS_MAX`] requests wait for an archive that is being made.
//! Invariant: nothing is written or read on a thread that polls sockets.
//! Not here: the format of an archive (`snapshot_solana`), incremental archives: a full one is small and quick to make.
#![forbid(unsafe_code)]

mod archived_ledger;
mod archives;
mod client_permits;
mod download_body;
mod status_cache;
mod with_snapshots;

pub use archived_ledger::ArchivedLedger;
pub use archives::{CLIENT_DOWNLOADS_MAX, DOWNLOADS_MAX, REQUESTS_MAX, SnapshotArchives};
pub use with_snapshots::WithSnapshots;
