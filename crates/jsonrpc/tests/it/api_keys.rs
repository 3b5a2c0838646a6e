//! API keys over HTTP and WebSocket: accepted clients, refusals and their errors, counts.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use ::api_keys::{
    ApiKeys, AuthError, Caller, Credentials, KeyFile, KeyHash, KeyNumber, REFUSAL_DELAY_MAX,
};
use clients::ClientId;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Error;

use crate::toy_api::Toy;

/// Noon of 2026-11-24.
const NOON: u64 = 1_795_478_400 + 43_200;
const KEY: &str = "hyd_key-of-alice-0123456789";
const OTHER: &str = "hyd_key-of-bob-0123456789";

/// A file with a tier and the keys of `alice` and `bob`.
fn file(tier: &str) -> KeyFile {
    let entry = |name: &str, key: &str| {
        let hash = KeyHash::of_key(key.as_bytes());
        format!("[[keys]]\nname = \"{name}\"\nsha256 = \"{hash}\"\ntier = \"t\"\n")
    };
    let text = format!("[tiers.t]\n{tier}\n{}{}", entry("alice", KEY), entry("bob", OTHER));
    KeyFile::parse(&text).expect("it is valid")
}

fn start_toy(tier: &str) -> (Toy, Arc<ApiKeys>) {
    let keys = Arc::new(ApiKeys::new(file(tier), NOON));
    (Toy::with_keys(&keys), keys)
}

/// The head of a response, and its body.
struct Response {
    head: String,
    body: String,
}

impl Response {
    fn status(&self) -> u16 {
        self.head[9..12].parse().expect("a status")
    }

    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("JSON")
    }

    fn error(&self) -> (u16, i64) {
        (self.status(), self.json()["error"]["code"].as_i64().expect("a code"))
    }
}

fn exchange(toy: &Toy, request: &str) -> Response {
    let response = toy.exchange(request);
    let (head, body) = response.split_once("\r\n\r\n").expect("a head");
    Response { head: head.to_owned(), body: body.to_owned() }
}

/// POSTs a body to a path, with header lines.
fn post(toy: &Toy, path: &str, headers: &str, body: &Value) -> Response {
    let body = body.to_string();
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: application/json\r\n\
         {headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    exchange(toy, &request)
}

fn get(toy: &Toy, path: &str, headers: &str) -> Response {
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{headers}\r\n");
    exchange(toy, &request)
}

fn call(id: u32, method: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method })
}

fn with_key(toy: &Toy, key: &str, body: &Value) -> Response {
    post(toy, "/", &format!("x-api-key: {key}\r\n"), body)
}

#[test]
fn a_request_without_a_valid_key_gets_401_and_one_with_a_key_is_served() {
    let (toy, keys) = start_toy("");
    let height = call(1, "getHeight");
    let missing = post(&toy, "/", "", &height);
    assert_eq!(missing.error(), (401, -32401), "{}", missing.body);
    assert_eq!(missing.header("www-authenticate"), Some("Bearer"));
    assert!(missing.body.contains("x-api-key"), "{}", missing.body);
    assert_eq!(with_key(&toy, "wrong", &height).error(), (401, -32401));
    assert_eq!(post(&toy, "/?api-key=wrong", "", &height).error(), (401, -32401));
    assert_eq!(with_key(&toy, &"x".repeat(10_000), &height).error(), (401, -32401));
    assert_eq!(keys.unauthorized_requests(), 4);
    let bearer = format!("authorization: Bearer {KEY}\r\n");
    for (path, headers) in [
        ("/".to_owned(), format!("x-api-key: {KEY}\r\n")),
        ("/".to_owned(), format!("x-token: {KEY}\r\n")),
        ("/".to_owned(), bearer),
        (format!("/?api-key={KEY}"), String::new()),
        (format!("/{KEY}"), String::new()),
    ] {
        let served = post(&toy, &path, &headers, &height);
        assert_eq!((served.status(), &served.json()["result"]), (200, &json!(0)), "{path}");
    }
    // Requests of load balancers and browsers' preflights have no key.
    assert_eq!(get(&toy, "/health", "").status(), 200);
    assert_eq!(get(&toy, "/ready", "").status(), 200);
    let preflight = "OPTIONS / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nOrigin: https://a.example\r\n\
                     Access-Control-Request-Headers: x-api-key\r\n\r\n";
    let preflight = exchange(&toy, preflight);
    assert_eq!(preflight.status(), 200);
    assert_eq!(preflight.header("access-control-allow-headers"), Some("x-api-key"));
    let page = post(&toy, "/", "Origin: https://a.example\r\n", &height);
    assert_eq!((page.status(), page.header("access-control-allow-origin")), (401, Some("*")));
}

