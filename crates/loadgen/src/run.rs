//! Runs a load plan.
//!
//! Shape: each stream has its own threads; each thread has one runtime and its share of the
//! stream's connections. In a closed loop a connection sends its next request after the last
//! response. In an open loop a pacer releases one request at each intended time. The next free
//! connection sends it; if none is free, it waits, and its latency runs. The pacer is a thread that
//! sleeps, as tokio's timers have a resolution of 1 ms. Requests that were due before the end are
//! still sent for [`LATE_MAX`] after it, as the machine may delay threads. A closed loop waits as
//! long for requests in flight at the end. A request without a response is then a timeout if it
//! [`is_hung`]; otherwise it is not counted.
//! Bounds: one request in flight for each connection. Due requests beyond them are only a number.
//! Not here: how all threads start together, and stop if one of them fails (`run_control`).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use http_client::{Connection, Endpoint, HttpClientError};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::clock::{now, sleep_until};
use crate::resource_usage::{ResourceUsage, Sample};
use crate::run_control::{RunControl, RunThread, join};
use crate::stats::{RequestResult, StreamStats};
use crate::{Arrival, LoadError, LoadPlan, RunLength, Stream};

/// Bytes of a response's body that are classified.
pub const BODY_PREFIX_BYTES: usize = 64 * 1024;

/// Interval of the samples of the server's process.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);

/// Minimum interval at which the pacer releases due requests.
const PACER_INTERVAL_MIN: Duration = Duration::from_micros(20);

/// How long after the end due requests are still sent and responses are awaited: many times as long
/// as a machine delays a thread. A request that has found no connection by then is unsent.
const LATE_MAX: Duration = Duration::from_millis(100);

/// Delay before a broken connection is opened again.
const RECONNECT_BACKOFF: Duration = Duration::from_millis(10);

/// The results of a run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Results in the order of the streams.
    pub stats: Vec<StreamStats>,
    /// Resources of the server's process.
    pub usage: Option<ResourceUsage>,
}

impl Run {
    /// Drops the counts by second and the samples. A report shows only those of the last run.
    pub fn drop_series(&mut self) {
        for stats in &mut self.stats {
            stats.seconds = Vec::new();
        }
        if let Some(usage) = &mut self.usage {
            usage.samples = Vec::new();
        }
    }
}

impl LoadPlan {
    /// Runs the plan on its own threads and waits for its end.
    ///
    /// Errors: the plan is invalid; the server does not answer at the start; the process does not
    /// exist; a thread panicked. The run then ends without waiting for its planned end.
    pub fn run(&self) -> Result<Run, LoadError> {
        self.check()?;
        let control = Arc::new(RunControl::new());
        let shared = |stream: &Stream| Arc::new(Shared::new(self, stream.clone(), &control));
        let running: Vec<Arc<Shared>> = self.streams.iter().map(shared).collect();
        let threads = self.streams.iter().map(Stream::threads).sum();
        let (ready, all_ready) = sync_channel(threads);
        let spawned: Result<Vec<_>, _> =
            running.iter().map(|shared| shared.spawn(&ready)).collect();
        drop(ready);
        let start = control.start(&all_ready, threads);
        let handles = spawned?;
        let mut pacers = Vec::new();
        let mut usage = Ok(None);
        if let Some(start) = start {
            pacers.extend(running.iter().filter_map(|shared| shared.spawn_pacer(start)));
            usage = self.sample_process(start, &control, &handles);
        }
        if usage.is_err() {
            control.stop();
        }
        let mut stats = Vec::new();
        for (shared, handles) in running.iter().zip(handles) {
            stats.push(shared.join(handles, start));
        }
        let stats = stats.into_iter().collect::<Result<_, _>>()?;
        pacers.into_iter().try_for_each(|pacer| pacer.and_then(join))?;
        Ok(Run { stats, usage: usage? })
    }

    /// Samples the server's process until the end of the load.
    fn sample_process(
        &self,
        start: Instant,
        control: &RunControl,
        handles: &[Vec<RunThread<StreamStats>>],
    ) -> Result<Option<ResourceUsage>, LoadError> {
        let Some(process) = self.process else { return Ok(None) };
        let (first, last) = match self.run_length {
            RunLength::Time { warm_up, measured } => (warm_up, Some(warm_up + measured)),
            RunLength::Once => (Duration::ZERO, None),
        };
        let mut at = first;
        let mut samples = Vec::new();
        while control.sleep_until(start + at) {
            samples.push(Sample::of_process(process, start.elapsed())?);
            let is_over = || handles.iter().flatten().all(JoinHandle::is_finished);
            if last.map_or_else(is_over, |last| at >= last) {
                return Ok(ResourceUsage::from_samples(samples));
            }
            at = (at + SAMPLE_INTERVAL).min(last.unwrap_or(Duration::MAX));
        }
        Ok(None)
    }
}

