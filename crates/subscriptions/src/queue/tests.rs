//! The bounds, the order and the holds of one listener's queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::cold_state::SPLIT_MAX;
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
fn a_paused_subscription_waits_and_stays_in_order() {
    let (queue, _) = queue();
    push(&queue, ONE, "a", 1, false);
    push(&queue, TWO, "b", 1, false);
    push(&queue, ONE, "c", 2, false);
    queue.pause_delivery(Some(ONE));
    assert_eq!(message(queue.pop_message()), Some("b"));
    assert_eq!(message(queue.pop_message()), None);
    assert_eq!(message(queue.pop_until(ONE, Position(1))), Some("a"));
    assert_eq!(message(queue.pop_until(ONE, Position(1))), None, "it was published at 2");
    queue.pause_delivery(None);
    assert_eq!(message(queue.pop_message()), Some("c"));
}

#[test]
fn a_message_after_paused_or_conflated_ones_wakes_the_listener() {
    let (queue, wakes) = queue();
    queue.pause_delivery(Some(ONE));
    push(&queue, ONE, "a", 1, false);
    push(&queue, ONE, "b", 1, false);
    assert_eq!(wakes.load(Ordering::Relaxed), 0, "neither can be taken");
    push(&queue, TWO, "c", 1, false);
    assert_eq!(wakes.load(Ordering::Relaxed), 1);
    assert_eq!(message(queue.pop_message()), Some("c"));
    assert_eq!((queue.pop_message(), queue.waiting()), (Next::Empty, (2, 2)));
    queue.pause_delivery(None);
    assert_eq!(wakes.load(Ordering::Relaxed), 2, "they can be taken");
    assert_eq!((take_message(&queue), take_message(&queue)), (Some("a"), Some("b")));
    for _ in 0..4 {
        push(&queue, ONE, "d", 1, true);
    }
    assert_eq!((queue.pop_message(), wakes.load(Ordering::Relaxed)), (Next::Empty, 3));
    push(&queue, TWO, "e", 1, false);
    assert_eq!(wakes.load(Ordering::Relaxed), 4);
    assert_eq!(message(queue.pop_message()), Some("e"));
}

#[test]
fn paused_messages_are_held_conflated_and_dropped_like_others() {
    let (queue, _) = queue();
    queue.pause_delivery(Some(ONE));
    for body in ["a", "b", "c"] {
        push(&queue, ONE, body, 1, true);
    }
    push(&queue, TWO, "d", 1, false);
    assert_eq!(message(queue.pop_message()), Some("d"));
    queue.pause_delivery(None);
    let Next::Conflated(one) = queue.pop() else { panic!("the queue was full") };
    assert_eq!((one.subscription, one.state), (ONE, vec!["a", "b", "c"]));
    push(&queue, TWO, "e", 1, false);
    queue.pause_delivery(Some(TWO));
    let hold = hold(&queue, TWO);
    push(&queue, TWO, "f", 2, false);
    queue.release(hold);
    assert_eq!((queue.pop_message(), queue.waiting()), (Next::Empty, (2, 3)));
    assert_eq!(message(queue.pop_until(TWO, Position(2))), Some("e"));
    queue.remove_subscription(TWO);
    assert_eq!(queue.waiting(), (0, 0));
    queue.pause_delivery(None);
    assert!(has_no_buffers(&queue));
}

fn hold(queue: &Queue<&'static str>, subscription: SubscriptionId) -> Hold {
    queue.hold(subscription);
    let holds = queue.take_new_holds();
    *holds.last().expect("it was not on hold")
}

#[test]
fn messages_on_hold_wake_nobody_and_delay_no_others() {
    let (queue, wakes) = queue();
    let hold = hold(&queue, ONE);
    push(&queue, ONE, "a", 1, false);
    push(&queue, ONE, "b", 1, false);
    assert_eq!((take_message(&queue), wakes.load(Ordering::Relaxed)), (None, 0));
    push(&queue, TWO, "c", 1, false);
    assert_eq!((take_message(&queue), wakes.load(Ordering::Relaxed)), (Some("c"), 1));
    assert_eq!((take_message(&queue), queue.waiting()), (None, (2, 2)));
    queue.release(hold);
    push(&queue, ONE, "d", 1, false);
    let next =
        [take_message(&queue), take_message(&queue), take_message(&queue), take_message(&queue)];
    assert_eq!(next, [Some("a"), Some("b"), Some("d"), None]);
}

#[test]
fn a_hold_includes_what_is_queued_already() {
    let (queue, _) = queue();
    push(&queue, ONE, "a", 1, false);
    push(&queue, TWO, "b", 1, false);
    let first = hold(&queue, ONE);
    push(&queue, ONE, "c", 1, false);
    assert_eq!((take_message(&queue), take_message(&queue)), (Some("b"), None));
    // A subscription that is ended and made again has another hold.
    queue.remove_subscription(ONE);
    let second = hold(&queue, ONE);
    push(&queue, ONE, "d", 1, false);
    queue.release(first);
    assert_eq!((take_message(&queue), queue.has_hold(second)), (None, true));
    queue.release(second);
    assert_eq!((take_message(&queue), take_message(&queue)), (Some("d"), None));
}

