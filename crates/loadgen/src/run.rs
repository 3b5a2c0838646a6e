//! A plan as it is offered.
//!
//! Shape: each stream has threads of its own, each thread one runtime and its share of the stream's
//! connections. In a closed loop a connection sends its next request once the last is answered. In an
//! open loop a pacer lets one request go at each intended time; whichever connection is free takes it,
//! and if none is, it waits, with its latency running. The pacer is a thread that sleeps, as tokio's
//! timers are whole milliseconds. What was due before the end is sent for [`LATE_MAX`] after it, as threads
//! are held up by the machine just then, too. As long a closed loop waits for what is in flight at the end: what
//! then has no answer is not counted if that may just be bad timing, and is a timeout if it [`is_hung`].
//! Bounds: a request in flight for each connection; what is due beyond them is a number.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use crate::clock::{now, sleep_until};
use crate::http::Connection;
use crate::process::ResourceUsage;
use crate::stats::{RequestResult, StreamStats};
use crate::{Arrival, Endpoint, LoadError, LoadPlan, RunLength, Stream};

/// How many bytes of an answer's body are looked at.
pub const BODY_PREFIX_BYTES: usize = 64 * 1024;

/// How often the server's process is looked at.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);

/// From when all are connected to the first request.
const START_DELAY: Duration = Duration::from_millis(2);

/// The pacer lets due requests go at most this often.
const PACER_INTERVAL_MIN: Duration = Duration::from_micros(20);

/// So long after the end what was due before it is still sent, and what was sent is waited for: many times as long
/// as a machine holds up a thread. What then has found no connection is unserved.
const LATE_MAX: Duration = Duration::from_millis(100);

/// How long a connection that broke waits before it is opened again.
const RECONNECT_BACKOFF: Duration = Duration::from_millis(10);

/// What came of it.
#[derive(Clone, Debug)]
pub struct Run {
    /// In the order of the streams.
    pub stats: Vec<StreamStats>,
    /// Of the server's process.
    pub usage: Option<ResourceUsage>,
}

impl LoadPlan {
    /// Offers it, on threads of its own, and waits until it is over.
    ///
    /// Errors: the plan makes no sense; nobody answers at the beginning; the process is not there.
    pub fn run(&self) -> Result<Run, LoadError> {
        for stream in &self.streams {
            stream.check(self.run_length)?;
        }
        let threads: usize = self.streams.iter().map(Stream::threads).sum();
        let gate = Arc::new(StartBarrier::new(threads));
        let mut running = Vec::new();
        for stream in &self.streams {
            running.push(Arc::new(Shared::new(self, stream.clone(), Arc::clone(&gate))));
        }
        let mut handles = Vec::new();
        for shared in &running {
            handles.push(shared.spawn()?);
        }
        let began = gate.release();
        let pacers: Vec<_> = running.iter().map(|shared| shared.spawn_pacer()).collect();
        let used = self.sample_process(began, &handles);
        let mut outcomes = Vec::new();
        for (shared, handles) in running.iter().zip(handles) {
            outcomes.push(shared.join(handles, began));
        }
        for pacer in pacers.into_iter().flatten().flatten() {
            // It only sleeps and counts.
            let _ = pacer.join();
        }
        Ok(Run { stats: outcomes.into_iter().collect::<Result<_, _>>()?, usage: used? })
    }

    /// Looks at the server's process until the load is over.
    fn sample_process(
        &self,
        began: Instant,
        handles: &[Vec<JoinHandle<Result<StreamStats, LoadError>>>],
    ) -> Result<Option<ResourceUsage>, LoadError> {
        let Some(process) = self.process else { return Ok(None) };
        let (first, last) = match self.run_length {
            RunLength::Time { warm_up, measured } => (warm_up, Some(warm_up + measured)),
            RunLength::Once => (Duration::ZERO, None),
        };
        let mut at = first;
        let mut samples = Vec::new();
        loop {
            sleep_until(began + at);
            samples.push(process.sample(began.elapsed())?);
            let is_over = || handles.iter().flatten().all(JoinHandle::is_finished);
            if last.map_or_else(is_over, |last| at >= last) {
                return Ok(ResourceUsage::from_samples(samples));
            }
            at = (at + SAMPLE_INTERVAL).min(last.unwrap_or(Duration::MAX));
        }
    }
}

