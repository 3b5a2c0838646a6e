//! Leaders: the leader of slots, the schedule of an epoch, and the blocks that leaders produced.
//!
//! As in Agave, leader schedules are reported up to the epoch that the root's leader schedule reaches, if the node
//! knows them (`Cluster::leaders`).

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use chain_solana::{Cluster, LeaderSchedule, View};
use cpu_pool::TimeSlice;
use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use jsonrpc::{
    Execution, IncrementalQuery, MethodOutput, MethodResult, MethodSpec, OutputBody, StreamState,
    StreamedResult, run_incremental, write_json, write_number,
};
use ledger::{Commitment, Slot};
use response_cache::RESULT_CHUNK_BYTES;
use solana_account::ReadableAccount;
use solana_epoch_schedule::EpochSchedule;
use solana_pubkey::Pubkey;
use solana_rpc_client_types::config::{
    RpcBlockProductionConfig, RpcContextConfig, RpcLeaderScheduleConfig,
    RpcLeaderScheduleConfigWrapper,
};
use solana_rpc_client_types::request::MAX_GET_SLOT_LEADERS;
use solana_rpc_client_types::response::{
    RpcBlockProduction, RpcBlockProductionRange, RpcLeaderSchedule,
};
use solana_slot_history::{Check, SlotHistory};

use super::node_info::unknown;
use super::{accounts_reader, parse_key};
use crate::commitment::{context, view, view_for_config};
use crate::custom_error::RpcCustomError;
use crate::solana_api::SolanaApi;

pub(super) const METHODS: &[MethodSpec<SolanaApi>] = &[
    MethodSpec::new("getSlotLeader", Execution::Inline, slot_leader),
    MethodSpec::new("getSlotLeaders", Execution::Medium, slot_leaders),
    MethodSpec::new("getLeaderSchedule", Execution::Medium, leader_schedule),
    MethodSpec::new("getBlockProduction", Execution::Medium, block_production),
];

/// Returns the last epoch whose leaders are known.
fn last_scheduled_epoch(api: &SolanaApi) -> u64 {
    let root = api.reader.view(Commitment::Finalized).block().slot;
    api.cluster_info.epoch_schedule.get_leader_schedule_epoch(root)
}

fn slot_leader(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let (config,): (Option<RpcContextConfig>,) = params.parse(0)?;
    let slot = view_for_config(api, config)?.block().slot;
    let (epoch, index) = api.cluster_info.epoch_schedule.get_epoch_and_slot_index(slot);
    let leaders = api.cluster.leaders(epoch);
    let window = leaders.as_ref().and_then(|leaders| leaders.find_window(index));
    let (leader, _) = window.ok_or_else(|| unknown("the leader of this slot is"))?;
    MethodOutput::json(&leader.to_string())
}

fn slot_leaders(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let (start, limit): (Slot, u64) = params.parse(2)?;
    if limit > MAX_GET_SLOT_LEADERS as u64 {
        let message = format!("Invalid limit; max {MAX_GET_SLOT_LEADERS}");
        return Err(RpcError::invalid_params(message));
    }
    let last_known = last_scheduled_epoch(api);
    let last_slot = start.saturating_add(limit.saturating_sub(1));
    let schedule = &api.cluster_info.epoch_schedule;
    if limit > 0 && schedule.get_epoch(last_slot) > last_known {
        let epoch = schedule.get_epoch(start).max(last_known + 1);
        return Err(no_schedule(epoch));
    }
    let mut lookup = LeaderLookup::new(api);
    let mut leaders: Vec<String> = Vec::with_capacity(limit as usize);
    while (leaders.len() as u64) < limit {
        let (leader, window) = lookup.find_window(start.saturating_add(leaders.len() as u64))?;
        let remaining = limit as usize - leaders.len();
        let slots = usize::try_from(window.end - window.start).unwrap_or(usize::MAX);
        leaders.resize(leaders.len() + slots.min(remaining), leader.to_string());
    }
    MethodOutput::json(&leaders)
}

/// Returns -32602 for slots of an epoch without a known schedule, as in Agave.
fn no_schedule(epoch: u64) -> RpcError {
    RpcError::invalid_params(format!(
        "Invalid slot range: leader schedule for epoch {epoch} is unavailable"
    ))
}

