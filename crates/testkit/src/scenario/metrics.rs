//! A node's `/metrics`.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http_client::{Connection, Endpoint};
use tokio::time::{sleep, timeout};

/// Time limit of a metric to reach the expected value.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval at which the metrics are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The metrics of a node, of one scrape.
pub struct ScrapedMetrics(String);

impl ScrapedMetrics {
    /// Requests the metrics.
    pub async fn scrape(rpc: SocketAddr) -> Result<Self> {
        let mut connection = Connection::open(rpc).await?;
        let request = Endpoint::from(rpc).request("GET", "/metrics", None);
        let response = connection.exchange(&request).await?;
        let text = String::from_utf8(response.body.to_vec())?;
        ensure!(response.status == 200, "no metrics: HTTP {} {text}", response.status);
        Ok(Self(text))
    }

    /// The value of a metric without labels.
    pub fn get(&self, name: &str) -> Result<f64> {
        let mut lines = self.0.lines().filter_map(|line| line.split_once(' '));
        let value = lines.find(|(of, _)| *of == name).map(|(_, value)| value);
        Ok(value.with_context(|| format!("no metric `{name}`"))?.trim().parse()?)
    }

    /// The bytes of each part of `hydrant_memory_bytes`, by the part's name.
    pub fn memory_parts(&self) -> Result<Vec<(String, f64)>> {
        let parts = self.0.lines().filter_map(|line| {
            line.strip_prefix("hydrant_memory_bytes{part=\"")?.split_once("\"} ")
        });
        parts.map(|(part, bytes)| Ok((part.to_owned(), bytes.trim().parse()?))).collect()
    }

    /// Waits until these metrics have these values.
    pub async fn wait_until(rpc: SocketAddr, expected: &[(&str, f64)]) -> Result<()> {
        let mut last = String::new();
        let reached = async {
            loop {
                // A node that rejects the connection for now gets the request again.
                match Self::scrape_values(rpc, expected).await {
                    Ok(now) if now.iter().zip(expected).all(|(now, (_, value))| now == value) => {
                        return;
                    }
                    other => last = format!("{other:?}"),
                }
                sleep(POLL_INTERVAL).await;
            }
        };
        let reached = timeout(WAIT_TIMEOUT, reached).await;
        ensure!(reached.is_ok(), "after {WAIT_TIMEOUT:?} {expected:?} were {last}");
        Ok(())
    }

    async fn scrape_values(rpc: SocketAddr, expected: &[(&str, f64)]) -> Result<Vec<f64>> {
        let metrics = Self::scrape(rpc).await?;
        expected.iter().map(|(name, _)| metrics.get(name)).collect()
    }
}
