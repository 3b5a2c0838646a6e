//! Long lists: in parts, with the length in front, and while the client does not read.

use std::sync::atomic::Ordering;

use futures_util::StreamExt;
use kaspa::{
    AddressPayload, Encoding, Hash, KaspaAddress, Method, Outpoint, Prefix, ScriptPublicKey,
    UtxoChanges, UtxoEntry,
};
use rpc_kaspa::Settings;
use serde_json::{Value, json};
use testkit::kaspa_chain::{address, pay, to_address_utxo};
use tokio_tungstenite::tungstenite::Message;

use crate::world::{World, config};
use crate::wrpc_client::{Content, encode_json};

/// UTXOs of the long list: 15 parts in Borsh, 30 in JSON.
const UTXOS: u32 = 6_000;

/// Many UTXOs of one address, and some of two others.
fn long_set() -> Vec<(Outpoint, UtxoEntry)> {
    let utxo = |number: u32, payload: AddressPayload| {
        let mut transaction_id = Hash([3; 32]);
        transaction_id.0[..4].copy_from_slice(&number.to_le_bytes());
        let entry = UtxoEntry {
            amount: u64::from(number) + 1,
            script_public_key: ScriptPublicKey::from_payload(&payload),
            block_daa_score: 0,
            is_coinbase: number.is_multiple_of(2),
            covenant_id: number.is_multiple_of(5).then_some(Hash([4; 32])),
        };
        (Outpoint { transaction_id, index: number % 7 }, entry)
    };
    let many = (0..UTXOS).map(|number| utxo(number, address(1).payload));
    let others = [address(2).payload, AddressPayload::EcdsaPublicKey([2; 33])];
    let some = (UTXOS..).zip(others).map(|(number, payload)| utxo(number, payload));
    many.chain(some).collect()
}

fn ecdsa() -> KaspaAddress {
    KaspaAddress { prefix: Prefix::Simnet, payload: AddressPayload::EcdsaPublicKey([2; 33]) }
}

#[tokio::test]
async fn a_long_list_is_whole_in_both_encodings() {
    let set = long_set();
    let world = World::with_utxos(set.clone());
    let mut expected: Vec<_> =
        set.iter().map(|(outpoint, entry)| to_address_utxo(*outpoint, entry)).collect();
    expected.sort_by_key(|utxo| utxo.outpoint);
    for encoding in Encoding::ALL {
        let mut client = world.connect(encoding).await;
        let found = client.utxos(&[address(2), address(1), ecdsa(), address(1)]).await;
        assert_eq!(found.len(), expected.len());
        assert!(found == expected, "{encoding:?}");
    }
}

#[tokio::test]
async fn a_list_is_read_from_one_state_while_blocks_are_added() {
    let mut world = World::with_utxos(long_set());
    // Some 10 KB fit into the socket, so most parts are made after the change.
    let mut client = world.connect_with_buffer(Encoding::Borsh, 8 * 1024).await;
    let id = client.allocate_id();
    client.send(Method::GetUtxosByAddresses.encode_borsh_addresses(id, &[address(1)])).await;
    while world.server.stats().unwritten_bytes == 0 {
        tokio::task::yield_now().await;
    }
    let spent: Vec<Outpoint> =
        world.chain.list_utxos(&address(1)).iter().map(|utxo| utxo.outpoint).collect();
    world.chain.add_block(&spent[..100], &[pay(3, 1)]);
    world.publish();
    let reply = client.receive_reply().await;
    let content = match kaspa::BorshServerMessage::parse(&reply) {
        Ok(kaspa::BorshServerMessage::Reply(reply)) => reply.result.expect("a list").to_vec(),
        other => panic!("{other:?}"),
    };
    assert_eq!(client.decode_utxos(&content).len(), spent.len());
}

#[tokio::test]
async fn other_clients_are_served_while_one_does_not_read_its_list() {
    let world = World::with_utxos(long_set());
    let mut slow = world.connect_with_buffer(Encoding::Borsh, 4 * 1024).await;
    let id = slow.allocate_id();
    slow.send(Method::GetUtxosByAddresses.encode_borsh_addresses(id, &[address(1)])).await;
    let mut other = world.connect(Encoding::Json).await;
    for _ in 0..10 {
        assert_eq!(other.utxos(&[address(2)]).await.len(), 1);
    }
    // One part is in memory, whatever the length of the list.
    let stats = world.server.stats();
    assert!(stats.notification_bytes <= 200 * 1024, "{stats:?}");
    assert!(stats.unwritten_bytes <= 200 * 1024, "{stats:?}");
    drop(slow);
}

