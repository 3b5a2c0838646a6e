//! A change of a set, in steps of some tens of microseconds.
//!
//! Shape: the added and the removed ids are computed, batch by batch. Then, under one short lock of the registry, the
//! limits are checked and the set is taken out to be changed. Then ids are inserted into the index and removed from it,
//! the new set is merged and restored, and the rest is released, all batch by batch.
//! Invariant: a change that has taken the set out is completed, or undone if the node has no room for its addresses:
//! dropping it runs the remaining steps.
//! Not in steps: giving a listener its own copy of a shared set, which costs O(set).

use std::hash::Hash;
use std::sync::Arc;

use ledger::KeyKind;

use crate::address_counts::AddressCounts;
use crate::address_set::{AddressSet, ReleaseTask};
use crate::delivery::Message;
use crate::error::SubscribeError;
use crate::filter::{Position, Topic};
use crate::id_set::{Cursor, IdSet};
use crate::ids::SubscriptionId;
use crate::index::{IndexFull, ReplacementCredit};
use crate::listener::Listener;
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
    /// Removes the inserted ids of a change that did not fit.
    Undo(Box<DetachedSet>, Cursor),
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
    /// Removed ids that only this subscription has.
    exclusive: usize,
    added_cursor: Cursor,
    removed_cursor: Cursor,
}

/// A set that was taken out of its subscription.
struct DetachedSet {
    index_slot: u32,
    old: Arc<AddressSet>,
    change: SetChange,
    removed: IdSet,
    credit: ReplacementCredit,
    result: SetChangeResult,
}

struct MergePhase {
    set: AddressSet,
    /// Ids with a reference count each, which the set adopts.
    added: IdSet,
    added_cursor: Cursor,
    /// The ids that the set releases.
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
            exclusive: 0,
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
                if let Some(removed) = diff.step() {
                    diff.exclusive += self.count_exclusive(&removed);
                    Phase::Diff(diff)
                } else {
                    match self.take_set(*diff)? {
                        Ok(detached) => Phase::Insert(Box::new(detached), Cursor::default()),
                        Err(result) => return Ok(Some(result)),
                    }
                }
            }
            Phase::Insert(mut detached, mut cursor) => {
                match cursor.next(&detached.result.added.0) {
                    Some(batch) => match self.insert_ids(&mut detached, &batch) {
                        Ok(()) => Phase::Insert(detached, cursor),
                        Err(IndexFull) => Phase::Undo(detached, Cursor::default()),
                    },
                    None => Phase::Remove(detached, Cursor::default()),
                }
            }
            Phase::Remove(mut detached, mut cursor) => match cursor.next(&detached.removed) {
                Some(batch) => {
                    self.remove_ids(&mut detached, &batch);
                    Phase::Remove(detached, cursor)
                }
                None => {
                    self.settle(&mut detached);
                    let mut registry = self.listener.subscriptions.shared.registry.lock();
                    registry.remove_pending(self.id, &detached.removed);
                    drop(registry);
                    Phase::Merge(Box::new(self.start_merge(*detached)))
                }
            },
            Phase::Undo(mut detached, mut cursor) => match cursor.next(&detached.result.added.0) {
                Some(batch) => {
                    self.remove_ids(&mut detached, &batch);
                    Phase::Undo(detached, cursor)
                }
                None => {
                    self.settle(&mut detached);
                    return Err(self.undo(*detached));
                }
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
        let DiffPhase { set, change, added, removed, exclusive, .. } = diff;
        let listener = &*self.listener;
        let added = AddedIds(Arc::new(added));
        let more = added.len();
        let less = removed.len();
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
        let counts = AddressCounts { own: growth, pairs: if is_exclusive { growth } else { len } };
        let checked = registry.check_addresses(&listener.subscriptions, listener.id, counts);
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
        registry.count_addresses(listener.id, more);
        registry.release_addresses(listener.id, less);
        if !is_exclusive {
            drop(registry);
            let detached = listener.detach_set(self.handle, self.id, &set, change, pending);
            if detached.is_err() {
                let mut registry = listener.subscriptions.shared.registry.lock();
                registry.count_addresses(listener.id, less);
                registry.release_addresses(listener.id, more);
            }
            listener.drop_set(set);
            return detached.map(|()| Err(result));
        }
        let (index_slot, old) = registry.take_set(self.id, &result.added, &removed, pending);
        drop(registry);
        drop(set);
        let credit = ReplacementCredit::new(exclusive);
        Ok(Ok(DetachedSet { index_slot, old, change, removed, credit, result }))
    }

    /// The number of ids that only this subscription has.
    fn count_exclusive(&self, ids: &[u32]) -> usize {
        let registry = self.listener.subscriptions.shared.registry.lock();
        let Some(subscription) = registry.subscriptions.get(&self.id) else { return 0 };
        let index_slot = subscription.index_slot;
        registry.index.count_exclusive(self.topic, self.key_kind, ids, index_slot)
    }

    fn insert_ids(&self, detached: &mut DetachedSet, ids: &[u32]) -> Result<(), IndexFull> {
        let DetachedSet { index_slot, credit, .. } = detached;
        let index = &mut self.listener.subscriptions.shared.registry.lock().index;
        index.insert_ids(self.topic, self.key_kind, ids, *index_slot, credit)
    }

    fn remove_ids(&self, detached: &mut DetachedSet, ids: &[u32]) {
        let DetachedSet { index_slot, credit, .. } = detached;
        let index = &mut self.listener.subscriptions.shared.registry.lock().index;
        let removed = index.remove_ids(self.topic, self.key_kind, ids, *index_slot);
        index.settle(credit, removed);
    }

    /// Ends the use of a set's credit.
    fn settle(&self, detached: &mut DetachedSet) {
        let index = &mut self.listener.subscriptions.shared.registry.lock().index;
        index.settle(&mut detached.credit, usize::MAX);
    }

    /// Restores a set after a change that did not fit. Returns the reason.
    fn undo(&self, detached: DetachedSet) -> SubscribeError {
        let DetachedSet { old, removed, result, .. } = detached;
        let set = self.listener.intern_set(self.listener.make_set_exclusive(old));
        let added = result.added.len();
        let less = removed.len();
        let mut registry = self.listener.subscriptions.shared.registry.lock();
        registry.cancel_addition(self.id, result.activation.and_then(|it| it.token));
        registry.address_pairs = registry.address_pairs + less - added;
        registry.count_addresses(self.listener.id, less);
        registry.release_addresses(self.listener.id, added);
        registry.restore_set(self.id, set);
        drop(registry);
        self.listener.subscriptions.addresses_full(added)
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
    /// Compares the next batch of ids. Returns those that a replacement removes; `None` if no batch is left.
    fn step(&mut self) -> Option<Vec<u32>> {
        let current = self.set.id_set();
        let change = self.change.set().id_set();
        if !matches!(self.change, SetChange::Remove(_))
            && let Some(mut batch) = self.added_cursor.next(change)
        {
            batch.retain(|id| !current.contains(*id));
            self.added.add(&batch);
            return Some(Vec::new());
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
        let batch = removed?;
        self.removed.add(&batch);
        // Nothing is inserted before a removal alone.
        Some(if matches!(self.change, SetChange::Replace(_)) { batch } else { Vec::new() })
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
