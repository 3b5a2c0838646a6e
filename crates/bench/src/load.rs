//! A closed loop: so many connections, each with one request in flight at any time.
//!
//! In: requests as bytes, made before. Out: rate, latencies (merged over threads), failures, and what
//! a sampler of the caller's saw before and after.
//! The threads share nothing but one counter, which hands out the requests.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use hdrhistogram::Histogram;

use crate::http::Connection;
use crate::{node, now};

/// Latencies are counted from a microsecond to a minute, in nanoseconds, to three digits.
const LATENCY_NS: std::ops::RangeInclusive<u64> = 1_000..=60_000_000_000;

const WARMING_UP: u8 = 0;
const MEASURING: u8 = 1;
const OVER: u8 = 2;

/// How a load is offered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) address: SocketAddr,
    pub(crate) connections: usize,
    pub(crate) threads: usize,
}

/// How long it is offered.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Span {
    /// The requests in turn, again and again.
    Time { warm_up: Duration, measured: Duration },
    /// Each request once.
    Once,
}

/// What came of it.
pub(crate) struct Outcome {
    pub(crate) requests: u64,
    pub(crate) failures: u64,
    /// The first failure's answer, to be shown.
    pub(crate) failure: Option<String>,
    pub(crate) took: Duration,
    pub(crate) latencies: Histogram<u64>,
    /// What the sampler saw at the end, less what it saw when the measurement began.
    pub(crate) cpu: Duration,
}

impl Outcome {
    /// Answered requests a second.
    pub(crate) fn rate(&self) -> f64 {
        self.requests as f64 / self.took.as_secs_f64()
    }

    /// Microseconds of the server's CPU time for each request.
    pub(crate) fn cpu_us(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.requests as f64
    }
}

/// What all connections of a load share.
struct Shared {
    requests: Vec<Vec<u8>>,
    next: AtomicUsize,
    once: bool,
    phase: AtomicU8,
    is_right: fn(u16, &[u8]) -> bool,
}

/// What one connection saw.
struct Seen {
    latencies: Histogram<u64>,
    failures: u64,
    failure: Option<String>,
}

impl Load {
    /// Offers it. `is_right` says whether an answer is what it should be; `cpu` samples the server.
    pub(crate) fn run(
        &self,
        requests: Vec<Vec<u8>>,
        span: Span,
        is_right: fn(u16, &[u8]) -> bool,
        cpu: impl Fn() -> Result<Duration>,
    ) -> Result<Outcome> {
        ensure!(!requests.is_empty(), "no requests");
        let once = matches!(span, Span::Once);
        let phase = AtomicU8::new(if once { MEASURING } else { WARMING_UP });
        let shared =
            Arc::new(Shared { requests, next: AtomicUsize::new(0), once, phase, is_right });
        let mut before = cpu()?;
        let mut started = now();
        let threads = self.spawn(&shared)?;
        if let Span::Time { warm_up, measured } = span {
            node::nap(warm_up);
            before = cpu()?;
            started = now();
            shared.phase.store(MEASURING, Ordering::Relaxed);
            node::nap(measured);
            shared.phase.store(OVER, Ordering::Relaxed);
        }
        let took = (!once).then(|| started.elapsed());
        let after = (!once).then(&cpu).transpose()?;
        let seen = join(threads)?;
        let took = took.unwrap_or_else(|| started.elapsed());
        let after = after.map_or_else(cpu, Ok)?;
        Ok(Outcome {
            requests: seen.latencies.len(),
            failures: seen.failures,
            failure: seen.failure,
            took,
            latencies: seen.latencies,
            cpu: after.saturating_sub(before),
        })
    }

    fn spawn(&self, shared: &Arc<Shared>) -> Result<Vec<JoinHandle<Result<Seen>>>> {
        let Self { address, connections, threads } = *self;
        let mut handles = Vec::new();
        for thread in 0..threads {
            let connections = (connections + threads - 1 - thread) / threads;
            let shared = Arc::clone(shared);
            let run = move || run_thread(address, connections, &shared);
            handles.push(std::thread::Builder::new().name("load".to_owned()).spawn(run)?);
        }
        Ok(handles)
    }
}

