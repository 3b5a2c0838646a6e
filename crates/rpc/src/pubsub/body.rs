//! What waits in a client's queue: a notification that is the same for all who get it, or the common
//! beginning of one, to which each listener's numbers are added when it is written.
//!
//! Invariant: the common beginning is encoded once and shared. It goes out as the first frame of a
//! WebSocket message whose second frame has the numbers.
//! Invariant: what waits holds the accounts and transactions that it tells of, and no block with all else in it.

use std::sync::Arc;

use chain::ExecutedTransaction;
use foldhash::HashMap;
use ledger::Slot;
use solana::Account;
use solana_account::ReadableAccount;
use solana_hash::Hash;
use solana_pubkey::Pubkey;
use subs::{Charge, Message as Queued, QueueMemory, SubscriptionId, Turn};

use super::text::SharedText;

/// What a thing that was conflated may cost in memory, about.
const KEPT_BYTES: usize = 120;

/// The body of a queued message.
#[derive(Clone)]
pub(super) enum Body {
    /// A whole notification.
    Whole(SharedText),
    /// The beginning of one of a set.
    Placed(Placed),
}

/// A notification of a set up to the listener's numbers.
#[derive(Clone)]
pub(super) struct Placed {
    /// `{"jsonrpc":...,"params":{"result":{...}`
    pub(super) beginning: SharedText,
    /// What it tells of, in case it is conflated.
    pub(super) things: Option<Arc<Things>>,
}

/// Some of what a block did.
pub(super) struct Things {
    pub(super) turn: Turn,
    pub(super) slot: Slot,
    pub(super) blockhash: Hash,
    pub(super) items: Items,
    /// The data of accounts that this alone may hold by now.
    charge: Charge,
}

/// What of a block the subscribers of a set get.
pub(super) enum Items {
    Writes(Vec<Write>),
    Transactions(Vec<Arc<ExecutedTransaction>>),
}

/// What a block left under an address.
#[derive(Clone)]
pub(super) struct Write {
    pub(super) pubkey: Pubkey,
    /// Closed if `None`.
    pub(super) account: Option<Arc<Account>>,
    /// Whether it is not found any more by what is followed.
    pub(super) left: bool,
}

/// What is left of conflated messages: the newest of each thing.
#[derive(Default)]
pub(super) struct Kept {
    pub(super) newest: Option<(Slot, Hash)>,
    pub(super) writes: HashMap<Pubkey, KeptWrite>,
    pub(super) transactions: Vec<(Arc<ExecutedTransaction>, Turn)>,
}

/// The newest that was told of an account.
pub(super) struct KeptWrite {
    pub(super) slot: Slot,
    pub(super) write: Write,
    pub(super) turn: Turn,
}

impl Things {
    pub(super) fn new(
        turn: Turn,
        (slot, blockhash): (Slot, Hash),
        items: Items,
        memory: &Arc<QueueMemory>,
    ) -> Self {
        let bytes = match &items {
            Items::Writes(writes) => writes.iter().map(Write::bytes).sum(),
            Items::Transactions(transactions) => transactions.len() * KEPT_BYTES,
        };
        Self { turn, slot, blockhash, items, charge: memory.charge(bytes) }
    }
}

impl Write {
    fn bytes(&self) -> usize {
        KEPT_BYTES + self.account.as_ref().map_or(0, |account| account.0.data().len())
    }
}

impl Body {
    /// What it counts against a queue's bytes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Whole(text) => text.len(),
            Self::Placed(placed) => placed.beginning.len(),
        }
    }
}

impl Queued for Body {
    type Kept = Kept;

    fn conflate(self, kept: &mut Kept) -> usize {
        // Only sets ask for it.
        let Self::Placed(Placed { things: Some(things), .. }) = self else { return 0 };
        let before = kept.writes.len() + kept.transactions.len();
        kept.newest = Some((things.slot, things.blockhash));
        match &things.items {
            Items::Transactions(transactions) => {
                let told = transactions.iter().map(|executed| (Arc::clone(executed), things.turn));
                kept.transactions.extend(told);
            }
            Items::Writes(writes) => {
                for write in writes {
                    let (slot, turn) = (things.slot, things.turn);
                    let newest = KeptWrite { slot, write: write.clone(), turn };
                    kept.writes.insert(write.pubkey, newest);
                }
            }
        }
        (kept.writes.len() + kept.transactions.len() - before) * KEPT_BYTES
    }

    fn memory(&self) -> usize {
        match self {
            Self::Whole(text) => text.memory(),
            Self::Placed(Placed { beginning, things }) => {
                let things = things.as_ref();
                let of_things =
                    things.map_or(0, |things| things.charge.bytes() / Arc::strong_count(things));
                beginning.memory() + of_things
            }
        }
    }

    fn conflation_bytes(&self) -> usize {
        match self {
            Self::Placed(Placed { things: Some(things), .. }) => things.charge.bytes(),
            Self::Placed(_) | Self::Whole(_) => 0,
        }
    }

    fn forget_conflation(&mut self) {
        if let Self::Placed(placed) = self {
            placed.things = None;
        }
    }
}

impl Placed {
    /// The second frame of the message to one listener.
    pub(super) fn end(subscription: SubscriptionId, sequence: u64) -> String {
        format!(r#","sequence":{sequence},"subscription":{}}}}}"#, subscription.0)
    }
}
