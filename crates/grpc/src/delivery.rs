//! The messages of one client, in order: the rest of the log if it replays, and its queue.
//!
//! In: filters, and the slot that a replay starts from. Out: messages, one at a time.
//! Shape: the log is read in parts. A replay remembers the first update that it has not sent, so a part is read again
//! when the filters change.
//! Invariant: filters take effect between two updates of the log. A change of filters skips none and repeats none,
//! whether the client replays or is live.
//! Bounds: a replay holds one part of the log, as references. Its messages are encoded one at a time.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use ledger::Slot;
use tonic::Status;

use crate::broker::{Broker, ReplayStep};
use crate::counters::Event;
use crate::encode::Encoder;
use crate::filter::{FilterSet, MessageSpec};
use crate::filter_index::IndexedFilters;
use crate::ids::ListenerId;
use crate::log::{Cursor, LogPart, LoggedUpdate};
use crate::queue::{Message, Queue};
use crate::update::Update;

/// Updates of a replay on which one poll tries the filters without a match.
const UPDATES_PER_POLL: usize = 256;
/// Cost of a read of the log, in such updates.
const READ_UPDATES: usize = 64;

/// The source of a client's messages.
pub(crate) struct Delivery {
    broker: Arc<Broker>,
    id: ListenerId,
    queue: Arc<Queue>,
    /// The messages of the update that is being sent.
    unsent: Option<UnsentMessages>,
    /// `None` if the client is live.
    replay: Option<Replay>,
}

/// The messages of one update that a replay has not sent.
struct UnsentMessages {
    update: Arc<Update>,
    specs: std::vec::IntoIter<MessageSpec>,
}

/// A client's way through the log.
struct Replay {
    /// The first update that was not sent.
    cursor: Cursor,
    filters: Arc<FilterSet>,
    /// The part of the log that was read last. `None` if the next one is still to be read.
    part: Option<LogPart>,
}

impl Delivery {
    pub(crate) fn new(broker: Arc<Broker>, id: ListenerId, queue: Arc<Queue>) -> Self {
        Self { broker, id, queue, unsent: None, replay: None }
    }

    /// Whether some messages of an update are sent and others are not. Filters must not change then.
    pub(crate) fn is_within_update(&self) -> bool {
        self.unsent.is_some()
    }

    /// Replaces all filters. With a slot, a replay starts there; without, the client stays where it is.
    pub(crate) fn set_filters(
        &mut self,
        filters: IndexedFilters,
        from_slot: Option<Slot>,
    ) -> Result<(), Status> {
        let Some(compiled) = filters.filters().map(Arc::clone) else { return Ok(()) };
        let start = filters.replace_those_of(self.id, from_slot)?;
        match (start, &mut self.replay) {
            (Some(cursor), _) => {
                self.replay = Some(Replay { cursor, filters: compiled, part: None });
            }
            // The old filters are freed, and the rest of the part is read again.
            (None, Some(replay)) => {
                replay.filters = compiled;
                replay.part = None;
            }
            (None, None) => {}
        }
        Ok(())
    }

    /// Counts a message that was in no queue. `None` if the bound of all messages has no space for it.
    pub(crate) fn count(&self, bytes: Bytes) -> Option<Message> {
        let count = self.queue.sending().try_count(bytes.len())?;
        Some(Message { bytes, count })
    }

    /// The next message, or the status with which the client was closed.
    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<Message, Status>> {
        let mut cost = 0;
        while cost < UPDATES_PER_POLL {
            if let Some(bytes) = self.take_unsent() {
                return Poll::Ready(
                    self.count(bytes).ok_or_else(|| self.broker.exhausted_status()),
                );
            }
            // During a replay the queue has earlier messages and pongs only. New updates are queued once the client is
            // live.
            let queued = self.queue.poll_next(context);
            if queued.is_ready() || self.replay.is_none() {
                return queued;
            }
            match self.step_replay() {
                Ok(updates) => cost += updates,
                Err(status) => return Poll::Ready(Err(status)),
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }

    fn take_unsent(&mut self) -> Option<Bytes> {
        let unsent = self.unsent.as_mut()?;
        let spec = unsent.specs.next();
        let bytes = spec.map(|spec| {
            unsent.update.show_statuses();
            Encoder::new(&unsent.update).message(spec)
        });
        if unsent.specs.as_slice().is_empty() {
            self.unsent = None;
        }
        bytes
    }

    /// Begins the next update of the replay, or reads the next part of the log. Returns the cost, in updates.
    fn step_replay(&mut self) -> Result<usize, Status> {
        let Some(replay) = &mut self.replay else { return Ok(0) };
        let Some(part) = &mut replay.part else {
            match self.broker.replay(self.id, &replay.cursor) {
                ReplayStep::Updates(part) => replay.part = Some(part),
                ReplayStep::Live => self.replay = None,
                ReplayStep::Lost => return Err(Broker::lagged_status()),
                ReplayStep::Incomplete(status) => return Err(status),
            }
            return Ok(READ_UPDATES);
        };
        let Some(LoggedUpdate { update, next }) = part.updates.pop_front() else {
            replay.cursor = part.end;
            replay.part = None;
            return Ok(0);
        };
        replay.cursor = next;
        let specs = replay.filters.all_messages(&update);
        if !specs.is_empty() {
            self.broker.counters.record(Event::Replayed);
            self.unsent = Some(UnsentMessages { update, specs: specs.into_iter() });
        }
        Ok(1)
    }
}
