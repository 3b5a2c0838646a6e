//! What is to be done with a call: it is answered already, runs here, or on the pool.
//!
//! In: calls as they were read. Out: one [`CallPlan`] for each that is to be answered.
//! Bounds: the [`InlineBudget`] of a body, past which its calls go to the pool.
//! Invariant: a method that panics while it is asked for its class ends its own call only.
//! Not here: the cache ([`super::from_cache`]), tasks of the pool ([`super::task`]).

use pool::Class as PoolClass;

use super::record::record_call;
use super::response::{CallResponse, encode_invalid, encode_response};
use crate::catch_panic::catch_panic;
use crate::envelope::{Call, Id};
use crate::error::RpcError;
use crate::methods::{self, Class, InlineBudget, MethodRef, MethodResult};
use crate::metrics::{ExecutionPath, MethodLabel};
use crate::node::Node;
use crate::params::Params;
use crate::request_context::RequestContext;
use crate::task::{CachePolicy, OwnedCall};

/// What is to be done with a call.
pub(super) enum CallPlan<'a> {
    /// It is done already.
    Answered(MethodLabel, CallResponse),
    /// It runs here.
    Inline { id: Id, method: MethodRef, params: Params<'a> },
    /// It runs on the pool.
    OnPool { id: Id, method: MethodRef, params: Params<'a>, class: PoolClass },
}

impl<'a> CallPlan<'a> {
    /// Looks at a call; `None` if it is not to be answered.
    pub(super) fn for_call(
        node: &Node,
        asker: &RequestContext,
        call: Call<'a>,
        budget: &mut InlineBudget,
    ) -> Option<Self> {
        let (id, method, params) = match call {
            Call::Notification => return None,
            Call::Invalid { id, versioned, err } => {
                return Some(Self::Answered(
                    MethodLabel::none(),
                    encode_invalid(&err, &id, versioned),
                ));
            }
            Call::Method { id, method, params } => (id, method, params),
        };
        Some(match methods::find_method(&method) {
            None => Self::Answered(
                MethodLabel::other(),
                encode_response(Err(RpcError::method_not_found()), &id),
            ),
            Some(method) => Self::for_method(node, asker, (id, method, params), budget),
        })
    }

    pub(super) fn for_method(
        node: &Node,
        asker: &RequestContext,
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
                catch_panic(method.name, request, || class(node, params, budget))
            }
            Class::TryInline(run) => {
                match catch_panic(method.name, request, || run(node, params, budget)) {
                    Ok(Ok(result)) => {
                        return Self::Answered(method.label(), encode_response(result, &id));
                    }
                    Ok(Err(class)) => Ok(Some(class)),
                    Err(err) => Err(err),
                }
            }
        };
        match class {
            Ok(None) => Self::Inline { id, method, params },
            Ok(Some(class)) => Self::OnPool { id, method, params, class },
            Err(err) => Self::Answered(method.label(), encode_response(Err(err), &id)),
        }
    }

    pub(super) fn label(&self) -> MethodLabel {
        match self {
            Self::Answered(subject, _) => *subject,
            Self::Inline { method, .. } | Self::OnPool { method, .. } => method.label(),
        }
    }

    pub(super) fn class(&self) -> Option<PoolClass> {
        match self {
            Self::OnPool { class, .. } => Some(*class),
            Self::Answered(..) | Self::Inline { .. } => None,
        }
    }

    pub(super) fn to_owned_call(&self) -> OwnedCall {
        match self {
            Self::Answered(subject, done) => done.clone().into_owned_call(*subject),
            Self::Inline { id, method, params } => {
                OwnedCall::new(id.clone(), *method, *params, CachePolicy::Bypass)
            }
            Self::OnPool { id, method, params, .. } => {
                OwnedCall::new(id.clone(), *method, *params, CachePolicy::LookupFirst)
            }
        }
    }

    /// The answer, made here, and counted; what was to run on the pool is answered with `refusal`.
    pub(super) fn respond_inline(
        self,
        node: &Node,
        asker: &RequestContext,
        lane: ExecutionPath,
        refusal: &RpcError,
    ) -> CallResponse {
        let (subject, lane, done) = match self {
            Self::Answered(subject, done) => (subject, lane, done),
            Self::Inline { id, method, params } => {
                let done = encode_response(run_method(node, method, asker, params), &id);
                (method.label(), lane, done)
            }
            Self::OnPool { id, method, class, .. } => (
                method.label(),
                ExecutionPath::Pool(class),
                encode_response(Err(refusal.clone()), &id),
            ),
        };
        record_call(node, asker, (subject, None), lane, done.outcome);
        done
    }
}

pub(super) fn plan_calls<'a>(
    node: &Node,
    asker: &RequestContext,
    calls: Vec<Call<'a>>,
) -> Vec<CallPlan<'a>> {
    let mut budget = InlineBudget::new(node);
    calls
        .into_iter()
        .filter_map(|call| CallPlan::for_call(node, asker, call, &mut budget))
        .collect()
}

/// The class of a batch; none if all of it can be answered here.
pub(super) fn max_class(plans: &[CallPlan<'_>]) -> Option<PoolClass> {
    plans.iter().filter_map(CallPlan::class).max_by_key(|class| class.index())
}

pub(super) fn run_method(
    node: &Node,
    method: MethodRef,
    asker: &RequestContext,
    params: Params<'_>,
) -> MethodResult {
    let params = params.sent_by(asker.client);
    catch_panic(method.name, asker.request, || (method.run)(node, params)).flatten()
}
