//! Writes UTXOs of one address as JSON.

use jsonrpc::error::RpcError;
use jsonrpc::write_json;
use kaspa::{KaspaAddress, ScriptPublicKey, StoredUtxo, encode_hex};
use serde::Serialize;

/// Writes UTXOs of one address.
pub(super) struct UtxoWriter {
    address: String,
    script: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AddressUtxo<'a> {
    address: &'a str,
    outpoint: Outpoint,
    utxo_entry: UtxoEntry<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Outpoint {
    transaction_id: String,
    index: u32,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct UtxoEntry<'a> {
    amount: String,
    script_public_key: Script<'a>,
    block_daa_score: String,
    is_coinbase: bool,
    /// kaspa-rest-server leaves it out. A UTXO with a covenant is not spent like others, so it is here.
    #[serde(skip_serializing_if = "Option::is_none")]
    covenant_id: Option<String>,
}

/// A script without its version.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Script<'a> {
    script_public_key: &'a str,
}

impl UtxoWriter {
    pub(super) fn new(address: KaspaAddress) -> Self {
        let script = ScriptPublicKey::from_payload(&address.payload);
        Self { address: address.to_string(), script: encode_hex(&script.script) }
    }

    /// Appends a UTXO, without the comma between elements of a list.
    pub(super) fn write(&self, utxo: &StoredUtxo, out: &mut Vec<u8>) -> Result<(), RpcError> {
        let utxo = AddressUtxo {
            address: &self.address,
            outpoint: Outpoint {
                transaction_id: utxo.outpoint.transaction_id.to_string(),
                index: utxo.outpoint.index,
            },
            utxo_entry: UtxoEntry {
                amount: utxo.amount.to_string(),
                script_public_key: Script { script_public_key: &self.script },
                block_daa_score: utxo.block_daa_score.to_string(),
                is_coinbase: utxo.is_coinbase,
                covenant_id: utxo.covenant_id.map(|covenant_id| covenant_id.to_string()),
            },
        };
        write_json(out, &utxo)
    }
}
