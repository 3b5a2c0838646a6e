//! Batches and long bodies use the response cache like short single calls: they read and write it, and no result is
//! computed twice.

use clients::ClientId;
use cpu_pool::Class;
use hyper::header::HeaderName;
use jsonrpc::handle_blocking;
use ledger::{Address, Change};
use query::{Ledger, LedgerConfig};
use rpc_solana::Config;
use serde_json::{Value, json};
use solana::Account;

use crate::cached::{from_byte, key, large_program, post_decoded};
use crate::metrics::ScrapedMetrics;
use testkit::raw_http_client::{Client, post};
use testkit::sample_ledger::{PROGRAM, bank, block, with_data};
use testkit::solana_node::SolanaNode;

/// Returns a batch of calls. The id of each is its index.
fn batch(calls: &[Value]) -> String {
    let numbered = calls.iter().enumerate().map(|(id, call)| {
        let mut call = call.clone();
        call["id"] = json!(id);
        call
    });
    Value::from_iter(numbered).to_string()
}

fn call(method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })
}

/// Returns a call for 133 KB. Calls with different `bytes` are different requests.
fn list(bytes: usize) -> Value {
    let config = json!({ "encoding": "base64", "dataSlice": { "offset": 0, "length": bytes } });
    call("getProgramAccounts", json!([PROGRAM.to_string(), config]))
}

/// Returns the response to `body` without the cache.
fn compute_response(world: &SolanaNode, body: &str) -> Vec<u8> {
    let mut computed = handle_blocking(&world.server, body).expect("there is a response");
    computed.push(b'\n');
    computed
}

fn is_computed(world: &SolanaNode, client: &mut Client, body: &str, coding: &str) {
    let response = post_decoded(client, body, coding);
    let beginning = String::from_utf8_lossy(&response[..response.len().min(200)]).into_owned();
    assert!(response == compute_response(world, body), "{coding}: {beginning}");
}

/// Pads the body with enough trailing space that it is parsed on the pool.
pub(crate) fn pad_body(body: &str) -> String {
    format!("{body}{}", " ".repeat(9_000))
}

#[test]
fn equal_calls_in_batches_are_computed_once() {
    let world = SolanaNode::new();
    let mut client = world.client();
    let body = batch(&vec![list(100_000); 20]);
    for (requests, coding) in [(20, "identity"), (40, "gzip"), (60, "zstd")] {
        is_computed(&world, &mut client, &body, coding);
        let counters = world.server.context.response_cache.counters();
        assert_eq!((counters.misses, counters.entries), (1, 1), "{counters:?}");
        assert_eq!((counters.hits, counters.bypassed), (requests - 1, 0), "{counters:?}");
    }
    // A single call uses the same entry.
    is_computed(&world, &mut client, &list(100_000).to_string(), "identity");
    let metrics = ScrapedMetrics::scrape(&mut client);
    let requests = |path: &str, class: &str| {
        let labels = format!(
            "class=\"{class}\",method=\"getProgramAccounts\",path=\"{path}\",transport=\"http\""
        );
        metrics.get(&format!("hydrant_requests_total{{{labels}}}"))
    };
    assert_eq!(
        (requests("cached", "none"), requests("pool", "heavy"), requests("pool", "medium")),
        (60.0, 1.0, 0.0),
        "{:?}",
        metrics.all()
    );
    let lookups = |result: &str| {
        let labels = format!("cache=\"responses\",result=\"{result}\"");
        metrics.get(&format!("hydrant_cache_lookups_total{{{labels}}}"))
    };
    assert_eq!(
        (lookups("hit"), lookups("miss"), lookups("stale")),
        (60.0, 1.0, 0.0),
        "{:?}",
        metrics.all()
    );
}

#[test]
fn a_batch_and_a_long_body_use_a_single_calls_result() {
    let world = SolanaNode::new();
    let mut client = world.client();
    let single = list(100_000).to_string();
    is_computed(&world, &mut client, &single, "identity");
    // A task completes after its response was sent.
    let completed = || {
        world.wait_pool(|pool| Class::ALL.iter().all(|class| pool.class(*class).active == 0));
        (world.class(Class::Medium).completed, world.class(Class::Heavy).completed)
    };
    let before = completed();
    is_computed(&world, &mut client, &pad_body(&single), "identity");
    is_computed(&world, &mut client, &batch(&[list(100_000), list(100_000)]), "identity");
    is_computed(&world, &mut client, &pad_body(&batch(&[list(100_000)])), "identity");
    let counters = world.server.context.response_cache.counters();
    assert_eq!((counters.hits, counters.misses), (4, 1), "{counters:?}");
    // Only the parsing of long bodies was a task. From the second request on, the text is in the memo.
    assert_eq!(completed(), before);
    assert_eq!(world.server.context.response_cache.memo_hits(), 3);
}

