//! Transactions of an address: order, bounds, pages, filters.
//!
//! Not here: the token accounts of the address (`crates/hydrant/tests/it/methods/transactions.rs`).

use serde_json::{Value, json};
use solana_signature::Signature;
use solana_signer::Signer;

use super::world::{GENESIS_TIME, World, keypair};

const METHOD: &str = "getTransactionsForAddress";

fn payer() -> String {
    keypair(10).pubkey().to_string()
}

fn slots(page: &Value) -> Vec<u64> {
    let data = page["data"].as_array().expect("a list");
    data.iter().map(|entry| entry["slot"].as_u64().expect("a slot")).collect()
}

fn found(world: &World, config: Value) -> Vec<u64> {
    slots(&world.ok(METHOD, json!([payer(), config])))
}

#[test]
fn an_addresss_transactions_come_in_either_order() {
    let world = World::new();
    assert_eq!(slots(&world.ok(METHOD, json!([payer()]))), [45, 44, 43, 42]);
    assert_eq!(found(&world, json!({"sortOrder": "asc"})), [42, 43, 44, 45]);
    assert_eq!(found(&world, json!({"commitment": "confirmed", "limit": 2})), [60, 45]);
    // An address that only a lookup table contains is found, too. An address in no transaction is not.
    let of = |number| world.ok(METHOD, json!([keypair(number).pubkey().to_string()]));
    assert_eq!(slots(&of(30)), [44]);
    assert_eq!(of(99), json!({"data": [], "paginationToken": null}));
    let memo = json!({"signature": world.signature("memo"), "slot": 42, "err": null,
                      "memo": "[5] hello", "blockTime": GENESIS_TIME + 168,
                      "confirmationStatus": "finalized", "transactionIndex": 1});
    let oldest = world.ok(METHOD, json!([payer(), {"sortOrder": "asc", "limit": 1}]));
    assert_eq!(oldest, json!({"data": [memo], "paginationToken": "42:1"}));
}

#[test]
fn slots_times_and_signatures_bound_a_page() {
    let world = World::new();
    let filtered = |filters: Value| found(&world, json!({"filters": filters}));
    let time = |slot: i64| GENESIS_TIME + 4 * slot;
    for (bounds, expected) in [
        (json!({"gt": 43}), vec![45, 44]),
        (json!({"gte": 43}), vec![45, 44, 43]),
        (json!({"lt": 43}), vec![42]),
        (json!({"lte": 43}), vec![43, 42]),
        (json!({"gt": 42, "lt": 45}), vec![44, 43]),
        (json!({"eq": 44}), vec![44]),
        (json!({"gt": u64::MAX}), vec![]),
        (json!({"lte": u64::MAX}), vec![45, 44, 43, 42]),
    ] {
        assert_eq!(filtered(json!({"slot": bounds})), expected, "{bounds}");
    }
    for (bounds, expected) in [
        (json!({"gt": time(43)}), vec![45, 44]),
        (json!({"gte": time(43)}), vec![45, 44, 43]),
        // A time between those of two blocks.
        (json!({"gte": time(43) + 1}), vec![45, 44]),
        (json!({"lt": time(43)}), vec![42]),
        (json!({"lte": time(43)}), vec![43, 42]),
        (json!({"eq": time(44)}), vec![44]),
        (json!({"eq": time(44) + 1}), vec![]),
        (json!({"gte": i64::MIN, "lte": i64::MAX}), vec![45, 44, 43, 42]),
    ] {
        assert_eq!(filtered(json!({"blockTime": bounds})), expected, "{bounds}");
    }
    let failed = world.signature("failed");
    for (bounds, expected) in [
        (json!({"gt": failed}), vec![45, 44]),
        (json!({"gte": failed}), vec![45, 44, 43]),
        (json!({"lt": failed}), vec![42]),
        (json!({"lte": failed}), vec![43, 42]),
    ] {
        assert_eq!(filtered(json!({"signature": bounds})), expected, "{bounds}");
    }
    assert_eq!(filtered(json!({"slot": {"gt": 42}, "status": "succeeded"})), [45, 44]);
    assert_eq!(filtered(json!({"status": "failed"})), [43]);
    assert_eq!(filtered(json!({"status": "any", "tokenAccounts": "none"})), [45, 44, 43, 42]);
}

#[test]
fn before_and_until_slots_bound_a_page() {
    let world = World::new();
    for (config, expected) in [
        (json!({"beforeSlot": 45}), vec![44, 43, 42]),
        (json!({"untilSlot": 42}), vec![45, 44, 43]),
        (json!({"untilSlot": 42, "beforeSlot": 45}), vec![44, 43]),
        (json!({"untilSlot": 44, "beforeSlot": 43}), vec![]),
        (json!({"untilSlot": u64::MAX}), vec![]),
        (json!({"beforeSlot": 45, "filters": {"slot": {"gt": 42}}}), vec![44, 43]),
        (json!({"untilSlot": 42, "filters": {"slot": {"lte": 44}}}), vec![44, 43]),
    ] {
        assert_eq!(found(&world, config.clone()), expected, "{config}");
    }
}

