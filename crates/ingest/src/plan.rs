//! The decisions of an ingester: the next action, from the events of its ledger and the records of the log.
//!
//! Shape: [`Plan::handle`] takes an input, [`Plan::next_action`] returns the next action. At most one action is under
//! way; messages of the log and own events arrive meanwhile.
//! Invariant: only messages of the log and confirmed appends say which records the log has. After an append without a
//! reply, the plan requests the tail and reads up to it, so nothing is appended twice.
//! Invariant: the fence decides which ingester appends. A lease only spares appends that would fail.
//! Not here: I/O, tasks and the clock (`driver`). Time is an argument.

mod action;
mod compared_blocks;
mod disagreement;
mod following;
mod handled_reports;
mod next_generation;
mod opening;
mod phase;
mod recovering;
mod reports;
mod responses;
mod seeking;
mod silence;
#[cfg(test)]
mod tests;

use std::time::Duration;

use chain_solana::wire::{BlockKey, BlockName, WriterId};
use solana::VerificationLevel;
use solana_hash::Hash;

pub(crate) use self::action::{
    Action, AppendFailure, BlockDifference, CheckedReport, FoundSnapshots, Input, KnownSnapshot,
    LoggedBlock, Notice, Outcome, REPORT_OUTCOMES, ReadFailure, ReportOutcome,
};
use self::compared_blocks::ComparedBlocks;
use self::handled_reports::HandledReports;
use self::phase::{GenerationRejoin, Phase};
pub(crate) use self::phase::{SnapshotRequest, ViewBlock, WrittenSnapshot};
pub(crate) use self::silence::SILENCE_MAX;
use self::silence::Silence;
use crate::log_chain::Damage;
use crate::own_chain::{OwnChain, OwnEvent, OwnStart};

/// Times that a damaged record is read again: another server may have it undamaged.
const DAMAGES_MAX: u32 = 3;
/// Delay before a failed operation is tried again.
const RETRY_DELAY: Duration = Duration::from_millis(500);
/// Time in which a reader gets messages that exist. Afterwards the extent is requested again.
const READ_TIME_MAX: Duration = Duration::from_secs(5);

/// The time of a step.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Now {
    /// Monotonic, from any origin.
    pub(crate) elapsed: Duration,
    /// Milliseconds since 1970, which records state.
    pub(crate) unix_ms: u64,
}

/// The settings of a plan.
#[derive(Clone, Debug)]
pub(crate) struct PlanConfig {
    /// The random id of this process.
    pub(crate) ingester: [u8; 16],
    /// The level of proof that the own ledger requires of a confirmed block.
    pub(crate) level: Option<VerificationLevel>,
    /// Time without an append after which another ingester takes over.
    pub(crate) lease: Duration,
    /// The genesis hash of the own chain.
    pub(crate) genesis_hash: Hash,
    /// Bytes of encoded blocks that wait for the log.
    pub(crate) queue_bytes_max: usize,
}

impl PlanConfig {
    /// Returns the writer of the own records in a term.
    fn writer(&self, term: u64) -> WriterId {
        let Self { ingester, level, .. } = *self;
        WriterId { term, ingester, level }
    }
}

/// Counters of a plan since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PlanCounters {
    pub(crate) blocks: u64,
    pub(crate) records: u64,
    pub(crate) fenced: u64,
    pub(crate) unknown: u64,
    pub(crate) full: u64,
    pub(crate) refused: u64,
    pub(crate) truncated: u64,
    pub(crate) gone: u64,
    /// Records that did not continue the log, by [`DAMAGE_KINDS`].
    pub(crate) damages: [u64; DAMAGE_KINDS.len()],
    pub(crate) state_disagreements: u64,
    pub(crate) rest_disagreements: u64,
    pub(crate) generations_opened: u64,
    /// Reports of replicas that were handled, by [`REPORT_OUTCOMES`].
    pub(crate) reports: [u64; REPORT_OUTCOMES.len()],
    /// Damages of its own log that a leader has passed over.
    pub(crate) passed_damages: u64,
    /// Times that the log was silent.
    pub(crate) silences: u64,
}

/// The parts of records that [`Damage`] names.
pub(crate) const DAMAGE_KINDS: [&str; 9] =
    ["missing", "body", "digest", "value", "order", "length", "number", "chain", "term"];

/// A message that a reader did not get past.
struct Obstacle {
    generation: u64,
    sequence: u64,
    /// Readers that ended here, one after the other.
    times: u32,
}

