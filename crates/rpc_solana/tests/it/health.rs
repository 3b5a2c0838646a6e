//! Health of a node whose ledger stalls. The test controls the clock: nothing sleeps.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cpu_pool::Clock;
use jsonrpc::Health;
use query::{IndexConfig, Ledger, LedgerConfig};
use serde_json::json;

use testkit::raw_http_client::{Client, Response};
use testkit::sample_ledger::{FINALIZED, bank, block};
use testkit::solana_node::SolanaNode;

const SLOT: Duration = Duration::from_millis(400);
const STALL: Duration = Duration::from_secs(10);

#[derive(Default)]
struct ManualClock(AtomicU64);

impl ManualClock {
    fn advance(&self, by: Duration) {
        self.0.fetch_add(by.as_millis() as u64, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::SeqCst))
    }
}

fn get(client: &mut Client, path: &str) -> Response {
    client.send(format!("GET {path} HTTP/1.1\r\nhost: test\r\n\r\n"));
    client.receive()
}

/// Returns the word of `/health`, the status of `/ready`, and the error of `getHealth`.
fn health(client: &mut Client) -> (String, u16, Option<serde_json::Value>) {
    let response = client.post(r#"{"jsonrpc":"2.0","id":1,"method":"getHealth"}"#).json();
    let word = get(client, "/health");
    assert_eq!(word.status, 200, "always 200, as in Agave");
    (word.body, get(client, "/ready").status, response.get("error").cloned())
}

#[test]
fn a_writer_that_stops_is_reported_everywhere_until_it_continues() {
    let config = LedgerConfig { addresses_max: 10, indices: IndexConfig::default() };
    let (mut ledger, reader) = Ledger::new(config, block(FINALIZED), bank(FINALIZED));
    let clock = Arc::new(ManualClock::default());
    let slot_clock = Health::with_slot_clock(SLOT, STALL);
    let node_clock = Arc::clone(&clock) as Arc<dyn Clock>;
    let world = SolanaNode::builder(reader).clock(node_clock, slot_clock).serve();
    let mut client = world.client();
    let mut make_block = |slot: u64| {
        ledger.open(block(slot), block(slot - 1), bank(slot)).expect("open");
        let complete =
            Arc::new(chain_solana::BlockInfo { complete: true, ..(*bank(slot)).clone() });
        ledger.complete(block(slot), complete).expect("complete");
        ledger.confirm(block(slot)).expect("it is complete");
        ledger.publish();
        clock.advance(SLOT);
        world.server.context.poll_health(&world.server.api);
    };
    (FINALIZED + 1..FINALIZED + 40).for_each(&mut make_block);
    assert_eq!(health(&mut client), ("ok".to_owned(), 200, None));

    clock.advance(STALL - 2 * SLOT);
    world.server.context.poll_health(&world.server.api);
    assert_eq!(health(&mut client), ("ok".to_owned(), 200, None), "a delay is allowed");

    clock.advance(2 * SLOT);
    world.server.context.poll_health(&world.server.api);
    let (word, ready, err) = health(&mut client);
    assert_eq!((word.as_str(), ready), ("behind", 503));
    // The last block was seen by the poll after it: the stall is ten seconds, 25 slots.
    let data = json!({ "numSlotsBehind": 25, "lastBlockAgeMs": 10_000 });
    let message = "Node is behind by 25 slots";
    assert_eq!(err, Some(json!({ "code": -32005, "message": message, "data": data })));
    let word = get(&mut client, "/health");
    assert_eq!(word.header("hydrant-slots-behind"), Some("25"));
    assert_eq!(word.header("hydrant-last-block-age-ms"), Some("10000"));
    let ready = get(&mut client, "/ready");
    assert_eq!(ready.body, "behind by 25 slots, last block 10.0 s ago\n");
    let metrics = get(&mut client, "/metrics").body;
    for line in [
        "hydrant_ready 0\n",
        "hydrant_slots_behind 25\n",
        "hydrant_slot_age_seconds{commitment=\"processed\"} 10\n",
    ] {
        assert!(metrics.contains(line), "{line}{metrics}");
    }

    clock.advance(Duration::from_secs(3_600));
    make_block(FINALIZED + 40);
    assert_eq!(health(&mut client), ("ok".to_owned(), 200, None));
}
