//! The binary form of `addressesUpdate`: a header of 16 bytes, then 32 bytes for each address.
//!
//! Header: `0xad`; the change (1 add, 2 remove, 3 replace); flags (1: snapshot); 0; the request's id (4 bytes) and
//! the subscription's id (8 bytes), both little-endian. Out: the same request as of the JSON form.

use jsonrpc::envelope::Id;
use jsonrpc::error::RpcError;
use subscriptions::{AddressSet, SetChange, SubscriptionId};
use tokio_tungstenite::tungstenite::Bytes;

use crate::pubsub::address_stream::AddressList;

/// The first byte of a binary message about a set. No text begins with it.
pub(in crate::pubsub) const BINARY: u8 = 0xad;
/// Bytes of a binary message before its addresses.
const BINARY_HEADER: usize = 16;

/// A change of a set.
pub(super) struct BinaryUpdate {
    pub(super) subscription: SubscriptionId,
    pub(super) make_change: fn(AddressSet) -> SetChange,
    pub(super) snapshot: bool,
    pub(super) addresses: AddressList,
}

/// The request's id, and the change or why it is invalid.
pub(super) fn parse_update(mut message: Bytes) -> (Id, Result<BinaryUpdate, RpcError>) {
    let invalid =
        |why: &str| Err(RpcError::invalid_params(format!("Invalid binary message: {why}")));
    if message.len() < BINARY_HEADER {
        return (Id::Null, invalid("no header"));
    }
    let header = message.split_to(BINARY_HEADER);
    let mut words = header
        .chunks_exact(4)
        .map(|word| word.iter().rev().fold(0, |number: u32, byte| number << 8 | u32::from(*byte)));
    let mut word = || words.next().unwrap_or_default(); // the header has four
    let _ = word();
    let request_id = word();
    let low = word();
    let high = word();
    let request_id = Id::Number(u64::from(request_id));
    let subscription = SubscriptionId(u64::from(high) << 32 | u64::from(low));
    let make_change: fn(AddressSet) -> SetChange = match header[1] {
        1 => SetChange::Add,
        2 => SetChange::Remove,
        3 => SetChange::Replace,
        _ => return (request_id, invalid("not 1 (add), 2 (remove) or 3 (replace)")),
    };
    let Some(addresses) = AddressList::from_binary(message) else {
        return (request_id, invalid("addresses have 32 bytes each"));
    };
    let snapshot = header[2] & 1 == 1;
    (request_id, Ok(BinaryUpdate { subscription, make_change, snapshot, addresses }))
}
