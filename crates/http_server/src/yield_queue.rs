//! The connections that used up the budget of a poll ([`crate::poll_budget`]), in a fair order.
//!
//! In: connections that have more to do. Out: some of them at a time are woken, round robin by client, and first
//! in first out within a client. Between two rounds the runtime polls all other tasks that are ready and looks at
//! all sockets ([`YieldQueue::run`]). So a request that comes meanwhile waits for one round, and not for all that
//! is queued, however many connections have more to do.
//! Bounds: a connection is in the queue once. A round wakes [`PER_THREAD`] connections for each IO thread, which
//! share [`GRANT_UNITS`] of writing for each thread.
//! Cost: constant for each connection and round, under one lock that no other connection needs.

use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use foldhash::HashMap;
use futures_util::task::AtomicWaker;
use parking_lot::Mutex;
use pool::ClientId;
use tokio::sync::Notify;

use crate::http_metrics::{HttpCounters, HttpEvent};
use crate::poll_budget::{self, GRANT_UNITS, UNITS};

/// Connections that a round wakes for each IO thread: with [`UNITS`] each, some 200 microseconds.
const PER_THREAD: usize = GRANT_UNITS / UNITS;

/// A connection that is not in the queue, and has no grant.
const IDLE: usize = 0;
/// A connection that is in the queue.
const QUEUED: usize = 1;
// Any other state is a grant: the units that the connection may write in its next poll.

/// All connections that have more to do.
pub(crate) struct YieldQueue {
    waiting: Mutex<Waiting>,
    /// Notified when a connection enters the queue.
    entered: Notify,
    metrics: Arc<HttpCounters>,
}

#[derive(Default)]
struct Waiting {
    /// Never an empty list.
    by_client: HashMap<ClientId, VecDeque<Arc<State>>>,
    /// Each client of `by_client` once.
    clients: VecDeque<ClientId>,
}

/// One connection, as the queue knows it.
pub(crate) struct YieldSlot {
    queue: Arc<YieldQueue>,
    client: ClientId,
    state: Arc<State>,
}

struct State {
    /// Changes to and from [`QUEUED`] are made under the lock of the queue.
    now: AtomicUsize,
    waker: AtomicWaker,
}

impl YieldQueue {
    pub(crate) fn new(metrics: Arc<HttpCounters>) -> Self {
        Self { waiting: Mutex::default(), entered: Notify::new(), metrics }
    }

    /// Wakes queued connections, round by round, for as long as it is polled.
    pub(crate) async fn run(self: Arc<Self>, io_threads: usize) {
        loop {
            self.entered.notified().await;
            while self.wake_round(io_threads) {
                // Wakes this task once the runtime has looked at all sockets.
                tokio::task::yield_now().await;
            }
        }
    }

    /// Wakes the next connections; whether there were any.
    fn wake_round(&self, io_threads: usize) -> bool {
        let mut woken = Vec::with_capacity(PER_THREAD * io_threads);
        {
            let mut waiting = self.waiting.lock();
            while woken.len() < PER_THREAD * io_threads
                && let Some(state) = waiting.pop()
            {
                woken.push(state);
            }
            // A connection that is alone may write more at once.
            let each = (GRANT_UNITS * io_threads).checked_div(woken.len()).unwrap_or(UNITS);
            for state in &woken {
                state.now.store(each.clamp(UNITS, GRANT_UNITS), Ordering::Relaxed);
            }
        }
        self.metrics.add(HttpEvent::Resumed, woken.len() as u64);
        woken.iter().for_each(|state| state.waker.wake());
        !woken.is_empty()
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
        let state = State { now: AtomicUsize::new(IDLE), waker: AtomicWaker::new() };
        Self { queue: Arc::clone(queue), client, state: Arc::new(state) }
    }

    /// Ready if the current poll may begin another step. Else the connection is queued, and its task is woken
    /// when it may go on.
    pub(crate) fn poll_budget(&self, cx: &mut Context<'_>) -> Poll<()> {
        if poll_budget::is_spent() {
            return self.enqueue(cx);
        }
        self.take_grant();
        Poll::Ready(())
    }

    /// Ready if the queue granted the connection to write on. Else it is queued.
    pub(crate) fn poll_grant(&self, cx: &mut Context<'_>) -> Poll<()> {
        // A read of the same poll may have taken the grant.
        let is_granted = poll_budget::is_granted() || self.take_grant();
        if !is_granted || poll_budget::write_left() == 0 {
            return self.enqueue(cx);
        }
        Poll::Ready(())
    }

    /// Done when the current poll, or a later one, may begin another step.
    pub(crate) async fn budget(&self) {
        std::future::poll_fn(|cx| self.poll_budget(cx)).await;
    }

    /// Uses up the grant, if there is one, for the current poll.
    fn take_grant(&self) -> bool {
        let state = self.state.now.load(Ordering::Relaxed);
        // Only this task changes a grant to something else.
        if state == IDLE || state == QUEUED {
            return false;
        }
        self.state.now.store(IDLE, Ordering::Relaxed);
        poll_budget::grant(state);
        true
    }

    /// A grant that came while the current poll was running is dropped: the poll cannot use it.
    fn enqueue(&self, cx: &mut Context<'_>) -> Poll<()> {
        // Before the queue has it: from then on another thread may wake this waker.
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

    fn granted(slots: &[YieldSlot]) -> Vec<usize> {
        slots.iter().map(|slot| slot.state.now.load(Ordering::Relaxed)).collect()
    }

    #[test]
    fn a_client_with_one_connection_is_not_delayed_by_a_client_with_hundreds() {
        let queue = Arc::new(YieldQueue::new(Arc::new(HttpCounters::new())));
        let (many, one) = (slots(&queue, 1, 300), slots(&queue, 2, 1));
        enqueue(&many);
        enqueue(&one);
        assert!(queue.wake_round(1));
        assert_eq!(granted(&one), [UNITS]);
        assert_eq!(granted(&many).iter().filter(|state| **state == UNITS).count(), 3);
        let rounds = std::iter::from_fn(|| queue.wake_round(1).then_some(())).count();
        assert_eq!(rounds, 297_usize.div_ceil(PER_THREAD));
        assert!(granted(&many).iter().all(|state| *state >= UNITS));
        assert!(
            queue.waiting.lock().by_client.is_empty() && queue.waiting.lock().clients.is_empty()
        );
    }

    #[test]
    fn a_connection_that_is_alone_may_write_more() {
        let queue = Arc::new(YieldQueue::new(Arc::new(HttpCounters::new())));
        let one = slots(&queue, 1, 1);
        enqueue(&one);
        assert!(queue.wake_round(1));
        assert_eq!(granted(&one), [GRANT_UNITS]);
        let two = slots(&queue, 1, 2);
        enqueue(&two);
        assert!(queue.wake_round(1));
        assert_eq!(granted(&two), [GRANT_UNITS / 2; 2]);
    }

    #[tokio::test]
    async fn a_queued_task_is_woken_and_other_tasks_are_polled_between_its_steps() {
        use std::cell::Cell;
        use std::rc::Rc;

        let queue = Arc::new(YieldQueue::new(Arc::new(HttpCounters::new())));
        let steps = Rc::new(Cell::new(0));
        let local = tokio::task::LocalSet::new();
        let worker = {
            let (slot, steps) = (YieldSlot::new(&queue, ClientId(1)), Rc::clone(&steps));
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
            let pump = tokio::task::spawn_local(Arc::clone(&queue).run(1));
            let worker = tokio::task::spawn_local(worker);
            let (mut seen, mut polls) = (0, 0);
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
