//! Schedules large writes fairly: a connection that has used up its poll budget waits for a write grant.
//!
//! In: connections that used up the budget of a poll ([`crate::poll_budget`]), or have a large response to write. Out:
//! grants. A grant lets one poll write [`poll_budget::GRANT_UNITS`]. While no connection waits, a connection takes its
//! grant at once. Otherwise it is queued. Grants go round robin by client, and first in, first out within a client.
//! Between two rounds the runtime polls all other tasks that are ready and polls all sockets ([`YieldQueue::run`]).
//! So a request that arrives meanwhile waits for one round and not for the whole queue, however many connections are
//! queued. Servers with one context share a queue, so a client waits once for all of their ports. One of the servers
//! runs it, and the next one if that server ends.
//! Bounds: a connection is in the queue once. A round has [`GRANTS_PER_THREAD`] grants for each IO thread.
//! Cost: constant for each connection and round, under one lock that only large writes need.

use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};

use clients::ClientId;
use foldhash::HashMap;
use futures_util::task::AtomicWaker;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::http_metrics::{HttpCounters, HttpEvent};
use crate::poll_budget::{self, GRANT_UNITS};

/// Grants of a round for each IO thread. Their writes take less than a millisecond.
pub(crate) const GRANTS_PER_THREAD: usize = 4;

/// The connection is not queued and has no grant.
const IDLE: u8 = 0;
/// The connection is queued.
const QUEUED: u8 = 1;
/// The next poll of the connection has a grant.
const GRANTED: u8 = 2;

/// The queued connections and the grants of the current round.
pub(crate) struct YieldQueue {
    waiting: Mutex<Waiting>,
    grants_per_round: usize,
    /// Notified when a connection enters the queue or takes a grant.
    entered: Notify,
    /// Locked by the server that starts the rounds.
    running: tokio::sync::Mutex<()>,
    metrics: Arc<HttpCounters>,
}

#[derive(Default)]
struct Waiting {
    /// Never an empty list.
    by_client: HashMap<ClientId, VecDeque<Arc<State>>>,
    /// Each client of `by_client` once.
    clients: VecDeque<ClientId>,
    /// Grants of the current round that are left.
    grants: usize,
}

/// One connection, as the queue knows it.
pub(crate) struct YieldSlot {
    queue: Arc<YieldQueue>,
    client: ClientId,
    state: Arc<State>,
}

struct State {
    /// Changes to and from [`QUEUED`] are made under the lock of the queue.
    now: AtomicU8,
    waker: AtomicWaker,
}

impl YieldQueue {
    pub(crate) fn new(metrics: Arc<HttpCounters>, io_threads: usize) -> Self {
        let grants_per_round = GRANTS_PER_THREAD * io_threads;
        let waiting = Waiting { grants: grants_per_round, ..Waiting::default() };
        Self {
            waiting: Mutex::new(waiting),
            grants_per_round,
            entered: Notify::new(),
            running: tokio::sync::Mutex::default(),
            metrics,
        }
    }

    /// Starts rounds while connections are queued, for as long as it is polled. Waits first until no other server runs
    /// the queue.
    pub(crate) async fn run(self: Arc<Self>) {
        let _running = self.running.lock().await;
        loop {
            // The server that ran the queue before may have ended while connections were queued.
            loop {
                // The runtime wakes this task after it has polled all sockets.
                tokio::task::yield_now().await;
                if !self.begin_round() {
                    break;
                }
            }
            self.entered.notified().await;
        }
    }

    /// Starts a round: grants writes to the queued connections. Returns whether there were any.
    fn begin_round(&self) -> bool {
        let mut woken = Vec::new();
        {
            let mut waiting = self.waiting.lock();
            while woken.len() < self.grants_per_round
                && let Some(state) = waiting.pop()
            {
                state.now.store(GRANTED, Ordering::Relaxed);
                woken.push(state);
            }
            waiting.grants = self.grants_per_round - woken.len();
        }
        self.metrics.add(HttpEvent::Resumed, woken.len() as u64);
        woken.iter().for_each(|state| state.waker.wake());
        !woken.is_empty()
    }

    /// Takes a grant for the current poll, if one is left and no connection waits.
    fn take_grant(&self) -> bool {
        let mut waiting = self.waiting.lock();
        if waiting.grants == 0 || !waiting.clients.is_empty() || !poll_budget::grant() {
            return false;
        }
        waiting.grants -= 1;
        drop(waiting);
        // For the next round.
        self.entered.notify_one();
        true
    }
}

impl Waiting {
    fn push(&mut self, client: ClientId, state: Arc<State>) {
        match self.by_client.entry(client) {
            Entry::Occupied(mut queue) => queue.get_mut().push_back(state),
            Entry::Vacant(queue) => {
                queue.insert(VecDeque::from([state]));
                self.clients.push_back(client);
            }
        }
    }

