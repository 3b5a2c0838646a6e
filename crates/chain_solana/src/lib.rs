//! What a Solana ledger publishes besides its accounts, and the interfaces that a server calls: to
//! send a transaction, to simulate one, and for airdrops. A ledger (`localnet`, later a followed chain) writes here;
//! servers (`rpc_solana`) read.
//!
//! Not here: accounts (`query`, `solana`), execution (`svm`), sockets (`http_server`).

mod account_upstream;
mod adopted_account;
mod block;
mod block_footer;
mod block_info;
mod bundle;
mod client_id;
mod cluster;
mod cluster_info;
mod event;
mod faucet;
mod fork_control;
mod history;
mod identifiers;
mod inflation;
mod leader_schedule;
mod ledger_control;
mod older_statuses;
mod one_node_cluster;
mod pending;
mod signatures;
mod simulator;
mod snapshots;
mod transaction_sender;
mod upstream;
mod verification;
mod verified_transaction;
mod written_accounts;

use solana::Account;

pub use account_upstream::{AccountUpstream, AccountsRequest, FetchCall, FetchError};
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
pub use cluster::{Cluster, ClusterNode, VoteStakes};
pub use cluster_info::ClusterInfo;
pub use event::{AccountUpdate, EventSink, LedgerEvent, RevertReason, Vote};
pub use faucet::{AirdropError, Faucet};
pub use fork_control::{
    DROPPED_MAX, ForkCall, ForkControl, ForkError, ForkReply, ForkTransactions, ForkUsage,
    MINE_MAX, REORG_TRANSACTIONS_MAX, Reorganization,
};
pub use history::{History, HistoryLimits, HistorySnapshot, TransactionPosition, is_rooted};
pub use identifiers::{feature_set, shred_version};
pub use inflation::InflationSchedule;
pub use leader_schedule::LeaderSchedule;
pub use ledger_control::{
    ACCOUNT_BYTES_MAX, AccountsEdit, ControlCall, ControlCommand, ControlDone, ControlError,
    ControlStats, CurrentAccounts, EditedAccounts, LedgerControl, ResetScope, TimeTarget,
};
pub use older_statuses::OlderStatuses;
pub use one_node_cluster::OneNodeCluster;
pub use pending::{Pending, PendingSender, pending};
pub use simulator::{Simulation, SimulationError, SimulationRequest, Simulator};
pub use snapshots::Snapshots;
pub use transaction_sender::{QueueBound, SendError, Sender, TransactionSender};
pub use upstream::{Upstream, UpstreamCall, UpstreamError, UpstreamReply, UpstreamResult};
pub use verification::{
    AgreementSource, BankMismatch, BankProof, ComputedVerification, MISMATCH_ACCOUNTS_MAX,
    Verification, VerificationLevel, VerificationSummary, VotedStake,
};
pub use verified_transaction::{VerifiedTransaction, VerifyError};
pub use written_accounts::WrittenAccounts;

/// A reader of a Solana ledger's accounts.
pub type Reader = query::Reader<Account, BlockInfo>;
/// The accounts of a Solana ledger at one block.
pub type View = query::View<Account, BlockInfo>;
