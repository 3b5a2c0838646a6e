//! Unspent transaction outputs, and their elements in the set's hash.

use ledger::Address;
use muhash::{Element, ElementHasher};

use crate::hash::{FieldHasher, Hash};
use crate::script::ScriptPublicKey;

/// Bytes of an outpoint.
const OUTPOINT_BYTES: usize = 36;

/// The name of an output: its transaction, and its index there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Outpoint {
    /// The id of the transaction.
    pub transaction_id: Hash,
    /// The index among its outputs.
    pub index: u32,
}

/// An output that is not spent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UtxoEntry {
    /// The amount in sompi.
    pub amount: u64,
    /// The script that spends it.
    pub script_public_key: ScriptPublicKey,
    /// The DAA score of the block that accepted the transaction.
    pub block_daa_score: u64,
    /// Whether a block's reward made it.
    pub is_coinbase: bool,
    /// The covenant that the output belongs to.
    pub covenant_id: Option<Hash>,
}

impl Outpoint {
    /// Returns the address of the output's own record in the ledger.
    pub fn ledger_address(&self) -> Address {
        let mut bytes = [0; OUTPOINT_BYTES];
        bytes[..32].copy_from_slice(&self.transaction_id.0);
        bytes[32..].copy_from_slice(&self.index.to_le_bytes());
        Address::try_from(&bytes[..]).unwrap_or_else(|_| unreachable!("36 bytes, at most 36"))
    }

    /// Returns the outpoint for which [`Self::ledger_address`] returned this address.
    pub fn from_ledger_address(address: &Address) -> Option<Self> {
        let (transaction_id, index) = address.as_bytes().split_first_chunk::<32>()?;
        let index = u32::from_le_bytes(index.try_into().ok()?);
        Some(Self { transaction_id: Hash(*transaction_id), index })
    }
}

impl UtxoEntry {
    /// Returns the element of this output in the hash over the UTXO set, to which each chain block commits.
    pub fn element(&self, outpoint: &Outpoint) -> Element {
        let mut hasher = ElementHasher::new();
        hasher.write_hash(&outpoint.transaction_id);
        hasher.write_u32(outpoint.index);
        hasher.write_u64(self.block_daa_score);
        hasher.write_u64(self.amount);
        hasher.write(&[u8::from(self.is_coinbase)]);
        hasher.write_u16(self.script_public_key.version);
        hasher.write_bytes(&self.script_public_key.script);
        if let Some(covenant_id) = &self.covenant_id {
            hasher.write_hash(covenant_id);
        }
        hasher.finish()
    }
}
