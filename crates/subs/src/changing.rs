//! A change of a set under way, in steps of some tens of microseconds.
//!
//! Shape: what comes and what leaves is looked for piece by piece; then, in one short hold of the
//! engine's lock, the bounds are checked and the set is taken out to be changed; then ids are entered
//! and taken out, the set made anew and put back, and what is left over let go, all piece by piece.
//! Invariant: a change that was begun is done whole: dropping one does what is left of it.
//! Not in steps: giving a listener a set of its own that others have too, which costs the set.

use std::hash::Hash;
use std::sync::Arc;

use ledger::KeyKind;

use crate::engine::{Pending, SubscribeError, SubscriptionId};
use crate::filter::{Position, Topic};
use crate::ids::{Cursor, IdSet};
use crate::listener::Listener;
use crate::queue::Message;
use crate::set::{AddressSet, LettingGo};
use crate::tracked::{Added, Change, Changed, Part};

/// A change under way. See [`Listener::begin_change`].
pub struct Changing<S: Eq + Hash, M: Message, B> {
    listener: Arc<Listener<S, M, B>>,
    handle: SubscriptionId,
    id: SubscriptionId,
    topic: Topic,
    facet: KeyKind,
    phase: Phase,
}

enum Phase {
    Comparing(Box<Comparing>),
    Entering(Box<Open>, Cursor),
    Leaving(Box<Open>, Cursor),
    Merging(Box<Merging>),
    LettingGo(Changed, LettingGo),
    Over,
}

/// Looks for what is new and what leaves.
struct Comparing {
    set: Arc<AddressSet>,
    change: Change,
    new: IdSet,
    gone: IdSet,
    coming: Cursor,
    leaving: Cursor,
}

/// A set that was taken out of its subscription.
struct Open {
    place: u32,
    old: Arc<AddressSet>,
    change: Change,
    gone: IdSet,
    changed: Changed,
}

/// A set that is made anew.
struct Merging {
    set: AddressSet,
    /// Ids with a count each, that the set takes over.
    coming: IdSet,
    come: Cursor,
    /// Ids that the set gives up.
    leaving: IdSet,
    left: Cursor,
    /// What is let go of in the end.
    rest: Option<AddressSet>,
    changed: Changed,
}

impl<S: Eq + Hash, M: Message, B> Changing<S, M, B> {
    pub(crate) fn new(
        listener: Arc<Listener<S, M, B>>,
        handle: SubscriptionId,
        change: Change,
    ) -> Result<Self, SubscribeError> {
        if let Some(why) = listener.closed() {
            return Err(why.into());
        }
        let (id, topic, facet, set) = listener.tracked_set(handle)?;
        let (new, gone) = (IdSet::default(), IdSet::default());
        let (coming, leaving) = (Cursor::default(), Cursor::default());
        let comparing = Comparing { set, change, new, gone, coming, leaving };
        let phase = Phase::Comparing(Box::new(comparing));
        Ok(Self { listener, handle, id, topic, facet, phase })
    }

    /// Does the next step; what the change came to, once it is done.
    ///
    /// Errors: those of the bounds, and `Unknown`; nothing has changed then.
    pub fn step(&mut self) -> Result<Option<Changed>, SubscribeError> {
        self.phase = match std::mem::replace(&mut self.phase, Phase::Over) {
            Phase::Comparing(mut comparing) => {
                if comparing.step() {
                    Phase::Comparing(comparing)
                } else {
                    match self.open(*comparing)? {
                        Ok(open) => Phase::Entering(Box::new(open), Cursor::default()),
                        Err(changed) => return Ok(Some(changed)),
                    }
                }
            }
            Phase::Entering(open, mut at) => match at.next(&open.changed.added.0) {
                Some(piece) => {
                    let index = &mut self.listener.subs.shared.engine.lock().index;
                    index.track(self.topic, self.facet, &piece, open.place);
                    Phase::Entering(open, at)
                }
                None => Phase::Leaving(open, Cursor::default()),
            },
            Phase::Leaving(open, mut at) => match at.next(&open.gone) {
                Some(piece) => {
                    let index = &mut self.listener.subs.shared.engine.lock().index;
                    index.untrack(self.topic, self.facet, &piece, open.place);
                    Phase::Leaving(open, at)
                }
                None => Phase::Merging(Box::new(self.begin_merging(*open))),
            },
            Phase::Merging(mut merging) => {
                if merging.step() {
                    self.phase = Phase::Merging(merging);
                    return Ok(None);
                }
                let Merging { set, rest, changed, .. } = *merging;
                let set = self.listener.shared_set(set);
                self.listener.subs.shared.engine.lock().close(self.id, set);
                let Some(rest) = rest else { return Ok(Some(changed)) };
                Phase::LettingGo(changed, LettingGo::of(rest))
            }
            Phase::LettingGo(changed, mut rest) => {
                if !rest.step() {
                    return Ok(Some(changed));
                }
                Phase::LettingGo(changed, rest)
            }
            Phase::Over => return Err(SubscribeError::Unknown),
        };
        Ok(None)
    }

