//! The UTXOs that a block creates and spends, and the net effect of several blocks.

use std::collections::hash_map::Entry;

use foldhash::HashMap;
use kaspa::Outpoint;
use ledger::AddressId;

use crate::script_utxo::ScriptUtxo;

/// The UTXOs that a block creates and spends. One that it both creates and spends is in neither list.
///
/// Memory: 108 bytes for each UTXO.
#[derive(Debug, Default)]
pub struct BlockChanges {
    created: UtxoList,
    spent: UtxoList,
}

/// UTXOs with the ids of their scripts, in the order of the block.
#[derive(Debug, Default)]
pub(crate) struct UtxoList {
    utxos: Vec<ScriptUtxo>,
    script_ids: Vec<AddressId>,
}

/// A UTXO of a block's change.
#[derive(Clone, Copy, Debug)]
pub struct ChangedUtxo<'a> {
    /// The id of the script's address. It is valid until the block is rooted or dropped, and then until the second publish
    /// after that.
    pub script_id: AddressId,
    /// The created or spent UTXO.
    pub utxo: &'a ScriptUtxo,
}

/// The net effect of blocks that were reverted and applied: a UTXO that one of them creates and another one takes back
/// unchanged is not in it. A UTXO with another DAA score counts as another one, as in kaspad's notifications.
#[derive(Debug, Default)]
pub struct NetChanges<'a> {
    utxos: Vec<NetUtxo<'a>>,
    /// Index in `utxos` by outpoint and DAA score.
    index: HashMap<(Outpoint, u64), usize>,
}

/// A UTXO, and how often it was added, less how often it was removed.
#[derive(Debug)]
struct NetUtxo<'a> {
    utxo: ChangedUtxo<'a>,
    count: i32,
}

impl UtxoList {
    /// Both lists have the same length.
    pub(crate) fn new(mut utxos: Vec<ScriptUtxo>, script_ids: Vec<AddressId>) -> Self {
        debug_assert_eq!(utxos.len(), script_ids.len(), "each UTXO has a script");
        utxos.shrink_to_fit();
        Self { utxos, script_ids }
    }

    fn iter(&self) -> impl ExactSizeIterator<Item = ChangedUtxo<'_>> {
        let pairs = self.utxos.iter().zip(&self.script_ids);
        pairs.map(|(utxo, script_id)| ChangedUtxo { script_id: *script_id, utxo })
    }

    fn bytes(&self) -> usize {
        self.utxos.capacity() * size_of::<ScriptUtxo>()
            + self.script_ids.capacity() * size_of::<AddressId>()
            + self.utxos.iter().map(ScriptUtxo::heap_bytes).sum::<usize>()
    }
}

impl BlockChanges {
    pub(crate) fn new(created: UtxoList, spent: UtxoList) -> Self {
        Self { created, spent }
    }

    /// Returns the created UTXOs.
    pub fn created_utxos(&self) -> impl ExactSizeIterator<Item = ChangedUtxo<'_>> {
        self.created.iter()
    }

    /// Returns the spent UTXOs of earlier blocks.
    pub fn spent_utxos(&self) -> impl ExactSizeIterator<Item = ChangedUtxo<'_>> {
        self.spent.iter()
    }

    /// Returns the bytes in memory.
    pub fn bytes(&self) -> usize {
        size_of_val(self) + self.created.bytes() + self.spent.bytes()
    }
}

impl<'a> NetChanges<'a> {
    /// Adds the effect of a block that joined the chain.
    pub fn apply(&mut self, changes: &'a BlockChanges) {
        self.count_all(&changes.spent, -1);
        self.count_all(&changes.created, 1);
    }

    /// Adds the effect of a block that left the chain.
    pub fn revert(&mut self, changes: &'a BlockChanges) {
        self.count_all(&changes.created, -1);
        self.count_all(&changes.spent, 1);
    }

    /// Returns the UTXOs that the blocks added.
    pub fn added_utxos(&self) -> impl Iterator<Item = ChangedUtxo<'a>> {
        self.utxos.iter().filter(|net| net.count > 0).map(|net| net.utxo)
    }

    /// Returns the UTXOs that the blocks removed.
    pub fn removed_utxos(&self) -> impl Iterator<Item = ChangedUtxo<'a>> {
        self.utxos.iter().filter(|net| net.count < 0).map(|net| net.utxo)
    }

    fn count_all(&mut self, utxos: &'a UtxoList, step: i32) {
        for utxo in utxos.iter() {
            let stored = utxo.utxo.utxo();
            match self.index.entry((stored.outpoint, stored.block_daa_score)) {
                Entry::Occupied(entry) => self.utxos[*entry.get()].count += step,
                Entry::Vacant(entry) => {
                    entry.insert(self.utxos.len());
                    self.utxos.push(NetUtxo { utxo, count: step });
                }
            }
        }
    }
}
