//! A mix of requests, from a public source or from the user's log: rate, latency and CPU time.
//!
//! Shape: without `--replay LOG` the methods have the weights of [`PUBLISHED_MIX`], over JSON-RPC and over REST. REST
//! uses the routes with the same data; `getBlocks` has no route. Parameters are drawn by Zipf's law.
//! Each transaction is a new one. With `--replay` the requests are those of the log. All are sent in a closed loop, to
//! a node with blocks of 400 ms.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http_client::{Client, Endpoint};
use loadgen::{LogEntry, Mix, Replay, RunLength, parse_log};
use loadgen_solana::{
    DiscoveryConfig, InputKinds, Inputs, PUBLISHED_MIX, PUBLISHED_MIX_SOURCE, json_rpc,
};
use serde_json::{Value, json};
use solana_pubkey::Pubkey;
use solana_signer::Signer;
use testkit::clock::sleep_for;
use testkit::json_rpc_client::JsonRpcClient;
use testkit::node::Node;
use testkit::transfers;

use super::fixture::Fixture;
use super::load::{CONNECTIONS, SAMPLE_COLUMNS, Sample, run as run_load};
use super::measurement::{CACHE_BYTES, Measurement, Size};
use super::nodes::{start_node, target};
use super::submission::PATH as SUBMISSION_PATH;
use crate::median::median;
use crate::report::{Rows, table_head};

/// Source of the rows of a replayed log, in the CSV: followed by the hash of its text.
const REPLAY: &str = "log";
const PUBLISHED: &str = "published";

const SEED: u64 = 1;

/// Transfers before the mix, so that there are blocks and transactions to read, and the polls for them.
const TRANSFERS: usize = 500;
const POLLS_MAX: usize = 200;
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Accounts in one request, and slots in one range.
const ACCOUNTS: usize = 10;
const SLOTS: u64 = 20;

/// An interface of the node, with its own form of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Interface {
    JsonRpc,
    Rest,
}

impl Interface {
    const ALL: [Self; 2] = [Self::JsonRpc, Self::Rest];

    fn name(self) -> &'static str {
        match self {
            Self::JsonRpc => "JSON-RPC",
            Self::Rest => "REST",
        }
    }
}

pub(super) fn seconds(size: &Size) -> f64 {
    2.0 * size.rounds as f64 * size.mix_seconds()
}

pub(super) fn run(run: &mut Measurement<'_>, is_selected: bool) -> Result<String> {
    let columns = [&["source", "interface", "round", "sent", "failed"][..], &SAMPLE_COLUMNS];
    let mut rows = run.report.rows("mix.csv", 3, &columns.concat())?;
    let kinds = kinds(run)?;
    let keys = keys(run, &kinds);
    let missing = keys.iter().filter(|key| rows.find(*key).is_none()).count();
    if is_selected {
        run.progress.skip(seconds(&run.size) - missing as f64 * run.size.mix_seconds());
    }
    if is_selected && missing > 0 {
        measure(run, &mut rows, &keys)?;
    }
    Ok(table(run, &rows, &kinds))
}

/// Returns source and name of the interface of each kind of row.
fn kinds(run: &Measurement<'_>) -> Result<Vec<[String; 2]>> {
    let Some(path) = run.replay else {
        let kinds = Interface::ALL.map(|it| [PUBLISHED.to_owned(), it.name().to_owned()]);
        return Ok(kinds.to_vec());
    };
    let text = fs::read(path).with_context(|| format!("read {path}"))?;
    Ok(vec![[log_source(&text), "as in the log".to_owned()]])
}

/// Returns the source of a log's rows. The rows of another log, or of an earlier state of this one, do not count.
fn log_source(text: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    format!("{REPLAY} {:016x}", hasher.finish())
}

