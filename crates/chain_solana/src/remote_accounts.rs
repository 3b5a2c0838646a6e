//! The upstream of a forked ledger: another cluster, whose accounts the ledger takes over when a request needs them.
//!
//! Shape: [`RemoteAccounts::request`] says whether anything is missing. If so, it is fetched, and the caller waits for the
//! [`FetchCall`]. Then the ledger holds each of the accounts, or it is known that the account does not exist.
//! Bounds: those of the implementation, with a share for each client.
//! Not here: how accounts are fetched (`upstream_fork`), which accounts a method needs (`rpc_solana`).

use clients::ClientId;
use solana_pubkey::Pubkey;
use solana_transaction::versioned::VersionedTransaction;

use crate::ledger_control::ControlError;
use crate::pending::Pending;

/// The accounts that a request needs.
#[derive(Clone, Debug, Default)]
pub struct AccountsRequest {
    /// These accounts.
    pub keys: Vec<Pubkey>,
    /// Every account that these transactions name, also in lookup tables, with the code of programs and the mints of
    /// token accounts.
    pub transactions: Vec<VersionedTransaction>,
    /// Also the mints of those of `keys` that are token accounts.
    pub with_mints: bool,
    /// Also the data accounts of those of `keys` that are programs.
    pub with_program_data: bool,
}

/// Why accounts could not be fetched. Nothing is known about them then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The upstream did not answer, or not as an upstream answers.
    #[error("the upstream {upstream} (--fork-url) did not answer: {why}")]
    Unreachable {
        /// Its host.
        upstream: String,
        /// What happened.
        why: String,
    },
    /// The upstream answered with an error.
    #[error("the upstream {upstream} (--fork-url) refused the request: {code}: {message}")]
    Refused {
        /// Its host.
        upstream: String,
        /// The code of its error.
        code: i64,
        /// Its message.
        message: String,
    },
    /// The upstream is past the slot of the fork.
    #[error(
        "the upstream {upstream} answers as of slot {slot}, and --fork-slot is {pin}: an older slot cannot be read by \
         RPC, and {pubkey} is not in --fork-cache"
    )]
    Newer {
        /// Its host.
        upstream: String,
        /// An account that was requested.
        pubkey: Pubkey,
        /// The slot of the answer.
        slot: u64,
        /// The slot of the fork.
        pin: u64,
    },
    /// The accounts did not come in time.
    #[error(
        "the upstream {upstream} (--fork-url) did not answer within {timeout_ms} ms (--fork-timeout-ms): {why}"
    )]
    TimedOut {
        /// Its host.
        upstream: String,
        /// The limit.
        timeout_ms: u64,
        /// What happened last.
        why: String,
    },
    /// The ledger has taken over as much as it may.
    #[error("accounts of the upstream have {bytes} bytes, at most {limit} (--fork-bytes-max)")]
    Full {
        /// The bytes with the new accounts.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// Too many requests wait for the upstream. Fix: try again later.
    #[error("{waiting} requests wait for the upstream, at most {limit}, half of it for one client")]
    TooMany {
        /// How many wait.
        waiting: usize,
        /// The limit.
        limit: usize,
    },
    /// The ledger did not take the accounts.
    #[error("the ledger cannot take over accounts of the upstream: {0}")]
    Ledger(#[from] ControlError),
    /// The node is shutting down.
    #[error("the node is shutting down")]
    Closed,
}

/// A fetch that was queued.
pub type FetchCall = Pending<Result<(), FetchError>>;

/// Fetches accounts from another cluster for a local ledger.
pub trait RemoteAccounts: Send + Sync + 'static {
    /// Whether accounts of the request are missing. Some lookups in maps; it never waits.
    fn is_missing(&self, request: &AccountsRequest) -> bool;

    /// Queues a fetch of what is missing; `None` if nothing is.
    fn request(
        &self,
        client: ClientId,
        request: AccountsRequest,
    ) -> Result<Option<FetchCall>, FetchError>;

    /// Whether an account came from the upstream, or does not exist there.
    fn is_upstreams(&self, pubkey: &Pubkey) -> bool;

    /// Forgets what is known about an account: it is fetched again when a request needs it. The ledger must not have it.
    fn forget(&self, pubkey: &Pubkey);

    /// The same for all accounts that came from the upstream.
    fn forget_all(&self);

    /// Never fetches an account, nor, with `with_owned`, the accounts that it owns there.
    fn set_offline(&self, pubkey: Pubkey, with_owned: bool) -> Result<(), FetchError>;
}
