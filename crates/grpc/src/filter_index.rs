//! Filters of a client in the index: inserted and removed in steps, so that the publisher waits for a step at most.
//!
//! Shape: a set of filters is indexed before it replaces another, and removed after that. Until a listener has it, the
//! publisher finds it and leaves it out.
//! Bounds: [`KEYS_PER_STEP`] under the lock of the indices. A set counts for its client until it is removed.

use std::sync::Arc;

use clients::ClientId;
use grpc_server::{Event, grow_share};
use ledger::Slot;
use tonic::Status;

use crate::broker::Broker;
use crate::filter::FilterSet;
use crate::ids::ListenerId;
use crate::indexed_set::IndexedSet;
use crate::log::Cursor;

/// Keys that one step inserts or removes, in some 100 µs. A larger value delays the publisher for longer.
const KEYS_PER_STEP: usize = 512;

/// Estimated bytes of filters that the thread that drops them removes itself: those of one step. A larger value delays
/// the connections of that thread for longer.
const INLINE_FILTER_BYTES_MAX: usize = KEYS_PER_STEP * 150;

/// Indexed filters that no listener has. Dropping them removes them from the index.
pub(crate) struct IndexedFilters {
    broker: Arc<Broker>,
    set: Option<IndexedSet>,
}

impl IndexedFilters {
    /// Puts filters into the index, within the shares of their client.
    pub(crate) fn new(
        broker: &Arc<Broker>,
        client: ClientId,
        filters: FilterSet,
    ) -> Result<Self, Status> {
        let refused = |status| {
            broker.server.counters.record(Event::SubscriptionRefused);
            status
        };
        let mut bytes_share = broker.shares.filters.empty_share(client);
        grow_share(&mut bytes_share, filters.bytes()).map_err(refused)?;
        let mut cost_share = broker.shares.unindexed_cost.empty_share(client);
        grow_share(&mut cost_share, filters.unindexed_cost()).map_err(refused)?;
        let set = IndexedSet::new(broker.next_set(), filters, [bytes_share, cost_share]);
        broker.with_index(set.filters.commitment, |index| index.start_set(&set.filters));
        for keys in set.filters.index_keys().chunks(KEYS_PER_STEP) {
            broker.with_index(set.filters.commitment, |index| index.insert(set.id, keys));
        }
        Ok(Self { broker: Arc::clone(broker), set: Some(set) })
    }

    /// Disconnects a listener, and removes its filters.
    pub(crate) fn disconnect(broker: &Arc<Broker>, listener: ListenerId) {
        let set = broker.disconnect(listener);
        drop(Self { broker: Arc::clone(broker), set });
    }

    pub(crate) fn filters(&self) -> Option<&Arc<FilterSet>> {
        self.set.as_ref().map(|set| &set.filters)
    }

    /// Gives the filters to a listener in place of its own. With a slot, it replays from the returned cursor; without, it
    /// stays where it is: live, or at the cursor of its replay.
    pub(crate) fn replace_those_of(
        mut self,
        listener: ListenerId,
        from_slot: Option<Slot>,
    ) -> Result<Option<Cursor>, Status> {
        let Some(set) = self.set.take() else { return Ok(None) };
        let (replaced, start) = self.broker.replace_filters(listener, set, from_slot);
        self.set = replaced;
        start
    }
}

impl Drop for IndexedFilters {
    fn drop(&mut self) {
        let Some(set) = self.set.take() else { return };
        let broker = Arc::clone(&self.broker);
        match &self.broker.worker {
            Some(worker) if set.filters.bytes() > INLINE_FILTER_BYTES_MAX => {
                // The task is detached. If the runtime has shut down, the index goes with the server.
                worker.spawn_blocking(move || remove(&broker, &set));
            }
            _ => remove(&broker, &set),
        }
    }
}

fn remove(broker: &Broker, set: &IndexedSet) {
    for keys in set.filters.index_keys().chunks(KEYS_PER_STEP) {
        broker.with_index(set.filters.commitment, |index| index.remove(set.id, keys));
    }
    broker.with_index(set.filters.commitment, |index| index.end_set(&set.filters));
}
