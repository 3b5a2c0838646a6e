//! What clients of ill manners cost honest ones, and a stalled stream its own connection.

use anyhow::Result;

use super::process::{Generator, Server};
use super::{Size, print_threshold};
use crate::median;

/// How a pair of runs is called, and who is measured in the second beside whom.
const CASES: [(&str, &str, Option<&str>); 4] = [
    ("quic_honest_beside_slow", "honest", Some("slow")),
    ("quic_honest_beside_greedy", "honest", Some("greedy")),
    ("quic_honest_beside_broken", "honest", Some("broken")),
    ("quic_beside_own_stalled_stream", "stall", None),
];

pub(super) fn run(size: &Size) -> Result<()> {
    for (name, manner, beside) in CASES {
        let mut ratios = Vec::new();
        for round in 0..size.misbehaving_rounds {
            // Whoever is second has it neither better nor worse.
            let (alone, with) = if round % 2 == 0 {
                let alone = rate(size, "honest", None)?;
                (alone, rate(size, manner, beside)?)
            } else {
                let with = rate(size, manner, beside)?;
                (rate(size, "honest", None)?, with)
            };
            println!(
                "8 connections ({manner}) beside {}: {with:.0} streams/s, alone {alone:.0}",
                beside.unwrap_or("nobody")
            );
            ratios.push(with / alone);
        }
        print_threshold(name, median(ratios), "ratio", ">=", 0.9);
    }
    Ok(())
}

/// Streams a second of eight connections, beside as many of another manner that do what they can.
fn rate(size: &Size, manner: &str, beside: Option<&str>) -> Result<f64> {
    let mut server = Server::start("ours", &[])?;
    let mut other = None;
    if let Some(manner) = beside {
        let mut generator =
            Generator::start(server.port, &format!("connections=8 manner={manner}"))?;
        generator.start_load("bytes=300 seconds=1000")?;
        other = Some(generator);
    }
    let plan = format!("connections=8 under-way=2048 manner={manner}");
    let mut generator = Generator::start(server.port, &plan)?;
    // Some before, so that what is measured is not the start of congestion control.
    generator.run("bytes=300 streams=20000")?;
    let outcome = generator.run(&format!("bytes=300 seconds={}", size.misbehaving_seconds))?;
    if let Some(manner) = beside {
        let refused: Vec<String> = server
            .metrics()?
            .rejected()
            .into_iter()
            .map(|(cause, count)| format!("{count} {cause}"))
            .collect();
        println!("  {manner}: {}", refused.join(", "));
    }
    generator.end()?;
    // The others go with their process.
    drop(other);
    Ok(outcome.streams / outcome.seconds)
}