/// The decisions of an ingester.
pub(crate) struct Plan {
    config: PlanConfig,
    own: OwnChain,
    phase: Phase,
    is_busy: bool,
    /// Time before which no operation is tried.
    retry_at: Duration,
    /// The highest number of a record in any generation.
    last_number: u64,
    /// The highest term in any generation.
    last_term: u64,
    /// The snapshots of the cluster when this ingester started.
    snapshots: Option<FoundSnapshots>,
    /// The reports of the followed generation, and the snapshots that they require.
    reports: HandledReports,
    compared_blocks: ComparedBlocks,
    /// A difference that the leader of the log is not informed of.
    difference: Option<BlockDifference>,
    /// The generation that was abandoned at a damage.
    rejoin: Option<GenerationRejoin>,
    silence: Silence,
    /// Damaged records since the last whole one.
    damages: u32,
    /// The message that the last reader did not get past.
    obstacle: Option<Obstacle>,
    /// The message that was requested when the log said that it was removed. The extent shows whether that is so.
    truncated_at: Option<u64>,
    counters: PlanCounters,
    notices: Vec<Notice>,
}

impl Plan {
    /// Creates the plan of an ingester whose ledger starts here.
    pub(crate) fn new(config: PlanConfig, start: OwnStart) -> Self {
        let own = OwnChain::new(start, config.queue_bytes_max);
        Self {
            config,
            own,
            phase: Phase::CheckingLog,
            is_busy: false,
            retry_at: Duration::ZERO,
            last_number: 0,
            last_term: 0,
            snapshots: None,
            reports: HandledReports::default(),
            compared_blocks: ComparedBlocks::default(),
            difference: None,
            rejoin: None,
            silence: Silence::default(),
            damages: 0,
            obstacle: None,
            truncated_at: None,
            counters: PlanCounters::default(),
            notices: Vec::new(),
        }
    }

    /// Takes an input.
    pub(crate) fn handle(&mut self, input: Input, now: Now) {
        match input {
            Input::Own(event) => self.handle_own(event, now),
            Input::Message(message) => {
                let change = self.silence.note_progress(now.elapsed);
                self.note_silence_change(change);
                self.handle_message(&message, now);
            }
            Input::ReadFailed(failure) => {
                self.note_response(failure != ReadFailure::Failed, now);
                self.handle_read_failure(failure, now);
            }
            Input::Reported(report) => self.handle_report(&report, now),
            Input::Snapshot(snapshot) => self.note_snapshot(snapshot),
            Input::SnapshotsListed { term } => self.note_snapshots_listed(term),
            Input::Done(outcome) => {
                self.is_busy = false;
                self.note_outcome(&outcome, now);
                self.handle_outcome(outcome, now);
            }
        }
    }

    /// Returns the next action. Its outcome is an input, unless it is to wait or to stop.
    pub(crate) fn next_action(&mut self, now: Now) -> Action {
        if self.is_busy {
            return Action::Wait(None);
        }
        if matches!(self.phase, Phase::Stopped) {
            return Action::Stop;
        }
        if now.elapsed < self.retry_at {
            return Action::Wait(Some(self.retry_at));
        }
        let action = match &self.phase {
            Phase::CheckingLog => Action::CheckLog,
            Phase::CheckingChain => Action::CheckChain,
            Phase::Seeking => Action::FindGeneration,
            Phase::Connecting { generation } => Action::OpenGeneration(*generation),
            Phase::Measuring { .. } => Action::ReadTail,
            Phase::Recovering(_) => self.next_recovering_action(now),
            Phase::Following(_) => self.next_following_action(now),
            Phase::Opening(_) => self.next_opening_action(now),
            Phase::Stopped => Action::Stop,
        };
        self.is_busy = !matches!(action, Action::Wait(_) | Action::Stop);
        // Operations on the own ledger and on the store of snapshots are not operations on the log.
        let is_on_log =
            !matches!(action, Action::CheckChain | Action::RetainView | Action::WriteSnapshot(_));
        if self.is_busy && is_on_log {
            self.silence.start_operation(now.elapsed);
        }
        action
    }

    /// Returns the changes since the last call.
    pub(crate) fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// Returns the oldest block of another leader since the last call that differs from the own one.
    pub(crate) fn take_difference(&mut self) -> Option<BlockDifference> {
        self.difference.take()
    }

    /// Returns the counters.
    pub(crate) fn counters(&self) -> PlanCounters {
        self.counters
    }

    /// Returns the own blocks and marks.
    pub(crate) fn own(&self) -> &OwnChain {
        &self.own
    }

