//! A ledger that is not Solana's, served over HTTP by the serving layer. `rest` serves it over REST in its own tests.

use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use ::api_keys::ApiKeys;
use http_server::{Listeners, WebSocketHandler};
use jsonrpc::Server;
use jsonrpc::pubsub::PubSubServer;
use serde_json::{Value, json};
use testkit::toy_api::{ToyApi, ToySubscriptions, pubsub_config};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// No step takes this long, however slow the machine is.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// A served toy ledger.
pub(crate) struct Toy {
    pub(crate) server: Arc<Server<ToyApi>>,
    pub(crate) pubsub: Arc<PubSubServer<ToySubscriptions>>,
    pub(crate) address: SocketAddr,
    pub(crate) runtime: tokio::runtime::Runtime,
    stop: Option<oneshot::Sender<()>>,
    serving: Cell<Option<JoinHandle<()>>>,
}

impl Toy {
    pub(crate) fn start() -> Self {
        Self::with_pubsub(pubsub_config())
    }

    pub(crate) fn with_pubsub(config: websocket::Config) -> Self {
        Self::new(config, None)
    }

    pub(crate) fn with_keys(keys: &Arc<ApiKeys>) -> Self {
        Self::new(pubsub_config(), Some(Arc::clone(keys)))
    }

    fn new(config: websocket::Config, keys: Option<Arc<ApiKeys>>) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let server = Arc::new(ToyApi::server_with_keys(keys).expect("a thread"));
        let pubsub = ToySubscriptions::start(&server, config);
        let (stop, stopped) = oneshot::channel();
        let serving = runtime.spawn(jsonrpc::serve(
            Arc::clone(&server),
            Arc::clone(&pubsub) as Arc<dyn WebSocketHandler>,
            None,
            Listeners { rpc: listener, pubsub: None },
            async { drop(stopped.await) },
        ));
        let serving = Cell::new(Some(serving));
        Self { server, pubsub, address, runtime, stop: Some(stop), serving }
    }

    /// Sends a request on a connection of its own; returns the whole response.
    pub(crate) fn exchange(&self, request: &str) -> String {
        let mut socket = TcpStream::connect(self.address).expect("it listens");
        socket.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        socket.write_all(request.as_bytes()).expect("it reads");
        let mut response = String::new();
        socket.read_to_string(&mut response).expect("it responds and closes");
        response
    }

    /// Waits until the server has ended.
    pub(crate) fn wait_for_end(&self) {
        let serving = self.serving.take().expect("one wait");
        let ended = self.runtime.block_on(async { tokio::time::timeout(TIMEOUT, serving).await });
        ended.expect("it ends in time").expect("no panic");
    }

    pub(crate) fn post(&self, body: &Value) -> Value {
        let body = body.to_string();
        let response = self.exchange(&format!(
            "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        ));
        let (_, json) = response.split_once("\r\n\r\n").expect("a body");
        serde_json::from_str(json).expect("JSON")
    }

    pub(crate) fn call(&self, method: &str, params: Value) -> Value {
        self.post(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }))
    }

    fn ok(&self, method: &str, params: Value) -> Value {
        let mut response = self.call(method, params);
        assert!(response.get("error").is_none(), "{method}: {response}");
        response["result"].take()
    }

    pub(crate) fn get(&self, path: &str) -> String {
        self.exchange(&format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"))
    }
}

impl Drop for Toy {
    fn drop(&mut self) {
        drop(self.stop.take());
        assert_eq!(self.server.context.metrics.connections_panicked(), 0);
    }
}

#[test]
fn a_warning_is_the_second_line_of_ready() {
    let toy = Toy::start();
    assert!(toy.get("/ready").ends_with("\r\n\r\nready\n"));
    toy.server.context.health.set_warning(Some("the log is silent".to_owned()));
    let response = toy.get("/ready");
    assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
    assert!(response.ends_with("\r\n\r\nready\nthe log is silent\n"), "{response}");
}