#[test]
fn a_key_of_a_megabyte_is_refused_before_it_is_read() {
    let (toy, _keys) = start_toy("");
    // The node may close before all of it is written.
    let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        with_key(&toy, &"x".repeat(1 << 20), &call(1, "getHeight")).status()
    }));
    assert!(matches!(refused, Ok(431) | Err(_)), "{refused:?}");
    assert_eq!(with_key(&toy, KEY, &call(1, "getHeight")).status(), 200);
}

#[test]
fn a_denied_method_gets_its_own_error_also_in_a_batch() {
    let (toy, keys) = start_toy("deny = [\"counterSum\"]");
    let denied = with_key(&toy, KEY, &call(3, "counterSum"));
    assert_eq!((denied.error(), &denied.json()["id"]), ((200, -32601), &json!(3)));
    assert!(denied.body.contains("counterSum is not available"), "{}", denied.body);
    let batch = json!([call(1, "getHeight"), call(2, "counterSum"), call(3, "getHeight")]);
    let batch = with_key(&toy, KEY, &batch).json();
    assert_eq!((&batch[0]["result"], &batch[2]["result"]), (&json!(0), &json!(0)));
    assert_eq!((&batch[1]["error"]["code"], &batch[1]["id"]), (&json!(-32601), &json!(2)));
    assert_eq!(with_key(&toy, KEY, &call(1, "noSuch")).error(), (200, -32601));
    let report = keys.usage_report();
    let row = &report["keys"][0];
    assert_eq!((&row["requests"], &row["refused"]), (&json!(5), &json!(2)));
}

#[test]
fn only_listed_methods_are_served_if_there_is_a_list() {
    let (toy, _keys) = start_toy("allow = [\"getHeight\"]");
    assert_eq!(with_key(&toy, KEY, &call(1, "getHeight")).json()["result"], json!(0));
    assert_eq!(with_key(&toy, KEY, &call(1, "counterSum")).error(), (200, -32601));
}

#[test]
fn a_key_over_its_rate_gets_429_with_the_time_to_wait_and_another_key_does_not_notice() {
    let (toy, _keys) = start_toy("");
    let first = with_key(&toy, KEY, &call(1, "getHeight"));
    assert_eq!((first.status(), first.header("ratelimit-limit")), (200, None));
    // Too few tokens come back during the test.
    let (toy, _keys) = start_toy("requests_per_s = 1\nburst = 650");
    let first = with_key(&toy, KEY, &call(1, "getHeight"));
    assert_eq!((first.status(), first.header("ratelimit-limit")), (200, Some("650")));
    let remaining: u32 =
        first.header("ratelimit-remaining").expect("it").parse().expect("a number");
    assert!((648..=650).contains(&remaining), "{remaining}");
    assert!(first.header("ratelimit-reset").is_some());
    // Each call of a batch counts.
    let batch = Value::from_iter((0..100).map(|id| call(id, "getHeight")));
    assert!((0..6).all(|_| with_key(&toy, KEY, &batch).status() == 200));
    let refused = with_key(&toy, KEY, &batch);
    assert_eq!(refused.error(), (429, -32005));
    let wait: u64 = refused.header("retry-after").expect("a time").parse().expect("seconds");
    assert!((1..=52).contains(&wait), "{wait}");
    assert_eq!(refused.header("ratelimit-limit"), Some("650"));
    let data = &refused.json()["error"]["data"];
    assert_eq!(data["limit"], json!(1), "{data}");
    assert!(refused.body.contains("tiers.requests_per_s"), "{}", refused.body);
    assert_eq!(with_key(&toy, OTHER, &batch).status(), 200);
}

