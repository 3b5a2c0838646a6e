//! Who waits for which transaction, and the ledger's events that wake him.
//!
//! In: events, from the ledger's one writer, which never waits: as long as nobody waits it does no more than
//! look at one number. Out: whoever waits for a transaction that an event has in it is woken, and nobody
//! else. A thread of its own looks who that is.
//! Bounds: [`WAITERS_MAX`] wait at once; [`EVENTS_MAX`] events wait for the thread, and if one finds no room,
//! everybody is woken, which costs a look at most.
//! Invariant: who waits and then looks misses nothing: what he does not see yet, he is woken for.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use chain_solana::{EventSink, LedgerEvent};
use parking_lot::Mutex;
use rpc::error::{OVERLOADED, RpcError};
use serde_json::json;
use solana_signature::Signature;
use tokio::sync::Notify;

/// Clients that wait at once. Memory: about 300 bytes each, beside their connection.
pub(crate) const WAITERS_MAX: usize = 10_000;

/// Events that wait for the thread; they hold what they tell of, as history does.
const EVENTS_MAX: usize = 4_096;

/// Who waits. Cheap to clone; copies are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct StatusWaiters(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    waiters: AtomicUsize,
    by_signature: Mutex<HashMap<Signature, Vec<Arc<Notify>>>>,
    /// Whether an event was lost of which nobody was told.
    events_lost: AtomicBool,
}

/// Where the ledger's one writer puts its events. Never blocks. Dropping it ends the thread behind it.
pub struct WaiterEvents {
    shared: Arc<Shared>,
    sender: SyncSender<LedgerEvent>,
}

/// Somebody who waits; no longer once it is dropped.
pub(crate) struct WaiterGuard {
    shared: Arc<Shared>,
    signature: Signature,
    notify: Arc<Notify>,
}

impl StatusWaiters {
    /// Begins to wake; where the events are put.
    ///
    /// Errors: the thread could not be started.
    pub(crate) fn start(&self) -> io::Result<WaiterEvents> {
        let (sender, events) = sync_channel(EVENTS_MAX);
        let shared = Arc::clone(&self.0);
        let thread = std::thread::Builder::new().name("waits".to_owned());
        thread.spawn(move || run_waker(&shared, &events))?;
        Ok(WaiterEvents { shared: Arc::clone(&self.0), sender })
    }

    /// How many wait now.
    pub(crate) fn len(&self) -> usize {
        self.0.waiters.load(Ordering::SeqCst)
    }

    /// Begins to wait for what becomes of a transaction. Look after it, and again after each wake.
    ///
    /// Errors: too many wait already.
    pub(crate) fn register(&self, signature: Signature) -> Result<WaiterGuard, RpcError> {
        let woken = Arc::new(Notify::new());
        let waiting = WaiterGuard { shared: Arc::clone(&self.0), signature, notify: woken };
        // Before he looks, as the writer publishes before it looks at this: one sees the other.
        let before = self.0.waiters.fetch_add(1, Ordering::SeqCst);
        if before >= WAITERS_MAX {
            let message = format!("too busy: {WAITERS_MAX} clients wait for transactions already");
            let data = json!({ "limit": "waiting", "waiting": WAITERS_MAX });
            return Err(RpcError::new(OVERLOADED, message).with_data(data));
        }
        let mut by_signature = self.0.by_signature.lock();
        by_signature.entry(signature).or_default().push(Arc::clone(&waiting.notify));
        drop(by_signature);
        Ok(waiting)
    }
}

impl WaiterGuard {
    /// Done when something became of the transaction since it was last called. Cancel safe.
    pub(crate) async fn notified(&self) {
        self.notify.notified().await;
    }
}

impl Drop for WaiterGuard {
    fn drop(&mut self) {
        let mut by_signature = self.shared.by_signature.lock();
        if let Some(waiting) = by_signature.get_mut(&self.signature) {
            waiting.retain(|it| !Arc::ptr_eq(it, &self.notify));
            if waiting.is_empty() {
                by_signature.remove(&self.signature);
            }
        }
        drop(by_signature);
        self.shared.waiters.fetch_sub(1, Ordering::SeqCst);
    }
}

impl EventSink for WaiterEvents {
    fn send(&mut self, event: &LedgerEvent) {
        let is_known = matches!(
            event,
            LedgerEvent::Executed(_)
                | LedgerEvent::Completed { .. }
                | LedgerEvent::Finalized { .. }
        );
        if !is_known || self.shared.waiters.load(Ordering::SeqCst) == 0 {
            return;
        }
        match self.sender.try_send(event.clone()) {
            Ok(()) => {}
            // The thread looks at the flag after each event, and it has a queue full of them.
            Err(TrySendError::Full(_)) => self.shared.events_lost.store(true, Ordering::Release),
            // It ends only with this sink.
            Err(TrySendError::Disconnected(_)) => {}
        }
    }
}

fn run_waker(shared: &Shared, events: &Receiver<LedgerEvent>) {
    while let Ok(event) = events.recv() {
        if shared.events_lost.swap(false, Ordering::AcqRel) {
            shared.by_signature.lock().values().flatten().for_each(|it| it.notify_one());
        }
        match &event {
            LedgerEvent::Executed(all) => {
                shared.wake(all.iter().map(|executed| executed.signature()))
            }
            LedgerEvent::Completed { block, .. } | LedgerEvent::Finalized { block, .. } => {
                shared.wake(block.transactions.iter().map(|executed| executed.signature()));
            }
            LedgerEvent::BankCreated { .. } | LedgerEvent::Voted(_) => {}
        }
    }
}

impl Shared {
    fn wake(&self, signatures: impl IntoIterator<Item = Signature>) {
        let by_signature = self.by_signature.lock();
        for signature in signatures {
            // Each is woken though he may look at something else just now: then he looks once more.
            by_signature.get(&signature).into_iter().flatten().for_each(|it| it.notify_one());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_waiter_too_many_is_rejected_and_takes_no_slot() {
        let waits = StatusWaiters::default();
        let signature = |n: usize| {
            let mut bytes = [0; 64];
            bytes[..8].copy_from_slice(&n.to_le_bytes());
            Signature::from(bytes)
        };
        // Two wait for each.
        let mut waiting: Vec<_> = (0..WAITERS_MAX)
            .map(|n| waits.register(signature(n / 2)).map_err(|err| err.to_string()).expect("room"))
            .collect();
        let refused = waits.register(signature(0)).map(|_| ()).expect_err("there is no room");
        assert!(refused.is_overload(), "{refused}");
        assert_eq!(waits.len(), WAITERS_MAX);
        drop(waiting.pop());
        assert!(waits.register(signature(0)).is_ok());
        waiting.clear();
        assert_eq!((waits.len(), waits.0.by_signature.lock().len()), (0, 0));
    }
}
