//! What a node says of itself in `/metrics`.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

/// How long a figure may take to become what is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often we look whether it has.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The figures of a node at one moment.
pub struct Figures(String);

impl Figures {
    /// Asks for them.
    pub async fn of(rpc: SocketAddr) -> Result<Self> {
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
    pub async fn until(rpc: SocketAddr, wanted: &[(&str, f64)]) -> Result<()> {
        let mut last = String::new();
        let reached = async {
            loop {
                // A node that has no room for the question yet is asked again.
                match Self::now(rpc, wanted).await {
                    Ok(now) if now.iter().zip(wanted).all(|(now, (_, wanted))| now == wanted) => {
                        return;
                    }
                    other => last = format!("{other:?}"),
                }
                sleep(LOOK_EVERY).await;
            }
        };
        let reached = timeout(PATIENCE, reached).await;
        ensure!(reached.is_ok(), "after {PATIENCE:?} {wanted:?} were {last}");
        Ok(())
    }

    async fn now(rpc: SocketAddr, wanted: &[(&str, f64)]) -> Result<Vec<f64>> {
        let figures = Self::of(rpc).await?;
        wanted.iter().map(|(name, _)| figures.get(name)).collect()
    }
}
