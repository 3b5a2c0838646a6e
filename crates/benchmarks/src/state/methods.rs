//! Methods over a smaller and a larger ledger, as a client calls them, and the reads within them.
//!
//! A time is the median of sequential calls with complete responses over one connection on loopback. A growth is the
//! larger ledger's time over the smaller one's.

use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;
use http_client::{Client, HttpResponse};
use serde_json::{Value, json};
use testkit::clock::now;
use testkit::synthetic::{KnownOwner, Synthetic, SyntheticConfig};

use super::size::Size;
use crate::ledger_process::protocol::SEED;
use crate::ledger_process::{LedgerMetrics, LedgerProcess};
use crate::threshold;

/// Growth up to this factor is the machine's noise.
const GROWTH_MAX: f64 = 1.3;
/// "Each under 1 ms."
const AGGREGATE_MS_MAX: f64 = 1.0;

/// A method with its calls, and the metric of the read within it.
struct Row {
    name: String,
    threshold: String,
    method: &'static str,
    params: Vec<Value>,
    /// Minimum number of accounts in each response; `None` if it is not a list of accounts.
    accounts_min: Option<usize>,
    state: Option<String>,
    /// Its share of calls, as a divisor.
    seldom: usize,
}

struct Times {
    p50_ms: f64,
    p99_ms: f64,
    accounts: f64,
    state_ms: Option<f64>,
}

pub(crate) fn run(size: &Size) -> Result<()> {
    let [smaller, larger] = size.accounts;
    let (before, _) = over(smaller, size, 0)?;
    let (after, metrics) = over(larger, size, size.slots)?;
    println!(
        "\n{:34} accounts    {smaller:>9}: ms   state ms    {larger:>9}: ms     p99   state ms  grew",
        "method"
    );
    let ms = |state: Option<f64>| state.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.4}"));
    for ((row, before), (_, after)) in
        rows(smaller).iter().zip(&before).zip(rows(larger).iter().zip(&after))
    {
        println!(
            "{:34} {:>8.1} {:>16.4} {:>10} {:>16.4} {:>7.3} {:>10} {:>5.2}",
            row.name,
            after.accounts,
            before.p50_ms,
            ms(before.state_ms),
            after.p50_ms,
            after.p99_ms,
            ms(after.state_ms),
            after.p50_ms / before.p50_ms,
        );
    }
    for (row, (before, after)) in rows(larger).iter().zip(before.iter().zip(&after)) {
        match row.accounts_min {
            Some(_) => {
                threshold::at_most(&row.threshold, after.p50_ms / before.p50_ms, "x", GROWTH_MAX)
            }
            None => threshold::at_most(&row.threshold, after.p50_ms, "ms", AGGREGATE_MS_MAX),
        }
    }
    threshold::at_most("state_stream_50000_growth", metrics.get("stream_50000_growth")?, "x", 1.02);
    threshold::at_most(
        "state_stream_50000_cpu_share",
        metrics.get("stream_50000_cpu_share")?,
        "x",
        0.5,
    );
    Ok(())
}

/// Calls the methods of a ledger of `accounts` accounts, then runs the stream of writes over it.
fn over(accounts: u32, size: &Size, slots: u32) -> Result<(Vec<Times>, LedgerMetrics)> {
    println!("\nmainnet's shape, {accounts} accounts");
    let mut ledger = LedgerProcess::start("serve", "mainnet", accounts, &[&slots.to_string()])?;
    let (address, metrics) = ledger.serving()?;
    let mut client = Client::open(address)?;
    let mut times = Vec::new();
    for row in rows(accounts) {
        let state = row.state.as_ref().map(|name| metrics.get(name)).transpose()?;
        let mut row = row.times(&mut client, size.calls)?;
        row.state_ms = state.map(|us| us / 1e3);
        times.push(row);
    }
    drop(client);
    // After that line it starts the stream.
    ledger.send_line("")?;
    Ok((times, ledger.end()?))
}

