//! Control of a local ledger: writes without a transaction, its clock, and the way back to its first accounts.
//!
//! Shape: [`LedgerControl::control`] queues a [`ControlCommand`]; the ledger carries commands out between transactions, in
//! the order of arrival. The result comes once readers at `processed` see the effect.
//! Bounds: commands that wait ([`ControlError::QueueFull`]), and what a ledger retains for a reset ([`ControlStats`]).
//! Not here: which client may do it (`rpc_solana`), how an edit is computed (`rpc_solana`'s methods).

use std::sync::Arc;

use ledger::Slot;
use solana::Account;
use solana_account::AccountSharedData;
use solana_pubkey::Pubkey;

use crate::adopted_account::AdoptedAccount;
use crate::pending::Pending;

/// The bytes of the largest account.
pub const ACCOUNT_BYTES_MAX: usize = 10 << 20;

/// Computes accounts to write from the current ones. It runs on the ledger's thread, between two transactions. An
/// account without lamports is removed. No address may occur twice.
pub type AccountsEdit =
    Box<dyn FnOnce(&dyn CurrentAccounts) -> Result<EditedAccounts, ControlError> + Send>;

/// Accounts to write, each with its address.
pub type EditedAccounts = Vec<(Pubkey, AccountSharedData)>;

/// The accounts of the open block, for an [`AccountsEdit`].
pub trait CurrentAccounts {
    /// The account of `key`.
    fn account(&self, key: &Pubkey) -> Option<Arc<Account>>;
    /// The slot of the block.
    fn slot(&self) -> Slot;
    /// Lamports that exempt an account with `bytes` of data from rent.
    fn minimum_balance(&self, bytes: usize) -> u64;
}

/// What a local ledger does on request.
pub enum ControlCommand {
    /// Writes accounts into the open block.
    Edit(AccountsEdit),
    /// Writes accounts of another cluster into the open block, which goes on. One that the ledger has already, or that
    /// is the ledger's own, is left out.
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

/// A later time. Slots that are passed over have no block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeTarget {
    /// The first slot of an epoch.
    Epoch(u64),
    /// A slot. Time advances by the duration of the slots that are passed over.
    Slot(Slot),
    /// A time in milliseconds since 1970. Slots advance by as many as that time has.
    UnixMs(u64),
    /// Both.
    SlotAt {
        /// The slot.
        slot: Slot,
        /// Milliseconds since 1970.
        unix_ms: u64,
    },
}

/// Which accounts are restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetScope {
    /// All accounts.
    All,
    /// One account, and the data account of a program.
    Account {
        /// Its address.
        pubkey: Pubkey,
        /// Also the accounts that it owns or owned.
        with_owned: bool,
    },
}

/// The bank in which a command had its effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlDone {
    /// Its slot.
    pub slot: Slot,
    /// Its height.
    pub block_height: u64,
    /// Transactions since genesis.
    pub transaction_count: u64,
}

/// Why a command had no effect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// The command contradicts the state. Fix: the message says what it needs.
    #[error("{0}")]
    Invalid(String),
    /// The account belongs to the ledger itself.
    #[error("account {pubkey} cannot be set: {reason}")]
    Protected {
        /// Its address.
        pubkey: Pubkey,
        /// Why.
        reason: &'static str,
    },
    /// More than the largest account.
    #[error("account {pubkey} would have {bytes} bytes of data, at most {ACCOUNT_BYTES_MAX}")]
    TooLarge {
        /// Its address.
        pubkey: Pubkey,
        /// The bytes of its data.
        bytes: usize,
    },
    /// All accounts together would have too many lamports.
    #[error("all accounts together would have {lamports} lamports, at most {max}")]
    TooManyLamports {
        /// Their sum.
        lamports: u128,
        /// The limit.
        max: u64,
    },
    /// More accounts than one command may write.
    #[error("{accounts} accounts would be written, at most {max} at once")]
    TooManyAccounts {
        /// How many.
        accounts: usize,
        /// The limit.
        max: usize,
    },
    /// The accounts of the start were too many to be retained, or are not retained at all.
    #[error("the accounts of the start are not retained: they have more than {bytes_max} bytes")]
    NoBaseline {
        /// The limit.
        bytes_max: u64,
    },
    /// The ledger has no space for the accounts.
    #[error("the ledger has no space for the accounts (--max-addresses)")]
    LedgerFull,
    /// Too many commands wait. Fix: send it again later.
    #[error("{limit} commands wait for the ledger already")]
    QueueFull {
        /// The limit.
        limit: usize,
    },
    /// The edit panicked. That is a bug of ours, and ends only this command.
    #[error("the command panicked")]
    Panicked,
    /// The node is shutting down.
    #[error("the ledger is shutting down")]
    Closed,
}

/// A command that waits for the ledger.
pub type ControlCall = Pending<Result<ControlDone, ControlError>>;

/// What the control of a ledger occupies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControlStats {
    /// Bytes of the accounts that are retained for a reset.
    pub baseline_bytes: u64,
}

/// Controls a local ledger. A followed chain has none.
pub trait LedgerControl: Send + Sync + 'static {
    /// Queues a command.
    fn control(&self, command: ControlCommand) -> Result<ControlCall, ControlError>;

    /// What it occupies.
    fn stats(&self) -> ControlStats;
}
