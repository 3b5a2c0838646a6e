//! Every kind of subscription at every commitment: its notifications, their order, and their JSON.

use chain_solana::{LedgerEvent, Vote};
use serde_json::{Value, json};
use solana_hash::Hash;
use solana_program_pack::Pack;
use solana_transaction_error::TransactionError;
use spl_token_interface::state::{Account as Token, AccountState, Mint};

use super::node::{Client, Node, Tx, account, key, signature};

const COMMITMENTS: [&str; 3] = ["processed", "confirmed", "finalized"];

/// Subscribes at each commitment. Returns the ids in that order.
async fn subscribe_at_each(client: &mut Client, kind: &str, filter: Value) -> Vec<u64> {
    let mut ids = Vec::new();
    for commitment in COMMITMENTS {
        ids.push(client.subscribe(kind, json!([filter, { "commitment": commitment }])).await);
    }
    ids
}

fn ids(notifications: &[Value]) -> Vec<u64> {
    notifications
        .iter()
        .map(|notification| notification["params"]["subscription"].as_u64().expect("an id"))
        .collect()
}

fn result(notification: &Value) -> &Value {
    &notification["params"]["result"]
}

#[tokio::test]
async fn an_account_is_sent_once_a_slot_at_each_commitment() {
    let mut node = Node::start(Default::default()).await;
    let mut client = node.connect().await;
    node.write(1, 5);
    let subscribed = subscribe_at_each(&mut client, "account", json!(key(1).to_string())).await;
    assert!(node.notifications(&mut client).await.is_empty(), "no snapshot");

    let slot = node.open();
    for lamports in [6, 7] {
        let writes = vec![(key(1), account(lamports, key(9), b"data"))];
        node.execute(Tx { writes, ..Tx::new(2) });
    }
    assert!(node.notifications(&mut client).await.is_empty(), "the block is open");
    node.complete();
    let notifications = node.notifications(&mut client).await;
    assert_eq!(ids(&notifications), subscribed[..2]);
    assert_eq!(
        *result(&notifications[0]),
        json!({ "context": { "slot": slot }, "value": {
            "lamports": 7, "data": "3ZpVkU", "owner": key(9).to_string(), "executable": false,
            "rentEpoch": 0, "space": 4,
        }}),
        "the encoding is `binary`, the context has no version"
    );
    assert_eq!(result(&notifications[0]), result(&notifications[1]));

    node.finalize();
    let notifications = node.notifications(&mut client).await;
    assert_eq!(notifications.len(), 1, "the first block");
    assert_eq!(result(&notifications[0])["context"]["slot"], slot - 1);
    assert_eq!(result(&notifications[0])["value"]["lamports"], 5);
    node.open();
    node.complete();
    node.finalize();
    node.finalize();
    let notifications = node.notifications(&mut client).await;
    assert_eq!(
        ids(&notifications),
        subscribed[2..],
        "nothing is sent for a block that does not change it"
    );
    assert_eq!(result(&notifications[0])["context"]["slot"], slot);
}

#[tokio::test]
async fn members_come_in_agaves_order() {
    let mut node = Node::start(Default::default()).await;
    let mut client = node.connect().await;
    let params = json!([key(1).to_string(), { "encoding": "base64", "commitment": "confirmed" }]);
    client.subscribe("account", params).await;
    node.write(1, 5);
    let text = client.message().await.expect("it comes").expect("it is text");
    let owner = key(200);
    let expected = format!(
        r#"{{"jsonrpc":"2.0","method":"accountNotification","params":{{"result":{{"context":{{"slot":1}},"value":{{"lamports":5,"data":["AQ==","base64"],"owner":"{owner}","executable":false,"rentEpoch":0,"space":1}}}},"subscription":1}}}}"#
    );
    assert_eq!(text.as_str(), expected);
}

#[tokio::test]
async fn a_closed_account_is_sent_as_an_empty_one() {
    let mut node = Node::start(Default::default()).await;
    let mut client = node.connect().await;
    let params = json!([key(1).to_string(), { "encoding": "base64", "commitment": "processed" }]);
    client.subscribe("account", params).await;
    let params = json!([key(9).to_string(), { "encoding": "base64", "commitment": "processed" }]);
    client.subscribe("program", params).await;
    node.block(Tx { writes: vec![(key(1), account(5, key(9), &[1]))], ..Tx::new(1) });
    assert_eq!(node.notifications(&mut client).await.len(), 2);
    node.block(Tx { writes: vec![(key(1), None)], ..Tx::new(2) });
    let notifications = node.notifications(&mut client).await;
    assert_eq!(notifications.len(), 1, "the program's subscription gets nothing");
    assert_eq!(
        result(&notifications[0])["value"],
        json!({
            "lamports": 0, "data": ["", "base64"], "owner": "11111111111111111111111111111111",
            "executable": false, "rentEpoch": 0, "space": 0,
        })
    );
}

