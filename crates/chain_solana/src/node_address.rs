//! The addresses under which clients reach the ports of a node.
//!
//! A port may be bound to every address of its machine (0.0.0.0 or [::]). No client can dial that, so each client gets
//! the address on which its own connection arrived. The client cannot forge it, as it could a `Host` header.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Returns the address of a port that is bound to `bound`, for a client that reached the node on the address `reached`.
/// `None` if no address is known that the client can dial.
pub fn reachable_address(bound: SocketAddr, reached: Option<IpAddr>) -> Option<SocketAddr> {
    if !is_unspecified(bound.ip()) {
        return Some(bound);
    }
    let reached = reached.filter(|ip| !is_unspecified(*ip))?;
    Some(SocketAddr::new(reached.to_canonical(), bound.port()))
}

/// Returns the address of a port that is bound to `bound`, for a client on the same machine.
pub fn local_address(bound: SocketAddr) -> SocketAddr {
    let ip = match bound.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, bound.port())
}

/// Whether an IP address represents every address of its machine: 0.0.0.0, `[::]` or `[::ffff:0.0.0.0]`.
pub fn is_unspecified(ip: IpAddr) -> bool {
    ip.to_canonical().is_unspecified()
}

/// Whether a client can connect to an address: it names a host and a port.
pub fn is_dialable(address: &SocketAddr) -> bool {
    !is_unspecified(address.ip()) && address.port() != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn a_client_is_told_the_address_that_it_reached() {
        let reached = |text: &str| Some(text.parse().expect("an IP address"));
        let every = address("0.0.0.0:8899");
        assert_eq!(reachable_address(every, reached("10.77.0.1")), Some(address("10.77.0.1:8899")));
        let every = address("[::]:8899");
        assert_eq!(reachable_address(every, reached("fd00::1")), Some(address("[fd00::1]:8899")));
        let mapped = reachable_address(every, reached("::ffff:10.77.0.1"));
        assert_eq!(mapped, Some(address("10.77.0.1:8899")));
        assert_eq!(reachable_address(every, reached("::")), None);
        assert_eq!(reachable_address(every, None), None);
        let one = address("10.77.0.1:8899");
        assert_eq!(reachable_address(one, reached("10.77.0.9")), Some(one));
    }

    #[test]
    fn a_client_on_the_same_machine_gets_the_loopback() {
        assert_eq!(local_address(address("0.0.0.0:8899")), address("127.0.0.1:8899"));
        assert_eq!(local_address(address("[::]:8899")), address("[::1]:8899"));
        assert_eq!(local_address(address("10.77.0.1:8899")), address("10.77.0.1:8899"));
    }

    #[test]
    fn an_unspecified_address_or_port_cannot_be_dialled() {
        for text in ["0.0.0.0:9901", "[::]:9901", "[::ffff:0.0.0.0]:9901", "10.77.0.1:0"] {
            assert!(!is_dialable(&address(text)), "{text}");
        }
        assert!(is_dialable(&address("10.77.0.1:9901")) && is_dialable(&address("[::1]:9901")));
    }
}
