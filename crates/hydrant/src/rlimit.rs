//! The limit of open files and sockets: raised to the maximum that the system allows.

/// File descriptors for everything but connections, with a margin: the ledger's files, QUIC, threads.
const RESERVED_FDS: usize = 256;

/// Raises the limit to the maximum, and logs a warning if that is less than `connections_max` needs. Connections
/// above the limit are refused one by one.
pub(crate) fn raise_nofile(connections_max: usize) {
    let allowed = process_usage::raise_open_files_max();
    let needed = (connections_max + RESERVED_FDS) as u64;
    if allowed < needed {
        tracing::warn!(
            allowed,
            needed,
            "fewer open files are allowed (ulimit -n) than rpc.connections_max may need"
        );
    }
}
