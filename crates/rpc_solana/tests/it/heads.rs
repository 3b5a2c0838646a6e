//! Heads of requests: too long, ambiguous, or of an origin that is not allowed.

use http_server::AllowedOrigins;
use rpc_solana::Config;

use testkit::raw_http_client::{Client, Response, post};
use testkit::solana_node::SolanaNode;

const SLOT: &str = r#"{"jsonrpc":"2.0","id":1,"method":"getSlot"}"#;
const SLOT_REPLY: &str = "{\"jsonrpc\":\"2.0\",\"result\":100,\"id\":1}\n";

/// Returns a call of getSlot with more header lines.
fn post_with(lines: &str) -> String {
    post(SLOT).replacen("host: test\r\n", &format!("host: test\r\n{lines}"), 1)
}

/// Returns the response to a request after which the server closes the connection.
fn receive_refusal(world: &SolanaNode, request: &str) -> Response {
    let mut client = world.client();
    client.send(request);
    let response = client.receive();
    assert_eq!(response.header("connection"), Some("close"), "{}", response.body);
    assert!(client.try_receive().is_none(), "{}", response.body);
    response
}

#[test]
fn a_uri_that_is_too_long_is_refused_with_its_length_and_the_limit() {
    let world = SolanaNode::new();
    let uri =
        |bytes: usize| format!("GET /{} HTTP/1.1\r\nhost: test\r\n\r\n", "a".repeat(bytes - 1));
    let mut client = world.client();
    client.send(uri(8 * 1024));
    assert_eq!(client.receive().status, 405);
    let response = receive_refusal(&world, &uri(8 * 1024 + 1));
    assert_eq!(response.status, 414);
    let text = "the URI has 8193 bytes, at most 8192 are allowed (rpc.uri_bytes_max)\n";
    assert_eq!(response.body, text);
}

#[test]
fn a_list_in_a_header_that_is_too_long_is_refused_with_its_name() {
    let world = SolanaNode::new();
    for name in ["accept", "accept-encoding", "connection", "if-none-match", "upgrade"] {
        let line = |bytes| format!("{name}: {}\r\n", ",".repeat(bytes));
        let mut client = world.client();
        client.send(post_with(&line(4 * 1024)));
        assert_eq!(client.receive().body, SLOT_REPLY, "{name}");
        // All lines of a header are one list.
        for lines in [line(4 * 1024 + 1), line(4 * 1024) + &line(1)] {
            let response = receive_refusal(&world, &post_with(&lines));
            assert_eq!(response.status, 431, "{name}");
            let text = format!("the header {name} has 4097 bytes, at most 4096 are allowed\n");
            assert_eq!(response.body, text);
        }
    }
    // A header that is not parsed may be longer.
    let mut client = world.client();
    client.send(post_with(&format!("cookie: {}\r\n", "a".repeat(10_000))));
    assert_eq!(client.receive().body, SLOT_REPLY);
}

#[test]
fn head_limits_can_be_set() {
    let config = Config {
        head_bytes_max: 32 * 1024,
        uri_bytes_max: 10,
        list_header_bytes_max: 20,
        ..Config::default()
    };
    let world = SolanaNode::with_config(config, cpu_pool::Config::default());
    let mut client = world.client();
    client.send(post_with(&format!("cookie: {}\r\n", "a".repeat(30_000))));
    assert_eq!(client.receive().body, SLOT_REPLY);
    assert_eq!(
        receive_refusal(&world, "GET /abcdefghij HTTP/1.1\r\nhost: test\r\n\r\n").status,
        414
    );
    assert_eq!(
        receive_refusal(&world, &post_with("accept: application/json, */*\r\n")).status,
        431
    );
}

#[test]
fn a_body_that_says_it_is_too_long_is_refused_at_once() {
    // The response must not wait for the body.
    let config = Config { body_timeout_ms: 86_400_000, ..Config::default() };
    let world = SolanaNode::with_config(config, cpu_pool::Config::default());
    for expect in ["", "expect: 100-continue\r\n"] {
        let response = receive_refusal(
            &world,
            &format!(
                "POST / HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\n\
                 {expect}content-length: 99999999\r\n\r\n"
            ),
        );
        assert_eq!(response.status, 413, "and not 100 before it");
        let text = "request body size exceeds allowed maximum: 51200 bytes (rpc.body_bytes_max)\n";
        assert_eq!(response.body, text);
    }
    // A body that is accepted gets status 100.
    let mut client = world.client();
    let call = post_with("expect: 100-continue\r\n");
    let (head, body) = call.split_once("\r\n\r\n").expect("a head");
    client.send(format!("{head}\r\n\r\n"));
    assert_eq!(client.receive().status, 100);
    client.send(body);
    assert_eq!(client.receive().body, SLOT_REPLY);
}

#[test]
fn a_client_that_continues_to_send_can_read_why_it_was_refused() {
    let world = SolanaNode::new();
    let long = 900_000;
    let mut client = world.client();
    client.send(format!(
        "POST / HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\ncontent-length: {long}\r\n\r\n{}",
        " ".repeat(long)
    ));
    assert_eq!(client.receive().status, 413);
    assert!(client.try_receive().is_none());
}

