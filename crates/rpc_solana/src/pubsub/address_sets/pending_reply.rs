//! A call about a set whose reply has not been written.
//!
//! In: the result of the call, or of a step of it. Out: the reply, counted in the metrics.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use jsonrpc::MethodResult;
use jsonrpc::envelope::{self, Id};
use jsonrpc::error::RpcError;
use jsonrpc::pubsub::record_call;
use websocket::SessionOutput;

use crate::pubsub::block_items::BlockItems;
use crate::pubsub::solana_subscriptions::SolanaPubSub;

/// A call whose reply has not been written.
#[derive(Clone)]
pub(super) struct PendingReply {
    pub(super) id: Id,
    pub(super) method: &'static str,
    /// When the message was complete.
    pub(super) received_at: Duration,
}

impl PendingReply {
    /// Records the call in the metrics, and encodes its reply.
    pub(super) fn reply(
        &self,
        pubsub: &SolanaPubSub,
        result: MethodResult,
    ) -> Vec<SessionOutput<BlockItems>> {
        record_call(pubsub, Some(self.method), self.received_at, result.as_ref());
        let reply = result.and_then(|output| output.into_response(&self.id));
        text_output(match reply {
            Ok(text) => text.as_bytes().to_vec(),
            Err(err) => envelope::error_response(&err, &self.id, true),
        })
    }

    /// As [`Self::reply`], the reply of a call that subscribed.
    pub(super) fn reply_subscribed(
        &self,
        pubsub: &SolanaPubSub,
        result: MethodResult,
    ) -> Vec<SessionOutput<BlockItems>> {
        let reply = self.reply(pubsub, result).into_iter();
        reply
            .map(|out| match out {
                SessionOutput::Message(reply) => SessionOutput::SubscribeReply(reply),
                other => other,
            })
            .collect()
    }

    /// Runs a step of the call. An error or a panic becomes the reply.
    pub(super) fn run_step<N>(
        &self,
        pubsub: &SolanaPubSub,
        step: impl FnOnce() -> Result<(Vec<SessionOutput<BlockItems>>, Option<N>), RpcError>,
    ) -> (Vec<SessionOutput<BlockItems>>, Option<N>) {
        let result = catch_unwind(AssertUnwindSafe(step)).unwrap_or_else(|_| {
            tracing::error!(method = self.method, "work on a set panicked; its request got -32603");
            Err(RpcError::internal())
        });
        result.unwrap_or_else(|err| (self.reply(pubsub, Err(err)), None))
    }
}

/// The output that is one text.
pub(super) fn text_output(bytes: Vec<u8>) -> Vec<SessionOutput<BlockItems>> {
    let Ok(text) = String::from_utf8(bytes) else { unreachable!("replies are written as JSON") };
    vec![SessionOutput::Message(text.into())]
}
