//! From what a publication carries to the subscriptions that want it.
//!
//! Shape: for each topic those that want all, those by name, and one lane of ids for each facet.
//! Subscriptions are places here: small numbers that the engine gives out and takes back.
//! Cost: a look-up is one word for each key of the publication, plus its matches. Entries that become
//! empty are removed, so what nobody wants costs nothing.

use foldhash::HashMap;
use ledger::{Key, KeyKind};

use crate::filter::{ExactKey, Filter, Interest, Topic};
use crate::id_postings::IdPostings;
use crate::id_set::in_batches;

/// The subscriptions by topic.
#[derive(Default)]
pub(crate) struct Index {
    topics: HashMap<Topic, TopicIndex>,
    /// Room that a new lane is laid out with.
    preallocated_ids: usize,
}

#[derive(Default)]
struct TopicIndex {
    all: Vec<u32>,
    postings: Vec<(KeyKind, IdPostings)>,
    exact: HashMap<ExactKey, Vec<u32>>,
}

impl Index {
    /// An index whose lanes have room for so many ids from the start.
    pub(crate) fn new(preallocated_ids: usize) -> Self {
        Self { topics: HashMap::default(), preallocated_ids }
    }

    /// Enters a subscription under one of its interests, or, if that is a set, under the empty part
    /// of it: ids are entered by [`Self::insert_ids`].
    pub(crate) fn insert(&mut self, place: u32, interest: &Interest) {
        match &interest.filter {
            Filter::All => self.topic(interest.topic).all.push(place),
            Filter::Set(facet, set) => {
                let ids = set.ids().map(|id| id.0);
                in_batches(ids, |piece| self.insert_ids(interest.topic, *facet, piece, place));
            }
            Filter::Exact(name) => {
                self.topic(interest.topic).exact.entry(name.clone()).or_default().push(place);
            }
        }
    }

    /// Takes a subscription out again. `interest` must be the one that it was entered with.
    pub(crate) fn remove(&mut self, place: u32, interest: &Interest) {
        match &interest.filter {
            Filter::Set(facet, set) => {
                let ids = set.ids().map(|id| id.0);
                return in_batches(ids, |ids| self.remove_ids(interest.topic, *facet, ids, place));
            }
            Filter::All => remove_slot(&mut self.topic(interest.topic).all, place),
            Filter::Exact(name) => {
                let names = &mut self.topic(interest.topic).exact;
                if let Some(places) = names.get_mut(name) {
                    remove_slot(places, place);
                    if places.is_empty() {
                        names.remove(name);
                    }
                }
            }
        }
        self.tidy(interest.topic);
    }

    /// Enters a subscription under ids that are sorted and do not have it.
    pub(crate) fn insert_ids(&mut self, topic: Topic, facet: KeyKind, ids: &[u32], place: u32) {
        if ids.is_empty() {
            return;
        }
        let lane_ids = self.preallocated_ids;
        let lanes = &mut self.topic(topic).postings;
        let at = lanes.iter().position(|(of, _)| *of == facet).unwrap_or_else(|| {
            let mut lane = IdPostings::default();
            if lane_ids > 0 {
                lane.reserve(lane_ids);
            }
            lanes.push((facet, lane));
            lanes.len() - 1
        });
        lanes[at].1.insert(ids, place);
    }

    /// Takes a subscription out from under sorted ids.
    pub(crate) fn remove_ids(&mut self, topic: Topic, facet: KeyKind, ids: &[u32], place: u32) {
        let lanes = &mut self.topic(topic).postings;
        if let Some((_, lane)) = lanes.iter_mut().find(|(of, _)| *of == facet) {
            lane.remove(ids, place);
        }
        self.tidy(topic);
    }

    /// Whether anybody wants anything of the topic.
    pub(crate) fn has(&self, topic: Topic) -> bool {
        self.topics.contains_key(&topic)
    }

    /// Who wants a publication that carries `keys`, each once, in no particular order.
    pub(crate) fn matching(&self, topic: Topic, keys: impl IntoIterator<Item = Key>) -> Vec<u32> {
        let Some(topic) = self.topics.get(&topic) else { return Vec::new() };
        let mut found = topic.all.clone();
        if topic.postings.is_empty() {
            return found;
        }
        let mut hits = 0;
        for key in keys {
            let Some(lane) = topic.postings_for(key.kind) else { continue };
            let before = found.len();
            lane.for_each_match(key.id.0, |place| found.push(place));
            hits += usize::from(found.len() > before);
        }
        if hits > 1 {
            found.sort_unstable();
            found.dedup();
        }
        found
    }

    /// Who wants an address under a facet, each once.
    pub(crate) fn set_lookup(
        &self,
        topic: Topic,
        facet: KeyKind,
    ) -> Option<impl Fn(u32, &mut dyn FnMut(u32)) + '_> {
        let lane = self.topics.get(&topic)?.postings_for(facet)?;
        Some(|id, found: &mut dyn FnMut(u32)| lane.for_each_match(id, found))
    }

    /// Who wants the publication of that name.
    pub(crate) fn matching_exact(&self, topic: Topic, name: &[u8]) -> &[u32] {
        self.topics
            .get(&topic)
            .and_then(|topic| topic.exact.get(name))
            .map_or(&[], |places| places.as_slice())
    }

    /// The heap bytes of the lanes.
    pub(crate) fn bytes(&self) -> usize {
        let lanes = self.topics.values().flat_map(|topic| &topic.postings);
        lanes.map(|(_, lane)| lane.bytes()).sum()
    }

    /// Whether nothing is entered.
    pub(crate) fn is_empty(&self) -> bool {
        self.topics.is_empty()
    }

    fn topic(&mut self, topic: Topic) -> &mut TopicIndex {
        self.topics.entry(topic).or_default()
    }

    fn tidy(&mut self, topic: Topic) {
        let lane_ids = self.preallocated_ids;
        let Some(index) = self.topics.get_mut(&topic) else { return };
        // What was laid out beforehand stays.
        index.postings.retain(|(_, lane)| lane_ids > 0 || !lane.is_empty());
        let lanes_idle = index.postings.iter().all(|(_, lane)| lane.is_empty());
        if index.exact.is_empty() {
            index.exact = HashMap::default(); // a map that was once large gives its memory back
        }
        if index.all.is_empty() && index.exact.is_empty() && lanes_idle && lane_ids == 0 {
            self.topics.remove(&topic);
        }
    }
}

impl TopicIndex {
    fn postings_for(&self, facet: KeyKind) -> Option<&IdPostings> {
        let (_, lane) = self.postings.iter().find(|(of, _)| *of == facet)?;
        Some(lane)
    }
}

fn remove_slot(places: &mut Vec<u32>, place: u32) {
    if let Some(at) = places.iter().position(|entered| *entered == place) {
        places.swap_remove(at);
    }
}
