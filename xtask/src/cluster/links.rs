//! The proxies between the processes and the servers of the log, by both ends.

use std::net::SocketAddr;

use anyhow::Result;

use crate::cluster::log_servers::LogServers;
use crate::cluster::proxies::{Proxies, ProxyDirection};

/// A process that can be cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Party {
    Ingester(usize),
    Replica(usize),
    LogServer(usize),
}

/// The bytes that a partition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The party hears nothing.
    Inward,
    /// The others hear nothing of the party.
    Outward,
    Both,
}

/// A connection from one party to another, through a proxy.
#[derive(Clone, Copy, Debug)]
struct Link {
    from: Party,
    to: Party,
    proxy: SocketAddr,
}

/// All links of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Links(Vec<Link>);

impl Links {
    /// Opens a proxy between each client and each server, and between the servers. Returns no link if there are no
    /// servers.
    pub(crate) fn open(
        proxies: &mut Proxies,
        servers: Option<&LogServers>,
        replicas: usize,
    ) -> Result<Self> {
        let mut links = Vec::new();
        let Some(servers) = servers else { return Ok(Self(links)) };
        let ingesters = [Party::Ingester(0), Party::Ingester(1)];
        let clients: Vec<Party> =
            ingesters.into_iter().chain((0..replicas).map(Party::Replica)).collect();
        for (index, server) in servers.servers.iter().enumerate() {
            let to = Party::LogServer(index);
            for from in &clients {
                links.push(Link { from: *from, to, proxy: proxies.open(server.client)? });
            }
            for other in (0..servers.servers.len()).filter(|other| *other != index) {
                let proxy = proxies.open(server.routes)?;
                links.push(Link { from: Party::LogServer(other), to, proxy });
            }
        }
        Ok(Self(links))
    }

    /// Returns the addresses at which a client reaches the servers of the log.
    pub(crate) fn list_log_servers(&self, client: Party) -> Vec<SocketAddr> {
        self.0.iter().filter(|link| link.from == client).map(|link| link.proxy).collect()
    }

    /// Returns the addresses at which a server of the log reaches the others.
    pub(crate) fn routes_from(&self, server: usize) -> Vec<SocketAddr> {
        self.list_log_servers(Party::LogServer(server))
    }

    /// Holds the bytes from or to a party.
    pub(crate) fn cut_off(&self, proxies: &mut Proxies, party: Party, cut: Cut) -> Result<()> {
        for (proxy, direction) in self.list_cut_directions(party, cut) {
            proxies.hold(proxy, direction)?;
        }
        Ok(())
    }

    /// Lets all bytes from and to a party pass.
    pub(crate) fn reconnect(&self, proxies: &mut Proxies, party: Party) -> Result<()> {
        let mut links = self.0.iter().filter(|link| link.from == party || link.to == party);
        links.try_for_each(|link| proxies.pass(link.proxy))
    }

    /// Returns the directions of proxies that a partition cuts.
    fn list_cut_directions(&self, party: Party, cut: Cut) -> Vec<(SocketAddr, ProxyDirection)> {
        let mut held = Vec::new();
        for link in &self.0 {
            let (outward, inward) = if link.from == party {
                (ProxyDirection::ToServer, ProxyDirection::ToClient)
            } else if link.to == party {
                (ProxyDirection::ToClient, ProxyDirection::ToServer)
            } else {
                continue;
            };
            if cut != Cut::Inward {
                held.push((link.proxy, outward));
            }
            if cut != Cut::Outward {
                held.push((link.proxy, inward));
            }
        }
        held
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::ports::local;

    #[test]
    fn a_partition_holds_one_direction_at_both_ends_of_a_link() {
        let link = |from, to, port| Link { from, to, proxy: local(port) };
        let links = Links(vec![
            link(Party::Replica(0), Party::LogServer(0), 1),
            link(Party::LogServer(1), Party::LogServer(0), 2),
            link(Party::LogServer(0), Party::LogServer(1), 3),
        ]);
        use ProxyDirection::{ToClient, ToServer};
        let server = Party::LogServer(0);
        let inward = [(local(1), ToServer), (local(2), ToServer), (local(3), ToClient)];
        assert_eq!(links.list_cut_directions(server, Cut::Inward), inward);
        let outward = [(local(1), ToClient), (local(2), ToClient), (local(3), ToServer)];
        assert_eq!(links.list_cut_directions(server, Cut::Outward), outward);
        assert_eq!(
            links.list_cut_directions(Party::Replica(0), Cut::Inward),
            [(local(1), ToClient)]
        );
        assert_eq!(links.list_cut_directions(server, Cut::Both).len(), 6);
        assert_eq!(links.routes_from(0), [local(3)]);
    }
}
