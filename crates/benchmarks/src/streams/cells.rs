//! Streams a second and CPU time a stream, side by side, the cells that ours loses first.

use std::fmt::Write;

use anyhow::Result;

use super::measurement::{Measurement, size_name};
use crate::median::median;
use crate::report::{Rows, table_head};
use crate::threshold;
use crate::tpu::stream_cost::{Cell, Contender, LARGE, SIZES};

/// A cell of the table.
#[derive(Clone, Copy)]
struct Load {
    connections: usize,
    cell: Cell,
}

pub(super) fn run(run: &mut Measurement<'_>, is_selected: bool) -> Result<String> {
    let columns = [
        "server",
        "connections",
        "bytes_each",
        "offload",
        "round",
        "seconds",
        "streams",
        "cpu_us",
        "allocations",
    ];
    let mut rows = run.report.rows("cells.csv", 5, &columns)?;
    if is_selected {
        measure(run, &mut rows)?;
    }
    let mut lines: Vec<(f64, String)> = Vec::new();
    let mut worst = [f64::INFINITY; 2];
    for load in loads(run) {
        let rounds = |name: &str, value: &dyn Fn(&[f64; 3]) -> f64| {
            let rounds = (0..run.size.cell_rounds).map(|round| {
                let key = key(name, load, round);
                let numbers = [0, 1, 2].map(|at| rows.number(&key, at));
                let [Some(seconds), Some(streams), Some(cpu)] = numbers else { return None };
                Some(value(&[seconds, streams, cpu]))
            });
            rounds.collect::<Option<Vec<f64>>>()
        };
        let rate = |name: &str| rounds(name, &|[seconds, streams, _]| streams / seconds);
        let efficiency = |name: &str| rounds(name, &|[_, streams, cpu]| streams / cpu);
        let (Some(our_rate), Some(our_efficiency)) = (rate("ours"), efficiency("ours")) else {
            continue;
        };
        let mut line = format!("| {} | {} |", load.connections, load.cell.name());
        let mut least = f64::INFINITY;
        for name in run.servers.iter().rev() {
            let (Some(rate), Some(efficiency)) = (rate(name), efficiency(name)) else { continue };
            let cpu = 1.0 / median(efficiency);
            // Writing to a string never fails.
            let _ = write!(line, " {:.0} | {cpu:.3} |", median(rate));
        }
        for name in run.rivals() {
            let (Some(rate), Some(efficiency)) = (rate(name), efficiency(name)) else { continue };
            // A ratio is taken within its round.
            let ratio = |ours: &[f64], other: &[f64]| {
                median(ours.iter().zip(other).map(|(ours, other)| ours / other).collect())
            };
            let ratios = [ratio(&our_rate, &rate), ratio(&our_efficiency, &efficiency)];
            let _ = write!(line, " {:.3} | {:.3} |", ratios[0], ratios[1]);
            for (worst, ratio) in worst.iter_mut().zip(ratios) {
                *worst = worst.min(ratio);
                least = least.min(ratio);
            }
        }
        lines.push((least, line + "\n"));
    }
    if lines.is_empty() {
        return Ok(String::new());
    }
    threshold::to_four_digits("streams_rate_worst_cell", worst[0], "x", ">=", 1.0);
    threshold::to_four_digits("streams_cpu_worst_cell", worst[1], "x", ">=", 1.0);
    lines.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut columns = vec!["connections".to_owned(), "load".to_owned()];
    for name in run.servers.iter().rev() {
        columns.extend([format!("{name}, streams/s"), format!("{name}, us CPU")]);
    }
    for name in run.rivals() {
        columns.extend([format!("rate of {name}"), format!("for the CPU of {name}")]);
    }
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let about = format!(
        "Medians of {} rounds of {} s, all servers in each round. The last columns are ratios within a round, of \
         streams a second and of streams for the same CPU time: above 1 ours does more. The cells that ours loses are \
         first. Commits: {}.",
        run.size.cell_rounds,
        run.size.cell_seconds,
        rows.commits()
    );
    let lines: String = lines.into_iter().map(|(_, line)| line).collect();
    Ok(table_head("Every cell", &about, &columns) + &lines)
}

fn loads(run: &Measurement<'_>) -> Vec<Load> {
    let cells = || {
        let sizes = SIZES.into_iter().chain([LARGE]);
        sizes.flat_map(|bytes| [false, true].map(|offload| Cell { bytes, offload }))
    };
    let connections = run.size.connections.into_iter();
    connections
        .flat_map(|connections| cells().map(move |cell| Load { connections, cell }))
        .collect()
}

fn key(server: &str, load: Load, round: usize) -> [String; 5] {
    let Load { connections, cell: Cell { bytes, offload } } = load;
    [
        server.to_owned(),
        connections.to_string(),
        size_name(bytes),
        u8::from(offload).to_string(),
        round.to_string(),
    ]
}

/// Measures the cells that have no rows. Servers with the same window are up together.
fn measure(run: &mut Measurement<'_>, rows: &mut Rows) -> Result<()> {
    let all = loads(run);
    let is_missing = |rows: &Rows, load: &Load| {
        let last = run.size.cell_rounds - 1;
        run.servers.iter().any(|name| rows.find(&key(name, *load, last)).is_none())
    };
    let group = |load: &Load| (load.connections, load.cell.bytes == LARGE);
    for loads in all.chunk_by(|one, next| group(one) == group(next)) {
        let missing: Vec<Load> =
            loads.iter().copied().filter(|load| is_missing(rows, load)).collect();
        let Some(first) = missing.first() else { continue };
        let bytes = if first.cell.bytes == LARGE { LARGE } else { 1_232 };
        let mut contenders = Vec::new();
        for name in run.servers {
            contenders.push(Contender::start(name, 512, first.connections, bytes)?);
        }
        for load in missing {
            let text = load.cell.load(run.size.cell_seconds);
            for contender in &mut contenders {
                contender.measure(&text)?;
            }
            for round in 0..run.size.cell_rounds {
                for contender in &mut contenders {
                    let cost = contender.measure(&text)?;
                    let values = [cost.seconds, cost.streams, cost.cpu_us, cost.allocations];
                    let cells = values.map(|value| value.to_string());
                    let name = contender.name.clone();
                    rows.push(&key(&name, load, round), &cells)?;
                }
            }
        }
        contenders.into_iter().try_for_each(Contender::end)?;
    }
    Ok(())
}
