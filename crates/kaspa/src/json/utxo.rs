//! UTXOs and addresses in JSON.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::{Deserializer, Error};

use super::text::JsonBuffer;
use crate::address::KaspaAddress;
use crate::hash::Hash;
use crate::message::AddressUtxo;
use crate::script::ScriptPublicKey;
use crate::utxo::{Outpoint, UtxoEntry};

impl AddressUtxo {
    /// Appends the UTXO as an element of a list, without the comma between elements.
    pub fn encode_json_into(&self, out: &mut Vec<u8>) {
        out.put_json(r#"{"address":"#);
        match &self.address {
            Some(address) => out.put_address(address),
            None => out.put_json("null"),
        }
        out.put_json(r#","outpoint":{"index":"#);
        out.put_number(u64::from(self.outpoint.index));
        out.put_json(r#","transactionId":"#);
        out.put_hash(&self.outpoint.transaction_id);
        out.put_json(r#"},"utxoEntry":{"amount":"#);
        out.put_number(self.entry.amount);
        out.put_json(r#","blockDaaScore":"#);
        out.put_number(self.entry.block_daa_score);
        out.put_json(r#","covenantId":"#);
        match &self.entry.covenant_id {
            Some(covenant_id) => out.put_hash(covenant_id),
            None => out.put_json("null"),
        }
        out.put_json(r#","isCoinbase":"#);
        out.put_flag(self.entry.is_coinbase);
        out.put_json(r#","scriptPublicKey":""#);
        self.entry.script_public_key.encode_hex_into(out);
        out.put_json(r#""}}"#);
    }
}

/// A UTXO as it is in JSON.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct JsonUtxo {
    address: Option<KaspaAddress>,
    outpoint: JsonOutpoint,
    utxo_entry: JsonEntry,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JsonOutpoint {
    transaction_id: Hash,
    index: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JsonEntry {
    amount: u64,
    script_public_key: ScriptPublicKey,
    block_daa_score: u64,
    is_coinbase: bool,
    covenant_id: Option<Hash>,
}

impl From<JsonUtxo> for AddressUtxo {
    fn from(utxo: JsonUtxo) -> Self {
        let JsonUtxo { address, outpoint, utxo_entry } = utxo;
        Self {
            address,
            outpoint: Outpoint { transaction_id: outpoint.transaction_id, index: outpoint.index },
            entry: UtxoEntry {
                amount: utxo_entry.amount,
                script_public_key: utxo_entry.script_public_key,
                block_daa_score: utxo_entry.block_daa_score,
                is_coinbase: utxo_entry.is_coinbase,
                covenant_id: utxo_entry.covenant_id,
            },
        }
    }
}

impl<'de> Deserialize<'de> for KaspaAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<'de, str>::deserialize(deserializer)?.parse().map_err(Error::custom)
    }
}

impl<'de> Deserialize<'de> for Hash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_hex(&Cow::<'de, str>::deserialize(deserializer)?).map_err(Error::custom)
    }
}

impl<'de> Deserialize<'de> for ScriptPublicKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_hex(&Cow::<'de, str>::deserialize(deserializer)?).map_err(Error::custom)
    }
}
