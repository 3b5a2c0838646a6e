//! Parsers of client data that need no node: each is a pure function of its text, for fuzzing and for tools.
//!
//! Requests are parsed by [`jsonrpc::envelope`], their parameters by [`jsonrpc::params`]. Whole calls, including
//! state, are handled by [`jsonrpc::handle_blocking`].

use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use solana_message::VersionedMessage;
use solana_transaction::versioned::VersionedTransaction;
use solana_transaction_status::TransactionBinaryEncoding;

use crate::methods;
use crate::pubsub;

/// Parses a transaction as sendTransaction and simulateTransaction do: well-formed bytes, which may be inconsistent or
/// not signed. Returns -32602 with the reason if the text is invalid.
pub fn transaction(
    text: &str,
    encoding: TransactionBinaryEncoding,
) -> Result<VersionedTransaction, RpcError> {
    methods::decode(text, encoding)
}

/// Parses a message as getFeeForMessage does: base64.
pub fn message(text: &str) -> Result<VersionedMessage, RpcError> {
    methods::decode(text, TransactionBinaryEncoding::Base64)
}

/// Parses the parameters of a PubSub call. Returns whether its method subscribes.
pub fn subscription(method: &str, params: Params<'_>) -> Result<bool, RpcError> {
    pubsub::read_call(method, params)
}
