//! Requests that wait for a transaction, and the ledger's events that wake them.
//!
//! Input: events from the ledger's single writer, which never blocks. While no request waits, the writer only reads one
//! counter and records the tips. Output: an event wakes the requests that wait for a transaction in it, and no others.
//! A separate thread finds them.
//! All requests are woken, which costs one lookup each, if the status of transactions may have changed that events do
//! not have: the tip has left a fork, or ancestors of a block are confirmed together with it. To the thread this is a
//! loss of events.
//! Bounds: [`WAITERS_MAX`] requests wait at once. [`EVENTS_MAX`] events wait for the thread. If that queue is full, the
//! event is lost, and all requests are woken.
//! Invariant: a request that registers and then fetches the status misses nothing: it is woken for every change that
//! it does not see yet.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use chain_solana::{
    EventBounds, EventReceiver, EventSender, EventSink, History, LedgerEvent, Received,
    event_channel,
};
use jsonrpc::error::{OVERLOADED, RpcError};
use ledger::{BlockId, Commitment};
use parking_lot::Mutex;
use serde_json::json;
use solana_signature::Signature;
use tokio::sync::Notify;

/// Clients that wait at once. Memory: [`WAITER_BYTES`] each.
pub(crate) const WAITERS_MAX: usize = 10_000;

/// The memory of a waiting request in addition to that of its connection: its head, a second read buffer, its task and
/// its entry here. Measured over 1,000 of them.
pub(crate) const WAITER_BYTES: u64 = 12 * 1024 + 512;

/// Events that wait for the thread. They share their transactions and blocks with history.
const EVENTS_MAX: usize = 4_096;

/// The waiting requests. Cheap to clone; clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct StatusWaiters(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    waiters: AtomicUsize,
    by_signature: Mutex<HashMap<Signature, Vec<Arc<Notify>>>>,
}

/// The sink for the events of the ledger's single writer. Never blocks. Dropping it ends the thread.
pub struct WaiterEvents {
    shared: Arc<Shared>,
    sender: EventSender,
    history: Arc<History>,
    /// The tip and the confirmed block of the last events.
    tip: Option<BlockId>,
    confirmed: Option<BlockId>,
}

/// A waiting request. Dropping it ends the wait.
pub(crate) struct WaiterGuard {
    shared: Arc<Shared>,
    signature: Signature,
    notify: Arc<Notify>,
}

impl StatusWaiters {
    /// Starts the thread that wakes requests, and returns the sink for events of the ledger that writes `history`.
    ///
    /// Errors: the thread could not be started.
    pub(crate) fn start(&self, history: Arc<History>) -> io::Result<WaiterEvents> {
        let bounds = EventBounds { events_max: EVENTS_MAX, bytes_max: None, has_reserve: false };
        let (sender, events) = event_channel(bounds);
        let shared = Arc::clone(&self.0);
        let thread = std::thread::Builder::new().name("waits".to_owned());
        thread.spawn(move || run_waker(&shared, events))?;
        let shared = Arc::clone(&self.0);
        Ok(WaiterEvents { shared, sender, history, tip: None, confirmed: None })
    }

    /// The number of waiting requests.
    pub(crate) fn len(&self) -> usize {
        self.0.waiters.load(Ordering::SeqCst)
    }

    /// Starts to wait for a transaction. Fetch its status after this call, and again after each wake.
    ///
    /// Errors: [`WAITERS_MAX`] requests wait already.
    pub(crate) fn register(&self, signature: Signature) -> Result<WaiterGuard, RpcError> {
        let notify = Arc::new(Notify::new());
        let waiter = WaiterGuard { shared: Arc::clone(&self.0), signature, notify };
        // The request fetches the status after this, and the writer publishes before it reads this counter. So
        // one of them sees the other.
        let before = self.0.waiters.fetch_add(1, Ordering::SeqCst);
        if before >= WAITERS_MAX {
            let message = format!("too busy: {WAITERS_MAX} clients are waiting for transactions");
            let data = json!({ "limit": "waiting", "waiting": WAITERS_MAX });
            return Err(RpcError::new(OVERLOADED, message).with_data(data));
        }
        let mut by_signature = self.0.by_signature.lock();
        by_signature.entry(signature).or_default().push(Arc::clone(&waiter.notify));
        drop(by_signature);
        Ok(waiter)
    }
}

impl WaiterGuard {
    /// Completes if the status may have changed since the last call. Cancel safe.
    pub(crate) async fn wait_for_change(&self) {
        self.notify.notified().await;
    }
}

