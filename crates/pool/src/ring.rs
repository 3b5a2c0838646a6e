//! Jobs of many clients, of whom each has its turn.
//!
//! Cost: constant for each push and pop; a removal looks through the jobs of its client.

use std::collections::{HashMap, VecDeque};

use crate::ClientId;
use crate::schedule::JobId;

#[derive(Default)]
pub(crate) struct Ring {
    /// The clients that have jobs here, the next first.
    turns: VecDeque<ClientId>,
    /// Never an empty one.
    jobs: HashMap<ClientId, VecDeque<JobId>>,
    len: usize,
}

impl Ring {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// To the back of its client's jobs.
    pub(crate) fn push(&mut self, client: ClientId, job: JobId) {
        let jobs = self.jobs.entry(client).or_default();
        if jobs.is_empty() {
            self.turns.push_back(client);
        }
        jobs.push_back(job);
        self.len += 1;
    }

    /// The job that [`Self::pop`] would give.
    pub(crate) fn first(&self) -> Option<JobId> {
        self.jobs.get(self.turns.front()?)?.front().copied()
    }

    /// The oldest job of the client whose turn it is.
    pub(crate) fn pop(&mut self) -> Option<JobId> {
        let client = self.turns.pop_front()?;
        let jobs = self.jobs.get_mut(&client)?;
        let job = jobs.pop_front();
        if jobs.is_empty() {
            self.jobs.remove(&client);
        } else {
            self.turns.push_back(client);
        }
        self.len -= usize::from(job.is_some());
        job
    }

    pub(crate) fn remove(&mut self, client: ClientId, job: JobId) {
        let Some(jobs) = self.jobs.get_mut(&client) else { return };
        let Some(at) = jobs.iter().position(|other| *other == job) else { return };
        jobs.remove(at);
        self.len -= 1;
        if jobs.is_empty() {
            self.jobs.remove(&client);
            self.turns.retain(|turn| *turn != client);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_take_turns_however_many_jobs_each_has() {
        let mut ring = Ring::default();
        for (client, job) in [(1, 1), (1, 2), (1, 3), (2, 4), (3, 5), (3, 6)] {
            ring.push(ClientId(client), JobId(job));
        }
        ring.remove(ClientId(3), JobId(5));
        ring.remove(ClientId(2), JobId(99));
        assert_eq!((ring.len(), ring.first()), (5, Some(JobId(1))));
        let order: Vec<u64> = std::iter::from_fn(|| ring.pop()).map(|job| job.0).collect();
        assert_eq!(order, [1, 4, 6, 2, 3]);
        assert_eq!(ring.len(), 0);
    }
}
