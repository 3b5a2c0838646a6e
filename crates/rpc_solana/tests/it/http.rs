//! HTTP: statuses, headers, connections, and clients that are slow or invalid.

use std::time::Duration;

use hyper::header::HeaderName;
use jsonrpc::Status;
use rpc_solana::Config;
use serde_json::json;

use testkit::raw_http_client::{Client, post};
use testkit::sample_ledger::PROGRAM;
use testkit::solana_node::SolanaNode;

const SLOT: &str = r#"{"jsonrpc":"2.0","id":1,"method":"getSlot"}"#;
const SLOT_REPLY: &str = "{\"jsonrpc\":\"2.0\",\"result\":100,\"id\":1}\n";

fn world(config: Config) -> SolanaNode {
    SolanaNode::with_config(config, cpu_pool::Config::default())
}

#[test]
fn a_response_ends_in_a_newline_and_the_connection_stays() {
    let world = SolanaNode::new();
    let mut client = world.client();
    for _ in 0..3 {
        let response = client.post(SLOT);
        assert_eq!((response.status, response.body.as_str()), (200, SLOT_REPLY));
        assert_eq!(response.header("content-type"), Some("application/json; charset=utf-8"));
    }
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let world = SolanaNode::new();
    let mut client = world.client();
    let with_id = |id| post(&SLOT.replace("\"id\":1", &format!("\"id\":{id}")));
    client.send((0..20).map(with_id).collect::<String>());
    for id in 0..20 {
        assert_eq!(client.receive().json()["id"], json!(id));
    }
}

#[test]
fn a_request_may_come_byte_by_byte_and_in_chunks() {
    let world = SolanaNode::new();
    let mut client = world.client();
    for byte in post(SLOT).bytes() {
        client.send([byte]);
    }
    assert_eq!(client.receive().body, SLOT_REPLY);
    let (one, two) = SLOT.split_at(7);
    let one_len = one.len();
    let two_len = two.len();
    client.send(format!(
        "POST / HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n\
         {one_len:x}\r\n{one}\r\n{two_len:x}\r\n{two}\r\n0\r\n\r\n"
    ));
    assert_eq!(client.receive().body, SLOT_REPLY);
}

#[test]
fn http_1_0_is_answered_and_closed() {
    let world = SolanaNode::new();
    let mut client = world.client();
    let length = SLOT.len();
    client.send(format!(
        "POST / HTTP/1.0\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{SLOT}"
    ));
    assert_eq!(client.receive().body, SLOT_REPLY);
    assert!(client.try_receive().is_none());
}

#[test]
fn the_content_type_must_be_json() {
    let world = SolanaNode::new();
    let mut client = world.client();
    let mut status = |content_type: &str| {
        let length = SLOT.len();
        client.send(format!(
            "POST / HTTP/1.1\r\nhost: test\r\n{content_type}content-length: {length}\r\n\r\n{SLOT}"
        ));
        let response = client.receive();
        (response.status, response.body)
    };
    for right in
        ["application/json", "Application/JSON; charset=UTF-8", "application/json;charset=utf-8"]
    {
        assert_eq!(status(&format!("content-type: {right}\r\n")), (200, SLOT_REPLY.to_owned()));
    }
    let refusal =
        "Supplied content type is not allowed. Content-Type: application/json is required\n";
    for wrong in
        ["content-type: text/plain\r\n", "content-type: application/json; charset=latin1\r\n", ""]
    {
        assert_eq!(status(wrong), (415, refusal.to_owned()), "{wrong}");
    }
}

#[test]
fn other_verbs_are_refused() {
    let world = SolanaNode::new();
    for verb in ["GET", "PUT", "DELETE", "PATCH"] {
        let mut client = world.client();
        client.send(format!("{verb} / HTTP/1.1\r\nhost: test\r\n\r\n"));
        let response = client.receive();
        assert_eq!(response.status, 405, "{verb}");
        assert_eq!(response.body, "Used HTTP Method is not allowed. POST or OPTIONS is required\n");
    }
}

