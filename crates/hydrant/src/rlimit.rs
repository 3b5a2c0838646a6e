//! How many files and sockets the process may have open: as many as the system lets it.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What is open beside connections, with some room: the ledger's files, QUIC, threads' own.
const RESERVED_FDS: usize = 256;

/// Raises the limit as far as may be, and says so in the log if that is short of the connections that
/// may come. Connections beyond it are refused one by one.
pub(crate) fn raise_nofile(connections_max: usize) {
    let limit = getrlimit(Resource::Nofile);
    // Nothing is lost if it cannot be raised; what it is, is told below.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    let may = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let wanted = (connections_max + RESERVED_FDS) as u64;
    if may < wanted {
        tracing::warn!(
            may,
            wanted,
            "fewer open files are allowed (ulimit -n) than rpc.connections_max may need"
        );
    }
}
