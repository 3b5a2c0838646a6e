//! The replies of kaspad and of Hydrant to equal requests, at equal positions.
//!
//! Input: requests of wRPC. Output: for each method and encoding the number of equal replies, of those that were equal
//! when they were requested again, and of those that remained different.
//! A reply is compared byte by byte, or value by value in JSON. The UTXOs of several addresses have no order in kaspad,
//! so they are sorted.
//! Not here: the times of the calls (`call_times`), methods that kaspad does not have (`own_methods`).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Result;
use kaspa::{AddressUtxo, Encoding, Hash, KaspaAddress, Method, Prefix, decode_borsh_utxos};
use serde_json::Value;

use crate::kaspa_rig::call_times::CallTimes;
use crate::kaspa_rig::node_clients::NodeClients;
use crate::kaspa_rig::requests::Request;
use crate::kaspa_rig::wrpc_client::{Content, Reply};
use crate::rig::clock::pause;

/// Requests that are repeated before a difference counts: Hydrant may show a change some milliseconds after kaspad.
const REPEATS_MAX: usize = 20;
const REPEAT_INTERVAL: Duration = Duration::from_millis(100);
/// The most differences that are described, for each method.
const EXAMPLES_MAX: usize = 3;
/// The longest description of a reply, in bytes.
const EXAMPLE_BYTES_MAX: usize = 2_000;

/// Counts of compared replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) equal: u64,
    /// Replies that were equal when they were requested again.
    pub(crate) repeated: u64,
    pub(crate) different: u64,
}

/// The results of all comparisons.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    counts: BTreeMap<String, Counts>,
    examples: BTreeMap<String, Vec<String>>,
    pub(crate) times: CallTimes,
}

/// A reply in a form that can be compared.
#[derive(Debug, PartialEq)]
enum ComparableReply {
    Error(String),
    Borsh(Vec<u8>),
    Utxos(Vec<AddressUtxo>),
    Json(Value),
}

impl Comparison {
    /// Compares all methods that Hydrant replies to itself, and some that it forwards. `addresses` are some of the
    /// network's, and `base` is an older chain block.
    pub(crate) fn compare_methods(
        &mut self,
        kaspad: &mut NodeClients,
        hydrant: &mut NodeClients,
        base: Hash,
        addresses: &[KaspaAddress],
    ) -> Result<()> {
        let mut list = addresses.to_vec();
        // An address that is requested twice, and one with the prefix of another network.
        list.extend(addresses.first());
        list.extend(addresses.last().map(|last| KaspaAddress { prefix: Prefix::Mainnet, ..*last }));
        let plain = [
            Method::Ping,
            Method::GetSink,
            Method::GetSinkBlueScore,
            Method::GetCoinSupply,
            Method::GetServerInfo,
            Method::GetInfo,
            Method::GetCurrentNetwork,
            Method::GetBlockCount,
            Method::GetSyncStatus,
        ];
        let mut requests: Vec<Request<'_>> = plain.map(Request::Plain).to_vec();
        requests.extend(list.iter().map(Request::Balance));
        requests.push(Request::Addresses(Method::GetBalancesByAddresses, &list));
        requests.push(Request::Addresses(Method::GetUtxosByAddresses, &list));
        requests.push(Request::Block(base));
        requests.push(Request::ChainIds(base));
        for encoding in Encoding::ALL {
            for request in &requests {
                self.compare(kaspad, hydrant, encoding, request)?;
            }
        }
        Ok(())
    }

