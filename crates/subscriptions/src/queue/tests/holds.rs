//! Messages on hold: their listener gets them once it knows the id of their subscription.

use super::*;

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
fn the_number_of_a_hold_is_not_reused() {
    let (queue, _) = queue();
    let first = hold(&queue, ONE);
    queue.remove_subscription(ONE);
    assert!(has_no_buffers(&queue));
    let second = hold(&queue, ONE);
    assert!(!queue.has_hold(first) && queue.has_hold(second));
}
