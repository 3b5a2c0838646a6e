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

use crate::address_set::{AddressSet, ReleaseTask};
use crate::address_set_subscription::{Activation, AddedIds, SetChange, SetChangeResult};
use crate::filter::{Position, Topic};
use crate::id_set::{Cursor, IdSet};
use crate::listener::Listener;
use crate::queue::Message;
use crate::registry::{PendingIds, SubscribeError, SubscriptionId};

/// A change under way. See [`Listener::start_set_update`].
pub struct SetUpdate<S: Eq + Hash, M: Message, B> {
    listener: Arc<Listener<S, M, B>>,
    handle: SubscriptionId,
    id: SubscriptionId,
    topic: Topic,
    key_kind: KeyKind,
    phase: Phase,
}

enum Phase {
    Diff(Box<DiffPhase>),
    Insert(Box<DetachedSet>, Cursor),
    Remove(Box<DetachedSet>, Cursor),
    Merge(Box<MergePhase>),
    Release(SetChangeResult, ReleaseTask),
    Finished,
}

/// Looks for what is new and what leaves.
struct DiffPhase {
    set: Arc<AddressSet>,
    change: SetChange,
    added: IdSet,
    removed: IdSet,
    added_cursor: Cursor,
    removed_cursor: Cursor,
}

/// A set that was taken out of its subscription.
struct DetachedSet {
    index_slot: u32,
    old: Arc<AddressSet>,
    change: SetChange,
    removed: IdSet,
    result: SetChangeResult,
}

/// A set that is made anew.
struct MergePhase {
    set: AddressSet,
    /// Ids with a count each, that the set takes over.
    added: IdSet,
    added_cursor: Cursor,
    /// Ids that the set gives up.
    removed: IdSet,
    removed_cursor: Cursor,
    /// What is let go of in the end.
    leftover: Option<AddressSet>,
    result: SetChangeResult,
}

impl<S: Eq + Hash, M: Message, B> SetUpdate<S, M, B> {
    pub(crate) fn new(
        listener: Arc<Listener<S, M, B>>,
        handle: SubscriptionId,
        change: SetChange,
    ) -> Result<Self, SubscribeError> {
        if let Some(why) = listener.closed() {
            return Err(why.into());
        }
        let (id, topic, facet, set) = listener.tracked_set(handle)?;
        let (new, gone) = (IdSet::default(), IdSet::default());
        let (coming, leaving) = (Cursor::default(), Cursor::default());
        let comparing = DiffPhase {
            set,
            change,
            added: new,
            removed: gone,
            added_cursor: coming,
            removed_cursor: leaving,
        };
        let phase = Phase::Diff(Box::new(comparing));
        Ok(Self { listener, handle, id, topic, key_kind: facet, phase })
    }

    /// Does the next step; what the change came to, once it is done.
    ///
    /// Errors: those of the bounds, and `Unknown`; nothing has changed then.
    pub fn step(&mut self) -> Result<Option<SetChangeResult>, SubscribeError> {
        self.phase = match std::mem::replace(&mut self.phase, Phase::Finished) {
            Phase::Diff(mut comparing) => {
                if comparing.step() {
                    Phase::Diff(comparing)
                } else {
                    match self.take_set(*comparing)? {
                        Ok(open) => Phase::Insert(Box::new(open), Cursor::default()),
                        Err(changed) => return Ok(Some(changed)),
                    }
                }
            }
            Phase::Insert(open, mut at) => match at.next(&open.result.added.0) {
                Some(piece) => {
                    let index = &mut self.listener.subscriptions.shared.registry.lock().index;
                    index.insert_ids(self.topic, self.key_kind, &piece, open.index_slot);
                    Phase::Insert(open, at)
                }
                None => Phase::Remove(open, Cursor::default()),
            },
            Phase::Remove(open, mut at) => match at.next(&open.removed) {
                Some(piece) => {
                    let index = &mut self.listener.subscriptions.shared.registry.lock().index;
                    index.remove_ids(self.topic, self.key_kind, &piece, open.index_slot);
                    Phase::Remove(open, at)
                }
                None => Phase::Merge(Box::new(self.start_merge(*open))),
            },
            Phase::Merge(mut merging) => {
                if merging.step() {
                    self.phase = Phase::Merge(merging);
                    return Ok(None);
                }
                let MergePhase { set, leftover: rest, result: changed, .. } = *merging;
                let set = self.listener.intern_set(set);
                self.listener.subscriptions.shared.registry.lock().restore_set(self.id, set);
                let Some(rest) = rest else { return Ok(Some(changed)) };
                Phase::Release(changed, ReleaseTask::new(rest))
            }
            Phase::Release(changed, mut rest) => {
                if !rest.step() {
                    return Ok(Some(changed));
                }
                Phase::Release(changed, rest)
            }
            Phase::Finished => return Err(SubscribeError::Unknown),
        };
        Ok(None)
    }

