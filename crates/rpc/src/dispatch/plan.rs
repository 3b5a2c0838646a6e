//! What is to be done with a call: it is answered already, runs here, or on the pool.
//!
//! In: calls as they were read. Out: one [`Plan`] for each that is to be answered.
//! Bounds: the [`InlineBudget`] of a body, past which its calls go to the pool.
//! Invariant: a method that panics while it is asked for its class ends its own call only.
//! Not here: the cache ([`super::from_cache`]), tasks of the pool ([`super::task`]).

use pool::Class as PoolClass;

use super::count::count;
use super::reply::{Answered, invalid, reply};
use crate::asker::Asker;
use crate::envelope::{Call, Id};
use crate::error::RpcError;
use crate::guard::guarded;
use crate::job::{OwnedCall, Way};
use crate::methods::{self, Class, InlineBudget, MethodRef, MethodResult};
use crate::metrics::{ExecutionPath, MethodLabel};
use crate::node::Node;
use crate::params::Params;

/// What is to be done with a call.
pub(super) enum Plan<'a> {
    /// It is done already.
    Answered(MethodLabel, Answered),
    /// It runs here.
    Here { id: Id, method: MethodRef, params: Params<'a> },
    /// It runs on the pool.
    OnPool { id: Id, method: MethodRef, params: Params<'a>, class: PoolClass },
}

impl<'a> Plan<'a> {
    /// Looks at a call; `None` if it is not to be answered.
    pub(super) fn of(
        node: &Node,
        asker: &Asker,
        call: Call<'a>,
        budget: &mut InlineBudget,
    ) -> Option<Self> {
        let (id, method, params) = match call {
            Call::Notification => return None,
            Call::Invalid { id, versioned, err } => {
                return Some(Self::Answered(MethodLabel::none(), invalid(&err, &id, versioned)));
            }
            Call::Method { id, method, params } => (id, method, params),
        };
        Some(match methods::find_method(&method) {
            None => {
                Self::Answered(MethodLabel::other(), reply(Err(RpcError::method_not_found()), &id))
            }
            Some(method) => Self::of_method(node, asker, (id, method, params), budget),
        })
    }

    pub(super) fn of_method(
        node: &Node,
        asker: &Asker,
        call: (Id, MethodRef, Params<'a>),
        budget: &mut InlineBudget,
    ) -> Self {
        let (id, method, params) = call;
        let request = asker.request;
        let class = match method.class {
            Class::Inline => Ok(None),
            Class::Light => Ok(Some(PoolClass::Light)),
            Class::Medium => Ok(Some(PoolClass::Medium)),
            Class::ByCost { class, .. } => {
                guarded(method.name, request, || class(node, params, budget))
            }
            Class::TryInline(run) => {
                match guarded(method.name, request, || run(node, params, budget)) {
                    Ok(Ok(result)) => return Self::Answered(method.label(), reply(result, &id)),
                    Ok(Err(class)) => Ok(Some(class)),
                    Err(err) => Err(err),
                }
            }
        };
        match class {
            Ok(None) => Self::Here { id, method, params },
            Ok(Some(class)) => Self::OnPool { id, method, params, class },
            Err(err) => Self::Answered(method.label(), reply(Err(err), &id)),
        }
    }

    pub(super) fn subject(&self) -> MethodLabel {
        match self {
            Self::Answered(subject, _) => *subject,
            Self::Here { method, .. } | Self::OnPool { method, .. } => method.label(),
        }
    }

    pub(super) fn class(&self) -> Option<PoolClass> {
        match self {
            Self::OnPool { class, .. } => Some(*class),
            Self::Answered(..) | Self::Here { .. } => None,
        }
    }

    pub(super) fn to_owned_call(&self) -> OwnedCall {
        match self {
            Self::Answered(subject, done) => done.clone().into_owned_call(*subject),
            Self::Here { id, method, params } => {
                OwnedCall::new(id.clone(), *method, *params, Way::Run)
            }
            Self::OnPool { id, method, params, .. } => {
                OwnedCall::new(id.clone(), *method, *params, Way::LookFirst)
            }
        }
    }

    /// The answer, made here, and counted; what was to run on the pool is answered with `refusal`.
    pub(super) fn answer_here(
        self,
        node: &Node,
        asker: &Asker,
        lane: ExecutionPath,
        refusal: &RpcError,
    ) -> Answered {
        let (subject, lane, done) = match self {
            Self::Answered(subject, done) => (subject, lane, done),
            Self::Here { id, method, params } => {
                let done = reply(run(node, method, asker, params), &id);
                (method.label(), lane, done)
            }
            Self::OnPool { id, method, class, .. } => {
                (method.label(), ExecutionPath::Pool(class), reply(Err(refusal.clone()), &id))
            }
        };
        count(node, asker, (subject, None), lane, done.outcome);
        done
    }
}

pub(super) fn plan<'a>(node: &Node, asker: &Asker, calls: Vec<Call<'a>>) -> Vec<Plan<'a>> {
    let mut budget = InlineBudget::new(node);
    calls.into_iter().filter_map(|call| Plan::of(node, asker, call, &mut budget)).collect()
}

/// The class of a batch; none if all of it can be answered here.
pub(super) fn heaviest(plans: &[Plan<'_>]) -> Option<PoolClass> {
    plans.iter().filter_map(Plan::class).max_by_key(|class| class.index())
}

pub(super) fn run(
    node: &Node,
    method: MethodRef,
    asker: &Asker,
    params: Params<'_>,
) -> MethodResult {
    let params = params.sent_by(asker.client);
    guarded(method.name, asker.request, || (method.run)(node, params)).flatten()
}