    /// Compares the replies to one request.
    pub(crate) fn compare(
        &mut self,
        kaspad: &mut NodeClients,
        hydrant: &mut NodeClients,
        encoding: Encoding,
        request: &Request<'_>,
    ) -> Result<()> {
        let mut repeats = 0;
        loop {
            let replies = self.times.call_both(kaspad, hydrant, encoding, request)?;
            let expected = ComparableReply::new(request, replies.kaspad.reply)?;
            let actual = ComparableReply::new(request, replies.hydrant.reply)?;
            // Equal errors are in a row of their own: nothing else was compared.
            let is_error = matches!(expected, ComparableReply::Error(_));
            let kind = if is_error { ", error of kaspad" } else { "" };
            let name = format!("{}, {encoding:?}{kind}", request.name());
            if expected == actual {
                self.count(&name, if repeats == 0 { Outcome::Equal } else { Outcome::Repeated });
                return Ok(());
            }
            if repeats == REPEATS_MAX {
                self.add_difference(&name, || {
                    format!("kaspad: {}\nHydrant: {}", expected.describe(), actual.describe())
                });
                return Ok(());
            }
            repeats += 1;
            pause(REPEAT_INTERVAL);
        }
    }

    /// Compares two values that several requests add up to.
    pub(crate) fn check<T: PartialEq + std::fmt::Debug>(
        &mut self,
        name: &str,
        expected: &T,
        actual: &T,
    ) {
        if expected == actual {
            self.count(name, Outcome::Equal);
        } else {
            let describe = || {
                let expected = shorten(format!("{expected:?}"));
                format!("kaspad: {expected}\nHydrant: {}", shorten(format!("{actual:?}")))
            };
            self.add_difference(name, describe);
        }
    }

    /// Counts a difference.
    pub(crate) fn add_difference(&mut self, name: &str, describe: impl FnOnce() -> String) {
        self.count(name, Outcome::Different);
        let examples = self.examples.entry(name.to_owned()).or_default();
        if examples.len() < EXAMPLES_MAX {
            examples.push(describe());
        }
    }

    /// Returns the sums over all methods.
    pub(crate) fn totals(&self) -> Counts {
        self.counts.values().fold(Counts::default(), |sum, counts| Counts {
            equal: sum.equal + counts.equal,
            repeated: sum.repeated + counts.repeated,
            different: sum.different + counts.different,
        })
    }

    /// Returns the table of all methods.
    pub(crate) fn table(&self) -> String {
        let mut table = "\n| method | equal | equal when repeated | different |\n".to_owned();
        table.push_str("|---|---|---|---|\n");
        for (name, Counts { equal, repeated, different }) in &self.counts {
            // Writing to a string does not fail.
            let _ = writeln!(table, "| {name} | {equal} | {repeated} | {different} |");
        }
        table
    }

    /// Returns the first differences of each method.
    pub(crate) fn examples(&self) -> String {
        let mut text = String::new();
        for (name, examples) in &self.examples {
            for example in examples {
                let _ = writeln!(text, "{name}\n{example}\n");
            }
        }
        text
    }

    fn count(&mut self, name: &str, outcome: Outcome) {
        let counts = self.counts.entry(name.to_owned()).or_default();
        match outcome {
            Outcome::Equal => counts.equal += 1,
            Outcome::Repeated => counts.repeated += 1,
            Outcome::Different => counts.different += 1,
        }
    }
}

enum Outcome {
    Equal,
    Repeated,
    Different,
}

impl ComparableReply {
    fn new(request: &Request<'_>, reply: Reply) -> Result<Self> {
        let is_utxo_list = matches!(request, Request::Addresses(Method::GetUtxosByAddresses, _));
        Ok(match reply {
            Err(error) => Self::Error(error),
            Ok(Content::Borsh(structure)) if is_utxo_list => {
                let mut utxos = decode_borsh_utxos(&structure)?;
                utxos.sort_by_key(|utxo| utxo.outpoint);
                Self::Utxos(utxos)
            }
            Ok(Content::Borsh(structure)) => Self::Borsh(structure),
            Ok(Content::Json(mut params)) => {
                let entries = params.get_mut("entries").and_then(Value::as_array_mut);
                if is_utxo_list && let Some(entries) = entries {
                    entries.sort_by_cached_key(|entry| entry["outpoint"].to_string());
                }
                Self::Json(params)
            }
        })
    }

    fn describe(&self) -> String {
        shorten(match self {
            Self::Error(error) => format!("error: {error}"),
            Self::Borsh(structure) => structure.iter().map(|byte| format!("{byte:02x}")).collect(),
            Self::Utxos(utxos) => format!("{} UTXOs: {utxos:?}", utxos.len()),
            Self::Json(params) => params.to_string(),
        })
    }
}

