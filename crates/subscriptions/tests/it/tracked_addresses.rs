//! The limits of addresses: those that count once, those that count for each client, and refusals.

use std::sync::Arc;

use address::AddressTable;
use ledger::{Address, BlockId, Commitment, KeyKind};
use subscriptions::{
    AddressSet, Filter, Interest, Limits, Listener, Message, OwnerId, Position, SetChange,
    SetSubscription, SlowConsumerPolicy, SubscribeError, SubscriptionId, Subscriptions, Topic,
};

use crate::fixed::LIMITS;

const ITSELF: KeyKind = KeyKind(0);
const OWNER: KeyKind = KeyKind(1);

/// A listener without deliveries.
#[derive(Clone, Debug)]
struct Nothing;

impl Message for Nothing {
    type Conflated = ();

    fn conflate(self, (): &mut ()) -> usize {
        0
    }
}

type Client = Arc<Listener<u32, Nothing, ()>>;

struct World {
    table: Arc<AddressTable>,
    subscriptions: Subscriptions<u32, Nothing, ()>,
}

impl World {
    fn new(limits: Limits) -> Self {
        let subscriptions = Subscriptions::new(limits);
        subscriptions.start_at(|_| BlockId { slot: 0, version: 0 });
        Self { table: Arc::new(AddressTable::new(2_000_000, 1)), subscriptions }
    }

    fn connect(&self, owner: u128) -> Client {
        Arc::new(self.subscriptions.listen(OwnerId(owner), Arc::new(|| ())).expect("room"))
    }

    fn set(&self, addresses: impl IntoIterator<Item = u32>) -> AddressSet {
        let addresses = addresses.into_iter().map(address);
        AddressSet::register(&self.table, addresses).expect("room")
    }

    /// Subscribes to a set. Sets of another identity are never shared.
    fn track(
        &self,
        client: &Client,
        identity: u32,
        addresses: impl IntoIterator<Item = u32>,
    ) -> Result<SubscriptionId, SubscribeError> {
        let subscription = SetSubscription {
            identity,
            topic: Topic(identity as u16 % 3),
            key_kind: if identity.is_multiple_of(2) { ITSELF } else { OWNER },
            set: self.set(addresses),
            slow_consumer_policy: SlowConsumerPolicy::Close,
        };
        Ok(client.subscribe_set(subscription)?.subscription)
    }

    fn change(
        &self,
        client: &Client,
        id: SubscriptionId,
        change: SetChange,
    ) -> Result<usize, SubscribeError> {
        let mut update = client.start_set_update(id, change)?;
        loop {
            if let Some(result) = update.step()? {
                return Ok(result.len);
            }
        }
    }

    fn count_tracked(&self) -> usize {
        self.subscriptions.stats().tracked_addresses
    }
}

fn address(n: u32) -> Address {
    let mut bytes = [0; 32];
    bytes[..4].copy_from_slice(&n.to_le_bytes());
    Address::from(bytes)
}

/// Limits of addresses that only `addresses_max` may reach.
fn large_limits(addresses_max: usize) -> Limits {
    Limits {
        addresses_max,
        address_pairs_max: 1 << 30,
        addresses_per_owner_max: 1 << 30,
        addresses_per_listener_max: 1 << 30,
        ..LIMITS
    }
}

#[test]
fn addresses_that_two_clients_track_count_once() {
    check_that_two_clients_count_once(20_000);
}

#[test]
#[ignore = "a minute in a debug build: cargo test -p subscriptions a_million -- --ignored"]
fn a_million_addresses_that_two_clients_track_count_once() {
    check_that_two_clients_count_once(1_000_000);
}

