//! Archives final blocks in their order.
//!
//! Two writers do no harm: both write objects of the same names, and an object is created once. If an object exists with
//! other content, because two sources disagree, it stays, and the writer continues after it.
//! Memory: the compressed blocks of one object, twice while it is written.

use chain_solana::Block;
use chain_solana::wire::codec;
use depot::{Depot, Put};
use ledger::{BlockId, Slot};
use solana_epoch_schedule::EpochSchedule;
use store::ByteWriter;
use zstd::bulk::Compressor;

use super::error::ArchiveError;
use super::footer::{ArchiveFooter, ArchivedBlock, MAGIC, VERSION};
use super::reader::read_footer;
use super::{ARCHIVE_SLOTS, ArchiveObject, list_archive};

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
    /// The digest of the last object.
    previous: Option<[u8; 32]>,
    open: OpenObject,
    disagreements: u64,
}

/// The object that is being filled.
#[derive(Default)]
struct OpenObject {
    body: ByteWriter,
    blocks: Vec<ArchivedBlock>,
}

impl ArchiveWriter {
    /// Continues the archive of a cluster after its newest object.
    ///
    /// # Errors
    ///
    /// The store failed, or the newest object is damaged.
    pub async fn open(
        depot: Depot,
        cluster: &str,
        schedule: EpochSchedule,
        limits: ArchiveLimits,
    ) -> Result<Self, ArchiveError> {
        let newest = list_archive(&depot, cluster).await?.pop();
        let mut first = None;
        let mut previous = None;
        if let Some(newest) = newest {
            previous = Some(read_footer(&depot, &newest).await?.digest());
            first = Some(newest.last + 1);
        }
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
            open: OpenObject::default(),
            disagreements: 0,
        })
    }

    /// The first slot that is not archived. `None` if the archive is empty: it starts with the next whole range.
    pub fn next_slot(&self) -> Option<Slot> {
        self.first
    }

    /// Number of objects that existed with other content.
    pub fn disagreements(&self) -> u64 {
        self.disagreements
    }

    /// Adds a final block, and writes the objects that are complete before it. Blocks below [`Self::next_slot`] are
    /// skipped. Returns the objects.
    ///
    /// # Errors
    ///
    /// A final block is missing, the block cannot be encoded, or the store failed. After an error of the store the same
    /// block can be pushed again.
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
        while slot > self.range_end() {
            written.push(self.write_object(self.range_end()).await?);
        }
        self.add(slot, parent, &encode(block))?;
        Ok(written)
    }

    fn object_slots(&self) -> u64 {
        self.limits.object_slots.max(1)
    }

    /// The last slot of the open range. It depends on slots alone, since sources differ in the bytes of a block.
    fn range_end(&self) -> Slot {
        let first = self.first.unwrap_or_default();
        let slots = self.object_slots();
        let aligned = first - first % slots + (slots - 1);
        let epoch = self.schedule.get_epoch(first);
        aligned.min(self.schedule.get_last_slot_in_epoch(epoch))
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
            let objects = list_archive(&self.depot, &self.cluster).await?;
            if let Some(existing) = objects.into_iter().find(|it| it.key == object.key) {
                object = existing;
            }
            let existing = read_footer(&self.depot, &object).await?.digest();
            if existing != digest {
                tracing::warn!(key = object.key, "another archiver wrote other blocks");
                self.disagreements += 1;
                digest = existing;
            }
        }
        self.previous = Some(digest);
        self.first = Some(last + 1);
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
