//! A hostile client with filters that change all the time, or with as many as it may have, and an honest client of
//! another address alongside it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use grpc::Config;
use prost::Message;
use solana_pubkey::Pubkey;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use yellowstone_grpc_proto::geyser::subscribe_request_filter_accounts_filter::Filter;
use yellowstone_grpc_proto::geyser::{
    PingRequest, SubscribeRequest, SubscribeRequestFilterAccounts,
    SubscribeRequestFilterAccountsFilter,
};

use crate::calls::scrape;
use crate::client::{Client, Subscription, connect, wait_until};
use crate::ledger::{FIRST, ScriptedLedger, block_id};
use crate::shares::{connect_hostile, metas, refusal};

/// The rate of a client: decoded bytes a second, and as many at once. A short request counts for more than it has.
const BYTES_PER_S: u64 = 8 << 20;
const REQUEST_BYTES_MIN: u64 = 4 << 10;
/// Banks of the honest client, at least.
const BANKS_MIN: u64 = 50;
/// The time of a slot of mainnet.
const SLOT: Duration = Duration::from_millis(400);

/// A hostile client that changes the filters of its subscriptions as fast as they are accepted.
struct FilterChanges {
    /// Filters that replace each other.
    requests: [SubscribeRequest; 2],
    connections: usize,
    /// Changes after which the test may end. A client without a rate would send them in less time than the rate allows.
    changes_min: u64,
}

impl FilterChanges {
    /// Returns the bytes that a change counts: those of the filters, and of the ping after them.
    fn cost(&self) -> u64 {
        (self.requests[0].encoded_len() as u64).max(REQUEST_BYTES_MIN) + REQUEST_BYTES_MIN
    }
}

/// Filters with addresses, which differ from those of another number.
fn address_filters(number: u32, filters: u32, addresses: u32) -> SubscribeRequest {
    let address = |n: u32| {
        let mut bytes = [7; 32];
        bytes[..4].copy_from_slice(&n.to_le_bytes());
        bytes[4..8].copy_from_slice(&number.to_le_bytes());
        Pubkey::new_from_array(bytes).to_string()
    };
    let filter = |n: u32| {
        let account = (n * addresses..(n + 1) * addresses).map(address).collect();
        (n.to_string(), SubscribeRequestFilterAccounts { account, ..Default::default() })
    };
    SubscribeRequest { accounts: (0..filters).map(filter).collect(), ..Default::default() }
}

async fn send_changes(mut client: Client, changes: Arc<FilterChanges>, handled: Arc<AtomicU64>) {
    let mut subscription = Subscription::start_unchecked(&mut client).await;
    for request in changes.requests.iter().cycle() {
        subscription.replace(request.clone()).await;
        handled.fetch_add(1, Ordering::Relaxed);
    }
}

/// The honest client gets each bank and the response of each call, while the other client stays within its rate.
async fn check_changes(changes: FilterChanges) {
    let mut ledger = ScriptedLedger::start(Config::default());
    let mut honest = connect(ledger.address()).await;
    let mut subscription = Subscription::start(&mut honest, metas()).await;
    let changes = Arc::new(changes);
    let handled = Arc::new(AtomicU64::new(0));
    let started = Instant::now();
    let mut hostile = Vec::new();
    for _ in 0..changes.connections {
        let client = connect_hostile(&ledger).await;
        let sending = send_changes(client, Arc::clone(&changes), Arc::clone(&handled));
        hostile.push(tokio::spawn(sending));
    }
    let count = || handled.load(Ordering::Relaxed);
    wait_until(|| count() > 0).await;
    let mut banks = 0;
    while banks < BANKS_MIN || count() < changes.changes_min {
        let slot = FIRST + banks;
        ledger.bank_with_write(slot, 1);
        ledger.root(block_id(slot));
        assert_eq!(subscription.take(1).await, [format!("meta: meta {slot} 0")]);
        honest.ping(PingRequest { count: 1 }).await.expect("it is served");
        banks += 1;
    }
    assert!(hostile.iter().all(|it| !it.is_finished()), "the other client still sends requests");
    let handled = count();
    let seconds = started.elapsed().as_secs() + 2;
    let handled_max = seconds * BYTES_PER_S / changes.cost() + changes.connections as u64;
    assert!(handled <= handled_max, "{handled} changes in {seconds} s, at most {handled_max}");
    hostile.iter().for_each(JoinHandle::abort);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_is_served_while_long_filters_of_another_change() {
    let requests = [0, 1].map(|number| address_filters(number, 9, 3_000));
    check_changes(FilterChanges { requests, connections: 4, changes_min: 1 }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_is_served_while_short_filters_of_another_change() {
    let requests = [0, 1].map(|number| address_filters(number, 1, 15));
    check_changes(FilterChanges { requests, connections: 10, changes_min: 4_000 }).await;
}

/// Filters without an address that match no account, and that no other number has.
fn unindexed_filters(number: u64, filters: u64) -> SubscribeRequest {
    let filter = |n: u64| {
        let size = Some(Filter::Datasize((1 << 60) + number * filters + n));
        let filters = vec![SubscribeRequestFilterAccountsFilter { filter: size }];
        (n.to_string(), SubscribeRequestFilterAccounts { filters, ..Default::default() })
    };
    SubscribeRequest { accounts: (0..filters).map(filter).collect(), ..Default::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_with_all_its_filters_delays_another_by_less_than_a_slot() {
    const FILTERS: u64 = 64;
    /// Writes of accounts in a slot: 1,000 a second.
    const WRITES: usize = 400;
    const SLOTS: u64 = 7;
    let mut ledger = ScriptedLedger::start(Config::default());
    let mut hostile = connect_hostile(&ledger).await;
    let mut open = Vec::new();
    // A filter costs 2, and a client may have nine tenths of 4,096. No two of them are equal, so none is shared.
    for number in 0..28 {
        let request = unindexed_filters(number, FILTERS);
        open.push(Subscription::start(&mut hostile, request).await);
    }
    let status = refusal(&mut hostile, unindexed_filters(28, FILTERS)).await;
    assert!(status.message().contains("grpc.unindexed_cost_max"), "{status}");
    assert!(scrape(&ledger.server).contains("hydrant_grpc_unindexed_cost 3584\n"));
    let mut honest = connect(ledger.address()).await;
    let mut subscription = Subscription::start(&mut honest, metas()).await;
    let mut delays = Vec::new();
    for slot in FIRST..FIRST + SLOTS {
        let started = Instant::now();
        ledger.open(slot);
        for n in (0..=u8::MAX).cycle().take(WRITES) {
            ledger.write(slot, n, 9, b"data", None);
        }
        ledger.freeze(slot);
        assert_eq!(subscription.take(1).await, [format!("meta: meta {slot} 0")]);
        delays.push(started.elapsed());
    }
    // If the machine is so slow that the filters take longer, the publisher closes their client after half a slot.
    delays.sort_unstable();
    assert!(delays[delays.len() / 2] < SLOT, "{delays:?}");
}
