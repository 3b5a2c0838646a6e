//! The cost of a stream: servers compared round by round, for each number of connections, size and
//! offload.

use std::collections::BTreeMap;

use anyhow::Result;

use super::process::{Generator, Server, ServerMetrics};
use super::size::Size;
use crate::median::median;
use crate::threshold;

/// Sizes of transactions up to a packet, 0 for the real mix; and the size that only version 1 allows.
pub(crate) const SIZES: [usize; 3] = [200, 0, 1_232];
pub(crate) const LARGE: usize = 4_096;

/// A server with its generator, both up for all cells of a table.
pub(crate) struct Contender {
    pub(crate) name: String,
    server: Server,
    generator: Generator,
    /// Streams that the generator has sent, and that were acknowledged.
    sent: u64,
    /// Those that had not arrived at the last [`Self::delivery`].
    lost: u64,
}

/// The streams of a server since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Delivery {
    pub(crate) sent: u64,
    pub(crate) received: u64,
}

/// The cost of a run for a server.
pub(crate) struct Cost {
    pub(crate) seconds: f64,
    /// Streams that the server received whole.
    pub(crate) streams: f64,
    pub(crate) cpu_us: f64,
    pub(crate) allocations: f64,
    pub(crate) allocated: f64,
    rejected: BTreeMap<String, u64>,
    pub(crate) after: ServerMetrics,
}

/// A load. All contenders get the same.
#[derive(Clone, Copy)]
pub(crate) struct Cell {
    pub(crate) bytes: usize,
    pub(crate) offload: bool,
}

impl Cell {
    pub(crate) fn name(self) -> String {
        let with = if self.offload { "with" } else { "without" };
        match self.bytes {
            0 => format!("the mix, {with} offload"),
            bytes => format!("{bytes} bytes, {with} offload"),
        }
    }

    pub(crate) fn load(self, seconds: f64) -> String {
        format!("bytes={} offload={} seconds={seconds}", self.bytes, u8::from(self.offload))
    }
}

impl Cost {
    fn per_stream(&self, of: f64) -> f64 {
        of / self.streams
    }

    /// Streams a second of CPU time.
    fn efficiency(&self) -> f64 {
        self.streams / self.cpu_us * 1e6
    }
}

impl Contender {
    /// `bytes` is a rival's window for a stream: the size of a transaction, as in Agave.
    pub(crate) fn start(
        name: &'static str,
        window: usize,
        connections: usize,
        bytes: usize,
    ) -> Result<Self> {
        let window = window.to_string();
        let bytes = bytes.to_string();
        let server = Server::start(name, &["--bytes", &bytes, "--window", &window])?;
        // One identity: one of the rivals accepts more than 200 a second only because of its stake.
        let plan = format!("connections={connections} under-way=2048 one-identity=1");
        let generator = Generator::start(server.port, &plan)?;
        Ok(Self { name: name.to_owned(), server, generator, sent: 0, lost: 0 })
    }

    pub(crate) fn measure(&mut self, load: &str) -> Result<Cost> {
        let before = self.server.metrics()?;
        let outcome = self.generator.run(load)?;
        self.sent += outcome.streams as u64;
        let after = self.server.metrics()?;
        let delta = |key: &str| after.get(key) - before.get(key);
        let mut refused = after.rejected();
        for (name, count) in before.rejected() {
            refused.entry(name).and_modify(|after| *after -= count);
        }
        refused.retain(|_, count| *count > 0);
        Ok(Cost {
            seconds: outcome.seconds,
            streams: delta("streams"),
            cpu_us: delta("cpu_us"),
            allocations: delta("allocations"),
            allocated: delta("allocated"),
            rejected: refused,
            after,
        })
    }
}

impl Contender {
    /// Returns the streams of all measurements, once the server has read those that it acknowledged.
    pub(crate) fn delivery(&mut self) -> Result<Delivery> {
        // An earlier call has waited for lost streams until its time was over.
        let expected = self.sent - self.lost;
        let received = self.server.poll_streams(expected)?.get("streams") as u64;
        self.lost = self.sent.saturating_sub(received);
        Ok(Delivery { sent: self.sent, received })
    }

    /// Closes the connections.
    pub(crate) fn end(self) -> Result<()> {
        self.generator.end()
    }
}

/// One cell: every contender once a round, after a warm-up round.
fn cell(contenders: &mut [Contender], load: &str, rounds: usize) -> Result<Vec<Vec<Cost>>> {
    let mut costs: Vec<Vec<Cost>> = contenders.iter().map(|_| Vec::new()).collect();
    for round in 0..=rounds {
        for (contender, costs) in contenders.iter_mut().zip(&mut costs) {
            let cost = contender.measure(load)?;
            if round > 0 {
                costs.push(cost);
            }
        }
    }
    Ok(costs)
}

fn middle(costs: &[Cost], of: impl Fn(&Cost) -> f64) -> f64 {
    median(costs.iter().map(of).collect())
}

fn row(name: &str, what: &str, costs: &[Cost]) {
    let mut refused = BTreeMap::<&str, u64>::new();
    for (cause, count) in costs.iter().flat_map(|cost| &cost.rejected) {
        *refused.entry(cause).or_default() += count;
    }
    let mut more: String =
        refused.iter().map(|(cause, count)| format!(", {count} {cause}")).collect();
    if name.starts_with("ours") {
        let [half, most] = ["latency_p50_us", "latency_p99_us"]
            .map(|key| middle(costs, |cost| cost.after.get(key)));
        more = format!(", first byte to queue's end {half:.0} us, p99 {most:.0}{more}");
    }
    println!(
        "{name:10} {what:44} {:8.0} streams/s {:7.3} us {:8.4} allocations {:7.1} bytes a stream, \
         {:6.1} MB in use{more}",
        middle(costs, |cost| cost.streams / cost.seconds),
        middle(costs, |cost| cost.per_stream(cost.cpu_us)),
        middle(costs, |cost| cost.per_stream(cost.allocations)),
        middle(costs, |cost| cost.per_stream(cost.allocated)),
        middle(costs, |cost| cost.after.get("held")) / 1e6,
    );
}

