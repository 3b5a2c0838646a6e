//! One open page: its subscriptions, its polls, and the blocks that it reads.
//!
//! In: a view. Out: the same requests as the page's scripts (`tip.js`, `transaction_list.js`), one at a time.
//! Bounds: the counts of the newest [`SLOTS_MAX`] slots.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http_client::{Connection, Endpoint};
use serde_json::Value;
use testkit::scenario::{Client, Task, task};
use tokio::time::{Instant, sleep_until};

use super::traffic::{Blocks, View};

pub(super) const ENCODINGS: (&str, &str) = ("accept-encoding", "gzip, deflate, br, zstd");

/// Slots whose transactions a page remembers.
const SLOTS_MAX: u64 = 240;

/// The requests and bytes that all pages together have sent and received.
#[derive(Default)]
pub(super) struct PageCounts {
    pub(super) requests: AtomicU64,
    /// Bytes of the responses' bodies.
    pub(super) bytes: AtomicU64,
    pub(super) notifications: AtomicU64,
}

/// A page that is opened after `delay`.
pub(super) fn page(
    rpc: SocketAddr,
    view: Arc<View>,
    delay: Duration,
    counts: Arc<PageCounts>,
) -> Task {
    task(async move |mut stop| {
        tokio::time::sleep(delay).await;
        let mut socket = Client::connect(rpc).await?;
        for subscription in &view.subscriptions {
            socket.call(&subscription.method, subscription.params.clone()).await?;
        }
        let http = Connection::open(rpc).await?;
        let mut page = Page {
            endpoint: Endpoint::from(rpc),
            http,
            counts,
            transactions: BTreeMap::new(),
            sampled: None,
        };
        let mut due: Vec<Instant> = view.polls.iter().map(|_| Instant::now()).collect();
        loop {
            let next = due.iter().enumerate().min_by_key(|(_, due)| **due);
            let (poll, at) = next.map(|(poll, at)| (poll, *at)).context("a view polls")?;
            tokio::select! {
                () = stop.stopped() => return Ok(()),
                () = sleep_until(at) => {
                    let (path, every) = &view.polls[poll];
                    page.get(path).await?;
                    due[poll] = at + *every;
                }
                text = socket.notification() => {
                    page.counts.notifications.fetch_add(1, Ordering::Relaxed);
                    page.apply(&serde_json::from_str(&text?)?, view.blocks.as_ref()).await?;
                }
            }
        }
    })
}

struct Page {
    endpoint: Endpoint,
    http: Connection,
    counts: Arc<PageCounts>,
    /// The transactions of complete blocks that are not confirmed.
    transactions: BTreeMap<u64, u64>,
    /// When a large block was read.
    sampled: Option<Instant>,
}

impl Page {
    async fn get(&mut self, path: &str) -> Result<()> {
        let headers = [("accept", "application/json"), ENCODINGS];
        let request = self.endpoint.request_with("GET", path, &headers, None);
        let response = self.http.exchange(&request).await.with_context(|| path.to_owned())?;
        ensure!(response.status == 200, "{path}: HTTP {}", response.status);
        self.counts.requests.fetch_add(1, Ordering::Relaxed);
        self.counts.bytes.fetch_add(response.body_bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Remembers the transactions of a complete block, and reads it once it is confirmed.
    async fn apply(&mut self, message: &Value, blocks: Option<&Blocks>) -> Result<()> {
        let (update, Some(blocks)) = (&message["params"]["result"], blocks) else { return Ok(()) };
        let slot = update["slot"].as_u64().context("no slot")?;
        match update["type"].as_str() {
            Some("frozen") => {
                let count = |name: &str| update["stats"][name].as_u64().context("no count");
                let transactions =
                    count("numSuccessfulTransactions")? + count("numFailedTransactions")?;
                self.transactions.insert(slot, transactions);
                self.transactions = self.transactions.split_off(&slot.saturating_sub(SLOTS_MAX));
            }
            Some("optimisticConfirmation") => {
                let transactions = self.transactions.remove(&slot).unwrap_or_default();
                let is_whole = transactions <= blocks.transactions_max;
                let is_due = self.sampled.is_none_or(|at| at.elapsed() >= blocks.every);
                if transactions > 0 && (is_whole || is_due) {
                    let path = if is_whole { &blocks.whole } else { &blocks.sample };
                    self.get(&path.replace("{slot}", &slot.to_string())).await?;
                    if !is_whole {
                        self.sampled = Some(Instant::now());
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}
