//! From the text of a body to its answer: which call runs where.
//!
//! A cheap call runs where the socket is polled. Any other goes to the CPU pool, with all calls of its
//! batch, as one task ([`crate::job`]) whose answer comes back piece by piece. A large body is read on the pool
//! as well ([`crate::work`]), and what is cheap in it is answered there. What is kept is not made again
//! ([`crate::look`]): for a call alone that is looked for here, for those of a batch when their turn comes, unless
//! all of a short one is known.
//! Bounds: `Config::batch_max` calls; the pool's own, past which the client is told at once.
//! Invariant: nothing is left running for a client that has gone: dropping what [`answer`] gives, or its
//! future, ends the task.
//! Long because every way from a body to its answer is here, to be read side by side.

use std::str::Utf8Error;
use std::sync::Arc;
use std::time::Duration;

use cache::{Tell, Turn, Weigh};
use pool::{Class as PoolClass, ClientId, Ended, TooMany};
use tokio::sync::oneshot;

use crate::bare::{Told, Want};
use crate::cached::{self, Asked};
use crate::compress::Coding;
use crate::envelope::{self, Bounded, Call, Id, Request};
use crate::error::{OVERLOADED, RpcError};
use crate::job::{About, Job, OwnedCall, Way, guarded};
use crate::kept::Kept;
use crate::look::{self, ATTEMPTS, Hit, Looked};
use crate::methods::{self, Budget, Class, Method, MethodResult, Named};
use crate::metrics::{Lane, Outcome, Slow, Subject};
use crate::node::Node;
use crate::outlet::{Piece, Taken, Taker};
use crate::params::Params;
use crate::request_id::RequestId;
use crate::stamp::{Stamp, Stamper};
use crate::work::{self, INLINE_BODY_BYTES_MAX};

/// A batch of more calls is answered on the pool though each of them is cheap.
const INLINE_BATCH_MAX: usize = 16;

/// When to come again after there was too much to do: a second's work is gone by then.
const RETRY_AFTER_S: u64 = 1;

/// Who asks, and how he wants it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asker {
    /// Whose turn it is.
    pub(crate) client: ClientId,
    /// What a long answer is compressed with.
    pub(crate) coding: Coding,
    /// Of another door: the value alone, as it wants it.
    pub(crate) want: Option<Want>,
    /// What the log calls his request.
    pub(crate) request: RequestId,
    /// When all of it was there, by the pool's clock.
    pub(crate) arrived: Duration,
}

/// The answer to a body.
pub(crate) enum Reply {
    /// There was nothing to answer.
    Nothing,
    /// All of it.
    Whole(Whole),
    /// All of it, as it is kept; what is told of it, to another door.
    Kept(Vec<bytes::Bytes>, Coding, Told),
    /// Its beginning, and where the rest comes from.
    Streamed(Piece, Taker),
}

/// An answer that is all there.
#[derive(Default)]
pub(crate) struct Whole {
    /// What to send, the final newline included.
    pub(crate) text: bytes::Bytes,
    /// How it is compressed.
    pub(crate) coding: Coding,
    /// Whether all of it was refused because there is too much to do: HTTP 429, and after how many
    /// seconds to come again.
    pub(crate) retry_after_s: Option<u64>,
    /// Of a value for another door: what is told of it.
    pub(crate) told: Option<Box<Told>>,
    /// Whether it was not made here.
    pub(crate) is_from_pool: bool,
}

/// Answers a body. A large one is read on the pool.
///
/// Errors: it is no text.
pub(crate) async fn answer(
    node: &Arc<Node>,
    asker: Asker,
    body: bytes::Bytes,
) -> Result<Reply, Utf8Error> {
    if body.len() > INLINE_BODY_BYTES_MAX {
        // In a box: nearly no body is large, and each would carry the room for it.
        return Box::pin(answer_large(node, asker, body)).await;
    }
    let body = std::str::from_utf8(&body)?;
    Ok(match read(node, &asker, Lane::Inline, body) {
        Err(reply) => *reply,
        Ok(Request::Single(call)) => answer_single(node, asker, call).await,
        Ok(Request::Batch(calls)) => answer_batch(node, asker, calls).await,
    })
}

