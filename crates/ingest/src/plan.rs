//! The decisions of an ingester: the next action, given the events of its ledger and the records of the log.
//!
//! Shape: [`Plan::handle`] takes an input, [`Plan::next_action`] returns the next action. At most one action is under
//! way; messages of the log and own events arrive meanwhile.
//! Invariant: only messages of the log and confirmed appends say which records the log has. After an append without a
//! reply, the plan requests the tail and reads up to it, so nothing is appended twice.
//! Invariant: the fence decides who appends. A lease only spares appends that would fail.
//! Not here: I/O, tasks and the clock (`driver`). Time is an argument.

mod action;
mod comparisons;
mod disagreement;
mod following;
mod next_generation;
mod opening;
mod phase;
mod recovering;
mod report_book;
mod reports;
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
use self::comparisons::Comparisons;
use self::phase::{Phase, Rejoin};
pub(crate) use self::phase::{SnapshotRequest, ViewBlock, WrittenSnapshot};
use self::report_book::ReportBook;
pub(crate) use self::silence::SILENCE_MAX;
use self::silence::{Silence, SilenceChange};
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
    reports: ReportBook,
    comparisons: Comparisons,
    /// A difference that the leader of the log is not informed of.
    difference: Option<BlockDifference>,
    /// The generation that was given up at a damage.
    rejoin: Option<Rejoin>,
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
            phase: Phase::Starting,
            is_busy: false,
            retry_at: Duration::ZERO,
            last_number: 0,
            last_term: 0,
            snapshots: None,
            reports: ReportBook::default(),
            comparisons: Comparisons::default(),
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
            Input::SnapshotsListed { term } => self.note_known_snapshots(term),
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
            Phase::Starting => Action::CheckLog,
            Phase::Unchecked => Action::CheckChain,
            Phase::Seeking => Action::FindGeneration,
            Phase::Connecting { generation } => Action::OpenGeneration(*generation),
            Phase::Measuring { .. } => Action::AskTail,
            Phase::Recovering(_) => self.next_recovering_action(now),
            Phase::Following(_) => self.next_following_action(now),
            Phase::Opening(_) => self.next_opening_action(now),
            Phase::Stopped => Action::Stop,
        };
        self.is_busy = !matches!(action, Action::Wait(_) | Action::Stop);
        // These are operations on the own ledger and on the store of snapshots.
        let is_elsewhere =
            matches!(action, Action::CheckChain | Action::RetainView | Action::WriteSnapshot(_));
        if self.is_busy && !is_elsewhere {
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
            Outcome::ChainChecked(result) => self.end_check(result, now),
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

    fn end_log_check(&mut self, result: Result<(), ()>, now: Now) {
        match result {
            Ok(()) => self.phase = Phase::Unchecked,
            Err(()) => self.delay(now),
        }
    }

    fn end_check(&mut self, result: Result<Option<FoundSnapshots>, ()>, now: Now) {
        let own = self.config.genesis_hash;
        let Ok(snapshots) = result else { return self.delay(now) };
        let other = snapshots.map(|it| it.genesis_hash).filter(|found| *found != own);
        if let Some(found) = other {
            return self.stop(format!(
                "the log is of the chain with the genesis hash {found}, and this node's has {own}: \
                 choose another --log-cluster"
            ));
        }
        self.snapshots = snapshots;
        self.phase = Phase::Seeking;
    }

    fn end_search(&mut self, result: Result<Option<u64>, ()>, now: Now) {
        let Ok(newest) = result else { return self.delay(now) };
        match &mut self.phase {
            Phase::Following(following) => {
                following.note_search(now.elapsed);
                if newest.is_none_or(|newest| newest <= following.generation) {
                    return;
                }
            }
            Phase::Opening(_) => return self.end_opening_search(newest),
            _ => {}
        }
        let logged = self.snapshots.and_then(|it| it.logged_generation);
        match newest {
            Some(generation) if logged <= Some(generation) => self.connect(generation),
            None if logged.is_none() => {
                self.open_generation(0, "the cluster has no log yet".into())
            }
            // Its messages are lost, and those of older generations are not the newest ones.
            _ => self.open_generation(0, "the newest generation of the log was deleted".into()),
        }
    }

    fn end_connection(&mut self, result: Result<(), ()>, now: Now) {
        match (&self.phase, result) {
            (Phase::Opening(_), result) => self.end_opened_generation(result, now),
            (Phase::Connecting { generation }, Ok(())) => {
                self.phase = Phase::Measuring { generation: *generation };
            }
            // It may have been removed since.
            _ => {
                self.phase = Phase::Seeking;
                self.delay(now);
            }
        }
    }

    /// Follows another generation. The log of the current one is forgotten, its numbers and terms are not.
    fn connect(&mut self, generation: u64) {
        self.note_numbers();
        self.own.unpin();
        self.phase = Phase::Connecting { generation };
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

    /// Notes whether the log has responded to an operation.
    fn note_outcome(&mut self, outcome: &Outcome, now: Now) {
        let has_response = match outcome {
            // A reader is opened without a request, and the store is not the log.
            Outcome::ReaderOpened(Ok(()))
            | Outcome::ChainChecked(_)
            | Outcome::ViewRetained(_)
            | Outcome::SnapshotWritten(_) => return self.silence.end_operation(),
            Outcome::Appended(result) => {
                let change = match result {
                    Err(AppendFailure::Unknown) => self.silence.note_append_failure(now.elapsed),
                    _ => self.silence.note_progress(now.elapsed),
                };
                self.silence.end_operation();
                return self.note_silence_change(change);
            }
            Outcome::GenerationFound(result) => result.is_ok(),
            Outcome::TailRead(result) => result.is_ok(),
            Outcome::LogChecked(result)
            | Outcome::GenerationOpened(result)
            | Outcome::ReaderOpened(result)
            | Outcome::GenerationCreated(result) => result.is_ok(),
        };
        self.note_response(has_response, now);
        self.silence.end_operation();
    }

    /// Notes whether the log has responded to anything other than an append.
    fn note_response(&mut self, has_response: bool, now: Now) {
        let change = match has_response {
            true => self.silence.note_response(now.elapsed),
            false => self.silence.note_failure(now.elapsed),
        };
        self.note_silence_change(change);
    }

    fn note_silence_change(&mut self, change: Option<SilenceChange>) {
        match change {
            Some(SilenceChange::Started) => {
                self.counters.silences += 1;
                self.notices.push(Notice::Silent);
            }
            Some(SilenceChange::Ended { after }) => self.notices.push(Notice::Responds { after }),
            None => {}
        }
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
