//! The scheduler: the pool without its threads. The time is an argument of every call, so that tests simulate it.
//!
//! A task is queued, then started, then alternately ready and running. It is blocked until its client has taken its
//! output, or until another task has produced what it waits for. The class with the least weighted time goes first
//! (stride scheduling), so that light tasks hardly wait and heavy ones never starve. Within a class the clients are
//! served round-robin ([`RoundRobin`]). Without time slices tasks run in the order of arrival; the bounds are the same.
//! Bounds: those of [`Config`]. Every entry belongs to a task that was admitted and has not ended.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use clients::ClientId;

use crate::admission::{LimitKind, PoolFull, TaskQuota};
use crate::round_robin::{NextTask, RoundRobin};
use crate::task_id::TaskId;
use crate::{Class, Config, Counters, TaskEnd};

/// The time of a class is counted in nanoseconds times this, divided by its weight.
const WEIGHT_ONE: u128 = 1 << 16;

/// The next action of a thread.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action<T> {
    /// Poll this task, then call [`Scheduler::on_yield`] or [`Scheduler::finish`].
    Poll(TaskId, T),
    /// Notify the task that it has ended.
    End(T, TaskEnd),
}

pub(crate) struct Scheduler<T> {
    config: Config,
    tasks: HashMap<TaskId, TaskEntry<T>>,
    class_queues: [ClassQueue; 3],
    /// Of every task.
    deadlines: BTreeSet<(Duration, TaskId)>,
    /// Ended tasks that have not been notified yet.
    ended: Vec<(T, TaskEnd)>,
    counters: Counters,
    next_id: u64,
    /// The time of the class that was served last. A class that was idle starts at it.
    floor: u128,
}

struct TaskEntry<T> {
    class: Class,
    client: ClientId,
    arrived: Duration,
    deadline: Duration,
    /// `None` while it runs.
    task: Option<T>,
    state: TaskState,
    has_started: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TaskState {
    Waiting,
    Ready,
    Running { doomed: Option<TaskEnd> },
    Blocked,
}

struct ClassQueue {
    quota: TaskQuota,
    round_robin: RoundRobin,
    /// Weighted time used so far.
    time: u128,
}

impl<T> Scheduler<T> {
    pub(crate) fn new(config: Config) -> Self {
        let has_time_slices = config.slice_us > 0;
        let class_queues = Class::ALL.map(|class| {
            let round_robin = RoundRobin::new(config.class(class).active_max, has_time_slices);
            ClassQueue { quota: TaskQuota::default(), round_robin, time: 0 }
        });
        Self {
            config,
            tasks: HashMap::new(),
            class_queues,
            deadlines: BTreeSet::new(),
            ended: Vec::new(),
            counters: Counters::default(),
            next_id: 0,
            floor: 0,
        }
    }

    /// Reserves a queue slot for a task, which must be enqueued next, or refuses it.
    pub(crate) fn acquire(&mut self, class: Class, client: ClientId) -> Result<(), PoolFull> {
        let quota = &mut self.class_queues[class.index()].quota;
        quota.try_acquire(&self.config, class, client).inspect_err(|full| {
            let counters = self.counters.class_mut(class);
            counters.rejected += 1;
            counters.rejected_client += u64::from(full.bound == LimitKind::Client);
            counters.rejected_share += u64::from(full.bound == LimitKind::Share);
        })
    }

    /// Enqueues a task after its unit of the quota was acquired.
    pub(crate) fn enqueue(
        &mut self,
        now: Duration,
        class: Class,
        client: ClientId,
        task: T,
    ) -> TaskId {
        let id = TaskId(self.next_id);
        self.next_id += 1;
        let deadline = now + Duration::from_millis(self.config.class(class).deadline_ms);
        let state = TaskState::Waiting;
        let task = Some(task);
        self.tasks.insert(
            id,
            TaskEntry { class, client, arrived: now, deadline, task, state, has_started: false },
        );
        self.deadlines.insert((deadline, id));
        self.counters.class_mut(class).queued += 1;
        self.wake_class(class);
        let queue_client = self.queue_client(client);
        self.class_queues[class.index()].round_robin.enqueue(queue_client, id);
        id
    }

    /// The client under which a task is queued. Without time slices all tasks are queued under one client.
    fn queue_client(&self, client: ClientId) -> ClientId {
        if self.has_time_slices() { client } else { ClientId::default() }
    }

    /// A class that was idle has not saved up time.
    fn wake_class(&mut self, class: Class) {
        let queue = &mut self.class_queues[class.index()];
        if queue.round_robin.is_idle() {
            queue.time = queue.time.max(self.floor);
        }
    }

    /// The next action; `None` if there is none.
    pub(crate) fn next_action(&mut self, now: Duration) -> Option<Action<T>> {
        self.expire(now);
        if let Some((task, why)) = self.ended.pop() {
            return Some(Action::End(task, why));
        }
        let class = Class::ALL
            .into_iter()
            .filter_map(|class| Some((self.class_sort_key(class)?, class)))
            .min_by_key(|(key, _)| *key)?
            .1;
        let queue = &mut self.class_queues[class.index()];
        self.floor = queue.time;
        let NextTask { task: id, is_new } = queue.round_robin.pop_next()?;
        let entry = self.tasks.get_mut(&id)?;
        let task = entry.task.take()?;
        entry.state = TaskState::Running { doomed: None };
        let counters = self.counters.class_mut(class);
        counters.running += 1;
        if is_new {
            entry.has_started = true;
            counters.queued -= 1;
            counters.active += 1;
            counters.queue_wait.record(now.saturating_sub(entry.arrived));
        }
        Some(Action::Poll(id, task))
    }

