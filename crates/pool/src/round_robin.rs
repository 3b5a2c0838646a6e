//! Whose turn it is among the clients of a class, and who of those that wait may begin.
//!
//! A client has one turn at a time, however many jobs it has; on it one of its jobs runs a slice: by turns one
//! that has begun and one that begins, so that neither kept ones nor a flood of short ones starve the other.
//! Bounds: at `active_max` active jobs only clients that have none active begin one, and once [`NEW_CLIENT_FACTOR`] times
//! as many clients have active jobs nobody does. Those that were parked and go on are let in past both.
//! Cost: logarithmic in the clients; a removal moves or looks through the jobs of its client.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::ClientId;
use crate::scheduler::TaskId;

/// How many clients may have active jobs, in `active_max`: beside 16 active heavy ones of one client 63 others begin
/// theirs at once.
const NEW_CLIENT_FACTOR: usize = 4;

pub(crate) struct RoundRobin {
    active_max: usize,
    /// Without turns all jobs are of one client, and those that have begun go first.
    alternates: bool,
    clients: HashMap<ClientId, Client>,
    /// By [`ClientState`]: clients that have something to do, by the number of their turn.
    queues: [BTreeMap<u64, ClientId>; 3],
    next_position: u64,
    waiting: usize,
    active: usize,
    /// That have active ones.
    active_clients: usize,
}

#[derive(Default)]
struct Client {
    waiting: VecDeque<TaskId>,
    ready: VecDeque<TaskId>,
    /// Ready and running.
    active: usize,
    /// Where in `queues` it is.
    queued: Option<(ClientState, u64)>,
    /// Its last turn was that of one that began.
    last_was_new: bool,
}

/// What a client could do on its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientState {
    /// Go on with a job.
    Ready,
    /// Begin its first.
    NewClient,
    /// Begin another: those that are active all run.
    More,
}

impl Client {
    fn state(&self) -> Option<ClientState> {
        match (self.ready.is_empty(), self.waiting.is_empty(), self.active) {
            (false, _, _) => Some(ClientState::Ready),
            (true, true, _) => None,
            (true, false, 0) => Some(ClientState::NewClient),
            (true, false, _) => Some(ClientState::More),
        }
    }
}

/// A job that is to run a slice.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NextTask {
    pub(crate) task: TaskId,
    pub(crate) is_new: bool,
}

impl RoundRobin {
    /// For at most `active_max` active jobs; without turns (`alternates`) all are to be of one client.
    pub(crate) fn new(active_max: usize, alternates: bool) -> Self {
        Self {
            active_max: active_max.max(1),
            alternates,
            clients: HashMap::new(),
            queues: Default::default(),
            next_position: 0,
            waiting: 0,
            active: 0,
            active_clients: 0,
        }
    }