/// Reads a body and takes its calls of the client's share; gives the answer to one that is refused.
fn read<'b>(
    node: &Node,
    asker: &Asker,
    lane: Lane,
    body: &'b str,
) -> Result<Request<'b>, Box<Reply>> {
    let limit = node.config.batch_max;
    let refuse = |err: RpcError| Box::new(refuse_body(node, asker, lane, &err));
    let read = envelope::read_bounded(body, limit).map_err(refuse)?;
    let (calls, id) = match &read {
        Bounded::Request(Request::Single(call)) => (1, call.id()),
        Bounded::Request(Request::Batch(calls)) => (calls.len(), None),
        Bounded::TooLong { calls } => (*calls, None),
    };
    if let Err(too_many) = node.admit(asker.client, calls) {
        count(node, asker, (Subject::none(), None), lane, Outcome::Refused(OVERLOADED));
        return Err(Box::new(Reply::too_many(&too_many, id.unwrap_or(&Id::Null))));
    }
    match read {
        Bounded::Request(request) => Ok(request),
        Bounded::TooLong { calls } => {
            let message = format!("a batch of {calls} calls, at most {limit} (rpc.batch_max)");
            Err(refuse(RpcError::invalid_request(message)))
        }
    }
}

/// What a large body comes to.
enum Large {
    /// It is answered.
    Answered(Reply),
    /// One call, to be run on the pool; what it reads was looked up already.
    Single {
        id: Id,
        method: Named,
        params: Option<Box<str>>,
        class: PoolClass,
        asked: Option<Asked>,
    },
    /// A batch, and where it is to be run.
    Batch(Vec<OwnedCall>, PoolClass),
}

/// Reads a body on the pool, looks at its calls there, and runs there what is cheap.
async fn answer_large(
    node: &Arc<Node>,
    asker: Asker,
    body: bytes::Bytes,
) -> Result<Reply, Utf8Error> {
    let class = work::class_of(body.len());
    let lane = Lane::Pool(class);
    let here = Arc::clone(node);
    let look = move || Ok(look_into(&here, &asker, lane, std::str::from_utf8(&body)?));
    Ok(match work::on_pool(node, class, asker.client, look).await {
        Ok(looked) => match looked? {
            Large::Answered(reply) => reply.made_on_pool(),
            Large::Single { id, method, params, class, asked } => {
                let params = Params::new(params.as_deref());
                answer_on_pool(node, asker, (&id, method, params, class), asked).await
            }
            Large::Batch(calls, class) => match submit_batch(node, asker, calls, class) {
                Ok(taker) => receive(node, (taker, class), asker, &Id::Null).await,
                Err(err) => refuse_body(node, &asker, Lane::Pool(class), &err),
            },
        },
        Err(err) => refuse_body(node, &asker, lane, &err),
    })
}

