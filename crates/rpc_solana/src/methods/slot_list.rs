//! Lists of slots with a block.
//!
//! In: the history. Each slot is of the chain of the commitment, and is listed once its block is confirmed.
//! Shape: a short list is written on the thread that polls the socket, a longer one on the CPU pool.
//! Bounds: [`MAX_GET_CONFIRMED_BLOCKS_RANGE`] slots per request.
//! Not here: the contents of a block (`blocks`).

use std::ops::RangeInclusive;
use std::sync::Arc;

use chain_solana::HistorySnapshot;
use cpu_pool::TimeSlice;
use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use jsonrpc::{
    Execution, InlineBudget, MethodOutput, MethodResult, MethodSpec, StreamState, StreamedResult,
    write_number,
};
use ledger::{Commitment, Slot};
use response_cache::RESULT_CHUNK_BYTES;
use solana_rpc_client_types::config::{RpcBlocksConfigWrapper, RpcContextConfig};
use solana_rpc_client_types::request::MAX_GET_CONFIRMED_BLOCKS_RANGE;

use super::blocks::{at_least_confirmed, confirmed_history};
use crate::solana_api::SolanaApi;

pub(super) const METHODS: &[MethodSpec<SolanaApi>] = &[
    MethodSpec::new("getBlocks", by_slots(classify_blocks), blocks),
    MethodSpec::new("getBlocksWithLimit", by_slots(classify_blocks_with_limit), blocks_with_limit),
];

/// Cost of a listed slot, in bytes of the [`InlineBudget`]: some 20 ns. With the default budget of a body,
/// 512 slots are listed on the thread that polls the socket.
const SLOT_COST_BYTES: u64 = 64;

/// Returns the execution of a list of slots: on the thread that polls the socket if it is short.
const fn by_slots(
    class: fn(&SolanaApi, Params<'_>, &mut InlineBudget) -> Option<cpu_pool::Class>,
) -> Execution<SolanaApi> {
    Execution::ByCost { class_max: cpu_pool::Class::Medium, class }
}

fn blocks(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    SlotList::from_range(api, params)?.into_result()
}

fn blocks_with_limit(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    SlotList::from_limit(api, params)?.into_result()
}

fn classify_blocks(
    api: &SolanaApi,
    params: Params<'_>,
    budget: &mut InlineBudget,
) -> Option<cpu_pool::Class> {
    SlotList::from_range(api, params).ok()?.class(budget)
}

fn classify_blocks_with_limit(
    api: &SolanaApi,
    params: Params<'_>,
    budget: &mut InlineBudget,
) -> Option<cpu_pool::Class> {
    SlotList::from_limit(api, params).ok()?.class(budget)
}

/// A list of slots with a block.
struct SlotList {
    history: Arc<HistorySnapshot>,
    /// No slot is above the newest one of the commitment.
    slots: RangeInclusive<Slot>,
    /// Maximum number of slots in the list.
    limit: usize,
}

impl SlotList {
    /// Parses the parameters of getBlocks.
    fn from_range(api: &SolanaApi, params: Params<'_>) -> Result<Self, RpcError> {
        type BlocksParams = (Slot, Option<RpcBlocksConfigWrapper>, Option<RpcContextConfig>);
        let (start, wrapper, config): BlocksParams = params.parse(1)?;
        let (end, wrapped) = wrapper.map(|wrapper| wrapper.unzip()).unwrap_or_default();
        let (history, _, newest) = confirmed_history(api, config.or(wrapped).unwrap_or_default())?;
        let end = end.unwrap_or_else(|| start.saturating_add(MAX_GET_CONFIRMED_BLOCKS_RANGE));
        let end = end.min(newest);
        if end.saturating_sub(start) > MAX_GET_CONFIRMED_BLOCKS_RANGE {
            let message = format!("Slot range too large; max {MAX_GET_CONFIRMED_BLOCKS_RANGE}");
            return Err(RpcError::invalid_params(message));
        }
        Ok(Self { history, slots: start..=end, limit: usize::MAX })
    }

    /// Parses the parameters of getBlocksWithLimit.
    fn from_limit(api: &SolanaApi, params: Params<'_>) -> Result<Self, RpcError> {
        let (start, limit, config): (Slot, usize, Option<RpcContextConfig>) = params.parse(2)?;
        let config = config.unwrap_or_default();
        at_least_confirmed(config.commitment)?;
        if limit as u64 > MAX_GET_CONFIRMED_BLOCKS_RANGE {
            let message = format!("Limit too large; max {MAX_GET_CONFIRMED_BLOCKS_RANGE}");
            return Err(RpcError::invalid_params(message));
        }
        let (history, _, newest) = confirmed_history(api, config)?;
        Ok(Self { history, slots: start..=newest, limit })
    }

    /// Returns the class of a list that is too long for the thread that polls the socket.
    fn class(&self, budget: &mut InlineBudget) -> Option<cpu_pool::Class> {
        let cost = self.len_max().saturating_mul(SLOT_COST_BYTES);
        (!budget.try_spend(Some(cost))).then_some(cpu_pool::Class::Medium)
    }

    /// Returns the maximum length of the list. Slots before the first available block do not count.
    fn len_max(&self) -> u64 {
        let start = self.history.first_slot().unwrap_or(Slot::MAX).max(*self.slots.start());
        let slots = self.slots.end().checked_sub(start).map_or(0, |rest| rest.saturating_add(1));
        slots.min(self.limit as u64)
    }

    fn into_result(self) -> MethodResult {
        let Self { history, slots, limit: remaining } = self;
        if slots.is_empty() {
            return MethodOutput::json(&[(); 0]);
        }
        let (next, end) = slots.into_inner();
        let stream = SlotStream { history, next, end, remaining, has_started: false };
        Ok(MethodOutput::streamed(None, stream))
    }
}

struct SlotStream {
    history: Arc<HistorySnapshot>,
    next: Slot,
    end: Slot,
    /// Maximum number of slots still to write.
    remaining: usize,
    has_started: bool,
}

/// Slots written between two checks of the clock.
const SLOTS: usize = 512;

impl StreamedResult for SlotStream {
    fn write(&mut self, slice: &TimeSlice<'_>, out: &mut Vec<u8>) -> Result<StreamState, RpcError> {
        loop {
            let count = self.remaining.min(SLOTS);
            let mut written = 0;
            let range = self.next..=self.end;
            for block in self.history.blocks(range, Commitment::Processed).take(count) {
                let slot = block.id.slot;
                out.push(if std::mem::replace(&mut self.has_started, true) { b',' } else { b'[' });
                write_number(out, slot);
                self.next = slot.saturating_add(1);
                written += 1;
            }
            self.remaining -= written;
            if written < SLOTS || self.next > self.end {
                out.extend_from_slice(if self.has_started { b"]" } else { b"[]" });
                return Ok(StreamState::Done);
            }
            if out.len() >= RESULT_CHUNK_BYTES || slice.is_over() {
                return Ok(StreamState::More);
            }
        }
    }
}
