//! The state that all connections of a server share.

use tokio::sync::watch;

use crate::config::Config;
use crate::counters::ServerCounters;
use crate::request_budget::RequestBudget;
use crate::shares::Shares;

/// The state that all connections of a server share.
pub struct ServerState {
    /// The settings of connections, streams and requests.
    pub config: Config,
    /// The counters of connections, calls and requests.
    pub counters: ServerCounters,
    /// The shares of clients in the bounds.
    pub shares: Shares,
    /// The rates of clients' requests and calls.
    pub request_budget: RequestBudget,
    /// Notified after API keys were removed.
    pub removals: watch::Sender<()>,
}

impl ServerState {
    /// Creates the state of a server without connections.
    pub fn new(config: Config) -> Self {
        Self {
            counters: ServerCounters::new(),
            shares: Shares::new(&config),
            request_budget: RequestBudget::new(&config),
            removals: watch::Sender::new(()),
            config,
        }
    }
}
