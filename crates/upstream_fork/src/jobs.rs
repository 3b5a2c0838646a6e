//! The requests that wait for the upstream.
//!
//! Shape: one queue for each client; the fetching threads take from them round robin.
//! Bounds: [`JOBS_MAX`] jobs, half of them for one client. With one more the client gets an error at once.

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use chain_solana::{AccountsRequest, FetchError, PendingSender};
use foldhash::quality::RandomState;
use parking_lot::{Condvar, Mutex};
use pool::ClientId;

/// Requests that wait, of all clients.
pub(crate) const JOBS_MAX: usize = 512;

/// The result of a job.
pub(crate) type Fetched = Result<(), FetchError>;

/// Where the result of a job goes.
pub(crate) enum JobEnd {
    /// To a client that waits.
    Reply(PendingSender<Fetched>),
    /// To a function, which runs on the fetching thread.
    Then(Box<dyn FnOnce(Fetched) + Send>),
}

impl JobEnd {
    pub(crate) fn send(self, result: Fetched) {
        match self {
            Self::Reply(reply) => reply.send(result),
            Self::Then(then) => then(result),
        }
    }

    /// Whether the client has left.
    pub(crate) fn is_abandoned(&self) -> bool {
        matches!(self, Self::Reply(reply) if reply.is_abandoned())
    }
}

/// A request with the end of its wait.
pub(crate) struct Job {
    pub(crate) request: AccountsRequest,
    pub(crate) deadline: Instant,
    pub(crate) end: JobEnd,
}

#[derive(Default)]
struct Queues {
    by_client: HashMap<ClientId, VecDeque<Job>, RandomState>,
    /// The clients with jobs, in the order in which they are served.
    order: VecDeque<ClientId>,
    len: usize,
    is_closed: bool,
}

/// The queues of all clients.
#[derive(Default)]
pub(crate) struct Jobs {
    queues: Mutex<Queues>,
    arrived: Condvar,
}

impl Jobs {
    /// Queues a job, or returns why not.
    pub(crate) fn push(&self, client: ClientId, job: Job) -> Result<(), FetchError> {
        let mut queues = self.queues.lock();
        if queues.is_closed {
            return Err(FetchError::Closed);
        }
        let own = queues.by_client.get(&client).map_or(0, VecDeque::len);
        if queues.len >= JOBS_MAX || own >= JOBS_MAX / 2 {
            return Err(FetchError::TooMany { waiting: queues.len, limit: JOBS_MAX });
        }
        queues.len += 1;
        if own == 0 {
            queues.order.push_back(client);
        }
        queues.by_client.entry(client).or_default().push_back(job);
        drop(queues);
        self.arrived.notify_one();
        Ok(())
    }

    /// The next job. Waits for one; `None` once the queues are closed.
    pub(crate) fn pop(&self) -> Option<Job> {
        let mut queues = self.queues.lock();
        loop {
            if queues.is_closed {
                return None;
            }
            if let Some(job) = queues.next() {
                return Some(job);
            }
            self.arrived.wait(&mut queues);
        }
    }

    /// Ends all waits. The clients get an error.
    pub(crate) fn close(&self) {
        let mut queues = self.queues.lock();
        queues.is_closed = true;
        queues.order.clear();
        queues.len = 0;
        let waiting = std::mem::take(&mut queues.by_client);
        drop(queues);
        self.arrived.notify_all();
        for job in waiting.into_values().flatten() {
            job.end.send(Err(FetchError::Closed));
        }
    }

    /// Jobs that wait.
    pub(crate) fn len(&self) -> usize {
        self.queues.lock().len
    }
}

impl Queues {
    fn next(&mut self) -> Option<Job> {
        let client = self.order.pop_front()?;
        let jobs = self.by_client.get_mut(&client)?;
        let job = jobs.pop_front();
        if jobs.is_empty() {
            self.by_client.remove(&client);
        } else {
            self.order.push_back(client);
        }
        self.len -= usize::from(job.is_some());
        job
    }
}

#[cfg(test)]
mod tests {
    use chain_solana::{Pending, pending};
    use solana_pubkey::Pubkey;

    use super::*;

    #[expect(clippy::disallowed_methods, reason = "a deadline that is not used")]
    fn job(n: u8) -> (Job, Pending<Fetched>) {
        let (result, reply) = pending();
        let keys = vec![Pubkey::new_from_array([n; 32])];
        let request = AccountsRequest { keys, ..AccountsRequest::default() };
        (Job { request, deadline: Instant::now(), end: JobEnd::Reply(reply) }, result)
    }

    #[test]
    fn clients_are_served_round_robin_and_each_has_half() {
        let jobs = Jobs::default();
        let (greedy, other) = (ClientId(1), ClientId(2));
        let mut waiting = Vec::new();
        let mut push = |client, n| {
            let (job, result) = job(n);
            waiting.push(result);
            jobs.push(client, job)
        };
        for _ in 0..JOBS_MAX / 2 {
            push(greedy, 1).expect("it has space");
        }
        let full = FetchError::TooMany { waiting: JOBS_MAX / 2, limit: JOBS_MAX };
        assert_eq!(push(greedy, 1), Err(full));
        push(other, 2).expect("another client has its half");
        let next = || jobs.pop().map(|job| job.request.keys[0].to_bytes()[0]);
        assert_eq!([next(), next(), next()], [Some(1), Some(2), Some(1)]);
        assert_eq!(jobs.len(), JOBS_MAX / 2 - 2);
    }

    #[test]
    fn the_end_reaches_every_client() {
        let jobs = Jobs::default();
        let (first, result) = job(1);
        jobs.push(ClientId(1), first).expect("it has space");
        jobs.close();
        assert_eq!(result.wait(), Some(Err(FetchError::Closed)));
        assert!(jobs.pop().is_none());
        let (late, _result) = job(1);
        assert_eq!(jobs.push(ClientId(1), late), Err(FetchError::Closed));
    }
}
