//! Holes of an archive: slots whose final blocks no archiver had when the archive had to continue.
//!
//! | bytes  | value                                                     |
//! |--------|-----------------------------------------------------------|
//! | 4, 2   | magic `HYSH`, version                                     |
//! | n      | the fields of [`ArchiveHole`], in their order             |
//! | 32     | BLAKE3 of all bytes before                                |
//!
//! A hole covers whole ranges of objects, so known blocks at its ends are in it, too. It is created once and stays. What
//! objects cover later is filled, and the rest is open.
//! Invariant: a slot of a hole is missing, not skipped, until an object covers it.
//! Not here: when an archive continues without a block (`writer`), which process fills a hole.

use std::ops::RangeInclusive;

use chain_solana::Block;
use depot::{Depot, DepotError};
use ledger::Slot;
use solana_epoch_schedule::EpochSchedule;
use solana_hash::Hash;
use store::{ByteReader, ByteWriter, DecodeError};

use super::error::ArchiveError;
use super::object::{cluster_dir, list_covered_slots};
use crate::final_digest::{FrameFault, append_digest, strip_magic_and_digest};

const VERSION: u16 = 1;
const MAGIC: &[u8; 4] = b"HYSH";
const SUFFIX: &str = ".hyh";
/// The directory of an archive's holes. Epochs, which are numbers, sort before it.
const DIR: &str = "holes";
/// Bytes of a hole that are read: it has about 300.
const HOLE_BYTES_MAX: usize = 4_096;

/// The name of a hole's object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveHoleKey {
    /// The key.
    pub key: String,
    /// The cluster.
    pub cluster: String,
    /// The first slot that it covers.
    pub first: Slot,
    /// The last slot that it covers.
    pub last: Slot,
}

/// Slots whose final blocks were unknown when the archive had to continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveHole {
    /// The cluster.
    pub cluster: String,
    /// The first slot that it covers.
    pub first: Slot,
    /// The last slot that it covers.
    pub last: Slot,
    /// The first slot whose block was unknown.
    pub missing_first: Slot,
    /// The digest of the object or hole before; `None` if the archive begins with the hole.
    pub before: Option<[u8; 32]>,
    /// The last block that was unknown.
    pub end: HoleEnd,
}

/// The last unknown block of a hole, as the block after it names its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoleEnd {
    /// The slot.
    pub slot: Slot,
    /// The blockhash.
    pub blockhash: Hash,
    /// The bank hash.
    pub bank_hash: Hash,
}

impl ArchiveHoleKey {
    fn new(cluster: &str, slots: RangeInclusive<Slot>) -> Self {
        let first = *slots.start();
        let last = *slots.end();
        let key = format!("{}/{DIR}/{first:020}-{last:020}{SUFFIX}", cluster_dir(cluster));
        Self { key, cluster: cluster.to_owned(), first, last }
    }

    /// Parses the key of a hole. Returns `None` for any other object.
    fn parse(cluster: &str, key: &str) -> Option<Self> {
        let (_, name) = key.rsplit_once('/')?;
        let (first, last) = name.strip_suffix(SUFFIX)?.split_once('-')?;
        let parsed = Self::new(cluster, first.parse().ok()?..=last.parse().ok()?);
        (parsed.key == key && parsed.first <= parsed.last).then_some(parsed)
    }

    /// The slots that it covers.
    pub fn slots(&self) -> RangeInclusive<Slot> {
        self.first..=self.last
    }
}

impl HoleEnd {
    /// Creates the end of a hole from the block after it, whose parent it is.
    pub(super) fn from_child(block: &Block) -> Self {
        Self {
            slot: block.parent.slot,
            blockhash: block.previous_blockhash,
            bank_hash: block.hash_components.parent_hash,
        }
    }

    /// Whether an archive may have a block: it is this one, follows it, or is before it. A block of another chain is
    /// refused.
    pub(super) fn is_consistent_with(&self, block: &Block) -> bool {
        if block.id.slot < self.slot {
            return true;
        }
        if block.id.slot == self.slot {
            return block.blockhash == self.blockhash && block.bank_hash == self.bank_hash;
        }
        block.parent.slot > self.slot || Self::from_child(block) == *self
    }
}

