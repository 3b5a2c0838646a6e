//! Plans a call: it has its result already, runs on this thread, or runs on the pool.
//!
//! In: parsed calls. Out: one [`CallPlan`] for each call that gets a response.
//! Bounds: the [`InlineBudget`] of a body; once it is used up, calls go to the pool.
//! Invariant: if a method panics while its class is determined, only its own call fails.
//! Not here: the cache ([`super::cached`]), tasks of the pool ([`super::receive`]).

use std::borrow::Cow;

use cpu_pool::Class as PoolClass;
use response_cache::CacheableCall;

use super::response::JsonRpcResponse;
use crate::api::{Api, Execution, InlineBudget, Server};
use crate::catch_panic::catch_panic;
use crate::envelope::Call;
use crate::error::RpcError;
use crate::method_output::MethodResult;
use crate::metrics::MethodLabel;
use crate::planned_call::{CallPlan, DoneCall, Placement, PlannedCall};
use crate::request_context::RequestContext;
use crate::state_slots::StateRequirement;

/// A body after its cheap calls were run.
pub(super) enum BodyPlan<'a, A: Api> {
    /// Every call was answered.
    Answered(JsonRpcResponse),
    /// At least one call needs the pool.
    Pooled(PooledBody<'a, A>),
}

/// A body to be run on the pool.
pub(super) enum PooledBody<'a, A: Api> {
    /// A body that is one call.
    Single {
        call: Box<PlannedCall<'a, A>>,
        class: PoolClass,
        /// Set if its response is cacheable or has a validator.
        cacheable: Option<CacheableCall>,
    },
    /// A batch that becomes one task.
    Batch { plans: Vec<CallPlan<'a, A>>, class: PoolClass, fallback: BatchFallback },
}

/// The response to a batch that the pool refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BatchFallback {
    /// Its cheap calls are answered nevertheless.
    RunCheapCalls,
    /// The batch is refused as a whole.
    RefuseBody,
}

impl<A: Api> BodyPlan<'_, A> {
    /// The plan of a body that was parsed on the pool: it owns its parameters, and runs nothing elsewhere.
    pub(super) fn into_offloaded(self) -> BodyPlan<'static, A> {
        match self {
            Self::Answered(response) => BodyPlan::Answered(response.computed_on_pool()),
            Self::Pooled(PooledBody::Single { call, class, cacheable }) => {
                let call = Box::new(call.into_owned());
                BodyPlan::Pooled(PooledBody::Single { call, class, cacheable })
            }
            Self::Pooled(PooledBody::Batch { plans, class, .. }) => {
                let plans = plans.into_iter().map(CallPlan::into_owned).collect();
                let fallback = BatchFallback::RefuseBody;
                BodyPlan::Pooled(PooledBody::Batch { plans, class, fallback })
            }
        }
    }
}

/// Finds the method of a call, and checks its access. Returns `None` if the call gets no response.
pub(super) fn resolve<'a, A: Api>(
    server: &Server<A>,
    context: &RequestContext,
    call: Call<'a>,
) -> Option<CallPlan<'a, A>> {
    let (id, name, params) = match call {
        Call::Notification => return None,
        Call::Invalid { id, versioned, err } => {
            let label = MethodLabel::none();
            let commitment = StateRequirement::none().commitment;
            let result = Err(err);
            return Some(CallPlan::Done(DoneCall { id, versioned, label, commitment, result }));
        }
        Call::Method { id, method, params } => (id, method, params),
    };
    let refuse = |id, label, err| {
        let commitment = StateRequirement::none().commitment;
        let result = Err(err);
        Some(CallPlan::Done(DoneCall { id, versioned: true, label, commitment, result }))
    };
    let Some(method) = server.find_method(&name) else {
        return refuse(id, MethodLabel::other(), RpcError::method_not_found());
    };
    if let Err(err) = method.check_access(context.page_access) {
        return refuse(id, method.label(), err);
    }
    if !method.is_stateless
        && let Err(err) = server.context.health.check_state()
    {
        return refuse(id, method.label(), err);
    }
    let requirement = match method.is_stateless {
        true => StateRequirement::none(),
        false => {
            let request = server.api.state_request(method.name, params);
            StateRequirement::new(request, context.min_slot)
        }
    };
    let waits = &server.context.slot_waits;
    if !waits.are_enabled()
        && let Err(err) = requirement.check_header(context.slots, waits.time_limit())
    {
        return refuse(id, method.label(), err);
    }
    // A method refuses the slot of its parameters itself.
    let is_behind = waits.are_enabled() && !requirement.is_reached(context.slots);
    let text = params.text().map(Cow::Borrowed);
    let placement = Placement::Undecided;
    let must_prepare = false;
    let call = PlannedCall { id, method, text, placement, must_prepare, requirement, is_behind };
    Some(CallPlan::Run(call))
}

