//! `hydrant bench`: generates load on any Solana JSON-RPC endpoint and reports the results.
//!
//! Shape: each suite is measured alone, run by run; with `--scans` while that number of clients scan. A replay is a
//! suite of its own. Inputs are discovered, or read from a file that an earlier run wrote. Results go to standard output as a table, and to files if requested.
//! Bounds: those of the flags (`limits`), of the files (`INPUTS_BYTES_MAX`, `LOG_BYTES_MAX`) and of the responses
//! before the load (`RESPONSE_BYTES_MAX`).
//! Not here: how load is generated and counted (`loadgen`), the requests of the suites (`loadgen_solana`).

pub(crate) mod flags;
mod limits;

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use http_client::{Client, Endpoint, Server};
use loadgen::{
    Arrival, LOG_REQUESTS_MAX, LoadPlan, LogEntry, Mix, Replay, Report, Run, RunLength, Stream,
    html_report, parse_log, write_log,
};
use loadgen_solana::{
    DiscoveryConfig, InputKinds, Inputs, RestSuite, Suite, SuiteError, json_rpc, scan_requests,
};
use process_usage::Process;

use self::flags::BenchFlags;
use crate::console::print_line;

/// Open loops need a connection for each request in flight.
const OPEN_CONNECTIONS_DEFAULT: usize = 64;
const CLOSED_CONNECTIONS_DEFAULT: usize = 16;

/// The seed of every generated mix.
const SEED: u64 = 1;

/// Bytes of a file of inputs: a million accounts. Discovery finds at most some thousand.
const INPUTS_BYTES_MAX: u64 = 64 << 20;

/// Bytes of a log: [`LOG_REQUESTS_MAX`] short requests.
const LOG_BYTES_MAX: u64 = 256 << 20;

/// Bytes of a file of trusted certificates: several times those that a machine trusts.
const CA_BYTES_MAX: u64 = 4 << 20;

/// Bytes of a response that is read before the load: many times the longest block.
const RESPONSE_BYTES_MAX: usize = 256 << 20;

/// The requests of a measurement.
enum Target {
    Suite(Suite),
    Mix,
    /// The requests of `--scans`, alone.
    Scans,
    Rest(RestSuite),
}

/// Measures and reports.
pub(crate) fn run(flags: &BenchFlags) -> Result<()> {
    check(flags)?;
    let endpoint = Endpoint::parse_trusting(&flags.url, flags.ca.as_deref())?;
    let endpoint = match &flags.api_key_file {
        Some(path) => {
            let key = input_file::read_secret(path).context("--api-key-file")?;
            endpoint.with_api_key(&key).context("--api-key-file")?
        }
        None => endpoint,
    };
    if let Some(path) = &flags.replay {
        return replay(flags, &endpoint, path);
    }
    let targets = parse_targets(&flags.suite)?;
    check_uses(flags, &targets)?;
    let stored = flags.inputs.as_deref().map(read_inputs).transpose()?;
    let mut client = Client::open_with_body_limit(endpoint.clone(), RESPONSE_BYTES_MAX)?;
    let inputs = match stored {
        Some(inputs) => inputs,
        None => discover_inputs(flags, &targets, &mut client)?,
    };
    if let Some(path) = &flags.generate {
        return generate(flags, &targets, &inputs, path);
    }
    let mut report = Report::new("hydrant bench", notes(flags));
    let scans = match flags.scans {
        0 => None,
        clients => {
            let requests = scan_requests(&client, &inputs)?;
            Some(Stream { classifier: json_rpc, ..Stream::closed_loop("scans", requests, clients) })
        }
    };
    for target in &targets {
        let streams = match streams(flags, target, &mut client, &inputs, scans.as_ref()) {
            Ok(streams) => streams,
            // A suite that was requested by name must have inputs.
            Err(SuiteError::NoInput { suite, why }) if !is_named(flags, target) => {
                print_line(&format!("{suite}: skipped, {why}"));
                continue;
            }
            Err(err) => return Err(err.into()),
        };
        let plan = plan(flags, &endpoint, streams, run_length(flags));
        report.add(&arrivals(&plan), &runs(flags, &plan)?);
    }
    print_report(flags, &report)
}

