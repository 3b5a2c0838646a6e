//! The suites of Agave's `accounts-cluster-bench`, and program-accounts: those that read accounts over the
//! synthetic ledger, those that need transactions over `hydrant dev`.

use std::net::SocketAddr;

use ::load::{Client, Endpoint, Found, Process, Report, Run, Stream, Suite, Wanted, status_ok};
use anyhow::{Context, Result, ensure};

use super::Size;
use super::recorded::Ratio;
use super::server::{Server, Serving};
use crate::client;
use crate::median;
use crate::node::Node;
use crate::transfers;

/// Connections of each suite.
const CONNECTIONS: usize = 16;

/// Those that need transactions.
const OF_HISTORY: [Suite; 4] =
    [Suite::Block, Suite::Blocks, Suite::Transaction, Suite::TransactionParsed];

pub(crate) fn run(server: &Server, serving: Serving, size: &Size) -> Result<Vec<Ratio>> {
    let of_accounts: Vec<Suite> =
        Suite::ALL.into_iter().filter(|suite| !OF_HISTORY.contains(suite)).collect();
    println!("\nsuites: closed loop, {CONNECTIONS} connections; over the synthetic ledger");
    let mut ratios = measured(&of_accounts, serving.rpc, server.process(), size)?;
    let node = Node::start(&[])?;
    send(node.rpc, size.transactions)?;
    println!("suites over hydrant dev, {} transactions", size.transactions);
    ratios.extend(measured(&OF_HISTORY, node.rpc, Process(node.pid()), size)?);
    Ok(ratios)
}

/// Transfers, all of them executed.
fn send(rpc: SocketAddr, count: usize) -> Result<()> {
    let mut client = client::Client::open(rpc)?;
    let payers = transfers::fund_payers(&mut client, 8)?;
    let signed = transfers::signed_transfers(&mut client, &payers, count)?;
    let mut signatures = Vec::new();
    for transaction in &signed {
        let signature =
            client.call("sendTransaction", transfers::send_params(transaction, true)?)?;
        signatures.push(signature.as_str().context("a signature")?.to_owned());
    }
    transfers::wait_for_all(&mut client, &signatures)
}

fn measured(
    suites: &[Suite],
    rpc: SocketAddr,
    process: Process,
    size: &Size,
) -> Result<Vec<Ratio>> {
    let mut client = Client::open(rpc)?;
    let found = look(&mut client, suites)?;
    let health = Endpoint::from(rpc).post("/health", "{}");
    let constant = Stream::closed("constant", vec![health], CONNECTIONS);
    let mut streams = vec![Stream { judge: status_ok, ..constant }];
    for suite in suites {
        let requests = suite.requests(&mut client, &found)?;
        streams.push(Stream::closed(suite.name(), requests, CONNECTIONS));
    }
    let mut runs: Vec<Vec<Run>> = vec![Vec::new(); streams.len()];
    for _ in 0..size.runs {
        for (stream, runs) in streams.iter().zip(&mut runs) {
            let run = size.once(rpc, vec![stream.clone()], size.span(), Some(process))?;
            let (counts, failure) = (run.outcomes[0].counts, &run.outcomes[0].failure);
            ensure!(counts.failed() == 0, "{}: {counts:?}, such as {failure:?}", stream.name);
            runs.push(run);
        }
    }
    let mut report = Report::new("suites", Vec::new());
    for runs in &runs {
        report.add(&[], runs);
    }
    print!("{}", report.table());
    let rate = |run: &Run| run.outcomes[0].rate();
    let ratio = |runs_of: &Vec<Run>| {
        median(runs_of.iter().zip(&runs[0]).map(|(run, of)| rate(run) / rate(of)).collect())
    };
    let named = streams.iter().zip(&runs).skip(1);
    Ok(named
        .map(|(stream, runs)| Ratio { name: format!("suite_{}", stream.name), ratio: ratio(runs) })
        .collect())
}

/// What there is to ask for; blocks once they are confirmed.
fn look(client: &mut Client, suites: &[Suite]) -> Result<Found> {
    let wanted = Wanted::default();
    let needs_history = suites.contains(&Suite::Transaction);
    for _ in 0..200 {
        let found = Found::look(client, suites, &wanted)?;
        if !needs_history || !found.signatures.is_empty() {
            return Ok(found);
        }
        crate::node::nap(std::time::Duration::from_millis(50));
    }
    None.context("no block with a transaction was confirmed within ten seconds")
}