impl ArchiveHole {
    /// Returns the name of the hole's object.
    pub fn key(&self) -> ArchiveHoleKey {
        ArchiveHoleKey::new(&self.cluster, self.first..=self.last)
    }

    /// Returns the digest by which the object after the hole names it.
    pub fn digest(&self) -> [u8; 32] {
        *blake3::hash(&self.encode()).as_bytes()
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = ByteWriter::default();
        out.0.extend(MAGIC);
        out.u16(VERSION);
        out.str(&self.cluster);
        out.u64(self.first);
        out.u64(self.last);
        out.u64(self.missing_first);
        out.option(self.before.as_ref(), ByteWriter::key);
        out.u64(self.end.slot);
        out.key(self.end.blockhash.as_bytes());
        out.key(self.end.bank_hash.as_bytes());
        out.0
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.encode();
        append_digest(&mut bytes);
        bytes
    }

    fn from_bytes(bytes: &[u8], named: &ArchiveHoleKey) -> Result<Self, ArchiveError> {
        let key = &named.key;
        let damaged = |what| ArchiveError::Damaged { key: key.clone(), what };
        let body = strip_magic_and_digest(bytes, MAGIC).map_err(|fault| match fault {
            FrameFault::Magic => damaged("start"),
            FrameFault::Digest => damaged("digest"),
        })?;
        let mut from = ByteReader::new(body);
        let found = from.u16("version").map_err(ArchiveError::decode_error(key))?;
        if found != VERSION {
            return Err(ArchiveError::Version { key: key.clone(), found, known: VERSION });
        }
        let hole = Self::read(from).map_err(ArchiveError::decode_error(key))?;
        if hole.key() != *named {
            return Err(damaged("it is of other slots"));
        }
        let missing = hole.missing_first..=hole.end.slot;
        if missing.is_empty() || hole.first > hole.missing_first || hole.last < hole.end.slot {
            return Err(damaged("order of its slots"));
        }
        Ok(hole)
    }

    fn read(mut from: ByteReader<'_>) -> Result<Self, DecodeError> {
        let hole = Self {
            cluster: from.str("cluster")?,
            first: from.u64("first slot")?,
            last: from.u64("last slot")?,
            missing_first: from.u64("first missing slot")?,
            before: from.option("digest of the object before", |from| {
                from.key("digest of the object before")
            })?,
            end: HoleEnd {
                slot: from.u64("last missing slot")?,
                blockhash: from.key("last missing blockhash").map(Hash::new_from_array)?,
                bank_hash: from.key("last missing bank hash").map(Hash::new_from_array)?,
            },
        };
        from.end().map(|()| hole)
    }
}

/// Lists the holes of a cluster's archive, filled ones included, in the order of their slots.
///
/// # Errors
///
/// Those of the store.
pub async fn list_holes(depot: &Depot, cluster: &str) -> Result<Vec<ArchiveHoleKey>, DepotError> {
    let found = depot.list(&format!("{}/{DIR}", cluster_dir(cluster))).await?;
    let mut holes: Vec<ArchiveHoleKey> =
        found.iter().filter_map(|object| ArchiveHoleKey::parse(cluster, &object.key)).collect();
    holes.sort_unstable_by_key(|hole| (hole.first, hole.last));
    Ok(holes)
}

/// Reads a hole.
///
/// # Errors
///
/// The store failed, or the object is damaged or of another version.
pub async fn read_hole(depot: &Depot, key: &ArchiveHoleKey) -> Result<ArchiveHole, ArchiveError> {
    let bytes = match depot.get(&key.key, HOLE_BYTES_MAX).await {
        Err(DepotError::TooLong { .. }) => {
            return Err(ArchiveError::Damaged { key: key.key.clone(), what: "length" });
        }
        found => found?,
    };
    ArchiveHole::from_bytes(&bytes, key)
}