/// State that all connections of a stream share.
struct Shared {
    endpoint: Endpoint,
    stream: Stream,
    run_length: RunLength,
    timeout: Option<Duration>,
    next: AtomicUsize,
    /// In an open loop: number of released requests.
    permits: Semaphore,
    control: Arc<RunControl>,
    /// In a closed loop: send times of the requests without a response at the end, at most one for
    /// each connection. The lock is never held across an await.
    unanswered: Mutex<Vec<Instant>>,
}

/// The measured time.
#[derive(Clone, Copy)]
struct Window {
    start: Instant,
    from: Instant,
    /// `None`: until all requests have been sent.
    until: Option<Instant>,
}

/// Results of a thread's connections. The lock is never held across an await and is not contended.
type SharedStats = Arc<Mutex<StreamStats>>;

impl Shared {
    fn new(plan: &LoadPlan, stream: Stream, control: &Arc<RunControl>) -> Self {
        Self {
            endpoint: plan.endpoint.clone(),
            stream,
            run_length: plan.run_length,
            timeout: plan.timeout,
            next: AtomicUsize::new(0),
            permits: Semaphore::new(0),
            control: Arc::clone(control),
            unanswered: Mutex::default(),
        }
    }

    fn window(&self, began: Instant) -> Window {
        match self.run_length {
            RunLength::Time { warm_up, measured } => {
                let from = began + warm_up;
                Window { start: began, from, until: Some(from + measured) }
            }
            RunLength::Once => Window { start: began, from: began, until: None },
        }
    }

    fn is_paced(&self) -> bool {
        !matches!(self.stream.arrival, Arrival::Closed)
    }

    fn spawn(
        self: &Arc<Self>,
        ready: &SyncSender<()>,
    ) -> Result<Vec<RunThread<StreamStats>>, LoadError> {
        let Stream { connections, .. } = self.stream;
        let threads = self.stream.threads();
        let mut handles = Vec::new();
        for thread in 0..threads {
            let connections = (connections + threads - 1 - thread) / threads;
            let shared = Arc::clone(self);
            let ready = ready.clone();
            let run = move || shared.run_thread(connections, ready);
            handles.push(self.control.spawn("load", run)?);
        }
        Ok(handles)
    }

    /// When the n-th request is due, from the start; `None` if that is after the end, or in a
    /// closed loop.
    fn due(&self, nth: usize) -> Option<Duration> {
        let end = match self.run_length {
            RunLength::Time { warm_up, measured } => warm_up + measured,
            RunLength::Once => Duration::MAX,
        };
        self.stream.due(nth).filter(|due| *due < end)
    }

    /// In an open loop: spawns the thread that releases the requests.
    fn spawn_pacer(self: &Arc<Self>, start: Instant) -> Option<Result<RunThread<()>, LoadError>> {
        if !self.is_paced() {
            return None;
        }
        let shared = Arc::clone(self);
        let run = move || {
            shared.release_requests(start);
            Ok(())
        };
        Some(self.control.spawn("pacer", run))
    }

    /// Releases requests at their times, until none is left or the run is stopped.
    fn release_requests(&self, start: Instant) {
        let mut released = 0;
        while let Some(due) = self.due(released) {
            if !self.control.sleep_until(start + due) {
                return;
            }
            // Release all requests that are due by now.
            let passed = now().saturating_duration_since(start);
            let first = released;
            while self.due(released).is_some_and(|due| due <= passed) {
                released += 1;
            }
            self.permits.add_permits(released - first);
            sleep_until(now() + PACER_INTERVAL_MIN);
        }
        // Waiting connections then find that no request is left.
        self.permits.close();
    }