#[tokio::test]
async fn a_client_that_reads_its_list_too_slowly_is_closed() {
    let settings = Settings { list_timeout_ms: 1_000, ..Settings::default() };
    let world = World::new(long_set(), settings, config());
    let mut client = world.connect_with_buffer(Encoding::Borsh, 4 * 1024).await;
    let id = client.allocate_id();
    client.send(Method::GetUtxosByAddresses.encode_borsh_addresses(id, &[address(1)])).await;
    // The first parts are made while the client reads nothing.
    while world.server.stats().unwritten_bytes == 0 {
        tokio::task::yield_now().await;
    }
    world.now_ms.store(1_001, Ordering::SeqCst);
    let closed = match client.socket.next().await {
        Some(Ok(Message::Close(frame))) => frame.expect("a code"),
        other => panic!("another message than a close frame: {}", other.is_some()),
    };
    assert_eq!(u16::from(closed.code), 1008);
    assert_eq!(closed.reason.as_str(), "a list was not read within 1 s");
}

#[tokio::test]
async fn a_thousand_balances_are_answered_in_the_order_of_the_request() {
    let mut world = World::start();
    world.chain.add_block(&[], &[pay(1, 5), pay(2, 7)]);
    world.publish();
    let addresses: Vec<KaspaAddress> = (0..1_000_u32).map(|n| address((n % 4) as u8)).collect();
    let sompi = [0, 5, 7, 0];
    let mut json = world.connect(Encoding::Json).await;
    let Content(content) = json
        .call_addresses(Method::GetBalancesByAddresses, &addresses)
        .await
        .expect("the message is long, and has a list");
    let reply: Value = serde_json::from_slice(&content).expect("JSON");
    let entries = reply["entries"].as_array().expect("entries");
    assert_eq!(entries.len(), addresses.len());
    for (at, entry) in entries.iter().enumerate() {
        let expected = json!({"address": addresses[at].to_string(), "balance": sompi[at % 4]});
        assert_eq!(*entry, expected);
    }
    let mut borsh = world.connect(Encoding::Borsh).await;
    let Content(content) =
        borsh.call_addresses(Method::GetBalancesByAddresses, &addresses).await.expect("balances");
    // A version, the bytes of the list, its count, and entries of 52 bytes.
    assert_eq!(content.len(), 2 + 4 + 4 + 1_000 * 52);
    for (at, entry) in content[10..].chunks(52).enumerate() {
        assert_eq!(entry[44..], u64::to_le_bytes(sompi[at % 4]), "{at}");
    }
}

#[tokio::test]
async fn an_address_that_is_wrong_at_the_end_of_a_list_refuses_all() {
    let mut world = World::start();
    world.chain.add_block(&[], &[pay(1, 5)]);
    world.publish();
    let addresses: Vec<String> =
        (0..300).map(|_| address(1).to_string()).chain(["kaspasim:qqqq".to_owned()]).collect();
    let mut client = world.connect(Encoding::Json).await;
    for method in [Method::GetUtxosByAddresses, Method::GetBalancesByAddresses] {
        let id = client.allocate_id();
        let request = encode_json(id, method, &json!({ "addresses": addresses }));
        let error = client.exchange(id, request).await.expect_err("a wrong checksum");
        assert_eq!(error.to_string(), "request deserialization error");
    }
    assert_eq!(client.utxos(&[address(1)]).await.len(), 1);
}

#[tokio::test]
async fn a_list_that_is_not_read_to_its_end_is_given_up() {
    let mut world = World::with_utxos(long_set());
    let mut client = world.connect_with_buffer(Encoding::Json, 4 * 1024).await;
    let id = client.allocate_id();
    let params = json!({ "addresses": [address(1).to_string()] });
    client.send(encode_json(id, Method::GetUtxosByAddresses, &params)).await;
    while world.server.stats().unwritten_bytes == 0 {
        tokio::task::yield_now().await;
    }
    drop(client);
    while world.server.stats().connections > 0 {
        tokio::task::yield_now().await;
    }
    // Nothing of it is left, and the chain continues.
    world.chain.change_virtual(&UtxoChanges::default());
    world.publish();
    let stats = world.server.stats();
    assert_eq!((stats.notification_bytes, stats.unwritten_bytes), (0, 0), "{stats:?}");
}