#[tokio::test]
async fn encodings_are_those_requested() {
    let mut node = Node::start(Default::default()).await;
    let mut client = node.connect().await;
    let pubkey = key(1).to_string();
    for encoding in ["base58", "base64", "base64+zstd", "jsonParsed", "binary"] {
        let config = json!({ "encoding": encoding, "commitment": "confirmed" });
        client.subscribe("account", json!([pubkey, config])).await;
    }
    let sliced = json!({ "encoding": "base64", "commitment": "confirmed",
        "dataSlice": { "offset": 0, "length": 1 }, "minContextSlot": 1_000_000 });
    let sliced = client.subscribe("account", json!([pubkey, sliced])).await;
    let long = json!([key(2).to_string(), { "commitment": "confirmed" }]);
    let long = client.subscribe("account", long).await;
    let writes =
        vec![(key(1), account(5, key(9), b"test data")), (key(2), account(5, key(9), &[1; 129]))];
    node.block(Tx { writes, ..Tx::new(1) });
    let mut notifications = node.notifications(&mut client).await;
    notifications.sort_by_key(|notification| notification["params"]["subscription"].as_u64());
    let data: Vec<_> = notifications
        .iter()
        .map(|notification| result(notification)["value"]["data"].clone())
        .collect();
    let expected = [
        json!(["2Uw1bpnsXxu3e", "base58"]),
        json!(["dGVzdCBkYXRh", "base64"]),
        json!(["KLUv/QBYSQAAdGVzdCBkYXRh", "base64+zstd"]),
        json!(["dGVzdCBkYXRh", "base64"]),
        json!("2Uw1bpnsXxu3e"),
        json!(["dGVzdCBkYXRh", "base64"]),
        json!("error: data too large for bs58 encoding"),
    ];
    assert_eq!(data, expected, "a slice makes another subscription and does not cut");
    assert_eq!((sliced, long), (6, 7));
}

#[tokio::test]
async fn a_slice_cuts_where_the_node_is_configured_so() {
    let config = rpc_solana::pubsub::Config { apply_data_slice: true, ..Default::default() };
    let mut node = Node::start(config).await;
    let mut client = node.connect().await;
    let sliced = json!({ "encoding": "base64", "commitment": "confirmed",
        "dataSlice": { "offset": 5, "length": 100 } });
    client.subscribe("account", json!([key(1).to_string(), sliced])).await;
    node.block(Tx { writes: vec![(key(1), account(5, key(9), b"test data"))], ..Tx::new(1) });
    let notifications = node.notifications(&mut client).await;
    assert_eq!(result(&notifications[0])["value"]["data"], json!(["ZGF0YQ==", "base64"]));
    assert_eq!(result(&notifications[0])["value"]["space"], 9);
}

#[tokio::test]
async fn a_program_subscription_gets_each_account_that_changed() {
    let mut node = Node::start(Default::default()).await;
    let mut client = node.connect().await;
    let subscribed = subscribe_at_each(&mut client, "program", json!(key(9).to_string())).await;
    let filters = json!([{ "dataSize": 2 }, { "memcmp": { "offset": 1, "bytes": [4] } }]);
    let config = json!({ "commitment": "processed", "encoding": "base64", "filters": filters });
    let filtered = client.subscribe("program", json!([key(9).to_string(), config])).await;
    let writes = vec![
        (key(1), account(5, key(9), &[3, 4])),
        (key(2), account(6, key(9), &[4, 3])),
        (key(3), account(7, key(8), &[3, 4])),
    ];
    let slot = node.block(Tx { writes, ..Tx::new(1) });
    let notifications = node.notifications(&mut client).await;
    let by_id = |id: u64| -> Vec<_> {
        notifications
            .iter()
            .filter(|notification| notification["params"]["subscription"] == id)
            .map(result)
            .collect()
    };
    for id in &subscribed[..2] {
        let notifications = by_id(*id);
        assert_eq!(notifications.len(), 2);
        assert_eq!(notifications[1]["value"]["pubkey"], key(2).to_string());
    }
    let value = json!({ "pubkey": key(1).to_string(), "account": {
        "lamports": 5, "data": ["AwQ=", "base64"], "owner": key(9).to_string(),
        "executable": false, "rentEpoch": 0, "space": 2,
    }});
    assert_eq!(by_id(filtered), [&json!({ "context": { "slot": slot }, "value": value })]);
    node.finalize();
    assert_eq!(ids(&node.notifications(&mut client).await), [subscribed[2], subscribed[2]]);
}