#[test]
fn health_is_reported_in_a_word() {
    let world = SolanaNode::new();
    let mut client = world.client();
    let mut health = || {
        client.send("GET /health HTTP/1.1\r\nhost: test\r\n\r\n");
        let response = client.receive();
        (response.status, response.body)
    };
    assert_eq!(health(), (200, "ok".into()));
    world.server.context.health.set(Status::Behind { slots: 200 });
    assert_eq!(health(), (200, "behind".into()));
    world.server.context.health.set(Status::Unknown);
    assert_eq!(health(), (200, "unknown".into()));
}

#[test]
fn a_state_that_is_withheld_is_not_read() {
    let world = SolanaNode::new();
    let mut client = world.client();
    let mut call = |method: &str, params: serde_json::Value| {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        client.post(&request.to_string()).json()
    };
    // It is in the cache then.
    let program = json!([PROGRAM.to_string()]);
    assert!(call("getAccountInfo", program.clone())["error"].is_null());
    world.server.context.health.withhold_state(true);
    world.server.context.health.set(Status::Unknown);
    let unhealthy = json!({
        "code": -32005, "message": "Node is unhealthy", "data": { "numSlotsBehind": null },
    });
    for (method, params) in [
        ("getAccountInfo", program.clone()),
        ("getSlot", json!([])),
        ("getLatestBlockhash", json!([{ "commitment": "processed" }])),
    ] {
        assert_eq!(call(method, params)["error"], unhealthy, "{method}");
    }
    assert_eq!(call("getHealth", json!([]))["error"]["code"], -32005);
    for method in ["getVersion", "getGenesisHash", "getIdentity", "hydrantGetVerification"] {
        assert!(call(method, json!([]))["error"].is_null(), "{method}");
    }
    world.server.context.health.withhold_state(false);
    assert!(call("getAccountInfo", program)["error"].is_null());
}

#[test]
fn any_origin_may_call() {
    let world = SolanaNode::new();
    let mut client = world.client();
    client.send(
        "OPTIONS / HTTP/1.1\r\nhost: test\r\norigin: http://app.example\r\n\
         access-control-request-method: POST\r\n\
         access-control-request-headers: content-type, solana-client\r\n\r\n",
    );
    let response = client.receive();
    assert_eq!((response.status, response.body.as_str()), (200, ""));
    assert_eq!(response.header("access-control-allow-origin"), Some("*"));
    assert_eq!(response.header("access-control-allow-methods"), Some("OPTIONS, POST"));
    assert_eq!(
        response.header("access-control-allow-headers"),
        Some("content-type, solana-client")
    );
    assert_eq!(response.header("access-control-max-age"), Some("86400"));
    client.send(post(SLOT).replacen("host: test", "host: test\r\norigin: null", 1));
    assert_eq!(client.receive().header("access-control-allow-origin"), Some("*"));
    client.send(post(SLOT));
    assert_eq!(client.receive().header("access-control-allow-origin"), None);
}

#[test]
fn a_body_may_have_the_maximum_length_and_not_one_byte_more() {
    let world = world(Config { body_bytes_max: Some(200), ..Config::default() });
    let pad_body = |bytes: usize| format!("{SLOT}{}", " ".repeat(bytes - SLOT.len()));
    assert_eq!(world.client().post(&pad_body(200)).body, SLOT_REPLY);
    let refusal = "request body size exceeds allowed maximum: 200 bytes (rpc.body_bytes_max)\n";
    for bytes in [201, 5_000, 500_000] {
        let response = world.client().post(&pad_body(bytes));
        assert_eq!((response.status, response.body.as_str()), (413, refusal), "{bytes}");
        assert_eq!(response.header("connection"), Some("close"));
    }
    // A chunked body does not announce its length.
    let mut client = world.client();
    let body = pad_body(300);
    client.send(format!(
        "POST / HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n\
         12c\r\n{body}\r\n0\r\n\r\n"
    ));
    assert_eq!(client.receive().status, 413);
}

