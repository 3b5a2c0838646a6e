//! The settings of an import: its peers, its file, its limits.

use std::fmt;
use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::time::Duration;

use kaspa::Network;

use crate::config::{ConnectionConfig, SessionConfig, SourceConfig};

/// A kaspad that sends its UTXO set, by its port for other nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerConfig {
    /// `HOST:PORT`.
    authority: String,
}

impl PeerConfig {
    /// Parses `HOST[:PORT]`. The default port is that of the network. `None` if the text has another form.
    pub fn parse(text: &str, network: Network) -> Option<Self> {
        let with_default = |host: &str| format!("{host}:{}", network.ports().p2p);
        let authority = match text.rsplit_once(':') {
            // All colons of an address without brackets are its own.
            _ if text.parse::<Ipv6Addr>().is_ok() => with_default(&format!("[{text}]")),
            Some((_, port)) if port.parse::<u16>().is_ok_and(|port| port > 0) => text.to_owned(),
            Some(_) if !text.ends_with(']') => return None,
            _ => with_default(text),
        };
        let (host, _) = authority.rsplit_once(':')?;
        let is_host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(address) => address.parse::<Ipv6Addr>().is_ok(),
            None => {
                let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
                !host.is_empty() && host.chars().all(is_name)
            }
        };
        is_host.then_some(Self { authority })
    }

    /// Returns the URL of its gRPC.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.authority)
    }
}

impl fmt::Display for PeerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.authority)
    }
}

/// The settings of an import.
#[derive(Clone, Debug)]
pub struct ImportConfig {
    /// The network.
    pub network: Network,
    /// The sources, the preferred one first. The first one that replies names the pruning point.
    pub sources: Vec<SourceConfig>,
    /// The limits of a connection to a source.
    pub connection: ConnectionConfig,
    /// The pauses after rounds over all peers without success.
    pub session: SessionConfig,
    /// The peers, the preferred one first. They are tried one after another.
    pub peers: Vec<PeerConfig>,
    /// The path of the snapshot file that the import writes. An unfinished import has two more files in its directory.
    pub snapshot: PathBuf,
    /// The limits of a peer.
    pub limits: ImportLimits,
}

/// The limits of a peer that sends its UTXO set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportLimits {
    /// Time limit of the connection. Default: 10 s.
    pub connect_timeout: Duration,
    /// Time limit of the handshake. kaspad itself waits for 4 s and 8 s. Default: 15 s.
    pub handshake_timeout: Duration,
    /// Time limit of a chunk of UTXOs. Default: 60 s.
    pub chunk_timeout: Duration,
    /// Time limit of the 99 chunks that follow a request. Default: 300 s.
    pub window_timeout: Duration,
    /// Time limit of the whole set. The pruning point of mainnet moves every twelve hours, and a source may no longer
    /// have the block of an older one. Default: 6 h.
    pub set_timeout: Duration,
    /// Bytes of a message. A chunk has 1,000 UTXOs, whose scripts have up to 10,000 bytes. Default: 16 MiB.
    pub message_bytes_max: usize,
    /// Bytes of the set in the file. That of mainnet has some 93 for each UTXO, 5 GB in 2026. Default: 32 GiB.
    pub set_bytes_max: u64,
}

impl ImportConfig {
    /// Creates the default settings.
    pub fn new(
        network: Network,
        sources: Vec<SourceConfig>,
        peers: Vec<PeerConfig>,
        snapshot: impl Into<PathBuf>,
    ) -> Self {
        Self {
            network,
            sources,
            connection: ConnectionConfig::default(),
            session: SessionConfig::default(),
            peers,
            snapshot: snapshot.into(),
            limits: ImportLimits::default(),
        }
    }
}

impl Default for ImportLimits {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            handshake_timeout: Duration::from_secs(15),
            chunk_timeout: Duration::from_secs(60),
            window_timeout: Duration::from_secs(300),
            set_timeout: Duration::from_secs(6 * 60 * 60),
            message_bytes_max: 16 << 20,
            set_bytes_max: 32 << 30,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_has_the_port_of_its_network() {
        let parse = |text: &str| PeerConfig::parse(text, Network::Mainnet);
        for (text, expected) in [
            ("127.0.0.1", "127.0.0.1:16111"),
            ("node.example", "node.example:16111"),
            ("node.example:1", "node.example:1"),
            ("::1", "[::1]:16111"),
            ("[::1]", "[::1]:16111"),
            ("[::1]:7", "[::1]:7"),
        ] {
            let peer = parse(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(peer.to_string(), expected);
            assert_eq!(peer.url(), format!("http://{expected}"));
        }
        for text in ["", ":1", "a:0", "a:99999", "a:b", "a b", "http://a:1", "a/b", "[::1", "u@a:1"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
