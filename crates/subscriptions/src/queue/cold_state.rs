//! The parts of a listener's queue that most messages do not touch: conflated messages, holds, the pause, and the
//! message that is being written.
//!
//! Shape: apart from the queue, which allocates it when it needs a part and frees it when all parts are empty. So the
//! queue of an ordinary listener is small, and the publisher loads two cache lines of it.
//! A pause: its start and its end move whole buffers, and at most a few messages. The messages from before it are split
//! into those of the paused subscription and the others while messages are taken, at most [`SPLIT_MAX`] of them before
//! the queue is unlocked, because the publisher may wait for the lock.
//! Invariant: the messages of a subscription are, in order, in `Pause::own`, in `earlier`, and in `Pause::newer` if it
//! is paused, or else in the queue. Those of another subscription are in `Pause::others`, in `earlier`, and in the
//! queue.
//! Not here: the bytes and the bounds of the whole queue (`queue`).

use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;

use foldhash::HashMap;

use super::message_buffers::{MessageBuffers, extract};
use crate::delivery::{Conflated, Delivery, Hold, Message};
use crate::filter::Position;
use crate::ids::SubscriptionId;

/// Messages that a pause splits while the queue stays locked: some microseconds. With a larger value the publisher
/// waits longer; a smaller one unlocks more often.
pub(super) const SPLIT_MAX: usize = 64;

pub(super) struct ColdState<M: Message> {
    /// The message that is being written.
    pub(super) writing: Option<M>,
    /// The pause of a subscription. At most one is paused.
    pause: Option<Pause<M>>,
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

/// The pause of a subscription, and the messages that were split since its start.
struct Pause<M> {
    subscription: SubscriptionId,
    /// Its messages from before the pause.
    own: VecDeque<Delivery<M>>,
    /// Messages of other subscriptions from before the pause.
    others: VecDeque<Delivery<M>>,
    /// Its messages since the start of the pause.
    newer: VecDeque<Delivery<M>>,
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
            pause: None,
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
            && self.pause.is_none()
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
        let paused = self.pause.iter().flat_map(Pause::iter).chain(self.earlier.iter());
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
        let paused = self.pause.as_ref().map_or(0, Pause::len);
        self.held_count + self.earlier.len() + paused
    }

    /// Whether a message that is not in the queue is known to be neither paused nor on hold.
    pub(super) fn has_unpaused(&self) -> bool {
        match &self.pause {
            Some(pause) => !pause.others.is_empty(),
            None => self.has_earlier(),
        }
    }

    /// Whether there are messages from before a pause that are not split.
    pub(super) fn has_earlier(&self) -> bool {
        !self.earlier.is_empty()
    }

    /// Whether a subscription is paused.
    pub(super) fn is_paused(&self, subscription: SubscriptionId) -> bool {
        self.pause.as_ref().is_some_and(|pause| pause.subscription == subscription)
    }

    /// Pauses a subscription. No other is paused. `queued` are all messages of the queue. Cost: O(1).
    pub(super) fn start_pause(
        &mut self,
        subscription: SubscriptionId,
        queued: VecDeque<Delivery<M>>,
    ) {
        self.earlier.append(queued);
        self.pause = Some(Pause {
            subscription,
            own: VecDeque::new(),
            others: VecDeque::new(),
            newer: VecDeque::new(),
        });
    }

    /// Ends the pause, if there is one. Its messages come before those of the queue. Cost: O(1).
    pub(super) fn end_pause(&mut self) {
        let Some(pause) = self.pause.take() else { return };
        self.earlier.prepend(pause.others);
        self.earlier.prepend(pause.own);
        self.earlier.append(pause.newer);
    }

    /// The newest messages of a subscription, if it is paused.
    pub(super) fn newer_messages(
        &mut self,
        subscription: SubscriptionId,
    ) -> Option<&mut VecDeque<Delivery<M>>> {
        let pause = self.pause.as_mut().filter(|pause| pause.subscription == subscription)?;
        Some(&mut pause.newer)
    }

    /// Removes the first message from before those of the queue, paused or not.
    pub(super) fn take_first(&mut self) -> Option<Delivery<M>> {
        let Some(pause) = &mut self.pause else { return self.earlier.pop_front() };
        let split = pause.own.pop_front().or_else(|| pause.others.pop_front());
        split.or_else(|| self.earlier.pop_front()).or_else(|| pause.newer.pop_front())
    }

    /// Removes the first message from before those of the queue that is not paused. `Continue` after [`SPLIT_MAX`]
    /// messages: the search is not finished, and the queue may be unlocked before it continues.
    pub(super) fn take_unpaused(&mut self) -> ControlFlow<Option<Delivery<M>>> {
        let Some(pause) = &mut self.pause else {
            return ControlFlow::Break(self.earlier.pop_front());
        };
        if let Some(delivery) = pause.others.pop_front() {
            return ControlFlow::Break(Some(delivery));
        }
        for _ in 0..SPLIT_MAX {
            let Some(delivery) = self.earlier.pop_front() else { return ControlFlow::Break(None) };
            if delivery.subscription != pause.subscription {
                return ControlFlow::Break(Some(delivery));
            }
            pause.own.push_back(delivery);
        }
        ControlFlow::Continue(())
    }

    /// Removes the oldest message of the paused subscription, if it was published up to a position. `Continue`: as in
    /// [`Self::take_unpaused`].
    pub(super) fn take_paused(&mut self, until: Position) -> ControlFlow<Option<Delivery<M>>> {
        let Some(pause) = &mut self.pause else { return ControlFlow::Break(None) };
        let mut split_count = 0;
        while pause.own.is_empty()
            && let Some(delivery) = self.earlier.pop_front()
        {
            let is_own = delivery.subscription == pause.subscription;
            let buffer = if is_own { &mut pause.own } else { &mut pause.others };
            buffer.push_back(delivery);
            split_count += 1;
            if split_count == SPLIT_MAX {
                return ControlFlow::Continue(());
            }
        }
        let oldest = if pause.own.is_empty() { &mut pause.newer } else { &mut pause.own };
        ControlFlow::Break(oldest.pop_front_if(|delivery| delivery.at <= until))
    }

    /// Removes the first message from before those of the queue that matches. No subscription that matches is paused.
    /// Cost: O(messages).
    pub(super) fn remove_first(
        &mut self,
        is_next: impl Fn(&Delivery<M>) -> bool,
    ) -> Option<Delivery<M>> {
        if let Some(pause) = &mut self.pause
            && let Some(index) = pause.others.iter().position(&is_next)
        {
            return pause.others.remove(index);
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
        if let Some(pause) = &mut self.pause {
            extract(&mut pause.own, to, &is_extracted);
            extract(&mut pause.others, to, &is_extracted);
        }
        self.earlier.extract(to, &is_extracted);
        if let Some(pause) = &mut self.pause {
            extract(&mut pause.newer, to, &is_extracted);
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

impl<M> Pause<M> {
    fn len(&self) -> usize {
        self.own.len() + self.others.len() + self.newer.len()
    }

    fn iter(&self) -> impl Iterator<Item = &Delivery<M>> {
        self.own.iter().chain(&self.others).chain(&self.newer)
    }
}
