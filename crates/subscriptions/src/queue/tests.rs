//! The order, the bounds and the memory of one listener's queue.
//!
//! Not here: messages on hold (`holds`), and those of a paused subscription (`pauses`).

mod holds;
mod pauses;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

const ENTRY: usize = size_of::<Delivery<&'static str>>();
/// Space for three entries and ten bytes of content.
const LIMITS: Limits = Limits {
    listeners_max: 1,
    subscriptions_max: 1,
    subscriptions_per_listener_max: 1,
    addresses_max: 1,
    address_pairs_max: 1,
    addresses_per_owner_max: 1,
    addresses_per_listener_max: 1,
    retained_steps: 0,
    retained_bytes: 0,
    unrooted_max: 0,
    queue_messages_max: 3,
    queue_bytes_max: 10 + 3 * ENTRY,
    queues_bytes_max: usize::MAX,
};
const BYTES_FULL: CloseReason = CloseReason::BytesFull { limit: LIMITS.queue_bytes_max };
const ONE: SubscriptionId = SubscriptionId(1);
const TWO: SubscriptionId = SubscriptionId(2);

impl Message for &'static str {
    type Conflated = Vec<&'static str>;

    fn conflate(self, state: &mut Self::Conflated) -> usize {
        state.push(self);
        1
    }
}

fn queue() -> (Queue<&'static str>, Arc<AtomicUsize>) {
    let wakes = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&wakes);
    let wake = move || {
        counted.fetch_add(1, Ordering::Relaxed);
    };
    (Queue::new(Arc::default(), Arc::new(wake)), wakes)
}

fn push(
    queue: &Queue<&'static str>,
    to: SubscriptionId,
    body: &'static str,
    bytes: usize,
    conflates: bool,
) {
    let at = Position(bytes as u64);
    let delivery = Delivery { sequence: 7, subscription: to, body, bytes, at, conflates };
    if queue.push(&LIMITS, delivery) {
        queue.wake();
    }
}

fn take_message(queue: &Queue<&'static str>) -> Option<&'static str> {
    message(queue.pop())
}

fn message(next: Next<&'static str, Vec<&'static str>>) -> Option<&'static str> {
    match next {
        Next::Message(delivery) => Some(delivery.body),
        Next::Empty | Next::Conflated(_) | Next::Closed(_) => None,
    }
}

fn hold(queue: &Queue<&'static str>, subscription: SubscriptionId) -> Hold {
    queue.hold(subscription);
    let holds = queue.take_new_holds();
    *holds.last().expect("it was not on hold")
}

fn has_no_buffers(queue: &Queue<&'static str>) -> bool {
    let inner = queue.inner.lock();
    inner.messages.capacity() == 0 && inner.cold.is_none()
}

#[test]
fn messages_come_in_order() {
    let (queue, wakes) = queue();
    push(&queue, ONE, "a", 1, false);
    push(&queue, ONE, "b", 1, false);
    assert_eq!(wakes.load(Ordering::Relaxed), 1, "woken once, by the first");
    assert_eq!(
        (take_message(&queue), take_message(&queue), take_message(&queue)),
        (Some("a"), Some("b"), None)
    );
    push(&queue, ONE, "c", 1, false);
    assert_eq!(wakes.load(Ordering::Relaxed), 2);
    assert_eq!(take_message(&queue), Some("c"));
}

#[test]
fn one_message_too_many_closes_it() {
    let (queue, wakes) = queue();
    for _ in 0..4 {
        push(&queue, ONE, "a", 1, false);
    }
    assert_eq!(wakes.load(Ordering::Relaxed), 2, "for the first and for the end");
    assert_eq!(queue.pop(), Next::Closed(CloseReason::MessagesFull { limit: 3 }));
    push(&queue, ONE, "b", 1, false);
    queue.close(CloseReason::ShutDown);
    assert_eq!(queue.pop(), Next::Closed(CloseReason::MessagesFull { limit: 3 }));
}

#[test]
fn one_byte_too_many_closes_it() {
    let (queue, _) = queue();
    push(&queue, ONE, "a", 10 + 2 * ENTRY, false);
    assert_eq!(take_message(&queue), Some("a"));
    push(&queue, ONE, "b", 4, false);
    push(&queue, ONE, "c", 7 + ENTRY, false);
    assert_eq!(queue.pop(), Next::Closed(BYTES_FULL));
}

#[test]
fn an_entry_counts_in_the_bytes_of_its_queue() {
    let (queue, _) = queue();
    let limits = Limits { queue_messages_max: 1_000, ..LIMITS };
    let push_empty = || {
        let at = Position(1);
        let delivery =
            Delivery { sequence: 7, subscription: ONE, body: "", bytes: 0, at, conflates: false };
        let _ = queue.push(&limits, delivery);
    };
    for _ in 0..3 {
        push_empty();
    }
    assert_eq!((queue.closed(), queue.waiting()), (None, (3, 0)));
    push_empty();
    assert_eq!(queue.closed(), Some(BYTES_FULL));
}

