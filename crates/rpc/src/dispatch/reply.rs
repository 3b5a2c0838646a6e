//! The answer to a body, and to one call of it.
//!
//! In: what a method gave, or why there is nothing; what is kept. Out: bytes with their newline, or where they
//! come from.
//! Invariant: who is to come again later is told so only if nothing of his body was answered.
//! Not here: making an answer ([`super::plan`]), its way to the client (`http`).

use pool::{Class as PoolClass, RateLimited};

use super::count::count;
use crate::asker::Asker;
use crate::bare::Told;
use crate::compress::Coding;
use crate::envelope::{self, Id};
use crate::error::RpcError;
use crate::job::OwnedCall;
use crate::kept::Kept;
use crate::methods::{MethodRef, MethodResult};
use crate::metrics::{ExecutionPath, MethodLabel, Outcome};
use crate::node::Node;
use crate::outlet::{Piece, Taker};
use crate::params::Params;
use crate::poll_budget;

/// When to come again after there was too much to do: a second's work is gone by then.
pub(super) const RETRY_AFTER_S: u64 = 1;

/// The answer to a body.
pub(crate) enum Reply {
    /// There was nothing to answer.
    Nothing,
    /// All of it.
    Whole(Whole),
    /// All of it, as it is kept; what is told of it, to another door.
    Kept(Vec<bytes::Bytes>, Coding, Told),
    /// Its beginning, and where the rest comes from.
    Streamed(Piece, Taker),
}

/// An answer that is all there.
#[derive(Default)]
pub(crate) struct Whole {
    /// What to send, the final newline included.
    pub(crate) text: bytes::Bytes,
    /// How it is compressed.
    pub(crate) coding: Coding,
    /// Whether all of it was refused because there is too much to do: HTTP 429, and after how many
    /// seconds to come again.
    pub(crate) retry_after_s: Option<u64>,
    /// Of a value for another door: what is told of it.
    pub(crate) told: Option<Box<Told>>,
    /// Whether it was not made here.
    pub(crate) is_from_pool: bool,
}

impl Reply {
    pub(super) fn kept(kept: &Kept, asker: Asker, slot: u64, id: &Id) -> Self {
        match asker.want {
            None => Self::Kept(kept.reply(slot, id), kept.coding(), Told::default()),
            Some(_) => Self::Kept(kept.bare(), kept.coding(), kept.told(slot)),
        }
    }

    /// The same, made on the pool.
    pub(super) fn made_on_pool(self) -> Self {
        match self {
            Self::Whole(whole) => Self::Whole(Whole { is_from_pool: true, ..whole }),
            other => other,
        }
    }

    fn error(err: &RpcError) -> Self {
        Self::whole(reply(Err(err.clone()), &Id::Null))
    }

    /// That a client is to come again later.
    pub(crate) fn too_many(too_many: &RateLimited, id: &Id) -> Self {
        let err = RpcError::too_many(too_many);
        let text = envelope::error_reply(&err, id, true);
        let retry_after_s = Some(too_many.retry_after.as_secs() + 1);
        Self::Whole(Whole { text: ended_line(text), retry_after_s, ..Whole::default() })
    }

    pub(super) fn whole(done: Answered) -> Self {
        let retry_after_s = done.overloaded.then_some(RETRY_AFTER_S);
        Self::Whole(Whole { text: ended_line(done.text), retry_after_s, ..Whole::default() })
    }
}

/// The answer to one call.
#[derive(Clone)]
pub(super) struct Answered {
    pub(super) text: Vec<u8>,
    overloaded: bool,
    pub(super) outcome: Outcome,
}

impl Answered {
    pub(super) fn into_owned_call(self, subject: MethodLabel) -> OwnedCall {
        OwnedCall::Answered { text: self.text, subject, outcome: self.outcome }
    }
}

pub(super) fn reply(result: MethodResult, id: &Id) -> Answered {
    match result.and_then(|answer| answer.into_response(id)) {
        Ok(text) => {
            // Nothing, where the CPU pool makes it.
            poll_budget::charge(text.len());
            Answered { text, overloaded: false, outcome: Outcome::Succeeded }
        }
        Err(err) => {
            let (overloaded, outcome) = (err.is_overload(), Outcome::Refused(err.code));
            Answered { text: envelope::error_reply(&err, id, true), overloaded, outcome }
        }
    }
}

/// The answer to something that is no call.
pub(super) fn invalid(err: &RpcError, id: &Id, versioned: bool) -> Answered {
    let text = envelope::error_reply(err, id, versioned);
    Answered { text, overloaded: false, outcome: Outcome::Refused(err.code) }
}

/// The answers of a batch; none if there is none.
pub(super) fn join(answers: impl Iterator<Item = Answered>) -> Reply {
    let mut text = Vec::new();
    let mut overloaded = true;
    for done in answers {
        text.push(if text.is_empty() { b'[' } else { b',' });
        text.extend_from_slice(&done.text);
        overloaded &= done.overloaded;
    }
    if text.is_empty() {
        return Reply::Nothing;
    }
    text.push(b']');
    Reply::whole(Answered { text, overloaded, outcome: Outcome::Succeeded })
}

/// The answer to a body that is not to be looked at any further.
pub(super) fn refuse_body(
    node: &Node,
    asker: &Asker,
    lane: ExecutionPath,
    err: &RpcError,
) -> Reply {
    count(node, asker, (MethodLabel::none(), None), lane, Outcome::Refused(err.code));
    Reply::error(err)
}

/// The answer to a call that the pool has no room for.
pub(super) fn refuse_call(
    node: &Node,
    asker: &Asker,
    (id, method, params, class): (&Id, MethodRef, Params<'_>, PoolClass),
    err: RpcError,
) -> Reply {
    let done = reply(Err(err), id);
    count(node, asker, (method.label(), Some(params)), ExecutionPath::Pool(class), done.outcome);
    Reply::whole(done)
}

fn ended_line(mut text: Vec<u8>) -> bytes::Bytes {
    text.push(b'\n');
    text.into()
}
