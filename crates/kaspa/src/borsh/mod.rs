//! wRPC in Borsh. A decoder reads from a slice: it allocates no more than a constant times the bytes that it reads.

mod address_list;
mod block;
mod chain;
mod frame;
mod notification;
mod reader;
mod reply;
mod request;
mod request_check;
mod utxo;
mod writer;

pub use address_list::BorshAddresses;
pub use chain::ChainReply;
pub use frame::{
    BorshReply, BorshRequest, BorshServerMessage, OPERATION_OFFSET, encode_borsh_failure,
    encode_borsh_rejection, replace_borsh_id,
};
pub use notification::encode_borsh_utxos_changed;
pub use reader::BorshError;
pub use reply::{
    BorshBalancesReply, BorshUtxosReply, ReplyTooLong, decode_borsh_sink, decode_borsh_utxos,
    encode_borsh_balance, encode_borsh_pong, encode_borsh_sink, encode_borsh_sink_blue_score,
    encode_borsh_subscribed, encode_borsh_sync_status, encode_borsh_unsubscribed,
};
pub use request::VerbosityLevel;
pub use request_check::check_borsh_request;
pub use utxo::borsh_utxo_bytes;
