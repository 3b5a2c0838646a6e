//! Delivery to many listeners: the order of their messages, and their wake-ups.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use subscriptions::{
    AfterDelivery, Filter, Interest, Limits, Listener, Message, Next, OwnerId, Position,
    Publication, SubscriptionId, Subscriptions, Topic,
};

use crate::fixed::LIMITS;

/// More than the publisher loads together, and than it wakes together.
const LISTENERS: u16 = 600;

/// A number as the body of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Number(u16);

impl Message for Number {
    type Conflated = ();

    fn conflate(self, (): &mut ()) -> usize {
        unreachable!("fixed subscriptions are not conflated")
    }
}

struct CountedListener {
    listener: Listener<u16, Number, ()>,
    id: SubscriptionId,
    wakes: Arc<AtomicUsize>,
}

impl CountedListener {
    fn wakes(&self) -> usize {
        self.wakes.load(Ordering::Relaxed)
    }

    /// Removes all messages from the queue.
    fn take_numbers(&self) -> Vec<u16> {
        let mut numbers = Vec::new();
        while let Next::Message(delivery) = self.listener.next() {
            numbers.push(delivery.body.0);
        }
        numbers
    }
}

fn new_node() -> Subscriptions<u16, Number, ()> {
    let most = usize::from(LISTENERS);
    Subscriptions::new(Limits { listeners_max: most, subscriptions_max: most, ..LIMITS })
}

/// Adds a listener that subscribes to a topic.
fn listen(node: &Subscriptions<u16, Number, ()>, topic: u16) -> CountedListener {
    let wakes = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&wakes);
    let wake = move || {
        counted.fetch_add(1, Ordering::Relaxed);
    };
    let listener = node.listen(OwnerId::default(), Arc::new(wake)).expect("there is room");
    let interest = Interest { topic: Topic(topic), filter: Filter::All };
    let id = listener.subscribe(topic, vec![interest], Position(0)).expect("there is room");
    CountedListener { listener, id, wakes }
}

fn publication(to: &CountedListener, number: u16) -> Publication<Number> {
    Publication {
        subscription: to.id,
        body: Number(number),
        bytes: 1,
        at: Position(1),
        after_delivery: AfterDelivery::Continue,
    }
}

#[test]
fn messages_of_many_batches_come_in_order_and_wake_once() {
    let node = new_node();
    let listeners: Vec<_> = (0..LISTENERS).map(|topic| listen(&node, topic)).collect();
    let rounds = (0..2).flat_map(|round| (0..LISTENERS).map(move |nth| (round, nth)));
    let messages = rounds
        .map(|(round, nth)| publication(&listeners[usize::from(nth)], round * LISTENERS + nth));
    assert_eq!(node.deliver(messages), 2 * usize::from(LISTENERS));
    for (nth, listener) in (0..).zip(&listeners) {
        assert_eq!(listener.wakes(), 1, "the queue was empty once");
        assert_eq!(listener.take_numbers(), [nth, LISTENERS + nth]);
    }
}

#[test]
fn all_listeners_of_one_subscription_get_a_message_and_are_woken() {
    let node = new_node();
    let listeners: Vec<_> = (0..LISTENERS).map(|_| listen(&node, 0)).collect();
    assert_eq!(node.deliver([publication(&listeners[0], 7)]), usize::from(LISTENERS));
    for listener in &listeners {
        assert_eq!((listener.wakes(), listener.take_numbers()), (1, vec![7]));
    }
}

#[test]
fn a_panic_of_the_publisher_loses_no_wake_up() {
    let node = new_node();
    let listener = listen(&node, 0);
    let messages = (0..200).map(|number| match number {
        ..10 => publication(&listener, 5),
        64 => panic!("in the second batch"),
        _ => Publication { subscription: SubscriptionId(0), ..publication(&listener, number) },
    });
    let delivered = catch_unwind(AssertUnwindSafe(|| node.deliver(messages)));
    assert!(delivered.is_err());
    assert_eq!((listener.wakes(), listener.take_numbers()), (1, vec![5; 10]));
    assert_eq!(node.deliver([publication(&listener, 6)]), 1, "the lock was released");
    assert_eq!((listener.wakes(), listener.take_numbers()), (2, vec![6]));
}
