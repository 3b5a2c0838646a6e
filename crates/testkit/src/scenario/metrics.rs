//! What a node says of itself in `/metrics`.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

/// How long a figure may take to become what is waited for.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);
/// How often we look whether it has.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The figures of a node at one moment.
pub struct ScrapedMetrics(String);

impl ScrapedMetrics {
    /// Asks for them.
    pub async fn scrape(rpc: SocketAddr) -> Result<Self> {
        let mut socket = TcpStream::connect(rpc).await?;
        let request = format!("GET /metrics HTTP/1.1\r\nHost: {rpc}\r\nConnection: close\r\n\r\n");
        socket.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await?;
        ensure!(answer.starts_with("HTTP/1.1 200"), "no figures: {answer}");
        Ok(Self(answer))
    }

    /// One without labels.
    pub fn get(&self, name: &str) -> Result<f64> {
        let mut lines = self.0.lines().filter_map(|line| line.split_once(' '));
        let value = lines.find(|(of, _)| *of == name).map(|(_, value)| value);
        Ok(value.with_context(|| format!("no figure `{name}`"))?.trim().parse()?)
    }

    /// Waits until these figures are so.
    pub async fn wait_until(rpc: SocketAddr, wanted: &[(&str, f64)]) -> Result<()> {
        let mut last = String::new();
        let reached = async {
            loop {
                // A node that has no room for the question yet is asked again.
                match Self::scrape_values(rpc, wanted).await {
                    Ok(now) if now.iter().zip(wanted).all(|(now, (_, wanted))| now == wanted) => {
                        return;
                    }
                    other => last = format!("{other:?}"),
                }
                sleep(POLL_INTERVAL).await;
            }
        };
        let reached = timeout(WAIT_TIMEOUT, reached).await;
        ensure!(reached.is_ok(), "after {WAIT_TIMEOUT:?} {wanted:?} were {last}");
        Ok(())
    }

    async fn scrape_values(rpc: SocketAddr, wanted: &[(&str, f64)]) -> Result<Vec<f64>> {
        let figures = Self::scrape(rpc).await?;
        wanted.iter().map(|(name, _)| figures.get(name)).collect()
    }
}