/// Streams of the first in a second of CPU time over those of each other contender, by round.
fn ratios(costs: &[Vec<Cost>]) -> Vec<f64> {
    let Some((ours, others)) = costs.split_first() else { return Vec::new() };
    let ratio = |other: &Vec<Cost>| {
        let of_round = |(ours, other): (&Cost, &Cost)| ours.efficiency() / other.efficiency();
        median(ours.iter().zip(other).map(of_round).collect())
    };
    others.iter().map(ratio).collect()
}

/// Allocations a stream at steady state.
pub(super) fn allocations(size: &Size, names: &[&'static str]) -> Result<()> {
    let mut contenders = Vec::new();
    for name in names {
        contenders.push(Contender::start(name, 512, 4, 0)?);
    }
    for offload in [false, true] {
        for bytes in [300, 1_232] {
            let which = Cell { bytes, offload };
            let costs = cell(&mut contenders, &which.load(size.seconds * 2.0), size.rounds)?;
            for (contender, costs) in contenders.iter().zip(&costs) {
                row(&contender.name, &format!("4 connections, {}", which.name()), costs);
            }
            if !offload && let Some(ours) = costs.first() {
                let most = if bytes == 300 { 0.03 } else { 0.05 };
                let value = middle(ours, |cost| cost.per_stream(cost.allocations));
                threshold::to_four_digits(
                    &format!("quic_allocations_{bytes}"),
                    value,
                    "a_stream",
                    "<=",
                    most,
                );
            }
        }
    }
    contenders.into_iter().try_for_each(|contender| contender.end())
}

/// Streams a second of the server's CPU time, against each rival in the same round.
pub(super) fn rates(size: &Size, names: &[&'static str]) -> Result<()> {
    for connections in [1, 100, size.many] {
        let mut worst: Vec<(f64, String)> = vec![(f64::INFINITY, String::new()); names.len()];
        for sizes in [&SIZES[..], &[LARGE]] {
            let mut contenders = Vec::new();
            let bytes = sizes.last().copied().unwrap_or_default();
            for name in names {
                contenders.push(Contender::start(name, 512, connections, bytes)?);
            }
            for offload in [false, true] {
                for bytes in sizes.iter().copied() {
                    let which = Cell { bytes, offload };
                    let load = which.load(size.seconds);
                    let costs = cell(&mut contenders, &load, size.rate_rounds)?;
                    for (contender, costs) in contenders.iter().zip(&costs) {
                        let what = format!("{connections} connections, {}", which.name());
                        row(&contender.name, &what, costs);
                    }
                    let ratios = ratios(&costs);
                    let text: Vec<String> = names[1..]
                        .iter()
                        .zip(&ratios)
                        .map(|(name, ratio)| format!("{ratio:.2} times {name}"))
                        .collect();
                    println!("  ours does {} with the same CPU time", text.join(", "));
                    for (worst, ratio) in worst[1..].iter_mut().zip(ratios) {
                        if ratio < worst.0 {
                            *worst = (ratio, which.name());
                        }
                    }
                }
            }
            contenders.into_iter().try_for_each(|contender| contender.end())?;
        }
        for (name, (ratio, which)) in names.iter().zip(worst).skip(1) {
            println!("least with {connections} connections over {name}: {ratio:.3}, {which}");
            threshold::to_four_digits(
                &format!("quic_{connections}_over_{name}"),
                ratio,
                "ratio",
                ">=",
                1.0,
            );
        }
    }
    Ok(())
}

/// The effect of the number of streams that may be open.
pub(super) fn windows(size: &Size, names: &[&'static str]) -> Result<()> {
    for window in [64, 512, 4_096] {
        let mut contenders = Vec::new();
        // Agave's server chooses it.
        for name in names.iter().filter(|name| **name != "streamer") {
            contenders.push(Contender::start(name, window, 4, 1_232)?);
        }
        for offload in [false, true] {
            let which = Cell { bytes: 0, offload };
            let costs = cell(&mut contenders, &which.load(size.seconds), size.rounds)?;
            for (contender, costs) in contenders.iter().zip(&costs) {
                row(&contender.name, &format!("window {window}, {}", which.name()), costs);
            }
        }
        contenders.into_iter().try_for_each(|contender| contender.end())?;
    }
    Ok(())
}

/// The effect of two parts of our server: windows that follow the use of a connection, without which all streams are
/// granted at once (`ours-fixed`), and the queue with its thread (`ours-discard` drops what it receives, as quinn here).
pub(super) fn variants(size: &Size) -> Result<()> {
    for (connections, names) in
        [(100, ["ours", "ours-fixed", "quinn"]), (1, ["ours", "ours-discard", "quinn"])]
    {
        let mut contenders = Vec::new();
        for name in names {
            contenders.push(Contender::start(name, 512, connections, 1_232)?);
        }
        for bytes in SIZES {
            let which = Cell { bytes, offload: true };
            let costs = cell(&mut contenders, &which.load(size.seconds), size.rate_rounds)?;
            for (contender, costs) in contenders.iter().zip(&costs) {
                let what = format!("{connections} connections, {}", which.name());
                row(&contender.name, &what, costs);
            }
            for (name, ratio) in names[1..].iter().zip(ratios(&costs)) {
                println!("  ours does {ratio:.2} times {name} with the same CPU time");
            }
        }
        contenders.into_iter().try_for_each(|contender| contender.end())?;
    }
    Ok(())
}
