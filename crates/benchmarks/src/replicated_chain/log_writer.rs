//! Appends a made-up chain to a log, through the encoder that an ingester uses, and stores snapshots of it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use bytes::Bytes;
use chain_solana::wire::{
    BlockName, BlockSource, EncodedBlock, EncodedRecord, Mark, MarksRecord, RecordDigest,
    RecordLink, SnapshotRecord, WriterId, encode_marks, encode_snapshot,
};
use chain_solana::{Block, BlockInfo, View};
use cluster_snapshot::{Manifest, ManifestFields, SnapshotFacts, WriteLimits, write_snapshot};
use depot::Depot;
use ledger::{Commitment, Slot};
use query::LedgerConfig;
use replicated_log::{AppendError, Log, LogMessage, LogSpace};
use snapshot_ledger::BulkLoader;
use snapshot_solana::BankFields;
use snapshot_solana::stored_rows::{BankRow, ChainRow, LatticeRow};
use solana_epoch_schedule::EpochSchedule;
use solana_hash::Hash;
use testkit::clock::now;

use crate::chain::{MadeBlock, MadeChain};

/// The name of the cluster.
pub(crate) const CLUSTER: &str = "bench";
/// The generation of the log.
const GENERATION: u64 = 1;
/// Blocks until a block is rooted.
const ROOT_DEPTH: u64 = 31;
const WRITER: WriterId = WriterId { term: 1, ingester: [1; 16], level: None };

/// A written block, in the log.
#[derive(Clone, Copy)]
struct RecordPosition {
    name: BlockName,
    digest: RecordDigest,
    sequence: u64,
}

/// The times of an append.
#[derive(Clone, Copy)]
pub(crate) struct Append {
    pub(crate) slot: Slot,
    /// Bytes of the block's messages.
    pub(crate) bytes: usize,
    /// When the block was whole, before it was encoded.
    pub(crate) began: Instant,
    pub(crate) encoding: Duration,
    /// From the first byte to the acknowledgement.
    pub(crate) appending: Duration,
}

/// The one writer of a log.
pub(crate) struct LogWriter {
    log: Arc<dyn Log>,
    sequence: u64,
    number: u64,
    digest: RecordDigest,
    positions: HashMap<Slot, RecordPosition>,
    first_slot: Slot,
}

impl LogWriter {
    /// Stores a snapshot of the chain's first block, and opens a log that begins with it.
    pub(crate) async fn open(
        space: &dyn LogSpace,
        depot: &Depot,
        chain: &MadeChain,
    ) -> Result<(Self, Manifest)> {
        let first = chain.tip();
        let slot = first.block.id.slot;
        let digest = RecordDigest([9; 32]);
        let name = BlockName { slot, number: 0 };
        let position = RecordPosition { name, digest, sequence: 0 };
        let snapshot = ChainSnapshot { view: load_first(chain)?, made: first.clone(), position };
        let manifest = snapshot.write(depot, WriteLimits::default()).await?;
        ensure!(
            space.create_generation(GENERATION).await?,
            "the log has a generation {GENERATION}"
        );
        let mut writer = Self {
            log: space.open_generation(GENERATION).await?,
            sequence: 0,
            number: 0,
            digest,
            positions: HashMap::from([(slot, position)]),
            first_slot: slot,
        };
        let record = encode_snapshot(&SnapshotRecord {
            link: writer.next_link(),
            writer: WRITER,
            made_at_ms: 1,
            manifest_key: manifest.key(),
            manifest_digest: manifest.digest(),
            block: name,
            block_digest: digest,
        });
        writer.append(&record).await?;
        Ok((writer, manifest))
    }

    /// Appends a block, and then the marks that follow it.
    pub(crate) async fn append_block(&mut self, made: &MadeBlock) -> Result<Append> {
        let began = now();
        let slot = made.block.id.slot;
        let source = BlockSource::new(&made.block, &made.info, 1);
        let encoded = EncodedBlock::new(&source).context("encode a block")?;
        let parent = self.position(made.block.parent.slot)?.name.number;
        let record = encoded.to_record(self.next_link(), WRITER, parent);
        let encoding = began.elapsed();
        let appending = now();
        self.append(&record).await?;
        let appending = appending.elapsed();
        let name = BlockName { slot, number: self.number };
        let position = RecordPosition { name, digest: self.digest, sequence: self.sequence };
        self.positions.insert(slot, position);
        self.append_marks(slot).await?;
        Ok(Append { slot, bytes: record.bytes(), began, encoding, appending })
    }

