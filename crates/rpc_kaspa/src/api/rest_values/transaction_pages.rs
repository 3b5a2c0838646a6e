//! The positions of an address's transactions, the newest first, page by page.
//!
//! Input: the number of transactions before the page, or the position that the page before ended at. With the number,
//! transactions that are accepted meanwhile move others to the next page. With the position, none is on two pages.

use chain_kaspa::TransactionPosition;
use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use jsonrpc::{MethodOutput, MethodResult};
use serde::{Deserialize, Serialize};

use super::address_reader::read_address;
use crate::api::kaspa_api::KaspaApi;
use crate::api::rest_limits::{OFFSET_MAX, PAGE_TRANSACTIONS_DEFAULT, PAGE_TRANSACTIONS_MAX};
use crate::api::transactions::parse_before;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct PageOptions {
    limit: Option<usize>,
    offset: Option<usize>,
    page: Option<String>,
}

#[derive(Serialize)]
struct TransactionPage {
    /// The token of the next page. `None` if the history has no older transaction.
    next: Option<String>,
    /// The DAA score and the index of each.
    positions: Vec<(u64, u32)>,
}

/// Runs `restFindTransactions address {limit, offset, page}`. `page` is `next` of the page before.
pub(super) fn find_transactions(api: &KaspaApi, params: Params<'_>) -> MethodResult {
    let (address, options): (String, Option<PageOptions>) = params.parse(1)?;
    let address = read_address(api, &address)?;
    let PageOptions { limit, offset, page } = options.unwrap_or_default();
    let limit = read_limit(limit)?;
    let offset = offset.unwrap_or_default();
    if offset > OFFSET_MAX {
        return Err(RpcError::invalid_params(format!(
            "Invalid params: offset: {offset} is more than {OFFSET_MAX}; use page"
        )));
    }
    let before = page.map(|page| parse_before(&page)).transpose()?;
    let history = api.chain.history();
    let script = address.payload.ledger_address();
    // One more than the page has says whether there is a next page.
    let found = history.iter_script_transactions(&script, before).skip(offset).take(limit + 1);
    let mut positions: Vec<TransactionPosition> = found.map(|found| found.position).collect();
    let has_more = positions.len() > limit;
    positions.truncate(limit);
    let last = positions.last().filter(|_| has_more);
    let next = last.map(|last| format!("{}-{}", last.daa_score, last.index));
    let positions = positions.iter().map(|position| (position.daa_score, position.index));
    MethodOutput::json(&TransactionPage { next, positions: positions.collect() })
}

/// Reads the number of transactions of a page.
pub(super) fn read_limit(limit: Option<usize>) -> Result<usize, RpcError> {
    match limit.unwrap_or(PAGE_TRANSACTIONS_DEFAULT) {
        limit @ 1..=PAGE_TRANSACTIONS_MAX => Ok(limit),
        limit => Err(RpcError::invalid_params(format!(
            "Invalid params: limit: {limit} is not from 1 to {PAGE_TRANSACTIONS_MAX}"
        ))),
    }
}
