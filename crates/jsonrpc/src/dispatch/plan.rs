//! How a call is run: it is answered already, runs on this thread, or on the pool.
//!
//! In: parsed calls. Out: one [`CallPlan`] for each call that gets a response.
//! Bounds: the [`InlineBudget`] of a body; once it is used up, calls go to the pool.
//! Invariant: if a method panics while its class is determined, only its own call fails.
//! Not here: the cache ([`super::cached`]), tasks of the pool ([`super::receive`]).

use pool::Class as PoolClass;

use super::record::record_call;
use super::response::{CallResponse, encode_invalid, encode_result};
use crate::api::{Api, Execution, InlineBudget, MethodRef, Server};
use crate::catch_panic::catch_panic;
use crate::envelope::{Call, Id};
use crate::error::RpcError;
use crate::method_output::MethodResult;
use crate::metrics::{ExecutionPath, MethodLabel};
use crate::params::Params;
use crate::request_context::RequestContext;
use crate::task::{CachePolicy, OwnedCall};

/// How to run a call.
pub(super) enum CallPlan<'a, A: Api> {
    /// It has its response already.
    Answered(MethodLabel, CallResponse),
    /// It runs on this thread.
    Inline { id: Id, method: MethodRef<A>, params: Params<'a> },
    /// It runs on the pool.
    OnPool { id: Id, method: MethodRef<A>, params: Params<'a>, class: PoolClass },
}

impl<'a, A: Api> CallPlan<'a, A> {
    /// Plans a call; `None` if it gets no response.
    pub(super) fn for_call(
        server: &Server<A>,
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
        Some(match server.find_method(&method) {
            None => Self::Answered(
                MethodLabel::other(),
                encode_result(context, Err(RpcError::method_not_found()), &id),
            ),
            Some(method) => Self::for_method(server, context, (id, method, params), budget),
        })
    }

    pub(super) fn for_method(
        server: &Server<A>,
        context: &RequestContext,
        call: (Id, MethodRef<A>, Params<'a>),
        budget: &mut InlineBudget,
    ) -> Self {
        let (id, method, params) = call;
        if let Err(err) = method.check_access(context.page_access) {
            return Self::Answered(method.label(), encode_result(context, Err(err), &id));
        }
        let request = context.request;
        if must_prepare(server, context, method, params) {
            return Self::on_pool(server, context, (id, method, params), budget);
        }
        let class = match method.execution {
            Execution::Inline => Ok(None),
            Execution::Light => Ok(Some(PoolClass::Light)),
            Execution::Medium => Ok(Some(PoolClass::Medium)),
            Execution::ByCost { class, .. } => {
                catch_panic(method.name, request, || class(&server.api, params, budget))
            }
            Execution::TryInline(run) => {
                match catch_panic(method.name, request, || run(&server.api, params, budget)) {
                    Ok(Ok(result)) => {
                        return Self::Answered(method.label(), encode_result(context, result, &id));
                    }
                    Ok(Err(class)) => Ok(Some(class)),
                    Err(err) => Err(err),
                }
            }
        };
        match class {
            Ok(None) => Self::Inline { id, method, params },
            Ok(Some(class)) => Self::OnPool { id, method, params, class },
            Err(err) => Self::Answered(method.label(), encode_result(context, Err(err), &id)),
        }
    }

    /// The plan of a call that waits for something before it runs. It waits in the medium class at least.
    fn on_pool(
        server: &Server<A>,
        context: &RequestContext,
        (id, method, params): (Id, MethodRef<A>, Params<'a>),
        budget: &mut InlineBudget,
    ) -> Self {
        let class = match method.execution {
            Execution::ByCost { class, .. } => {
                catch_panic(method.name, context.request, || class(&server.api, params, budget))
            }
            _ => Ok(None),
        };
        match class {
            Ok(Some(PoolClass::Heavy)) => {
                Self::OnPool { id, method, params, class: PoolClass::Heavy }
            }
            Ok(_) => Self::OnPool { id, method, params, class: PoolClass::Medium },
            Err(err) => Self::Answered(method.label(), encode_result(context, Err(err), &id)),
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

    pub(super) fn to_owned_call(&self) -> OwnedCall<A> {
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
        server: &Server<A>,
        context: &RequestContext,
        path: ExecutionPath,
        refusal: &RpcError,
    ) -> CallResponse {
        let (label, path, response) = match self {
            Self::Answered(label, response) => (label, path, response),
            Self::Inline { id, method, params } => {
                let result = run_method(server, method, context, params);
                let response = encode_result(context, result, &id);
                (method.label(), path, response)
            }
            Self::OnPool { id, method, class, .. } => (
                method.label(),
                ExecutionPath::Pool(class),
                encode_result(context, Err(refusal.clone()), &id),
            ),
        };
        record_call(&server.context, context, (label, None), path, response.outcome);
        response
    }
}

/// Whether a call has to wait for something before it runs. A panic is one of the method, which will say so.
pub(super) fn must_prepare<A: Api>(
    server: &Server<A>,
    context: &RequestContext,
    method: MethodRef<A>,
    params: Params<'_>,
) -> bool {
    let must_prepare = || server.api.must_prepare(method.name, params);
    catch_panic(method.name, context.request, must_prepare).unwrap_or(false)
}

pub(super) fn plan_calls<'a, A: Api>(
    server: &Server<A>,
    context: &RequestContext,
    calls: Vec<Call<'a>>,
) -> Vec<CallPlan<'a, A>> {
    let mut budget = server.inline_budget();
    calls
        .into_iter()
        .filter_map(|call| CallPlan::for_call(server, context, call, &mut budget))
        .collect()
}

/// The class of a batch; `None` if all of it can be answered on this thread.
pub(super) fn max_class<A: Api>(plans: &[CallPlan<'_, A>]) -> Option<PoolClass> {
    plans.iter().filter_map(CallPlan::class).max_by_key(|class| class.index())
}

pub(super) fn run_method<A: Api>(
    server: &Server<A>,
    method: MethodRef<A>,
    context: &RequestContext,
    params: Params<'_>,
) -> MethodResult {
    let params = params.sent_by(context.client, context.page_access);
    catch_panic(method.name, context.request, || (method.run)(&server.api, params)).flatten()
}
