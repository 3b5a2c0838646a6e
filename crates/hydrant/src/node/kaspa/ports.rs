//! The ports of a node of Kaspa: wRPC in both encodings, and JSON-RPC and gRPC on request.
//!
//! Not here: the servers on these ports (`mod.rs`).

use std::net::{IpAddr, SocketAddr, TcpListener};

use anyhow::{Context, Result};
use kaspa::Network;

/// The ports of a node of Kaspa; 0 is a free one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KaspaPorts {
    /// wRPC in Borsh. `None`: the port of kaspad on the network.
    pub(crate) wrpc_borsh: Option<u16>,
    /// wRPC in JSON. `None`: the port of kaspad on the network.
    pub(crate) wrpc_json: Option<u16>,
    /// JSON-RPC. `None`: it is not served.
    pub(crate) rpc: Option<u16>,
    /// kaspad's gRPC. `None`: it is not served.
    pub(crate) grpc: Option<u16>,
}

impl KaspaPorts {
    /// Returns the port of wRPC in Borsh.
    pub(crate) fn borsh(self, network: Network) -> u16 {
        self.wrpc_borsh.unwrap_or_else(|| network.ports().borsh)
    }

    /// Returns the port of wRPC in JSON.
    pub(crate) fn json(self, network: Network) -> u16 {
        self.wrpc_json.unwrap_or_else(|| network.ports().json)
    }
}

/// The bound ports of a node of Kaspa.
pub(crate) struct BoundKaspaPorts {
    pub(super) borsh: TcpListener,
    pub(super) json: TcpListener,
    pub(super) rpc: Option<TcpListener>,
    pub(super) grpc: Option<TcpListener>,
}

impl BoundKaspaPorts {
    /// Binds the ports of a node of a network.
    pub(crate) fn bind(ip: IpAddr, ports: KaspaPorts, network: Network) -> Result<Self> {
        let listen = |port: u16, flag: &str| {
            TcpListener::bind(SocketAddr::new(ip, port))
                .with_context(|| format!("listen on {ip}:{port} (--bind-address, {flag})"))
        };
        Ok(Self {
            borsh: listen(ports.borsh(network), "--wrpc-borsh-port")?,
            json: listen(ports.json(network), "--wrpc-json-port")?,
            rpc: ports.rpc.map(|port| listen(port, "--rpc-port")).transpose()?,
            grpc: ports.grpc.map(|port| listen(port, "--grpc-port")).transpose()?,
        })
    }
}
