//! A call that comes alone, answered from the cache if that has it, or soon will.
//!
//! Out: a whole answer; else what is known of it for who makes it now.
//! Bounds: it is waited for at most [`ATTEMPTS`] times, all within the deadline of the call's class.
//! Not here: what may come from the cache ([`crate::look`], [`crate::cached`]), calls of a batch ([`super::batch`],
//! and [`crate::job`] when their turn comes).

use cache::{FillTicket, OnFilled};
use pool::Class as PoolClass;
use tokio::sync::oneshot;

use super::count::count;
use super::reply::{Reply, refuse_call};
use super::task::in_time;
use crate::asker::Asker;
use crate::bare::Told;
use crate::cached::{self, Asked};
use crate::envelope::Id;
use crate::kept::Kept;
use crate::look::{self, ATTEMPTS, Hit, Looked};
use crate::methods::{self, Class, Method, MethodRef};
use crate::metrics::{ExecutionPath, Outcome};
use crate::node::Node;
use crate::params::Params;
use crate::stamp::{Stamp, Stamper};

/// The answer from the cache, to a text that came before and whose answer is still good.
pub(super) fn known(
    node: &Node,
    asker: Asker,
    (id, method, params): (&Id, MethodRef, Params<'_>),
) -> Option<Reply> {
    // Those are answered at once, or nearly always.
    if matches!(method.class, Class::Inline | Class::TryInline(_)) {
        return None;
    }
    if asker.want.is_some_and(|want| want.shaper.is_some()) {
        return None;
    }
    let Hit { entry, slot } = look::known(node, asker.coding, &method, params)?;
    let reply = Reply::kept(entry.value.as_ref()?, asker, slot, id);
    look::count_known(node);
    let subject = (method.label(), Some(params));
    count(node, &asker, subject, ExecutionPath::Cached, Outcome::Succeeded);
    Some(reply)
}

/// What a call reads that may come from the cache, or whose answer has a name though it is long.
pub(super) fn asked(
    node: &Node,
    asker: &Asker,
    method: &Method,
    params: Params<'_>,
) -> Option<Asked> {
    if asker.want.is_some_and(|want| want.shaper.is_some()) {
        return None;
    }
    let reads = methods::dependencies(method, node, params)?;
    let is_wanted = reads.is_kept || asker.want.is_some();
    let key = is_wanted.then(|| cached::key(method, params, asker.coding))??;
    Some(Asked { key, reads })
}

/// The answer from the cache, or from whoever makes it for it; else what is to be done.
pub(super) async fn kept(
    node: &Node,
    asker: Asker,
    (id, method, params, class): (&Id, MethodRef, Params<'_>, PoolClass),
    asked: &Asked,
) -> Result<Reply, Run> {
    let mut run = Run::alone("bypass");
    let answer = |hit: &Hit| {
        let reply = Reply::kept(hit.entry.value.as_ref()?, asker, hit.slot, id);
        let subject = (method.label(), Some(params));
        count(node, &asker, subject, ExecutionPath::Cached, Outcome::Succeeded);
        Some(reply)
    };
    for _ in 0..ATTEMPTS {
        let (sender, told) = oneshot::channel();
        let tell = || -> OnFilled<Kept> {
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

/// What is to be done with a call that was not answered from the cache.
pub(super) struct Run {
    /// What the log says of the cache.
    pub(super) cache: &'static str,
    /// It is for the cache as well.
    pub(super) turn: Option<FillTicket<Kept>>,
    /// Some of its time has gone.
    pub(super) has_waited: bool,
}

impl Run {
    pub(super) fn alone(cache: &'static str) -> Self {
        Self { cache, turn: None, has_waited: false }
    }
}

/// What names an answer for another door.
pub(super) fn stamper(node: &Node, asker: &Asker, asked: Option<&Asked>) -> Option<Stamper> {
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
    let (method, params) = (methods::find_method(method)?, Params::new(Some(params)));
    let asked = asked(node, &asker, &method, params)?;
    let (stamp, slot) = Stamper::new(node, &asked).now(node)?;
    if asked.reads.min_context_slot.is_some_and(|min| slot < min) || !is_known(&stamp) {
        return None;
    }
    let subject = (method.label(), Some(params));
    count(node, &asker, subject, ExecutionPath::Cached, Outcome::Succeeded);
    Some(Told { slot: Some(slot), hash: Some(stamp), ..Told::default() })
}