#[test]
fn an_unknown_request_member_is_refused_by_name() {
    let world = World::new();
    for name in ["before", "until", "beforeSignature", "sortorder", "filter"] {
        let err = world.call(METHOD, &json!([payer(), { (name): 1 }])).expect_err("it is unknown");
        assert_eq!(err.code, -32602, "{name}");
        assert!(err.message.contains(&format!("unknown field `{name}`")), "{}", err.message);
    }
}

#[test]
fn a_limit_above_the_maximum_is_lowered_to_it() {
    let world = World::new();
    assert_eq!(found(&world, json!({"limit": 5_000})), [45, 44, 43, 42]);
    let config = json!({"limit": 1_000, "transactionDetails": "full",
                        "maxSupportedTransactionVersion": 0});
    assert_eq!(found(&world, config), [45, 44, 43, 42]);
    assert_eq!(found(&world, json!({"filters": {"status": "all"}})), [45, 44, 43, 42]);
}

#[test]
fn a_signature_continues_a_page_of_transactions() {
    let world = World::new();
    let failed = world.signature("failed");
    let after = |order: &str| json!({"sortOrder": order, "paginationToken": failed});
    assert_eq!(found(&world, after("desc")), [42]);
    assert_eq!(found(&world, after("asc")), [44, 45]);
}

#[test]
fn a_token_continues_a_page_of_transactions() {
    let world = World::new();
    for (order, expected) in [("asc", vec![42, 43, 44, 45]), ("desc", vec![45, 44, 43, 42])] {
        let mut all = Vec::new();
        let mut token = Value::Null;
        loop {
            let config = json!({"sortOrder": order, "limit": 3, "paginationToken": token});
            let page = world.ok(METHOD, json!([payer(), config]));
            all.extend(slots(&page));
            token = page["paginationToken"].clone();
            if token.is_null() {
                break;
            }
            assert_eq!(all.len(), 3);
        }
        assert_eq!(all, expected);
    }
}

#[test]
fn whole_transactions_equal_get_transactions_results() {
    let world = World::new();
    let config = json!({"transactionDetails": "full", "encoding": "base64",
                        "maxSupportedTransactionVersion": 0});
    let page = world.ok(METHOD, json!([payer(), config]));
    let config = json!({"encoding": "base64", "maxSupportedTransactionVersion": 0});
    let one = |name: &str| world.ok("getTransaction", json!([world.signature(name), config]));
    assert_eq!(page["data"], json!(["priced", "lookup", "failed", "memo"].map(one)));
    assert_eq!(page["paginationToken"], Value::Null);
    // Only legacy transactions are requested.
    let config = json!({"transactionDetails": "full", "filters": {"slot": {"gt": 44}}});
    let page = world.ok(METHOD, json!([payer(), config]));
    assert_eq!(
        page["data"],
        json!([world.ok("getTransaction", json!([world.signature("priced")]))])
    );
    let message = "Transaction version (0) is not supported by the requesting client. Please try \
                   the request again with the following configuration parameter: \
                   \"maxSupportedTransactionVersion\": 0";
    let config = json!({"transactionDetails": "full"});
    world.check_refusal(METHOD, json!([payer(), config]), -32015, message);
}

#[test]
fn invalid_transaction_lists_are_refused_with_a_reason() {
    let world = World::new();
    let unknown = Signature::from([5; 64]).to_string();
    let processed = "Method does not support commitment below `confirmed`".to_owned();
    let token = "Invalid param: paginationToken is neither `slot:position` nor a signature";
    let token = token.to_owned();
    for (config, code, message) in [
        (json!({"limit": 0}), -32602, "Invalid limit; min 1".to_owned()),
        (json!({"commitment": "processed"}), -32602, processed),
        (json!({"paginationToken": "42"}), -32602, token.clone()),
        (json!({"paginationToken": "42:-1"}), -32602, token),
        (
            json!({"filters": {"signature": {"gt": unknown}}}),
            -32020,
            format!("Transaction {unknown} not found"),
        ),
    ] {
        world.check_refusal(METHOD, json!([payer(), config]), code, &message);
    }
    for config in [
        json!({"filters": {"slots": {}}}),
        json!({"filters": {"slot": {"above": 1}}}),
        json!({"filters": {"status": "fine"}}),
        json!({"sortOrder": "up"}),
        json!({"commitment": "certain"}),
        json!({"beforeSlot": 45, "filters": {"slot": {"lt": 44}}}),
        json!({"beforeSlot": 45, "filters": {"slot": {"lte": 44}}}),
        json!({"untilSlot": 42, "filters": {"slot": {"gt": 43}}}),
        json!({"untilSlot": 42, "filters": {"slot": {"gte": 43}}}),
    ] {
        let err = world.call(METHOD, &json!([payer(), config])).expect_err("it is not valid");
        assert_eq!(err.code, -32602, "{config}: {}", err.message);
    }
}
