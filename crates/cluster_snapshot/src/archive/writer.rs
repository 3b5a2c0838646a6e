//! Archives final blocks in their order.
//!
//! Two writers do no harm: both write objects of the same names, and an object is created once. If an object exists with
//! other content, because two sources disagree, it stays, and the writer continues after it.
//! Without a final block the writer refuses those after it, until its caller records a hole.
//! Memory: the compressed blocks of one object, twice while it is written.

use chain_solana::Block;
use chain_solana::wire::codec;
use depot::{Depot, Put};
use ledger::{BlockId, Slot};
use solana_epoch_schedule::EpochSchedule;
use store::ByteWriter;
use zstd::bulk::Compressor;

use super::ARCHIVE_SLOTS;
use super::error::ArchiveError;
use super::footer::{ArchiveFooter, ArchivedBlock, MAGIC, VERSION};
use super::hole::{ArchiveHole, HoleEnd, list_holes, read_hole};
use super::object::{ArchiveObject, find_newest, list_epoch};
use super::reader::read_footer;

/// zstd's default: an archive is written once and stored for years.
const LEVEL: i32 = 3;

/// Limits of an object.
#[derive(Clone, Copy, Debug)]
pub struct ArchiveLimits {
    /// Slots of an object. All archivers of a cluster have the same. More slots make fewer objects, which take more memory
    /// while they are written.
    pub object_slots: u64,
}

impl Default for ArchiveLimits {
    fn default() -> Self {
        Self { object_slots: ARCHIVE_SLOTS }
    }
}

impl ArchiveLimits {
    /// Returns the first slot of the range that starts at a slot, or else of the next range.
    pub fn next_range_start(self, schedule: &EpochSchedule, slot: Slot) -> Slot {
        let start = self.range_start(schedule, slot);
        if start == slot { start } else { self.range_last(schedule, slot).saturating_add(1) }
    }

    /// The first slot of the range of a slot.
    fn range_start(self, schedule: &EpochSchedule, slot: Slot) -> Slot {
        let epoch = schedule.get_epoch(slot);
        let aligned = slot - slot % self.object_slots.max(1);
        aligned.max(schedule.get_first_slot_in_epoch(epoch))
    }

    /// The last slot of the range of a slot. It depends on slots alone, since sources differ in the bytes of a block.
    fn range_last(self, schedule: &EpochSchedule, slot: Slot) -> Slot {
        let slots = self.object_slots.max(1);
        let aligned = (slot - slot % slots).saturating_add(slots - 1);
        let epoch = schedule.get_epoch(slot);
        aligned.min(schedule.get_last_slot_in_epoch(epoch))
    }
}

/// Archives final blocks.
pub struct ArchiveWriter {
    depot: Depot,
    cluster: String,
    schedule: EpochSchedule,
    limits: ArchiveLimits,
    compressor: Compressor<'static>,
    /// The first slot of the open range; `None` while the archive is empty.
    first: Option<Slot>,
    /// The last block that was pushed.
    last_pushed: Option<Slot>,
    /// The digest of the last object or hole.
    previous: Option<[u8; 32]>,
    /// The last missing block of the hole that is filled.
    hole_end: Option<HoleEnd>,
    open: OpenObject,
    disagreements: u64,
}

/// The end of an archive, after which a writer continues.
struct ArchiveStart {
    first: Option<Slot>,
    /// The digest of the object or hole before.
    previous: Option<[u8; 32]>,
}

/// The object that is being filled.
#[derive(Default)]
struct OpenObject {
    body: ByteWriter,
    blocks: Vec<ArchivedBlock>,
}

impl ArchiveWriter {
    /// Continues the archive of a cluster after its newest object or hole.
    ///
    /// # Errors
    ///
    /// The store failed, or the newest object or hole is damaged.
    pub async fn open(
        depot: Depot,
        cluster: &str,
        schedule: EpochSchedule,
        limits: ArchiveLimits,
    ) -> Result<Self, ArchiveError> {
        let object = find_newest(&depot, cluster).await?;
        let hole = list_holes(&depot, cluster).await?.into_iter().max_by_key(|hole| hole.last);
        let object_end = object.as_ref().map(|object| object.last);
        let start = if let Some(hole) = hole.filter(|hole| object_end < Some(hole.last)) {
            let digest = read_hole(&depot, &hole).await?.digest();
            ArchiveStart { first: Some(hole.last.saturating_add(1)), previous: Some(digest) }
        } else if let Some(object) = object {
            let digest = read_footer(&depot, &object).await?.digest();
            ArchiveStart { first: Some(object.last.saturating_add(1)), previous: Some(digest) }
        } else {
            ArchiveStart { first: None, previous: None }
        };
        Self::new(depot, cluster, schedule, limits, start)
    }

