//! The usage of keys: as rows for metrics, as a report in JSON, and the memory of it all.
//!
//! Bounds: [`REPORTED_KEYS_MAX`] rows in metrics; the last one has the sums of all other keys. The report has all keys.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;
use serde_json::{Value, json};

use crate::key_table::Key;
use crate::registry::ApiKeys;
use crate::usage::UsageCounts;
use crate::utc::utc_text;

/// Keys that have a label of their own in metrics: the first ones by number, in the order of their addition.
pub const REPORTED_KEYS_MAX: usize = 500;

/// The usage of one key since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UsageRow {
    /// The name of the key. `anonymous` in brackets: all clients without a key; `other` in brackets: all keys that have
    /// no row.
    pub name: String,
    /// The name of the key's tier.
    pub tier: String,
    /// Admitted requests, over any protocol.
    pub requests: u64,
    /// Admitted calls: light, medium, heavy.
    pub calls: [u64; 3],
    /// Number of refused requests.
    pub refused: u64,
    /// Admitted requests of the current UTC day.
    pub requests_today: u64,
    /// The daily quota of requests.
    pub requests_per_day: Option<u64>,
    /// Number of open WebSocket connections.
    pub websocket_connections: u32,
    /// Number of subscriptions of these connections.
    pub subscriptions: u32,
    /// Number of open gRPC streams.
    pub grpc_streams: u32,
}

impl UsageRow {
    fn from_counts(name: &str, counts: UsageCounts) -> Self {
        let UsageCounts { classes: calls, requests, refused } = counts;
        Self { name: name.to_owned(), requests, calls, refused, ..Self::default() }
    }
}

impl ApiKeys {
    /// Returns the rows for metrics: the first keys, the sums of all others, and the clients without a key.
    pub fn metric_rows(&self) -> Vec<UsageRow> {
        let table = self.table.load();
        let mut rows: Vec<UsageRow> =
            table.keys.iter().take(REPORTED_KEYS_MAX).map(|key| self.row(key)).collect();
        if table.keys.len() > REPORTED_KEYS_MAX {
            let mut others = UsageCounts::default();
            let unlisted = table.keys.iter().skip(REPORTED_KEYS_MAX);
            unlisted.for_each(|key| others.add(key.state.usage.counts()));
            rows.push(UsageRow::from_counts("(other)", others));
        }
        rows.extend(self.anonymous_row());
        rows
    }

    /// Returns the report of all keys, for an administrator.
    pub fn usage_report(&self) -> Value {
        let table = self.table.load();
        let rows = table.keys.iter().map(|key| self.row(key)).chain(self.anonymous_row());
        let now = self.now(std::time::Duration::ZERO);
        json!({
            "time": utc_text(now.unix_s),
            "keys": rows.collect::<Vec<_>>(),
            "unauthorized": self.unauthorized_requests(),
            "reloads": self.reloads().0,
            "failedReloads": self.reloads().1,
        })
    }

    fn row(&self, key: &Key) -> UsageRow {
        let unix_s = self.now(std::time::Duration::ZERO).unix_s;
        let state = &key.state;
        UsageRow {
            tier: key.tier.name.to_string(),
            requests_today: state.allowance.requests_today(unix_s),
            requests_per_day: key.tier.requests_per_day,
            websocket_connections: state.sockets.load(Ordering::Relaxed),
            subscriptions: state.subscriptions.load(Ordering::Relaxed),
            grpc_streams: state.streams.load(Ordering::Relaxed),
            ..UsageRow::from_counts(&key.name, state.usage.counts())
        }
    }

    fn anonymous_row(&self) -> Option<UsageRow> {
        let tier = self.table.load().anonymous.as_ref()?.name.to_string();
        let row = UsageRow::from_counts("(anonymous)", self.anonymous_usage.counts());
        Some(UsageRow { tier, ..row })
    }

    /// Returns the number of requests without a valid key, throttled ones included.
    pub fn unauthorized_requests(&self) -> u64 {
        value(&self.counters.unauthorized)
    }

    /// Returns the number of those that came from clients with too many wrong keys.
    pub fn throttled_requests(&self) -> u64 {
        value(&self.counters.throttled)
    }

    /// Returns the number of refusals that were sent late, because their client had too many.
    pub fn delayed_refusals(&self) -> u64 {
        value(&self.counters.delayed_refusals)
    }

    /// Returns the numbers of reloads of the file: valid ones, and others.
    pub fn reloads(&self) -> (u64, u64) {
        (value(&self.counters.reloads), value(&self.counters.failed_reloads))
    }

    /// Returns the number of keys in the table.
    pub fn keys(&self) -> usize {
        self.table.load().keys.len()
    }

    /// Returns the heap bytes of the keys, and of the clients without one.
    pub fn memory_bytes(&self) -> u64 {
        let bytes = self.table.load().bytes() + self.client_bytes();
        bytes as u64
    }
}

fn value(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
