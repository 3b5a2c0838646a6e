//! The order of the clients of a class, and which queued tasks may start.
//!
//! Each client has one position in the order, however many tasks it has. When it is next, one of its tasks runs for
//! a time slice: alternately one that has started and a new one, so that neither long tasks nor a flood of short ones
//! starve the other.
//! Bounds: at `active_max` active tasks only clients without an active task start one. Once [`NEW_CLIENT_FACTOR`] times
//! as many clients have active tasks, no client starts one. Blocked tasks that are woken are exempt from both bounds.
//! Cost: logarithmic in the clients; a removal moves or scans the tasks of its client.

use std::collections::{BTreeMap, HashMap, VecDeque};

use clients::ClientId;

use crate::task_id::TaskId;

/// Maximum clients with active tasks, in multiples of `active_max`: while one client has 16 active heavy tasks, 63
/// others can start theirs at once.
const NEW_CLIENT_FACTOR: usize = 4;

pub(crate) struct RoundRobin {
    active_max: usize,
    /// If not set, all tasks belong to one client, and started ones go first.
    alternates: bool,
    clients: HashMap<ClientId, Client>,
    /// By [`ClientState`]: clients that have a task to run, by position.
    queues: [BTreeMap<u64, ClientId>; 3],
    next_position: u64,
    waiting: usize,
    active: usize,
    /// Clients that have active tasks.
    active_clients: usize,
}

#[derive(Default)]
struct Client {
    waiting: VecDeque<TaskId>,
    ready: VecDeque<TaskId>,
    /// Ready and running tasks.
    active: usize,
    /// Its queue and position.
    queued: Option<(ClientState, u64)>,
    /// Whether its last task was a new one.
    last_was_new: bool,
}

/// The next action that is open to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientState {
    /// Resume a task.
    Ready,
    /// Start its first task.
    NewClient,
    /// Start another task: all active ones are running.
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

/// The task that runs the next time slice.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NextTask {
    pub(crate) task: TaskId,
    pub(crate) is_new: bool,
}

impl RoundRobin {
    /// For at most `active_max` active tasks. Without `alternates` all tasks must belong to one client.
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

