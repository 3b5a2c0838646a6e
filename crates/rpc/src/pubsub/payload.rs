//! What waits in a client's queue: a notification that is the same for all who get it, or the common
//! beginning of one, to which each listener's numbers are added when it is written.
//!
//! Invariant: the common beginning is encoded once and shared. It goes out as the first frame of a
//! WebSocket message whose second frame has the numbers.
//! Invariant: what waits holds the accounts and transactions that it tells of, and no block with all else in it.

use std::sync::Arc;

use chain_solana::ExecutedTransaction;
use foldhash::HashMap;
use ledger::Slot;
use solana::Account;
use solana_account::ReadableAccount;
use solana_hash::Hash;
use solana_pubkey::Pubkey;
use subscriptions::{Charge, Direction, Message as Queued, QueueMemory, SubscriptionId};

use super::shared_text::SharedText;

/// What a thing that was conflated may cost in memory, about.
const CONFLATED_ITEM_BYTES: usize = 120;

/// The body of a queued message.
#[derive(Clone)]
pub(super) enum Payload {
    /// A whole notification.
    Whole(SharedText),
    /// The beginning of one of a set.
    Split(SplitPayload),
}

/// A notification of a set up to the listener's numbers.
#[derive(Clone)]
pub(super) struct SplitPayload {
    /// `{"jsonrpc":...,"params":{"result":{...}`
    pub(super) prefix: SharedText,
    /// What it tells of, in case it is conflated.
    pub(super) block_items: Option<Arc<BlockItems>>,
}

/// Some of what a block did.
pub(super) struct BlockItems {
    pub(super) direction: Direction,
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
pub(super) struct ConflatedState {
    pub(super) newest: Option<(Slot, Hash)>,
    pub(super) writes: HashMap<Pubkey, LatestWrite>,
    pub(super) transactions: Vec<(Arc<ExecutedTransaction>, Direction)>,
}

/// The newest that was told of an account.
pub(super) struct LatestWrite {
    pub(super) slot: Slot,
    pub(super) write: Write,
    pub(super) direction: Direction,
}

impl BlockItems {
    pub(super) fn new(
        direction: Direction,
        (slot, blockhash): (Slot, Hash),
        items: Items,
        memory: &Arc<QueueMemory>,
    ) -> Self {
        let bytes = match &items {
            Items::Writes(writes) => writes.iter().map(Write::bytes).sum(),
            Items::Transactions(transactions) => transactions.len() * CONFLATED_ITEM_BYTES,
        };
        Self { direction, slot, blockhash, items, charge: memory.charge(bytes) }
    }
}

impl Write {
    fn bytes(&self) -> usize {
        CONFLATED_ITEM_BYTES + self.account.as_ref().map_or(0, |account| account.0.data().len())
    }
}

impl Payload {
    /// What it counts against a queue's bytes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Whole(text) => text.len(),
            Self::Split(placed) => placed.prefix.len(),
        }
    }
}

impl Queued for Payload {
    type Conflated = ConflatedState;

    fn conflate(self, kept: &mut ConflatedState) -> usize {
        // Only sets ask for it.
        let Self::Split(SplitPayload { block_items: Some(things), .. }) = self else { return 0 };
        let before = kept.writes.len() + kept.transactions.len();
        kept.newest = Some((things.slot, things.blockhash));
        match &things.items {
            Items::Transactions(transactions) => {
                let told =
                    transactions.iter().map(|executed| (Arc::clone(executed), things.direction));
                kept.transactions.extend(told);
            }
            Items::Writes(writes) => {
                for write in writes {
                    let (slot, turn) = (things.slot, things.direction);
                    let newest = LatestWrite { slot, write: write.clone(), direction: turn };
                    kept.writes.insert(write.pubkey, newest);
                }
            }
        }
        (kept.writes.len() + kept.transactions.len() - before) * CONFLATED_ITEM_BYTES
    }

    fn memory(&self) -> usize {
        match self {
            Self::Whole(text) => text.memory(),
            Self::Split(SplitPayload { prefix: beginning, block_items: things }) => {
                let things = things.as_ref();
                let of_things =
                    things.map_or(0, |things| things.charge.bytes() / Arc::strong_count(things));
                beginning.memory() + of_things
            }
        }
    }

    fn conflation_bytes(&self) -> usize {
        match self {
            Self::Split(SplitPayload { block_items: Some(things), .. }) => things.charge.bytes(),
            Self::Split(_) | Self::Whole(_) => 0,
        }
    }

    fn forget_conflation(&mut self) {
        if let Self::Split(placed) = self {
            placed.block_items = None;
        }
    }
}

impl SplitPayload {
    /// The second frame of the message to one listener.
    pub(super) fn suffix(subscription: SubscriptionId, sequence: u64) -> String {
        format!(r#","sequence":{sequence},"subscription":{}}}}}"#, subscription.0)
    }
}