fn look_into(node: &Node, asker: &Asker, lane: Lane, body: &str) -> Large {
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

fn look_into_single(node: &Node, asker: &Asker, lane: Lane, call: Call<'_>) -> Large {
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

/// Answers a body on the calling thread, heavy methods too; `None` if there is nothing to answer.
///
/// For tools and fuzzing: it has no pool, no bound on a batch but its own, and takes as long as it takes.
pub fn answer_here(node: &Node, body: &str) -> Option<Vec<u8>> {
    let calls = match envelope::read(body) {
        Err(err) => return Some(envelope::error_reply(&err, &Id::Null, true)),
        Ok(Request::Single(call)) => return answer_call_here(node, call),
        Ok(Request::Batch(calls)) => calls,
    };
    let replies: Vec<_> =
        calls.into_iter().filter_map(|call| answer_call_here(node, call)).collect();
    (!replies.is_empty()).then(|| [&b"["[..], &replies.join(&b',')[..], b"]"].concat())
}

fn answer_call_here(node: &Node, call: Call<'_>) -> Option<Vec<u8>> {
    match call {
        Call::Notification => None,
        Call::Invalid { id, versioned, err } => Some(envelope::error_reply(&err, &id, versioned)),
        Call::Method { id, method, params } => {
            let result = methods::find(&method).ok_or_else(RpcError::method_not_found);
            let result = result.and_then(|method| run(node, method, RequestId::default(), params));
            Some(reply(result, &id).text)
        }
    }
}

/// The answer to one call.
#[derive(Clone)]
struct Answered {
    text: Vec<u8>,
    overloaded: bool,
    outcome: Outcome,
}

/// What is to be done with a call.
enum Plan<'a> {
    /// It is done already.
    Answered(Subject, Answered),
    /// It runs here.
    Here { id: Id, method: Named, params: Params<'a> },
    /// It runs on the pool.
    OnPool { id: Id, method: Named, params: Params<'a>, class: PoolClass },
}

impl<'a> Plan<'a> {
    /// Looks at a call; `None` if it is not to be answered.
    fn of(node: &Node, asker: &Asker, call: Call<'a>, budget: &mut Budget) -> Option<Self> {
        let (id, method, params) = match call {
            Call::Notification => return None,
            Call::Invalid { id, versioned, err } => {
                return Some(Self::Answered(Subject::none(), invalid(&err, &id, versioned)));
            }
            Call::Method { id, method, params } => (id, method, params),
        };
        Some(match methods::find(&method) {
            None => Self::Answered(Subject::other(), reply(Err(RpcError::method_not_found()), &id)),
            Some(method) => Self::of_method(node, asker, (id, method, params), budget),
        })
    }

    fn of_method(
        node: &Node,
        asker: &Asker,
        call: (Id, Named, Params<'a>),
        budget: &mut Budget,
    ) -> Self {
        let (id, method, params) = call;
        let request = asker.request;
        let class = match method.class {
            Class::Inline => Ok(None),
            Class::Light => Ok(Some(PoolClass::Light)),
            Class::Medium => Ok(Some(PoolClass::Medium)),
            Class::By(class) => guarded(method.name, request, || class(node, params, budget)),
            Class::Try(run) => match guarded(method.name, request, || run(node, params, budget)) {
                Ok(Ok(result)) => return Self::Answered(method.subject(), reply(result, &id)),
                Ok(Err(class)) => Ok(Some(class)),
                Err(err) => Err(err),
            },
        };
        match class {
            Ok(None) => Self::Here { id, method, params },
            Ok(Some(class)) => Self::OnPool { id, method, params, class },
            Err(err) => Self::Answered(method.subject(), reply(Err(err), &id)),
        }
    }

    fn subject(&self) -> Subject {
        match self {
            Self::Answered(subject, _) => *subject,
            Self::Here { method, .. } | Self::OnPool { method, .. } => method.subject(),
        }
    }

    fn class(&self) -> Option<PoolClass> {
        match self {
            Self::OnPool { class, .. } => Some(*class),
            Self::Answered(..) | Self::Here { .. } => None,
        }
    }

    fn to_owned_call(&self) -> OwnedCall {
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
    fn answer_here(self, node: &Node, asker: &Asker, lane: Lane, refusal: &RpcError) -> Answered {
        let (subject, lane, done) = match self {
            Self::Answered(subject, done) => (subject, lane, done),
            Self::Here { id, method, params } => {
                let done = reply(run(node, method, asker.request, params), &id);
                (method.subject(), lane, done)
            }
            Self::OnPool { id, method, class, .. } => {
                (method.subject(), Lane::Pool(class), reply(Err(refusal.clone()), &id))
            }
        };
        count(node, asker, (subject, None), lane, done.outcome);
        done
    }
}

impl Answered {
    fn into_owned_call(self, subject: Subject) -> OwnedCall {
        OwnedCall::Answered { text: self.text, subject, outcome: self.outcome }
    }
}

/// The answer to something that is no call.
fn invalid(err: &RpcError, id: &Id, versioned: bool) -> Answered {
    let text = envelope::error_reply(err, id, versioned);
    Answered { text, overloaded: false, outcome: Outcome::Refused(err.code) }
}

/// Counts a call that was answered without a task of its own, and logs it if it took too long. What it
/// was asked is told where it is known.
fn count(
    node: &Node,
    asker: &Asker,
    (subject, params): (Subject, Option<Params<'_>>),
    lane: Lane,
    outcome: Outcome,
) {
    let now = node.pool.now();
    let took = now.saturating_sub(asker.arrived);
    node.metrics.count(subject, lane, took, outcome);
    if node.is_slow(took) {
        let params = params.and_then(|params| params.text());
        Slow { asker, method: subject.name(), params, lane, took, outcome, made: None }
            .tell(&node.metrics, now);
    }
}

/// The answer to a body that is not to be looked at any further.
fn refuse_body(node: &Node, asker: &Asker, lane: Lane, err: &RpcError) -> Reply {
    count(node, asker, (Subject::none(), None), lane, Outcome::Refused(err.code));
    Reply::error(err)
}

async fn answer_single(node: &Arc<Node>, asker: Asker, call: Call<'_>) -> Reply {
    let plan = match plan_single(node, asker, call) {
        Ok(plan) => plan,
        Err(kept) => return *kept,
    };
    let (subject, params, done) = match plan {
        None => return Reply::Nothing,
        Some(Plan::Answered(subject, done)) => (subject, None, done),
        Some(Plan::Here { id, method, params }) => {
            let done = reply(run(node, method, asker.request, params), &id);
            (method.subject(), Some(params), done)
        }
        Some(Plan::OnPool { id, method, params, class }) => {
            let asked = asked(node, &asker, &method, params);
            return answer_on_pool(node, asker, (&id, method, params, class), asked).await;
        }
    };
    count(node, &asker, (subject, params), Lane::Inline, done.outcome);
    Reply::whole(done)
}

/// What is to be done with a call that comes alone; or its answer, if its text came before and that is kept.
fn plan_single<'a>(
    node: &Node,
    asker: Asker,
    call: Call<'a>,
) -> Result<Option<Plan<'a>>, Box<Reply>> {
    let mut budget = Budget::new(node);
    let (id, name, params) = match call {
        Call::Method { id, method, params } => (id, method, params),
        call => return Ok(Plan::of(node, &asker, call, &mut budget)),
    };
    let Some(method) = methods::find(&name) else {
        let call = Call::Method { id, method: name, params };
        return Ok(Plan::of(node, &asker, call, &mut budget));
    };
    match known(node, asker, (&id, method, params)) {
        Some(kept) => Err(Box::new(kept)),
        None => Ok(Some(Plan::of_method(node, &asker, (id, method, params), &mut budget))),
    }
}

/// Answers a call of which it is known that it is not cheap: from the cache, or on the pool.
async fn answer_on_pool(
    node: &Arc<Node>,
    asker: Asker,
    (id, method, params, class): (&Id, Named, Params<'_>, PoolClass),
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

/// What is to be done with a call that was not answered from the cache.
struct Run {
    /// What the log says of the cache.
    cache: &'static str,
    /// It is for the cache as well.
    turn: Option<Turn<Kept>>,
    /// Some of its time has gone.
    has_waited: bool,
}

impl Run {
    fn alone(cache: &'static str) -> Self {
        Self { cache, turn: None, has_waited: false }
    }
}

/// What comes of something before the deadline of a class is over, for a request that may have waited already; else
/// what is told then, which is counted.
async fn in_time<T>(
    node: &Node,
    asker: &Asker,
    class: PoolClass,
    awaited: impl Future<Output = T>,
) -> Result<T, RpcError> {
    let waited = node.pool.now().saturating_sub(asker.arrived);
    let left = Duration::from_millis(node.pool.deadline_ms(class)).saturating_sub(waited);
    let late = |_| work::ended(node, class, Some(Ended::ExpiredWaiting));
    tokio::time::timeout(left, awaited).await.map_err(late)
}

/// The answer to a call that the pool has no room for.
fn refuse_call(
    node: &Node,
    asker: &Asker,
    (id, method, params, class): (&Id, Named, Params<'_>, PoolClass),
    err: RpcError,
) -> Reply {
    let done = reply(Err(err), id);
    count(node, asker, (method.subject(), Some(params)), Lane::Pool(class), done.outcome);
    Reply::whole(done)
}

/// What a call reads that may come from the cache, or whose answer has a name though it is long.
fn asked(node: &Node, asker: &Asker, method: &Method, params: Params<'_>) -> Option<Asked> {
    if asker.want.is_some_and(|want| want.shaper.is_some()) {
        return None;
    }
    let reads = methods::reads(method, node, params)?;
    let is_wanted = reads.is_kept || asker.want.is_some();
    let key = is_wanted.then(|| cached::key(method, params, asker.coding))??;
    Some(Asked { key, reads })
}

/// The answer from the cache, to a text that came before and whose answer is still good.
fn known(
    node: &Node,
    asker: Asker,
    (id, method, params): (&Id, Named, Params<'_>),
) -> Option<Reply> {
    // Those are answered at once, or nearly always.
    if matches!(method.class, Class::Inline | Class::Try(_)) {
        return None;
    }
    if asker.want.is_some_and(|want| want.shaper.is_some()) {
        return None;
    }
    let Hit { entry, slot } = look::known(node, asker.coding, &method, params)?;
    let reply = Reply::kept(entry.answer.as_ref()?, asker, slot, id);
    look::count_known(node);
    let subject = (method.subject(), Some(params));
    count(node, &asker, subject, Lane::Cached, Outcome::Answered);
    Some(reply)
}

/// What names an answer for another door.
fn stamper(node: &Node, asker: &Asker, asked: Option<&Asked>) -> Option<Stamper> {
    asked.filter(|_| asker.want.is_some()).map(|asked| Stamper::new(node, asked))
}

/// What is told of a call's answer without making it, if `is_known` says of its name that whoever asks has
/// it. It was admitted already.
pub(crate) fn unchanged(
    node: &Node,
    asker: Asker,
    (method, params): (&str, &str),
    is_known: impl FnOnce(&Stamp) -> bool,
) -> Option<Told> {
    let (method, params) = (methods::find(method)?, Params::new(Some(params)));
    let asked = asked(node, &asker, &method, params)?;
    let (stamp, slot) = Stamper::new(node, &asked).now(node)?;
    if asked.reads.min_context_slot.is_some_and(|min| slot < min) || !is_known(&stamp) {
        return None;
    }
    let subject = (method.subject(), Some(params));
    count(node, &asker, subject, Lane::Cached, Outcome::Answered);
    Some(Told { slot: Some(slot), hash: Some(stamp), ..Told::default() })
}

/// The answer from the cache, or from whoever makes it for it; else what is to be done.
async fn kept(
    node: &Node,
    asker: Asker,
    (id, method, params, class): (&Id, Named, Params<'_>, PoolClass),
    asked: &Asked,
) -> Result<Reply, Run> {
    let mut run = Run::alone("bypass");
    let answer = |hit: &Hit| {
        let reply = Reply::kept(hit.entry.answer.as_ref()?, asker, hit.slot, id);
        let subject = (method.subject(), Some(params));
        count(node, &asker, subject, Lane::Cached, Outcome::Answered);
        Some(reply)
    };
    for _ in 0..ATTEMPTS {
        let (sender, told) = oneshot::channel();
        let tell = || -> Tell<Kept> {
            Box::new(move |entry| {
                // Who waited may have gone.
                let _ = sender.send(entry);
            })
        };
        let call = (asker.coding, &*method, params);
        let _place = match look::look(node, asked, call, asker.client, tell) {
            Looked::Hit(hit) => return answer(&hit).ok_or(run),
            Looked::Turn(turn) => return Err(Run { cache: "none", turn: Some(turn), ..run }),
            Looked::Alone(cache) => return Err(Run { cache, ..run }),
            Looked::Wait(place) => place,
        };
        run.has_waited = true;
        match in_time(node, &asker, class, told).await {
            Err(late) => return Ok(refuse_call(node, &asker, (id, method, params, class), late)),
            Ok(Ok(Some(entry))) => {
                if let Some(hit) = look::still_good(node, asked, entry) {
                    return answer(&hit).ok_or(run);
                }
            }
            Ok(_) => {}
        }
    }
    Err(run)
}

async fn answer_batch(node: &Arc<Node>, asker: Asker, calls: Vec<Call<'_>>) -> Reply {
    if calls.len() > INLINE_BATCH_MAX {
        return answer_long_batch(node, asker, calls).await;
    }
    let plans = plan(node, &asker, calls);
    let Some(class) = heaviest(&plans) else {
        return answer_all_here(node, &asker, Lane::Inline, plans, &RpcError::internal());
    };
    if let Some(hits) = all_known(node, &asker, &plans) {
        return answer_known_here(node, &asker, Lane::Inline, plans, hits);
    }
    let calls = plans.iter().map(Plan::to_owned_call).collect();
    match submit_batch(node, asker, calls, class) {
        Ok(taker) => receive(node, (taker, class), asker, &Id::Null).await,
        // The cheap ones are answered all the same.
        Err(err) => answer_all_here(node, &asker, Lane::Inline, plans, &err),
    }
}

fn plan<'a>(node: &Node, asker: &Asker, calls: Vec<Call<'a>>) -> Vec<Plan<'a>> {
    let mut budget = Budget::new(node);
    calls.into_iter().filter_map(|call| Plan::of(node, asker, call, &mut budget)).collect()
}

/// The class of a batch; none if all of it can be answered here.
fn heaviest(plans: &[Plan<'_>]) -> Option<PoolClass> {
    plans.iter().filter_map(Plan::class).max_by_key(|class| class.index())
}

fn answer_all_here(
    node: &Node,
    asker: &Asker,
    lane: Lane,
    plans: Vec<Plan<'_>>,
    refusal: &RpcError,
) -> Reply {
    join(plans.into_iter().map(|plan| plan.answer_here(node, asker, lane, refusal)))
}

/// The answers to all calls of a short batch that are not cheap, if all of them are kept, their texts came
/// before, and together they are short.
fn all_known(node: &Node, asker: &Asker, plans: &[Plan<'_>]) -> Option<Vec<Hit>> {
    let (mut room, mut hits) = (look::known_batch_bytes_max(asker.coding), Vec::new());
    for plan in plans {
        if let Plan::OnPool { method, params, .. } = plan {
            let hit = look::known(node, Coding::Plain, method, *params)?;
            room = room.checked_sub(hit.entry.answer.as_ref()?.bytes())?;
            hits.push(hit);
        }
    }
    Some(hits)
}

/// A batch whose calls are cheap, or have these answers.
fn answer_known_here(
    node: &Node,
    asker: &Asker,
    lane: Lane,
    plans: Vec<Plan<'_>>,
    hits: Vec<Hit>,
) -> Reply {
    let (mut parts, mut hits) = (Vec::new(), hits.into_iter());
    for plan in plans {
        parts.push(bytes::Bytes::from_static(if parts.is_empty() { b"[" } else { b"," }));
        let subject = plan.subject();
        let hit = plan.class().and_then(|_| hits.next());
        let known = hit.as_ref().and_then(|hit| Some((hit.entry.answer.as_ref()?, hit.slot)));
        match (plan, known) {
            (Plan::OnPool { id, .. }, Some((kept, slot))) => {
                parts.extend(kept.reply_in_batch(slot, &id));
                look::count_known(node);
                count(node, asker, (subject, None), Lane::Cached, Outcome::Answered);
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
        Err(err) => refuse_body(node, &asker, Lane::Pool(class), &err),
    }
}

/// The calls of a long batch, and its class by their names alone.
fn own(calls: Vec<Call<'_>>) -> (Vec<OwnedCall>, PoolClass) {
    let is_heavy = |call: &Call<'_>| match call {
        Call::Method { method, .. } => {
            methods::find(method).is_some_and(|method| methods::may_be_heavy(&method))
        }
        Call::Notification | Call::Invalid { .. } => false,
    };
    let class = if calls.iter().any(is_heavy) { PoolClass::Heavy } else { PoolClass::Medium };
    let owned = |call| match call {
        Call::Notification => None,
        Call::Invalid { id, versioned, err } => {
            Some(invalid(&err, &id, versioned).into_owned_call(Subject::none()))
        }
        Call::Method { id, method, params } => Some(match methods::find(&method) {
            Some(method) => OwnedCall::new(id, method, params, Way::ByCost),
            None => reply(Err(RpcError::method_not_found()), &id).into_owned_call(Subject::other()),
        }),
    };
    (calls.into_iter().filter_map(owned).collect(), class)
}

fn submit_batch(
    node: &Arc<Node>,
    asker: Asker,
    calls: Vec<OwnedCall>,
    class: PoolClass,
) -> Result<Taker, RpcError> {
    submit(node, About { asker, class, cache: "none", is_batch: true }, calls, None)
}

fn submit(
    node: &Arc<Node>,
    about: About,
    calls: Vec<OwnedCall>,
    stamper: Option<Stamper>,
) -> Result<Taker, RpcError> {
    let (class, client) = (about.class, about.asker.client);
    let (job, taker) = Job::new(Arc::clone(node), about, calls);
    let ticket = node.pool.submit(class, client, Box::new(job.stamp(stamper)));
    Ok(taker.of(ticket.map_err(|full| RpcError::full(&full))?))
}

/// The answer of a task: whole if it is short.
async fn receive(
    node: &Node,
    (mut taker, class): (Taker, PoolClass),
    asker: Asker,
    id: &Id,
) -> Reply {
    match taker.take().await {
        Taken::Piece(piece) if piece.is_last => {
            let Piece { bytes: text, coding, told, is_overload, .. } = piece;
            let (retry_after_s, is_from_pool) = (is_overload.then_some(RETRY_AFTER_S), true);
            Reply::Whole(Whole { text, coding, retry_after_s, told, is_from_pool })
        }
        Taken::Piece(piece) => Reply::Streamed(piece, taker),
        Taken::Kept(entry, slot) => match &entry.answer {
            Some(kept) => Reply::kept(kept, asker, slot, id),
            None => Reply::whole(reply(Err(RpcError::internal()), id)),
        },
        Taken::Ended(why) => Reply::whole(reply(Err(work::ended(node, class, why)), id)),
    }
}

/// The answers of a batch; none if there is none.
fn join(answers: impl Iterator<Item = Answered>) -> Reply {
    let mut text = Vec::new();
    let mut overloaded = true;
    for done in answers {
        text.push(if text.is_empty() { b'[' } else { b',' });
        text.extend_from_slice(&done.text);
        overloaded &= done.overloaded;
    }
    if text.is_empty() {
        return Reply::Nothing;
    }
    text.push(b']');
    Reply::whole(Answered { text, overloaded, outcome: Outcome::Answered })
}

fn run(node: &Node, method: Named, request: RequestId, params: Params<'_>) -> MethodResult {
    guarded(method.name, request, || (method.run)(node, params)).flatten()
}

fn reply(result: MethodResult, id: &Id) -> Answered {
    match result.and_then(|answer| answer.into_reply(id)) {
        Ok(text) => Answered { text, overloaded: false, outcome: Outcome::Answered },
        Err(err) => {
            let (overloaded, outcome) = (err.is_overload(), Outcome::Refused(err.code));
            Answered { text: envelope::error_reply(&err, id, true), overloaded, outcome }
        }
    }
}

impl Reply {
    fn kept(kept: &Kept, asker: Asker, slot: u64, id: &Id) -> Self {
        match asker.want {
            None => Self::Kept(kept.reply(slot, id), kept.coding(), Told::default()),
            Some(_) => Self::Kept(kept.bare(), kept.coding(), kept.told(slot)),
        }
    }

    /// The same, made on the pool.
    fn made_on_pool(self) -> Self {
        match self {
            Self::Whole(whole) => Self::Whole(Whole { is_from_pool: true, ..whole }),
            other => other,
        }
    }

    fn error(err: &RpcError) -> Self {
        Self::whole(reply(Err(err.clone()), &Id::Null))
    }

    /// That a client is to come again later.
    pub(crate) fn too_many(too_many: &TooMany, id: &Id) -> Self {
        let err = RpcError::too_many(too_many);
        let text = envelope::error_reply(&err, id, true);
        let retry_after_s = Some(too_many.retry_after.as_secs() + 1);
        Self::Whole(Whole { text: ended_line(text), retry_after_s, ..Whole::default() })
    }

    fn whole(done: Answered) -> Self {
        let retry_after_s = done.overloaded.then_some(RETRY_AFTER_S);
        Self::Whole(Whole { text: ended_line(done.text), retry_after_s, ..Whole::default() })
    }
}

fn ended_line(mut text: Vec<u8>) -> bytes::Bytes {
    text.push(b'\n');
    text.into()
}
