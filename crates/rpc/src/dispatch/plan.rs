//! How a call is run: it is answered already, runs on this thread, or on the pool.
//!
//! In: parsed calls. Out: one [`CallPlan`] for each call that gets a response.
//! Bounds: the [`InlineBudget`] of a body; once it is used up, calls go to the pool.
//! Invariant: if a method panics while its class is determined, only its own call fails.
//! Not here: the cache ([`super::cached`]), tasks of the pool ([`super::receive`]).

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

/// How to run a call.
pub(super) enum CallPlan<'a> {
    /// It has its response already.
    Answered(MethodLabel, CallResponse),
    /// It runs on this thread.
    Inline { id: Id, method: MethodRef, params: Params<'a> },
    /// It runs on the pool.
    OnPool { id: Id, method: MethodRef, params: Params<'a>, class: PoolClass },
}

impl<'a> CallPlan<'a> {
    /// Plans a call; `None` if it gets no response.
    pub(super) fn for_call(
        node: &Node,
        context: &RequestContext,
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
            Some(method) => Self::for_method(node, context, (id, method, params), budget),
        })
    }

    pub(super) fn for_method(
        node: &Node,
        context: &RequestContext,
        call: (Id, MethodRef, Params<'a>),
        budget: &mut InlineBudget,
    ) -> Self {
        let (id, method, params) = call;
        let request = context.request;
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
            Self::Answered(label, _) => *label,
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
            Self::Answered(label, response) => response.clone().into_owned_call(*label),
            Self::Inline { id, method, params } => {
                OwnedCall::new(id.clone(), *method, *params, CachePolicy::Bypass)
            }
            Self::OnPool { id, method, params, .. } => {
                OwnedCall::new(id.clone(), *method, *params, CachePolicy::LookupFirst)
            }
        }
    }

    /// Runs the call on this thread and counts it. A call for the pool gets `refusal` instead.
    pub(super) fn respond_inline(
        self,
        node: &Node,
        context: &RequestContext,
        path: ExecutionPath,
        refusal: &RpcError,
    ) -> CallResponse {
        let (label, path, response) = match self {
            Self::Answered(label, response) => (label, path, response),
            Self::Inline { id, method, params } => {
                let response = encode_response(run_method(node, method, context, params), &id);
                (method.label(), path, response)
            }
            Self::OnPool { id, method, class, .. } => (
                method.label(),
                ExecutionPath::Pool(class),
                encode_response(Err(refusal.clone()), &id),
            ),
        };
        record_call(node, context, (label, None), path, response.outcome);
        response
    }
}

pub(super) fn plan_calls<'a>(
    node: &Node,
    context: &RequestContext,
    calls: Vec<Call<'a>>,
) -> Vec<CallPlan<'a>> {
    let mut budget = InlineBudget::new(node);
    calls
        .into_iter()
        .filter_map(|call| CallPlan::for_call(node, context, call, &mut budget))
        .collect()
}

/// The class of a batch; `None` if all of it can be answered on this thread.
pub(super) fn max_class(plans: &[CallPlan<'_>]) -> Option<PoolClass> {
    plans.iter().filter_map(CallPlan::class).max_by_key(|class| class.index())
}

pub(super) fn run_method(
    node: &Node,
    method: MethodRef,
    context: &RequestContext,
    params: Params<'_>,
) -> MethodResult {
    let params = params.sent_by(context.client);
    catch_panic(method.name, context.request, || (method.run)(node, params)).flatten()
}
