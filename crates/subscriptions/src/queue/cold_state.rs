//! The parts of a listener's queue that most messages do not touch: conflated messages, holds, the pause, and the
//! message that is being written.
//!
//! Shape: apart from the queue, which allocates it when it needs a part and frees it when all parts are empty. So the
//! queue of an ordinary listener is small, and the publisher loads two cache lines of it.
//! Not here: the bytes and the bounds of the whole queue (`queue`).

use std::collections::{BTreeMap, VecDeque};

use foldhash::HashMap;

use crate::delivery::{Conflated, Delivery, Hold, Message};
use crate::ids::SubscriptionId;

pub(super) struct ColdState<M: Message> {
    /// The message that is being written.
    pub(super) writing: Option<M>,
    /// The subscription that is paused.
    paused: Option<PausedMessages<M>>,
    conflated: BTreeMap<SubscriptionId, Conflated<M::Conflated>>,
    /// Bytes of conflated messages.
    conflated_bytes: usize,
    /// The subscriptions that are on hold, with their messages.
    holds: HashMap<SubscriptionId, HeldMessages<M>>,
    /// Number of messages in `holds`.
    held_count: usize,
    /// Holds that the connection has not taken yet.
    new_holds: Vec<Hold>,
}

/// The messages of the subscription that is paused. They are stored apart from the others, so that taking one of those
/// need not skip them.
struct PausedMessages<M> {
    subscription: SubscriptionId,
    messages: VecDeque<Delivery<M>>,
}

/// The messages of a subscription that is on hold. They are not conflated: only sets conflate, which are never on hold.
struct HeldMessages<M> {
    /// The number of its newest hold.
    number: u64,
    messages: VecDeque<Delivery<M>>,
}

impl<M: Message> ColdState<M> {
    pub(super) fn new() -> Self {
        Self {
            writing: None,
            paused: None,
            conflated: BTreeMap::new(),
            conflated_bytes: 0,
            holds: HashMap::default(),
            held_count: 0,
            new_holds: Vec::new(),
        }
    }

    /// Whether all parts are empty.
    pub(super) fn is_unused(&self) -> bool {
        self.writing.is_none()
            && self.paused.is_none()
            && self.conflated.is_empty()
            && self.holds.is_empty()
            && self.new_holds.is_empty()
    }

    /// The bytes of conflated messages, and of the holds without their messages.
    pub(super) fn charged_bytes(&self) -> usize {
        self.conflated_bytes
            + self.holds.len() * size_of::<(SubscriptionId, HeldMessages<M>)>()
            + self.new_holds.len() * size_of::<Hold>()
    }

    /// The approximate bytes that dropping the bodies of its messages frees. Cost: O(messages).
    pub(super) fn body_memory(&self) -> usize {
        let held = self.holds.values().flat_map(|held| &held.messages);
        let held: usize = held.map(|delivery| delivery.body.memory()).sum();
        let paused = self.paused.iter().flat_map(|paused| &paused.messages);
        let paused: usize = paused.map(|delivery| delivery.body.memory()).sum();
        held + paused + self.writing.as_ref().map_or(0, Message::memory)
    }

    /// Whether messages of a subscription were conflated.
    pub(super) fn is_conflated(&self, subscription: SubscriptionId) -> bool {
        self.conflated.contains_key(&subscription)
    }

    /// Number of subscriptions with conflated messages.
    pub(super) fn conflated_count(&self) -> usize {
        self.conflated.len()
    }

    /// Conflates a message. Returns by how many bytes the state grew.
    pub(super) fn conflate(&mut self, delivery: Delivery<M>) -> usize {
        let subscription = delivery.subscription;
        let conflated = self.conflated.entry(subscription).or_insert_with(|| Conflated {
            subscription,
            sequence: 0,
            messages: 0,
            state: M::Conflated::default(),
            bytes: 0,
        });
        conflated.sequence = delivery.sequence;
        conflated.messages += 1;
        let grown = delivery.body.conflate(&mut conflated.state);
        conflated.bytes += grown;
        self.conflated_bytes += grown;
        grown
    }

    /// Removes the conflated messages of a subscription.
    pub(super) fn take_conflated(&mut self) -> Option<Conflated<M::Conflated>> {
        let (_, conflated) = self.conflated.pop_first()?;
        self.conflated_bytes -= conflated.bytes;
        Some(conflated)
    }

