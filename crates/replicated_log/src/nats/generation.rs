//! The stream of a generation, distinguished from a later stream of the same name.
//!
//! Invariant: [`Generation::stream_info`] never returns the settings or state of another stream: it compares the time
//! of creation. A stream that is restored from a backup has the same time. Readers detect it if it is shorter;
//! otherwise only the digests of the records do.

use async_nats::datetime::DateTime;
use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::context::{GetStreamError, GetStreamErrorKind};
use async_nats::jetstream::stream::Stream;

use super::connection::Connection;
use super::generation_stream::GenerationStream;
use crate::error::{LogError, ReadError};

/// A stream that existed when it was opened.
pub(super) struct Generation {
    pub(super) connection: Connection,
    pub(super) stream: GenerationStream,
    created: DateTime,
}

/// Why the stream's state is not known.
#[derive(Debug)]
pub(super) enum GenerationError {
    /// The stream was deleted, or created again.
    Gone(LogError),
    /// The servers did not respond, or refused the request.
    Failed(LogError),
}

impl Generation {
    /// Opens an existing stream, and remembers its time of creation.
    pub(super) async fn open(
        connection: Connection,
        stream: GenerationStream,
    ) -> Result<Self, LogError> {
        let attempt = || format!("open stream {}", stream.name);
        let found = connection.get_stream(&stream.name).await;
        let found = found.map_err(|err| {
            let is_missing = is_missing(&err);
            let error = connection.error(attempt(), err);
            if is_missing { error.of_missing_generation() } else { error }
        })?;
        let info = found.cached_info();
        if let Some(reason) = stream.find_unusable_setting(&info.config) {
            return Err(connection.error_with_reason(attempt(), reason));
        }
        let created = info.created;
        Ok(Self { connection, stream, created })
    }

    /// Asks the stream's leader for its settings and state.
    pub(super) async fn stream_info(&self, attempt: &str) -> Result<Stream, GenerationError> {
        match self.connection.get_stream(&self.stream.name).await {
            Ok(found) if found.cached_info().created == self.created => Ok(found),
            Ok(_) => {
                let reason = format!("stream {} was deleted and created again", self.stream.name);
                Err(GenerationError::Gone(self.connection.error_with_reason(attempt, reason)))
            }
            Err(err) if is_missing(&err) => {
                Err(GenerationError::Gone(self.connection.error(attempt, err)))
            }
            Err(err) => Err(GenerationError::Failed(self.connection.error(attempt, err))),
        }
    }
}

impl From<GenerationError> for LogError {
    fn from(error: GenerationError) -> Self {
        match error {
            GenerationError::Gone(error) | GenerationError::Failed(error) => error,
        }
    }
}

impl From<GenerationError> for ReadError {
    fn from(error: GenerationError) -> Self {
        match error {
            GenerationError::Gone(_) => Self::Gone,
            GenerationError::Failed(error) => Self::Log(error),
        }
    }
}

/// Returns whether a request failed because the stream does not exist.
pub(super) fn is_missing(err: &GetStreamError) -> bool {
    match err.kind() {
        GetStreamErrorKind::JetStream(err) => err.error_code() == ErrorCode::STREAM_NOT_FOUND,
        _ => false,
    }
}
