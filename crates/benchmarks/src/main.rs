//! The benchmarks: `bench NAME [ARGS...]`, each in a file of its own, in release only.
//!
//! Shape: a benchmark prints its measurements as a table for people, then one line for each value
//! that has a bar: `bar <name> <value> <unit> <<=|>=> <bar>`, or a goal (`threshold`). With `--toy` it does all of that in
//! about a second, so that CI runs every line of it; those values mean nothing.
//! Not here: the check of the bars and the record of the last table (`cargo xtask bars`).
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "a benchmark reports to its caller")]

mod agave;
mod arguments;
mod blocks;
mod cluster;
mod console;
mod contention;
mod follow;
mod forks;
mod grpc;
mod index;
mod kaspa;
mod ladder;
mod ledger_process;
mod median;
mod neighbour;
mod node;
mod report;
mod rpc;
mod serving;
mod sets;
mod snapshot;
mod start;
mod state;
mod store;
mod streams;
mod subs;
mod threshold;
mod tpu;

use std::process::ExitCode;

use anyhow::{Result, bail};

/// A benchmark: its name, its subject, and the function.
type Benchmark = (&'static str, &'static str, fn(&[String]) -> Result<()>);

const BENCHMARKS: &[Benchmark] = &[
    ("start", "time from process start to the first response to getHealth", start::run),
    (
        "rpc",
        "requests a second and latency of cheap methods, compared with a constant response",
        rpc::run,
    ),
    (
        "index",
        "address table and index compared with rivals: memory, a writer alongside readers",
        index::run,
    ),
    (
        "contention",
        "one key under reads and writes: the grid of accounts-db PR 34955, and like for like",
        contention::run,
    ),
    (
        "quic",
        "transactions over QUIC, compared with three rivals, and all the way to the ledger",
        tpu::run,
    ),
    (
        "streams",
        "allocations of streams: the experiment of quinn PR 1999, warm, by site, stalls",
        streams::run,
    ),
    (
        "load",
        "serving under load: isolation, ladder, large responses, overload, thread sweep, suites",
        serving::run,
    ),
    (
        "ladder",
        "every REST route and POST: constant, cached, computed, after a change; hit rates, submission, mix",
        ladder::run,
    ),
    (
        "agave",
        "solana-test-validator beside `hydrant dev`: the suites and thread counts of Agave PR 3242",
        agave::run,
    ),
    ("keys", "a key at its limit, and the latency of another key's requests", neighbour::run),
    ("snapshot", "a ledger from a snapshot archive: rate, memory, sums", snapshot::run),
    (
        "state",
        "a ledger of mainnet's shape: resident memory, reads as it grows, a stream of writes",
        state::run,
    ),
    ("console", "the console: its bytes, and what open pages cost their node", console::run),
    ("forks", "snapshots and reverts of a local ledger, as it grows", forks::run),
    ("subs", "subscriptions to sets of addresses: memory, publishing, completeness", subs::run),
    (
        "sets",
        "500 clients that subscribe to 3.4 M addresses and leave: the experiment of Kaspa PR 427",
        sets::run,
    ),
    (
        "kaspa",
        "the Kaspa ledger: model runs, memory, blocks, verification, subscriptions, long lists, an import",
        kaspa::run,
    ),
    ("blocks", "tips that are replaced, and deep chains: a virtual block, a root", blocks::run),
    ("grpc", "Yellowstone gRPC: publishing to 100 clients compared with one", grpc::run),
    ("follow", "a followed chain of mainnet's shape: updates a second, lag, verdicts", follow::run),
    (
        "cluster",
        "a replicated log: appends, lag, snapshots, a replica that catches up",
        cluster::run,
    ),
    ("store", "the ledger on disk, over our storage engine and over a rival", store::run),
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            println!("error: {err:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[String]) -> Result<()> {
    let (name, rest) = match args.split_first() {
        Some((name, rest)) => (name.as_str(), rest),
        None => ("list", args),
    };
    if name == "list" {
        for (name, about, _) in BENCHMARKS {
            println!("{name:10} {about}");
        }
        return Ok(());
    }
    // The generator of `quic`, in a process of its own.
    if name == "quic-load" {
        return tpu::generator::run(rest);
    }
    match BENCHMARKS.iter().find(|(known, ..)| *known == name) {
        Some((_, _, benchmark)) => benchmark(rest),
        None => bail!("no benchmark `{name}`; `bench list` names them"),
    }
}