    /// Number of messages that are on hold or paused.
    pub(super) fn messages_count(&self) -> usize {
        self.held_count + self.paused.as_ref().map_or(0, |paused| paused.messages.len())
    }

    /// Pauses a subscription, with its messages so far. No other is paused.
    pub(super) fn start_pause(
        &mut self,
        subscription: SubscriptionId,
        messages: VecDeque<Delivery<M>>,
    ) {
        self.paused = Some(PausedMessages { subscription, messages });
    }

    /// Ends the pause. Returns the messages that waited.
    pub(super) fn end_pause(&mut self) -> VecDeque<Delivery<M>> {
        self.paused.take().map(|paused| paused.messages).unwrap_or_default()
    }

    /// The messages of a subscription, if it is paused.
    pub(super) fn paused_messages(
        &mut self,
        subscription: SubscriptionId,
    ) -> Option<&mut VecDeque<Delivery<M>>> {
        let paused = self.paused.as_mut().filter(|paused| paused.subscription == subscription)?;
        Some(&mut paused.messages)
    }

    /// Removes the oldest message of the paused subscription.
    pub(super) fn take_paused(&mut self) -> Option<Delivery<M>> {
        self.paused.as_mut()?.messages.pop_front()
    }

    /// Removes the messages of the paused subscription if they may be conflated.
    pub(super) fn take_conflating(&mut self) -> VecDeque<Delivery<M>> {
        let conflates =
            |paused: &&mut PausedMessages<M>| paused.messages.iter().all(|queued| queued.conflates);
        let paused = self.paused.as_mut().filter(conflates);
        paused.map(|paused| std::mem::take(&mut paused.messages)).unwrap_or_default()
    }

    /// Whether a subscription is on hold.
    pub(super) fn is_on_hold(&self, subscription: SubscriptionId) -> bool {
        self.holds.contains_key(&subscription)
    }

    /// Whether a subscription is still held by this hold.
    pub(super) fn has_hold(&self, hold: Hold) -> bool {
        self.holds.get(&hold.subscription).is_some_and(|held| held.number == hold.number)
    }

    /// Starts a hold of a subscription that is not on hold, with its messages so far.
    pub(super) fn start_hold(&mut self, hold: Hold, messages: VecDeque<Delivery<M>>) {
        self.held_count += messages.len();
        self.holds.insert(hold.subscription, HeldMessages { number: hold.number, messages });
        self.new_holds.push(hold);
    }

    /// Adds a message if its subscription is on hold or paused. Otherwise returns it.
    pub(super) fn add_waiting(&mut self, delivery: Delivery<M>) -> Option<Delivery<M>> {
        if let Some(held) = self.holds.get_mut(&delivery.subscription) {
            self.held_count += 1;
            held.messages.push_back(delivery);
            return None;
        }
        let Some(paused) = self.paused_messages(delivery.subscription) else {
            return Some(delivery);
        };
        paused.push_back(delivery);
        None
    }

    /// Ends a hold, if it is the newest of its subscription. Returns its messages.
    pub(super) fn end_hold(&mut self, hold: Hold) -> Option<VecDeque<Delivery<M>>> {
        if !self.has_hold(hold) {
            return None;
        }
        let held = self.holds.remove(&hold.subscription)?;
        self.held_count -= held.messages.len();
        Some(held.messages)
    }

    /// Removes the holds that were not taken yet.
    pub(super) fn take_new_holds(&mut self) -> Vec<Hold> {
        std::mem::take(&mut self.new_holds)
    }

    /// Drops the messages of a subscription. Returns the bytes that they counted.
    pub(super) fn remove_subscription(&mut self, subscription: SubscriptionId) -> usize {
        let mut removed = 0;
        if let Some(conflated) = self.conflated.remove(&subscription) {
            self.conflated_bytes -= conflated.bytes;
            removed += conflated.bytes;
        }
        if let Some(held) = self.holds.remove(&subscription) {
            self.held_count -= held.messages.len();
            removed += held.messages.iter().map(|delivery| delivery.bytes).sum::<usize>();
        }
        if let Some(paused) = self.paused_messages(subscription) {
            removed += paused.drain(..).map(|delivery| delivery.bytes).sum::<usize>();
        }
        removed
    }
}
