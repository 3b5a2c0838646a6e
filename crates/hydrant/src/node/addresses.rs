//! The addresses at which a node serves.

use std::net::SocketAddr;

/// The addresses of a node's ports, as programs on the same machine reach them.
#[derive(Clone, Debug)]
pub struct NodeAddresses {
    /// JSON-RPC, REST and WebSocket.
    pub rpc: SocketAddr,
    /// WebSocket without JSON-RPC or REST.
    pub pubsub: SocketAddr,
    /// Transactions over QUIC, if they are accepted.
    pub tpu: Option<SocketAddr>,
    /// Yellowstone gRPC, if it is served.
    pub grpc: Option<SocketAddr>,
    /// The faucet over TCP, if it is served.
    pub faucet: Option<SocketAddr>,
    /// Whether HTTP, WebSocket and gRPC are served over TLS only.
    pub is_tls: bool,
}

impl NodeAddresses {
    /// Returns the URL of JSON-RPC and REST.
    pub fn rpc_url(&self) -> String {
        self.url("http", self.rpc)
    }

    /// Returns the URL of WebSocket.
    pub fn pubsub_url(&self) -> String {
        self.url("ws", self.pubsub)
    }

    /// Returns the URL of Yellowstone gRPC, if it is served.
    pub fn grpc_url(&self) -> Option<String> {
        self.grpc.map(|address| self.url("http", address))
    }

    fn url(&self, scheme: &str, address: SocketAddr) -> String {
        let tls = if self.is_tls { "s" } else { "" };
        format!("{scheme}{tls}://{address}")
    }

    /// The addresses as the JSON of `--endpoints-file`.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        let mut endpoints = serde_json::json!({ "rpc": self.rpc_url(), "ws": self.pubsub_url() });
        let others = [
            ("tpu", self.tpu.map(|address| address.to_string())),
            ("grpc", self.grpc_url()),
            ("faucet", self.faucet.map(|address| address.to_string())),
        ];
        for (name, address) in others {
            if let Some(address) = address {
                endpoints[name] = address.into();
            }
        }
        endpoints
    }
}
