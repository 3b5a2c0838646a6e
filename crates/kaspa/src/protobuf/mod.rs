//! The messages of kaspad's gRPC (`protowire.RPC/MessageStream`): requests are read as those of wRPC in JSON, and replies
//! are written from JSON, or directly where they are long or frequent.
//!
//! Shape: [`ProtobufRequest::parse`] translates a request to the same request in JSON, field by field (`methods` names
//! them). [`encode_protobuf_reply`] translates a reply back. UTXOs, balances, and notifications of the chain are encoded
//! from their structures, without JSON in between.
//! Invariant: each encoded message starts with the prefix of gRPC ([`PROTOBUF_PREFIX_BYTES`]), so a long list can be
//! written in parts.
//! Not here: streams of HTTP/2 (`grpc_server`), which requests are forwarded (`rpc_kaspa`).

mod from_json;
mod message;
mod methods;
mod notification;
mod objects;
mod reply;
mod request;
mod shape;
mod to_json;
mod utxo;
mod wire;

pub use from_json::TranslationError;
pub use message::{
    PROTOBUF_PREFIX_BYTES, ProtobufReply, encode_protobuf_acknowledgement, encode_protobuf_failure,
    encode_protobuf_reply,
};
pub use notification::{encode_protobuf_block_added, encode_protobuf_utxos_changed};
pub use reply::{
    encode_protobuf_balance, encode_protobuf_list_head, encode_protobuf_pong, encode_protobuf_sink,
    encode_protobuf_sink_blue_score,
};
pub use request::{ProtobufRequest, find_protobuf_operation};
pub use utxo::UtxoList;
pub use wire::ProtobufError;