    /// Whether nothing waits, is ready or runs.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting == 0 && self.active == 0
    }

    /// A job waits now.
    pub(crate) fn enqueue(&mut self, client: ClientId, job: TaskId) {
        self.waiting += 1;
        self.update_client(client, |of| of.waiting.push_back(job));
    }

    /// A job that ran goes on.
    pub(crate) fn requeue(&mut self, client: ClientId, job: TaskId) {
        self.update_client(client, |of| of.ready.push_back(job));
    }

    /// A job that was parked goes on.
    pub(crate) fn wake(&mut self, client: ClientId, job: TaskId) {
        self.active += 1;
        self.update_client(client, |of| {
            of.active += 1;
            of.ready.push_back(job);
        });
    }

    /// A job that ran is parked or over.
    pub(crate) fn park(&mut self, client: ClientId) {
        self.active -= 1;
        self.update_client(client, |of| of.active -= 1);
    }

    /// A job is over that waited.
    pub(crate) fn remove_waiting(&mut self, client: ClientId, job: TaskId) {
        self.waiting -= 1;
        self.update_client(client, |of| {
            // They arrived in the order of their numbers.
            if let Ok(at) = of.waiting.binary_search(&job) {
                of.waiting.remove(at);
            }
        });
    }

    /// A job is over that was ready.
    pub(crate) fn remove_ready(&mut self, client: ClientId, job: TaskId) {
        self.active -= 1;
        self.update_client(client, |of| {
            of.active -= 1;
            of.ready.retain(|other| *other != job);
        });
    }

    /// The job that [`Self::pop_next`] would give.
    pub(crate) fn peek_next(&self) -> Option<TaskId> {
        Some(self.next_task_of(self.clients.get(&self.next_client()?)?)?.task)
    }

    /// The job whose turn it is: it runs now, and its client is the last in turn.
    pub(crate) fn pop_next(&mut self) -> Option<NextTask> {
        let client = self.next_client()?;
        let turn = self.next_task_of(self.clients.get(&client)?)?;
        self.active += usize::from(turn.is_new);
        self.waiting -= usize::from(turn.is_new);
        let queues = &mut self.queues;
        let of = self.clients.get_mut(&client)?;
        if let Some((standing, turn)) = of.queued.take() {
            queues[standing as usize].remove(&turn);
        }
        self.update_client(client, |of| {
            of.last_was_new = turn.is_new;
            if turn.is_new {
                of.active += 1;
                of.waiting.pop_front();
            } else {
                of.ready.pop_front();
            }
        });
        Some(turn)
    }

    fn next_client(&self) -> Option<ClientId> {
        let may = [
            (ClientState::Ready, true),
            (
                ClientState::NewClient,
                self.active_clients < self.active_max.saturating_mul(NEW_CLIENT_FACTOR),
            ),
            (ClientState::More, self.active < self.active_max),
        ];
        let queues = may.into_iter().filter(|(_, may)| *may).map(|(standing, _)| standing);
        let firsts = queues.filter_map(|standing| self.queues[standing as usize].iter().next());
        firsts.min().map(|(_, client)| *client)
    }

    fn next_task_of(&self, of: &Client) -> Option<NextTask> {
        let begins = match (of.ready.is_empty(), of.waiting.is_empty()) {
            (true, _) => true,
            (false, true) => false,
            (false, false) => self.alternates && !of.last_was_new && self.active < self.active_max,
        };
        let job = if begins { of.waiting.front() } else { of.ready.front() };
        Some(NextTask { task: *job?, is_new: begins })
    }

    /// Changes what a client has, and its standing with it.
    fn update_client(&mut self, client: ClientId, change: impl FnOnce(&mut Client)) {
        let of = self.clients.entry(client).or_default();
        let was_active = of.active > 0;
        change(of);
        self.active_clients -= usize::from(was_active);
        self.active_clients += usize::from(of.active > 0);
        let (before, now) = (of.queued, of.state());
        if before.map(|(standing, _)| standing) != now {
            if let Some((standing, turn)) = before {
                self.queues[standing as usize].remove(&turn);
            }
            of.queued = now.map(|standing| {
                // Who is in turn already stays where he is.
                let turn = before.map_or(self.next_position, |(_, turn)| turn);
                self.next_position += u64::from(before.is_none());
                self.queues[standing as usize].insert(turn, client);
                (standing, turn)
            });
        }
        if of.active == 0 && of.queued.is_none() {
            self.clients.remove(&client);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_robin(active_max: usize, jobs: &[(u128, u64)]) -> RoundRobin {
        let mut turns = RoundRobin::new(active_max, true);
        for (client, job) in jobs {
            turns.enqueue(ClientId(*client), TaskId(*job));
        }
        turns
    }

    fn pop_all(turns: &mut RoundRobin) -> Vec<u64> {
        std::iter::from_fn(|| {
            let first = turns.peek_next();
            let turn = turns.pop_next();
            assert_eq!(turn.as_ref().map(|turn| turn.task), first);
            turn.map(|turn| turn.task.0)
        })
        .collect()
    }

    #[test]
    fn clients_alternate_however_many_tasks_each_has() {
        let mut turns = round_robin(9, &[(1, 1), (1, 2), (1, 3), (2, 4), (3, 5), (3, 6)]);
        turns.remove_waiting(ClientId(3), TaskId(5));
        assert_eq!(pop_all(&mut turns), [1, 4, 6, 2, 3]);
        for client in [1, 1, 1, 2, 3] {
            turns.park(ClientId(client));
        }
        assert!(turns.is_idle() && turns.clients.is_empty());
        assert!(turns.queues.iter().all(BTreeMap::is_empty) && turns.active_clients == 0);
    }

    #[test]
    fn a_client_without_active_tasks_starts_one_past_the_bound_up_to_the_factor() {
        let jobs: Vec<_> =
            (0..20).flat_map(|client| [(client, client as u64), (client, 99)]).collect();
        let mut turns = round_robin(2, &jobs);
        assert_eq!(pop_all(&mut turns), [0, 1, 2, 3, 4, 5, 6, 7]);
        turns.park(ClientId(0));
        assert_eq!(pop_all(&mut turns), [8], "not the next of one that has others active");
        turns.park(ClientId(7));
        turns.requeue(ClientId(3), TaskId(3));
        turns.requeue(ClientId(4), TaskId(4));
        assert_eq!(pop_all(&mut turns), [9, 3, 4]);
    }

    #[test]
    fn a_client_whose_tasks_all_wake_at_once_keeps_no_new_client_out() {
        let mut turns = round_robin(2, &[]);
        for job in 0..100 {
            turns.wake(ClientId(1), TaskId(job));
        }
        for client in 2..20 {
            turns.enqueue(ClientId(client), TaskId(client as u64 * 100));
        }
        let order = pop_all(&mut turns);
        let newcomers: Vec<u64> = order.iter().copied().filter(|job| *job >= 100).collect();
        assert_eq!(order.len(), 100 + 7);
        assert_eq!(newcomers, [200, 300, 400, 500, 600, 700, 800], "8 clients, and one was there");
        assert_eq!(order[1], 200);
    }

    #[test]
    fn started_and_new_tasks_of_a_client_alternate() {
        let mut turns = round_robin(9, &[(1, 1), (1, 2), (1, 3), (1, 4)]);
        let mut order = Vec::new();
        for _ in 0..8 {
            let turn = turns.pop_next().expect("there is one");
            order.push(turn.task.0);
            turns.requeue(ClientId(1), turn.task);
        }
        assert_eq!(order, [1, 1, 2, 1, 3, 2, 4, 1]);
    }
}
