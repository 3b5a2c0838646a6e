//! getPriorityFeeEstimate: the recent prices of compute units, by percentiles.
//!
//! Agave has no such method. Its shape is that on which providers agree. A level is a percentile by the nearest rank:
//! of the prices of all transactions, or of those that write to one of the accounts, whichever is higher.
//! In: confirmed blocks of the history. Votes do not count unless requested.
//! Bounds: the newest [`SLOTS_MAX`] blocks, skipped slots not counted; the newest [`TRANSACTIONS_MAX`] transactions of
//! them, [`MAX_TX_ACCOUNT_LOCKS`] accounts.

use std::collections::HashSet;
use std::sync::Arc;

use chain_solana::Block;
use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use jsonrpc::{Execution, IncrementalQuery, MethodResult, MethodSpec, OutputBody, run_incremental};
use ledger::Commitment;
use serde::{Deserialize, Serialize};
use solana_feature_set::FeatureSet;
use solana_pubkey::Pubkey;
use solana_transaction::sanitized::MAX_TX_ACCOUNT_LOCKS;
use solana_transaction::versioned::VersionedTransaction;
use solana_transaction_status::TransactionBinaryEncoding;

use super::fees::{price, select_written};
use super::{parse_key, transaction_codec};
use crate::solana_api::SolanaApi;

pub(super) const METHODS: &[MethodSpec<SolanaApi>] =
    &[MethodSpec::new("getPriorityFeeEstimate", Execution::Medium, priority_fee_estimate)];

/// Maximum number of slots with a block that count: the limit of other providers.
const SLOTS_MAX: u64 = 150;
/// Maximum number of transactions that count.
const TRANSACTIONS_MAX: usize = 100_000;
/// Transactions read in a step: some tens of microseconds.
const TRANSACTIONS_PER_STEP: usize = 32;
/// The lowest recommended estimate in microlamports, as other providers recommend it on an idle chain.
const RECOMMENDED_MIN: f64 = 10_000.0;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Request {
    transaction: Option<String>,
    account_keys: Option<Vec<String>>,
    options: Option<Options>,
}

/// The options of the request. A member of another name is an error.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Options {
    transaction_encoding: TransactionEncoding,
    priority_level: Option<PriorityLevel>,
    include_all_priority_fee_levels: bool,
    lookback_slots: Option<u64>,
    include_vote: bool,
    recommended: bool,
    evaluate_empty_slot_as_zero: bool,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
enum TransactionEncoding {
    #[default]
    #[serde(alias = "base58")]
    Base58,
    #[serde(alias = "base64")]
    Base64,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
enum PriorityLevel {
    Min,
    Low,
    #[default]
    #[serde(alias = "Default")]
    Medium,
    High,
    VeryHigh,
    UnsafeMax,
}

impl PriorityLevel {
    /// Returns the percentile of the level.
    fn percent(self) -> usize {
        match self {
            Self::Min => 0,
            Self::Low => 25,
            Self::Medium => 50,
            Self::High => 75,
            Self::VeryHigh => 95,
            Self::UnsafeMax => 100,
        }
    }
}

/// The result, in microlamports for each compute unit.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Estimate {
    #[serde(skip_serializing_if = "Option::is_none")]
    priority_fee_estimate: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority_fee_levels: Option<Levels>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Levels {
    min: f64,
    low: f64,
    medium: f64,
    high: f64,
    very_high: f64,
    unsafe_max: f64,
}

fn priority_fee_estimate(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let (request,): (Request,) = params.parse(1)?;
    let options = request.options.unwrap_or_default();
    let accounts = match (&request.transaction, &request.account_keys) {
        (Some(transaction), None) => list_written(api, transaction, options.transaction_encoding)?,
        (None, Some(texts)) if texts.len() > MAX_TX_ACCOUNT_LOCKS => {
            let message = format!("Too many inputs provided; max {MAX_TX_ACCOUNT_LOCKS}");
            return Err(RpcError::invalid_params(message));
        }
        (None, Some(texts)) => parse_key::pubkeys(texts)?.into_iter().collect(),
        _ => {
            return Err(RpcError::invalid_params(
                "Invalid param: either transaction or accountKeys is required",
            ));
        }
    };
    let slots = options.lookback_slots.unwrap_or(SLOTS_MAX);
    if !(1..=SLOTS_MAX).contains(&slots) {
        let message = format!("Invalid param: lookbackSlots {slots} is not from 1 to {SLOTS_MAX}");
        return Err(RpcError::invalid_params(message));
    }
    let history = api.history.snapshot();
    let newest = history.newest_slot(Commitment::Confirmed);
    let blocks = history.blocks(..=newest, Commitment::Confirmed).rev().map(Arc::clone);
    let query = PriceQuery {
        blocks: blocks.take(slots as usize).collect(), // at most 150
        next: (0, 0),
        remaining: TRANSACTIONS_MAX,
        accounts,
        options,
        features: api.cluster.features(),
        prices: Prices::default(),
        counted: (0, 0),
    };
    run_incremental(None, query)
}

/// Reads the prices of recent transactions, the newest block first.
struct PriceQuery {
    blocks: Vec<Arc<Block>>,
    /// Indices of the next block and of its next transaction.
    next: (usize, usize),
    /// Maximum number of transactions that still count.
    remaining: usize,
    accounts: HashSet<Pubkey>,
    options: Options,
    features: Arc<FeatureSet>,
    prices: Prices,
    /// Numbers of prices before the block that is being read.
    counted: (usize, usize),
}

impl PriceQuery {
    fn read(&mut self, block: &Block, from: usize) -> usize {
        let to = block.transactions.len().min(from + TRANSACTIONS_PER_STEP);
        for executed in &block.transactions[from..to] {
            if self.remaining == 0 || executed.is_vote && !self.options.include_vote {
                continue;
            }
            self.remaining -= 1;
            let Some(price) = price(executed, &self.features) else { continue };
            self.prices.all.push(price);
            if select_written(executed, &self.accounts).next().is_some() {
                self.prices.accounts.push(price);
            }
        }
        to
    }

