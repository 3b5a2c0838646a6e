//! Whose turn it is among the clients of a class, and who of those that wait may begin.
//!
//! A client has one turn at a time, however many jobs it has; on it one of its jobs runs a slice: by turns one
//! that has begun and one that begins, so that neither kept ones nor a flood of short ones starve the other.
//! Bounds: at `active_max` active jobs only clients that have none active begin one, and once [`NEWCOMERS`] times
//! as many clients have active jobs nobody does. Those that were parked and go on are let in past both.
//! Cost: logarithmic in the clients; a removal moves or looks through the jobs of its client.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::ClientId;
use crate::schedule::JobId;

/// How many clients may have active jobs, in `active_max`: beside 16 active heavy ones of one client 63 others begin
/// theirs at once.
const NEWCOMERS: usize = 4;

pub(crate) struct Turns {
    active_max: usize,
    /// Without turns all jobs are of one client, and those that have begun go first.
    alternates: bool,
    clients: HashMap<ClientId, Client>,
    /// By [`Standing`]: clients that have something to do, by the number of their turn.
    queues: [BTreeMap<u64, ClientId>; 3],
    next_turn: u64,
    waiting: usize,
    active: usize,
    /// That have active ones.
    active_clients: usize,
}

#[derive(Default)]
struct Client {
    waiting: VecDeque<JobId>,
    ready: VecDeque<JobId>,
    /// Ready and running.
    active: usize,
    /// Where in `queues` it is.
    queued: Option<(Standing, u64)>,
    /// Its last turn was that of one that began.
    began: bool,
}

/// What a client could do on its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Go on with a job.
    Ready,
    /// Begin its first.
    Newcomer,
    /// Begin another: those that are active all run.
    More,
}

impl Client {
    fn standing(&self) -> Option<Standing> {
        match (self.ready.is_empty(), self.waiting.is_empty(), self.active) {
            (false, _, _) => Some(Standing::Ready),
            (true, true, _) => None,
            (true, false, 0) => Some(Standing::Newcomer),
            (true, false, _) => Some(Standing::More),
        }
    }
}

/// A job that is to run a slice.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) job: JobId,
    pub(crate) begins: bool,
}