fn check_that_two_clients_count_once(addresses: u32) {
    let limit = addresses as usize;
    let world = World::new(large_limits(limit));
    let one = world.connect(1);
    let two = world.connect(2);
    let first = world.track(&one, 0, 0..addresses).expect("as many as may be tracked");
    // Not equal to the first set, and under another topic and key kind.
    let second = world.track(&two, 1, 1..addresses).expect("all are tracked already");
    let stats = world.subscriptions.stats();
    assert_eq!((stats.tracked_addresses, stats.tracked_pairs), (limit, 2 * limit - 1));
    let refused = world.track(&two, 2, [addresses]);
    assert_eq!(refused, Err(SubscribeError::AddressesFull { added: 1, limit }));
    assert!(one.unsubscribe(first));
    assert_eq!(world.count_tracked(), limit - 1, "one address was of the first client alone");
    assert!(two.unsubscribe(second));
    assert!(world.count_tracked() == 0 && world.subscriptions.is_idle() && world.table.is_empty());
}

#[test]
fn an_address_counts_until_its_last_client_leaves() {
    let world = World::new(large_limits(10));
    let clients: Vec<Client> = (0..4).map(|owner| world.connect(owner)).collect();
    for (client, identity) in clients.iter().zip(0..) {
        world.track(client, identity, 0..10).expect("the same ten");
    }
    // A fixed subscription counts as well, and a refused one leaves nothing.
    let interest = |n| {
        let filter = Filter::Set(ITSELF, Arc::new(world.set([n])));
        vec![Interest { topic: Topic(9), filter }]
    };
    let fixed = clients[3].subscribe(99, interest(5), Position(0)).expect("tracked already");
    let refused = clients[3].subscribe(98, interest(10), Position(0));
    assert_eq!(refused, Err(SubscribeError::AddressesFull { added: 1, limit: 10 }));
    for client in clients.into_iter().take(3) {
        drop(client);
        assert_eq!(world.count_tracked(), 10);
    }
    let last = world.connect(3);
    drop(last);
    assert_eq!((world.count_tracked(), fixed.0 > 0), (0, true));
    assert!(world.subscriptions.is_idle() && world.table.is_empty());
}

#[test]
fn a_full_node_lets_a_client_replace_its_addresses() {
    let world = World::new(large_limits(3_000));
    let one = world.connect(1);
    let two = world.connect(2);
    let first = world.track(&one, 0, 0..2_000).expect("room");
    let second = world.track(&two, 1, 1_500..3_000).expect("room");
    let replaced = world.change(&one, first, SetChange::Replace(world.set(10_000..11_500)));
    assert_eq!(replaced, Ok(1_500), "1,500 of its own are gone, and 500 are of both");
    assert_eq!(world.count_tracked(), 3_000);
    // One more than it may have: nothing has changed, whatever was inserted before it was noticed.
    let refused = world.change(&one, first, SetChange::Replace(world.set(20_000..21_501)));
    assert_eq!(refused, Err(SubscribeError::AddressesFull { added: 1_501, limit: 3_000 }));
    let refused = world.change(&two, second, SetChange::Add(world.set(30_000..30_001)));
    assert_eq!(refused, Err(SubscribeError::AddressesFull { added: 1, limit: 3_000 }));
    assert_eq!((world.count_tracked(), world.table.len()), (3_000, 3_000));
    assert_eq!(one.tracked_addresses(), 1_500);
    let set = one.set(first).expect("it has it");
    assert_eq!(
        set.addresses().collect::<Vec<_>>(),
        (10_000..11_500).map(address).collect::<Vec<_>>()
    );
    one.drop_set(set);
    assert_eq!(world.change(&two, second, SetChange::Remove(world.set(2_000..2_500))), Ok(1_000));
    assert_eq!(world.change(&one, first, SetChange::Add(world.set(0..500))), Ok(2_000));
    assert_eq!(world.count_tracked(), 3_000);
    drop((one, two));
    assert!(world.subscriptions.is_idle() && world.table.is_empty());
}

