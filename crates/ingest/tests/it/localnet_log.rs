//! A local ledger writes its log, which is read back and compared with the ledger's events.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use chain_solana::wire::{BlockRecord, Mark, Record, RecordDigest, RecordReader};
use chain_solana::{Block, EventSink, LedgerEvent};
use cluster_snapshot::fault_reports::{DIFFERENT_BLOCK, FaultReport, fault_report_dir};
use cluster_snapshot::{Manifest, load_manifest, newest_snapshots};
use depot::{Depot, DepotConfig};
use ingest::{ChainFacts, Ingest, IngestConfig};
use ledger::Slot;
use localnet::Localnet;
use metrics::Exposition;
use replicated_log::memory::MemoryLogSpace;
use replicated_log::{LogSpace, MessageKind};
use solana::VerificationLevel;
use testkit::eventually::eventually;

const CLUSTER: &str = "test";
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

fn open_localnet() -> Localnet {
    let config = localnet::Config { slot_ms: 10, finalize_after: 3, ..localnet::Config::default() };
    localnet::open(&config).expect("the ledger opens")
}

fn open_depot() -> Depot {
    Depot::open("memory:", &DepotConfig::default()).expect("a store in memory")
}

/// The settings of an ingester. A log in memory ends with the process, which an ingester refuses otherwise.
fn ingest_config() -> IngestConfig {
    IngestConfig { allow_data_loss: true, ..IngestConfig::new(CLUSTER, [1; 16]) }
}

