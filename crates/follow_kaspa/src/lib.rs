//! Follows a kaspad: from its wRPC in Borsh to a ledger that servers read. Forwards the calls of clients to it.
//!
//! Shape: [`start_chain`] opens the chain of a network, at its first block or from a snapshot file. [`import_chain`]
//! starts it from the UTXO set of the pruning point, which other nodes send. [`Follower`] runs
//! two parts: a task that has a session with one source after another (`sources`, `session`), and a thread that is the
//! chain's one writer (`writer`). A third thread writes the snapshot file. [`Forwarder`] sends calls of clients to the
//! same upstreams, over connections of its own.
//! Proven: what [`chain_kaspa`] proves. [`FollowStatus`] says up to which block, and why it does not continue.
//! Bounds: [`ConnectionConfig`] and [`ForwarderConfig`]. A slow writer makes the source wait.
//! A source that lies, is silent, or sends what cannot be read is left, and connected to again after a pause. If all
//! sources leave our final block, the follower ends with [`FollowError::Restart`].
//! Not here: sockets of servers (`rpc_kaspa`), flags (`hydrant`), records and checks (`chain_kaspa`).
#![forbid(unsafe_code)]

mod agreement;
mod agreement_checks;
mod backoff;
mod base;
mod chain_pages;
mod config;
mod connection;
mod error;
mod event;
mod follower;
mod forwarding;
pub mod fuzzing;
mod hashed_set;
mod import;
mod json_relay;
mod long_message;
mod merge_set;
mod plain_calls;
mod restart;
mod restart_point;
mod session;
mod snapshot_error;
mod snapshot_fields;
mod snapshot_file;
mod snapshot_path;
mod snapshot_thread;
mod socket;
mod source_error;
mod sources;
mod spent_outputs;
mod status;
mod utxo_hashing;
mod writer;
mod writer_queue;

pub use agreement::Agreement;
pub use base::{start_at_genesis, start_chain};
pub use config::{ConnectionConfig, FollowerConfig, SessionConfig, SnapshotConfig, SourceConfig};
pub use error::FollowError;
pub use event::EventSink;
pub use follower::{FollowHandle, Follower};
pub use forwarding::{CallLimits, ForwardError, Forwarder, ForwarderConfig};
pub use import::{
    ImportConfig, ImportError, ImportLimits, ImportProgress, PeerConfig, PeerError, import_chain,
    remove_chain_files,
};
pub use restart_point::RestartBase;
pub use snapshot_error::SnapshotError;
pub use snapshot_file::load_snapshot;
pub use source_error::SourceError;
pub use status::{FollowStatus, Mismatch};
