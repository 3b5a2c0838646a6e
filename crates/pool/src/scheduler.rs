//! Who is next: the pool without its threads. Time comes in with every call, so that tests simulate it.
//!
//! A job waits, then is begun, then is in turn ready and running, and now and then parked until its
//! client has taken what it made, or another has made what it waits for. A class with less weighted time behind it goes first (stride
//! scheduling), so that light jobs hardly wait and heavy ones never starve; within a class clients
//! take turns ([`RoundRobin`]). Without slices nobody does, and bounds are the same.
//! Bounds: those of [`Config`]. Everything held is of a job that was admitted and has not ended.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use crate::admission::{LimitKind, PoolFull, TaskQuota};
use crate::round_robin::{NextTask, RoundRobin};
use crate::{Class, ClientId, Config, Counters, TaskEnd};

/// Time of a class is counted in nanoseconds times this, over its weight.
const WEIGHT_ONE: u128 = 1 << 16;

/// A job of this schedule, of all that there ever were.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TaskId(pub(crate) u64);

/// What a thread is to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action<T> {
    /// A step of this job; then [`Scheduler::on_yield`].
    Poll(TaskId, T),
    /// Tell it that it has ended.
    End(T, TaskEnd),
}

pub(crate) struct Scheduler<T> {
    config: Config,
    tasks: HashMap<TaskId, TaskEntry<T>>,
    class_queues: [ClassQueue; 3],
    /// Of every job.
    deadlines: BTreeSet<(Duration, TaskId)>,
    /// Ended ones that nobody has told yet.
    ended: Vec<(T, TaskEnd)>,
    counters: Counters,
    next_id: u64,
    /// The time of the class that was served last: who comes back from a rest begins here.
    floor: u128,
}