#[test]
fn rates_of_classes_and_methods_are_those_of_the_calls() {
    let tier = "[tiers.t.heavy]\nrequests_per_s = 1\nburst = 2\n\
                [tiers.t.methods.counterSum]\nrequests_per_s = 1\nburst = 1";
    let (toy, keys) = start_toy(tier);
    let status = |method: &str| with_key(&toy, KEY, &call(1, method)).status();
    let many = |method: &str| Value::from_iter((0..50).map(|id| call(id, method)));
    // A list is heavy, because it may be long, even if this one is not. A batch beyond the burst is served to a key that
    // owes nothing.
    assert_eq!(with_key(&toy, KEY, &many("counterList")).status(), 200);
    assert_eq!(status("counterList"), 429);
    assert_eq!((status("counterTop"), status("getHeight")), (200, 200));
    assert_eq!(with_key(&toy, KEY, &many("counterSum")).status(), 200);
    assert_eq!(status("counterSum"), 429);
    let rows = keys.metric_rows();
    assert_eq!((&*rows[0].name, rows[0].calls, rows[0].refused), ("alice", [1, 51, 50], 2));
}

#[test]
fn a_quota_names_the_time_at_which_it_is_whole_again() {
    let (toy, keys) = start_toy("requests_per_day = 3");
    let status = || with_key(&toy, KEY, &call(1, "getHeight"));
    assert!((0..3).all(|_| status().status() == 200));
    let used_up = status();
    assert_eq!((used_up.error(), used_up.header("retry-after")), ((429, -32005), Some("43201")));
    assert!(used_up.body.contains("used up until 2026-11-25T00:00:00Z"), "{}", used_up.body);
    keys.set_unix_time(NOON + 43_200);
    assert_eq!(status().status(), 200, "the next day");
}

#[test]
fn metrics_have_names_and_no_keys_and_only_some_may_read_them() {
    let (toy, keys) = start_toy("");
    let key = format!("x-api-key: {KEY}\r\n");
    with_key(&toy, KEY, &call(1, "counterSum"));
    with_key(&toy, "wrong", &call(1, "counterSum"));
    assert_eq!(get(&toy, "/metrics", &key).status(), 403);
    assert_eq!(get(&toy, "/metrics", "").status(), 401);
    keys.reload(file("metrics = true"));
    let metrics = get(&toy, "/metrics", &key);
    for line in [
        "hydrant_api_key_requests_total{key=\"alice\",class=\"medium\"} 1\n",
        "hydrant_api_key_requests_total{key=\"bob\",class=\"light\"} 0\n",
        "hydrant_api_key_unauthorized_total{cause=\"key\"} 2\n",
        "hydrant_api_key_reloads_total{result=\"replaced\"} 1\n",
        "hydrant_memory_bytes{part=\"api_keys\"} ",
        "hydrant_api_keys 2\n",
    ] {
        assert!(metrics.body.contains(line), "{line} is not in {}", metrics.body);
    }
    assert!(!metrics.body.contains(KEY) && !metrics.body.contains("0123456789"));
}

