//! The channel from a ledger's one writer to a server of its events: PubSub, REST or gRPC.
//!
//! Input: events, in order. Output: the same events, each with its number, and [`Received::Lost`] after a loss.
//! Bounds: [`EventBounds`]. The writer never waits: an event beyond a bound is dropped, and the receiver gets
//! [`Received::Lost`] instead. With a reserve, writes of accounts and transactions may only take three quarters of
//! a bound. So they are lost first, and a receiver still gets the blocks to which they belong.
//! Not here: the reaction to a loss, and the events that a server ignores. Each server has its own.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ledger::{BlockId, Slot};
use parking_lot::{Condvar, Mutex};

use crate::event::{EventSink, LedgerEvent};

/// Bounds of an event channel.
#[derive(Clone, Copy, Debug)]
pub struct EventBounds {
    /// Maximum number of queued events. 0 counts as 1.
    pub events_max: usize,
    /// Maximum estimated bytes of the queued events and of the one that the receiver handles. A single event may exceed
    /// it. With `None` bytes are not counted.
    pub bytes_max: Option<usize>,
    /// Whether the last quarter of each bound is reserved for events other than writes of accounts and transactions. A
    /// server that handles any loss in the same way needs no reserve.
    pub has_reserve: bool,
}

/// Creates a channel.
pub fn event_channel(bounds: EventBounds) -> (EventSender, EventReceiver) {
    let state =
        State { queue: VecDeque::new(), events: 0, bytes: 0, has_sender: true, has_receiver: true };
    let shared = Arc::new(Shared {
        bounds,
        sent: AtomicU64::new(0),
        state: Mutex::new(state),
        not_empty: Condvar::new(),
        not_full: Condvar::new(),
    });
    (EventSender(Arc::clone(&shared)), EventReceiver { shared, handled_bytes: 0 })
}

/// The end of the ledger's writer. Dropping it ends the channel after the queued events.
pub struct EventSender(Arc<Shared>);

/// The end of a server's thread.
pub struct EventReceiver {
    shared: Arc<Shared>,
    /// Bytes of the event that was received last.
    handled_bytes: usize,
}

/// Reads the counters of a channel.
#[derive(Clone)]
pub struct EventCounters(Arc<Shared>);

/// A message of the channel.
#[derive(Clone, Debug)]
pub enum Received {
    /// The next event.
    Event {
        /// Number of the event. The first one has 1, and lost events count.
        number: u64,
        /// The event.
        event: LedgerEvent,
    },
    /// Events were lost: they exceeded a bound, or the sender reported a loss.
    Lost(LostEvents),
}

/// What is known about lost events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LostEvents {
    /// Whether others than the following may be lost.
    pub has_others: bool,
    /// The blocks whose writes of accounts are incomplete.
    pub account_blocks: Vec<BlockId>,
    /// The slots whose executed transactions are incomplete.
    pub transaction_slots: Vec<Slot>,
}

/// Blocks and slots that [`LostEvents`] lists. After more of them any event may be lost.
const LOST_BLOCKS_MAX: usize = 64;

impl LostEvents {
    fn add(&mut self, event: &LedgerEvent) {
        match event {
            LedgerEvent::AccountsWritten { block, .. } => {
                add_once(&mut self.account_blocks, *block);
            }
            LedgerEvent::Executed(all) => {
                all.iter().for_each(|it| add_once(&mut self.transaction_slots, it.slot));
            }
            _ => self.has_others = true,
        }
        let count = self.account_blocks.len().max(self.transaction_slots.len());
        self.has_others |= count > LOST_BLOCKS_MAX;
        self.account_blocks.truncate(LOST_BLOCKS_MAX);
        self.transaction_slots.truncate(LOST_BLOCKS_MAX);
    }
}

fn add_once<T: PartialEq>(all: &mut Vec<T>, value: T) {
    if !all.contains(&value) {
        all.push(value);
    }
}

