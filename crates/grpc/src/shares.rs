//! The share of each client in the bounds of filters, so that no client uses them up.
//!
//! Bounds: the settings of [`Config`]. The last tenth of each is for clients that have few ([`ClientShares`]).
//! Not here: the shares of connections, subscriptions and requests (`grpc_server`).

use std::sync::Arc;

use clients::{ClientShares, ShareNames};
use grpc_server::client_names;

use crate::config::Config;

const FILTERS_BYTES: ShareNames = client_names("bytes of filters", "grpc.filters_bytes_max");
const UNINDEXED_COST: ShareNames = client_names(
    "units of filters without an address, owner or signature",
    "grpc.unindexed_cost_max",
);

pub(crate) struct FilterShares {
    /// Estimated bytes of filters, with their index.
    pub(crate) filters: Arc<ClientShares>,
    /// The cost of filters that every update of their kind tries.
    pub(crate) unindexed_cost: Arc<ClientShares>,
}

impl FilterShares {
    pub(crate) fn new(config: &Config) -> Self {
        let shares = |names, all_max| Arc::new(ClientShares::new(names, all_max, None));
        Self {
            filters: shares(FILTERS_BYTES, config.filters_bytes_max),
            unindexed_cost: shares(UNINDEXED_COST, config.unindexed_cost_max),
        }
    }
}