#[test]
fn a_hostile_client_leaves_room_for_an_honest_one() {
    let limits = Limits { addresses_per_owner_max: 500, ..large_limits(1_000) };
    let limits = Limits { address_pairs_max: 2_000, addresses_per_listener_max: 300, ..limits };
    let world = World::new(limits);
    let hostile: Vec<Client> = (0..3).map(|_| world.connect(666)).collect();
    let mut refused = Vec::new();
    for n in 0..100 {
        let tracked = world.track(&hostile[n as usize % 3], n, n * 60..n * 60 + 60);
        refused.extend(tracked.err());
    }
    let is_of_client = |refused: &SubscribeError| match refused {
        SubscribeError::ListenerAddressesFull { addresses, limit } => {
            *addresses > 300 && *limit == 300
        }
        SubscribeError::OwnerAddressesFull { addresses, limit } => {
            *addresses > 500 && *limit == 500
        }
        SubscribeError::ListenerFull { .. } => true,
        _ => false,
    };
    assert!(refused.len() > 80 && refused.iter().all(is_of_client), "{refused:?}");
    let honest = world.connect(1);
    let id = world.track(&honest, 7, 100_000..100_300).expect("the other half is left");
    let copies = (0..2).map(|n| world.track(&hostile[n], 8, 100_000..100_300));
    assert!(copies.flatten().next().is_none(), "nor can it have as many as the honest one");
    drop(hostile);
    assert!(honest.unsubscribe(id) && world.subscriptions.is_idle());
}

#[test]
fn pairs_have_a_limit_of_their_own() {
    let world = World::new(Limits { address_pairs_max: 250, ..large_limits(1_000) });
    let clients: Vec<Client> = (0..3).map(|owner| world.connect(owner)).collect();
    world.track(&clients[0], 0, 0..100).expect("room");
    world.track(&clients[1], 0, 0..100).expect("equal sets are one");
    world.track(&clients[1], 1, 0..100).expect("room");
    let refused = world.track(&clients[2], 2, 0..100);
    assert_eq!(refused, Err(SubscribeError::AddressPairsFull { pairs: 300, limit: 250 }));
    assert_eq!((world.count_tracked(), world.subscriptions.stats().tracked_pairs), (100, 200));
}

#[test]
fn clients_that_come_and_go_at_once_leave_exact_counts() {
    const ADDRESSES: u32 = 600;
    let world = World::new(large_limits(ADDRESSES as usize));
    std::thread::scope(|threads| {
        for owner in 0..4 {
            let world = &world;
            threads.spawn(move || {
                let client = world.connect(owner.into());
                for round in 0..150_u32 {
                    let from = (round * 7 + owner * 50) % 300;
                    // All addresses together fit, so none may be refused, however the clients are interleaved.
                    let id = world.track(&client, round * 4 + owner, from..from + 300);
                    let id = id.expect("they fit");
                    let other = world.set((from + 100) % 300..(from + 100) % 300 + 200);
                    let change = if round % 2 == 0 {
                        SetChange::Replace(other)
                    } else {
                        SetChange::Remove(other)
                    };
                    world.change(&client, id, change).expect("they fit");
                    assert!(client.unsubscribe(id));
                }
            });
        }
    });
    assert!(world.count_tracked() == 0 && world.subscriptions.is_idle() && world.table.is_empty());
}

#[test]
fn reserved_memory_is_allocated_at_once_and_stays() {
    let world = World::new(large_limits(200_000));
    let before = world.subscriptions.memory_usage().index;
    world.subscriptions.reserve(Topic(0), ITSELF, 100_000);
    let reserved = world.subscriptions.memory_usage().index;
    let bytes = reserved - before;
    assert!((900_000..=10 * 100_000 + 320_000).contains(&bytes), "{bytes}");
    assert!(world.subscriptions.is_idle(), "memory alone is no subscription");
    assert!(!world.subscriptions.matches().has(Topic(0)));
    let client = world.connect(1);
    let id = world.track(&client, 0, 0..1_000).expect("room");
    assert!(world.subscriptions.matches().has(Topic(0)));
    assert!(client.unsubscribe(id));
    assert!(world.subscriptions.memory_usage().index >= reserved);
    assert_eq!(world.subscriptions.tip(Commitment::Processed).map(|tip| tip.slot), Some(0));
}
