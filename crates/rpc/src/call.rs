//! One method by its name, for a door other than JSON-RPC: the same table, classes, limits, pieces and end.
//!
//! In: the name of a method, its parameters as JSON, and how its result is wanted ([`crate::Want`]). Out: what
//! is told of the result, and its bytes, which come piece by piece if they are many.
//! Bounds: those of `dispatch`, and [`crate::Want::hold_bytes_max`].
//! Invariant: dropping what [`Caller::call`] gives, or its future, ends the task behind it.

use std::sync::Arc;

use bytes::Bytes;
use pool::ClientId;

use crate::asker::Asker;
use crate::bare::{Bare, Told, Want};
use crate::compress::Coding;
use crate::content::Content;
use crate::dispatch::{self, Reply};
use crate::error::RpcError;
use crate::node::Node;
use crate::poll_budget;
use crate::request_id::RequestId;
use crate::work::{self, INLINE_BODY_BYTES_MAX};

/// Who asks, as limits and turns know him.
#[derive(Clone, Copy, Debug, Default)]
pub struct Caller {
    client: ClientId,
    request: RequestId,
}

/// A result: what is known of it, and its bytes.
pub struct Called {
    /// What is known before any of it is sent.
    pub told: Told,
    /// What it is compressed with.
    pub coding: Coding,
    /// Its bytes, at the pace of whoever reads them. They are counted as the client's once they go.
    pub content: Content,
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

    /// Reads what a client sent: here if it is short, as one step on the CPU pool if not. `read` owns the bytes, of
    /// which there are `bytes`.
    ///
    /// Errors: -32005 if the pool has no room for it, -32603 if `read` panics.
    pub async fn read<T: Send + 'static>(
        self,
        node: &Node,
        bytes: usize,
        read: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, RpcError> {
        if bytes <= INLINE_BODY_BYTES_MAX {
            return Ok(read());
        }
        work::on_pool(node, work::class_of(bytes), self.client, read).await
    }

    /// Counts bytes that are sent.
    pub fn charge(self, node: &Node, bytes: usize) {
        node.charge(self.client, bytes);
    }

    /// What is told of a result that is too long to be hashed, without making it, if `is_known` says that
    /// the client has the one of that [`Told::hash`]. It is the one that would be made now.
    ///
    /// Cost: parameters are read, and what the result depends on is looked up: some microseconds.
    pub fn unchanged(
        self,
        node: &Node,
        method: &str,
        params: &str,
        want: Want,
        is_known: impl FnOnce(&[u8; 16]) -> bool,
    ) -> Option<Told> {
        dispatch::unchanged(node, self.asker(node, want), (method, params), is_known)
    }

    fn asker(self, node: &Node, want: Want) -> Asker {
        let Self { client, request } = self;
        Asker { client, coding: want.coding, want: Some(want), request, arrived: node.pool.now() }
    }

    /// Runs a method where its class says, on parameters that are an array of JSON. Long ones are read on the CPU
    /// pool.
    ///
    /// Errors: the method's own, and -32005 if there is no room for it.
    pub async fn call(
        self,
        node: &Arc<Node>,
        method: &str,
        params: &str,
        want: Want,
    ) -> Result<Called, RpcError> {
        let asker = self.asker(node, want);
        poll_budget::charge(params.len());
        let reply = if params.len() > INLINE_BODY_BYTES_MAX {
            Box::pin(dispatch::answer_large_method(node, asker, method, params)).await
        } else {
            poll_budget::charge_parsed(params.len());
            dispatch::answer_method(node, asker, method, params).await
        };
        let (told, coding, content) = match reply {
            Reply::Nothing => return Err(RpcError::internal()),
            Reply::Whole(whole) => match whole.told {
                Some(told) => (*told, whole.coding, whole.text.into()),
                // It was answered where the socket is polled: it is short.
                None => {
                    poll_budget::charge(whole.text.len());
                    let (value, told) = Bare::whole(want, whole.text.into());
                    (told, Coding::Plain, Bytes::from(value).into())
                }
            },
            Reply::Kept(parts, coding, told) => {
                (told, coding, Content::kept(node, self.client, parts))
            }
            Reply::Streamed(mut first, rest) => {
                let told = first.told.take().ok_or_else(RpcError::internal)?;
                let coding = first.coding;
                (*told, coding, Content::streamed(node, self.client, first, rest))
            }
        };
        match told.err {
            Some(err) => Err(err),
            None => Ok(Called { told, coding, content }),
        }
    }
}
