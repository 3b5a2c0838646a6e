//! Calls of a body that wait for a slot before any call of the body runs.
//!
//! In: calls that are behind ([`PlannedCall::is_behind`]). Out: the slots at which the wait ended, in the context of
//! the request. If a slot was not reached, the call still runs, because its method checks `minContextSlot` and returns
//! Agave's error. The slot of the header is checked here, because methods do not know it.
//! Bounds: a body waits once, however many calls it has ([`crate::slot_waits`]).

use crate::api::{Api, Server};
use crate::error::RpcError;
use crate::metrics::Rejection;
use crate::planned_call::{CallPlan, DoneCall, PlannedCall};
use crate::request_context::RequestContext;
use crate::state_slots::RequiredSlots;

/// Waits for the slots that a call requires.
///
/// Errors: the slot of the header was not reached, or too many requests wait.
pub(super) async fn wait_for_call<A: Api>(
    server: &Server<A>,
    context: &mut RequestContext,
    call: &PlannedCall<'_, A>,
) -> Result<(), RpcError> {
    let mut required = RequiredSlots::default();
    call.requirement.add_to(&mut required);
    wait(server, context, required).await?;
    call.requirement.check_header(context.slots, server.context.slot_waits.time_limit())
}

/// Waits for the slots that the calls of a batch require. The calls that are refused have their error afterwards.
pub(super) async fn wait_for_batch<'a, A: Api>(
    server: &Server<A>,
    context: &mut RequestContext,
    plans: Vec<CallPlan<'a, A>>,
) -> Vec<CallPlan<'a, A>> {
    let mut required = RequiredSlots::default();
    for plan in &plans {
        if let CallPlan::Run(call) = plan
            && call.is_behind
        {
            call.requirement.add_to(&mut required);
        }
    }
    if required == RequiredSlots::default() {
        return plans;
    }
    let waited = wait(server, context, required).await;
    let check = |plan| refuse_if_behind(server, context, &waited, plan);
    plans.into_iter().map(check).collect()
}

fn refuse_if_behind<'a, A: Api>(
    server: &Server<A>,
    context: &RequestContext,
    waited: &Result<(), RpcError>,
    plan: CallPlan<'a, A>,
) -> CallPlan<'a, A> {
    let call = match plan {
        CallPlan::Run(call) if call.is_behind => call,
        other => return other,
    };
    let check =
        || call.requirement.check_header(context.slots, server.context.slot_waits.time_limit());
    match waited.clone().and_then(|()| check()) {
        Ok(()) => CallPlan::Run(call),
        Err(err) => CallPlan::Done(DoneCall {
            label: call.method.label(),
            commitment: call.requirement.commitment,
            id: call.id,
            versioned: true,
            result: Err(err),
        }),
    }
}

async fn wait<A: Api>(
    server: &Server<A>,
    context: &mut RequestContext,
    required: RequiredSlots,
) -> Result<(), RpcError> {
    let waits = &server.context.slot_waits;
    let slots = waits.wait(&server.api, context.client, required).await.inspect_err(|_| {
        server.context.metrics.record_rejection(Rejection::Waits);
    })?;
    context.slots = slots;
    Ok(())
}
