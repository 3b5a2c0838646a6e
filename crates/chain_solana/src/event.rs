//! What a ledger tells while it runs, in order.

use std::sync::Arc;

use ledger::Slot;
use solana_hash::Hash;
use solana_pubkey::Pubkey;
use solana_signature::Signature;

use crate::{Block, ExecutedTransaction};

/// Something happened. Told by the one writer, in the order in which it became true for readers: a
/// reader who learns of it sees at least that state.
#[derive(Clone, Debug)]
pub enum LedgerEvent {
    /// A block was begun.
    BankCreated {
        /// Its slot.
        slot: Slot,
        /// The slot it is built on.
        parent: Slot,
        /// The newest finalized slot.
        root: Slot,
        /// Milliseconds since 1970.
        timestamp_ms: u64,
    },
    /// Transactions were executed, in this order: they are processed. All that became visible at once.
    Executed(Arc<[Arc<ExecutedTransaction>]>),
    /// A block is complete, and kept if the ledger is kept: it is confirmed.
    Completed {
        /// The block.
        block: Arc<Block>,
        /// Milliseconds since 1970.
        timestamp_ms: u64,
    },
    /// This node's validator voted.
    Voted(Vote),
    /// A block is the new root. Every block of the final chain is told, none is jumped.
    Finalized {
        /// The block.
        block: Arc<Block>,
        /// Milliseconds since 1970.
        timestamp_ms: u64,
    },
}

/// A vote as `voteSubscribe` tells it.
#[derive(Clone, Debug)]
pub struct Vote {
    /// The vote account.
    pub vote_pubkey: Pubkey,
    /// The slots voted for, the oldest first.
    pub slots: Vec<Slot>,
    /// The bank hash of the newest.
    pub hash: Hash,
    /// Seconds since 1970, if the voter says.
    pub timestamp: Option<i64>,
    /// The vote transaction.
    pub signature: Signature,
}

/// Who is told of events. Called on the writer's thread: must return at once, whatever its own
/// listeners do.
pub trait EventSink: Send {
    /// Takes one event.
    fn send(&mut self, event: &LedgerEvent);
}
