//! The support of HTTP caches and slow connections: `ETag`, 304, codings, links to the next page.

use ledger::{Address, Change};
use query::{Ledger, LedgerConfig};
use serde_json::{Value, json};
use solana::Account;
use solana_pubkey::Pubkey;
use testkit::raw_http_client::Client;

use crate::{Node, decoded_body, get, get_json, head, post};
use testkit::sample_ledger::{
    DATA, MINT, OTHER_TOKEN, PROCESSED, PROGRAM, TOKEN, WALLET, bank, block, with_data,
};

/// A ledger at slot 100 with a program that has this number of accounts of this length.
fn ledger(
    accounts: u32,
    bytes: usize,
) -> (Ledger<Account, chain_solana::BlockInfo>, chain_solana::Reader) {
    let (mut ledger, reader) = Ledger::new(LedgerConfig::new(100_000), block(100), bank(100));
    let all = (0..accounts).map(|n| change(n, bytes)).collect();
    ledger.apply(block(100), all, bank(100)).expect("the root accepts accounts");
    ledger.publish();
    (ledger, reader)
}

fn change(n: u32, bytes: usize) -> Change<Account> {
    let mut data = vec![n as u8; bytes];
    // Varied bytes, so that they do not compress to almost nothing.
    for (at, byte) in data.iter_mut().enumerate().filter(|(at, _)| at % 3 == 0) {
        *byte = (n * 1_000 + at as u32).wrapping_mul(2_654_435_761).to_be_bytes()[0];
    }
    let record = Account(with_data(PROGRAM, &data)).into_record();
    Change { address: Address::from(numbered_key(n).to_bytes()), record }
}

fn numbered_key(n: u32) -> Pubkey {
    let mut bytes = [77; 32];
    bytes[..4].copy_from_slice(&n.to_le_bytes());
    Pubkey::new_from_array(bytes)
}

#[test]
fn an_etag_depends_on_the_value_and_leads_to_304() {
    let node = Node::new();
    let mut client = node.client();
    let at = |commitment| format!("/v1/accounts/{TOKEN}?commitment={commitment}");
    let first = get(&mut client, &at("finalized"), "");
    let etag = first.header("etag").expect("an ETag").to_owned();
    // The account is unchanged at a later slot, and so is its ETag.
    let later = get(&mut client, &at("processed"), &format!("if-none-match: \"x\", {etag}\r\n"));
    assert_eq!((later.status, later.body.as_str()), (304, ""));
    assert_eq!(later.header("etag"), Some(etag.as_str()));
    assert_eq!(later.header("hydrant-slot"), Some(PROCESSED.to_string().as_str()));
    assert_eq!(later.header("cache-control"), Some("no-cache"));
    let path = format!("/v1/accounts/{WALLET}?commitment=");
    let one = get(&mut client, &format!("{path}finalized"), "");
    let other = get(&mut client, &format!("{path}processed"), "");
    assert_ne!(one.header("etag"), other.header("etag"), "it has changed");
    let (status, text) = head(&node, &at("finalized"));
    assert!(status == 200 && text.contains(&format!("etag: {etag}\r\n")), "{text}");
}

#[test]
fn an_etag_is_valid_until_its_data_is_written() {
    let (mut ledger, reader) = ledger(300, 1_000);
    let node = Node::with_config(reader, rpc_solana::Config::default());
    let mut client = node.client();
    let list = format!("/v1/programs/{PROGRAM}/accounts");
    let account = format!("/v1/accounts/{}", numbered_key(7));
    let mut etags: Vec<String> = Vec::new();
    for (slot, written) in [(101, None), (102, Some(500)), (103, Some(7)), (104, None)] {
        ledger.open(block(slot), block(slot - 1), bank(slot)).expect("open");
        let changes = written.map(|n| change(n, 900)).into_iter().collect();
        ledger.apply(block(slot), changes, bank(slot)).expect("apply");
        ledger.complete(block(slot), bank(slot)).expect("complete");
        ledger.confirm(block(slot)).expect("it is complete");
        ledger.finalize(block(slot)).expect("finalize");
        ledger.publish();
        let mut new_etags = Vec::new();
        for (path, at) in [(&list, 0), (&account, 1)] {
            let had = etags.get(at).map(|etag| format!("if-none-match: {etag}\r\n"));
            let response = get(&mut client, path, &had.clone().unwrap_or_default());
            assert_eq!(response.header("hydrant-slot"), Some(slot.to_string().as_str()));
            let expected = match (had, written, at) {
                (None, ..) => 200,
                // A new account changes the list. The account changes only by its own write.
                (_, Some(500), 0) | (_, Some(7), _) => 200,
                _ => 304,
            };
            assert_eq!(response.status, expected, "{path} at {slot}");
            new_etags.push(response.header("etag").expect("an ETag").to_owned());
        }
        etags = new_etags;
    }
}

