//! The UTXOs that a block creates and spends, and the net effect of several blocks.

use std::collections::hash_map::Entry;

use foldhash::HashMap;
use kaspa::{Hash, Outpoint};
use ledger::AddressId;

use crate::script_utxo::ScriptUtxo;

/// The bytes of the id of a script.
const ID_BYTES: usize = 4;

/// The UTXOs that a block creates and spends. One that it both creates and spends is in neither list.
///
/// Memory: some 79 bytes for each UTXO, 47 after one of the same transaction. They are packed, and unpacked by each
/// iteration: blocks above the root, and those that clients may resume from, are read far less often than they wait.
#[derive(Debug, Default)]
pub struct BlockChanges {
    created: UtxoList,
    spent: UtxoList,
}

/// UTXOs with the ids of their scripts, in the order of the block.
#[derive(Debug, Default)]
pub(crate) struct UtxoList {
    len: usize,
    /// For each UTXO the id of its script, 4 bytes, and its packed form.
    packed: Box<[u8]>,
}

/// A UTXO of a block's change.
#[derive(Clone, Debug)]
pub struct ChangedUtxo {
    /// The id of the script's address. It is valid until the block is rooted or dropped, and then until the second publish
    /// after that.
    pub script_id: AddressId,
    /// The created or spent UTXO.
    pub utxo: ScriptUtxo,
}

/// Iterates over the UTXOs of a list.
struct UtxoIter<'a> {
    left: usize,
    rest: &'a [u8],
    /// The transaction of the UTXO before.
    transaction_id: Option<Hash>,
}

/// The net effect of blocks that were reverted and applied: a UTXO that one of them creates and another one takes back
/// unchanged is not in it. A UTXO with another DAA score counts as another one, as in kaspad's notifications.
#[derive(Debug, Default)]
pub struct NetChanges {
    utxos: Vec<NetUtxo>,
    /// Index in `utxos` by outpoint and DAA score.
    index: HashMap<(Outpoint, u64), usize>,
}

/// A UTXO, and how often it was added, less how often it was removed.
#[derive(Debug)]
struct NetUtxo {
    utxo: ChangedUtxo,
    count: i32,
}

impl UtxoList {
    /// Packs UTXOs with the ids of their scripts.
    pub(crate) fn new<'a>(utxos: impl Iterator<Item = (&'a ScriptUtxo, AddressId)>) -> Self {
        let mut packed = Vec::new();
        let mut len = 0;
        let mut previous = None;
        for (utxo, script_id) in utxos {
            packed.extend_from_slice(&script_id.0.to_le_bytes());
            utxo.pack(previous.as_ref(), &mut packed);
            previous = Some(utxo.outpoint().transaction_id);
            len += 1;
        }
        // A copy. Allocators leave up to half of an allocation unused when it is only made shorter.
        Self { len, packed: Box::from(packed.as_slice()) }
    }

    fn iter(&self) -> UtxoIter<'_> {
        UtxoIter { left: self.len, rest: &self.packed, transaction_id: None }
    }
}

