//! The streams of a connection that are not read although their clients send.
//!
//! Their frames stay in the window that HTTP/2 has for all streams of a connection. A proxy may forward several clients
//! over one connection. There, a client that exceeds its rate or does not read responses would block the calls of the
//! others with its streams.
//! Shape: a stream counts while its frames stay in the window, until it is read again. If there are
//! more than [`UNREAD_STREAMS_MAX`], the newest stream of the client with the most of them is refused.
//! Bounds: the window of a connection with API keys has space for [`UNREAD_STREAMS_MAX`] windows of streams
//! (`Config::shared_connection_window_bytes`). The streams of a connection's only client are not limited: they block
//! nothing but each other.
//! Not here: the rate of a client (`request_budget`), the reading itself (`requests`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Waker;

use clients::ClientId;
use foldhash::{HashMap, HashMapExt};
use parking_lot::Mutex;
use tonic::Status;

/// Unread streams of a connection with several clients. A larger value takes 64 KiB more for each connection of a node
/// with API keys; a smaller one refuses streams of clients that exceed their rate for a short time.
pub(crate) const UNREAD_STREAMS_MAX: usize = 6;

/// The unread streams of a connection.
#[derive(Default)]
pub struct UnreadStreams {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The client of the first call.
    first_client: Option<ClientId>,
    /// Whether the connection had calls of several clients.
    is_shared: bool,
    next_number: u64,
    /// By number: the newest is the last.
    streams: BTreeMap<u64, Stream>,
}

struct Stream {
    client: ClientId,
    /// Wakes the task that reads the stream.
    waker: Waker,
    is_refused: bool,
}

/// A stream that counts as unread. Dropping it ends the count.
pub(crate) struct UnreadStream {
    all: Arc<UnreadStreams>,
    number: u64,
}

impl UnreadStreams {
    /// Records the client of a call.
    pub(crate) fn record_call(&self, client: ClientId) {
        let state = &mut *self.state.lock();
        if *state.first_client.get_or_insert(client) != client && !state.is_shared {
            state.is_shared = true;
            state.refuse_excess();
        }
    }

    /// Returns whether the connection had calls of another client.
    pub(crate) fn has_other_clients(&self, client: ClientId) -> bool {
        let state = self.state.lock();
        state.is_shared || state.first_client.is_some_and(|first| first != client)
    }

    /// Counts a stream of a client as unread. `waker` is woken if the stream is refused.
    pub(crate) fn add(self: &Arc<Self>, client: ClientId, waker: &Waker) -> UnreadStream {
        let state = &mut *self.state.lock();
        let number = state.next_number;
        state.next_number += 1;
        let stream = Stream { client, waker: waker.clone(), is_refused: false };
        state.streams.insert(number, stream);
        state.refuse_excess();
        UnreadStream { all: Arc::clone(self), number }
    }
}

impl State {
    fn refuse_excess(&mut self) {
        while self.is_shared
            && let Some(number) = self.find_excess()
            && let Some(stream) = self.streams.get_mut(&number)
        {
            stream.is_refused = true;
            stream.waker.wake_by_ref();
        }
    }

    /// Returns the newest stream of the client with the most of them, if there are too many.
    fn find_excess(&self) -> Option<u64> {
        let counted = || self.streams.iter().filter(|(_, stream)| !stream.is_refused);
        if counted().count() <= UNREAD_STREAMS_MAX {
            return None;
        }
        let mut counts = HashMap::new();
        for (_, stream) in counted() {
            *counts.entry(stream.client).or_insert(0_usize) += 1;
        }
        let newest = counted().max_by_key(|(number, stream)| (counts.get(&stream.client), *number));
        newest.map(|(number, _)| *number)
    }
}

impl UnreadStream {
    /// Returns whether the stream must end. If not, `waker` is woken as soon as it must.
    pub(crate) fn is_refused(&self, waker: &Waker) -> bool {
        let state = &mut *self.all.state.lock();
        let Some(stream) = state.streams.get_mut(&self.number) else { return false };
        stream.waker.clone_from(waker);
        stream.is_refused
    }

    /// Returns the status of a stream that must end.
    pub(crate) fn refusal() -> Status {
        Status::resource_exhausted(format!(
            "{UNREAD_STREAMS_MAX} streams of this connection send more than the node reads, and this \
             client has the most of them: send less, read the responses, or open a connection for \
             each client"
        ))
    }
}

impl Drop for UnreadStream {
    fn drop(&mut self) {
        self.all.state.lock().streams.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANY: ClientId = ClientId(1);
    const FEW: ClientId = ClientId(2);

    fn add(all: &Arc<UnreadStreams>, client: ClientId, count: usize) -> Vec<UnreadStream> {
        (0..count).map(|_| all.add(client, Waker::noop())).collect()
    }

    fn are_refused(streams: &[UnreadStream]) -> Vec<bool> {
        streams.iter().map(|stream| stream.is_refused(Waker::noop())).collect()
    }

    #[test]
    fn streams_of_an_only_client_are_refused_once_another_one_calls() {
        let all = Arc::new(UnreadStreams::default());
        all.record_call(MANY);
        all.record_call(MANY);
        let streams = add(&all, MANY, UNREAD_STREAMS_MAX + 2);
        assert!(!are_refused(&streams).contains(&true));
        all.record_call(FEW);
        let refused = are_refused(&streams);
        assert!(!refused[..UNREAD_STREAMS_MAX].contains(&true), "{refused:?}");
        assert_eq!(refused[UNREAD_STREAMS_MAX..], [true, true]);
    }

    #[test]
    fn the_client_with_the_most_streams_gives_way() {
        let all = Arc::new(UnreadStreams::default());
        all.record_call(MANY);
        all.record_call(FEW);
        let many = add(&all, MANY, UNREAD_STREAMS_MAX);
        assert!(!are_refused(&many).contains(&true));
        let few = add(&all, FEW, 2);
        assert_eq!(are_refused(&few), [false, false]);
        let refused = are_refused(&many);
        assert_eq!(refused[UNREAD_STREAMS_MAX - 2..], [true, true], "{refused:?}");
        assert_eq!(refused.iter().filter(|it| **it).count(), 2);
        drop(many);
        let others = add(&all, FEW, UNREAD_STREAMS_MAX - 2);
        assert!(!are_refused(&others).contains(&true), "the streams that ended do not count");
        drop((few, others));
        assert!(all.state.lock().streams.is_empty());
    }
}