fn read_inputs(path: &Path) -> Result<Inputs> {
    let bytes = input_file::read(path, INPUTS_BYTES_MAX).context("--inputs")?;
    Inputs::parse(&bytes).with_context(|| format!("--inputs: {}", path.display()))
}

/// Discovers the inputs of the targets, and writes them if a file is named.
fn discover_inputs(flags: &BenchFlags, targets: &[Target], client: &mut Client) -> Result<Inputs> {
    let config = DiscoveryConfig {
        addresses: flags.address.clone(),
        program: flags.program.clone(),
        ..DiscoveryConfig::default()
    };
    let kinds = InputKinds::union(targets.iter().map(Target::required_inputs));
    let inputs = Inputs::discover(client, kinds, &config)?;
    if let Some(path) = &flags.inputs_out {
        inputs.write(path).context("--inputs-out")?;
    }
    Ok(inputs)
}

fn check(flags: &BenchFlags) -> Result<()> {
    limits::check(flags)?;
    limits::check_open_files(connections(flags), flags, process_usage::raise_open_files_max())?;
    let has_tls = flags.url.starts_with("https://");
    ensure!(flags.ca.is_none() || has_tls, "--ca requires an https endpoint");
    if let Some(path) = &flags.ca {
        input_file::check(path, CA_BYTES_MAX).context("--ca")?;
    }
    Ok(())
}

/// Refuses flags that would have no effect.
fn check_uses(flags: &BenchFlags, targets: &[Target]) -> Result<()> {
    let kinds = InputKinds::union(targets.iter().map(Target::required_inputs));
    ensure!(
        flags.address.is_empty() || kinds.accounts,
        "--address: none of these suites requests accounts"
    );
    let uses_program = |it: &Target| {
        matches!(it, Target::Mix | Target::Scans | Target::Suite(Suite::ProgramAccounts))
    };
    let has_program_requests = flags.scans > 0 || targets.iter().any(uses_program);
    ensure!(
        flags.program.is_none() || has_program_requests,
        "--program: neither program-accounts, mix, scans nor --scans is requested"
    );
    for (flag, path) in [("--inputs", &flags.inputs), ("--inputs-out", &flags.inputs_out)] {
        ensure!(
            path.is_none() || kinds != InputKinds::NONE || has_program_requests,
            "{flag}: none of these suites has inputs"
        );
    }
    let has_scans_alone = targets.iter().any(|it| matches!(it, Target::Scans));
    ensure!(
        flags.generate.is_none() || !has_scans_alone,
        "--generate: a log cannot have the requests of scans"
    );
    let rest = targets.iter().find_map(|target| match target {
        Target::Rest(suite) => Some(suite.name),
        _ => None,
    });
    if let (Some(_), Some(rest)) = (&flags.generate, rest) {
        bail!("--generate: {rest} is REST, but a generated log has only calls of JSON-RPC");
    }
    Ok(())
}

impl Target {
    fn required_inputs(&self) -> InputKinds {
        match self {
            Self::Suite(suite) => suite.required_inputs(),
            Self::Mix => InputKinds::union(Suite::ALL.map(Suite::required_inputs)),
            Self::Scans => InputKinds::NONE,
            Self::Rest(suite) => suite.required_inputs(),
        }
    }
}

fn parse_targets(names: &[String]) -> Result<Vec<Target>> {
    if names.is_empty() {
        return Ok(Suite::ALL.into_iter().map(Target::Suite).collect());
    }
    let mut targets = Vec::new();
    for name in names {
        match (name.as_str(), Suite::parse(name), RestSuite::parse(name)) {
            ("mix", ..) => targets.push(Target::Mix),
            ("scans", ..) => targets.push(Target::Scans),
            ("rest", ..) => targets.extend(RestSuite::ALL.iter().copied().map(Target::Rest)),
            (_, Some(suite), _) => targets.push(Target::Suite(suite)),
            (_, _, Some(suite)) => targets.push(Target::Rest(suite)),
            _ => {
                let suites = Suite::ALL.into_iter().map(Suite::name);
                let routes = RestSuite::ALL.iter().map(|suite| suite.name);
                let known: Vec<_> = suites.chain(["mix", "scans", "rest"]).chain(routes).collect();
                bail!("--suite {name}: unknown; the suites are {}", known.join(", "))
            }
        }
    }
    Ok(targets)
}