#[test]
fn other_calls_use_a_long_bodys_result() {
    let world = SolanaNode::new();
    let mut client = world.client();
    let single = list(100_000).to_string();
    for hits in 0..3 {
        is_computed(&world, &mut client, &pad_body(&single), "gzip");
        let counters = world.server.context.response_cache.counters();
        assert_eq!((counters.hits, counters.misses), (hits, 1), "{counters:?}");
    }
    is_computed(&world, &mut client, &single, "gzip");
    assert_eq!(world.server.context.response_cache.counters().hits, 3);
}

#[test]
fn equal_batches_at_once_are_computed_once() {
    // A time slice is one chunk, so all of them run at the same time.
    let pool = cpu_pool::Config { slice_us: 1, ..cpu_pool::Config::default() };
    let world = SolanaNode::builder(large_program()).pool(pool).serve();
    let part = |from: usize| serde_json::from_str::<Value>(&from_byte(from, false)).expect("JSON");
    let body = batch(&[1_970_000, 1_960_000, 1_950_000, 1_960_000].map(part));
    let release = world.occupy_pool();
    let mut clients: Vec<Client> = (0..12).map(|_| world.client()).collect();
    clients.iter_mut().for_each(|client| client.send(post(&body)));
    let queued = |class: Class| world.class(class).queued;
    world.wait_pool(|_| queued(Class::Medium) + queued(Class::Heavy) == clients.len());
    drop(release);
    let computed = compute_response(&world, &body);
    for client in &mut clients {
        assert!(client.receive().bytes == computed);
    }
    let counters = world.server.context.response_cache.counters();
    assert!(counters.coalesced > 0, "a request arrived during the computation: {counters:?}");
    assert_eq!((counters.entries, counters.bypassed), (3, 0), "{counters:?}");
    // Each lookup that missed computed the result or waited for another that did.
    assert_eq!(counters.misses - counters.coalesced, 3, "{counters:?}");
}

#[test]
fn a_batch_that_waits_frees_its_slot_for_the_task_that_it_waits_for() {
    // A time slice is one chunk. There is one permit for active tasks, and one for a client without an active task.
    let mut pool = cpu_pool::Config { slice_us: 1, ..cpu_pool::Config::default() };
    pool.heavy.active_max = 1;
    let header = HeaderName::from_static("x-api-key");
    let config = Config { client_header: Some(header), ..Config::default() };
    let world = SolanaNode::builder(large_program())
        .config(config)
        .pool(pool)
        .cache_bytes_max(1 << 30)
        .serve();
    let long = call("getProgramAccounts", json!([PROGRAM.to_string(), { "encoding": "base64" }]));
    let send = |client_name: &str, body: &str| {
        let mut client = world.client();
        let head = format!("host: test\r\naccept-encoding: identity\r\nx-api-key: {client_name}");
        client.send(post(body).replace("host: test", &head));
        client
    };
    let heavy = |is: [usize; 4]| {
        world.wait_pool(|pool| {
            let heavy = pool.class(Class::Heavy);
            [heavy.queued, heavy.active, heavy.running, heavy.blocked] == is
        });
    };
    let release = world.occupy_pool();
    let mut leader = send("leader", &long.to_string());
    heavy([1, 0, 0, 0]);
    // Another task takes the thread from the leader once it has started.
    let between = world.queue(Class::Heavy, ClientId(1));
    drop(release);
    heavy([0, 2, 1, 0]);
    let mut follower = send("follower", &batch(std::slice::from_ref(&long)));
    heavy([1, 2, 1, 0]);
    // The next task of the batch's client has the thread while the batch waits.
    let next = world.queue(Class::Heavy, ClientId::from_name(b"follower"));
    drop(between);
    heavy([0, 3, 1, 1]);
    assert_eq!(world.class(Class::Heavy).completed, 1, "only the task in between");
    drop(next);
    assert_eq!(follower.receive().json()[0]["result"].as_array().map(Vec::len), Some(10));
    leader.read_at_least(26_000_000);
    let counters = world.server.context.response_cache.counters();
    assert_eq!(
        (counters.coalesced, counters.bypassed, counters.entries),
        (1, 0, 1),
        "{counters:?}"
    );
}

