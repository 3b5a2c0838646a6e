//! The parts of a listener's queue that most messages do not touch: conflated messages, holds, the pause, and the
//! message that is being written.
//!
//! Shape: apart from the queue, which allocates it when it needs a part and frees it when all parts are empty. So the
//! queue of an ordinary listener is small, and the publisher loads two cache lines of it.
//! A pause: its start and its end move whole buffers, and at most a few messages. The messages from before it are
//! separated by subscription while others are taken, at most [`SORTED_MAX`] of them before the queue is unlocked,
//! because the publisher may wait for the lock.
//! Invariant: the messages of a subscription are, in order, in `PausedMessages::own`, in `earlier`, and in
//! `PausedMessages::newer` if it is paused, or else in the queue. Those of another subscription are in
//! `PausedMessages::others`, in `earlier`, and in the queue.
//! Not here: the bytes and the bounds of the whole queue (`queue`).

use std::collections::{BTreeMap, VecDeque};

use foldhash::HashMap;

use super::message_buffers::{MessageBuffers, extract};
use crate::delivery::{Conflated, Delivery, Hold, Message};
use crate::filter::Position;
use crate::ids::SubscriptionId;

/// Messages that are sorted by a pause while the queue stays locked: some microseconds. With a larger value the
/// publisher waits longer; a smaller one unlocks more often.
pub(super) const SORTED_MAX: usize = 64;

pub(super) struct ColdState<M: Message> {
    /// The message that is being written.
    pub(super) writing: Option<M>,
    /// The subscription that is paused.
    paused: Option<PausedMessages<M>>,
    /// Messages from before the start or the end of a pause. They come before those of the queue.
    earlier: MessageBuffers<M>,
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

/// The pause of a subscription, and the messages that were sorted since its start.
struct PausedMessages<M> {
    subscription: SubscriptionId,
    /// Its messages from before the pause.
    own: VecDeque<Delivery<M>>,
    /// Messages of other subscriptions from before the pause.
    others: VecDeque<Delivery<M>>,
    /// Its messages since the start of the pause.
    newer: VecDeque<Delivery<M>>,
}

/// The result of a search for a message. A long search has several parts, and the queue may be unlocked after each.
pub(super) enum Found<M> {
    Message(Delivery<M>),
    /// There is none.
    Nothing,
    /// The search must continue with its next part.
    Unfinished,
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
            earlier: MessageBuffers::new(),
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
            && self.earlier.is_empty()
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
        let paused = self.paused.iter().flat_map(PausedMessages::iter).chain(self.earlier.iter());
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

    /// Number of messages that are on hold, paused, or from before a pause.
    pub(super) fn messages_count(&self) -> usize {
        let paused = self.paused.as_ref().map_or(0, PausedMessages::len);
        self.held_count + self.earlier.len() + paused
    }

    /// Whether a message that is not in the queue is known to be neither paused nor on hold.
    pub(super) fn has_unpaused(&self) -> bool {
        match &self.paused {
            Some(paused) => !paused.others.is_empty(),
            None => self.has_earlier(),
        }
    }

    /// Whether there are messages from before a pause that are not sorted.
    pub(super) fn has_earlier(&self) -> bool {
        !self.earlier.is_empty()
    }

    /// Whether a subscription is paused.
    pub(super) fn is_paused(&self, subscription: SubscriptionId) -> bool {
        self.paused.as_ref().is_some_and(|paused| paused.subscription == subscription)
    }

    /// Pauses a subscription. No other is paused. `queued` are all messages of the queue. Cost: O(1).
    pub(super) fn start_pause(
        &mut self,
        subscription: SubscriptionId,
        queued: VecDeque<Delivery<M>>,
    ) {
        self.earlier.append(queued);
        self.paused = Some(PausedMessages {
            subscription,
            own: VecDeque::new(),
            others: VecDeque::new(),
            newer: VecDeque::new(),
        });
    }

    /// Ends the pause, if there is one. Its messages come before those of the queue. Cost: O(1).
    pub(super) fn end_pause(&mut self) {
        let Some(paused) = self.paused.take() else { return };
        self.earlier.prepend(paused.others);
        self.earlier.prepend(paused.own);
        self.earlier.append(paused.newer);
    }

