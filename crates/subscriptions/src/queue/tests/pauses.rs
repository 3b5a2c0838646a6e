//! Messages of a paused subscription: their order, and the number of messages that a pause splits at a time.

use super::*;
use crate::queue::cold_state::SPLIT_MAX;

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
