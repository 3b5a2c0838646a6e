//! The requests that wait for the upstream.
//!
//! Shape: one queue for each client; the fetching threads take from them round robin.
//! Bounds: [`FETCHES_MAX`] fetches, of which a client has at most half of those that the others leave free. With one
//! more the client gets an error at once. At most `running_max` fetches of a client run at once, at `calls_per_s` calls
//! a second. Further ones wait without delaying other clients.
//! Invariant: a fetch leaves the queue at its deadline, even if its client is over its limits.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use chain_solana::{AccountsRequest, FetchError, PendingSender};
use clients::{ClientId, TokenBucket};
use foldhash::quality::RandomState;
use parking_lot::{Condvar, Mutex};

use crate::upstream::now;

/// Requests that wait, of all clients.
pub(crate) const FETCHES_MAX: usize = 512;
/// Calls that a client may send at once, measured by the time in which its rate allows them. A larger value lets a new
/// client use more of the upstream's quota.
const CALLS_BURST: Duration = Duration::from_secs(10);
/// Debt of a client whose last fetch needed more calls than it had left.
const CALLS_DEBT_MAX: Duration = Duration::from_secs(20);
/// Number of clients above which those that use nothing are removed.
const CLIENTS_MIN: usize = 256;

pub(crate) type Fetched = Result<(), FetchError>;

/// Limits on one client's use of the upstream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientLimits {
    /// Calls a second. Those of [`CALLS_BURST`] may come at once.
    pub(crate) calls_per_s: u32,
    /// Fetches that run at the same time.
    pub(crate) running_max: usize,
}

/// The receiver of a fetch's result.
pub(crate) enum FetchReply {
    /// To a client that waits.
    Reply(PendingSender<Fetched>),
    /// To a function, which runs on the fetching thread.
    Then(Box<dyn FnOnce(Fetched) + Send>),
}

impl FetchReply {
    pub(crate) fn send(self, result: Fetched) {
        match self {
            Self::Reply(reply) => reply.send(result),
            Self::Then(then) => then(result),
        }
    }

    /// Whether the client has left.
    pub(crate) fn is_abandoned(&self) -> bool {
        matches!(self, Self::Reply(reply) if reply.is_abandoned())
    }
}

/// A request with the end of its wait.
pub(crate) struct QueuedFetch {
    pub(crate) client: ClientId,
    pub(crate) request: AccountsRequest,
    pub(crate) deadline: Instant,
    pub(crate) end: FetchReply,
}

/// The fetches of a client, and its use of the upstream.
#[derive(Default)]
struct ClientQueue {
    waiting: VecDeque<QueuedFetch>,
    running: usize,
    calls: TokenBucket,
}

struct Queues {
    by_client: HashMap<ClientId, ClientQueue, RandomState>,
    /// The clients with fetches that wait, in the order in which they are served.
    order: VecDeque<ClientId>,
    len: usize,
    is_closed: bool,
    limits: ClientLimits,
    /// The origin of the times in [`ClientQueue::calls`].
    started: Instant,
    /// Number of clients above which unused ones are removed next.
    prune_above: usize,
}

pub(crate) struct FetchQueue {
    queues: Mutex<Queues>,
    arrived: Condvar,
}

/// The result of a search for the next fetch.
enum Next {
    Fetch(QueuedFetch),
    /// None may start before this delay.
    After(Duration),
    /// The queue is empty.
    Empty,
}

impl FetchQueue {
    pub(crate) fn new(limits: ClientLimits) -> Self {
        let queues = Queues {
            by_client: HashMap::default(),
            order: VecDeque::new(),
            len: 0,
            is_closed: false,
            limits,
            started: now(),
            prune_above: CLIENTS_MIN,
        };
        Self { queues: Mutex::new(queues), arrived: Condvar::new() }
    }