#[test]
fn a_body_must_be_utf_8() {
    let world = SolanaNode::new();
    let mut client = world.client();
    client.send(
        &b"POST / HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\ncontent-length: 4\r\n\r\n\"a\xff\""[..],
    );
    let response = client.receive();
    assert_eq!(response.status, 400);
    assert_eq!(response.body, "utf-8 encoding error at byte 2 in request body");
}

#[test]
fn an_incomplete_head_closes_the_connection_after_its_timeout() {
    let world = world(Config { header_timeout_ms: 50, ..Config::default() });
    let mut client = world.client();
    client.send("POST / HTTP/1.1\r\nhost: te");
    assert!(client.try_receive().is_none());
    // A connection without a request is closed, too.
    assert!(world.client().try_receive().is_none());
}

#[test]
fn a_head_begun_with_the_request_before_has_its_timeout() {
    let world = world(Config { header_timeout_ms: 500, ..Config::default() });
    let mut client = world.client();
    client.send(post(SLOT) + "POST / HTTP/1.1\r\nhost: te");
    assert_eq!(client.receive().body, SLOT_REPLY);
    // The timeout of the head starts here (`head_timer`). Without it, the client would wait for `keep_alive_ms`.
    client.send("st");
    assert!(client.try_receive().is_none());
}

#[test]
fn an_incomplete_body_gets_408_after_its_timeout() {
    let world = world(Config { body_timeout_ms: 50, ..Config::default() });
    let mut client = world.client();
    let whole = post(SLOT);
    client.send(&whole[..whole.len() - 1]);
    let response = client.receive();
    assert_eq!(response.status, 408);
    assert_eq!(response.body, "request body took longer than 50 ms (rpc.body_timeout_ms)\n");
    assert!(client.try_receive().is_none());
}

#[test]
fn half_a_request_and_then_nothing_is_no_harm() {
    let world = SolanaNode::new();
    for cut in [1, 30, 100, post(SLOT).len() - 1] {
        world.client().send(&post(SLOT)[..cut]);
    }
    assert_eq!(world.client().post(SLOT).body, SLOT_REPLY);
}

#[test]
fn what_is_no_http_gets_an_error() {
    let world = SolanaNode::new();
    for bytes in
        [&b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..], b"hello\r\n\r\n", b"POST\r\n\r\n"]
    {
        let mut client = world.client();
        client.send(bytes);
        let response = client.receive_all();
        assert!(
            response.starts_with(b"HTTP/1.1 400"),
            "{bytes:?}: {:?}",
            String::from_utf8_lossy(&response)
        );
    }
    let mut client = world.client();
    let header = "x".repeat(100_000);
    client.send(format!("POST / HTTP/1.1\r\nhost: test\r\nlong: {header}"));
    assert!(client.receive_all().starts_with(b"HTTP/1.1 431"));
}

#[test]
fn a_head_may_have_16_kib_and_not_one_byte_more() {
    let world = SolanaNode::new();
    let head = |bytes: usize| {
        let begin = "GET /health HTTP/1.1\r\nhost: test\r\nlong: ";
        let end = "\r\n\r\n";
        format!("{begin}{}{end}", "x".repeat(bytes - begin.len() - end.len()))
    };
    let mut client = world.client();
    client.send(head(16 * 1024));
    assert_eq!(client.receive().status, 200);
    for bytes in [16 * 1024 + 1, 40_000, 71_234] {
        let mut client = world.client();
        client.send(head(bytes));
        assert!(client.receive_all().starts_with(b"HTTP/1.1 431"), "{bytes}");
    }
    let lines = |lines: usize| {
        let lines: String = (0..lines).map(|line| format!("a-{line}: b\r\n")).collect();
        format!("GET /health HTTP/1.1\r\n{lines}\r\n")
    };
    let mut client = world.client();
    client.send(lines(100));
    assert_eq!(client.receive().status, 200);
    client.send(lines(101));
    assert!(client.receive_all().starts_with(b"HTTP/1.1 431"));
}

