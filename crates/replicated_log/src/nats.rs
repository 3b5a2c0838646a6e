//! A log in NATS JetStream: one stream for each generation, one atomic batch for each append.
//!
//! Input: the URLs of the servers of one cluster, `nats://a:4222,nats://b:4222`. Output: see [`crate::Log`]. The
//! fence is the header `Nats-Expected-Last-Sequence` of a batch's first message.
//! Bounds: `in_flight_bytes` for the messages of an append that no server confirmed, and for the messages that a reader
//! has requested; `request_timeout` for each request.
//! Invariant: an append that got no reply is never reported as refused: the batch may be in the log, or still land. A
//! server of 2.15 or later makes `sync_interval: always` affordable; batches need 2.12.1.
//! Not here: names and settings of streams (`generation_stream`), appends (`appender`), reading (`reader`), settings
//! that lose messages (`durability`), the space of old generations (`old_generations`).

mod appender;
mod connection;
mod credentials;
mod durability;
mod generation;
mod generation_log;
mod generation_stream;
mod old_generations;
mod reader;
mod reply;
mod window;

use std::sync::Arc;

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::context::{CreateStreamError, CreateStreamErrorKind};
use futures_util::future::BoxFuture;

use self::connection::Connection;
use self::generation_log::GenerationLog;
use self::generation_stream::{GenerationStream, parse_generation};
use self::old_generations::is_out_of_space;
use crate::config::LogConfig;
use crate::error::LogError;
use crate::log::{Log, LogSpace};

/// All generations of one cluster's log on the servers that it is connected to.
pub struct NatsLogSpace {
    connection: Connection,
    config: LogConfig,
}

impl NatsLogSpace {
    /// Connects to one of the servers of the URL. The client reconnects to any of them automatically.
    ///
    /// Errors: no server accepts the connection, it is older than 2.12.1, or its `max_payload` is below a message.
    pub async fn open(config: &LogConfig) -> Result<Self, LogError> {
        Ok(Self { connection: Connection::open(config).await?, config: config.clone() })
    }

    async fn find_newest_generation(&self) -> Result<Option<u64>, LogError> {
        Ok(self.list_generations().await?.into_iter().max())
    }

    /// Lists the generations, in no order.
    async fn list_generations(&self) -> Result<Vec<u64>, LogError> {
        let names = self.connection.list_streams().await;
        let names = names.map_err(|err| self.connection.error("list the streams", err))?;
        Ok(names.iter().filter_map(|name| parse_generation(&self.config.cluster, name)).collect())
    }

    /// Lists the streams of the generations before a generation.
    async fn list_streams_below(&self, generation: u64) -> Result<Vec<GenerationStream>, LogError> {
        let generations =
            self.list_generations().await?.into_iter().filter(|found| *found < generation);
        Ok(generations.map(|found| GenerationStream::new(&self.config.cluster, found)).collect())
    }

    async fn create_stream(&self, generation: u64) -> Result<bool, LogError> {
        let stream = GenerationStream::new(&self.config.cluster, generation);
        // A server accepts the creation of an existing stream with equal settings. The id makes the settings of each
        // creation differ, so that one of several creators succeeds.
        let creation_id = self.connection.new_id();
        let settings = stream.settings(&self.config, &creation_id);
        let mut created = self.connection.context.create_stream(settings.clone()).await;
        if created.as_ref().is_err_and(is_out_of_space) {
            // The streams of old generations have space that they will not need.
            let old = self.list_streams_below(generation).await?;
            old_generations::lower_size_limits(&self.connection, old).await?;
            created = self.connection.context.create_stream(settings).await;
        }
        match created {
            Ok(_) => Ok(true),
            Err(err) if is_name_taken(&err) => Ok(false),
            Err(err) => Err(self.describe_refusal(&stream, err)),
        }
    }

    /// Returns the error of a stream that was not created. It names the setting that helps.
    fn describe_refusal(&self, stream: &GenerationStream, err: CreateStreamError) -> LogError {
        let attempt = format!("create stream {}", stream.name);
        if !is_out_of_space(&err) {
            return self.connection.error(attempt, err);
        }
        let bytes = self.config.max_bytes;
        let reason = format!(
            "{err}; the servers reserve its size limit of {bytes} bytes; fix: lower --log-max-bytes, or raise \
             max_file_store of nats-server"
        );
        self.connection.no_space(attempt, reason)
    }

    async fn delete_streams_below(&self, generation: u64) -> Result<usize, LogError> {
        let old = self.list_streams_below(generation).await?;
        old_generations::delete_streams(&self.connection, old).await
    }

    async fn open_stream(&self, generation: u64) -> Result<Arc<dyn Log>, LogError> {
        let stream = GenerationStream::new(&self.config.cluster, generation);
        Ok(Arc::new(GenerationLog::open(self.connection.clone(), stream).await?))
    }

    async fn find_durability_faults(&self) -> Result<Vec<String>, LogError> {
        let newest = self.find_newest_generation().await?;
        let stream =
            newest.map(|generation| GenerationStream::new(&self.config.cluster, generation));
        durability::find_faults(&self.connection, self.config.replicas, stream.as_ref()).await
    }
}

impl LogSpace for NatsLogSpace {
    fn newest_generation(&self) -> BoxFuture<'_, Result<Option<u64>, LogError>> {
        Box::pin(self.find_newest_generation())
    }

    fn create_generation(&self, generation: u64) -> BoxFuture<'_, Result<bool, LogError>> {
        Box::pin(self.create_stream(generation))
    }

    fn open_generation(&self, generation: u64) -> BoxFuture<'_, Result<Arc<dyn Log>, LogError>> {
        Box::pin(self.open_stream(generation))
    }

    fn remove_generations_below(&self, generation: u64) -> BoxFuture<'_, Result<usize, LogError>> {
        Box::pin(self.delete_streams_below(generation))
    }

    fn durability_faults(&self) -> BoxFuture<'_, Result<Vec<String>, LogError>> {
        Box::pin(self.find_durability_faults())
    }
}

/// Returns whether a stream of the name exists with other settings.
fn is_name_taken(err: &CreateStreamError) -> bool {
    match err.kind() {
        CreateStreamErrorKind::JetStream(err) => err.error_code() == ErrorCode::STREAM_NAME_EXIST,
        _ => false,
    }
}