/// Finds the leaders of slots. The schedule of the last epoch is retained.
struct LeaderLookup {
    cluster: Arc<dyn Cluster>,
    epochs: EpochSchedule,
    known: Option<(u64, Arc<LeaderSchedule>)>,
}

impl LeaderLookup {
    fn new(api: &SolanaApi) -> Self {
        let epochs = api.cluster_info.epoch_schedule.clone();
        Self { cluster: Arc::clone(&api.cluster), epochs, known: None }
    }

    /// Returns the leader of a slot, and the slots from this one to the end of its window.
    fn find_window(&mut self, slot: Slot) -> Result<(Pubkey, Range<Slot>), RpcError> {
        let (epoch, index) = self.epochs.get_epoch_and_slot_index(slot);
        if self.known.as_ref().is_none_or(|(known, _)| *known != epoch) {
            self.known = self.cluster.leaders(epoch).map(|leaders| (epoch, leaders));
        }
        let known = self.known.as_ref();
        let window = known.and_then(|(_, leaders)| leaders.find_window(index));
        let (leader, window) = window.ok_or_else(|| no_schedule(epoch))?;
        Ok((*leader, slot..slot.saturating_add(window.end - index)))
    }
}

fn leader_schedule(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    type LeaderScheduleParams =
        (Option<RpcLeaderScheduleConfigWrapper>, Option<RpcLeaderScheduleConfig>);
    let (first, second): LeaderScheduleParams = params.parse(0)?;
    let (slot, first_config) = first.map(|first| first.unzip()).unwrap_or_default();
    let config = first_config.or(second).unwrap_or_default();
    let requested = config.identity.as_deref().map(parse_key::pubkey).transpose()?;
    let slot = slot.unwrap_or_else(|| view(api, config.commitment).block().slot);
    let epoch = api.cluster_info.epoch_schedule.get_epoch(slot);
    if epoch > last_scheduled_epoch(api) {
        return MethodOutput::json(&None::<RpcLeaderSchedule>);
    }
    let Some(schedule) = api.cluster.leaders(epoch) else {
        return MethodOutput::json(&None::<RpcLeaderSchedule>);
    };
    let leaders = match requested {
        None => 0..schedule.leaders().len(),
        Some(identity) => match schedule.leaders().binary_search(&identity) {
            Ok(leader) => leader..leader + 1,
            Err(_) => return MethodOutput::json(&RpcLeaderSchedule::new()),
        },
    };
    Ok(MethodOutput::streamed(
        None,
        LeaderScheduleStream { schedule, leaders, window: 0, next: None, has_started: false },
    ))
}

/// Streams the slots of each leader of an epoch, counted from its first. The shape is that of [`RpcLeaderSchedule`].
struct LeaderScheduleStream {
    schedule: Arc<LeaderSchedule>,
    /// The leaders with slots that are not written yet.
    leaders: Range<usize>,
    /// The number of the window that is being written, among those of the first of these leaders.
    window: usize,
    /// The next slot in that window. `None` at its start.
    next: Option<u64>,
    has_started: bool,
}

impl LeaderScheduleStream {
    /// Appends at most [`SLOTS`] slots of one window, and the JSON around them.
    fn write_some(&mut self, out: &mut Vec<u8>) -> Result<(), RpcError> {
        let leader = self.leaders.start;
        let Some(window) = self.schedule.nth_window(leader, self.window) else {
            out.push(b']');
            self.leaders.start += 1;
            self.window = 0;
            return Ok(());
        };
        let start = self.next.unwrap_or(window.start);
        let end = window.end.min(start.saturating_add(SLOTS));
        let is_first = self.window == 0 && self.next.is_none();
        if is_first {
            out.push(if std::mem::replace(&mut self.has_started, true) { b',' } else { b'{' });
            write_json(out, &self.schedule.leaders()[leader].to_string())?;
            out.extend_from_slice(b":[");
        }
        for slot in start..end {
            if slot > start || !is_first {
                out.push(b',');
            }
            write_number(out, slot);
        }
        self.next = (end < window.end).then_some(end);
        self.window += usize::from(self.next.is_none());
        Ok(())
    }
}

