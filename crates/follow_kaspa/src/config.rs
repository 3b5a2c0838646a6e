//! The settings of a follower: its sources, timeouts, intervals and limits.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use http_client::Server;
use kaspa::{Event, Network};

/// The schemes of wRPC without and with TLS, and those of HTTP that begin in the same way.
const SCHEMES: [(&str, &str); 2] = [("ws://", "http://"), ("wss://", "https://")];

/// A kaspad that is followed, by its port for wRPC in Borsh.
#[derive(Clone, PartialEq, Eq)]
pub struct SourceConfig {
    /// The URL: `ws[s]://HOST:PORT[/PATH]`. With `wss` the server needs a certificate that this machine trusts.
    pub url: String,
}

impl SourceConfig {
    /// Creates the settings of a source.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into() }
    }

    /// Returns what logs and responses show of the source.
    pub fn server(&self) -> Server {
        Server::from_url(&self.url)
    }

    /// Whether the URL can be connected to: the scheme is `ws` or `wss`, and the host and the port are valid.
    pub fn has_valid_url(&self) -> bool {
        let rest = SCHEMES.iter().find_map(|(scheme, _)| self.url.strip_prefix(scheme));
        let authority = rest.and_then(|rest| rest.split(['/', '?', '#']).next());
        let port = authority.and_then(|authority| authority.rsplit_once(':'));
        let has_port = port.is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let has_user = authority.is_some_and(|authority| authority.contains('@'));
        has_port && !has_user && self.server().is_valid()
    }

    /// Returns the URL of the handshake.
    pub(crate) fn http_url(&self) -> String {
        let to_http = |(scheme, http): &(&str, &str)| {
            self.url.strip_prefix(scheme).map(|rest| format!("{http}{rest}"))
        };
        SCHEMES.iter().find_map(to_http).unwrap_or_else(|| self.url.clone())
    }
}

/// The server only: a path may contain a secret.
impl fmt::Debug for SourceConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SourceConfig({})", self.server())
    }
}

/// The settings of a follower.
#[derive(Clone, Debug)]
pub struct FollowerConfig {
    /// The network. Sources of other networks are refused.
    pub network: Network,
    /// The sources, the preferred one first. One of them is followed at a time.
    pub sources: Vec<SourceConfig>,
    /// Kaspads by their ports for wRPC in JSON. New blocks that are passed on to clients in JSON come from one of them.
    /// Without one, these clients lack blockAdded.
    pub json_sources: Vec<SourceConfig>,
    /// The limits of a connection.
    pub connection: ConnectionConfig,
    /// The intervals of a session.
    pub session: SessionConfig,
    /// The file that the UTXO set of the newest final block is written to, if any.
    pub snapshot: Option<SnapshotConfig>,
    /// Whether the program imports a UTXO set ([`crate::import_chain`]) at a start without a snapshot file. Then a
    /// chain that no source continues starts again at the pruning point.
    pub can_import: bool,
}

/// The limits of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionConfig {
    /// Time limit of the TCP handshake and of the WebSocket handshake. Default: 10 s.
    pub connect_timeout: Duration,
    /// Time limit of a call. kaspad needs up to a minute for a page of full blocks. Default: 120 s.
    pub call_timeout: Duration,
    /// Bytes of a message. A page of the chain has at most 2,480 merged blocks, some 300 MB if all of them are full. A
    /// page that is longer is requested block by block. Default: 512 MiB.
    pub message_bytes_max: usize,
    /// Bytes of notifications that arrive while a reply is awaited, and of their entries in the queue. The connection is
    /// closed above it. Default: 128 MiB.
    pub notification_bytes_max: usize,
    /// Bytes of notifications that wait for the writer. At this limit nothing more is read. Default: 64 MiB.
    pub queue_bytes_max: usize,
}

/// The intervals of a session with a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionConfig {
    /// The chain is requested at this interval, also without a notification. It finds a connection that is dead.
    /// Default: 5 s.
    pub poll_interval: Duration,
    /// Interval between comparisons with a block template. kaspad builds one for each. Default: 10 s.
    pub template_interval: Duration,
    /// Interval between these comparisons while the virtual state may be incomplete. Default: 1 s.
    pub joining_interval: Duration,
    /// Time after which an announced DAA score is shown without a change of UTXOs. Default: 50 ms.
    pub daa_score_delay: Duration,
    /// Time without a new chain block after which another source is tried, if there is one. Default: 60 s.
    pub stall_timeout: Duration,
    /// Interval between comparisons of our sink with the chains of all sources, if there are several. Default: 15 s.
    pub agreement_interval: Duration,
    /// The pauses after rounds without success start with this one and double. Default: 250 ms.
    pub reconnect_delay_min: Duration,
    /// The longest pause. Default: 10 s.
    pub reconnect_delay_max: Duration,
    /// Events that are passed on to the sinks as they come. The chain's own events are not among them.
    pub relayed_events: Vec<Event>,
}

/// The snapshot file of a follower.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotConfig {
    /// The path of the file. It is replaced as a whole.
    pub path: PathBuf,
    /// Interval between two writes; the last one is at the end. Default: 10 minutes.
    pub interval: Duration,
}

impl FollowerConfig {
    /// Creates the default settings for a network and its sources.
    pub fn new(network: Network, sources: Vec<SourceConfig>) -> Self {
        Self {
            network,
            sources,
            json_sources: Vec::new(),
            connection: ConnectionConfig::default(),
            session: SessionConfig::default(),
            snapshot: None,
            can_import: false,
        }
    }
}

impl SnapshotConfig {
    /// Creates the default settings for a path.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), interval: Duration::from_secs(600) }
    }
}

impl Default for ConnectionConfig {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            call_timeout: Duration::from_secs(120),
            message_bytes_max: 512 << 20,
            notification_bytes_max: 128 << 20,
            queue_bytes_max: 64 << 20,
        }
    }
}

impl Default for SessionConfig {
    fn default() -> Self {
        Self {
            poll_interval: Duration::from_secs(5),
            template_interval: Duration::from_secs(10),
            joining_interval: Duration::from_secs(1),
            daa_score_delay: Duration::from_millis(50),
            stall_timeout: Duration::from_secs(60),
            agreement_interval: Duration::from_secs(15),
            reconnect_delay_min: Duration::from_millis(250),
            reconnect_delay_max: Duration::from_secs(10),
            relayed_events: vec![
                Event::BlockAdded,
                Event::NewBlockTemplate,
                Event::FinalityConflict,
                Event::FinalityConflictResolved,
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_needs_its_scheme_and_port() {
        let valid = |url: &str| SourceConfig::new(url).has_valid_url();
        let accepted = [
            "ws://127.0.0.1:17110",
            "ws://kaspa.example:1/path",
            "ws://[::1]:17110",
            "wss://kaspa.example:443",
        ];
        for url in accepted {
            assert!(valid(url), "{url}");
        }
        let refused = [
            "http://127.0.0.1:17110",
            "127.0.0.1:17110",
            "ws://127.0.0.1",
            "ws://user:key@127.0.0.1:1",
            "ws://127.0.0.1:99999",
            "ws://:1",
            "",
        ];
        for url in refused {
            assert!(!valid(url), "{url}");
        }
        let source = SourceConfig::new("ws://127.0.0.1:1/secret");
        assert_eq!(format!("{source:?}"), "SourceConfig(ws://127.0.0.1:1)");
        assert_eq!(source.http_url(), "http://127.0.0.1:1/secret");
        assert_eq!(SourceConfig::new("wss://h:1").http_url(), "https://h:1");
    }
}
