//! Who is next: the pool without its threads. Time comes in with every call, so that tests simulate it.
//!
//! A job waits, then is begun, then is in turn ready and running, and now and then parked until its
//! client has taken what it made. A class with less weighted time behind it goes first (stride
//! scheduling), so that light jobs hardly wait and heavy ones never starve; within a class clients
//! take turns.
//! Bounds: those of [`Config`]. Everything held is of a job that was admitted and has not ended.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use crate::ring::Ring;
use crate::{Class, ClientId, Config, Counters, Ended};

/// Time of a class is counted in nanoseconds times this, over its weight.
const WEIGHT_ONE: u128 = 1 << 16;

/// A job of this schedule, of all that there ever were.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct JobId(pub(crate) u64);

/// A bound was reached. Fix: send less, or raise the knob that it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the CPU pool is full: {tasks} {class} requests{} are in it, at most {limit} may ({})",
    .bound.whose(),
    .bound.knob(*.class)
)]
pub struct Full {
    /// Of which class.
    pub class: Class,
    /// How many there are.
    pub tasks: usize,
    /// How many may be.
    pub limit: usize,
    /// Which bound it is.
    pub bound: Bound,
}

/// Whose bound was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// That of all clients together.
    Class,
    /// That of one client.
    Client,
}

impl Bound {
    fn whose(self) -> &'static str {
        match self {
            Self::Class => "",
            Self::Client => " of this client",
        }
    }

    fn knob(self, class: Class) -> &'static str {
        match (self, class) {
            (Self::Client, _) => "pool.client_heavy_max",
            (Self::Class, Class::Light) => "pool.light.tasks_max",
            (Self::Class, Class::Medium) => "pool.medium.tasks_max",
            (Self::Class, Class::Heavy) => "--heavy-max",
        }
    }
}

/// What a thread is to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next<T> {
    /// A step of this job; then [`Schedule::after_step`].
    Step(JobId, T),
    /// Tell it that it has ended.
    End(T, Ended),
}

pub(crate) struct Schedule<T> {
    config: Config,
    jobs: HashMap<JobId, Job<T>>,
    lanes: [Lane; 3],
    /// Of every job.
    deadlines: BTreeSet<(Duration, JobId)>,
    /// Ended ones that nobody has told yet.
    ended: Vec<(T, Ended)>,
    /// How many heavy jobs each client has that has any.
    heavy_of: HashMap<ClientId, usize>,
    counters: Counters,
    next_id: u64,
    /// The time of the class that was served last: who comes back from a rest begins here.
    floor: u128,
}

struct Job<T> {
    class: Class,
    client: ClientId,
    arrived: Duration,
    deadline: Duration,
    /// Absent while it runs.
    work: Option<T>,
    state: State,
    has_begun: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    Ready,
    Running { doomed: Option<Ended> },
    Parked,
}

/// The jobs of a class.
#[derive(Default)]
struct Lane {
    waiting: Ring,
    ready: Ring,
    tasks: usize,
    /// Ready and running.
    active: usize,
    /// Weighted time behind it.
    time: u128,
}

