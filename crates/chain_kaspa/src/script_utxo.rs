//! A UTXO with its script, in the form that blocks and the virtual state store.

use kaspa::{Hash, Outpoint, ScriptPublicKey, StoredUtxo, UtxoEntry};
use ledger::Address;

/// A UTXO and its script: 104 bytes. Blocks above the root have one for each change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptUtxo {
    outpoint: Outpoint,
    script: Address,
    is_coinbase: bool,
    amount: u64,
    block_daa_score: u64,
    /// Absent for most UTXOs.
    rare: Option<Box<RareParts>>,
}

/// The parts that few UTXOs have.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RareParts {
    covenant_id: Option<Hash>,
    /// The script, if its address is a hash.
    hashed_script: Option<ScriptPublicKey>,
}

impl ScriptUtxo {
    /// Creates the form of an entry.
    pub fn new(outpoint: Outpoint, entry: &UtxoEntry) -> Self {
        let script_public_key = &entry.script_public_key;
        let has_address = script_public_key.payload().is_some();
        let rare = RareParts {
            covenant_id: entry.covenant_id,
            hashed_script: (!has_address).then(|| script_public_key.clone()),
        };
        Self {
            outpoint,
            script: script_public_key.ledger_address(),
            is_coinbase: entry.is_coinbase,
            amount: entry.amount,
            block_daa_score: entry.block_daa_score,
            rare: rare.into_box(),
        }
    }

    /// Returns another UTXO of the same script.
    pub(crate) fn with_utxo(&self, utxo: StoredUtxo) -> Self {
        let hashed_script = self.rare.as_ref().and_then(|rare| rare.hashed_script.clone());
        let rare = RareParts { covenant_id: utxo.covenant_id, hashed_script };
        Self {
            outpoint: utxo.outpoint,
            script: self.script,
            is_coinbase: utxo.is_coinbase,
            amount: utxo.amount,
            block_daa_score: utxo.block_daa_score,
            rare: rare.into_box(),
        }
    }

    /// Returns the transaction and the output that made the UTXO.
    pub fn outpoint(&self) -> Outpoint {
        self.outpoint
    }

    /// Returns the address of the script's record.
    pub fn script(&self) -> &Address {
        &self.script
    }

    /// Returns the amount in sompi.
    pub fn amount(&self) -> u64 {
        self.amount
    }

    /// Returns the DAA score of the block that accepted the transaction.
    pub fn block_daa_score(&self) -> u64 {
        self.block_daa_score
    }

    /// Returns the UTXO without its script.
    pub fn utxo(&self) -> StoredUtxo {
        StoredUtxo {
            outpoint: self.outpoint,
            amount: self.amount,
            block_daa_score: self.block_daa_score,
            is_coinbase: self.is_coinbase,
            covenant_id: self.rare.as_ref().and_then(|rare| rare.covenant_id),
        }
    }

    /// Returns the script.
    pub fn script_public_key(&self) -> ScriptPublicKey {
        let hashed_script = self.rare.as_ref().and_then(|rare| rare.hashed_script.clone());
        hashed_script
            .or_else(|| ScriptPublicKey::from_ledger_address(&self.script))
            .unwrap_or_else(|| unreachable!("a script whose address is a hash is stored"))
    }

    /// Returns the entry that it was created from.
    pub fn to_entry(&self) -> UtxoEntry {
        self.utxo().to_entry(self.script_public_key())
    }

    /// Returns its bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        let script_bytes = |script: &ScriptPublicKey| script.script.len();
        self.rare.as_deref().map_or(0, |rare| {
            size_of_val(rare) + rare.hashed_script.as_ref().map_or(0, script_bytes)
        })
    }
}

impl RareParts {
    /// Returns `None` if there are no such parts.
    fn into_box(self) -> Option<Box<Self>> {
        let is_absent = self.covenant_id.is_none() && self.hashed_script.is_none();
        (!is_absent).then(|| Box::new(self))
    }
}
