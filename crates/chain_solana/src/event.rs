//! The events of a running ledger, in order.

use std::sync::Arc;

use ledger::Slot;
use solana_hash::Hash;
use solana_pubkey::Pubkey;
use solana_signature::Signature;

use crate::{Block, ExecutedTransaction};

/// A ledger event. The one writer sends it, in the order in which it became visible: a reader that
/// gets an event sees at least that state.
#[derive(Clone, Debug)]
pub enum LedgerEvent {
    /// A block was started.
    BankCreated {
        /// Its slot.
        slot: Slot,
        /// The parent's slot.
        parent: Slot,
        /// The newest finalized slot.
        root: Slot,
        /// Milliseconds since 1970.
        timestamp_ms: u64,
    },
    /// Transactions were executed, in this order: they are processed. One event has all that became
    /// visible at once.
    Executed(Arc<[Arc<ExecutedTransaction>]>),
    /// A block is complete, and stored if the ledger is persistent: it is confirmed.
    Completed {
        /// The block.
        block: Arc<Block>,
        /// Milliseconds since 1970.
        timestamp_ms: u64,
    },
    /// This node's validator voted.
    Voted(Vote),
    /// A block is the new root. Every block of the finalized chain is sent; none is skipped.
    Finalized {
        /// The block.
        block: Arc<Block>,
        /// Milliseconds since 1970.
        timestamp_ms: u64,
    },
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
}