    /// The newest messages of a subscription, if it is paused.
    pub(super) fn newer_messages(
        &mut self,
        subscription: SubscriptionId,
    ) -> Option<&mut VecDeque<Delivery<M>>> {
        let paused = self.paused.as_mut().filter(|paused| paused.subscription == subscription)?;
        Some(&mut paused.newer)
    }

    /// Removes the first message from before those of the queue, paused or not.
    pub(super) fn take_first(&mut self) -> Option<Delivery<M>> {
        let Some(paused) = &mut self.paused else { return self.earlier.pop_front() };
        let sorted = paused.own.pop_front().or_else(|| paused.others.pop_front());
        sorted.or_else(|| self.earlier.pop_front()).or_else(|| paused.newer.pop_front())
    }

    /// Removes the first message from before those of the queue that is not paused.
    pub(super) fn take_unpaused(&mut self) -> Found<M> {
        let Some(paused) = &mut self.paused else {
            return self.earlier.pop_front().map_or(Found::Nothing, Found::Message);
        };
        if let Some(delivery) = paused.others.pop_front() {
            return Found::Message(delivery);
        }
        for _ in 0..SORTED_MAX {
            let Some(delivery) = self.earlier.pop_front() else { return Found::Nothing };
            if delivery.subscription != paused.subscription {
                return Found::Message(delivery);
            }
            paused.own.push_back(delivery);
        }
        Found::Unfinished
    }

    /// Removes the oldest message of the paused subscription, if it was published up to a position.
    pub(super) fn take_paused(&mut self, until: Position) -> Found<M> {
        let Some(paused) = &mut self.paused else { return Found::Nothing };
        let mut sorted_count = 0;
        while paused.own.is_empty()
            && let Some(delivery) = self.earlier.pop_front()
        {
            let is_own = delivery.subscription == paused.subscription;
            let sorted = if is_own { &mut paused.own } else { &mut paused.others };
            sorted.push_back(delivery);
            sorted_count += 1;
            if sorted_count == SORTED_MAX {
                return Found::Unfinished;
            }
        }
        let oldest = if paused.own.is_empty() { &mut paused.newer } else { &mut paused.own };
        let taken = oldest.pop_front_if(|delivery| delivery.at <= until);
        taken.map_or(Found::Nothing, Found::Message)
    }

    /// Removes the first message from before those of the queue that matches. No subscription that matches is paused.
    /// Cost: O(messages).
    pub(super) fn remove_first(
        &mut self,
        is_next: impl Fn(&Delivery<M>) -> bool,
    ) -> Option<Delivery<M>> {
        if let Some(paused) = &mut self.paused
            && let Some(index) = paused.others.iter().position(&is_next)
        {
            return paused.others.remove(index);
        }
        self.earlier.remove_first(is_next)
    }

    /// Moves the messages that match to the end of another buffer, those of each subscription in order. Not those on
    /// hold. Cost: O(messages).
    pub(super) fn extract(
        &mut self,
        to: &mut VecDeque<Delivery<M>>,
        is_extracted: impl Fn(&Delivery<M>) -> bool,
    ) {
        if let Some(paused) = &mut self.paused {
            extract(&mut paused.own, to, &is_extracted);
            extract(&mut paused.others, to, &is_extracted);
        }
        self.earlier.extract(to, &is_extracted);
        if let Some(paused) = &mut self.paused {
            extract(&mut paused.newer, to, &is_extracted);
        }
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
        let Some(newer) = self.newer_messages(delivery.subscription) else {
            return Some(delivery);
        };
        newer.push_back(delivery);
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

    /// Drops the messages of a subscription that were conflated or are on hold. Returns the bytes that they counted.
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
        removed
    }
}

impl<M> PausedMessages<M> {
    fn len(&self) -> usize {
        self.own.len() + self.others.len() + self.newer.len()
    }

    fn iter(&self) -> impl Iterator<Item = &Delivery<M>> {
        self.own.iter().chain(&self.others).chain(&self.newer)
    }
}
