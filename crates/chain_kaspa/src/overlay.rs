//! The difference between the virtual UTXO set and that of the sink.
//!
//! Input: the changes of the virtual set, from the source's notifications, and those of the selected chain. The two come
//! from different messages, in any relative order. Output: the UTXOs that the virtual set has more or less.
//! Shape: each version of an outpoint (another DAA score is another version) has a count: how often the virtual set
//! gained it, less how often the chain did. A sum does not depend on its order. So messages that arrive in another order
//! lead to the same difference, and a chain block that accepts the virtual block's transactions leaves nothing behind.
//! A *contradiction* is an outpoint with counts that fit no set: removed but never added, or added twice. It ends when a
//! swapped message arrives. One that lasts means that a message was lost or doubled.
//! While the virtual set is *joining*, not all of it is known: the differences from before the first message. Then an
//! outpoint that no message named is taken as the chain has it, and a message is taken literally, whatever the counts
//! were. A wrong difference disappears when the chain accepts or drops the transaction.
//! Bounds: the caller checks [`Overlay::len`]. An outpoint has at most [`VERSIONS_MAX`] versions. One that would have
//! more is a contradiction until it is forgotten.
//! Not here: when to join, and the handling of lost messages (`virtual_state`); records.

use std::collections::hash_map::Entry;

use foldhash::HashMap;
use kaspa::{Outpoint, StoredUtxo};

use crate::block_changes::{BlockChanges, ChangedUtxo};
use crate::script_utxo::ScriptUtxo;

/// The most versions of an outpoint. Reorganizations leave two or three; each change compares all of them.
const VERSIONS_MAX: usize = 16;

/// The difference between the virtual UTXO set and that of the sink.
#[derive(Default)]
pub(crate) struct Overlay {
    items: HashMap<Outpoint, OutpointCounts>,
    /// The versions of all outpoints.
    versions: usize,
    /// Outpoints that changed with the chain, and are to be compared with it.
    unchecked: Vec<Outpoint>,
    contradictions: usize,
    /// The numbers of messages and of steps of the chain so far.
    messages: u64,
    steps: u64,
}

/// The versions of one outpoint, without those that have a count of zero.
struct OutpointCounts {
    versions: Vec<VersionCount>,
    /// Whether a version was not counted because there were too many.
    is_overfull: bool,
    /// The steps of the chain that there were at the last change.
    changed_at_step: u64,
    /// The messages that there were when the counts began to fit no set.
    contradicts_since: Option<u64>,
}

struct VersionCount {
    utxo: ScriptUtxo,
    count: i32,
}

/// The UTXOs in which the virtual set differs from that of the sink.
pub(crate) struct Differences {
    pub(crate) removed: Vec<ScriptUtxo>,
    pub(crate) added: Vec<ScriptUtxo>,
}

impl Differences {
    /// Returns the highest DAA score of an added UTXO. It is that of the virtual block: whatever it accepts has its score.
    pub(crate) fn newest_daa_score(&self) -> Option<u64> {
        self.added.iter().map(ScriptUtxo::block_daa_score).max()
    }
}

/// Returns the UTXO that the sink's set has at the outpoint of this one, under the same script.
pub(crate) type ChainLookup<'a> = &'a dyn Fn(&ScriptUtxo) -> Option<StoredUtxo>;

/// The versions of an outpoint fit no set.
struct Contradiction;

impl Overlay {
    /// Returns the number of versions of all outpoints.
    pub(crate) fn len(&self) -> usize {
        self.versions.max(self.items.len())
    }

    /// Returns the number of outpoints with counts that fit no set.
    pub(crate) fn contradictions(&self) -> usize {
        self.contradictions
    }

    pub(crate) fn clear(&mut self) {
        self.items.clear();
        self.versions = 0;
        self.unchecked.clear();
        self.contradictions = 0;
    }

    /// Counts a step of the chain. Call it before its blocks are applied.
    pub(crate) fn start_step(&mut self) {
        self.steps += 1;
    }

    /// Counts a message. Call it before its UTXOs are added and removed.
    pub(crate) fn start_message(&mut self) {
        self.messages += 1;
    }

