//! The sites of the allocations of a stream: a run with streams, less a run with the connection alone.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use super::dhat::{Allocations, Dhat};
use super::measurement::Measurement;
use crate::report::table_head;
use crate::tpu::process::{Generator, Server};

/// Sites with fewer allocations in a thousand streams are summed up in one row.
const PER_THOUSAND_MIN: f64 = 0.05;

/// The row that has all sites; written last.
const TOTAL: &str = "all sites";
const OTHERS: &str = "other sites";

pub(super) fn run(run: &mut Measurement<'_>, is_selected: bool) -> Result<String> {
    let columns = ["server", "site", "allocations_per_1000_streams", "bytes_per_1000_streams"];
    let mut rows = run.report.rows("sites.csv", 2, &columns)?;
    let key = |server: &str, site: &str| [server.to_owned(), site.to_owned()];
    let servers = run.servers;
    let share = 1.0 / servers.len() as f64;
    for name in servers {
        let is_measured = rows.find(&key(name, TOTAL)).is_some();
        if is_selected && is_measured {
            run.skip(share);
        } else if is_selected {
            let measured = measure(name, run.size.sites)?;
            // Those of a run that was stopped while it wrote them.
            rows.remove_rows(|key| key[0] == *name)?;
            for (site, allocations) in measured {
                let Allocations { count, bytes } = allocations;
                rows.push(&key(name, &site), &[format!("{count:.3}"), format!("{bytes:.1}")])?;
            }
            run.complete(share);
        }
    }
    let is_complete = |name: &&&str| rows.find(&key(name, TOTAL)).is_some();
    let complete: Vec<&str> = servers.iter().rev().filter(is_complete).copied().collect();
    let of_complete = rows.keys().filter(|row| complete.contains(&row[0].as_str()));
    let sites: BTreeSet<String> = of_complete.map(|row| row[1].clone()).collect();
    let counts = |site: &str| -> Vec<Option<f64>> {
        complete.iter().map(|name| rows.number(&key(name, site), 0)).collect()
    };
    let mut lines: Vec<(f64, String)> = Vec::new();
    for site in &sites {
        let counts = counts(site);
        let cells: Vec<String> = counts
            .iter()
            .map(|count| count.map_or_else(|| "-".to_owned(), |count| format!("{count:.2}")))
            .collect();
        let most = counts.into_iter().flatten().fold(0.0, f64::max);
        // The sums are the last rows.
        let rank = match site.as_str() {
            TOTAL => -1.0,
            OTHERS => 0.0,
            _ => most,
        };
        lines.push((rank, format!("| `{site}` | {} |\n", cells.join(" | "))));
    }
    if lines.is_empty() {
        return Ok(String::new());
    }
    lines.sort_by(|one, other| other.0.total_cmp(&one.0));
    let mut columns = vec!["site"];
    columns.extend(&complete);
    let about = format!(
        "Allocations in 1,000 streams of 300 bytes, of {} over one connection, without those of the connection itself. \
         Counted by Valgrind's DHAT, under which fewer datagrams arrive at once. `-`: no such site. Commits: {}.",
        run.size.sites,
        rows.commits()
    );
    let lines: String = lines.into_iter().map(|(_, line)| line).collect();
    Ok(table_head("By site", &about, &columns) + &lines)
}

/// Returns the allocations in a thousand streams by site, those of all sites last.
fn measure(name: &str, streams: u64) -> Result<Vec<(String, Allocations)>> {
    let without = count(name, 1)?;
    let mut with = count(name, streams + 1)?;
    for site in without.keys() {
        with.entry(site.clone()).or_default();
    }
    let mut sites = Vec::new();
    let mut rest = Allocations::default();
    let mut total = Allocations::default();
    let scale = 1_000.0 / streams as f64;
    for (site, with) in with {
        let without = without.get(&site).copied().unwrap_or_default();
        let count = (with.count - without.count) * scale;
        let bytes = (with.bytes - without.bytes) * scale;
        total.count += count;
        total.bytes += bytes;
        if count >= PER_THOUSAND_MIN {
            sites.push((site, Allocations { count, bytes }));
        } else {
            rest.count += count;
            rest.bytes += bytes;
        }
    }
    sites.push((OTHERS.to_owned(), rest));
    sites.push((TOTAL.to_owned(), total));
    Ok(sites)
}

fn count(name: &str, streams: u64) -> Result<BTreeMap<String, Allocations>> {
    let dhat = Dhat::new()?;
    let (program, argument) = Server::program(name)?;
    let mut command = dhat.command(&program);
    let mut server = Server::start_command(command.args(argument).args(["--window", "512"]))?;
    let mut generator =
        Generator::start(server.port, "connections=1 under-way=256 one-identity=1")?;
    generator.run(&format!("bytes=300 streams={streams}"))?;
    generator.end()?;
    server.wait_for_streams(streams)?;
    server.end()?;
    dhat.sites()
}