#[test]
fn a_task_that_waits_for_a_response_that_fails_computes_it_itself() {
    let pool = cpu_pool::Config { slice_us: 1, ..cpu_pool::Config::default() };
    let world = SolanaNode::builder(large_program()).pool(pool).serve();
    // It is too long for base58, which is detected after all of them were scanned.
    let fails = call("getProgramAccounts", json!([PROGRAM.to_string(), { "encoding": "base58" }]));
    let body = batch(&[fails, call("getSlot", json!([]))]);
    let release = world.occupy_pool();
    let mut clients: Vec<Client> = (0..12).map(|_| world.client()).collect();
    clients.iter_mut().for_each(|client| client.send(post(&body)));
    world.wait_pool(|pool| pool.class(Class::Heavy).queued == clients.len());
    drop(release);
    let computed = compute_response(&world, &body);
    assert!(computed.starts_with(br#"[{"jsonrpc":"2.0","error""#));
    for client in &mut clients {
        assert!(client.receive().bytes == computed);
    }
    let counters = world.server.context.response_cache.counters();
    assert!(counters.coalesced > 0 && counters.entries == 0, "{counters:?}");
}

#[test]
fn errors_are_computed_each_time_and_not_cached() {
    let world = SolanaNode::new();
    let mut client = world.client();
    // The computation detects that the slot is not reached.
    let config = json!({ "encoding": "base64", "minContextSlot": 5_000 });
    let early = call("getProgramAccounts", json!([PROGRAM.to_string(), config]));
    let config = json!({ "encoding": "base58" });
    // Base58 of an account that is too long fails in the computation.
    let too_long = call("getProgramAccounts", json!([PROGRAM.to_string(), config]));
    let wrong = call("getProgramAccounts", json!(["nobody"]));
    let none = call("getEverything", json!([]));
    let calls = [early, list(100_000), too_long, wrong, list(100_000), none];
    for len in [6, 24] {
        let calls: Vec<Value> = calls.iter().cycle().take(len).cloned().collect();
        for coding in ["identity", "gzip", "identity"] {
            is_computed(&world, &mut client, &batch(&calls), coding);
            is_computed(&world, &mut client, &pad_body(&batch(&calls)), coding);
        }
    }
    let counters = world.server.context.response_cache.counters();
    assert!(counters.hits > 50, "{counters:?}");
    assert_eq!(counters.entries, 1, "{counters:?}");
}

#[test]
fn a_long_response_is_right_in_a_batch_cached_or_too_large_to_be_cached() {
    let part = |from: usize| serde_json::from_str::<Value>(&from_byte(from, false)).expect("JSON");
    let slot = call("getSlot", json!([]));
    // 2.7 MB: too large for the smaller cache, but not for the larger one.
    let body = batch(&[slot.clone(), part(1_800_000), slot, part(1_800_000)]);
    for (cache_bytes, hits) in [(1 << 24, 0), (1 << 28, 5)] {
        let world = SolanaNode::builder(large_program()).cache_bytes_max(cache_bytes).serve();
        let mut client = world.client();
        for coding in ["gzip", "zstd", "identity"] {
            is_computed(&world, &mut client, &body, coding);
        }
        let counters = world.server.context.response_cache.counters();
        assert_eq!(counters.hits, hits, "{counters:?}");
        // Except for keys and table slots, only the cached bytes are in use.
        let others = || counters.bytes.abs_diff(world.server.context.response_cache.used_bytes());
        world.wait_pool(|_| others() < 10_000);
    }
}

#[test]
fn a_client_that_leaves_a_copy_retains_no_bytes() {
    let (mut ledger, reader) = Ledger::new(LedgerConfig::new(10_000), block(100), bank(100));
    let write = |n: u8| {
        let data = vec![n; 20_000_000];
        let record = Account(with_data(PROGRAM, &data)).into_record();
        vec![Change { address: Address::from(key(1).to_bytes()), record }]
    };
    ledger.apply(block(100), write(1), bank(100)).expect("the root takes accounts");
    ledger.publish();
    let world = SolanaNode::builder(reader).cache_bytes_max(1 << 30).serve();
    let mut client = world.client();
    let config = json!({ "encoding": "base64", "commitment": "processed" });
    let long = call("getProgramAccounts", json!([PROGRAM.to_string(), config]));
    let used = || world.server.context.response_cache.used_bytes();
    // The response is computed in a batch, for a client that is still connected.
    let mut first = world.client();
    first.send(post(&batch(&vec![long.clone(); 2])));
    world.wait_pool(|pool| pool.class(Class::Heavy).blocked == 1);
    let cached = used();
    assert!(cached > 20_000_000, "{cached}");
    // It is copied for another client.
    let mut second = world.client();
    second.send(post(&batch(std::slice::from_ref(&long))));
    world.wait_pool(|pool| pool.class(Class::Heavy).blocked == 2);
    assert_eq!(
        (used(), world.server.context.response_cache.counters().hits),
        (cached, 1),
        "the same bytes"
    );
    // Another response replaces this one in the cache.
    ledger.open(block(101), block(100), bank(101)).expect("open");
    ledger.apply(block(101), write(2), bank(101)).expect("apply");
    ledger.publish();
    is_computed(&world, &mut client, &batch(&[long]), "identity");
    assert_eq!(used(), 2 * cached, "one in the cache, one that two clients read");
    drop(first);
    world.wait_pool(|pool| pool.class(Class::Heavy).blocked == 1);
    drop(second);
    world.wait_pool(|pool| pool.class(Class::Heavy).active == 0 && used() == cached);
    assert_eq!(world.class(Class::Heavy).cancelled, 2);
}