    async fn append_marks(&mut self, slot: Slot) -> Result<()> {
        let mut marks = vec![Mark::TipMoved(self.position(slot)?.name)];
        if slot > self.first_slot + 1 {
            marks.push(Mark::Confirmed(self.position(slot - 1)?.name));
        }
        if slot > self.first_slot + ROOT_DEPTH {
            marks.push(Mark::Rooted(self.position(slot - ROOT_DEPTH)?.name));
        }
        let record = MarksRecord { link: self.next_link(), writer: WRITER, made_at_ms: 1, marks };
        self.append(&encode_marks(&record)).await
    }

    /// Returns the snapshot of a finalized view of the chain.
    pub(crate) fn snapshot(&self, view: View, chain: &MadeChain) -> Result<ChainSnapshot> {
        let slot = view.block().slot;
        let made = chain.find(slot).with_context(|| format!("slot {slot} is forgotten"))?.clone();
        Ok(ChainSnapshot { view, made, position: self.position(slot)? })
    }

    fn position(&self, slot: Slot) -> Result<RecordPosition> {
        self.positions.get(&slot).copied().with_context(|| format!("slot {slot} is not in the log"))
    }

    fn next_link(&self) -> RecordLink {
        RecordLink { number: self.number + 1, previous: self.digest }
    }

    async fn append(&mut self, record: &EncodedRecord) -> Result<()> {
        let bodies = record.bodies.iter().cloned().map(LogMessage::body);
        let head: Bytes = record.head.clone();
        let batch = std::iter::once(LogMessage::head(head)).chain(bodies).collect();
        let appended = self.log.append(self.sequence, batch).await;
        self.sequence = appended.map_err(|err| match err {
            AppendError::Fenced { last } => anyhow!("another writer appended message {last}"),
            AppendError::Unknown(err) | AppendError::Full(err) | AppendError::Refused(err) => {
                anyhow::Error::from(err)
            }
        })?;
        self.number += 1;
        self.digest = record.digest();
        Ok(())
    }
}

/// Returns a view of the chain's first block.
fn load_first(chain: &MadeChain) -> Result<View> {
    let info = BlockInfo::clone(&chain.tip().info);
    let mut loader = BulkLoader::new(ledger_config(), info.clone());
    loader.put(chain.first_accounts().map(|(pubkey, account)| (pubkey, Some(account))))?;
    let (_ledger, reader) = loader.finish(info)?;
    Ok(reader.view(Commitment::Finalized))
}

/// The configuration of ledgers: with all indices, as a replica has them.
pub(crate) fn ledger_config() -> LedgerConfig {
    LedgerConfig::new(16_000_000)
}

/// A state of the chain that can be written as a snapshot.
pub(crate) struct ChainSnapshot {
    view: View,
    made: MadeBlock,
    position: RecordPosition,
}

impl ChainSnapshot {
    /// Writes the snapshot.
    pub(crate) async fn write(&self, depot: &Depot, limits: WriteLimits) -> Result<Manifest> {
        let Self { view, made, position } = self;
        let mut fields = BankFields::empty();
        fields.epoch_schedule = EpochSchedule::without_warmup();
        fields.ns_per_slot = 400_000_000;
        let lattice = LatticeRow { lt_hash: made.sum.clone(), hard_forks: Vec::new() };
        let info = &made.info;
        let blockhashes = info.blockhashes.iter().copied().collect();
        let facts = SnapshotFacts {
            cluster: CLUSTER.to_owned(),
            generation: GENERATION,
            position: position.sequence,
            block: position.name,
            block_digest: position.digest,
            fields: ManifestFields {
                chain: ChainRow::new(Hash::new_from_array([5; 32]), &fields),
                bank: BankRow { blockhashes, lattice: Some(lattice), jump: None },
                epochs: Vec::new(),
                block: Block::clone(&made.block),
                unix_timestamp: info.unix_timestamp,
                capitalization: info.capitalization,
                level: None,
            },
            made_at_ms: 1,
        };
        Ok(write_snapshot(depot, view, facts, limits).await?)
    }
}
