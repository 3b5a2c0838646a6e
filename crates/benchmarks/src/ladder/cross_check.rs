//! The load generator compared with a public one, Debian's `wrk`: the same requests to the same server, alternately.
//!
//! A machine without `wrk` (`apt-get install wrk`) leaves the rows out, and says so.

use std::io::ErrorKind;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use loadgen::{RunLength, Stream, status_ok};

use super::load::{Sample, run as run_load};
use super::measurement::{CACHE_BYTES, Measurement, Size};
use super::nodes::{ConstantServer, StillNode};
use crate::median::median;
use crate::node::Target;
use crate::report::{Rows, table_head};

const WRK: &str = "wrk";
const CONNECTIONS: usize = 16;

/// Largest deviation of the rate from that of `wrk`.
const DEVIATION_MAX: f64 = 0.15;

const COLUMNS: [&str; 4] = ["request", "round", "wrk_rate", "own_rate"];

/// The names of the compared requests.
const CONSTANT: &str = "constant_450";
const ACCOUNT: &str = "account";
const LIST: &str = "list_of_100";
const NAMES: [&str; 3] = [CONSTANT, ACCOUNT, LIST];

pub(super) fn seconds(size: &Size) -> f64 {
    (NAMES.len() * size.rounds) as f64 * size.wrk_round_seconds()
}

pub(super) fn run(run: &mut Measurement<'_>, is_selected: bool) -> Result<String> {
    let mut rows = run.report.rows("wrk.csv", 2, &COLUMNS)?;
    let is_missing = |rows: &Rows| {
        let is_missing = |name, round| rows.find(&key(name, round)).is_none();
        NAMES.iter().any(|name| (0..run.size.rounds).any(|round| is_missing(name, round)))
    };
    let needs_wrk = is_selected && is_missing(&rows);
    if needs_wrk && is_installed()? {
        measure(run, &mut rows)?;
    } else if is_selected {
        run.progress.skip(seconds(&run.size));
        if needs_wrk {
            println!("no wrk on this machine (apt-get install wrk): the cross-check is left out");
        }
    }
    Ok(table(run, &rows))
}

fn key(name: &str, round: usize) -> [String; 2] {
    [name.to_owned(), round.to_string()]
}

fn is_installed() -> Result<bool> {
    match Command::new(WRK).arg("--version").output() {
        Ok(_) => Ok(true),
        Err(err) if err.kind() == ErrorKind::NotFound => Ok(false),
        Err(err) => Err(err).context("start wrk"),
    }
}

/// A request for one path of a server.
struct Request {
    name: &'static str,
    target: Target,
    path: String,
}

fn measure(run: &mut Measurement<'_>, rows: &mut Rows) -> Result<()> {
    let node = StillNode::start(run.fixture, &run.size, CACHE_BYTES)?;
    let constant = ConstantServer::start()?;
    let account = format!("/v1/accounts/{}", run.fixture.tokens[0]);
    let list = format!("/v1/owners/{}/tokens?limit=100", run.fixture.owners[0]);
    let requests = [
        Request { name: CONSTANT, target: constant.target, path: "/450".to_owned() },
        Request { name: ACCOUNT, target: node.target(), path: account },
        Request { name: LIST, target: node.target(), path: list },
    ];
    for round in 0..run.size.rounds {
        for request in &requests {
            let key = key(request.name, round);
            let work = run.size.wrk_round_seconds();
            if rows.find(&key).is_some() {
                run.progress.skip(work);
                continue;
            }
            let seconds = run.size.wrk_seconds;
            let wrk = request.run_wrk(seconds)?;
            let own = request.run_own(seconds)?;
            rows.push(&key, &[format!("{wrk:.1}"), format!("{own:.1}")])?;
            run.progress.add(work);
        }
    }
    constant.end()
}

impl Request {
    /// Returns the responses a second that `wrk` counts.
    fn run_wrk(&self, seconds: u64) -> Result<f64> {
        let url = format!("http://{}{}", self.target.address, self.path);
        let connections = format!("-c{CONNECTIONS}");
        let output = Command::new(WRK)
            .args(["-t1", &connections, &format!("-d{seconds}s"), &url])
            .output()
            .context("start wrk")?;
        let text = String::from_utf8_lossy(&output.stdout);
        ensure!(output.status.success(), "wrk: {}, {text}", output.status);
        parse_rate(&text).with_context(|| format!("wrk printed: {text}"))
    }

    fn run_own(&self, seconds: u64) -> Result<f64> {
        let endpoint = http_client::Endpoint::from(self.target.address);
        let requests = vec![endpoint.request("GET", &self.path, None)];
        let stream = Stream::closed_loop(self.name, requests, CONNECTIONS);
        let measured = Duration::from_secs(seconds);
        let length = RunLength::Time { warm_up: Duration::ZERO, measured };
        let run = run_load(self.target, Stream { classifier: status_ok, ..stream }, length)?;
        let counts = run.stats[0].counts;
        ensure!(counts.failed() == 0, "{}: {counts:?}", self.name);
        Ok(Sample::new(&run).rate)
    }
}

/// Parses the output of `wrk`. Returns `None` if a response was wrong, or if it has no rate.
fn parse_rate(text: &str) -> Option<f64> {
    let has_failures = text.contains("Non-2xx") || text.contains("Socket errors");
    let line = text.lines().find_map(|line| line.trim().strip_prefix("Requests/sec:"))?;
    (!has_failures).then(|| line.trim().parse().ok())?
}

fn table(run: &mut Measurement<'_>, rows: &Rows) -> String {
    let mut lines = String::new();
    for name in NAMES {
        let values = |at: usize| -> Option<Vec<f64>> {
            (0..run.size.rounds).map(|round| rows.number(&key(name, round), at)).collect()
        };
        let (Some(wrk), Some(own)) = (values(0), values(1)) else { continue };
        let ratio = median(own.iter().zip(&wrk).map(|(own, wrk)| own / wrk).collect());
        lines.push_str(&format!(
            "| {} | {:.0} | {:.0} | {ratio:.3} |\n",
            name.replace('_', " "),
            median(wrk),
            median(own)
        ));
        let figure = format!("ladder_wrk_{name}_deviation");
        run.bars.at_most(&figure, (ratio - 1.0).abs(), "x", DEVIATION_MAX);
    }
    if lines.is_empty() {
        return lines;
    }
    let about = format!(
        "The same request from Debian's `wrk` and from our generator, in turns: one thread, {CONNECTIONS} connections, \
         {} rounds of {} s. Commits: {}.",
        run.size.rounds,
        run.size.wrk_seconds,
        rows.commits()
    );
    let columns = ["request", "wrk, responses/s", "ours, responses/s", "ours of wrk"];
    table_head("Cross-check with wrk", &about, &columns) + &lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_of_wrk_with_wrong_responses_does_not_count() {
        let text = "Running 2s test\n  1 threads and 16 connections\nRequests/sec:  91234.56\nTransfer/sec: 9MB\n";
        assert_eq!(parse_rate(text), Some(91_234.56));
        assert_eq!(parse_rate(&format!("  Non-2xx or 3xx responses: 7\n{text}")), None);
        assert_eq!(parse_rate("unable to connect"), None);
    }
}