/// Whether a target was requested by its own name.
fn is_named(flags: &BenchFlags, target: &Target) -> bool {
    match target {
        Target::Mix | Target::Scans => true,
        Target::Suite(_) => !flags.suite.is_empty(),
        Target::Rest(suite) => flags.suite.iter().any(|name| name == suite.name),
    }
}

/// The target's stream, and that of the scans.
fn streams(
    flags: &BenchFlags,
    target: &Target,
    client: &mut Client,
    inputs: &Inputs,
    scans: Option<&Stream>,
) -> Result<Vec<Stream>, SuiteError> {
    let (name, requests, classifier) = match target {
        Target::Suite(suite) => (suite.name(), suite.requests(client, inputs)?, json_rpc as _),
        Target::Mix => ("mix", mix(Suite::ALL, inputs)?.requests(client.endpoint()), json_rpc as _),
        Target::Scans => ("scans", scan_requests(client, inputs)?, json_rpc as _),
        Target::Rest(suite) => (suite.name, suite.requests(client, inputs)?, suite.classifier()),
    };
    let stream = Stream::closed_loop(name, requests, connections(flags));
    let arrival = flags.rate.map_or(Arrival::Closed, |rate| Arrival::Open { rate });
    let mut streams = vec![Stream { arrival, classifier, threads: flags.threads, ..stream }];
    if let Some(scans) = scans {
        streams.push(Stream { name: format!("{name}: concurrent scans"), ..scans.clone() });
    }
    Ok(streams)
}

fn connections(flags: &BenchFlags) -> usize {
    let is_open = flags.rate.is_some() || flags.replay.is_some();
    let default = if is_open { OPEN_CONNECTIONS_DEFAULT } else { CLOSED_CONNECTIONS_DEFAULT };
    flags.connections.unwrap_or(default)
}

/// Every suite for which the endpoint has inputs, by weight; at least one.
fn mix(suites: impl IntoIterator<Item = Suite>, inputs: &Inputs) -> Result<Mix, SuiteError> {
    let mut mix = Mix::new(SEED);
    for suite in suites {
        match suite.params(inputs) {
            Ok(params) => mix.add(suite.weight(), suite.method(), params),
            Err(SuiteError::NoInput { .. }) => {}
            Err(err) => return Err(err),
        }
    }
    if mix.is_empty() {
        let why = "the endpoint has no inputs for these suites".to_owned();
        return Err(SuiteError::NoInput { suite: "mix", why });
    }
    Ok(mix)
}

fn generate(flags: &BenchFlags, targets: &[Target], inputs: &Inputs, path: &Path) -> Result<()> {
    let suites = targets.iter().flat_map(|target| match target {
        Target::Suite(suite) => vec![*suite],
        Target::Mix => Suite::ALL.to_vec(),
        // `check_uses` refused them.
        Target::Scans | Target::Rest(_) => Vec::new(),
    });
    let rate = flags.rate.context("--generate requires --rate")?;
    let log = mix(suites, inputs)?.log(rate, Duration::from_secs_f64(flags.duration));
    // The times are random: their number may exceed what `limits` calculated.
    let requests = log.len();
    ensure!(
        requests <= LOG_REQUESTS_MAX,
        "--generate: {requests} requests, the maximum is {LOG_REQUESTS_MAX}"
    );
    write_log(path, &log).context("--generate")?;
    print_line(&format!("wrote {} requests to {}", log.len(), path.display()));
    Ok(())
}

fn replay(flags: &BenchFlags, endpoint: &Endpoint, path: &Path) -> Result<()> {
    let entries = read_log(path)?;
    let replay = Replay::new(&entries, endpoint, flags.speed, json_rpc).context("--replay")?;
    let name = format!("replay of {}", path.display());
    let stream = replay.stream(&name, connections(flags), flags.threads);
    let plan = plan(flags, endpoint, vec![stream], RunLength::Once);
    let mut report = Report::new("hydrant bench", notes(flags));
    report.add(&arrivals(&plan), &runs(flags, &plan)?);
    print_report(flags, &report)
}