    fn pop(&mut self) -> Option<Arc<State>> {
        let client = self.clients.pop_front()?;
        let queue = self.by_client.get_mut(&client)?;
        let state = queue.pop_front();
        if queue.is_empty() {
            self.by_client.remove(&client);
        } else {
            self.clients.push_back(client);
        }
        state
    }
}

impl YieldSlot {
    pub(crate) fn new(queue: &Arc<YieldQueue>, client: ClientId) -> Self {
        let state = State { now: AtomicU8::new(IDLE), waker: AtomicWaker::new() };
        Self { queue: Arc::clone(queue), client, state: Arc::new(state) }
    }

    /// Ready if the current poll may start another step. Otherwise it queues the connection, whose task is woken when
    /// it may continue.
    pub(crate) fn poll_budget(&self, cx: &mut Context<'_>) -> Poll<()> {
        if poll_budget::is_spent() {
            return self.enqueue(cx);
        }
        self.use_grant();
        Poll::Ready(())
    }

    /// Ready if the current poll may write `bytes` bytes, or as many as a grant allows. Otherwise it queues the
    /// connection. With `needs_grant` it may write only with a grant.
    pub(crate) fn poll_write(
        &self,
        cx: &mut Context<'_>,
        bytes: usize,
        needs_grant: bool,
    ) -> Poll<()> {
        if poll_budget::is_spent() {
            return self.enqueue(cx);
        }
        if !needs_grant && poll_budget::write_left() >= bytes {
            return Poll::Ready(());
        }
        if poll_budget::is_granted() {
            // The rest of a grant is used if it is enough.
            if poll_budget::write_left() >= bytes.min(GRANT_UNITS) {
                return Poll::Ready(());
            }
        } else if self.use_grant() || self.queue.take_grant() {
            return Poll::Ready(());
        }
        self.enqueue(cx)
    }

    /// Waits until the current poll, or a later one, may start another step.
    pub(crate) async fn budget(&self) {
        std::future::poll_fn(|cx| self.poll_budget(cx)).await;
    }

    /// Uses the connection's grant, if it has one, for the current poll. A poll that has used a grant leaves the next
    /// grant to the next poll.
    fn use_grant(&self) -> bool {
        // Only this task changes `GRANTED` to something else.
        if self.state.now.load(Ordering::Relaxed) != GRANTED || !poll_budget::grant() {
            return false;
        }
        self.state.now.store(IDLE, Ordering::Relaxed);
        true
    }

