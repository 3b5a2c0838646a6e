//! What a task is given: calls that own what they need, and what their body is.
//!
//! Not here: what is to be done with a call (`dispatch`).

use pool::Class as PoolClass;

use crate::envelope::Id;
use crate::methods::MethodRef;
use crate::metrics::{MethodLabel, Outcome};
use crate::params::Params;
use crate::request_context::RequestContext;

/// A call that owns what it needs.
pub(crate) enum OwnedCall {
    /// The reply is there already.
    Answered { text: Vec<u8>, label: MethodLabel, outcome: Outcome },
    /// To be run.
    Run { id: Id, method: MethodRef, params: Option<Box<str>>, cache_policy: CachePolicy },
}

/// What comes before a call is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CachePolicy {
    /// Nothing: it is cheap, or was looked for.
    Bypass,
    /// It is looked for in the cache.
    LookupFirst,
    /// The one or the other, by what it costs.
    ByCost,
}

impl OwnedCall {
    pub(crate) fn new(
        id: Id,
        method: MethodRef,
        params: Params<'_>,
        cache_policy: CachePolicy,
    ) -> Self {
        Self::Run { id, method, params: params.text().map(Box::from), cache_policy }
    }

    pub(crate) fn label(&self) -> MethodLabel {
        match self {
            Self::Answered { label: subject, .. } => *subject,
            Self::Run { method, .. } => method.label(),
        }
    }
}

/// What a body is, beside its calls.
#[derive(Clone, Copy)]
pub(crate) struct TaskInfo {
    pub(crate) context: RequestContext,
    pub(crate) class: PoolClass,
    /// What came of looking into the cache, for the log.
    pub(crate) cache: &'static str,
    /// Whether answers are in an array.
    pub(crate) is_batch: bool,
}
