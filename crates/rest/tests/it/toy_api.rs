//! The toy ledger of `testkit` over REST: values, `ETag`s, raw bytes, errors, and the document that describes them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use http_server::Listeners;
use jsonrpc::Server;
use ledger::Address;
use metrics::Collector;
use rest::Rest;
use serde_json::{Value, json};
use testkit::toy_api::{ToyApi, ToyRest, ToySubscriptions, pubsub_config};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// No step takes this long, however slow the machine is.
const TIMEOUT: Duration = Duration::from_secs(60);

struct Toy {
    server: Arc<Server<ToyApi>>,
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    _runtime: tokio::runtime::Runtime,
}

struct Response {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Response {
    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }
}

impl Toy {
    fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let server = Arc::new(ToyApi::server().expect("a thread"));
        let rest = Arc::new(Rest::new(ToyRest));
        server.context.metrics.add(Arc::clone(&rest) as Arc<dyn Collector>);
        let (stop, stopped) = oneshot::channel();
        runtime.spawn(jsonrpc::serve(
            Arc::clone(&server),
            ToySubscriptions::start(&server, pubsub_config()),
            Some(rest),
            Listeners { rpc: listener, pubsub: None },
            async { drop(stopped.await) },
        ));
        Self { server, address, stop: Some(stop), _runtime: runtime }
    }

    /// A ledger with these values of its counters.
    fn with_counters(counters: &[(&str, u64)]) -> Self {
        let toy = Self::start();
        counters.iter().for_each(|(name, value)| toy.add(name, *value));
        toy
    }

    /// Adds to a counter in a block of its own.
    fn add(&self, name: &str, amount: u64) {
        let name = Address::try_from(name.as_bytes()).expect("a name");
        self.server.api.counters.add(&name, amount).expect("room for it");
    }

    /// Sends a request on a connection of its own. `head` is the request line and more headers, each a full line.
    fn send(&self, head: &str, body: &str) -> Response {
        let mut socket = TcpStream::connect(self.address).expect("it listens");
        socket.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        let request = format!(
            "{head}host: a\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        socket.write_all(request.as_bytes()).expect("it reads");
        let mut bytes = Vec::new();
        socket.read_to_end(&mut bytes).expect("it responds and closes");
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("a head");
        let head = String::from_utf8(bytes[..end].to_vec()).expect("text");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        Response { status: status.expect("a status"), head, body: bytes[end + 4..].to_vec() }
    }

    fn get(&self, path: &str, headers: &str) -> Response {
        self.send(&format!("GET {path} HTTP/1.1\r\n{headers}"), "")
    }

    fn post(&self, path: &str, media: &str, body: &Value) -> Response {
        let head = format!("POST {path} HTTP/1.1\r\ncontent-type: {media}\r\n");
        self.send(&head, &body.to_string())
    }
}

impl Drop for Toy {
    fn drop(&mut self) {
        drop(self.stop.take());
        assert_eq!(self.server.context.metrics.connections_panicked(), 0);
    }
}

#[test]
fn a_value_comes_without_its_context_which_is_in_headers() {
    let toy = Toy::with_counters(&[("a", 41), ("b", 2)]);
    let response = toy.get("/v1/counters/a", "");
    assert_eq!((response.status, response.body.as_slice()), (200, &b"41"[..]));
    for (name, value) in [
        ("content-type", "application/json"),
        ("hydrant-slot", "2"),
        ("hydrant-commitment", "finalized"),
        ("cache-control", "no-cache"),
        ("vary", "accept, accept-encoding"),
    ] {
        assert_eq!(response.header(name), Some(value), "{}", response.head);
    }
    assert_eq!(toy.get("/v1/counters?limit=1", "").json(), json!([["a", 41]]));
    let ledger = toy.get("/v1/ledger", "").json();
    assert_eq!(ledger, json!({ "height": 2, "sum": 43 }));
    let names = json!({ "names": ["b", "c", "a"] });
    let several = toy.post("/v1/counters", "application/json", &names);
    assert_eq!((several.status, several.json()), (200, json!([2, null, 41])));
}

