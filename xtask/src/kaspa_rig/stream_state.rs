//! The state that the notifications of a subscriber add up to.
//!
//! Input: the state at the start, then notifications in order. Output: the current set of UTXOs, the tip of the chain
//! and the scores, and every contradiction: a UTXO that is added twice, or removed and not known, or a chain that does
//! not continue.
//! Each UTXO has a count, so that a set is right in the end even if two notifications were swapped, as a kaspad may do.
//! Not here: the connection (`subscriber`).

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{Hash as _, Hasher};

use kaspa::{AddressUtxo, ChainChange, Hash, Notification, Outpoint, UtxoEntry};

/// The most contradictions that are described.
const EXAMPLES_MAX: usize = 5;

/// The state of a node at a quiet time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeState {
    /// The tip of the selected chain.
    pub(crate) sink: Hash,
    pub(crate) sink_blue_score: u64,
    pub(crate) virtual_daa_score: u64,
    /// The UTXOs of some addresses in the virtual set.
    pub(crate) utxos: Vec<AddressUtxo>,
}

/// The state of a subscriber.
#[derive(Debug, Default)]
pub(crate) struct StreamState {
    /// For each UTXO the number of its additions, less that of its removals. Never zero.
    counts: HashMap<(Outpoint, UtxoEntry), i64>,
    /// The selected chain from the start on.
    chain: Vec<Hash>,
    sink_blue_score: u64,
    virtual_daa_score: u64,
    /// Identifies the set of UTXOs: a sum over them.
    fingerprint: u64,
    /// The fingerprints of all sets that there were.
    fingerprints: HashSet<u64>,
    pub(crate) counters: StreamCounters,
    /// Descriptions of the first contradictions.
    pub(crate) examples: Vec<String>,
}

/// Counters of a subscriber since its first connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamCounters {
    /// Notifications of changed UTXOs.
    pub(crate) utxo_notifications: u64,
    /// UTXOs in them.
    pub(crate) utxos: u64,
    pub(crate) contradictions: u64,
    /// The number of notifications of each number of chain blocks that they removed.
    pub(crate) reorganizations: BTreeMap<usize, u64>,
}

impl StreamState {
    /// Sets the state at the start of a connection. The counters continue.
    pub(crate) fn reset(&mut self, start: &NodeState) {
        self.counts.clear();
        self.fingerprint = 0;
        for utxo in &start.utxos {
            self.count_utxo(utxo, 1);
        }
        self.fingerprints.insert(self.fingerprint);
        self.chain = vec![start.sink];
        self.sink_blue_score = start.sink_blue_score;
        self.virtual_daa_score = start.virtual_daa_score;
    }

    /// Applies a notification.
    pub(crate) fn apply(&mut self, notification: &Notification) {
        match notification {
            Notification::UtxosChanged(changes) => {
                self.counters.utxo_notifications += 1;
                let changed = changes.added.len() + changes.removed.len();
                self.counters.utxos += changed as u64;
                for utxo in &changes.removed {
                    self.count_utxo(utxo, -1);
                }
                for utxo in &changes.added {
                    self.count_utxo(utxo, 1);
                }
                for utxo in changes.removed.iter().chain(&changes.added) {
                    self.check_utxo(utxo);
                }
                self.fingerprints.insert(self.fingerprint);
            }
            Notification::VirtualChainChanged(change) => self.apply_chain(change),
            Notification::SinkBlueScoreChanged { sink_blue_score } => {
                self.sink_blue_score = *sink_blue_score;
            }
            Notification::VirtualDaaScoreChanged { virtual_daa_score } => {
                self.virtual_daa_score = *virtual_daa_score;
            }
            _ => {}
        }
    }

