//! The identity of a client.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use api_keys::{Caller, KeyNumber};

/// The key of the hashes of names, random for each process: clients choose their names, and a client that could compute
/// the hash could share the time slices of another one on purpose.
static NAME_KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// The high half of the ids of API keys. The low half is the key's number, which is never 0, so no network has the id.
const KEY_MARK: u64 = 0xffff_ffff_ffff_ff00;

/// A client of the node: an address, a name from a trusted source, or an API key. Equal ids are one client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId(pub u128);

impl ClientId {
    /// The node itself, for its own work. No address, name or key has this id: a key's number has 32 bits, and a network
    /// has 0 in the low half.
    pub const INTERNAL: Self = Self((KEY_MARK as u128) << 64 | u64::MAX as u128);

    /// A client by its address. All addresses of an IPv6 network (64 bits) are one client,
    /// because a client that has one of them has all.
    pub fn from_ip(ip: IpAddr) -> Self {
        match ip.to_canonical() {
            IpAddr::V4(ip) => Self(u128::from(ip.to_bits())),
            IpAddr::V6(ip) => Self(ip.to_bits() & !u128::from(u64::MAX)),
        }
    }

    /// A client by a name from a trusted source. The id is valid in this process only.
    pub fn from_name(name: &[u8]) -> Self {
        // Two names in 2^64 collide: the two clients then share their time slices.
        Self(u128::from(u64::MAX) << 64 | u128::from(NAME_KEY.hash_one(name)))
    }

    /// A client by the number of its API key.
    pub fn from_key(number: KeyNumber) -> Self {
        Self(u128::from(KEY_MARK) << 64 | u128::from(number.0))
    }

    /// Whether it is on the machine of the node, or behind a proxy there that names no client.
    pub fn is_on_this_machine(self) -> bool {
        let is_loopback = |ip: u32| ip == 0 || Ipv4Addr::from_bits(ip).is_loopback();
        // The network of ::1 is 0.
        u32::try_from(self.0).is_ok_and(is_loopback)
    }

    /// The number of its API key, if it has one.
    pub fn key(self) -> Option<KeyNumber> {
        let number = u32::try_from(self.0 as u64).ok().filter(|number| *number > 0);
        number.filter(|_| (self.0 >> 64) as u64 == KEY_MARK).map(KeyNumber)
    }

    /// Returns the identity under which API keys account for the client.
    pub fn caller(self) -> Caller {
        self.key().map_or(Caller::Anonymous(self.0), Caller::Key)
    }

    /// The id of the same client's background work, so that it is not queued behind the client's other tasks:
    /// the scheduler and the quota treat it as another client. Not for limits or the log.
    #[must_use]
    pub fn background(self) -> Self {
        // In the high half an address has no bit set and a name all; in the low half a network has none. With one bit
        // of each half flipped it is none of them, except for a multicast network and one name in 2^64.
        Self(self.0 ^ (1 << 64 | 1 << 32))
    }
}

/// The client's name in the log: its address or network, the hash of its name in this process, the number of its API
/// key, or `internal`.
impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::INTERNAL {
            return f.write_str("internal");
        }
        match (u32::try_from(self.0), (self.0 >> 64) as u64) {
            (Ok(ip), _) => Ipv4Addr::from_bits(ip).fmt(f),
            (Err(_), u64::MAX) => write!(f, "name-{:016x}", self.0 as u64),
            (Err(_), KEY_MARK) => write!(f, "key-{}", self.0 as u64),
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
    fn a_client_on_this_machine_has_a_loopback_address() {
        let of = |text: &str| ClientId::from_ip(text.parse().expect("an address"));
        for ip in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            assert!(of(ip).is_on_this_machine(), "{ip}");
        }
        for ip in ["10.0.0.1", "128.0.0.1", "2001:db8::1", "fe80::1"] {
            assert!(!of(ip).is_on_this_machine(), "{ip}");
        }
        assert!(!ClientId::from_name(b"a").is_on_this_machine());
        assert!(!ClientId::from_key(KeyNumber(127 << 24 | 1)).is_on_this_machine());
    }

    #[test]
    fn a_background_id_equals_no_other_clients_id() {
        let of = |text: &str| ClientId::from_ip(text.parse().expect("an address"));
        let neighbours =
            ["10.0.0.1", "0.0.0.1", "255.255.255.255", "::1", "0:0:0:1::", "2001:db8::"];
        let mut all: Vec<_> = neighbours.map(of).to_vec();
        all.extend([b"a", b"b"].map(|name| ClientId::from_name(name)));
        all.extend([1, 2, u32::MAX].map(|number| ClientId::from_key(KeyNumber(number))));
        all.extend(all.clone().into_iter().map(ClientId::background));
        let different: std::collections::HashSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len());
        for background in &all[all.len() / 2..] {
            let high = (background.0 >> 64) as u64;
            let low = background.0 as u64;
            assert!(high != 0 || u32::try_from(low).is_err(), "{background:?} is an address");
            assert!(low != 0, "{background:?} is a network");
            assert!(high != u64::MAX, "{background:?} is a name");
            assert_eq!(background.key(), None, "{background:?} is a key");
        }
    }

    #[test]
    fn no_address_and_no_key_has_the_id_of_the_node_itself() {
        let internal = ClientId::INTERNAL;
        let of = |text: &str| ClientId::from_ip(text.parse().expect("an address"));
        for ip in ["::1", "::", "0.0.0.0", "127.0.0.1", "ffff:ffff:ffff:ff00:ffff:ffff:ffff:ffff"] {
            assert!(of(ip) != internal && of(ip).background() != internal, "{ip}");
        }
        for number in [1, u32::MAX] {
            let key = ClientId::from_key(KeyNumber(number));
            assert!(key != internal && key.background() != internal, "{number}");
        }
        assert_ne!((internal.0 >> 64) as u64, u64::MAX, "it is a name");
        assert_eq!((internal.key(), internal.is_on_this_machine()), (None, false));
        assert_eq!(internal.to_string(), "internal");
    }

    #[test]
    fn a_key_is_a_client_that_no_address_is() {
        let key = ClientId::from_key(KeyNumber(7));
        assert_eq!((key.key(), key.caller()), (Some(KeyNumber(7)), Caller::Key(KeyNumber(7))));
        assert_eq!(key.to_string(), "key-7");
        let network = ClientId::from_ip("ffff:ffff:ffff:ff00::7".parse().expect("an address"));
        assert_eq!((network.key(), network.caller()), (None, Caller::Anonymous(network.0)));
        assert_eq!(ClientId::from_name(b"a").key(), None);
    }
}