/// Cuts a description. All of it is ASCII or ends at a character.
fn shorten(mut text: String) -> String {
    if text.len() > EXAMPLE_BYTES_MAX {
        let end = text.floor_char_boundary(EXAMPLE_BYTES_MAX);
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use kaspa::{AddressPayload, BorshUtxosReply, Outpoint, ScriptPublicKey, UtxoEntry};
    use serde_json::json;

    use super::*;

    fn utxo(index: u32) -> AddressUtxo {
        let payload = AddressPayload::PublicKey([1; 32]);
        AddressUtxo {
            address: Some(KaspaAddress { prefix: Prefix::Simnet, payload }),
            outpoint: Outpoint { transaction_id: Hash([9; 32]), index },
            entry: UtxoEntry {
                amount: 7,
                script_public_key: ScriptPublicKey::from_payload(&payload),
                block_daa_score: 3,
                is_coinbase: false,
                covenant_id: None,
            },
        }
    }

    /// The structure of a reply with these UTXOs.
    fn encode(utxos: &[AddressUtxo]) -> Vec<u8> {
        let mut reply = BorshUtxosReply::default();
        utxos.iter().for_each(|utxo| reply.add_utxo(utxo));
        let mut frame = reply.encode_head(1).unwrap();
        utxos.iter().for_each(|utxo| utxo.encode_borsh_into(&mut frame));
        let kaspa::BorshServerMessage::Reply(reply) =
            kaspa::BorshServerMessage::parse(&frame).unwrap()
        else {
            panic!("not a reply");
        };
        reply.result.unwrap().to_vec()
    }

    #[test]
    fn utxos_are_compared_in_any_order() {
        let request = Request::Addresses(Method::GetUtxosByAddresses, &[]);
        let comparable = |content| ComparableReply::new(&request, Ok(content)).unwrap();
        let one = comparable(Content::Borsh(encode(&[utxo(1), utxo(2)])));
        let two = comparable(Content::Borsh(encode(&[utxo(2), utxo(1)])));
        assert_eq!(one, two);
        assert_ne!(one, comparable(Content::Borsh(encode(&[utxo(1), utxo(3)]))));
        let entry = |index: u32| json!({ "outpoint": { "index": index }, "utxoEntry": {} });
        let json = |entries: Value| comparable(Content::Json(json!({ "entries": entries })));
        assert_eq!(json(json!([entry(1), entry(2)])), json(json!([entry(2), entry(1)])));
        assert_ne!(json(json!([entry(1)])), json(json!([entry(2)])));
    }

    #[test]
    fn balances_are_compared_in_their_order() {
        let request = Request::Addresses(Method::GetBalancesByAddresses, &[]);
        let json = |entries: Value| {
            let content = Content::Json(json!({ "entries": entries }));
            ComparableReply::new(&request, Ok(content)).unwrap()
        };
        assert_ne!(json(json!([1, 2])), json(json!([2, 1])));
    }

    #[test]
    fn errors_are_replies() {
        let request = Request::Plain(Method::GetSink);
        let error = |text: &str| ComparableReply::new(&request, Err(text.to_owned())).unwrap();
        assert_eq!(error("no"), error("no"));
        assert_ne!(error("no"), error("yes"));
    }

    #[test]
    fn counts_and_examples_are_in_the_tables() {
        let mut comparison = Comparison::default();
        comparison.check("sum", &1, &1);
        for actual in 2..10 {
            comparison.check("sum", &1, &actual);
        }
        assert_eq!(comparison.totals(), Counts { equal: 1, repeated: 0, different: 8 });
        assert!(comparison.table().contains("| sum | 1 | 0 | 8 |"));
        assert_eq!(comparison.examples().matches("kaspad: 1").count(), EXAMPLES_MAX);
        let long = shorten("é".repeat(EXAMPLE_BYTES_MAX));
        assert!(long.len() <= EXAMPLE_BYTES_MAX + 4, "{}", long.len());
    }
}
