//! Messages that a kaspad 2.1.0 sent and received.

use kaspa::{
    AddressUtxo, BorshReply, BorshServerMessage, Encoding, KaspaAddress, decode_borsh_utxos,
};
use serde_json::Value;
use testkit::kaspa_golden::{self, BORSH, GoldenMessage, JSON, PROTOBUF, decode_digits};

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
    kaspa_golden::messages(file).map(move |GoldenMessage { name, kind, text }| {
        let bytes = match encoding {
            Encoding::Borsh => decode_digits(text),
            Encoding::Json => text.as_bytes().to_vec(),
        };
        Golden { name, kind, bytes }
    })
}

/// All messages in protobuf, without the prefix of gRPC.
pub(crate) fn protobuf_messages() -> impl Iterator<Item = Golden> {
    let decode =
        |GoldenMessage { name, kind, text }| Golden { name, kind, bytes: decode_digits(text) };
    kaspa_golden::messages(PROTOBUF).map(decode)
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
