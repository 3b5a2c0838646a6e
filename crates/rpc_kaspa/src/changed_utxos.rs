//! The UTXOs that a block or a move of the chain changes, encoded once for all subscriptions that they match.

use address::AddressTable;
use chain_kaspa::{ChangedUtxo, LedgerBlock};
use kaspa::{AddressUtxo, Prefix, UtxoList};
use subscriptions::{BlockStep, Direction, Match};

use crate::message_format::MessageFormat;
use crate::subscription::Subscription;

/// Subscriptions for which one task of the pool encodes messages, in some 100 microseconds. A larger value leaves
/// threads idle; a smaller one makes more tasks.
const PART_MATCHES: usize = 64;

/// A subscription to a set, and the numbers of the UTXOs that match it.
pub(crate) type SetMatch = (Match<Subscription>, Vec<u32>);

/// UTXOs that were added and removed.
pub(crate) struct ChangedUtxos {
    /// The added ones, then the removed ones.
    utxos: Vec<ChangedUtxo>,
    added_len: usize,
}

/// Encoded entries, at the numbers of the changed UTXOs. One that is not needed is empty.
pub(crate) struct EncodedUtxos {
    entries: Vec<Vec<u8>>,
    added_len: usize,
}

/// The encoded lists of a notification.
pub(crate) struct ChangeLists<'a> {
    pub(crate) added: Vec<&'a [u8]>,
    pub(crate) removed: Vec<&'a [u8]>,
}

impl ChangedUtxos {
    pub(crate) fn new(
        added: impl Iterator<Item = ChangedUtxo>,
        removed: impl Iterator<Item = ChangedUtxo>,
    ) -> Self {
        let mut utxos: Vec<ChangedUtxo> = added.collect();
        let added_len = utxos.len();
        utxos.extend(removed);
        Self { utxos, added_len }
    }

    /// Returns the changes of a block that joins or leaves the chain, with the present ids of their scripts. The ids in
    /// the block may belong to other scripts since it was final. A script without an id is in no set, and is left out.
    pub(crate) fn from_step(step: &BlockStep<LedgerBlock>, addresses: &AddressTable) -> Self {
        let find_id = |changed: ChangedUtxo| {
            let script_id = addresses.lookup(changed.utxo.script())?;
            Some(ChangedUtxo { script_id, ..changed })
        };
        let created = step.body.changes.created_utxos().filter_map(find_id);
        let spent = step.body.changes.spent_utxos().filter_map(find_id);
        match step.direction {
            Direction::Applied => Self::new(created, spent),
            Direction::Reverted => Self::new(spent, created),
        }
    }

    /// Returns the changed UTXOs. The number of one is its index.
    pub(crate) fn utxos(&self) -> &[ChangedUtxo] {
        &self.utxos
    }

    /// Returns the UTXOs as items of a lookup: the id of the script, and the number.
    pub(crate) fn items(&self) -> impl Iterator<Item = (u32, u32)> {
        (0..).zip(&self.utxos).map(|(at, changed)| (changed.script_id.0, at))
    }

    /// Returns whether the id of a UTXO's script still belongs to that script.
    pub(crate) fn is_current(&self, at: u32, addresses: &AddressTable) -> bool {
        let ChangedUtxo { script_id, utxo } = &self.utxos[at as usize];
        addresses.address(*script_id).as_ref() == Some(utxo.script())
    }

    /// Removes matches by an id that belongs to another script now.
    pub(crate) fn remove_stale(
        &self,
        addresses: &AddressTable,
        sets: Vec<SetMatch>,
    ) -> Vec<SetMatch> {
        let matched = sets.iter().flat_map(|(_, refs)| refs);
        addresses.prefetch(matched.map(|at| self.utxos[*at as usize].script_id));
        let current = sets.into_iter().map(|(found, mut refs)| {
            refs.retain(|at| self.is_current(*at, addresses));
            (found, refs)
        });
        current.filter(|(_, refs)| !refs.is_empty()).collect()
    }

    /// Encodes the needed UTXOs in a format. `is_needed` has an element for each UTXO.
    pub(crate) fn encode(
        &self,
        format: MessageFormat,
        prefix: Prefix,
        is_needed: &[bool],
    ) -> EncodedUtxos {
        let encode = |(at, (changed, is_needed)): (usize, (&ChangedUtxo, &bool))| {
            if !is_needed {
                return Vec::new();
            }
            let entry = changed.utxo.to_entry();
            let address = entry.script_public_key.address(prefix);
            let utxo = AddressUtxo { address, outpoint: changed.utxo.outpoint(), entry };
            match format {
                MessageFormat::Borsh => {
                    let mut bytes = Vec::with_capacity(utxo.borsh_bytes());
                    utxo.encode_borsh_into(&mut bytes);
                    bytes
                }
                MessageFormat::Json => {
                    let mut text = Vec::with_capacity(400);
                    utxo.encode_json_into(&mut text);
                    text
                }
                MessageFormat::Protobuf => {
                    let is_added = at < self.added_len;
                    let list = if is_added { UtxoList::Added } else { UtxoList::Removed };
                    let mut bytes = Vec::with_capacity(320);
                    utxo.encode_protobuf_into(list, &mut bytes);
                    bytes
                }
            }
        };
        let entries = self.utxos.iter().zip(is_needed).enumerate().map(encode).collect();
        EncodedUtxos { entries, added_len: self.added_len }
    }
}

impl EncodedUtxos {
    /// Returns the lists of a notification of all UTXOs.
    pub(crate) fn select_all(&self) -> ChangeLists<'_> {
        let (added, removed) = self.entries.split_at(self.added_len);
        ChangeLists {
            added: added.iter().map(Vec::as_slice).collect(),
            removed: removed.iter().map(Vec::as_slice).collect(),
        }
    }

    /// Returns the lists of a notification of some UTXOs. Their numbers are in ascending order.
    pub(crate) fn select(&self, refs: &[u32]) -> ChangeLists<'_> {
        let added_len = refs.partition_point(|at| (*at as usize) < self.added_len);
        let (added, removed) = refs.split_at(added_len);
        ChangeLists { added: self.select_entries(added), removed: self.select_entries(removed) }
    }

    fn select_entries<'s>(&'s self, refs: &[u32]) -> Vec<&'s [u8]> {
        refs.iter().map(|at| self.entries[*at as usize].as_slice()).collect()
    }
}

/// Splits matches into parts that threads of the pool encode.
pub(crate) fn split_into_parts(mut sets: Vec<SetMatch>) -> Vec<Vec<SetMatch>> {
    let mut parts = Vec::new();
    while !sets.is_empty() {
        let rest = sets.split_off(sets.len().min(PART_MATCHES));
        parts.push(std::mem::replace(&mut sets, rest));
    }
    parts
}
