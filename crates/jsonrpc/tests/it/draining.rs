//! The drain of a server: running requests finish, new ones are refused, and sockets are closed.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::json;

use crate::toy_api::{TIMEOUT, Toy};

/// The head of a request whose body is sent later.
fn begun_request(toy: &Toy, body: &str) -> TcpStream {
    let mut socket = TcpStream::connect(toy.address).expect("it listens");
    socket.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    let length = body.len();
    write!(
        socket,
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n\
         Content-Length: {length}\r\n\r\n"
    )
    .expect("it reads");
    // The node has the request when it responds with 100 Continue.
    let mut line = [0; 25];
    socket.read_exact(&mut line).expect("a response");
    assert_eq!(line, *b"HTTP/1.1 100 Continue\r\n\r\n");
    socket
}

#[test]
fn a_request_that_runs_is_finished_and_new_ones_are_refused() {
    let toy = Toy::start();
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "getHeight" }).to_string();
    let mut running = begun_request(&toy, &body);
    let mut idle = TcpStream::connect(toy.address).expect("it listens");
    idle.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    write!(idle, "GET /ready HTTP/1.1\r\nHost: a\r\n\r\n").expect("it reads");
    let mut ready = [0; 15];
    idle.read_exact(&mut ready).expect("a response");
    assert_eq!(ready, *b"HTTP/1.1 200 OK");
    toy.server.context.http.drain.begin(Duration::from_secs(3_600));
    for (path, text) in [("/ready", "draining\n"), ("/health", "draining")] {
        let response = toy.get(path);
        assert!(response.starts_with("HTTP/1.1 503 "), "{path}: {response}");
        assert!(response.ends_with(&format!("\r\n\r\n{text}")), "{path}: {response}");
    }
    let refused = toy.exchange(&format!(
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    let head = refused.to_ascii_lowercase();
    assert!(refused.starts_with("HTTP/1.1 503 ") && refused.contains("draining: the node ends"));
    assert!(head.contains("\r\nretry-after: 1\r\n") && head.contains("\r\nconnection: close\r\n"));
    assert!(toy.get("/metrics").contains("\nhydrant_http_draining 1\n"));
    // The connection without a request is closed.
    let mut rest = Vec::new();
    idle.read_to_end(&mut rest).expect("its end");
    running.write_all(body.as_bytes()).expect("it reads");
    let mut response = String::new();
    running.read_to_string(&mut response).expect("the response and the end");
    assert!(response.starts_with("HTTP/1.1 200 OK") && response.contains("\"result\":0"));
    toy.wait_for_end();
    assert!(TcpStream::connect(toy.address).is_err(), "it listens no more");
}

#[test]
fn a_drain_ends_when_its_time_is_over() {
    let toy = Toy::start();
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "getHeight" }).to_string();
    let mut running = begun_request(&toy, &body);
    toy.server.context.http.drain.begin(Duration::from_millis(50));
    let mut rest = Vec::new();
    // Cut, or reset.
    let _ = running.read_to_end(&mut rest);
    assert!(rest.is_empty(), "it never had the body");
    toy.wait_for_end();
}
