//! The positions of an address's transactions, the newest first, page by page.
//!
//! Input: the number of transactions before the page, or the position that the page before ended at. With the number,
//! transactions that are accepted meanwhile move others to the next page. With the position, none is on two pages.
//! Shape: the transactions before the page are read as well, in steps: each may have thousands of outputs, and all of them
//! are compared with the address.

use std::sync::Arc;

use chain_kaspa::{HistorySnapshot, TransactionPosition};
use cpu_pool::TimeSlice;
use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use jsonrpc::{MethodOutput, MethodResult, StreamState, StreamedResult, write_json};
use ledger::Address;
use serde::{Deserialize, Serialize};

use super::address_reader::read_address;
use crate::api::kaspa_api::KaspaApi;
use crate::api::rest_limits::{OFFSET_MAX, PAGE_TRANSACTIONS_DEFAULT, PAGE_TRANSACTIONS_MAX};
use crate::api::transactions::{format_position, parse_position};

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

/// Reads the transactions of an address in steps, then writes the page.
struct PageSearch {
    history: Arc<HistorySnapshot>,
    script: Address,
    /// Transactions before the page that were not read yet.
    skipped: usize,
    limit: usize,
    /// The transaction that was read last, or the end of the page before.
    last: Option<TransactionPosition>,
    read: u64,
    /// Those of the page, and one more if there is a next page.
    found: Vec<TransactionPosition>,
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
    let last = page.map(|page| parse_position("page", &page)).transpose()?;
    let script = address.payload.ledger_address();
    let search = PageSearch::new(api.chain.history(), script, offset, limit);
    let search = PageSearch { last, ..search };
    Ok(MethodOutput::streamed(None, search))
}

impl StreamedResult for PageSearch {
    fn write(&mut self, slice: &TimeSlice<'_>, out: &mut Vec<u8>) -> Result<StreamState, RpcError> {
        if !self.read_until(slice) {
            return Ok(StreamState::More);
        }
        write_json(out, &TransactionPage::new(std::mem::take(&mut self.found), self.limit))?;
        Ok(StreamState::Done)
    }

    fn records_visited(&self) -> u64 {
        self.read
    }
}

impl PageSearch {
    /// Searches the page after the newest `skipped` transactions.
    fn new(history: Arc<HistorySnapshot>, script: Address, skipped: usize, limit: usize) -> Self {
        Self { history, script, skipped, limit, last: None, read: 0, found: Vec::new() }
    }

    /// Reads transactions until the time slice is over. Returns whether the page is complete.
    fn read_until(&mut self, slice: &TimeSlice<'_>) -> bool {
        let history = Arc::clone(&self.history);
        for found in history.iter_script_transactions(&self.script, self.last) {
            self.read += 1;
            self.last = Some(found.position);
            if self.skipped > 0 {
                self.skipped -= 1;
            } else {
                self.found.push(found.position);
            }
            if self.found.len() > self.limit {
                return true;
            }
            if slice.is_over() {
                return false;
            }
        }
        true
    }
}

impl TransactionPage {
    /// Makes a page of the first `limit` transactions. One more says that there is a next page.
    fn new(mut found: Vec<TransactionPosition>, limit: usize) -> Self {
        let has_more = found.len() > limit;
        found.truncate(limit);
        let next = found.last().filter(|_| has_more).copied().map(format_position);
        let positions = found.iter().map(|position| (position.daa_score, position.index));
        Self { next, positions: positions.collect() }
    }
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

#[cfg(test)]
mod tests {
    use testkit::kaspa_chain::{TestChain, address, pay};
    use testkit::streamed_result::{ReadResult, read_streamed_result};

    use super::*;

    #[test]
    fn the_transactions_before_a_page_are_read_in_steps() {
        let mut chain = TestChain::new(Vec::new());
        for _ in 0..30 {
            chain.add_block(&[], &[pay(1, 5)]);
        }
        chain.publish();
        let history = chain.chain.reader().history();
        let script = address(1).payload.ledger_address();
        let all: Vec<TransactionPosition> =
            history.iter_script_transactions(&script, None).map(|found| found.position).collect();
        for (skipped, limit, page) in [(20, 4, 20..24), (20, 10, 20..30), (40, 4, 30..30)] {
            let search = PageSearch::new(Arc::clone(&history), script, skipped, limit);
            let ReadResult { value: written, parts } = read_streamed_result(search);
            assert!(parts >= 20, "{parts} parts");
            let page = &all[page];
            let positions: Vec<_> =
                page.iter().map(|position| (position.daa_score, position.index)).collect();
            assert_eq!(written["positions"], serde_json::json!(positions));
            let next = page.last().filter(|_| skipped + limit < 30).copied().map(format_position);
            assert_eq!(written["next"], serde_json::json!(next));
        }
    }
}
