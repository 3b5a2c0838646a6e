//! Calls that wait until the ledger has reached a slot: those whose `minContextSlot`, or `hydrant-min-slot` of their
//! request, is above the slot of the state that they read.
//!
//! In: the required slots of a body's calls, by commitment. Out: the slots of the states when all of them are reached,
//! or when the time limit has passed. The caller decides how to answer a call whose slot was not reached.
//! A publish of the ledger wakes [`SlotWaits::run`], which wakes the calls whose slot is reached, and no others. The
//! writer wakes one task, however many calls wait, and none if none waits.
//! Bounds: [`Config::min_slot_waits_max`] bodies, with shares of clients, and [`Config::min_slot_wait_ms`] each. A wait
//! holds no thread and no task of the pool. It ends when its future is dropped, because the client has disconnected.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use clients::{ClientId, ClientShares, ShareNames};
use ledger::{Commitment, Slot};
use metrics::{Counters, Exposition, MetricKind};
use parking_lot::Mutex;
use response_cache::LedgerVersions;
use tokio::sync::Notify;

use crate::config::Config;
use crate::error::{OVERLOADED, RpcError};
use crate::state_slots::{RequiredSlots, StateSlots, commitment_index};

/// Estimated memory of a wait, in addition to that of its connection: its calls, its future and its entry here.
const WAIT_BYTES: u64 = 4 * 1024;

const SHARE_NAMES: ShareNames = ShareNames {
    clients: ["client", "clients"],
    units: "requests that wait for a slot",
    each_settings: "rpc.min_slot_waits_max",
    all_settings: "rpc.min_slot_waits_max",
};

/// The calls that wait for a slot.
pub struct SlotWaits {
    time_limit: Duration,
    shares: Arc<ClientShares>,
    waiters: Mutex<Waiters>,
    /// Notified when the first call waits.
    has_waiters: Notify,
    ends: Counters,
}

#[derive(Default)]
struct Waiters {
    next_id: u64,
    /// For each commitment the waiting calls in the order of their slots.
    by_slot: [BTreeMap<WaiterKey, Arc<Notify>>; 3],
}

/// The slot that a call waits for, and a number that no other waiter has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct WaiterKey {
    slot: Slot,
    id: u64,
}

/// A waiting call. Dropping it ends the wait.
struct WaiterGuard<'a> {
    waits: &'a SlotWaits,
    commitment: Commitment,
    key: WaiterKey,
    notify: Arc<Notify>,
}

/// The reason for the end of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WaitEnd {
    Reached,
    TimedOut,
    /// Too many requests wait, of this client or of all.
    Refused,
    /// The client has disconnected.
    Abandoned,
}

/// Counts the end of a wait when it is dropped.
struct CountedWait<'a> {
    waits: &'a SlotWaits,
    end: WaitEnd,
}

impl SlotWaits {
    /// No call waits if the time limit of `config` is 0.
    pub fn new(config: &Config) -> Self {
        Self {
            time_limit: Duration::from_millis(config.min_slot_wait_ms),
            shares: Arc::new(ClientShares::new(SHARE_NAMES, config.min_slot_waits_max, None)),
            waiters: Mutex::default(),
            has_waiters: Notify::new(),
            ends: Counters::new(WaitEnd::ALL.len()),
        }
    }

    /// Whether calls wait at all.
    pub(crate) fn are_enabled(&self) -> bool {
        !self.time_limit.is_zero()
    }

    /// The time limit of a wait, for errors.
    pub(crate) fn time_limit(&self) -> Duration {
        self.time_limit
    }

    /// The number of requests that wait.
    pub fn len(&self) -> usize {
        self.shares.units_in_use()
    }

