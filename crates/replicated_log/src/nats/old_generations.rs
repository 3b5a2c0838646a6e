//! Streams of old generations: the disk space that they reserve, and their removal.
//!
//! A server reserves `max_bytes` of its disk for a stream when it creates the stream. So the stream of an old
//! generation takes the space of the next one, although it is far below its limit and nothing is appended to it.
//! Not here: when a generation is old (the leading writer).

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::context::{CreateStreamError, CreateStreamErrorKind};

use super::connection::Connection;
use super::generation::is_missing;
use super::generation_stream::GenerationStream;
use crate::error::LogError;

/// The least limit of an old stream. A limit of zero would mean none.
const BYTES_MAX_MIN: u64 = 1 << 20;

/// Lowers the size limits of streams to their size. The servers no longer reserve more than that.
pub(super) async fn lower_size_limits(
    connection: &Connection,
    streams: impl IntoIterator<Item = GenerationStream>,
) -> Result<(), LogError> {
    for stream in streams {
        let attempt = || format!("lower the size limit of stream {}", stream.name);
        let found = match connection.get_stream(&stream.name).await {
            Ok(found) => found,
            Err(err) if is_missing(&err) => continue,
            Err(err) => return Err(connection.error(attempt(), err)),
        };
        let info = found.cached_info();
        let Some(max_bytes) = find_lower_limit(info.config.max_bytes, info.state.bytes) else {
            continue;
        };
        let mut settings = info.config.clone();
        settings.max_bytes = max_bytes;
        let updated = connection.context.update_stream(settings).await;
        updated.map_err(|err| connection.error(attempt(), err))?;
        let stream = &stream.name;
        tracing::info!(
            %stream,
            max_bytes,
            "lowered the size limit of an old generation of the log"
        );
    }
    Ok(())
}

/// Deletes streams. Returns the number of those that existed.
pub(super) async fn delete_streams(
    connection: &Connection,
    streams: impl IntoIterator<Item = GenerationStream>,
) -> Result<usize, LogError> {
    let mut deleted = 0;
    for stream in streams {
        match connection.context.delete_stream(&stream.name).await {
            Ok(_) => deleted += 1,
            Err(err) if is_missing(&err) => {}
            Err(err) => {
                return Err(connection.error(format!("delete stream {}", stream.name), err));
            }
        }
    }
    Ok(deleted)
}

/// Returns whether a stream was not created because the servers cannot reserve its space.
pub(super) fn is_out_of_space(err: &CreateStreamError) -> bool {
    match err.kind() {
        // A single server, an account with a limit, and a cluster: no server has the space.
        CreateStreamErrorKind::JetStream(err) => matches!(
            err.error_code(),
            ErrorCode::STORAGE_RESOURCES_EXCEEDED
                | ErrorCode::INSUFFICIENT_RESOURCES
                | ErrorCode::ACCOUNT_RESOURCES_EXCEEDED
                | ErrorCode::CLUSTER_NO_PEERS
        ),
        _ => false,
    }
}

/// Returns a lower limit for a stream of this size, or `None` if its limit is low enough.
fn find_lower_limit(max_bytes: i64, bytes: u64) -> Option<i64> {
    let lower = i64::try_from(bytes.max(BYTES_MAX_MIN)).unwrap_or(i64::MAX);
    // No limit reserves nothing.
    (max_bytes > lower).then_some(lower)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_lowered_to_the_size_of_the_stream() {
        let size = 5 << 20;
        assert_eq!(find_lower_limit(64 << 30, size), Some(5 << 20));
        assert_eq!(find_lower_limit(5 << 20, size), None);
        assert_eq!(find_lower_limit(64 << 30, 0), Some(1 << 20));
        assert_eq!(find_lower_limit(-1, size), None);
    }
}