fn token(mint: u8) -> Vec<u8> {
    let mut data = vec![0; Token::LEN];
    let token = Token {
        mint: key(mint),
        owner: key(7),
        amount: 150,
        state: AccountState::Initialized,
        ..Default::default()
    };
    Token::pack(token, &mut data).expect("it fits");
    data
}

#[tokio::test]
async fn token_accounts_are_parsed_with_their_mints_decimals() {
    let mut node = Node::start(Default::default()).await;
    let mut client = node.connect().await;
    let program = spl_token_interface::id();
    let config = json!({ "commitment": "confirmed", "encoding": "jsonParsed" });
    let of_account = client.subscribe("account", json!([key(1).to_string(), config])).await;
    let of_program = client.subscribe("program", json!([program.to_string(), config])).await;
    let mut mint = vec![0; Mint::LEN];
    let state = Mint { decimals: 2, is_initialized: true, supply: 150, ..Default::default() };
    Mint::pack(state, &mut mint).expect("it fits");
    let writes = vec![
        (key(5), account(1, program, &mint)),
        (key(1), account(1, program, &token(5))),
        (key(2), account(1, program, &[1, 2, 3])),
        (key(3), account(1, program, &token(6))),
    ];
    node.block(Tx { writes, ..Tx::new(1) });
    let notifications = node.notifications(&mut client).await;
    assert_eq!(
        ids(&notifications),
        [of_account, of_program, of_program],
        "accounts that are no tokens are left out"
    );
    let parsed = &result(&notifications[0])["value"]["data"]["parsed"];
    assert_eq!(parsed["info"]["tokenAmount"]["uiAmountString"], "1.5");
    assert_eq!(parsed["type"], "account");
    assert_eq!(result(&notifications[1])["value"]["account"]["data"]["parsed"]["type"], "mint");
    assert_eq!(result(&notifications[2])["value"]["pubkey"], key(1).to_string());
}

#[tokio::test]
async fn logs_are_sent_for_all_for_votes_or_for_a_mentioned_address() {
    let mut node = Node::start(Default::default()).await;
    let mut client = node.connect().await;
    let plain = subscribe_at_each(&mut client, "logs", json!("all")).await;
    let votes = subscribe_at_each(&mut client, "logs", json!("allWithVotes")).await;
    let named =
        subscribe_at_each(&mut client, "logs", json!({ "mentions": [key(1).to_string()] })).await;
    let slot = node.open();
    let failed = Some(TransactionError::AccountNotFound);
    let keys = &[key(4), key(1), key(1)][..];
    node.execute(Tx { keys, logs: &["a", "b"], err: failed, ..Tx::new(1) });
    node.execute(Tx { keys: &[key(2)], is_vote: true, ..Tx::new(2) });
    node.execute(Tx { keys: &[key(3)], ..Tx::new(3) });
    assert!(node.notifications(&mut client).await.is_empty(), "the block is open");
    node.complete();
    let notifications = node.notifications(&mut client).await;
    let signatures = |notifications: &[Value], id: u64| -> Vec<_> {
        notifications
            .iter()
            .filter(|notification| notification["params"]["subscription"] == id)
            .map(|notification| {
                result(notification)["value"]["signature"].as_str().unwrap_or("").to_owned()
            })
            .collect()
    };
    let names =
        |numbers: &[u8]| -> Vec<_> { numbers.iter().map(|n| signature(*n).to_string()).collect() };
    for level in 0..2 {
        assert_eq!(signatures(&notifications, plain[level]), names(&[1, 3]));
        assert_eq!(signatures(&notifications, votes[level]), names(&[1, 2, 3]));
        assert_eq!(
            signatures(&notifications, named[level]),
            names(&[1]),
            "once, though named twice"
        );
    }
    let first = notifications
        .iter()
        .find(|notification| notification["params"]["subscription"] == named[0]);
    assert_eq!(
        *result(first.expect("it was sent")),
        json!({ "context": { "slot": slot }, "value": {
            "signature": signature(1).to_string(), "err": "AccountNotFound", "logs": ["a", "b"],
        }})
    );
    node.finalize();
    let notifications = node.notifications(&mut client).await;
    assert_eq!(signatures(&notifications, plain[2]), names(&[1, 3]));
    assert_eq!(signatures(&notifications, votes[2]), names(&[1, 2, 3]));
    assert_eq!(signatures(&notifications, named[2]), names(&[1]));
    assert_eq!(notifications.len(), 6);
}

