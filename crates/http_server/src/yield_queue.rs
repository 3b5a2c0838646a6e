//! Who may write much at once: turns, and the connections that wait for one in a fair order.
//!
//! In: connections that used up the budget of a poll ([`crate::poll_budget`]), or have a large response to write. Out:
//! turns. A turn lets one poll write [`poll_budget::GRANT_UNITS`]. While no connection waits, a connection takes its
//! turn at once. Otherwise it is queued, and turns go round robin by client, and first in first out within a client.
//! Between two rounds the runtime polls all other tasks that are ready and looks at all sockets ([`YieldQueue::run`]).
//! So a request that comes meanwhile waits for one round, and not for all that is queued, however many connections
//! have more to do.
//! Bounds: a connection is in the queue once. A round has [`TURNS_PER_THREAD`] turns for each IO thread.
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

/// Turns of a round for each IO thread: less than a millisecond.
pub(crate) const TURNS_PER_THREAD: usize = 4;

/// A connection that is not in the queue, and has no turn.
const IDLE: u8 = 0;
/// A connection that is in the queue.
const QUEUED: u8 = 1;
/// A connection whose next poll has a turn.
const HAS_TURN: u8 = 2;

/// All connections that have more to do, and the turns of the current round.
pub(crate) struct YieldQueue {
    waiting: Mutex<Waiting>,
    turns_per_round: usize,
    /// Notified when a connection enters the queue or takes a turn.
    entered: Notify,
    metrics: Arc<HttpCounters>,
}

