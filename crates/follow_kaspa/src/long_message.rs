//! The work on messages by their length: threads that poll sockets have microseconds, and servers may share them. A
//! source may send replies of hundreds of megabytes.
//!
//! Not here: a notification that is decoded while its session may be cancelled (`connection`).

use bytes::Bytes;
use tokio::task::{JoinError, spawn_blocking};

use crate::source_error::SourceError;

/// Bytes of a message that is read where sockets are polled: some 60 µs. One of many UTXOs takes a millisecond for a
/// megabyte.
pub(crate) const READ_HERE_BYTES_MAX: usize = 64 * 1024;

/// Runs the work on a message of this length: on another thread if it is long.
///
/// Errors: the work panicked on that thread, or the node stops.
pub(crate) async fn run_by_length<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    if bytes <= READ_HERE_BYTES_MAX {
        return Ok(work());
    }
    spawn_blocking(work).await
}

/// Decodes a reply of a source by its length.
pub(crate) async fn decode_reply<T: Send + 'static>(
    structure: Bytes,
    decode: fn(&[u8]) -> Result<T, SourceError>,
) -> Result<T, SourceError> {
    let bytes = structure.len();
    let decoded = run_by_length(bytes, move || decode(&structure)).await;
    decoded.map_err(|error| SourceError::from_decoding(&error))?
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;
    use std::thread;

    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_long_message_is_read_on_another_thread() {
        let own = thread::current().id();
        let read = |bytes: usize| run_by_length(bytes, || thread::current().id());
        assert_eq!(read(READ_HERE_BYTES_MAX).await.expect("no panic"), own);
        assert_ne!(read(READ_HERE_BYTES_MAX + 1).await.expect("no panic"), own);
    }

    #[test]
    fn a_long_reply_is_decoded_on_a_thread_for_blocking_work() {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.max_blocking_threads(1).build().expect("a runtime");
        runtime.block_on(async {
            let (release, released) = sync_channel::<()>(0);
            let busy = spawn_blocking(move || released.recv());
            let decode = |bytes: usize| {
                decode_reply(Bytes::from(vec![0; bytes]), |structure| Ok(structure.len()))
            };
            let short = decode(READ_HERE_BYTES_MAX).now_or_never();
            assert!(matches!(short, Some(Ok(READ_HERE_BYTES_MAX))));
            let mut long = Box::pin(decode(READ_HERE_BYTES_MAX + 1));
            assert!(long.as_mut().now_or_never().is_none(), "the only such thread is busy");
            drop(release);
            assert_eq!(long.await.expect("it is decoded"), READ_HERE_BYTES_MAX + 1);
            busy.await.expect("no panic").expect_err("nothing is sent");
        });
    }
}
