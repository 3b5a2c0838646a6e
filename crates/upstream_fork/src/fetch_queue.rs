//! The requests that wait for the upstream.
//!
//! Shape: one queue for each client; the fetching threads take from them round robin.
//! Bounds: [`FETCHES_MAX`] fetches, half of them for one client. With one more the client gets an error at once.

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use chain_solana::{AccountsRequest, FetchError, PendingSender};
use clients::ClientId;
use foldhash::quality::RandomState;
use parking_lot::{Condvar, Mutex};

/// Requests that wait, of all clients.
pub(crate) const FETCHES_MAX: usize = 512;

pub(crate) type Fetched = Result<(), FetchError>;

/// The receiver of a fetch's result.
pub(crate) enum FetchReply {
    /// To a client that waits.
    Reply(PendingSender<Fetched>),
    /// To a function, which runs on the fetching thread.
    Then(Box<dyn FnOnce(Fetched) + Send>),
}

impl FetchReply {
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
pub(crate) struct QueuedFetch {
    pub(crate) request: AccountsRequest,
    pub(crate) deadline: Instant,
    pub(crate) end: FetchReply,
}

#[derive(Default)]
struct Queues {
    by_client: HashMap<ClientId, VecDeque<QueuedFetch>, RandomState>,
    /// The clients with fetches, in the order in which they are served.
    order: VecDeque<ClientId>,
    len: usize,
    is_closed: bool,
}

#[derive(Default)]
pub(crate) struct FetchQueue {
    queues: Mutex<Queues>,
    arrived: Condvar,
}

impl FetchQueue {
    /// Queues a fetch. Fails at a bound, and once the queue is closed.
    pub(crate) fn push(&self, client: ClientId, fetch: QueuedFetch) -> Result<(), FetchError> {
        let mut queues = self.queues.lock();
        if queues.is_closed {
            return Err(FetchError::Closed);
        }
        let own = queues.by_client.get(&client).map_or(0, VecDeque::len);
        if queues.len >= FETCHES_MAX || own >= FETCHES_MAX / 2 {
            return Err(FetchError::TooMany { waiting: queues.len, limit: FETCHES_MAX });
        }
        queues.len += 1;
        if own == 0 {
            queues.order.push_back(client);
        }
        queues.by_client.entry(client).or_default().push_back(fetch);
        drop(queues);
        self.arrived.notify_one();
        Ok(())
    }

    /// Waits for a fetch and removes it. Returns `None` once the queue is closed.
    pub(crate) fn pop(&self) -> Option<QueuedFetch> {
        let mut queues = self.queues.lock();
        loop {
            if queues.is_closed {
                return None;
            }
            if let Some(fetch) = queues.next() {
                return Some(fetch);
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
        for fetch in waiting.into_values().flatten() {
            fetch.end.send(Err(FetchError::Closed));
        }
    }

    /// FetchQueue that wait.
    pub(crate) fn len(&self) -> usize {
        self.queues.lock().len
    }
}

impl Queues {
    fn next(&mut self) -> Option<QueuedFetch> {
        let client = self.order.pop_front()?;
        let fetches = self.by_client.get_mut(&client)?;
        let fetch = fetches.pop_front();
        if fetches.is_empty() {
            self.by_client.remove(&client);
        } else {
            self.order.push_back(client);
        }
        self.len -= usize::from(fetch.is_some());
        fetch
    }
}

#[cfg(test)]
mod tests {
    use chain_solana::{Pending, pending};
    use solana_pubkey::Pubkey;

    use super::*;

    #[expect(clippy::disallowed_methods, reason = "a deadline that is not used")]
    fn fetch(n: u8) -> (QueuedFetch, Pending<Fetched>) {
        let (result, reply) = pending();
        let keys = vec![Pubkey::new_from_array([n; 32])];
        let request = AccountsRequest { keys, ..AccountsRequest::default() };
        (QueuedFetch { request, deadline: Instant::now(), end: FetchReply::Reply(reply) }, result)
    }

    #[test]
    fn clients_are_served_round_robin_and_each_has_half() {
        let fetches = FetchQueue::default();
        let greedy = ClientId(1);
        let other = ClientId(2);
        let mut waiting = Vec::new();
        let mut push = |client, n| {
            let (fetch, result) = fetch(n);
            waiting.push(result);
            fetches.push(client, fetch)
        };
        for _ in 0..FETCHES_MAX / 2 {
            push(greedy, 1).expect("it has space");
        }
        let full = FetchError::TooMany { waiting: FETCHES_MAX / 2, limit: FETCHES_MAX };
        assert_eq!(push(greedy, 1), Err(full));
        push(other, 2).expect("another client has its half");
        let next = || fetches.pop().map(|fetch| fetch.request.keys[0].to_bytes()[0]);
        assert_eq!([next(), next(), next()], [Some(1), Some(2), Some(1)]);
        assert_eq!(fetches.len(), FETCHES_MAX / 2 - 2);
    }

    #[test]
    fn the_end_reaches_every_client() {
        let fetches = FetchQueue::default();
        let (first, result) = fetch(1);
        fetches.push(ClientId(1), first).expect("it has space");
        fetches.close();
        assert_eq!(result.wait(), Some(Err(FetchError::Closed)));
        assert!(fetches.pop().is_none());
        let (late, _result) = fetch(1);
        assert_eq!(fetches.push(ClientId(1), late), Err(FetchError::Closed));
    }
}