    /// Queues a fetch. Fails at a bound, and once the queue is closed.
    pub(crate) fn push(&self, fetch: QueuedFetch) -> Result<(), FetchError> {
        let queues = &mut *self.queues.lock();
        if queues.is_closed {
            return Err(FetchError::Closed);
        }
        let client = fetch.client;
        let own = queues.by_client.get(&client).map_or(0, |own| own.waiting.len());
        // So a client without a fetch may add one until the queue is full, however many the others have.
        if own >= FETCHES_MAX.saturating_sub(queues.len) {
            return Err(FetchError::TooMany { waiting: queues.len, limit: FETCHES_MAX });
        }
        queues.len += 1;
        if own == 0 {
            queues.order.push_back(client);
        }
        queues.by_client.entry(client).or_default().waiting.push_back(fetch);
        self.arrived.notify_one();
        Ok(())
    }

    /// Waits for a fetch and removes it. Returns `None` once the queue is closed. The caller ends the fetch with
    /// [`Self::finish`].
    pub(crate) fn pop(&self) -> Option<QueuedFetch> {
        let mut queues = self.queues.lock();
        loop {
            if queues.is_closed {
                return None;
            }
            match queues.next(now()) {
                Next::Fetch(fetch) => return Some(fetch),
                Next::After(delay) => {
                    self.arrived.wait_for(&mut queues, delay);
                }
                Next::Empty => self.arrived.wait(&mut queues),
            }
        }
    }

    /// Charges a call of the upstream to a client whose fetch runs, before it is sent.
    pub(crate) fn charge_call(&self, client: ClientId) {
        self.queues.lock().charge_calls(client, 1, now());
    }

    /// Ends a fetch that [`Self::pop`] returned.
    pub(crate) fn finish(&self, client: ClientId) {
        self.queues.lock().finish(client, now());
        // Another fetch of the client may start now.
        self.arrived.notify_one();
    }

    /// Ends all waits. The clients get an error.
    pub(crate) fn close(&self) {
        let mut queues = self.queues.lock();
        queues.is_closed = true;
        queues.order.clear();
        queues.len = 0;
        let waiting = std::mem::take(&mut queues.by_client);
        drop(queues);
        self.arrived.notify_all();
        for fetch in waiting.into_values().flat_map(|own| own.waiting) {
            fetch.end.send(Err(FetchError::Closed));
        }
    }

    /// Number of fetches that wait.
    pub(crate) fn len(&self) -> usize {
        self.queues.lock().len
    }
}

impl Queues {
    /// Removes the next fetch that may start: the first one of the first client that is within its limits.
    fn next(&mut self, now: Instant) -> Next {
        let since_start = now - self.started;
        let mut earliest = Duration::MAX;
        for _ in 0..self.order.len() {
            let Some(client) = self.order.pop_front() else { break };
            let Some(own) = self.by_client.get_mut(&client) else { continue };
            let delay = own.delay(&self.limits, now, since_start);
            let fetch = if delay.is_zero() { own.waiting.pop_front() } else { None };
            if !own.waiting.is_empty() {
                self.order.push_back(client);
            }
            if let Some(fetch) = fetch {
                own.running += 1;
                self.len -= 1;
                return Next::Fetch(fetch);
            }
            earliest = earliest.min(delay);
        }
        if self.order.is_empty() { Next::Empty } else { Next::After(earliest) }
    }

    fn charge_calls(&mut self, client: ClientId, calls: u32, now: Instant) {
        let cost = Duration::from_secs(1).saturating_mul(calls) / self.limits.calls_per_s.max(1);
        // A closed queue has no clients, although their last fetches still run.
        if let Some(own) = self.by_client.get_mut(&client) {
            own.calls.take_up_to(cost, CALLS_DEBT_MAX, now - self.started);
        }
    }

    fn finish(&mut self, client: ClientId, now: Instant) {
        let since_start = now - self.started;
        if let Some(own) = self.by_client.get_mut(&client) {
            own.running -= 1;
        }
        if self.by_client.len() > self.prune_above {
            self.by_client.retain(|_, own| own.is_used(since_start));
            self.prune_above = CLIENTS_MIN.max(2 * self.by_client.len());
        }
    }
}

