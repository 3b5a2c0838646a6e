//! All errors: one shape, a stable name, the right status and headers.

use serde_json::json;
use testkit::raw_http_client::Response;

use crate::{Node, get, head, post, post_as, send_request};
use testkit::sample_ledger::{self, MINT, PROGRAM, WALLET};

#[test]
fn errors_have_one_shape() {
    let node = Node::new();
    let mut client = node.client();
    let account = format!("/v1/accounts/{WALLET}");
    let missing = solana_pubkey::Pubkey::new_from_array([200; 32]);
    let cases = [
        ("/v1/nothing".to_owned(), 404, -32601, "no_such_path"),
        (format!("{account}/"), 404, -32601, "no_such_path"),
        ("/v1/accounts/abc".to_owned(), 400, -32602, "invalid_params"),
        ("/v1/accounts/%ff".to_owned(), 400, -32602, "invalid_params"),
        ("/v1/accounts".to_owned(), 400, -32602, "invalid_params"),
        (format!("/v1/accounts/{missing}"), 404, -32044, "not_found"),
        (format!("{account}?commitment=soon"), 400, -32602, "invalid_params"),
        (
            format!("{account}?commitment=processed&commitment=processed"),
            400,
            -32602,
            "invalid_params",
        ),
        (format!("{account}?colour=red"), 400, -32602, "invalid_params"),
        (format!("{account}?dataOffset=1"), 400, -32602, "invalid_params"),
        (format!("{account}?minContextSlot=1000"), 409, -32016, "min_context_slot_not_reached"),
        (format!("{account}?minContextSlot=-1"), 400, -32602, "invalid_params"),
        (format!("/v1/programs/{PROGRAM}/accounts?limit=0"), 400, -32602, "invalid_params"),
        (format!("/v1/programs/{PROGRAM}/accounts?cursor=abc"), 400, -32602, "invalid_params"),
        (
            format!("/v1/owners/{WALLET}/tokens?mint={MINT}&program={MINT}"),
            400,
            -32602,
            "invalid_params",
        ),
        ("/v1/blocks/5".to_owned(), 404, -32007, "slot_skipped"),
        ("/v1/blocks/5000".to_owned(), 404, -32004, "block_not_available"),
        ("/v1/blocks/x".to_owned(), 400, -32602, "invalid_params"),
        ("/v1/transactions/abc".to_owned(), 400, -32602, "invalid_params"),
        (format!("/v1/transactions/{}", "1".repeat(64)), 404, -32044, "not_found"),
        (format!("/v1/transactions/{}/status?waitMs=1", "1".repeat(64)), 404, -32044, "not_found"),
    ];
    for (path, status, code, name) in cases {
        let response = get(&mut client, &path, "");
        assert_eq!(response.status, status, "{path}: {}", response.body);
        let err = &response.json()["error"];
        assert_eq!((&err["code"], &err["name"]), (&json!(code), &json!(name)), "{path}");
        assert!(err["message"].as_str().is_some_and(|it| !it.is_empty()), "{path}");
        assert_eq!(response.header("cache-control"), Some("no-store"), "{path}");
    }
}

