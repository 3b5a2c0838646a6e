//! A call from its parsing to its end: how it is run, or its result if it has one already.
//!
//! Shape: its parameters are borrowed from the body, until a task of the pool takes the call over and owns them.
//! Not here: which of these a call is (`dispatch`), running it on the pool (`task`).

use std::borrow::Cow;

use cpu_pool::Class as PoolClass;
use ledger::Commitment;

use crate::api::{Api, MethodRef};
use crate::envelope::Id;
use crate::method_output::MethodResult;
use crate::metrics::MethodLabel;
use crate::params::Params;
use crate::request_context::RequestContext;
use crate::state_slots::StateRequirement;

/// The plan of a call that gets a response.
pub(crate) enum CallPlan<'a, A: Api> {
    /// The result is known already.
    Done(DoneCall),
    /// The method has to be run.
    Run(PlannedCall<'a, A>),
}

/// A call that has its result, which is not encoded yet.
pub(crate) struct DoneCall {
    pub(crate) id: Id,
    /// Whether an error response has `"jsonrpc":"2.0"`.
    pub(crate) versioned: bool,
    pub(crate) label: MethodLabel,
    /// The commitment of the state that it was read from.
    pub(crate) commitment: Commitment,
    pub(crate) result: MethodResult,
}

/// A call of a method that has to be run.
pub(crate) struct PlannedCall<'a, A: Api> {
    pub(crate) id: Id,
    pub(crate) method: MethodRef<A>,
    /// The parameters as the client wrote them.
    pub(crate) text: Option<Cow<'a, str>>,
    pub(crate) placement: Placement,
    /// Whether it has to wait for something before it runs ([`Api::must_prepare`]).
    pub(crate) must_prepare: bool,
    /// The slots that it requires.
    pub(crate) requirement: StateRequirement,
    /// Whether it has to wait for these slots before it runs.
    pub(crate) is_behind: bool,
}

/// The place where a call runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    /// On the thread that parsed it.
    Inline,
    /// On the pool, in this class of work.
    Pool(PoolClass),
    /// On the pool, where its cost is determined when it starts: a call of a long batch.
    Undecided,
}

impl<A: Api> CallPlan<'_, A> {
    /// The class that the call needs on the pool.
    pub(crate) fn class(&self) -> Option<PoolClass> {
        match self {
            Self::Run(PlannedCall { placement: Placement::Pool(class), .. }) => Some(*class),
            Self::Run(_) | Self::Done(_) => None,
        }
    }

    /// The commitment of the state that the call reads.
    pub(crate) fn commitment(&self) -> Commitment {
        match self {
            Self::Done(call) => call.commitment,
            Self::Run(call) => call.requirement.commitment,
        }
    }

    /// The label of the method in metrics.
    pub(crate) fn label(&self) -> MethodLabel {
        match self {
            Self::Done(call) => call.label,
            Self::Run(call) => call.method.label(),
        }
    }

    /// Makes the plan own its parameters.
    pub(crate) fn into_owned(self) -> CallPlan<'static, A> {
        match self {
            Self::Done(call) => CallPlan::Done(call),
            Self::Run(call) => CallPlan::Run(call.into_owned()),
        }
    }
}

impl<A: Api> PlannedCall<'_, A> {
    /// Whether the call has to wait for anything before it runs.
    pub(crate) fn must_wait(&self) -> bool {
        self.must_prepare || self.is_behind
    }

    /// The parameters, with the client that sent them.
    pub(crate) fn params(&self, context: &RequestContext) -> Params<'_> {
        context.params(self.text.as_deref())
    }

    /// A copy for the task that runs it.
    pub(crate) fn to_owned_plan(&self) -> CallPlan<'static, A> {
        let Self { ref id, method, ref text, placement, must_prepare, requirement, is_behind } =
            *self;
        let id = id.clone();
        let text = text.as_deref().map(|text| Cow::Owned(text.to_owned()));
        let call =
            PlannedCall { id, method, text, placement, must_prepare, requirement, is_behind };
        CallPlan::Run(call)
    }

    /// Makes the call own its parameters.
    pub(crate) fn into_owned(self) -> PlannedCall<'static, A> {
        let Self { id, method, text, placement, must_prepare, requirement, is_behind } = self;
        let text = text.map(|text| Cow::Owned(text.into_owned()));
        PlannedCall { id, method, text, placement, must_prepare, requirement, is_behind }
    }
}
