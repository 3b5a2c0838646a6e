//! Performance samples: transactions and slots per minute.
//!
//! Agave writes a sample every minute while it runs. Here samples are computed from the history. Minutes of 60
//! seconds are counted from genesis; a minute is reported once it is over, with the slot of its last block.

use chain_solana::{Block, HistorySnapshot};
use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use jsonrpc::{Execution, MethodOutput, MethodResult, MethodSpec};
use ledger::Commitment;
use solana_rpc_client_types::response::RpcPerfSample;

use crate::solana_api::SolanaApi;

pub(super) const METHODS: &[MethodSpec<SolanaApi>] =
    &[MethodSpec::new("getRecentPerformanceSamples", Execution::Medium, samples)];

/// Maximum number of samples in a result: half a day.
const SAMPLES_MAX: usize = 720;
/// Length of a sample in seconds.
const PERIOD_SECS: u16 = 60;

fn samples(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let (limit,): (Option<usize>,) = params.parse(0)?;
    let limit = limit.unwrap_or(SAMPLES_MAX);
    if limit > SAMPLES_MAX {
        let message = format!("Invalid limit; max {SAMPLES_MAX}");
        return Err(RpcError::invalid_params(message));
    }
    let history = api.history.snapshot();
    MethodOutput::json(&compute_samples(&history, api.cluster_info.genesis_unix_timestamp, limit))
}

/// Computes the samples of the minutes that are over and whose blocks are all retained.
fn compute_samples(history: &HistorySnapshot, genesis: i64, limit: usize) -> Vec<RpcPerfSample> {
    let minute_of = |block: &Block| (block.block_time - genesis).div_euclid(PERIOD_SECS.into());
    let mut samples = Vec::new();
    let mut blocks = history.blocks(.., Commitment::Confirmed).rev().peekable();
    let Some(current) = blocks.peek().map(|block| minute_of(block)) else { return samples };
    while blocks.next_if(|block| minute_of(block) == current).is_some() {}
    while samples.len() < limit {
        let Some(newest) = blocks.next() else { break };
        let minute = minute_of(newest);
        let mut non_votes = non_votes(newest);
        while let Some(block) = blocks.next_if(|block| minute_of(block) == minute) {
            non_votes += self::non_votes(block);
        }
        // The counts of this minute start from the block before it.
        let Some(before) = blocks.peek() else { break };
        samples.push(RpcPerfSample {
            slot: newest.id.slot,
            num_transactions: newest.transaction_count.saturating_sub(before.transaction_count),
            num_non_vote_transactions: Some(non_votes),
            num_slots: newest.id.slot.saturating_sub(before.id.slot),
            sample_period_secs: PERIOD_SECS,
        });
    }
    samples
}

fn non_votes(block: &Block) -> u64 {
    block.transactions.iter().filter(|executed| !executed.is_vote).count() as u64
}
