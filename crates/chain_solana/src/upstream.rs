//! Calls of JSON-RPC that only an upstream of a followed chain can answer.
//!
//! Shape: a call is queued at once, and its result is taken later: [`UpstreamCall::poll`] says when it is there. The
//! producer has an [`UpstreamReply`].
//! Invariant: each call gets a result. A reply that is dropped is an error.

use std::sync::Arc;
use std::task::{Poll, Waker};

use parking_lot::{Condvar, Mutex};
use serde_json::Value;

/// Why there is no result.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum UpstreamError {
    /// The upstream refused the call.
    #[error("{message}")]
    Refused {
        /// The code.
        code: i64,
        /// The message.
        message: String,
        /// Details.
        data: Option<Value>,
    },
    /// The upstream did not answer. Fix: the upstream, or its address (`--upstream`).
    #[error("the upstream (--upstream) did not answer: {0}")]
    Unreachable(String),
    /// Too many calls wait for the upstream. Fix: try again later.
    #[error("{limit} calls wait for the upstream already")]
    TooMany {
        /// The limit.
        limit: usize,
    },
}

/// The result of a call, in JSON.
pub type UpstreamResult = Result<Vec<u8>, UpstreamError>;

/// An upstream of a followed chain.
pub trait Upstream: Send + Sync {
    /// Queues a call. `params` is a JSON array.
    fn call(&self, method: &'static str, params: &str) -> Result<UpstreamCall, UpstreamError>;
}

/// What a call and its reply share.
#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    is_done: Condvar,
}

#[derive(Default)]
struct State {
    result: Option<UpstreamResult>,
    waker: Option<Waker>,
}

/// A call that has been queued.
pub struct UpstreamCall(Arc<Shared>);

/// Where the result of a call goes.
pub struct UpstreamReply(Arc<Shared>);

impl UpstreamCall {
    /// A call, and where its result goes.
    pub fn new() -> (Self, UpstreamReply) {
        let shared = Arc::<Shared>::default();
        (Self(Arc::clone(&shared)), UpstreamReply(shared))
    }

    /// Whether the result is there. If not, `waker` is woken once it is.
    pub fn poll(&self, waker: impl FnOnce() -> Waker) -> Poll<()> {
        let mut state = self.0.state.lock();
        if state.result.is_some() {
            return Poll::Ready(());
        }
        state.waker = Some(waker());
        Poll::Pending
    }

    /// The result. Blocks until it is there.
    pub fn wait(self) -> UpstreamResult {
        let mut state = self.0.state.lock();
        loop {
            match state.result.take() {
                Some(result) => return result,
                None => self.0.is_done.wait(&mut state),
            }
        }
    }
}

impl UpstreamReply {
    /// Whether the client has left.
    pub fn is_abandoned(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    /// Sends the result.
    pub fn send(self, result: UpstreamResult) {
        self.finish(result);
    }

    fn finish(&self, result: UpstreamResult) {
        let mut state = self.0.state.lock();
        if state.result.is_none() {
            state.result = Some(result);
        }
        let waker = state.waker.take();
        drop(state);
        self.0.is_done.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Drop for UpstreamReply {
    fn drop(&mut self) {
        if self.0.state.lock().result.is_none() {
            self.finish(Err(UpstreamError::Unreachable("the node ends".to_owned())));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Flag(AtomicBool);

    impl Wake for Flag {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_result_wakes_the_task_that_waits_for_it() {
        let (call, reply) = UpstreamCall::new();
        let flag = Arc::<Flag>::default();
        assert!(call.poll(|| Waker::from(Arc::clone(&flag))).is_pending());
        assert!(!flag.0.load(Ordering::Relaxed));
        reply.send(Ok(b"7".to_vec()));
        assert!(flag.0.load(Ordering::Relaxed));
        assert!(call.poll(|| unreachable!("it is there")).is_ready());
        assert_eq!(call.wait(), Ok(b"7".to_vec()));
    }

    #[test]
    fn a_dropped_reply_is_an_error() {
        let (call, reply) = UpstreamCall::new();
        assert!(!reply.is_abandoned());
        drop(reply);
        assert_eq!(call.wait(), Err(UpstreamError::Unreachable("the node ends".to_owned())));
        let (call, reply) = UpstreamCall::new();
        drop(call);
        assert!(reply.is_abandoned());
    }
}
