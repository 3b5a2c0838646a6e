//! The limit of open files and sockets: raised to the maximum that the system allows.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// File descriptors for everything but connections, with a margin: the ledger's files, QUIC, threads.
const RESERVED_FDS: usize = 256;

/// Raises the limit to the maximum, and logs a warning if that is less than `connections_max` needs. Connections
/// above the limit are refused one by one.
pub(crate) fn raise_nofile(connections_max: usize) {
    let limit = getrlimit(Resource::Nofile);
    // An error is not fatal: the resulting limit is checked below.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    let allowed = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let needed = (connections_max + RESERVED_FDS) as u64;
    if allowed < needed {
        tracing::warn!(
            allowed,
            needed,
            "fewer open files are allowed (ulimit -n) than rpc.connections_max may need"
        );
    }
}