fn rows(accounts: u32) -> Vec<Row> {
    let ledger = Synthetic::new(SyntheticConfig::mainnet(SEED, accounts));
    let program = spl_token_interface::id().to_string();
    let mut rows = Vec::new();
    for (accounts, seldom) in [(1, 1), (100, 1), (10_000, 20)] {
        let known = KnownOwner::all().filter(|known| known.accounts() == accounts);
        let owners: Vec<String> =
            known.map(|known| ledger.known_owner(known).to_string()).collect();
        let by_owner = |owner| json!([owner, { "programId": program }, { "encoding": "base64" }]);
        let by_memcmp = |owner| {
            let filters =
                json!([{ "dataSize": 165 }, { "memcmp": { "offset": 32, "bytes": owner } }]);
            json!([program, { "encoding": "base64", "filters": filters }])
        };
        // Some of an owner's accounts are of the other token program.
        let accounts_min = Some(accounts as usize * 8 / 10);
        let state = Some(format!("state_owner_{accounts}_us"));
        rows.push(Row {
            name: format!("getTokenAccountsByOwner, {accounts}"),
            threshold: format!("state_owner_{accounts}_read_growth"),
            method: "getTokenAccountsByOwner",
            params: owners.iter().map(by_owner).collect(),
            accounts_min,
            state: state.clone(),
            seldom,
        });
        rows.push(Row {
            name: format!("getProgramAccounts, memcmp, {accounts}"),
            threshold: format!("state_memcmp_{accounts}_read_growth"),
            method: "getProgramAccounts",
            params: owners.iter().map(by_memcmp).collect(),
            accounts_min,
            state,
            seldom,
        });
    }
    let without_list = json!([{ "excludeNonCirculatingAccountsList": true }]);
    let mint = ledger.largest_mint().to_string();
    for (name, method, params, state) in [
        ("getSupply", "getSupply", json!([]), Some("state_lockups_us")),
        ("getSupply, without list", "getSupply", without_list, Some("state_lockups_us")),
        ("getLargestAccounts", "getLargestAccounts", json!([]), Some("state_largest_us")),
        (
            "getTokenLargestAccounts",
            "getTokenLargestAccounts",
            json!([mint]),
            Some("state_largest_holders_us"),
        ),
    ] {
        let suffix = if name == method { "" } else { "_without_list" };
        rows.push(Row {
            name: name.to_owned(),
            threshold: format!("state_{method}{suffix}_ms"),
            method,
            params: vec![params],
            accounts_min: None,
            state: state.map(str::to_owned),
            seldom: 1,
        });
    }
    rows
}

impl Row {
    fn times(&self, client: &mut Client, calls: usize) -> Result<Times> {
        let endpoint = client.endpoint();
        let requests: Vec<Vec<u8>> =
            self.params.iter().map(|params| endpoint.call(self.method, params)).collect();
        let mut accounts = 0;
        for request in &requests {
            let response: Value = serde_json::from_slice(exchange(client, request)?)?;
            ensure!(response.get("error").is_none(), "{}: {}", self.name, response["error"]);
            let result = &response["result"];
            let list = result.as_array().or_else(|| result["value"].as_array());
            accounts += list.map_or(0, Vec::len);
        }
        let min = self.accounts_min.unwrap_or(0) * requests.len();
        ensure!(accounts >= min, "{}: {accounts} accounts, at least {min} exist", self.name);
        let mut times: Histogram<u64> = Histogram::new(3)?;
        for nth in 0..(calls / self.seldom).max(3) {
            let began = now();
            let bytes = exchange(client, &requests[nth % requests.len()])?.len();
            times.record(began.elapsed().as_nanos() as u64).context("a time")?;
            ensure!(bytes > 0, "{}: an empty response", self.name);
        }
        let ms = |quantile| times.value_at_quantile(quantile) as f64 / 1e6;
        let accounts = accounts as f64 / requests.len() as f64;
        Ok(Times { p50_ms: ms(0.5), p99_ms: ms(0.99), accounts, state_ms: None })
    }
}

/// Sends a request and returns the body of its response.
fn exchange<'a>(client: &'a mut Client, request: &[u8]) -> Result<&'a [u8]> {
    let HttpResponse { status, body, .. } = client.exchange(request)?;
    ensure!(status == 200, "HTTP {status}: {}", String::from_utf8_lossy(body));
    Ok(body)
}
