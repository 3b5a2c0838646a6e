//! Notifications in JSON.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::text::JsonBuffer;
use super::utxo::JsonUtxo;
use crate::hash::Hash;
use crate::message::{AcceptedIds, AddressUtxo, ChainChange, Notification, UtxoChanges};
use crate::operation::Event;

impl Notification {
    /// Reads the parameters of a notification.
    pub fn decode_json(params: &str) -> Result<Self, serde_json::Error> {
        Ok(match serde_json::from_str(params)? {
            Params::BlockAdded(content) => Self::BlockAdded(content.get().as_bytes().to_vec()),
            Params::VirtualChainChanged(change) => Self::VirtualChainChanged(change.into()),
            Params::FinalityConflict { violating_block_hash: violating_block } => {
                Self::FinalityConflict { violating_block }
            }
            Params::FinalityConflictResolved { finality_block_hash: finality_block } => {
                Self::FinalityConflictResolved { finality_block }
            }
            Params::UtxosChanged { added, removed } => Self::UtxosChanged(UtxoChanges {
                added: added.into_iter().map(AddressUtxo::from).collect(),
                removed: removed.into_iter().map(AddressUtxo::from).collect(),
            }),
            Params::SinkBlueScoreChanged { sink_blue_score } => {
                Self::SinkBlueScoreChanged { sink_blue_score }
            }
            Params::VirtualDaaScoreChanged { virtual_daa_score } => {
                Self::VirtualDaaScoreChanged { virtual_daa_score }
            }
            Params::PruningPointUtxoSetOverride {} => Self::PruningPointUtxoSetOverride,
            Params::NewBlockTemplate {} => Self::NewBlockTemplate,
        })
    }

    /// Encodes the message of the notification.
    pub fn encode_json(&self) -> Vec<u8> {
        if let Self::UtxosChanged(changes) = self {
            let encode = |utxos: &[AddressUtxo]| -> Vec<Vec<u8>> {
                let encode = |utxo: &AddressUtxo| {
                    let mut text = Vec::with_capacity(400);
                    utxo.encode_json_into(&mut text);
                    text
                };
                utxos.iter().map(encode).collect()
            };
            return encode_json_utxos_changed(&encode(&changes.added), &encode(&changes.removed));
        }
        encode_event(self.event(), |out| match self {
            Self::BlockAdded(content) => out.extend_from_slice(content),
            Self::VirtualChainChanged(change) => put_change(out, change),
            Self::FinalityConflict { violating_block } => {
                out.put_json(r#"{"violatingBlockHash":"#);
                out.put_hash(violating_block);
                out.push(b'}');
            }
            Self::FinalityConflictResolved { finality_block } => {
                out.put_json(r#"{"finalityBlockHash":"#);
                out.put_hash(finality_block);
                out.push(b'}');
            }
            Self::SinkBlueScoreChanged { sink_blue_score } => {
                out.put_json(r#"{"sinkBlueScore":"#);
                out.put_number(*sink_blue_score);
                out.push(b'}');
            }
            Self::VirtualDaaScoreChanged { virtual_daa_score } => {
                out.put_json(r#"{"virtualDaaScore":"#);
                out.put_number(*virtual_daa_score);
                out.push(b'}');
            }
            Self::UtxosChanged(_) | Self::PruningPointUtxoSetOverride | Self::NewBlockTemplate => {
                out.put_json("{}");
            }
        })
    }
}

/// Encodes a notification of UTXOs that [`AddressUtxo::encode_json_into`] has encoded. So a UTXO is encoded once, for all
/// listeners that it is sent to.
pub fn encode_json_utxos_changed<T: AsRef<[u8]>>(added: &[T], removed: &[T]) -> Vec<u8> {
    encode_event(Event::UtxosChanged, |out| {
        let utxos = [added, removed].into_iter().flatten();
        out.reserve(utxos.map(|utxo| utxo.as_ref().len() + 1).sum::<usize>() + 32);
        out.put_json(r#"{"added":"#);
        out.put_list(added, |out, utxo| out.extend_from_slice(utxo.as_ref()));
        out.put_json(r#","removed":"#);
        out.put_list(removed, |out, utxo| out.extend_from_slice(utxo.as_ref()));
        out.push(b'}');
    })
}

fn encode_event(event: Event, write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    out.put_json(r#"{"method":""#);
    out.put_json(event.name());
    out.put_json(r#"","params":{""#);
    out.put_json(event.scope_name());
    out.put_json(r#"":"#);
    write(&mut out);
    out.put_json("}}");
    out
}

fn put_change(out: &mut Vec<u8>, change: &ChainChange) {
    out.put_json(r#"{"acceptedTransactionIds":"#);
    out.put_list(&change.accepted, |out, accepted| {
        out.put_json(r#"{"acceptedTransactionIds":"#);
        out.put_hashes(&accepted.transaction_ids);
        out.put_json(r#","acceptingBlockHash":"#);
        out.put_hash(&accepted.accepting_block);
        out.push(b'}');
    });
    out.put_json(r#","addedChainBlockHashes":"#);
    out.put_hashes(&change.added);
    out.put_json(r#","removedChainBlockHashes":"#);
    out.put_hashes(&change.removed);
    out.push(b'}');
}

/// The parameters of a notification as they are in JSON.
#[derive(Deserialize)]
#[serde(rename_all_fields = "camelCase")]
enum Params<'a> {
    #[serde(borrow)]
    BlockAdded(&'a RawValue),
    VirtualChainChanged(JsonChange),
    FinalityConflict {
        violating_block_hash: Hash,
    },
    FinalityConflictResolved {
        finality_block_hash: Hash,
    },
    UtxosChanged {
        added: Vec<JsonUtxo>,
        removed: Vec<JsonUtxo>,
    },
    SinkBlueScoreChanged {
        sink_blue_score: u64,
    },
    VirtualDaaScoreChanged {
        virtual_daa_score: u64,
    },
    PruningPointUtxoSetOverride {},
    NewBlockTemplate {},
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JsonChange {
    removed_chain_block_hashes: Vec<Hash>,
    added_chain_block_hashes: Vec<Hash>,
    accepted_transaction_ids: Vec<JsonAccepted>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JsonAccepted {
    accepting_block_hash: Hash,
    accepted_transaction_ids: Vec<Hash>,
}

impl From<JsonChange> for ChainChange {
    fn from(change: JsonChange) -> Self {
        let accepted = change.accepted_transaction_ids.into_iter();
        Self {
            removed: change.removed_chain_block_hashes,
            added: change.added_chain_block_hashes,
            accepted: accepted
                .map(|accepted| AcceptedIds {
                    accepting_block: accepted.accepting_block_hash,
                    transaction_ids: accepted.accepted_transaction_ids,
                })
                .collect(),
        }
    }
}