struct Shared {
    bounds: EventBounds,
    /// Number of events sent, including lost ones.
    sent: AtomicU64,
    state: Mutex<State>,
    /// Notified after an event, a loss and the end of the sender.
    not_empty: Condvar,
    /// Notified after an event was received, after it was handled, and after the end of the receiver.
    not_full: Condvar,
}

struct State {
    /// There is an event between two losses.
    queue: VecDeque<Queued>,
    /// Number of queued events.
    events: usize,
    /// Bytes of the queued events and of the one that is handled.
    bytes: usize,
    has_sender: bool,
    has_receiver: bool,
}

enum Queued {
    Event { number: u64, bytes: usize, event: LedgerEvent },
    Lost(LostEvents),
}

impl EventSender {
    /// Sends an event, or drops it at a bound. Never waits.
    pub fn try_send(&self, event: &LedgerEvent) {
        let bytes = self.0.count_bytes(event);
        let number = self.0.next_number();
        let mut state = self.0.state.lock();
        if !state.has_receiver {
            return;
        }
        let is_droppable =
            matches!(event, LedgerEvent::AccountsWritten { .. } | LedgerEvent::Executed(_));
        let is_full = if is_droppable {
            self.0.is_full_for_droppable(&state, bytes)
        } else {
            self.0.is_full(&state, bytes)
        };
        if is_full {
            state.queued_loss().add(event);
        } else {
            state.push_event(number, bytes, event.clone());
        }
        drop(state);
        self.0.not_empty.notify_one();
    }

    /// Sends an event. Waits for space if the channel is full, so a ledger's writer must not call it.
    pub fn send_and_wait(&self, event: LedgerEvent) {
        let bytes = self.0.count_bytes(&event);
        let number = self.0.next_number();
        let mut state = self.0.state.lock();
        while state.has_receiver && self.0.is_full(&state, bytes) {
            self.0.not_full.wait(&mut state);
        }
        if state.has_receiver {
            state.push_event(number, bytes, event);
        }
        drop(state);
        self.0.not_empty.notify_one();
    }

    /// Reports that the receiver lacks events. It gets [`Received::Lost`] after the queued events.
    pub fn report_loss(&self) {
        let mut state = self.0.state.lock();
        if state.has_receiver {
            state.queued_loss().has_others = true;
        }
        drop(state);
        self.0.not_empty.notify_one();
    }

    /// Returns the counters of the channel.
    pub fn counters(&self) -> EventCounters {
        EventCounters(Arc::clone(&self.0))
    }
}

impl EventSink for EventSender {
    fn send(&mut self, event: &LedgerEvent) {
        self.try_send(event);
    }
}

impl Drop for EventSender {
    fn drop(&mut self) {
        self.0.state.lock().has_sender = false;
        self.0.not_empty.notify_one();
    }
}

impl EventReceiver {
    /// Waits for the next message. Returns `None` once the sender and all queued events are gone.
    pub fn recv(&mut self) -> Option<Received> {
        let mut state = self.shared.state.lock();
        state.bytes -= std::mem::take(&mut self.handled_bytes);
        self.shared.not_full.notify_all();
        loop {
            match state.queue.pop_front() {
                Some(Queued::Event { number, bytes, event }) => {
                    state.events -= 1;
                    self.handled_bytes = bytes;
                    self.shared.not_full.notify_all();
                    return Some(Received::Event { number, event });
                }
                Some(Queued::Lost(lost)) => return Some(Received::Lost(lost)),
                None if !state.has_sender => return None,
                None => self.shared.not_empty.wait(&mut state),
            }
        }
    }

    /// Returns the counters of the channel.
    pub fn counters(&self) -> EventCounters {
        EventCounters(Arc::clone(&self.shared))
    }
}

impl Drop for EventReceiver {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.has_receiver = false;
        state.bytes = 0;
        let unhandled = std::mem::take(&mut state.queue);
        drop(state);
        self.shared.not_full.notify_all();
        drop(unhandled);
    }
}

impl EventCounters {
    /// Returns the number of events sent. The effects of these events are published.
    pub fn sent(&self) -> u64 {
        self.0.sent.load(Ordering::Acquire)
    }