#[test]
fn a_missing_object_is_missing_at_a_slot() {
    let node = Node::new();
    let mut client = node.client();
    let missing = solana_pubkey::Pubkey::new_from_array([200; 32]);
    let nothing = format!("/v1/transactions/{}", "1".repeat(64));
    let levels = [
        ("?commitment=processed", "processed", sample_ledger::PROCESSED),
        ("?commitment=confirmed", "confirmed", sample_ledger::CONFIRMED),
        ("?commitment=finalized", "finalized", sample_ledger::FINALIZED),
        ("", "finalized", sample_ledger::FINALIZED),
    ];
    let mut requests = 0;
    for (query, commitment, slot) in levels {
        for (path, accept) in [
            (format!("/v1/accounts/{missing}"), "application/json"),
            (format!("/v1/accounts/{missing}"), "application/octet-stream"),
            (nothing.clone(), "application/json"),
            ("/v1/blocks/5".to_owned(), "application/json"),
            ("/v1/blocks/5000".to_owned(), "application/json"),
        ] {
            if commitment == "processed" && !path.contains("accounts") {
                continue;
            }
            let path = path + query;
            let response = get(&mut client, &path, &format!("accept: {accept}\r\n"));
            assert_eq!(api_error(&response).0, 404, "{path}: {}", response.body);
            assert_eq!(response.header("hydrant-slot"), Some(slot.to_string().as_str()), "{path}");
            assert_eq!(response.header("hydrant-commitment"), Some(commitment), "{path}");
            let expected = json!({ "slot": slot, "commitment": commitment });
            assert_eq!(response.json()["error"]["data"], expected, "{path}");
            requests += 1;
        }
    }
    assert_eq!(requests, 2 + 3 * 5);
    // The slot of a status is that of the processed state, at any commitment.
    let response = get(&mut client, &format!("{nothing}/status?commitment=finalized"), "");
    assert_eq!(api_error(&response).0, 404);
    let slot = sample_ledger::PROCESSED.to_string();
    assert_eq!(response.header("hydrant-slot"), Some(slot.as_str()));
    assert_eq!(response.header("hydrant-commitment"), Some("processed"));
    // Invalid requests are of no state. They have the slot that every later request may require.
    let slot = sample_ledger::FINALIZED.to_string();
    for path in ["/v1/nothing", "/v1/accounts/abc"] {
        let response = get(&mut client, path, "");
        assert_eq!(
            (response.header("hydrant-slot"), response.header("hydrant-commitment")),
            (Some(slot.as_str()), Some("finalized"))
        );
    }
    let document = crate::get_json(&mut client, "/v1/openapi.json");
    let headers =
        &document["paths"]["/v1/accounts/{address}"]["get"]["responses"]["404"]["headers"];
    assert!(headers["Hydrant-Slot"].is_object(), "{headers}");
    assert!(headers["Hydrant-Commitment"].is_object(), "{headers}");
}

/// The message of an error.
fn message(response: &Response) -> String {
    assert_eq!(api_error(response), (400, "invalid_params".to_owned()), "{}", response.body);
    response.json()["error"]["message"].as_str().expect("words").to_owned()
}

#[test]
fn a_wrong_key_is_reported_with_its_name_position_and_expected_form() {
    let node = Node::new();
    let mut client = node.client();
    let one = WALLET.to_string();
    let other = MINT.to_string();
    let of_31 = solana_pubkey::Pubkey::default().to_string()[1..].to_owned();
    let address = "must be an address: base58 of 32 bytes, not";
    let signature = "must be a signature: base58 of 64 bytes, not";
    for (path, expected) in [
        ("/v1/accounts/abc".to_owned(), format!("address {address} \"abc\"")),
        (format!("/v1/accounts/{of_31}"), format!("address {address} \"{of_31}\"")),
        (format!("/v1/accounts/{one}0"), format!("address {address} \"{one}0\"")),
        (
            format!("/v1/accounts/{}", "1".repeat(5_000)),
            format!("address {address} \"{}\"… of 5000 bytes", "1".repeat(96)),
        ),
        (
            format!("/v1/accounts?addresses={one},{other},x,y"),
            format!("addresses[2] {address} \"x\""),
        ),
        (format!("/v1/accounts?addresses={one},"), format!("addresses[1] {address} \"\"")),
        (format!("/v1/owners/{one}/tokens?mint=x"), format!("mint {address} \"x\"")),
        (format!("/v1/transactions/{one}"), format!("signature {signature} \"{one}\"")),
        ("/v1/transactions/x/status".to_owned(), format!("signature {signature} \"x\"")),
        (
            format!("/v1/accounts/{one}/transactions?cursor={one}"),
            format!("cursor {signature} \"{one}\""),
        ),
    ] {
        assert_eq!(message(&get(&mut client, &path, "")), expected, "{path}");
    }
    for (body, expected) in [
        (json!([one, 7]), format!("addresses[1] {address} a value that is not a string")),
        (json!(["x", one]), format!("addresses[0] {address} \"x\"")),
    ] {
        let response = post(&mut client, "/v1/accounts", &json!({ "addresses": body }));
        assert_eq!(message(&response), expected, "{body}");
    }
}

