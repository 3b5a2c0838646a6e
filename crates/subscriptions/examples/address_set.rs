//! Following a set of addresses: a listener gets every change of its addresses from one block on, also those that were
//! published before it was live.
//!
//! `cargo run -p subscriptions --example address_set`
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::sync::Arc;

use address::AddressTable;
use ledger::{Address, AddressId, BlockId, Commitment, KeyKind};
use subscriptions::{
    AddressSet, AfterDelivery, BlockStep, CatchUp, Limits, Listener, Message, Next, OwnerId,
    Position, Publication, ResumeFrom, SetSubscription, SlowConsumerPolicy, Subscriptions, Topic,
};

/// Balances at commitment confirmed: the only topic here.
const BALANCES: Topic = Topic(0);
/// A balance is found by its holder: the only key kind here.
const HOLDER: KeyKind = KeyKind(0);

/// The body of a block: balances that it changed.
struct Balances(Vec<(AddressId, u64)>);

/// The body of a message, encoded once for all listeners of a subscription.
#[derive(Clone, Debug, PartialEq)]
struct Text(Arc<str>);

impl Message for Text {
    /// The conflated state of a slow listener: the newest message.
    type Conflated = Option<Self>;

    fn conflate(self, newest: &mut Self::Conflated) -> usize {
        let bytes_before = newest.as_ref().map_or(0, |text| text.0.len());
        let bytes = self.0.len();
        *newest = Some(self);
        bytes.saturating_sub(bytes_before)
    }
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    // The hash of addresses has a seed that clients must not know.
    let table = Arc::new(AddressTable::new(1_000, 0x5eed));
    let [alice, bob, carol] = [1, 2, 3].map(|n| Address::from([n; 32]));
    let [alice, bob, carol] =
        [table.register(&alice)?, table.register(&bob)?, table.register(&carol)?];
    let subscriptions = Subscriptions::new(limits());

    // Block 1 is published before the client subscribes.
    let [root, first, second] = [0, 1, 2].map(|slot| BlockId { slot, version: 0 });
    subscriptions.start_at(|_| root);
    subscriptions.add_block(first, root, Arc::new(Balances(vec![(alice.id(), 5)])), 16)?;
    publish(&subscriptions, first)?;

    // The client knows the balances of the root, so it starts after that block. Block 1 is in the log.
    let listener = subscriptions.listen(OwnerId(1), Arc::new(|| {}))?;
    let addresses = [alice.id(), carol.id()].into_iter().filter_map(|id| table.address(id));
    let activation = listener.subscribe_set(SetSubscription {
        identity: "text",
        topic: BALANCES,
        key_kind: HOLDER,
        set: AddressSet::register(&table, addresses)?,
        slow_consumer_policy: SlowConsumerPolicy::Conflate,
    })?;
    let mut received = Vec::new();
    let mut from = ResumeFrom::Block(root);
    loop {
        match listener.catch_up(activation, Commitment::Confirmed, from) {
            CatchUp::Live => break,
            CatchUp::Steps(steps) => {
                for step in steps {
                    from = ResumeFrom::Step(step.number);
                    let followed = |id: &AddressId| [alice.id(), carol.id()].contains(id);
                    let changes = step.body.0.iter().filter(|(id, _)| followed(id));
                    received.push(text(&step, changes));
                }
            }
            CatchUp::Expired => return Err("block 1 is retained".into()),
        }
    }

    // Now it is live. A change of bob matches no subscription.
    let changes = vec![(bob.id(), 7), (carol.id(), 9)];
    subscriptions.add_block(second, first, Arc::new(Balances(changes)), 32)?;
    publish(&subscriptions, second)?;
    received.extend(next(&listener));
    for text in &received {
        println!("{}", text.0);
    }
    let expected =
        [format!("slot 1: {:?} has 5", alice.id()), format!("slot 2: {:?} has 9", carol.id())];
    assert_eq!(received.iter().map(|text| &*text.0).collect::<Vec<_>>(), expected);
    Ok(())
}

/// Advances the commitment to a block, and delivers each step to the subscriptions that match it.
fn publish(
    subscriptions: &Subscriptions<&'static str, Text, Balances>,
    to: BlockId,
) -> Result<(), Box<dyn Error>> {
    let steps = subscriptions.advance(Commitment::Confirmed, to)?;
    // Processed blocks have steps of their own, and no topic here.
    for step in steps.iter().filter(|step| step.commitment == Commitment::Confirmed) {
        let items = step.body.0.iter().zip(0..).map(|((id, _), item)| (id.0, item));
        let matches = subscriptions.matches().matching_sets(BALANCES, HOLDER, step.number, items);
        let publications = matches.into_iter().map(|(found, items)| {
            let body = text(step, items.iter().map(|item| &step.body.0[*item as usize]));
            let bytes = body.0.len();
            Publication {
                subscription: found.id,
                body,
                bytes,
                at: Position(step.number),
                after_delivery: AfterDelivery::Continue,
            }
        });
        subscriptions.deliver(publications);
    }
    Ok(())
}

/// The message of one step.
fn text<'a>(
    step: &BlockStep<Balances>,
    changes: impl Iterator<Item = &'a (AddressId, u64)>,
) -> Text {
    let changes: Vec<String> = changes.map(|(id, amount)| format!("{id:?} has {amount}")).collect();
    Text(format!("slot {}: {}", step.block.slot, changes.join(", ")).into())
}

/// The next message of a listener, if there is one.
fn next(listener: &Listener<&'static str, Text, Balances>) -> Option<Text> {
    match listener.next() {
        Next::Message(delivery) => Some(delivery.body),
        Next::Conflated(conflated) => conflated.state,
        Next::Empty | Next::Closed(_) => None,
    }
}

fn limits() -> Limits {
    Limits {
        listeners_max: 100,
        subscriptions_max: 1_000,
        subscriptions_per_listener_max: 10,
        addresses_max: 1_000,
        address_pairs_max: 4_000,
        addresses_per_owner_max: 500,
        addresses_per_listener_max: 100,
        retained_steps: 100,
        retained_bytes: 1 << 20,
        unrooted_max: 100,
        queue_messages_max: 100,
        queue_bytes_max: 1 << 16,
        queues_bytes_max: 1 << 20,
    }
}
