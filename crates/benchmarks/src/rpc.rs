//! Requests a second and latency of cheap methods, compared with a constant response: `rpc [ARGS...]`.
//!
//! The constant is `POST /health` with the bytes of a JSON-RPC request: the same process, the same
//! port, the same HTTP stack, and a response that costs nothing to compute. Rounds go through all requests, so that a
//! disturbance of the machine affects all of them. A ratio is taken within its round, and the median of the rounds
//! is reported.
//! With `--url` the load goes to any endpoint. Its CPU time is then unknown. Without a constant response the
//! ratio is unknown too.

use std::net::SocketAddr;
use std::time::Duration;

use ::loadgen::{Classifier, LoadPlan, Run, RunLength, Stream, Verdict, json_rpc};
use anyhow::{Context, Result, bail, ensure};
use hdrhistogram::Histogram;
use http_client::Endpoint;
use process_usage::Process;
use serde_json::{Value, json};
use solana_keypair::Keypair;
use solana_pubkey::Pubkey;
use solana_signer::Signer;
use solana_transaction::Transaction;
use testkit::clock::now;
use testkit::json_rpc_client::JsonRpcClient;
use testkit::node::Node;
use testkit::transfers;

use crate::arguments::value_of;
use crate::median::median;
use crate::node::{self, address};

const USAGE: &str = "usage: rpc [--toy] [--url http://IP:PORT] [--connections N] [--threads N] \
                     [--rounds N] [--seconds N]";

/// The share of the constant response's rate that a cheap method must reach: the first measurements, less the noise
/// of a busy machine. To be raised with them.
const RATIO_OF_CONSTANT_MIN: f64 = 0.7;

/// The size of the measurements.
struct Size {
    rounds: usize,
    warm_up: Duration,
    measured: Duration,
    connections: usize,
    threads: usize,
    payers: usize,
    token_accounts: usize,
    /// Transactions a round, without and with preflight.
    sends: [usize; 2],
}

const FULL: Size = Size {
    rounds: 5,
    warm_up: Duration::from_millis(500),
    measured: Duration::from_secs(3),
    connections: 32,
    threads: 1,
    payers: 64,
    token_accounts: 1_000,
    sends: [10_000, 5_000],
};

const TOY: Size = Size {
    rounds: 1,
    warm_up: Duration::from_millis(20),
    measured: Duration::from_millis(100),
    connections: 4,
    threads: 1,
    payers: 4,
    token_accounts: 8,
    sends: [100, 50],
};

/// One row of the table: the same request, round after round.
struct Row {
    name: &'static str,
    /// Whether it has a bar.
    is_cheap: bool,
    rates: Vec<f64>,
    of_constant: Vec<f64>,
    cpu_us: Vec<f64>,
    latencies: Histogram<u64>,
}

/// The endpoint, and the settings of the load.
struct Bench {
    size: Size,
    address: SocketAddr,
    node: Option<Node>,
    client: JsonRpcClient,
    payers: Vec<Keypair>,
    token_accounts: Vec<Pubkey>,
    has_constant: bool,
}

pub(crate) fn run(args: &[String]) -> Result<()> {
    let mut bench = Bench::prepare(args)?;
    let mut rows: Vec<Row> = Vec::new();
    for _ in 0..bench.size.rounds {
        bench.round(&mut rows)?;
    }
    bench.print(&rows);
    Ok(())
}

impl Bench {
    fn prepare(args: &[String]) -> Result<Self> {
        let size = size(args)?;
        let node = match value_of(args, "--url")? {
            Some(_) => None,
            None => Some(node::dev(&[])?.start()?),
        };
        let address: SocketAddr = match (&node, value_of(args, "--url")?) {
            (Some(node), _) => node.rpc,
            (None, url) => address(url.context("no endpoint")?)?,
        };
        let mut client = JsonRpcClient::open(address)?;
        let payers = transfers::fund_payers(&mut client, size.payers)?;
        let token_accounts =
            transfers::make_token_accounts(&mut client, &payers, size.token_accounts)?;
        // An endpoint may close the connection, which is a valid reaction as well.
        let constant = constant_request(address);
        let has_constant = JsonRpcClient::open(address)?
            .exchange(&constant)
            .is_ok_and(|response| is_constant(response.status, response.body));
        Ok(Self { size, address, node, client, payers, token_accounts, has_constant })
    }

