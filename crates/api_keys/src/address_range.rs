//! Ranges of IP addresses, in CIDR notation.

use core::net::IpAddr;
use std::str::FromStr;

/// The addresses that share their first bits with a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AddressRange {
    network: IpAddr,
    prefix_len: u8,
}

impl AddressRange {
    /// Returns whether an address is in the range. An IPv4 address in the form of IPv6 is the IPv4 address.
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        match (self.network, address.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let bits = u32::from(self.prefix_len);
                let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
                network.to_bits() & mask == address.to_bits() & mask
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let bits = u32::from(self.prefix_len);
                let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
                network.to_bits() & mask == address.to_bits() & mask
            }
            _ => false,
        }
    }
}

/// A text that is neither an address nor a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an IP address or a range such as 203.0.113.0/24 is expected")]
pub(crate) struct NotARange;

impl FromStr for AddressRange {
    type Err = NotARange;

    fn from_str(text: &str) -> Result<Self, NotARange> {
        let (address, prefix_len) = match text.split_once('/') {
            Some((address, len)) => (address, Some(len.parse().map_err(|_| NotARange)?)),
            None => (text, None),
        };
        let network = address.parse::<IpAddr>().map_err(|_| NotARange)?;
        let len_max = if network.is_ipv4() { 32 } else { 128 };
        let prefix_len = prefix_len.unwrap_or(len_max);
        if prefix_len > len_max { Err(NotARange) } else { Ok(Self { network, prefix_len }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_contains_its_networks_addresses() {
        let contains = |range: &str, address: &str| {
            let range: AddressRange = range.parse().expect("a range");
            range.contains(address.parse().expect("an address"))
        };
        assert!(contains("203.0.113.0/24", "203.0.113.9"));
        assert!(contains("203.0.113.0/24", "::ffff:203.0.113.9"));
        assert!(!contains("203.0.113.0/24", "203.0.114.9"));
        assert!(contains("203.0.113.7", "203.0.113.7") && !contains("203.0.113.7", "203.0.113.8"));
        assert!(contains("0.0.0.0/0", "8.8.8.8") && !contains("0.0.0.0/0", "2001:db8::1"));
        assert!(contains("2001:db8::/32", "2001:db8:1::1"));
        assert!(contains("::/0", "2001:db8:1::1") && !contains("2001:db8::/33", "2001:db8:8000::"));
        for bad in ["", "x", "10.0.0.0/33", "::/129", "10.0.0.0/", "10.0.0.0/-1", "10.0.0/8"] {
            assert_eq!(bad.parse::<AddressRange>(), Err(NotARange), "{bad}");
        }
    }
}
