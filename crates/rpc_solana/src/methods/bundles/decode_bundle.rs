//! Decodes the transactions of a bundle.

use std::collections::HashSet;

use jsonrpc::error::RpcError;
use solana_transaction::versioned::VersionedTransaction;
use solana_transaction_status::TransactionBinaryEncoding;

use super::super::transaction_codec;

/// Decodes the transactions of a bundle: 1 to `max`, all of them different.
pub(super) fn decode_bundle(
    texts: &[String],
    encoding: TransactionBinaryEncoding,
    max: usize,
) -> Result<Vec<VersionedTransaction>, RpcError> {
    if !(1..=max).contains(&texts.len()) {
        let message = format!("the bundle has {} transactions: 1 to {max}", texts.len());
        return Err(RpcError::invalid_params(message));
    }
    let mut hashes = HashSet::new();
    let decode = |text: &String| {
        let transaction: VersionedTransaction = transaction_codec::decode(text, encoding)?;
        if !hashes.insert(transaction.message.hash()) {
            return Err(RpcError::invalid_params("duplicate transactions"));
        }
        Ok(transaction)
    };
    texts.iter().map(decode).collect()
}
