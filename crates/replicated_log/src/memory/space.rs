//! Operations on the generations in memory, with their faults.
//!
//! One lock covers all generations, so an operation is atomic. Each change notifies all readers.

use std::collections::BTreeMap;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use super::faults::{AppendFate, FaultSchedule, Faults};
use super::stream::Stream;
use crate::error::{AppendError, LogError};
use crate::message::{LogMessage, StoredMessage, Tail, check_batch};

/// Maximum number of operations that pass before a late append is attempted.
const LATE_OPERATIONS_MAX: usize = 8;

/// The generations, and the notification of their readers.
#[derive(Debug)]
pub(super) struct Space {
    state: Mutex<SpaceState>,
    changes: watch::Sender<()>,
}

/// Content of all generations, and the schedule of faults.
#[derive(Debug)]
pub(super) struct SpaceState {
    pub(super) schedule: FaultSchedule,
    pub(super) streams: BTreeMap<u64, Stream>,
    late_appends: Vec<LateAppend>,
    streams_created: u64,
}

/// An append that its caller gave up.
#[derive(Debug)]
struct LateAppend {
    generation: u64,
    after: u64,
    batch: Vec<LogMessage>,
    /// Operations that still pass before it is attempted.
    operations: usize,
}

impl Space {
    pub(super) fn new(faults: Faults) -> Self {
        let state = SpaceState {
            schedule: FaultSchedule::new(faults),
            streams: BTreeMap::new(),
            late_appends: Vec::new(),
            streams_created: 0,
        };
        Self { state: Mutex::new(state), changes: watch::Sender::new(()) }
    }

    /// Starts to listen for changes.
    pub(super) fn subscribe(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    pub(super) fn set_faults(&self, faults: Faults) {
        self.state.lock().schedule = FaultSchedule::new(faults);
    }

    pub(super) fn newest_generation(&self) -> Option<u64> {
        self.state.lock().streams.last_key_value().map(|(generation, _)| *generation)
    }

    pub(super) fn create_generation(&self, generation: u64) -> bool {
        let mut state = self.state.lock();
        let is_new = !state.streams.contains_key(&generation);
        if is_new {
            state.create_stream(generation);
        }
        is_new
    }

    pub(super) fn delete_generation(&self, generation: u64) {
        self.state.lock().streams.remove(&generation);
        self.changes.send_replace(());
    }

    /// Deletes all generations before `generation`. Returns their number.
    pub(super) fn remove_generations_below(&self, generation: u64) -> usize {
        let mut state = self.state.lock();
        let kept = state.streams.split_off(&generation);
        let removed = std::mem::replace(&mut state.streams, kept);
        drop(state);
        self.changes.send_replace(());
        removed.len()
    }

    pub(super) fn recreate_generation(&self, generation: u64) {
        self.state.lock().create_stream(generation);
        self.changes.send_replace(());
    }

    pub(super) fn restore_generation(&self, generation: u64, last: u64) {
        let mut state = self.state.lock();
        state.streams_created += 1;
        let instance = state.streams_created;
        if let Some(stream) = state.streams.get_mut(&generation) {
            stream.cut_after(last);
            stream.instance = instance;
        }
        drop(state);
        self.changes.send_replace(());
    }

    /// Changes the messages of a generation, if it exists.
    pub(super) fn change_stream(&self, generation: u64, change: impl FnOnce(&mut Stream)) {
        if let Some(stream) = self.state.lock().streams.get_mut(&generation) {
            change(stream);
        }
        self.changes.send_replace(());
    }

    /// Returns an error if the generation does not exist. `attempt` is the operation that needs it.
    pub(super) fn check_generation(&self, generation: u64, attempt: &str) -> Result<(), LogError> {
        if self.state.lock().streams.contains_key(&generation) {
            return Ok(());
        }
        Err(describe_missing_generation(generation, attempt))
    }

    pub(super) fn stored_messages(&self, generation: u64) -> Vec<StoredMessage> {
        let state = self.state.lock();
        let Some(stream) = state.streams.get(&generation) else { return Vec::new() };
        (stream.first()..=stream.last()).filter_map(|at| stream.stored_message(at)).collect()
    }

    pub(super) fn append(
        &self,
        generation: u64,
        after: u64,
        batch: Vec<LogMessage>,
    ) -> Result<u64, AppendError> {
        check_batch(&name_generation(generation), &batch)?;
        let mut state = self.start_operation(generation);
        let result = state.append_with_fault(generation, after, batch);
        state.remove_surplus(generation);
        drop(state);
        self.changes.send_replace(());
        result
    }

    pub(super) fn find_tail(&self, generation: u64) -> Result<Tail, LogError> {
        let mut state = self.start_operation(generation);
        let rate = state.schedule.faults().failed_tail;
        if state.schedule.draw_fault(rate) {
            return Err(LogError::with_reason(
                name_generation(generation),
                "find its end",
                "no response",
            ));
        }
        let stream = state.streams.get(&generation);
        stream
            .map(Stream::tail)
            .ok_or_else(|| describe_missing_generation(generation, "find its end"))
    }

    /// Locks the state after everything that happens before an operation: late appends land, and the log loses
    /// messages.
    pub(super) fn start_operation(&self, generation: u64) -> MutexGuard<'_, SpaceState> {
        let mut state = self.state.lock();
        if state.advance(generation) {
            state.remove_surplus(generation);
            self.changes.send_replace(());
        }
        state
    }

