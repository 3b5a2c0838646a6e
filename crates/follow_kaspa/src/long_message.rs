//! The work on messages by their length: the work on a long one leaves the thread that polls sockets, because it would
//! delay the other sockets of that thread.
//!
//! Not here: a notification that is decoded while its session may be cancelled (`connection`).

use tokio::task::{JoinError, spawn_blocking};

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

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[tokio::test]
    async fn a_long_message_is_read_on_another_thread() {
        let own = thread::current().id();
        let read = |bytes: usize| run_by_length(bytes, || thread::current().id());
        assert_eq!(read(READ_HERE_BYTES_MAX).await.expect("no panic"), own);
        assert_ne!(read(READ_HERE_BYTES_MAX + 1).await.expect("no panic"), own);
    }
}
