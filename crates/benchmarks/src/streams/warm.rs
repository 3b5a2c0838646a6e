//! Many connections, long enough that all of them have used their windows: allocations, and bytes held. Then the bytes
//! held after each connection has sent a window of streams, as many of them at once as the server allows.

use anyhow::Result;

use super::deliveries::OURS;
use super::measurement::{Measurement, WINDOW, size_name};
use crate::median::median;
use crate::report::{Rows, table_head};
use crate::threshold;
use crate::tpu::process::{Generator, Server};
use crate::tpu::stream_cost::{Cell, Contender, SIZES};

/// Our server, if it shared no bound on open streams among its connections.
const OURS_FIXED: &str = "ours-fixed";

pub(super) fn run(run: &mut Measurement<'_>, is_selected: bool) -> Result<String> {
    let full_windows = full_windows(run, is_selected)?;
    let columns = [
        "server",
        "bytes_each",
        "offload",
        "round",
        "streams",
        "allocations",
        "allocated_bytes",
        "held_bytes",
    ];
    let mut rows = run.report.rows("warm.csv", 4, &columns)?;
    let cells: Vec<Cell> = [false, true]
        .into_iter()
        .flat_map(|offload| SIZES.map(|bytes| Cell { bytes, offload }))
        .collect();
    if is_selected {
        measure(run, &mut rows, &cells)?;
    }
    let mut table = String::new();
    let mut most = 0.0_f64;
    let mut most_of_quinn = 0.0_f64;
    let mut most_held = full_windows.of_quinn_old.unwrap_or(0.0);
    let mut measured = 0;
    for cell in cells.iter().copied() {
        let values = |name: &str, value: &dyn Fn(&Rows, &[String]) -> Option<f64>| {
            let rounds = (0..run.size.warm_rounds).map(|round| key(name, cell, round));
            let rounds: Option<Vec<f64>> = rounds.map(|key| value(&rows, &key)).collect();
            rounds.map(median)
        };
        let per_stream = |name: &str| {
            values(name, &|rows, key| Some(rows.number(key, 1)? / rows.number(key, 0)?))
        };
        let held = |name: &str| values(name, &|rows, key| Some(rows.number(key, 3)? / 1e6));
        let is_measured = |name: &&str| held(name).is_some();
        let ours = (per_stream("ours"), per_stream("quinn"), held("ours"));
        let (Some(allocations), Some(quinn), Some(bytes)) = ours else { continue };
        if !run.servers.iter().all(is_measured) {
            continue;
        }
        measured += 1;
        most = most.max(allocations);
        most_of_quinn = most_of_quinn.max(allocations / quinn);
        if let Some(before) = held("quinn-old") {
            most_held = most_held.max(bytes / before);
        }
        let mut line = format!("| {} |", cell.name());
        for name in run.servers.iter().rev() {
            let number =
                |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |it| format!("{it:.4}"));
            line.push_str(&format!(
                " {} | {:.1} |",
                number(per_stream(name)),
                held(name).unwrap_or(0.0)
            ));
        }
        table.push_str(&format!("{line} {:.3} |\n", allocations / quinn));
    }
    if table.is_empty() {
        return Ok(full_windows.table);
    }
    let is_complete = measured == cells.len();
    if is_complete {
        let name = "streams_warm_allocations";
        threshold::to_four_digits(name, most, "a_stream", "<=", 0.1);
        let name = "streams_warm_allocations_of_quinn";
        threshold::to_four_digits(name, most_of_quinn, "x", "<=", 0.2);
    } else {
        println!(
            "warm: {measured} of {} cells are measured, so the worst is not known",
            cells.len()
        );
    }
    if is_complete && full_windows.of_quinn_old.is_some() {
        threshold::to_four_digits("streams_warm_held_of_quinn_old", most_held, "x", "<=", 1.0);
    }
    let mut columns = vec!["cell"];
    let names: Vec<[String; 2]> = run
        .servers
        .iter()
        .rev()
        .map(|name| [format!("{name}, a stream"), format!("{name}, MB held")])
        .collect();
    columns.extend(names.iter().flatten().map(String::as_str));
    columns.push("ours of quinn");
    let about = format!(
        "Allocations a stream and heap bytes held at the end of a round: {} connections, window {WINDOW}, {} rounds of \
         {} streams after one that is not counted; medians. Two streams of a connection are in flight at once. Our \
         server bounds the open streams of all connections and grants a connection more as it needs them. The servers \
         on quinn have Agave's window for a stream, the size of a transaction. Commits: {}.",
        run.size.connections[2],
        run.size.warm_rounds,
        run.size.warm_streams,
        rows.commits()
    );
    Ok(table_head("Warm", &about, &columns) + &table + &full_windows.table)
}

