//! The methods that are answered from the chain, in both encodings.

use kaspa::{
    AddressUtxo, CoinSupply, Encoding, Hash, KaspaAddress, MAX_SOMPI, Method, Outpoint, Prefix,
    ScriptPublicKey, UtxoChanges, UtxoEntry,
};
use serde_json::{Value, json};
use testkit::kaspa_chain::{address, pay};

use crate::golden;
use crate::world::World;
use crate::wrpc_client::{Content, encode_json};

fn filler(number: u8, script_public_key: ScriptPublicKey, sompi: u64) -> (Outpoint, UtxoEntry) {
    let outpoint = Outpoint { transaction_id: Hash([number; 32]), index: 0 };
    let entry = UtxoEntry {
        amount: sompi,
        script_public_key,
        block_daa_score: 0,
        is_coinbase: false,
        covenant_id: None,
    };
    (outpoint, entry)
}

/// The UTXO set of the recorded kaspad, as far as it is known: its UTXOs, and one each for what the balances and the
/// supply have more.
pub(crate) fn golden_set() -> Vec<(Outpoint, UtxoEntry)> {
    let mut set: Vec<(Outpoint, UtxoEntry)> =
        golden::utxos().into_iter().map(|utxo| (utxo.outpoint, utxo.entry)).collect();
    for (number, balance) in (1..).zip(golden::balances()) {
        let script = ScriptPublicKey::from_payload(&balance.address.payload);
        let own = set.iter().filter(|(_, entry)| entry.script_public_key == script);
        let known: u64 = own.map(|(_, entry)| entry.amount).sum();
        if known < balance.sompi {
            set.push(filler(number, script, balance.sompi - known));
        }
    }
    let supply = golden::find(Encoding::Json, "getCoinSupply", "response");
    let supply: Value = serde_json::from_slice(&supply).expect("JSON");
    let supply = supply["params"]["circulatingSompi"].as_u64().expect("an amount");
    let known: u64 = set.iter().map(|(_, entry)| entry.amount).sum();
    if known < supply {
        let script = ScriptPublicKey::from_payload(&address(9).payload);
        set.push(filler(99, script, supply - known));
    }
    set
}

#[tokio::test]
async fn replies_are_those_of_kaspad_byte_by_byte() {
    let world = World::with_utxos(golden_set());
    let methods = ["ping", "getBalanceByAddress", "getBalancesByAddresses", "getCoinSupply"];
    for encoding in Encoding::ALL {
        let mut client = world.connect(encoding).await;
        for name in methods {
            client.send(golden::find(encoding, name, "request")).await;
            let reply = client.receive_reply().await;
            let golden = golden::find(encoding, name, "response");
            let [reply, golden] =
                [&reply, &golden].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
            assert_eq!(reply, golden, "{name} in {encoding:?}");
        }
        // kaspad's order of entries is that of a hash table.
        client.send(golden::find(encoding, "getUtxosByAddresses", "request")).await;
        let reply = client.receive_reply().await;
        let golden = golden::find(encoding, "getUtxosByAddresses", "response");
        assert_eq!(reply.len(), golden.len(), "{encoding:?}");
        let sorted = |mut bytes: Vec<u8>| {
            bytes.sort_unstable();
            bytes
        };
        assert_eq!(sorted(reply), sorted(golden), "{encoding:?}");
        assert!(world.forward.take_requests().is_empty());
    }
}