    fn round(&mut self, rows: &mut Vec<Row>) -> Result<()> {
        let address = self.address;
        let endpoint = Endpoint::from(address);
        let mut constant = f64::NAN;
        if self.has_constant {
            let run = self.offer("constant", vec![constant_request(address)], classify_constant)?;
            constant = run.stats[0].rate();
            add(rows, "constant", false, constant, run)?;
        }
        for (name, calls) in self.read_calls() {
            let requests = calls.iter().map(|params| endpoint.call(name, params)).collect();
            let run = self.offer(name, requests, json_rpc)?;
            add(rows, name, true, constant, run)?;
        }
        self.send("sendTransaction", true, constant, rows)?;
        self.send("  with preflight", false, constant, rows)
    }

    /// The reading methods, and the parameters of their calls, used round robin.
    fn read_calls(&self) -> Vec<(&'static str, Vec<Value>)> {
        let commitment = json!({ "commitment": "processed" });
        let of = |keys: &[Pubkey], config: &Value| -> Vec<Value> {
            keys.iter().map(|key| json!([key.to_string(), config])).collect()
        };
        let payers: Vec<Pubkey> = self.payers.iter().map(Signer::pubkey).collect();
        let base64 = json!({ "commitment": "processed", "encoding": "base64" });
        vec![
            ("getSlot", vec![json!([commitment])]),
            ("getBalance", of(&payers, &commitment)),
            ("getAccountInfo", of(&self.token_accounts, &base64)),
            ("getLatestBlockhash", vec![json!([commitment])]),
        ]
    }

    /// Offers one kind of request for the size's time. One wrong response ends the benchmark.
    fn offer(&self, name: &str, requests: Vec<Vec<u8>>, judge: Classifier) -> Result<Run> {
        let span = RunLength::Time { warm_up: self.size.warm_up, measured: self.size.measured };
        self.run(name, requests, span, judge)
    }

    fn run(
        &self,
        name: &str,
        requests: Vec<Vec<u8>>,
        span: RunLength,
        judge: Classifier,
    ) -> Result<Run> {
        let Size { connections, threads, .. } = self.size;
        let stream = Stream {
            classifier: judge,
            threads,
            ..Stream::closed_loop(name, requests, connections)
        };
        let process = self.node.as_ref().map(|node| Process::with_id(node.pid()));
        let plan = LoadPlan { process, ..LoadPlan::new(self.address.into(), stream, span) };
        require_ok(name, plan.run()?)
    }

    /// Sends signed transfers, each once, and waits until all have been executed.
    fn send(
        &mut self,
        name: &'static str,
        skip_preflight: bool,
        constant: f64,
        rows: &mut Vec<Row>,
    ) -> Result<()> {
        let count = self.size.sends[usize::from(!skip_preflight)];
        let signed = transfers::signed_transfers(&mut self.client, &self.payers, count)?;
        let requests = signed
            .iter()
            .map(|transaction| self.send_request(transaction, skip_preflight))
            .collect::<Result<Vec<_>>>()?;
        let started = now();
        let run = self.run(name, requests, RunLength::Once, json_rpc)?;
        let signatures: Vec<String> =
            signed.iter().map(|transaction| transaction.signatures[0].to_string()).collect();
        // The last to be executed are among the last that were sent.
        let last = &signatures[signatures.len().saturating_sub(self.size.connections * 2)..];
        transfers::wait_for_all(&mut self.client, last)?;
        let executed = count as f64 / started.elapsed().as_secs_f64();
        transfers::wait_for_all(&mut self.client, &signatures)?;
        println!("{}: {count} accepted and executed, {executed:.0} a second", name.trim());
        add(rows, name, false, constant, run)
    }

    fn send_request(&self, transaction: &Transaction, skip_preflight: bool) -> Result<Vec<u8>> {
        let params = transfers::send_params(transaction, skip_preflight)?;
        Ok(Endpoint::from(self.address).call("sendTransaction", &params))
    }

