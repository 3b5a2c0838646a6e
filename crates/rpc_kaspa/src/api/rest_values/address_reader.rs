//! Reads addresses of this node's network.

use jsonrpc::error::RpcError;
use kaspa::KaspaAddress;

use crate::api::kaspa_api::KaspaApi;
use crate::api::options::parse_address;
use crate::api::rest_limits::ADDRESSES_MAX;

/// Reads an address, which has the prefix of this node's network.
pub(super) fn read_address(api: &KaspaApi, text: &str) -> Result<KaspaAddress, RpcError> {
    let address = parse_address(text)?;
    let prefix = api.prefix();
    if address.prefix == prefix {
        return Ok(address);
    }
    Err(RpcError::invalid_params(format!(
        "Invalid params: {text} is an address of another network; this node follows {}, whose addresses start with {}:",
        api.network(),
        prefix.name()
    )))
}

pub(super) fn read_addresses(
    api: &KaspaApi,
    texts: &[String],
) -> Result<Vec<KaspaAddress>, RpcError> {
    if texts.len() > ADDRESSES_MAX {
        return Err(RpcError::invalid_params(format!(
            "Invalid params: {} addresses, the maximum is {ADDRESSES_MAX}",
            texts.len()
        )));
    }
    texts.iter().map(|text| read_address(api, text)).collect()
}
