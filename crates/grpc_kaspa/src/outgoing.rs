//! The bytes of a stream between its session and HTTP/2, and the status at their end.
//!
//! In: messages, each with the prefix of gRPC. Out: pieces for HTTP/2, then the status.
//! Bounds: [`OUTGOING_BYTES_MAX`] wait. A session writes further bytes when HTTP/2 has taken them, which it does while
//! the client reads.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use grpc_server::{Count, QueueBudget, Sending, StatusTimer, StreamId};
use parking_lot::Mutex;
use tonic::Status;

/// Bytes of a stream that a session may write before HTTP/2 takes them: a frame of the usual size. A larger value takes
/// more memory for each stream; a smaller one sends more frames.
pub const OUTGOING_BYTES_MAX: usize = 16 << 10;

pub(crate) struct Outgoing {
    id: StreamId,
    timer: Arc<StatusTimer>,
    /// The bytes that a session has written, until they are written to a socket.
    sending: Arc<Sending>,
    budget: Arc<QueueBudget>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    bytes: Vec<u8>,
    /// Counts `bytes`.
    count: Option<Count>,
    /// The status, once it is known.
    end: Option<Status>,
    /// Whether the session writes nothing more.
    is_finished: bool,
    /// Whether HTTP/2 takes nothing more.
    is_dropped: bool,
    writer: Option<Waker>,
    reader: Option<Waker>,
    /// Of the task that runs the session.
    session: Option<Waker>,
}

/// The next part of a response, for HTTP/2.
pub(crate) enum Piece {
    Bytes(Bytes),
    End(Status),
}

impl Outgoing {
    /// Creates the empty buffer of a new stream. `timer` ends the connection if the client does not read the end in
    /// time.
    pub(crate) fn new(id: StreamId, timer: Arc<StatusTimer>, budget: Arc<QueueBudget>) -> Self {
        let sending = Arc::new(Sending::new(Arc::clone(&budget)));
        Self { id, timer, sending, budget, state: Mutex::default() }
    }

    /// Appends bytes, as many as there is room for.
    pub(crate) fn poll_write(
        &self,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut state = self.state.lock();
        if state.is_dropped {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let room = OUTGOING_BYTES_MAX.saturating_sub(state.bytes.len());
        if room == 0 {
            state.writer = Some(context.waker().clone());
            return Poll::Pending;
        }
        let bytes = bytes.get(..room).unwrap_or(bytes);
        state.bytes.extend_from_slice(bytes);
        self.budget.add(bytes.len());
        let count = self.sending.count(bytes.len());
        match &mut state.count {
            Some(counted) => counted.merge(count),
            None => state.count = Some(count),
        }
        let reader = state.reader.take();
        drop(state);
        reader.into_iter().for_each(Waker::wake);
        Poll::Ready(Ok(bytes.len()))
    }

    /// Sets the status at the end, unless one is set already.
    pub(crate) fn set_end(&self, status: Status) {
        self.state.lock().end.get_or_insert(status);
    }

    /// Ends writing. `status` is sent if no other one is set.
    pub(crate) fn finish(&self, status: Status) {
        let mut state = self.state.lock();
        if state.is_finished {
            return;
        }
        state.is_finished = true;
        state.end.get_or_insert(status);
        let is_open = !state.is_dropped;
        let reader = state.reader.take();
        drop(state);
        if is_open {
            self.timer.start(self.id, &self.sending);
        }
        reader.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.state.lock().is_finished
    }

    /// Returns the next piece. [`Piece::End`] is the last one.
    pub(crate) fn poll_piece(&self, context: &mut Context<'_>) -> Poll<Piece> {
        let mut state = self.state.lock();
        if state.bytes.is_empty() {
            if state.is_finished {
                let status = state.end.take().unwrap_or_else(|| Status::ok(""));
                return Poll::Ready(Piece::End(status));
            }
            state.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        let bytes = std::mem::take(&mut state.bytes);
        let count = state.count.take();
        let writer = state.writer.take();
        drop(state);
        writer.into_iter().for_each(Waker::wake);
        let piece = match count {
            Some(count) => count.attach(bytes),
            None => bytes.into(),
        };
        Poll::Ready(Piece::Bytes(piece))
    }

    /// Ends reading, because the response has ended or the client has left. Later writes fail.
    pub(crate) fn drop_reader(&self) {
        let mut state = self.state.lock();
        state.is_dropped = true;
        state.bytes = Vec::new();
        state.count = None;
        let wakers = [state.writer.take(), state.session.take()];
        drop(state);
        self.timer.end(self.id, &self.sending);
        wakers.into_iter().flatten().for_each(Waker::wake);
    }

    /// Waits until HTTP/2 takes nothing more.
    pub(crate) fn poll_dropped(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state.lock();
        if state.is_dropped {
            return Poll::Ready(());
        }
        state.session = Some(context.waker().clone());
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outgoing() -> (Outgoing, Arc<QueueBudget>) {
        let budget = Arc::new(QueueBudget::new(usize::MAX));
        (Outgoing::new(StreamId(1), Arc::default(), Arc::clone(&budget)), budget)
    }

    fn context() -> Context<'static> {
        Context::from_waker(Waker::noop())
    }

    #[test]
    fn a_session_waits_until_its_bytes_are_taken() {
        let (outgoing, budget) = outgoing();
        let write = |len| outgoing.poll_write(&mut context(), &vec![7; len]);
        assert!(matches!(write(10), Poll::Ready(Ok(10))));
        assert_eq!(budget.sending(), 10, "those of a client that does not read count");
        let room = OUTGOING_BYTES_MAX - 10;
        assert!(matches!(write(OUTGOING_BYTES_MAX), Poll::Ready(Ok(written)) if written == room));
        assert!(write(1).is_pending());
        let Poll::Ready(Piece::Bytes(piece)) = outgoing.poll_piece(&mut context()) else {
            panic!("bytes wait")
        };
        assert_eq!((piece.len(), budget.sending()), (OUTGOING_BYTES_MAX, OUTGOING_BYTES_MAX));
        drop(piece);
        assert_eq!(budget.used_bytes(), 0);
        assert!(outgoing.poll_piece(&mut context()).is_pending());
        assert!(write(20).is_ready());
        assert_eq!(budget.sending(), 20);
        outgoing.drop_reader();
        assert_eq!(budget.used_bytes(), 0);
    }

    #[test]
    fn the_first_status_ends_the_stream_after_its_bytes() {
        let (outgoing, _) = outgoing();
        assert!(outgoing.poll_write(&mut context(), b"last").is_ready());
        outgoing.set_end(Status::resource_exhausted("slow"));
        outgoing.finish(Status::ok(""));
        assert!(outgoing.is_finished());
        assert!(matches!(outgoing.poll_piece(&mut context()), Poll::Ready(Piece::Bytes(_))));
        let Poll::Ready(Piece::End(status)) = outgoing.poll_piece(&mut context()) else {
            panic!("the end comes")
        };
        assert_eq!(status.message(), "slow");
        outgoing.drop_reader();
        assert!(matches!(outgoing.poll_write(&mut context(), b"more"), Poll::Ready(Err(_))));
    }
}
