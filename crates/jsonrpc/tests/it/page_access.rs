//! Web pages of other origins: they read, but they do not call a dangerous method, however the call is sent.

use serde_json::{Value, json};

use crate::toy_api::Toy;

const FOREIGN_PAGE: i64 = -32043;

/// A dangerous method, and one that reads.
fn calls(count: usize) -> Vec<Value> {
    let call = |id: usize| match id % 2 {
        0 => json!({ "jsonrpc": "2.0", "id": id, "method": "counterAdd", "params": ["a", 1] }),
        _ => json!({ "jsonrpc": "2.0", "id": id, "method": "counterSum", "params": [] }),
    };
    (0..count).map(call).collect()
}

fn post(toy: &Toy, headers: &str, body: &str) -> Value {
    let response = toy.exchange(&format!(
        "POST / HTTP/1.1\r\n{headers}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
    let (_, json) = response.split_once("\r\n\r\n").expect("a body");
    serde_json::from_str(json).expect("JSON")
}

/// The error codes of the dangerous calls and of the others in the responses to a body.
fn codes(toy: &Toy, headers: &str, body: &str) -> [Vec<Value>; 2] {
    let responses = post(toy, headers, body);
    let responses = responses.as_array().cloned().unwrap_or_else(|| vec![responses]);
    let is_dangerous = |response: &Value| response["id"].as_u64().expect("an id").is_multiple_of(2);
    let (dangerous, others): (Vec<_>, Vec<_>) = responses.into_iter().partition(is_dangerous);
    [dangerous, others]
        .map(|responses| responses.iter().map(|it| it["error"]["code"].clone()).collect())
}

#[test]
fn a_page_of_another_origin_reads_but_does_not_call_a_dangerous_method() {
    let toy = Toy::start();
    let foreign = "Host: 127.0.0.1:8899\r\nOrigin: https://evil.example";
    let rebound = "Host: evil.example:8899";
    let single = calls(1)[0].to_string();
    let [short, long] = [4, 40].map(|count| Value::from(calls(count)).to_string());
    // Parsed on the CPU pool.
    let padding = " ".repeat(20_000);
    let bodies = [&single, &short, &long].map(|body| [body.clone(), format!("{body}{padding}")]);
    for body in bodies.as_flattened() {
        for headers in [foreign, rebound] {
            let [dangerous, others] = codes(&toy, headers, body);
            assert!(!dangerous.is_empty() && dangerous.iter().all(|it| *it == FOREIGN_PAGE));
            assert!(others.iter().all(Value::is_null), "{others:?}");
        }
    }
    assert_eq!(toy.call("counterSum", json!([]))["result"]["value"], json!(0));
    let own = "Host: 127.0.0.1:8899\r\nOrigin: http://127.0.0.1:8899";
    for headers in [own, "Host: 127.0.0.1:8899"] {
        let [dangerous, _] = codes(&toy, headers, &short);
        assert_eq!(dangerous, [Value::Null, Value::Null]);
    }
    assert_eq!(toy.call("counterSum", json!([]))["result"]["value"], json!(4));
    let refused = post(&toy, foreign, &single);
    let message = refused["error"]["message"].as_str().expect("a message");
    assert!(message.contains("counterAdd") && message.contains("--allow-origin"), "{message}");
    let refused = post(&toy, rebound, &single);
    let message = refused["error"]["message"].as_str().expect("a message");
    assert!(message.contains("--allow-host"), "{message}");
}
