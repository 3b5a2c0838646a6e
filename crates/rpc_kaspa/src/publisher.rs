//! From the chain's events and the upstream's notifications to the queues of clients.
//!
//! Input: the events of each publication of the chain, in order, and notifications of the upstream. Output: all nine
//! notifications, with the shapes and in the order of kaspad: within one publication UtxosChanged,
//! PruningPointUtxoSetOverride, SinkBlueScoreChanged, VirtualDaaScoreChanged, VirtualChainChanged. Those of chain blocks,
//! which kaspad does not have, come after UtxosChanged (`address_changes`). A request after a notification reads at least
//! that state.
//! From the upstream: BlockAdded, NewBlockTemplate, FinalityConflict, FinalityConflictResolved. The bytes of BlockAdded
//! are passed on, so it is subscribed to in both encodings. Those in JSON are translated to protobuf.
//! Invariant: a notification is encoded once for each subscription. The publisher never waits for a client.
//! Not here: the thread (`publisher_thread`), matching and queues (`subscriptions`).

use std::sync::Arc;

use chain_kaspa::{ChainEvent, LedgerBlock, Tips};
use kaspa::{ChainChange, Encoding, Event, Notification, encode_protobuf_block_added};
use ledger::{BlockId, Commitment};
use subscriptions::{AfterDelivery, CloseReason, Position, Publication, SubscriptionId};
use websocket::{Payload, SharedBytes};

use crate::address_changes::publish_blocks;
use crate::kaspa_rpc::KaspaServer;
use crate::message_format::MessageFormat;
use crate::messages::to_message;
use crate::subscription::Subscription;
use crate::utxo_notification::publish_utxos;

/// Steps of the virtual block and of the newest final block that are retained. Clients resume from chain blocks. These are
/// for subscriptions that start while blocks are published.
const OTHER_STEPS_MAX: usize = 16;

/// Publishes notifications. A server has one.
pub struct Publisher {
    server: Arc<KaspaServer>,
    /// The number of the last notification that is not of a set.
    position: u64,
    /// The block that the log of blocks started at. Blocks below are not in it.
    start: BlockId,
    /// The newest virtual block.
    virtual_block: Option<Arc<LedgerBlock>>,
}

impl Publisher {
    /// Creates the publisher of a server. It starts at the sink that readers see now.
    pub fn new(server: Arc<KaspaServer>) -> Self {
        let view = server.chain.utxos.view(Commitment::Confirmed);
        let start = view.block();
        server.recent_blocks.lock().add(start, view.meta());
        for commitment in [Commitment::Processed, Commitment::Finalized] {
            server.subscriptions.limit_retained_steps(commitment, OTHER_STEPS_MAX);
        }
        server.subscriptions.start_at(|_| start);
        Self { server, position: 0, start, virtual_block: None }
    }

    /// Publishes the events of a publication of the chain.
    pub fn publish_chain(&mut self, events: &[ChainEvent]) {
        for event in events {
            match event {
                ChainEvent::BlockAdded(block) => self.add_block(block),
                ChainEvent::TipsMoved(tips) => self.move_tips(*tips),
                ChainEvent::UtxoSetReplaced => {
                    self.notify_all(&Notification::PruningPointUtxoSetOverride);
                }
                ChainEvent::SinkBlueScoreChanged { blue_score } => {
                    let sink_blue_score = *blue_score;
                    self.notify_all(&Notification::SinkBlueScoreChanged { sink_blue_score });
                }
                ChainEvent::VirtualDaaScoreChanged { daa_score } => {
                    let virtual_daa_score = *daa_score;
                    self.notify_all(&Notification::VirtualDaaScoreChanged { virtual_daa_score });
                }
                ChainEvent::ChainChanged(change) => self.notify_chain(change),
                ChainEvent::BlockDropped(block) => self.drop_block(*block),
                // Clients see a chain without new blocks.
                ChainEvent::BlockRefused { .. } => {}
            }
        }
    }

    /// Publishes a notification of the upstream, which came in this encoding. One that the chain makes itself is
    /// ignored.
    pub fn publish_upstream(&mut self, encoding: Encoding, notification: &Notification) {
        match notification {
            Notification::BlockAdded(content) => {
                self.notify(encoding.into(), notification);
                if encoding == Encoding::Json {
                    self.notify_block_in_protobuf(content);
                }
            }
            Notification::NewBlockTemplate
            | Notification::FinalityConflict { .. }
            | Notification::FinalityConflictResolved { .. } => self.notify_all(notification),
            Notification::VirtualChainChanged(_)
            | Notification::UtxosChanged(_)
            | Notification::SinkBlueScoreChanged { .. }
            | Notification::VirtualDaaScoreChanged { .. }
            | Notification::PruningPointUtxoSetOverride => {}
        }
    }

    /// Closes all connections: events were lost that may have been for any of them. The next events continue.
    pub fn close_all(&self) {
        self.server.subscriptions.close_all(CloseReason::EventsLost);
    }

    fn add_block(&mut self, block: &Arc<LedgerBlock>) {
        if block.info.is_virtual {
            self.virtual_block = Some(Arc::clone(block));
        } else {
            self.server.recent_blocks.lock().add(block.id, &block.info);
        }
        let subscriptions = &self.server.subscriptions;
        let body = Arc::clone(block);
        let added = subscriptions.add_block(block.id, block.parent, body, block.retained_bytes());
        if let Err(error) = added {
            // The next move of the tips finds the gap.
            tracing::error!(%error, "the log of blocks is full");
        }
    }