    /// Opens the archive at slots of a hole that no object covers ([`list_open_slots`](super::list_open_slots)). Blocks
    /// are pushed from `first` on, the start of a range. The first one after these slots ends their last object.
    /// Objects that exist stay. If the object before `first` does not exist yet, the one at `first` names the hole.
    ///
    /// # Errors
    ///
    /// The store failed, or the object before these slots is damaged.
    pub async fn open_hole(
        depot: Depot,
        hole: &ArchiveHole,
        first: Slot,
        schedule: EpochSchedule,
        limits: ArchiveLimits,
    ) -> Result<Self, ArchiveError> {
        let mut previous = hole.before;
        if let Some(last) = first.checked_sub(1).filter(|last| *last >= hole.first) {
            previous = Some(hole.digest());
            let objects = list_epoch(&depot, &hole.cluster, schedule.get_epoch(last)).await?;
            if let Some(object) = objects.iter().find(|object| object.last == last) {
                previous = Some(read_footer(&depot, object).await?.digest());
            }
        }
        let start = ArchiveStart { first: Some(first), previous };
        let opened = Self::new(depot, &hole.cluster, schedule, limits, start)?;
        Ok(Self { hole_end: Some(hole.end), ..opened })
    }

    fn new(
        depot: Depot,
        cluster: &str,
        schedule: EpochSchedule,
        limits: ArchiveLimits,
        start: ArchiveStart,
    ) -> Result<Self, ArchiveError> {
        let ArchiveStart { first, previous } = start;
        let compressor = Compressor::new(LEVEL);
        let encode_error =
            |err: std::io::Error| ArchiveError::Encode { slot: 0, reason: err.to_string() };
        Ok(Self {
            depot,
            cluster: cluster.to_owned(),
            schedule,
            limits,
            compressor: compressor.map_err(encode_error)?,
            first,
            last_pushed: None,
            previous,
            hole_end: None,
            open: OpenObject::default(),
            disagreements: 0,
        })
    }

    /// The first slot that is not archived. `None` if the archive is empty: it starts with the next whole range.
    pub fn next_slot(&self) -> Option<Slot> {
        self.first
    }

    /// The first slot whose block is unknown: after the last block that was pushed, or [`Self::next_slot`].
    pub fn needed_slot(&self) -> Option<Slot> {
        self.last_pushed.map(|last| last.saturating_add(1)).or(self.first)
    }

    /// Bytes of the compressed blocks that wait for the end of their object.
    pub fn open_bytes(&self) -> u64 {
        self.open.body.0.len() as u64
    }

    /// Number of objects that existed with other blocks.
    pub fn disagreements(&self) -> u64 {
        self.disagreements
    }

    /// Adds a final block, and writes the objects that are complete before it. Blocks below [`Self::next_slot`] are
    /// skipped. Returns the objects.
    ///
    /// # Errors
    ///
    /// A final block is missing, the block is not of the chain of the hole that is filled, the block cannot be encoded, or
    /// the store failed. After an error of the store, or once the missing block was pushed, the same block can be pushed
    /// again.
    pub async fn push(&mut self, block: &Block) -> Result<Vec<ArchiveObject>, ArchiveError> {
        let slot = block.id.slot;
        // An archive starts with a range whose blocks are all known.
        let aligned = slot.next_multiple_of(self.object_slots());
        let first = *self.first.get_or_insert(aligned);
        let mut written = Vec::new();
        if slot < first || self.last_pushed.is_some_and(|last| slot <= last) {
            return Ok(written);
        }
        let parent = block.parent.slot;
        let last = self.last_pushed.unwrap_or_else(|| first.saturating_sub(1));
        let follows = match self.last_pushed {
            Some(last) => parent == last,
            // Genesis is its own parent.
            None => parent < first || parent == slot,
        };
        if !follows {
            return Err(ArchiveError::Hole { slot, parent, last });
        }
        if let Some(end) = self.hole_end.filter(|end| !end.is_consistent_with(block)) {
            return Err(ArchiveError::OtherChain { slot, end: end.slot });
        }
        // The ranges of a hole that start after its end have no blocks.
        let is_first = self.last_pushed.is_none();
        let starts_past_end = |end: &HoleEnd| is_first && end.slot < first && end.slot < parent;
        if let Some(end) = self.hole_end.filter(starts_past_end) {
            return Err(ArchiveError::OtherChain { slot, end: end.slot });
        }
        while slot > self.range_end() {
            written.push(self.write_object(self.range_end()).await?);
        }
        self.add(slot, parent, &encode(block))?;
        Ok(written)
    }

