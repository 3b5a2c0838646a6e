//! A reserved file descriptor, so that a node that is out of descriptors can still refuse connections.
//!
//! Without it, connections that cannot be accepted stay in the listener's backlog: their clients wait in vain,
//! and every accept fails.

use std::fs::File;
use std::io;

use futures_util::FutureExt;
use tokio::net::TcpListener;

/// `ENFILE` and `EMFILE`, the same on every Unix: the limit of the system, and that of the process.
const OUT_OF_DESCRIPTORS: [i32; 2] = [23, 24];

/// The response to a refused client.
const REFUSAL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n\
    Content-Length: 32\r\n\r\nthe node has no descriptor left\n";

pub(crate) struct ReservedFd(Option<File>);

impl ReservedFd {
    /// Opens a descriptor.
    pub(crate) fn new() -> Self {
        Self(File::open("/dev/null").ok())
    }

    /// Accepts the next connection with the reserved descriptor, refuses it, and closes it. False if accepting
    /// failed for another reason, or another thread took the descriptor.
    pub(crate) fn refuse(&mut self, listener: &TcpListener, err: &io::Error) -> bool {
        if err.raw_os_error().is_none_or(|code| !OUT_OF_DESCRIPTORS.contains(&code)) {
            return false;
        }
        drop(self.0.take());
        let accepted = listener.accept().now_or_never();
        let refused = match accepted {
            Some(Ok((socket, _))) => {
                // The send buffer of a new socket has space for this, unless the client has disconnected.
                let _ = socket.try_write(REFUSAL);
                true
            }
            Some(Err(_)) | None => false,
        };
        self.0 = File::open("/dev/null").ok();
        refused
    }
}
