//! `hydrant bench` against a real node: suites, a report, a mix that is generated and replayed.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use http_client::{Client, Endpoint};
use serde_json::Value;
use tempfile::TempDir;
use testkit::child_process::run_to_end;

use crate::node::start_node;

/// Returns the output of `hydrant bench`. It is an error if the command does not succeed or fail as expected.
fn bench(args: &[&str], succeeds: bool) -> Result<String> {
    let run = run_to_end(Command::new(env!("CARGO_BIN_EXE_hydrant")).arg("bench").args(args))?;
    let output = [run.stdout, run.stderr].concat();
    let output = String::from_utf8_lossy(&output).into_owned();
    ensure!(run.status.success() == succeeds, "{args:?}: {output}");
    Ok(output)
}

fn json(path: &Path) -> Result<Value> {
    Ok(serde_json::from_str(&fs::read_to_string(path)?)?)
}

#[test]
fn suites_are_measured_and_reported() -> Result<()> {
    let node = start_node(&["--slot-ms", "50"])?;
    let files = TempDir::new()?;
    let report = files.path().join("report.json");
    let page = files.path().join("report.html");
    let report_text = report.display().to_string();
    let page_text = page.display().to_string();
    let url = node.rpc_url();
    let short = ["--url", &url, "--runs", "2", "--warm-up", "0.05", "--duration", "0.2"];
    let files = ["--json", &report_text, "--html", &page_text];
    // A node without token accounts has no inputs for some suites.
    let output = bench(&[&short[..], &files].concat(), true)?;
    ensure!(output.contains("token-accounts-by-delegate: skipped"), "{output}");
    let rows = json(&report)?["rows"].as_array().cloned().unwrap_or_default();
    for suite in ["account-info", "blocks", "slot", "supply", "version"] {
        let row = rows.iter().find(|row| row["name"] == suite);
        let counts = row.map_or(&Value::Null, |row| &row["counts"]);
        ensure!(counts["ok"].as_u64() > Some(0), "{suite}: {counts}");
        ensure!(counts["errors"] == 0 && counts["broken"] == 0, "{suite}: {counts}");
    }
    ensure!(fs::read_to_string(&page)?.contains("<svg"), "no plot");
    let named = ["--suite", "token-accounts-by-delegate"];
    let output = bench(&[&short[..], &named].concat(), false)?;
    ensure!(
        output.contains("the endpoint has no delegate of token accounts to ask for"),
        "{output}"
    );
    Ok(())
}

#[test]
fn a_generated_mix_is_replayed() -> Result<()> {
    let node = start_node(&[])?;
    let files = TempDir::new()?;
    let (log, report) = (files.path().join("log"), files.path().join("report.json"));
    let (log_text, report_text) = (log.display().to_string(), report.display().to_string());
    let url = node.rpc_url();
    let generate = ["--url", &url, "--generate", &log_text, "--suite", "mix", "slot"];
    bench(&[&generate[..], &["--rate", "400", "--duration", "0.5"]].concat(), true)?;
    let requests = fs::read_to_string(&log)?.lines().count() as u64;
    ensure!((100..300).contains(&requests), "{requests} requests");
    // As with a proxy: the response to HEAD has only a head.
    let head = r#"{"at_ms": 1, "method": "HEAD", "path": "/v1/node"}"#;
    fs::write(&log, format!("{}{head}\n", fs::read_to_string(&log)?))?;
    // By its name, whichever of its addresses comes first.
    let url = format!("http://localhost:{}?key=1", node.rpc.port());
    let replay = ["--url", &url, "--replay", &log_text, "--speed", "2", "--runs", "1"];
    bench(&[&replay[..], &["--json", &report_text]].concat(), true)?;
    let counts = json(&report)?["rows"][0]["counts"].clone();
    ensure!(counts["ok"] == requests + 1, "{counts} of {requests} and one");
    let both = bench(&[&replay[..], &["--scans", "4"]].concat(), false)?;
    ensure!(both.contains("cannot be used with '--scans <COUNT>'"), "{both}");
    Ok(())
}

