//! One method by its name, for a door other than JSON-RPC: the same table, classes, limits, pieces and end.
//!
//! In: the name of a method and its parameters as JSON. Out: the result as JSON, piece by piece.
//! Bounds: those of `dispatch`; one more piece is held back here, since a reply's last bytes are cut off.
//! Invariant: dropping what [`Caller::call`] gives, or its future, ends the task behind it.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use pool::ClientId;
use serde::Deserialize;
use serde_json::Value;

use crate::compress::Coding;
use crate::dispatch::{self, Asker, Reply};
use crate::error::RpcError;
use crate::methods::{PIECE_BYTES, PREFIX};
use crate::node::Node;
use crate::outlet::{Piece, Taken, Taker};
use crate::request_id::RequestId;

/// What ends a reply to the id `null`.
const TAIL: &[u8] = b",\"id\":null}\n";

/// Who asks, as limits and turns know him.
#[derive(Clone, Copy, Debug, Default)]
pub struct Caller {
    client: ClientId,
    request: RequestId,
}

impl Caller {
    pub(crate) fn new(client: ClientId, request: RequestId) -> Self {
        Self { client, request }
    }

    /// What the log calls the request.
    pub fn request(self) -> RequestId {
        self.request
    }

    /// Takes one request of the client's share; -32005 if it had it.
    pub fn admit(self, node: &Node) -> Result<(), RpcError> {
        node.admit(self.client, 1).map_err(|too_many| RpcError::too_many(&too_many))
    }

    /// Counts bytes that are sent whole; those of [`crate::Content::of_parts`] are counted by themselves.
    pub fn charge(self, node: &Node, bytes: usize) {
        node.charge(self.client, bytes);
    }

    pub(crate) fn client(self) -> ClientId {
        self.client
    }

    /// Runs a method where its class says, on parameters that are an array of JSON.
    ///
    /// Errors: the method's own, and -32005 if there is no room for it.
    pub async fn call(
        self,
        node: &Arc<Node>,
        method: &str,
        params: &str,
    ) -> Result<ResultParts, RpcError> {
        let (client, request, arrived) = (self.client, self.request, node.pool.now());
        let asker = Asker { client, coding: Coding::Plain, request, arrived };
        let (first, rest) = match dispatch::answer_method(node, asker, method, params).await {
            Reply::Nothing => return Err(RpcError::internal()),
            Reply::Whole(whole) => (whole.text, None),
            Reply::Kept(parts, _) => begin_kept(parts),
            Reply::Streamed(first, rest) => (first.bytes, Some(Rest::Made(rest))),
        };
        // Only a result is ever longer than one piece.
        let Some(result) = first.strip_prefix(PREFIX) else { return Err(refusal(&first)) };
        let held = first.slice_ref(result);
        Ok(ResultParts { held: Some(held), rest, cut: TAIL.len(), request: self.request })
    }
}

/// What a kept reply begins with, at least so much as the first piece of one that is made; and the rest.
fn begin_kept(parts: Vec<Bytes>) -> (Bytes, Option<Rest>) {
    let mut parts = parts.into_iter();
    let mut first = Vec::new();
    while first.len() < PIECE_BYTES {
        let Some(part) = parts.next() else { return (first.into(), None) };
        first.extend_from_slice(&part);
    }
    let rest = (parts.len() > 0).then_some(Rest::Kept(parts));
    (first.into(), rest)
}

/// The error in a reply.
fn refusal(reply: &[u8]) -> RpcError {
    #[derive(Deserialize)]
    struct Refusal {
        error: Parts,
    }
    #[derive(Deserialize)]
    struct Parts {
        code: i64,
        message: String,
        data: Option<Value>,
    }
    match serde_json::from_slice(reply) {
        Ok(Refusal { error: Parts { code, message, data } }) => RpcError { code, message, data },
        Err(_) => RpcError::internal(),
    }
}

/// Where more of a reply comes from.
enum Rest {
    /// From the task that makes it.
    Made(Taker),
    /// From the cache: never empty, and the end is the end of the reply.
    Kept(std::vec::IntoIter<Bytes>),
}

impl Rest {
    fn poll_take(&mut self, cx: &mut Context<'_>) -> Poll<Taken> {
        match self {
            Self::Made(taker) => taker.poll_take(cx),
            Self::Kept(parts) => Poll::Ready(match parts.next() {
                Some(bytes) => {
                    let is_last = parts.len() == 0;
                    Taken::Piece(Piece { bytes, coding: Coding::Plain, is_last })
                }
                None => Taken::Ended(None),
            }),
        }
    }
}

/// A result as JSON, as it is made.
pub struct ResultParts {
    /// The next part, not given away before it is known what follows: the last bytes are not part of it.
    held: Option<Bytes>,
    /// Where more comes from; none once the last piece is held.
    rest: Option<Rest>,
    /// How many bytes at the end are not of the result.
    cut: usize,
    request: RequestId,
}

impl ResultParts {
    /// Whether nothing follows what [`Self::next`] gives next.
    pub fn is_whole(&self) -> bool {
        self.rest.is_none()
    }

    /// The beginning of the result, as far as it is there.
    pub fn beginning(&self) -> &[u8] {
        let held = self.held.as_deref().unwrap_or_default();
        let end =
            if self.rest.is_none() { held.len().saturating_sub(self.cut) } else { held.len() };
        held.get(..end).unwrap_or_default()
    }

    /// Leaves out so many bytes at the beginning, of those in [`Self::beginning`], and at the end.
    pub fn trim(&mut self, beginning: usize, end: usize) {
        if let Some(held) = &mut self.held {
            let _ = held.split_to(beginning.min(held.len()));
        }
        self.cut += end;
    }

    /// The next part; `None` after the last. An error if the rest will not come. Cancel safe.
    pub async fn next(&mut self) -> Option<io::Result<Bytes>> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    /// As [`Self::next`].
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        loop {
            let Some(rest) = &mut self.rest else {
                let last = self.held.take().map(|mut held| {
                    held.truncate(held.len().saturating_sub(self.cut));
                    Ok(held)
                });
                return Poll::Ready(last);
            };
            match ready!(rest.poll_take(cx)) {
                // An answer is kept whole or not at all: nothing of it came before.
                Taken::Kept(..) => {
                    (self.held, self.rest) = (None, None);
                    return Poll::Ready(Some(Err(io::ErrorKind::InvalidData.into())));
                }
                Taken::Ended(why) => {
                    (self.held, self.rest) = (None, None);
                    tracing::warn!(request = ?self.request, ?why, "an answer was cut off: it ended after it had begun");
                    return Poll::Ready(Some(Err(io::ErrorKind::UnexpectedEof.into())));
                }
                Taken::Piece(piece) => {
                    if piece.is_last {
                        self.rest = None;
                    }
                    if let Some(held) = self.push(piece.bytes) {
                        return Poll::Ready(Some(Ok(held)));
                    }
                }
            }
        }
    }

    /// Holds a piece, and gives what was held before if nothing of it can be cut off.
    fn push(&mut self, piece: Bytes) -> Option<Bytes> {
        let held = self.held.take().unwrap_or_default();
        if piece.len() >= self.cut {
            self.held = Some(piece);
            return (!held.is_empty()).then_some(held);
        }
        self.held = Some([held, piece].concat().into());
        None
    }
}