#[test]
fn an_etag_leads_to_304_until_the_value_changes() {
    let toy = Toy::with_counters(&[("a", 1)]);
    let first = toy.get("/v1/counters/a", "");
    let etag = first.header("etag").expect("an ETag").to_owned();
    let condition = format!("if-none-match: {etag}\r\n");
    // Another counter changes the height, and not the value.
    toy.add("b", 1);
    let same = toy.get("/v1/counters/a", &condition);
    assert_eq!((same.status, same.body.as_slice()), (304, &b""[..]));
    assert_eq!((same.header("etag"), same.header("hydrant-slot")), (Some(&*etag), Some("2")));
    toy.add("a", 1);
    let changed = toy.get("/v1/counters/a", &condition);
    assert_eq!((changed.status, changed.body.as_slice()), (200, &b"2"[..]));
    assert_ne!(changed.header("etag"), Some(&*etag));
    let of_page = toy.get("/v1/", "");
    let condition = format!("if-none-match: {}\r\n", of_page.header("etag").expect("an ETag"));
    assert_eq!(toy.get("/v1/", &condition).status, 304);
}

#[test]
fn an_etag_survives_replaced_tips_that_do_not_write_its_value() {
    let toy = Toy::with_counters(&[("a", 1)]);
    let replace_tip = |name: &str, value: u64| {
        let name = Address::try_from(name.as_bytes()).expect("a name");
        toy.server.api.counters.replace_tip(&[(name, value)]).expect("there is space");
    };
    let path = "/v1/counters/a?commitment=processed";
    replace_tip("b", 7);
    let first = toy.get(path, "");
    assert_eq!((first.status, first.header("hydrant-slot")), (200, Some("2")));
    let condition = format!("if-none-match: {}\r\n", first.header("etag").expect("an ETag"));
    for value in 0..20 {
        replace_tip("b", value);
        let same = toy.get(path, &condition);
        assert_eq!((same.status, same.header("hydrant-slot")), (304, Some("2")), "tip {value}");
    }
    replace_tip("a", 3);
    let changed = toy.get(path, &condition);
    assert_eq!((changed.status, changed.body.as_slice()), (200, &b"3"[..]));
    replace_tip("b", 1);
    // The replaced tip's write is gone, so the value is that of the ETag again.
    assert_eq!(toy.get(path, &condition).status, 304);
    assert_eq!(toy.get(path, "").body, b"1");
}

#[test]
fn raw_bytes_are_those_that_the_method_returns() {
    // Its bytes look like the JSON of a value that does not exist.
    let null = u64::from_be_bytes(*b"\0\0\0\0null");
    let toy = Toy::with_counters(&[("a", 7), ("null", null)]);
    let accept = "accept: application/octet-stream\r\n";
    let response = toy.get("/v1/counters/a", accept);
    assert_eq!((response.status, response.body.as_slice()), (200, &7_u64.to_be_bytes()[..]));
    assert_eq!(response.header("content-type"), Some("application/octet-stream"));
    assert_eq!(response.header("hydrant-slot"), Some("2"));
    let condition = format!("{accept}if-none-match: {}\r\n", response.header("etag").expect("one"));
    assert_eq!(toy.get("/v1/counters/a", &condition).status, 304);
    assert_eq!(toy.get("/v1/counters/null", accept).body, b"\0\0\0\0null");
    assert_eq!(toy.get("/v1/counters/null", "").body, null.to_string().as_bytes());
    assert_eq!(toy.get("/v1/counters/c", accept).status, 404);
    // JSON from the cache is not sent as raw bytes, nor the other way round.
    for _ in 0..2 {
        assert_eq!(toy.get("/v1/counters/a", "").body, b"7");
        assert_eq!(toy.get("/v1/counters/a", accept).body, 7_u64.to_be_bytes());
    }
    assert_eq!(toy.get("/v1/ledger", accept).status, 406);
}