    /// Describes the first difference from a node. `None` if there is none.
    pub(crate) fn find_difference(&self, node: &NodeState) -> Option<String> {
        let sink = self.chain.last();
        if sink != Some(&node.sink) {
            return Some(format!("the sink is {sink:?} and not {}", node.sink));
        }
        if self.sink_blue_score != node.sink_blue_score {
            let expected = node.sink_blue_score;
            return Some(format!("the blue score is {} and not {expected}", self.sink_blue_score));
        }
        if self.virtual_daa_score != node.virtual_daa_score {
            let expected = node.virtual_daa_score;
            return Some(format!("the DAA score is {} and not {expected}", self.virtual_daa_score));
        }
        let mut expected = HashSet::new();
        for utxo in &node.utxos {
            let key = (utxo.outpoint, utxo.entry.clone());
            match self.counts.get(&key) {
                Some(1) => {}
                count => return Some(format!("the count of {utxo:?} is {count:?}")),
            }
            expected.insert(key);
        }
        let unexpected = self.counts.iter().find(|(key, _)| !expected.contains(key));
        unexpected.map(|(key, count)| format!("{key:?} is not in the set, its count is {count}"))
    }

    /// Returns the fingerprint of the current set of UTXOs. Equal sets have equal fingerprints.
    pub(crate) fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Returns the number of different sets of UTXOs that this subscriber and another one both had, and of those that
    /// the other one did not have.
    pub(crate) fn compare_sets(&self, other: &Self) -> SharedSets {
        let common = self.fingerprints.intersection(&other.fingerprints).count();
        SharedSets { common, own: self.fingerprints.len() - common }
    }

    fn count_utxo(&mut self, utxo: &AddressUtxo, change: i64) {
        let key = (utxo.outpoint, utxo.entry.clone());
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let hash = hasher.finish();
        self.fingerprint = if change > 0 {
            self.fingerprint.wrapping_add(hash)
        } else {
            self.fingerprint.wrapping_sub(hash)
        };
        let count = self.counts.entry(key.clone()).or_default();
        *count += change;
        if *count == 0 {
            self.counts.remove(&key);
        }
    }

    fn check_utxo(&mut self, utxo: &AddressUtxo) {
        let count = self.counts.get(&(utxo.outpoint, utxo.entry.clone())).copied();
        if !matches!(count, None | Some(1)) {
            self.contradict(|| format!("{utxo:?} has the count {count:?}"));
        }
    }

    fn apply_chain(&mut self, change: &ChainChange) {
        let removed = change.removed.len();
        if removed > 0 {
            *self.counters.reorganizations.entry(removed).or_default() += 1;
        }
        for block in &change.removed {
            let tip = self.chain.pop();
            if tip != Some(*block) {
                self.contradict(|| format!("{block} is removed, and the tip is {tip:?}"));
            }
        }
        self.chain.extend(&change.added);
    }

    fn contradict(&mut self, describe: impl FnOnce() -> String) {
        self.counters.contradictions += 1;
        if self.examples.len() < EXAMPLES_MAX {
            self.examples.push(describe());
        }
    }
}

/// The sets of UTXOs of a subscriber, compared with those of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SharedSets {
    pub(crate) common: usize,
    pub(crate) own: usize,
}

#[cfg(test)]
mod tests {
    use kaspa::{AddressPayload, KaspaAddress, Prefix, ScriptPublicKey, UtxoChanges};

    use super::*;

    fn utxo(index: u32, block_daa_score: u64) -> AddressUtxo {
        let payload = AddressPayload::PublicKey([1; 32]);
        AddressUtxo {
            address: Some(KaspaAddress { prefix: Prefix::Simnet, payload }),
            outpoint: Outpoint { transaction_id: Hash([9; 32]), index },
            entry: UtxoEntry {
                amount: 7,
                script_public_key: ScriptPublicKey::from_payload(&payload),
                block_daa_score,
                is_coinbase: false,
                covenant_id: None,
            },
        }
    }

    fn node(utxos: Vec<AddressUtxo>) -> NodeState {
        NodeState { sink: Hash([1; 32]), sink_blue_score: 3, virtual_daa_score: 4, utxos }
    }

    fn changes(added: Vec<AddressUtxo>, removed: Vec<AddressUtxo>) -> Notification {
        Notification::UtxosChanged(UtxoChanges { added, removed })
    }

    fn start_state(utxos: Vec<AddressUtxo>) -> StreamState {
        let mut state = StreamState::default();
        state.reset(&node(utxos));
        state
    }

