//! Looking into the answer cache for a call: what may come from there, what is there, and who makes it else.
//!
//! Invariant: whoever gets [`Looked::Make`] makes the answer for all, and waits for nobody before it is made: so
//! nobody waits for ever, though calls of batches wait as tasks of the pool.
//! Not here: running calls, and waiting (`dispatch`, `job`).

use std::sync::Arc;

use cache::{Entry, Find, Tell};
use ledger::Slot;

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
    /// It is to be made, and kept.
    Make(Keeping),
    /// Somebody makes it, and tells.
    Wait,
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
    let reads = methods::reads(method, node, params).filter(|reads| reads.is_kept)?;
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
    let changes = node.reader.changes();
    let changed_at = |number| changes.changed_at(meaning.commitment, number);
    let entry = node.answers.cache.peek(&meaning.key, view.moment(), changed_at)?;
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

/// Looks for the answer to a call. `tell` is for who waits, if somebody else is to make it.
pub(crate) fn look(
    node: &Node,
    asked: &Asked,
    (coding, method, params): (Coding, &Method, Params<'_>),
    tell: impl FnOnce() -> Option<Tell<Kept>>,
) -> Looked {
    let reads = &asked.reads;
    if reads.bytes_min > node.answers.cache.entry_bytes_max() {
        return Looked::Alone(GaveUp::TooLarge.name());
    }
    let (moment, slot) = now(node, asked);
    if reads.min_context_slot.is_some_and(|min| slot < min) {
        return Looked::Alone("none");
    }
    let changes = node.reader.changes();
    let changed_at = |number| changes.changed_at(reads.commitment, number);
    match node.answers.cache.find(&asked.key, moment, changed_at, tell) {
        Find::Hit(entry) => {
            if let Some(text) = cached::text(method, params, coding) {
                node.answers.known.put(&text, Meaning::of(asked));
            }
            Looked::Hit(Hit { entry, slot })
        }
        Find::Bypass => Looked::Alone("bypass"),
        // Whoever came to wait meanwhile asks again.
        Find::Make(_) if !node.answers.room.is_left() => Looked::Alone(GaveUp::NoRoom.name()),
        Find::Make(fill) => {
            let read = reads.watch(changes);
            let (made_at, _) = now(node, asked);
            Looked::Make(Keeping::new(&node.answers, fill, made_at, read, coding))
        }
        Find::Wait => Looked::Wait,
    }
}

/// What somebody told who made the answer, if it is what would be made now.
pub(crate) fn still_good(node: &Node, asked: &Asked, entry: Arc<Entry<Kept>>) -> Option<Hit> {
    let (moment, slot) = now(node, asked);
    let changes = node.reader.changes();
    let changed_at = |number| changes.changed_at(asked.reads.commitment, number);
    entry.is_good(moment, changed_at).then_some(Hit { entry, slot })
}

/// Not the view itself: whoever waits is to keep no state alive.
fn now(node: &Node, asked: &Asked) -> (u64, Slot) {
    let view = node.reader.view(asked.reads.commitment);
    (view.moment(), view.block().slot)
}