    /// Returns the state of the followed log.
    pub(crate) fn followed_log(&self) -> Option<FollowedLog> {
        let Phase::Following(following) = &self.phase else { return None };
        Some(FollowedLog {
            generation: following.generation,
            term: following.chain.term(),
            is_leader: self.is_leader(),
            position: following.chain.position(),
            record: following.chain.last_number(),
            needed_after: following.chain.needed_after(),
        })
    }

    /// Returns the start of the oldest operation on the log without a response, since the last response.
    pub(crate) fn unanswered_since(&self) -> Option<Duration> {
        self.silence.unanswered_since()
    }

    /// Returns the record of an own final block, if this ingester leads. `None` for the block that the generation
    /// starts with, which has no record. After a difference to another ingester, also `None` for the blocks of others:
    /// a replica could not continue from a snapshot of a wrong state.
    pub(crate) fn find_logged_block(&self, key: &BlockKey) -> Option<LoggedBlock> {
        let Phase::Following(following) = &self.phase else { return None };
        if !self.is_leader() {
            return None;
        }
        let number = following.chain.find(key)?;
        let block = following.chain.block(number).filter(|block| block.digests.is_some())?;
        let is_own = block.ingester == Some(self.config.ingester);
        if self.counters.state_disagreements > 0 && !is_own {
            return None;
        }
        Some(LoggedBlock {
            generation: following.generation,
            position: block.last_sequence,
            name: BlockName { slot: block.slot, number },
            digest: block.record,
        })
    }

    /// Whether nothing is left that this ingester would append if it led.
    pub(crate) fn is_drained(&self) -> bool {
        match &self.phase {
            Phase::Following(_) => !self.is_busy && self.own.items().next().is_none(),
            Phase::Stopped => true,
            _ => false,
        }
    }

    fn handle_outcome(&mut self, outcome: Outcome, now: Now) {
        match outcome {
            Outcome::LogChecked(result) => self.end_log_check(result, now),
            Outcome::ChainChecked(result) => self.end_chain_check(result, now),
            Outcome::GenerationFound(result) => self.end_search(result, now),
            Outcome::GenerationOpened(result) => self.end_connection(result, now),
            Outcome::TailRead(result) => self.end_measurement(result, now),
            Outcome::ReaderOpened(result) => self.end_reader_opening(result, now),
            Outcome::Appended(result) => self.end_append(result, now),
            Outcome::ViewRetained(view) => self.expect_root(view, now),
            Outcome::SnapshotWritten(result) => self.end_snapshot(result, now),
            Outcome::GenerationCreated(result) => self.end_creation(result, now),
        }
    }

    fn handle_own(&mut self, event: OwnEvent, now: Now) {
        if matches!(self.phase, Phase::Stopped) {
            return;
        }
        let is_leader = self.is_leader();
        let frozen = match &event {
            OwnEvent::Frozen(block) => Some(block.key),
            _ => None,
        };
        let is_revert = matches!(event, OwnEvent::Reverted { .. });
        self.own.handle(event, is_leader, now.elapsed);
        if let Some(key) = frozen {
            self.compare_with_log(&key);
        }
        match is_revert {
            // The items of the removed block are done as well.
            true => self.remove_obsolete_items(),
            false => self.remove_obsolete_event(),
        }
    }

    /// Appends nothing more.
    fn stop(&mut self, reason: String) {
        self.phase = Phase::Stopped;
        self.notices.push(Notice::Stopped(reason));
    }

    fn delay(&mut self, now: Now) {
        self.retry_at = now.elapsed + RETRY_DELAY;
    }

    fn note_damage(&mut self, damage: Damage) {
        if let Some(kind) = DAMAGE_KINDS.iter().position(|kind| *kind == damage.what) {
            self.counters.damages[kind] += 1;
        }
        self.notices.push(Notice::Damaged(damage));
    }

    fn note_read_failure(&mut self, failure: ReadFailure) {
        match failure {
            ReadFailure::Truncated { .. } => self.counters.truncated += 1,
            ReadFailure::Gone => self.counters.gone += 1,
            ReadFailure::Damaged { .. } | ReadFailure::Failed => return,
        }
        self.notices.push(Notice::LostLog(failure));
    }
}

/// The log that is followed, for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FollowedLog {
    pub(crate) generation: u64,
    pub(crate) term: u64,
    pub(crate) is_leader: bool,
    /// Sequence of the last message that is known.
    pub(crate) position: u64,
    /// Number of the record that it ends.
    pub(crate) record: u64,
    /// Sequence before the oldest message that an ingester needs at its start.
    pub(crate) needed_after: u64,
}
