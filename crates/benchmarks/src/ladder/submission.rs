//! `POST /v1/transactions` with preflight, without a pause: how many are accepted and executed.
//!
//! Shape: as many transfers are signed before as a short run says that the node accepts in the time, and one fifth
//! more; a blockhash is valid for a minute. They are sent in a closed loop, each once. Afterwards the status of each
//! accepted one is read. A transaction is lost if it was accepted and has no status.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http_client::Endpoint;
use loadgen::svg::{Axis, Document, Line, Plot, Point, Scale};
use loadgen::{Run, RunLength, Stream, status_ok};
use serde_json::{Value, json};
use solana_transaction::Transaction;
use testkit::clock::{now, sleep_for};
use testkit::json_rpc_client::JsonRpcClient;
use testkit::transfers;

use super::load::{CONNECTIONS, Sample, constant_requests, offer, run as run_load};
use super::measurement::{CACHE_BYTES, Measurement, Size};
use super::nodes::{ConstantServer, start_node, target};
use crate::node::Target;
use crate::report::{Rows, table_head};

pub(super) const PATH: &str = "/v1/transactions?preflightCommitment=processed";

/// Transfers that are signed, over those that the short run predicts.
const RESERVE: f64 = 1.2;

/// Least share of the mean rate that the worst second has: the rate is sustained.
const WORST_SECOND_MIN: f64 = 0.5;

/// Statuses in one request, as many as it may have.
const STATUSES_MAX: usize = 256;
/// Time limit for the execution of accepted transactions, and the interval of its polls.
const EXECUTION_TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

const COLUMNS: [&str; 13] = [
    "part",
    "seconds",
    "sent",
    "accepted",
    "rejected",
    "failed",
    "executed",
    "rate",
    "worst_second",
    "p50_ms",
    "p99_ms",
    "cpu_us",
    "ceiling_rate",
];
const KEY: &str = "preflight";

/// Returns the approximate time, with the signatures before and the statuses after the load.
pub(super) fn seconds(size: &Size) -> f64 {
    2.0 * size.submission_time.as_secs_f64()
}

pub(super) fn run(run: &mut Measurement<'_>, is_selected: bool) -> Result<String> {
    let mut rows = run.report.rows("submission.csv", 1, &COLUMNS)?;
    let mut second_rows = run.report.rows("submission_seconds.csv", 1, &["second", "accepted"])?;
    let is_measured = rows.find(&[KEY.to_owned()]).is_some();
    if is_selected && is_measured {
        run.progress.skip(seconds(&run.size));
    } else if is_selected {
        measure(run, &mut rows, &mut second_rows)?;
        run.progress.add(seconds(&run.size));
    }
    table(run, &rows, &second_rows)
}

fn measure(run: &Measurement<'_>, rows: &mut Rows, seconds: &mut Rows) -> Result<()> {
    let node = start_node(run.fixture, &["--cache-bytes-max", CACHE_BYTES])?;
    let constant = ConstantServer::start()?;
    let target = target(&node);
    // Once to warm up, and once for the rate.
    let mut rate = 0.0;
    for _ in 0..2 {
        let some = Transfers::sign(target, run, run.size.submission_probe)?;
        rate = Sample::new(&some.send(target)?).rate;
    }
    let requested = run.size.submission_time.as_secs_f64();
    let count = ((rate * requested * RESERVE) as usize).max(run.size.submission_probe);
    let transfers = Transfers::sign(target, run, count)?;
    let sent = transfers.send(target)?;
    // A connection that was idle during the load would be closed.
    let mut client = JsonRpcClient::open(node.rpc)?;
    let executed = transfers.count_executed(&mut client, sent.stats[0].counts.ok)?;
    let ceiling = measure_ceiling(run, &transfers, &constant)?;
    constant.end()?;
    let stats = &sent.stats[0];
    let took = stats.took.as_secs_f64();
    // The last second may be a part of one.
    let whole = &stats.seconds[..(took as usize).min(stats.seconds.len())];
    let worst = whole.iter().map(|second| second.ok).min().unwrap_or(stats.counts.ok);
    let sample = Sample::new(&sent);
    let counts = stats.counts;
    let cells = [
        format!("{took:.2}"),
        count.to_string(),
        counts.ok.to_string(),
        counts.rejected.to_string(),
        (counts.failed() - counts.rejected).to_string(),
        executed.to_string(),
        format!("{:.1}", sample.rate),
        worst.to_string(),
        format!("{:.4}", sample.p50_ms),
        format!("{:.4}", sample.p99_ms),
        format!("{:.3}", sample.cpu_us),
        format!("{ceiling:.1}"),
    ];
    // Those of a run that was stopped before its own row was written.
    seconds.remove_rows(|_| true)?;
    for (second, counts) in stats.seconds.iter().enumerate() {
        seconds.push(&[second.to_string()], &[counts.ok.to_string()])?;
    }
    rows.push(&[KEY.to_owned()], &cells)
}

/// Transfers that have been signed, and their requests.
struct Transfers {
    signatures: Vec<String>,
    requests: Vec<Vec<u8>>,
}

impl Transfers {
    fn sign(target: Target, run: &Measurement<'_>, count: usize) -> Result<Self> {
        let mut client = JsonRpcClient::open(target.address)?;
        let signed = transfers::signed_transfers(&mut client, &run.fixture.payers, count)?;
        let endpoint = Endpoint::from(target.address);
        let request = |transaction: &Transaction| -> Result<Vec<u8>> {
            let params = transfers::send_params(transaction, false)?;
            Ok(endpoint.post(PATH, &json!({ "transaction": params[0] }).to_string()))
        };
        let requests = signed.iter().map(request).collect::<Result<_>>()?;
        let signatures = signed.iter().map(|it| it.signatures[0].to_string()).collect();
        Ok(Self { signatures, requests })
    }