fn read_log(path: &Path) -> Result<Vec<LogEntry>> {
    let bytes = input_file::read(path, LOG_BYTES_MAX).context("--replay")?;
    let with_path = || format!("--replay: {}", path.display());
    let text = String::from_utf8(bytes).with_context(with_path)?;
    parse_log(&text).with_context(with_path)
}

fn plan(
    flags: &BenchFlags,
    endpoint: &Endpoint,
    streams: Vec<Stream>,
    run_length: RunLength,
) -> LoadPlan {
    LoadPlan {
        endpoint: endpoint.clone(),
        streams,
        run_length,
        timeout: Some(Duration::from_secs_f64(flags.timeout)),
        process: flags.pid.map(Process::with_id),
    }
}

fn run_length(flags: &BenchFlags) -> RunLength {
    RunLength::Time {
        warm_up: Duration::from_secs_f64(flags.warm_up),
        measured: Duration::from_secs_f64(flags.duration),
    }
}

fn runs(flags: &BenchFlags, plan: &LoadPlan) -> Result<Vec<Run>> {
    let mut runs: Vec<Run> = Vec::new();
    for _ in 0..flags.runs {
        // The report shows seconds and samples of the last run only.
        if let Some(last) = runs.last_mut() {
            last.drop_series();
        }
        runs.push(plan.run()?);
    }
    Ok(runs)
}

fn arrivals(plan: &LoadPlan) -> Vec<String> {
    let arrival = |stream: &Stream| match &stream.arrival {
        Arrival::Closed => format!("closed loop, {}", stream.connections),
        Arrival::Open { rate } => format!("{rate}/s, {}", stream.connections),
        Arrival::At(times) => format!("a log of {}, {}", times.len(), stream.connections),
    };
    plan.streams.iter().map(arrival).collect()
}

fn notes(flags: &BenchFlags) -> Vec<String> {
    let BenchFlags { url, runs, duration, warm_up, timeout, .. } = flags;
    // A thread without a connection is not started.
    let threads = flags.threads.min(connections(flags));
    let server = Server::from_url(url);
    let count = if *runs == 1 { "1 run".to_owned() } else { format!("{runs} runs") };
    let length = match &flags.replay {
        Some(_) => format!("at {} times the recorded speed", flags.speed),
        None => format!("of {duration} s after {warm_up} s of warm-up"),
    };
    vec![
        format!(
            "{server}: {count} {length}; from {threads} thread(s); a request times out after {timeout} s"
        ),
        "Latencies include all requests that were due, failed ones too. With a rate they are measured \
         from the time at which a request was due. The table shows the median of the runs."
            .to_owned(),
    ]
}

fn print_report(flags: &BenchFlags, report: &Report) -> Result<()> {
    for note in &report.notes {
        print_line(note);
    }
    print_line(report.table().trim_end());
    for (path, text) in [(&flags.json, report.json()), (&flags.html, html_report::page(report))] {
        if let Some(path) = path {
            fs::write(path, text).with_context(|| format!("write {}", path.display()))?;
        }
    }
    check_results(report)
}

