//! kaspa-grpc-client and kaspa-wrpc-client on the ports of kaspad and of Hydrant.
//!
//! Input: processes of `clients/rust-kaspa`, which report what their client has, one for each protocol and node. Output:
//! comparisons of the replies, and of the state that Hydrant's notifications add up to with the state of kaspad.
//! Invariant: the clients connect at a quiet time, so that their first list and their subscription are of one block.
//! Not here: the connection and the calls (`clients/rust-kaspa`).

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kaspa::KaspaAddress;
use serde_json::{Value, json};

use crate::kaspa_rig::comparison::Comparison;
use crate::rig::clock::pause;

/// Methods that both nodes reply to equally.
const METHODS: [&str; 4] =
    ["getInfo", "getBlockDagInfo", "getUtxosByAddresses", "getBalanceByAddress"];
/// Reports that are requested before a difference counts: a notification may come some milliseconds later.
const REPEATS_MAX: usize = 20;
const REPEAT_INTERVAL: Duration = Duration::from_millis(100);

/// The ports of a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientPorts {
    pub(crate) grpc: SocketAddr,
    pub(crate) borsh: SocketAddr,
    pub(crate) json: SocketAddr,
}

/// Clients of both nodes, one pair for each protocol.
pub(crate) struct RustClients(Vec<ClientPair>);

/// A client of each node.
struct ClientPair {
    name: &'static str,
    kaspad: ReportingClient,
    hydrant: ReportingClient,
}

/// The process of a client. It ends with the value.
struct ReportingClient {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// Two values that must be equal.
#[derive(Debug)]
struct Compared {
    name: String,
    kaspad: Value,
    hydrant: Value,
}

impl RustClients {
    /// Connects clients to the ports of both nodes, and subscribes to these addresses.
    pub(crate) fn start(
        program: &Path,
        kaspad: ClientPorts,
        hydrant: ClientPorts,
        addresses: &[KaspaAddress],
    ) -> Result<Self> {
        let start = |name, protocol, kaspad_port, hydrant_port| -> Result<ClientPair> {
            Ok(ClientPair {
                name,
                kaspad: ReportingClient::start(program, protocol, kaspad_port, addresses)?,
                hydrant: ReportingClient::start(program, protocol, hydrant_port, addresses)?,
            })
        };
        let mut pairs = vec![
            start("kaspa-grpc-client", "grpc", kaspad.grpc, hydrant.grpc)?,
            start("kaspa-wrpc-client, Borsh", "borsh", kaspad.borsh, hydrant.borsh)?,
            start("kaspa-wrpc-client, Json", "json", kaspad.json, hydrant.json)?,
        ];
        for pair in &mut pairs {
            // The first reports say that they have subscribed.
            pair.report()?;
        }
        Ok(Self(pairs))
    }

    /// Compares the clients while nothing is mined.
    pub(crate) fn compare(&mut self, comparison: &mut Comparison) -> Result<()> {
        self.0.iter_mut().try_for_each(|pair| pair.compare(comparison))
    }
}

impl ClientPair {
    fn compare(&mut self, comparison: &mut Comparison) -> Result<()> {
        let mut repeats = 0;
        loop {
            let compared = self.report()?;
            if compared.iter().all(Compared::is_equal) || repeats == REPEATS_MAX {
                for Compared { name, kaspad, hydrant } in &compared {
                    comparison.check(&format!("{}: {name}", self.name), kaspad, hydrant);
                }
                return Ok(());
            }
            repeats += 1;
            pause(REPEAT_INTERVAL);
        }
    }