#[test]
fn each_coding_has_its_own_etag_and_is_the_same_when_decoded() {
    // Cached, in several chunks and in one; streamed, with an ETag from its dependencies; never cached.
    let (_ledger, reader) = ledger(6_000, 1_000);
    let node = Node::with_config(reader, rpc_solana::Config::default());
    let mut client = node.client();
    let several: Vec<String> = (0..100).map(|n| numbered_key(n).to_string()).collect();
    for (path, has_etag) in [
        (format!("/v1/programs/{PROGRAM}/accounts?limit=600"), true),
        (format!("/v1/programs/{PROGRAM}/accounts?limit=50"), true),
        (format!("/v1/programs/{PROGRAM}/accounts?limit=6000&changedSinceSlot=0"), true),
        (format!("/v1/accounts?addresses={}", several.join(",")), true),
        ("/v1/openapi.json".to_owned(), true),
        ("/v1/".to_owned(), true),
    ] {
        let mut tags = Vec::new();
        let mut bodies = Vec::new();
        for (accept, coding) in
            [("identity", None), ("gzip", Some("gzip")), ("gzip, zstd", Some("zstd"))]
        {
            let accept = format!("accept-encoding: {accept}\r\n");
            let response = get(&mut client, &path, &accept);
            assert_eq!(response.status, 200);
            assert_eq!(response.header("content-encoding"), coding, "{path}");
            let vary = response.header("vary").expect("a Vary header");
            assert!(vary.contains("accept-encoding"), "{vary}");
            if let Some(etag) = response.header("etag") {
                let had = format!("{accept}if-none-match: {etag}\r\n");
                let again = get(&mut client, &path, &had);
                assert_eq!((again.status, again.header("etag")), (304, Some(etag)), "{path}");
                assert_eq!(again.header("content-encoding"), None);
                tags.push(etag.to_owned());
            }
            bodies.push(decoded_body(&response));
        }
        assert!(bodies.iter().all(|body| *body == bodies[0]), "{path}");
        tags.sort_unstable();
        tags.dedup();
        assert_eq!(tags.len(), if has_etag { 3 } else { 0 }, "{path}");
    }
    // The bytes are those of the method, whichever request came first.
    let path = format!("/v1/programs/{PROGRAM}/accounts");
    let config = json!({ "encoding": "base64", "withContext": true });
    let result = client.result("getProgramAccountsV2", json!([PROGRAM.to_string(), config]));
    assert_eq!(get_json(&mut client, &path), result["value"]);
}