#[test]
fn two_nodes_get_the_inputs_that_one_of_them_had() -> Result<()> {
    let node = start_node(&[])?;
    let files = TempDir::new()?;
    let inputs = files.path().join("inputs");
    let inputs_text = inputs.display().to_string();
    let report = files.path().join("report.json");
    let report_text = report.display().to_string();
    let short = ["--runs", "1", "--warm-up", "0", "--duration", "0.1", "--suite", "account-info"];
    let url = node.rpc_url();
    let write = ["--url", &url, "--inputs-out", &inputs_text];
    bench(&[&short[..], &write].concat(), true)?;
    let mut discovered = json(&inputs)?;
    let accounts = discovered["accounts"].as_array().context("no accounts")?;
    ensure!(!accounts.is_empty(), "{discovered}");

    // Nodes have keys of their own, and the same sysvars.
    let other = start_node(&[])?;
    discovered["accounts"] = serde_json::json!(["SysvarC1ock11111111111111111111111111111111"]);
    fs::write(&inputs, discovered.to_string())?;
    let url = other.rpc_url();
    let read = ["--url", &url, "--inputs", &inputs_text];
    bench(&[&short[..], &read, &["--json", &report_text]].concat(), true)?;
    let row = json(&report)?["rows"][0].clone();
    ensure!(row["counts"]["ok"].as_u64() > Some(0) && row["counts"]["errors"] == 0, "{row}");

    // An account that this node does not have is an error, and not a fast response.
    let absent = "1nc1nerator11111111111111111111111111111111".replace('n', "m");
    discovered["accounts"] = serde_json::json!([absent]);
    fs::write(&inputs, discovered.to_string())?;
    let output = bench(&[&short[..], &read].concat(), false)?;
    ensure!(output.contains("account-info: the result of getAccountInfo"), "{output}");
    fs::write(&inputs, "{}")?;
    let output = bench(&[&short[..], &read].concat(), false)?;
    ensure!(output.contains("not a file of inputs: missing field"), "{output}");
    Ok(())
}

#[test]
fn rest_is_measured_together_with_the_process() -> Result<()> {
    let node = start_node(&["--slot-ms", "50"])?;
    let files = TempDir::new()?;
    let report = files.path().join("report.json").display().to_string();
    let url = node.rpc_url();
    let short = ["--url", &url, "--runs", "1", "--warm-up", "0", "--duration", "0.2"];
    let more = ["--suite", "rest", "slot", "--rate", "200", "--json", &report];
    let pid = node.pid().to_string();
    bench(&[&short[..], &more, &["--pid", &pid]].concat(), true)?;
    let rows = json(Path::new(&report))?["rows"].as_array().cloned().unwrap_or_default();
    for suite in
        ["rest-node", "rest-ledger", "rest-account", "rest-accounts-post", "rest-ready", "slot"]
    {
        let row = rows.iter().find(|row| row["name"] == suite).unwrap_or(&Value::Null);
        // 200 per second for a fifth of a second. On a busy machine the last ones may be late.
        let counts = |name: &str| row["counts"][name].as_u64().unwrap_or_default();
        let (right, late) = (counts("ok"), counts("unsent"));
        ensure!(right > 0 && right + late == 40, "{suite}: {}", row["counts"]);
        ensure!(row["peak_resident_bytes"].as_u64() > Some(1_000_000), "{suite}: {row}");
    }
    let output = bench(&[&short[..], &["--suite", "rest-everything"]].concat(), false)?;
    ensure!(output.contains("rest-program-accounts-post"), "{output}");
    Ok(())
}