#[test]
fn a_client_that_does_not_read_is_closed() {
    let world = world(Config { write_timeout_ms: 100, connections_max: 1, ..Config::default() });
    let mut stalled = world.client();
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"getProgramAccounts","params":["PROGRAM",{"encoding":"base64"}]}"#;
    let call = call.replace("PROGRAM", &PROGRAM.to_string());
    // 200 responses of 130 kB do not fit into the buffers of the sockets.
    stalled.send(post(&call).repeat(200));
    // There is one permit. The stalled client has it until its connection is closed.
    assert_eq!(world.client().post(SLOT).body, SLOT_REPLY);
}

#[test]
fn one_connection_too_many_waits_for_a_permit() {
    let world = world(Config { connections_max: 1, ..Config::default() });
    let mut first = world.client();
    assert_eq!(first.post(SLOT).body, SLOT_REPLY);
    let mut second = world.client();
    second.send(post(SLOT));
    assert_eq!(first.post(SLOT).body, SLOT_REPLY);
    drop(first);
    assert_eq!(second.receive().body, SLOT_REPLY);
}

#[test]
fn an_address_with_as_many_connections_as_it_may_have_gets_429() {
    let config = Config { connections_per_address_max: Some(2), ..Config::default() };
    let world = world(config);
    let mut first = world.client();
    let mut second = Client::connect(world.pubsub);
    assert_eq!(first.post(SLOT).body, SLOT_REPLY);
    assert_eq!(second.post(SLOT).status, 426);
    let mut third = world.client();
    let response = third.receive();
    assert_eq!((response.status, response.header("retry-after")), (429, Some("1")));
    assert!(response.body.ends_with("(rpc.connections_per_address_max)\n"), "{}", response.body);
    assert!(third.try_receive().is_none());
    first.send("GET /metrics HTTP/1.1\r\nhost: test\r\n\r\n");
    let metrics = first.receive().body;
    assert!(metrics.contains("\nhydrant_http_connections_rejected_total 1\n"), "{metrics}");
}

