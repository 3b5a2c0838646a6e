//! Waits for a slot on a toy ledger, each of whose writes is a final block.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use clients::ClientId;
use ledger::{Address, Commitment};
use metrics::Exposition;
use response_cache::LedgerVersions;
use testkit::toy_api::ToyApi;

use crate::config::Config;
use crate::error::RpcError;
use crate::slot_waits::SlotWaits;
use crate::state_slots::RequiredSlots;

const CLIENT: ClientId = ClientId(1);

fn waits(min_slot_wait_ms: u64, min_slot_waits_max: usize) -> Arc<SlotWaits> {
    Arc::new(SlotWaits::new(&Config {
        batch_max: 1,
        inline_bytes_max: 1,
        first_byte_timeout_ms: 60_000,
        slow_request_ms: 0,
        min_slot_wait_ms,
        min_slot_waits_max,
    }))
}

/// A ledger at slot 0.
fn ledger() -> ToyApi {
    ToyApi::server().expect("a thread").api
}

/// Adds a block, which is final at once.
fn add_block(ledger: &ToyApi) {
    let name = Address::try_from(b"a".as_slice()).expect("a name");
    ledger.counters.add(&name, 1).expect("room for it");
}

fn finalized(slot: u64) -> RequiredSlots {
    let mut required = RequiredSlots::default();
    required.add(Commitment::Finalized, slot);
    required
}

fn metric(waits: &SlotWaits, line: &str) -> bool {
    let mut exposition = Exposition::default();
    waits.write_metrics(&mut exposition);
    exposition.into_string().lines().any(|it| it == line)
}

#[tokio::test]
async fn a_publish_wakes_the_calls_whose_slot_it_reaches() {
    let ledger = ledger();
    let waits = waits(60_000, 10);
    let mut run = pin!(waits.run(&ledger));
    let mut first = pin!(waits.wait(&ledger, CLIENT, finalized(1)));
    let mut second = pin!(waits.wait(&ledger, CLIENT, finalized(2)));
    let mut poll_all = || {
        let cx = &mut Context::from_waker(Waker::noop());
        assert!(run.as_mut().poll(cx).is_pending());
        (first.as_mut().poll(cx).is_ready(), second.as_mut().poll(cx).is_ready())
    };
    assert_eq!(poll_all(), (false, false));
    assert_eq!(waits.len(), 2);
    assert!(metric(&waits, "hydrant_slot_waits 2"));
    add_block(&ledger);
    assert_eq!(poll_all(), (true, false));
    assert!(metric(&waits, "hydrant_slot_waits_total{end=\"reached\"} 1"));
}

#[tokio::test]
async fn a_wait_ends_at_its_time_limit_with_the_current_slots() {
    let ledger = ledger();
    add_block(&ledger);
    let waits = waits(5, 10);
    let slots = waits.wait(&ledger, CLIENT, finalized(9)).await.expect("it may wait");
    assert_eq!(slots.at(Commitment::Finalized), 1);
    assert_eq!(slots.at(Commitment::Processed), ledger.version_and_slot(Commitment::Processed).1);
    assert!(waits.is_empty());
    assert!(metric(&waits, "hydrant_slot_waits_total{end=\"timed_out\"} 1"));
}

#[tokio::test]
async fn a_client_leaves_some_of_the_waits_to_others() {
    let ledger = ledger();
    let waits = waits(60_000, 20);
    let mut all = Vec::new();
    let mut wait = |client| {
        let mut waiting = Box::pin(waits.wait(&ledger, ClientId(client), finalized(1)));
        match waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => {
                all.push(waiting);
                Ok(())
            }
            Poll::Ready(result) => result.map(|_| ()),
        }
    };
    let refused: RpcError =
        (0..21).find_map(|_| wait(1).err()).expect("not all are for one client");
    assert!(refused.is_overload(), "{refused}");
    assert!(refused.message.contains("rpc.min_slot_waits_max"), "{refused}");
    wait(2).expect("another client has none");
    assert!(metric(&waits, "hydrant_slot_waits_total{end=\"refused\"} 1"));
    // The clients disconnect.
    drop(all);
    assert!(waits.is_empty());
    assert!(metric(&waits, "hydrant_slot_waits_total{end=\"abandoned\"} 19"));
}
