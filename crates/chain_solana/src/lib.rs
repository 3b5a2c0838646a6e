//! The facts that a Solana ledger publishes besides its accounts, and the interfaces that a server calls: to send a
//! transaction, to simulate one, and for airdrops. A ledger (`localnet`, `follow`) writes here; servers (`rpc_solana`)
//! read. Blocks and their events as bytes: `wire`, a feature.
//!
//! Not here: accounts (`query`, `solana`), execution (`svm`), sockets (`http_server`).

mod adopted_account;
mod block;
mod block_footer;
mod block_info;
mod bundle;
mod client_id;
mod cluster;
mod cluster_info;
mod event;
mod event_channel;
mod execution;
mod faucet;
mod fork_control;
mod history;
mod identifiers;
mod inflation;
mod leader_schedule;
mod ledger_control;
mod node_address;
mod one_node_cluster;
mod pending;
mod pre_snapshot_statuses;
mod remote_accounts;
mod signatures;
mod simulator;
mod snapshots;
mod start_point;
mod status_visibility;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod transaction_sender;
mod upstream_rpc;
mod verification;
mod verified_transaction;
#[cfg(feature = "wire")]
pub mod wire;
mod written_accounts;

use solana::Account;

pub use adopted_account::AdoptedAccount;
pub use block::{AccountWrite, Block, ExecutedTransaction};
pub use block_footer::BlockFooter;
pub use block_info::{
    BLOCKHASHES_VALID, BankHashComponents, BlockInfo, BlockhashQueue, RECENT_BLOCKHASHES_MAX,
};
pub use bundle::{
    BUNDLE_TRANSACTIONS_MAX, BundleCall, BundleError, BundleReply, BundleResult, BundleSender,
};
pub use client_id::{client_name, client_number};
pub use cluster::{Cluster, ClusterNode, VoteStakes, read_rent};
pub use cluster_info::ClusterInfo;
pub use event::{AccountUpdate, EventSink, LedgerEvent, RevertReason, Vote};
pub use event_channel::{
    EventBounds, EventCounters, EventReceiver, EventSender, LostEvents, Received, event_channel,
};
pub use execution::{ExecutionDifference, ExecutionSummary, ResultField};
pub use faucet::{AirdropError, Faucet};
pub use fork_control::{
    DROPPED_MAX, ForkCall, ForkControl, ForkControlError, ForkReply, ForkTransactions, ForkUsage,
    MINE_MAX, REORG_TRANSACTIONS_MAX, Reorganization,
};
pub use history::{History, HistoryLimits, HistorySnapshot, TransactionPosition, is_rooted};
pub use identifiers::{feature_set, shred_version};
pub use inflation::InflationSchedule;
pub use leader_schedule::LeaderSchedule;
pub use ledger_control::{
    ACCOUNT_BYTES_MAX, AccountsEdit, ControlCall, ControlCommand, ControlError, ControlOutcome,
    ControlStats, CurrentAccounts, EditedAccounts, LedgerControl, ResetScope, TimeTarget,
};
pub use node_address::{is_dialable, is_unspecified, local_address, reachable_address};
pub use one_node_cluster::OneNodeCluster;
pub use pending::{Pending, PendingSender, pending};
pub use pre_snapshot_statuses::PreSnapshotStatuses;
pub use remote_accounts::{AccountsRequest, FetchCall, FetchError, RemoteAccounts};
pub use simulator::{Simulation, SimulationError, SimulationRequest, Simulator};
pub use snapshots::Snapshots;
pub use start_point::{StartPoint, StartPointError, StartSysvars};
pub use status_visibility::StatusVisibility;
pub use transaction_sender::{QueueBound, SendError, Sender, TransactionSender};
pub use upstream_rpc::{UpstreamCall, UpstreamError, UpstreamReply, UpstreamResult, UpstreamRpc};
pub use verification::{
    AgreementSource, BankContent, BankProof, ComputedVerification, MISMATCH_ACCOUNTS_MAX,
    ResultOrigin, Verification, VerificationSummary,
};
pub use verified_transaction::{VerifiedTransaction, VerifyError, verify_signatures};
pub use written_accounts::WrittenAccounts;

/// A reader of a Solana ledger's accounts.
pub type Reader = query::Reader<Account, BlockInfo>;
/// The accounts of a Solana ledger at one block.
pub type View = query::View<Account, BlockInfo>;
