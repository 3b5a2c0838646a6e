//! The effect of misbehaving clients on honest ones, and of a stalled stream on its own connection.

use anyhow::Result;

use super::process::{Generator, Server};
use super::size::Size;
use crate::median::median;
use crate::threshold;

/// The name of a pair of runs, the measured clients, and the other clients of the second run.
const CASES: [(&str, &str, Option<&str>); 4] = [
    ("quic_honest_beside_slow", "honest", Some("slow")),
    ("quic_honest_beside_greedy", "honest", Some("greedy")),
    ("quic_honest_beside_broken", "honest", Some("broken")),
    ("quic_beside_own_stalled_stream", "stall", None),
];

pub(super) fn run(size: &Size) -> Result<()> {
    for (name, manner, others) in CASES {
        let mut ratios = Vec::new();
        for round in 0..size.misbehaving_rounds {
            // The order alternates, so that neither run has an advantage.
            let (alone, with) = if round % 2 == 0 {
                let alone = rate(size, "honest", None)?;
                (alone, rate(size, manner, others)?)
            } else {
                let with = rate(size, manner, others)?;
                (rate(size, "honest", None)?, with)
            };
            println!(
                "8 connections ({manner}) with {}: {with:.0} streams/s, alone {alone:.0}",
                others.unwrap_or("no others")
            );
            ratios.push(with / alone);
        }
        threshold::to_four_digits(name, median(ratios), "ratio", ">=", 0.9);
    }
    Ok(())
}

/// Streams a second of eight connections, alone or with as many of another behaviour at full speed.
fn rate(size: &Size, manner: &str, others: Option<&str>) -> Result<f64> {
    let mut server = Server::start("ours", &[])?;
    let mut other = None;
    if let Some(manner) = others {
        let mut generator =
            Generator::start(server.port, &format!("connections=8 manner={manner}"))?;
        generator.start_load("bytes=300 seconds=1000")?;
        other = Some(generator);
    }
    let plan = format!("connections=8 under-way=2048 manner={manner}");
    let mut generator = Generator::start(server.port, &plan)?;
    // A warm-up, so that the start of congestion control is not measured.
    generator.run("bytes=300 streams=20000")?;
    let outcome = generator.run(&format!("bytes=300 seconds={}", size.misbehaving_seconds))?;
    if let Some(manner) = others {
        let refused: Vec<String> = server
            .metrics()?
            .rejected()
            .into_iter()
            .map(|(cause, count)| format!("{count} {cause}"))
            .collect();
        println!("  {manner}: {}", refused.join(", "));
    }
    generator.end()?;
    // The others end with their process.
    drop(other);
    Ok(outcome.streams / outcome.seconds)
}
