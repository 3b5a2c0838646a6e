//! Ingesters over one log, in one thread, with a clock of their own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cluster_snapshot::fault_reports::FaultReport;
use fastrand::Rng;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use replicated_log::memory::{AppendFaults, Faults, MemoryLogSpace};
use replicated_log::{AppendError, Log, LogReader, LogSpace, ReadError, StoredMessage};
use solana_hash::Hash;

use super::report::fault_report;
use super::source::{Source, key};
use crate::plan::{
    Action, AppendFailure, CheckedReport, Input, KnownSnapshot, Now, Outcome, Plan, PlanConfig,
    ReadFailure, ViewBlock, WrittenSnapshot,
};
use crate::scan::ScanResult;

const LEASE: Duration = Duration::from_secs(3);
/// Steps with faults.
const STEPS: usize = 1_500;
/// Steps after which the log must have everything.
const SETTLE_STEPS: usize = 20_000;
/// Messages behind the position of a report that a scan of the model reads.
const SCANNED: u64 = 4;
/// Names of faults in reports: of messages, of the chain, of a setting, and of a newer release.
const FAULTS: [&str; 5] = ["body", "missing", "sum", "no_sum", "later"];

pub(super) struct WorldConfig {
    pub(super) seed: u64,
    pub(super) ingesters: usize,
    pub(super) faults: Faults,
    pub(super) has_restarts: bool,
    /// Whether replicas report faults, true and false ones, during outages, too.
    pub(super) has_reports: bool,
    /// Whether the log damages messages that it has stored.
    pub(super) has_damages: bool,
}

/// Ingesters over one log.
pub(super) struct World {
    pub(super) config: WorldConfig,
    pub(super) space: MemoryLogSpace,
    ingesters: Vec<Ingester>,
    now: Duration,
    rng: Rng,
    next_id: u8,
    /// Stored messages before they were damaged, by generation and sequence.
    damaged: BTreeMap<(u64, u64), StoredMessage>,
    is_away: bool,
}

/// An ingester with its operation and its ledger.
struct Ingester {
    plan: Plan,
    source: Source,
    log: Option<Arc<dyn Log>>,
    reader: Option<Box<dyn LogReader>>,
    /// A reader whose outcome has not arrived.
    opened: Option<Box<dyn LogReader>>,
    /// An outcome that has not arrived.
    outcome: Option<Outcome>,
}

/// Returns the result of an operation of a log in memory, which never waits.
fn ready<T>(operation: BoxFuture<'_, T>) -> T {
    operation.now_or_never().expect("a log in memory does not wait")
}

impl World {
    pub(super) fn new(config: WorldConfig) -> Self {
        let mut world = Self {
            space: MemoryLogSpace::with_faults(config.faults),
            ingesters: Vec::new(),
            now: Duration::ZERO,
            rng: Rng::with_seed(config.seed),
            next_id: 1,
            damaged: BTreeMap::new(),
            is_away: false,
            config,
        };
        for _ in 0..world.config.ingesters {
            let ingester = world.new_ingester(0);
            world.ingesters.push(ingester);
        }
        world
    }

    fn new_ingester(&mut self, root: u64) -> Ingester {
        let source = Source::new(root);
        let config = PlanConfig {
            ingester: [self.next_id; 16],
            level: None,
            lease: LEASE,
            genesis_hash: Hash::default(),
            queue_bytes_max: 1 << 30,
        };
        self.next_id = self.next_id.wrapping_add(1);
        let plan = Plan::new(config, source.start());
        Ingester { plan, source, log: None, reader: None, opened: None, outcome: None }
    }

    /// Runs with faults.
    pub(super) fn run(&mut self) {
        for _ in 0..STEPS {
            self.advance_clock();
            let at = self.rng.usize(..self.ingesters.len());
            match self.rng.u32(..100) {
                0 if self.config.has_restarts && self.rng.u8(..4) == 0 => self.restart(at),
                1 if self.config.has_reports => self.report(at),
                2 if self.config.has_reports && self.rng.u8(..8) == 0 => self.change_outage(),
                3 if self.config.has_damages && self.rng.u8(..8) == 0 => self.damage_message(),
                4 if self.config.has_reports => self.write_needed_snapshot(at),
                0..15 => self.send_event(at),
                15..50 => self.read(at),
                50..75 => self.start_operation(at),
                _ => self.end_operation(at),
            }
        }
    }

