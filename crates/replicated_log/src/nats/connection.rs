//! The connection to the servers of a log, which all its generations share.
//!
//! Bounds: [`COMMANDS_MAX`] messages wait for the socket. Detects a server that stops answering within three
//! [`PING_INTERVAL`]s. A query is sent again after [`QUERY_TIMEOUT`] without a reply.
//! Not here: requests to JetStream (`async_nats`).

use std::error::Error;
use std::fmt::Display;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::context::{
    GetStreamError, RequestError, RequestErrorKind, StreamsError,
};
use async_nats::jetstream::stream::Stream;
use async_nats::jetstream::{Context, ContextBuilder};
use async_nats::{Client, ConnectOptions, ServerAddr};
use futures_util::TryStreamExt;

use super::credentials::Credentials;
use crate::config::LogConfig;
use crate::error::LogError;
use crate::message::MESSAGE_BYTES_MAX;

/// Interval of the client's pings. A longer one delays the detection of a server that a partition cut off.
const PING_INTERVAL: Duration = Duration::from_secs(2);
/// Time after which a query is sent again. Servers without a leader do not respond, so one that was sent during an
/// election gets no reply. A longer time delays all nodes after the election, which takes 4 to 9 s.
const QUERY_TIMEOUT: Duration = Duration::from_secs(2);
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
    /// For requests that change the streams.
    pub(super) context: Context,
    /// For requests that can be sent again: its time limit is [`QUERY_TIMEOUT`].
    pub(super) queries: Context,
    query_tries: u32,
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
        let options = Credentials::from_servers(&servers)?
            .apply(ConnectOptions::new())
            .name("hydrant")
            .connection_timeout(config.request_timeout)
            .request_timeout(Some(config.request_timeout))
            .ping_interval(PING_INTERVAL)
            .client_capacity(COMMANDS_MAX);
        let client = match options.connect(servers).await {
            Ok(client) => client,
            Err(err) => return Err(LogError::new(location, "connect", err)),
        };
        let build = |timeout| ContextBuilder::new().timeout(timeout).build(client.clone());
        let context = build(config.request_timeout);
        let query_timeout = config.request_timeout.min(QUERY_TIMEOUT);
        let queries = build(query_timeout);
        let connection = Self {
            client,
            context,
            queries,
            query_tries: config.request_timeout.div_duration_f64(query_timeout) as u32,
            location,
            in_flight_bytes: config.in_flight_bytes,
            request_timeout: config.request_timeout,
        };
        connection.check_server()?;
        Ok(connection)
    }

    /// Requests a stream, until a reply comes: for `request_timeout`.
    pub(super) async fn get_stream(&self, name: &str) -> Result<Stream, GetStreamError> {
        for _ in 1..self.query_tries {
            match self.queries.get_stream(name).await {
                Err(err) if is_unanswered(&err) => {}
                replied => return replied,
            }
        }
        self.queries.get_stream(name).await
    }

    /// Lists the names of all streams, as [`Self::get_stream`] requests one.
    pub(super) async fn list_streams(&self) -> Result<Vec<String>, StreamsError> {
        for _ in 1..self.query_tries {
            match self.queries.stream_names().try_collect().await {
                Err(err) if is_unanswered(&err) => {}
                replied => return replied,
            }
        }
        self.queries.stream_names().try_collect().await
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

/// Returns whether a request failed because no reply came in time.
fn is_unanswered(err: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(err);
    while let Some(err) = cause {
        let request = err.downcast_ref::<RequestError>();
        if request.is_some_and(|err| err.kind() == RequestErrorKind::TimedOut) {
            return true;
        }
        cause = err.source();
    }
    false
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
    use async_nats::jetstream::context::GetStreamErrorKind;

    use super::*;

    #[test]
    fn the_location_has_no_credentials() {
        let servers = parse_servers("nats://user:secret@a:4222, nats://b:4223").expect("URLs");
        assert_eq!(describe_servers(&servers), "NATS at a:4222, b:4223");
    }

    #[test]
    fn a_request_without_a_reply_is_distinguished_from_a_refused_one() {
        let get_stream = |kind| {
            let cause = RequestError::new(kind);
            GetStreamError::with_source(GetStreamErrorKind::Request, cause)
        };
        assert!(is_unanswered(&get_stream(RequestErrorKind::TimedOut)));
        assert!(!is_unanswered(&get_stream(RequestErrorKind::NoResponders)));
    }

    #[test]
    fn an_invalid_url_is_not_repeated() {
        let err = parse_servers("http://user:secret@a:4222").expect_err("not a URL of NATS");
        let source = err.source().expect("a source").to_string();
        assert!(!format!("{err} {source}").contains("secret"), "{err} {source}");
    }
}