    /// Whether no task is queued, ready or running.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting == 0 && self.active == 0
    }

    /// Adds a new task.
    pub(crate) fn enqueue(&mut self, client: ClientId, task: TaskId) {
        self.waiting += 1;
        self.update_client(client, |entry| entry.waiting.push_back(task));
    }

    /// A task that ran is ready again.
    pub(crate) fn requeue(&mut self, client: ClientId, task: TaskId) {
        self.update_client(client, |entry| entry.ready.push_back(task));
    }

    /// A blocked task is ready again.
    pub(crate) fn wake(&mut self, client: ClientId, task: TaskId) {
        self.active += 1;
        self.update_client(client, |entry| {
            entry.active += 1;
            entry.ready.push_back(task);
        });
    }

    /// A task that ran is blocked or has ended.
    pub(crate) fn park(&mut self, client: ClientId) {
        self.active -= 1;
        self.update_client(client, |entry| entry.active -= 1);
    }

    /// A queued task has ended.
    pub(crate) fn remove_waiting(&mut self, client: ClientId, task: TaskId) {
        self.waiting -= 1;
        self.update_client(client, |entry| {
            // Tasks arrive in the order of their ids.
            if let Ok(at) = entry.waiting.binary_search(&task) {
                entry.waiting.remove(at);
            }
        });
    }

    pub(crate) fn remove_ready(&mut self, client: ClientId, task: TaskId) {
        self.active -= 1;
        self.update_client(client, |entry| {
            entry.active -= 1;
            entry.ready.retain(|other| *other != task);
        });
    }

    /// The task that [`Self::pop_next`] would return.
    pub(crate) fn peek_next(&self) -> Option<TaskId> {
        Some(self.next_task_of(self.clients.get(&self.next_client()?)?)?.task)
    }

    /// Takes the next task. It runs now, and its client goes to the end of the order.
    pub(crate) fn pop_next(&mut self) -> Option<NextTask> {
        let client = self.next_client()?;
        let next = self.next_task_of(self.clients.get(&client)?)?;
        self.active += usize::from(next.is_new);
        self.waiting -= usize::from(next.is_new);
        let queues = &mut self.queues;
        let entry = self.clients.get_mut(&client)?;
        if let Some((state, position)) = entry.queued.take() {
            queues[state as usize].remove(&position);
        }
        self.update_client(client, |entry| {
            entry.last_was_new = next.is_new;
            if next.is_new {
                entry.active += 1;
                entry.waiting.pop_front();
            } else {
                entry.ready.pop_front();
            }
        });
        Some(next)
    }

    fn next_client(&self) -> Option<ClientId> {
        let allowed = [
            (ClientState::Ready, true),
            (
                ClientState::NewClient,
                self.active_clients < self.active_max.saturating_mul(NEW_CLIENT_FACTOR),
            ),
            (ClientState::More, self.active < self.active_max),
        ];
        let queues = allowed.into_iter().filter(|(_, allowed)| *allowed).map(|(state, _)| state);
        let firsts = queues.filter_map(|state| self.queues[state as usize].iter().next());
        firsts.min().map(|(_, client)| *client)
    }

    fn next_task_of(&self, entry: &Client) -> Option<NextTask> {
        let is_new = match (entry.ready.is_empty(), entry.waiting.is_empty()) {
            (true, _) => true,
            (false, true) => false,
            (false, false) => {
                self.alternates && !entry.last_was_new && self.active < self.active_max
            }
        };
        let task = if is_new { entry.waiting.front() } else { entry.ready.front() };
        Some(NextTask { task: *task?, is_new })
    }

    /// Changes a client's tasks, and its state and queue accordingly.
    fn update_client(&mut self, client: ClientId, change: impl FnOnce(&mut Client)) {
        let entry = self.clients.entry(client).or_default();
        let was_active = entry.active > 0;
        change(entry);
        self.active_clients -= usize::from(was_active);
        self.active_clients += usize::from(entry.active > 0);
        let before = entry.queued;
        let now = entry.state();
        if before.map(|(state, _)| state) != now {
            if let Some((state, position)) = before {
                self.queues[state as usize].remove(&position);
            }
            entry.queued = now.map(|state| {
                // The position of a queued client does not change.
                let position = before.map_or(self.next_position, |(_, position)| position);
                self.next_position += u64::from(before.is_none());
                self.queues[state as usize].insert(position, client);
                (state, position)
            });
        }
        if entry.active == 0 && entry.queued.is_none() {
            self.clients.remove(&client);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_robin(active_max: usize, tasks: &[(u128, u64)]) -> RoundRobin {
        let mut round_robin = RoundRobin::new(active_max, true);
        for (client, task) in tasks {
            round_robin.enqueue(ClientId(*client), TaskId(*task));
        }
        round_robin
    }

    fn pop_all(round_robin: &mut RoundRobin) -> Vec<u64> {
        std::iter::from_fn(|| {
            let first = round_robin.peek_next();
            let next = round_robin.pop_next();
            assert_eq!(next.as_ref().map(|next| next.task), first);
            next.map(|next| next.task.0)
        })
        .collect()
    }

    #[test]
    fn clients_alternate_however_many_tasks_each_has() {
        let mut round_robin = round_robin(9, &[(1, 1), (1, 2), (1, 3), (2, 4), (3, 5), (3, 6)]);
        round_robin.remove_waiting(ClientId(3), TaskId(5));
        assert_eq!(pop_all(&mut round_robin), [1, 4, 6, 2, 3]);
        for client in [1, 1, 1, 2, 3] {
            round_robin.park(ClientId(client));
        }
        assert!(round_robin.is_idle() && round_robin.clients.is_empty());
        assert!(
            round_robin.queues.iter().all(BTreeMap::is_empty) && round_robin.active_clients == 0
        );
    }

    #[test]
    fn a_client_without_active_tasks_starts_one_past_the_bound_up_to_the_factor() {
        let tasks: Vec<_> =
            (0..20).flat_map(|client| [(client, client as u64), (client, 99)]).collect();
        let mut round_robin = round_robin(2, &tasks);
        assert_eq!(pop_all(&mut round_robin), [0, 1, 2, 3, 4, 5, 6, 7]);
        round_robin.park(ClientId(0));
        assert_eq!(
            pop_all(&mut round_robin),
            [8],
            "not the next task of a client that has active ones"
        );
        round_robin.park(ClientId(7));
        round_robin.requeue(ClientId(3), TaskId(3));
        round_robin.requeue(ClientId(4), TaskId(4));
        assert_eq!(pop_all(&mut round_robin), [9, 3, 4]);
    }

    #[test]
    fn a_client_whose_tasks_all_wake_at_once_keeps_no_new_client_out() {
        let mut round_robin = round_robin(2, &[]);
        for task in 0..100 {
            round_robin.wake(ClientId(1), TaskId(task));
        }
        for client in 2..20 {
            round_robin.enqueue(ClientId(client), TaskId(client as u64 * 100));
        }
        let order = pop_all(&mut round_robin);
        let new_clients: Vec<u64> = order.iter().copied().filter(|task| *task >= 100).collect();
        assert_eq!(order.len(), 100 + 7);
        assert_eq!(
            new_clients,
            [200, 300, 400, 500, 600, 700, 800],
            "8 clients, one of them active before"
        );
        assert_eq!(order[1], 200);
    }

    #[test]
    fn started_and_new_tasks_of_a_client_alternate() {
        let mut round_robin = round_robin(9, &[(1, 1), (1, 2), (1, 3), (1, 4)]);
        let mut order = Vec::new();
        for _ in 0..8 {
            let next = round_robin.pop_next().expect("there is one");
            order.push(next.task.0);
            round_robin.requeue(ClientId(1), next.task);
        }
        assert_eq!(order, [1, 1, 2, 1, 3, 2, 4, 1]);
    }
}