fn keys(run: &Measurement<'_>, kinds: &[[String; 2]]) -> Vec<[String; 3]> {
    let rounds = |kind: &[String; 2]| {
        let [source, interface] = kind.clone();
        (0..run.size.rounds)
            .map(move |round| [source.clone(), interface.clone(), round.to_string()])
    };
    kinds.iter().flat_map(rounds).collect()
}

fn measure(run: &mut Measurement<'_>, rows: &mut Rows, keys: &[[String; 3]]) -> Result<()> {
    let node = start_node(run.fixture, &["--cache-bytes-max", CACHE_BYTES])?;
    let inputs = make_history(run.fixture, &node)?;
    let log = run.replay.map(read_log).transpose()?;
    let endpoint = Endpoint::from(node.rpc);
    for key in keys {
        if rows.find(key).is_some() {
            continue;
        }
        let entries = match &log {
            Some(log) => log.clone(),
            None => {
                let interface = Interface::ALL.into_iter().find(|it| it.name() == key[1]);
                let interface = interface.context("an interface by its name")?;
                interface.entries(run, &node, &inputs)?
            }
        };
        let replay = Replay::new(&entries, &endpoint, 1.0, json_rpc)?;
        let stream = replay.closed_loop("mix", CONNECTIONS);
        let measured = run_load(target(&node), stream, RunLength::Once)?;
        let counts = measured.stats[0].counts;
        let failure = &measured.stats[0].failure;
        // Data of the user's log need not be on this node.
        ensure!(
            log.is_some() || counts.failed() == 0,
            "{}: {counts:?}, such as {failure:?}",
            key[1]
        );
        let head = [counts.total().to_string(), counts.failed().to_string()];
        rows.push(key, &[&head[..], &Sample::new(&measured).cells()].concat())?;
        run.progress.add(run.size.mix_seconds());
    }
    Ok(())
}

fn read_log(path: &str) -> Result<Vec<LogEntry>> {
    let text = fs::read_to_string(path).with_context(|| format!("read {path}"))?;
    Ok(parse_log(&text)?)
}

/// Executes transfers, and returns the blocks and signatures that the node then has.
fn make_history(fixture: &Fixture, node: &Node) -> Result<Inputs> {
    let mut client = JsonRpcClient::open(node.rpc)?;
    let mut signatures = Vec::new();
    for transfer in transfers::signed_transfers(&mut client, &fixture.payers, TRANSFERS)? {
        client.call("sendTransaction", transfers::send_params(&transfer, true)?)?;
        signatures.push(transfer.signatures[0].to_string());
    }
    transfers::wait_for_all(&mut client, &signatures)?;
    let mut client = Client::open(node.rpc)?;
    let needs = InputKinds { blocks: true, ..InputKinds::NONE };
    for _ in 0..POLLS_MAX {
        let found = Inputs::discover(&mut client, needs, &DiscoveryConfig::default())?;
        if !found.signatures.is_empty() {
            return Ok(found);
        }
        sleep_for(POLL_INTERVAL);
    }
    None.context("no block with a transaction was confirmed")
}

impl Interface {
    /// Returns the requests of one round. Their transactions are new, so each round has its own.
    fn entries(self, run: &Measurement<'_>, node: &Node, inputs: &Inputs) -> Result<Vec<LogEntry>> {
        let mut mix = Mix::new(SEED);
        for count in PUBLISHED_MIX {
            let requests = self.requests(count.method, run.fixture, inputs);
            mix.add_requests(f64::from(count.requests), requests);
        }
        let mut entries = mix.log(run.size.mix_requests, Duration::from_secs(1));
        let mut client = JsonRpcClient::open(node.rpc)?;
        let sends = entries.iter().filter(|entry| is_submission(entry)).count();
        let signed = transfers::signed_transfers(&mut client, &run.fixture.payers, sends)?;
        let submissions = entries.iter_mut().filter(|entry| is_submission(entry));
        for (entry, transaction) in submissions.zip(&signed) {
            let params = transfers::send_params(transaction, false)?;
            let submission = match self {
                Self::JsonRpc => LogEntry::call(Duration::ZERO, "sendTransaction", &params),
                Self::Rest => rest_submission(&params[0]),
            };
            *entry = LogEntry { at_ms: entry.at_ms, ..submission };
        }
        Ok(entries)
    }