#[test]
fn a_client_may_send_megabytes_before_it_reads_its_refusal() {
    let world = SolanaNode::new();
    let bytes = 20_000_000;
    let json = "content-type: application/json";
    for (line, header, status) in [
        ("POST /", json, 413),
        ("POST /", "content-type: text/plain", 415),
        ("POST /", "content-type: application/json\r\ncontent-encoding: gzip", 415),
        ("PUT /", json, 405),
        // A body without a meaning is not read, either.
        ("GET /health", json, 200),
        ("OPTIONS /", json, 200),
    ] {
        let head = format!("{line} HTTP/1.1\r\nhost: test\r\n{header}\r\ncontent-length: {bytes}");
        let mut client = world.client();
        client.send(format!("{head}\r\n\r\n{}", " ".repeat(bytes)));
        assert_eq!(client.receive().status, status, "{line} {header}");
        assert!(client.try_receive().is_none(), "{line} {header}");
    }
}

#[test]
fn a_compressed_body_is_refused_with_the_supported_coding() {
    let world = SolanaNode::new();
    for coding in ["gzip", "zstd", "gzip, identity"] {
        let response =
            receive_refusal(&world, &post_with(&format!("content-encoding: {coding}\r\n")));
        assert_eq!(response.status, 415);
        assert_eq!(response.header("accept-encoding"), Some("identity"));
        assert!(response.body.contains(&format!("{coding:?}")), "{}", response.body);
    }
    let mut client = world.client();
    client.send(post_with("content-encoding: Identity\r\n"));
    assert_eq!(client.receive().body, SLOT_REPLY);
    let chunked = |coding: &str, lines: &str| {
        format!(
            "POST / HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\n{lines}\
             transfer-encoding: {coding}\r\n\r\n{:x}\r\n{SLOT}\r\n0\r\n\r\n",
            SLOT.len()
        )
    };
    assert_eq!(receive_refusal(&world, &chunked("gzip, chunked", "")).status, 501);
    let two_lines = receive_refusal(&world, &chunked("chunked", "transfer-encoding: gzip\r\n"));
    assert_eq!(two_lines.status, 501);
    client.send(chunked("Chunked", ""));
    assert_eq!(client.receive().body, SLOT_REPLY);
}

#[test]
fn a_head_that_can_be_understood_in_two_ways_is_refused() {
    let world = SolanaNode::new();
    let response = receive_refusal(&world, &post_with("host: other\r\n"));
    assert_eq!(
        (response.status, response.body.as_str()),
        (400, "2 Host headers: only one is allowed\n")
    );
    for (lines, status) in [
        ("content-length: 5\r\n", 400),
        ("content-length: 18446744073709551615\r\n", 431),
        ("transfer-encoding: gzip\r\n", 400),
    ] {
        // hyper closes the connection before it passes the request on: docs/operations.md.
        let mut client = world.client();
        client.send(post_with(lines));
        let head = String::from_utf8(client.receive_all()).expect("text");
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{lines}: {head}");
    }
    // If there are a length and chunks, hyper uses the chunks only and closes after them (RFC 9112, 6.3).
    let mut client = world.client();
    client.send(format!(
        "POST / HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\ncontent-length: 5\r\n\
         transfer-encoding: chunked\r\n\r\n{:x}\r\n{SLOT}\r\n0\r\n\r\n{}",
        SLOT.len(),
        post(SLOT)
    ));
    assert_eq!(client.receive().body, SLOT_REPLY);
    assert!(client.try_receive().is_none(), "the bytes that follow are not parsed as a request");
}

/// Starts a node with a list of allowed origins.
fn node_with_allowed_origins() -> SolanaNode {
    let origins = ["https://app.example".to_owned(), "http://localhost:5173".to_owned()];
    let allowed_origins = AllowedOrigins::new(&origins).expect("origins");
    SolanaNode::with_config(
        Config { allowed_origins, ..Config::default() },
        cpu_pool::Config::default(),
    )
}

#[test]
fn a_page_from_a_forbidden_origin_changes_nothing() {
    let world = node_with_allowed_origins();
    let preflight = "OPTIONS / HTTP/1.1\r\nhost: test\r\norigin: https://evil.example\r\n\
                     access-control-request-method: POST\r\n\r\n";
    let metrics = "GET /metrics HTTP/1.1\r\nhost: test\r\norigin: https://evil.example\r\n\r\n";
    let call = post_with("origin: https://evil.example\r\n");
    for request in [preflight, metrics, &call] {
        let response = receive_refusal(&world, request);
        assert_eq!(response.status, 403);
        assert_eq!(
            response.body,
            "Origin \"https://evil.example\" may not send requests to this node (--allow-origin)\n"
        );
        assert_eq!(response.header("access-control-allow-origin"), None);
    }
    let mut client = world.client();
    client.send(post_with("origin: https://app.example\r\n"));
    let response = client.receive();
    assert_eq!(response.body, SLOT_REPLY);
    assert_eq!(response.header("access-control-allow-origin"), Some("https://app.example"));
    assert_eq!(response.header("vary"), Some("origin"));
    // A client that is not a web page sends no origin.
    client.send(post(SLOT));
    let response = client.receive();
    assert_eq!(response.body, SLOT_REPLY);
    assert_eq!(response.header("access-control-allow-origin"), None);
}

#[test]
fn a_websocket_from_a_forbidden_origin_is_refused() {
    let world = node_with_allowed_origins();
    for port in [world.rpc, world.pubsub] {
        for (origin, status) in [
            ("origin: https://evil.example\r\n", 403),
            ("origin: null\r\n", 403),
            ("origin: http://localhost:5173\r\n", 101),
            ("", 101),
        ] {
            let mut client = Client::connect(port);
            client.send(format!(
                "GET / HTTP/1.1\r\nhost: test\r\nupgrade: websocket\r\nconnection: Upgrade\r\n{origin}\
                 sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\n\r\n"
            ));
            assert_eq!(client.receive().status, status, "{origin}");
        }
    }
}
