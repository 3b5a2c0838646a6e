//! The rate at which a node confirms transfers.
//!
//! Shape: transfers are signed first, with a recent blockhash. One process of `hydrant bench` sends them over
//! [`CONNECTIONS`] connections, each of which sends its next one after a response. This program meanwhile reads their
//! statuses. The rate is that of confirmed transfers, from the start of the process to the last confirmed status.

use std::fs;
use std::io::{BufWriter, Write};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::compare::keys::bytes;
use crate::compare::transactions::{SignedTransaction, sign_transfer};
use crate::rig::clock::{now, pause};
use crate::rivals::dataset::PAYERS;
use crate::rivals::load::LoadGenerator;
use crate::rivals::node::RunningNode;

/// Connections that send.
const CONNECTIONS: &str = "16";
/// Time limit for all transfers: the validity of their blockhash.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(60);
/// Time between two reads of statuses.
const POLL_INTERVAL: Duration = Duration::from_millis(25);
/// Signatures in one read of statuses: the limit of `getSignatureStatuses`.
const STATUSES_MAX: usize = 256;

/// The confirmed transfers of one start.
pub(super) struct Transfers {
    /// Confirmed transfers a second.
    pub(super) rate: f64,
    /// Share of the transfers that were not confirmed in time.
    pub(super) lost_share: f64,
    /// The signature of one of them.
    pub(super) signature: String,
}

/// Sends `count` transfers as quickly as the node accepts them, and waits until they are confirmed.
pub(super) fn measure(
    node: &RunningNode,
    generator: &LoadGenerator,
    count: u32,
) -> Result<Transfers> {
    let blockhash = bytes(&node.latest_blockhash()?);
    let transfers = (0..count).map(|number| {
        let payer = (number % u32::from(PAYERS)) as u8;
        // Each has its own amount, so that no two are the same transaction.
        sign_transfer(payer, PAYERS + payer, 1 + u64::from(number), &blockhash)
    });
    let transfers: Vec<SignedTransaction> = transfers.collect();
    let log = generator.dir.join("transfers.jsonl");
    let mut file = BufWriter::new(fs::File::create(&log)?);
    for transfer in &transfers {
        writeln!(file, "{}", log_line(transfer))?;
    }
    file.flush()?;
    let mut pending: Vec<&str> = transfers.iter().map(|it| it.signature.as_str()).collect();
    let signature = pending.first().context("no transfers")?.to_string();

    let started = now();
    let mut last_confirmed = Duration::ZERO;
    let replay = log.to_string_lossy();
    let load = ["--replay", &replay, "--connections", CONNECTIONS, "--timeout", "60"];
    let load = generator.start("transfers", node.rpc, &load)?;
    while !pending.is_empty() && started.elapsed() < CONFIRM_TIMEOUT {
        pause(POLL_INTERVAL);
        if remove_confirmed(node, &mut pending)? {
            last_confirmed = started.elapsed();
        }
    }
    // After a timeout it may still wait for responses. It ends here.
    drop(load);
    ensure!(!last_confirmed.is_zero(), "no transfer was confirmed within {CONFIRM_TIMEOUT:?}");
    let confirmed = transfers.len() - pending.len();
    let rate = confirmed as f64 / last_confirmed.as_secs_f64();
    let lost_share = pending.len() as f64 / transfers.len() as f64;
    Ok(Transfers { rate, lost_share, signature })
}

/// Returns a line of a log of requests, which is due at once.
fn log_line(transfer: &SignedTransaction) -> Value {
    let wire = BASE64_STANDARD.encode(&transfer.wire);
    let config = json!({ "encoding": "base64", "skipPreflight": true });
    let body = json!({
        "jsonrpc": "2.0", "id": 1, "method": "sendTransaction", "params": [wire, config],
    });
    json!({ "at_ms": 0, "body": body })
}

/// Reads the statuses of the pending transfers, and removes those that are confirmed. Returns whether there are any.
fn remove_confirmed(node: &RunningNode, pending: &mut Vec<&str>) -> Result<bool> {
    let before = pending.len();
    let mut rest = Vec::new();
    for chunk in pending.chunks(STATUSES_MAX) {
        let response = node.call("getSignatureStatuses", &json!([chunk]))?;
        let statuses = response["result"]["value"].as_array().context("no statuses")?;
        ensure!(statuses.len() == chunk.len(), "{} statuses", statuses.len());
        let unconfirmed = chunk.iter().zip(statuses).filter(|(_, status)| !is_confirmed(status));
        rest.extend(unconfirmed.map(|(signature, _)| *signature));
    }
    *pending = rest;
    Ok(pending.len() < before)
}

fn is_confirmed(status: &Value) -> bool {
    let level = status["confirmationStatus"].as_str();
    status["err"].is_null() && matches!(level, Some("confirmed" | "finalized"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_confirmed_success_counts() {
        let status = |level: &str, err: Value| json!({ "confirmationStatus": level, "err": err });
        assert!(is_confirmed(&status("confirmed", Value::Null)));
        assert!(is_confirmed(&status("finalized", Value::Null)));
        assert!(!is_confirmed(&status("processed", Value::Null)));
        assert!(!is_confirmed(&status("confirmed", json!("AccountNotFound"))));
        assert!(!is_confirmed(&Value::Null));
    }

    #[test]
    fn a_line_has_the_transaction_in_base64() {
        let transfer = SignedTransaction { wire: vec![1, 2, 3], signature: "S".to_owned() };
        let line = log_line(&transfer);
        assert_eq!(line["at_ms"], 0);
        assert_eq!(line["body"]["params"][0], "AQID");
    }
}
