//! Parses base58 keys, with Agave's error messages.

use std::fmt::Debug;
use std::str::FromStr;

use jsonrpc::error::RpcError;
use solana_hash::Hash;
use solana_pubkey::Pubkey;
use solana_signature::Signature;

pub(crate) fn pubkey(text: &str) -> Result<Pubkey, RpcError> {
    parse(text)
}

/// Parses addresses. Returns all of them or the first error.
pub(crate) fn pubkeys(texts: &[impl AsRef<str>]) -> Result<Vec<Pubkey>, RpcError> {
    texts.iter().map(|text| pubkey(text.as_ref())).collect()
}

pub(crate) fn hash(text: &str) -> Result<Hash, RpcError> {
    parse(text)
}

/// Parses the signature that identifies a transaction.
pub(crate) fn signature(text: &str) -> Result<Signature, RpcError> {
    parse(text)
}

fn parse<T: FromStr<Err: Debug>>(text: &str) -> Result<T, RpcError> {
    text.parse().map_err(|err| RpcError::invalid_params(format!("Invalid param: {err:?}")))
}
