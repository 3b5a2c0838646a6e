//! Allocations of a fresh server: the handshake of its only connection and all of its streams.

use anyhow::{Result, ensure};

use super::measurement::{Measurement, size_name};
use crate::report::table_head;
use crate::tpu::process::{Generator, Server};

/// Sizes of transactions; 0 for the mix.
const SIZES: [usize; 4] = [200, 300, 1_232, 0];
const WINDOW: &str = "512";

pub(super) fn run(run: &mut Measurement<'_>, is_selected: bool) -> Result<String> {
    let columns = ["server", "bytes_each", "streams", "allocations", "allocated_bytes"];
    let mut rows = run.report.rows("cold.csv", 2, &columns)?;
    let mut table = String::new();
    let share = 1.0 / (SIZES.len() * run.servers.len()) as f64;
    for bytes in SIZES {
        let mut line = format!("| {} |", size_name(bytes));
        let mut counts = Vec::new();
        let servers = run.servers;
        for name in servers.iter().rev() {
            let key = [(*name).to_owned(), bytes.to_string()];
            let is_measured = rows.find(&key).is_some();
            if is_selected && is_measured {
                run.skip(share);
            } else if is_selected {
                rows.push(&key, &measure(name, bytes, run.size.cold)?)?;
                run.complete(share);
            }
            let number = |at| rows.number(&key, at);
            if let (Some(streams), Some(count), Some(sum)) = (number(0), number(1), number(2)) {
                line.push_str(&format!(
                    " {count} | {:.4} | {:.1} |",
                    count / streams,
                    sum / streams
                ));
                counts.push(count);
            }
        }
        if let [before, .., ours] = counts[..]
            && counts.len() == run.servers.len()
        {
            table.push_str(&format!("{line} {:.0} : 1 |\n", before / ours));
        }
    }
    if table.is_empty() {
        return Ok(table);
    }
    let mut columns = vec!["bytes"];
    let names: Vec<String> =
        run.servers.iter().rev().map(|name| format!("{name}, allocations")).collect();
    for name in &names {
        columns.extend([name.as_str(), "a stream", "bytes a stream"]);
    }
    columns.push("before : ours");
    let about = format!(
        "{} transactions into a fresh server over one connection, window {WINDOW}, without offload. The handshake and \
         the connection's state are included. Commits: {}.",
        run.size.cold,
        rows.commits()
    );
    Ok(table_head("Cold", &about, &columns) + &table)
}

fn measure(name: &str, bytes: usize, streams: u64) -> Result<[String; 3]> {
    let window_bytes = bytes.max(1_232).to_string();
    let mut server = Server::start(name, &["--bytes", &window_bytes, "--window", WINDOW])?;
    let before = server.metrics()?;
    let mut generator =
        Generator::start(server.port, "connections=1 under-way=2048 one-identity=1")?;
    generator.run(&format!("bytes={bytes} streams={streams}"))?;
    let after = server.wait_for_streams(streams)?;
    generator.end()?;
    server.end()?;
    let delta = |key: &str| after.get(key) - before.get(key);
    ensure!(
        delta("streams") as u64 == streams,
        "{name}: {} of {streams} streams",
        delta("streams")
    );
    Ok(["streams", "allocations", "allocated"].map(|key| delta(key).to_string()))
}