    /// Runs without faults until the log has everything.
    pub(super) fn settle(&mut self) {
        self.space.set_faults(Faults { seed: self.config.seed, ..Faults::default() });
        self.space.land_late_appends();
        for step in 0..SETTLE_STEPS {
            self.now += Duration::from_millis(50);
            for at in 0..self.ingesters.len() {
                self.send_event(at);
                (0..4).for_each(|_| self.read(at));
                self.start_operation(at);
                self.end_operation(at);
            }
            if step > 200 && self.ingesters.iter().all(|it| it.plan.is_drained()) {
                return;
            }
        }
        for ingester in &mut self.ingesters {
            let items: Vec<_> = ingester.plan.own().items().cloned().collect();
            let notices = ingester.plan.take_notices();
            print_state(&format!("{:?} {items:?} {notices:?}", ingester.plan.followed_log()));
        }
        panic!("seed {}: the log lacks items", self.config.seed);
    }

    /// Returns the newest generation of the log.
    pub(super) fn newest_generation(&self) -> Option<u64> {
        ready(self.space.newest_generation()).ok().flatten()
    }

    fn advance_clock(&mut self) {
        let ms = if self.rng.u8(..100) == 0 { 4_000 } else { self.rng.u64(..60) };
        self.now += Duration::from_millis(ms);
    }

    fn now(&self) -> Now {
        Now { elapsed: self.now, unix_ms: self.now.as_millis() as u64 }
    }

    /// Replaces an ingester by a new process, whose ledger starts from its root.
    fn restart(&mut self, at: usize) {
        let root = self.ingesters[at].source.root().slot;
        let ingester = self.new_ingester(root);
        self.ingesters[at] = ingester;
    }

    /// Delivers a report. Its position may be that of a damage, any other one, or beyond the end.
    fn report(&mut self, at: usize) {
        let now = self.now();
        let Some(followed) = self.ingesters[at].plan.followed_log() else { return };
        let generation = followed.generation;
        let damages: Vec<u64> =
            self.damaged.keys().filter(|(of, _)| *of == generation).map(|(_, it)| *it).collect();
        let sequence = match self.rng.choice(&damages) {
            Some(damaged) if self.rng.bool() => damaged - 1,
            _ => self.rng.u64(..followed.position + 3),
        };
        let what = FAULTS[self.rng.usize(..FAULTS.len())];
        let report = FaultReport {
            generation: if self.rng.u8(..8) == 0 { self.rng.u64(..3) } else { generation },
            record: 1,
            slot: self.rng.u64(..),
            confirmed: self.rng.u64(..),
            made_at_ms: now.unix_ms,
            ..fault_report(generation, sequence, what)
        };
        let scan = Some(self.scan(generation, sequence, followed.position));
        let input = Input::Reported(CheckedReport { report, scan });
        self.ingesters[at].plan.handle(input, now);
    }

    /// Returns the result of a scan after a message.
    fn scan(&self, generation: u64, after: u64, last: u64) -> ScanResult {
        if self.is_away {
            return ScanResult::Unknown;
        }
        let scanned = (generation, after + 1)..=(generation, after + SCANNED);
        match self.damaged.range(scanned).next_back() {
            Some(((_, damaged), _)) if damaged + SCANNED < last => {
                ScanResult::Damaged { last: *damaged }
            }
            Some(_) => ScanResult::Unreadable { last },
            None => ScanResult::Intact,
        }
    }

    /// Starts or ends an outage of the log.
    fn change_outage(&mut self) {
        self.is_away = !self.is_away;
        let away = Faults {
            seed: self.config.seed,
            append: AppendFaults { lost: 1_000, ..AppendFaults::default() },
            failed_tail: 1_000,
            ..Faults::default()
        };
        self.space.set_faults(if self.is_away { away } else { self.config.faults });
    }

    /// Damages a stored message of the newest generation, for all readers.
    fn damage_message(&mut self) {
        let Some(generation) = self.newest_generation() else { return };
        let stored = self.space.stored_messages(generation);
        let Some(message) = self.rng.choice(&stored).cloned() else { return };
        let sequence = message.sequence;
        // A second damage would mend the first.
        if self.damaged.contains_key(&(generation, sequence)) {
            return;
        }
        self.damaged.insert((generation, sequence), message);
        self.space.damage_message(generation, sequence);
    }

    /// Returns the messages of a generation as they were appended.
    pub(super) fn appended_messages(&self, generation: u64) -> Vec<StoredMessage> {
        let stored = self.space.stored_messages(generation).into_iter();
        let original = |it: &StoredMessage| self.damaged.get(&(generation, it.sequence)).cloned();
        stored.map(|it| original(&it).unwrap_or(it)).collect()
    }

