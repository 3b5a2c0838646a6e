//! A UTXO with its script: as the virtual state stores it, and packed as blocks store it.

use kaspa::{Hash, Outpoint, ScriptPublicKey, StoredUtxo, UtxoEntry};
use ledger::{Address, put_varint, take_varint};

/// The parts of the first byte of a packed UTXO: the length of the script's address, and flags.
mod head {
    pub(super) const LEN: u8 = 0x3f;
    /// The transaction is that of the UTXO before.
    pub(super) const SAME_TRANSACTION: u8 = 0x40;
    /// The script is at the end: its address is a hash.
    pub(super) const HASHED_SCRIPT: u8 = 0x80;
}

/// A UTXO and its script: 104 bytes.
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

    /// Appends its packed form: some 75 bytes, or 43 after a UTXO of the same transaction. `previous` is the id of that
    /// transaction.
    pub(crate) fn pack(&self, previous: Option<&Hash>, packed: &mut Vec<u8>) {
        let transaction_id = &self.outpoint.transaction_id;
        let has_same_transaction = previous == Some(transaction_id);
        let hashed_script = self.rare.as_ref().and_then(|rare| rare.hashed_script.as_ref());
        let script = self.script.as_bytes();
        let mut head = script.len() as u8; // an address has at most 36 bytes
        head |= if has_same_transaction { head::SAME_TRANSACTION } else { 0 };
        head |= if hashed_script.is_some() { head::HASHED_SCRIPT } else { 0 };
        packed.push(head);
        packed.extend_from_slice(script);
        if !has_same_transaction {
            packed.extend_from_slice(&transaction_id.0);
        }
        self.utxo().pack_without_id(packed);
        if let Some(ScriptPublicKey { version, script }) = hashed_script {
            put_varint(packed, u64::from(*version));
            put_varint(packed, script.len() as u64);
            packed.extend_from_slice(script);
        }
    }

    /// Reads what [`Self::pack`] appended after a UTXO of the transaction `previous`, and moves `rest` behind it. `None`
    /// if the bytes are not its.
    pub(crate) fn unpack(previous: Option<Hash>, rest: &mut &[u8]) -> Option<Self> {
        let (head, after) = rest.split_first()?;
        let (script, after) = after.split_at_checked(usize::from(head & head::LEN))?;
        *rest = after;
        let transaction_id = if head & head::SAME_TRANSACTION == 0 {
            let (id, after) = rest.split_first_chunk()?;
            *rest = after;
            Hash(*id)
        } else {
            previous?
        };
        let utxo = StoredUtxo::unpack_after_id(transaction_id, rest)?;
        let mut hashed_script = None;
        if head & head::HASHED_SCRIPT != 0 {
            let version = u16::try_from(take_varint(rest)?).ok()?;
            let len = usize::try_from(take_varint(rest)?).ok()?;
            let (bytes, after) = rest.split_at_checked(len)?;
            *rest = after;
            hashed_script = Some(ScriptPublicKey { version, script: bytes.into() });
        }
        Some(Self {
            outpoint: utxo.outpoint,
            script: Address::try_from(script).ok()?,
            is_coinbase: utxo.is_coinbase,
            amount: utxo.amount,
            block_daa_score: utxo.block_daa_score,
            rare: RareParts { covenant_id: utxo.covenant_id, hashed_script }.into_box(),
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