/// Where all threads wait until each has its connections.
struct StartBarrier {
    arrived: Barrier,
    released: Barrier,
    start: OnceLock<Instant>,
}

impl StartBarrier {
    fn new(threads: usize) -> Self {
        let barrier = || Barrier::new(threads + 1);
        Self { arrived: barrier(), released: barrier(), start: OnceLock::new() }
    }

    /// Lets all go once all are there; gives the time that the load begins at.
    fn release(&self) -> Instant {
        self.arrived.wait();
        let began = *self.start.get_or_init(|| now() + START_DELAY);
        self.released.wait();
        began
    }

    fn wait(&self) -> Instant {
        self.arrived.wait();
        self.released.wait();
        // It was set between the two.
        *self.start.get_or_init(now)
    }
}

/// What all connections of a stream share.
struct Shared {
    endpoint: Endpoint,
    stream: Stream,
    run_length: RunLength,
    timeout: Option<Duration>,
    next: AtomicUsize,
    /// Of an open loop: how many may go.
    permits: Semaphore,
    start_barrier: Arc<StartBarrier>,
    /// Of a closed loop: when was sent what is without an answer at the end; one a connection at most. The lock is
    /// never held across a wait.
    unanswered: Mutex<Vec<Instant>>,
}

/// The time that is measured.
#[derive(Clone, Copy)]
struct Window {
    start: Instant,
    from: Instant,
    /// `None`: until all have been sent.
    until: Option<Instant>,
}

/// What a thread's connections have seen. The lock is never held across a wait and has no rival.
type SharedStats = Arc<Mutex<StreamStats>>;

impl Shared {
    fn new(plan: &LoadPlan, stream: Stream, start_barrier: Arc<StartBarrier>) -> Self {
        Self {
            endpoint: plan.endpoint.clone(),
            stream,
            run_length: plan.run_length,
            timeout: plan.timeout,
            next: AtomicUsize::new(0),
            permits: Semaphore::new(0),
            start_barrier,
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
    ) -> Result<Vec<JoinHandle<Result<StreamStats, LoadError>>>, LoadError> {
        let Stream { connections, .. } = self.stream;
        let threads = self.stream.threads();
        let mut handles = Vec::new();
        for thread in 0..threads {
            let connections = (connections + threads - 1 - thread) / threads;
            let shared = Arc::clone(self);
            let run = move || shared.run_thread(connections);
            handles.push(spawn("load", run)?);
        }
        Ok(handles)
    }

    /// When the nth is due, from the beginning; `None` if that is after the end, or never.
    fn due(&self, nth: usize) -> Option<Duration> {
        let end = match self.run_length {
            RunLength::Time { warm_up, measured } => warm_up + measured,
            RunLength::Once => Duration::MAX,
        };
        self.stream.due(nth).filter(|due| *due < end)
    }

    /// Lets requests go at their times, until none is left.
    fn spawn_pacer(self: &Arc<Self>) -> Option<Result<JoinHandle<()>, LoadError>> {
        if !self.is_paced() {
            return None;
        }
        let shared = Arc::clone(self);
        let pace = move || {
            let began = *shared.start_barrier.start.get_or_init(now);
            let mut let_go = 0;
            while let Some(due) = shared.due(let_go) {
                sleep_until(began + due);
                // All that are due by now.
                let passed = now().saturating_duration_since(began);
                let first = let_go;
                while shared.due(let_go).is_some_and(|due| due <= passed) {
                    let_go += 1;
                }
                shared.permits.add_permits(let_go - first);
                sleep_until(now() + PACER_INTERVAL_MIN);
            }
            // Whoever waits then finds that there is nothing left.
            shared.permits.close();
        };
        Some(spawn("pacer", pace))
    }

    fn run_thread(self: &Arc<Self>, connections: usize) -> Result<StreamStats, LoadError> {
        if self.stream.nice > 0 {
            // Of this thread alone, on Linux. Raising the value is always allowed; without it the load is
            // the same, and what is beside it is told a little late.
            let _ = rustix::process::setpriority_process(None, self.stream.nice.into());
        }
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(err) => {
                self.start_barrier.wait();
                return Err(LoadError::Thread(err.to_string()));
            }
        };
        runtime.block_on(async {
            let mut open = Vec::new();
            let mut failed = None;
            for _ in 0..connections {
                match Connection::open_with_body_limit(self.endpoint.clone(), BODY_PREFIX_BYTES)
                    .await
                {
                    Ok(connection) => open.push(connection),
                    Err(err) => {
                        failed = Some(err);
                        break;
                    }
                }
            }
            // All threads pass, so that none waits for one that failed.
            let window = self.window(self.start_barrier.wait());
            if let Some(err) = failed {
                return Err(err);
            }
            let seen = Arc::new(Mutex::new(StreamStats::new(&self.stream.name)));
            let mut tasks = Vec::new();
            for connection in open {
                let (shared, seen) = (Arc::clone(self), Arc::clone(&seen));
                tasks.push(tokio::spawn(shared.run_connection(connection, window, seen)));
            }
            for task in tasks {
                task.await.map_err(|err| LoadError::Thread(err.to_string()))?;
            }
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            Ok(std::mem::replace(&mut *seen, StreamStats::new(&self.stream.name)))
        })
    }

