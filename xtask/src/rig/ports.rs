//! Free ports of the loopback interface.

use std::net::{SocketAddr, TcpListener, UdpSocket};

use anyhow::{Context, Result};

/// The range of the system's own ports is above it.
const LAST_PORT: u16 = 32_000;

pub(crate) fn local(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

/// Ports that are free now. PubSub has the port after RPC's, for both nodes. They are below those that the system gives
/// to outgoing connections: one of these could take a port before its process listens.
pub(crate) fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let first = 10_000 + u16::try_from(std::process::id() % 10_000)?;
    let mut candidates = (first..LAST_PORT).step_by(2);
    let mut listeners = Vec::new();
    let mut ports = [0; N];
    for port in &mut ports {
        *port = loop {
            let free = candidates.next().context("no free port")?;
            let listen = |port: u16| TcpListener::bind(local(port));
            if let (Ok(one), Ok(two)) = (listen(free), listen(free + 1)) {
                listeners.extend([one, two]);
                break free;
            }
        };
    }
    Ok(ports)
}

/// Returns the first of `count` neighbouring ports that are free now for TCP and UDP. They are far above those of
/// [`free_ports`].
pub(crate) fn free_port_range(count: u16) -> Result<u16> {
    let is_free =
        |port: u16| TcpListener::bind(local(port)).is_ok() && UdpSocket::bind(local(port)).is_ok();
    let mut firsts = (0..LAST_PORT - count).rev().step_by(usize::from(count)).take(64);
    let first = firsts.find(|first| (*first..first + count).all(is_free));
    first.with_context(|| format!("no {count} neighbouring ports are free"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_of_a_range_can_be_bound() {
        let first = free_port_range(40).unwrap();
        assert!(first + 40 <= LAST_PORT);
        let bound: Vec<TcpListener> =
            (first..first + 40).map(|port| TcpListener::bind(local(port)).unwrap()).collect();
        assert_eq!(bound.len(), 40);
    }
}