#[test]
fn a_cached_response_of_any_length_is_repeated() {
    let (_ledger, reader) = ledger(3_000, 1_000);
    let node = Node::with_config(reader, rpc_solana::Config::default());
    let mut client = node.client();
    // The cache of the test node accepts responses of up to 1 MiB: about 700 accounts.
    let path = format!("/v1/programs/{PROGRAM}/accounts?limit=600");
    for coding in ["identity", "gzip", "zstd"] {
        let accept = format!("accept-encoding: {coding}\r\n");
        let first = get(&mut client, &path, &accept);
        let hits = node.world.server.context.response_cache.counters().hits;
        let etag = first.header("etag");
        assert!(decoded_body(&first).len() > 2 * 128 * 1024, "more than one piece");
        let again = get(&mut client, &path, &accept);
        assert_eq!(
            node.world.server.context.response_cache.counters().hits,
            hits + 1,
            "{coding}: from the cache"
        );
        assert!(first.bytes == again.bytes && again.header("etag") == etag);
        assert_eq!(again.header("hydrant-slot"), Some("100"));
        let length = again.header("content-length").expect("a length");
        assert_eq!(length, again.bytes.len().to_string());
        // The method with the same parameters gets the same value from the same entry.
        let value: Value = serde_json::from_slice(&decoded_body(&again)).expect("JSON");
        let config = json!({ "encoding": "base64", "withContext": true, "limit": 600 });
        let result = client.result("getProgramAccountsV2", json!([PROGRAM.to_string(), config]));
        assert!(value == result["value"], "{coding}");
        let link = format!("<{path}&cursor={}>; rel=\"next\"", text(&value["paginationKey"]));
        for response in [&first, &again] {
            assert_eq!(response.header("link"), Some(link.as_str()));
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("text, not {value}"))
}

fn follow(client: &mut Client, path: &str, member: &str) -> (Vec<Value>, usize) {
    let mut path = path.to_owned();
    let mut found = Vec::new();
    let mut pages = 0;
    loop {
        let response = get(client, &path, "");
        assert_eq!(response.status, 200, "{path}: {}", response.body);
        let page = response.json();
        found.extend(page[member].as_array().expect("a list").iter().cloned());
        pages += 1;
        let Some(link) = response.header("link") else {
            assert_eq!(page["paginationKey"], Value::Null, "the last page has no key");
            return (found, pages);
        };
        let next = link.strip_prefix('<').and_then(|link| link.strip_suffix(">; rel=\"next\""));
        path = next.expect("a link").to_owned();
        assert!(path.ends_with(&format!("cursor={}", text(&page["paginationKey"]))));
    }
}

#[test]
fn pages_to_the_end_are_the_whole_list() {
    let (_ledger, reader) = ledger(1_000, 50);
    let node = Node::with_config(reader, rpc_solana::Config::default());
    let mut client = node.client();
    let path = format!("/v1/programs/{PROGRAM}/accounts");
    let (mut whole, pages) = follow(&mut client, &format!("{path}?limit=10000"), "accounts");
    assert_eq!((whole.len(), pages), (1_000, 1));
    let (mut found, pages) =
        follow(&mut client, &format!("{path}?limit=37&encoding=base64"), "accounts");
    assert!(pages >= 1_000 / 37, "{pages}");
    let by_pubkey = |one: &Value| text(&one["pubkey"]).to_owned();
    whole.sort_by_key(by_pubkey);
    found.sort_by_key(by_pubkey);
    assert!(whole == found, "the same accounts, each once");
    // A response to POST has no link, but the same key.
    let filters = json!({ "filters": [{ "dataSize": 50 }] });
    let page = post(&mut client, &format!("{path}?limit=10"), &filters);
    assert_eq!(page.header("link"), None);
    assert!(page.json()["paginationKey"].is_string());
}

#[test]
fn pages_follow_each_other() {
    let node = Node::new();
    let mut client = node.client();
    let path = format!("/v1/programs/{PROGRAM}/accounts?limit=1");
    let (found, _) = follow(&mut client, &path, "accounts");
    let mut found: Vec<_> = found.iter().map(|one| text(&one["pubkey"]).to_owned()).collect();
    found.sort_unstable();
    let mut expected = DATA.map(|address| address.to_string());
    expected.sort_unstable();
    assert_eq!(found, expected);
    let holders = get_json(&mut client, &format!("/v1/mints/{MINT}/holders"));
    let holders: Vec<_> =
        holders["accounts"].as_array().expect("a list").iter().map(|it| &it["pubkey"]).collect();
    assert_eq!(holders.len(), 2);
    assert!([TOKEN, OTHER_TOKEN].iter().all(|it| holders.contains(&&json!(it.to_string()))));
}
