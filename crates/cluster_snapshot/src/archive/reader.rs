//! Reads an archive: footers, single blocks, and all of it for a check.

use std::ops::RangeInclusive;

use chain_solana::Block;
use chain_solana::wire::codec;
use depot::Depot;
use ledger::Slot;

use super::error::ArchiveError;
use super::footer::{ArchiveFooter, ArchivedBlock, END_BYTES};
use super::hole::{ArchiveHole, ArchiveHoleKey, list_holes, read_hole};
use super::object::{ArchiveObject, CoveredSlots, list_archive};

/// Bytes at the end of an object that are read at first: a footer of 1,000 blocks has 65 KB.
const END_READ_BYTES: u64 = 80_000;

/// Bytes of a block before and after compression. A larger one is refused before memory is allocated.
const BLOCK_BYTES_MAX: u32 = 1 << 30;

/// A fault of an archive.
#[derive(Debug)]
pub enum ArchiveFault {
    /// No object covers these slots, and no hole names them: objects were removed.
    Hole(RangeInclusive<Slot>),
    /// No object covers these slots of a recorded hole: no archiver had their blocks.
    Open {
        /// The hole.
        hole: ArchiveHole,
        /// Its slots without an object.
        slots: RangeInclusive<Slot>,
    },
    /// Two objects cover the same slots.
    Overlap {
        /// The key of the first.
        first: String,
        /// The key of the second.
        second: String,
    },
    /// The object was not written after the one before: it has another digest of it.
    Unchained {
        /// The key of the object.
        key: String,
    },
    /// The object or one of its blocks is damaged.
    Damaged(ArchiveError),
}

/// Reads the footer of an object.
///
/// # Errors
///
/// The store failed, or the object is damaged or of another version.
pub async fn read_footer(
    depot: &Depot,
    object: &ArchiveObject,
) -> Result<ArchiveFooter, ArchiveError> {
    let damaged = |what| ArchiveError::Damaged { key: object.key.clone(), what };
    let start = object.bytes.saturating_sub(END_READ_BYTES);
    let mut end = depot.get_range(&object.key, start..object.bytes).await?;
    let length = end.split_last_chunk::<END_BYTES>().map(|(_, length)| length);
    let length = length.ok_or_else(|| damaged("end"))?;
    let length = ArchiveFooter::read_length(length, object)?;
    if length > end.len() {
        let start = object.bytes - length as u64;
        end = depot.get_range(&object.key, start..object.bytes).await?;
    }
    ArchiveFooter::from_bytes(&end[end.len() - length..], object)
}

/// Reads a block of an object: one request. Returns `None` for a skipped slot. Its parent's version is unknown.
///
/// # Errors
///
/// The store failed, or the block is not the one that was archived.
pub async fn read_block(
    depot: &Depot,
    object: &ArchiveObject,
    footer: &ArchiveFooter,
    slot: Slot,
) -> Result<Option<Block>, ArchiveError> {
    let Some(archived) = footer.block(slot) else { return Ok(None) };
    if archived.bytes > BLOCK_BYTES_MAX || archived.unpacked_bytes > BLOCK_BYTES_MAX {
        return Err(ArchiveError::Block { key: object.key.clone(), slot, what: "length" });
    }
    let range = archived.offset..archived.offset + u64::from(archived.bytes);
    let packed = depot.get_range(&object.key, range).await?;
    decode(&object.key, archived, &packed).map(Some)
}

/// Reads all objects of an archive, and returns its faults. `blocks` decides whether each block is read too.
///
/// # Errors
///
/// The store failed.
pub async fn check_archive(
    depot: &Depot,
    cluster: &str,
    blocks: bool,
) -> Result<Vec<ArchiveFault>, ArchiveError> {
    let objects = list_archive(depot, cluster).await?;
    let mut faults = Vec::new();
    let holes = check_holes(depot, cluster, &objects, &mut faults).await?;
    let mut before: Option<(&ArchiveObject, Option<[u8; 32]>)> = None;
    for object in &objects {
        let footer = match read_footer(depot, object).await {
            Ok(footer) => footer,
            Err(ArchiveError::Depot(err)) => return Err(err.into()),
            Err(err) => {
                faults.push(ArchiveFault::Damaged(err));
                before = Some((object, None));
                continue;
            }
        };
        if let Some((before, digest)) = before {
            if before.last >= object.first {
                let first = before.key.clone();
                faults.push(ArchiveFault::Overlap { first, second: object.key.clone() });
            } else if before.last + 1 == object.first
                && digest.is_some()
                && footer.previous != digest
                && !follows_hole(&footer, &holes)
            {
                faults.push(ArchiveFault::Unchained { key: object.key.clone() });
            }
        }
        if blocks {
            for block in &footer.blocks {
                match read_block(depot, object, &footer, block.slot).await {
                    Ok(_) => {}
                    Err(ArchiveError::Depot(err)) => return Err(err.into()),
                    Err(err) => faults.push(ArchiveFault::Damaged(err)),
                }
            }
        }
        before = Some((object, Some(footer.digest())));
    }
    Ok(faults)
}

/// A hole, as the objects that were written after it name it.
struct IntactHole {
    slots: RangeInclusive<Slot>,
    digest: [u8; 32],
}

/// Adds the slots that no object covers, and damaged holes. Returns the intact holes.
async fn check_holes(
    depot: &Depot,
    cluster: &str,
    objects: &[ArchiveObject],
    faults: &mut Vec<ArchiveFault>,
) -> Result<Vec<IntactHole>, ArchiveError> {
    let covered = CoveredSlots::new(objects.iter().map(ArchiveObject::slots));
    let keys = list_holes(depot, cluster).await?;
    let named = CoveredSlots::new(keys.iter().map(ArchiveHoleKey::slots));
    let unnamed = covered.find_inner_gaps().into_iter().flat_map(|gap| named.find_gaps(gap));
    faults.extend(unnamed.map(ArchiveFault::Hole));
    let mut holes = Vec::new();
    for key in &keys {
        match read_hole(depot, key).await {
            Ok(hole) => {
                holes.push(IntactHole { slots: key.slots(), digest: hole.digest() });
                for slots in covered.find_gaps(key.slots()) {
                    faults.push(ArchiveFault::Open { hole: hole.clone(), slots });
                }
            }
            Err(ArchiveError::Depot(err)) => return Err(err.into()),
            Err(err) => faults.push(ArchiveFault::Damaged(err)),
        }
    }
    Ok(holes)
}

/// Whether an object was written after a hole that was filled later: behind the hole, or in it.
fn follows_hole(footer: &ArchiveFooter, holes: &[IntactHole]) -> bool {
    let first = footer.first;
    holes.iter().any(|hole| {
        let is_after = *hole.slots.start() < first && first <= hole.slots.end().saturating_add(1);
        is_after && footer.previous == Some(hole.digest)
    })
}

fn decode(key: &str, archived: &ArchivedBlock, packed: &[u8]) -> Result<Block, ArchiveError> {
    let slot = archived.slot;
    let damaged = |what| ArchiveError::Block { key: key.to_owned(), slot, what };
    let encoded = zstd::bulk::decompress(packed, archived.unpacked_bytes as usize);
    let encoded = encoded.map_err(|_| damaged("compressed bytes"))?;
    if blake3::hash(&encoded).as_bytes() != &archived.digest {
        return Err(damaged("digest"));
    }
    let block = codec::read_block(&encoded).map_err(|err| damaged(err.what))?;
    if block.id.slot == slot { Ok(block) } else { Err(damaged("slot")) }
}
