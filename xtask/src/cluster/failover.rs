//! Requests through the balancer while one of the replicas is killed.
//!
//! Shape: threads with a connection each send the same call in a closed loop, `total` in all. One replica is
//! killed after a third of them, and started again after two thirds.
//! A request has failed if no byte of its response came, or the response is an error of the balancer or of a draining
//! node. One whose response was cut is counted apart: its request must not be sent again. The client sends no request
//! twice.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;

use crate::cluster::processes::Cluster;
use crate::rig::clock::{now, pause};
use crate::rig::http_client::{Connection, Progress, Request};

/// Connections of the load.
const CONNECTIONS: usize = 16;
/// The replica that is killed.
const KILLED: usize = 1;
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Time limit of all requests.
const TIMEOUT: Duration = Duration::from_secs(600);
const CLOCK: &str = "SysvarC1ock11111111111111111111111111111111";

/// The outcomes of the requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FailoverCounters {
    pub(crate) requests: u64,
    /// Without a response, or with one of the balancer.
    pub(crate) failed: u64,
    /// Whose response began and did not end.
    pub(crate) cut: u64,
}

#[derive(Default)]
struct Shared {
    sent: AtomicU64,
    done: AtomicU64,
    failed: AtomicU64,
    cut: AtomicU64,
}

/// Sends `total` requests, and kills a replica meanwhile.
pub(crate) fn measure_failover(
    cluster: &mut Cluster,
    total: u64,
) -> Result<Option<FailoverCounters>> {
    let Some(address) = cluster.balancer.as_ref().map(|balancer| balancer.address) else {
        return Ok(None);
    };
    let shared = Arc::new(Shared::default());
    let threads: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || send_requests(address, total, &shared))
        })
        .collect();
    let wait_until = |count: u64| -> Result<()> {
        let started = now();
        while shared.done.load(Ordering::Relaxed) < count {
            ensure!(started.elapsed() < TIMEOUT, "fewer than {count} requests in {TIMEOUT:?}");
            pause(POLL_INTERVAL);
        }
        Ok(())
    };
    wait_until(total / 3)?;
    cluster.replicas[KILLED].kill()?;
    wait_until(total * 2 / 3)?;
    cluster.replicas[KILLED].start()?;
    wait_until(total)?;
    for thread in threads {
        ensure!(thread.join().is_ok(), "a thread of the load panicked");
    }
    let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    Ok(Some(FailoverCounters {
        requests: get(&shared.done),
        failed: get(&shared.failed),
        cut: get(&shared.cut),
    }))
}

fn send_requests(address: SocketAddr, total: u64, shared: &Shared) {
    let params = json!([CLOCK, {"encoding": "base64"}]);
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "getAccountInfo", "params": params});
    let request = Request::post_json(&body.to_string());
    let mut connection = None;
    while shared.sent.fetch_add(1, Ordering::Relaxed) < total {
        match send(address, &mut connection, &request) {
            Outcome::Responded => {}
            Outcome::Failed => count(&shared.failed),
            Outcome::Cut => count(&shared.cut),
        }
        shared.done.fetch_add(1, Ordering::Relaxed);
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

enum Outcome {
    Responded,
    Failed,
    Cut,
}

/// Sends a request on the open connection, or on a new one. A connection that failed is not used again.
fn send(address: SocketAddr, kept: &mut Option<Connection>, request: &Request) -> Outcome {
    let opened = kept.take().map_or_else(|| Connection::open(address), Ok);
    let Ok(mut connection) = opened else { return Outcome::Failed };
    match connection.exchange(request) {
        Ok(response) => {
            *kept = Some(connection);
            if response.status == 200 { Outcome::Responded } else { Outcome::Failed }
        }
        Err(failure) if failure.progress == Progress::Begun => Outcome::Cut,
        Err(_) => Outcome::Failed,
    }
}
