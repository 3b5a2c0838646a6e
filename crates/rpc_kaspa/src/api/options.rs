//! Parameters that several methods have.

use jsonrpc::error::RpcError;
use kaspa::KaspaAddress;
use ledger::Commitment;
use serde::Deserialize;

/// Entries of a page, if a request does not say how many.
const PAGE_ENTRIES_DEFAULT: usize = 100;
/// The most entries of a page: some 400 KB of UTXOs.
pub(super) const PAGE_ENTRIES_MAX: usize = 1_000;

/// The block that a method reads: the virtual block, the sink, or the newest final block.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum At {
    #[default]
    Virtual,
    Sink,
    Final,
}

impl At {
    pub(super) fn commitment(self) -> Commitment {
        match self {
            Self::Virtual => Commitment::Processed,
            Self::Sink => Commitment::Confirmed,
            Self::Final => Commitment::Finalized,
        }
    }
}

/// The options of a method that reads a block.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct ReadOptions {
    pub(super) at: At,
}

pub(super) fn parse_address(text: &str) -> Result<KaspaAddress, RpcError> {
    text.parse().map_err(|error| RpcError::invalid_params(format!("Invalid params: {error}")))
}

/// Returns the entries of a page.
pub(super) fn page_entries(requested: Option<usize>) -> Result<usize, RpcError> {
    match requested.unwrap_or(PAGE_ENTRIES_DEFAULT) {
        entries @ 1..=PAGE_ENTRIES_MAX => Ok(entries),
        entries => Err(RpcError::invalid_params(format!(
            "Invalid params: limit: {entries} is not from 1 to {PAGE_ENTRIES_MAX}"
        ))),
    }
}