    fn end_block(&mut self) {
        let Prices { all, accounts } = &mut self.prices;
        if self.options.evaluate_empty_slot_as_zero {
            all.extend((all.len() == self.counted.0).then_some(0));
            accounts.extend((accounts.len() == self.counted.1).then_some(0));
        }
        self.counted = (all.len(), accounts.len());
    }
}

impl IncrementalQuery for PriceQuery {
    fn step(&mut self) -> Result<Option<OutputBody>, RpcError> {
        let (block, transaction) = self.next;
        match self.blocks.get(block).map(Arc::clone).filter(|_| self.remaining > 0) {
            Some(found) => {
                let end = self.read(&found, transaction);
                let is_whole = end == found.transactions.len() || self.remaining == 0;
                self.next = if is_whole { (block + 1, 0) } else { (block, end) };
                if is_whole {
                    self.end_block();
                }
                Ok(None)
            }
            None => {
                self.prices.sort();
                OutputBody::json(&self.prices.estimate(&self.options)).map(Some)
            }
        }
    }

    fn records_visited(&self) -> u64 {
        (TRANSACTIONS_MAX - self.remaining) as u64
    }
}

/// Lists the accounts that a transaction may write to.
fn list_written(
    api: &SolanaApi,
    text: &str,
    encoding: TransactionEncoding,
) -> Result<HashSet<Pubkey>, RpcError> {
    let encoding = match encoding {
        TransactionEncoding::Base58 => TransactionBinaryEncoding::Base58,
        TransactionEncoding::Base64 => TransactionBinaryEncoding::Base64,
    };
    let transaction: VersionedTransaction = transaction_codec::decode(text, encoding)?;
    let view = api.reader.view(Commitment::Confirmed);
    let transaction = transaction_codec::sanitize(transaction, &view)?;
    let message = transaction.message();
    let keys = message.account_keys();
    let written = keys.iter().enumerate().filter(|(index, _)| message.is_writable(*index));
    Ok(written.map(|(_, key)| *key).collect())
}

/// Prices of transactions in microlamports for each compute unit.
#[derive(Default)]
struct Prices {
    /// The prices of all transactions.
    all: Vec<u64>,
    /// The prices of the transactions that write to one of the accounts.
    accounts: Vec<u64>,
}

impl Prices {
    fn sort(&mut self) {
        self.all.sort_unstable();
        self.accounts.sort_unstable();
    }

    /// Returns the higher of the two markets' prices at a level. They must be sorted.
    fn at(&self, level: PriorityLevel) -> f64 {
        let percent = level.percent();
        percentile(&self.all, percent).max(percentile(&self.accounts, percent)) as f64
    }

    /// Returns the estimate that the options request. The prices must be sorted.
    fn estimate(&self, options: &Options) -> Estimate {
        if options.include_all_priority_fee_levels {
            let levels = Levels {
                min: self.at(PriorityLevel::Min),
                low: self.at(PriorityLevel::Low),
                medium: self.at(PriorityLevel::Medium),
                high: self.at(PriorityLevel::High),
                very_high: self.at(PriorityLevel::VeryHigh),
                unsafe_max: self.at(PriorityLevel::UnsafeMax),
            };
            return Estimate { priority_fee_estimate: None, priority_fee_levels: Some(levels) };
        }
        let estimate = if options.recommended {
            self.at(PriorityLevel::Medium).max(RECOMMENDED_MIN)
        } else {
            self.at(options.priority_level.unwrap_or_default())
        };
        Estimate { priority_fee_estimate: Some(estimate), priority_fee_levels: None }
    }
}

/// Returns the value of the nearest rank; 0 if there are no values.
fn percentile(sorted: &[u64], percent: usize) -> u64 {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_the_nearest_ranks_value() {
        let sorted: Vec<u64> = (1..=20).collect();
        let found = [0, 1, 25, 50, 75, 95, 100].map(|percent| percentile(&sorted, percent));
        assert_eq!(found, [1, 1, 5, 10, 15, 19, 20]);
        assert_eq!([0, 50, 100].map(|percent| percentile(&[7], percent)), [7, 7, 7]);
        assert_eq!(percentile(&[], 50), 0);
    }
}