    /// Takes the set out to be changed; `Err` if there was nothing to change, or it is changed by now.
    fn open(&self, compared: Comparing) -> Result<Result<Open, Changed>, SubscribeError> {
        let Comparing { set, change, new, gone, .. } = compared;
        let listener = &*self.listener;
        let added = Added(Arc::new(new));
        let (more, less) = (added.len(), gone.len());
        let len = set.len() + more - less;
        let mut changed = Changed { part: None, added, removed: less, len };
        if more + less == 0 {
            listener.drop_set(set);
            return Ok(Err(changed));
        }
        let growth = more.saturating_sub(less);
        let mut engine = listener.subs.shared.engine.lock();
        let shared = engine.subscriptions.get(&self.id);
        let alone = shared.is_some_and(|shared| shared.members.len() == 1);
        let to_the_node = if alone { growth } else { len };
        let checked = engine.check_tracked(&listener.subs, listener.id, growth, to_the_node);
        if let Err(refused) = checked {
            drop(engine);
            listener.drop_set(set);
            return Err(refused);
        }
        let token = (more > 0).then(|| engine.new_id().0);
        let pending = token.map(|token| {
            let ids = Arc::clone(&changed.added.0);
            Pending { token, ids, after: Position::NEVER }
        });
        changed.part = token.map(|token| Part { subscription: self.handle, token: Some(token) });
        let entry = engine.entry(listener.id);
        entry.tracked = entry.tracked + more - less;
        if !alone {
            drop(engine);
            listener.part_ways(self.handle, self.id, &set, change, pending)?;
            listener.drop_set(set);
            return Ok(Err(changed));
        }
        let (place, old) = engine.open(self.id, &changed.added, &gone, pending);
        drop(engine);
        drop(set);
        Ok(Ok(Open { place, old, change, gone, changed }))
    }

    fn begin_merging(&self, open: Open) -> Merging {
        let Open { old, change, gone, changed, .. } = open;
        let mut set = self.listener.own_set(old);
        let (mut coming, mut leaving, mut rest) = (IdSet::default(), IdSet::default(), None);
        match change {
            Change::Add(more) if set.is_empty() => set = more,
            Change::Add(more) => coming = more.into_counted_ids(),
            Change::Remove(less) => (leaving, rest) = (gone, Some(less)),
            Change::Replace(new) => rest = Some(std::mem::replace(&mut set, new)),
        }
        let (come, left) = (Cursor::default(), Cursor::default());
        Merging { set, coming, come, leaving, left, rest, changed }
    }
}

impl<S: Eq + Hash, M: Message, B> Drop for Changing<S, M, B> {
    fn drop(&mut self) {
        if let Phase::Comparing(_) = self.phase {
            let Phase::Comparing(compared) = std::mem::replace(&mut self.phase, Phase::Over) else {
                return;
            };
            return self.listener.drop_set(compared.set);
        }
        while !matches!(self.phase, Phase::Over) {
            let _ = self.step(); // an error is the end of it too
        }
    }
}

impl Comparing {
    /// Looks at the next ids. False if there are none.
    fn step(&mut self) -> bool {
        let (mine, theirs) = (self.set.id_set(), self.change.set().id_set());
        if !matches!(self.change, Change::Remove(_))
            && let Some(mut piece) = self.coming.next(theirs)
        {
            piece.retain(|id| !mine.contains(*id));
            self.new.add(&piece);
            return true;
        }
        let leaving = match self.change {
            Change::Add(_) => None,
            Change::Remove(_) => self.leaving.next(theirs).map(|mut piece| {
                piece.retain(|id| mine.contains(*id));
                piece
            }),
            Change::Replace(_) => self.leaving.next(mine).map(|mut piece| {
                piece.retain(|id| !theirs.contains(*id));
                piece
            }),
        };
        let Some(piece) = leaving else { return false };
        self.gone.add(&piece);
        true
    }
}

impl Merging {
    /// Takes over and gives up the next ids. False if there are none.
    fn step(&mut self) -> bool {
        if let Some(piece) = self.come.next(&self.coming) {
            self.set.take(&piece);
            return true;
        }
        let Some(piece) = self.left.next(&self.leaving) else { return false };
        self.set.give_up(&piece);
        true
    }
}