#[test]
fn the_length_of_a_list_is_limited_by_the_node() {
    let named = |count: u32| -> Vec<String> {
        let key = |n: u32| {
            let mut bytes = [5; 32];
            bytes[..4].copy_from_slice(&n.to_le_bytes());
            solana_pubkey::Pubkey::new_from_array(bytes).to_string()
        };
        (0..count).map(key).collect()
    };
    for max in [3, 100, 1_050] {
        let config =
            rpc_solana::Config { multiple_accounts_max: max, ..rpc_solana::Config::default() };
        let node = Node::with_config(sample_ledger::ledger(query::IndexConfig::default()), config);
        let mut client = node.client();
        let document = crate::get_json(&mut client, "/v1/openapi.json");
        let path = &document["paths"]["/v1/accounts"];
        assert_eq!(path["get"]["parameters"][0]["schema"]["maxItems"], max);
        let body = &path["post"]["requestBody"]["content"]["application/json"]["schema"];
        assert_eq!(body["properties"]["addresses"]["maxItems"], max);
        let all = named(max as u32 + 1);
        let body = |count: usize| json!({ "addresses": all[..count] });
        let good = post(&mut client, "/v1/accounts", &body(max));
        assert_eq!((good.status, good.json().as_array().map(Vec::len)), (200, Some(max)));
        let expected = format!(
            "addresses must be a list of 1 to {max} addresses (rpc.multiple_accounts_max), not of {}",
            max + 1
        );
        assert_eq!(message(&post(&mut client, "/v1/accounts", &body(max + 1))), expected);
        let path = |count: usize| format!("/v1/accounts?addresses={}", all[..count].join(","));
        if max < 200 {
            assert_eq!(message(&get(&mut client, &path(max + 1), "")), expected);
        } else {
            // By GET the list must also fit into the URI.
            assert_eq!(get(&mut client, &path(150), "").status, 200);
            let response = get(&mut node.client(), &path(200), "");
            assert_eq!(api_error(&response), (414, "uri_too_long".to_owned()));
        }
        let none = message(&post(&mut client, "/v1/accounts", &body(0)));
        assert!(none.ends_with("not of 0"), "{none}");
    }
}

/// The status and name of an error response. Checks its shape.
fn api_error(response: &Response) -> (u16, String) {
    assert_eq!(response.header("content-type"), Some("application/json"), "{response:?}");
    assert_eq!(response.header("cache-control"), Some("no-store"), "{response:?}");
    let body = response.json();
    let err = &body["error"];
    assert_eq!(body.as_object().map(serde_json::Map::len), Some(1), "{body}");
    assert!(err["code"].is_i64() && err["message"].is_string(), "{body}");
    (response.status, err["name"].as_str().expect("a name").to_owned())
}

#[test]
fn an_invalid_body_is_refused() {
    let node = Node::new();
    let mut client = node.client();
    for (path, body, status) in [
        ("/v1/accounts", json!({}), 400),
        ("/v1/accounts", json!({ "addresses": "x" }), 400),
        ("/v1/accounts", json!({ "addresses": [1] }), 400),
        ("/v1/accounts", json!([]), 400),
        ("/v1/transactions", json!({ "transaction": "AAAA" }), 400),
        ("/v1/transactions/simulate", json!({ "transaction": "****" }), 400),
        ("/v1/supply", json!({}), 405),
        ("/v1/nothing", json!({}), 404),
    ] {
        let response = post(&mut client, path, &body);
        assert_eq!(api_error(&response).0, status, "{path} {body}: {}", response.body);
    }
    for (path, media, body, status, name) in [
        ("/v1/accounts", "text/plain", &b"{}"[..], 415, "unsupported_media_type"),
        ("/v1/accounts", "application/octet-stream", b"{}", 415, "unsupported_media_type"),
        ("/v1/transactions", "text/plain", b"{}", 415, "unsupported_media_type"),
        ("/v1/accounts", "application/json", b"{", 400, "invalid_params"),
        ("/v1/accounts", "application/json; charset=utf-8", b"\xff", 400, "invalid_params"),
        ("/v1/transactions", "application/octet-stream", b"\x01", 400, "invalid_params"),
    ] {
        let response = post_as(&mut client, path, media, body);
        assert_eq!(api_error(&response), (status, name.to_owned()), "{path} {media}");
    }
    let long = vec![b' '; rpc_solana::Config::default().body_bytes_max() + 1];
    let response = post_as(&mut client, "/v1/accounts", "application/json", &long);
    assert_eq!(api_error(&response), (413, "body_too_large".to_owned()));
    assert_eq!(response.header("connection"), Some("close"));
}

