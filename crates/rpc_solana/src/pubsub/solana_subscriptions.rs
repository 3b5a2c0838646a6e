//! What Solana's subscriptions read, and the types that they are made of.

use std::sync::Arc;

use chain_solana::{Block, ClusterInfo, EventCounters, History, Reader, View};
use jsonrpc::pubsub::{PubSubServer, Session, SubscriptionTypes};
use ledger::{Address, AddressId, BlockId, Commitment};
use parking_lot::Mutex;
use solana::Encoding;
use solana_pubkey::Pubkey;

use super::block_items::BlockItems;
use super::config::Config;
use super::recent_blocks::RecentBlocks;
use super::subscription::Subscription;

/// Solana's subscriptions.
pub struct SolanaSubscriptions {
    pub(super) config: Config,
    pub(super) cluster_info: Arc<ClusterInfo>,
    pub(super) reader: Reader,
    pub(super) history: Arc<History>,
    /// The events that the notifier gets.
    pub(super) events: EventCounters,
    pub(super) recent_blocks: Mutex<RecentBlocks>,
    /// The last block that the ledger jumped to.
    pub(super) jumped: Mutex<Option<BlockId>>,
}

/// The server of Solana's subscriptions.
pub type SolanaPubSub = PubSubServer<SolanaSubscriptions>;

/// A connection to it.
pub(super) type SolanaSession = Session<SolanaSubscriptions>;

impl SubscriptionTypes for SolanaSubscriptions {
    type Subscription = Subscription;
    type Items = BlockItems;
    type Block = Block;
}

impl SolanaSubscriptions {
    pub(super) fn new(
        config: Config,
        cluster_info: Arc<ClusterInfo>,
        reader: Reader,
        history: Arc<History>,
        events: EventCounters,
    ) -> Self {
        let recent_blocks = Mutex::default();
        let jumped = Mutex::default();
        Self { config, cluster_info, reader, history, events, recent_blocks, jumped }
    }

    /// The view of a commitment's newest complete block: sets are notified by whole blocks.
    pub(super) fn complete_view(&self, commitment: Commitment) -> View {
        let view = self.reader.view(commitment);
        if view.meta().complete { view } else { self.reader.view(Commitment::Confirmed) }
    }

    /// The encoding that notifications have.
    pub(super) fn effective_encoding(&self, encoding: Encoding) -> Encoding {
        let slice = encoding.slice.filter(|_| self.config.apply_data_slice);
        Encoding { slice, ..encoding }
    }

    /// The id of an address, if it has one.
    pub(super) fn lookup_address(&self, pubkey: &Pubkey) -> Option<AddressId> {
        self.reader.addresses().lookup(&Address::from(pubkey.to_bytes()))
    }
}
