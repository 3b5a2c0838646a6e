//! Servers, a log space on them, and records that name themselves.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_nats::{ConnectOptions, jetstream};
use replicated_log::nats::NatsLogSpace;
use replicated_log::{
    AppendError, Log, LogConfig, LogMessage, LogReader, LogSpace, ReadError, StoredMessage,
};
use testkit::eventually::TIMEOUT;
use testkit::nats_servers::{NatsOptions, NatsServers};
use tokio::time::timeout;

use crate::foreign_programs::find_program;

pub(crate) const CLUSTER: &str = "test";

/// Running servers with the configuration of a log on them.
pub(crate) struct World {
    pub(crate) servers: NatsServers,
    pub(crate) config: LogConfig,
}

impl World {
    /// Starts servers that lose nothing.
    pub(crate) async fn start(servers: u8) -> Self {
        Self::start_with(NatsOptions::safe(usize::from(servers)), servers).await
    }

    pub(crate) async fn start_with(options: NatsOptions, replicas: u8) -> Self {
        let program: anyhow::Result<Option<PathBuf>> = find_program("nats-server");
        let program = program.expect("the list of tools");
        let program = program.expect("cargo xtask tools builds nats-server");
        let servers = NatsServers::start(&program, options).await;
        let config = LogConfig {
            url: servers.url(),
            cluster: CLUSTER.to_owned(),
            replicas,
            max_age: Duration::from_secs(3_600),
            max_bytes: 128 << 20,
            in_flight_bytes: 4 << 20,
            request_timeout: Duration::from_secs(5),
        };
        Self { servers, config }
    }

    /// Connects with another configuration.
    pub(crate) async fn connect(&self, change: impl FnOnce(&mut LogConfig)) -> NatsLogSpace {
        let mut config = self.config.clone();
        change(&mut config);
        NatsLogSpace::open(&config).await.expect("a connection")
    }

    /// Connects, and creates generation 1.
    pub(crate) async fn open_log(&self) -> Arc<dyn Log> {
        let space = self.connect(|_| {}).await;
        assert!(space.create_generation(1).await.expect("a stream"));
        space.open_generation(1).await.expect("the stream")
    }

    /// Returns an administrator's access to the streams.
    pub(crate) async fn admin(&self) -> jetstream::Context {
        let [user, password] = self.servers.user_and_password();
        let options = ConnectOptions::with_user_and_password(user, password);
        let first = self.servers.client_address(0).to_string();
        jetstream::new(options.connect(first).await.expect("a connection"))
    }
}

/// Returns the name of the stream of a generation.
pub(crate) fn stream_name(generation: u64) -> String {
    format!("hydrant-{CLUSTER}-{generation}")
}

/// Returns a record: a head with the number, and bodies of this length.
pub(crate) fn record(number: u64, bodies: usize, bytes: usize) -> Vec<LogMessage> {
    let head = LogMessage::head(number.to_le_bytes().to_vec().into());
    let body = |index: usize| {
        let fill = (number as usize + index) as u8;
        LogMessage::body(vec![fill; bytes].into())
    };
    std::iter::once(head).chain((0..bodies).map(body)).collect()
}

/// Waits for a value with the time limit of all tests.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    timeout(TIMEOUT, future).await.expect("in time")
}

pub(crate) async fn read_message(reader: &mut dyn LogReader) -> StoredMessage {
    within(reader.next()).await.expect("a message")
}

/// Reads the error of a reader, after any messages and failed requests.
pub(crate) async fn read_end(reader: &mut dyn LogReader) -> ReadError {
    within(async {
        loop {
            match reader.next().await {
                Ok(_) | Err(ReadError::Log(_)) => {}
                Err(end) => return end,
            }
        }
    })
    .await
}

/// Reads records and compares them, from the message `after` on.
pub(crate) async fn check_records(log: &dyn Log, after: u64, records: &[Vec<LogMessage>]) {
    let mut reader = log.read(after).await.expect("a reader");
    check_reader(&mut *reader, after, records).await;
}

/// Compares the next messages of a reader with records. Failed requests are tried again.
pub(crate) async fn check_reader(
    reader: &mut dyn LogReader,
    after: u64,
    records: &[Vec<LogMessage>],
) {
    let mut sequence = after;
    for message in records.iter().flatten() {
        let stored = within(read_surely(reader)).await;
        sequence += 1;
        assert_eq!(stored.sequence, sequence);
        assert_eq!((stored.kind, &stored.payload), (message.kind, &message.payload));
    }
}

async fn read_surely(reader: &mut dyn LogReader) -> StoredMessage {
    loop {
        match reader.next().await {
            Ok(message) => return message,
            Err(ReadError::Log(_)) => {}
            Err(err) => panic!("{err}"),
        }
    }
}

/// Appends a record as the only writer does: without a reply it reads the end of the log, and appends again if the
/// record is not there.
pub(crate) async fn append_surely(log: &dyn Log, after: u64, batch: &[LogMessage]) -> u64 {
    let expected = after + batch.len() as u64;
    let appending = async {
        loop {
            match log.append(after, batch.to_vec()).await {
                Ok(last) => return last,
                Err(AppendError::Unknown(_) | AppendError::Fenced { .. }) => {}
                Err(err) => panic!("{err}"),
            }
            let Ok(tail) = log.tail().await else { continue };
            assert!(tail.last == after || tail.last == expected, "{tail:?} after {after}");
            if tail.last == expected {
                return tail.last;
            }
        }
    };
    within(appending).await
}
