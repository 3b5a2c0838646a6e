//! A local ledger writes its log, which is read back and compared with the ledger's events.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use chain_solana::wire::{BlockRecord, Mark, Record, RecordReader};
use chain_solana::{Block, EventSink, LedgerEvent};
use depot::{Depot, DepotConfig};
use ingest::{ChainFacts, Ingest, IngestConfig};
use ledger::Slot;
use localnet::Localnet;
use replicated_log::MessageKind;
use replicated_log::memory::MemoryLogSpace;
use solana::VerificationLevel;

/// Roots after which the ledger ends.
const ROOTS: usize = 20;
/// Longer than any step of the test. A test that waits for this time has failed.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Passes events on to the test.
struct Recorder(SyncSender<LedgerEvent>);

impl EventSink for Recorder {
    fn send(&mut self, event: &LedgerEvent) {
        self.0.try_send(event.clone()).expect("the channel has space for all events");
    }
}

/// The events of a ledger, of those kinds that are logged.
#[derive(Default)]
struct LedgerEvents {
    frozen: Vec<Arc<Block>>,
    confirmed: Vec<Slot>,
    rooted: Vec<Slot>,
}

impl LedgerEvents {
    fn add(&mut self, event: LedgerEvent) {
        match event {
            LedgerEvent::Frozen { block, .. } => self.frozen.push(block),
            LedgerEvent::Confirmed { block, .. } => self.confirmed.push(block.id.slot),
            LedgerEvent::Rooted { block, .. } => self.rooted.push(block.id.slot),
            _ => {}
        }
    }

    /// Takes events until some blocks are final.
    fn receive_roots(&mut self, events: &Receiver<LedgerEvent>) {
        while self.rooted.len() < ROOTS {
            self.add(events.recv_timeout(TEST_TIMEOUT).expect("the ledger makes blocks"));
        }
    }
}

/// The records of a log.
#[derive(Default)]
struct LoggedRecords {
    blocks: Vec<BlockRecord>,
    confirmed: Vec<Slot>,
    rooted: Vec<Slot>,
    snapshots: usize,
}

fn read_log(space: &MemoryLogSpace) -> LoggedRecords {
    let mut reader = RecordReader::new();
    let mut records = LoggedRecords::default();
    for message in space.stored_messages(0) {
        let is_head = message.kind == MessageKind::Head;
        let read = reader.push(is_head, message.payload).expect("the log is not damaged");
        match read.map(|read| read.record) {
            Some(Record::Block(block)) => records.blocks.push(*block),
            Some(Record::Marks(marks)) => {
                for mark in marks.marks {
                    match mark {
                        Mark::Confirmed(block) => records.confirmed.push(block.slot),
                        Mark::Rooted(block) => records.rooted.push(block.slot),
                        Mark::TipMoved(_) => {}
                        Mark::Reverted { .. } => panic!("the ledger has no forks"),
                    }
                }
            }
            Some(Record::Snapshot(_)) => records.snapshots += 1,
            Some(Record::Term(_)) => panic!("there is one ingester"),
            None => {}
        }
    }
    records
}

fn start_ingest(localnet: &Localnet, space: &MemoryLogSpace) -> (Ingest, Box<dyn EventSink>) {
    let info = Arc::new(localnet.cluster_info().clone());
    let chain = ChainFacts {
        cluster: localnet.cluster(Arc::clone(&info)),
        info,
        history: Arc::clone(localnet.history()),
        level: Some(VerificationLevel::Computed),
    };
    let depot = Depot::open("memory:", &DepotConfig::default()).expect("a store in memory");
    // A log in memory ends with the process, which an ingester refuses otherwise.
    let config = IngestConfig { allow_lazy_sync: true, ..IngestConfig::new("test", [1; 16]) };
    let reader = localnet.reader().clone();
    let started = Ingest::start(config, Arc::new(space.clone()), depot, reader, chain);
    let (ingest, sink) = started.expect("the ingester starts");
    (ingest, Box::new(sink))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_local_ledger_is_read_back_from_its_log() {
    let config = localnet::Config { slot_ms: 10, finalize_after: 3, ..localnet::Config::default() };
    let localnet = localnet::open(&config).expect("the ledger opens");
    let space = MemoryLogSpace::new();
    let (ingest, sink) = start_ingest(&localnet, &space);
    let (recorder, events) = sync_channel(1_000_000);
    let handle = localnet.start(vec![sink, Box::new(Recorder(recorder))]);
    let handle = handle.expect("the ledger starts");
    let ledger = tokio::task::spawn_blocking(move || {
        let mut ledger = LedgerEvents::default();
        ledger.receive_roots(&events);
        handle.stop().expect("the ledger ends well");
        events.iter().for_each(|event| ledger.add(event));
        ledger
    });
    let ledger = ledger.await.expect("no panic");
    ingest.stop().await;
    let log = read_log(&space);

    assert_eq!(log.snapshots, 1);
    let logged: BTreeMap<Slot, &BlockRecord> =
        log.blocks.iter().map(|block| (block.block.id.slot, block)).collect();
    assert_eq!(logged.len(), log.blocks.len(), "each block is in the log once");
    let first = log.blocks.first().expect("blocks").block.id.slot;
    let frozen: Vec<&Arc<Block>> =
        ledger.frozen.iter().filter(|block| block.id.slot >= first).collect();
    assert_eq!(frozen.len(), log.blocks.len());
    for block in frozen {
        compare(logged[&block.id.slot], block);
    }
    let from_first = |slots: &[Slot]| -> Vec<Slot> {
        slots.iter().copied().filter(|slot| *slot >= first).collect()
    };
    assert_eq!(log.confirmed, from_first(&ledger.confirmed));
    assert_eq!(log.rooted, from_first(&ledger.rooted));
}

/// Compares a block of the log with that of the ledger.
fn compare(record: &BlockRecord, block: &Block) {
    let logged = &record.block;
    assert_eq!(logged.blockhash, block.blockhash);
    assert_eq!(record.parent_blockhash, block.previous_blockhash);
    assert_eq!((logged.bank_hash, logged.block_height), (block.bank_hash, block.block_height));
    let signatures = |block: &Block| -> Vec<_> {
        block.transactions.iter().map(|executed| executed.signature()).collect()
    };
    assert_eq!(signatures(logged), signatures(block));
    assert_eq!(record.accounts.len(), block.writes.len());
    for (found, write) in record.accounts.iter().zip(&block.writes) {
        assert_eq!(found.pubkey, write.pubkey);
        assert_eq!(found.account.as_ref(), write.after().as_deref());
    }
}
