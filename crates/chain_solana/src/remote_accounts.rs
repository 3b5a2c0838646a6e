//! The upstream of a forked ledger: another cluster, whose accounts the ledger takes over when a request needs them.
//!
//! Shape: [`RemoteAccounts::request`] says whether accounts are missing. If so, they are fetched, and the caller waits
//! for the [`FetchCall`]. Afterwards the ledger has each of the accounts, or it is known that the account does not
//! exist.
//! Bounds: those of the implementation, with a share for each client.
//! Not here: the fetch of accounts (`upstream_fork`), the accounts that a method needs (`rpc_solana`).

use clients::ClientId;
use solana_pubkey::Pubkey;
use solana_transaction::versioned::VersionedTransaction;

use crate::ledger_control::ControlError;
use crate::pending::Pending;

/// The accounts that a request needs.
#[derive(Clone, Debug, Default)]
pub struct AccountsRequest {
    /// The addresses of these accounts.
    pub keys: Vec<Pubkey>,
    /// Every account that these transactions name, including those from lookup tables, with the code of programs and
    /// the mints of token accounts.
    pub transactions: Vec<VersionedTransaction>,
    /// Whether also the mints of those of `keys` that are token accounts are needed.
    pub with_mints: bool,
    /// Whether also the data accounts of those of `keys` that are programs are needed.
    pub with_program_data: bool,
}

/// Why accounts could not be fetched. It says nothing about the accounts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The upstream did not respond, or not with a valid response.
    #[error("the upstream {upstream} (--fork-url) did not answer: {why}")]
    Unreachable {
        /// The host of the upstream.
        upstream: String,
        /// A description of the failure.
        why: String,
    },
    /// The upstream responded with an error.
    #[error("the upstream {upstream} (--fork-url) refused the request: {code}: {message}")]
    Refused {
        /// The host of the upstream.
        upstream: String,
        /// The code of the upstream's error.
        code: i64,
        /// The message of the upstream's error.
        message: String,
    },
    /// The upstream is past the slot of the fork.
    #[error(
        "the upstream {upstream} answers as of slot {slot}, and --fork-slot is {pin}: an older slot cannot be read by \
         RPC, and {pubkey} is not in --fork-cache"
    )]
    Newer {
        /// The host of the upstream.
        upstream: String,
        /// The requested account that revealed it.
        pubkey: Pubkey,
        /// The slot of the upstream's response.
        slot: u64,
        /// The slot of the fork (`--fork-slot`).
        pin: u64,
    },
    /// The accounts did not arrive in time.
    #[error(
        "the upstream {upstream} (--fork-url) did not answer within {timeout_ms} ms (--fork-timeout-ms): {why}"
    )]
    TimedOut {
        /// The host of the upstream.
        upstream: String,
        /// The time limit in milliseconds.
        timeout_ms: u64,
        /// A description of the last failure.
        why: String,
    },
    /// The ledger has taken over as many bytes as it may.
    #[error("accounts of the upstream have {bytes} bytes, at most {limit} (--fork-bytes-max)")]
    Full {
        /// Bytes including the new accounts.
        bytes: u64,
        /// Maximum bytes of accounts from the upstream.
        limit: u64,
    },
    /// Too many requests wait for the upstream. Fix: try again later.
    #[error("{waiting} requests wait for the upstream, at most {limit}, half of it for one client")]
    TooMany {
        /// Number of requests that wait.
        waiting: usize,
        /// Maximum number of requests that wait.
        limit: usize,
    },
    /// The ledger did not accept the accounts.
    #[error("the ledger cannot take over accounts of the upstream: {0}")]
    Ledger(#[from] ControlError),
    /// The node is shutting down.
    #[error("the node is shutting down")]
    Closed,
}

/// The result of a queued fetch, once it is complete.
pub type FetchCall = Pending<Result<(), FetchError>>;

/// Fetches accounts from another cluster for a local ledger.
pub trait RemoteAccounts: Send + Sync + 'static {
    /// Whether accounts of the request are missing. Cost: lookups in maps; it never blocks.
    fn is_missing(&self, request: &AccountsRequest) -> bool;

    /// Queues a fetch of the missing accounts; `None` if there are none.
    fn request(
        &self,
        client: ClientId,
        request: AccountsRequest,
    ) -> Result<Option<FetchCall>, FetchError>;

    /// Whether an account came from the upstream, or does not exist there.
    fn is_upstreams(&self, pubkey: &Pubkey) -> bool;

    /// Removes the state of an account, so that it is fetched again when a request needs it. The ledger must not have
    /// it.
    fn forget(&self, pubkey: &Pubkey);

    /// Removes the state of all accounts that came from the upstream, as [`Self::forget`] does for one.
    fn forget_all(&self);

    /// Stops fetching an account and, with `with_owned`, the accounts that it owns at the upstream.
    fn set_offline(&self, pubkey: Pubkey, with_owned: bool) -> Result<(), FetchError>;
}
