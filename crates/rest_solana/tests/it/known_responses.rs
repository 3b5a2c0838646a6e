//! A repeated response equals the one that would be computed now, and is sent without a call.

use testkit::raw_http_client::{Client, Response};
use testkit::sample_ledger::{PROGRAM, WALLET, bank, block, with_data};

use crate::revalidation::{EveryRoute, account_change, key, tasks_started};
use crate::{Node, get, head, post, post_as};

/// Headers that a repeated response has like the one before.
const HEADERS: [&str; 12] = [
    "etag",
    "content-type",
    "content-length",
    "content-encoding",
    "link",
    "hydrant-slot",
    "hydrant-commitment",
    "hydrant-lamports",
    "hydrant-owner",
    "hydrant-space",
    "cache-control",
    "vary",
];

/// Tasks that were started, and responses that were found by their text or in the response cache.
fn count_use(node: &Node) -> (u64, u64) {
    (tasks_started(node), node.world.server.context.response_cache.counters().hits)
}

/// Sends a request three times. Checks that the third response equals the second, and needed neither a task nor, if it
/// is of a call that is never in the response cache, a call.
fn send_three_times(
    node: &Node,
    client: &mut Client,
    what: &str,
    mut send: impl FnMut(&mut Client) -> Response,
) -> Response {
    // The first response may be streamed, in other blocks of its coding.
    let [_, second] = [(); 2].map(|()| send(client));
    assert_eq!(second.status, 200, "{what}: {}", second.body);
    let (tasks, hits) = count_use(node);
    let third = send(client);
    assert_eq!(count_use(node), (tasks, hits + 1), "{what}");
    for name in HEADERS {
        assert_eq!(third.header(name), second.header(name), "{what}: {name}");
    }
    assert!(third.status == 200 && third.bytes == second.bytes, "{what}");
    third
}

#[test]
fn a_repeated_response_is_sent_again_without_a_call() {
    let EveryRoute { node, mut paths, ledger: _ledger } = EveryRoute::new(1 << 24);
    let mut client = node.client();
    paths.push(format!("/v1/accounts/{WALLET}/transactions?limit=1"));
    for path in &paths {
        for coding in ["identity", "gzip", "zstd"] {
            let headers = format!("accept-encoding: {coding}\r\n");
            let what = format!("{path} {coding}");
            let known =
                send_three_times(&node, &mut client, &what, |client| get(client, path, &headers));
            let older = get(&mut client, path, &format!("{headers}hydrant-min-slot: 101\r\n"));
            assert!(older.status == 200 && older.bytes == known.bytes, "{what}");
            let newer = get(&mut client, path, &format!("{headers}hydrant-min-slot: 102\r\n"));
            assert_eq!(newer.status, 409, "{what}");
        }
    }
}

#[test]
fn a_head_request_gets_the_headers_of_the_repeated_response() {
    let EveryRoute { node, ledger: _ledger, .. } = EveryRoute::new(1 << 24);
    let path = format!("/v1/accounts/{}", key(1));
    let known = send_three_times(&node, &mut node.client(), &path, |client| get(client, &path, ""));
    let (tasks, hits) = count_use(&node);
    let (status, headers) = head(&node, &path);
    assert_eq!((status, count_use(&node)), (200, (tasks, hits + 1)));
    for name in ["etag", "content-length", "hydrant-slot"] {
        let line = format!("{name}: {}", known.header(name).expect("it has them all"));
        assert!(headers.contains(&line), "{line} is not in {headers}");
    }
}

#[test]
fn a_repeated_response_as_bytes_has_the_fields_of_the_account() {
    let EveryRoute { node, ledger: _ledger, .. } = EveryRoute::new(1 << 24);
    let path = format!("/v1/accounts/{}", key(1));
    let raw = "accept: application/octet-stream\r\n";
    let known =
        send_three_times(&node, &mut node.client(), &path, |client| get(client, &path, raw));
    assert_eq!(known.header("hydrant-space"), Some("40000"));
    assert_eq!(known.bytes.len(), 40_000);
}