#[test]
fn methods_and_media_that_a_path_lacks_are_reported() {
    let node = Node::new();
    let mut client = node.client();
    let account = format!("/v1/accounts/{WALLET}");
    let reads = "GET, HEAD, OPTIONS";
    for (path, allow) in [
        ("/v1", reads),
        ("/v1/", reads),
        ("/v1/openapi.json", reads),
        (account.as_str(), reads),
        ("/v1/accounts", "GET, HEAD, OPTIONS, POST"),
        ("/v1/transactions", "OPTIONS, POST"),
        ("/v1/transactions/simulate", "OPTIONS, POST"),
    ] {
        for verb in ["DELETE", "PUT", "PATCH", "TRACE", "QUERY"] {
            let response = send_request(&mut client, verb, path, "");
            assert_eq!(
                api_error(&response),
                (405, "method_not_allowed".to_owned()),
                "{verb} {path}"
            );
            assert_eq!(response.header("allow"), Some(allow), "{path}");
        }
        let response = send_request(&mut client, "OPTIONS", path, "");
        assert_eq!((response.status, response.header("allow")), (204, Some(allow)), "{path}");
    }
    assert_eq!(api_error(&send_request(&mut client, "OPTIONS", "/v1/nothing", "")).0, 404);
    for (path, accept, status) in [
        (account.as_str(), "application/json", 200),
        (account.as_str(), "text/html, */*;q=0.1", 200),
        (account.as_str(), "application/octet-stream", 200),
        (account.as_str(), "text/csv", 406),
        ("/v1/supply", "application/octet-stream", 406),
        ("/v1/supply", "*/*;q=0", 406),
    ] {
        let response = get(&mut client, path, &format!("accept: {accept}\r\n"));
        assert_eq!(response.status, status, "{path} {accept}");
        if status == 406 {
            assert_eq!(api_error(&response).1, "not_acceptable");
        }
    }
}

#[test]
fn what_is_too_long_is_refused_before_it_is_parsed() {
    let node = Node::new();
    let account = format!("/v1/accounts/{WALLET}");
    let refuse = |path: &str, headers: &str, expected: (u16, &str), part: &str| {
        let response = get(&mut node.client(), path, headers);
        assert_eq!(api_error(&response), (expected.0, expected.1.to_owned()), "{}", response.body);
        let body = response.json();
        let message = body["error"]["message"].as_str().expect("words");
        assert!(message.contains(part), "{message}");
    };
    let commas = |count: usize| format!("/v1/accounts?addresses={}", ",".repeat(count));
    refuse(&commas(60), "", (400, "invalid_params"), "addresses[0] must be an address");
    let many = "1 to 100 addresses (rpc.multiple_accounts_max), not of 8001";
    refuse(&commas(8_000), "", (400, "invalid_params"), many);
    let long = "the URI has 10023 bytes, at most 8192 are allowed (rpc.uri_bytes_max)";
    refuse(&commas(10_000), "", (414, "uri_too_long"), long);
    let pairs = format!("{account}?{}", "&".repeat(8_000));
    let many = "the query has 8001 parameters, the maximum is 32";
    refuse(&pairs, "", (400, "invalid_params"), many);
    let tags: String = (0..400).map(|n| format!("\"{n:08}\", ")).collect();
    let long = "bytes, at most 4096 are allowed";
    for name in ["if-none-match", "accept", "accept-encoding"] {
        refuse(&account, &format!("{name}: {tags}\r\n"), (431, "header_too_long"), long);
    }
    refuse(&account, "content-encoding: gzip\r\n", (415, "unsupported_media_type"), "gzip");
    refuse(&account, "host: other\r\n", (400, "invalid_request"), "2 Host headers");
    // The requests of a cache are within these limits.
    let mut client = node.client();
    let etag = get(&mut client, &account, "").header("etag").expect("a tag").to_owned();
    let others: String = (0..100).map(|n| format!("\"{n:032x}\", ")).collect();
    let response = get(&mut client, &account, &format!("if-none-match: {others}{etag}\r\n"));
    assert_eq!(response.status, 304);
    let addresses = vec![WALLET.to_string(); 100].join(",");
    let response = get(&mut client, &format!("/v1/accounts?addresses={addresses}"), "");
    assert_eq!(response.status, 200, "{}", response.body);
}

