//! The work on messages by their length: threads that poll sockets have microseconds.

use tokio::task::spawn_blocking;

/// Bytes of a message that is read where sockets are polled: some 50 µs.
const READ_HERE_BYTES_MAX: usize = 64 * 1024;

/// Runs the work on a message of this length: on another thread if it is long. `None` if the node stops.
pub(super) async fn run_by_length<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    if bytes <= READ_HERE_BYTES_MAX {
        return Some(work());
    }
    spawn_blocking(work).await.ok()
}