impl ClientQueue {
    /// Returns the time until the first fetch may start. It is zero also at its deadline, when it only gets its error,
    /// and once its client has left, when it only leaves the queue.
    fn delay(&self, limits: &ClientLimits, now: Instant, since_start: Duration) -> Duration {
        if self.waiting.front().is_some_and(|fetch| fetch.end.is_abandoned()) {
            return Duration::ZERO;
        }
        let deadline = self.waiting.front().map_or(now, |fetch| fetch.deadline);
        let until_deadline = deadline.saturating_duration_since(now);
        if self.running >= limits.running_max {
            return until_deadline;
        }
        // With less than a whole call left, the last call is charged as a debt.
        let until_call = self.calls.time_to_full(since_start).saturating_sub(CALLS_BURST);
        until_call.min(until_deadline)
    }

    fn is_used(&self, since_start: Duration) -> bool {
        !self.waiting.is_empty() || self.running > 0 || !self.calls.is_full(since_start)
    }
}

#[cfg(test)]
mod tests {
    use chain_solana::{Pending, pending};
    use solana_pubkey::Pubkey;

    use super::*;

    const GREEDY: ClientId = ClientId(1);
    const OTHER: ClientId = ClientId(2);
    /// Two calls a second, twenty at once, on two of the threads.
    const LIMITS: ClientLimits = ClientLimits { calls_per_s: 2, running_max: 2 };

    fn fetch(client: ClientId) -> (QueuedFetch, Pending<Fetched>) {
        let (result, reply) = pending();
        let keys = vec![Pubkey::new_from_array([7; 32])];
        let request = AccountsRequest { keys, ..AccountsRequest::default() };
        let deadline = now() + Duration::from_secs(1_000);
        (QueuedFetch { client, request, deadline, end: FetchReply::Reply(reply) }, result)
    }

    fn push_some(fetches: &FetchQueue, client: ClientId, count: usize) -> Vec<Pending<Fetched>> {
        let push_one = |_| {
            let (fetch, result) = fetch(client);
            fetches.push(fetch).expect("it has space");
            result
        };
        (0..count).map(push_one).collect()
    }

    /// The client of the next fetch that may start.
    fn next_client(fetches: &FetchQueue, now: Instant) -> Result<ClientId, Duration> {
        match fetches.queues.lock().next(now) {
            Next::Fetch(fetch) => Ok(fetch.client),
            Next::After(delay) => Err(delay),
            Next::Empty => Err(Duration::MAX),
        }
    }

    #[test]
    fn clients_are_served_round_robin_and_each_has_half() {
        let fetches = FetchQueue::new(LIMITS);
        let _waiting = push_some(&fetches, GREEDY, FETCHES_MAX / 2);
        let full = FetchError::TooMany { waiting: FETCHES_MAX / 2, limit: FETCHES_MAX };
        assert_eq!(fetches.push(fetch(GREEDY).0), Err(full));
        let _another = push_some(&fetches, OTHER, 1);
        let next = || fetches.pop().map(|fetch| fetch.client);
        assert_eq!([next(), next(), next()], [Some(GREEDY), Some(OTHER), Some(GREEDY)]);
        assert_eq!(fetches.len(), FETCHES_MAX / 2 - 2);
    }

    #[test]
    fn clients_with_many_fetches_leave_places_to_others() {
        let fetches = FetchQueue::new(LIMITS);
        let mut waiting = Vec::new();
        for (client, places) in [(GREEDY, 256), (OTHER, 128), (ClientId(3), 64), (ClientId(4), 32)]
        {
            waiting.extend(push_some(&fetches, client, places));
            assert!(fetches.push(fetch(client).0).is_err(), "{client:?} has its part");
        }
        // Each client may add one until the queue is full.
        for client in 0..32 {
            waiting.extend(push_some(&fetches, ClientId(100 + client), 1));
        }
        assert_eq!(fetches.len(), FETCHES_MAX);
        let full = FetchError::TooMany { waiting: FETCHES_MAX, limit: FETCHES_MAX };
        assert_eq!(fetches.push(fetch(ClientId(200)).0), Err(full));
    }