#[test]
fn conflated_messages_free_space_and_come_last() {
    let (queue, _) = queue();
    push(&queue, ONE, "a", 3, true);
    push(&queue, TWO, "b", 3, false);
    push(&queue, ONE, "c", 3, true);
    push(&queue, TWO, "d", 3, false);
    push(&queue, ONE, "e", 3, true);
    assert_eq!((take_message(&queue), take_message(&queue)), (Some("b"), Some("d")));
    let Next::Conflated(one) = queue.pop() else { panic!("one subscription was conflated") };
    assert_eq!((one.subscription, one.messages, one.sequence), (ONE, 3, 7));
    assert_eq!(one.state, ["a", "c", "e"]);
    push(&queue, ONE, "f", 10 + 2 * ENTRY, true);
    assert_eq!(take_message(&queue), Some("f"), "all bytes were released");
}

#[test]
fn conflated_messages_are_bounded_too() {
    let (queue, _) = queue();
    for _ in 0..=LIMITS.queue_bytes_max {
        push(&queue, ONE, "a", 1, true);
    }
    assert_eq!(queue.pop(), Next::Closed(BYTES_FULL));
}

#[test]
fn messages_of_an_ended_subscription_are_dropped_and_their_bytes_released() {
    let (queue, _) = queue();
    push(&queue, ONE, "a", 6, true);
    push(&queue, TWO, "b", 4, false);
    push(&queue, ONE, "c", 4, true);
    queue.remove_subscription(ONE);
    push(&queue, TWO, "d", 6 + ENTRY, false);
    assert_eq!(
        (take_message(&queue), take_message(&queue), take_message(&queue)),
        (Some("b"), Some("d"), None)
    );
}

#[test]
fn entries_are_charged_until_they_are_taken_removed_conflated_or_dropped() {
    let memory: Arc<QueueMemory> = Arc::default();
    let queue = Queue::new(Arc::clone(&memory), Arc::new(|| ()));
    push(&queue, ONE, "a", 1, false);
    push(&queue, ONE, "b", 1, false);
    push(&queue, TWO, "c", 1, true);
    assert_eq!(memory.bytes(), 3 * ENTRY);
    assert_eq!(take_message(&queue), Some("a"));
    assert_eq!(memory.bytes(), 2 * ENTRY);
    push(&queue, TWO, "d", 1, true);
    push(&queue, TWO, "e", 1, true);
    assert_eq!(memory.bytes(), ENTRY + 3, "three were conflated, a byte each");
    queue.remove_subscription(ONE);
    assert_eq!(memory.bytes(), 3);
    push(&queue, ONE, "f", 1, false);
    drop(queue);
    assert_eq!(memory.bytes(), 0);
}

#[test]
fn a_message_that_is_written_outlives_a_close_and_not_an_eviction() {
    let (queue, wakes) = queue();
    assert_eq!(queue.start_writing("a"), Ok(()));
    queue.close(CloseReason::EventsLost);
    assert_eq!(queue.writing(), Some("a"));
    queue.evict(CloseReason::NodeBytesFull { limit: 7 });
    assert_eq!((queue.writing(), queue.closed()), (None, Some(CloseReason::EventsLost)));
    assert_eq!(wakes.load(Ordering::Relaxed), 2, "for the close and for the eviction");
    assert_eq!(queue.start_writing("b"), Err(CloseReason::EventsLost));
}

#[test]
fn a_reply_is_written_after_a_shutdown_unless_it_is_evicted() {
    let (queue, _) = queue();
    queue.close(CloseReason::ShutDown);
    assert_eq!(queue.start_writing("a"), Ok(()));
    assert_eq!((queue.writing(), queue.pop()), (Some("a"), Next::Closed(CloseReason::ShutDown)));
    queue.evict(CloseReason::NodeBytesFull { limit: 7 });
    assert_eq!((queue.writing(), queue.closed()), (None, Some(CloseReason::ShutDown)));
    assert!(has_no_buffers(&queue));
}

#[test]
fn an_empty_queue_has_no_buffers() {
    let (queue, _) = queue();
    assert!(has_no_buffers(&queue));
    push(&queue, ONE, "a", 1, false);
    assert!(!has_no_buffers(&queue));
    assert_eq!(take_message(&queue), Some("a"));
    assert!(has_no_buffers(&queue), "after a message");

    let hold = hold(&queue, ONE);
    push(&queue, ONE, "b", 1, false);
    assert!(!has_no_buffers(&queue));
    queue.release(hold);
    assert_eq!(take_message(&queue), Some("b"));
    assert!(has_no_buffers(&queue), "after a hold");

    assert_eq!(queue.start_writing("c"), Ok(()));
    assert!(!has_no_buffers(&queue));
    assert_eq!(queue.finish_writing(), Some("c"));
    assert!(has_no_buffers(&queue), "after a long message");

    queue.pause_delivery(Some(ONE));
    assert!(!has_no_buffers(&queue));
    queue.pause_delivery(None);
    assert!(has_no_buffers(&queue), "after a pause");

    for _ in 0..4 {
        push(&queue, TWO, "d", 1, true);
    }
    let Next::Conflated(conflated) = queue.pop() else { panic!("four are too many") };
    assert_eq!(conflated.messages, 4);
    assert!(has_no_buffers(&queue), "after conflated messages");

    push(&queue, ONE, "e", 1, false);
    queue.close(CloseReason::ShutDown);
    assert!(has_no_buffers(&queue), "after the end");
}
