//! Lists of 100 token accounts at hit rates from 0 to 100 %, while blocks change the data; and how many are stale.
//!
//! Shape: a share of the requests is for hot lists, which the cache can have. The others are never repeated while the
//! cache has them, so they miss. A writer sends transfers to one account of each hot list, in blocks of 400 ms. An
//! observer reads these accounts with getBalance, which the response cache never has. A response for a hot list is
//! stale if it has fewer lamports than the observer had read before the request was sent.
//! The hit rate that was reached is that of the node's metrics: a list is computed again after each change.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;
use http_client::{Client, Connection, Endpoint};
use loadgen::svg::{Axis, Document, Line, Plot, Point, Scale};
use serde::Deserialize;
use serde_json::{Value, json};
use testkit::clock::{now, sleep_for};
use testkit::json_rpc_client::JsonRpcClient;
use testkit::node::Node;
use testkit::transfers;

use super::fixture::Fixture;
use super::lamports_position::LamportsPosition;
use super::load::CONNECTIONS;
use super::measurement::{CACHE_BYTES, Measurement, Size};
use super::nodes::{start_node, target};
use crate::median::median;
use crate::node::Target;
use crate::report::{Rows, table_head};

/// Requested hit rates, in percent.
const HIT_PERCENTS: [u64; 5] = [0, 50, 90, 99, 100];

const COLUMNS: [&str; 12] = [
    "hit_percent",
    "round",
    "rate",
    "p50_us",
    "p99_us",
    "cpu_us",
    "hits",
    "lookups",
    "checked",
    "stale",
    "changes",
    "writes",
];

/// Hot lists: as many as one read of the observer may have accounts.
const HOT_MAX: usize = 64;

/// The part of an account's data in a list. Its offset makes requests that differ, with responses of one size.
const SLICE_BYTES: usize = 64;
const SLICE_OFFSETS: usize = 165 - SLICE_BYTES;

const OBSERVER_INTERVAL: Duration = Duration::from_millis(5);
/// Writes with one blockhash, which is valid for a minute.
const BLOCKHASH_WRITES: u64 = 50;

/// The lists that a run requests.
struct Lists<'a> {
    fixture: &'a Fixture,
    endpoint: Endpoint,
    hot: usize,
    /// The account of each hot list that the writer changes.
    changed_accounts: Vec<String>,
    /// A batch of getBalance for these accounts.
    balances: Vec<u8>,
    /// Lamports of the changed account of each hot list that the observer has read.
    observed: Vec<AtomicU64>,
    /// Requests that the cache does not have, so far.
    cold_requests: AtomicU64,
    /// Transfers so far: each has another number of lamports.
    transfers: AtomicU64,
}

/// A response to getBalance, with the number of its list.
#[derive(Deserialize)]
struct BalanceResponse {
    id: usize,
    result: Balance,
}

#[derive(Deserialize)]
struct Balance {
    value: u64,
}

/// Results of the readers' connections.
struct Readers {
    responses: u64,
    latencies: Histogram<u64>,
    checked: u64,
    stale: u64,
}

/// Lookups in the response cache so far.
#[derive(Clone, Copy)]
struct CacheCounters {
    hits: f64,
    lookups: f64,
}

pub(super) fn seconds(size: &Size) -> f64 {
    (HIT_PERCENTS.len() * size.rounds) as f64 * size.hit_seconds.as_secs_f64()
}

pub(super) fn run(run: &mut Measurement<'_>, is_selected: bool) -> Result<String> {
    let mut rows = run.report.rows("hit_rates.csv", 2, &COLUMNS)?;
    let is_missing = |rows: &Rows, cell: &Cell| rows.find(&cell.key()).is_none();
    let missing: Vec<Cell> =
        cells(&run.size).filter(|cell| is_selected && is_missing(&rows, cell)).collect();
    let cell_seconds = run.size.hit_seconds.as_secs_f64();
    if is_selected {
        run.progress.skip(seconds(&run.size) - missing.len() as f64 * cell_seconds);
    }
    if !missing.is_empty() {
        let node = start_node(run.fixture, &["--cache-bytes-max", CACHE_BYTES])?;
        let lists = Lists::new(run.fixture, &node);
        for cell in missing {
            let cells = lists.measure(cell.hit_percent, target(&node), &run.size)?;
            rows.push(&cell.key(), &cells)?;
            run.progress.add(cell_seconds);
        }
    }
    table(run, &rows)
}

