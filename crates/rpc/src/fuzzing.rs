//! What can be read of a client's bytes without a node: each a pure function of its text, for fuzzing
//! and for tools.
//!
//! Requests are read by [`crate::envelope`], their parameters by [`crate::params`]; whole calls, state
//! and all, are answered by [`crate::answer_here`].

use solana_message::VersionedMessage;
use solana_transaction::versioned::VersionedTransaction;
use solana_transaction_status::TransactionBinaryEncoding;

use crate::error::RpcError;
use crate::methods;
use crate::params::Params;
use crate::pubsub;

/// A transaction as sendTransaction and simulateTransaction take it: well-formed bytes, which may
/// still contradict themselves and be signed by nobody. -32602 says what is wrong with the text.
pub fn transaction(
    text: &str,
    encoding: TransactionBinaryEncoding,
) -> Result<VersionedTransaction, RpcError> {
    methods::decode(text, encoding)
}

/// A message as getFeeForMessage takes it: base64.
pub fn message(text: &str) -> Result<VersionedMessage, RpcError> {
    methods::decode(text, TransactionBinaryEncoding::Base64)
}

/// The parameters of a PubSub call; whether its method is one that subscribes.
pub fn subscription(method: &str, params: Params<'_>) -> Result<bool, RpcError> {
    pubsub::read_call(method, params)
}
