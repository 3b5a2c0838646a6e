//! The items of a block that a set is notified of, and the newest state of those that a slow client did not read.
//!
//! Invariant: items refer to the accounts and transactions of their notification, never to a whole block.

use std::sync::Arc;

use chain_solana::ExecutedTransaction;
use foldhash::HashMap;
use ledger::{Slot, StoredRecord};
use solana::Account;
use solana_account::ReadableAccount;
use solana_hash::Hash;
use solana_pubkey::Pubkey;
use subscriptions::{Charge, Direction, QueueMemory};
use websocket::ConflatableItems;

/// The approximate memory of a conflated item.
const CONFLATED_ITEM_BYTES: usize = 120;

/// Some items of a block.
pub struct BlockItems {
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
    pub(super) account: Option<StoredRecord<Account>>,
    /// Whether it is no longer found under the followed address.
    pub(super) left: bool,
}

/// Conflated messages: the newest write of each account, and all transactions.
#[derive(Default)]
pub struct ConflatedState {
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
        // A patch changes no length.
        let data = |account: &StoredRecord<Account>| account.base().0.data().len();
        CONFLATED_ITEM_BYTES + self.account.as_ref().map_or(0, data)
    }
}

impl ConflatableItems for BlockItems {
    type State = ConflatedState;

    fn conflate(&self, state: &mut ConflatedState) -> usize {
        let before = state.writes.len() + state.transactions.len();
        let slot = self.slot;
        let direction = self.direction;
        state.newest = Some((slot, self.blockhash));
        match &self.items {
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

    fn bytes(&self) -> usize {
        self.charge.bytes()
    }
}
