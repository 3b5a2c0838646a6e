//! The question of the PR's reviewers: getMultipleAccounts of 100 accounts as one task, as a task for each account, and
//! as all of these tasks at once. The result is the latency and the CPU time of the call and of concurrent light calls.
//!
//! Shape: `state-ledger account-tasks` has each of them over two pools: Hydrant's CPU pool, and tokio's blocking pool
//! with Agave's numbers of threads. All calls come at constant rates.
//! Not here: the product itself. It reads a hundred small accounts where the socket is polled, which is the row
//! `inline`.

use std::fmt::Write;
use std::net::SocketAddr;

use ::loadgen::Stream;
use anyhow::Result;
use http_client::Endpoint;
use process_usage::Process;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use testkit::synthetic::{ACCOUNTS_MIN, Kind, Synthetic, SyntheticConfig};

use super::latencies::{self, Latencies, format_ms};
use super::measurement::{LIGHT_CONNECTIONS, LIGHT_RATE, Measurement};
use crate::ledger_process::LedgerProcess;
use crate::ledger_process::protocol::{SEED, TaskServing};
use crate::median::median;
use crate::node::Target;
use crate::report::{Rows, table_head};

/// Calls a second, and accounts in each.
const RATE: f64 = 500.0;
const ACCOUNTS_PER_CALL: usize = 100;
/// Connections of the calls: enough for any that wait.
const CONNECTIONS: usize = 128;
/// Different calls.
const CALLS: usize = 1_000;

/// Accounts of the ledger at full size.
const ACCOUNTS: u32 = 1_000_000;

const POOLS: [&str; 2] = ["cpu_pool", "spawn_blocking"];

/// The light calls alone.
const ALONE: &str = "light calls alone";

/// The ways to read the accounts, as paths of the server.
const MODES: [&str; 5] = [ALONE, "inline", "one-task", "task-each", "all-at-once"];

/// The streams, as prefixes of their columns.
const STREAMS: [&str; 3] = ["light_task_", "light_inline_", ""];

const KEY_LEN: usize = 3;

pub(super) fn seconds(run: &Measurement<'_>) -> f64 {
    run.round_seconds(POOLS.len() * MODES.len() * run.size.rounds)
}

pub(super) fn run(run: &mut Measurement<'_>, is_selected: bool) -> Result<String> {
    let key: [&str; KEY_LEN] = ["pool", "mode", "round"];
    let mut rows = latencies::rows(run, "multiple.csv", &key, &STREAMS)?;
    if is_selected {
        measure(run, &mut rows)?;
    }
    Ok(table(run, &rows))
}

fn key(pool: &str, mode: &str, round: usize) -> [String; KEY_LEN] {
    [pool.to_owned(), mode.to_owned(), round.to_string()]
}

fn measure(run: &mut Measurement<'_>, rows: &mut Rows) -> Result<()> {
    let rounds = (0..run.size.rounds).flat_map(|round| MODES.map(|mode| (mode, round)));
    let all = rounds.flat_map(|(mode, round)| POOLS.map(|pool| (pool, mode, round)));
    let missing: Vec<_> =
        all.filter(|(pool, mode, round)| rows.find(&key(pool, mode, *round)).is_none()).collect();
    let measured = POOLS.len() * MODES.len() * run.size.rounds - missing.len();
    run.progress.skip(run.round_seconds(measured));
    if missing.is_empty() {
        return Ok(());
    }
    let accounts = if run.size.is_toy() { ACCOUNTS_MIN } else { ACCOUNTS };
    let mut server = LedgerProcess::start("account-tasks", "tokens", accounts, &[])?;
    let serving: TaskServing = serde_json::from_str(&server.line_after("serving ")?)?;
    let requests = Requests::new(accounts);
    for (pool, mode, round) in missing {
        let address = if pool == POOLS[0] { serving.cpu_pool } else { serving.spawn_blocking };
        let target = Target { address, process: Process::with_id(server.id()) };
        let streams = requests.streams(address, mode);
        let mut cells = latencies::measure(target, streams, run.size.warm_up, run.size.measured)?;
        if mode == ALONE {
            // Empty cells for the calls for many accounts. The CPU time stays last.
            let cpu = cells.pop();
            cells.extend(Latencies::default().cells());
            cells.extend(cpu);
        }
        rows.push(&key(pool, mode, round), &cells)?;
        run.progress.add(run.round_seconds(1));
    }
    server.send_line("")?;
    server.end().map(drop)
}