    /// Queues the connection. A grant that arrived during the current poll is dropped, because the poll cannot use it.
    fn enqueue(&self, cx: &mut Context<'_>) -> Poll<()> {
        // Registered first: another thread may wake this waker as soon as the connection is queued.
        self.state.waker.register(cx.waker());
        let mut waiting = self.queue.waiting.lock();
        if self.state.now.swap(QUEUED, Ordering::Relaxed) == QUEUED {
            return Poll::Pending;
        }
        waiting.push(self.client, Arc::clone(&self.state));
        drop(waiting);
        self.queue.metrics.record(HttpEvent::Yielded);
        self.queue.entered.notify_one();
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poll_budget::UNITS;

    fn slots(queue: &Arc<YieldQueue>, client: u128, count: usize) -> Vec<YieldSlot> {
        (0..count).map(|_| YieldSlot::new(queue, ClientId(client))).collect()
    }

    fn enqueue(slots: &[YieldSlot]) {
        let mut cx = Context::from_waker(std::task::Waker::noop());
        // Twice: a connection is in the queue once.
        for slot in slots.iter().chain(slots) {
            assert!(slot.enqueue(&mut cx).is_pending());
        }
    }

    fn queue() -> Arc<YieldQueue> {
        Arc::new(YieldQueue::new(Arc::new(HttpCounters::new()), 1))
    }

    fn count_grants(slots: &[YieldSlot]) -> usize {
        let has_grant = |slot: &&YieldSlot| slot.state.now.load(Ordering::Relaxed) == GRANTED;
        slots.iter().filter(has_grant).count()
    }

    #[test]
    fn a_client_with_one_connection_is_not_delayed_by_a_client_with_hundreds() {
        let queue = queue();
        let many = slots(&queue, 1, 300);
        let one = slots(&queue, 2, 1);
        enqueue(&many);
        enqueue(&one);
        assert!(queue.begin_round());
        assert_eq!((count_grants(&one), count_grants(&many)), (1, 3));
        let rounds = std::iter::from_fn(|| queue.begin_round().then_some(())).count();
        assert_eq!(rounds, 297_usize.div_ceil(GRANTS_PER_THREAD));
        assert_eq!(count_grants(&many), 300);
        assert!(
            queue.waiting.lock().by_client.is_empty() && queue.waiting.lock().clients.is_empty()
        );
    }

    #[test]
    fn a_grant_is_taken_at_once_while_one_is_left_and_no_connection_waits() {
        let queue = queue();
        for _ in 0..2 {
            (0..GRANTS_PER_THREAD).for_each(|_| assert!(queue.take_grant()));
            assert!(!queue.take_grant(), "the round has no grant left");
            assert!(!queue.begin_round(), "no connection waits");
        }
        let one = slots(&queue, 1, 1);
        enqueue(&one);
        assert!(!queue.take_grant(), "another connection waits");
        assert!(queue.begin_round());
        // The connection that waited has one grant of this round.
        (1..GRANTS_PER_THREAD).for_each(|_| assert!(queue.take_grant()));
        assert!(!queue.take_grant());
    }

    #[test]
    fn a_large_write_takes_a_grant_and_a_small_one_takes_none() {
        let queue = queue();
        let slots = slots(&queue, 1, GRANTS_PER_THREAD + 2);
        let poll_write = |slot: &YieldSlot, bytes, needs_grant| {
            let mut task = poll_budget::Budgeted::new(std::future::poll_fn(|cx| {
                let polled = slot.poll_write(cx, bytes, needs_grant);
                Poll::Ready((polled.is_ready(), poll_budget::write_left()))
            }));
            let mut cx = Context::from_waker(std::task::Waker::noop());
            match std::pin::Pin::new(&mut task).poll(&mut cx) {
                Poll::Ready(state) => state,
                Poll::Pending => unreachable!("it is ready at once"),
            }
        };
        let large = UNITS + 1;
        let with_grant = UNITS + GRANT_UNITS;
        for slot in &slots[2..] {
            assert_eq!(poll_write(slot, large, false), (true, with_grant));
        }
        assert_eq!(poll_write(&slots[0], UNITS, false), (true, UNITS));
        assert_eq!(poll_write(&slots[0], large, false), (false, UNITS));
        assert_eq!(poll_write(&slots[1], 1, true), (false, UNITS));
        assert!(queue.begin_round());
        assert_eq!(poll_write(&slots[0], 100 * GRANT_UNITS, false), (true, with_grant));
        assert_eq!(poll_write(&slots[1], 1, true), (true, with_grant));
    }

    #[tokio::test]
    async fn servers_with_one_queue_start_one_round_at_a_time() {
        let queue = queue();
        let runners: Vec<_> = (0..3).map(|_| tokio::spawn(Arc::clone(&queue).run())).collect();
        // All of them wait.
        for _ in 0..3 {
            tokio::task::yield_now().await;
        }
        let queued = slots(&queue, 1, 100 * GRANTS_PER_THREAD);
        enqueue(&queued);
        let mut passes = 0;
        while count_grants(&queued) < queued.len() {
            let rounds = count_grants(&queued) / GRANTS_PER_THREAD;
            assert!(rounds <= passes + 2, "{rounds} rounds in {passes} passes of the runtime");
            passes += 1;
            assert!(passes < 10_000, "no other server has taken over");
            if passes == 10 {
                runners[0].abort();
            }
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_queued_task_is_woken_and_other_tasks_are_polled_between_its_steps() {
        use std::cell::Cell;
        use std::rc::Rc;

        let queue = queue();
        let steps = Rc::new(Cell::new(0));
        let local = tokio::task::LocalSet::new();
        let worker = {
            let slot = YieldSlot::new(&queue, ClientId(1));
            let steps = Rc::clone(&steps);
            poll_budget::Budgeted::new(async move {
                for _ in 0..100 {
                    slot.budget().await;
                    poll_budget::charge(UNITS / 2);
                    steps.set(steps.get() + 1);
                }
            })
        };
        let taken = Rc::clone(&steps);
        let running = local.run_until(async move {
            let pump = tokio::task::spawn_local(Arc::clone(&queue).run());
            let worker = tokio::task::spawn_local(worker);
            let mut seen = 0;
            let mut polls = 0;
            while !worker.is_finished() {
                polls += 1;
                // Two halves of a budget are a poll, and there is about one poll in a round.
                assert!(taken.get() - seen <= 8, "{} steps", taken.get() - seen);
                seen = taken.get();
                tokio::task::yield_now().await;
            }
            assert!(polls >= 10, "{polls}");
            pump.abort();
        });
        tokio::time::timeout(std::time::Duration::from_secs(30), running).await.expect("it ends");
        assert_eq!(steps.get(), 100);
    }
}
