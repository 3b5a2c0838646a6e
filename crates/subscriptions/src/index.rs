//! The index: from the keys of a publication to the subscriptions that match.
//!
//! Shape: for each topic the subscriptions to all of it, those by exact key, and the postings of ids for each key kind.
//! A subscription is an index slot here: a small number that the registry allocates and frees.
//! Bounds: the distinct ids of all postings ([`Index::insert_ids`]). An id counts once, however many topics, key kinds
//! and subscriptions have it.
//! Cost: a lookup is one posting for each key of the publication, plus its matches. Entries that become
//! empty are removed, so keys without subscriptions cost nothing.

use foldhash::HashMap;
use ledger::{Key, KeyKind};

use crate::filter::{ExactKey, Filter, Interest, Topic};
use crate::id_postings::IdPostings;
use crate::id_set::{IdSet, in_batches};

pub(crate) struct Index {
    topics: HashMap<Topic, TopicIndex>,
    /// Distinct ids of all postings.
    tracked: usize,
    tracked_max: usize,
    /// Ids above the limit, until the running replacements have removed as many others.
    replacing: usize,
}

/// The ids that a replacement will remove, for which it may insert others before that.
#[derive(Debug, Default)]
pub(crate) struct ReplacementCredit {
    left: usize,
    used: usize,
}

impl ReplacementCredit {
    /// The credit of a replacement that will remove this many ids that no other subscription has.
    pub(crate) fn new(exclusive: usize) -> Self {
        Self { left: exclusive, used: 0 }
    }
}

/// The index has as many distinct ids as it may have.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct IndexFull;

#[derive(Default)]
struct TopicIndex {
    all: Vec<u32>,
    postings: Vec<(KeyKind, IdPostings)>,
    exact: HashMap<ExactKey, Vec<u32>>,
}

impl Index {
    /// An index of at most `tracked_max` distinct ids.
    pub(crate) fn new(tracked_max: usize) -> Self {
        Self { topics: HashMap::default(), tracked: 0, tracked_max, replacing: 0 }
    }

    /// Allocates memory for `ids` scattered ids under a topic and a key kind. It is never freed.
    pub(crate) fn reserve(&mut self, topic: Topic, key_kind: KeyKind, ids: usize) {
        self.topic(topic).postings_mut(key_kind).reserve(ids);
    }

    /// Number of distinct ids that are tracked under any topic and key kind.
    pub(crate) fn tracked_count(&self) -> usize {
        self.tracked
    }

    /// Whether the ids of a subscription's interests fit into the limit.
    pub(crate) fn has_room_for(&self, interests: &[Interest]) -> bool {
        let postings: Vec<&IdPostings> = self.postings().collect();
        let mut new = IdSet::default();
        for interest in interests {
            let Filter::Set(_, set) = &interest.filter else { continue };
            in_batches(set.ids().map(|id| id.0), |batch| {
                let is_new =
                    |id: &u32| !postings.iter().any(|it| it.has(*id)) && !new.contains(*id);
                let found: Vec<u32> = batch.iter().copied().filter(is_new).collect();
                new.add(&found);
            });
        }
        self.tracked - self.replacing + new.len() <= self.tracked_max
    }

    /// Inserts a subscription under one of its interests, for which there is room ([`Self::has_room_for`]).
    pub(crate) fn insert(&mut self, index_slot: u32, interest: &Interest) {
        match &interest.filter {
            Filter::All => self.topic(interest.topic).all.push(index_slot),
            Filter::Set(key_kind, set) => {
                let ids = set.ids().map(|id| id.0);
                in_batches(ids, |batch| {
                    let new = self.count_untracked(batch);
                    self.insert_counted(interest.topic, *key_kind, batch, index_slot, new);
                });
            }
            Filter::Exact(key) => {
                self.topic(interest.topic).exact.entry(key.clone()).or_default().push(index_slot);
            }
        }
    }

