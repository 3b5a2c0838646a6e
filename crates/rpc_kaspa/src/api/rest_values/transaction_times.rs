//! The positions of an address's transactions by the times of the blocks that contain them, as the pages of
//! kaspa-rest-server.
//!
//! Times are not in the order of acceptance, so all retained transactions of the address are read and sorted.
//! Shape: a page has the `limit` transactions next to a time, and further ones that have the page's last time, because the
//! next page starts there.
//! Bounds: [`SORTED_TRANSACTIONS_MAX`] transactions of the address. With more of them, the request is refused.

use std::cmp::Reverse;
use std::sync::Arc;

use chain_kaspa::{HistorySnapshot, TransactionPosition};
use cpu_pool::TimeSlice;
use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use jsonrpc::{MethodOutput, MethodResult, StreamState, StreamedResult, write_json};
use ledger::Address;
use serde::{Deserialize, Serialize};

use super::address_reader::read_address;
use super::transaction_pages::read_limit;
use crate::api::kaspa_api::KaspaApi;
use crate::api::rest_limits::SORTED_TRANSACTIONS_MAX;

/// Transactions that are read between two checks of the time slice.
const STEP_TRANSACTIONS: usize = 64;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct PageOptions {
    limit: Option<usize>,
    /// Unix milliseconds. 0 as if it were missing.
    before: u64,
    after: u64,
}

/// The times that a page covers.
#[derive(Clone, Copy)]
enum TimeRange {
    /// The newest times.
    All,
    /// The newest times before this one.
    Before(u64),
    /// The oldest times after this one.
    After(u64),
}

/// A page, the newest transaction first.
#[derive(Serialize)]
struct TransactionPage {
    times: PageTimes,
    /// The DAA score and the index of each.
    positions: Vec<(u64, u32)>,
}

/// The times of a page, in Unix milliseconds.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PageTimes {
    /// Whether the page has as many transactions as requested, so that there may be another one.
    is_full: bool,
    newest: Option<u64>,
    oldest: Option<u64>,
}

/// A transaction in the order of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct TimedPosition {
    time_ms: u64,
    position: TransactionPosition,
}

/// Reads the transactions of an address in steps, then writes the page.
struct PageSearch {
    history: Arc<HistorySnapshot>,
    script: Address,
    limit: usize,
    range: TimeRange,
    /// The transaction that was read last.
    last: Option<TransactionPosition>,
    read: usize,
    found: Vec<TimedPosition>,
}

/// Runs `restFindTransactionsByTime address {limit, before, after}`.
pub(super) fn find_transactions_by_time(api: &KaspaApi, params: Params<'_>) -> MethodResult {
    let (address, options): (String, Option<PageOptions>) = params.parse(1)?;
    let address = read_address(api, &address)?;
    let PageOptions { limit, before, after } = options.unwrap_or_default();
    let search = PageSearch {
        history: api.chain.history(),
        script: address.payload.ledger_address(),
        limit: read_limit(limit)?,
        range: TimeRange::new(before, after)?,
        last: None,
        read: 0,
        found: Vec::new(),
    };
    Ok(MethodOutput::streamed(None, search))
}

impl TimeRange {
    fn new(before: u64, after: u64) -> Result<Self, RpcError> {
        match (before, after) {
            (0, 0) => Ok(Self::All),
            (before, 0) => Ok(Self::Before(before)),
            (0, after) => Ok(Self::After(after)),
            _ => {
                Err(RpcError::invalid_params("Invalid params: before and after exclude each other"))
            }
        }
    }

    fn contains(self, time_ms: u64) -> bool {
        match self {
            Self::All => true,
            Self::Before(end) => time_ms < end,
            Self::After(start) => time_ms > start,
        }
    }
}

