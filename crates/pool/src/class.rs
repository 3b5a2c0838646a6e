//! What the pool knows of a task: what it costs, and whose it is.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What a task costs, by what it will touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Some tens of microseconds: a signature, one transaction of history.
    Light,
    /// Some milliseconds: a block, a page, a hundred accounts, a run of the VM.
    Medium,
    /// As long as the state is large: a scan.
    Heavy,
}

impl Class {
    /// Every class, the cheapest first.
    pub const ALL: [Self; 3] = [Self::Light, Self::Medium, Self::Heavy];

    /// Its place in [`Self::ALL`].
    pub fn index(self) -> usize {
        match self {
            Self::Light => 0,
            Self::Medium => 1,
            Self::Heavy => 2,
        }
    }

    /// As messages and metrics name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Medium => "medium",
            Self::Heavy => "heavy",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whose a task is. Clients take turns; equal ids are one client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId(pub u128);

impl ClientId {
    /// A client by where it comes from. The addresses of one IPv6 network (64 bits) are one client:
    /// whoever has one of them has all.
    pub fn from_ip(ip: IpAddr) -> Self {
        match ip.to_canonical() {
            IpAddr::V4(ip) => Self(u128::from(ip.to_bits())),
            IpAddr::V6(ip) => Self(ip.to_bits() & !u128::from(u64::MAX)),
        }
    }

    /// A client by a name that somebody trusted gave it.
    pub fn from_name(name: &[u8]) -> Self {
        // Two names in 2^64 are one client: it costs the one some of the other's turns.
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        Self(u128::from(u64::MAX) << 64 | u128::from(hasher.finish()))
    }

    /// The same client's work that is not to stand behind the rest of its own: the pool's turns and places take
    /// it for another client's. Not for limits or the log.
    #[must_use]
    pub fn background(self) -> Self {
        // Of the high half an address has no bit and a name all, of the low half a network has none: with one of
        // each turned over it is neither of them, but for a multicast network and one name in 2^64.
        Self(self.0 ^ (1 << 64 | 1 << 32))
    }
}

/// As the log names a client: its address or network, or the number that its name became.
impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (u32::try_from(self.0), (self.0 >> 64) as u64) {
            (Ok(ip), _) => Ipv4Addr::from_bits(ip).fmt(f),
            (Err(_), u64::MAX) => write!(f, "name-{:016x}", self.0 as u64),
            (Err(_), _) => write!(f, "{}/64", Ipv6Addr::from_bits(self.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_an_address_or_a_network() {
        let of = |text: &str| ClientId::from_ip(text.parse().expect("an address"));
        assert_eq!(of("10.0.0.1"), of("::ffff:10.0.0.1"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
        assert_eq!(of("2001:db8::1"), of("2001:db8::2"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_ne!(ClientId::from_name(b"a"), ClientId::from_name(b"b"));
        assert_eq!(of("::ffff:10.0.0.1").to_string(), "10.0.0.1");
        assert_eq!(of("2001:db8::1").to_string(), "2001:db8::/64");
        assert!(ClientId::from_name(b"a").to_string().starts_with("name-"));
    }

    #[test]
    fn a_background_id_equals_no_other_clients_id() {
        let of = |text: &str| ClientId::from_ip(text.parse().expect("an address"));
        let neighbours =
            ["10.0.0.1", "0.0.0.1", "255.255.255.255", "::1", "0:0:0:1::", "2001:db8::"];
        let mut all: Vec<_> = neighbours.map(of).to_vec();
        all.extend([b"a", b"b"].map(|name| ClientId::from_name(name)));
        all.extend(all.clone().into_iter().map(ClientId::background));
        let different: std::collections::HashSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len());
        for aside in &all[all.len() / 2..] {
            let (high, low) = ((aside.0 >> 64) as u64, aside.0 as u64);
            assert!(high != 0 || u32::try_from(low).is_err(), "{aside:?} is an address");
            assert!(low != 0, "{aside:?} is a network");
            assert!(high != u64::MAX, "{aside:?} is a name");
        }
    }
}