struct Cell {
    hit_percent: u64,
    round: usize,
}

impl Cell {
    fn key(&self) -> [String; 2] {
        [self.hit_percent.to_string(), self.round.to_string()]
    }
}

fn cells(size: &Size) -> impl Iterator<Item = Cell> + use<> {
    let rounds = 0..size.rounds;
    rounds.flat_map(|round| HIT_PERCENTS.map(|hit_percent| Cell { hit_percent, round }))
}

impl<'a> Lists<'a> {
    fn new(fixture: &'a Fixture, node: &Node) -> Self {
        let hot = HOT_MAX.min(fixture.owners.len() / 2);
        let changed = |list: usize| fixture.tokens[list * fixture.list].to_string();
        let changed_accounts: Vec<String> = (0..hot).map(changed).collect();
        let endpoint = Endpoint::from(node.rpc);
        let call = |list: usize| {
            let params = json!([changed_accounts[list], { "commitment": "processed" }]);
            json!({ "jsonrpc": "2.0", "id": list, "method": "getBalance", "params": params })
        };
        let calls: Value = (0..hot).map(call).collect();
        Self {
            fixture,
            balances: endpoint.body(&calls.to_string()),
            endpoint,
            hot,
            changed_accounts,
            observed: (0..hot).map(|_| AtomicU64::new(0)).collect(),
            cold_requests: AtomicU64::new(0),
            transfers: AtomicU64::new(0),
        }
    }

    fn request(&self, owner: usize, offset: usize) -> Vec<u8> {
        let owner = self.fixture.owners[owner];
        let path = format!(
            "/v1/owners/{owner}/tokens?limit=100&commitment=processed&dataOffset={offset}&dataLength={SLICE_BYTES}"
        );
        self.endpoint.request("GET", &path, None)
    }

    /// Returns a request that the cache does not have: each owner and offset is used once before any is repeated.
    fn cold_request(&self) -> Vec<u8> {
        let nth = self.cold_requests.fetch_add(1, Ordering::Relaxed) as usize;
        let cold_owners = self.fixture.owners.len() - self.hot;
        let offset = 1 + nth / cold_owners % (SLICE_OFFSETS - 1);
        self.request(self.hot + nth % cold_owners, offset)
    }

    fn measure(&self, hit_percent: u64, target: Target, size: &Size) -> Result<Vec<String>> {
        let mut metrics = Client::open(target.address)?;
        let mut observer = JsonRpcClient::open(target.address)?;
        let mut writer = JsonRpcClient::open(target.address)?;
        // The cache has every hot list before the load begins.
        self.observe(&mut observer)?;
        for list in 0..self.hot {
            metrics.exchange(&self.request(list, 0))?;
        }
        let before = CacheCounters::read(&mut metrics)?;
        let cpu_before = target.process.cpu_time()?;
        let is_over = AtomicBool::new(false);
        let began = now();
        let (readers, writes, changes) = std::thread::scope(|scope| {
            let writer = scope.spawn(|| self.write_until(&is_over, &mut writer, size));
            let observer = scope.spawn(|| self.observe_until(&is_over, &mut observer));
            let readers = self.read_for(size.hit_seconds, hit_percent);
            is_over.store(true, Ordering::Relaxed);
            let writes = writer.join().map_err(|_| anyhow::anyhow!("the writer panicked"))?;
            let changes = observer.join().map_err(|_| anyhow::anyhow!("the observer panicked"))?;
            anyhow::Ok((readers?, writes?, changes?))
        })?;
        // Otherwise there would be no stale response whatever the cache does.
        let has_checked = changes > 0 && (hit_percent == 0 || readers.checked > 0);
        ensure!(size.is_toy || has_checked, "{hit_percent} %: nothing was checked");
        let seconds = began.elapsed().as_secs_f64();
        let cpu = (target.process.cpu_time()? - cpu_before).as_secs_f64();
        let after = CacheCounters::read(&mut metrics)?;
        let us = |quantile| readers.latencies.value_at_quantile(quantile) as f64 / 1e3;
        Ok(vec![
            format!("{:.1}", readers.responses as f64 / seconds),
            format!("{:.2}", us(0.5)),
            format!("{:.2}", us(0.99)),
            format!("{:.3}", cpu * 1e6 / readers.responses.max(1) as f64),
            format!("{:.0}", after.hits - before.hits),
            format!("{:.0}", after.lookups - before.lookups),
            readers.checked.to_string(),
            readers.stale.to_string(),
            changes.to_string(),
            writes.to_string(),
        ])
    }