#[derive(Default)]
struct Waiting {
    /// Never an empty list.
    by_client: HashMap<ClientId, VecDeque<Arc<State>>>,
    /// Each client of `by_client` once.
    clients: VecDeque<ClientId>,
    /// Turns of the current round that are not taken.
    turns: usize,
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
        let turns_per_round = TURNS_PER_THREAD * io_threads;
        let waiting = Waiting { turns: turns_per_round, ..Waiting::default() };
        Self { waiting: Mutex::new(waiting), turns_per_round, entered: Notify::new(), metrics }
    }

    /// Begins round after round for as long as it is polled.
    pub(crate) async fn run(self: Arc<Self>) {
        loop {
            self.entered.notified().await;
            loop {
                // Wakes this task once the runtime has looked at all sockets.
                tokio::task::yield_now().await;
                if !self.begin_round() {
                    break;
                }
            }
        }
    }

    /// Gives the turns of a new round to the connections that wait; whether there were any.
    fn begin_round(&self) -> bool {
        let mut woken = Vec::new();
        {
            let mut waiting = self.waiting.lock();
            while woken.len() < self.turns_per_round
                && let Some(state) = waiting.pop()
            {
                state.now.store(HAS_TURN, Ordering::Relaxed);
                woken.push(state);
            }
            waiting.turns = self.turns_per_round - woken.len();
        }
        self.metrics.add(HttpEvent::Resumed, woken.len() as u64);
        woken.iter().for_each(|state| state.waker.wake());
        !woken.is_empty()
    }

    /// Takes a turn for the current poll, if one is left and no connection waits.
    fn take_turn(&self) -> bool {
        let mut waiting = self.waiting.lock();
        if waiting.turns == 0 || !waiting.clients.is_empty() || !poll_budget::grant() {
            return false;
        }
        waiting.turns -= 1;
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

    /// Ready if the current poll may begin another step. Else the connection is queued, and its task is woken
    /// when it may go on.
    pub(crate) fn poll_budget(&self, cx: &mut Context<'_>) -> Poll<()> {
        if poll_budget::is_spent() {
            return self.enqueue(cx);
        }
        self.use_turn();
        Poll::Ready(())
    }

    /// Ready if the current poll may write `bytes` bytes, or as many as a turn allows. Else the connection is queued.
    /// With `needs_turn` it may write only in a turn.
    pub(crate) fn poll_write(
        &self,
        cx: &mut Context<'_>,
        bytes: usize,
        needs_turn: bool,
    ) -> Poll<()> {
        if poll_budget::is_spent() {
            return self.enqueue(cx);
        }
        if !needs_turn && poll_budget::write_left() >= bytes {
            return Poll::Ready(());
        }
        if poll_budget::is_granted() {
            // What is left of a turn is used if it is enough.
            if poll_budget::write_left() >= bytes.min(GRANT_UNITS) {
                return Poll::Ready(());
            }
        } else if self.use_turn() || self.queue.take_turn() {
            return Poll::Ready(());
        }
        self.enqueue(cx)
    }

    /// Done when the current poll, or a later one, may begin another step.
    pub(crate) async fn budget(&self) {
        std::future::poll_fn(|cx| self.poll_budget(cx)).await;
    }

    /// Uses the connection's turn, if it has one, for the current poll. A poll that has used a turn leaves the next one
    /// to the next poll.
    fn use_turn(&self) -> bool {
        // Only this task changes `HAS_TURN` to something else.
        if self.state.now.load(Ordering::Relaxed) != HAS_TURN || !poll_budget::grant() {
            return false;
        }
        self.state.now.store(IDLE, Ordering::Relaxed);
        true
    }

    /// A turn that came while the current poll was running is dropped: the poll cannot use it.
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

    fn turns(slots: &[YieldSlot]) -> usize {
        let has_turn = |slot: &&YieldSlot| slot.state.now.load(Ordering::Relaxed) == HAS_TURN;
        slots.iter().filter(has_turn).count()
    }

    #[test]
    fn a_client_with_one_connection_is_not_delayed_by_a_client_with_hundreds() {
        let queue = queue();
        let many = slots(&queue, 1, 300);
        let one = slots(&queue, 2, 1);
        enqueue(&many);
        enqueue(&one);
        assert!(queue.begin_round());
        assert_eq!((turns(&one), turns(&many)), (1, 3));
        let rounds = std::iter::from_fn(|| queue.begin_round().then_some(())).count();
        assert_eq!(rounds, 297_usize.div_ceil(TURNS_PER_THREAD));
        assert_eq!(turns(&many), 300);
        assert!(
            queue.waiting.lock().by_client.is_empty() && queue.waiting.lock().clients.is_empty()
        );
    }

    #[test]
    fn a_turn_is_taken_at_once_while_one_is_left_and_no_connection_waits() {
        let queue = queue();
        for _ in 0..2 {
            (0..TURNS_PER_THREAD).for_each(|_| assert!(queue.take_turn()));
            assert!(!queue.take_turn(), "the round has no turn left");
            assert!(!queue.begin_round(), "no connection waits");
        }
        let one = slots(&queue, 1, 1);
        enqueue(&one);
        assert!(!queue.take_turn(), "another connection waits");
        assert!(queue.begin_round());
        // The connection that waited has one turn of this round.
        (1..TURNS_PER_THREAD).for_each(|_| assert!(queue.take_turn()));
        assert!(!queue.take_turn());
    }

    #[test]
    fn a_large_write_takes_a_turn_and_a_small_one_takes_none() {
        let queue = queue();
        let slots = slots(&queue, 1, TURNS_PER_THREAD + 2);
        let poll_write = |slot: &YieldSlot, bytes, needs_turn| {
            let mut task = poll_budget::Budgeted::new(std::future::poll_fn(|cx| {
                let polled = slot.poll_write(cx, bytes, needs_turn);
                Poll::Ready((polled.is_ready(), poll_budget::write_left()))
            }));
            let mut cx = Context::from_waker(std::task::Waker::noop());
            match std::pin::Pin::new(&mut task).poll(&mut cx) {
                Poll::Ready(state) => state,
                Poll::Pending => unreachable!("it is ready at once"),
            }
        };
        let large = UNITS + 1;
        let with_turn = UNITS + GRANT_UNITS;
        for slot in &slots[2..] {
            assert_eq!(poll_write(slot, large, false), (true, with_turn));
        }
        assert_eq!(poll_write(&slots[0], UNITS, false), (true, UNITS));
        assert_eq!(poll_write(&slots[0], large, false), (false, UNITS));
        assert_eq!(poll_write(&slots[1], 1, true), (false, UNITS));
        assert!(queue.begin_round());
        assert_eq!(poll_write(&slots[0], 100 * GRANT_UNITS, false), (true, with_turn));
        assert_eq!(poll_write(&slots[1], 1, true), (true, with_turn));
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
