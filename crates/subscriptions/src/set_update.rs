//! A change of a set, in steps of some tens of microseconds.
//!
//! Shape: the added and the removed ids are computed, batch by batch. Then, under one short lock of the registry, the
//! limits are checked and the set is taken out to be changed. Then ids are inserted into the index and removed from it,
//! the new set is merged and restored, and the rest is released, all batch by batch.
//! Invariant: a change that has taken the set out is completed: dropping it runs the remaining steps.
//! Not in steps: giving a listener its own copy of a shared set, which costs O(set).

use std::hash::Hash;
use std::sync::Arc;

use ledger::KeyKind;

use crate::address_set::{AddressSet, ReleaseTask};
use crate::error::SubscribeError;
use crate::filter::{Position, Topic};
use crate::id_set::{Cursor, IdSet};
use crate::ids::SubscriptionId;
use crate::listener::Listener;
use crate::queue::Message;
use crate::registry::PendingIds;
use crate::set_change::{Activation, AddedIds, SetChange, SetChangeResult};

/// A change of a set in progress. See [`Listener::start_set_update`].
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

/// Computes the added and the removed ids.
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

/// Merges the changed set.
struct MergePhase {
    set: AddressSet,
    /// Ids with a reference count each, which the set adopts.
    added: IdSet,
    added_cursor: Cursor,
    /// Ids that the set releases.
    removed: IdSet,
    removed_cursor: Cursor,
    /// A set to release at the end.
    leftover: Option<AddressSet>,
    result: SetChangeResult,
}

impl<S: Eq + Hash, M: Message, B> SetUpdate<S, M, B> {
    pub(crate) fn new(
        listener: Arc<Listener<S, M, B>>,
        handle: SubscriptionId,
        change: SetChange,
    ) -> Result<Self, SubscribeError> {
        if let Some(reason) = listener.closed() {
            return Err(reason.into());
        }
        let (id, topic, key_kind, set) = listener.tracked_set(handle)?;
        let diff = DiffPhase {
            set,
            change,
            added: IdSet::default(),
            removed: IdSet::default(),
            added_cursor: Cursor::default(),
            removed_cursor: Cursor::default(),
        };
        let phase = Phase::Diff(Box::new(diff));
        Ok(Self { listener, handle, id, topic, key_kind, phase })
    }

    /// Runs the next step. Returns the result after the last.
    ///
    /// Errors: those of the limits, and `Unknown`; nothing has changed then.
    pub fn step(&mut self) -> Result<Option<SetChangeResult>, SubscribeError> {
        self.phase = match std::mem::replace(&mut self.phase, Phase::Finished) {
            Phase::Diff(mut diff) => {
                if diff.step() {
                    Phase::Diff(diff)
                } else {
                    match self.take_set(*diff)? {
                        Ok(detached) => Phase::Insert(Box::new(detached), Cursor::default()),
                        Err(result) => return Ok(Some(result)),
                    }
                }
            }
            Phase::Insert(detached, mut cursor) => match cursor.next(&detached.result.added.0) {
                Some(batch) => {
                    let index = &mut self.listener.subscriptions.shared.registry.lock().index;
                    index.insert_ids(self.topic, self.key_kind, &batch, detached.index_slot);
                    Phase::Insert(detached, cursor)
                }
                None => Phase::Remove(detached, Cursor::default()),
            },
            Phase::Remove(detached, mut cursor) => match cursor.next(&detached.removed) {
                Some(batch) => {
                    let index = &mut self.listener.subscriptions.shared.registry.lock().index;
                    index.remove_ids(self.topic, self.key_kind, &batch, detached.index_slot);
                    Phase::Remove(detached, cursor)
                }
                None => Phase::Merge(Box::new(self.start_merge(*detached))),
            },
            Phase::Merge(mut merge) => {
                if merge.step() {
                    self.phase = Phase::Merge(merge);
                    return Ok(None);
                }
                let MergePhase { set, leftover, result, .. } = *merge;
                let set = self.listener.intern_set(set);
                self.listener.subscriptions.shared.registry.lock().restore_set(self.id, set);
                let Some(leftover) = leftover else { return Ok(Some(result)) };
                Phase::Release(result, ReleaseTask::new(leftover))
            }
            Phase::Release(result, mut release) => {
                if !release.step() {
                    return Ok(Some(result));
                }
                Phase::Release(result, release)
            }
            Phase::Finished => return Err(SubscribeError::Unknown),
        };
        Ok(None)
    }