#[test]
fn errors_have_one_shape() {
    let toy = Toy::with_counters(&[("a", 1)]);
    let long = format!("/v1/counters/{}", "x".repeat(37));
    for (path, status, name, message) in [
        ("/v1/counters/b", 404, "not_found", "counter not found"),
        ("/v1/nothing", 404, "no_such_path", "no such path; /v1/ lists them"),
        (long.as_str(), 400, "invalid_params", "name must be a name: 1 to 36 bytes, not "),
        ("/v1/counters?limit=0", 400, "invalid_params", "limit must be an integer from 1 to 20"),
        (
            "/v1/counters?x=1",
            400,
            "invalid_params",
            "unknown parameter \"x\"; the route has: limit",
        ),
    ] {
        let response = toy.get(path, "");
        let err = &response.json()["error"];
        assert_eq!((response.status, &err["name"]), (status, &json!(name)), "{path}");
        let text = err["message"].as_str().expect("text");
        assert!(text.starts_with(message), "{text}");
        assert_eq!(response.header("cache-control"), Some("no-store"), "{path}");
    }
    let missing = toy.get("/v1/counters/b", "");
    assert_eq!(missing.header("hydrant-slot"), Some("1"));
    let data = json!({ "slot": 1, "commitment": "finalized" });
    assert_eq!(missing.json()["error"]["data"], data);
    let post = |media: &str, names: Value| {
        let response = toy.post("/v1/counters", media, &json!({ "names": names }));
        let message = response.json()["error"]["message"].as_str().map(str::to_owned);
        (response.status, message.unwrap_or_default())
    };
    let too_many = "names must be a list of 1 to 3 names (toy.names_max), not of 4";
    assert_eq!(post("application/json", json!(["a", "b", "c", "d"])), (400, too_many.to_owned()));
    assert_eq!(post("text/csv", json!(["a"])).0, 415);
    let put = toy.send("PUT /v1/counters HTTP/1.1\r\n", "");
    assert_eq!((put.status, put.header("allow")), (405, Some("GET, HEAD, OPTIONS, POST")));
    let options = toy.send("OPTIONS /v1/counters/a HTTP/1.1\r\n", "");
    assert_eq!((options.status, options.header("allow")), (204, Some("GET, HEAD, OPTIONS")));
}

#[test]
fn the_document_the_page_and_the_metrics_are_those_of_its_table() {
    let toy = Toy::with_counters(&[("a", 1)]);
    let document = toy.get("/v1/openapi.json", "").json();
    let paths = document["paths"].as_object().expect("paths");
    let mut paths: Vec<&str> = paths.keys().map(String::as_str).collect();
    paths.sort_unstable();
    assert_eq!(paths, ["/v1/counters", "/v1/counters/{name}", "/v1/ledger"]);
    let counter = &document["paths"]["/v1/counters/{name}"]["get"];
    assert_eq!(counter["operationId"], "getCounter");
    assert_eq!(counter["parameters"][0]["example"], "a");
    assert_eq!(counter["parameters"][0]["schema"]["pattern"], "^.{1,36}$");
    let content = &counter["responses"]["200"]["content"];
    assert_eq!(content["application/json"]["schema"]["$ref"], "#/components/schemas/Value");
    assert!(content["application/octet-stream"].is_object());
    let body = &document["paths"]["/v1/counters"]["post"]["requestBody"]["content"];
    let names = &body["application/json"]["schema"]["properties"]["names"];
    assert_eq!((&names["maxItems"], &names["minItems"]), (&json!(3), &json!(1)));
    assert_eq!(document["components"]["schemas"]["Value"]["format"], "uint64");
    let codes = &document["components"]["schemas"]["Error"]["properties"]["error"]["properties"];
    let names = codes["name"]["enum"].as_array().expect("names");
    assert!(names.contains(&json!("not_found")) && !names.contains(&json!("slot_skipped")));
    let statuses = counter["responses"].as_object().expect("responses");
    assert!(statuses.contains_key("404") && !statuses.contains_key("422"));
    let page = toy.get("/v1/", "");
    let page = String::from_utf8_lossy(&page.body);
    assert!(page.contains("/v1/counters/{name}") && page.contains("Names: one per line"));
    toy.get("/v1/counters/a", "");
    let metrics = toy.get("/metrics", "");
    let metrics = String::from_utf8_lossy(&metrics.body);
    let line = r#"hydrant_rest_requests_total{route="GET /v1/counters/:name",status="2xx"} 1"#;
    assert!(metrics.contains(line), "{metrics}");
}