#[test]
fn both_ports_serve_websocket() {
    let world = SolanaNode::new();
    for port in [world.rpc, world.pubsub] {
        let mut client = Client::connect(port);
        // The key and the response are the example of RFC 6455.
        client.send(
            "GET / HTTP/1.1\r\nhost: test\r\nupgrade: websocket\r\nconnection: keep-alive, Upgrade\r\n\
             sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\n\r\n",
        );
        let response = client.receive();
        assert_eq!(response.status, 101);
        assert_eq!(response.header("sec-websocket-accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
        assert_eq!(client.receive_all(), b"hello 127.0.0.1");
    }
}

#[test]
fn a_websocket_behind_a_proxy_belongs_to_its_client() {
    let header = HeaderName::from_static("x-forwarded-for");
    let world = world(Config { client_header: Some(header), ..Config::default() });
    let mut client = world.client();
    client.send(
        "GET / HTTP/1.1\r\nhost: test\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
         x-forwarded-for: 1.1.1.1, 203.0.113.7\r\n\
         sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\n\r\n",
    );
    assert_eq!(client.receive().status, 101);
    assert_eq!(client.receive_all(), b"hello 203.0.113.7");
}

#[test]
fn an_invalid_handshake_is_refused_with_the_reason() {
    let world = SolanaNode::new();
    let mut client = world.client();
    let mut upgrade = |lines: &str| {
        client.send(format!(
            "GET / HTTP/1.1\r\nhost: test\r\nupgrade: websocket\r\nconnection: upgrade\r\n{lines}\r\n"
        ));
        let response = client.receive();
        (response.status, response.body)
    };
    let key = "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let refusal = "Sec-WebSocket-Version: 13 is required\n".to_owned();
    assert_eq!(upgrade(key), (426, refusal.clone()));
    assert_eq!(upgrade(&format!("{key}sec-websocket-version: 8\r\n")), (426, refusal));
    let refusal = "Sec-WebSocket-Key is required\n".to_owned();
    assert_eq!(upgrade("sec-websocket-version: 13\r\n"), (400, refusal));
    let refusal = "Sec-WebSocket-Key is not 16 bytes in base64\n".to_owned();
    for key in ["x", "", "dGhlIHNhbXBsZSBub25jZQ", "dGhlIHNhbXBsZSBub24=", "\u{e4}"] {
        let lines = format!("sec-websocket-version: 13\r\nsec-websocket-key: {key}\r\n");
        assert_eq!(upgrade(&lines), (400, refusal.clone()), "{key}");
    }
}

/// Returns the handshake of RFC 6455's example in a version of HTTP, with more header lines.
fn handshake(version: &str, lines: &str) -> String {
    format!(
        "GET /health {version}\r\nhost: test\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
         sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\n{lines}\r\n"
    )
}

#[test]
fn a_handshake_with_a_body_is_refused() {
    let world = SolanaNode::new();
    for port in [world.rpc, world.pubsub] {
        for (lines, body) in [
            ("content-length: 3\r\n", "abc"),
            ("content-length: 3\r\n", ""),
            ("transfer-encoding: chunked\r\n", "3\r\nabc\r\n0\r\n\r\n"),
            ("transfer-encoding: chunked\r\n", "0\r\n\r\n"),
        ] {
            let mut client = Client::connect(port);
            client.send(handshake("HTTP/1.1", lines) + body);
            let response = client.receive();
            assert_eq!((response.status, response.header("connection")), (400, Some("close")));
            assert_eq!(response.body, "a request for WebSocket must not have a body\n", "{lines}");
            assert!(client.try_receive().is_none(), "{lines}");
        }
        let mut client = Client::connect(port);
        client.send(handshake("HTTP/1.1", "content-length: 0\r\n"));
        assert_eq!(client.receive().status, 101, "a body of no bytes is none");
    }
}

#[test]
fn http_1_0_has_no_upgrade() {
    let world = SolanaNode::new();
    for (port, status) in [(world.rpc, 200), (world.pubsub, 426)] {
        let mut client = Client::connect(port);
        client.send(handshake("HTTP/1.0", ""));
        assert_eq!(client.receive().status, status);
        assert!(client.try_receive().is_none());
    }
}

#[test]
fn the_websocket_port_says_what_it_is_for() {
    let world = SolanaNode::new();
    let mut client = Client::connect(world.pubsub);
    let response = client.post(SLOT);
    assert_eq!(response.status, 426);
    assert!(response.body.starts_with("This port speaks WebSocket."), "{}", response.body);
}

#[test]
fn stopping_lets_a_request_finish_and_closes_idle_connections() {
    let mut world = SolanaNode::new();
    let mut idle = world.client();
    assert_eq!(idle.post(SLOT).body, SLOT_REPLY);
    let release = world.occupy_pool();
    let mut busy = world.client();
    busy.send(post(r#"{"jsonrpc":"2.0","id":1,"method":"getSupply"}"#));
    world.wait_pool(|pool| pool.sum_over_classes(|class| class.queued) == 1);
    world.stop();
    assert!(idle.try_receive().is_none());
    drop(release);
    assert_eq!(busy.receive().json()["result"]["context"]["slot"], json!(100));
    assert!(busy.try_receive().is_none());
    world.wait_stopped();
}

#[test]
#[expect(clippy::disallowed_methods, reason = "how long stopping takes is what is tested")]
fn stopping_does_not_wait_for_ever() {
    let mut world = SolanaNode::new();
    let mut slow = world.client();
    slow.send("POST / HTTP/1.1\r\nhost: te");
    world.stop();
    let started = std::time::Instant::now();
    world.wait_stopped();
    assert!(started.elapsed() < Duration::from_secs(10));
}
