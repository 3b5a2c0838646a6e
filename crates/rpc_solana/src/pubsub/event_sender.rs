//! The way of the ledger's events to the notifier: a bounded channel, and the position in the stream of events.
//!
//! In: events of the ledger's one writer, in order. Out: the same with their positions.
//! Bounds: `Config::events_max` events wait. The writer never waits: if the channel is full, the event is dropped, and
//! the cursor says that events were lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use chain_solana::{EventSink, LedgerEvent};
use subscriptions::Position;

/// The sender of the ledger's one writer. Never blocks.
///
/// Dropping it ends the ledger: every connection is closed after the events that wait.
pub struct EventSender {
    events: SyncSender<(Position, LedgerEvent)>,
    cursor: Arc<EventCursor>,
}

/// The position in the stream of events.
#[derive(Default)]
pub(super) struct EventCursor {
    /// Events so far, lost ones included.
    sent: AtomicU64,
    /// Whether an event was lost, and the listeners have not been closed for it yet.
    lost: AtomicBool,
}

impl EventCursor {
    /// The position of the newest event. The effects of this event and of all before it can be read.
    pub(super) fn position(&self) -> Position {
        Position(self.sent.load(Ordering::Acquire))
    }

    /// Whether an event was lost since the last call.
    pub(super) fn take_lost(&self) -> bool {
        self.lost.swap(false, Ordering::AcqRel)
    }
}

impl EventSender {
    /// A sender, and what it sends: up to `events_max` events wait.
    pub(super) fn new(
        events_max: usize,
        cursor: Arc<EventCursor>,
    ) -> (Self, Receiver<(Position, LedgerEvent)>) {
        let (events, receiver) = sync_channel(events_max.max(1));
        (Self { events, cursor }, receiver)
    }
}

impl EventSink for EventSender {
    fn send(&mut self, event: &LedgerEvent) {
        let position = Position(self.cursor.sent.fetch_add(1, Ordering::Release) + 1);
        match self.events.try_send((position, event.clone())) {
            Ok(()) => {}
            // The notifier checks the flag at each event, and its channel is full of them.
            Err(TrySendError::Full(_)) => self.cursor.lost.store(true, Ordering::Release),
            // The notifier ends before this sender only if its thread failed.
            Err(TrySendError::Disconnected(_)) => {}
        }
    }
}