/// Resolves a call of a short batch, and decides where it runs.
pub(super) fn plan_call<'a, A: Api>(
    server: &Server<A>,
    context: &RequestContext,
    call: Call<'a>,
    budget: &mut InlineBudget,
) -> Option<CallPlan<'a, A>> {
    let plan = resolve(server, context, call)?;
    let CallPlan::Run(mut call) = plan else { return Some(plan) };
    call.check_preparation(server, context);
    Some(match call.place(server, context, budget) {
        None => CallPlan::Run(call),
        Some(result) => {
            let commitment = call.requirement.commitment;
            let PlannedCall { id, method, .. } = call;
            let label = method.label();
            CallPlan::Done(DoneCall { id, versioned: true, label, commitment, result })
        }
    })
}

impl<A: Api> PlannedCall<'_, A> {
    /// Asks whether the call has to wait for something before it runs. A panic is one of the method, which will say so.
    pub(super) fn check_preparation(&mut self, server: &Server<A>, context: &RequestContext) {
        let name = self.method.name;
        let must_prepare = || server.api.must_prepare(name, self.params(context));
        self.must_prepare = catch_panic(name, context.request, must_prepare).unwrap_or(false);
    }

    /// Decides where the call runs. Returns its result if it was found meanwhile.
    pub(super) fn place(
        &mut self,
        server: &Server<A>,
        context: &RequestContext,
        budget: &mut InlineBudget,
    ) -> Option<MethodResult> {
        let params = self.params(context);
        let method = self.method;
        let class = match method.execution {
            Execution::ByCost { class, .. } => {
                catch_panic(method.name, context.request, || class(&server.api, params, budget))
            }
            Execution::Medium => Ok(Some(PoolClass::Medium)),
            // A call that has to wait runs in the medium class at least.
            _ if self.must_wait() => Ok(None),
            Execution::Inline => Ok(None),
            Execution::Light => Ok(Some(PoolClass::Light)),
            Execution::TryInline(run) => {
                let run = || run(&server.api, params, budget);
                match catch_panic(method.name, context.request, run) {
                    Ok(Ok(result)) => return Some(result),
                    Ok(Err(class)) => Ok(Some(class)),
                    Err(err) => Err(err),
                }
            }
        };
        self.placement = match class {
            Err(err) => return Some(Err(err)),
            Ok(Some(PoolClass::Heavy)) => Placement::Pool(PoolClass::Heavy),
            Ok(_) if self.must_wait() => Placement::Pool(PoolClass::Medium),
            Ok(Some(class)) => Placement::Pool(class),
            Ok(None) => Placement::Inline,
        };
        None
    }

    /// Runs the method on this thread.
    pub(super) fn run(&self, server: &Server<A>, context: &RequestContext) -> MethodResult {
        let params = self.params(context);
        let run = || (self.method.run)(&server.api, params);
        catch_panic(self.method.name, context.request, run).flatten()
    }
}
