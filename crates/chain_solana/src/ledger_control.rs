//! Control of a local ledger: writes without a transaction, its clock, and resets to its first accounts.
//!
//! Shape: [`LedgerControl::control`] queues a [`ControlCommand`]; the ledger carries commands out between transactions,
//! those of one client in the order of arrival. Clients take turns, with each other and with transactions. The result
//! is sent once readers at `processed` see the effect.
//! Bounds: commands that wait ([`ControlError::QueueFull`]), and the accounts that a ledger retains for a reset
//! ([`ControlStats`]).
//! Not here: the access of clients (`rpc_solana`), the computation of an edit (`rpc_solana`'s methods).

use std::sync::Arc;

use clients::ClientId;
use ledger::Slot;
use solana::Account;
use solana_account::AccountSharedData;
use solana_pubkey::Pubkey;

use crate::adopted_account::AdoptedAccount;
use crate::pending::Pending;

/// Maximum length of an account's data.
pub const ACCOUNT_BYTES_MAX: usize = 10 << 20;

/// Computes accounts to write from the current ones. It runs on the ledger's thread, between two transactions. An
/// account without lamports is removed. No address may occur twice.
pub type AccountsEdit =
    Box<dyn FnOnce(&dyn CurrentAccounts) -> Result<EditedAccounts, ControlError> + Send>;

/// Accounts to write, each with its address.
pub type EditedAccounts = Vec<(Pubkey, AccountSharedData)>;

/// The accounts of the open block, for an [`AccountsEdit`].
pub trait CurrentAccounts {
    /// Returns the account of `key`, if it exists.
    fn account(&self, key: &Pubkey) -> Option<Arc<Account>>;
    /// Returns the slot of the open block.
    fn slot(&self) -> Slot;
    /// Returns the lamports that exempt an account with `bytes` of data from rent.
    fn minimum_balance(&self, bytes: usize) -> u64;
}

/// A command that a local ledger executes on request.
pub enum ControlCommand {
    /// Writes accounts into the open block.
    Edit(AccountsEdit),
    /// Writes accounts of another cluster into the open block, which remains open. An account that the ledger already
    /// has, or that belongs to the ledger itself, is skipped.
    Adopt(Vec<Arc<AdoptedAccount>>),
    /// Ends the open block, and opens the next one at a later time.
    Travel(TimeTarget),
    /// Stops slots and time. Transactions are executed in the open block.
    PauseClock,
    /// Continues slots and time from where they were stopped.
    ResumeClock,
    /// Restores accounts as they were when the ledger started.
    Reset(ResetScope),
}

/// A later time. Skipped slots have no block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeTarget {
    /// The first slot of an epoch.
    Epoch(u64),
    /// A slot. Time advances by the duration of the skipped slots.
    Slot(Slot),
    /// A time in milliseconds since 1970. Slots advance by its duration.
    UnixMs(u64),
    /// A slot and a time that belong together.
    SlotAt {
        /// The slot of the next block.
        slot: Slot,
        /// Its time in milliseconds since 1970.
        unix_ms: u64,
    },
}

/// The accounts that a reset restores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetScope {
    /// All accounts of the ledger.
    All,
    /// One account, and the data account of a program.
    Account {
        /// The address of the account.
        pubkey: Pubkey,
        /// Also the accounts that it owns or owned.
        with_owned: bool,
    },
}

/// The bank in which a command had its effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlOutcome {
    /// The slot of the bank that has the effect.
    pub slot: Slot,
    /// Number of blocks before the bank.
    pub block_height: u64,
    /// Transactions since genesis, this bank's included.
    pub transaction_count: u64,
}

/// Why a command had no effect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// The command contradicts the state. Fix: the message names the requirement.
    #[error("{0}")]
    Invalid(String),
    /// The account belongs to the ledger itself.
    #[error("account {pubkey} cannot be set: {reason}")]
    Protected {
        /// The address of the account.
        pubkey: Pubkey,
        /// The reason why it cannot be set.
        reason: &'static str,
    },
    /// The account would be larger than [`ACCOUNT_BYTES_MAX`].
    #[error("account {pubkey} would have {bytes} bytes of data, at most {ACCOUNT_BYTES_MAX}")]
    TooLarge {
        /// The address of the account.
        pubkey: Pubkey,
        /// The length of its data in bytes.
        bytes: usize,
    },
    /// All accounts together would have too many lamports.
    #[error("all accounts together would have {lamports} lamports, at most {max}")]
    TooManyLamports {
        /// The lamports of all accounts together.
        lamports: u128,
        /// Maximum of the sum of all lamports.
        max: u64,
    },
    /// More accounts than one command may write.
    #[error("{accounts} accounts would be written, at most {max} at once")]
    TooManyAccounts {
        /// The number of accounts in the command.
        accounts: usize,
        /// Maximum number of accounts of a command.
        max: usize,
    },
    /// The accounts at the start of the ledger were too large to be retained, or are not retained at all.
    #[error("the accounts of the start are not retained: they have more than {bytes_max} bytes")]
    NoBaseline {
        /// Maximum bytes of the retained accounts.
        bytes_max: u64,
    },
    /// The ledger has no space for the accounts.
    #[error("the ledger has no space for the accounts (--max-addresses)")]
    LedgerFull,
    /// The accounts of the ledger would have too many bytes.
    #[error("the ledger's accounts would have more than {limit} bytes (--account-bytes-max)")]
    AccountBytesFull {
        /// Maximum bytes of all accounts.
        limit: u64,
    },
    /// Too many commands of the client wait. Fix: send it again later.
    #[error("{limit} commands wait for the ledger already")]
    QueueFull {
        /// Maximum number of commands of the client that wait.
        limit: usize,
    },
    /// The edit panicked. That is a bug of this program, and ends only this command.
    #[error("the command panicked")]
    Panicked,
    /// The node is shutting down.
    #[error("the ledger is shutting down")]
    Closed,
}

/// The result of a queued command, once it is executed.
pub type ControlCall = Pending<Result<ControlOutcome, ControlError>>;

/// Memory that the control of a ledger occupies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControlStats {
    /// Bytes of the accounts that are retained for a reset.
    pub baseline_bytes: u64,
}

/// Controls a local ledger. A followed chain has none.
pub trait LedgerControl: Send + Sync + 'static {
    /// Queues a command for the ledger, among those of its client.
    fn control(
        &self,
        client: ClientId,
        command: ControlCommand,
    ) -> Result<ControlCall, ControlError>;

    /// Returns the memory that the control occupies.
    fn stats(&self) -> ControlStats;
}
