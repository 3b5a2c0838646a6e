//! Metrics of the CPU pool and the response cache, which every server has.

use metrics::{Collector, Exposition};

use super::{api_keys, pool_metrics, response_cache};
use crate::server_context::ServerContext;

impl Collector for ServerContext {
    fn write(&self, exposition: &mut Exposition) {
        pool_metrics::write(exposition, &self.pool, &self.clients, &self.metrics);
        response_cache::write(exposition, self.response_cache.counters());
        self.slot_waits.write_metrics(exposition);
        if let Some(keys) = self.clients.api_keys() {
            api_keys::write(exposition, keys);
        }
    }

    fn memory(&self) -> Vec<(&'static str, u64)> {
        let keys = self.clients.api_keys().map(|keys| ("api_keys", keys.memory_bytes()));
        let cache = ("response_cache", self.response_cache.counters().bytes);
        let waits = ("slot_waits", self.slot_waits.bytes());
        [cache, waits].into_iter().chain(keys).collect()
    }
}
