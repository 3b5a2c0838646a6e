//! Messages that a kaspad 2.1.0 sent and received.

use kaspa::{
    AddressUtxo, BorshReply, BorshServerMessage, Encoding, KaspaAddress, decode_borsh_utxos,
};
use serde_json::Value;

const BORSH: &str = include_str!("../../../kaspa/tests/golden/borsh.txt");
const JSON: &str = include_str!("../../../kaspa/tests/golden/json.txt");

const PROTOBUF: &str = include_str!("../../../kaspa/tests/golden/protobuf.txt");

/// One message.
pub(crate) struct Golden {
    /// The method, the notification, or what the request does.
    pub(crate) name: &'static str,
    /// `request`, `response` or `notification`.
    pub(crate) kind: &'static str,
    pub(crate) bytes: Vec<u8>,
}

/// All messages in an encoding.
pub(crate) fn messages(encoding: Encoding) -> impl Iterator<Item = Golden> {
    let file = match encoding {
        Encoding::Borsh => BORSH,
        Encoding::Json => JSON,
    };
    file.lines().map(move |line| {
        let mut parts = line.splitn(3, ' ');
        let mut part = || parts.next().expect("three parts in a line");
        let [name, kind, text] = [part(), part(), part()];
        let bytes = match encoding {
            Encoding::Borsh => bytes(text),
            Encoding::Json => text.as_bytes().to_vec(),
        };
        Golden { name, kind, bytes }
    })
}

/// All messages in protobuf, without the prefix of gRPC.
pub(crate) fn protobuf_messages() -> impl Iterator<Item = Golden> {
    PROTOBUF.lines().map(|line| {
        let mut parts = line.splitn(3, ' ');
        let mut part = || parts.next().expect("three parts in a line");
        let [name, kind, text] = [part(), part(), part()];
        Golden { name, kind, bytes: bytes(text) }
    })
}

/// The message of this name and kind in protobuf.
pub(crate) fn protobuf(name: &str, kind: &str) -> Vec<u8> {
    find_protobuf(name, kind).unwrap_or_else(|| panic!("no {kind} {name}"))
}

/// The message of this name and kind in protobuf, if it was recorded.
pub(crate) fn find_protobuf(name: &str, kind: &str) -> Option<Vec<u8>> {
    let is_it = |golden: &Golden| golden.name == name && golden.kind == kind;
    protobuf_messages().find(is_it).map(|golden| golden.bytes)
}

/// The message of this name and kind.
pub(crate) fn find(encoding: Encoding, name: &str, kind: &str) -> Vec<u8> {
    let is_it = |golden: &Golden| golden.name == name && golden.kind == kind;
    messages(encoding).find(is_it).unwrap_or_else(|| panic!("no {kind} {name}")).bytes
}

fn bytes(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).expect("ASCII"));
    pairs.map(|pair| u8::from_str_radix(pair, 16).expect("digits")).collect()
}

/// The UTXOs of the golden reply to getUtxosByAddresses.
pub(crate) fn utxos() -> Vec<AddressUtxo> {
    let frame = find(Encoding::Borsh, "getUtxosByAddresses", "response");
    match BorshServerMessage::parse(&frame) {
        Ok(BorshServerMessage::Reply(BorshReply { result: Ok(structure), .. })) => {
            decode_borsh_utxos(structure).expect("UTXOs")
        }
        other => panic!("{other:?}"),
    }
}

/// A balance of the golden reply to getBalancesByAddresses.
pub(crate) struct GoldenBalance {
    pub(crate) address: KaspaAddress,
    pub(crate) sompi: u64,
}

/// The balances of the golden reply to getBalancesByAddresses.
pub(crate) fn balances() -> Vec<GoldenBalance> {
    let text = find(Encoding::Json, "getBalancesByAddresses", "response");
    let json: Value = serde_json::from_slice(&text).expect("JSON");
    let entries = json["params"]["entries"].as_array().expect("entries").iter();
    let to_balance = |entry: &Value| GoldenBalance {
        address: entry["address"].as_str().and_then(|text| text.parse().ok()).expect("an address"),
        sompi: entry["balance"].as_u64().expect("an amount"),
    };
    entries.map(to_balance).collect()
}
