//! A transaction of the history as JSON, outside of a block.
//!
//! Not here: the transactions of a block (`blocks`), which Agave encodes as a part of it.

use chain_solana::ExecutedTransaction;
use jsonrpc::error::RpcError;
use solana_transaction::versioned::TransactionVersion;
use solana_transaction_status::{
    ConfirmedTransactionWithStatusMeta, EncodeError, EncodedConfirmedTransactionWithStatusMeta,
    TransactionWithStatusMeta, UiTransactionEncoding,
};

use crate::custom_error::RpcCustomError;
use crate::stored_transaction::with_meta;

/// Encodes a transaction with its status. -32015 if the client does not support its version.
pub(super) fn encode(
    executed: &ExecutedTransaction,
    encoding: UiTransactionEncoding,
    version_max: Option<u8>,
) -> Result<EncodedConfirmedTransactionWithStatusMeta, RpcError> {
    let confirmed = ConfirmedTransactionWithStatusMeta {
        slot: executed.slot,
        tx_with_meta: TransactionWithStatusMeta::Complete(with_meta(executed)),
        block_time: Some(executed.block_time),
        index: executed.index,
    };
    Ok(confirmed.encode(encoding, version_max).map_err(RpcCustomError::from)?)
}

/// Returns -32015 for a transaction of a version that the client does not support, as in Agave.
pub(super) fn check_version(
    executed: &ExecutedTransaction,
    version_max: Option<u8>,
) -> Result<(), RpcError> {
    if let TransactionVersion::Number(version) = executed.transaction.version()
        && version_max.is_none_or(|max| version > max)
    {
        return Err(
            RpcCustomError::from(EncodeError::UnsupportedTransactionVersion(version)).into()
        );
    }
    Ok(())
}