#[test]
fn wrong_keys_of_one_address_are_throttled_and_its_right_key_is_served() {
    let (toy, keys) = start_toy("");
    // Their bucket is empty: 100, and ten a second.
    let now = toy.server.context.pool.now();
    let address = ClientId::from_ip(Ipv4Addr::LOCALHOST.into());
    let wrong = Credentials { key: Some(b"wrong"), ..Credentials::default() };
    assert!((0..1_000).any(|_| {
        matches!(keys.authenticate(&wrong, address.0, now), Err(AuthError::Throttled { .. }))
    }));
    assert!((0..1_000).any(|_| keys.delay_failure(address.0, now) == Some(REFUSAL_DELAY_MAX)));
    let delayed = keys.delayed_refusals();
    assert_eq!(with_key(&toy, "wrong", &call(1, "getHeight")).status(), 429);
    // It was not sent before its time, and that of a right key was.
    assert!(toy.server.context.pool.now() >= now + REFUSAL_DELAY_MAX);
    assert_eq!(keys.delayed_refusals(), delayed + 1);
    assert_eq!(with_key(&toy, KEY, &call(1, "getHeight")).status(), 200);
    assert_eq!(keys.delayed_refusals(), delayed + 1);
}

#[test]
fn a_socket_has_the_limits_of_its_key() {
    let tier = "websocket_connections = 2\nsubscriptions = 2\nrequests_per_s = 1\nburst = 20";
    let (toy, keys) = start_toy(&format!("{tier}\ndeny = [\"heightSubscribe\"]"));
    let path = format!("?api-key={KEY}");
    toy.run(async {
        let status = |err: Error| match err {
            Error::Http(response) => response.status().as_u16(),
            err => panic!("{err}"),
        };
        for path in ["", "?api-key=wrong"] {
            let refused = toy.try_connect(path).await.err().expect("no socket without a key");
            assert_eq!(status(refused), 401);
        }
        let mut first = toy.try_connect(&path).await.expect("the first");
        let mut second = toy.try_connect(KEY).await.expect("the second");
        assert_eq!(status(toy.try_connect(&path).await.err().expect("the third")), 429);
        let denied = first.call("heightSubscribe", json!([])).await.expect_err("it is denied");
        assert_eq!(denied["code"], json!(-32601));
        let subscribed = first.call("counterSubscribe", json!(["a"])).await.expect("an id");
        second.call("counterSubscribe", json!(["a"])).await.expect("an id");
        let full = second.call("counterSubscribe", json!(["b"])).await.expect_err("two are open");
        assert!(full.to_string().contains("tiers.subscriptions"), "{full}");
        first.call("counterUnsubscribe", json!([subscribed])).await.expect("it ends");
        second.call("counterSubscribe", json!(["b"])).await.expect("one has ended");
        // Each message counts, over all of the key's connections and HTTP.
        let mut over = 0;
        for _ in 0..40 {
            let called = first.call("counterSubscribe", json!(["a"])).await;
            let is_over = |err: Value| err.to_string().contains("tiers.requests_per_s");
            over += u32::from(called.is_err_and(is_over));
        }
        assert!(over > 0, "46 calls take far less than 20 s");
        assert_eq!(keys.metric_rows()[0].subscriptions, 2);
    });
}

/// Counts so many refusals for the first key that its next one is late. Returns the earliest time of that one.
fn exhaust_refusals(toy: &Toy, keys: &ApiKeys) -> Duration {
    let now = toy.server.context.pool.now();
    let alice = Caller::Key(KeyNumber(1));
    assert!((0..1_000).any(|_| keys.delay_refusal(alice, now) == Some(REFUSAL_DELAY_MAX)));
    now + REFUSAL_DELAY_MAX
}

#[test]
fn a_refusal_of_a_flooding_key_is_late_and_that_of_another_key_is_not() {
    let (toy, keys) = start_toy("requests_per_s = 1\nburst = 1");
    let batch = Value::from_iter((0..100).map(|id| call(id, "getHeight")));
    assert_eq!(with_key(&toy, KEY, &batch).status(), 200, "it owed nothing");
    let until = exhaust_refusals(&toy, &keys);
    let delayed = keys.delayed_refusals();
    assert_eq!(with_key(&toy, KEY, &call(1, "getHeight")).error(), (429, -32005));
    let now = toy.server.context.pool.now();
    assert!(now >= until, "the refusal came {:?} too early", until - now);
    assert_eq!(keys.delayed_refusals(), delayed + 1);
    let other = (0..3).map(|_| with_key(&toy, OTHER, &batch).status());
    assert_eq!(other.collect::<Vec<_>>()[1..], [429, 429]);
    assert_eq!(keys.delayed_refusals(), delayed + 1, "its refusals were sent at once");
}