impl StreamedResult for LeaderScheduleStream {
    fn write(&mut self, slice: &TimeSlice<'_>, out: &mut Vec<u8>) -> Result<StreamState, RpcError> {
        let mut written = 0;
        while !self.leaders.is_empty() {
            let len = out.len();
            self.write_some(out)?;
            written += out.len() - len;
            if written >= CHECKED_BYTES {
                if out.len() >= RESULT_CHUNK_BYTES || slice.is_over() {
                    return Ok(StreamState::More);
                }
                written = 0;
            }
        }
        out.extend_from_slice(if self.has_started { b"}" } else { b"{}" });
        Ok(StreamState::Done)
    }
}

/// Bytes written between two checks of the clock: as many as about [`SLOTS`] slots have.
const CHECKED_BYTES: usize = 16 * 1024;
/// Slots written or counted between two checks of the clock.
const SLOTS: u64 = 4_096;

fn block_production(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let (config,): (Option<RpcBlockProductionConfig>,) = params.parse(0)?;
    let config = config.unwrap_or_default();
    let requested = config.identity.as_deref().map(parse_key::pubkey).transpose()?;
    let view = view(api, config.commitment);
    let slot = view.block().slot;
    let schedule = &api.cluster_info.epoch_schedule;
    let (first_slot, last_slot) = match config.range {
        None => (schedule.get_first_slot_in_epoch(schedule.get_epoch(slot)), slot),
        Some(range) => (range.first_slot, range.last_slot.unwrap_or(slot)),
    };
    if last_slot < first_slot {
        return Err(RpcError::invalid_params(format!(
            "lastSlot, {last_slot}, cannot be less than firstSlot, {first_slot}"
        )));
    }
    let history = slot_history(&view).ok_or(RpcCustomError::NoSlotHistory)?;
    let oldest = history.oldest();
    let newest = history.newest();
    if first_slot < oldest {
        return Err(RpcError::invalid_params(format!(
            "firstSlot, {first_slot}, is too small; min {oldest}"
        )));
    }
    if last_slot > newest {
        return Err(RpcError::invalid_params(format!(
            "lastSlot, {last_slot}, is too large; max {newest}"
        )));
    }
    let query = BlockProductionQuery {
        history,
        lookup: LeaderLookup::new(api),
        identity: requested,
        range: RpcBlockProductionRange { first_slot, last_slot },
        next: first_slot,
        by_identity: HashMap::new(),
    };
    run_incremental(Some(context(&view)), query)
}

/// Counts the slots and the blocks of leaders in a range of slots.
struct BlockProductionQuery {
    history: SlotHistory,
    lookup: LeaderLookup,
    /// The only leader that is counted.
    identity: Option<Pubkey>,
    range: RpcBlockProductionRange,
    next: Slot,
    by_identity: HashMap<Pubkey, (usize, usize)>,
}

impl IncrementalQuery for BlockProductionQuery {
    fn step(&mut self) -> Result<Option<OutputBody>, RpcError> {
        let RpcBlockProductionRange { first_slot, last_slot } = self.range;
        let last = last_slot.min(self.next.saturating_add(SLOTS - 1));
        let history = &self.history;
        let has_block = |slot: &Slot| history.check(*slot) == Check::Found;
        while self.next <= last {
            let (leader, window) = self.lookup.find_window(self.next)?;
            let slots = self.next..window.end.min(last + 1);
            self.next = slots.end;
            if self.identity.is_none_or(|identity| identity == leader) {
                let (led, produced) = self.by_identity.entry(leader).or_default();
                *led += (slots.end - slots.start) as usize;
                *produced += slots.filter(has_block).count();
            }
        }
        if last < last_slot {
            return Ok(None);
        }
        let counts = self.by_identity.drain();
        let by_identity = counts.map(|(leader, counts)| (leader.to_string(), counts)).collect();
        let range = RpcBlockProductionRange { first_slot, last_slot };
        let production = RpcBlockProduction { by_identity, range };
        OutputBody::json(&production).map(Some)
    }

    fn records_visited(&self) -> u64 {
        self.next - self.range.first_slot
    }
}

/// Returns the ledger's sysvar that lists which of the last million slots have a block.
fn slot_history(view: &View) -> Option<SlotHistory> {
    let account = accounts_reader::account(view, &solana_sdk_ids::sysvar::slot_history::ID)?;
    bincode::deserialize(account.0.data()).ok()
}
