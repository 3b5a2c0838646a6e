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
use solana_signer::Signer as _;

use super::Size;
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

pub(crate) fn run(server: &Server, serving: Serving, size: &Size) -> Result<()> {
    println!("\nsuites: closed loop, {CONNECTIONS} connections; over the synthetic ledger");
    measure(&of_accounts(serving.rpc)?, server.process(), size)?;
    let node = Node::start(&[])?;
    println!("suites over hydrant dev, {} transactions", size.transactions);
    let payers = send(node.rpc, size)?;
    measure(&of_history(node.rpc, u64::MAX, payers)?, Process(node.pid()), size)
}

fn measure(cases: &[Case], process: Process, size: &Size) -> Result<()> {
    let short = Size { warm_up: size.warm_up.min(size.short / 5), measured: size.short, ..*size };
    Rounds::measure(cases, process, &short, size.runs)?.print();
    Ok(())
}

/// Those that read accounts, after a constant.
pub(crate) fn of_accounts(rpc: SocketAddr) -> Result<Vec<Case>> {
    let suites = Suite::ALL.into_iter().filter(|suite| !OF_HISTORY.contains(suite));
    let suites: Vec<Suite> = suites.collect();
    let mut client = Client::open(rpc)?;
    let needs = Needs::of(suites.iter().map(|suite| suite.needs()));
    let found = Found::look(&mut client, needs, &Wanted::default())?;
    cases(rpc, &suites, (&mut client, &found), |suite| !suite.needs_history, "mix of accounts")
}

/// Those that need transactions, after a constant. Suites of slots get the last `slots_max`, suites of accounts get
/// `accounts`: the history of one that other transactions touch too depends on how long the node has run.
pub(crate) fn of_history(
    rpc: SocketAddr,
    slots_max: u64,
    accounts: Vec<String>,
) -> Result<Vec<Case>> {
    let mut client = Client::open(rpc)?;
    let mut found = look_for_final(&mut client, accounts)?;
    found.slots.0 = found.slots.0.max((found.slots.1 + 1).saturating_sub(slots_max));
    cases(rpc, &OF_HISTORY, (&mut client, &found), |suite| suite.needs_history, "mix of history")
}

/// Transfers by `POST /v1/transactions`, each once, all of them executed. Returns the addresses that paid: each has
/// the same number of transactions, up to one.
pub(crate) fn send(rpc: SocketAddr, size: &Size) -> Result<Vec<String>> {
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
    transfers::wait_for_all(&mut client, &signatures)?;
    Ok(payers.iter().map(|payer| payer.pubkey().to_string()).collect())
}

fn cases(
    address: SocketAddr,
    suites: &[Suite],
    (client, found): (&mut Client, &Found),
    is_wanted: impl Fn(&RestSuite) -> bool,
    name_of_mix: &str,
) -> Result<Vec<Case>> {
    let endpoint = Endpoint::from(address);
    let case = |stream| Case { address, stream, constant: 0 };
    let over_http = |name, requests, connections, judge| {
        let stream = Stream::closed(name, requests, connections);
        case(Stream { judge, ..stream })
    };
    let health = endpoint.post("/health", "{}");
    let mut cases = vec![over_http("constant", vec![health], CONNECTIONS, status_ok)];
    for suite in suites {
        let requests = suite.requests(client, found)?;
        cases.push(case(Stream::closed(suite.name(), requests, CONNECTIONS)));
    }
    for suite in RestSuite::ALL.iter().filter(|suite| is_wanted(suite)) {
        let connections = if suite.name == PATIENT { 1 } else { CONNECTIONS };
        let requests = suite.requests(client, found)?;
        cases.push(over_http(suite.name, requests, connections, suite.judge()));
    }
    let mixed = mixed(suites, found, &endpoint)?;
    cases.push(case(Stream::closed(name_of_mix, mixed, CONNECTIONS)));
    Ok(cases)
}

/// Calls of all suites by their weights.
fn mixed(suites: &[Suite], found: &Found, endpoint: &Endpoint) -> Result<Vec<Vec<u8>>, LoadError> {
    let mut mix = Mix::new(SEED);
    for suite in suites {
        mix.add(suite.weight(), suite.method(), suite.params(found)?);
    }
    Ok(mix.requests(endpoint))
}

/// What there is to ask for, once its blocks are final, so that every round finds them as the others do: before,
/// their answers are not kept.
fn look_for_final(client: &mut Client, addresses: Vec<String>) -> Result<Found> {
    let wanted = Wanted { addresses, ..Wanted::default() };
    let mut found = Found::default();
    for _ in 0..LOOKS_MOST {
        if found.signatures.is_empty() {
            // Routes of history ask for accounts, too.
            found = Found::look(client, Needs::ALL, &wanted)?;
        }
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
