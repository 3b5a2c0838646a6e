//! A client that waits for a transaction gets a response as soon as the ledger sends its event.

use std::time::{Duration, Instant};

use chain_solana::{EventSink, LedgerEvent};

use crate::history::{completed, executed, signature};
use crate::wire::IO_TIMEOUT;
use crate::world::{CONFIRMED, FINALIZED, PROCESSED, block};
use crate::{Node, get};

#[expect(clippy::disallowed_methods, reason = "a timeout needs a clock")]
fn wait_until(condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < IO_TIMEOUT);
        std::thread::yield_now();
    }
}

fn request(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: test\r\n\r\n")
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the response must come long before the wait is over"
)]
fn a_waiting_client_is_woken_by_the_event_of_its_transaction() {
    let mut node = Node::new();
    let start = Instant::now();
    for (commitment, slot) in
        [("processed", PROCESSED), ("confirmed", CONFIRMED), ("finalized", FINALIZED)]
    {
        let path = format!("/v1/transactions/{}/status", signature(slot, 0));
        let path = format!("{path}?waitMs=30000&commitment={commitment}");
        let mut waiting = node.client();
        waiting.send(request(&path));
        wait_until(|| node.rest.api().waiters_len() == 1);
        let transaction = executed(slot, 0, 2);
        let history = &node.world.node.api.history;
        history.record_transactions(block(slot), &[executed(slot, 1, 2), transaction.clone()]);
        history.publish();
        let block = completed(slot, vec![executed(slot, 1, 2), transaction.clone()]).into();
        node.events.send(&match commitment {
            "processed" => LedgerEvent::Executed([transaction].into()),
            "confirmed" => LedgerEvent::Confirmed { block, timestamp_ms: 0 },
            _ => LedgerEvent::Rooted { block, timestamp_ms: 0 },
        });
        let response = waiting.receive();
        assert_eq!(response.status, 200, "{}", response.body);
        assert_eq!(response.json()["confirmationStatus"], commitment);
        assert_eq!(response.json()["slot"], slot);
        assert_eq!(response.header("hydrant-slot"), Some(PROCESSED.to_string().as_str()));
        wait_until(|| node.rest.api().waiters_len() == 0);
    }
    assert!(start.elapsed() < Duration::from_secs(25), "no wait timed out");
}

#[test]
fn a_wait_that_times_out_returns_the_current_status() {
    let node = Node::new();
    let history = &node.world.node.api.history;
    history.record_transactions(block(CONFIRMED), &[executed(CONFIRMED, 0, 2)]);
    history.publish();
    let mut client = node.client();
    let path = format!("/v1/transactions/{}/status?waitMs=50", signature(CONFIRMED, 0));
    let response = get(&mut client, &format!("{path}&commitment=finalized"), "");
    assert_eq!(response.status, 200);
    assert_eq!(response.json()["confirmationStatus"], "confirmed");
    let path = format!("/v1/transactions/{}/status?waitMs=50", signature(1, 1));
    assert_eq!(get(&mut client, &path, "").status, 404);
    assert_eq!(node.rest.api().waiters_len(), 0);
}

#[test]
fn a_client_that_disconnects_waits_no_longer() {
    let node = Node::new();
    let mut client = node.client();
    let path = format!("/v1/transactions/{}/status?waitMs=30000", signature(1, 1));
    client.send(request(&path));
    wait_until(|| node.rest.api().waiters_len() == 1);
    drop(client);
    wait_until(|| node.rest.api().waiters_len() == 0);
}