#[test]
fn a_post_is_repeated_and_another_method_is_not() {
    let EveryRoute { node, ledger: _ledger, .. } = EveryRoute::new(1 << 24);
    let mut client = node.client();
    let body = serde_json::json!({ "addresses": [key(1).to_string()] });
    let path = "/v1/accounts";
    let known = send_three_times(&node, &mut client, path, |client| post(client, path, &body));
    let other = serde_json::json!({ "addresses": [key(2).to_string()] });
    let other = post(&mut client, path, &other);
    assert!(other.status == 200 && other.bytes != known.bytes, "another body is another request");
    let as_text = post_as(&mut client, path, "text/plain", body.to_string().as_bytes());
    assert_ne!(as_text.status, 200, "{}", as_text.body);
    for verb in ["PUT", "DELETE", "PATCH"] {
        let mut client = node.client();
        let body = body.to_string();
        let headers =
            format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len());
        client.send(format!("{verb} {path} HTTP/1.1\r\nhost: test\r\n{headers}\r\n{body}"));
        assert_eq!(client.receive().status, 405, "{verb}");
    }
}

#[test]
fn a_repeated_response_is_computed_again_once_its_data_changes() {
    let EveryRoute { node, mut ledger, .. } = EveryRoute::new(1 << 24);
    let mut client = node.client();
    let account = format!("/v1/accounts/{}?commitment=confirmed", key(1));
    let list =
        format!("/v1/programs/{PROGRAM}/accounts?commitment=confirmed&dataLength=8&dataOffset=0");
    let accounts = serde_json::json!({ "addresses": [key(1).to_string(), key(2).to_string()] });
    let filters = serde_json::json!({ "filters": [{ "dataSize": 40_000 }] });
    let mut read_all = || {
        let posted = [
            post(&mut client, "/v1/accounts?commitment=confirmed", &accounts),
            post(&mut client, &list, &filters),
        ];
        let read = [get(&mut client, &account, ""), get(&mut client, &list, "")];
        posted.into_iter().chain(read).collect::<Vec<_>>()
    };
    let [_, _, before] = [(); 3].map(|()| read_all());
    for slot in [102, 103] {
        let account = (slot == 102).then(|| with_data(PROGRAM, &[7; 40_000]));
        let change = account_change(key(1), account);
        ledger.open(block(slot), block(slot - 1), bank(slot)).expect("open");
        ledger.apply(block(slot), vec![change], bank(slot)).expect("apply");
        ledger.complete(block(slot), bank(slot)).expect("complete");
        ledger.confirm(block(slot)).expect("it is complete");
        ledger.publish();
        let after = read_all();
        for (number, (one, other)) in before.iter().zip(&after).enumerate() {
            let status = if slot == 103 && number == 2 { 404 } else { 200 };
            assert_eq!(other.status, status, "{number} at {slot}: {}", other.body);
            assert!(one.bytes != other.bytes, "{number} at {slot}: it is not current");
            let slots = [one, other].map(|response| response.header("hydrant-slot"));
            assert_eq!(slots, [Some("101"), Some(slot.to_string().as_str())], "{number}");
        }
        for _ in 0..3 {
            for (one, other) in after.iter().zip(&read_all()) {
                assert!(one.bytes == other.bytes, "it is repeated");
            }
        }
    }
}

#[test]
fn nothing_is_sent_again_while_the_state_is_withheld() {
    let EveryRoute { node, paths, ledger: _ledger } = EveryRoute::new(1 << 24);
    let mut client = node.client();
    let health = &node.world.server.context.health;
    for path in paths.iter().filter(|path| !path.starts_with("/v1/node")) {
        let [_, _, known] = [(); 3].map(|()| get(&mut client, path, ""));
        let etag = known.header("etag").expect("an ETag");
        let condition = format!("if-none-match: {etag}\r\n");
        assert_eq!(get(&mut client, path, &condition).status, 304, "{path}");
        health.withhold_state(true);
        for headers in ["", &condition] {
            assert_eq!(get(&mut client, path, headers).status, 503, "{path} {headers}");
        }
        health.withhold_state(false);
        assert_eq!(get(&mut client, path, "").status, 200, "{path}");
    }
}