impl Drop for WaiterGuard {
    fn drop(&mut self) {
        let mut by_signature = self.shared.by_signature.lock();
        if let Some(waiters) = by_signature.get_mut(&self.signature) {
            waiters.retain(|it| !Arc::ptr_eq(it, &self.notify));
            if waiters.is_empty() {
                by_signature.remove(&self.signature);
            }
        }
        drop(by_signature);
        self.shared.waiters.fetch_sub(1, Ordering::SeqCst);
    }
}

impl EventSink for WaiterEvents {
    fn send(&mut self, event: &LedgerEvent) {
        let has_waiters = self.shared.waiters.load(Ordering::SeqCst) > 0;
        let is_relevant = match event {
            LedgerEvent::Executed(_)
            | LedgerEvent::Rooted { .. }
            | LedgerEvent::Reverted { .. } => true,
            LedgerEvent::TipMoved { block } => {
                let left = self.tip.replace(*block);
                if has_waiters && !left.is_some_and(|left| self.is_on_chain(left)) {
                    self.sender.report_loss();
                }
                false
            }
            LedgerEvent::Confirmed { block, .. } => {
                let before = self.confirmed.replace(block.id);
                if has_waiters && before != Some(block.parent) {
                    self.sender.report_loss();
                }
                true
            }
            LedgerEvent::BankCreated { .. }
            | LedgerEvent::AccountsWritten { .. }
            | LedgerEvent::Frozen { .. }
            | LedgerEvent::BlockFooter { .. }
            | LedgerEvent::Jumped { .. }
            | LedgerEvent::Voted(_) => false,
        };
        if is_relevant && has_waiters {
            self.sender.try_send(event);
        }
    }
}

impl WaiterEvents {
    /// Whether the newest history has this block on the chain of its tip. If it does not, the tip is on another fork:
    /// transactions of blocks on that fork are processed again, although they were executed earlier.
    fn is_on_chain(&self, block: BlockId) -> bool {
        let snapshot = self.history.snapshot();
        snapshot.block(block.slot, Commitment::Processed).is_some_and(|found| found.id == block)
    }
}

fn run_waker(shared: &Shared, mut events: EventReceiver) {
    while let Some(received) = events.recv() {
        let event = match received {
            Received::Event { event, .. } => event,
            Received::Lost(_) => {
                shared.wake_all();
                continue;
            }
        };
        match &event {
            LedgerEvent::Executed(all) => {
                shared.wake(all.iter().map(|executed| executed.signature()))
            }
            LedgerEvent::Confirmed { block, .. }
            | LedgerEvent::Rooted { block, .. }
            | LedgerEvent::Reverted { block, .. } => {
                shared.wake(block.transactions.iter().map(|executed| executed.signature()));
            }
            LedgerEvent::BankCreated { .. }
            | LedgerEvent::AccountsWritten { .. }
            | LedgerEvent::Frozen { .. }
            | LedgerEvent::TipMoved { .. }
            | LedgerEvent::BlockFooter { .. }
            | LedgerEvent::Jumped { .. }
            | LedgerEvent::Voted(_) => {}
        }
    }
}

impl Shared {
    fn wake_all(&self) {
        self.by_signature.lock().values().flatten().for_each(|it| it.notify_one());
    }

    fn wake(&self, signatures: impl IntoIterator<Item = Signature>) {
        let by_signature = self.by_signature.lock();
        for signature in signatures {
            // A request may be woken while it fetches the status. It then fetches it once more.
            by_signature.get(&signature).into_iter().flatten().for_each(|it| it.notify_one());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_waiter_too_many_is_rejected_and_takes_no_slot() {
        let waiters = StatusWaiters::default();
        let signature = |n: usize| {
            let mut bytes = [0; 64];
            bytes[..8].copy_from_slice(&n.to_le_bytes());
            Signature::from(bytes)
        };
        // Two requests wait for each signature.
        let mut guards: Vec<_> = (0..WAITERS_MAX)
            .map(|n| {
                waiters.register(signature(n / 2)).map_err(|err| err.to_string()).expect("a slot")
            })
            .collect();
        let err = waiters.register(signature(0)).map(|_| ()).expect_err("all slots are taken");
        assert!(err.is_overload(), "{err}");
        assert_eq!(waiters.len(), WAITERS_MAX);
        drop(guards.pop());
        assert!(waiters.register(signature(0)).is_ok());
        guards.clear();
        assert_eq!((waiters.len(), waiters.0.by_signature.lock().len()), (0, 0));
    }
}