    /// Removes a subscription. `interest` must be the one that it was inserted under.
    pub(crate) fn remove(&mut self, index_slot: u32, interest: &Interest) {
        match &interest.filter {
            Filter::Set(key_kind, set) => {
                let ids = set.ids().map(|id| id.0);
                return in_batches(ids, |ids| {
                    self.remove_ids(interest.topic, *key_kind, ids, index_slot);
                });
            }
            Filter::All => remove_slot(&mut self.topic(interest.topic).all, index_slot),
            Filter::Exact(key) => {
                let exact = &mut self.topic(interest.topic).exact;
                if let Some(index_slots) = exact.get_mut(key) {
                    remove_slot(index_slots, index_slot);
                    if index_slots.is_empty() {
                        exact.remove(key);
                    }
                }
            }
        }
        self.tidy(interest.topic);
    }

    /// Inserts a subscription under sorted ids that do not have it. Nothing is inserted if there would be more distinct
    /// ids than may be tracked; those that `credit` pays for do not count.
    ///
    /// Cost: a lookup of each id in each postings, and the insertion.
    pub(crate) fn insert_ids(
        &mut self,
        topic: Topic,
        key_kind: KeyKind,
        ids: &[u32],
        index_slot: u32,
        credit: &mut ReplacementCredit,
    ) -> Result<(), IndexFull> {
        let new = self.count_untracked(ids);
        let paid = new.min(credit.left);
        if self.tracked - self.replacing + new - paid > self.tracked_max {
            return Err(IndexFull);
        }
        credit.left -= paid;
        credit.used += paid;
        self.replacing += paid;
        self.insert_counted(topic, key_kind, ids, index_slot, new);
        Ok(())
    }

    /// Removes a subscription from sorted ids; those that do not have it are unchanged. Returns how many ids are no
    /// longer tracked.
    pub(crate) fn remove_ids(
        &mut self,
        topic: Topic,
        key_kind: KeyKind,
        ids: &[u32],
        index_slot: u32,
    ) -> usize {
        let untracked_before = self.count_untracked(ids);
        let all = &mut self.topic(topic).postings;
        if let Some((_, postings)) = all.iter_mut().find(|(kind, _)| *kind == key_kind) {
            postings.remove(ids, index_slot);
        }
        let removed = self.count_untracked(ids) - untracked_before;
        self.tracked -= removed;
        self.tidy(topic);
        removed
    }

    /// The number of these ids that only this subscription has, under any topic.
    pub(crate) fn count_exclusive(
        &self,
        topic: Topic,
        key_kind: KeyKind,
        ids: &[u32],
        index_slot: u32,
    ) -> usize {
        let own = self.topics.get(&topic).and_then(|topic| topic.postings_for(key_kind));
        let Some(own) = own else { return 0 };
        let others: Vec<&IdPostings> =
            self.postings().filter(|postings| !std::ptr::eq(*postings, own)).collect();
        let is_exclusive =
            |id: &&u32| own.has_only(**id, index_slot) && !others.iter().any(|it| it.has(**id));
        ids.iter().filter(is_exclusive).count()
    }

    /// Ends the use of a credit: as many ids as `removed` are gone, or the replacement has ended.
    pub(crate) fn settle(&mut self, credit: &mut ReplacementCredit, removed: usize) {
        let settled = removed.min(credit.used);
        credit.used -= settled;
        self.replacing -= settled;
    }

    /// Whether the topic has subscriptions.
    pub(crate) fn has(&self, topic: Topic) -> bool {
        self.topics.get(&topic).is_some_and(|topic| !topic.is_empty())
    }

    /// The subscriptions that match a publication with `keys`, each once, in no particular order.
    pub(crate) fn matching(&self, topic: Topic, keys: impl IntoIterator<Item = Key>) -> Vec<u32> {
        let Some(topic) = self.topics.get(&topic) else { return Vec::new() };
        let mut found = topic.all.clone();
        if topic.postings.is_empty() {
            return found;
        }
        let mut hits = 0;
        for key in keys {
            let Some(postings) = topic.postings_for(key.kind) else { continue };
            let before = found.len();
            postings.for_each_match(key.id.0, |index_slot| found.push(index_slot));
            hits += usize::from(found.len() > before);
        }
        if hits > 1 {
            found.sort_unstable();
            found.dedup();
        }
        found
    }

