//! The sinks of a writer's events.

use chain_solana::{EventSink, LedgerEvent};

/// Sends events, in order, to all sinks that need them.
pub fn send_events(sinks: &mut [Box<dyn EventSink>], events: Vec<LedgerEvent>) {
    for event in events {
        let is_update = matches!(event, LedgerEvent::AccountsWritten { .. });
        for sink in sinks.iter_mut() {
            if !is_update || sink.needs_account_updates() {
                sink.send(&event);
            }
        }
    }
}
