//! The rung after a change: the first response after a write that it depends on, and whether it has that write.
//!
//! Shape: on one connection, one request at a time: a constant response of the same size, the response again without a
//! change, then a write in a block of its own, and the response again. A response that does not have the write is
//! stale.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;
use http_client::{Client, HttpResponse};
use loadgen::Verdict;
use serde_json::json;
use testkit::clock::now;

use super::fixture::{ACCOUNT_LAMPORTS, mint_data};
use super::load::constant_requests;
use super::measurement::Size;
use super::nodes::Nodes;
use super::rows::{Change, ROWS, Row};
use crate::report::{Report, Rows, table_head};
use crate::threshold::Bars;

const COLUMNS: [&str; 9] = [
    "row",
    "changes",
    "constant_p50_us",
    "unchanged_p50_us",
    "changed_p50_us",
    "changed_p99_us",
    "bytes",
    "checked",
    "stale",
];

/// Latencies are counted in nanoseconds, up to a minute.
const LATENCY_NS_MAX: u64 = 60_000_000_000;

/// The part of a response that shows a write.
enum Mark {
    Body(String),
    Header(&'static str, String),
}

pub(super) fn rows(report: &Report) -> Result<Rows> {
    report.rows("changes.csv", 1, &COLUMNS)
}

pub(super) fn is_measured(rows: &Rows, row: &Row) -> bool {
    rows.find(&[row.name.to_owned()]).is_some()
}

pub(super) fn measure(
    rows: &mut Rows,
    row: &Row,
    nodes: &mut Nodes<'_>,
    size: &Size,
) -> Result<()> {
    let requests = row.requests(&nodes.cached)?;
    let request = requests.first().context("a row has requests")?;
    let mut client = nodes.cached.client()?;
    let bytes = client.exchange(request)?.body.len();
    let constant_request = constant_requests(std::slice::from_ref(request), bytes).remove(0);
    let mut constant_client = Client::open(nodes.constant.target.address)?;
    let mut constant = histogram()?;
    let mut unchanged = histogram()?;
    let mut changed = histogram()?;
    let mut checked = 0;
    let mut stale = 0;
    for nth in 0..size.changes {
        exchange(&mut constant_client, &constant_request, &mut constant)?;
        exchange(&mut client, request, &mut unchanged)?;
        let mark = write(row, nodes, nth)?;
        let response = exchange(&mut client, request, &mut changed)?;
        let verdict = row.classifier()(response.status, response.body);
        ensure!(verdict == Verdict::Ok, "{}: status {}", row.name, response.status);
        if let Some(mark) = mark {
            checked += 1;
            stale += u64::from(!mark.is_in(&response));
        }
    }
    let us = |latencies: &Histogram<u64>, quantile| {
        format!("{:.2}", latencies.value_at_quantile(quantile) as f64 / 1e3)
    };
    let cells = [
        size.changes.to_string(),
        us(&constant, 0.5),
        us(&unchanged, 0.5),
        us(&changed, 0.5),
        us(&changed, 0.99),
        bytes.to_string(),
        checked.to_string(),
        stale.to_string(),
    ];
    rows.push(&[row.name.to_owned()], &cells)
}

fn histogram() -> Result<Histogram<u64>> {
    Ok(Histogram::new_with_max(LATENCY_NS_MAX, 3)?)
}

fn exchange<'a>(
    client: &'a mut Client,
    request: &[u8],
    latencies: &mut Histogram<u64>,
) -> Result<HttpResponse<'a>> {
    let sent: Instant = now();
    let response = client.exchange(request)?;
    latencies.saturating_record(sent.elapsed().as_nanos() as u64);
    Ok(response)
}

/// Makes the change of a row. Returns the mark of its response, if the response shows the write.
fn write(row: &Row, nodes: &mut Nodes<'_>, nth: usize) -> Result<Option<Mark>> {
    let node = &mut nodes.cached;
    match row.change {
        Change::Account => {
            // Rows have the same account: each must get other values.
            let row_number = ROWS.iter().position(|other| other.name == row.name).unwrap_or(0);
            let lamports = ACCOUNT_LAMPORTS + ((row_number + 1) * 1_000_000 + nth) as u64;
            let address = node.first_token();
            node.set_account(&address, &json!({ "lamports": lamports }))?;
            Ok(Some(match row.name {
                "rest-account-raw" => Mark::Header("hydrant-lamports", lamports.to_string()),
                _ => Mark::Body(format!("\"lamports\":{lamports}")),
            }))
        }
        Change::Mint => {
            let supply = 2_000_000 + nth as u64;
            let data: String = mint_data(supply).iter().map(|byte| format!("{byte:02x}")).collect();
            let address = node.first_mint();
            node.set_account(&address, &json!({ "data": data }))?;
            Ok(Some(Mark::Body(format!("\"{supply}\""))))
        }
        Change::Block => {
            let block = node.make_transfer_block()?;
            Ok(match row.name {
                "rest-account-transactions" => Some(Mark::Body(block.signature)),
                "rest-ledger" => Some(Mark::Body(format!(":{}", block.slot))),
                _ => None,
            })
        }
    }
}

impl Mark {
    fn is_in(&self, response: &HttpResponse<'_>) -> bool {
        match self {
            Self::Body(text) => String::from_utf8_lossy(response.body).contains(text.as_str()),
            Self::Header(name, value) => response.header(name) == Some(value),
        }
    }
}

pub(super) fn table(rows: &Rows, bars: &mut Bars) -> String {
    let mut lines = String::new();
    let mut stale_sum = 0.0;
    for row in ROWS {
        let number = |at| rows.number(&[row.name.to_owned()], at);
        let numbers: Option<Vec<f64>> = (0..COLUMNS.len() - 1).map(number).collect();
        let Some([_, constant, unchanged, changed, changed_p99, bytes, checked, stale]) =
            numbers.and_then(|numbers| <[f64; 8]>::try_from(numbers).ok())
        else {
            continue;
        };
        stale_sum += stale;
        let staleness = match checked {
            0.0 => "- | -".to_owned(),
            _ => format!("{checked} | {stale}"),
        };
        lines.push_str(&format!(
            "| `{}` | {bytes:.0} | {constant:.0} | {unchanged:.0} | {changed:.0} | {changed_p99:.0} | {:.3} | \
             {staleness} |\n",
            row.route(),
            constant / changed
        ));
    }
    if lines.is_empty() {
        return lines;
    }
    if ROWS.iter().all(|row| is_measured(rows, row)) {
        bars.at_most("ladder_stale_after_change", stale_sum, "responses", 0.0);
    }
    let about = format!(
        "One connection, one request at a time, to the node with its cache. The first response after a block with a \
         write to its data, compared with the same response before and with a constant response. A response is stale \
         if it lacks the write; `-`: not checked. Commits: {}.",
        rows.commits()
    );
    let columns = [
        "request",
        "bytes",
        "constant, us",
        "unchanged, us",
        "changed, us",
        "changed p99, us",
        "changed of the ceiling",
        "checked",
        "stale",
    ];
    table_head("After a change", &about, &columns) + &lines
}