#[tokio::test]
async fn utxos_are_those_of_the_virtual_block() {
    let mut world = World::start();
    world.chain.add_block(&[], &[pay(1, 100), pay(2, 200)]);
    world.publish();
    let in_chain = world.chain.list_utxos(&address(1));
    for encoding in Encoding::ALL {
        let mut client = world.connect(encoding).await;
        assert_eq!(client.utxos(&[address(1)]).await, in_chain);
        assert_eq!(client.utxos(&[address(7)]).await, []);
        assert_eq!(client.utxos(&[]).await, []);
    }
    let added = world.chain.virtual_utxo(50, &pay(1, 90));
    let changes = UtxoChanges { added: vec![added.clone()], removed: in_chain };
    world.chain.change_virtual(&changes);
    world.publish();
    for encoding in Encoding::ALL {
        let mut client = world.connect(encoding).await;
        assert_eq!(client.utxos(&[address(1)]).await, std::slice::from_ref(&added));
        let Content(supply) = client.call(Method::GetCoinSupply).await.expect("a supply");
        let sompi = match encoding {
            Encoding::Borsh => CoinSupply::decode_borsh(&supply).expect("a supply"),
            Encoding::Json => {
                let json: Value = serde_json::from_slice(&supply).expect("JSON");
                let number = |key: &str| json[key].as_u64().expect("a number");
                CoinSupply {
                    max_sompi: number("maxSompi"),
                    circulating_sompi: number("circulatingSompi"),
                }
            }
        };
        assert_eq!(sompi, CoinSupply { max_sompi: MAX_SOMPI, circulating_sompi: 290 });
    }
}

#[tokio::test]
async fn addresses_of_other_networks_and_doubled_ones_are_answered_as_kaspad_does() {
    let mut world = World::start();
    world.chain.add_block(&[], &[pay(1, 100), pay(1, 20)]);
    world.publish();
    let mainnet = KaspaAddress { prefix: Prefix::Mainnet, ..address(1) };
    let utxos: Vec<AddressUtxo> = world.chain.list_utxos(&address(1));
    assert_eq!(utxos.len(), 2);
    for encoding in Encoding::ALL {
        let mut client = world.connect(encoding).await;
        // Each UTXO once, with an address of this network.
        let found = client.utxos(&[mainnet, address(1), mainnet]).await;
        assert_eq!(found, utxos);
    }
    // Each balance, with the address of the request.
    let mut client = world.connect(Encoding::Json).await;
    let addresses = [mainnet, address(1), mainnet, address(2)];
    let reply = client.call_addresses(Method::GetBalancesByAddresses, &addresses).await;
    let Content(content) = reply.expect("balances");
    let json: Value = serde_json::from_slice(&content).expect("JSON");
    let entry = |address: KaspaAddress, sompi: u64| json!({"address": address.to_string(), "balance": sompi});
    let expected =
        [entry(mainnet, 120), entry(address(1), 120), entry(mainnet, 120), entry(address(2), 0)];
    assert_eq!(json["entries"], json!(expected));
}

#[tokio::test]
async fn the_sink_is_that_of_the_chain() {
    let mut world = World::start();
    for _ in 0..3 {
        world.chain.add_block(&[], &[pay(1, 100)]);
    }
    world.publish();
    let sink = world.chain.sink_hash();
    let mut client = world.connect(Encoding::Borsh).await;
    let Content(content) = client.call(Method::GetSink).await.expect("a hash");
    assert_eq!(kaspa::decode_borsh_sink(&content), Ok(sink));
    let Content(content) = client.call(Method::GetSinkBlueScore).await.expect("a score");
    assert_eq!(content, [&[1, 0][..], &3_u64.to_le_bytes()].concat());
    let mut client = world.connect(Encoding::Json).await;
    let Content(content) = client.call(Method::GetSink).await.expect("a hash");
    assert_eq!(content, json!({ "sink": sink.to_string() }).to_string().into_bytes());
    let Content(content) = client.call(Method::GetSinkBlueScore).await.expect("a score");
    assert_eq!(content, br#"{"blueScore":3}"#);
}

#[tokio::test]
async fn numbers_above_53_bits_stay_exact_in_json() {
    let mut world = World::start();
    let sompi = (1 << 53) + 1;
    world.chain.add_block(&[], &[pay(1, sompi)]);
    world.publish();
    let mut client = world.connect(Encoding::Json).await;
    let id = u64::MAX;
    let params = json!({ "address": address(1).to_string() });
    let reply = client.exchange(id, encode_json(id, Method::GetBalanceByAddress, &params)).await;
    assert_eq!(reply, Ok(Content(format!("{{\"balance\":{sompi}}}").into_bytes())));
}