#[test]
fn a_socket_that_floods_is_read_late_and_gets_its_notifications() {
    let (toy, keys) = start_toy("requests_per_s = 1\nburst = 1");
    toy.run(async {
        let mut socket = toy.try_connect(KEY).await.expect("a socket");
        let mut other = toy.try_connect(OTHER).await.expect("a socket");
        let batch = Value::from_iter((0..50).map(|id| call(id, "getHeight"))).to_string();
        socket.send(batch).await;
        assert_eq!(socket.receive().await.expect("replies").as_array().map(Vec::len), Some(50));
        other.call("counterSubscribe", json!(["a"])).await.expect("the only call");
        let until = exhaust_refusals(&toy, &keys);
        for _ in 0..2 {
            socket.send(call(7, "getHeight").to_string()).await;
            let refused = socket.receive().await.expect("it stays open");
            assert_eq!(refused["error"]["code"], json!(-32005), "it owes 49 s");
        }
        let now = toy.server.context.pool.now();
        assert!(now >= until, "the second message was read {:?} too early", until - now);
        // A client that sends without reading stays open, and delays no other.
        for _ in 0..2_000 {
            socket.send(call(1, "getHeight").to_string()).await;
        }
        toy.add("a");
        assert_eq!(other.notification().await["params"]["result"], json!(1));
    });
}

#[test]
fn a_removed_key_closes_its_sockets_with_a_reason_and_those_of_others_stay() {
    let (toy, keys) = start_toy("");
    toy.run(async {
        let mut alice = toy.try_connect(KEY).await.expect("a socket");
        let mut bob = toy.try_connect(OTHER).await.expect("a socket");
        alice.call("heightSubscribe", json!([])).await.expect("an id");
        bob.call("heightSubscribe", json!([])).await.expect("an id");
        let hash = KeyHash::of_key(OTHER.as_bytes());
        let only_bob =
            format!("[tiers.t]\n[[keys]]\nname = \"bob\"\nsha256 = \"{hash}\"\ntier = \"t\"\n");
        let reload = keys.reload(KeyFile::parse(&only_bob).expect("it is valid"));
        toy.pubsub.close_keys(&reload.removed);
        assert_eq!(alice.closed().await, (1008, "the API key was removed".to_owned()));
        assert!(toy.try_connect(KEY).await.is_err());
        assert_eq!(bob.call("getHeight", json!([])).await, Ok(json!(0)));
    });
    assert_eq!(with_key(&toy, KEY, &call(1, "getHeight")).error(), (401, -32401));
}

#[test]
fn a_key_at_its_limit_takes_no_work_from_the_pool_that_another_waits_for() {
    let (toy, keys) = start_toy("requests_per_s = 1\nburst = 20");
    let flood = |_| with_key(&toy, KEY, &call(1, "counterSum")).status();
    let served = (0..300).map(flood).filter(|status| *status == 200).count();
    let bob = (0..10).filter(|_| with_key(&toy, OTHER, &call(1, "counterSum")).status() == 200);
    assert_eq!(bob.count(), 10);
    assert!((20..200).contains(&served), "{served}");
    let pool = toy.server.context.pool.counters();
    let medium = pool.class(cpu_pool::Class::Medium);
    // Some of the responses come from the cache, without a task.
    assert!(medium.completed as usize <= served + 10, "{} {served}", medium.completed);
    let rows = keys.metric_rows();
    assert_eq!((rows[0].refused as usize, rows[1].refused), (300 - served, 0));
    assert_eq!(
        toy.server.context.clients.admit(
            clients::ClientId::from_key(KeyNumber(2)),
            1,
            toy.server.context.pool.now() + Duration::from_secs(60),
        ),
        Ok(())
    );
}