impl Turns {
    /// For at most `active_max` active jobs; without turns (`alternates`) all are to be of one client.
    pub(crate) fn new(active_max: usize, alternates: bool) -> Self {
        Self {
            active_max: active_max.max(1),
            alternates,
            clients: HashMap::new(),
            queues: Default::default(),
            next_turn: 0,
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
    pub(crate) fn arrive(&mut self, client: ClientId, job: JobId) {
        self.waiting += 1;
        self.of(client, |of| of.waiting.push_back(job));
    }

    /// A job that ran goes on.
    pub(crate) fn go_on(&mut self, client: ClientId, job: JobId) {
        self.of(client, |of| of.ready.push_back(job));
    }

    /// A job that was parked goes on.
    pub(crate) fn wake(&mut self, client: ClientId, job: JobId) {
        self.active += 1;
        self.of(client, |of| {
            of.active += 1;
            of.ready.push_back(job);
        });
    }

    /// A job that ran is parked or over.
    pub(crate) fn rest(&mut self, client: ClientId) {
        self.active -= 1;
        self.of(client, |of| of.active -= 1);
    }

    /// A job is over that waited.
    pub(crate) fn remove_waiting(&mut self, client: ClientId, job: JobId) {
        self.waiting -= 1;
        self.of(client, |of| {
            // They arrived in the order of their numbers.
            if let Ok(at) = of.waiting.binary_search(&job) {
                of.waiting.remove(at);
            }
        });
    }

    /// A job is over that was ready.
    pub(crate) fn remove_ready(&mut self, client: ClientId, job: JobId) {
        self.active -= 1;
        self.of(client, |of| {
            of.active -= 1;
            of.ready.retain(|other| *other != job);
        });
    }

    /// The job that [`Self::take`] would give.
    pub(crate) fn first(&self) -> Option<JobId> {
        Some(self.turn_of(self.clients.get(&self.next()?)?)?.job)
    }

    /// The job whose turn it is: it runs now, and its client is the last in turn.
    pub(crate) fn take(&mut self) -> Option<Turn> {
        let client = self.next()?;
        let turn = self.turn_of(self.clients.get(&client)?)?;
        self.active += usize::from(turn.begins);
        self.waiting -= usize::from(turn.begins);
        let queues = &mut self.queues;
        let of = self.clients.get_mut(&client)?;
        if let Some((standing, turn)) = of.queued.take() {
            queues[standing as usize].remove(&turn);
        }
        self.of(client, |of| {
            of.began = turn.begins;
            if turn.begins {
                of.active += 1;
                of.waiting.pop_front();
            } else {
                of.ready.pop_front();
            }
        });
        Some(turn)
    }

    fn next(&self) -> Option<ClientId> {
        let may = [
            (Standing::Ready, true),
            (Standing::Newcomer, self.active_clients < self.active_max.saturating_mul(NEWCOMERS)),
            (Standing::More, self.active < self.active_max),
        ];
        let queues = may.into_iter().filter(|(_, may)| *may).map(|(standing, _)| standing);
        let firsts = queues.filter_map(|standing| self.queues[standing as usize].iter().next());
        firsts.min().map(|(_, client)| *client)
    }

    fn turn_of(&self, of: &Client) -> Option<Turn> {
        let begins = match (of.ready.is_empty(), of.waiting.is_empty()) {
            (true, _) => true,
            (false, true) => false,
            (false, false) => self.alternates && !of.began && self.active < self.active_max,
        };
        let job = if begins { of.waiting.front() } else { of.ready.front() };
        Some(Turn { job: *job?, begins })
    }

    /// Changes what a client has, and its standing with it.
    fn of(&mut self, client: ClientId, change: impl FnOnce(&mut Client)) {
        let of = self.clients.entry(client).or_default();
        let was_active = of.active > 0;
        change(of);
        self.active_clients -= usize::from(was_active);
        self.active_clients += usize::from(of.active > 0);
        let (before, now) = (of.queued, of.standing());
        if before.map(|(standing, _)| standing) != now {
            if let Some((standing, turn)) = before {
                self.queues[standing as usize].remove(&turn);
            }
            of.queued = now.map(|standing| {
                // Who is in turn already stays where he is.
                let turn = before.map_or(self.next_turn, |(_, turn)| turn);
                self.next_turn += u64::from(before.is_none());
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

    fn turns(active_max: usize, jobs: &[(u128, u64)]) -> Turns {
        let mut turns = Turns::new(active_max, true);
        for (client, job) in jobs {
            turns.arrive(ClientId(*client), JobId(*job));
        }
        turns
    }

    fn take_all(turns: &mut Turns) -> Vec<u64> {
        std::iter::from_fn(|| {
            let first = turns.first();
            let turn = turns.take();
            assert_eq!(turn.as_ref().map(|turn| turn.job), first);
            turn.map(|turn| turn.job.0)
        })
        .collect()
    }

    #[test]
    fn clients_take_turns_however_many_jobs_each_has() {
        let mut turns = turns(9, &[(1, 1), (1, 2), (1, 3), (2, 4), (3, 5), (3, 6)]);
        turns.remove_waiting(ClientId(3), JobId(5));
        assert_eq!(take_all(&mut turns), [1, 4, 6, 2, 3]);
        for client in [1, 1, 1, 2, 3] {
            turns.rest(ClientId(client));
        }
        assert!(turns.is_idle() && turns.clients.is_empty());
        assert!(turns.queues.iter().all(BTreeMap::is_empty) && turns.active_clients == 0);
    }

    #[test]
    fn who_has_none_active_begins_past_the_bound_until_the_next_one() {
        let jobs: Vec<_> =
            (0..20).flat_map(|client| [(client, client as u64), (client, 99)]).collect();
        let mut turns = turns(2, &jobs);
        assert_eq!(take_all(&mut turns), [0, 1, 2, 3, 4, 5, 6, 7]);
        turns.rest(ClientId(0));
        assert_eq!(take_all(&mut turns), [8], "not the next of one that has others active");
        turns.rest(ClientId(7));
        turns.go_on(ClientId(3), JobId(3));
        turns.go_on(ClientId(4), JobId(4));
        assert_eq!(take_all(&mut turns), [9, 3, 4]);
    }

    #[test]
    fn one_whose_jobs_all_go_on_at_once_keeps_no_newcomer_out() {
        let mut turns = turns(2, &[]);
        for job in 0..100 {
            turns.wake(ClientId(1), JobId(job));
        }
        for client in 2..20 {
            turns.arrive(ClientId(client), JobId(client as u64 * 100));
        }
        let order = take_all(&mut turns);
        let newcomers: Vec<u64> = order.iter().copied().filter(|job| *job >= 100).collect();
        assert_eq!(order.len(), 100 + 7);
        assert_eq!(newcomers, [200, 300, 400, 500, 600, 700, 800], "8 clients, and one was there");
        assert_eq!(order[1], 200);
    }

    #[test]
    fn those_that_have_begun_and_those_that_begin_take_turns() {
        let mut turns = turns(9, &[(1, 1), (1, 2), (1, 3), (1, 4)]);
        let mut order = Vec::new();
        for _ in 0..8 {
            let turn = turns.take().expect("there is one");
            order.push(turn.job.0);
            turns.go_on(ClientId(1), turn.job);
        }
        assert_eq!(order, [1, 1, 2, 1, 3, 2, 4, 1]);
    }
}
