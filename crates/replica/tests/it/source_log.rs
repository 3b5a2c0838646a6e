//! Writes the steps of a chain to a log in memory, and snapshots of it to a store in memory, as an ingester does.

use std::collections::HashMap;

use chain_solana::wire::{
    BlockName, BlockSource, EncodedBlock, EncodedRecord, Mark, MarksRecord, RecordDigest,
    RecordLink, SnapshotRecord, TermRecord, WriterId, encode_marks, encode_snapshot, encode_term,
};
use chain_solana::{Block, BlockInfo, RevertReason};
use cluster_snapshot::{Manifest, ManifestFields, SnapshotFacts, WriteLimits, write_snapshot};
use depot::{Depot, DepotConfig};
use ledger::Commitment;
use query::LedgerConfig;
use replicated_log::memory::MemoryLogSpace;
use replicated_log::{LogMessage, LogSpace};
use snapshot_ledger::BulkLoader;
use snapshot_solana::BankFields;
use snapshot_solana::stored_rows::{BankRow, ChainRow, LatticeRow};
use solana::VerificationLevel;
use solana_epoch_schedule::EpochSchedule;
use solana_hash::Hash;

use crate::source_chain::{SourceChain, Step};

/// Name of the cluster.
pub(crate) const CLUSTER: &str = "test";

/// The position of a block's record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordPosition {
    pub(crate) name: BlockName,
    pub(crate) digest: RecordDigest,
    pub(crate) generation: u64,
    pub(crate) sequence: u64,
}

/// The writer of a log.
pub(crate) struct SourceLog {
    pub(crate) space: MemoryLogSpace,
    pub(crate) depot: Depot,
    pub(crate) generation: u64,
    /// Sequence of the last message.
    pub(crate) sequence: u64,
    /// The last record.
    pub(crate) number: u64,
    pub(crate) digest: RecordDigest,
    pub(crate) term: u64,
    /// The level of proof that its records and snapshots state.
    pub(crate) level: Option<VerificationLevel>,
    /// The digest that the next first record states instead of the manifest's own.
    pub(crate) stated_digest: Option<[u8; 32]>,
    pub(crate) positions: HashMap<usize, RecordPosition>,
}

/// A store in memory.
pub(crate) fn memory_depot() -> Depot {
    Depot::open("memory:", &DepotConfig::default()).expect("a store in memory")
}

impl SourceLog {
    /// A log whose first record names a snapshot of the chain's first block.
    pub(crate) async fn new(chain: &SourceChain) -> Self {
        let digest = RecordDigest([9; 32]);
        let name = BlockName { slot: chain.blocks[0].block.id.slot, number: 0 };
        let mut log = Self {
            space: MemoryLogSpace::new(),
            depot: memory_depot(),
            generation: 0,
            sequence: 0,
            number: 0,
            digest,
            term: 1,
            level: Some(VerificationLevel::Sequence),
            stated_digest: None,
            positions: HashMap::new(),
        };
        log.positions.insert(0, RecordPosition { name, digest, generation: 1, sequence: 0 });
        log.open_generation(chain, 0).await;
        log
    }

    pub(crate) fn writer(&self) -> WriterId {
        WriterId { term: self.term, ingester: [1; 16], level: self.level }
    }

    pub(crate) fn next_link(&self) -> RecordLink {
        RecordLink { number: self.number + 1, previous: self.digest }
    }

    /// Opens the next generation, which continues from this block.
    pub(crate) async fn open_generation(&mut self, chain: &SourceChain, block: usize) {
        self.generation += 1;
        self.sequence = 0;
        let known = self.positions[&block];
        self.digest = known.digest;
        let name = BlockName { slot: known.name.slot, number: self.number };
        self.positions.insert(
            block,
            RecordPosition { name, generation: self.generation, sequence: 0, ..known },
        );
        let manifest = self.write_snapshot(chain, block).await;
        // It may exist without a record.
        self.space.create_generation(self.generation).await.expect("a log");
        let record = SnapshotRecord {
            link: self.next_link(),
            writer: self.writer(),
            made_at_ms: 1,
            manifest_key: manifest.key(),
            manifest_digest: self.stated_digest.unwrap_or_else(|| manifest.digest()),
            block: name,
            block_digest: known.digest,
        };
        self.append(&encode_snapshot(&record)).await;
    }

    /// Appends a record at the end.
    pub(crate) async fn append(&mut self, record: &EncodedRecord) {
        self.append_raw(record).await;
        self.number += 1;
        self.digest = record.digest();
    }

    /// Appends the messages of a record, whatever it says.
    pub(crate) async fn append_raw(&mut self, record: &EncodedRecord) {
        let head = [LogMessage::head(record.head.clone())].into_iter();
        let batch = head.chain(record.bodies.iter().cloned().map(LogMessage::body)).collect();
        let log = self.space.open_generation(self.generation).await.expect("a generation");
        self.sequence = log.append(self.sequence, batch).await.expect("no other writer");
    }

