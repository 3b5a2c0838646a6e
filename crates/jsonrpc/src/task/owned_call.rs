//! The input of a task: calls that own their data, and facts about their body.
//!
//! Not here: how a call is run (`dispatch`).

use pool::Class as PoolClass;

use crate::api::{Api, MethodRef};
use crate::envelope::{Id, ResponseText};
use crate::metrics::{MethodLabel, Outcome};
use crate::params::Params;
use crate::request_context::RequestContext;

/// A call that owns its data.
pub(crate) enum OwnedCall<A: Api> {
    /// It has its response already.
    Answered { text: ResponseText, label: MethodLabel, outcome: Outcome },
    /// To be run.
    Run { id: Id, method: MethodRef<A>, params: Option<Box<str>>, cache_policy: CachePolicy },
}

/// Whether a call is looked up in the cache before it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CachePolicy {
    /// No lookup: the call is cheap, or was looked up already.
    Bypass,
    /// The call is looked up in the cache.
    LookupFirst,
    /// `Bypass` if the call turns out to be cheap, else `LookupFirst`.
    ByCost,
}

impl<A: Api> OwnedCall<A> {
    pub(crate) fn new(
        id: Id,
        method: MethodRef<A>,
        params: Params<'_>,
        cache_policy: CachePolicy,
    ) -> Self {
        Self::Run { id, method, params: params.text().map(Box::from), cache_policy }
    }

    pub(crate) fn label(&self) -> MethodLabel {
        match self {
            Self::Answered { label, .. } => *label,
            Self::Run { method, .. } => method.label(),
        }
    }
}

/// Facts about a body other than its calls.
#[derive(Clone, Copy)]
pub(crate) struct TaskInfo {
    pub(crate) context: RequestContext,
    pub(crate) class: PoolClass,
    /// Outcome of the cache lookup, for the log.
    pub(crate) cache: &'static str,
    /// Whether the responses are in an array.
    pub(crate) is_batch: bool,
}
