//! A descriptor that is kept free, so that a node that is out of descriptors can still say so.
//!
//! Without it, connections that cannot be taken stay in the listener's backlog: their clients wait for
//! nothing, and accepting fails over and over.

use std::fs::File;
use std::io;

use futures_util::FutureExt;
use tokio::net::TcpListener;

/// `ENFILE` and `EMFILE`, the same on every Unix: the system's, the process' own limit.
const OUT_OF_DESCRIPTORS: [i32; 2] = [23, 24];

/// What a client is told, if it still listens.
const REFUSAL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n\
    Content-Length: 32\r\n\r\nthe node has no descriptor left\n";

/// The descriptor.
pub(crate) struct ReservedFd(Option<File>);

impl ReservedFd {
    /// Takes one.
    pub(crate) fn new() -> Self {
        Self(File::open("/dev/null").ok())
    }

    /// Takes the next connection with the spare descriptor, and closes it. False if accepting failed
    /// for another reason, or somebody else took the descriptor.
    pub(crate) fn refuse(&mut self, listener: &TcpListener, err: &io::Error) -> bool {
        if err.raw_os_error().is_none_or(|code| !OUT_OF_DESCRIPTORS.contains(&code)) {
            return false;
        }
        drop(self.0.take());
        let accepted = listener.accept().now_or_never();
        let refused = match accepted {
            Some(Ok((socket, _))) => {
                // It is new: there is room for so little, unless the client has gone.
                let _ = socket.try_write(REFUSAL);
                true
            }
            Some(Err(_)) | None => false,
        };
        self.0 = File::open("/dev/null").ok();
        refused
    }
}