#[test]
fn a_long_body_is_read_on_the_pool() {
    let node = Node::new();
    let mut client = node.client();
    let slices = || {
        // A task updates its last counters after its response was sent.
        node.world.wait_pool(|pool| pool.sum_over_classes(|class| class.active) == 0);
        node.world.class(cpu_pool::Class::Light).time_slices
    };
    let before = slices();
    let path = format!("/v1/programs/{PROGRAM}/accounts");
    let filters = json!({ "filters": vec![json!({ "dataSize": 1 }); 2_000] });
    assert!(filters.to_string().len() > 8 * 1024);
    let words = message(&post(&mut client, &path, &filters));
    assert_eq!(words, "filters must be a list of up to 4 filters, not of 2000");
    assert_eq!(slices() - before, 1);
    let deep = json!({ "filters": [{ "memcmp": { "offset": 0, "bytes": vec![0; 2_000] } }] });
    let words = message(&post(&mut client, &path, &deep));
    assert_eq!(words, "filters has 2004 values, the maximum is 1024");
    let addresses = json!({ "addresses": vec![WALLET.to_string(); 100] });
    let mut body = addresses.to_string().into_bytes();
    body.extend(vec![b' '; 10_000]);
    let before = slices();
    let response = post_as(&mut client, "/v1/accounts", "application/json", &body);
    assert_eq!(response.status, 200, "{}", response.body);
    assert!(slices() > before);
}

#[test]
fn a_page_of_an_origin_that_is_not_allowed_is_refused_in_the_one_shape() {
    let origins = ["https://app.example".to_owned()];
    let allowed_origins = http_server::AllowedOrigins::new(&origins).expect("an origin");
    let config = rpc_solana::Config { allowed_origins, ..rpc_solana::Config::default() };
    let node = Node::with_config(sample_ledger::ledger(query::IndexConfig::default()), config);
    let account = format!("/v1/accounts/{WALLET}");
    let response = get(&mut node.client(), &account, "origin: https://evil.example\r\n");
    assert_eq!(api_error(&response), (403, "origin_not_allowed".to_owned()));
    assert_eq!(response.header("access-control-allow-origin"), None);
    let mut client = node.client();
    for (origin, allowed) in
        [("origin: https://app.example\r\n", Some("https://app.example")), ("", None)]
    {
        let response = get(&mut client, &account, origin);
        assert_eq!(response.status, 200);
        assert_eq!(response.header("access-control-allow-origin"), allowed);
        // A cache must not serve the response for one origin to the other.
        let varies = |(name, value): &(String, String)| name == "vary" && value.contains("origin");
        assert!(response.headers.iter().any(varies), "{response:?}");
    }
}

#[test]
fn any_origin_may_send_requests() {
    let node = Node::new();
    let mut client = node.client();
    let preflight = "origin: http://there\r\naccess-control-request-method: GET\r\n\
                     access-control-request-headers: if-none-match\r\n";
    let response = send_request(&mut client, "OPTIONS", "/v1/supply", preflight);
    assert_eq!(response.status, 204);
    assert_eq!(response.header("access-control-allow-origin"), Some("*"));
    assert_eq!(response.header("access-control-allow-headers"), Some("if-none-match"));
    let allowed = response.header("access-control-allow-methods").expect("verbs");
    assert!(["GET", "HEAD", "POST"].iter().all(|verb| allowed.contains(verb)), "{allowed}");
    // A request without an origin gets the same, because a cache may serve it to a request with one.
    let cases = [("/v1/supply", 200), ("/v1/nothing", 404)];
    for ((path, status), origin) in
        cases.iter().flat_map(|it| ["", "origin: http://there\r\n"].map(|origin| (it, origin)))
    {
        let response = get(&mut client, path, origin);
        assert_eq!(response.status, *status);
        assert!(!response.headers.iter().any(|it| it.0 == "vary" && it.1.contains("origin")));
        assert_eq!(response.header("access-control-allow-origin"), Some("*"));
        // The headers that a script may read.
        assert_eq!(response.header("access-control-expose-headers"), Some("*"));
    }
}

