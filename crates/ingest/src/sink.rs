//! The sink for the events of the ledger's one writer.
//!
//! Bounds: [`EVENTS_MAX`] events and the bytes of the settings. An event beyond them is dropped, and the log then gets
//! a new generation.
//! Not queued: opened blocks, writes of accounts, executed transactions and votes. A log has whole blocks: their
//! frozen form has the transactions and the last write of each account, and replicas read the votes from these.

use chain_solana::{
    EventBounds, EventReceiver, EventSender, EventSink, LedgerEvent, event_channel,
};

/// Queued events: a slot has about five.
const EVENTS_MAX: usize = 1 << 16;

/// Takes the events of a ledger for its log. It never blocks.
pub struct IngestSink {
    events: EventSender,
    has_entries: bool,
}

/// Creates the sink and the receiver of its events.
pub(crate) fn channel(queue_bytes_max: usize, has_entries: bool) -> (IngestSink, EventReceiver) {
    let bytes_max = Some(queue_bytes_max);
    let bounds = EventBounds { events_max: EVENTS_MAX, bytes_max, has_reserve: false };
    let (events, receiver) = event_channel(bounds);
    (IngestSink { events, has_entries }, receiver)
}

impl EventSink for IngestSink {
    fn send(&mut self, event: &LedgerEvent) {
        match event {
            LedgerEvent::BlockFooter { .. }
            | LedgerEvent::Frozen { .. }
            | LedgerEvent::TipMoved { .. }
            | LedgerEvent::Confirmed { .. }
            | LedgerEvent::Rooted { .. }
            | LedgerEvent::Jumped { .. }
            | LedgerEvent::Reverted { .. } => self.events.try_send(event),
            LedgerEvent::BankCreated { .. }
            | LedgerEvent::AccountsWritten { .. }
            | LedgerEvent::Executed(_)
            | LedgerEvent::Voted(_) => {}
        }
    }

    fn needs_entries(&self) -> bool {
        self.has_entries
    }
}
