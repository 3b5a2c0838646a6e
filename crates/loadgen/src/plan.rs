//! What is offered: streams of requests, each at its own pace, at once.
//!
//! Not here: how they are offered (`run`).

use std::sync::Arc;
use std::time::Duration;

use crate::classify::{self, Classifier};
use crate::{Endpoint, LoadError, Process};

/// What is offered, and for how long.
#[derive(Clone)]
pub struct LoadPlan {
    /// Where to.
    pub endpoint: Endpoint,
    /// All at once.
    pub streams: Vec<Stream>,
    /// How long.
    pub run_length: RunLength,
    /// How long an answer may take; it is then given up with its connection. `None`: for ever.
    pub timeout: Option<Duration>,
    /// The server's process, if it runs here.
    pub process: Option<Process>,
}

/// How long a load is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunLength {
    /// The requests in turn, again and again.
    Time {
        /// Offered and not counted.
        warm_up: Duration,
        /// Counted.
        measured: Duration,
    },
    /// Each request once.
    Once,
}

/// Requests of one kind and pace.
#[derive(Clone)]
pub struct Stream {
    /// How it is called in tables.
    pub name: String,
    /// Whole requests as they go over the wire, taken in turn.
    pub requests: Arc<Vec<Vec<u8>>>,
    /// When they go.
    pub arrival: Arrival,
    /// How many may be in flight.
    pub connections: usize,
    /// Threads that share them.
    pub threads: usize,
    /// What an answer is.
    pub classifier: Classifier,
    /// The same, one for each request, if they are not of one kind.
    pub classifiers: Option<Arc<Vec<Classifier>>>,
    /// How far its threads stand behind those of other streams, and of a server on this machine, as a nice
    /// value: what reads much would else take the cores from what is measured.
    pub nice: u8,
}

/// When requests go.
#[derive(Clone, Debug)]
pub enum Arrival {
    /// On each connection once the last is answered.
    Closed,
    /// So many a second, at equal distances.
    Open {
        /// Requests a second.
        rate: f64,
    },
    /// Each so long after the first, ascending; one for each request. Only for [`RunLength::Once`].
    At(Arc<Vec<Duration>>),
}

impl LoadPlan {
    /// One stream, without a limit on time for an answer.
    pub fn new(endpoint: Endpoint, stream: Stream, run_length: RunLength) -> Self {
        Self { endpoint, streams: vec![stream], run_length, timeout: None, process: None }
    }
}

impl Stream {
    /// A closed loop over so many connections, from one thread, of JSON-RPC.
    pub fn closed_loop(name: &str, requests: Vec<Vec<u8>>, connections: usize) -> Self {
        let (name, requests) = (name.to_owned(), Arc::new(requests));
        let classifier = classify::json_rpc;
        let (arrival, threads, classifiers) = (Arrival::Closed, 1, None);
        Self { name, requests, arrival, connections, threads, classifier, classifiers, nice: 0 }
    }

    /// An open loop of so many requests a second over at most so many connections.
    pub fn open_loop(name: &str, requests: Vec<Vec<u8>>, rate: f64, connections: usize) -> Self {
        Self { arrival: Arrival::Open { rate }, ..Self::closed_loop(name, requests, connections) }
    }

    /// The same from threads that stand behind others.
    #[must_use]
    pub fn with_nice(self, nice: u8) -> Self {
        Self { nice, ..self }
    }

    pub(crate) fn check(&self, span: RunLength) -> Result<(), LoadError> {
        let wrong = |why: &str| Err(LoadError::Plan(format!("{}: {why}", self.name)));
        if self.requests.is_empty() {
            return wrong("no requests");
        }
        if self.connections == 0 || self.threads == 0 {
            return wrong("at least one connection and one thread");
        }
        if self.classifiers.as_ref().is_some_and(|judges| judges.len() != self.requests.len()) {
            return wrong("one judge for each request");
        }
        match &self.arrival {
            Arrival::Open { rate } if !rate.is_finite() || *rate <= 0.0 => wrong("a rate above 0"),
            Arrival::At(times) if span != RunLength::Once || times.len() != self.requests.len() => {
                wrong("a log has one time for each request, and each goes once")
            }
            _ => Ok(()),
        }
    }

    /// When the nth is due, from the beginning; `None` in a closed loop.
    pub(crate) fn due(&self, nth: usize) -> Option<Duration> {
        match &self.arrival {
            Arrival::Closed => None,
            Arrival::Open { rate } => Some(Duration::from_secs_f64(nth as f64 / rate)),
            Arrival::At(times) => times.get(nth).copied(),
        }
    }

    /// No more threads than connections.
    pub(crate) fn threads(&self) -> usize {
        self.threads.min(self.connections)
    }
}