    /// Encodes a block at the end of the log, after `edit` has changed it.
    pub(crate) fn encode_block(
        &self,
        chain: &SourceChain,
        block: usize,
        edit: impl FnOnce(&mut Block),
    ) -> EncodedRecord {
        let source = &chain.blocks[block];
        let mut edited = Block::clone(&source.block);
        edit(&mut edited);
        let encoded = EncodedBlock::new(&BlockSource::new(&edited, &source.info, 1));
        let parent = self.positions[&source.parent].name.number;
        encoded.expect("a small block").to_record(self.next_link(), self.writer(), parent)
    }

    /// Encodes a jump of the ingester from `parent` to a block.
    pub(crate) fn encode_jump(
        &self,
        chain: &SourceChain,
        block: usize,
        parent: usize,
    ) -> EncodedRecord {
        let source = &chain.blocks[block];
        let parent_block = &chain.blocks[parent].block;
        let jumped = Block { parent: parent_block.id, ..Block::clone(&source.block) };
        let encoded = EncodedBlock::new(&BlockSource {
            is_jump: true,
            parent_blockhash: parent_block.blockhash,
            ..BlockSource::new(&jumped, &source.info, 1)
        });
        let number = self.positions[&parent].name.number;
        encoded.expect("a small block").to_record(self.next_link(), self.writer(), number)
    }

    /// Appends the steps of a chain: a record for each block, and one for the marks after it.
    pub(crate) async fn append_steps(&mut self, chain: &SourceChain, steps: &[Step]) {
        let mut marks = Vec::new();
        for step in steps {
            let mark = match step {
                Step::Block(block) => {
                    self.append_marks(std::mem::take(&mut marks)).await;
                    self.append_block(chain, *block).await;
                    continue;
                }
                Step::Reverted(block) => {
                    Mark::Reverted { block: self.name(*block), reason: RevertReason::Abandoned }
                }
                Step::TipMoved(block) => Mark::TipMoved(self.name(*block)),
                Step::Confirmed(block) => Mark::Confirmed(self.name(*block)),
                Step::Rooted(block) => Mark::Rooted(self.name(*block)),
            };
            marks.push(mark);
        }
        self.append_marks(marks).await;
    }

    pub(crate) async fn append_block(&mut self, chain: &SourceChain, block: usize) {
        let record = self.encode_block(chain, block, |_| ());
        let digest = record.digest();
        self.append(&record).await;
        let name = BlockName { slot: chain.blocks[block].block.id.slot, number: self.number };
        let position =
            RecordPosition { name, digest, generation: self.generation, sequence: self.sequence };
        self.positions.insert(block, position);
    }

    pub(crate) fn name(&self, block: usize) -> BlockName {
        self.positions[&block].name
    }

    pub(crate) async fn append_marks(&mut self, marks: Vec<Mark>) {
        if !marks.is_empty() {
            let link = self.next_link();
            let record = MarksRecord { link, writer: self.writer(), made_at_ms: 1, marks };
            self.append(&encode_marks(&record)).await;
        }
    }

    pub(crate) async fn append_term(&mut self, term: u64) {
        self.term = term;
        let link = self.next_link();
        let reason = "a test".to_owned();
        let record = TermRecord { link, writer: self.writer(), made_at_ms: 1, reason };
        self.append(&encode_term(&record)).await;
    }

    /// Writes a snapshot of a block.
    pub(crate) async fn write_snapshot(&self, chain: &SourceChain, block: usize) -> Manifest {
        let source = &chain.blocks[block];
        let info = BlockInfo::clone(&source.info);
        let mut loader = BulkLoader::new(LedgerConfig::new(10_000), info.clone());
        let accounts = source.accounts.iter();
        let accounts = accounts.map(|(pubkey, account)| (*pubkey, Some(account.clone())));
        loader.put(accounts).expect("there is room");
        let (_ledger, reader) = loader.finish(info.clone()).expect("there is room");
        let mut fields = BankFields::empty();
        fields.epoch_schedule = EpochSchedule::without_warmup();
        fields.ns_per_slot = 400_000_000;
        let position = self.positions[&block];
        let hard_forks = Vec::new();
        let lattice = LatticeRow { lt_hash: source.lt_hash.clone(), hard_forks };
        let blockhashes = info.blockhashes.iter().copied().collect();
        let facts = SnapshotFacts {
            cluster: CLUSTER.to_owned(),
            generation: position.generation,
            position: position.sequence,
            block: position.name,
            block_digest: position.digest,
            fields: ManifestFields {
                chain: ChainRow::new(Hash::new_from_array([5; 32]), &fields),
                bank: BankRow { blockhashes, lattice: Some(lattice), jump: None },
                epochs: Vec::new(),
                block: Block::clone(&source.block),
                unix_timestamp: info.unix_timestamp,
                capitalization: info.capitalization,
                level: self.level,
            },
            made_at_ms: 1,
        };
        let view = reader.view(Commitment::Finalized);
        let written = write_snapshot(&self.depot, &view, facts, WriteLimits::default()).await;
        written.expect("a snapshot")
    }
}
