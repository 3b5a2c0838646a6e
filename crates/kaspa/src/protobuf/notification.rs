//! Notifications in protobuf.

use super::from_json::{TranslationError, put_object};
use super::message::encode_message;
use super::methods::BLOCK_ADDED;
use super::utxo::UtxoList;
use super::wire::ProtobufBuffer;
use crate::message::{AddressUtxo, ChainChange, Notification};
use crate::operation::Event;

/// Returns the number of a notification in `KaspadResponse`.
fn notification_field(event: Event) -> u32 {
    match event {
        Event::BlockAdded => 1_009,
        Event::VirtualChainChanged => 1_024,
        Event::FinalityConflict => 1_041,
        Event::FinalityConflictResolved => 1_042,
        Event::UtxosChanged => 1_051,
        Event::SinkBlueScoreChanged => 1_058,
        Event::PruningPointUtxoSetOverride => 1_069,
        Event::VirtualDaaScoreChanged => 1_076,
        Event::NewBlockTemplate => 1_083,
    }
}

/// Translates the content of BlockAdded from JSON to protobuf, for [`Notification::BlockAdded`].
///
/// Errors: the content does not have the shape of a block.
pub fn encode_protobuf_block_added(json: &str) -> Result<Vec<u8>, TranslationError> {
    let mut out = Vec::with_capacity(json.len() / 2);
    put_object(&mut out, &BLOCK_ADDED, json)?;
    Ok(out)
}

/// Encodes a notification of UTXOs that [`AddressUtxo::encode_protobuf_into`] has encoded for their lists. So a UTXO is
/// encoded once, for all listeners that it is sent to.
pub fn encode_protobuf_utxos_changed<T: AsRef<[u8]>>(added: &[T], removed: &[T]) -> Vec<u8> {
    encode_event(Event::UtxosChanged, |out| {
        let utxos = || [added, removed].into_iter().flatten().map(AsRef::as_ref);
        out.reserve(utxos().map(<[u8]>::len).sum());
        utxos().for_each(|utxo| out.extend_from_slice(utxo));
    })
}

fn encode_event(event: Event, write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    encode_message(0, notification_field(event), write)
}

impl Notification {
    /// Encodes the message of the notification. The bytes of [`Self::BlockAdded`] are those of
    /// [`encode_protobuf_block_added`].
    pub fn encode_protobuf(&self) -> Vec<u8> {
        encode_event(self.event(), |out| match self {
            Self::BlockAdded(content) => out.extend_from_slice(content),
            Self::VirtualChainChanged(change) => put_change(out, change),
            Self::FinalityConflict { violating_block } => out.put_hash(1, violating_block),
            Self::FinalityConflictResolved { finality_block } => out.put_hash(1, finality_block),
            Self::UtxosChanged(changes) => {
                put_utxos(out, UtxoList::Added, &changes.added);
                put_utxos(out, UtxoList::Removed, &changes.removed);
            }
            Self::SinkBlueScoreChanged { sink_blue_score } => out.put_number(1, *sink_blue_score),
            Self::VirtualDaaScoreChanged { virtual_daa_score } => {
                out.put_number(1, *virtual_daa_score);
            }
            Self::PruningPointUtxoSetOverride | Self::NewBlockTemplate => {}
        })
    }
}

fn put_utxos(out: &mut Vec<u8>, list: UtxoList, utxos: &[AddressUtxo]) {
    utxos.iter().for_each(|utxo| utxo.encode_protobuf_into(list, out));
}

fn put_change(out: &mut Vec<u8>, change: &ChainChange) {
    change.removed.iter().for_each(|hash| out.put_hash(1, hash));
    for accepted in &change.accepted {
        out.put_message(2, |out| {
            out.put_hash(1, &accepted.accepting_block);
            accepted.transaction_ids.iter().for_each(|id| out.put_hash(2, id));
        });
    }
    change.added.iter().for_each(|hash| out.put_hash(3, hash));
}