struct TaskEntry<T> {
    class: Class,
    client: ClientId,
    arrived: Duration,
    deadline: Duration,
    /// Absent while it runs.
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

/// The jobs of a class.
struct ClassQueue {
    quota: TaskQuota,
    round_robin: RoundRobin,
    /// Weighted time behind it.
    time: u128,
}

impl<T> Scheduler<T> {
    pub(crate) fn new(config: Config) -> Self {
        let has_turns = config.slice_us > 0;
        let class_queues = Class::ALL.map(|class| {
            let turns = RoundRobin::new(config.class(class).active_max, has_turns);
            ClassQueue { quota: TaskQuota::default(), round_robin: turns, time: 0 }
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

    /// Takes a job on, or refuses it.
    pub(crate) fn admit(
        &mut self,
        now: Duration,
        class: Class,
        client: ClientId,
        work: T,
    ) -> Result<TaskId, (T, PoolFull)> {
        if let Err(full) =
            self.class_queues[class.index()].quota.try_acquire(&self.config, class, client)
        {
            let counters = self.counters.class_mut(class);
            counters.rejected += 1;
            counters.rejected_client += u64::from(full.bound == LimitKind::Client);
            counters.rejected_share += u64::from(full.bound == LimitKind::Share);
            return Err((work, full));
        }
        let id = TaskId(self.next_id);
        self.next_id += 1;
        let deadline = now + Duration::from_millis(self.config.class(class).deadline_ms);
        let (state, has_begun) = (TaskState::Waiting, false);
        let work = Some(work);
        self.tasks.insert(
            id,
            TaskEntry {
                class,
                client,
                arrived: now,
                deadline,
                task: work,
                state,
                has_started: has_begun,
            },
        );
        self.deadlines.insert((deadline, id));
        self.counters.class_mut(class).queued += 1;
        self.wake_class(class);
        let whose = self.queue_client(client);
        self.class_queues[class.index()].round_robin.enqueue(whose, id);
        Ok(id)
    }

    /// As whose a client's jobs take turns: without turns all are one's.
    fn queue_client(&self, client: ClientId) -> ClientId {
        if self.has_time_slices() { client } else { ClientId::default() }
    }

    /// A class that had nothing to do has not saved up time meanwhile.
    fn wake_class(&mut self, class: Class) {
        let lane = &mut self.class_queues[class.index()];
        if lane.round_robin.is_idle() {
            lane.time = lane.time.max(self.floor);
        }
    }

    /// What to do now; `None` if there is nothing.
    pub(crate) fn next_action(&mut self, now: Duration) -> Option<Action<T>> {
        self.expire(now);
        if let Some((work, why)) = self.ended.pop() {
            return Some(Action::End(work, why));
        }
        let class = Class::ALL
            .into_iter()
            .filter_map(|class| Some((self.class_sort_key(class)?, class)))
            .min_by_key(|(turn, _)| *turn)?
            .1;
        let lane = &mut self.class_queues[class.index()];
        self.floor = lane.time;
        let NextTask { task: id, is_new: begins } = lane.round_robin.pop_next()?;
        let job = self.tasks.get_mut(&id)?;
        let work = job.task.take()?;
        job.state = TaskState::Running { doomed: None };
        let counters = self.counters.class_mut(class);
        counters.running += 1;
        if begins {
            job.has_started = true;
            counters.queued -= 1;
            counters.active += 1;
            counters.queue_wait.record(now.saturating_sub(job.arrived));
        }
        Some(Action::Poll(id, work))
    }

    fn has_time_slices(&self) -> bool {
        self.config.slice_us > 0
    }

    /// The class of the least goes next: by the time behind it, without turns by who came first. `None` if
    /// it has nothing to do.
    fn class_sort_key(&self, class: Class) -> Option<u128> {
        let lane = &self.class_queues[class.index()];
        let first = lane.round_robin.peek_next()?;
        Some(if self.has_time_slices() { lane.time } else { first.0.into() })
    }

    /// Takes a job back that is not done: to be `ready`, or parked. Gives whether it is parked; a job
    /// that was cancelled or has expired meanwhile is ended.
    pub(crate) fn on_yield(&mut self, id: TaskId, work: T, used: Duration, ready: bool) -> bool {
        let Some(job) = self.tasks.get_mut(&id) else { return false };
        let (class, client) = (job.class, job.client);
        let doomed = match job.state {
            TaskState::Running { doomed } => doomed,
            TaskState::Waiting | TaskState::Ready | TaskState::Blocked => None,
        };
        job.task = Some(work);
        job.state = if ready { TaskState::Ready } else { TaskState::Blocked };
        self.charge(class, used);
        let whose = self.queue_client(client);
        let turns = &mut self.class_queues[class.index()].round_robin;
        if ready {
            turns.requeue(whose, id);
        } else {
            turns.park(whose);
            self.counters.class_mut(class).blocked += 1;
        }
        if let Some(why) = doomed {
            self.end(id, why);
        }
        !ready && doomed.is_none()
    }

    /// A job has run its last step: it is done, or it panicked.
    pub(crate) fn finish(&mut self, id: TaskId, used: Duration, panicked: bool) {
        let Some(job) = self.tasks.remove(&id) else { return };
        self.charge(job.class, used);
        let whose = self.queue_client(job.client);
        self.class_queues[job.class.index()].round_robin.park(whose);
        let counters = self.counters.class_mut(job.class);
        counters.panicked += u64::from(panicked);
        counters.completed += u64::from(!panicked);
        self.remove(id, &job);
    }

    fn charge(&mut self, class: Class, used: Duration) {
        let weight = u128::from(self.config.class(class).weight.max(1));
        let lane = &mut self.class_queues[class.index()];
        lane.time += used.as_nanos().max(1) * WEIGHT_ONE / weight;
        let counters = self.counters.class_mut(class);
        counters.running -= 1;
        counters.time_slices += 1;
        counters.busy += used;
    }

    /// A parked job may go on.
    pub(crate) fn wake(&mut self, id: TaskId) {
        let Some(job) = self.tasks.get_mut(&id) else { return };
        if job.state != TaskState::Blocked {
            return;
        }
        job.state = TaskState::Ready;
        let (class, client) = (job.class, job.client);
        self.counters.class_mut(class).blocked -= 1;
        self.wake_class(class);
        let whose = self.queue_client(client);
        self.class_queues[class.index()].round_robin.wake(whose, id);
    }

    /// Ends a job before it is done: at once, or after the step that it is in.
    pub(crate) fn end(&mut self, id: TaskId, why: TaskEnd) {
        let Some(job) = self.tasks.get_mut(&id) else { return };
        if let TaskState::Running { doomed } = &mut job.state {
            doomed.get_or_insert(why);
            return;
        }
        let Some(mut job) = self.tasks.remove(&id) else { return };
        let whose = self.queue_client(job.client);
        let turns = &mut self.class_queues[job.class.index()].round_robin;
        let counters = self.counters.class_mut(job.class);
        match job.state {
            TaskState::Waiting => {
                turns.remove_waiting(whose, id);
                counters.queued -= 1;
            }
            TaskState::Ready => turns.remove_ready(whose, id),
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
        let work = job.task.take();
        self.remove(id, &job);
        self.ended.extend(work.map(|work| (work, why)));
    }

    fn remove(&mut self, id: TaskId, job: &TaskEntry<T>) {
        self.deadlines.remove(&(job.deadline, id));
        self.class_queues[job.class.index()].quota.release(job.client);
        self.counters.class_mut(job.class).active -= usize::from(job.has_started);
    }

    /// Ends what is past its deadline.
    fn expire(&mut self, now: Duration) {
        while let Some((deadline, id)) = self.deadlines.first().copied() {
            if deadline > now {
                return;
            }
            self.deadlines.pop_first();
            let has_begun = self.tasks.get(&id).is_some_and(|job| job.has_started);
            self.end(id, if has_begun { TaskEnd::Expired } else { TaskEnd::ExpiredWaiting });
        }
    }

    /// When something must be done though nothing happens.
    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Ends everything that does not run.
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