    /// Returns requests for a method; none if the interface does not have it.
    fn requests(self, method: &str, fixture: &Fixture, inputs: &Inputs) -> Vec<LogEntry> {
        match self {
            Self::JsonRpc => json_rpc_params(method, fixture, inputs)
                .iter()
                .map(|params| LogEntry::call(Duration::ZERO, method, params))
                .collect(),
            Self::Rest if method == "sendTransaction" => vec![rest_submission(&Value::Null)],
            Self::Rest => rest_paths(method, fixture, inputs)
                .into_iter()
                .map(|path| LogEntry::with_path(path, None))
                .collect(),
        }
    }
}

fn rest_submission(transaction: &Value) -> LogEntry {
    let body = json!({ "transaction": transaction });
    LogEntry::with_path(SUBMISSION_PATH.to_owned(), Some(body))
}

fn is_submission(entry: &LogEntry) -> bool {
    let is_call = |body: &Value| body["method"] == "sendTransaction";
    entry.path.as_deref() == Some(SUBMISSION_PATH) || entry.body.as_ref().is_some_and(is_call)
}

fn json_rpc_params(method: &str, fixture: &Fixture, inputs: &Inputs) -> Vec<Value> {
    let tokens = &fixture.tokens;
    let base64 = json!({ "encoding": "base64" });
    let confirmed = json!({ "commitment": "confirmed", "maxSupportedTransactionVersion": 0 });
    match method {
        "getAccountInfo" => tokens.iter().map(|it| json!([it.to_string(), base64])).collect(),
        "getMultipleAccounts" => {
            tokens.chunks(ACCOUNTS).map(|some| json!([join_texts(some), base64])).collect()
        }
        "getBalance" => {
            fixture.payers.iter().map(|payer| json!([payer.pubkey().to_string()])).collect()
        }
        "getTransaction" => inputs.signatures.iter().map(|it| json!([it, confirmed])).collect(),
        "getBlock" => inputs.blocks.iter().map(|slot| json!([slot, confirmed])).collect(),
        "getBlocks" => inputs
            .blocks
            .iter()
            .map(|slot| json!([slot.saturating_sub(SLOTS), slot, { "commitment": "confirmed" }]))
            .collect(),
        "getLatestBlockhash" => vec![json!([])],
        "sendTransaction" => vec![Value::Null],
        _ => Vec::new(),
    }
}

fn join_texts(addresses: &[Pubkey]) -> Vec<String> {
    addresses.iter().map(Pubkey::to_string).collect()
}

/// Returns the paths with the data of a method, apart from `sendTransaction`.
fn rest_paths(method: &str, fixture: &Fixture, inputs: &Inputs) -> Vec<String> {
    let account = |address: &Pubkey| format!("/v1/accounts/{address}");
    match method {
        "getAccountInfo" => fixture.tokens.iter().map(account).collect(),
        "getMultipleAccounts" => {
            let path =
                |some: &[Pubkey]| format!("/v1/accounts?addresses={}", join_texts(some).join(","));
            fixture.tokens.chunks(ACCOUNTS).map(path).collect()
        }
        "getBalance" => fixture.payers.iter().map(|payer| account(&payer.pubkey())).collect(),
        "getTransaction" => inputs
            .signatures
            .iter()
            .map(|it| format!("/v1/transactions/{it}?commitment=confirmed"))
            .collect(),
        "getBlock" => {
            let path = |slot: &u64| format!("/v1/blocks/{slot}?commitment=confirmed");
            inputs.blocks.iter().map(path).collect()
        }
        "getLatestBlockhash" => vec!["/v1/ledger".to_owned()],
        _ => Vec::new(),
    }
}

