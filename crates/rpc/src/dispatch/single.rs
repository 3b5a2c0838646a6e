//! A call that comes alone: from the cache, here, or on the pool.
//!
//! Invariant: a call is counted once, here or by its task.
//! Not here: which of these it is ([`super::plan`], [`super::from_cache`]).

use std::sync::Arc;

use pool::Class as PoolClass;

use super::count::count;
use super::from_cache::{Run, asked, kept, known, stamper};
use super::plan::{Plan, run};
use super::reply::{Reply, refuse_call, reply};
use super::task::{in_time, receive};
use crate::asker::Asker;
use crate::cached::Asked;
use crate::envelope::{Call, Id};
use crate::error::RpcError;
use crate::job::{About, Job, OwnedCall, Way};
use crate::methods::{self, InlineBudget, MethodRef};
use crate::metrics::ExecutionPath;
use crate::node::Node;
use crate::params::Params;

pub(super) async fn answer_single(node: &Arc<Node>, asker: Asker, call: Call<'_>) -> Reply {
    let plan = match plan_single(node, asker, call) {
        Ok(plan) => plan,
        Err(kept) => return *kept,
    };
    let (subject, params, done) = match plan {
        None => return Reply::Nothing,
        Some(Plan::Answered(subject, done)) => (subject, None, done),
        Some(Plan::Here { id, method, params }) => {
            let done = reply(run(node, method, &asker, params), &id);
            (method.label(), Some(params), done)
        }
        Some(Plan::OnPool { id, method, params, class }) => {
            let asked = asked(node, &asker, &method, params);
            return answer_on_pool(node, asker, (&id, method, params, class), asked).await;
        }
    };
    count(node, &asker, (subject, params), ExecutionPath::Inline, done.outcome);
    Reply::whole(done)
}

/// Answers one call of a method, which was admitted already, as the call with the id `null`.
pub(crate) async fn answer_method(
    node: &Arc<Node>,
    asker: Asker,
    method: &str,
    params: &str,
) -> Reply {
    let call =
        Call::Method { id: Id::Null, method: method.into(), params: Params::new(Some(params)) };
    answer_single(node, asker, call).await
}

/// What is to be done with a call that comes alone; or its answer, if its text came before and that is kept.
pub(super) fn plan_single<'a>(
    node: &Node,
    asker: Asker,
    call: Call<'a>,
) -> Result<Option<Plan<'a>>, Box<Reply>> {
    let mut budget = InlineBudget::new(node);
    let (id, name, params) = match call {
        Call::Method { id, method, params } => (id, method, params),
        call => return Ok(Plan::of(node, &asker, call, &mut budget)),
    };
    let Some(method) = methods::find_method(&name) else {
        let call = Call::Method { id, method: name, params };
        return Ok(Plan::of(node, &asker, call, &mut budget));
    };
    match known(node, asker, (&id, method, params)) {
        Some(kept) => Err(Box::new(kept)),
        None => Ok(Some(Plan::of_method(node, &asker, (id, method, params), &mut budget))),
    }
}

/// Answers a call of which it is known that it is not cheap: from the cache, or on the pool.
pub(super) async fn answer_on_pool(
    node: &Arc<Node>,
    asker: Asker,
    (id, method, params, class): (&Id, MethodRef, Params<'_>, PoolClass),
    asked: Option<Asked>,
) -> Reply {
    let call = (id, method, params, class);
    let run = match asked.as_ref().filter(|asked| asked.reads.is_kept) {
        Some(asked) => match kept(node, asker, call, asked).await {
            Ok(kept) => return kept,
            Err(run) => run,
        },
        None => Run::alone("none"),
    };
    let about = About { asker, class, cache: run.cache, is_batch: false };
    let calls = vec![OwnedCall::new(id.clone(), method, params, Way::Run)];
    let stamper = stamper(node, &asker, asked.as_ref());
    let (job, taker) = Job::new(Arc::clone(node), about, calls);
    let job = job.stamp(stamper).look_for_it(asked.zip(run.turn));
    let taker = match node.pool.submit(class, asker.client, Box::new(job)) {
        Ok(ticket) => taker.of(ticket),
        Err(full) => return refuse_call(node, &asker, call, RpcError::full(&full)),
    };
    let receiving = receive(node, (taker, class), asker, id);
    if !run.has_waited {
        return receiving.await; // the pool sees to its deadline
    }
    match in_time(node, &asker, class, receiving).await {
        Ok(reply) => reply,
        // Its task counts it.
        Err(late) => Reply::whole(reply(Err(late), id)),
    }
}
