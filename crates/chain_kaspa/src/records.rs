//! The records that one block changes: a working copy of them, above the state of a block of the ledger.
//!
//! Input: UTXOs that are added and removed. Output: the changed records, each once.
//! Invariant: a UTXO is removed only if the set has exactly this one, and added only if the set does not have its
//! outpoint under the script. A refused change has no effect. So a record never has wrong totals.
//! Cost: two lookups for each changed script, and one for each UTXO outside of its script's record.

use std::collections::BTreeMap;
use std::sync::Arc;

use foldhash::HashMap;
use kaspa::{KaspaRecord, Location, Outpoint, OverflowUtxo, ScriptRecord, StoredUtxo};
use ledger::{Address, AddressId, BlockId, Change};

use crate::block_changes::UtxoList;
use crate::block_info::Ledger;
use crate::refusal::UtxoError;
use crate::script_utxo::ScriptUtxo;

/// The records that a block changes.
pub(crate) struct RecordChanges<'a> {
    ledger: &'a Ledger,
    /// The block of the ledger below the changes.
    base: BlockId,
    /// Sorted, so that equal blocks allocate equal ids.
    scripts: BTreeMap<Address, ChangedScript>,
    overflow: BTreeMap<Outpoint, ChangedOverflow>,
}

struct ChangedScript {
    record: ScriptRecord,
    is_in_base: bool,
}

struct ChangedOverflow {
    record: Option<OverflowUtxo>,
    is_in_base: bool,
}

/// The changed records of a block.
pub(crate) struct ChangeSet {
    /// The changes of scripts, then those of UTXOs outside of their script's record.
    pub(crate) changes: Vec<Change<KaspaRecord>>,
    /// The number of changes of scripts.
    script_count: usize,
}

/// The id of each changed script.
pub(crate) struct ScriptIds(HashMap<Address, AddressId>);

impl<'a> RecordChanges<'a> {
    pub(crate) fn new(ledger: &'a Ledger, base: BlockId) -> Self {
        Self { ledger, base, scripts: BTreeMap::new(), overflow: BTreeMap::new() }
    }

    pub(crate) fn insert(&mut self, added: &ScriptUtxo) -> Result<(), UtxoError> {
        let outpoint = added.outpoint();
        if self.find(added).is_some() {
            return Err(UtxoError::Doubled { outpoint });
        }
        if self.script(added).record.insert(added.utxo())? == Location::Inside {
            return Ok(());
        }
        let changed = self.overflow(outpoint);
        if changed.record.is_none() {
            changed.record = Some(OverflowUtxo { script: *added.script(), utxo: added.utxo() });
            return Ok(());
        }
        // Another script has a record at the outpoint. Only the source of a virtual state can claim that.
        self.script(added).record.remove(&added.utxo())?;
        Err(UtxoError::Doubled { outpoint })
    }

    pub(crate) fn remove(&mut self, removed: &ScriptUtxo) -> Result<(), UtxoError> {
        let outpoint = removed.outpoint();
        match self.find(removed) {
            None => return Err(UtxoError::Missing { outpoint }),
            Some(found) if found != removed.utxo() => {
                return Err(UtxoError::Different { outpoint });
            }
            Some(_) => {}
        }
        if self.script(removed).record.remove(&removed.utxo())? == Location::Overflow {
            self.overflow(outpoint).record = None;
        }
        Ok(())
    }

    /// Returns the UTXO that the set has at the outpoint, under the script.
    fn find(&mut self, utxo: &ScriptUtxo) -> Option<StoredUtxo> {
        let outpoint = utxo.outpoint();
        let record = &self.script(utxo).record;
        if let Some(inside) = record.inside().find(|inside| inside.outpoint == outpoint) {
            return Some(inside);
        }
        if record.outside().count == 0 {
            return None;
        }
        let overflow = self.overflow(outpoint).record.as_ref()?;
        (overflow.script == *utxo.script()).then_some(overflow.utxo)
    }

    fn script(&mut self, utxo: &ScriptUtxo) -> &mut ChangedScript {
        let Self { ledger, base, scripts, .. } = self;
        scripts.entry(*utxo.script()).or_insert_with(|| {
            let in_base = ledger.record_at(*base, utxo.script());
            let record = in_base.as_deref().and_then(KaspaRecord::as_script).cloned();
            let is_in_base = record.is_some();
            let new_record = || ScriptRecord::new(&utxo.script_public_key());
            ChangedScript { record: record.unwrap_or_else(new_record), is_in_base }
        })
    }

    fn overflow(&mut self, outpoint: Outpoint) -> &mut ChangedOverflow {
        let Self { ledger, base, overflow, .. } = self;
        overflow.entry(outpoint).or_insert_with(|| {
            let record = find_overflow(ledger, *base, outpoint);
            ChangedOverflow { is_in_base: record.is_some(), record }
        })
    }

    /// Returns the changed records. Ones that the changes leave as absent as before are not included.
    pub(crate) fn finish(self) -> ChangeSet {
        let mut changes = Vec::with_capacity(self.scripts.len() + self.overflow.len());
        for (address, ChangedScript { record, is_in_base }) in self.scripts {
            let record = (!record.is_empty()).then(|| Arc::new(KaspaRecord::Script(record)));
            if is_in_base || record.is_some() {
                changes.push(Change { address, record });
            }
        }
        let script_count = changes.len();
        for (outpoint, ChangedOverflow { record, is_in_base }) in self.overflow {
            let is_changed = is_in_base || record.is_some();
            let to_record = |overflow: OverflowUtxo| {
                Arc::new(KaspaRecord::overflow(overflow.script, overflow.utxo))
            };
            if is_changed {
                let address = outpoint.ledger_address();
                changes.push(Change { address, record: record.map(to_record) });
            }
        }
        ChangeSet { changes, script_count }
    }
}

impl ChangeSet {
    /// Returns the addresses of the changed scripts, in the order of the changes.
    pub(crate) fn scripts(&self) -> Vec<Address> {
        self.changes[..self.script_count].iter().map(|change| change.address).collect()
    }
}

impl ScriptIds {
    /// Takes the scripts of a [`ChangeSet`] and the ids that the ledger returned for its changes.
    pub(crate) fn new(scripts: Vec<Address>, ids: &[AddressId]) -> Self {
        Self(scripts.into_iter().zip(ids.iter().copied()).collect())
    }

    /// Adds the id of its script to each UTXO of the block. Each script has a changed record.
    pub(crate) fn index(&self, utxos: &[ScriptUtxo]) -> UtxoList {
        let find_id = |utxo| Some((utxo, *self.0.get(ScriptUtxo::script(utxo))?));
        UtxoList::new(utxos.iter().filter_map(find_id))
    }
}

/// Returns the UTXO that a block of the ledger has at the outpoint of this one, under the same script.
pub(crate) fn find_utxo(ledger: &Ledger, block: BlockId, utxo: &ScriptUtxo) -> Option<StoredUtxo> {
    let outpoint = utxo.outpoint();
    let script = utxo.script();
    let found = ledger.record_at(block, script)?;
    let record = found.as_script()?;
    if let Some(inside) = record.inside().find(|inside| inside.outpoint == outpoint) {
        return Some(inside);
    }
    if record.outside().count == 0 {
        return None;
    }
    let overflow = find_overflow(ledger, block, outpoint)?;
    (overflow.script == *script).then_some(overflow.utxo)
}

fn find_overflow(ledger: &Ledger, block: BlockId, outpoint: Outpoint) -> Option<OverflowUtxo> {
    ledger.record_at(block, &outpoint.ledger_address())?.as_overflow().copied()
}