    /// Takes the set out to be changed. The inner `Err` is the result if there was nothing to change, or if the change
    /// is complete.
    fn take_set(
        &self,
        diff: DiffPhase,
    ) -> Result<Result<DetachedSet, SetChangeResult>, SubscribeError> {
        let DiffPhase { set, change, added, removed, .. } = diff;
        let listener = &*self.listener;
        let added = AddedIds(Arc::new(added));
        let (more, less) = (added.len(), removed.len());
        let len = set.len() + more - less;
        let mut result = SetChangeResult { activation: None, added, removed: less, len };
        if more + less == 0 {
            listener.drop_set(set);
            return Ok(Err(result));
        }
        let growth = more.saturating_sub(less);
        let mut registry = listener.subscriptions.shared.registry.lock();
        let shared = registry.subscriptions.get(&self.id);
        let is_exclusive = shared.is_some_and(|shared| shared.subscribers.len() == 1);
        let new_to_node = if is_exclusive { growth } else { len };
        let checked =
            registry.check_addresses(&listener.subscriptions, listener.id, growth, new_to_node);
        if let Err(refused) = checked {
            drop(registry);
            listener.drop_set(set);
            return Err(refused);
        }
        let token = (more > 0).then(|| registry.new_id().0);
        let pending = token.map(|token| {
            let ids = Arc::clone(&result.added.0);
            PendingIds { token, ids, after: Position::MAX }
        });
        result.activation =
            token.map(|token| Activation { subscription: self.handle, token: Some(token) });
        let entry = registry.listener_entry(listener.id);
        entry.tracked_addresses = entry.tracked_addresses + more - less;
        if !is_exclusive {
            drop(registry);
            listener.detach_set(self.handle, self.id, &set, change, pending)?;
            listener.drop_set(set);
            return Ok(Err(result));
        }
        let (index_slot, old) = registry.take_set(self.id, &result.added, &removed, pending);
        drop(registry);
        drop(set);
        Ok(Ok(DetachedSet { index_slot, old, change, removed, result }))
    }

    fn start_merge(&self, detached: DetachedSet) -> MergePhase {
        let DetachedSet { old, change, removed, result, .. } = detached;
        let mut merge = MergePhase {
            set: self.listener.make_set_exclusive(old),
            added: IdSet::default(),
            added_cursor: Cursor::default(),
            removed: IdSet::default(),
            removed_cursor: Cursor::default(),
            leftover: None,
            result,
        };
        match change {
            SetChange::Add(more) if merge.set.is_empty() => merge.set = more,
            SetChange::Add(more) => merge.added = more.into_counted_ids(),
            SetChange::Remove(less) => (merge.removed, merge.leftover) = (removed, Some(less)),
            SetChange::Replace(new) => {
                merge.leftover = Some(std::mem::replace(&mut merge.set, new));
            }
        }
        merge
    }
}

impl<S: Eq + Hash, M: Message, B> Drop for SetUpdate<S, M, B> {
    fn drop(&mut self) {
        if let Phase::Diff(_) = self.phase {
            let Phase::Diff(diff) = std::mem::replace(&mut self.phase, Phase::Finished) else {
                return;
            };
            return self.listener.drop_set(diff.set);
        }
        while !matches!(self.phase, Phase::Finished) {
            let _ = self.step(); // an error ends it too
        }
    }
}

impl DiffPhase {
    /// Compares the next batch of ids. False if there are none.
    fn step(&mut self) -> bool {
        let (current, change) = (self.set.id_set(), self.change.set().id_set());
        if !matches!(self.change, SetChange::Remove(_))
            && let Some(mut batch) = self.added_cursor.next(change)
        {
            batch.retain(|id| !current.contains(*id));
            self.added.add(&batch);
            return true;
        }
        let removed = match self.change {
            SetChange::Add(_) => None,
            SetChange::Remove(_) => self.removed_cursor.next(change).map(|mut batch| {
                batch.retain(|id| current.contains(*id));
                batch
            }),
            SetChange::Replace(_) => self.removed_cursor.next(current).map(|mut batch| {
                batch.retain(|id| !change.contains(*id));
                batch
            }),
        };
        let Some(batch) = removed else { return false };
        self.removed.add(&batch);
        true
    }
}

impl MergePhase {
    /// Adopts or releases the next batch of ids. False if there are none.
    fn step(&mut self) -> bool {
        if let Some(batch) = self.added_cursor.next(&self.added) {
            self.set.adopt_counted(&batch);
            return true;
        }
        let Some(batch) = self.removed_cursor.next(&self.removed) else { return false };
        self.set.release_ids(&batch);
        true
    }
}
