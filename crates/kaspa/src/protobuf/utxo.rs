//! UTXOs in protobuf.

use super::wire::ProtobufBuffer;
use crate::message::AddressUtxo;

/// The lists that a UTXO may be an element of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UtxoList {
    /// The entries of the reply to getUtxosByAddresses.
    Entries,
    /// The added UTXOs of a notification.
    Added,
    /// The removed UTXOs of a notification.
    Removed,
}

impl UtxoList {
    /// Returns the field of the list.
    fn field(self) -> u32 {
        match self {
            Self::Entries | Self::Added => 1,
            Self::Removed => 2,
        }
    }
}

impl AddressUtxo {
    /// Appends the UTXO as an element of a list, with its tag and its length.
    pub fn encode_protobuf_into(&self, list: UtxoList, out: &mut Vec<u8>) {
        out.put_message(list.field(), |out| {
            if let Some(address) = &self.address {
                out.put_address(1, address);
            }
            out.put_message(2, |out| {
                out.put_hash(1, &self.outpoint.transaction_id);
                if self.outpoint.index > 0 {
                    out.put_number(2, u64::from(self.outpoint.index));
                }
            });
            out.put_message(3, |out| self.put_entry(out));
        });
    }

    fn put_entry(&self, out: &mut Vec<u8>) {
        let entry = &self.entry;
        out.put_number(1, entry.amount);
        out.put_message(2, |out| {
            let script = &entry.script_public_key;
            if script.version > 0 {
                out.put_number(1, u64::from(script.version));
            }
            out.put_bytes_head(2, 2 * script.script.len() as u64);
            crate::hex::encode_into(&script.script, out);
        });
        out.put_number(3, entry.block_daa_score);
        if entry.is_coinbase {
            out.put_flag(4, true);
        }
        if let Some(covenant_id) = &entry.covenant_id {
            out.put_hash(6, covenant_id);
        }
    }
}