    /// Returns the number of queued events.
    pub fn queue_len(&self) -> usize {
        self.0.state.lock().queue.len()
    }

    /// Returns the estimated bytes of the queued events and of the one that is handled, or 0 if they have no bound.
    pub fn bytes(&self) -> usize {
        self.0.state.lock().bytes
    }
}

impl Shared {
    fn next_number(&self) -> u64 {
        self.sent.fetch_add(1, Ordering::Release) + 1
    }

    fn count_bytes(&self, event: &LedgerEvent) -> usize {
        self.bounds.bytes_max.map_or(0, |_| event.bytes())
    }

    /// Whether one more event with these bytes exceeds a bound.
    fn is_full(&self, state: &State, bytes: usize) -> bool {
        self.exceeds(state, bytes, |max| max)
    }

    /// Whether one more droppable event with these bytes exceeds a bound without its reserve.
    fn is_full_for_droppable(&self, state: &State, bytes: usize) -> bool {
        let has_reserve = self.bounds.has_reserve;
        self.exceeds(state, bytes, |max| if has_reserve { max - max / 4 } else { max })
    }

    fn exceeds(&self, state: &State, bytes: usize, usable: impl Fn(usize) -> usize) -> bool {
        let EventBounds { events_max, bytes_max, .. } = self.bounds;
        let exceeds_bytes = |max| state.bytes > 0 && state.bytes + bytes > usable(max);
        state.events >= usable(events_max.max(1)) || bytes_max.is_some_and(exceeds_bytes)
    }
}

impl State {
    fn push_event(&mut self, number: u64, bytes: usize, event: LedgerEvent) {
        self.events += 1;
        self.bytes += bytes;
        self.queue.push_back(Queued::Event { number, bytes, event });
    }