    /// Records that the final blocks before `next` are missing, which [`Self::push`] has refused with
    /// [`ArchiveError::Hole`]. Writes the open range before, if it has all of its blocks. The archive continues with
    /// the first whole range that has no missing block. Of two holes of the same slots the first one stays.
    ///
    /// # Errors
    ///
    /// No block is missing before `next`, the existing hole is damaged, or the store failed.
    pub async fn record_hole(&mut self, next: &Block) -> Result<ArchiveHole, ArchiveError> {
        let slot = next.id.slot;
        let end = HoleEnd::from_child(next);
        let missing_first = self.needed_slot().unwrap_or(slot);
        if end.slot < missing_first || slot <= end.slot {
            let last = missing_first.saturating_sub(1);
            return Err(ArchiveError::Hole { slot, parent: end.slot, last });
        }
        self.write_whole_range().await?;
        let first = self.first.unwrap_or(slot);
        let start_of_next = self.range_start(slot);
        let last = if end.slot < start_of_next {
            // All blocks of the next range are known.
            start_of_next - 1
        } else {
            self.range_last(slot)
        };
        let cluster = self.cluster.clone();
        let before = self.previous;
        let mut hole = ArchiveHole { cluster, first, last, missing_first, before, end };
        let key = hole.key();
        if self.depot.put_new(&key.key, hole.to_bytes().into()).await? == Put::Exists {
            hole = read_hole(&self.depot, &key).await?;
        }
        self.previous = Some(hole.digest());
        self.first = Some(last.saturating_add(1));
        self.last_pushed = None;
        self.open = OpenObject::default();
        Ok(hole)
    }

    /// Writes the open range if it has all of its blocks. [`Self::push`] writes it with the first block after it, which
    /// may be unknown.
    ///
    /// # Errors
    ///
    /// The store failed.
    pub async fn write_whole_range(&mut self) -> Result<Option<ArchiveObject>, ArchiveError> {
        let last = self.range_end();
        if self.last_pushed != Some(last) {
            return Ok(None);
        }
        self.write_object(last).await.map(Some)
    }

    fn object_slots(&self) -> u64 {
        self.limits.object_slots.max(1)
    }

    /// The last slot of the open range.
    fn range_end(&self) -> Slot {
        self.range_last(self.first.unwrap_or_default())
    }

    fn range_last(&self, slot: Slot) -> Slot {
        self.limits.range_last(&self.schedule, slot)
    }

    fn range_start(&self, slot: Slot) -> Slot {
        self.limits.range_start(&self.schedule, slot)
    }

    fn add(&mut self, slot: Slot, parent_slot: Slot, encoded: &[u8]) -> Result<(), ArchiveError> {
        let encode_error = |reason: String| ArchiveError::Encode { slot, reason };
        let packed = self.compressor.compress(encoded);
        let packed = packed.map_err(|err| encode_error(err.to_string()))?;
        let too_long = |_| encode_error("is longer than 4 GiB".to_owned());
        let bytes = u32::try_from(packed.len()).map_err(too_long)?;
        let unpacked_bytes = u32::try_from(encoded.len()).map_err(too_long)?;
        let open = &mut self.open;
        if open.body.0.is_empty() {
            start_body(&mut open.body);
        }
        let offset = open.body.0.len() as u64;
        let digest = *blake3::hash(encoded).as_bytes();
        open.body.0.extend_from_slice(&packed);
        open.blocks.push(ArchivedBlock {
            slot,
            parent_slot,
            offset,
            bytes,
            unpacked_bytes,
            digest,
        });
        self.last_pushed = Some(slot);
        Ok(())
    }

    /// Writes the open range up to `last`, and opens the next. The blocks stay if the store fails.
    async fn write_object(&mut self, last: Slot) -> Result<ArchiveObject, ArchiveError> {
        let first = self.first.unwrap_or_default();
        let epoch = self.schedule.get_epoch(first);
        let footer = ArchiveFooter {
            cluster: self.cluster.clone(),
            epoch,
            first,
            last,
            blocks: self.open.blocks.clone(),
            previous: self.previous,
        };
        let mut body = ByteWriter(self.open.body.0.clone());
        if body.0.is_empty() {
            start_body(&mut body);
        }
        body.0.extend(footer.to_bytes());
        let bytes = body.0.len() as u64;
        let mut object = ArchiveObject::new(&self.cluster, epoch, first..=last, bytes);
        let mut digest = footer.digest();
        if self.depot.put_new(&object.key, body.0.into()).await? == Put::Exists {
            let objects = list_epoch(&self.depot, &self.cluster, epoch).await?;
            if let Some(existing) = objects.into_iter().find(|it| it.key == object.key) {
                object = existing;
            }
            let existing = read_footer(&self.depot, &object).await?;
            if !existing.has_blocks_of(&footer) {
                tracing::warn!(key = object.key, "another archiver wrote other blocks");
                self.disagreements += 1;
            }
            // Its object before may be a hole that was filled meanwhile.
            digest = existing.digest();
        }
        self.previous = Some(digest);
        self.first = Some(last.saturating_add(1));
        self.open = OpenObject::default();
        Ok(object)
    }
}

fn start_body(body: &mut ByteWriter) {
    body.0.extend(MAGIC);
    body.u16(VERSION);
}

/// Encodes a block without its account writes. The versions of blocks are numbers of a process, so they are left out.
fn encode(block: &Block) -> Vec<u8> {
    let without_version = |id: BlockId| BlockId { slot: id.slot, version: 0 };
    codec::write_block(&Block {
        id: without_version(block.id),
        parent: without_version(block.parent),
        transactions: block.transactions.clone(),
        rewards: block.rewards.clone(),
        ..block.without_content()
    })
}
