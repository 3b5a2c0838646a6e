//! The replies of methods that are answered here, from their values.

use super::message::{PROTOBUF_PREFIX_BYTES, encode_message, put_id, put_length, reply_field};
use super::wire::ProtobufBuffer;
use crate::borsh::ReplyTooLong;
use crate::hash::Hash;
use crate::message::{AddressBalance, CoinSupply};
use crate::operation::Method;

/// The field of the entries of a list.
const ENTRIES_FIELD: u32 = 1;

/// Encodes the reply to getBalanceByAddress.
pub fn encode_protobuf_balance(id: u64, balance: u64) -> Vec<u8> {
    encode_method_reply(id, Method::GetBalanceByAddress, |out| out.put_number(1, balance))
}

/// Encodes the reply to getSink.
pub fn encode_protobuf_sink(id: u64, sink: &Hash) -> Vec<u8> {
    encode_method_reply(id, Method::GetSink, |out| out.put_hash(1, sink))
}

/// Encodes the reply to getSinkBlueScore.
pub fn encode_protobuf_sink_blue_score(id: u64, blue_score: u64) -> Vec<u8> {
    encode_method_reply(id, Method::GetSinkBlueScore, |out| out.put_number(1, blue_score))
}

/// Encodes the reply to ping.
pub fn encode_protobuf_pong(id: u64) -> Vec<u8> {
    encode_method_reply(id, Method::Ping, |_| ())
}

fn encode_method_reply(id: u64, method: Method, write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    encode_message(id, reply_field(method), write)
}

impl CoinSupply {
    /// Encodes the reply to getCoinSupply.
    pub fn encode_protobuf(&self, id: u64) -> Vec<u8> {
        encode_method_reply(id, Method::GetCoinSupply, |out| {
            out.put_number(1, self.max_sompi);
            out.put_number(2, self.circulating_sompi);
        })
    }
}

impl AddressBalance {
    /// Appends the balance as an element of the reply to getBalancesByAddresses.
    pub fn encode_protobuf_into(&self, out: &mut Vec<u8>) {
        out.put_message(ENTRIES_FIELD, |out| {
            out.put_address(1, &self.address);
            out.put_number(2, self.balance);
        });
    }
}

/// Encodes the reply to getUtxosByAddresses or getBalancesByAddresses up to its first entry. The entries have `bytes` in
/// all, as [`crate::AddressUtxo::encode_protobuf_into`] or [`AddressBalance::encode_protobuf_into`] append them.
///
/// Errors: the reply would have more than 4 GiB.
pub fn encode_protobuf_list_head(
    id: u64,
    method: Method,
    count: u64,
    bytes: u64,
) -> Result<Vec<u8>, ReplyTooLong> {
    let mut out = vec![0; PROTOBUF_PREFIX_BYTES];
    put_id(&mut out, id);
    out.put_bytes_head(reply_field(method), bytes);
    let head_bytes = (out.len() - PROTOBUF_PREFIX_BYTES) as u64;
    let message_bytes = bytes.saturating_add(head_bytes);
    if message_bytes > u64::from(u32::MAX) {
        return Err(ReplyTooLong { count, bytes });
    }
    put_length(&mut out, message_bytes);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::{AddressPayload, KaspaAddress};
    use crate::network::Prefix;

    #[test]
    fn a_list_in_pieces_is_the_list_as_a_whole() {
        let address =
            KaspaAddress { prefix: Prefix::Simnet, payload: AddressPayload::PublicKey([7; 32]) };
        let entry = AddressBalance { address, balance: 300 };
        let mut entries = Vec::new();
        for _ in 0..40 {
            entry.encode_protobuf_into(&mut entries);
        }
        let method = Method::GetBalancesByAddresses;
        let head = encode_protobuf_list_head(9, method, 40, entries.len() as u64).expect("short");
        let whole = encode_message(9, reply_field(method), |out| out.extend_from_slice(&entries));
        assert_eq!([head, entries].concat(), whole);
        let too_long = encode_protobuf_list_head(9, method, 1, u64::from(u32::MAX));
        assert!(too_long.is_err());
    }
}
