//! The binary form of `addressesUpdate`: a header of 16 bytes, then 32 bytes for each address.
//!
//! Header: `0xad`; the change (1 add, 2 remove, 3 replace); flags (1: snapshot); 0; the request's id (4 bytes) and
//! the subscription's id (8 bytes), both little-endian. Out: the same steps as for the JSON form, and a JSON reply.

use std::sync::Arc;
use std::time::Duration;

use jsonrpc::envelope::Id;
use jsonrpc::error::RpcError;
use subscriptions::{AddressSet, SetChange, SubscriptionId};
use tokio_tungstenite::tungstenite::Bytes;

use super::update::update_request;
use super::{PendingReply, StepOutput, start_registration};
use crate::pubsub::PubSub;
use crate::pubsub::address_stream::AddressList;
use crate::pubsub::session::Session;

/// The first byte of a binary message about a set. No text begins with it.
pub(in crate::pubsub) const BINARY: u8 = 0xad;
/// Bytes of a binary message before its addresses.
const BINARY_HEADER: usize = 16;

pub(super) fn read_binary(
    pubsub: &Arc<PubSub>,
    session: &Arc<Session>,
    received_at: Duration,
    mut message: Bytes,
) -> StepOutput {
    let pending_reply = |id: Id| PendingReply { id, method: "addressesUpdate", received_at };
    let invalid = |request_id: Id, why: &str| {
        let invalid = || RpcError::invalid_params(format!("Invalid binary message: {why}"));
        let err = session.admit(pubsub, 1).err().unwrap_or_else(invalid);
        (pending_reply(request_id).reply(pubsub, Err(err)), None)
    };
    if message.len() < BINARY_HEADER {
        return invalid(Id::Null, "no header");
    }
    let header = message.split_to(BINARY_HEADER);
    let mut words = header
        .chunks_exact(4)
        .map(|word| word.iter().rev().fold(0, |number: u32, byte| number << 8 | u32::from(*byte)));
    let mut word = || words.next().unwrap_or_default(); // the header has four
    let (_, request_id, low, high) = (word(), word(), word(), word());
    let request_id = Id::Number(u64::from(request_id));
    let subscription = SubscriptionId(u64::from(high) << 32 | u64::from(low));
    let make_change: fn(AddressSet) -> SetChange = match header[1] {
        1 => SetChange::Add,
        2 => SetChange::Remove,
        3 => SetChange::Replace,
        _ => return invalid(request_id, "not 1 (add), 2 (remove) or 3 (replace)"),
    };
    let Some(addresses) = AddressList::from_binary(message) else {
        return invalid(request_id, "addresses have 32 bytes each");
    };
    let pending_reply = pending_reply(request_id);
    pending_reply.run_step(pubsub, || {
        session.admit(pubsub, 1)?;
        let request = update_request(session, subscription, make_change, header[2] & 1 == 1)?;
        Ok(start_registration(pubsub, pending_reply.clone(), addresses, request))
    })
}