    pub(super) fn land_late_appends(&self) {
        let mut state = self.state.lock();
        for late in std::mem::take(&mut state.late_appends) {
            state.land(late);
        }
        drop(state);
        self.changes.send_replace(());
    }
}

impl SpaceState {
    fn create_stream(&mut self, generation: u64) {
        self.streams_created += 1;
        self.streams.insert(generation, Stream::new(self.streams_created));
    }

    /// Lets one operation pass. Returns whether a generation changed.
    fn advance(&mut self, generation: u64) -> bool {
        let mut is_changed = false;
        for late in &mut self.late_appends {
            late.operations = late.operations.saturating_sub(1);
        }
        while let Some(index) = self.late_appends.iter().position(|late| late.operations == 0) {
            let late = self.late_appends.remove(index);
            self.land(late);
            is_changed = true;
        }
        let rates = *self.schedule.faults();
        if self.schedule.draw_fault(rates.recreation) && self.streams.contains_key(&generation) {
            self.create_stream(generation);
            is_changed = true;
        }
        if self.schedule.draw_fault(rates.truncation)
            && let Some(stream) = self.streams.get_mut(&generation)
        {
            let removed = self.schedule.draw_below(stream.len() / 2 + 1);
            stream.truncate_before(stream.first() + removed as u64);
            is_changed |= removed > 0;
        }
        if self.schedule.draw_fault(rates.holes)
            && let Some(stream) = self.streams.get_mut(&generation)
            && stream.len() > 0
        {
            stream.lose_message(stream.first() + self.schedule.draw_below(stream.len()) as u64);
            is_changed = true;
        }
        is_changed
    }

    fn land(&mut self, late: LateAppend) {
        if let Some(stream) = self.streams.get_mut(&late.generation) {
            stream.append(late.after, late.batch);
        }
    }

    fn append_with_fault(
        &mut self,
        generation: u64,
        after: u64,
        batch: Vec<LogMessage>,
    ) -> Result<u64, AppendError> {
        let name = name_generation(generation);
        let unknown =
            || AppendError::Unknown(LogError::with_reason(&name, "append a batch", "no response"));
        let fate = self.schedule.draw_append_fate();
        let Some(stream) = self.streams.get(&generation) else {
            return Err(AppendError::Unknown(describe_missing_generation(
                generation,
                "append a batch",
            )));
        };
        match fate {
            AppendFate::Lost => return Err(unknown()),
            AppendFate::Fenced => return Err(AppendError::Fenced { last: stream.last() }),
            AppendFate::Full => {
                let error = LogError::with_reason(&name, "append a batch", "its disk is full");
                return Err(AppendError::Full(error));
            }
            AppendFate::Late => {
                self.defer(generation, after, batch);
                return Err(unknown());
            }
            AppendFate::Repeated => self.defer(generation, after, batch.clone()),
            AppendFate::Applied | AppendFate::Unconfirmed => {}
        }
        let Some(stream) = self.streams.get_mut(&generation) else { return Err(unknown()) };
        if !stream.append(after, batch) {
            let last = stream.last();
            return Err(AppendError::Fenced { last });
        }
        if fate == AppendFate::Unconfirmed { Err(unknown()) } else { Ok(stream.last()) }
    }

    /// Attempts an append some operations later.
    fn defer(&mut self, generation: u64, after: u64, batch: Vec<LogMessage>) {
        let operations = self.schedule.draw_below(LATE_OPERATIONS_MAX) + 1;
        self.late_appends.push(LateAppend { generation, after, batch, operations });
    }

    /// Applies the limit of a generation.
    fn remove_surplus(&mut self, generation: u64) {
        let messages_max = match self.schedule.faults().messages_max {
            0 => usize::MAX,
            max => max,
        };
        if let Some(stream) = self.streams.get_mut(&generation) {
            while stream.len() > 1 && stream.len() > messages_max {
                stream.remove_oldest();
            }
        }
    }
}

/// The name of a generation in errors.
pub(super) fn name_generation(generation: u64) -> String {
    format!("generation {generation} of the log in memory")
}

fn describe_missing_generation(generation: u64, attempt: &str) -> LogError {
    let error = LogError::with_reason(name_generation(generation), attempt, "it does not exist");
    error.of_missing_generation()
}