impl StreamedResult for PageSearch {
    fn write(&mut self, slice: &TimeSlice<'_>, out: &mut Vec<u8>) -> Result<StreamState, RpcError> {
        while self.read_step()? {
            if slice.is_over() {
                return Ok(StreamState::More);
            }
        }
        let found = std::mem::take(&mut self.found);
        write_json(out, &TransactionPage::new(found, self.range, self.limit))?;
        Ok(StreamState::Done)
    }

    fn records_visited(&self) -> u64 {
        self.read as u64
    }
}

impl PageSearch {
    /// Reads the next transactions. Returns false if there are no more.
    fn read_step(&mut self) -> Result<bool, RpcError> {
        let unread = self.history.iter_script_transactions(&self.script, self.last);
        let read_before = self.read;
        for found in unread.take(STEP_TRANSACTIONS) {
            self.read += 1;
            self.last = Some(found.position);
            let time_ms = found.accepted.block_time_ms;
            if self.range.contains(time_ms) {
                self.found.push(TimedPosition { time_ms, position: found.position });
            }
        }
        if self.read > SORTED_TRANSACTIONS_MAX {
            return Err(RpcError::invalid_params(format!(
                "the address has more than {SORTED_TRANSACTIONS_MAX} recent transactions, which are not sorted by \
                 time; use full-transactions with page"
            )));
        }
        Ok(self.read > read_before)
    }
}

impl TransactionPage {
    /// Chooses the transactions of a page.
    fn new(mut found: Vec<TimedPosition>, range: TimeRange, limit: usize) -> Self {
        match range {
            TimeRange::All | TimeRange::Before(_) => {
                found.sort_unstable_by_key(|entry| Reverse(*entry));
                truncate_after_ties(&mut found, limit);
            }
            TimeRange::After(_) => {
                found.sort_unstable();
                truncate_after_ties(&mut found, limit);
                found.reverse();
            }
        }
        let times = PageTimes {
            is_full: found.len() >= limit,
            newest: found.first().map(|entry| entry.time_ms),
            oldest: found.last().map(|entry| entry.time_ms),
        };
        let positions = found.iter().map(|entry| (entry.position.daa_score, entry.position.index));
        Self { times, positions: positions.collect() }
    }
}

/// Removes all entries after the first `limit`, except those with the time of the last of them.
fn truncate_after_ties(sorted: &mut Vec<TimedPosition>, limit: usize) {
    let Some(last) = limit.checked_sub(1).and_then(|last| sorted.get(last)) else { return };
    let last_time = last.time_ms;
    let ties = sorted[limit..].iter().take_while(|entry| entry.time_ms == last_time).count();
    sorted.truncate(limit + ties);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(time_ms: u64, daa_score: u64) -> TimedPosition {
        TimedPosition { time_ms, position: TransactionPosition { daa_score, index: 0 } }
    }

    fn choose(range: TimeRange, limit: usize) -> (Vec<u64>, bool) {
        // Accepted in another order than their blocks were made in.
        let all = [entry(40, 1), entry(10, 2), entry(20, 3), entry(20, 4), entry(30, 5)];
        let found = all.into_iter().filter(|entry| range.contains(entry.time_ms)).collect();
        let page = TransactionPage::new(found, range, limit);
        (page.positions.iter().map(|(daa_score, _)| *daa_score).collect(), page.times.is_full)
    }

    #[test]
    fn a_page_is_sorted_by_time_and_ends_with_all_of_its_last_time() {
        assert_eq!(choose(TimeRange::All, 2), (vec![1, 5], true));
        assert_eq!(choose(TimeRange::All, 3), (vec![1, 5, 4, 3], true));
        assert_eq!(choose(TimeRange::Before(20), 3), (vec![2], false));
        assert_eq!(choose(TimeRange::After(10), 1), (vec![4, 3], true));
        assert_eq!(choose(TimeRange::After(20), 5), (vec![1, 5], false));
        assert_eq!(choose(TimeRange::Before(10), 1), (vec![], false));
    }
}
