//! An upstream that answers with a kaspad's recorded replies.

use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use clients::ClientId;
use kaspa::{BorshRequest, Encoding, JsonRequest, JsonServerMessage, Operation, replace_borsh_id};
use parking_lot::Mutex;
use rpc_kaspa::{Forward, ForwardError, ForwardFuture};
use tokio::sync::Semaphore;

use crate::golden;

/// A request that was forwarded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Forwarded {
    pub(crate) encoding: Encoding,
    pub(crate) operation: Operation,
    pub(crate) request: Bytes,
}

pub(crate) struct FakeForward {
    pub(crate) requests: Mutex<Vec<Forwarded>>,
    /// The error of every request.
    pub(crate) error: Mutex<Option<ForwardError>>,
    /// Permits to answer. Requests wait for one.
    pub(crate) permits: Semaphore,
    /// Requests whose future was dropped before its end.
    pub(crate) dropped: AtomicUsize,
}

impl FakeForward {
    pub(crate) fn new() -> Self {
        Self {
            requests: Mutex::default(),
            error: Mutex::default(),
            permits: Semaphore::new(1_000_000),
            dropped: AtomicUsize::new(0),
        }
    }

    /// Takes the requests since the last call.
    pub(crate) fn take_requests(&self) -> Vec<Forwarded> {
        std::mem::take(&mut self.requests.lock())
    }

    /// The recorded reply to an operation, with the id of a request.
    fn reply(
        &self,
        encoding: Encoding,
        operation: Operation,
        request: &[u8],
    ) -> Result<Bytes, ForwardError> {
        if let Some(error) = self.error.lock().clone() {
            return Err(error);
        }
        let is_reply = |golden: &golden::Golden| {
            golden.kind == "response" && golden.name.split('_').next() == Some(operation.name())
        };
        let found = golden::messages(encoding).find(is_reply);
        let mut reply = found.ok_or_else(|| ForwardError::new("no such reply"))?.bytes;
        match encoding {
            Encoding::Borsh => {
                let id = BorshRequest::parse(request).expect("a request").id.expect("an id");
                // The server restores the id of the client in any case.
                assert!(replace_borsh_id(&mut reply, !id));
            }
            Encoding::Json => {
                let text = std::str::from_utf8(request).expect("UTF-8");
                let id = JsonRequest::parse(text).expect("a request").id.expect("an id");
                let text = String::from_utf8(reply).expect("UTF-8");
                reply = JsonServerMessage::parse(&text).expect("a reply").encode_with_id(id);
            }
        }
        Ok(reply.into())
    }
}

struct CountDrop<'a>(Option<&'a AtomicUsize>);

impl Drop for CountDrop<'_> {
    fn drop(&mut self) {
        if let Some(dropped) = self.0 {
            dropped.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl Forward for FakeForward {
    fn forward(
        &self,
        client: ClientId,
        encoding: Encoding,
        operation: Operation,
        request: Bytes,
    ) -> ForwardFuture<'_> {
        assert_eq!(client, ClientId(7));
        self.requests.lock().push(Forwarded { encoding, operation, request: request.clone() });
        Box::pin(async move {
            let mut guard = CountDrop(Some(&self.dropped));
            self.permits.acquire().await.expect("it is not closed").forget();
            guard.0 = None;
            self.reply(encoding, operation, &request)
        })
    }
}