/// An error if a suite has no successful response.
fn check_results(report: &Report) -> Result<()> {
    ensure!(!report.rows.is_empty(), "nothing was measured");
    let failed = report.rows.iter().filter(|row| row.counts.ok == 0);
    let failed: Vec<&str> = failed.map(|row| row.name.as_str()).collect();
    ensure!(failed.is_empty(), "no successful response: {}", failed.join(", "));
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use loadgen::{Counts, Row};

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: BenchFlags,
    }

    fn flags(line: &[&str]) -> BenchFlags {
        Line::parse_from([&["bench"], line].concat()).flags
    }

    #[test]
    fn an_unknown_suite_is_reported_with_the_known_ones() {
        let err = match parse_targets(&flags(&["--suite", "slot", "slots"]).suite) {
            Ok(_) => panic!("`slots` was accepted"),
            Err(err) => err.to_string(),
        };
        assert!(err.contains("--suite slots") && err.contains("slot, supply"), "{err}");
        assert_eq!(
            parse_targets(&flags(&["--suite", "mix", "slot"]).suite).expect("both are").len(),
            2
        );
        assert_eq!(parse_targets(&[]).expect("all are").len(), Suite::ALL.len());
        let rest = flags(&["--suite", "rest", "rest-node"]);
        let targets = parse_targets(&rest.suite).expect("they are");
        assert_eq!(targets.len(), RestSuite::ALL.len() + 1);
        let named = targets.iter().filter(|target| is_named(&rest, target)).count();
        assert_eq!(named, 2, "rest-node, twice");
    }

    #[test]
    fn flags_without_effect_are_refused() {
        let parsed = |line: &str| Line::try_parse_from(line.split(' ')).map(|line| line.flags);
        let of_log = ["--scans 4", "--duration 1", "--warm-up 0", "--address A", "--program P"];
        for line in of_log.map(|flag| format!("bench --replay f {flag}")) {
            assert!(parsed(&line).is_err(), "{line}");
        }
        let of_run = ["--scans 4", "--json f", "--html f", "--runs 1", "--timeout 1", "--pid 1"];
        for line in of_run.map(|flag| format!("bench --generate f --rate 9 {flag}")) {
            assert!(parsed(&line).is_err(), "{line}");
        }
        let of_discovery = ["--address A", "--program P", "--inputs-out f", "--replay f"];
        for line in of_discovery.map(|flag| format!("bench --inputs f {flag}")) {
            assert!(parsed(&line).is_err(), "{line}");
        }
        assert!(parsed("bench --inputs-out f --replay f").is_err());
        assert!(parsed("bench --speed 2").is_err());
        for line in [
            "bench --replay f --speed 2 --runs 1 --timeout 3 --json f --html f --threads 2",
            "bench --generate f --rate 9 --duration 2 --suite mix --address A --program P",
        ] {
            assert!(parsed(line).is_ok(), "{line}");
        }
        for (line, why) in [
            ("--suite slot --address A", "--address: none"),
            ("--suite rest-node --address A", "--address: none"),
            ("--suite slot --program P", "--program: neither"),
            ("--suite slot --inputs f", "--inputs: none of these suites"),
            ("--suite rest-node version --inputs-out f", "--inputs-out: none of these suites"),
            ("--generate f --rate 9 --suite slot scans", "the requests of scans"),
            ("--generate f --rate 9 --suite rest-account", "rest-account is REST"),
            ("--generate f --rate 9 --suite rest slot", "rest-node is REST"),
        ] {
            let flags = flags(&line.split(' ').collect::<Vec<_>>());
            let targets = parse_targets(&flags.suite).expect("they are suites");
            let err = check_uses(&flags, &targets).expect_err(line).to_string();
            assert!(err.contains(why), "{err}");
        }
        for line in [
            "--program P",
            "--suite mix --program P",
            "--suite slot --scans 1 --program P",
            "--suite scans --program P",
            "--suite scans --inputs f",
            "--suite slot account-info --inputs-out f",
            "--suite rest --address A",
        ] {
            let flags = flags(&line.split(' ').collect::<Vec<_>>());
            let targets = parse_targets(&flags.suite).expect("they are suites");
            check_uses(&flags, &targets).expect(line);
        }
        assert!(check(&flags(&["--ca", "f"])).is_err());
        let endless = flags(&["--ca", "/dev/zero", "--url", "https://h"]);
        let err = format!("{:#}", check(&endless).expect_err("a device"));
        assert_eq!(err, "--ca: /dev/zero: a device, not a regular file");
    }

    #[test]
    fn a_suite_without_a_successful_response_is_reported_by_its_name() {
        let row = |name: &str, ok| {
            let counts = Counts { ok, errors: 7, ..Counts::default() };
            Row { name: name.to_owned(), counts, ..Row::default() }
        };
        let report = |rows| Report { rows, ..Report::default() };
        check_results(&report(vec![row("slot", 1)])).expect("it has a response");
        let rows = vec![row("slot", 9), row("supply", 0), row("supply: concurrent scans", 0)];
        let err = check_results(&report(rows)).expect_err("two have none").to_string();
        assert_eq!(err, "no successful response: supply, supply: concurrent scans");
        assert!(check_results(&report(Vec::new())).is_err());
    }

    #[test]
    fn open_loops_have_more_connections() {
        assert_eq!(connections(&flags(&[])), 16);
        assert_eq!(connections(&flags(&["--rate", "10"])), 64);
        assert_eq!(connections(&flags(&["--rate", "10", "--connections", "3"])), 3);
    }
}
