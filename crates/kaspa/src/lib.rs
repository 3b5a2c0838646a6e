//! The Kaspa dialect: addresses, scripts, UTXOs and their records, headers and transactions with their hashes, and the
//! messages of wRPC in Borsh and JSON, and of gRPC in protobuf.
//!
//! Kaspa's own crates depend on a library under the LGPL, so everything is written by hand here. Messages that a kaspad
//! sent and received are the judge (`tests/golden`).
//! Not here: the selected chain and the virtual state (`chain_kaspa`), sockets (`websocket`).
#![forbid(unsafe_code)]

mod address;
mod borsh;
mod encoding;
mod genesis;
mod hash;
mod header;
mod hex;
mod json;
mod memory;
mod message;
mod network;
mod operation;
mod protobuf;
mod record;
mod script;
mod transaction;
mod utxo;

pub use address::{AddressError, AddressPayload, KaspaAddress};
pub use borsh::{
    BorshAddresses, BorshBalancesReply, BorshError, BorshReply, BorshRequest, BorshServerMessage,
    BorshUtxosReply, ChainReply, OPERATION_OFFSET, ReplyTooLong, VerbosityLevel, borsh_utxo_bytes,
    check_borsh_request, decode_borsh_sink, decode_borsh_utxos, encode_borsh_balance,
    encode_borsh_failure, encode_borsh_pong, encode_borsh_rejection, encode_borsh_sink,
    encode_borsh_sink_blue_score, encode_borsh_subscribed, encode_borsh_sync_status,
    encode_borsh_unsubscribed, encode_borsh_utxos_changed, replace_borsh_id,
};
pub use encoding::Encoding;
pub use hash::Hash;
pub use header::{BlueWork, Header, InvalidParents, ParentLevels, Parents};
pub use hex::{HexError, encode_hex};
pub use json::{
    AddressChangesHead, ChainPosition, ChangeKind, JSON_LIST_TAIL, JsonAddresses, JsonRequest,
    JsonServerMessage, encode_json_address_changes, encode_json_address_changes_end,
    encode_json_addresses_position, encode_json_addresses_subscribed,
    encode_json_addresses_unsubscribed, encode_json_balance, encode_json_balances_head,
    encode_json_failure, encode_json_pong, encode_json_sink, encode_json_sink_blue_score,
    encode_json_subscribed, encode_json_sync_status, encode_json_unsubscribed,
    encode_json_utxos_changed, encode_json_utxos_head,
};
pub use message::{
    AcceptedIds, AcceptedTransaction, AcceptingBlock, AddressBalance, AddressUtxo, Block,
    BlockDagInfo, BlockTemplate, ChainChange, CoinSupply, MAX_SOMPI, NodeInfo, Notification,
    RPC_API_VERSION, Scope, ServerError, ServerInfo, UtxoChanges,
};
pub use network::{Network, Ports, Prefix, UnknownNetwork};
pub use operation::{Event, Method, Operation, OwnMethod, Unserved};
pub use protobuf::{
    PROTOBUF_PREFIX_BYTES, ProtobufError, ProtobufReply, ProtobufRequest, TranslationError,
    UtxoList, encode_protobuf_acknowledgement, encode_protobuf_balance,
    encode_protobuf_block_added, encode_protobuf_failure, encode_protobuf_list_head,
    encode_protobuf_pong, encode_protobuf_reply, encode_protobuf_sink,
    encode_protobuf_sink_blue_score, encode_protobuf_utxos_changed, find_protobuf_operation,
};
pub use record::{
    INSIDE_MAX, KaspaRecord, Location, OverflowUtxo, PACKED_BYTES_MAX, SCRIPT_KEY, ScriptRecord,
    StoredUtxo, Totals, TotalsError,
};
pub use script::ScriptPublicKey;
pub use transaction::{
    CovenantBinding, SubnetworkId, Transaction, TransactionInput, TransactionOutput,
};
pub use utxo::{Outpoint, UtxoEntry};