    /// Counts a UTXO that the virtual set gained.
    pub(crate) fn add(&mut self, utxo: &ScriptUtxo, in_chain: ChainLookup<'_>) {
        self.count(utxo, 1);
        self.check(utxo.outpoint(), in_chain);
    }

    /// Counts a UTXO that the virtual set lost.
    pub(crate) fn remove(&mut self, utxo: &ScriptUtxo, in_chain: ChainLookup<'_>) {
        self.count(utxo, -1);
        self.check(utxo.outpoint(), in_chain);
    }

    /// Sets that the virtual set has a UTXO, while it is joining.
    pub(crate) fn set_present(&mut self, utxo: &ScriptUtxo, in_chain: ChainLookup<'_>) {
        let chain_version = in_chain(utxo);
        self.forget(utxo.outpoint());
        if chain_version == Some(utxo.utxo()) {
            return;
        }
        self.count(utxo, 1);
        if let Some(version) = chain_version {
            self.count(&utxo.with_utxo(version), -1);
        }
    }

    /// Sets that the virtual set does not have a UTXO, while it is joining. Another version of it is not affected.
    pub(crate) fn set_absent(&mut self, utxo: &ScriptUtxo, in_chain: ChainLookup<'_>) {
        let outpoint = utxo.outpoint();
        let chain_version = in_chain(utxo);
        let current = match self.items.get(&outpoint) {
            Some(item) => item.virtual_version(chain_version).unwrap_or_default(),
            None => chain_version,
        };
        if current != Some(utxo.utxo()) {
            return;
        }
        self.forget(outpoint);
        if let Some(version) = chain_version {
            self.count(&utxo.with_utxo(version), -1);
        }
    }

    /// Counts the changes of a block that joined the chain. While the virtual set is joining, outpoints that no message
    /// named are not counted: they are as the chain has them. [`Self::check_chain`] must follow.
    pub(crate) fn apply_block(&mut self, changes: &BlockChanges, is_joining: bool) {
        self.count_block(changes.spent_utxos(), 1, is_joining);
        self.count_block(changes.created_utxos(), -1, is_joining);
    }

    /// Counts the changes of a block that left the chain. While the virtual set is joining, outpoints that no message
    /// named are not counted. [`Self::check_chain`] must follow.
    pub(crate) fn revert_block(&mut self, changes: &BlockChanges, is_joining: bool) {
        self.count_block(changes.created_utxos(), 1, is_joining);
        self.count_block(changes.spent_utxos(), -1, is_joining);
    }

    fn count_block(
        &mut self,
        utxos: impl Iterator<Item = ChangedUtxo>,
        step: i32,
        only_known: bool,
    ) {
        for ChangedUtxo { utxo, .. } in utxos {
            let outpoint = utxo.outpoint();
            if !only_known || self.items.contains_key(&outpoint) {
                self.count(&utxo, step);
                self.unchecked.push(outpoint);
            }
        }
    }

    /// Compares the outpoints that the last blocks changed with the sink's set.
    pub(crate) fn check_chain(&mut self, in_chain: ChainLookup<'_>) {
        for outpoint in std::mem::take(&mut self.unchecked) {
            self.check(outpoint, in_chain);
        }
    }

    /// Returns whether a contradiction has lasted for more than this many messages.
    pub(crate) fn has_lasting_contradiction(&self, messages_max: u64) -> bool {
        let lasts = |since: u64| self.messages - since > messages_max;
        self.contradictions > 0
            && self.items.values().any(|item| item.contradicts_since.is_some_and(lasts))
    }

    /// Returns whether a difference has lasted for more than this many steps.
    pub(crate) fn has_lasting_difference(&self, steps_max: u64) -> bool {
        self.items.values().any(|item| self.steps - item.changed_at_step > steps_max)
    }

    /// Forgets contradictions, and differences that have lasted for more than this many steps: there the virtual
    /// set is as the chain has it.
    pub(crate) fn forget_doubtful(&mut self, steps_max: u64) {
        let steps = self.steps;
        self.items.retain(|_, item| {
            item.contradicts_since.is_none() && steps - item.changed_at_step <= steps_max
        });
        self.versions = self.items.values().map(|item| item.versions.len()).sum();
        self.contradictions = 0;
    }

