//! The events of a running ledger, in order.

use std::sync::Arc;

use ledger::{BlockId, Slot};
use solana::Account;
use solana_account::ReadableAccount;
use solana_hash::Hash;
use solana_pubkey::Pubkey;
use solana_signature::Signature;

use crate::{Block, BlockFooter, ExecutedTransaction};

/// A ledger event. The one writer sends it, in the order in which it became visible: a reader that
/// gets an event sees at least that state.
#[derive(Clone, Debug)]
pub enum LedgerEvent {
    /// A block was started.
    BankCreated {
        /// The block.
        block: BlockId,
        /// Its parent.
        parent: BlockId,
        /// The newest finalized slot.
        root: Slot,
        /// Milliseconds since 1970.
        timestamp_ms: u64,
    },
    /// Accounts were written to an open block, in this order, by transactions or by the block itself. One event has all
    /// that became visible at once, and precedes the `Executed` with the transactions. Only a sink that requests it
    /// gets it ([`EventSink::needs_account_updates`]).
    AccountsWritten {
        /// The block.
        block: BlockId,
        /// Every write, also several of one account.
        updates: Arc<[AccountUpdate]>,
    },
    /// Transactions were executed, in this order: they are processed. One event has all that became
    /// visible at once.
    Executed(Arc<[Arc<ExecutedTransaction>]>),
    /// The leader's statement about an open block. `Frozen` of the block follows.
    BlockFooter {
        /// The block.
        block: BlockId,
        /// The statement.
        footer: Arc<BlockFooter>,
    },
    /// A block is complete: all its writes are known. It has no commitment yet.
    Frozen {
        /// The block.
        block: Arc<Block>,
        /// Milliseconds since 1970.
        timestamp_ms: u64,
    },
    /// A frozen block is the best one: it is processed, and its ancestors with it. It may be on
    /// another fork than the tip before.
    TipMoved {
        /// The block.
        block: BlockId,
    },
    /// A frozen block is confirmed, and its ancestors with it. It is stored if the ledger is
    /// persistent.
    Confirmed {
        /// The block.
        block: Arc<Block>,
        /// Milliseconds since 1970.
        timestamp_ms: u64,
    },
    /// Votes were executed: of a localnet's own validator, or of all validators.
    Voted(Arc<[Vote]>),
    /// A block is the new root: it is finalized. Every block of the finalized chain is sent; none is
    /// skipped.
    Rooted {
        /// The block.
        block: Arc<Block>,
        /// Milliseconds since 1970.
        timestamp_ms: u64,
    },
    /// The ledger took the state of a newer snapshot, because it cannot get the blocks between: it jumps to this block.
    /// All other blocks above the block's parent were reverted before. The block's writes are what changed between the
    /// parent and the block. Its transactions are not known, and neither are the blocks between. `TipMoved`,
    /// `Confirmed` and `Rooted` of the block follow. A localnet never jumps.
    Jumped {
        /// The block. Its parent is the newest one that is known, not that of the chain.
        block: Arc<Block>,
    },
    /// A frozen block is removed. Its descendants were reverted before it, and the tip moves after
    /// it. A localnet reverts blocks on request only ([`crate::ForkControl`]), and then also those that it reported as
    /// confirmed or rooted.
    Reverted {
        /// The block.
        block: Arc<Block>,
        /// Why.
        reason: RevertReason,
        /// Milliseconds since 1970.
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
            Self::Frozen { block, .. } | Self::Jumped { block } => to_usize(block.bytes()),
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
    /// The account after the write. It has no lamports if it was closed.
    pub account: Arc<Account>,
    /// Greater than that of every earlier write of this process.
    pub write_version: u64,
    /// The transaction that wrote it; `None` if the block did it by itself.
    pub signature: Option<Signature>,
    /// The same transaction as history has it, from a ledger that shows open blocks. A server
    /// that sends its signature to a client shows its status first ([`ExecutedTransaction::show_status`]).
    pub executed: Option<Arc<ExecutedTransaction>>,
}

/// Why a block is removed that never becomes final.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RevertReason {
    /// The block broke a rule, or descends from one that did.
    Dead {
        /// The broken rule.
        error: String,
    },
    /// The root is on another fork.
    Abandoned,
    /// Another version of the block has the same slot.
    Replaced,
}

/// A vote as in `voteSubscribe`.
#[derive(Clone, Debug)]
pub struct Vote {
    /// The vote account.
    pub vote_pubkey: Pubkey,
    /// The slots voted for, the oldest first.
    pub slots: Vec<Slot>,
    /// The bank hash of the newest.
    pub hash: Hash,
    /// Seconds since 1970, if the vote has a timestamp.
    pub timestamp: Option<i64>,
    /// The vote transaction.
    pub signature: Signature,
}

/// Receives events on the writer's thread. It must return at once, whatever its own listeners do.
pub trait EventSink: Send {
    /// Receives one event.
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
