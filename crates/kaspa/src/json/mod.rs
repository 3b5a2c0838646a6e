//! wRPC in JSON. Keys are sorted, as kaspad writes them. Numbers have 64 bits: most JavaScript clients round them above
//! 2^53, and kaspad writes them all the same.

mod address_list;
mod frame;
mod notification;
mod own_methods;
mod reply;
mod request;
mod text;
mod utxo;

pub use address_list::JsonAddresses;
pub use frame::{JsonRequest, JsonServerMessage, encode_json_failure};
pub use notification::encode_json_utxos_changed;
pub use own_methods::{
    AddressChangesHead, ChainPosition, ChangeKind, encode_json_address_changes,
    encode_json_address_changes_end, encode_json_addresses_position,
    encode_json_addresses_subscribed, encode_json_addresses_unsubscribed,
};
pub use reply::{
    JSON_LIST_TAIL, encode_json_balance, encode_json_balances_head, encode_json_pong,
    encode_json_sink, encode_json_sink_blue_score, encode_json_subscribed, encode_json_sync_status,
    encode_json_unsubscribed, encode_json_utxos_head,
};
pub(crate) use text::JsonBuffer;