impl<T> Schedule<T> {
    pub(crate) fn new(config: Config) -> Self {
        Self {
            config,
            jobs: HashMap::new(),
            lanes: Default::default(),
            deadlines: BTreeSet::new(),
            ended: Vec::new(),
            heavy_of: HashMap::new(),
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
    ) -> Result<JobId, (T, Full)> {
        if let Some(full) = self.full(class, client) {
            let counters = self.counters.of_mut(class);
            counters.rejected += 1;
            counters.rejected_client += u64::from(full.bound == Bound::Client);
            return Err((work, full));
        }
        let client = if self.has_turns() { client } else { ClientId::default() };
        let id = JobId(self.next_id);
        self.next_id += 1;
        let deadline = now + Duration::from_millis(self.config.class(class).deadline_ms);
        let (state, has_begun) = (State::Waiting, false);
        let work = Some(work);
        self.jobs.insert(id, Job { class, client, arrived: now, deadline, work, state, has_begun });
        self.deadlines.insert((deadline, id));
        if class == Class::Heavy {
            *self.heavy_of.entry(client).or_default() += 1;
        }
        self.counters.of_mut(class).queued += 1;
        self.rouse(class);
        let lane = &mut self.lanes[class.index()];
        lane.tasks += 1;
        lane.waiting.push(client, id);
        Ok(id)
    }

    fn full(&self, class: Class, client: ClientId) -> Option<Full> {
        let full = |bound, tasks, limit| Full { class, tasks, limit, bound };
        let (tasks, limit) = (self.lanes[class.index()].tasks, self.config.class(class).tasks_max);
        if tasks >= limit {
            return Some(full(Bound::Class, tasks, limit));
        }
        let limit = self.config.client_heavy_max;
        let of_client = self.heavy_of.get(&client).copied().unwrap_or_default();
        (class == Class::Heavy && limit > 0 && of_client >= limit)
            .then(|| full(Bound::Client, of_client, limit))
    }

    /// A class that had nothing to do has not saved up time meanwhile.
    fn rouse(&mut self, class: Class) {
        let lane = &mut self.lanes[class.index()];
        if lane.active == 0 && lane.waiting.len() == 0 {
            lane.time = lane.time.max(self.floor);
        }
    }

    /// What to do now; `None` if there is nothing.
    pub(crate) fn next(&mut self, now: Duration) -> Option<Next<T>> {
        self.expire(now);
        if let Some((work, why)) = self.ended.pop() {
            return Some(Next::End(work, why));
        }
        let class = Class::ALL
            .into_iter()
            .filter(|class| self.may_begin(*class) || self.lanes[class.index()].ready.len() > 0)
            .min_by_key(|class| self.turn(*class))?;
        let begins = self.begins(class);
        let lane = &mut self.lanes[class.index()];
        self.floor = lane.time;
        let id = if begins { lane.waiting.pop() } else { lane.ready.pop() }?;
        let job = self.jobs.get_mut(&id)?;
        let work = job.work.take()?;
        job.state = State::Running { doomed: None };
        let counters = self.counters.of_mut(class);
        counters.running += 1;
        if begins {
            job.has_begun = true;
            lane.active += 1;
            counters.queued -= 1;
            counters.begun += 1;
            counters.waited.record(now.saturating_sub(job.arrived));
        }
        Some(Next::Step(id, work))
    }

    fn has_turns(&self) -> bool {
        self.config.slice_us > 0
    }

    /// The class of the least goes next: by the time behind it, without turns by who came first.
    fn turn(&self, class: Class) -> u128 {
        let lane = &self.lanes[class.index()];
        if self.has_turns() {
            return lane.time;
        }
        let first = if self.begins(class) { lane.waiting.first() } else { lane.ready.first() };
        first.map_or(u128::MAX, |id| id.0.into())
    }

    /// Whether the next job of a class is one that waits; without turns those that have begun came before.
    fn begins(&self, class: Class) -> bool {
        self.may_begin(class) && (self.has_turns() || self.lanes[class.index()].ready.len() == 0)
    }

    fn may_begin(&self, class: Class) -> bool {
        let lane = &self.lanes[class.index()];
        lane.waiting.len() > 0 && lane.active < self.config.class(class).active_max.max(1)
    }

    /// Takes a job back that is not done: to be `ready`, or parked. Gives whether it is parked; a job
    /// that was cancelled or has expired meanwhile is ended.
    pub(crate) fn after_step(&mut self, id: JobId, work: T, used: Duration, ready: bool) -> bool {
        let Some(job) = self.jobs.get_mut(&id) else { return false };
        let (class, client) = (job.class, job.client);
        let doomed = match job.state {
            State::Running { doomed } => doomed,
            State::Waiting | State::Ready | State::Parked => None,
        };
        job.work = Some(work);
        job.state = if ready { State::Ready } else { State::Parked };
        self.charge(class, used);
        let lane = &mut self.lanes[class.index()];
        if ready {
            lane.ready.push(client, id);
        } else {
            lane.active -= 1;
            self.counters.of_mut(class).parked += 1;
        }
        if let Some(why) = doomed {
            self.end(id, why);
        }
        !ready && doomed.is_none()
    }

    /// A job has run its last step: it is done, or it panicked.
    pub(crate) fn finish(&mut self, id: JobId, used: Duration, panicked: bool) {
        let Some(job) = self.jobs.remove(&id) else { return };
        self.charge(job.class, used);
        self.lanes[job.class.index()].active -= 1;
        let counters = self.counters.of_mut(job.class);
        counters.panicked += u64::from(panicked);
        counters.done += u64::from(!panicked);
        self.forget(id, &job);
    }

    fn charge(&mut self, class: Class, used: Duration) {
        let weight = u128::from(self.config.class(class).weight.max(1));
        let lane = &mut self.lanes[class.index()];
        lane.time += used.as_nanos().max(1) * WEIGHT_ONE / weight;
        let counters = self.counters.of_mut(class);
        counters.running -= 1;
        counters.slices += 1;
        counters.busy += used;
    }

    /// A parked job may go on.
    pub(crate) fn wake(&mut self, id: JobId) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if job.state != State::Parked {
            return;
        }
        job.state = State::Ready;
        let (class, client) = (job.class, job.client);
        self.counters.of_mut(class).parked -= 1;
        self.rouse(class);
        let lane = &mut self.lanes[class.index()];
        lane.active += 1;
        lane.ready.push(client, id);
    }

