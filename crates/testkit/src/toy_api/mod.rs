//! A ledger of named counters, served by the serving layer: the proof that `http_server`, `response_cache`, `jsonrpc`
//! and `rest` name no chain, and that `websocket` knows no encoding.
//!
//! Shape: [`ToyApi`] is a table of methods over a real `query::Ledger`; [`ToyRest`] is the table that serves them over
//! REST; [`ToySubscriptions`] serves calls and two subscriptions over WebSocket, and [`ToyBinary`] the same in binary
//! messages. Each write is a block of its own, final at once. [`Counters::replace_tip`] makes a tip that is not final,
//! and replaces the one before.

pub mod binary;
mod ledger;
mod methods;
mod rest;
mod subscriptions;

use std::sync::Arc;

use ::ledger::{Commitment, Slot};
use api_keys::ApiKeys;
use clients::{Limits, RateLimiter};
use cpu_pool::Pool;
use http_server::{AllowedOrigins, Authenticator, HttpConfig, HttpContext};
use jsonrpc::{
    Api, Config, Health, MethodSpec, Metrics, Server, ServerContext, SlotWaits, SystemClock,
};
use query::ChangeTracker;
use response_cache::{LedgerVersions, ResponseCache};

pub use self::binary::{ToyBinary, ToyBinaryServer};
pub use self::ledger::{Counter, Counters};
pub use self::rest::ToyRest;
pub use self::subscriptions::{
    MethodTask, NoItems, ToySubscription, ToySubscriptions, pubsub_config,
};

/// The API of a ledger of counters.
#[derive(Clone)]
pub struct ToyApi {
    /// The ledger.
    pub counters: Counters,
}

impl LedgerVersions for ToyApi {
    fn version_and_slot(&self, commitment: Commitment) -> (u64, Slot) {
        let (version, block) = self.counters.reader.version_and_block(commitment);
        (version, block.slot)
    }

    fn change_tracker(&self) -> &Arc<ChangeTracker> {
        self.counters.reader.change_tracker()
    }
}

impl Api for ToyApi {
    const METHODS: &'static [&'static [MethodSpec<Self>]] = &[methods::METHODS];

    fn pinned(&self) -> Self {
        Self { counters: self.counters.pinned() }
    }
}

impl ToyApi {
    /// A server of a ledger without counters, with one CPU thread and the defaults of a node.
    ///
    /// Errors: the thread could not be started.
    pub fn server() -> std::io::Result<Server<Self>> {
        Self::server_with_keys(None)
    }

    /// Starts a server with API keys.
    pub fn server_with_keys(keys: Option<Arc<ApiKeys>>) -> std::io::Result<Server<Self>> {
        let pool = Pool::new(cpu_pool::Config::default(), Arc::new(SystemClock::new()), || {})?;
        let pool = Arc::new(pool);
        let metrics = Arc::new(Metrics::new(&Self::method_names()));
        let http_metrics = Arc::clone(metrics.http());
        let authenticator = keys.clone().map(|keys| Authenticator::new(keys, Arc::clone(&pool)));
        let http = HttpContext::new(http_config(), http_metrics).with_authenticator(authenticator);
        let config = Config {
            batch_max: 100,
            inline_bytes_max: 4_096,
            first_byte_timeout_ms: 45_000,
            slow_request_ms: 0,
            min_slot_wait_ms: 0,
            min_slot_waits_max: 100,
        };
        let context = ServerContext {
            http: Arc::new(http),
            pool,
            clients: Arc::new(RateLimiter::new(Limits::default()).with_api_keys(keys)),
            response_cache: Arc::new(ResponseCache::new(1 << 20)),
            metrics,
            health: Arc::new(Health::default()),
            slot_waits: Arc::new(SlotWaits::new(&config)),
            config,
        };
        Ok(Server::new(Self { counters: Counters::new() }, context))
    }
}

fn http_config() -> HttpConfig {
    HttpConfig {
        body_bytes_max: 50 * 1024,
        head_bytes_max: 16 * 1024,
        uri_bytes_max: 8 * 1024,
        list_header_bytes_max: 4 * 1024,
        connections_max: 100,
        connections_per_address_max: Some(100),
        header_timeout_ms: 30_000,
        keep_alive_ms: 920_000,
        body_timeout_ms: 10_000,
        write_timeout_ms: 30_000,
        client_header: None,
        allowed_origins: AllowedOrigins::default(),
    }
}
