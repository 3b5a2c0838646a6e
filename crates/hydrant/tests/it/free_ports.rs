//! Ports for programs that take them from their command line or a file, and not from the system.

use std::net::{TcpListener, UdpSocket};
use std::ops::Range;

use anyhow::{Result, bail};

/// Below the ports that the system gives to connections.
const FIRST_PORTS: Range<u16> = 11_000..30_000;
const TRIES: usize = 1_000;

/// The first of `count` consecutive ports that are free now, for TCP and UDP. Another program may take one before it is
/// used.
pub(crate) fn free_ports(count: u16) -> Result<u16> {
    let is_free = |port: u16| {
        TcpListener::bind(("127.0.0.1", port)).is_ok()
            && UdpSocket::bind(("127.0.0.1", port)).is_ok()
    };
    for _ in 0..TRIES {
        let first = fastrand::u16(FIRST_PORTS);
        if (first..first + count).all(is_free) {
            return Ok(first);
        }
    }
    bail!("no {count} consecutive free ports")
}