impl Iterator for UtxoIter<'_> {
    type Item = ChangedUtxo;

    fn next(&mut self) -> Option<ChangedUtxo> {
        self.left = self.left.checked_sub(1)?;
        let (id, rest) = self.rest.split_first_chunk::<ID_BYTES>()?;
        self.rest = rest;
        let utxo = ScriptUtxo::unpack(self.transaction_id, &mut self.rest);
        let utxo = utxo.unwrap_or_else(|| unreachable!("these bytes were made by `pack`"));
        self.transaction_id = Some(utxo.outpoint().transaction_id);
        Some(ChangedUtxo { script_id: AddressId(u32::from_le_bytes(*id)), utxo })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for UtxoIter<'_> {}

impl BlockChanges {
    pub(crate) fn new(created: UtxoList, spent: UtxoList) -> Self {
        Self { created, spent }
    }

    /// Returns the created UTXOs.
    pub fn created_utxos(&self) -> impl ExactSizeIterator<Item = ChangedUtxo> {
        self.created.iter()
    }

    /// Returns the spent UTXOs of earlier blocks.
    pub fn spent_utxos(&self) -> impl ExactSizeIterator<Item = ChangedUtxo> {
        self.spent.iter()
    }

    /// Returns the bytes in memory.
    pub fn bytes(&self) -> usize {
        size_of_val(self) + self.created.packed.len() + self.spent.packed.len()
    }
}

impl NetChanges {
    /// Adds the effect of a block that joined the chain.
    pub fn apply(&mut self, changes: &BlockChanges) {
        self.count_all(&changes.spent, -1);
        self.count_all(&changes.created, 1);
    }

    /// Adds the effect of a block that left the chain.
    pub fn revert(&mut self, changes: &BlockChanges) {
        self.count_all(&changes.created, -1);
        self.count_all(&changes.spent, 1);
    }

    /// Returns the UTXOs that the blocks added.
    pub fn added_utxos(&self) -> impl Iterator<Item = &ChangedUtxo> {
        self.utxos.iter().filter(|net| net.count > 0).map(|net| &net.utxo)
    }

    /// Returns the UTXOs that the blocks removed.
    pub fn removed_utxos(&self) -> impl Iterator<Item = &ChangedUtxo> {
        self.utxos.iter().filter(|net| net.count < 0).map(|net| &net.utxo)
    }

    fn count_all(&mut self, utxos: &UtxoList, step: i32) {
        for utxo in utxos.iter() {
            let key = (utxo.utxo.outpoint(), utxo.utxo.block_daa_score());
            match self.index.entry(key) {
                Entry::Occupied(entry) => self.utxos[*entry.get()].count += step,
                Entry::Vacant(entry) => {
                    entry.insert(self.utxos.len());
                    self.utxos.push(NetUtxo { utxo, count: step });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kaspa::{AddressPayload, ScriptPublicKey, UtxoEntry};

    use super::*;

    fn utxo(transaction: u8, index: u32, script: ScriptPublicKey) -> ScriptUtxo {
        let outpoint = Outpoint { transaction_id: Hash([transaction; 32]), index };
        let entry = UtxoEntry {
            amount: 1_000_000,
            script_public_key: script,
            block_daa_score: 300_000_000,
            is_coinbase: index == 7,
            covenant_id: (index == 8).then_some(Hash([3; 32])),
        };
        ScriptUtxo::new(outpoint, &entry)
    }

    fn p2pk(number: u8) -> ScriptPublicKey {
        ScriptPublicKey::from_payload(&AddressPayload::PublicKey([number; 32]))
    }

    fn pack(utxos: &[ScriptUtxo]) -> UtxoList {
        UtxoList::new(utxos.iter().zip((5..).map(AddressId)))
    }

    #[test]
    fn packed_utxos_are_the_same_in_the_same_order() {
        let hashed = ScriptPublicKey { version: 3, script: vec![9; 200].into() };
        let empty = ScriptPublicKey { version: 0, script: Box::default() };
        let utxos = [
            utxo(1, 0, p2pk(1)),
            utxo(1, 7, p2pk(2)),
            utxo(1, 8, hashed.clone()),
            utxo(2, 8, p2pk(1)),
            utxo(1, u32::MAX, hashed),
            utxo(1, 1, empty),
        ];
        let list = pack(&utxos);
        assert_eq!(list.iter().len(), utxos.len());
        for (at, (changed, utxo)) in list.iter().zip(&utxos).enumerate() {
            assert_eq!(changed.script_id, AddressId(5 + at as u32));
            assert_eq!(changed.utxo, *utxo);
            assert_eq!(changed.utxo.to_entry(), utxo.to_entry());
        }
        assert_eq!(list.iter().count(), utxos.len());
        assert_eq!(pack(&[]).iter().count(), 0);
    }

    #[test]
    fn a_change_takes_80_bytes_and_a_further_one_of_its_transaction_48() {
        let one = pack(&[utxo(1, 0, p2pk(1))]).packed.len();
        let two = pack(&[utxo(1, 0, p2pk(1)), utxo(1, 1, p2pk(2))]).packed.len();
        assert!(one <= 80 && two - one <= 48, "{one} {two}");
    }
}