#[tokio::test]
async fn slots_roots_votes_and_updates_are_sent() {
    let mut node = Node::start(Default::default()).await;
    let mut client = node.connect().await;
    let slot = client.subscribe("slot", json!([])).await;
    let root = client.subscribe("root", json!([])).await;
    let vote = client.subscribe("vote", json!([])).await;
    let updates = client.subscribe("slotsUpdates", json!([])).await;
    node.open();
    let failed = Some(TransactionError::AccountNotFound);
    node.execute(Tx { err: failed, ..Tx::new(1) });
    node.execute(Tx::new(2));
    node.complete();
    let voted = Vote {
        vote_pubkey: key(1),
        slots: vec![1],
        hash: Hash::new_from_array([2; 32]),
        timestamp: Some(9),
        signature: signature(3),
    };
    node.send_event(&LedgerEvent::Voted([voted].into()));
    node.finalize();
    let mut notifications = Vec::new();
    for _ in 0..8 {
        notifications.push(client.notification().await["params"].take());
    }
    let expected = [
        (slot, json!({ "slot": 1, "parent": 0, "root": 0 })),
        (updates, json!({ "type": "createdBank", "slot": 1, "parent": 0, "timestamp": 1 })),
        (updates, json!({ "type": "completed", "slot": 1, "timestamp": 2 })),
        (
            updates,
            json!({ "type": "frozen", "slot": 1, "timestamp": 2, "stats": {
                "numTransactionEntries": 2, "numSuccessfulTransactions": 1,
                "numFailedTransactions": 1, "maxTransactionsPerEntry": 1,
            }}),
        ),
        (updates, json!({ "type": "optimisticConfirmation", "slot": 1, "timestamp": 2 })),
        (
            vote,
            json!({
                "votePubkey": key(1).to_string(), "slots": [1],
                "hash": Hash::new_from_array([2; 32]).to_string(), "timestamp": 9,
                "signature": signature(3).to_string(),
            }),
        ),
        (updates, json!({ "type": "root", "slot": 1, "timestamp": 3 })),
        (root, json!(1)),
    ];
    let expected: Vec<_> = expected
        .into_iter()
        .map(|(id, result)| json!({ "result": result, "subscription": id }))
        .collect();
    assert_eq!(notifications, expected);
}

#[tokio::test]
async fn blocks_are_sent_when_confirmed_and_when_finalized() {
    let mut node = Node::start(Default::default()).await;
    let mut client = node.connect().await;
    let signatures = json!({ "transactionDetails": "signatures", "commitment": "confirmed" });
    let all = client.subscribe("block", json!(["all", signatures])).await;
    let mentions = json!({ "mentionsAccountOrProgram": key(1).to_string() });
    let named = client.subscribe("block", json!([mentions, signatures])).await;
    let none = json!({ "transactionDetails": "none" });
    let finalized = client.subscribe("block", json!(["all", none])).await;
    node.open();
    node.execute(Tx { keys: &[key(1)], ..Tx::new(1) });
    node.execute(Tx::new(2));
    node.complete();
    node.block(Tx::new(3));
    let notifications = node.notifications(&mut client).await;
    assert_eq!(ids(&notifications), [all, named, all], "no block that does not name it");
    let of = |notification: &Value| result(notification)["value"]["block"]["signatures"].clone();
    let one = signature(1).to_string();
    let two = signature(2).to_string();
    assert_eq!(of(&notifications[0]), json!([one, two]));
    assert_eq!(of(&notifications[1]), json!([one]));
    node.finalize();
    let notifications = node.notifications(&mut client).await;
    assert_eq!(ids(&notifications), [finalized]);
    let hash = |n| Hash::new_from_array([n; 32]).to_string();
    assert_eq!(
        *result(&notifications[0]),
        json!({ "context": { "slot": 1 }, "value": { "slot": 1, "err": null, "block": {
            "previousBlockhash": hash(0), "blockhash": hash(1), "parentSlot": 0,
            "blockTime": 1, "blockHeight": 1,
        }}})
    );
}