    fn print(&self, rows: &[Row]) {
        let Size { rounds, measured, connections, threads, token_accounts, .. } = &self.size;
        println!(
            "closed loop, {connections} connections from {threads} thread, {rounds} rounds of \
             {measured:?}; {token_accounts} token accounts, base64; at processed"
        );
        println!("request             requests/s   p50 ms   p99 ms  server CPU us  of constant");
        for row in rows {
            let ms = |quantile| row.latencies.value_at_quantile(quantile) as f64 / 1e6;
            println!(
                "{:18} {:11.0} {:8.3} {:8.3} {:14.1} {:12.2}",
                row.name,
                median(row.rates.clone()),
                ms(0.5),
                ms(0.99),
                median(row.cpu_us.clone()),
                median(row.of_constant.clone()),
            );
        }
        for row in rows.iter().filter(|row| row.is_cheap && self.has_constant) {
            let ratio = median(row.of_constant.clone());
            println!("bar rpc_{}_of_constant {ratio:.2} x >= {RATIO_OF_CONSTANT_MIN}", row.name);
        }
    }
}

fn size(args: &[String]) -> Result<Size> {
    let known = ["--toy", "--url", "--connections", "--threads", "--rounds", "--seconds"];
    for arg in args.iter().filter(|arg| arg.starts_with("--")) {
        ensure!(known.contains(&arg.as_str()), "{arg}: unknown\n{USAGE}");
    }
    let mut size = if args.iter().any(|arg| arg == "--toy") { TOY } else { FULL };
    let number = |flag: &str| -> Result<Option<usize>> {
        let Some(text) = value_of(args, flag)? else { return Ok(None) };
        match text.parse() {
            Ok(number) if number > 0 => Ok(Some(number)),
            _ => bail!("{flag} {text}: not a number above 0\n{USAGE}"),
        }
    };
    size.connections = number("--connections")?.unwrap_or(size.connections);
    size.threads = number("--threads")?.unwrap_or(size.threads);
    size.rounds = number("--rounds")?.unwrap_or(size.rounds);
    if let Some(seconds) = number("--seconds")? {
        size.measured = Duration::from_secs(seconds as u64);
    }
    Ok(size)
}

fn add(
    rows: &mut Vec<Row>,
    name: &'static str,
    is_cheap: bool,
    constant: f64,
    run: Run,
) -> Result<()> {
    let at = rows.iter().position(|row| row.name == name);
    let outcome = &run.stats[0];
    let row = match at {
        Some(at) => &mut rows[at],
        None => {
            let latencies = Histogram::new_from(&outcome.latencies);
            let rates = Vec::new();
            let of_constant = Vec::new();
            let cpu_us = Vec::new();
            rows.push(Row { name, is_cheap, rates, of_constant, cpu_us, latencies });
            rows.last_mut().context("a row was just added")?
        }
    };
    row.rates.push(outcome.rate());
    row.of_constant.push(outcome.rate() / constant);
    let cpu_s = run.usage.as_ref().map_or(0.0, |used| used.cpu_s);
    row.cpu_us.push(cpu_s * 1e6 / outcome.counts.ok as f64);
    row.latencies.add(&outcome.latencies)?;
    Ok(())
}

/// Errors: any response is wrong.
fn require_ok(name: &str, run: Run) -> Result<Run> {
    let counts = run.stats[0].counts;
    let name = name.trim();
    if counts.failed() > 0 {
        let failure = run.stats[0].failure.as_deref().unwrap_or("a refusal");
        let failed = counts.failed();
        let all = counts.total();
        bail!("{name}: {failed} of {all} responses are wrong, such as: {failure}");
    }
    ensure!(counts.ok > 0, "{name}: no response came in time");
    Ok(run)
}

fn constant_request(address: SocketAddr) -> Vec<u8> {
    let body =
        r#"{"id":1,"jsonrpc":"2.0","method":"getSlot","params":[{"commitment":"processed"}]}"#;
    Endpoint::from(address).post("/health", body)
}

fn is_constant(status: u16, body: &[u8]) -> bool {
    status == 200 && body == b"ok"
}

fn classify_constant(status: u16, body: &[u8]) -> Verdict {
    if is_constant(status, body) { Verdict::Ok } else { Verdict::Error }
}
