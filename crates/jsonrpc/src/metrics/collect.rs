//! The metrics of what every server has: the CPU pool and the response cache.

use metrics::{Collector, Exposition};

use super::{cpu_pool, response_cache};
use crate::server_context::ServerContext;

impl Collector for ServerContext {
    fn write(&self, exposition: &mut Exposition) {
        cpu_pool::write(exposition, &self.pool, &self.clients, &self.metrics);
        response_cache::write(exposition, self.response_cache.counters());
    }

    fn memory(&self) -> Vec<(&'static str, u64)> {
        vec![("response_cache", self.response_cache.counters().bytes)]
    }
}
