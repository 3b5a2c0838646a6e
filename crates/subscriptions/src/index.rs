//! The index: from the keys of a publication to the subscriptions that match.
//!
//! Shape: for each topic the subscriptions to all of it, those by exact key, and the postings of ids for each key kind.
//! A subscription is an index slot here: a small number that the registry allocates and frees.
//! Cost: a lookup is one posting for each key of the publication, plus its matches. Entries that become
//! empty are removed, so keys without subscriptions cost nothing.

use foldhash::HashMap;
use ledger::{Key, KeyKind};

use crate::filter::{ExactKey, Filter, Interest, Topic};
use crate::id_postings::IdPostings;
use crate::id_set::in_batches;

/// The subscriptions by topic.
#[derive(Default)]
pub(crate) struct Index {
    topics: HashMap<Topic, TopicIndex>,
    /// Ids for which new postings allocate memory.
    preallocated_ids: usize,
}

#[derive(Default)]
struct TopicIndex {
    all: Vec<u32>,
    postings: Vec<(KeyKind, IdPostings)>,
    exact: HashMap<ExactKey, Vec<u32>>,
}

impl Index {
    /// An index whose postings allocate memory for `preallocated_ids` ids at first use.
    pub(crate) fn new(preallocated_ids: usize) -> Self {
        Self { topics: HashMap::default(), preallocated_ids }
    }

    /// Inserts a subscription under one of its interests.
    pub(crate) fn insert(&mut self, index_slot: u32, interest: &Interest) {
        match &interest.filter {
            Filter::All => self.topic(interest.topic).all.push(index_slot),
            Filter::Set(key_kind, set) => {
                let ids = set.ids().map(|id| id.0);
                in_batches(ids, |batch| {
                    self.insert_ids(interest.topic, *key_kind, batch, index_slot)
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
                    self.remove_ids(interest.topic, *key_kind, ids, index_slot)
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

    /// Inserts a subscription under sorted ids that do not have it.
    pub(crate) fn insert_ids(
        &mut self,
        topic: Topic,
        key_kind: KeyKind,
        ids: &[u32],
        index_slot: u32,
    ) {
        if ids.is_empty() {
            return;
        }
        let preallocated_ids = self.preallocated_ids;
        let all = &mut self.topic(topic).postings;
        let index = all.iter().position(|(kind, _)| *kind == key_kind).unwrap_or_else(|| {
            let mut postings = IdPostings::default();
            if preallocated_ids > 0 {
                postings.reserve(preallocated_ids);
            }
            all.push((key_kind, postings));
            all.len() - 1
        });
        all[index].1.insert(ids, index_slot);
    }

    /// Removes a subscription from sorted ids.
    pub(crate) fn remove_ids(
        &mut self,
        topic: Topic,
        key_kind: KeyKind,
        ids: &[u32],
        index_slot: u32,
    ) {
        let all = &mut self.topic(topic).postings;
        if let Some((_, postings)) = all.iter_mut().find(|(kind, _)| *kind == key_kind) {
            postings.remove(ids, index_slot);
        }
        self.tidy(topic);
    }

    /// Whether the topic has subscriptions.
    pub(crate) fn has(&self, topic: Topic) -> bool {
        self.topics.contains_key(&topic)
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

    /// A lookup from an address id to the subscriptions under a key kind, each once.
    pub(crate) fn set_lookup(
        &self,
        topic: Topic,
        key_kind: KeyKind,
    ) -> Option<impl Fn(u32, &mut dyn FnMut(u32)) + '_> {
        let postings = self.topics.get(&topic)?.postings_for(key_kind)?;
        Some(|id, found: &mut dyn FnMut(u32)| postings.for_each_match(id, found))
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

    /// Whether it has no entries.
    pub(crate) fn is_empty(&self) -> bool {
        self.topics.is_empty()
    }

    fn topic(&mut self, topic: Topic) -> &mut TopicIndex {
        self.topics.entry(topic).or_default()
    }

    fn tidy(&mut self, topic: Topic) {
        let is_preallocated = self.preallocated_ids > 0;
        let Some(index) = self.topics.get_mut(&topic) else { return };
        // Preallocated postings stay.
        index.postings.retain(|(_, postings)| is_preallocated || !postings.is_empty());
        let has_no_ids = index.postings.iter().all(|(_, postings)| postings.is_empty());
        if index.exact.is_empty() {
            index.exact = HashMap::default(); // frees the memory of a map that was once large
        }
        if index.all.is_empty() && index.exact.is_empty() && has_no_ids && !is_preallocated {
            self.topics.remove(&topic);
        }
    }
}

impl TopicIndex {
    fn postings_for(&self, key_kind: KeyKind) -> Option<&IdPostings> {
        let (_, postings) = self.postings.iter().find(|(kind, _)| *kind == key_kind)?;
        Some(postings)
    }
}

fn remove_slot(index_slots: &mut Vec<u32>, index_slot: u32) {
    if let Some(position) = index_slots.iter().position(|slot| *slot == index_slot) {
        index_slots.swap_remove(position);
    }
}