    fn run_thread(
        self: &Arc<Self>,
        connections: usize,
        ready: SyncSender<()>,
    ) -> Result<StreamStats, LoadError> {
        if self.stream.nice > 0 {
            // On Linux this applies to this thread only. Raising the value is always allowed. If it
            // fails, the load is the same, and the other streams are measured a little late.
            let _ = rustix::process::setpriority_process(None, self.stream.nice.into());
        }
        let thread_error = |err: &dyn std::error::Error| LoadError::Thread(err.to_string());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(|err| thread_error(&err))?.block_on(async {
            let stats = Arc::new(Mutex::new(StreamStats::new(&self.stream.name)));
            let mut open = Vec::new();
            while open.len() < connections && !self.control.is_stopped() {
                open.push(self.open_connection().await?);
            }
            if let Some(start) = self.control.wait_for_start(ready) {
                let window = self.window(start);
                let mut tasks = JoinSet::new();
                for connection in open {
                    let shared = Arc::clone(self);
                    tasks.spawn(shared.run_connection(connection, window, Arc::clone(&stats)));
                }
                loop {
                    tokio::select! {
                        ended = tasks.join_next() => match ended {
                            Some(ended) => ended.map_err(|err| thread_error(&err))?,
                            None => break,
                        },
                        // Another thread has the error.
                        () = self.control.wait_until_stopped() => break,
                    }
                }
            }
            let mut stats = stats.lock().unwrap_or_else(PoisonError::into_inner);
            Ok(std::mem::replace(&mut *stats, StreamStats::new(&self.stream.name)))
        })
    }

    async fn open_connection(&self) -> Result<Connection, HttpClientError> {
        let opening = Connection::open_with_body_limit(self.endpoint.clone(), BODY_PREFIX_BYTES);
        match self.timeout {
            None => opening.await,
            Some(timeout) => tokio::time::timeout(timeout, opening).await.unwrap_or_else(|_| {
                Err(HttpClientError::Broken(std::io::ErrorKind::TimedOut.into()))
            }),
        }
    }

    async fn run_connection(
        self: Arc<Self>,
        connection: Connection,
        window: Window,
        stats: SharedStats,
    ) {
        tokio::time::sleep_until(window.start.into()).await;
        let connection = Some(connection);
        let mut connection_loop =
            ConnectionLoop { shared: &self, connection, window, stats, in_flight_since: None };
        match window.until {
            // The request in flight at the end is awaited.
            _ if self.is_paced() => connection_loop.paced().await,
            None => connection_loop.each_once().await,
            Some(until) => {
                // Responses after the end do not belong to this load.
                let looping = connection_loop.closed_loop(until);
                let _ = tokio::time::timeout_at((until + LATE_MAX).into(), looping).await;
                let unanswered = self.unanswered.lock();
                unanswered
                    .unwrap_or_else(PoisonError::into_inner)
                    .extend(connection_loop.in_flight_since);
            }
        }
    }

    /// Merges the results of all threads and adds unsent requests.
    fn join(
        &self,
        handles: Vec<RunThread<StreamStats>>,
        start: Option<Instant>,
    ) -> Result<StreamStats, LoadError> {
        let mut all = StreamStats::new(&self.stream.name);
        let mut result = Ok(());
        for handle in handles {
            match join(handle) {
                Ok(stats) => all.add(stats),
                Err(err) => result = result.and(Err(err)),
            }
        }
        result?;
        // The error of a stopped run is that of another stream, of the pacer or of the process.
        let Some(began) = start.filter(|_| !self.control.is_stopped()) else { return Ok(all) };
        let window = self.window(began);
        all.took = match window.until {
            Some(until) => until - window.from,
            None => began.elapsed(),
        };
        if let Some(until) = window.until {
            let longest = all.latencies.max().max(all.refusals.max());
            let longest = Duration::from_nanos(longest);
            let took = all.took;
            let unanswered = self.unanswered.lock().unwrap_or_else(PoisonError::into_inner);
            let waited = unanswered.iter().map(|sent| until.saturating_duration_since(*sent));
            for waited in waited.filter(|waited| is_hung(*waited, longest, took)) {
                all.record(waited, until - window.from, RequestResult::TimedOut);
            }
            let unsent = (self.next.load(Ordering::Relaxed)..).map_while(|nth| self.due(nth));
            for due in unsent.map(|due| began + due).filter(|due| *due >= window.from) {
                all.record(until + LATE_MAX - due, until - window.from, RequestResult::Unsent);
            }
        }
        // Results at or after the end belong to the last second.
        let whole = (all.took.as_secs_f64().ceil() as usize).max(1);
        while all.seconds.len() > whole
            && let Some(late) = all.seconds.pop()
            && let Some(last) = all.seconds.last_mut()
        {
            last.ok += late.ok;
            last.rejected += late.rejected;
            last.failed += late.failed;
            last.longest_us = last.longest_us.max(late.longest_us);
        }
        Ok(all)
    }
}