    /// Returns the UTXOs that the virtual set has less and more than the sink's, by outpoint. Contradictions are left out.
    pub(crate) fn differences(&self, in_chain: ChainLookup<'_>) -> Differences {
        let mut removed = Vec::new();
        let mut added = Vec::new();
        for item in self.items.values() {
            let Some(first) = item.versions.first() else { continue };
            let chain_version = in_chain(&first.utxo);
            let Ok(virtual_version) = item.virtual_version(chain_version) else { continue };
            if virtual_version == chain_version {
                continue;
            }
            removed.extend(chain_version.map(|version| first.utxo.with_utxo(version)));
            added.extend(virtual_version.map(|version| first.utxo.with_utxo(version)));
        }
        removed.sort_unstable_by_key(ScriptUtxo::outpoint);
        added.sort_unstable_by_key(ScriptUtxo::outpoint);
        Differences { removed, added }
    }

    fn count(&mut self, utxo: &ScriptUtxo, step: i32) {
        let changed_at_step = self.steps;
        let item = self.items.entry(utxo.outpoint()).or_insert_with(|| OutpointCounts {
            versions: Vec::with_capacity(1),
            is_overfull: false,
            changed_at_step,
            contradicts_since: None,
        });
        item.changed_at_step = changed_at_step;
        self.versions -= item.versions.len();
        item.count(utxo, step);
        self.versions += item.versions.len();
    }

    /// Compares an outpoint with the sink's set.
    fn check(&mut self, outpoint: Outpoint, in_chain: ChainLookup<'_>) {
        let Entry::Occupied(mut entry) = self.items.entry(outpoint) else { return };
        let item = entry.get_mut();
        let before = item.contradicts_since.is_some();
        let contradicts = match item.versions.first() {
            Some(first) => item.virtual_version(in_chain(&first.utxo)).is_err(),
            None => item.is_overfull,
        };
        if contradicts && !before {
            item.contradicts_since = Some(self.messages);
            self.contradictions += 1;
        } else if before && !contradicts {
            item.contradicts_since = None;
            self.contradictions -= 1;
        }
        if item.versions.is_empty() && !item.is_overfull {
            entry.remove();
        }
    }

    fn forget(&mut self, outpoint: Outpoint) {
        let Some(item) = self.items.remove(&outpoint) else { return };
        self.versions -= item.versions.len();
        if item.contradicts_since.is_some() {
            self.contradictions -= 1;
        }
    }
}

impl OutpointCounts {
    /// Counts a change of one version.
    fn count(&mut self, utxo: &ScriptUtxo, step: i32) {
        let Some(at) = self.versions.iter().position(|version| version.utxo == *utxo) else {
            if self.versions.len() < VERSIONS_MAX {
                self.versions.push(VersionCount { utxo: utxo.clone(), count: step });
            } else {
                self.is_overfull = true;
            }
            return;
        };
        let version = &mut self.versions[at];
        version.count = version.count.saturating_add(step);
        if version.count == 0 {
            self.versions.remove(at);
        }
    }

    /// Returns the version that the virtual set has, if the sink's set has this one.
    fn virtual_version(
        &self,
        chain_version: Option<StoredUtxo>,
    ) -> Result<Option<StoredUtxo>, Contradiction> {
        if self.is_overfull {
            return Err(Contradiction);
        }
        let same_script = self.versions.windows(2).all(|pair| {
            let [one, other] = pair else { return true };
            one.utxo.script() == other.utxo.script()
        });
        if !same_script {
            return Err(Contradiction);
        }
        let count_in_chain = |utxo: StoredUtxo| i32::from(chain_version == Some(utxo));
        let is_counted = |utxo| self.versions.iter().any(|version| version.utxo.utxo() == utxo);
        let mut found = chain_version.filter(|utxo| !is_counted(*utxo));
        for version in &self.versions {
            let utxo = version.utxo.utxo();
            match version.count.saturating_add(count_in_chain(utxo)) {
                0 => {}
                1 if found.is_none() => found = Some(utxo),
                _ => return Err(Contradiction),
            }
        }
        Ok(found)
    }
}
