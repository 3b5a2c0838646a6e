//! From the keys of a publication to the subscriptions that want it.
//!
//! Shape: for each topic three tables: those that want all, those by key, those by name.
//! Cost: a look-up is one hash for each key of the publication, plus its matches. Entries that become
//! empty are removed, so what nobody wants costs nothing.

use foldhash::{HashMap, HashMapExt};
use ledger::Key;

use crate::engine::SubscriptionId;
use crate::filter::{Filter, Interest, Name, Topic};

/// The subscriptions by topic.
#[derive(Default)]
pub(crate) struct Index {
    topics: HashMap<Topic, TopicIndex>,
}

#[derive(Default)]
struct TopicIndex {
    all: Vec<SubscriptionId>,
    keys: HashMap<Key, Vec<SubscriptionId>>,
    names: HashMap<Name, Vec<SubscriptionId>>,
}

impl Index {
    /// Enters a subscription under one of its interests.
    pub(crate) fn insert(&mut self, id: SubscriptionId, interest: &Interest) {
        let topic = self.topics.entry(interest.topic).or_default();
        match &interest.filter {
            Filter::All => topic.all.push(id),
            Filter::Keys(held) => {
                for held in held {
                    let ids = topic.keys.entry(held.key()).or_default();
                    // A set that names a key twice wants it once; its own entry would be the last.
                    if ids.last() != Some(&id) {
                        ids.push(id);
                    }
                }
            }
            Filter::Name(name) => topic.names.entry(name.clone()).or_default().push(id),
        }
    }

    /// Takes a subscription out again. `interest` must be the one that it was entered with.
    pub(crate) fn remove(&mut self, id: SubscriptionId, interest: &Interest) {
        let Some(topic) = self.topics.get_mut(&interest.topic) else { return };
        match &interest.filter {
            Filter::All => forget(&mut topic.all, id),
            Filter::Keys(held) => {
                for held in held {
                    forget_under(&mut topic.keys, &held.key(), id);
                }
            }
            Filter::Name(name) => forget_under(&mut topic.names, name, id),
        }
        if topic.all.is_empty() && topic.keys.is_empty() && topic.names.is_empty() {
            self.topics.remove(&interest.topic);
        }
    }

    /// Whether anybody wants anything of the topic.
    pub(crate) fn has(&self, topic: Topic) -> bool {
        self.topics.contains_key(&topic)
    }

    /// Who wants a publication that carries `keys`, each once, in no particular order.
    pub(crate) fn matching(
        &self,
        topic: Topic,
        keys: impl IntoIterator<Item = Key>,
    ) -> Vec<SubscriptionId> {
        let Some(topic) = self.topics.get(&topic) else { return Vec::new() };
        let mut found = topic.all.clone();
        if topic.keys.is_empty() {
            return found;
        }
        let mut hits = 0;
        for ids in keys.into_iter().filter_map(|key| topic.keys.get(&key)) {
            found.extend_from_slice(ids);
            hits += 1;
        }
        if hits > 1 {
            found.sort_unstable();
            found.dedup();
        }
        found
    }

    /// Who wants the publication of that name.
    pub(crate) fn named(&self, topic: Topic, name: &[u8]) -> &[SubscriptionId] {
        self.topics
            .get(&topic)
            .and_then(|topic| topic.names.get(name))
            .map_or(&[], |ids| ids.as_slice())
    }

    /// Whether nothing is entered.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.topics.is_empty()
    }
}

fn forget(ids: &mut Vec<SubscriptionId>, id: SubscriptionId) {
    if let Some(at) = ids.iter().position(|entered| *entered == id) {
        ids.swap_remove(at);
    }
}

fn forget_under<K: Eq + std::hash::Hash>(
    table: &mut HashMap<K, Vec<SubscriptionId>>,
    key: &K,
    id: SubscriptionId,
) {
    let Some(ids) = table.get_mut(key) else { return };
    forget(ids, id);
    if ids.is_empty() {
        table.remove(key);
    }
    if table.is_empty() {
        *table = HashMap::new(); // a map that was once large gives its memory back
    }
}
