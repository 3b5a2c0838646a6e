//! A batch: all of it here if it is short and cheap or known, else all of it as one task of the pool.
//!
//! Bounds: [`INLINE_BATCH_MAX`] calls are looked at one by one; of a longer batch only the names are.
//! Not here: its calls on the pool, each of which is looked for in the cache when its turn comes ([`crate::job`]).

use std::sync::Arc;

use cache::Weight;
use pool::Class as PoolClass;

use super::count::count;
use super::plan::{Plan, heaviest, plan};
use super::reply::{Reply, invalid, join, refuse_body, reply};
use super::task::receive;
use crate::asker::Asker;
use crate::bare::Told;
use crate::compress::Coding;
use crate::envelope::{Call, Id};
use crate::error::RpcError;
use crate::job::{About, Job, OwnedCall, Way};
use crate::look::{self, Hit};
use crate::methods;
use crate::metrics::{ExecutionPath, MethodLabel, Outcome};
use crate::node::Node;
use crate::outlet::Taker;

/// A batch of more calls is answered on the pool though each of them is cheap.
pub(super) const INLINE_BATCH_MAX: usize = 16;

pub(super) async fn answer_batch(node: &Arc<Node>, asker: Asker, calls: Vec<Call<'_>>) -> Reply {
    if calls.len() > INLINE_BATCH_MAX {
        return answer_long_batch(node, asker, calls).await;
    }
    let plans = plan(node, &asker, calls);
    let Some(class) = heaviest(&plans) else {
        return answer_all_here(node, &asker, ExecutionPath::Inline, plans, &RpcError::internal());
    };
    if let Some(hits) = all_known(node, &asker, &plans) {
        return answer_known_here(node, &asker, ExecutionPath::Inline, plans, hits);
    }
    let calls = plans.iter().map(Plan::to_owned_call).collect();
    match submit_batch(node, asker, calls, class) {
        Ok(taker) => receive(node, (taker, class), asker, &Id::Null).await,
        // The cheap ones are answered all the same.
        Err(err) => answer_all_here(node, &asker, ExecutionPath::Inline, plans, &err),
    }
}

pub(super) fn answer_all_here(
    node: &Node,
    asker: &Asker,
    lane: ExecutionPath,
    plans: Vec<Plan<'_>>,
    refusal: &RpcError,
) -> Reply {
    join(plans.into_iter().map(|plan| plan.answer_here(node, asker, lane, refusal)))
}

/// The answers to all calls of a short batch that are not cheap, if all of them are kept, their texts came
/// before, and together they are short.
pub(super) fn all_known(node: &Node, asker: &Asker, plans: &[Plan<'_>]) -> Option<Vec<Hit>> {
    let (mut room, mut hits) = (look::known_batch_bytes_max(asker.coding), Vec::new());
    for plan in plans {
        if let Plan::OnPool { method, params, .. } = plan {
            let hit = look::known(node, Coding::Plain, method, *params)?;
            room = room.checked_sub(hit.entry.value.as_ref()?.bytes())?;
            hits.push(hit);
        }
    }
    Some(hits)
}

/// A batch whose calls are cheap, or have these answers.
pub(super) fn answer_known_here(
    node: &Node,
    asker: &Asker,
    lane: ExecutionPath,
    plans: Vec<Plan<'_>>,
    hits: Vec<Hit>,
) -> Reply {
    let (mut parts, mut hits) = (Vec::new(), hits.into_iter());
    for plan in plans {
        parts.push(bytes::Bytes::from_static(if parts.is_empty() { b"[" } else { b"," }));
        let subject = plan.subject();
        let hit = plan.class().and_then(|_| hits.next());
        let known = hit.as_ref().and_then(|hit| Some((hit.entry.value.as_ref()?, hit.slot)));
        match (plan, known) {
            (Plan::OnPool { id, .. }, Some((kept, slot))) => {
                parts.extend(kept.reply_in_batch(slot, &id));
                look::count_known(node);
                count(node, asker, (subject, None), ExecutionPath::Cached, Outcome::Succeeded);
            }
            // Every call that is not cheap has its answer.
            (plan, _) => {
                let done = plan.answer_here(node, asker, lane, &RpcError::internal());
                parts.push(done.text.into());
            }
        }
    }
    parts.push(bytes::Bytes::from_static(b"]\n"));
    Reply::Kept(parts, Coding::Plain, Told::default())
}

/// Even to look at each call would be too much here, so all of them go to the pool or none.
async fn answer_long_batch(node: &Arc<Node>, asker: Asker, calls: Vec<Call<'_>>) -> Reply {
    let (calls, class) = own(calls);
    if calls.is_empty() {
        return Reply::Nothing;
    }
    match submit_batch(node, asker, calls, class) {
        Ok(taker) => receive(node, (taker, class), asker, &Id::Null).await,
        Err(err) => refuse_body(node, &asker, ExecutionPath::Pool(class), &err),
    }
}

/// The calls of a long batch, and its class by their names alone.
pub(super) fn own(calls: Vec<Call<'_>>) -> (Vec<OwnedCall>, PoolClass) {
    let is_heavy = |call: &Call<'_>| match call {
        Call::Method { method, .. } => {
            methods::find_method(method).is_some_and(|method| methods::may_be_heavy(&method))
        }
        Call::Notification | Call::Invalid { .. } => false,
    };
    let class = if calls.iter().any(is_heavy) { PoolClass::Heavy } else { PoolClass::Medium };
    let owned = |call| match call {
        Call::Notification => None,
        Call::Invalid { id, versioned, err } => {
            Some(invalid(&err, &id, versioned).into_owned_call(MethodLabel::none()))
        }
        Call::Method { id, method, params } => Some(match methods::find_method(&method) {
            Some(method) => OwnedCall::new(id, method, params, Way::ByCost),
            None => {
                reply(Err(RpcError::method_not_found()), &id).into_owned_call(MethodLabel::other())
            }
        }),
    };
    (calls.into_iter().filter_map(owned).collect(), class)
}

pub(super) fn submit_batch(
    node: &Arc<Node>,
    asker: Asker,
    calls: Vec<OwnedCall>,
    class: PoolClass,
) -> Result<Taker, RpcError> {
    let about = About { asker, class, cache: "none", is_batch: true };
    let (job, taker) = Job::new(Arc::clone(node), about, calls);
    let ticket = node.pool.submit(class, asker.client, Box::new(job));
    Ok(taker.of(ticket.map_err(|full| RpcError::full(&full))?))
}
