//! A large body, which is read on the pool; what is cheap in it is answered there.
//!
//! Bounds: those of [`crate::work`], where it is said what a large body is.
//! Not here: what is heavy in it, which becomes a task of its own ([`super::single`], [`super::batch`]).

use std::str::Utf8Error;
use std::sync::Arc;

use pool::Class as PoolClass;

use super::batch::{
    INLINE_BATCH_MAX, all_known, answer_all_here, answer_known_here, own, submit_batch,
};
use super::from_cache::asked;
use super::plan::{Plan, heaviest, plan};
use super::read::read;
use super::reply::{Reply, refuse_body};
use super::single::{answer_on_pool, plan_single};
use super::task::receive;
use crate::asker::Asker;
use crate::cached::Asked;
use crate::envelope::{Call, Id, Request};
use crate::error::RpcError;
use crate::job::OwnedCall;
use crate::methods::MethodRef;
use crate::metrics::ExecutionPath;
use crate::node::Node;
use crate::params::Params;
use crate::work;

/// Reads a body on the pool, looks at its calls there, and runs there what is cheap.
pub(super) async fn answer_large(
    node: &Arc<Node>,
    asker: Asker,
    body: bytes::Bytes,
) -> Result<Reply, Utf8Error> {
    let class = work::class_of(body.len());
    let lane = ExecutionPath::Pool(class);
    let here = Arc::clone(node);
    let look = move || Ok(look_into(&here, &asker, lane, std::str::from_utf8(&body)?));
    Ok(match work::on_pool(node, class, asker.client, look).await {
        Ok(large) => answer_read(node, asker, large?).await,
        Err(err) => refuse_body(node, &asker, lane, &err),
    })
}

/// Answers one call of a method whose parameters are long, as the call with the id `null`. They are read on the
/// pool. It was admitted already.
pub(crate) async fn answer_large_method(
    node: &Arc<Node>,
    asker: Asker,
    method: &str,
    params: &str,
) -> Reply {
    let class = work::class_of(params.len());
    let lane = ExecutionPath::Pool(class);
    let here = Arc::clone(node);
    let (method, params) = (method.to_owned(), params.to_owned());
    let look = move || {
        let params = Params::new(Some(&params));
        let call = Call::Method { id: Id::Null, method: method.as_str().into(), params };
        look_into_single(&here, &asker, lane, call)
    };
    match work::on_pool(node, class, asker.client, look).await {
        Ok(large) => answer_read(node, asker, large).await,
        Err(err) => refuse_body(node, &asker, lane, &err),
    }
}

/// Answers what was read on the pool.
async fn answer_read(node: &Arc<Node>, asker: Asker, large: Large) -> Reply {
    match large {
        Large::Answered(reply) => reply.made_on_pool(),
        Large::Single { id, method, params, class, asked } => {
            let params = Params::new(params.as_deref());
            answer_on_pool(node, asker, (&id, method, params, class), asked).await
        }
        Large::Batch(calls, class) => match submit_batch(node, asker, calls, class) {
            Ok(taker) => receive(node, (taker, class), asker, &Id::Null).await,
            Err(err) => refuse_body(node, &asker, ExecutionPath::Pool(class), &err),
        },
    }
}

/// What a large body comes to.
enum Large {
    /// It is answered.
    Answered(Reply),
    /// One call, to be run on the pool; what it reads was looked up already.
    Single {
        id: Id,
        method: MethodRef,
        params: Option<Box<str>>,
        class: PoolClass,
        asked: Option<Asked>,
    },
    /// A batch, and where it is to be run.
    Batch(Vec<OwnedCall>, PoolClass),
}

fn look_into(node: &Node, asker: &Asker, lane: ExecutionPath, body: &str) -> Large {
    let calls = match read(node, asker, lane, body) {
        Err(reply) => return Large::Answered(*reply),
        Ok(Request::Single(call)) => return look_into_single(node, asker, lane, call),
        Ok(Request::Batch(calls)) => calls,
    };
    if calls.len() > INLINE_BATCH_MAX {
        let (calls, class) = own(calls);
        return match calls.is_empty() {
            true => Large::Answered(Reply::Nothing),
            false => Large::Batch(calls, class),
        };
    }
    let plans = plan(node, asker, calls);
    let Some(class) = heaviest(&plans) else {
        let reply = answer_all_here(node, asker, lane, plans, &RpcError::internal());
        return Large::Answered(reply);
    };
    match all_known(node, asker, &plans) {
        Some(hits) => Large::Answered(answer_known_here(node, asker, lane, plans, hits)),
        None => Large::Batch(plans.iter().map(Plan::to_owned_call).collect(), class),
    }
}

fn look_into_single(node: &Node, asker: &Asker, lane: ExecutionPath, call: Call<'_>) -> Large {
    let plan = match plan_single(node, *asker, call) {
        Ok(Some(plan)) => plan,
        Ok(None) => return Large::Answered(Reply::Nothing),
        Err(kept) => return Large::Answered(*kept),
    };
    match plan {
        Plan::OnPool { id, method, params, class } => {
            let asked = asked(node, asker, &method, params);
            Large::Single { id, method, params: params.text().map(Box::from), class, asked }
        }
        plan => {
            let done = plan.answer_here(node, asker, lane, &RpcError::internal());
            Large::Answered(Reply::whole(done))
        }
    }
}