#[test]
fn a_ledger_of_another_kind_is_served_over_http() {
    let toy = Toy::start();
    assert_eq!(toy.ok("getHeight", json!([])), json!(0));
    assert_eq!(toy.ok("counterGet", json!(["a"])), json!({ "height": 0, "value": null }));
    assert_eq!(toy.ok("counterAdd", json!(["a", 5])), json!(5));
    assert_eq!(toy.ok("counterAdd", json!(["b"])), json!(1));
    let five = json!({ "height": 2, "value": 5 });
    // The second response comes from the cache.
    assert_eq!(
        [toy.ok("counterGet", json!(["a"])), toy.ok("counterGet", json!(["a"]))],
        [five.clone(), five]
    );
    assert!(toy.server.context.response_cache.counters().hits >= 1);
    assert_eq!(toy.ok("counterAdd", json!(["a", 2])), json!(7));
    assert_eq!(toy.ok("counterGet", json!(["a"])), json!({ "height": 3, "value": 7 }), "not stale");
    assert_eq!(
        toy.ok("counterGetMany", json!([["a", "b", "c"]])),
        json!({ "height": 3, "value": [7, 1, null] })
    );
    let listed = json!([["a", 7], ["b", 1]]);
    assert_eq!(toy.ok("counterList", json!([]))["value"], listed);
    assert_eq!(toy.ok("counterTop", json!([2]))["value"], listed);
    assert_eq!(toy.ok("counterSum", json!([]))["value"], json!(8));
    assert_eq!(toy.ok("echo", json!([{ "x": [1] }])), json!({ "x": [1] }));
    assert_eq!(toy.ok("getVersion", json!([])), json!(env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_cached_response_survives_replaced_tips_that_do_not_write_its_counter() {
    let toy = Toy::start();
    toy.ok("counterAdd", json!(["a", 5]));
    let [a, b] = ["a", "b"].map(|name| ledger::Address::try_from(name.as_bytes()).expect("a name"));
    let replace_tip = |counter: ledger::Address, value: u64| {
        toy.server.api.counters.replace_tip(&[(counter, value)]).expect("there is space");
    };
    let value = |name: &str| {
        let mut response = toy.ok("counterGet", json!([name, "processed"]));
        assert_eq!(response["height"], json!(2));
        response["value"].take()
    };
    let hits = || toy.server.context.response_cache.counters().hits;
    replace_tip(b, 100);
    assert_eq!(value("a"), json!(5));
    for step in 0..50 {
        replace_tip(b, step);
        let before = hits();
        assert_eq!(value("a"), json!(5));
        assert_eq!(hits(), before + 1, "step {step}");
        assert_eq!(value("b"), json!(step));
    }
    // A tip that writes it, and its replacement by one that does not.
    replace_tip(a, 9);
    assert_eq!([value("a"), value("b")], [json!(9), json!(null)]);
    replace_tip(b, 1);
    assert_eq!([value("a"), value("b")], [json!(5), json!(1)]);
    let of_b = json!({ "height": 1, "value": null });
    assert_eq!(toy.ok("counterGet", json!(["b"])), of_b, "no tip is final");
    // A final block takes the tip's place.
    toy.ok("counterAdd", json!(["a", 1]));
    assert_eq!([value("a"), value("b")], [json!(6), json!(null)]);
}

#[test]
fn a_list_that_runs_on_the_pool_is_streamed() {
    let toy = Toy::start();
    for number in 0..30 {
        toy.ok("counterAdd", json!([format!("counter {number:02}"), number]));
    }
    let list = toy.ok("counterList", json!([]));
    assert_eq!(list["height"], json!(30));
    assert_eq!(list["value"][29], json!(["counter 29", 29]));
}

#[test]
fn errors_batches_and_panics_are_those_of_the_layer() {
    let toy = Toy::start();
    let error = |method: &str, params: Value| toy.call(method, params)["error"].clone();
    assert_eq!(error("noSuch", json!([]))["code"], json!(-32601));
    assert_eq!(error("counterGet", json!([5]))["code"], json!(-32602));
    assert_eq!(error("counterGet", json!(["x".repeat(99)]))["code"], json!(-32602));
    assert_eq!(error("counterPanic", json!([]))["code"], json!(-32603));
    let call = |id: u32, method: &str| json!({ "jsonrpc": "2.0", "id": id, "method": method });
    let batch = toy.post(&json!([call(1, "getHeight"), call(2, "noSuch"), call(3, "counterSum")]));
    let ids: Vec<_> = batch.as_array().expect("an array").iter().map(|one| &one["id"]).collect();
    assert_eq!(ids, [&json!(1), &json!(2), &json!(3)]);
    assert_eq!(batch[2]["result"], json!({ "height": 0, "value": 0 }));
    let metrics = toy.get("/metrics");
    for line in [
        r#"hydrant_requests_total{method="counterPanic",path="pool",class="light",transport="http"} 1"#,
        r#"hydrant_request_errors_total{method="other",code="-32601",transport="http"} 2"#,
    ] {
        assert!(metrics.contains(line), "{line} is not in {metrics}");
    }
    assert!(toy.get("/health").ends_with("\r\n\r\nok"));
}