/// The heap that the servers retain after their connections have used their windows.
struct FullWindows {
    table: String,
    /// Heap of ours over that of quinn before its free list, once both are measured.
    of_quinn_old: Option<f64>,
}

fn full_windows(run: &mut Measurement<'_>, is_selected: bool) -> Result<FullWindows> {
    let mut rows = run.report.rows("full_windows.csv", 1, &["server", "streams", "held_bytes"])?;
    let mut table = String::new();
    let servers = run.servers;
    for name in servers.iter().rev().chain([&OURS_FIXED]) {
        let key = [(*name).to_owned()];
        if is_selected && rows.find(&key).is_none() {
            rows.push(&key, &measure_full_windows(name, run.size.connections[2])?)?;
        }
        if let Some(bytes) = rows.number(&key, 1) {
            table.push_str(&format!("| {name} | {:.1} |\n", bytes / 1e6));
        }
    }
    if !table.is_empty() {
        let about = format!(
            "Heap bytes retained after {} connections have sent {WINDOW} streams of 300 bytes each, as many of them \
             at once as the server allows. `{OURS_FIXED}` is our server without a bound on the open streams of all \
             connections. Commits: {}.",
            run.size.connections[2],
            rows.commits()
        );
        table = table_head("After full windows", &about, &["server", "MB held"]) + &table;
    }
    let held = |name: &str| rows.number(&[name.to_owned()], 1);
    let of_quinn_old = held(OURS).zip(held("quinn-old")).map(|(ours, before)| ours / before);
    Ok(FullWindows { table, of_quinn_old })
}

fn measure_full_windows(name: &str, connections: usize) -> Result<[String; 2]> {
    let window = WINDOW.to_string();
    let mut server = Server::start(name, &["--bytes", "1232", "--window", &window])?;
    let plan = format!("connections={connections} one-identity=1");
    let mut generator = Generator::start(server.port, &plan)?;
    let streams = (connections * WINDOW) as u64;
    generator.run(&format!("bytes=300 streams={streams}"))?;
    let held = server.wait_for_streams(streams)?.get("held");
    generator.end()?;
    server.end()?;
    Ok([streams.to_string(), held.to_string()])
}

fn key(server: &str, cell: Cell, round: usize) -> [String; 4] {
    let Cell { bytes, offload } = cell;
    [server.to_owned(), size_name(bytes), u8::from(offload).to_string(), round.to_string()]
}

fn measure(run: &mut Measurement<'_>, rows: &mut Rows, cells: &[Cell]) -> Result<()> {
    let servers = run.servers;
    let share = 1.0 / (servers.len() * cells.len()) as f64;
    for name in servers {
        let is_missing = |cell: &Cell| {
            (0..run.size.warm_rounds).any(|round| rows.find(&key(name, *cell, round)).is_none())
        };
        let missing: Vec<Cell> = cells.iter().copied().filter(is_missing).collect();
        run.skip(share * (cells.len() - missing.len()) as f64);
        if missing.is_empty() {
            continue;
        }
        let mut contender = Contender::start(name, WINDOW, run.size.connections[2], 1_232)?;
        let start = run.deliveries.new_start("warm", name);
        for cell in missing {
            let Cell { bytes, offload } = cell;
            let streams = run.size.warm_streams;
            let load = format!("bytes={bytes} offload={} streams={streams}", u8::from(offload));
            contender.measure(&load)?;
            let mut costs = Vec::new();
            for _ in 0..run.size.warm_rounds {
                costs.push(contender.measure(&load)?);
            }
            run.deliveries.record(&start, &mut contender)?;
            for (round, cost) in costs.iter().enumerate() {
                let values =
                    [cost.streams, cost.allocations, cost.allocated, cost.after.get("held")];
                rows.push(&key(name, cell, round), &values.map(|value| value.to_string()))?;
            }
            run.complete(share);
        }
        contender.end()?;
    }
    Ok(())
}
