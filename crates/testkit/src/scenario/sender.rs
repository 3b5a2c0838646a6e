//! Requests at a rate, independent of the responses: an open loop, pipelined on one connection.
//!
//! Bounds: up to [`IN_FLIGHT_MAX`] requests wait for their response. Above that, sending waits.
//! Not here: loads with one request in flight on a connection (`loadgen`).

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use loadgen::{Verdict, json_rpc};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{MissedTickBehavior, interval};

use super::{Task, task};

/// Requests without a response.
const IN_FLIGHT_MAX: u64 = 64;

/// The count of responses, for tasks that wait for it.
#[derive(Clone, Default)]
pub struct SendStats(Arc<AtomicU64>);

impl SendStats {
    /// Number of requests with a response.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// Sends `rate` bodies a second as JSON-RPC requests over one connection, until there are no more or the scenario
/// is over. Each response must have a result.
pub fn send_at_rate(
    rpc: SocketAddr,
    rate: f64,
    sent: &SendStats,
    bodies: impl Iterator<Item = String> + Send + 'static,
) -> Task {
    let sent = sent.clone();
    task(async move |mut stop| {
        let mut socket = TcpStream::connect(rpc).await?;
        socket.set_nodelay(true)?;
        let mut due = interval(Duration::from_secs_f64(1.0 / rate));
        due.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let mut bodies = bodies;
        let mut unread = Vec::new();
        let mut requested = 0;
        let mut answered = 0;
        loop {
            tokio::select! {
                biased;
                read = socket.read_buf(&mut unread) => {
                    ensure!(read? > 0, "the node closed the connection");
                    while let Some(body) = take_response(&mut unread)? {
                        ensure!(json_rpc(200, body.as_bytes()) == Verdict::Ok, "not sent: {body}");
                        answered += 1;
                        sent.0.fetch_add(1, Ordering::Release);
                    }
                }
                _ = due.tick(), if requested - answered < IN_FLIGHT_MAX && !stop.is_stopped() => {
                    let Some(body) = bodies.next() else {
                        if requested == answered {
                            stop.stopped().await;
                            return Ok(());
                        }
                        continue;
                    };
                    let head = format!(
                        "POST / HTTP/1.1\r\nHost: {rpc}\r\nContent-Type: application/json\r\n\
                         Content-Length: {}\r\n\r\n",
                        body.len()
                    );
                    socket.write_all(head.as_bytes()).await?;
                    socket.write_all(body.as_bytes()).await?;
                    requested += 1;
                }
                () = stop.stopped(), if requested == answered => return Ok(()),
            }
        }
    })
}

/// Takes the body of the first complete response.
fn take_response(unread: &mut Vec<u8>) -> Result<Option<String>> {
    let Some(head) = unread.windows(4).position(|bytes| bytes == b"\r\n\r\n") else {
        return Ok(None);
    };
    let header = String::from_utf8_lossy(&unread[..head]).to_ascii_lowercase();
    ensure!(header.starts_with("http/1.1 200"), "not sent: {header}");
    let length = header.lines().find_map(|line| line.strip_prefix("content-length:"));
    let length: usize = length.map_or(Ok(0), |length| length.trim().parse())?;
    let end = head + 4 + length;
    if unread.len() < end {
        return Ok(None);
    }
    let body = String::from_utf8_lossy(&unread[head + 4..end]).into_owned();
    unread.drain(..end);
    Ok(Some(body))
}