/// Returns the slots of a hole that no object covers. Cost: a list of the objects from its first epoch on.
///
/// # Errors
///
/// Those of the store.
pub async fn list_open_slots(
    depot: &Depot,
    schedule: &EpochSchedule,
    hole: &ArchiveHoleKey,
) -> Result<Vec<RangeInclusive<Slot>>, ArchiveError> {
    let slots = hole.slots();
    let covered = list_covered_slots(depot, schedule, &hole.cluster, &slots).await?;
    Ok(covered.find_gaps(slots))
}

#[cfg(test)]
mod tests {
    use depot::DepotConfig;

    use super::super::object::ArchiveObject;
    use super::*;

    fn hole() -> ArchiveHole {
        ArchiveHole {
            cluster: "test".to_owned(),
            first: 100,
            last: 299,
            missing_first: 150,
            before: Some([3; 32]),
            end: HoleEnd {
                slot: 222,
                blockhash: Hash::new_from_array([4; 32]),
                bank_hash: Hash::new_from_array([5; 32]),
            },
        }
    }

    #[test]
    fn a_hole_is_read_as_it_was_written_and_each_flipped_bit_is_noticed() {
        let hole = hole();
        let key = hole.key();
        assert!(key.key.starts_with("archive/test/holes/00000000000000000100-"), "{}", key.key);
        assert_eq!(ArchiveHoleKey::parse("test", &key.key), Some(key.clone()));
        let bytes = hole.to_bytes();
        assert_eq!(ArchiveHole::from_bytes(&bytes, &key).expect("it is intact"), hole);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            let err = ArchiveHole::from_bytes(&damaged, &key).expect_err("a bit was flipped");
            assert!(err.to_string().contains(&key.key), "{err}");
            ArchiveHole::from_bytes(&bytes[..at], &key).expect_err("it was cut");
        }
    }

    #[test]
    fn a_hole_under_the_name_of_another_or_with_slots_out_of_order_is_refused() {
        let other = ArchiveHole { last: 399, ..hole() };
        let err = ArchiveHole::from_bytes(&hole().to_bytes(), &other.key()).expect_err("another");
        assert!(err.to_string().contains("other slots"), "{err}");
        for missing_first in [99, 223] {
            let hole = ArchiveHole { missing_first, ..hole() };
            let err = ArchiveHole::from_bytes(&hole.to_bytes(), &hole.key());
            let err = err.expect_err("slots out of order").to_string();
            assert!(err.contains("order of its slots"), "{err}");
        }
    }

    #[test]
    fn keys_of_other_objects_are_not_holes() {
        let key = hole().key().key;
        for other in [
            key.replace(".hyh", ".hya"),
            key.replace("holes", "hole"),
            key.replace("00100", "100"),
            key.replace("test", "other"),
            format!("{key}/x"),
        ] {
            assert_eq!(ArchiveHoleKey::parse("test", &other), None, "{other}");
        }
    }

    #[tokio::test]
    async fn the_open_slots_of_a_hole_of_many_short_epochs_are_found() {
        let depot = Depot::open("memory:", &DepotConfig::default()).expect("a store in memory");
        let schedule = EpochSchedule::custom(32, 32, false);
        // More objects than the store lists with one request.
        let epochs = 100..1_300;
        let open = [101, 1_250];
        for epoch in epochs.clone().filter(|epoch| !open.contains(epoch)) {
            let first = epoch * 32;
            let object = ArchiveObject::new("test", epoch, first..=first + 31, 1);
            depot.put_new(&object.key, vec![0].into()).await.expect("a store in memory");
        }
        let key = ArchiveHoleKey::new("test", epochs.start * 32..=epochs.end * 32 - 1);
        depot.put_new(&key.key, vec![0].into()).await.expect("a store in memory");
        let found = list_open_slots(&depot, &schedule, &key).await.expect("a store in memory");
        assert_eq!(found, open.map(|epoch| epoch * 32..=epoch * 32 + 31));
        // Objects behind a hole are not a part of it.
        let key = ArchiveHoleKey::new("test", 100 * 32..=102 * 32 - 1);
        let found = list_open_slots(&depot, &schedule, &key).await.expect("a store in memory");
        assert_eq!(found, [101 * 32..=102 * 32 - 1]);
    }
}
