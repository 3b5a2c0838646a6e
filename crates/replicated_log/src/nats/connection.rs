//! The connection to the servers of a log, which all its epochs share.
//!
//! Bounds: [`COMMANDS_MAX`] messages wait for the socket. Detects a server that stops answering within three
//! [`PING_INTERVAL`]s.
//! Not here: requests to JetStream (`async_nats`).

use std::error::Error;
use std::fmt::Display;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::{Context, ContextBuilder};
use async_nats::{Client, ConnectOptions, ServerAddr};

use crate::config::LogConfig;
use crate::error::LogError;
use crate::message::MESSAGE_BYTES_MAX;

/// Interval of the client's pings. A longer one delays the detection of a server that a partition cut off.
const PING_INTERVAL: Duration = Duration::from_secs(2);
/// Messages that wait for the socket. While the connection is down, those of failed appends stay here and are sent when
/// it is back, so a larger value leaves more open batches at the server.
const COMMANDS_MAX: usize = 128;
/// Upper bound of the headers of one message.
const HEADER_BYTES_MAX: usize = 512;
/// The first version with complete atomic batches.
const VERSION_MIN: (i64, i64, i64) = (2, 12, 1);

/// A connection, with the settings that apply to each of its users.
#[derive(Clone)]
pub(super) struct Connection {
    pub(super) client: Client,
    pub(super) context: Context,
    /// Hosts and ports of the URL, without credentials.
    location: String,
    /// Memory for messages in transit, for each writer and each reader.
    pub(super) in_flight_bytes: usize,
    pub(super) request_timeout: Duration,
}

impl Connection {
    /// Connects to one of the servers.
    pub(super) async fn open(config: &LogConfig) -> Result<Self, LogError> {
        let servers = parse_servers(&config.url)?;
        let location = describe_servers(&servers);
        let options = ConnectOptions::new()
            .name("hydrant")
            .connection_timeout(config.request_timeout)
            .request_timeout(Some(config.request_timeout))
            .ping_interval(PING_INTERVAL)
            .client_capacity(COMMANDS_MAX);
        let client = match options.connect(servers).await {
            Ok(client) => client,
            Err(err) => return Err(LogError::new(location, "connect", err)),
        };
        let context = ContextBuilder::new().timeout(config.request_timeout).build(client.clone());
        let connection = Self {
            client,
            context,
            location,
            in_flight_bytes: config.in_flight_bytes,
            request_timeout: config.request_timeout,
        };
        connection.check_server()?;
        Ok(connection)
    }

    /// Returns whether the socket is up. A message that is sent while it is down lands at an unknown time.
    pub(super) fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    /// Returns an id that no other client uses, of letters and digits.
    pub(super) fn new_id(&self) -> String {
        let inbox = self.client.new_inbox();
        inbox.rsplit('.').next().unwrap_or_default().to_owned()
    }

    /// Creates the error of an operation that another error stopped.
    pub(super) fn error(
        &self,
        attempt: impl Into<String>,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> LogError {
        LogError::new(self.location.as_str(), attempt, source)
    }

    /// Creates the error of an operation that failed for a reason in words.
    pub(super) fn error_with_reason(
        &self,
        attempt: impl Into<String>,
        reason: impl Display,
    ) -> LogError {
        LogError::with_reason(self.location.as_str(), attempt, reason)
    }

    /// Creates the error of an operation for which the servers have no space.
    pub(super) fn no_space(&self, attempt: impl Into<String>, reason: impl Display) -> LogError {
        LogError::with_no_space(self.location.as_str(), attempt, reason)
    }

    /// Creates the error of an operation that met a stored message which no append has written.
    pub(super) fn damage(&self, attempt: impl Into<String>, damage: impl Display) -> LogError {
        LogError::with_damage(self.location.as_str(), attempt, damage)
    }

    /// Returns an error if the connected server cannot hold a log.
    fn check_server(&self) -> Result<(), LogError> {
        let (major, minor, patch) = VERSION_MIN;
        if !self.client.is_server_compatible(major, minor, patch) {
            let version = self.client.server_info().version;
            let attempt = format!("use nats-server {version}");
            let reason = format!("atomic batches need {major}.{minor}.{patch}");
            return Err(self.error_with_reason(attempt, reason));
        }
        let max_payload = self.client.max_payload();
        let needed = MESSAGE_BYTES_MAX + HEADER_BYTES_MAX;
        if max_payload < needed {
            let reason =
                format!("max_payload is {max_payload}, a message has up to {needed} bytes");
            return Err(self.error_with_reason("use the server", reason));
        }
        Ok(())
    }
}

/// Parses URLs that commas separate. The error does not repeat them, since they may contain passwords.
fn parse_servers(urls: &str) -> Result<Vec<ServerAddr>, LogError> {
    let servers = urls.split(',').map(|url| url.trim().parse::<ServerAddr>());
    let servers = servers.collect::<Result<Vec<_>, _>>();
    servers.map_err(|err| LogError::new("NATS", "parse the URLs of the servers", err))
}

/// Returns hosts and ports without credentials.
fn describe_servers(servers: &[ServerAddr]) -> String {
    let names = servers.iter().map(|server| format!("{}:{}", server.host(), server.port()));
    format!("NATS at {}", names.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_location_has_no_credentials() {
        let servers = parse_servers("nats://user:secret@a:4222, nats://b:4223").expect("URLs");
        assert_eq!(describe_servers(&servers), "NATS at a:4222, b:4223");
    }

    #[test]
    fn an_invalid_url_is_not_repeated() {
        let err = parse_servers("http://user:secret@a:4222").expect_err("not a URL of NATS");
        let source = err.source().expect("a source").to_string();
        assert!(!format!("{err} {source}").contains("secret"), "{err} {source}");
    }
}
