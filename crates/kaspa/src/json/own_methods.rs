//! The shapes of the methods that kaspad does not have: changes of addresses with the chain block that they belong to.
//!
//! Invariant: a client that has applied a notification has the UTXOs at its `position`, also after a block left the
//! chain. So it resumes from the position of the last notification.
//! Shape: the beginning of a notification is the same for all listeners of a subscription; its end has their numbers.
//! Not here: when they are sent (`rpc_kaspa`).

use super::frame::encode_reply;
use super::text::JsonBuffer;
use crate::hash::Hash;
use crate::operation::{Operation, OwnMethod};

/// A chain block as a position in the stream of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainPosition {
    /// The hash of the chain block.
    pub chain_block: Hash,
    /// The DAA score of the block.
    pub daa_score: u64,
    /// The blue score of the block.
    pub blue_score: u64,
    /// The time of the block, in Unix milliseconds.
    pub block_time_ms: u64,
}

/// The cause of the changes in a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// A block joined the chain.
    Update,
    /// The newest block left the chain.
    Rollback,
    /// No change: the notification has UTXOs at the position.
    Snapshot,
}

/// The parts of a notification other than its UTXOs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressChangesHead {
    /// The cause of the changes.
    pub kind: ChangeKind,
    /// The block that joined or left the chain, or that of the snapshot.
    pub block: Hash,
    /// The block whose UTXOs the client has once it has applied the changes.
    pub position: ChainPosition,
    /// Whether the next notification continues the same snapshot.
    pub has_more: bool,
}

impl ChangeKind {
    fn name(self) -> &'static str {
        match self {
            Self::Update => "update",
            Self::Rollback => "rollback",
            Self::Snapshot => "snapshot",
        }
    }
}

impl ChainPosition {
    fn encode_json_into(&self, out: &mut Vec<u8>) {
        out.put_json(r#"{"blockTime":"#);
        out.put_number(self.block_time_ms);
        out.put_json(r#","blueScore":"#);
        out.put_number(self.blue_score);
        out.put_json(r#","chainBlock":"#);
        out.put_hash(&self.chain_block);
        out.put_json(r#","daaScore":"#);
        out.put_number(self.daa_score);
        // Of chain blocks only.
        out.put_json(r#","isProven":true,"isVirtual":false}"#);
    }
}

/// Encodes the beginning of a notification, with UTXOs that [`crate::AddressUtxo::encode_json_into`] has encoded. Its end
/// is that of [`encode_json_address_changes_end`].
pub fn encode_json_address_changes<T: AsRef<[u8]>>(
    head: &AddressChangesHead,
    added: &[T],
    removed: &[T],
) -> Vec<u8> {
    let utxos = [added, removed].into_iter().flatten();
    let utxo_bytes = utxos.map(|utxo| utxo.as_ref().len() + 1).sum::<usize>();
    let mut out = Vec::with_capacity(utxo_bytes + 512);
    out.put_json(r#"{"method":"addressesNotification","params":{"added":"#);
    out.put_list(added, |out, utxo| out.extend_from_slice(utxo.as_ref()));
    out.put_json(r#","block":"#);
    out.put_hash(&head.block);
    out.put_json(r#","kind":""#);
    out.put_json(head.kind.name());
    out.put_json(r#"","more":"#);
    out.put_flag(head.has_more);
    out.put_json(r#","position":"#);
    head.position.encode_json_into(&mut out);
    out.put_json(r#","removed":"#);
    out.put_list(removed, |out, utxo| out.extend_from_slice(utxo.as_ref()));
    out
}

/// Encodes the end of a notification: the number of the subscription, and that of the notification from 0.
pub fn encode_json_address_changes_end(subscription: u64, sequence: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(80);
    out.put_json(r#","sequence":"#);
    out.put_number(sequence);
    out.put_json(r#","subscription":"#);
    out.put_number(subscription);
    out.put_json("}}");
    out
}

/// Encodes the reply to addressesSubscribe: the number of addresses, the position that the changes start after, and the
/// number of the subscription.
pub fn encode_json_addresses_subscribed(
    id: u64,
    addresses: usize,
    position: &ChainPosition,
    subscription: u64,
) -> Vec<u8> {
    encode_own_reply(id, OwnMethod::AddressesSubscribe, |out| {
        out.put_json(r#"{"addresses":"#);
        out.put_number(addresses as u64);
        out.put_json(r#","position":"#);
        position.encode_json_into(out);
        out.put_json(r#","subscription":"#);
        out.put_number(subscription);
        out.push(b'}');
    })
}

/// Encodes the reply to addressesUnsubscribe.
pub fn encode_json_addresses_unsubscribed(id: u64) -> Vec<u8> {
    encode_own_reply(id, OwnMethod::AddressesUnsubscribe, |out| out.put_json("{}"))
}

/// Encodes the reply to addressesPosition.
pub fn encode_json_addresses_position(id: u64, position: &ChainPosition) -> Vec<u8> {
    encode_own_reply(id, OwnMethod::AddressesPosition, |out| {
        out.put_json(r#"{"position":"#);
        position.encode_json_into(out);
        out.push(b'}');
    })
}

fn encode_own_reply(id: u64, method: OwnMethod, write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    encode_reply(id, Operation::Own(method), write)
}

#[cfg(test)]
mod tests {
    use super::*;

    const POSITION: ChainPosition = ChainPosition {
        chain_block: Hash([7; 32]),
        daa_score: 4,
        blue_score: 3,
        block_time_ms: 1_000,
    };
    const POSITION_JSON: &str = r#"{"blockTime":1000,"blueScore":3,"chainBlock":"0707070707070707070707070707070707070707070707070707070707070707","daaScore":4,"isProven":true,"isVirtual":false}"#;

    fn text(bytes: Vec<u8>) -> String {
        String::from_utf8(bytes).expect("UTF-8")
    }

    #[test]
    fn a_notification_has_its_position_and_the_numbers_of_its_listener() {
        let head = AddressChangesHead {
            kind: ChangeKind::Rollback,
            block: Hash([8; 32]),
            position: POSITION,
            has_more: false,
        };
        let mut message = encode_json_address_changes(&head, &["1", "2"], &["3"]);
        message.extend_from_slice(&encode_json_address_changes_end(12, 5));
        let block = "08".repeat(32);
        let expected = format!(
            r#"{{"method":"addressesNotification","params":{{"added":[1,2],"block":"{block}","kind":"rollback","more":false,"position":{POSITION_JSON},"removed":[3],"sequence":5,"subscription":12}}}}"#
        );
        assert_eq!(text(message), expected);
    }

    #[test]
    fn replies_have_the_envelope_of_wrpc() {
        let expected = format!(
            r#"{{"id":9,"method":"addressesSubscribe","params":{{"addresses":2,"position":{POSITION_JSON},"subscription":12}}}}"#
        );
        assert_eq!(text(encode_json_addresses_subscribed(9, 2, &POSITION, 12)), expected);
        let expected = format!(
            r#"{{"id":9,"method":"addressesPosition","params":{{"position":{POSITION_JSON}}}}}"#
        );
        assert_eq!(text(encode_json_addresses_position(9, &POSITION)), expected);
        let expected = r#"{"id":9,"method":"addressesUnsubscribe","params":{}}"#;
        assert_eq!(text(encode_json_addresses_unsubscribed(9)), expected);
    }
}