    /// Sends each once, in a closed loop.
    fn send(&self, target: Target) -> Result<Run> {
        let stream = Stream::closed_loop("submission", self.requests.clone(), CONNECTIONS);
        let run = run_load(target, Stream { classifier: status_ok, ..stream }, RunLength::Once)?;
        let stats = &run.stats[0];
        ensure!(stats.counts.ok > 0, "no transaction was accepted: {:?}", stats.failure);
        Ok(run)
    }

    /// Counts the executed ones, once as many have been executed as were accepted, or no more are.
    fn count_executed(&self, client: &mut JsonRpcClient, accepted: u64) -> Result<u64> {
        let began = now();
        loop {
            let executed = self.count_statuses(client)?;
            if executed >= accepted || began.elapsed() > EXECUTION_TIMEOUT {
                return Ok(executed);
            }
            sleep_for(POLL_INTERVAL);
        }
    }

    fn count_statuses(&self, client: &mut JsonRpcClient) -> Result<u64> {
        let mut executed = 0;
        for signatures in self.signatures.chunks(STATUSES_MAX) {
            let result = client.call("getSignatureStatuses", json!([signatures]))?;
            let statuses = result["value"].as_array().context("no statuses")?;
            // A transaction that was executed with an error is not a transfer.
            let is_executed = |status: &&Value| !status.is_null() && status["err"].is_null();
            executed += statuses.iter().filter(is_executed).count() as u64;
        }
        Ok(executed)
    }
}

/// Returns the rate of constant responses to the same requests.
fn measure_ceiling(
    run: &Measurement<'_>,
    transfers: &Transfers,
    constant: &ConstantServer,
) -> Result<f64> {
    // The responses to accepted transactions are no longer available.
    let bytes = json!({ "signature": transfers.signatures.first() }).to_string().len();
    let some = &transfers.requests[..transfers.requests.len().min(1_000)];
    let requests = constant_requests(some, bytes);
    let sample = offer(constant.target, &requests, CONNECTIONS, status_ok, &run.size)?;
    Ok(sample.rate)
}

fn table(run: &mut Measurement<'_>, rows: &Rows, seconds: &Rows) -> Result<String> {
    let number = |at| rows.number(&[KEY.to_owned()], at);
    let numbers: Option<Vec<f64>> = (0..COLUMNS.len() - 1).map(number).collect();
    let numbers = numbers.and_then(|numbers| <[f64; 12]>::try_from(numbers).ok());
    let Some(numbers) = numbers else { return Ok(String::new()) };
    let [took, sent, accepted, rejected, failed, executed, rate, worst, p50, p99, cpu, ceiling] =
        numbers;
    let lost = (accepted - executed).max(0.0);
    let requested = run.size.submission_time.as_secs_f64();
    run.bars.at_least("ladder_submission_seconds", took, "s", requested);
    run.bars.at_least("ladder_submission_worst_second", worst / rate, "x", WORST_SECOND_MIN);
    run.bars.at_most("ladder_submission_refused", rejected + failed, "transactions", 0.0);
    run.bars.at_most("ladder_submission_lost", lost, "transactions", 0.0);
    let line = format!(
        "| `POST /v1/transactions` | {took:.1} | {sent} | {accepted} | {rejected} | {failed} | {executed} | {lost} | \
         {rate:.0} | {worst} | {p50:.3} | {p99:.3} | {cpu:.1} | {ceiling:.0} | {:.3} |\n",
        rate / ceiling
    );
    plot(run, seconds)?;
    let about = format!(
        "Transfers, each signed before and sent once, with preflight at processed, over {CONNECTIONS} connections, to \
         a node with blocks of 400 ms. Load, preflight and execution share the cores. Lost: accepted and not \
         executed. Commits: {}.\n\n![Accepted a second](submission.svg)",
        rows.commits()
    );
    let columns = [
        "request",
        "seconds",
        "sent",
        "accepted",
        "rejected",
        "failed",
        "executed",
        "lost",
        "accepted/s",
        "worst second",
        "p50, ms",
        "p99, ms",
        "us CPU",
        "ceiling/s",
        "of the ceiling",
    ];
    Ok(table_head("Submission with preflight", &about, &columns) + &line)
}

fn plot(run: &Measurement<'_>, seconds: &Rows) -> Result<()> {
    let point = |key: &Vec<String>| {
        let second: f64 = key.first()?.parse().ok()?;
        let accepted = seconds.number(key, 0)?;
        Some(Point { x: second + 0.5, y: accepted, label: format!("second {}", second + 1.0) })
    };
    let mut points: Vec<Point> = seconds.keys().filter_map(point).collect();
    points.sort_by(|one, other| one.x.total_cmp(&other.x));
    // The last second may be a part of one.
    points.pop();
    let end = points.len().max(1) as f64;
    let lines = vec![Line { name: "accepted", points }];
    let x = Axis::linear("seconds", 0.0, end);
    let plot = Plot { x, y_scale: Scale::Linear, unit: "transactions/s", lines };
    let title = "Submission with preflight";
    let plots = vec![(title.to_owned(), plot)];
    run.report.write("submission.svg", &Document { title, columns: 1, plots }.svg())
}
