//! The common parts of filters: lists of addresses, cuckoo filters, and their limits.

use std::fmt::Write as _;

use foldhash::{HashSet, HashSetExt};
use solana_pubkey::Pubkey;
use tonic::Status;
use yellowstone_grpc_proto::cuckoo;
use yellowstone_grpc_proto::geyser::{CuckooFilter, CuckooHashAlgorithm};

use crate::config::Config;

/// Bytes of a filter without its lists.
pub(super) const FILTER_BYTES: usize = 512;
/// Bytes of an address in a list and in the index.
pub(super) const ADDRESS_BYTES: usize = 150;
/// The cost of looking one address up in a cuckoo filter.
pub(super) const CUCKOO_COST: usize = 4;
/// Fingerprints of a bucket, and the bits of one, that the proto's crate uses.
const ENTRIES_PER_BUCKET: u32 = 4;
const FINGERPRINT_BITS: u32 = 16;

/// Addresses that an update may have: a list, and a probabilistic set. Without both it has any.
#[derive(Debug, Default)]
pub(super) struct AddressFilter {
    pub(super) list: HashSet<Pubkey>,
    pub(super) cuckoo: Option<Cuckoo>,
}

/// A cuckoo filter of addresses.
#[derive(Debug)]
pub(super) struct Cuckoo {
    filter: cuckoo::CuckooFilter<[u8; 32]>,
    bytes: usize,
}

impl AddressFilter {
    pub(super) fn new(
        field: &str,
        list: &[String],
        cuckoo: Option<&CuckooFilter>,
        config: &Config,
    ) -> Result<Self, Status> {
        let list = addresses(field, list, config)?;
        Ok(Self { list, cuckoo: cuckoo.map(Cuckoo::new).transpose()? })
    }

    /// Whether every address matches.
    pub(super) fn is_any(&self) -> bool {
        self.list.is_empty() && self.cuckoo.is_none()
    }

    /// Whether only the addresses of the list match.
    pub(super) fn is_exact(&self) -> bool {
        !self.list.is_empty() && self.cuckoo.is_none()
    }

    pub(super) fn matches(&self, key: &Pubkey) -> bool {
        self.is_any()
            || self.list.contains(key)
            || self.cuckoo.as_ref().is_some_and(|cuckoo| cuckoo.filter.contains(&key.to_bytes()))
    }

    pub(super) fn bytes(&self) -> usize {
        self.list.len() * ADDRESS_BYTES + self.cuckoo.as_ref().map_or(0, |cuckoo| cuckoo.bytes)
    }
}

impl Cuckoo {
    /// Checks the shape: the proto's crate takes a filter of any shape, and then indexes out of it.
    fn new(filter: &CuckooFilter) -> Result<Self, Status> {
        let bucket_bytes = (ENTRIES_PER_BUCKET * FINGERPRINT_BITS / 8) as usize;
        let count = filter.bucket_count as usize;
        let is_supported = filter.hash_algorithm == i32::from(CuckooHashAlgorithm::SipHash)
            && filter.entries_per_bucket == ENTRIES_PER_BUCKET
            && filter.fingerprint_bits == FINGERPRINT_BITS;
        if !is_supported {
            return Err(Status::invalid_argument(
                "a cuckoo filter must have SIP_HASH, 4 entries_per_bucket and 16 fingerprint_bits",
            ));
        }
        if !count.is_power_of_two() || count.checked_mul(bucket_bytes) != Some(filter.data.len()) {
            return Err(Status::invalid_argument(
                "a cuckoo filter must have a power of two as bucket_count, and 8 bytes of data for \
                 each bucket",
            ));
        }
        Ok(Self { filter: cuckoo::CuckooFilter::from(filter), bytes: filter.data.len() })
    }
}

/// Parses a list of addresses.
pub(super) fn addresses(
    field: &str,
    list: &[String],
    config: &Config,
) -> Result<HashSet<Pubkey>, Status> {
    check_count(field, list.len(), config.addresses_max, Some("grpc.addresses_max"))?;
    let mut addresses = HashSet::with_capacity(list.len());
    for text in list {
        let address = text.parse::<Pubkey>().map_err(|_| {
            let shown: String = text.chars().take(64).collect();
            Status::invalid_argument(format!("{field}: {shown:?} is no address"))
        })?;
        addresses.insert(address);
    }
    Ok(addresses)
}

/// Refuses too many entries of a field.
pub(super) fn check_count(
    field: &str,
    count: usize,
    count_max: usize,
    setting: Option<&str>,
) -> Result<(), Status> {
    if count <= count_max {
        return Ok(());
    }
    let mut message = format!("{field} has {count} entries, at most {count_max} are allowed");
    if let Some(setting) = setting {
        let _ = write!(message, " ({setting})");
    }
    Err(Status::invalid_argument(message))
}