struct ConnectionLoop<'a> {
    shared: &'a Shared,
    connection: Option<Connection>,
    window: Window,
    stats: SharedStats,
    /// In a closed loop: send time of the request that has no result yet.
    in_flight_since: Option<Instant>,
}

impl ConnectionLoop<'_> {
    async fn closed_loop(&mut self, until: Instant) {
        loop {
            let nth = self.shared.next.fetch_add(1, Ordering::Relaxed);
            let sent = now();
            if sent >= until {
                return;
            }
            self.in_flight_since = Some(sent);
            self.exchange(nth, sent).await;
        }
    }

    async fn each_once(&mut self) {
        loop {
            let nth = self.shared.next.fetch_add(1, Ordering::Relaxed);
            if nth >= self.shared.stream.requests.len() {
                return;
            }
            self.exchange(nth, now()).await;
        }
    }

    /// Sends requests as they become due, until there are no more or it is too late.
    async fn paced(&mut self) {
        let too_late = self.window.until.map(|until| until + LATE_MAX);
        loop {
            // Closed once all are released; waiting requests are still sent.
            if let Ok(permit) = self.shared.permits.acquire().await {
                permit.forget();
            }
            if too_late.is_some_and(|too_late| now() >= too_late) {
                return;
            }
            let nth = self.shared.next.fetch_add(1, Ordering::Relaxed);
            let Some(due) = self.shared.due(nth) else { return };
            self.exchange(nth, self.window.start + due).await;
        }
    }

    /// Sends a request and counts its result. Its latency starts at `began`.
    async fn exchange(&mut self, nth: usize, began: Instant) {
        let Shared { stream, timeout, .. } = self.shared;
        let index = nth % stream.requests.len();
        let request = &stream.requests[index];
        let classifier =
            stream.classifiers.as_ref().map_or(stream.classifier, |classifiers| classifiers[index]);
        let connection = match &mut self.connection {
            Some(connection) => connection,
            None => match self.shared.open_connection().await {
                Ok(connection) => self.connection.insert(connection),
                Err(err) => {
                    if self.record(began, RequestResult::Broken(with_source(&err))) {
                        self.in_flight_since = None;
                    }
                    tokio::time::sleep(RECONNECT_BACKOFF).await;
                    return;
                }
            },
        };
        let exchanging = connection.exchange(request);
        let exchanged = match timeout {
            None => Some(exchanging.await),
            Some(timeout) => tokio::time::timeout(*timeout, exchanging).await.ok(),
        };
        let done = now();
        let result = match &exchanged {
            None => RequestResult::TimedOut,
            Some(Err(err)) => RequestResult::Broken(with_source(err)),
            Some(Ok(response)) => RequestResult::Answered {
                verdict: classifier(response.status, response.body),
                status: response.status,
                body: response.body,
                body_bytes: response.body_bytes,
            },
        };
        let is_counted =
            record(&self.stats, self.window, began, done, result, self.shared.is_paced());
        let is_answered = matches!(exchanged, Some(Ok(_)));
        if is_counted || is_answered {
            self.in_flight_since = None;
        }
        self.connection.take_if(|connection| !connection.is_usable());
    }

    fn record(&self, began: Instant, result: RequestResult<'_>) -> bool {
        record(&self.stats, self.window, began, now(), result, self.shared.is_paced())
    }
}

/// Whether a request of a closed loop in flight at the end has hung: it was sent before the
/// measured time, or has waited twice as long as the longest response took. Other requests may
/// still get a response, and are not counted.
fn is_hung(waited: Duration, longest: Duration, measured: Duration) -> bool {
    let is_longer = waited > longest && waited > LATE_MAX;
    is_longer && (waited >= measured || waited > longest * 2)
}