    async fn run_connection(
        self: Arc<Self>,
        connection: Connection,
        window: Window,
        seen: SharedStats,
    ) {
        tokio::time::sleep_until(window.start.into()).await;
        let connection = Some(connection);
        let mut line = ConnectionLoop {
            shared: &self,
            connection,
            window,
            stats: seen,
            in_flight_since: None,
        };
        match window.until {
            // The one in flight at the end is waited for.
            _ if self.is_paced() => line.paced().await,
            None => line.each_once().await,
            Some(until) => {
                // What is answered after the end is none of this load's.
                let looping = line.closed_loop(until);
                let _ = tokio::time::timeout_at((until + LATE_MAX).into(), looping).await;
                let unanswered = self.unanswered.lock();
                unanswered.unwrap_or_else(PoisonError::into_inner).extend(line.in_flight_since);
            }
        }
    }

    /// What all threads saw, with what was never sent.
    fn join(
        &self,
        handles: Vec<JoinHandle<Result<StreamStats, LoadError>>>,
        began: Instant,
    ) -> Result<StreamStats, LoadError> {
        let window = self.window(began);
        let mut all = StreamStats::new(&self.stream.name);
        let mut result = Ok(());
        for handle in handles {
            let joined = handle.join().map_err(|_| LoadError::Thread("it panicked".to_owned()));
            match joined.flatten() {
                Ok(outcome) => all.add(outcome),
                Err(err) => result = result.and(Err(err)),
            }
        }
        result?;
        all.took = match window.until {
            Some(until) => until - window.from,
            None => began.elapsed(),
        };
        if let Some(until) = window.until {
            let longest = all.latencies.max().max(all.refusals.max());
            let (longest, took) = (Duration::from_nanos(longest), all.took);
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
        // What came after the end, or just at it, belongs to the last second.
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

/// One connection at work.
struct ConnectionLoop<'a> {
    shared: &'a Shared,
    connection: Option<Connection>,
    window: Window,
    stats: SharedStats,
    /// Of a closed loop: when that was sent of which nothing has become yet.
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

    /// Requests as they become due, until there are no more or it is too late for them.
    async fn paced(&mut self) {
        let too_late = self.window.until.map(|until| until + LATE_MAX);
        loop {
            // Closed once all have been let go; those that wait still go.
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

    /// Sends a request and counts what becomes of it; its latency runs from `began` on.
    async fn exchange(&mut self, nth: usize, began: Instant) {
        let Shared { stream, timeout, .. } = self.shared;
        let place = nth % stream.requests.len();
        let request = &stream.requests[place];
        let judge = stream.classifiers.as_ref().map_or(stream.classifier, |judges| judges[place]);
        let connection = match &mut self.connection {
            Some(connection) => connection,
            None => match self.open().await {
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
        let answered = match timeout {
            None => Some(exchanging.await),
            Some(timeout) => tokio::time::timeout(*timeout, exchanging).await.ok(),
        };
        let done = now();
        let fate = match &answered {
            None => RequestResult::TimedOut,
            Some(Err(err)) => RequestResult::Broken(with_source(err)),
            Some(Ok(answer)) => RequestResult::Answered {
                verdict: judge(answer.status, answer.body),
                status: answer.status,
                body: answer.body,
                body_bytes: answer.body_bytes,
            },
        };
        let is_counted =
            record(&self.stats, self.window, began, done, fate, self.shared.is_paced());
        let is_usable = matches!(answered, Some(Ok(_)));
        if is_counted || is_usable {
            self.in_flight_since = None;
        }
        if !is_usable || self.connection.as_ref().is_some_and(Connection::closes) {
            self.connection = None;
        }
    }

    async fn open(&self) -> Result<Connection, LoadError> {
        let opening =
            Connection::open_with_body_limit(self.shared.endpoint.clone(), BODY_PREFIX_BYTES);
        match self.shared.timeout {
            None => opening.await,
            Some(timeout) => tokio::time::timeout(timeout, opening)
                .await
                .unwrap_or_else(|_| Err(LoadError::Broken(std::io::ErrorKind::TimedOut.into()))),
        }
    }

    fn record(&self, began: Instant, fate: RequestResult<'_>) -> bool {
        record(&self.stats, self.window, began, now(), fate, self.shared.is_paced())
    }
}

/// Whether what a closed loop has in flight at the end will not be answered, as far as one can tell: it has waited
/// since before the measured time began, or twice as long as the longest answer took. All others may be answered
/// as soon as those before them, and count for neither.
fn is_hung(waited: Duration, longest: Duration, measured: Duration) -> bool {
    let is_longer = waited > longest && waited > LATE_MAX;
    is_longer && (waited >= measured || waited > longest * 2)
}

/// Counts a request if it belongs to the measured time, and says whether it does: in an open loop if it was due in
/// it, in a closed loop if it was answered in it, so that long answers make the same rate as short ones.
fn record(
    seen: &SharedStats,
    window: Window,
    began: Instant,
    done: Instant,
    fate: RequestResult<'_>,
    is_paced: bool,
) -> bool {
    let belongs = if is_paced { began } else { done };
    if belongs < window.from || window.until.is_some_and(|until| belongs > until) {
        return false;
    }
    let latency = done.saturating_duration_since(began);
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    seen.record(latency, done.saturating_duration_since(window.from), fate);
    true
}

fn with_source(err: &LoadError) -> String {
    match std::error::Error::source(err) {
        Some(source) => format!("{err}: {source}"),
        None => err.to_string(),
    }
}

fn spawn<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, LoadError> {
    let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(run);
    spawned.map_err(|err| LoadError::Thread(err.to_string()))
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::Process;
    use crate::classify::Verdict;
    use crate::testing::{respond, serve};

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

    fn stream(requests: &[&str], connections: usize, pace: Arrival) -> Stream {
        let requests = requests.iter().map(|request| request.as_bytes().to_vec()).collect();
        Stream {
            arrival: pace,
            classifier: classify,
            threads: 2,
            ..Stream::closed_loop("x", requests, connections)
        }
    }

    fn offer(address: SocketAddr, stream: Stream, span: RunLength) -> StreamStats {
        let mut run = LoadPlan::new(address.into(), stream, span).run().expect("it listens");
        run.stats.remove(0)
    }

    #[test]
    fn each_request_is_sent_once_and_every_result_is_counted() {
        let requests = ["a", "x", "b", "f", "xx", "d", "c", "e"];
        let outcome = offer(server(), stream(&requests, 3, Arrival::Closed), RunLength::Once);
        let counts = outcome.counts;
        assert_eq!((counts.ok, counts.errors, counts.rejected, counts.broken), (4, 2, 1, 1));
        assert_eq!(outcome.all_latencies().len(), 8);
        assert!(outcome.failure.is_some());
    }

    #[test]
    fn a_closed_loop_runs_for_the_planned_time() {
        let span = RunLength::Time { warm_up: 5 * MS, measured: 30 * MS };
        let outcome = offer(server(), stream(&["a", "b"], 3, Arrival::Closed), span);
        assert!(outcome.counts.ok > 2, "{:?}", outcome.counts);
        assert_eq!(outcome.counts.failed(), 0);
        assert_eq!(outcome.took, 30 * MS);
    }

    #[test]
    fn long_answers_that_began_before_are_counted_when_they_come() {
        let address = serve(|_, socket| {
            // Longer than the warm-up, shorter than all.
            crate::clock::sleep_until(now() + 60 * MS);
            respond(socket, 200, "ok")
        });
        let span = RunLength::Time { warm_up: 30 * MS, measured: 60 * MS };
        let outcome = offer(address, stream(&["a"], 2, Arrival::Closed), span);
        // What they sent then is in flight at the end, and no failure.
        assert_eq!((outcome.counts.ok, outcome.counts.failed()), (2, 0));
    }

    #[test]
    fn what_hangs_for_the_whole_run_is_a_timeout_that_waited_as_long() {
        for timeout in [None, Some(60_000 * MS)] {
            // One of four connections is never answered; the run ends long before the timeout.
            let asked = Arc::new(AtomicUsize::new(0));
            let address = serve(move |_, socket| {
                asked.fetch_add(1, Ordering::Relaxed) == 0 || respond(socket, 200, "ok")
            });
            let span = RunLength::Time { warm_up: 50 * MS, measured: 250 * MS };
            let mut plan = LoadPlan::new(address.into(), stream(&["a"], 4, Arrival::Closed), span);
            plan.timeout = timeout;
            let outcome = plan.run().expect("it listens").stats.remove(0);
            let counts = outcome.counts;
            assert!(counts.ok > 0, "{counts:?}");
            assert_eq!((counts.timeouts, counts.failed()), (1, 1));
            assert!(outcome.ms(1.0) > 249.0, "{} ms", outcome.ms(1.0));
        }
    }

    #[test]
    fn what_was_sent_just_before_the_end_is_no_failure() {
        let hangs = |waited: u32, longest: u32| is_hung(waited * MS, longest * MS, 1_000 * MS);
        // As long as others, or a little longer.
        assert!(!hangs(90, 1) && !hangs(400, 400) && !hangs(700, 400));
        // Twice as long as any answer took, or all the time.
        assert!(hangs(900, 400) && hangs(1_050, 900) && hangs(200, 0));
        // Others took as long, too.
        assert!(!hangs(1_050, 1_100));
    }

    #[test]
    fn an_open_loop_offers_its_rate_however_fast_responses_are() {
        let span = RunLength::Time { warm_up: 20 * MS, measured: 100 * MS };
        let outcome = offer(server(), stream(&["a"], 4, Arrival::Open { rate: 1_000.0 }), span);
        // Due in the measured time, all of them, and no more.
        assert_eq!(outcome.counts.total(), 100);
    }

    #[test]
    fn a_stall_is_in_the_latencies_of_all_that_were_due_meanwhile() {
        // The server answers one request and never another.
        let first = Arc::new(AtomicUsize::new(0));
        let address = serve(move |_, socket| {
            first.fetch_add(1, Ordering::Relaxed) > 0 || respond(socket, 200, "ok")
        });
        let stream = stream(&["a"], 1, Arrival::Open { rate: 100.0 });
        let span = RunLength::Time { warm_up: Duration::ZERO, measured: 200 * MS };
        let mut plan = LoadPlan::new(address.into(), stream, span);
        plan.timeout = Some(300 * MS);
        let outcome = plan.run().expect("it listens").stats.remove(0);
        assert_eq!(outcome.counts.total(), 20);
        assert_eq!((outcome.counts.ok, outcome.counts.timeouts), (1, 1));
        assert_eq!(outcome.counts.unsent, 18);
        assert!(outcome.ms(0.5) > 80.0, "{} ms", outcome.ms(0.5));
    }

    #[test]
    fn what_was_due_before_the_end_is_sent_after_it_by_a_free_connection() {
        // The first answer comes after the end, the others at once.
        let answered = Arc::new(AtomicUsize::new(0));
        let address = serve(move |_, socket| {
            if answered.fetch_add(1, Ordering::Relaxed) == 0 {
                crate::clock::sleep_until(now() + 60 * MS);
            }
            respond(socket, 200, "ok")
        });
        let span = RunLength::Time { warm_up: Duration::ZERO, measured: 50 * MS };
        let outcome = offer(address, stream(&["a"], 1, Arrival::Open { rate: 100.0 }), span);
        assert_eq!((outcome.counts.ok, outcome.counts.total()), (5, 5), "{:?}", outcome.counts);
        // Due at 10 ms, and not sent before 60.
        assert!(outcome.ms(0.7) > 40.0, "{} ms", outcome.ms(0.7));
        assert_eq!(outcome.took, 50 * MS);
    }

    #[test]
    fn a_log_is_replayed_at_its_times() {
        let times = Arc::new(vec![Duration::ZERO, 20 * MS, 60 * MS]);
        let outcome =
            offer(server(), stream(&["a", "b", "f"], 2, Arrival::At(times)), RunLength::Once);
        assert_eq!((outcome.counts.ok, outcome.counts.rejected), (2, 1));
        assert!(outcome.took >= 60 * MS, "{:?}", outcome.took);
    }

    #[test]
    fn streams_run_at_once_and_the_process_is_watched() {
        let closed = stream(&["a"], 2, Arrival::Closed);
        let open = stream(&["a"], 2, Arrival::Open { rate: 500.0 });
        let span = RunLength::Time { warm_up: MS, measured: 150 * MS };
        let mut plan = LoadPlan::new(server().into(), closed, span);
        plan.streams.push(open);
        plan.process = Some(Process(std::process::id()));
        let run = plan.run().expect("it listens");
        assert!(run.stats[0].counts.ok > 0);
        assert_eq!(run.stats[1].counts.total(), 75);
        let used = run.usage.expect("it was watched");
        assert!(used.samples.len() >= 2 && used.peak_resident_bytes > 0, "{used:?}");
    }

    #[test]
    fn what_cannot_be_is_refused_before_anything_is_sent() {
        let span = RunLength::Time { warm_up: MS, measured: MS };
        for wrong in [
            stream(&[], 1, Arrival::Closed),
            stream(&["a"], 0, Arrival::Closed),
            stream(&["a"], 1, Arrival::Open { rate: 0.0 }),
            stream(&["a"], 1, Arrival::At(Arc::new(vec![MS]))),
        ] {
            let err = LoadPlan::new(server().into(), wrong, span).run().expect_err("it is wrong");
            assert!(matches!(err, LoadError::Plan(_)), "{err}");
        }
        // Nobody listens where somebody did.
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let gone = listener.local_addr().expect("it is bound");
        drop(listener);
        let err = LoadPlan::new(gone.into(), stream(&["a"], 2, Arrival::Closed), span)
            .run()
            .expect_err("nobody listens");
        assert!(matches!(err, LoadError::Connect { .. }), "{err}");
    }
}
