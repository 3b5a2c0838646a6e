//! The payloads in a client's queue: a notification that is the same for all listeners, or the common prefix of one,
//! to which the connection adds the listener's numbers when it writes it.
//!
//! Invariant: the common prefix is encoded once and shared. It is written as the first frame of a
//! WebSocket message whose second frame has the numbers.
//! Invariant: a payload refers to the accounts and transactions of its notification, never to a whole block.

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

/// The approximate memory of a conflated item.
const CONFLATED_ITEM_BYTES: usize = 120;

/// The body of a queued message.
#[derive(Clone)]
pub(super) enum Payload {
    /// A whole notification.
    Whole(SharedText),
    /// The prefix of a notification of a set.
    Split(SplitPayload),
}

/// A notification of a set up to the listener's numbers.
#[derive(Clone)]
pub(super) struct SplitPayload {
    /// `{"jsonrpc":...,"params":{"result":{...}`
    pub(super) prefix: SharedText,
    /// The items of the notification, for conflation.
    pub(super) block_items: Option<Arc<BlockItems>>,
}

/// Some items of a block.
pub(super) struct BlockItems {
    pub(super) direction: Direction,
    pub(super) slot: Slot,
    pub(super) blockhash: Hash,
    pub(super) items: Items,
    /// The data of accounts that may be alive only because of this.
    charge: Charge,
}

/// The items of a block that the listeners of a set get.
pub(super) enum Items {
    Writes(Vec<Write>),
    Transactions(Vec<Arc<ExecutedTransaction>>),
}

/// An account as a block left it.
#[derive(Clone)]
pub(super) struct Write {
    pub(super) pubkey: Pubkey,
    /// Closed if `None`.
    pub(super) account: Option<Arc<Account>>,
    /// Whether it is not found under the followed address any more.
    pub(super) left: bool,
}

/// Conflated messages: the newest write of each account, and all transactions.
#[derive(Default)]
pub(super) struct ConflatedState {
    pub(super) newest: Option<(Slot, Hash)>,
    pub(super) writes: HashMap<Pubkey, LatestWrite>,
    pub(super) transactions: Vec<(Arc<ExecutedTransaction>, Direction)>,
}

/// The newest write of an account.
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
    /// Bytes that it counts in a queue.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Whole(text) => text.len(),
            Self::Split(payload) => payload.prefix.len(),
        }
    }
}

impl Queued for Payload {
    type Conflated = ConflatedState;

    fn conflate(self, state: &mut ConflatedState) -> usize {
        // Only subscriptions to sets conflate.
        let Self::Split(SplitPayload { block_items: Some(block), .. }) = self else { return 0 };
        let before = state.writes.len() + state.transactions.len();
        let (slot, direction) = (block.slot, block.direction);
        state.newest = Some((slot, block.blockhash));
        match &block.items {
            Items::Transactions(transactions) => {
                let items = transactions.iter().map(|executed| (Arc::clone(executed), direction));
                state.transactions.extend(items);
            }
            Items::Writes(writes) => {
                for write in writes {
                    let latest = LatestWrite { slot, write: write.clone(), direction };
                    state.writes.insert(write.pubkey, latest);
                }
            }
        }
        (state.writes.len() + state.transactions.len() - before) * CONFLATED_ITEM_BYTES
    }

    fn memory(&self) -> usize {
        match self {
            Self::Whole(text) => text.memory(),
            Self::Split(SplitPayload { prefix, block_items }) => {
                let share =
                    |items: &Arc<BlockItems>| items.charge.bytes() / Arc::strong_count(items);
                prefix.memory() + block_items.as_ref().map_or(0, share)
            }
        }
    }

    fn conflation_bytes(&self) -> usize {
        match self {
            Self::Split(SplitPayload { block_items: Some(items), .. }) => items.charge.bytes(),
            Self::Split(_) | Self::Whole(_) => 0,
        }
    }

    fn forget_conflation(&mut self) {
        if let Self::Split(payload) = self {
            payload.block_items = None;
        }
    }
}

impl SplitPayload {
    /// The second frame of the message to one listener.
    pub(super) fn suffix(subscription: SubscriptionId, sequence: u64) -> String {
        format!(r#","sequence":{sequence},"subscription":{}}}}}"#, subscription.0)
    }
}
