//! The load plan: concurrent streams of requests, each with its own arrival process.
//!
//! Not here: how it runs (`run`).

use std::sync::Arc;
use std::time::Duration;

use http_client::Endpoint;
use process_usage::Process;

use crate::LoadError;
use crate::classify::{self, Classifier};

/// Connections of a stream: the ports that one address has for one server.
pub const CONNECTIONS_MAX: usize = 65_535;

/// Threads of a stream: several times the cores of a large machine. Each has about a megabyte of
/// histograms.
pub const THREADS_MAX: usize = 256;

/// Requests per second of an open loop, more than one pacer can release at equal intervals.
pub const RATE_MAX: f64 = 1e6;

/// The warm-up, the measured time and the time of a log: eleven days.
pub const RUN_TIME_MAX: Duration = Duration::from_secs(1_000_000);

/// A load and its length.
#[derive(Clone)]
pub struct LoadPlan {
    /// The server.
    pub endpoint: Endpoint,
    /// Streams that run concurrently.
    pub streams: Vec<Stream>,
    /// Length of the run.
    pub run_length: RunLength,
    /// Time limit of a response; after that the connection is closed. `None`: no limit.
    pub timeout: Option<Duration>,
    /// The server's process, if it runs here.
    pub process: Option<Process>,
}

/// Length of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunLength {
    /// The requests in order, repeated.
    Time {
        /// Time before the measurement.
        warm_up: Duration,
        /// Measured time.
        measured: Duration,
    },
    /// Each request once.
    Once,
}

/// Requests of one kind with one arrival process.
#[derive(Clone)]
pub struct Stream {
    /// Name in tables.
    pub name: String,
    /// Complete requests in wire format, sent in order.
    pub requests: Arc<Vec<Vec<u8>>>,
    /// When they are sent.
    pub arrival: Arrival,
    /// Number of connections, each with one request in flight.
    pub connections: usize,
    /// Threads that share the connections.
    pub threads: usize,
    /// Classifies the responses.
    pub classifier: Classifier,
    /// Classifiers for each request, if the requests are of different kinds.
    pub classifiers: Option<Arc<Vec<Classifier>>>,
    /// Nice value of its threads. A stream of long reads would else take the cores from the
    /// measured streams and from a server on this machine.
    pub nice: u8,
}

/// When requests are sent.
#[derive(Clone, Debug)]
pub enum Arrival {
    /// On each connection when the last response has arrived.
    Closed,
    /// At a constant rate, at equal intervals.
    Open {
        /// Requests a second.
        rate: f64,
    },
    /// At these times after the first request, ascending, one for each request. Only for
    /// [`RunLength::Once`].
    At(Arc<Vec<Duration>>),
}

impl LoadPlan {
    /// A plan of one stream, without a timeout.
    pub fn new(endpoint: Endpoint, stream: Stream, run_length: RunLength) -> Self {
        Self { endpoint, streams: vec![stream], run_length, timeout: None, process: None }
    }

    pub(crate) fn check(&self) -> Result<(), LoadError> {
        if let RunLength::Time { warm_up, measured } = self.run_length {
            for (name, time) in [("warm-up", warm_up), ("measured time", measured)] {
                if time > RUN_TIME_MAX {
                    let why = format!("{name} of {time:?}: the maximum is {RUN_TIME_MAX:?}");
                    return Err(LoadError::Plan(why));
                }
            }
        }
        self.streams.iter().try_for_each(|stream| stream.check(self.run_length))
    }
}

impl Stream {
    /// A closed loop of JSON-RPC over `connections` connections, from one thread.
    pub fn closed_loop(name: &str, requests: Vec<Vec<u8>>, connections: usize) -> Self {
        let name = name.to_owned();
        let requests = Arc::new(requests);
        let classifier = classify::json_rpc;
        let arrival = Arrival::Closed;
        let threads = 1;
        let classifiers = None;
        Self { name, requests, arrival, connections, threads, classifier, classifiers, nice: 0 }
    }

    /// An open loop of `rate` requests per second over at most `connections` connections.
    pub fn open_loop(name: &str, requests: Vec<Vec<u8>>, rate: f64, connections: usize) -> Self {
        Self { arrival: Arrival::Open { rate }, ..Self::closed_loop(name, requests, connections) }
    }

    /// Sets the nice value of the threads.
    #[must_use]
    pub fn with_nice(self, nice: u8) -> Self {
        Self { nice, ..self }
    }

    fn check(&self, run_length: RunLength) -> Result<(), LoadError> {
        let plan_error = |why: &str| Err(LoadError::Plan(format!("{}: {why}", self.name)));
        if self.requests.is_empty() {
            return plan_error("no requests");
        }
        for (name, count, max) in [
            ("connections", self.connections, CONNECTIONS_MAX),
            ("threads", self.threads, THREADS_MAX),
        ] {
            if !(1..=max).contains(&count) {
                return plan_error(&format!("{count} {name}: must be from 1 to {max}"));
            }
        }
        if self
            .classifiers
            .as_ref()
            .is_some_and(|classifiers| classifiers.len() != self.requests.len())
        {
            return plan_error("one classifier for each request");
        }
        match &self.arrival {
            Arrival::Open { .. } if run_length == RunLength::Once => {
                plan_error("a rate needs a run of a fixed time")
            }
            Arrival::Open { rate } if !(f64::MIN_POSITIVE..=RATE_MAX).contains(rate) => {
                plan_error(&format!("a rate of {rate:?}: must be above 0 and at most {RATE_MAX}"))
            }
            Arrival::At(times)
                if run_length != RunLength::Once || times.len() != self.requests.len() =>
            {
                plan_error("a log needs one time for each request, and each is sent once")
            }
            Arrival::At(times) if times.iter().any(|time| *time > RUN_TIME_MAX) => {
                plan_error(&format!("a log of more than {RUN_TIME_MAX:?}"))
            }
            _ => Ok(()),
        }
    }

    /// When the n-th request is due, from the start; `None` in a closed loop, and if that is later
    /// than any run ends.
    pub(crate) fn due(&self, nth: usize) -> Option<Duration> {
        match &self.arrival {
            Arrival::Closed => None,
            Arrival::Open { rate } => Duration::try_from_secs_f64(nth as f64 / rate).ok(),
            Arrival::At(times) => times.get(nth).copied(),
        }
    }

    /// Number of threads: no more than connections.
    pub(crate) fn threads(&self) -> usize {
        self.threads.min(self.connections)
    }
}