    fn has_time_slices(&self) -> bool {
        self.config.slice_us > 0
    }

    /// The class with the lowest key goes next. The key is the time used, or without time slices the arrival. `None` if
    /// the class has nothing to run.
    fn class_sort_key(&self, class: Class) -> Option<u128> {
        let queue = &self.class_queues[class.index()];
        let first = queue.round_robin.peek_next()?;
        Some(if self.has_time_slices() { queue.time } else { first.0.into() })
    }

    /// Takes back a task that has not finished: `ready`, or blocked. Returns whether it is blocked. A task that was
    /// cancelled or has expired meanwhile is ended.
    pub(crate) fn on_yield(&mut self, id: TaskId, task: T, used: Duration, ready: bool) -> bool {
        let Some(entry) = self.tasks.get_mut(&id) else { return false };
        let class = entry.class;
        let client = entry.client;
        let doomed = match entry.state {
            TaskState::Running { doomed } => doomed,
            TaskState::Waiting | TaskState::Ready | TaskState::Blocked => None,
        };
        entry.task = Some(task);
        entry.state = if ready { TaskState::Ready } else { TaskState::Blocked };
        self.charge(class, used);
        let queue_client = self.queue_client(client);
        let round_robin = &mut self.class_queues[class.index()].round_robin;
        if ready {
            round_robin.requeue(queue_client, id);
        } else {
            round_robin.park(queue_client);
            self.counters.class_mut(class).blocked += 1;
        }
        if let Some(why) = doomed {
            self.end(id, why);
        }
        !ready && doomed.is_none()
    }

    /// A task has had its last poll: it finished, or it panicked.
    pub(crate) fn finish(&mut self, id: TaskId, used: Duration, panicked: bool) {
        let Some(entry) = self.tasks.remove(&id) else { return };
        self.charge(entry.class, used);
        let queue_client = self.queue_client(entry.client);
        self.class_queues[entry.class.index()].round_robin.park(queue_client);
        let counters = self.counters.class_mut(entry.class);
        counters.panicked += u64::from(panicked);
        counters.completed += u64::from(!panicked);
        self.remove(id, &entry);
    }

    fn charge(&mut self, class: Class, used: Duration) {
        let weight = u128::from(self.config.class(class).weight.max(1));
        let queue = &mut self.class_queues[class.index()];
        queue.time += used.as_nanos().max(1) * WEIGHT_ONE / weight;
        let counters = self.counters.class_mut(class);
        counters.running -= 1;
        counters.time_slices += 1;
        counters.busy += used;
    }

    /// Makes a blocked task ready.
    pub(crate) fn wake(&mut self, id: TaskId) {
        let Some(entry) = self.tasks.get_mut(&id) else { return };
        if entry.state != TaskState::Blocked {
            return;
        }
        entry.state = TaskState::Ready;
        let class = entry.class;
        let client = entry.client;
        self.counters.class_mut(class).blocked -= 1;
        self.wake_class(class);
        let queue_client = self.queue_client(client);
        self.class_queues[class.index()].round_robin.wake(queue_client, id);
    }

    /// Ends a task before it has finished: at once, or after its current poll.
    pub(crate) fn end(&mut self, id: TaskId, why: TaskEnd) {
        let Some(entry) = self.tasks.get_mut(&id) else { return };
        if let TaskState::Running { doomed } = &mut entry.state {
            doomed.get_or_insert(why);
            return;
        }
        let Some(mut entry) = self.tasks.remove(&id) else { return };
        let queue_client = self.queue_client(entry.client);
        let round_robin = &mut self.class_queues[entry.class.index()].round_robin;
        let counters = self.counters.class_mut(entry.class);
        match entry.state {
            TaskState::Waiting => {
                round_robin.remove_waiting(queue_client, id);
                counters.queued -= 1;
            }
            TaskState::Ready => round_robin.remove_ready(queue_client, id),
            TaskState::Blocked => counters.blocked -= 1,
            TaskState::Running { .. } => {}
        }
        match why {
            TaskEnd::Expired => counters.expired += 1,
            TaskEnd::ExpiredWaiting => {
                counters.expired += 1;
                counters.expired_waiting += 1;
            }
            TaskEnd::Cancelled => counters.cancelled += 1,
            TaskEnd::Panicked => counters.panicked += 1,
            TaskEnd::ShutDown => {}
        }
        let task = entry.task.take();
        self.remove(id, &entry);
        self.ended.extend(task.map(|task| (task, why)));
    }

    fn remove(&mut self, id: TaskId, entry: &TaskEntry<T>) {
        self.deadlines.remove(&(entry.deadline, id));
        self.class_queues[entry.class.index()].quota.release(entry.client);
        self.counters.class_mut(entry.class).active -= usize::from(entry.has_started);
    }

    /// Ends the tasks past their deadline.
    fn expire(&mut self, now: Duration) {
        while let Some((deadline, id)) = self.deadlines.first().copied() {
            if deadline > now {
                return;
            }
            self.deadlines.pop_first();
            let has_started = self.tasks.get(&id).is_some_and(|entry| entry.has_started);
            self.end(id, if has_started { TaskEnd::Expired } else { TaskEnd::ExpiredWaiting });
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Ends every task that is not running.
    pub(crate) fn shut_down(&mut self) -> Vec<(T, TaskEnd)> {
        let ids: Vec<TaskId> = self.tasks.keys().copied().collect();
        for id in ids {
            self.end(id, TaskEnd::ShutDown);
        }
        std::mem::take(&mut self.ended)
    }

    pub(crate) fn counters(&self) -> Counters {
        self.counters
    }
}
