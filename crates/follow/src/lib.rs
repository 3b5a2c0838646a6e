//! Follows a Solana chain: from a snapshot and Yellowstone gRPC streams to a ledger that servers read.
//!
//! Shape: [`download`] and [`snapshot_ledger::load_snapshot`] load a snapshot, [`Base`] is the ledger at its root,
//! [`Follower::new`] adds what else a followed ledger has, and [`Follower::start`] runs two parts: a task that connects
//! to one source after another (`stream`), and a thread that is the ledger's one writer (`writer`). It writes accounts
//! through `query` and blocks through `chain_solana`.
//! [`UpstreamCalls`] calls an upstream for data that only it has.
//! [`LeaderSender`] sends transactions to the next leaders, [`UpstreamSender`] to an upstream, and [`FollowSimulator`]
//! runs them on a reader's view. `execution` runs the transactions of followed banks again, and compares the results.
//! Bounds: [`StreamConfig`] and [`feed::FeedConfig`]. A slow writer makes the source wait, which closes the stream.
//! Invariant: readers see whole banks only. docs/design/ledgers.md, section 5, lists the promises of a producer.
//! Not here: sockets of servers, flags (`hydrant`), how a bank is verified (`verify`).
#![forbid(unsafe_code)]

mod account_updates;
mod agreement;
mod ancestry;
mod archive_changes;
mod archive_stakes;
mod archive_status_cache;
mod base;
mod checked_bank;
mod client_shares;
mod clock;
mod cluster;
mod cluster_tracker;
mod convert;
mod deferred;
mod download;
mod error;
mod event_sinks;
mod execution;
mod execution_status;
mod follower;
mod footers;
mod free_thread;
mod gap_closer;
mod gap_rounds;
mod jump;
mod jumped_block;
mod leader_sender;
mod nodes;
mod open_banks;
mod prepared_bank;
mod proof_status;
mod simulator;
mod source_slots;
mod state_at;
mod status;
mod store_thread;
mod stored_ledger;
mod stream;
mod stream_end;
mod transaction_checks;
mod trust;
mod unchecked_banks;
mod upstream_calls;
mod upstream_sender;
mod verification;
mod vote_accounts;
mod votes;
mod writable_keys;
mod writer;

pub mod bank;

pub use archive_status_cache::ArchiveStatusCache;
pub use base::Base;
pub use checked_bank::CheckTimes;
pub use cluster::{FollowedCluster, UpstreamFacts, cluster_info};
pub use convert::ConvertError;
pub use download::{
    ArchiveKind, DownloadError, DownloadLimits, DownloadProgress, download, newest_archive,
};
pub use error::FollowError;
pub use execution_status::ExecutionConfig;
pub use follower::{AgreementConfig, FollowHandle, Follower, FollowerConfig};
pub use gap_closer::ArchiveSource;
pub use leader_sender::{LeaderSender, SenderChain};
pub use proof_status::ProofStatus;
pub use simulator::FollowSimulator;
pub use status::FollowStatus;
pub use stored_ledger::{LedgerDirectory, StoredLedger};
pub use stream::{SourceConfig, StreamConfig};
pub use trust::{TrustError, TrustedBank, TrustedBankError};
pub use upstream_calls::UpstreamCalls;
pub use upstream_sender::UpstreamSender;
pub use verification::{OnMismatch, VerifyMode};