fn table(run: &Measurement<'_>, rows: &Rows, kinds: &[[String; 2]]) -> String {
    let mut lines = String::new();
    for [source, interface] in kinds {
        let sample = |round: usize| {
            let key = [source.clone(), interface.clone(), round.to_string()];
            let counts = [rows.number(&key, 0)?, rows.number(&key, 1)?];
            Some((counts, Sample::read(|at| rows.number(&key, at + 2))?))
        };
        let rounds: Option<Vec<_>> = (0..run.size.rounds).map(sample).collect();
        let Some(rounds) = rounds else { continue };
        let sum = |at: usize| rounds.iter().map(|(counts, _)| counts[at]).sum::<f64>();
        let value = |value: fn(&Sample) -> f64| {
            median(rounds.iter().map(|(_, sample)| value(sample)).collect())
        };
        lines.push_str(&format!(
            "| {interface} | {} | {} | {:.0} | {:.3} | {:.3} | {:.1} | {:.0} |\n",
            sum(0),
            sum(1),
            value(|sample| sample.rate),
            value(|sample| sample.p50_ms),
            value(|sample| sample.p99_ms),
            value(|sample| sample.cpu_us),
            value(|sample| sample.bytes),
        ));
    }
    if lines.is_empty() {
        return lines;
    }
    let source = match run.replay {
        Some(path) => {
            let name = Path::new(path).file_name().unwrap_or_default().to_string_lossy();
            format!("Source of the requests: the log `{name}` (`--replay`).")
        }
        None => format!(
            "Source of the weights: {PUBLISHED_MIX_SOURCE}: {}. No provider publishes shares by method.",
            weights()
        ),
    };
    let about = format!(
        "{source} Closed loop of {CONNECTIONS} connections, {} rounds, to a node with blocks of 400 ms. REST uses the \
         routes with the same data; `getBlocks` has no route. Commits: {}.",
        run.size.rounds,
        rows.commits()
    );
    let columns =
        ["interface", "requests", "failed", "ok/s", "p50, ms", "p99, ms", "us CPU", "bytes"];
    table_head("Mix", &about, &columns) + &lines
}

/// Returns the published methods with their shares.
fn weights() -> String {
    let all: f64 = PUBLISHED_MIX.iter().map(|count| f64::from(count.requests)).sum();
    let share = |count: &loadgen_solana::PublishedCount| {
        format!("{} {:.1} %", count.method, f64::from(count.requests) / all * 100.0)
    };
    PUBLISHED_MIX.iter().map(share).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_published_method_has_requests() -> Result<()> {
        let fixture = Fixture::write(3, 2)?;
        let mut inputs = Inputs::default();
        inputs.signatures = vec!["s".to_owned()];
        inputs.blocks = vec![7];
        for count in PUBLISHED_MIX {
            let has = |interface: Interface| {
                !interface.requests(count.method, &fixture, &inputs).is_empty()
            };
            assert!(has(Interface::JsonRpc), "{}", count.method);
            assert_eq!(has(Interface::Rest), count.method != "getBlocks", "{}", count.method);
        }
        Ok(())
    }

    #[test]
    fn the_rows_of_another_log_have_another_source() {
        let source = log_source(b"{\"method\":\"getSlot\"}\n");
        assert!(source.starts_with("log "), "{source}");
        assert_eq!(source, log_source(b"{\"method\":\"getSlot\"}\n"));
        assert_ne!(source, log_source(b"{\"method\":\"getBlock\"}\n"));
    }

    #[test]
    fn both_interfaces_have_submissions() {
        let call = LogEntry::call(Duration::ZERO, "sendTransaction", &json!(["AQ=="]));
        assert!(is_submission(&call) && is_submission(&rest_submission(&json!("AQ=="))));
        assert!(!is_submission(&LogEntry::call(Duration::ZERO, "getSlot", &json!([]))));
    }
}