    /// Ends a job before it is done: at once, or after the step that it is in.
    pub(crate) fn end(&mut self, id: JobId, why: Ended) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if let State::Running { doomed } = &mut job.state {
            doomed.get_or_insert(why);
            return;
        }
        let Some(mut job) = self.jobs.remove(&id) else { return };
        let lane = &mut self.lanes[job.class.index()];
        let counters = self.counters.of_mut(job.class);
        match job.state {
            State::Waiting => {
                lane.waiting.remove(job.client, id);
                counters.queued -= 1;
            }
            State::Ready => {
                lane.ready.remove(job.client, id);
                lane.active -= 1;
            }
            State::Parked => counters.parked -= 1,
            State::Running { .. } => {}
        }
        match why {
            Ended::Expired => counters.expired += 1,
            Ended::ExpiredWaiting => {
                counters.expired += 1;
                counters.expired_waiting += 1;
            }
            Ended::Cancelled => counters.cancelled += 1,
            Ended::Panicked => counters.panicked += 1,
            Ended::ShutDown => {}
        }
        let work = job.work.take();
        self.forget(id, &job);
        self.ended.extend(work.map(|work| (work, why)));
    }

    fn forget(&mut self, id: JobId, job: &Job<T>) {
        self.deadlines.remove(&(job.deadline, id));
        self.lanes[job.class.index()].tasks -= 1;
        self.counters.of_mut(job.class).begun -= usize::from(job.has_begun);
        if job.class != Class::Heavy {
            return;
        }
        if let Some(heavy) = self.heavy_of.get_mut(&job.client) {
            *heavy -= 1;
            if *heavy == 0 {
                self.heavy_of.remove(&job.client);
            }
        }
    }

    /// Ends what is past its deadline.
    fn expire(&mut self, now: Duration) {
        while let Some((deadline, id)) = self.deadlines.first().copied() {
            if deadline > now {
                return;
            }
            self.deadlines.pop_first();
            let has_begun = self.jobs.get(&id).is_some_and(|job| job.has_begun);
            self.end(id, if has_begun { Ended::Expired } else { Ended::ExpiredWaiting });
        }
    }

    /// When something must be done though nothing happens.
    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Ends everything that does not run.
    pub(crate) fn shut_down(&mut self) -> Vec<(T, Ended)> {
        let ids: Vec<JobId> = self.jobs.keys().copied().collect();
        for id in ids {
            self.end(id, Ended::ShutDown);
        }
        std::mem::take(&mut self.ended)
    }

    pub(crate) fn counters(&self) -> Counters {
        self.counters
    }
}
