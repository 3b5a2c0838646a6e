//! Kaspa's networks: names, prefixes of addresses, ports.

use std::fmt;
use std::str::FromStr;

/// The prefix of an address. It says for which network the address is; the script is the same on all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Prefix {
    /// `kaspa`
    Mainnet,
    /// `kaspatest`
    Testnet,
    /// `kaspasim`
    Simnet,
    /// `kaspadev`
    Devnet,
}

impl Prefix {
    /// All prefixes, each at its number in Borsh.
    pub const ALL: [Self; 4] = [Self::Mainnet, Self::Testnet, Self::Simnet, Self::Devnet];

    /// Returns the text before the colon.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mainnet => "kaspa",
            Self::Testnet => "kaspatest",
            Self::Simnet => "kaspasim",
            Self::Devnet => "kaspadev",
        }
    }

    /// Returns the prefix with this text, which is in lower case.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|prefix| prefix.name() == name)
    }
}

/// One network. Its text is as in `networkId`: `mainnet`, `testnet-10`, `simnet`, `devnet`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Network {
    /// The main network.
    Mainnet,
    /// A test network, with its number.
    Testnet(u32),
    /// A network for development, with real proof of work.
    Devnet,
    /// A simulation, without proof of work.
    Simnet,
}

/// The ports on which a kaspad of a network listens by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// The port of gRPC.
    pub grpc: u16,
    /// The port of wRPC in Borsh.
    pub borsh: u16,
    /// The port of wRPC in JSON.
    pub json: u16,
    /// The port for connections of other nodes.
    pub p2p: u16,
}

/// Text that does not name a network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is not a network of Kaspa: mainnet, testnet-NUMBER, devnet or simnet")]
pub struct UnknownNetwork {
    /// The text that was read as a network.
    pub name: String,
}

impl Network {
    /// Returns the prefix of its addresses.
    pub fn prefix(self) -> Prefix {
        match self {
            Self::Mainnet => Prefix::Mainnet,
            Self::Testnet(_) => Prefix::Testnet,
            Self::Devnet => Prefix::Devnet,
            Self::Simnet => Prefix::Simnet,
        }
    }

    /// Returns the ports of its nodes.
    pub fn ports(self) -> Ports {
        let with_base = |base: u16, p2p: u16| Ports {
            grpc: base,
            borsh: base + 1_000,
            json: base + 2_000,
            p2p,
        };
        match self {
            Self::Mainnet => with_base(16_110, 16_111),
            Self::Testnet(10) => with_base(16_210, 16_211),
            Self::Testnet(12) => with_base(16_210, 16_311),
            Self::Testnet(_) => with_base(16_210, 16_411),
            Self::Simnet => with_base(16_510, 16_511),
            Self::Devnet => with_base(16_610, 16_611),
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mainnet => f.write_str("mainnet"),
            Self::Testnet(number) => write!(f, "testnet-{number}"),
            Self::Devnet => f.write_str("devnet"),
            Self::Simnet => f.write_str("simnet"),
        }
    }
}

impl FromStr for Network {
    type Err = UnknownNetwork;

    fn from_str(name: &str) -> Result<Self, UnknownNetwork> {
        match name {
            "mainnet" => return Ok(Self::Mainnet),
            "devnet" => return Ok(Self::Devnet),
            "simnet" => return Ok(Self::Simnet),
            _ => {}
        }
        let number = name.strip_prefix("testnet-").and_then(|number| number.parse().ok());
        number.map(Self::Testnet).ok_or_else(|| UnknownNetwork { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for network in [Network::Mainnet, Network::Testnet(10), Network::Devnet, Network::Simnet] {
            assert_eq!(network.to_string().parse(), Ok(network));
        }
        for name in ["", "testnet", "testnet-", "testnet-x", "testnet-4294967296", "main"] {
            let error = UnknownNetwork { name: name.to_owned() };
            assert_eq!(name.parse::<Network>(), Err(error));
        }
    }

    #[test]
    fn ports_are_those_of_kaspad() {
        let ports = |grpc, borsh, json, p2p| Ports { grpc, borsh, json, p2p };
        assert_eq!(Network::Mainnet.ports(), ports(16_110, 17_110, 18_110, 16_111));
        assert_eq!(Network::Testnet(10).ports(), ports(16_210, 17_210, 18_210, 16_211));
        assert_eq!(Network::Simnet.ports(), ports(16_510, 17_510, 18_510, 16_511));
        assert_eq!(Network::Devnet.ports(), ports(16_610, 17_610, 18_610, 16_611));
    }
}
