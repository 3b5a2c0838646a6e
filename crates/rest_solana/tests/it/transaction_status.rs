//! A client that waits for a transaction gets a response as soon as the ledger sends its event.

use std::sync::Arc;
use std::time::{Duration, Instant};

use chain_solana::{EventSink, LedgerEvent};
use ledger::BlockId;
use testkit::ForkEvent;
use testkit::eventually::wait_until;
use testkit::forked_chain::{self, ForkedChain, ROOT};

use crate::history::{completed_block, signature, transaction_with_balances};
use crate::{Node, get};
use testkit::sample_ledger::{CONFIRMED, FINALIZED, PROCESSED, block};

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
        wait_until(|| node.rest.api().waiters_len(), |waiters| *waiters == 1);
        let transaction = transaction_with_balances(slot, 0, 2);
        let history = &node.world.server.api.history;
        history.record_transactions(
            block(slot),
            &[transaction_with_balances(slot, 1, 2), transaction.clone()],
        );
        history.publish();
        let block =
            completed_block(slot, vec![transaction_with_balances(slot, 1, 2), transaction.clone()])
                .into();
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
        wait_until(|| node.rest.api().waiters_len(), |waiters| *waiters == 0);
    }
    assert!(start.elapsed() < Duration::from_secs(25), "no wait timed out");
}

/// A node with a chain that forks, and the path of the status of its only transaction, which is in the first block.
struct ForkedNode {
    node: Node,
    chain: ForkedChain,
    path: String,
}

impl ForkedNode {
    /// The first block is the tip.
    fn start(first: BlockId) -> Self {
        let (ledger, reader) = forked_chain::ledger();
        let node = Node::with_config(reader, rpc_solana::Config::default());
        let history = Arc::clone(&node.world.server.api.history);
        let events = node.rest.api().start_waker(Arc::clone(&history)).expect("a thread");
        let chain = ForkedChain::new(ledger, history, vec![Box::new(events)]);
        let path = format!("/v1/transactions/{}/status", forked_chain::signature(0));
        let mut forked = Self { node, chain, path };
        forked.freeze(first, ROOT, &[ForkEvent::Write(first)]);
        forked.apply(&[ForkEvent::SetTip(first), ForkEvent::Publish]);
        forked
    }

    fn apply(&mut self, events: &[ForkEvent]) {
        let mut rng = fastrand::Rng::with_seed(1);
        events.iter().for_each(|event| self.chain.apply(*event, &mut rng));
    }

    fn freeze(&mut self, block: BlockId, parent: BlockId, writes: &[ForkEvent]) {
        self.apply(&[ForkEvent::Open { block, parent }]);
        self.apply(writes);
        self.apply(&[ForkEvent::Complete(block)]);
    }

    /// Checks that a client that waits for the status is woken by `events`.
    #[expect(
        clippy::disallowed_methods,
        reason = "the response must come long before the wait is over"
    )]
    fn check_woken(&mut self, commitment: &str, events: &[ForkEvent]) {
        let start = Instant::now();
        let mut waiting = self.node.client();
        let path = format!("{}?waitMs=30000&commitment={commitment}", self.path);
        waiting.send(request(&path));
        wait_until(|| self.node.rest.api().waiters_len(), |waiters| *waiters == 1);
        self.apply(events);
        let response = waiting.receive();
        assert_eq!(response.status, 200, "{}", response.body);
        assert_eq!(response.json()["confirmationStatus"], commitment);
        assert!(start.elapsed() < Duration::from_secs(25), "the wait did not time out");
        wait_until(|| self.node.rest.api().waiters_len(), |waiters| *waiters == 0);
    }
}

#[test]
fn a_waiting_client_is_woken_when_the_tip_returns_to_a_fork_that_was_seen_before() {
    let [first, other] = [(1, 1), (2, 2)].map(|(slot, version)| BlockId { slot, version });
    let mut forked = ForkedNode::start(first);
    forked.freeze(other, ROOT, &[]);
    // A client registers before it fetches the status. A round in which the tip returns in between passes always.
    for _ in 0..8 {
        forked.apply(&[ForkEvent::SetTip(other), ForkEvent::Publish]);
        let mut client = forked.node.client();
        assert_eq!(get(&mut client, &forked.path, "").status, 404, "its fork was left");
        forked.check_woken("processed", &[ForkEvent::SetTip(first), ForkEvent::Publish]);
    }
}

#[test]
fn a_waiting_client_is_woken_when_a_descendant_of_its_block_is_confirmed() {
    let [first, second] = [(1, 1), (2, 2)].map(|(slot, version)| BlockId { slot, version });
    let mut forked = ForkedNode::start(first);
    forked.freeze(second, first, &[]);
    forked.apply(&[ForkEvent::SetTip(second), ForkEvent::Publish]);
    forked.check_woken("confirmed", &[ForkEvent::Confirm(second), ForkEvent::Publish]);
}

#[test]
fn a_wait_that_times_out_returns_the_current_status() {
    let node = Node::new();
    let history = &node.world.server.api.history;
    let transaction = transaction_with_balances(CONFIRMED, 0, 2);
    transaction.show_status();
    history.record_transactions(block(CONFIRMED), &[transaction]);
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
    wait_until(|| node.rest.api().waiters_len(), |waiters| *waiters == 1);
    drop(client);
    wait_until(|| node.rest.api().waiters_len(), |waiters| *waiters == 0);
}
