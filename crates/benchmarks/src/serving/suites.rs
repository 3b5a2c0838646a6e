//! The suites of Agave's `accounts-cluster-bench`, program-accounts, every route of REST, the same from a client that
//! has the responses (`-304`), an account and a list that the client has already (`-unchanged`, 304, compared with the
//! same as `-one`), and a mix of all methods. Suites that read accounts run over the synthetic ledger, suites that need
//! transactions over `hydrant dev`.
//!
//! Rounds are short, so that there are several in the time (`Size::short`). The one route that writes is
//! offered each transaction once, before the others.

use std::net::SocketAddr;
use std::time::Duration;

use ::loadgen::{Mix, Report, RunLength, Stream, status_ok};
use anyhow::{Context, Result, ensure};
use http_client::{Client, Endpoint};
use loadgen_solana::{DiscoveryConfig, InputKinds, Inputs, RestSuite, Suite, SuiteError};
use process_usage::Process;
use solana_signer::Signer as _;
use testkit::clock::sleep_for;
use testkit::json_rpc_client::JsonRpcClient;
use testkit::transfers;

use super::rounds::{Case, Rounds};
use super::server::Server;
use super::size::Size;
use crate::ledger_process::protocol::Serving;
use crate::node;

/// Connections of each suite.
const CONNECTIONS: usize = 16;

/// Those that need transactions.
const HISTORY_SUITES: [Suite; 4] =
    [Suite::Block, Suite::Blocks, Suite::Transaction, Suite::TransactionParsed];

/// Its response is a walk over the whole ledger. Metrics have one reader, which waits.
const SINGLE_CONNECTION_SUITE: &str = "rest-metrics";

/// The end of the name of a suite from a client that has the responses.
pub(super) const NOT_MODIFIED: &str = "-304";

/// Number and interval of the polls for finalized blocks. Thirteen seconds are usual.
const POLLS_MAX: usize = 240;
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// The seed of the mix.
const SEED: u64 = 1;

pub(crate) fn run(server: &Server, serving: Serving, size: &Size) -> Result<()> {
    println!("\nsuites: closed loop, {CONNECTIONS} connections; over the synthetic ledger");
    measure(&account_cases(serving.rpc)?, server.process(), size)?;
    let node = node::dev(&[])?.start()?;
    println!("suites over hydrant dev, {} transactions", size.transactions);
    let payers = send(node.rpc, size)?;
    measure(&history_cases(node.rpc, u64::MAX, payers)?, Process::with_id(node.pid()), size)
}

fn measure(cases: &[Case], process: Process, size: &Size) -> Result<()> {
    let short = Size { warm_up: size.warm_up.min(size.short / 5), measured: size.short, ..*size };
    Rounds::measure(cases, process, &short, size.runs)?.print();
    Ok(())
}

/// The suites that read accounts, after a constant.
pub(crate) fn account_cases(rpc: SocketAddr) -> Result<Vec<Case>> {
    let suites = Suite::ALL.into_iter().filter(|suite| !HISTORY_SUITES.contains(suite));
    let suites: Vec<Suite> = suites.collect();
    let mut client = Client::open(rpc)?;
    let needs = InputKinds::union(suites.iter().map(|suite| suite.required_inputs()));
    let found = Inputs::discover(&mut client, needs, &DiscoveryConfig::default())?;
    cases(rpc, &suites, &mut client, &found, |suite| !suite.needs_history, "mix of accounts")
}

/// The suites that need transactions, after a constant. Suites of slots get the last `slots_max`, suites of accounts
/// get `accounts`: the history of an account that other transactions touch too depends on the node's uptime.
pub(crate) fn history_cases(
    rpc: SocketAddr,
    slots_max: u64,
    accounts: Vec<String>,
) -> Result<Vec<Case>> {
    let mut client = Client::open(rpc)?;
    let mut found = wait_for_finalized(&mut client, accounts)?;
    found.slots.0 = found.slots.0.max((found.slots.1 + 1).saturating_sub(slots_max));
    cases(rpc, &HISTORY_SUITES, &mut client, &found, |suite| suite.needs_history, "mix of history")
}