    fn move_tips(&mut self, tips: Tips) {
        // After a restart the follower adds blocks that clients of the earlier process have already.
        self.server.subscriptions.expect_resume();
        if !self.advance_processed(tips.processed) || !self.advance_confirmed(tips.confirmed) {
            self.restart(tips);
        }
        // Blocks below the start are not in the log. The root passes it later.
        if tips.finalized.slot > self.start.slot {
            let subscriptions = &self.server.subscriptions;
            let advanced = subscriptions.advance(Commitment::Finalized, tips.finalized).map(drop);
            if let Err(error) = advanced {
                tracing::error!(%error, "a final block is not in the log of blocks");
                self.restart(tips);
            }
        }
    }

    /// Publishes the move of the virtual block. False if the log has a gap.
    fn advance_processed(&self, to: BlockId) -> bool {
        let subscriptions = &self.server.subscriptions;
        let Ok(steps) = subscriptions.advance(Commitment::Processed, to) else { return false };
        publish_utxos(&self.server, &steps);
        true
    }

    /// Publishes the move of the sink. False if the log has a gap.
    fn advance_confirmed(&mut self, to: BlockId) -> bool {
        let subscriptions = &self.server.subscriptions;
        let Ok(steps) = subscriptions.advance(Commitment::Confirmed, to) else { return false };
        publish_blocks(&self.server, &steps);
        true
    }

    /// Continues after a gap. Its blocks cannot be published, so every client is closed.
    fn restart(&mut self, tips: Tips) {
        tracing::error!(
            slot = tips.confirmed.slot,
            "a block does not lead back to the published chain: all clients are closed"
        );
        self.close_all();
        let subscriptions = &self.server.subscriptions;
        self.start = tips.confirmed;
        // The log has no step of the others any longer.
        self.server.recent_blocks.lock().clear_except(self.start);
        let view = self.server.chain.utxos.view(Commitment::Confirmed);
        if view.block() == self.start {
            // The event that added it may be in the gap.
            self.server.recent_blocks.lock().add(self.start, view.meta());
        }
        subscriptions.start_at(|_| tips.confirmed);
        let tip = self.virtual_block.clone().filter(|block| block.id == tips.processed);
        if let Some(block) = tip {
            self.add_block(&block);
            if !self.advance_processed(block.id) {
                tracing::error!("the virtual block is not above the sink");
            }
        }
    }

    fn drop_block(&mut self, block: BlockId) {
        if let Err(error) = self.server.subscriptions.drop_fork(block) {
            tracing::error!(%error, "a dropped block is still published");
        }
    }

    /// Notifies of a change of the chain: with ids, and without.
    fn notify_chain(&mut self, change: &Arc<ChainChange>) {
        for format in MessageFormat::ALL {
            for has_accepted_ids in [false, true] {
                self.publish(Subscription::ChainChanges { format, has_accepted_ids }, || {
                    let mut change = ChainChange::clone(change);
                    if !has_accepted_ids {
                        change.accepted.clear();
                    }
                    encode(format, &Notification::VirtualChainChanged(change))
                });
            }
        }
    }

    fn notify_all(&mut self, notification: &Notification) {
        for format in MessageFormat::ALL {
            self.notify(format, notification);
        }
    }

    fn notify(&mut self, format: MessageFormat, notification: &Notification) {
        let event = subscribed_event(format, notification.event());
        self.publish(Subscription::Event(format, event), || encode(format, notification));
    }

    /// Notifies of an added block in protobuf, from its content in JSON.
    fn notify_block_in_protobuf(&mut self, content: &[u8]) {
        let format = MessageFormat::Protobuf;
        let subscription = Subscription::Event(format, Event::BlockAdded);
        let Some(id) = self.find_listeners(subscription) else { return };
        match encode_protobuf_block_added(&String::from_utf8_lossy(content)) {
            Ok(content) => {
                let message = encode(format, &Notification::BlockAdded(content));
                self.deliver(id, format, message);
            }
            Err(error) => tracing::error!(%error, "an added block was not sent over gRPC"),
        }
    }

    /// Delivers a notification, if anybody has the subscription.
    fn publish(&mut self, subscription: Subscription, encode: impl FnOnce() -> Vec<u8>) {
        if let Some(id) = self.find_listeners(subscription) {
            self.deliver(id, subscription.format(), encode());
        }
    }

    /// Returns the shared subscription of all listeners that have it, if there are some.
    fn find_listeners(&self, subscription: Subscription) -> Option<SubscriptionId> {
        let subscriptions = &self.server.subscriptions;
        let found = subscriptions.matches().matching(subscription.topic(), []);
        found.into_iter().next().map(|found| found.id)
    }

    fn deliver(&mut self, subscription: SubscriptionId, format: MessageFormat, message: Vec<u8>) {
        let subscriptions = &self.server.subscriptions;
        self.position += 1;
        let message = to_message(format, message);
        let body = Payload::Whole(SharedBytes::new(message, subscriptions.queue_memory()));
        let bytes = body.bytes();
        subscriptions.deliver([Publication {
            subscription,
            body,
            bytes,
            at: Position(self.position),
            after_delivery: AfterDelivery::Continue,
        }]);
    }
}

/// Returns the event whose subscribers get a notification. Over gRPC there is one subscription to finality conflicts and
/// to their resolution.
fn subscribed_event(format: MessageFormat, event: Event) -> Event {
    match (format, event) {
        (MessageFormat::Protobuf, Event::FinalityConflictResolved) => Event::FinalityConflict,
        (_, event) => event,
    }
}

fn encode(format: MessageFormat, notification: &Notification) -> Vec<u8> {
    match format {
        MessageFormat::Borsh => notification.encode_borsh(),
        MessageFormat::Json => notification.encode_json(),
        MessageFormat::Protobuf => notification.encode_protobuf(),
    }
}
