//! The share of each client in the server's bounds, so that no client uses them up.
//!
//! Shape: connections are shared by address. All else is shared by client: the API key of a call, or its address.
//! Bounds: the settings of [`Config`]. The last tenth of each is for clients that have few ([`ClientShares`]).

use std::sync::Arc;

use clients::{ClientId, ClientShares, Share, ShareNames};
use tonic::Status;

use crate::config::Config;

const CONNECTIONS: ShareNames = ShareNames {
    clients: ["address", "addresses"],
    units: "connections",
    each_settings: "grpc.connections_per_address_max",
    all_settings: "grpc.connections_max, grpc.connections_per_address_max",
};
const SUBSCRIPTIONS: ShareNames = client_names("subscriptions", "grpc.subscriptions_max");
const INCOMING_BYTES: ShareNames =
    client_names("bytes of requests that are not handled", "grpc.incoming_bytes_max");
const WAITING_CALLS: ShareNames =
    client_names("calls that wait for its rate", "grpc.subscriptions_max");
const HEALTH_WATCHES: ShareNames = client_names("streams of health", "grpc.connections_max");

/// Returns the names of a resource with one setting.
pub const fn client_names(units: &'static str, setting: &'static str) -> ShareNames {
    let clients = ["client", "clients"];
    ShareNames { clients, units, each_settings: setting, all_settings: setting }
}

/// The shares of all clients in the server's bounds.
pub struct Shares {
    /// Open connections, by address.
    pub(crate) connections: Arc<ClientShares>,
    pub(crate) subscriptions: Arc<ClientShares>,
    /// Bytes of request messages that are incomplete or not decoded.
    pub incoming: Arc<ClientShares>,
    /// `Watch` streams of the health service.
    pub(crate) health: Arc<ClientShares>,
    /// Calls that wait until they are due.
    pub(crate) waiting_calls: Arc<ClientShares>,
}

impl Shares {
    pub(crate) fn new(config: &Config) -> Self {
        let shares =
            |names, all_max, each_max| Arc::new(ClientShares::new(names, all_max, each_max));
        let connections_max = config.connections_max;
        let each_max = config.connections_per_address_max;
        Self {
            connections: shares(CONNECTIONS, connections_max, each_max),
            subscriptions: shares(SUBSCRIPTIONS, config.subscriptions_max, None),
            incoming: shares(INCOMING_BYTES, config.incoming_bytes_max, None),
            health: shares(HEALTH_WATCHES, connections_max, None),
            waiting_calls: shares(WAITING_CALLS, config.subscriptions_max, None),
        }
    }
}

/// Acquires one unit, within the client's share and the bound of all clients.
pub(crate) fn acquire_unit(shares: &Arc<ClientShares>, client: ClientId) -> Result<Share, Status> {
    let mut share = shares.empty_share(client);
    grow_share(&mut share, 1)?;
    Ok(share)
}

/// Adds units to a share, within the client's share and the bound of all clients.
///
/// Errors: the status of a share that is full.
pub fn grow_share(share: &mut Share, units: usize) -> Result<(), Status> {
    share.try_grow(units).map_err(|full| Status::resource_exhausted(full.to_string()))
}