    /// Reads over all connections, on this thread.
    fn read_for(&self, time: Duration, hit_percent: u64) -> Result<Readers> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let until = now() + time;
        runtime.block_on(async {
            let connections = (0..CONNECTIONS as u64).map(|nth| self.read(until, hit_percent, nth));
            let mut all = Readers::new()?;
            for readers in futures_util::future::try_join_all(connections).await? {
                all.add(&readers)?;
            }
            Ok(all)
        })
    }

    async fn read(&self, until: Instant, hit_percent: u64, connection: u64) -> Result<Readers> {
        let mut http = Connection::open(self.endpoint.clone()).await?;
        let mut readers = Readers::new()?;
        let mut positions = vec![LamportsPosition::default(); self.hot];
        let mut nth = connection * 37;
        while now() < until {
            nth += 1;
            // 61/100 is close to the golden ratio, so misses are spread evenly.
            let is_hot = nth * 61 % 100 < hit_percent;
            let list = (nth * 7 % self.hot as u64) as usize;
            let request = if is_hot { self.request(list, 0) } else { self.cold_request() };
            let least = self.observed[list].load(Ordering::Acquire);
            let sent = now();
            let response = http.exchange(&request).await?;
            readers.latencies.saturating_record(sent.elapsed().as_nanos() as u64);
            readers.responses += 1;
            ensure!(response.status == 200, "status {}", response.status);
            if is_hot {
                readers.checked += 1;
                let account = &self.changed_accounts[list];
                let lamports = positions[list].read(response.body, account);
                readers.stale += u64::from(lamports < least);
            }
        }
        Ok(readers)
    }

    /// Sends transfers of a few lamports to the hot lists, at the rate of `size`. Returns their number.
    fn write_until(
        &self,
        is_over: &AtomicBool,
        client: &mut JsonRpcClient,
        size: &Size,
    ) -> Result<u64> {
        let interval = Duration::from_secs_f64(1.0 / size.hit_writes_per_second);
        let began = now();
        let mut blockhash = client.latest_blockhash()?;
        let mut writes = 0;
        while !is_over.load(Ordering::Relaxed) {
            let due = began + interval * writes as u32;
            sleep_for(due.saturating_duration_since(now()));
            writes += 1;
            if writes % BLOCKHASH_WRITES == 0 {
                blockhash = client.latest_blockhash()?;
            }
            let number = self.transfers.fetch_add(1, Ordering::Relaxed) + 1;
            let payer = &self.fixture.payers[number as usize % self.fixture.payers.len()];
            let to = &self.fixture.tokens[number as usize % self.hot * self.fixture.list];
            let transfer = transfers::sign_transfer(payer, to, number, blockhash);
            client.call("sendTransaction", transfers::send_params(&transfer, true)?)?;
        }
        Ok(writes)
    }

    /// Reads the changed accounts again and again. Returns the number of new values.
    fn observe_until(&self, is_over: &AtomicBool, client: &mut JsonRpcClient) -> Result<u64> {
        let mut changes = 0;
        while !is_over.load(Ordering::Relaxed) {
            changes += self.observe(client)?;
            sleep_for(OBSERVER_INTERVAL);
        }
        Ok(changes)
    }

    fn observe(&self, client: &mut JsonRpcClient) -> Result<u64> {
        let response = client.exchange(&self.balances)?;
        let responses: Vec<BalanceResponse> = serde_json::from_slice(response.body)?;
        let mut changes = 0;
        for response in responses {
            let lamports = response.result.value;
            let observed = self.observed.get(response.id).context("the id of a request")?;
            let before = observed.fetch_max(lamports, Ordering::AcqRel);
            changes += u64::from(before < lamports);
        }
        Ok(changes)
    }
}

impl Readers {
    fn new() -> Result<Self> {
        let latencies = Histogram::new_with_max(60_000_000_000, 3)?;
        Ok(Self { responses: 0, latencies, checked: 0, stale: 0 })
    }

