//! Many connections, long enough that all of them have used their windows: allocations, and bytes held.

use anyhow::Result;

use super::measurement::{Measurement, size_name};
use crate::median::median;
use crate::report::{Rows, table_head};
use crate::threshold;
use crate::tpu::stream_cost::{Cell, Contender, SIZES};

pub(super) fn run(run: &mut Measurement<'_>, is_selected: bool) -> Result<String> {
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
    let mut most_held = 0.0_f64;
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
        return Ok(table);
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
    if is_complete && most_held > 0.0 {
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
        "Allocations a stream and heap bytes held at the end of a round: {} connections, window 512, {} rounds of {} \
         streams after one that is not counted; medians. Commits: {}.",
        run.size.connections[2],
        run.size.warm_rounds,
        run.size.warm_streams,
        rows.commits()
    );
    Ok(table_head("Warm", &about, &columns) + &table)
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
        let mut contender = Contender::start(name, 512, run.size.connections[2], 1_232)?;
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