/// Counts a request if it belongs to the measured time, and returns whether it does: in an open
/// loop if it was due in it, in a closed loop if its result came in it, so that long responses give
/// the same rate as short ones.
fn record(
    stats: &SharedStats,
    window: Window,
    began: Instant,
    done: Instant,
    result: RequestResult<'_>,
    is_paced: bool,
) -> bool {
    let belongs = if is_paced { began } else { done };
    if belongs < window.from || window.until.is_some_and(|until| belongs > until) {
        return false;
    }
    let latency = done.saturating_duration_since(began);
    let mut stats = stats.lock().unwrap_or_else(PoisonError::into_inner);
    stats.record(latency, done.saturating_duration_since(window.from), result);
    true
}

fn with_source(err: &HttpClientError) -> String {
    match std::error::Error::source(err) {
        Some(source) => format!("{err}: {source}"),
        None => err.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use process_usage::Process;

    use http_client::testing::{respond, serve};

    use super::*;
    use crate::classify::Verdict;

    const MS: Duration = Duration::from_millis(1);

    /// Answers "ok"; "no" to an `x`, 429 to an `f`, nothing to a `c`, which closes.
    fn server() -> SocketAddr {
        serve(|request, socket| {
            let has = |byte| request.contains(&byte);
            match () {
                () if has(b'c') => false,
                () if has(b'x') => respond(socket, 200, "no"),
                () if has(b'f') => respond(socket, 429, "full"),
                () => respond(socket, 200, "ok"),
            }
        })
    }

    fn classify(status: u16, body: &[u8]) -> Verdict {
        match (status, body) {
            (200, b"ok") => Verdict::Ok,
            (429, _) => Verdict::Rejected,
            _ => Verdict::Error,
        }
    }

    fn stream(requests: &[&str], connections: usize, arrival: Arrival) -> Stream {
        let requests = requests.iter().map(|request| request.as_bytes().to_vec()).collect();
        Stream {
            arrival,
            classifier: classify,
            threads: 2,
            ..Stream::closed_loop("x", requests, connections)
        }
    }

    fn offer(address: SocketAddr, stream: Stream, run_length: RunLength) -> StreamStats {
        let mut run = LoadPlan::new(address.into(), stream, run_length).run().expect("it listens");
        run.stats.remove(0)
    }

    #[test]
    fn each_request_is_sent_once_and_every_result_is_counted() {
        let requests = ["a", "x", "b", "f", "xx", "d", "c", "e"];
        let stats = offer(server(), stream(&requests, 3, Arrival::Closed), RunLength::Once);
        let counts = stats.counts;
        assert_eq!((counts.ok, counts.errors, counts.rejected, counts.broken), (4, 2, 1, 1));
        assert_eq!(stats.all_latencies().len(), 8);
        assert!(stats.failure.is_some());
    }

    #[test]
    fn a_closed_loop_runs_for_the_planned_time() {
        let run_length = RunLength::Time { warm_up: 5 * MS, measured: 30 * MS };
        let stats = offer(server(), stream(&["a", "b"], 3, Arrival::Closed), run_length);
        assert!(stats.counts.ok > 2, "{:?}", stats.counts);
        assert_eq!(stats.counts.failed(), 0);
        assert_eq!(stats.took, 30 * MS);
    }

    #[test]
    fn long_responses_that_began_before_are_counted_when_they_arrive() {
        let address = serve(|_, socket| {
            // Longer than the warm-up, shorter than the run.
            crate::clock::sleep_until(now() + 60 * MS);
            respond(socket, 200, "ok")
        });
        let run_length = RunLength::Time { warm_up: 30 * MS, measured: 60 * MS };
        let stats = offer(address, stream(&["a"], 2, Arrival::Closed), run_length);
        // The requests after that are in flight at the end, and are not failures.
        assert_eq!((stats.counts.ok, stats.counts.failed()), (2, 0));
    }

    #[test]
    fn a_request_that_hangs_for_the_whole_run_is_a_timeout_of_that_latency() {
        for timeout in [None, Some(60_000 * MS)] {
            // One of four connections gets no response; the run ends long before the timeout.
            let requests_seen = Arc::new(AtomicUsize::new(0));
            let address = serve(move |_, socket| {
                requests_seen.fetch_add(1, Ordering::Relaxed) == 0 || respond(socket, 200, "ok")
            });
            let run_length = RunLength::Time { warm_up: 50 * MS, measured: 250 * MS };
            let mut plan =
                LoadPlan::new(address.into(), stream(&["a"], 4, Arrival::Closed), run_length);
            plan.timeout = timeout;
            let stats = plan.run().expect("it listens").stats.remove(0);
            let counts = stats.counts;
            assert!(counts.ok > 0, "{counts:?}");
            assert_eq!((counts.timeouts, counts.failed()), (1, 1));
            assert!(stats.ms(1.0) > 249.0, "{} ms", stats.ms(1.0));
        }
    }

    #[test]
    fn a_request_sent_just_before_the_end_is_not_a_failure() {
        let hangs = |waited: u32, longest: u32| is_hung(waited * MS, longest * MS, 1_000 * MS);
        // They wait as long as others, or a little longer.
        assert!(!hangs(90, 1) && !hangs(400, 400) && !hangs(700, 400));
        // They wait twice as long as any response took, or all the time.
        assert!(hangs(900, 400) && hangs(1_050, 900) && hangs(200, 0));
        // Others took as long.
        assert!(!hangs(1_050, 1_100));
    }

    #[test]
    fn an_open_loop_offers_its_rate_however_fast_responses_are() {
        let run_length = RunLength::Time { warm_up: 20 * MS, measured: 100 * MS };
        let stats = offer(server(), stream(&["a"], 4, Arrival::Open { rate: 1_000.0 }), run_length);
        // All requests due in the measured time, and no more.
        assert_eq!(stats.counts.total(), 100);
    }

    #[test]
    fn a_stall_is_in_the_latencies_of_all_requests_due_meanwhile() {
        // The server answers one request and no other.
        let first = Arc::new(AtomicUsize::new(0));
        let address = serve(move |_, socket| {
            first.fetch_add(1, Ordering::Relaxed) > 0 || respond(socket, 200, "ok")
        });
        let stream = stream(&["a"], 1, Arrival::Open { rate: 100.0 });
        let run_length = RunLength::Time { warm_up: Duration::ZERO, measured: 200 * MS };
        let mut plan = LoadPlan::new(address.into(), stream, run_length);
        plan.timeout = Some(300 * MS);
        let stats = plan.run().expect("it listens").stats.remove(0);
        assert_eq!(stats.counts.total(), 20);
        assert_eq!((stats.counts.ok, stats.counts.timeouts), (1, 1));
        assert_eq!(stats.counts.unsent, 18);
        assert!(stats.ms(0.5) > 80.0, "{} ms", stats.ms(0.5));
    }

    #[test]
    fn a_request_due_before_the_end_is_sent_after_it_by_a_free_connection() {
        // The first response comes after the end, the others at once.
        let requests_seen = Arc::new(AtomicUsize::new(0));
        let address = serve(move |_, socket| {
            if requests_seen.fetch_add(1, Ordering::Relaxed) == 0 {
                crate::clock::sleep_until(now() + 60 * MS);
            }
            respond(socket, 200, "ok")
        });
        let run_length = RunLength::Time { warm_up: Duration::ZERO, measured: 50 * MS };
        let stats = offer(address, stream(&["a"], 1, Arrival::Open { rate: 100.0 }), run_length);
        assert_eq!((stats.counts.ok, stats.counts.total()), (5, 5), "{:?}", stats.counts);
        // Due at 10 ms, and not sent before 60.
        assert!(stats.ms(0.7) > 40.0, "{} ms", stats.ms(0.7));
        assert_eq!(stats.took, 50 * MS);
    }

    #[test]
    fn a_log_is_replayed_at_its_times() {
        let times = Arc::new(vec![Duration::ZERO, 20 * MS, 60 * MS]);
        let stats =
            offer(server(), stream(&["a", "b", "f"], 2, Arrival::At(times)), RunLength::Once);
        assert_eq!((stats.counts.ok, stats.counts.rejected), (2, 1));
        assert!(stats.took >= 60 * MS, "{:?}", stats.took);
    }

    #[test]
    fn streams_run_at_once_and_the_process_is_watched() {
        let closed = stream(&["a"], 2, Arrival::Closed);
        let open = stream(&["a"], 2, Arrival::Open { rate: 500.0 });
        let run_length = RunLength::Time { warm_up: MS, measured: 150 * MS };
        let mut plan = LoadPlan::new(server().into(), closed, run_length);
        plan.streams.push(open);
        plan.process = Some(Process::current());
        let run = plan.run().expect("it listens");
        assert!(run.stats[0].counts.ok > 0);
        assert_eq!(run.stats[1].counts.total(), 75);
        let usage = run.usage.expect("it was watched");
        assert!(usage.samples.len() >= 2 && usage.peak_resident_bytes > 0, "{usage:?}");
    }

    #[test]
    fn a_rate_of_less_than_one_request_in_any_run_sends_the_first_one() {
        for rate in [1e-18, 1e-20, 1e-300] {
            let run_length = RunLength::Time { warm_up: Duration::ZERO, measured: 20 * MS };
            let stats = offer(server(), stream(&["a"], 2, Arrival::Open { rate }), run_length);
            assert_eq!((stats.counts.ok, stats.counts.total()), (1, 1), "{rate}");
        }
    }

    #[test]
    fn a_panic_ends_the_run_at_once() {
        // Without the stop each of these would last for an hour.
        let hour = 3_600_000 * MS;
        let log = Arrival::At(Arc::new(vec![Duration::ZERO, hour]));
        let in_time = RunLength::Time { warm_up: Duration::ZERO, measured: hour };
        for (arrival, run_length) in [
            (Arrival::Closed, in_time),
            (Arrival::Open { rate: 10.0 }, in_time),
            (log, RunLength::Once),
        ] {
            let panics = Stream {
                classifier: |_, _| panic!("a bug in a classifier"),
                ..stream(&["a", "b"], 4, arrival)
            };
            let mut plan = LoadPlan::new(server().into(), panics, run_length);
            plan.streams.push(match run_length {
                RunLength::Time { .. } => stream(&["a"], 2, Arrival::Closed),
                RunLength::Once => {
                    let times = Arc::new(vec![Duration::ZERO, hour]);
                    stream(&["a", "b"], 2, Arrival::At(times))
                }
            });
            plan.process = Some(Process::current());
            let err = plan.run().expect_err("it panicked");
            assert!(matches!(err, LoadError::Thread(_)), "{err}");
        }
    }

    #[test]
    fn a_run_of_a_process_that_does_not_exist_ends_at_once() {
        let in_an_hour = RunLength::Time { warm_up: Duration::ZERO, measured: 3_600_000 * MS };
        let mut plan =
            LoadPlan::new(server().into(), stream(&["a"], 2, Arrival::Closed), in_an_hour);
        plan.process = Some(Process::with_id(u32::MAX));
        let err = plan.run().expect_err("there is no such process");
        assert!(matches!(err, LoadError::Process(_)), "{err}");
    }

    #[test]
    fn an_invalid_plan_is_refused_before_anything_is_sent() {
        let run_length = RunLength::Time { warm_up: MS, measured: MS };
        for wrong in [
            stream(&[], 1, Arrival::Closed),
            stream(&["a"], 0, Arrival::Closed),
            stream(&["a"], usize::MAX, Arrival::Closed),
            Stream { threads: usize::MAX, ..stream(&["a"], usize::MAX, Arrival::Closed) },
            stream(&["a"], 1, Arrival::Open { rate: 0.0 }),
            stream(&["a"], 1, Arrival::Open { rate: f64::NAN }),
            stream(&["a"], 1, Arrival::Open { rate: 1e300 }),
            stream(&["a"], 1, Arrival::At(Arc::new(vec![MS]))),
        ] {
            let err =
                LoadPlan::new(server().into(), wrong, run_length).run().expect_err("it is wrong");
            assert!(matches!(err, LoadError::Plan(_)), "{err}");
        }
        let too_late = stream(&["a"], 1, Arrival::At(Arc::new(vec![Duration::MAX])));
        let endless = stream(&["a"], 1, Arrival::Open { rate: 1.0 });
        let too_long = RunLength::Time { warm_up: MS, measured: Duration::MAX };
        for (wrong, run_length) in [
            (too_late, RunLength::Once),
            (endless, RunLength::Once),
            (stream(&["a"], 1, Arrival::Closed), too_long),
        ] {
            let err =
                LoadPlan::new(server().into(), wrong, run_length).run().expect_err("it is wrong");
            assert!(matches!(err, LoadError::Plan(_)), "{err}");
        }
        // The port was in use and is closed.
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let gone = listener.local_addr().expect("it is bound");
        drop(listener);
        let err = LoadPlan::new(gone.into(), stream(&["a"], 2, Arrival::Closed), run_length)
            .run()
            .expect_err("no server listens");
        assert!(matches!(err, LoadError::Http(HttpClientError::Connect { .. })), "{err}");
    }
}