    /// Requests a report from both clients.
    fn report(&mut self) -> Result<Vec<Compared>> {
        let name = self.name;
        let kaspad = self.kaspad.report().with_context(|| format!("{name} of kaspad"))?;
        let hydrant = self.hydrant.report().with_context(|| format!("{name} of Hydrant"))?;
        Ok(pair_reports(&kaspad, &hydrant))
    }
}

/// Returns the values of two reports that must be equal. kaspad's notifications may contradict themselves, so those of
/// Hydrant are compared with kaspad's replies.
fn pair_reports(kaspad: &Value, hydrant: &Value) -> Vec<Compared> {
    let compare = |name: &str, kaspad: &Value, hydrant: &Value| Compared {
        name: name.to_owned(),
        kaspad: kaspad.clone(),
        hydrant: hydrant.clone(),
    };
    let mut compared = Vec::from(METHODS.map(|name| compare(name, &kaspad[name], &hydrant[name])));
    let utxos = &kaspad["getUtxosByAddresses"];
    compared.push(compare("utxosChanged", utxos, &hydrant["utxosChanged"]));
    compared.push(compare("contradictions", &json!(0), &hydrant["contradictions"]));
    // The first score comes with the first block after the subscription.
    let score = &hydrant["virtualDaaScoreChanged"];
    if !score.is_null() || !kaspad["virtualDaaScoreChanged"].is_null() {
        let expected = &kaspad["getBlockDagInfo"]["virtualDaaScore"];
        compared.push(compare("virtualDaaScoreChanged", expected, score));
    }
    compared
}

impl Compared {
    fn is_equal(&self) -> bool {
        self.kaspad == self.hydrant
    }
}

impl ReportingClient {
    fn start(
        program: &Path,
        protocol: &str,
        server: SocketAddr,
        addresses: &[KaspaAddress],
    ) -> Result<Self> {
        let mut command = Command::new(program);
        command.args([protocol, &server.to_string()]);
        command.args(addresses.iter().map(ToString::to_string));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("start {}", program.display()))?;
        let input = child.stdin.take().context("no standard input")?;
        let output = BufReader::new(child.stdout.take().context("no standard output")?);
        Ok(Self { child, input, output })
    }

    fn report(&mut self) -> Result<Value> {
        // If it has ended, it has written the reason to the rig's standard error.
        self.input.write_all(b"\n").context("it has ended")?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        ensure!(!line.is_empty(), "it has ended");
        Ok(serde_json::from_str(&line)?)
    }
}

impl Drop for ReportingClient {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(daa_score: Option<u64>, contradictions: u64) -> Value {
        json!({
            "getInfo": { "p2pId": "a" },
            "getBlockDagInfo": { "virtualDaaScore": 7 },
            "getUtxosByAddresses": { "outpoint": "utxo" },
            "getBalanceByAddress": { "address": 5 },
            "utxosChanged": { "outpoint": "utxo" },
            "virtualDaaScoreChanged": daa_score,
            "contradictions": contradictions,
        })
    }

    fn find_differences(kaspad: &Value, hydrant: &Value) -> Vec<String> {
        let compared = pair_reports(kaspad, hydrant).into_iter();
        compared.filter(|it| !it.is_equal()).map(|it| it.name).collect()
    }

    #[test]
    fn replies_and_the_sum_of_notifications_are_compared() {
        assert_eq!(find_differences(&report(None, 0), &report(None, 0)), [""; 0]);
        assert_eq!(find_differences(&report(Some(7), 3), &report(Some(7), 0)), [""; 0]);
        let late = find_differences(&report(Some(7), 0), &report(None, 0));
        assert_eq!(late, ["virtualDaaScoreChanged"]);
        let mut wrong = report(Some(7), 1);
        wrong["utxosChanged"] = json!({});
        wrong["getBalanceByAddress"]["address"] = json!(6);
        let names = ["getBalanceByAddress", "utxosChanged", "contradictions"];
        assert_eq!(find_differences(&report(Some(7), 0), &wrong), names);
        assert_eq!(find_differences(&report(Some(7), 0), &json!({})).len(), METHODS.len() + 3);
    }

    #[test]
    fn a_client_that_has_ended_is_an_error() {
        let server = SocketAddr::from(([127, 0, 0, 1], 9));
        let mut client =
            ReportingClient::start(Path::new("true"), "grpc", server, &[]).expect("it starts");
        client.child.wait().expect("it ends");
        assert!(client.report().is_err());
    }
}