    /// Takes the set out to be changed; `Err` if there was nothing to change, or it is changed by now.
    fn take_set(
        &self,
        compared: DiffPhase,
    ) -> Result<Result<DetachedSet, SetChangeResult>, SubscribeError> {
        let DiffPhase { set, change, added: new, removed: gone, .. } = compared;
        let listener = &*self.listener;
        let added = AddedIds(Arc::new(new));
        let (more, less) = (added.len(), gone.len());
        let len = set.len() + more - less;
        let mut changed = SetChangeResult { activation: None, added, removed: less, len };
        if more + less == 0 {
            listener.drop_set(set);
            return Ok(Err(changed));
        }
        let growth = more.saturating_sub(less);
        let mut engine = listener.subscriptions.shared.registry.lock();
        let shared = engine.subscriptions.get(&self.id);
        let alone = shared.is_some_and(|shared| shared.subscribers.len() == 1);
        let to_the_node = if alone { growth } else { len };
        let checked =
            engine.check_addresses(&listener.subscriptions, listener.id, growth, to_the_node);
        if let Err(refused) = checked {
            drop(engine);
            listener.drop_set(set);
            return Err(refused);
        }
        let token = (more > 0).then(|| engine.new_id().0);
        let pending = token.map(|token| {
            let ids = Arc::clone(&changed.added.0);
            PendingIds { token, ids, after: Position::MAX }
        });
        changed.activation =
            token.map(|token| Activation { subscription: self.handle, token: Some(token) });
        let entry = engine.listener_entry(listener.id);
        entry.tracked_addresses = entry.tracked_addresses + more - less;
        if !alone {
            drop(engine);
            listener.detach_set(self.handle, self.id, &set, change, pending)?;
            listener.drop_set(set);
            return Ok(Err(changed));
        }
        let (place, old) = engine.take_set(self.id, &changed.added, &gone, pending);
        drop(engine);
        drop(set);
        Ok(Ok(DetachedSet { index_slot: place, old, change, removed: gone, result: changed }))
    }

    fn start_merge(&self, open: DetachedSet) -> MergePhase {
        let DetachedSet { old, change, removed: gone, result: changed, .. } = open;
        let mut set = self.listener.make_set_exclusive(old);
        let (mut coming, mut leaving, mut rest) = (IdSet::default(), IdSet::default(), None);
        match change {
            SetChange::Add(more) if set.is_empty() => set = more,
            SetChange::Add(more) => coming = more.into_counted_ids(),
            SetChange::Remove(less) => (leaving, rest) = (gone, Some(less)),
            SetChange::Replace(new) => rest = Some(std::mem::replace(&mut set, new)),
        }
        let (come, left) = (Cursor::default(), Cursor::default());
        MergePhase {
            set,
            added: coming,
            added_cursor: come,
            removed: leaving,
            removed_cursor: left,
            leftover: rest,
            result: changed,
        }
    }
}

impl<S: Eq + Hash, M: Message, B> Drop for SetUpdate<S, M, B> {
    fn drop(&mut self) {
        if let Phase::Diff(_) = self.phase {
            let Phase::Diff(compared) = std::mem::replace(&mut self.phase, Phase::Finished) else {
                return;
            };
            return self.listener.drop_set(compared.set);
        }
        while !matches!(self.phase, Phase::Finished) {
            let _ = self.step(); // an error is the end of it too
        }
    }
}

impl DiffPhase {
    /// Looks at the next ids. False if there are none.
    fn step(&mut self) -> bool {
        let (mine, theirs) = (self.set.id_set(), self.change.set().id_set());
        if !matches!(self.change, SetChange::Remove(_))
            && let Some(mut piece) = self.added_cursor.next(theirs)
        {
            piece.retain(|id| !mine.contains(*id));
            self.added.add(&piece);
            return true;
        }
        let leaving = match self.change {
            SetChange::Add(_) => None,
            SetChange::Remove(_) => self.removed_cursor.next(theirs).map(|mut piece| {
                piece.retain(|id| mine.contains(*id));
                piece
            }),
            SetChange::Replace(_) => self.removed_cursor.next(mine).map(|mut piece| {
                piece.retain(|id| !theirs.contains(*id));
                piece
            }),
        };
        let Some(piece) = leaving else { return false };
        self.removed.add(&piece);
        true
    }
}

impl MergePhase {
    /// Takes over and gives up the next ids. False if there are none.
    fn step(&mut self) -> bool {
        if let Some(piece) = self.added_cursor.next(&self.added) {
            self.set.adopt_counted(&piece);
            return true;
        }
        let Some(piece) = self.removed_cursor.next(&self.removed) else { return false };
        self.set.release_ids(&piece);
        true
    }
}
