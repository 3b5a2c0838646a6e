//! The board of Grafana and the alert rules of Prometheus in `packaging/`: every metric that they name exists.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use testkit::node::{Node, NodeCommand};

use crate::follower::FollowedDev;
use crate::node::HYDRANT;
use crate::observability::metrics;

/// Prefixes of the names of our metrics.
const PREFIXES: &[&str] = &["hydrant_", "process_"];

fn packaging(file: &str) -> Result<String> {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../../packaging", file].iter().collect();
    fs::read_to_string(&path).with_context(|| path.display().to_string())
}

/// The names that a query may use: of samples, and of the samples of each histogram.
fn sample_names(node: &Node) -> Result<BTreeSet<String>> {
    let text = metrics(node)?;
    let mut names = BTreeSet::new();
    for family in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = family.split_once(' ').context("a type")?;
        if kind == "histogram" {
            names.extend(["bucket", "sum", "count"].map(|suffix| format!("{name}_{suffix}")));
        } else {
            names.insert(name.to_owned());
        }
    }
    Ok(names)
}

/// The names of metrics in `text`.
fn metric_names(text: &str) -> BTreeSet<&str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c| !is_part(c));
    words.filter(|word| PREFIXES.iter().any(|prefix| word.starts_with(prefix))).collect()
}

/// Returns the queries of a board's panels.
fn queries(board: &Value) -> Result<Vec<&str>> {
    let panels = board["panels"].as_array().context("panels")?;
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    targets.map(|target| target["expr"].as_str().context("a query")).collect()
}

/// Starts a replica of a log in a directory.
fn start_replica(log: &str, depot: &str) -> Result<Node> {
    let mut command = Command::new(HYDRANT);
    command.args(["replica", "--quiet", "--log", "--rpc-port", "0"]);
    command.args(["--log-url", log, "--depot", depot, "--archive"]);
    NodeCommand::new(command).logged().watched().start()
}

#[test]
fn every_metric_of_the_board_and_of_the_alerts_exists() -> Result<()> {
    let board: Value = serde_json::from_str(&packaging("grafana/hydrant.json")?)?;
    let queries = queries(&board)?.join("\n");
    let rules = packaging("prometheus/hydrant.rules.yml")?;
    let dir = tempfile::tempdir()?;
    let url = |name: &str| format!("file://{}", dir.path().join(name).display());
    let [log, depot] = [url("log"), url("depot")];
    let nodes = FollowedDev::start(&["--log-url", &log, "--depot", &depot])?;
    let replica = start_replica(&log, &depot)?;
    let mut served = sample_names(&nodes.dev)?;
    served.extend(sample_names(&nodes.follower)?);
    served.extend(sample_names(&replica)?);
    for (file, text) in [("the board", &queries), ("the alerts", &rules)] {
        let names = metric_names(text);
        ensure!(names.len() > 5, "{file} names only {names:?}");
        let missing: Vec<_> = names.iter().filter(|name| !served.contains(**name)).collect();
        ensure!(missing.is_empty(), "{file}: no metric is named {missing:?}");
    }
    Ok(())
}

#[test]
fn panels_of_the_board_have_their_own_ids_and_do_not_overlap() -> Result<()> {
    let board: Value = serde_json::from_str(&packaging("grafana/hydrant.json")?)?;
    let mut ids = BTreeSet::new();
    let mut cells = BTreeSet::new();
    for panel in board["panels"].as_array().context("panels")? {
        let title = &panel["title"];
        ensure!(ids.insert(panel["id"].as_u64().context("an id")?), "{title}: its id is taken");
        let side = |name: &str| panel["gridPos"][name].as_u64().context(name.to_owned());
        let x = side("x")?;
        let y = side("y")?;
        let w = side("w")?;
        let h = side("h")?;
        ensure!(x + w <= 24, "{title} is wider than the board");
        for cell in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            ensure!(cells.insert(cell), "{title} overlaps another panel at {cell:?}");
        }
    }
    Ok(())
}