    /// Returns the loss after the newest event.
    fn queued_loss(&mut self) -> &mut LostEvents {
        if !matches!(self.queue.back(), Some(Queued::Lost(_))) {
            self.queue.push_back(Queued::Lost(LostEvents::default()));
        }
        match self.queue.back_mut() {
            Some(Queued::Lost(lost)) => lost,
            _ => unreachable!("it was queued"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNBOUNDED: EventBounds = bounds(1_000, None);

    const fn bounds(events_max: usize, bytes_max: Option<usize>) -> EventBounds {
        EventBounds { events_max, bytes_max, has_reserve: false }
    }

    fn tip(slot: Slot) -> LedgerEvent {
        LedgerEvent::TipMoved { block: BlockId { slot, version: 0 } }
    }

    /// Receives an event, and returns its number and its slot. `None` is a loss.
    fn receive(receiver: &mut EventReceiver) -> Option<(u64, Slot)> {
        match receiver.recv().expect("a message") {
            Received::Event { number, event: LedgerEvent::TipMoved { block } } => {
                Some((number, block.slot))
            }
            Received::Event { event, .. } => panic!("unexpected: {event:?}"),
            Received::Lost(_) => None,
        }
    }

    #[test]
    fn events_arrive_in_order_with_their_numbers_and_then_the_channel_ends() {
        let (sender, mut receiver) = event_channel(UNBOUNDED);
        (7..10).for_each(|slot| sender.try_send(&tip(slot)));
        assert_eq!((receiver.counters().sent(), receiver.counters().bytes()), (3, 0));
        drop(sender);
        assert_eq!([(); 3].map(|()| receive(&mut receiver)), [7, 8, 9].map(|n| Some((n - 6, n))));
        assert!(receiver.recv().is_none());
    }

    #[test]
    fn events_beyond_the_number_are_lost_and_reported_once_in_their_place() {
        let (sender, mut receiver) = event_channel(bounds(2, None));
        (1..=4).for_each(|slot| sender.try_send(&tip(slot)));
        assert_eq!([(); 2].map(|()| receive(&mut receiver)), [Some((1, 1)), Some((2, 2))]);
        sender.try_send(&tip(5));
        assert_eq!(receive(&mut receiver), None);
        assert_eq!(receive(&mut receiver), Some((5, 5)), "lost events have numbers");
    }

    #[test]
    fn a_receiver_that_asks_for_nothing_holds_a_bounded_number_of_messages() {
        let (sender, _receiver) = event_channel(bounds(2, None));
        for slot in 1..=100 {
            sender.try_send(&tip(slot));
            sender.report_loss();
        }
        assert_eq!(sender.0.state.lock().queue.len(), 4);
    }

    #[test]
    fn a_received_event_makes_room_before_it_is_handled() {
        let (sender, mut receiver) = event_channel(bounds(1, None));
        sender.try_send(&tip(1));
        std::thread::scope(|scope| {
            let sending = scope.spawn(|| sender.send_and_wait(tip(2)));
            assert_eq!(receive(&mut receiver), Some((1, 1)));
            sending.join().expect("no panic");
        });
        assert_eq!(receive(&mut receiver), Some((2, 2)));
    }

    #[test]
    fn without_a_reserve_writes_may_take_the_whole_bound() {
        let (sender, receiver) = event_channel(bounds(4, None));
        let block = BlockId { slot: 7, version: 1 };
        let writes = LedgerEvent::AccountsWritten { block, updates: [].into() };
        (0..4).for_each(|_| sender.try_send(&writes));
        assert_eq!(receiver.shared.state.lock().events, 4);
        sender.try_send(&writes);
        assert_eq!(receiver.shared.state.lock().events, 4);
    }

    #[test]
    fn with_a_reserve_writes_are_lost_before_blocks_are() {
        let (sender, mut receiver) =
            event_channel(EventBounds { has_reserve: true, ..bounds(4, None) });
        let block = BlockId { slot: 7, version: 1 };
        let writes = || LedgerEvent::AccountsWritten { block, updates: [].into() };
        (0..5).for_each(|_| sender.try_send(&writes()));
        sender.try_send(&tip(8));
        for _ in 0..3 {
            let Some(Received::Event { event, .. }) = receiver.recv() else { panic!("a write") };
            assert!(matches!(event, LedgerEvent::AccountsWritten { .. }));
        }
        let Some(Received::Lost(lost)) = receiver.recv() else { panic!("two are lost") };
        assert_eq!(lost, LostEvents { account_blocks: vec![block], ..LostEvents::default() });
        assert_eq!(receive(&mut receiver), Some((6, 8)));
        sender.report_loss();
        let Some(Received::Lost(lost)) = receiver.recv() else { panic!("it was reported") };
        assert!(lost.has_others);
    }

    #[test]
    fn bytes_count_until_the_next_event_is_requested_and_one_event_may_exceed_them() {
        let (sender, mut receiver) = event_channel(bounds(9, Some(1)));
        sender.try_send(&tip(1));
        let bytes = sender.counters().bytes();
        assert!(bytes > 1);
        assert_eq!(receive(&mut receiver), Some((1, 1)));
        assert_eq!(sender.counters().bytes(), bytes, "it is handled");
        sender.try_send(&tip(2));
        assert_eq!(receive(&mut receiver), None);
        assert_eq!(sender.counters().bytes(), 0);
        sender.try_send(&tip(3));
        assert_eq!(receive(&mut receiver), Some((3, 3)));
    }

    #[test]
    fn a_reported_loss_wakes_a_receiver_without_events() {
        let (sender, mut receiver) = event_channel(UNBOUNDED);
        std::thread::scope(|scope| {
            let receiving = scope.spawn(|| receive(&mut receiver));
            sender.report_loss();
            assert_eq!(receiving.join().expect("no panic"), None);
        });
    }

    #[test]
    fn a_sender_that_waits_loses_nothing_and_ends_with_the_receiver() {
        let (sender, mut receiver) = event_channel(bounds(9, Some(1)));
        std::thread::scope(|scope| {
            scope.spawn(|| (1..=100).for_each(|slot| sender.send_and_wait(tip(slot))));
            for slot in 1..=90 {
                assert_eq!(receive(&mut receiver), Some((slot, slot)));
            }
            drop(receiver);
        });
        assert_eq!((sender.counters().sent(), sender.counters().bytes()), (100, 0));
    }
}
