//! Holes that are filled with blocks of several generations of the log.

use chain_solana::wire::{
    BlockName, BlockSource, EncodedBlock, EncodedRecord, Mark, MarksRecord, RecordDigest,
    RecordLink, SnapshotRecord, WriterId, encode_marks, encode_snapshot,
};
use replicated_log::{Log, LogMessage};

use super::*;

/// Blocks of one append.
const BATCH_BLOCKS: usize = 50;

const WRITER: WriterId = WriterId { term: 1, ingester: [1; 16], level: None };

/// The writer of a generation.
pub(super) struct GenerationWriter {
    log: Arc<dyn Log>,
    batch: Vec<LogMessage>,
    sequence: u64,
    link: RecordLink,
}

impl GenerationWriter {
    /// Creates a generation that continues from the block of a slot.
    pub(super) async fn create(space: &dyn LogSpace, generation: u64, start: Slot) -> Self {
        assert!(space.create_generation(generation).await.expect("a log"));
        let log = space.open_generation(generation).await.expect("it exists");
        let block_digest = RecordDigest([9; 32]);
        let link = RecordLink { number: 1, previous: block_digest };
        let mut writer = Self { log, batch: Vec::new(), sequence: 0, link };
        writer.push(&encode_snapshot(&SnapshotRecord {
            link,
            writer: WRITER,
            made_at_ms: 1,
            manifest_key: "snap/c/1/manifest".to_owned(),
            manifest_digest: [1; 32],
            block: BlockName { slot: start, number: 0 },
            block_digest,
        }));
        writer.flush().await;
        writer
    }

    fn push(&mut self, record: &EncodedRecord) {
        self.batch.push(LogMessage::head(record.head.clone()));
        self.batch.extend(record.bodies.iter().cloned().map(LogMessage::body));
        self.link = RecordLink { number: self.link.number + 1, previous: record.digest() };
    }

    async fn flush(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        self.sequence = self.log.append(self.sequence, batch).await.expect("one writer");
    }

    /// Appends final blocks, each with its mark.
    pub(super) async fn append_blocks(&mut self, slots: RangeInclusive<Slot>) {
        let source = ledger(slots);
        let history = source.history().snapshot();
        let blocks: Vec<&Arc<Block>> = history.blocks(.., Commitment::Finalized).collect();
        for batch in blocks.chunks(BATCH_BLOCKS) {
            for block in batch {
                let slot = block.id.slot;
                let encoded = EncodedBlock::new(&BlockSource::new(block, &block_info(slot), 1));
                let number = self.link.number;
                let parent = number.saturating_sub(2);
                let encoded = encoded.expect("a small block");
                self.push(&encoded.to_record(self.link, WRITER, parent));
                let marks = vec![Mark::Rooted(BlockName { slot, number })];
                let marks = MarksRecord { link: self.link, writer: WRITER, made_at_ms: 1, marks };
                self.push(&encode_marks(&marks));
            }
            self.flush().await;
        }
    }
}

impl Stores {
    /// Archives blocks with a hole from slot 1,100 to slot 1,499. Returns the archiver of the blocks behind it.
    async fn archive_with_hole(&self) -> Archiver {
        self.archive(&ledger(1_000..=1_150)).await;
        let archiver = self.archiver(&ledger(1_451..=1_650), Duration::ZERO);
        archiver.archive_once(&mut None).await.expect("a store");
        assert_eq!(self.holes().await, [1_100..=1_499]);
        archiver
    }
}

#[tokio::test]
async fn a_hole_is_filled_with_the_blocks_of_several_generations() {
    let stores = Stores::open().await;
    let archiver = stores.archive_with_hole().await;

    // The first one ends before the second one starts.
    let mut first = GenerationWriter::create(&*stores.space, 1, 1_050).await;
    first.append_blocks(1_051..=1_199).await;
    let mut second = GenerationWriter::create(&*stores.space, 2, 1_250).await;
    second.append_blocks(1_251..=1_520).await;
    let mut log_reads = LogReads::default();
    let filled = [1_000..=1_099, 1_100..=1_199, 1_300..=1_399, 1_400..=1_499, 1_500..=1_599];
    for _ in 0..2 {
        archiver.fill_holes(&mut log_reads).await.expect("a store");
        assert_eq!(stores.objects().await, filled);
    }
    // An opener that was behind lists the other blocks.
    let mut third = GenerationWriter::create(&*stores.space, 3, 1_190).await;
    archiver.fill_holes(&mut log_reads).await.expect("a store");
    assert_eq!(stores.objects().await, filled);
    third.append_blocks(1_191..=1_310).await;
    archiver.fill_holes(&mut log_reads).await.expect("a store");
    let text = expose(&archiver);
    assert!(text.contains("hydrant_archive_hole_slots 0\n"), "{text}");
    assert!(text.contains("events_total{event=\"disagreement\"} 0\n"), "{text}");
    assert!(text.contains("events_total{event=\"failure\"} 0\n"), "{text}");
    let faults = check_archive(&stores.depot, "c", true).await.expect("a store");
    assert!(faults.is_empty(), "{faults:?}");
}

#[tokio::test]
async fn a_short_newest_generation_is_read_again_for_a_hole() {
    let stores = Stores::open().await;
    let archiver = stores.archive_with_hole().await;

    // It lacks the block of slot 1,150.
    let mut first = GenerationWriter::create(&*stores.space, 1, 1_050).await;
    first.append_blocks(1_051..=1_149).await;
    first.append_blocks(1_151..=1_520).await;
    // Its opener is behind.
    let mut second = GenerationWriter::create(&*stores.space, 2, 1_090).await;
    second.append_blocks(1_091..=1_120).await;
    let mut log_reads = LogReads::default();
    archiver.fill_holes(&mut log_reads).await.expect("a store");
    let filled = [1_000..=1_099, 1_200..=1_299, 1_300..=1_399, 1_400..=1_499, 1_500..=1_599];
    assert_eq!(stores.objects().await, filled);

    second.append_blocks(1_121..=1_210).await;
    archiver.fill_holes(&mut log_reads).await.expect("a store");
    let text = expose(&archiver);
    assert!(text.contains("hydrant_archive_hole_slots 0\n"), "{text}");
    assert!(text.contains("events_total{event=\"disagreement\"} 0\n"), "{text}");
    let faults = check_archive(&stores.depot, "c", true).await.expect("a store");
    assert!(faults.is_empty(), "{faults:?}");
}
