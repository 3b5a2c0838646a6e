//! The addresses of the node's ports that it announces.
//!
//! In: the addresses that the ports are bound to, and `--advertised-ip`. Out: for clients an address that may still be
//! unspecified, because each client gets the one that it reached ([`chain_solana::reachable_address`]); for the output
//! of the process, which is read on the same machine, one that can be dialled there.

use std::net::{IpAddr, SocketAddr};

use anyhow::{Result, ensure};
use chain_solana::{is_unspecified, local_address};

/// The IP address that replaces the bound one of each port, if any.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Announced {
    /// The value of `--advertised-ip`.
    ip: Option<IpAddr>,
}

impl Announced {
    /// Announces `ip` for every port; `None` announces the bound address. Fails if no client could connect to `ip`.
    pub(crate) fn new(ip: Option<IpAddr>) -> Result<Self> {
        ensure!(
            ip.is_none_or(|ip| !is_unspecified(ip)),
            "--advertised-ip: clients cannot connect to an unspecified address"
        );
        Ok(Self { ip })
    }

    /// Returns the address of a port for clients of the node.
    pub(crate) fn to_clients(self, bound: SocketAddr) -> SocketAddr {
        self.ip.map_or(bound, |ip| SocketAddr::new(ip, bound.port()))
    }

    /// Returns the address of a port for the banner, the endpoints file and the service manager.
    pub(crate) fn to_output(self, bound: SocketAddr) -> SocketAddr {
        local_address(self.to_clients(bound))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn the_output_never_names_an_unspecified_address() {
        let output = |text: &str| Announced::default().to_output(address(text));
        assert_eq!(output("0.0.0.0:8899"), address("127.0.0.1:8899"));
        assert_eq!(output("[::]:8899"), address("[::1]:8899"));
        assert_eq!(output("10.77.0.1:8899"), address("10.77.0.1:8899"));
    }

    #[test]
    fn an_advertised_ip_replaces_that_of_every_port() {
        let announced = Announced::new(Some([203, 0, 113, 7].into())).expect("an address");
        for bound in ["0.0.0.0:8899", "127.0.0.1:8899", "[::]:8899"].map(address) {
            assert_eq!(announced.to_clients(bound), address("203.0.113.7:8899"));
            assert_eq!(announced.to_output(bound), address("203.0.113.7:8899"));
        }
        let refused = Announced::new(Some([0, 0, 0, 0].into())).expect_err("it is unspecified");
        assert!(refused.to_string().contains("--advertised-ip"), "{refused}");
    }
}
