//! The events of a running ledger, in order.

use std::sync::Arc;

use ledger::{BlockId, Slot};
use solana::Account;
use solana_account::ReadableAccount;
use solana_hash::Hash;
use solana_pubkey::Pubkey;
use solana_signature::Signature;

use crate::{Block, BlockFooter, BlockInfo, ExecutedTransaction};

/// A ledger event. The one writer sends it, in the order in which changes became visible: a reader that gets an event
/// sees at least that state.
#[derive(Clone, Debug)]
pub enum LedgerEvent {
    /// A block was opened for transactions.
    BankCreated {
        /// The slot and the version of the new block.
        block: BlockId,
        /// The block on which it is built.
        parent: BlockId,
        /// The newest finalized slot, as of this event.
        root: Slot,
        /// The time of the event in milliseconds since 1970.
        timestamp_ms: u64,
    },
    /// Accounts were written to an open block, in this order, by transactions or by the block itself. One event has all
    /// writes that became visible at once, and precedes the `Executed` with the transactions. Only a sink that requests
    /// it gets it ([`EventSink::needs_account_updates`]).
    AccountsWritten {
        /// The open block that was written.
        block: BlockId,
        /// Every write, including several of one account.
        updates: Arc<[AccountUpdate]>,
    },
    /// Transactions were executed, in this order: they are processed. One event has all transactions that became
    /// visible at once.
    Executed(Arc<[Arc<ExecutedTransaction>]>),
    /// The leader's statement about an open block. `Frozen` of the block follows.
    BlockFooter {
        /// The open block that the statement is about.
        block: BlockId,
        /// The statement of the leader.
        footer: Arc<BlockFooter>,
    },
    /// A block is complete: all its writes are known. It has no commitment yet.
    Frozen {
        /// The complete block with its transactions and writes.
        block: Arc<Block>,
        /// The properties of the block, as its views have them.
        info: Arc<BlockInfo>,
        /// The time of the event in milliseconds since 1970.
        timestamp_ms: u64,
    },
    /// A frozen block is the best one: it is processed, and its ancestors with it. It may be on
    /// another fork than the tip before.
    TipMoved {
        /// The block that is now the processed tip.
        block: BlockId,
    },
    /// A frozen block is confirmed, and its ancestors with it. It is stored if the ledger is
    /// persistent.
    Confirmed {
        /// The confirmed block, as it was frozen.
        block: Arc<Block>,
        /// The time of the event in milliseconds since 1970.
        timestamp_ms: u64,
    },
    /// Votes were executed: of a localnet's own validator, or of all validators.
    Voted(Arc<[Vote]>),
    /// A block is the new root: it is finalized. Every block of the finalized chain is sent; none is
    /// skipped.
    Rooted {
        /// The new root, as it was frozen.
        block: Arc<Block>,
        /// The time of the event in milliseconds since 1970.
        timestamp_ms: u64,
    },
    /// The ledger took the state of a newer snapshot, because it cannot get the blocks in between: it jumps to this
    /// block. All other blocks above the block's parent were reverted before. The block's writes are the differences
    /// between the parent and the block. Its transactions are not known, and neither are the blocks in between.
    /// `TipMoved`, `Confirmed` and `Rooted` of the block follow. A localnet never jumps.
    Jumped {
        /// The block. Its parent is the newest block that is known, not its parent on the chain.
        block: Arc<Block>,
        /// The properties of the block, as its views have them.
        info: Arc<BlockInfo>,
    },
    /// A frozen block is removed. Its descendants were reverted before it, and the tip moves after
    /// it. A localnet reverts blocks on request only ([`crate::ForkControl`]), and then also those that it reported as
    /// confirmed or rooted.
    Reverted {
        /// The removed block, as it was frozen.
        block: Arc<Block>,
        /// The reason of the removal.
        reason: RevertReason,
        /// The time of the event in milliseconds since 1970.
        timestamp_ms: u64,
    },
}

impl LedgerEvent {
    /// Returns the estimated bytes of the event, including those that it shares with state and history.
    pub fn bytes(&self) -> usize {
        let to_usize = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let content = match self {
            Self::AccountsWritten { updates, .. } => {
                let data = |update: &AccountUpdate| update.account.0.data().len();
                size_of_val(&**updates) + updates.iter().map(data).sum::<usize>()
            }
            Self::Executed(all) => to_usize(all.iter().map(|executed| executed.bytes()).sum()),
            Self::BlockFooter { footer, .. } => footer.bytes(),
            Self::Frozen { block, .. } | Self::Jumped { block, .. } => to_usize(block.bytes()),
            Self::BankCreated { .. }
            | Self::TipMoved { .. }
            | Self::Confirmed { .. }
            | Self::Voted(_)
            | Self::Rooted { .. }
            | Self::Reverted { .. } => 0,
        };
        content + size_of::<Self>()
    }
}

/// One write of an account, as Geyser reports it.
#[derive(Clone, Debug)]
pub struct AccountUpdate {
    /// The account's address.
    pub pubkey: Pubkey,
    /// The account after the write. A closed account has no lamports.
    pub account: Arc<Account>,
    /// A number above that of every earlier write of this process.
    pub write_version: u64,
    /// The transaction that wrote the account; `None` if the block itself did.
    pub signature: Option<Signature>,
    /// The transaction as history has it, from a ledger that shows open blocks. A server that sends its signature to a
    /// client shows its status first ([`ExecutedTransaction::show_status`]).
    pub executed: Option<Arc<ExecutedTransaction>>,
}

/// The reason why a block is removed and never becomes final.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RevertReason {
    /// The block broke a rule, or descends from one that did.
    Dead {
        /// The broken rule, as the ledger describes it.
        error: String,
    },
    /// The root is on another branch of the chain.
    Abandoned,
    /// Another version of the block has the same slot.
    Replaced,
}

/// A vote as in `voteSubscribe`.
#[derive(Clone, Debug)]
pub struct Vote {
    /// The vote account of the validator.
    pub vote_pubkey: Pubkey,
    /// The slots voted for, the oldest first.
    pub slots: Vec<Slot>,
    /// The bank hash of the newest of these slots.
    pub hash: Hash,
    /// Seconds since 1970, if the vote has a timestamp.
    pub timestamp: Option<i64>,
    /// The signature of the vote transaction.
    pub signature: Signature,
}

/// Receives events on the writer's thread. It must return at once, even if its own listeners are slow.
pub trait EventSink: Send {
    /// Receives one event, in the order of the ledger.
    fn send(&mut self, event: &LedgerEvent);

    /// Whether the writer has to send [`LedgerEvent::AccountsWritten`]. The value never changes.
    fn needs_account_updates(&self) -> bool {
        false
    }

    /// Whether blocks need their entries. A writer that has to request them does so only then. The value never changes.
    fn needs_entries(&self) -> bool {
        false
    }
}