fn join(threads: Vec<JoinHandle<Result<Seen>>>) -> Result<Seen> {
    let mut all = Seen::new()?;
    for thread in threads {
        let seen = thread.join().map_err(|_| anyhow!("a thread of the load panicked"))??;
        all.add(seen)?;
    }
    Ok(all)
}

fn run_thread(address: SocketAddr, connections: usize, shared: &Arc<Shared>) -> Result<Seen> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let mut tasks = Vec::new();
        for _ in 0..connections {
            tasks.push(tokio::spawn(run_connection(address, Arc::clone(shared))));
        }
        let mut all = Seen::new()?;
        for task in tasks {
            all.add(task.await.context("a connection's task")??)?;
        }
        Ok(all)
    })
}

async fn run_connection(address: SocketAddr, shared: Arc<Shared>) -> Result<Seen> {
    let mut connection = Connection::open(address).await?;
    let mut seen = Seen::new()?;
    loop {
        let phase = shared.phase.load(Ordering::Relaxed);
        let turn = shared.next.fetch_add(1, Ordering::Relaxed);
        if phase == OVER || (shared.once && turn >= shared.requests.len()) {
            return Ok(seen);
        }
        let request = &shared.requests[turn % shared.requests.len()];
        let sent = now();
        let answer = connection.exchange(request).await?;
        let took = sent.elapsed();
        if phase == MEASURING && shared.phase.load(Ordering::Relaxed) == MEASURING {
            seen.latencies.saturating_record(took.as_nanos() as u64);
            if !(shared.is_right)(answer.status, answer.body) {
                seen.failed(answer.status, answer.body);
            }
        }
    }
}

impl Seen {
    fn new() -> Result<Self> {
        let latencies = Histogram::new_with_bounds(*LATENCY_NS.start(), *LATENCY_NS.end(), 3)?;
        Ok(Self { latencies, failures: 0, failure: None })
    }

    fn failed(&mut self, status: u16, body: &[u8]) {
        self.failures += 1;
        self.failure.get_or_insert_with(|| format!("{status} {}", String::from_utf8_lossy(body)));
    }

    fn add(&mut self, other: Self) -> Result<()> {
        self.latencies.add(&other.latencies)?;
        self.failures += other.failures;
        self.failure = self.failure.take().or(other.failure);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// Answers "ok" to every request of every connection, but "no" to those that hold an `x`.
    fn server() -> SocketAddr {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                std::thread::spawn(move || answer_all(socket.unwrap()));
            }
        });
        address
    }

    fn answer_all(mut socket: TcpStream) {
        let mut request = [0; 64];
        // Ends with the client, which sends one short request at a time.
        while let Ok(read @ 1..) = socket.read(&mut request) {
            let body = if request[..read].contains(&b'x') { "no" } else { "ok" };
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{body}");
            if socket.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    }

    fn offer(requests: &[&str], span: Span) -> Outcome {
        let load = Load { address: server(), connections: 3, threads: 2 };
        let requests = requests.iter().map(|request| request.as_bytes().to_vec()).collect();
        load.run(requests, span, |_, body| body == b"ok", || Ok(Duration::ZERO)).unwrap()
    }

    #[test]
    fn each_request_is_sent_once_and_wrong_answers_are_counted() {
        let outcome = offer(&["a", "x", "b", "c", "xx", "d", "e"], Span::Once);
        assert_eq!((outcome.requests, outcome.failures), (7, 2));
        assert_eq!(outcome.failure.as_deref(), Some("200 no"));
        assert_eq!(outcome.latencies.len(), 7);
    }

    #[test]
    fn requests_are_repeated_for_as_long_as_was_said() {
        let (warm_up, measured) = (Duration::from_millis(5), Duration::from_millis(30));
        let outcome = offer(&["a", "b"], Span::Time { warm_up, measured });
        assert!(outcome.requests > 2, "{} requests", outcome.requests);
        assert_eq!(outcome.failures, 0);
        assert!(outcome.took >= measured);
    }
}