fn start_ingest(
    config: IngestConfig,
    localnet: &Localnet,
    space: &MemoryLogSpace,
    depot: Depot,
) -> (Ingest, Box<dyn EventSink>) {
    let info = Arc::new(localnet.cluster_info().clone());
    let chain = ChainFacts {
        cluster: localnet.cluster(Arc::clone(&info)),
        info,
        history: Arc::clone(localnet.history()),
        level: Some(VerificationLevel::Computed),
    };
    let reader = localnet.reader().clone();
    let started = Ingest::start(config, Arc::new(space.clone()), depot, reader, chain);
    let (ingest, sink) = started.expect("the ingester starts");
    (ingest, Box::new(sink))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_local_ledger_is_read_back_from_its_log() {
    let localnet = open_localnet();
    let space = MemoryLogSpace::new();
    let (ingest, sink) = start_ingest(ingest_config(), &localnet, &space, open_depot());
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

/// Returns the sequence of a body in the middle of a generation.
fn find_body(space: &MemoryLogSpace, generation: u64) -> Option<u64> {
    let messages = space.stored_messages(generation);
    let later = messages.iter().skip(messages.len() / 2);
    let mut bodies = later.filter(|message| message.kind == MessageKind::Body);
    bodies.next().map(|message| message.sequence)
}

/// A report of a replica that got past a message of generation 0. Its other numbers are wrong.
fn report_after(sequence: u64, what: &str) -> FaultReport {
    FaultReport {
        cluster: CLUSTER.to_owned(),
        generation: 0,
        sequence,
        record: u64::MAX,
        slot: u64::MAX,
        confirmed: u64::MAX,
        what: what.to_owned(),
        made_at_ms: u64::MAX,
    }
}

async fn store_report(depot: &Depot, report: &FaultReport) {
    depot.put_new(&report.key(), report.to_text().into()).await.expect("it is stored");
}

/// Returns a value of the ingester's metrics.
fn read_metric(ingest: &Ingest, name: &str) -> Option<String> {
    let mut exposition = Exposition::default();
    ingest.metrics().write(&mut exposition);
    let text = exposition.into_string();
    let mut lines = text.lines();
    lines.find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned())
}

/// Waits for a snapshot of generation 0 whose block is behind a message.
async fn wait_for_snapshot(depot: &Depot, after: u64) -> Manifest {
    let found = async {
        loop {
            for key in newest_snapshots(depot, CLUSTER).await.expect("a store") {
                // It may be removed meanwhile.
                if let Ok(manifest) = load_manifest(depot, &key.key, None).await
                    && manifest.position > after
                {
                    return manifest;
                }
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, found).await.expect("a snapshot")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reported_damage_gets_a_snapshot_behind_it_and_the_log_continues() {
    let localnet = open_localnet();
    let space = MemoryLogSpace::new();
    let depot = open_depot();
    let upkeep_interval = Duration::from_millis(20);
    let config = IngestConfig { upkeep_interval, ..ingest_config() };
    let (ingest, sink) = start_ingest(config, &localnet, &space, depot.clone());
    let handle = localnet.start(vec![sink]).expect("the ledger starts");
    eventually(|| space.stored_messages(0).len() > 100, || "the log grows".to_owned()).await;

    // The ingester has read the body already, and a replica that starts later reads it.
    let sequence = find_body(&space, 0).expect("the log has bodies");
    space.damage_message(0, sequence);
    // An object that is too long, and one of another position, hide no report.
    let oversized = report_after(sequence - 2, "body").key();
    depot.put_new(&oversized, vec![b'x'; 5_000].into()).await.expect("it is stored");
    let misplaced = report_after(sequence - 3, "body").to_text();
    let key = report_after(sequence - 4, "body").key();
    depot.put_new(&key, misplaced.into()).await.expect("it is stored");
    store_report(&depot, &report_after(sequence - 1, "body")).await;
    store_report(&depot, &report_after(1, "body")).await;
    store_report(&depot, &report_after(u64::MAX, "body")).await;
    store_report(&depot, &report_after(2, "no_sum")).await;

    let manifest = wait_for_snapshot(&depot, sequence).await;
    assert_eq!(manifest.generation, 0);
    let end = space.stored_messages(0).len();
    eventually(|| space.stored_messages(0).len() > end + 20, || "it continues".to_owned()).await;
    for (outcome, expected) in [("damaged", "1"), ("intact", "1"), ("lasting", "1"), ("chain", "0")]
    {
        let name = format!("hydrant_ingest_reports_total{{outcome=\"{outcome}\"}}");
        let is_counted = || read_metric(&ingest, &name).as_deref() == Some(expected);
        eventually(is_counted, || format!("{name} {:?}", read_metric(&ingest, &name))).await;
    }
    let needed = || read_metric(&ingest, "hydrant_ingest_snapshot_needed ");
    eventually(|| needed().as_deref() == Some("0"), || format!("{:?}", needed())).await;

    tokio::task::spawn_blocking(move || handle.stop()).await.expect("no panic").expect("it stops");
    ingest.stop().await;
    assert_eq!(space.newest_generation().await.expect("a log"), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_that_an_ingester_and_a_replica_refuse_gets_a_snapshot_behind_it() {
    let localnet = open_localnet();
    let space = MemoryLogSpace::new();
    let depot = open_depot();
    let upkeep_interval = Duration::from_millis(20);
    let config = IngestConfig { upkeep_interval, ..ingest_config() };
    let (ingest, sink) = start_ingest(config, &localnet, &space, depot.clone());
    let handle = localnet.start(vec![sink]).expect("the ledger starts");
    eventually(|| space.stored_messages(0).len() > 100, || "the log grows".to_owned()).await;

    store_report(&depot, &report_after(50, DIFFERENT_BLOCK)).await;
    store_report(&depot, &report_after(70, "sum")).await;
    let manifest = wait_for_snapshot(&depot, 70).await;
    assert_eq!(manifest.generation, 0);
    for outcome in ["disagreement", "different"] {
        let name = format!("hydrant_ingest_reports_total{{outcome=\"{outcome}\"}}");
        let is_counted = || read_metric(&ingest, &name).as_deref() == Some("1");
        eventually(is_counted, || format!("{name} {:?}", read_metric(&ingest, &name))).await;
    }

    tokio::task::spawn_blocking(move || handle.stop()).await.expect("no panic").expect("it stops");
    ingest.stop().await;
    assert_eq!(space.newest_generation().await.expect("a log"), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_generation_ends_with_its_reports() {
    let localnet = open_localnet();
    let space = MemoryLogSpace::new();
    let depot = open_depot();
    let config = IngestConfig {
        max_age: Duration::from_millis(500),
        upkeep_interval: Duration::from_millis(20),
        ..ingest_config()
    };
    let (ingest, sink) = start_ingest(config, &localnet, &space, depot.clone());
    let handle = localnet.start(vec![sink]).expect("the ledger starts");
    eventually(|| space.stored_messages(0).len() > 100, || "the log grows".to_owned()).await;
    store_report(&depot, &report_after(50, "no_sum")).await;
    // The log was restored from an older backup.
    space.restore_generation(0, 50);
    eventually(|| space.stored_messages(1).len() > 100, || "generation 1 grows".to_owned()).await;
    eventually(|| space.stored_messages(0).is_empty(), || "generation 0 is removed".to_owned())
        .await;
    let removed = async {
        while !depot.list(&fault_report_dir(CLUSTER)).await.expect("a store").is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, removed).await.expect("the report is removed");

    tokio::task::spawn_blocking(move || handle.stop()).await.expect("no panic").expect("it stops");
    ingest.stop().await;
    assert_eq!(space.newest_generation().await.expect("a log"), Some(1));
}

/// Returns the number of the record that ends at a message, with its digest.
fn find_record(space: &MemoryLogSpace, position: u64) -> Option<(u64, RecordDigest)> {
    let mut reader = RecordReader::new();
    for message in space.stored_messages(0) {
        let is_head = message.kind == MessageKind::Head;
        let read = reader.push(is_head, message.payload).expect("the log is not damaged");
        if message.sequence == position {
            return read.map(|read| (read.record.link().number, read.digest));
        }
    }
    None
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_writes_a_snapshot_if_nobody_else_does() {
    let localnet = open_localnet();
    let space = MemoryLogSpace::new();
    let depot = open_depot();
    let config = IngestConfig {
        max_age: Duration::from_millis(200),
        upkeep_interval: Duration::from_millis(20),
        ..ingest_config()
    };
    let (ingest, sink) = start_ingest(config, &localnet, &space, depot.clone());
    let handle = localnet.start(vec![sink]).expect("the ledger starts");
    let manifest = wait_for_snapshot(&depot, 0).await;
    tokio::task::spawn_blocking(move || handle.stop()).await.expect("no panic").expect("it stops");
    ingest.stop().await;
    assert_eq!(manifest.generation, 0);
    let expected = Some((manifest.block.number, manifest.block_digest));
    assert_eq!(find_record(&space, manifest.position), expected);
}
