//! The addresses at which a node serves.

use std::net::SocketAddr;

/// The addresses of a node's ports, as programs on the same machine reach them.
#[derive(Clone, Debug)]
pub struct NodeAddresses {
    /// JSON-RPC, REST and WebSocket. Of a node of Kaspa: wRPC in Borsh.
    pub rpc: SocketAddr,
    /// WebSocket without JSON-RPC or REST. Of a node of Kaspa: wRPC in JSON.
    pub pubsub: SocketAddr,
    /// Transactions over QUIC, if they are accepted.
    pub tpu: Option<SocketAddr>,
    /// Yellowstone gRPC, or kaspad's gRPC on a node of Kaspa, if it is served.
    pub grpc: Option<SocketAddr>,
    /// The faucet over TCP, if it is served.
    pub faucet: Option<SocketAddr>,
    /// The ports of a node of Kaspa.
    pub kaspa: Option<KaspaAddresses>,
    /// Whether HTTP, WebSocket and gRPC are served over TLS only.
    pub is_tls: bool,
}

/// The addresses of the ports that a node of Kaspa has.
#[derive(Clone, Copy, Debug)]
pub struct KaspaAddresses {
    /// wRPC in Borsh.
    pub wrpc_borsh: SocketAddr,
    /// wRPC in JSON.
    pub wrpc_json: SocketAddr,
    /// The methods that kaspad lacks, over JSON-RPC, if they are served.
    pub rpc: Option<SocketAddr>,
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

    /// Returns the URL of gRPC, if it is served.
    pub fn grpc_url(&self) -> Option<String> {
        self.grpc.map(|address| self.url("http", address))
    }

    fn url(&self, scheme: &str, address: SocketAddr) -> String {
        let tls = if self.is_tls { "s" } else { "" };
        format!("{scheme}{tls}://{address}")
    }

    /// Returns the URL of wRPC in Borsh, if the node is one of Kaspa.
    pub fn wrpc_borsh_url(&self) -> Option<String> {
        self.kaspa.map(|kaspa| self.url("ws", kaspa.wrpc_borsh))
    }

    /// Returns the URL of wRPC in JSON, if the node is one of Kaspa.
    pub fn wrpc_json_url(&self) -> Option<String> {
        self.kaspa.map(|kaspa| self.url("ws", kaspa.wrpc_json))
    }

    /// Returns the URL of the JSON-RPC of a node of Kaspa, if it is served.
    pub fn kaspa_rpc_url(&self) -> Option<String> {
        self.kaspa.and_then(|kaspa| kaspa.rpc).map(|address| self.url("http", address))
    }

    /// Returns the main service with its URL, as a service manager shows it.
    pub(crate) fn status(&self) -> String {
        match self.wrpc_borsh_url() {
            Some(url) => format!("wRPC in Borsh on {url}"),
            None => format!("JSON-RPC on {}", self.rpc_url()),
        }
    }

    /// The addresses as the JSON of `--endpoints-file`.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        if self.kaspa.is_some() {
            let mut endpoints = serde_json::json!({
                "wrpc_borsh": self.wrpc_borsh_url(),
                "wrpc_json": self.wrpc_json_url(),
            });
            if let Some(url) = self.kaspa_rpc_url() {
                endpoints["rpc"] = url.into();
            }
            if let Some(url) = self.grpc_url() {
                endpoints["grpc"] = url.into();
            }
            return endpoints;
        }
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