    fn add(&mut self, other: &Self) -> Result<()> {
        self.responses += other.responses;
        self.checked += other.checked;
        self.stale += other.stale;
        Ok(self.latencies.add(&other.latencies)?)
    }
}

impl CacheCounters {
    /// Reads the counters from the node's metrics.
    fn read(client: &mut Client) -> Result<Self> {
        let request = client.endpoint().request("GET", "/metrics", None);
        let text = String::from_utf8_lossy(client.exchange(&request)?.body).into_owned();
        let count = |result: &str| -> Result<f64> {
            let label = format!("result=\"{result}\"");
            let line = text.lines().find(|line| {
                line.starts_with("hydrant_cache_lookups_total{") && line.contains(&label)
            });
            let value = line.and_then(|line| line.rsplit(' ').next());
            Ok(value.with_context(|| format!("no metric of cache lookups, {result}"))?.parse()?)
        };
        let hits = count("hit")?;
        Ok(Self { hits, lookups: hits + count("miss")? + count("stale")? })
    }
}

fn table(run: &mut Measurement<'_>, rows: &Rows) -> Result<String> {
    let mut lines = String::new();
    let mut points: Vec<Point> = Vec::new();
    let mut stale_sum = 0.0;
    for (position, hit_percent) in HIT_PERCENTS.into_iter().enumerate() {
        let cells = (0..run.size.rounds).map(|round| Cell { hit_percent, round });
        let values = |at: usize| -> Option<Vec<f64>> {
            cells.clone().map(|cell| rows.number(&cell.key(), at)).collect()
        };
        let all: Option<Vec<Vec<f64>>> = (0..COLUMNS.len() - 2).map(values).collect();
        let Some(all) = all else { continue };
        let median = |at: usize| median(all[at].clone());
        let sum = |at: usize| all[at].iter().sum::<f64>();
        let reached = sum(4) / sum(5).max(1.0) * 100.0;
        stale_sum += sum(7);
        lines.push_str(&format!(
            "| {hit_percent} % | {reached:.2} % | {:.0} | {:.0} | {:.0} | {:.1} | {} | {} | {} |\n",
            median(0),
            median(1),
            median(2),
            median(3),
            sum(8),
            sum(6),
            sum(7)
        ));
        let label = format!("{hit_percent} %");
        points.push(Point { x: position as f64, y: median(0), label });
    }
    if lines.is_empty() {
        return Ok(lines);
    }
    if points.len() == HIT_PERCENTS.len() {
        run.bars.at_most("ladder_stale_at_hit_rates", stale_sum, "responses", 0.0);
    }
    let marks = HIT_PERCENTS.iter().enumerate();
    let marks = marks.map(|(position, percent)| (position as f64, format!("{percent} %")));
    let x = Axis::linear("share of requests for hot lists", -0.5, 4.5).with_marks(marks);
    let lines_of_plot = vec![Line { name: "responses a second", points }];
    let plot = Plot { x, y_scale: Scale::Linear, unit: "responses/s", lines: lines_of_plot };
    let title = "Lists of 100 by hit rate";
    let plots = vec![(title.to_owned(), plot)];
    run.report.write("hit_rates.svg", &Document { title, columns: 1, plots }.svg())?;
    let about = format!(
        "`GET /v1/owners/{{address}}/tokens` of {} accounts at processed, {CONNECTIONS} connections, {} rounds of {} s \
         while blocks of 400 ms have {} transfers a second to the hot lists. The hit rate is that of the node's \
         metrics. A response is stale if it has fewer lamports than getBalance, which is never cached, had \
         returned before its request. At 0 % no response is checked: cold lists do not change. Commits: \
         {}.\n\n![Responses a second by hit rate](hit_rates.svg)",
        run.fixture.list,
        run.size.rounds,
        run.size.hit_seconds.as_secs_f64(),
        run.size.hit_writes_per_second,
        rows.commits()
    );
    let columns = [
        "hot",
        "hit rate",
        "responses/s",
        "p50, us",
        "p99, us",
        "us CPU, with observer and writer",
        "changes seen",
        "checked",
        "stale",
    ];
    Ok(table_head("Hit rates while blocks change the data", &about, &columns) + &lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_hot_at_the_requested_rate() {
        for percent in HIT_PERCENTS {
            let hot = (0..10_000_u64).filter(|nth| nth * 61 % 100 < percent).count() as u64;
            assert_eq!(hot, percent * 100);
        }
    }
}
