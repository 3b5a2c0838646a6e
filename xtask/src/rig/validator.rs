//! A validator of a run: its ports and its plugin.

use std::net::SocketAddr;

use anyhow::{Context, Result};

use crate::rig::cuts::Wire;
use crate::rig::ports::{free_port_range, free_ports, local};

/// The feature that refuses programs of version 0: the load deploys published ones.
pub(crate) const VERSION_0_REFUSED: &str = "B8JJXCy5amZyWG9r7EnUYLwzXSXTxG7GZ1qZ1qggo83g";
/// Number of ports of a cluster's validator without those of gossip and RPC.
const PORT_RANGE: u16 = 40;

/// A validator of a run.
pub(crate) struct Validator {
    pub(crate) name: String,
    pub(crate) rpc: SocketAddr,
    pub(crate) gossip: u16,
    /// First port of its range.
    pub(crate) first_port: u16,
    pub(crate) faucet: u16,
    pub(crate) plugin: Option<Plugin>,
}

/// Our plugin within a validator.
pub(crate) struct Plugin {
    pub(crate) grpc: SocketAddr,
    pub(crate) metrics: u16,
    /// Between the plugin and the followers, if there are faults.
    wire: Option<Wire>,
}

impl Validator {
    pub(crate) fn single(has_faults: bool) -> Result<Self> {
        let [rpc, grpc, metrics, faucet, gossip] = free_ports()?;
        let plugin = Plugin::new(grpc, metrics, has_faults)?;
        let name = "validator".to_owned();
        Ok(Self { name, rpc: local(rpc), gossip, first_port: 0, faucet, plugin: Some(plugin) })
    }

    /// Three validators. The first two, with most of the stake, have the plugin.
    pub(crate) fn of_cluster(has_faults: bool) -> Result<Vec<Self>> {
        let [a, b, c, grpc_a, grpc_b, metrics_a, metrics_b, gossip_a, gossip_b, gossip_c] =
            free_ports()?;
        let plugins = [
            Some(Plugin::new(grpc_a, metrics_a, has_faults)?),
            Some(Plugin::new(grpc_b, metrics_b, has_faults)?),
            None,
        ];
        let ranges = free_port_range(3 * PORT_RANGE)?;
        let ports = [(a, gossip_a), (b, gossip_b), (c, gossip_c)];
        let names = ["validator-a", "validator-b", "validator-c"];
        let firsts = (ranges..).step_by(usize::from(PORT_RANGE));
        let all = names.into_iter().zip(ports).zip(plugins).zip(firsts);
        let validators = all.map(|(((name, (rpc, gossip)), plugin), first_port)| Self {
            name: name.to_owned(),
            rpc: local(rpc),
            gossip,
            first_port,
            faucet: 0,
            plugin,
        });
        Ok(validators.collect())
    }

    /// Returns the last port of its range.
    pub(crate) fn last_port(&self) -> u16 {
        self.first_port + PORT_RANGE - 1
    }

    /// Returns the connection to its plugin that faults cut.
    pub(crate) fn wire(&self) -> Option<&Wire> {
        self.plugin.as_ref()?.wire.as_ref()
    }

    /// Returns the address of its plugin.
    pub(crate) fn grpc(&self) -> Result<SocketAddr> {
        Ok(self.plugin.as_ref().context("it has no plugin")?.grpc)
    }

    pub(crate) fn source(&self) -> Option<SocketAddr> {
        let plugin = self.plugin.as_ref()?;
        Some(plugin.wire.as_ref().map_or(plugin.grpc, Wire::address))
    }
}

impl Plugin {
    fn new(grpc: u16, metrics: u16, has_faults: bool) -> Result<Self> {
        let grpc = local(grpc);
        let wire = has_faults.then(|| Wire::start(grpc)).transpose()?;
        Ok(Self { grpc, metrics, wire })
    }
}