    #[test]
    fn a_fetch_whose_client_has_left_frees_its_place() {
        let fetches = FetchQueue::new(LIMITS);
        let start = now();
        let mut waiting = push_some(&fetches, GREEDY, 3);
        assert_eq!([(); 2].map(|()| next_client(&fetches, start)), [Ok(GREEDY); 2]);
        next_client(&fetches, start).expect_err("it has its two threads");
        waiting.pop();
        assert_eq!(next_client(&fetches, start), Ok(GREEDY));
        assert_eq!(fetches.len(), 0);
    }

    #[test]
    fn a_fetch_that_runs_while_the_queue_closes_ends() {
        let fetches = FetchQueue::new(LIMITS);
        let _waiting = push_some(&fetches, GREEDY, 1);
        let fetch = fetches.pop().expect("it is open");
        fetches.close();
        fetches.charge_call(fetch.client);
        fetches.finish(fetch.client);
        assert!(fetches.queues.lock().by_client.is_empty());
    }

    #[test]
    fn a_client_leaves_a_thread_to_the_others() {
        let fetches = FetchQueue::new(LIMITS);
        let _waiting = push_some(&fetches, GREEDY, 5);
        let start = now();
        assert_eq!([(); 2].map(|()| next_client(&fetches, start)), [Ok(GREEDY); 2]);
        let delay = next_client(&fetches, start).expect_err("it has its two threads");
        assert!(delay > Duration::from_secs(900), "until its deadline: {delay:?}");
        let _another = push_some(&fetches, OTHER, 1);
        assert_eq!(next_client(&fetches, start), Ok(OTHER));
        fetches.finish(GREEDY);
        assert_eq!(next_client(&fetches, start), Ok(GREEDY));
        // A fetch that is too late leaves the queue to get its error.
        assert_eq!(next_client(&fetches, start + Duration::from_secs(1_001)), Ok(GREEDY));
    }

    #[test]
    fn calls_beyond_the_rate_of_a_client_wait_and_those_of_another_do_not() {
        let fetches = FetchQueue::new(LIMITS);
        let start = fetches.queues.lock().started;
        let _waiting = push_some(&fetches, GREEDY, 2);
        fetches.queues.lock().charge_calls(GREEDY, 21, start);
        let half = Duration::from_millis(500);
        assert_eq!(next_client(&fetches, start), Err(half));
        let _another = push_some(&fetches, OTHER, 1);
        assert_eq!(next_client(&fetches, start), Ok(OTHER));
        assert_eq!(next_client(&fetches, start + half), Ok(GREEDY));
        // However many calls a fetch needed, its client is served again.
        fetches.queues.lock().charge_calls(GREEDY, 1_000_000, start);
        assert_eq!(next_client(&fetches, start), Err(CALLS_DEBT_MAX - CALLS_BURST));
    }

    #[test]
    fn clients_that_use_nothing_are_removed() {
        let fetches = FetchQueue::new(LIMITS);
        for client in 0..10 * CLIENTS_MIN as u128 {
            let (one, _result) = fetch(ClientId(client));
            fetches.push(one).expect("it has space");
            let next = fetches.pop().expect("it is open");
            fetches.finish(next.client);
        }
        assert!(fetches.queues.lock().by_client.len() <= CLIENTS_MIN + 1);
    }

    #[test]
    fn the_end_reaches_every_client() {
        let fetches = FetchQueue::new(LIMITS);
        let (first, result) = fetch(GREEDY);
        fetches.push(first).expect("it has space");
        fetches.close();
        assert_eq!(result.wait(), Some(Err(FetchError::Closed)));
        assert!(fetches.pop().is_none());
        assert_eq!(fetches.push(fetch(GREEDY).0), Err(FetchError::Closed));
    }
}