    /// Whether no request waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits until the states have reached all required slots, but no longer than the time limit. Returns the slots of
    /// the states.
    ///
    /// Errors: too many requests wait, of this client or of all.
    pub(crate) async fn wait(
        &self,
        ledger: &dyn LedgerVersions,
        client: ClientId,
        required: RequiredSlots,
    ) -> Result<StateSlots, RpcError> {
        let mut counted = CountedWait { waits: self, end: WaitEnd::Refused };
        let mut share = self.shares.empty_share(client);
        share.try_grow(1).map_err(|full| {
            let data = serde_json::json!({ "limit": "waiting", "waiting": full.in_use });
            RpcError::new(OVERLOADED, format!("too busy: {full}")).with_data(data)
        })?;
        counted.end = WaitEnd::Abandoned;
        let wait_all = async {
            for commitment in Commitment::ALL {
                if let Some(slot) = required.slot(commitment) {
                    self.wait_reached(ledger, commitment, slot).await;
                }
            }
        };
        let is_reached = tokio::time::timeout(self.time_limit, wait_all).await.is_ok();
        counted.end = if is_reached { WaitEnd::Reached } else { WaitEnd::TimedOut };
        Ok(StateSlots::read(ledger))
    }

    async fn wait_reached(&self, ledger: &dyn LedgerVersions, commitment: Commitment, slot: Slot) {
        loop {
            let waiter = self.register(commitment, slot);
            // After it is registered: a later publish wakes it. The processed state may have changed to an older block
            // since it was woken.
            if ledger.version_and_slot(commitment).1 >= slot {
                return;
            }
            waiter.notify.notified().await;
        }
    }

    fn register(&self, commitment: Commitment, slot: Slot) -> WaiterGuard<'_> {
        let notify = Arc::new(Notify::new());
        let mut waiters = self.waiters.lock();
        let was_empty = waiters.is_empty();
        let key = WaiterKey { slot, id: waiters.next_id };
        waiters.next_id += 1;
        waiters.by_slot[commitment_index(commitment)].insert(key, Arc::clone(&notify));
        drop(waiters);
        if was_empty {
            self.has_waiters.notify_one();
        }
        WaiterGuard { waits: self, commitment, key, notify }
    }

    /// After each publish, wakes the calls that required a slot up to the new ones, until the future is dropped.
    /// Without it, calls wait until their time limit.
    pub(crate) async fn run(&self, ledger: &dyn LedgerVersions) {
        loop {
            self.has_waiters.notified().await;
            poll_fn(|cx| {
                // Before the slots are read: a later publish wakes this task.
                ledger.change_tracker().publish_wakers().register(cx.waker());
                self.wake_reached(StateSlots::read(ledger))
            })
            .await;
        }
    }

    /// Wakes the calls whose slot is reached. Ready if no other call waits.
    fn wake_reached(&self, slots: StateSlots) -> Poll<()> {
        let mut waiters = self.waiters.lock();
        for commitment in Commitment::ALL {
            let by_slot = &mut waiters.by_slot[commitment_index(commitment)];
            while let Some(first) = by_slot.first_entry() {
                if first.key().slot > slots.at(commitment) {
                    break;
                }
                first.remove().notify_one();
            }
        }
        if waiters.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    }

    pub(crate) fn write_metrics(&self, exposition: &mut Exposition) {
        let help = "Requests that wait until the node has reached a slot.";
        exposition.single("hydrant_slot_waits", MetricKind::Gauge, help, self.len());
        let help = "Requests that waited for a slot, by the end of the wait.";
        let mut family = exposition.family("hydrant_slot_waits_total", MetricKind::Counter, help);
        for end in WaitEnd::ALL {
            family.put(&[("end", end.name())], self.ends.sum(end.number()));
        }
    }

    /// Estimated memory of all waits.
    pub(crate) fn bytes(&self) -> u64 {
        self.len() as u64 * WAIT_BYTES
    }
}

impl Waiters {
    fn is_empty(&self) -> bool {
        self.by_slot.iter().all(BTreeMap::is_empty)
    }
}

impl Drop for WaiterGuard<'_> {
    fn drop(&mut self) {
        self.waits.waiters.lock().by_slot[commitment_index(self.commitment)].remove(&self.key);
    }
}

impl Drop for CountedWait<'_> {
    fn drop(&mut self) {
        self.waits.ends.add(self.end.number(), 1);
    }
}

impl WaitEnd {
    const ALL: [Self; 4] = [Self::Reached, Self::TimedOut, Self::Refused, Self::Abandoned];

    fn number(self) -> usize {
        match self {
            Self::Reached => 0,
            Self::TimedOut => 1,
            Self::Refused => 2,
            Self::Abandoned => 3,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Reached => "reached",
            Self::TimedOut => "timed_out",
            Self::Refused => "refused",
            Self::Abandoned => "abandoned",
        }
    }
}