/// The parameters of the calls.
struct Requests {
    /// Of getMultipleAccounts.
    many: Vec<String>,
    /// Of getAccountInfo.
    light: Vec<String>,
}

impl Requests {
    fn new(accounts: u32) -> Self {
        let ledger = Synthetic::new(SyntheticConfig::tokens(SEED, accounts));
        let tokens = ledger.counts().tokens;
        let mut rng = StdRng::seed_from_u64(SEED);
        let mut address = || ledger.address(Kind::Token(rng.random_range(0..tokens))).to_string();
        let config = json!({ "encoding": "base64" });
        let body = |method: &str, params: Value| {
            json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string()
        };
        let mut many = || {
            let keys: Vec<String> = (0..ACCOUNTS_PER_CALL).map(|_| address()).collect();
            body("getMultipleAccounts", json!([keys, config]))
        };
        let many = (0..CALLS).map(|_| many()).collect();
        let light = (0..CALLS).map(|_| body("getAccountInfo", json!([address(), config])));
        Self { light: light.collect(), many }
    }

    fn streams(&self, address: SocketAddr, mode: &str) -> Vec<Stream> {
        let endpoint = Endpoint::from(address);
        let stream = |path: &str, bodies: &[String], rate, connections| {
            let requests = bodies.iter().map(|body| endpoint.post(path, body));
            Stream::open_loop(path, requests.collect(), rate, connections)
        };
        let light = |path| stream(path, &self.light, LIGHT_RATE, LIGHT_CONNECTIONS);
        let mut streams = vec![light("/light-task"), light("/light-inline")];
        if mode != ALONE {
            streams.push(stream(&format!("/{mode}"), &self.many, RATE, CONNECTIONS));
        }
        streams
    }
}

fn table(run: &Measurement<'_>, rows: &Rows) -> String {
    let mut lines = String::new();
    for pool in POOLS {
        let mut cpu_alone = 0.0;
        for mode in MODES {
            let keys: Vec<_> = (0..run.size.rounds).map(|round| key(pool, mode, round)).collect();
            let medians = |stream: usize| {
                let first = stream * latencies::COLUMNS.len();
                let rounds = keys.iter().map(|key| Latencies::from_row(rows, key, first));
                Latencies::medians(&rounds.collect::<Option<Vec<_>>>()?)
            };
            let [Some(light_task), Some(light_inline), Some(many)] = [0, 1, 2].map(medians) else {
                continue;
            };
            let cpu_at = STREAMS.len() * latencies::COLUMNS.len();
            let cpu = median(keys.iter().filter_map(|key| rows.number(key, cpu_at)).collect())
                / light_task.seconds;
            // Writing to a string never fails.
            let _ = write!(lines, "| {pool} | {mode} |");
            if mode == ALONE {
                cpu_alone = cpu;
                let each = cpu * 1e6 / (light_task.rate() + light_inline.rate());
                let _ = write!(lines, " - | - | - | - | {each:.0} |");
            } else {
                let each = (cpu - cpu_alone) * 1e6 / many.rate();
                let _ = write!(lines, " {} | {each:.0} |", many.row());
            }
            for light in [light_task, light_inline] {
                let latencies = [light.p50_ms, light.p99_ms].map(format_ms);
                let _ = write!(lines, " {} | {} |", latencies[0], latencies[1]);
            }
            let _ = writeln!(lines, " {cpu:.3} |");
        }
    }
    if lines.is_empty() {
        return lines;
    }
    let columns = [
        "pool",
        "mode",
        "average ms",
        "median",
        "p90",
        "p99",
        "CPU us a call",
        "light task p50 ms",
        "p99",
        "light inline p50 ms",
        "p99",
        "cores in use",
    ];
    let about = format!(
        "getMultipleAccounts of {ACCOUNTS_PER_CALL} token accounts at {RATE} a second: where the socket is polled \
         (`inline`), as one task, as a task for each account that starts when the one before it has ended (as in \
         Agave), and as a task for each account, all submitted at once. At the same time getAccountInfo twice at \
         {LIGHT_RATE} a second: as a task of the same pool, and inline. `spawn_blocking`: tokio's pool with Agave's \
         numbers of threads. {} rounds of {:?}, medians. The CPU time of a call is that of the process without that of \
         the light calls alone; in the row of these it is the mean of a light call. Commits: {}.",
        run.size.rounds,
        run.size.measured,
        rows.commits()
    );
    table_head("One call for many accounts", &about, &columns) + &lines
}