#[test]
fn messages_on_hold_are_bounded_and_charged() {
    let memory: Arc<QueueMemory> = Arc::default();
    let queue = Queue::new(Arc::clone(&memory), Arc::new(|| ()));
    let first = hold(&queue, ONE);
    let hold_bytes = memory.bytes();
    push(&queue, ONE, "a", 5, false);
    push(&queue, TWO, "b", 5, false);
    assert_eq!(memory.bytes(), hold_bytes + 2 * ENTRY);
    queue.release(first);
    assert_eq!(memory.bytes(), 2 * ENTRY);
    hold(&queue, ONE);
    queue.remove_subscription(ONE);
    assert_eq!((memory.bytes(), queue.waiting()), (ENTRY, (1, 5)));
    hold(&queue, ONE);
    push(&queue, ONE, "c", 5, false);
    push(&queue, ONE, "d", 1, false);
    assert_eq!(queue.pop(), Next::Closed(BYTES_FULL));
    assert_eq!(memory.bytes(), 0);
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

fn has_no_buffers(queue: &Queue<&'static str>) -> bool {
    let inner = queue.inner.lock();
    inner.messages.capacity() == 0 && inner.cold.is_none()
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

#[test]
fn the_number_of_a_hold_is_not_reused() {
    let (queue, _) = queue();
    let first = hold(&queue, ONE);
    queue.remove_subscription(ONE);
    assert!(has_no_buffers(&queue));
    let second = hold(&queue, ONE);
    assert!(!queue.has_hold(first) && queue.has_hold(second));
}

/// Limits that no test reaches.
const LONG: Limits = Limits { queue_messages_max: 100_000, queue_bytes_max: 100_000_000, ..LIMITS };

fn push_number(queue: &Queue<&'static str>, to: SubscriptionId, sequence: u64) {
    let at = Position(sequence);
    let delivery =
        Delivery { sequence, subscription: to, body: "", bytes: 1, at, conflates: false };
    let _ = queue.push(&LONG, delivery);
}

/// The subscription and the number of a message.
fn number(next: Next<&'static str, Vec<&'static str>>) -> Option<(SubscriptionId, u64)> {
    match next {
        Next::Message(delivery) => Some((delivery.subscription, delivery.sequence)),
        Next::Empty | Next::Conflated(_) | Next::Closed(_) => None,
    }
}

#[test]
fn a_pause_splits_few_messages_before_the_publisher_may_lock_the_queue() {
    let (queue, _) = queue();
    let count = 3 * SPLIT_MAX as u64;
    for sequence in 0..count {
        push_number(&queue, ONE, sequence);
    }
    push_number(&queue, TWO, count);
    queue.pause_delivery(Some(ONE));
    for _ in 0..3 {
        assert!(queue.inner.lock().take_message().is_continue());
    }
    assert_eq!(number(queue.pop_message()), Some((TWO, count)));
    queue.pause_delivery(Some(TWO));
    for _ in 0..3 {
        assert!(queue.inner.lock().take_until(TWO, Position::MAX).is_continue());
    }
    assert_eq!(queue.pop_until(TWO, Position::MAX), Next::Empty);
    queue.pause_delivery(None);
    for sequence in 0..count {
        assert_eq!(number(queue.pop()), Some((ONE, sequence)));
    }
    assert!(has_no_buffers(&queue));
}

/// The messages of three subscriptions that were pushed and taken.
#[derive(Default)]
struct Counts {
    pushed: [u64; 3],
    taken: [u64; 3],
}

impl Counts {
    /// Checks that a message is the next one of its subscription. Returns that.
    fn take_next(&mut self, next: Next<&'static str, Vec<&'static str>>) -> Option<usize> {
        let (subscription, sequence) = number(next)?;
        let at = subscription.0 as usize;
        assert_eq!(sequence, self.taken[at], "of {subscription:?}");
        self.taken[at] += 1;
        Some(at)
    }

    fn waiting(&self, at: usize) -> u64 {
        self.pushed[at] - self.taken[at]
    }
}

#[test]
fn messages_stay_in_order_whatever_is_paused_and_taken() {
    let (queue, _) = queue();
    let mut counts = Counts::default();
    let mut paused = None;
    let mut state = 1_u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ((state >> 33) % below) as usize
    };
    for _ in 0..20_000 {
        let at = random(3);
        match random(10) {
            0..5 => {
                push_number(&queue, SubscriptionId(at as u64), counts.pushed[at]);
                counts.pushed[at] += 1;
            }
            5 => {
                paused = [None, Some(0), Some(1), Some(2)][random(4)];
                queue.pause_delivery(paused.map(SubscriptionId));
            }
            6 | 7 => {
                let taken = counts.take_next(queue.pop_message());
                let is_paused = |at: usize| paused == Some(at as u64);
                match taken {
                    Some(taken) => assert!(!is_paused(taken), "a paused message"),
                    None => assert!((0..3).all(|at| is_paused(at) || counts.waiting(at) == 0)),
                }
            }
            8 => {
                match counts.take_next(queue.pop_until(SubscriptionId(at as u64), Position::MAX)) {
                    Some(taken) => assert_eq!(taken, at),
                    None => assert_eq!(counts.waiting(at), 0),
                }
            }
            _ => {
                let is_empty = counts.take_next(queue.pop()).is_none();
                assert!(!is_empty || (0..3).all(|at| counts.waiting(at) == 0));
            }
        }
        let waiting: u64 = (0..3).map(|at| counts.waiting(at)).sum();
        assert_eq!(queue.waiting(), (waiting as usize, waiting as usize));
    }
    queue.pause_delivery(None);
    while counts.take_next(queue.pop()).is_some() {}
    assert_eq!(counts.pushed, counts.taken);
    assert!(has_no_buffers(&queue));
}
