//! Looking into the answer cache for a call: what may come from there, what is there, and who makes it else.
//!
//! Invariant: a task that gets [`ToMake::FillGuard`] makes the answer for all, and waits for nobody before it is made: so
//! nobody waits for ever, though calls wait as tasks of the pool. Nobody waits for another client's task that has
//! not begun, for his own turn may come earlier.
//! Not here: running calls, and waiting (`dispatch`, `job`).

use std::sync::Arc;

use cache::{Entry, FillStart, FillTicket, Lookup, OnFilled, WaitGuard};
use ledger::Slot;
use pool::ClientId;

use crate::cached::{self, Asked, Meaning};
use crate::compress::{COMPRESS_BYTES_MIN, Coding};
use crate::kept::{GaveUp, Keeping, Kept};
use crate::methods::{self, Method};
use crate::node::Node;
use crate::params::Params;

/// How often somebody who waited for an answer in vain asks again before he makes it himself.
pub(crate) const ATTEMPTS: usize = 3;

/// An answer that is kept and good.
pub(crate) struct Hit {
    pub(crate) entry: Arc<Entry<Kept>>,
    /// What its context says now.
    pub(crate) slot: Slot,
}

/// What came of looking for an answer.
pub(crate) enum Looked {
    /// It is there.
    Hit(Hit),
    /// It is to be made by a task of one's own, unless somebody is ahead of it.
    Turn(FillTicket<Kept>),
    /// Somebody makes it, and tells.
    Wait(WaitGuard<Kept>),
    /// It is to be made for whoever asks alone; what the log says of that.
    Alone(&'static str),
}

/// What came of looking for an answer to make it.
pub(crate) enum ToMake {
    /// It is there.
    Hit(Hit),
    /// It is to be made here, and kept: from here on all wait for it.
    Make(Keeping),
    /// Somebody makes it, and tells.
    Wait(WaitGuard<Kept>),
    /// It is to be made for whoever asks alone; what the log says of that.
    Alone(&'static str),
}

/// What a call reads, if its answer is worth keeping.
pub(crate) fn kept_call(
    node: &Node,
    coding: Coding,
    method: &Method,
    params: Params<'_>,
) -> Option<Asked> {
    let reads = methods::dependencies(method, node, params).filter(|reads| reads.is_kept)?;
    Some(Asked { key: cached::key(method, params, coding)?, reads })
}

/// The answer to a text that came before, if it is still good. Whoever uses it says so ([`count_known`]).
pub(crate) fn known(
    node: &Node,
    coding: Coding,
    method: &Method,
    params: Params<'_>,
) -> Option<Hit> {
    let text = cached::text(method, params, coding)?;
    let meaning = node.answers.known.get(&text)?;
    let view = node.reader.view(meaning.commitment);
    let slot = view.block().slot;
    if meaning.min_context_slot.is_some_and(|min| slot < min) || !meaning.may_be_kept(node) {
        return None;
    }
    let changes = node.reader.change_tracker();
    let changed_at = |number| changes.changed_at(meaning.commitment, number);
    let entry = node.answers.cache.peek(&meaning.key, view.version(), changed_at)?;
    Some(Hit { entry, slot })
}

/// What [`known`] gave is used.
pub(crate) fn count_known(node: &Node) {
    node.answers.cache.count_hit();
    node.answers.count_known();
}

/// So many bytes of a batch's kept answers go out where the socket is polled. They are not copied.
pub(crate) fn known_batch_bytes_max(coding: Coding) -> u64 {
    match coding {
        // As much as may wait for a client of any other answer.
        Coding::Plain => 1024 * 1024,
        // What is longer is to be compressed, which is for the pool.
        Coding::Gzip | Coding::Zstd => COMPRESS_BYTES_MIN as u64,
    }
}

/// Looks for the answer to a call of a client. `tell` is for who waits, if somebody is to make it.
pub(crate) fn look(
    node: &Node,
    asked: &Asked,
    (coding, method, params): (Coding, &Method, Params<'_>),
    client: ClientId,
    tell: impl FnOnce() -> OnFilled<Kept>,
) -> Looked {
    let (moment, slot) = match is_wanted(node, asked) {
        Ok(now) => now,
        Err(why) => return Looked::Alone(why),
    };
    let changes = node.reader.change_tracker();
    let changed_at = |number| changes.changed_at(asked.reads.commitment, number);
    match node.answers.cache.lookup(&asked.key, (client.0, moment), changed_at, tell) {
        Lookup::Hit(entry) => {
            learn(node, asked, (coding, method, params));
            Looked::Hit(Hit { entry, slot })
        }
        Lookup::Ticket(turn) => Looked::Turn(turn),
        Lookup::Wait(waiting) => Looked::Wait(waiting),
        Lookup::Bypass => Looked::Alone("bypass"),
    }
}

/// The same for a task that makes it at once if nobody does: because its `turn` has come, if it had to wait for
/// that. Without something to tell it does not wait.
pub(crate) fn look_to_make(
    node: &Node,
    (asked, turn): (&Asked, Option<FillTicket<Kept>>),
    (coding, method, params): (Coding, &Method, Params<'_>),
    client: ClientId,
    tell: impl FnOnce() -> Option<OnFilled<Kept>>,
) -> ToMake {
    let (moment, slot) = match is_wanted(node, asked) {
        Ok(now) => now,
        Err(why) => return ToMake::Alone(why),
    };
    let changes = node.reader.change_tracker();
    let changed_at = |number| changes.changed_at(asked.reads.commitment, number);
    match node.answers.cache.start_fill(&asked.key, turn, moment, changed_at, tell) {
        FillStart::Hit(entry) => {
            learn(node, asked, (coding, method, params));
            ToMake::Hit(Hit { entry, slot })
        }
        FillStart::Fill(fill) => {
            let read = asked.reads.watch(changes);
            let (made_at, _) = now(node, asked);
            let keeping = Keeping::new(&node.answers, fill, made_at, read, (coding, client));
            match keeping.has_room() {
                true => ToMake::Make(keeping),
                // Whoever came to wait meanwhile asks again.
                false => ToMake::Alone(GaveUp::NoRoom.name()),
            }
        }
        FillStart::Wait(waiting) => ToMake::Wait(waiting),
        FillStart::Bypass => ToMake::Alone("bypass"),
    }
}

/// The moment at which a call is looked for, and its slot; or why it is not.
fn is_wanted(node: &Node, asked: &Asked) -> Result<(u64, Slot), &'static str> {
    if asked.reads.bytes_min > node.answers.cache.entry_bytes_max() {
        return Err(GaveUp::TooLarge.name());
    }
    let (moment, slot) = now(node, asked);
    match asked.reads.min_context_slot.is_some_and(|min| slot < min) {
        true => Err("none"),
        false => Ok((moment, slot)),
    }
}

/// What the text of a call means whose answer is kept.
fn learn(node: &Node, asked: &Asked, (coding, method, params): (Coding, &Method, Params<'_>)) {
    if let Some(text) = cached::text(method, params, coding) {
        node.answers.known.insert(&text, Meaning::of(asked));
    }
}

/// What somebody told who made the answer, if it is what would be made now.
pub(crate) fn still_good(node: &Node, asked: &Asked, entry: Arc<Entry<Kept>>) -> Option<Hit> {
    let (moment, slot) = now(node, asked);
    let changes = node.reader.change_tracker();
    let changed_at = |number| changes.changed_at(asked.reads.commitment, number);
    entry.is_valid_at(moment, changed_at).then_some(Hit { entry, slot })
}

/// Not the view itself: whoever waits is to keep no state alive.
fn now(node: &Node, asked: &Asked) -> (u64, Slot) {
    let view = node.reader.view(asked.reads.commitment);
    (view.version(), view.block().slot)
}