#[test]
fn every_response_has_slot_and_commitment() {
    let node = Node::new();
    let mut client = node.client();
    let document = crate::get_json(&mut client, "/v1/openapi.json");
    let mut requests = 0;
    for (path, verbs) in document["paths"].as_object().expect("paths") {
        if verbs.get("get").is_none() || path.contains("{signature}") || path.contains("{slot}") {
            continue;
        }
        let address = if path.contains("mints") { MINT } else { PROGRAM };
        let address =
            if path.ends_with("{address}") || path.contains("owners") { WALLET } else { address };
        let mut path = path.replace("{address}", &address.to_string());
        if path == "/v1/accounts" {
            path += &format!("?addresses={WALLET},{MINT}");
        }
        let response = get(&mut client, &path, "");
        assert_eq!(response.status, 200, "{path}: {}", response.body);
        let (status, text) = head(&node, &path);
        assert_eq!(status, 200, "{path}");
        for name in ["hydrant-slot", "hydrant-commitment", "etag", "cache-control", "vary"] {
            let value = response.header(name).unwrap_or_else(|| panic!("{path}: {name}"));
            assert!(text.contains(&format!("{name}: {value}\r\n")), "{path}: {text}");
        }
        requests += 1;
    }
    assert!(requests >= 10, "{requests} routes");
}

#[test]
fn a_full_pool_is_reported_with_retry_after() {
    let mut config = cpu_pool::Config { threads: 1, ..cpu_pool::Config::default() };
    config.medium.tasks_max = 0;
    let reader = sample_ledger::ledger(query::IndexConfig::default());
    let node = Node::with_pool(reader, rpc_solana::Config::default(), config);
    let occupied = node.world.occupy_pool();
    let response = get(&mut node.client(), "/v1/supply", "");
    assert_eq!(response.status, 429, "{}", response.body);
    assert_eq!(response.header("retry-after"), Some("1"));
    assert_eq!(response.json()["error"]["name"], "too_busy");
    drop(occupied);
}

/// A node with these limits for each client.
fn node_with_client_limits(clients: clients::Limits) -> Node {
    let config = cpu_pool::Config { clients, ..cpu_pool::Config::default() };
    Node::with_pool(
        sample_ledger::ledger(query::IndexConfig::default()),
        rpc_solana::Config::default(),
        config,
    )
}

#[test]
fn every_request_counts_against_the_clients_share() {
    let account = format!("/v1/accounts/{WALLET}");
    for path in ["/v1/", "/v1/openapi.json", "/v1/nothing", account.as_str()] {
        let node = node_with_client_limits(clients::Limits { requests_per_s: 1, bytes_per_s: 0 });
        let mut client = node.client();
        // The limit is one request a second, so not all are admitted.
        let statuses: Vec<u16> = (0..50).map(|_| get(&mut client, path, "").status).collect();
        assert_ne!(statuses[0], 429, "{path}");
        assert!(statuses.contains(&429), "{path}: {statuses:?}");
    }
    let node = node_with_client_limits(clients::Limits { requests_per_s: 1, bytes_per_s: 0 });
    let mut client = node.client();
    let refused = |response: Response| response.status == 429;
    assert!((0..50).any(|_| refused(send_request(&mut client, "DELETE", &account, ""))), "405");
    let not_that = "accept: text/csv\r\n";
    assert!((0..50).any(|_| refused(get(&mut client, &account, not_that))), "406");
}

#[test]
fn only_sent_bytes_are_counted() {
    // The page has some ten kilobytes, far more than the limit of a second.
    let limits = clients::Limits { requests_per_s: 0, bytes_per_s: 100 };
    let node = node_with_client_limits(limits);
    for _ in 0..3 {
        assert_eq!(head(&node, "/v1/").0, 200, "the body was not sent");
    }
    let mut client = node.client();
    assert_eq!(get(&mut client, "/v1/", "").status, 200);
    assert_eq!(get(&mut client, "/v1/", "").status, 429);
    let node = node_with_client_limits(limits);
    let mut client = node.client();
    assert_eq!(get(&mut client, "/v1/openapi.json", "").status, 200);
    assert_eq!(get(&mut client, "/v1/nothing", "").status, 429);
}