    /// Writes the snapshot that a leader needs, if its root is behind the damage.
    fn write_needed_snapshot(&mut self, at: usize) {
        let now = self.now();
        let ingester = &mut self.ingesters[at];
        let Some(log) = ingester.plan.followed_log() else { return };
        ingester.plan.handle(Input::SnapshotsListed { term: log.term }, now);
        let Some(after) = ingester.plan.needed_snapshot() else { return };
        let root = key(ingester.source.root().slot, false);
        let block = ingester.plan.find_logged_block(&root);
        if let Some(block) = block.filter(|block| block.position > after) {
            let snapshot = KnownSnapshot { generation: block.generation, position: block.position };
            ingester.plan.handle(Input::Snapshot(snapshot), now);
            assert_eq!(ingester.plan.needed_snapshot(), None, "seed {}", self.config.seed);
        }
    }

    fn send_event(&mut self, at: usize) {
        let now = self.now();
        let ingester = &mut self.ingesters[at];
        if let Some(event) = ingester.source.next(&mut self.rng) {
            ingester.plan.handle(Input::Own(event), now);
        }
    }

    fn read(&mut self, at: usize) {
        let now = self.now();
        let ingester = &mut self.ingesters[at];
        let Some(reader) = &mut ingester.reader else { return };
        let Some(read) = reader.next().now_or_never() else { return };
        let input = match read {
            Ok(message) => Input::Message(message),
            Err(err) => {
                ingester.reader = None;
                Input::ReadFailed(match err {
                    ReadError::Truncated { wanted, .. } => ReadFailure::Truncated { wanted },
                    ReadError::Gone => ReadFailure::Gone,
                    ReadError::Damaged { sequence, .. }
                    | ReadError::Missing { wanted: sequence, .. } => {
                        ReadFailure::Damaged { sequence }
                    }
                    ReadError::Log(_) => ReadFailure::Failed,
                })
            }
        };
        ingester.plan.handle(input, now);
    }

    /// Does the next operation. Its outcome arrives later.
    fn start_operation(&mut self, at: usize) {
        let now = self.now();
        let space = self.space.clone();
        let seed = self.config.seed;
        let ingester = &mut self.ingesters[at];
        if ingester.outcome.is_some() {
            return;
        }
        let action = ingester.plan.next_action(now);
        let log = ingester.log.clone();
        ingester.outcome = match action {
            Action::Wait(_) => None,
            Action::Stop => panic!("seed {seed}: {:?}", ingester.plan.take_notices()),
            Action::CheckLog => Some(Outcome::LogChecked(Ok(()))),
            Action::CheckChain => Some(Outcome::ChainChecked(Ok(None))),
            Action::FindGeneration => {
                Some(Outcome::GenerationFound(ready(space.newest_generation()).map_err(drop)))
            }
            Action::OpenGeneration(generation) => {
                let opened = ready(space.open_generation(generation)).map_err(drop);
                ingester.reader = None;
                Some(Outcome::GenerationOpened(opened.map(|log| ingester.log = Some(log))))
            }
            Action::CreateGeneration(generation) => {
                let created = ready(space.create_generation(generation)).map(drop).map_err(drop);
                Some(Outcome::GenerationCreated(created))
            }
            Action::ReadTail => {
                let log = log.expect("the log is open");
                Some(Outcome::TailRead(ready(log.tail()).map_err(drop)))
            }
            Action::Read(after) => {
                let log = log.expect("the log is open");
                ingester.reader = None;
                let opened = ready(log.read(after)).map_err(drop);
                Some(Outcome::ReaderOpened(opened.map(|it| ingester.opened = Some(it))))
            }
            Action::Append(batch) => {
                let log = log.expect("the log is open");
                let appended = ready(log.append(batch.after, batch.messages));
                Some(Outcome::Appended(appended.map_err(|err| match err {
                    AppendError::Fenced { last } => AppendFailure::Fenced { last },
                    AppendError::Unknown(_) => AppendFailure::Unknown,
                    AppendError::Full(_) => AppendFailure::Full,
                    AppendError::Refused(err) => panic!("seed {seed}: {err}"),
                })))
            }
            Action::RetainView => {
                let id = ingester.source.root();
                let key = key(id.slot, false);
                Some(Outcome::ViewRetained(ViewBlock { id, key }))
            }
            Action::WriteSnapshot(request) => Some(Outcome::SnapshotWritten(Ok(WrittenSnapshot {
                number: request.number,
                block_digest: request.block_digest,
                manifest_key: format!("{}", request.block.slot),
                manifest_digest: [0; 32],
            }))),
        };
    }

    fn end_operation(&mut self, at: usize) {
        let now = self.now();
        let ingester = &mut self.ingesters[at];
        if let Some(outcome) = ingester.outcome.take() {
            if let Outcome::ReaderOpened(Ok(())) = outcome {
                ingester.reader = ingester.opened.take();
            }
            ingester.plan.handle(Input::Done(outcome), now);
        }
    }
}

#[expect(clippy::print_stderr, reason = "the state of a test that has failed")]
fn print_state(state: &str) {
    eprintln!("{state}");
}
