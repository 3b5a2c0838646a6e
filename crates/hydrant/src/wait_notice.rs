//! A line for the operator while a start waits for another server.
//!
//! Not here: the time limit of the request (`http_client`).

use std::fmt::Display;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use crate::console::print_stderr;

/// How long a start waits without a word.
const QUIET_TIME: Duration = Duration::from_secs(3);

/// Does `work`, and says on standard error which server it waits for if it takes longer than [`QUIET_TIME`].
pub(crate) fn with_wait_notice<T>(server: impl Display, work: impl FnOnce() -> T) -> T {
    let notice = format!("hydrant: still waiting for {server}");
    thread::scope(|scope| {
        // Dropped when the work ends, also by a panic.
        let (_end, ended) = sync_channel::<()>(0);
        scope.spawn(move || {
            if ended.recv_timeout(QUIET_TIME) == Err(RecvTimeoutError::Timeout) {
                print_stderr(&notice);
            }
        });
        work()
    })
}