    #[test]
    fn changes_add_up_to_the_set_of_the_node() {
        let mut state = start_state(vec![utxo(0, 1), utxo(1, 1)]);
        // An output that only gets another DAA score is in both lists.
        state.apply(&changes(vec![utxo(0, 2), utxo(2, 2)], vec![utxo(0, 1)]));
        state.apply(&changes(vec![], vec![utxo(1, 1)]));
        assert_eq!(state.find_difference(&node(vec![utxo(0, 2), utxo(2, 2)])), None);
        assert_eq!(state.counters.contradictions, 0);
        assert_eq!((state.counters.utxo_notifications, state.counters.utxos), (2, 4));
        for other in [vec![], vec![utxo(0, 2)], vec![utxo(0, 2), utxo(2, 2), utxo(3, 2)]] {
            assert!(state.find_difference(&node(other)).is_some());
        }
    }

    #[test]
    fn doubled_and_missed_notifications_are_contradictions() {
        let mut state = start_state(vec![utxo(0, 1)]);
        state.apply(&changes(vec![utxo(0, 1)], vec![]));
        assert_eq!(state.counters.contradictions, 1);
        assert!(state.find_difference(&node(vec![utxo(0, 1)])).is_some());
        state.apply(&changes(vec![], vec![utxo(5, 1)]));
        assert_eq!(state.counters.contradictions, 2);
        assert_eq!(state.examples.len(), 2);
    }

    #[test]
    fn swapped_notifications_are_contradictions_and_the_set_is_right_in_the_end() {
        let mut state = start_state(vec![]);
        state.apply(&changes(vec![], vec![utxo(0, 1)]));
        state.apply(&changes(vec![utxo(0, 1)], vec![]));
        assert_eq!(state.counters.contradictions, 1);
        assert_eq!(state.find_difference(&node(vec![])), None);
    }

    #[test]
    fn a_chain_that_does_not_continue_is_a_contradiction() {
        let mut state = start_state(vec![]);
        let change = |removed: &[u8], added: &[u8]| {
            let hashes = |bytes: &[u8]| bytes.iter().map(|byte| Hash([*byte; 32])).collect();
            let change =
                ChainChange { removed: hashes(removed), added: hashes(added), accepted: vec![] };
            Notification::VirtualChainChanged(change)
        };
        state.apply(&change(&[], &[2, 3]));
        state.apply(&change(&[3, 2], &[4, 5, 6]));
        assert_eq!(state.counters.contradictions, 0);
        assert_eq!(state.counters.reorganizations, BTreeMap::from([(2, 1)]));
        let expected = NodeState { sink: Hash([6; 32]), ..node(vec![]) };
        assert_eq!(state.find_difference(&expected), None);
        state.apply(&change(&[5], &[7]));
        assert_eq!(state.counters.contradictions, 1);
    }

    #[test]
    fn scores_are_the_last_ones() {
        let mut state = start_state(vec![]);
        state.apply(&Notification::SinkBlueScoreChanged { sink_blue_score: 8 });
        state.apply(&Notification::VirtualDaaScoreChanged { virtual_daa_score: 9 });
        assert!(state.find_difference(&node(vec![])).is_some());
        let expected = NodeState { sink_blue_score: 8, virtual_daa_score: 9, ..node(vec![]) };
        assert_eq!(state.find_difference(&expected), None);
    }

    #[test]
    fn sets_are_compared_whatever_their_order() {
        let mut one = start_state(vec![]);
        let mut two = start_state(vec![]);
        one.apply(&changes(vec![utxo(0, 1)], vec![]));
        one.apply(&changes(vec![utxo(1, 1)], vec![]));
        two.apply(&changes(vec![utxo(1, 1), utxo(0, 1)], vec![]));
        assert_eq!(one.fingerprint(), two.fingerprint());
        assert_eq!(two.compare_sets(&one), SharedSets { common: 2, own: 0 });
        assert_eq!(one.compare_sets(&two), SharedSets { common: 2, own: 1 });
        // A new connection starts from the node's set, and its counters continue.
        two.reset(&node(vec![utxo(4, 1)]));
        assert_eq!(two.find_difference(&node(vec![utxo(4, 1)])), None);
        assert_eq!(two.counters.utxo_notifications, 1);
    }
}
