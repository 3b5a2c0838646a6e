//! Who is next: the pool without its threads. Time comes in with every call, so that tests simulate it.
//!
//! A job waits, then is begun, then is in turn ready and running, and now and then parked until its
//! client has taken what it made, or another has made what it waits for. A class with less weighted time behind it goes first (stride
//! scheduling), so that light jobs hardly wait and heavy ones never starve; within a class clients
//! take turns ([`Turns`]). Without slices nobody does, and bounds are the same.
//! Bounds: those of [`Config`]. Everything held is of a job that was admitted and has not ended.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use crate::places::{Bound, Full, Places};
use crate::turns::{Turn, Turns};
use crate::{Class, ClientId, Config, Counters, Ended};

/// Time of a class is counted in nanoseconds times this, over its weight.
const WEIGHT_ONE: u128 = 1 << 16;

/// A job of this schedule, of all that there ever were.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct JobId(pub(crate) u64);

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
struct Lane {
    places: Places,
    turns: Turns,
    /// Weighted time behind it.
    time: u128,
}

impl<T> Schedule<T> {
    pub(crate) fn new(config: Config) -> Self {
        let has_turns = config.slice_us > 0;
        let lanes = Class::ALL.map(|class| {
            let turns = Turns::new(config.class(class).active_max, has_turns);
            Lane { places: Places::default(), turns, time: 0 }
        });
        Self {
            config,
            jobs: HashMap::new(),
            lanes,
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
    ) -> Result<JobId, (T, Full)> {
        if let Err(full) = self.lanes[class.index()].places.take(&self.config, class, client) {
            let counters = self.counters.of_mut(class);
            counters.rejected += 1;
            counters.rejected_client += u64::from(full.bound == Bound::Client);
            counters.rejected_share += u64::from(full.bound == Bound::Share);
            return Err((work, full));
        }
        let id = JobId(self.next_id);
        self.next_id += 1;
        let deadline = now + Duration::from_millis(self.config.class(class).deadline_ms);
        let (state, has_begun) = (State::Waiting, false);
        let work = Some(work);
        self.jobs.insert(id, Job { class, client, arrived: now, deadline, work, state, has_begun });
        self.deadlines.insert((deadline, id));
        self.counters.of_mut(class).queued += 1;
        self.rouse(class);
        let whose = self.whose_turn(client);
        self.lanes[class.index()].turns.arrive(whose, id);
        Ok(id)
    }

    /// As whose a client's jobs take turns: without turns all are one's.
    fn whose_turn(&self, client: ClientId) -> ClientId {
        if self.has_turns() { client } else { ClientId::default() }
    }

    /// A class that had nothing to do has not saved up time meanwhile.
    fn rouse(&mut self, class: Class) {
        let lane = &mut self.lanes[class.index()];
        if lane.turns.is_idle() {
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
            .filter_map(|class| Some((self.turn(class)?, class)))
            .min_by_key(|(turn, _)| *turn)?
            .1;
        let lane = &mut self.lanes[class.index()];
        self.floor = lane.time;
        let Turn { job: id, begins } = lane.turns.take()?;
        let job = self.jobs.get_mut(&id)?;
        let work = job.work.take()?;
        job.state = State::Running { doomed: None };
        let counters = self.counters.of_mut(class);
        counters.running += 1;
        if begins {
            job.has_begun = true;
            counters.queued -= 1;
            counters.begun += 1;
            counters.waited.record(now.saturating_sub(job.arrived));
        }
        Some(Next::Step(id, work))
    }

    fn has_turns(&self) -> bool {
        self.config.slice_us > 0
    }

    /// The class of the least goes next: by the time behind it, without turns by who came first. `None` if
    /// it has nothing to do.
    fn turn(&self, class: Class) -> Option<u128> {
        let lane = &self.lanes[class.index()];
        let first = lane.turns.first()?;
        Some(if self.has_turns() { lane.time } else { first.0.into() })
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
        let whose = self.whose_turn(client);
        let turns = &mut self.lanes[class.index()].turns;
        if ready {
            turns.go_on(whose, id);
        } else {
            turns.rest(whose);
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
        let whose = self.whose_turn(job.client);
        self.lanes[job.class.index()].turns.rest(whose);
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
        let whose = self.whose_turn(client);
        self.lanes[class.index()].turns.wake(whose, id);
    }

    /// Ends a job before it is done: at once, or after the step that it is in.
    pub(crate) fn end(&mut self, id: JobId, why: Ended) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if let State::Running { doomed } = &mut job.state {
            doomed.get_or_insert(why);
            return;
        }
        let Some(mut job) = self.jobs.remove(&id) else { return };
        let whose = self.whose_turn(job.client);
        let turns = &mut self.lanes[job.class.index()].turns;
        let counters = self.counters.of_mut(job.class);
        match job.state {
            State::Waiting => {
                turns.remove_waiting(whose, id);
                counters.queued -= 1;
            }
            State::Ready => turns.remove_ready(whose, id),
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
        self.lanes[job.class.index()].places.leave(job.client);
        self.counters.of_mut(job.class).begun -= usize::from(job.has_begun);
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
