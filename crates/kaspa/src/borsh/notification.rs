//! Notifications in Borsh.

use super::frame::{BorshServerMessage, encode_notification};
use super::reader::{BorshError, Reader};
use super::writer::BorshBuffer;
use crate::message::{AcceptedIds, AddressUtxo, ChainChange, Notification, UtxoChanges};
use crate::operation::Event;

/// The version of a notification, and of the structure in it.
const VERSION: u16 = 1;

/// Bytes of a list of accepted ids without ids.
const ACCEPTED_BYTES_MIN: usize = 32 + 4;

impl Notification {
    /// Reads the payload of [`BorshServerMessage::Notification`].
    pub fn decode_borsh(event: Event, payload: &[u8]) -> Result<Self, BorshError> {
        let mut frame = Reader::new(payload);
        let mut outer = frame.payload()?;
        frame.finish()?;
        let _version = outer.u16()?;
        let variant = outer.u16()?;
        if variant != u16::from(event.variant()) {
            let field = "the event of a notification";
            return Err(BorshError::UnknownValue { field, value: u64::from(variant) });
        }
        let structure = outer.bytes()?;
        let mut reader = Reader::new(structure);
        let _version = reader.u16()?;
        Ok(match event {
            Event::BlockAdded => Self::BlockAdded(structure.to_vec()),
            Event::VirtualChainChanged => Self::VirtualChainChanged(read_change(&mut reader)?),
            Event::FinalityConflict => Self::FinalityConflict { violating_block: reader.hash()? },
            Event::FinalityConflictResolved => {
                Self::FinalityConflictResolved { finality_block: reader.hash()? }
            }
            Event::UtxosChanged => Self::UtxosChanged(UtxoChanges {
                added: AddressUtxo::read_list(&mut reader)?,
                removed: AddressUtxo::read_list(&mut reader)?,
            }),
            Event::SinkBlueScoreChanged => {
                Self::SinkBlueScoreChanged { sink_blue_score: reader.u64()? }
            }
            Event::VirtualDaaScoreChanged => {
                Self::VirtualDaaScoreChanged { virtual_daa_score: reader.u64()? }
            }
            Event::PruningPointUtxoSetOverride => Self::PruningPointUtxoSetOverride,
            Event::NewBlockTemplate => Self::NewBlockTemplate,
        })
    }

    /// Encodes the frame of the notification.
    pub fn encode_borsh(&self) -> Vec<u8> {
        if let Self::UtxosChanged(changes) = self {
            let encode = |utxos: &[AddressUtxo]| -> Vec<Vec<u8>> {
                let encode = |utxo: &AddressUtxo| {
                    let mut bytes = Vec::with_capacity(utxo.borsh_bytes());
                    utxo.encode_borsh_into(&mut bytes);
                    bytes
                };
                utxos.iter().map(encode).collect()
            };
            return encode_borsh_utxos_changed(&encode(&changes.added), &encode(&changes.removed));
        }
        encode_event(self.event(), |out| match self {
            Self::BlockAdded(structure) => out.extend_from_slice(structure),
            Self::VirtualChainChanged(change) => {
                out.put_u16(VERSION);
                out.put_hashes(&change.removed);
                out.put_hashes(&change.added);
                out.put_u32(change.accepted.len() as u32);
                for accepted in &change.accepted {
                    out.put_hash(&accepted.accepting_block);
                    out.put_hashes(&accepted.transaction_ids);
                }
            }
            Self::FinalityConflict { violating_block: block }
            | Self::FinalityConflictResolved { finality_block: block } => {
                out.put_u16(VERSION);
                out.put_hash(block);
            }
            Self::SinkBlueScoreChanged { sink_blue_score: score }
            | Self::VirtualDaaScoreChanged { virtual_daa_score: score } => {
                out.put_u16(VERSION);
                out.put_u64(*score);
            }
            Self::UtxosChanged(_) | Self::PruningPointUtxoSetOverride | Self::NewBlockTemplate => {
                out.put_u16(VERSION);
            }
        })
    }
}

/// Encodes a notification of UTXOs that [`AddressUtxo::encode_borsh_into`] has encoded. So a UTXO is encoded once, for
/// all listeners that it is sent to.
pub fn encode_borsh_utxos_changed<T: AsRef<[u8]>>(added: &[T], removed: &[T]) -> Vec<u8> {
    encode_event(Event::UtxosChanged, |out| {
        let utxos = [added, removed].into_iter().flatten();
        out.reserve(utxos.map(|utxo| utxo.as_ref().len()).sum::<usize>() + 32);
        out.put_u16(VERSION);
        for utxos in [added, removed] {
            out.put_payload(|out| {
                out.put_u32(utxos.len() as u32);
                utxos.iter().for_each(|utxo| out.extend_from_slice(utxo.as_ref()));
            });
        }
    })
}

fn encode_event(event: Event, write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    encode_notification(event, |out| {
        out.put_u16(VERSION);
        out.put_u16(u16::from(event.variant()));
        out.put_payload(write);
    })
}

impl ChainChange {
    /// Reads the structure of a reply to getVirtualChainFromBlock.
    pub fn decode_borsh(structure: &[u8]) -> Result<Self, BorshError> {
        let mut reader = Reader::new(structure);
        let _version = reader.u16()?;
        read_change(&mut reader)
    }
}

fn read_change(reader: &mut Reader<'_>) -> Result<ChainChange, BorshError> {
    Ok(ChainChange {
        removed: reader.hashes()?,
        added: reader.hashes()?,
        accepted: reader.list(ACCEPTED_BYTES_MIN, |reader| {
            Ok(AcceptedIds { accepting_block: reader.hash()?, transaction_ids: reader.hashes()? })
        })?,
    })
}

impl BorshServerMessage<'_> {
    /// Reads the notification, if the message is one.
    pub fn decode_notification(&self) -> Option<Result<Notification, BorshError>> {
        match self {
            Self::Notification { event, payload } => {
                Some(Notification::decode_borsh(*event, payload))
            }
            Self::Reply(_) => None,
        }
    }
}