/// Transfers by `POST /v1/transactions`, each once, all of them executed. Returns the payers: their numbers of
/// transactions differ by at most one.
pub(crate) fn send(rpc: SocketAddr, size: &Size) -> Result<Vec<String>> {
    let mut client = JsonRpcClient::open(rpc)?;
    let payers = transfers::fund_payers(&mut client, 8)?;
    let signed = transfers::signed_transfers(&mut client, &payers, size.transactions)?;
    let endpoint = Endpoint::from(rpc);
    let path = "/v1/transactions?skipPreflight=true";
    let mut requests = Vec::new();
    let mut signatures = Vec::new();
    for transaction in &signed {
        let params = transfers::send_params(transaction, true)?;
        let body = serde_json::json!({ "transaction": params[0] });
        requests.push(endpoint.post(path, &body.to_string()));
        let first = transaction.signatures.first().context("it is signed")?;
        signatures.push(first.to_string());
    }
    let stream = Stream::closed_loop("rest-transactions-post", requests, CONNECTIONS);
    let run = size.run_once(
        rpc,
        vec![Stream { classifier: status_ok, ..stream }],
        RunLength::Once,
        None,
    )?;
    let counts = run.stats[0].counts;
    let failure = &run.stats[0].failure;
    ensure!(counts.failed() == 0, "{counts:?}, such as {failure:?}");
    let mut report = Report::new("sent", Vec::new());
    report.add(&[], &[run]);
    print!("{}", report.table());
    transfers::wait_for_all(&mut client, &signatures)?;
    Ok(payers.iter().map(|payer| payer.pubkey().to_string()).collect())
}

fn cases(
    address: SocketAddr,
    suites: &[Suite],
    client: &mut Client,
    found: &Inputs,
    is_selected: impl Fn(&RestSuite) -> bool,
    name_of_mix: &str,
) -> Result<Vec<Case>> {
    let endpoint = Endpoint::from(address);
    let case = |stream| Case { address, stream, constant: 0 };
    let over_http = |name: &str, requests, connections, judge| {
        let stream = Stream::closed_loop(name, requests, connections);
        case(Stream { classifier: judge, ..stream })
    };
    let health = endpoint.post("/health", "{}");
    let mut cases = vec![over_http("constant", vec![health], CONNECTIONS, status_ok)];
    for suite in suites {
        let requests = suite.requests(client, found)?;
        cases.push(case(Stream::closed_loop(suite.name(), requests, CONNECTIONS)));
    }
    for suite in RestSuite::ALL.iter().filter(|suite| is_selected(suite)) {
        let connections = if suite.name == SINGLE_CONNECTION_SUITE { 1 } else { CONNECTIONS };
        let requests = suite.requests(client, found)?;
        cases.push(over_http(suite.name, requests, connections, suite.classifier()));
        if let Some(revalidated) = suite.into_revalidation() {
            let name = format!("{}{NOT_MODIFIED}", suite.name);
            let requests = revalidated.requests(client, found)?;
            cases.push(over_http(&name, requests, connections, revalidated.classifier()));
        }
    }
    let mixed = mixed(suites, found, &endpoint)?;
    cases.push(case(Stream::closed_loop(name_of_mix, mixed, CONNECTIONS)));
    Ok(cases)
}

/// Calls of all suites by their weights.
fn mixed(
    suites: &[Suite],
    found: &Inputs,
    endpoint: &Endpoint,
) -> Result<Vec<Vec<u8>>, SuiteError> {
    let mut mix = Mix::new(SEED);
    for suite in suites {
        mix.add(suite.weight(), suite.method(), suite.params(found)?);
    }
    Ok(mix.requests(endpoint))
}

/// The inputs of requests, once their blocks are finalized, so that all rounds are alike: responses about later blocks
/// are not cached.
fn wait_for_finalized(client: &mut Client, addresses: Vec<String>) -> Result<Inputs> {
    let accounts = addresses.len();
    let config = DiscoveryConfig { addresses, ..DiscoveryConfig::default() };
    let mut found = Inputs::default();
    for _ in 0..POLLS_MAX {
        // An account is found once it is final.
        let is_complete =
            |found: &Inputs| !found.signatures.is_empty() && found.accounts.len() >= accounts;
        if !is_complete(&found) {
            // Routes of history read accounts, too.
            found = Inputs::discover(client, InputKinds::ALL, &config)?;
        }
        let last = found.blocks.iter().max().copied().unwrap_or(u64::MAX);
        if is_complete(&found) && is_final(client, last)? {
            return Ok(found);
        }
        sleep_for(POLL_INTERVAL);
    }
    None.context("no block with a transaction was final within a minute")
}

fn is_final(client: &mut Client, slot: u64) -> Result<bool> {
    let reached = client.call("getSlot", &serde_json::json!([{ "commitment": "finalized" }]))?;
    Ok(reached.as_u64().is_some_and(|reached| reached >= slot))
}
