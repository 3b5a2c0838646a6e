//! The suites of Agave's `accounts-cluster-bench`, program-accounts, every route of REST, an account and a list
//! that the client has already (`-unchanged`, 304, beside the same as `-one`), and a mix of all methods: those that read accounts over the synthetic ledger, those that need transactions over `hydrant dev`.
//!
//! Rounds are short, so that there are several in the time (`Size::short`). The one route that writes is
//! offered each transaction once, before the others.

use std::net::SocketAddr;
use std::time::Duration;

use ::load::{
    Client, Endpoint, Found, LoadError, Mix, Needs, Process, Report, RestSuite, Span, Stream,
    Suite, Wanted, status_ok,
};
use anyhow::{Context, Result, ensure};

use super::Size;
use super::recorded::Ratio;
use super::rounds::{Case, Rounds};
use super::server::Server;
use crate::agreed::Serving;
use crate::node::Node;
use crate::{client, transfers};

/// Connections of each suite.
const CONNECTIONS: usize = 16;

/// Those that need transactions.
const OF_HISTORY: [Suite; 4] =
    [Suite::Block, Suite::Blocks, Suite::Transaction, Suite::TransactionParsed];

/// Its answer is a walk over the whole ledger: who reads metrics is one, and patient.
const PATIENT: &str = "rest-metrics";

/// How often, and how long after each other, it is looked for blocks that are final: thirteen seconds are usual.
const LOOKS_MOST: usize = 240;
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// The seed of the mix.
const SEED: u64 = 1;

pub(crate) fn run(server: &Server, serving: Serving, size: &Size) -> Result<Vec<Ratio>> {
    let of_accounts: Vec<Suite> =
        Suite::ALL.into_iter().filter(|suite| !OF_HISTORY.contains(suite)).collect();
    println!("\nsuites: closed loop, {CONNECTIONS} connections; over the synthetic ledger");
    let mut ratios = measured(&of_accounts, false, serving.rpc, server.process(), size)?;
    let threads = size.threads.map(|(io, cpu)| [io.to_string(), cpu.to_string()]);
    let flags = threads.as_ref().map(|[io, cpu]| ["--io-threads", io, "--cpu-threads", cpu]);
    let node = Node::start(flags.as_ref().map_or(&[], |flags| &flags[..]))?;
    println!("suites over hydrant dev, {} transactions", size.transactions);
    send(node.rpc, size)?;
    ratios.extend(measured(&OF_HISTORY, true, node.rpc, Process(node.pid()), size)?);
    Ok(ratios)
}

/// Transfers by `POST /v1/transactions`, each once, all of them executed.
fn send(rpc: SocketAddr, size: &Size) -> Result<()> {
    let mut client = client::Client::open(rpc)?;
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
    let stream = Stream::closed("rest-transactions-post", requests, CONNECTIONS);
    let run = size.once(rpc, vec![Stream { judge: status_ok, ..stream }], Span::Once, None)?;
    let (counts, failure) = (run.outcomes[0].counts, &run.outcomes[0].failure);
    ensure!(counts.failed() == 0, "{counts:?}, such as {failure:?}");
    let mut report = Report::new("sent", Vec::new());
    report.add(&[], &[run]);
    print!("{}", report.table());
    transfers::wait_for_all(&mut client, &signatures)
}

fn measured(
    suites: &[Suite],
    is_history: bool,
    rpc: SocketAddr,
    process: Process,
    size: &Size,
) -> Result<Vec<Ratio>> {
    let mut client = Client::open(rpc)?;
    let found = look(&mut client, suites)?;
    let case = |stream| Case { address: rpc, stream, constant: 0 };
    let over_http = |name, requests, connections, judge| {
        let stream = Stream::closed(name, requests, connections);
        case(Stream { judge, ..stream })
    };
    let health = Endpoint::from(rpc).post("/health", "{}");
    let mut cases = vec![over_http("constant", vec![health], CONNECTIONS, status_ok)];
    for suite in suites {
        let requests = suite.requests(&mut client, &found)?;
        cases.push(case(Stream::closed(suite.name(), requests, CONNECTIONS)));
    }
    for suite in RestSuite::ALL.iter().filter(|suite| suite.needs_history == is_history) {
        let connections = if suite.name == PATIENT { 1 } else { CONNECTIONS };
        let requests = suite.requests(&mut client, &found)?;
        cases.push(over_http(suite.name, requests, connections, suite.judge()));
    }
    let mixed = mixed(suites, &found, &Endpoint::from(rpc))?;
    let name = if is_history { "mix of history" } else { "mix of accounts" };
    cases.push(case(Stream::closed(name, mixed, CONNECTIONS)));
    let short = Size { warm_up: size.warm_up.min(size.short / 5), measured: size.short, ..*size };
    let rounds = Rounds::measure(&cases, process, &short, size.runs)?;
    rounds.print();
    Ok(rounds.ratios("suite_"))
}

/// Calls of all suites by their weights.
fn mixed(suites: &[Suite], found: &Found, endpoint: &Endpoint) -> Result<Vec<Vec<u8>>, LoadError> {
    let mut mix = Mix::new(SEED);
    for suite in suites {
        mix.add(suite.weight(), suite.method(), suite.params(found)?);
    }
    Ok(mix.requests(endpoint))
}

/// What there is to ask for; blocks once they are final, so that every round finds them as the others do: before,
/// their answers are not kept.
fn look(client: &mut Client, suites: &[Suite]) -> Result<Found> {
    let wanted = Wanted::default();
    if !suites.contains(&Suite::Transaction) {
        return Ok(Found::look(client, Needs::of(suites.iter().map(|it| it.needs())), &wanted)?);
    }
    for _ in 0..LOOKS_MOST {
        // Routes of history ask for accounts, too.
        let found = Found::look(client, Needs::ALL, &wanted)?;
        let last = found.blocks.iter().max().copied().unwrap_or(u64::MAX);
        if !found.signatures.is_empty() && is_final(client, last)? {
            return Ok(found);
        }
        crate::node::nap(LOOK_EVERY);
    }
    None.context("no block with a transaction was final within a minute")
}

fn is_final(client: &mut Client, slot: u64) -> Result<bool> {
    let reached = client.call("getSlot", &serde_json::json!([{ "commitment": "finalized" }]))?;
    Ok(reached.as_u64().is_some_and(|reached| reached >= slot))
}