    /// The postings of ids under a key kind.
    pub(crate) fn postings_for(&self, topic: Topic, key_kind: KeyKind) -> Option<&IdPostings> {
        self.topics.get(&topic)?.postings_for(key_kind)
    }

    /// The subscriptions to the publication with an exact key.
    pub(crate) fn matching_exact(&self, topic: Topic, key: &[u8]) -> &[u32] {
        self.topics
            .get(&topic)
            .and_then(|topic| topic.exact.get(key))
            .map_or(&[], |index_slots| index_slots.as_slice())
    }

    /// The heap bytes of the postings.
    pub(crate) fn bytes(&self) -> usize {
        let postings = self.topics.values().flat_map(|topic| &topic.postings);
        postings.map(|(_, postings)| postings.bytes()).sum()
    }

    /// Whether it has no entries, apart from reserved memory.
    pub(crate) fn is_empty(&self) -> bool {
        (self.tracked, self.replacing) == (0, 0) && self.topics.values().all(TopicIndex::is_empty)
    }

    /// Inserts a subscription under sorted ids. `new` of them are not tracked yet.
    fn insert_counted(
        &mut self,
        topic: Topic,
        key_kind: KeyKind,
        ids: &[u32],
        index_slot: u32,
        new: usize,
    ) {
        if !ids.is_empty() {
            self.tracked += new;
            self.topic(topic).postings_mut(key_kind).insert(ids, index_slot);
        }
    }

    /// The number of ids that are in no postings.
    fn count_untracked(&self, ids: &[u32]) -> usize {
        let postings: Vec<&IdPostings> = self.postings().collect();
        ids.iter().filter(|id| !postings.iter().any(|postings| postings.has(**id))).count()
    }

    /// The postings that are not empty.
    fn postings(&self) -> impl Iterator<Item = &IdPostings> {
        let all = self.topics.values().flat_map(|topic| &topic.postings);
        all.map(|(_, postings)| postings).filter(|postings| !postings.is_empty())
    }

    fn topic(&mut self, topic: Topic) -> &mut TopicIndex {
        self.topics.entry(topic).or_default()
    }

    fn tidy(&mut self, topic: Topic) {
        let Some(index) = self.topics.get_mut(&topic) else { return };
        index.postings.retain(|(_, postings)| !postings.is_empty() || postings.is_reserved());
        if index.exact.is_empty() {
            index.exact = HashMap::default(); // frees the memory of a map that was once large
        }
        if index.all.is_empty() && index.exact.is_empty() && index.postings.is_empty() {
            self.topics.remove(&topic);
        }
    }
}

impl TopicIndex {
    fn postings_for(&self, key_kind: KeyKind) -> Option<&IdPostings> {
        let (_, postings) = self.postings.iter().find(|(kind, _)| *kind == key_kind)?;
        Some(postings)
    }

    fn postings_mut(&mut self, key_kind: KeyKind) -> &mut IdPostings {
        let index =
            self.postings.iter().position(|(kind, _)| *kind == key_kind).unwrap_or_else(|| {
                self.postings.push((key_kind, IdPostings::default()));
                self.postings.len() - 1
            });
        &mut self.postings[index].1
    }

    fn is_empty(&self) -> bool {
        let has_no_ids = self.postings.iter().all(|(_, postings)| postings.is_empty());
        self.all.is_empty() && self.exact.is_empty() && has_no_ids
    }
}

fn remove_slot(index_slots: &mut Vec<u32>, index_slot: u32) {
    if let Some(position) = index_slots.iter().position(|slot| *slot == index_slot) {
        index_slots.swap_remove(position);
    }
}