#[test]
fn no_cache_has_the_responses_of_scans() -> Result<()> {
    let node = start_node(&[])?;
    let files = TempDir::new()?;
    let report = files.path().join("report.json").display().to_string();
    let url = node.rpc_url();
    let short = ["--url", &url, "--runs", "1", "--warm-up", "0", "--duration", "0.1"];
    let scans = ["--suite", "slot", "--rate", "100", "--scans", "2", "--json", &report];
    let system = ["--program", "11111111111111111111111111111111"];
    let none = ["--program", "1nc1nerator11111111111111111111111111111111"];
    let output = bench(&[&short[..], &scans, &none].concat(), false)?;
    ensure!(output.contains("scans: the endpoint has no account of 1nc1nerator"), "{output}");
    bench(&[&short[..], &scans, &system].concat(), true)?;
    let row = json(Path::new(&report))?["rows"][1].clone();
    ensure!(row["name"] == "slot: concurrent scans" && row["counts"]["errors"] == 0, "{row}");
    ensure!(row["counts"]["ok"].as_u64() > Some(0), "{row}");
    let endpoint = Endpoint::from(node.rpc);
    let metrics = endpoint.request("GET", "/metrics", None);
    let metrics = Client::open(endpoint)?.exchange(&metrics)?.body.to_vec();
    let metrics = String::from_utf8(metrics)?;
    let lookups = |result: &str| -> Result<f64> {
        let lines = metrics.lines().filter(|line| {
            line.starts_with("hydrant_cache_lookups_total") && line.contains(result)
        });
        lines.map(|line| Ok(line.rsplit(' ').next().context("a value")?.parse::<f64>()?)).sum()
    };
    ensure!(lookups("\"miss\"")? > 0.0 && lookups("\"hit\"")? == 0.0, "{metrics}");
    Ok(())
}

#[test]
fn values_and_files_outside_the_limits_are_refused_by_name() -> Result<()> {
    let files = TempDir::new()?;
    let path = |name: &str| files.path().join(name).display().to_string();
    let pipe = path("pipe");
    let log = path("log");
    let target = path("target");
    ensure!(Command::new("mkfifo").arg(&pipe).status()?.success(), "no mkfifo");
    let line = |at_ms: &str| format!("{{\"at_ms\": {at_ms}, \"path\": \"/\"}}\n");
    fs::write(&log, line("0") + &line("1e22"))?;
    let dir = files.path().display().to_string();
    let max = u64::MAX.to_string();
    for (args, why) in [
        (["--rate", "1e-300"], "--rate is 1e-300: must be from 0.001 to 1000000"),
        (["--rate", "1e300"], "--rate is 1e300: must be from 0.001 to 1000000"),
        (["--connections", &max], "--connections is 18446744073709551615: must be from 1 to 65535"),
        (["--scans", "1000000"], "--scans is 1000000: must be from 0 to 65535"),
        (["--threads", &max], "--threads is 18446744073709551615: must be from 1 to 256"),
        (["--runs", &max], "--runs is 18446744073709551615: must be from 1 to 100"),
        (["--duration", "1e7"], "--duration is 10000000: must be from 0.001 to 1000000"),
        (["--inputs", "/dev/zero"], "--inputs: /dev/zero: a device, not a regular file"),
        (["--inputs", &pipe], "/pipe: a named pipe, not a regular file"),
        (["--inputs", &dir], ": a directory, not a regular file"),
    ] {
        let output = bench(&[&args[..], &["--suite", "account-info"]].concat(), false)?;
        ensure!(output.contains(why) && output.lines().count() == 1, "{args:?}: {output}");
    }
    for (args, why) in [
        (vec!["--replay", "/dev/zero"], "--replay: /dev/zero: a device, not a regular file"),
        (vec!["--replay", &pipe], "/pipe: a named pipe, not a regular file"),
        (
            vec!["--replay", &log],
            "at_ms 1e22: due 1e19 s after the first request at a speed of 1.0,",
        ),
        (vec!["--replay", &log, "--speed", "1e-300"], "--speed is 1e-300: must be from 0.000001"),
        (
            vec!["--generate", &target, "--rate", "1000000", "--duration", "2"],
            "--rate 1000000 for --duration 2 is 2000000 requests",
        ),
    ] {
        let output = bench(&args, false)?;
        ensure!(output.contains(why) && output.lines().count() == 1, "{args:?}: {output}");
    }
    ensure!(!Path::new(&target).exists(), "a refused log was written");
    Ok(())
}

#[test]
fn a_password_in_the_url_is_not_shown() -> Result<()> {
    for scheme in ["http", "https"] {
        let url = format!("{scheme}://u:secret@127.0.0.1:1/key");
        let output = bench(&["--url", &url, "--suite", "slot"], false)?;
        let shown = format!("hydrant: {scheme}://127.0.0.1:1: a URL with a user or a password");
        ensure!(output.starts_with(&shown) && !output.contains("secret"), "{output}");
    }
    Ok(())
}
