//! The memory of all queues together: the limit, which listeners are closed at it, and that nothing stays charged.

use std::sync::Arc;

use subscriptions::{
    AfterDelivery, Charge, CloseReason, Filter, Interest, Limits, Listener, Message, Next, OwnerId,
    Position, Publication, QueueMemory, SubscriptionId, Subscriptions, Topic,
};

use crate::fixed::LIMITS;

/// A body that is charged while it is shared.
#[derive(Clone)]
struct Body(Arc<Charge>);

impl Body {
    fn new(bytes: usize, memory: &Arc<QueueMemory>) -> Self {
        Self(Arc::new(memory.charge(bytes)))
    }
}

impl Message for Body {
    type Conflated = ();

    fn conflate(self, (): &mut ()) -> usize {
        unreachable!("fixed subscriptions are not conflated")
    }

    fn memory(&self) -> usize {
        self.0.bytes() / Arc::strong_count(&self.0)
    }
}

type Node = Subscriptions<u16, Body, ()>;

fn node(queues_bytes_max: usize) -> Node {
    let limits =
        Limits { queues_bytes_max, listeners_max: 100, queue_bytes_max: 1 << 30, ..LIMITS };
    Subscriptions::new(Limits { subscriptions_max: 100, queue_messages_max: 100, ..limits })
}

/// A listener of an owner to a topic.
fn listener(node: &Node, owner: u128, topic: u16) -> (Listener<u16, Body, ()>, SubscriptionId) {
    let listener = node.listen(OwnerId(owner), Arc::new(|| ())).expect("there is room");
    let interest = Interest { topic: Topic(topic), filter: Filter::All };
    let id = listener.subscribe(topic, vec![interest], Position(0)).expect("there is room");
    (listener, id)
}

fn publish(node: &Node, to: SubscriptionId, bytes: usize) {
    let body = Body::new(bytes, node.queue_memory());
    let at = Position(1);
    let after_delivery = AfterDelivery::Continue;
    node.deliver([Publication { subscription: to, body, bytes, at, after_delivery }]);
}

#[test]
fn the_owner_that_uses_most_loses_its_largest_listener_first() {
    let node = node(100_000);
    let (quiet, to_quiet) = listener(&node, 1, 0);
    publish(&node, to_quiet, 20_000);
    let hostile: Vec<_> = (1..=4).map(|topic| listener(&node, 2, topic)).collect();
    for (nth, (_, id)) in hostile.iter().enumerate() {
        publish(&node, *id, 21_000 + 1_000 * nth);
    }
    // 20, 21, 22, 23 and 24 thousand do not fit: the largest is closed.
    let limit = 100_000;
    let closed: Vec<_> = hostile.iter().map(|(listener, _)| listener.closed()).collect();
    assert_eq!(closed, [None, None, None, Some(CloseReason::NodeBytesFull { limit })]);
    assert_eq!(quiet.closed(), None);
    assert!(node.queue_memory().bytes() <= limit / 8 * 7);
    // One more small listener, of another owner, does not close the first.
    let (third, to_third) = listener(&node, 3, 9);
    publish(&node, to_third, 15_000);
    assert_eq!((quiet.closed(), third.closed()), (None, None));
    assert_eq!(hostile.iter().filter(|(listener, _)| listener.closed().is_some()).count(), 2);
    drop((quiet, third, hostile));
    assert_eq!(node.queue_memory().bytes(), 0);
}

#[test]
fn a_shared_message_counts_once_and_does_not_close_its_listeners() {
    let node = node(100_000);
    let shared: Vec<_> = (0..50).map(|_| listener(&node, 1, 0)).collect();
    publish(&node, shared[0].1, 60_000);
    assert!(node.queue_memory().bytes() < 70_000);
    let (alone, to_alone) = listener(&node, 2, 1);
    publish(&node, to_alone, 70_000);
    assert!(alone.closed().is_some(), "it uses 70,000 alone, the others 60,000 together");
    assert!(shared.iter().all(|(listener, _)| listener.closed().is_none()));
}

#[test]
fn what_is_being_written_is_freed_as_well() {
    let node = node(100_000);
    let (slow, id) = listener(&node, 1, 0);
    publish(&node, id, 90_000);
    let Next::Message(delivery) = slow.next() else { panic!("it waits") };
    slow.start_writing(delivery.body).expect("it is open");
    let (other, to_other) = listener(&node, 2, 1);
    publish(&node, to_other, 30_000);
    assert!(slow.writing().is_none());
    assert_eq!(slow.closed(), Some(CloseReason::NodeBytesFull { limit: 100_000 }));
    assert_eq!(other.closed(), None);
    assert!(node.queue_memory().bytes() < 31_000);
}
