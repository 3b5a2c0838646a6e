//! The ladder: what a constant answer costs, what each step above it adds.
//!
//! Rounds go through all rungs in turn, so that what disturbs the machine disturbs all of them; a ratio is
//! taken within its round, and the median of the rounds is told.

use std::net::SocketAddr;

use ::load::{Endpoint, Report, Run, Stream, json_rpc, status_ok};
use anyhow::{Result, ensure};

use super::recorded::Ratio;
use super::server::{Server, Serving};
use super::targets::Targets;
use super::{Size, bar};
use crate::median;

/// Connections of cheap requests, and of large ones.
const CONNECTIONS: usize = 32;
const CONNECTIONS_LARGE: usize = 8;

/// "At least 0.7 of the constant answer's rate", for cheap methods and for 1 MB alike.
const BAR_OF_CONSTANT: f64 = 0.7;

struct Rung {
    name: String,
    address: SocketAddr,
    stream: Stream,
    /// The constant that it is compared with, by place.
    constant: usize,
    has_bar: bool,
}

pub(crate) fn run(
    server: &Server,
    serving: Serving,
    targets: &Targets,
    size: &Size,
) -> Result<Vec<Ratio>> {
    let rungs = rungs(serving, targets);
    let mut runs: Vec<Vec<Run>> = rungs.iter().map(|_| Vec::new()).collect();
    for _ in 0..size.runs {
        for (rung, runs) in rungs.iter().zip(&mut runs) {
            let streams = vec![rung.stream.clone()];
            let run = size.once(rung.address, streams, size.span(), Some(server.process()))?;
            let counts = run.outcomes[0].counts;
            let failure = run.outcomes[0].failure.as_deref().unwrap_or("refused");
            ensure!(counts.failed() == 0, "{}: {counts:?}, such as {failure}", rung.name);
            runs.push(run);
        }
    }
    let mut report = Report::new("ladder", Vec::new());
    for runs in &runs {
        report.add(&[], runs);
    }
    println!("\nladder: closed loop, {CONNECTIONS} connections, {CONNECTIONS_LARGE} for 1 MB");
    print!("{}", report.table());
    let mut ratios = Vec::new();
    for (nth, rung) in rungs.iter().enumerate() {
        let pairs = runs[nth].iter().zip(&runs[rung.constant]);
        let of_constant =
            pairs.map(|(run, constant)| run.outcomes[0].rate() / constant.outcomes[0].rate());
        let ratio = median(of_constant.collect());
        if nth == rung.constant {
            continue;
        }
        let name = rung.name.replace([' ', ','], "_");
        println!("{} of the constant's rate: {ratio:.3}", rung.name);
        if rung.has_bar {
            bar(&format!("load_{name}_of_constant"), ratio, "x", false, BAR_OF_CONSTANT);
        }
        ratios.push(Ratio { name, ratio });
    }
    Ok(ratios)
}

fn rungs(serving: Serving, targets: &Targets) -> Vec<Rung> {
    let Serving { rpc, constant } = serving;
    let health = Endpoint::from(rpc).post("/health", HEALTH);
    let small =
        Stream { judge: status_ok, ..Stream::closed("constant", vec![health], CONNECTIONS) };
    let request = targets.megabyte.request(rpc);
    let large = Stream::closed("constant 1 MB", vec![request.clone()], CONNECTIONS_LARGE);
    let large = Stream { judge: status_ok, ..large };
    let mut rungs =
        vec![rung("constant", rpc, small, 0), rung("constant 1 MB", constant, large, 1)];
    for (method, _) in &targets.cheap {
        let stream = Stream::closed(method, targets.requests(rpc, method), CONNECTIONS);
        rungs.push(Rung { has_bar: true, ..rung(method, rpc, stream, 0) });
    }
    let name = "getProgramAccounts 1 MB";
    let computed = Stream::closed(name, vec![request], CONNECTIONS_LARGE);
    let computed = Stream { judge: json_rpc, ..computed };
    rungs.push(Rung { has_bar: true, ..rung(name, rpc, computed, 1) });
    rungs
}

/// As many bytes as a cheap request has.
const HEALTH: &str =
    r#"{"id":1,"jsonrpc":"2.0","method":"getSlot","params":[{"commitment":"processed"}]}"#;

fn rung(name: &str, address: SocketAddr, stream: Stream, constant: usize) -> Rung {
    Rung { name: name.to_owned(), address, stream, constant, has_bar: false }
}
