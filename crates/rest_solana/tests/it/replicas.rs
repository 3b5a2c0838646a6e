//! A client that comes from another node of the same chain: its `ETag`s and page cursors are never mistaken for those
//! of this node.

use solana_account::AccountSharedData;
use solana_pubkey::Pubkey;
use testkit::sample_ledger::PROGRAM;
use testkit::test_ledger::{TestLedger, TestLedgerConfig, block_info};

use crate::{Node, get};

const ACCOUNTS: u8 = 20;

/// Two nodes with the same accounts at slot 1. Each has seen them in another order, as nodes do that load a snapshot.
struct Replicas {
    ledgers: [TestLedger; 2],
    nodes: [Node; 2],
}

impl Replicas {
    fn start() -> Self {
        let ledgers = [false, true].map(|is_reversed| {
            let mut order: Vec<u8> = (0..ACCOUNTS).collect();
            if is_reversed {
                order.reverse();
            }
            let mut ledger =
                TestLedger::new(block_info(0), Vec::new(), TestLedgerConfig::default());
            ledger.open(1);
            ledger.write(order.into_iter().map(|n| (key(n), Some(account(n)))).collect());
            ledger.complete();
            ledger.confirm();
            ledger
        });
        // A list of these accounts is too long to be hashed, and to be cached.
        let nodes =
            [0, 1].map(|at: usize| Node::with_etag_buffer(ledgers[at].reader().clone(), 400, 0));
        Self { ledgers, nodes }
    }
}

fn key(n: u8) -> Pubkey {
    Pubkey::new_from_array([100 + n; 32])
}

fn account(n: u8) -> AccountSharedData {
    let mut account = AccountSharedData::new(1, 0, &PROGRAM);
    account.set_data_from_slice(&[n; 50]);
    account
}

#[test]
fn an_etag_of_another_node_is_not_taken_for_one_of_this() {
    let mut replicas = Replicas::start();
    let list = format!("/v1/programs/{PROGRAM}/accounts?commitment=confirmed");
    let [first, second] = &replicas.nodes;
    let response = get(&mut first.client(), &list, "");
    let etag = response.header("etag").expect("an ETag").to_owned();
    let known = format!("if-none-match: {etag}\r\n");
    assert_eq!(get(&mut first.client(), &list, &known).status, 304);
    // Twice: the second time the request is remembered.
    for _ in 0..2 {
        let other = get(&mut second.client(), &list, &known);
        assert_eq!(other.status, 200);
        assert_ne!(other.header("etag"), Some(etag.as_str()));
    }
    // The `ETag` of a short response is that of its bytes, so it is true on every node.
    let one = format!("/v1/accounts/{}?commitment=confirmed&encoding=base64", key(3));
    let one = format!("{one}&dataOffset=0&dataLength=1");
    let etag = get(&mut first.client(), &one, "").header("etag").expect("an ETag").to_owned();
    let known = format!("if-none-match: {etag}\r\n");
    assert_eq!(get(&mut second.client(), &one, "").header("etag"), Some(etag.as_str()));
    assert_eq!(get(&mut second.client(), &one, &known).status, 304);
    replicas.ledgers[1].open(2);
    replicas.ledgers[1].write(vec![(key(3), Some(account(9)))]);
    replicas.ledgers[1].complete();
    replicas.ledgers[1].confirm();
    let [_, second] = &replicas.nodes;
    assert_eq!(get(&mut second.client(), &one, &known).status, 200, "it has changed there");
}

#[test]
fn a_page_cursor_of_another_node_is_refused_by_name() {
    let replicas = Replicas::start();
    let [first, second] = &replicas.nodes;
    let list = format!("/v1/programs/{PROGRAM}/accounts?commitment=confirmed&limit=5");
    let page = get(&mut first.client(), &list, "").json();
    let cursor = page["paginationKey"].as_str().expect("there are more").to_owned();
    let next = format!("{list}&cursor={cursor}");
    assert_eq!(get(&mut first.client(), &next, "").status, 200);
    let refused = get(&mut second.client(), &next, "");
    assert_eq!(refused.status, 400, "{}", refused.body);
    let message = refused.json()["error"]["message"].to_string();
    assert!(message.contains("this page cursor was made by another node"), "{message}");
}
