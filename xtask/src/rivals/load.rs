//! The load on a node: processes of `hydrant bench`, and their results.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Child;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::shell::Cmd;

/// Starts processes of `hydrant bench`, whose results and output are in `dir`.
pub(super) struct LoadGenerator {
    pub(super) hydrant: PathBuf,
    pub(super) dir: PathBuf,
}

/// A process of `hydrant bench`. It ends with this value.
pub(super) struct RunningLoad {
    process: Child,
    results: PathBuf,
    log: PathBuf,
}

/// The results of a load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LoadResult {
    /// Correct responses a second.
    pub(super) rate: f64,
    pub(super) p99_ms: f64,
    /// Share of the requests without a correct response.
    pub(super) failed_share: f64,
}

impl LoadGenerator {
    /// Starts one run of a load on an endpoint.
    pub(super) fn start(&self, name: &str, rpc: SocketAddr, args: &[&str]) -> Result<RunningLoad> {
        let results = self.dir.join(format!("{name}.json"));
        if results.exists() {
            fs::remove_file(&results)?;
        }
        let log = self.dir.join(format!("{name}.log"));
        let url = format!("http://{rpc}");
        let file = results.to_string_lossy();
        let common = ["bench", "--url", &url, "--runs", "1", "--json", &file];
        let cmd = Cmd::new(&self.hydrant.to_string_lossy()).args(common).args(args);
        let process = cmd.with_output_to(File::create(&log)?)?.spawn()?;
        Ok(RunningLoad { process, results, log })
    }

    /// Runs a load on an endpoint to its end.
    pub(super) fn run(&self, name: &str, rpc: SocketAddr, args: &[&str]) -> Result<LoadResult> {
        self.start(name, rpc, args)?.wait()
    }
}

impl RunningLoad {
    /// Waits for the end of the load. A load without a correct response has results too.
    pub(super) fn wait(mut self) -> Result<LoadResult> {
        self.process.wait()?;
        ensure!(self.results.exists(), "hydrant bench failed: {}", read_end(&self.log)?);
        let text = fs::read_to_string(&self.results)?;
        let results: Value = serde_json::from_str(&text).context("results of hydrant bench")?;
        LoadResult::parse(&results).with_context(|| self.results.display().to_string())
    }
}

impl Drop for RunningLoad {
    fn drop(&mut self) {
        // If it has ended already, there is nothing to end.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl LoadResult {
    /// Parses the first row of a report of `hydrant bench --json`.
    fn parse(report: &Value) -> Result<Self> {
        let row = &report["rows"][0];
        let counts = row["counts"].as_object().context("no counts")?;
        let count = |name: &str| counts.get(name).and_then(Value::as_u64).unwrap_or_default();
        let all: u64 = counts.values().filter_map(Value::as_u64).sum();
        // A row without a response has no numbers.
        let number = |value: &Value| value.as_f64().unwrap_or_default();
        Ok(Self {
            rate: number(&row["rate"]["median"]),
            p99_ms: number(&row["p99_ms"]["median"]),
            failed_share: 1.0 - count("ok") as f64 / all.max(1) as f64,
        })
    }
}

/// Returns the last line of a file.
fn read_end(path: &Path) -> Result<String> {
    let text = fs::read_to_string(path)?;
    Ok(text.lines().last().unwrap_or("no output").to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn results_are_parsed() {
        let spread = |median: f64| json!({ "median": median, "min": 0.0, "max": 9.0 });
        let counts = json!({ "ok": 75, "rejected": 5, "errors": 10, "timeouts": 10 });
        let row = json!({ "rate": spread(7.5), "p99_ms": spread(1.25), "counts": counts });
        let result = LoadResult::parse(&json!({ "rows": [row] })).unwrap();
        assert_eq!(result, LoadResult { rate: 7.5, p99_ms: 1.25, failed_share: 0.25 });
    }

    #[test]
    fn a_load_without_a_response_has_results_and_no_report_is_an_error() {
        let row = json!({ "rate": { "median": 0.0 }, "counts": { "ok": 0, "timeouts": 4 } });
        let result = LoadResult::parse(&json!({ "rows": [row] })).unwrap();
        assert_eq!(result, LoadResult { rate: 0.0, p99_ms: 0.0, failed_share: 1.0 });
        assert!(LoadResult::parse(&json!({ "rows": [] })).is_err());
    }
}
