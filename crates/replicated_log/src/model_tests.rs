//! All implementations against one model, by seed: writers that all believe that they lead, readers, faults and
//! truncation.
//!
//! Each writer has items to append, each once and in order. An item is a record of one to three messages. After an
//! append that failed, the writer requests the tail and reads up to it, as an ingester does.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use depot::faults::FaultyStore;
use depot::{Depot, DepotConfig};
use fastrand::Rng;
use futures_util::future::join_all;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{advance, timeout};

use crate::memory::{AppendFaults, Faults, MemoryLogSpace};
use crate::object_log::ObjectLogSpace;
use crate::{AppendError, Log, LogConfig, LogMessage, LogReader, LogSpace, ReadError, Tail};

const GENERATION: u64 = 3;

/// Items of each writer.
const ITEMS: u32 = 12;

/// Rounds of a schedule with faults. Afterwards the writers finish without.
const ROUNDS: usize = 20;

/// Wait of a reader in a round: a few polls.
const ROUND_WAIT: Duration = Duration::from_millis(50);

/// Wait for a message that the log has: longer than a request to which a store never responds.
const MESSAGE_WAIT: Duration = Duration::from_secs(300);

/// A log under test.
enum World {
    Memory(MemoryLogSpace),
    Objects(ObjectLogSpace),
    FaultyObjects { space: ObjectLogSpace, store: Arc<FaultyStore> },
}

impl World {
    fn space(&self) -> &dyn LogSpace {
        match self {
            Self::Memory(space) => space,
            Self::Objects(space) | Self::FaultyObjects { space, .. } => space,
        }
    }

    /// Starts the faults of a store. Those of the log in memory are there from the beginning.
    fn start_faults(&self) {
        if let Self::FaultyObjects { store, .. } = self {
            store.set_faults(depot::faults::Faults {
                unavailable: 0.1,
                lost_answer: 0.1,
                silent: 0.02,
                conflict: 0.05,
                cut_body: 0.05,
                replaces: false,
            });
        }
    }

    async fn open_log(&self) -> Arc<dyn Log> {
        self.space().open_generation(GENERATION).await.expect("the generation exists")
    }

    /// Removes messages before `first`.
    async fn truncate(&self, first: u64) {
        match self {
            Self::Memory(space) => space.truncate_generation(GENERATION, first),
            Self::Objects(space) => space.truncate_generation(GENERATION, first).await,
            Self::FaultyObjects { space, .. } => {
                self.settle();
                space.truncate_generation(GENERATION, first).await;
                self.start_faults();
            }
        }
    }

    /// Ends all faults.
    fn settle(&self) {
        match self {
            Self::Memory(space) => {
                space.set_faults(Faults::default());
                space.land_late_appends();
            }
            Self::Objects(_) => {}
            Self::FaultyObjects { store, .. } => {
                store.set_faults(depot::faults::Faults::default());
            }
        }
    }
}

/// One of several writers that believe that they lead.
struct Writer {
    seed: u64,
    id: u8,
    rng: Rng,
    log: Arc<dyn Log>,
    /// End of the log as this writer knows it.
    position: u64,
    next_item: u32,
    is_unsure: bool,
    /// Confirmed messages by sequence.
    confirmed: Vec<(u64, LogMessage)>,
}

impl Writer {
    /// Appends some items, or finds out what became of the last append.
    async fn take_step(&mut self) {
        if self.is_unsure {
            return self.resolve().await;
        }
        let count = self.rng.u32(1..=3).min(ITEMS - self.next_item);
        let items = self.next_item..self.next_item + count;
        let batch: Vec<_> = items.flat_map(|item| encode_item(self.id, item)).collect();
        if batch.is_empty() {
            return;
        }
        match self.log.append(self.position, batch.clone()).await {
            Ok(last) => {
                assert_eq!(last, self.position + batch.len() as u64, "seed {}", self.seed);
                self.confirmed.extend((self.position + 1..).zip(batch));
                self.position = last;
                self.next_item += count;
            }
            Err(AppendError::Refused(error)) => panic!("seed {}: {error}", self.seed),
            Err(_) => self.is_unsure = true,
        }
    }

    /// Reads on to the end of the log, and counts the own items on the way.
    async fn resolve(&mut self) {
        let seed = self.seed;
        let Ok(tail) = self.log.tail().await else { return };
        assert!(tail.last >= self.position, "seed {seed}: the log became shorter");
        let mut reader = self.log.read(self.position).await.expect("the log can be read");
        while self.position < tail.last {
            // After a failure the writer is still unsure, and continues here with its next step.
            let Ok(Ok(message)) = timeout(MESSAGE_WAIT, reader.next()).await else { return };
            self.position += 1;
            assert_eq!(message.sequence, self.position, "seed {seed}");
            let part = ItemPart::decode(&message.payload);
            if part.writer == self.id {
                assert_eq!(part.item, self.next_item, "seed {seed}: an item is doubled or missing");
                self.next_item += u32::from(part.is_last());
            }
        }
        self.is_unsure = false;
    }
}

/// Content of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ItemPart {
    writer: u8,
    item: u32,
    part: u8,
}

impl ItemPart {
    fn decode(payload: &[u8]) -> Self {
        let bytes: [u8; 6] = payload.try_into().expect("a payload has six bytes");
        let [writer, part, a, b, c, d] = bytes;
        Self { writer, item: u32::from_le_bytes([a, b, c, d]), part }
    }

    fn encode(self) -> Bytes {
        let [a, b, c, d] = self.item.to_le_bytes();
        vec![self.writer, self.part, a, b, c, d].into()
    }

    /// Returns whether this is the last message of its item.
    const fn is_last(self) -> bool {
        self.part as u32 == self.item % 3
    }
}

fn encode_item(writer: u8, item: u32) -> Vec<LogMessage> {
    let parts = 0..=(item % 3) as u8;
    let messages = parts.map(|part| {
        let payload = ItemPart { writer, item, part }.encode();
        if part == 0 { LogMessage::head(payload) } else { LogMessage::body(payload) }
    });
    messages.collect()
}

/// A reader that opens the log again after each truncation.
struct Follower {
    seed: u64,
    log: Arc<dyn Log>,
    reader: Box<dyn LogReader>,
    position: u64,
    seen: BTreeMap<u64, LogMessage>,
    truncations: u32,
    failures: u32,
}

impl Follower {
    async fn open(world: &World, seed: u64) -> Self {
        let log = world.open_log().await;
        let reader = log.read(0).await.expect("the log can be read");
        Self { seed, log, reader, position: 0, seen: BTreeMap::new(), truncations: 0, failures: 0 }
    }

    /// Reads up to `max` messages. Stops after `wait` without any.
    async fn read_messages(&mut self, max: usize, wait: Duration) {
        for _ in 0..max {
            let Ok(read) = timeout(wait, self.reader.next()).await else { return };
            match read {
                Ok(message) => {
                    self.position += 1;
                    assert_eq!(message.sequence, self.position, "seed {}", self.seed);
                    let content = LogMessage { kind: message.kind, payload: message.payload };
                    self.seen.insert(message.sequence, content);
                }
                Err(ReadError::Truncated { wanted, first }) => {
                    assert_eq!(wanted, self.position + 1, "seed {}", self.seed);
                    assert!(first > wanted, "seed {}: {first} > {wanted}", self.seed);
                    self.position = first - 1;
                    self.reader = self.log.read(self.position).await.expect("it can be read");
                    self.truncations += 1;
                }
                Err(ReadError::Log(_)) => self.failures += 1,
                Err(error) => panic!("seed {}: {error}", self.seed),
            }
        }
    }

    /// Reads to the end of the log, which is the sequence `last`.
    async fn read_to(&mut self, last: u64) {
        let mut steps = 0;
        while self.position < last {
            self.read_messages(1, MESSAGE_WAIT).await;
            steps += 1;
            assert!(steps < 10_000, "seed {}: no message {}", self.seed, self.position + 1);
        }
    }
}

/// Counts of events in schedules. A test checks that its faults do happen.
#[derive(Debug, Default)]
struct Outcome {
    unsure_appends: u32,
    truncations: u32,
    failed_reads: u32,
}

/// Runs one schedule, and compares the log with the model.
async fn run_schedule(world: &World, seed: u64, outcome: &mut Outcome) {
    assert!(
        world.space().create_generation(GENERATION).await.expect("it can be created"),
        "seed {seed}"
    );
    assert!(!world.space().create_generation(GENERATION).await.expect("it exists"), "seed {seed}");
    assert_eq!(world.space().newest_generation().await.expect("it is listed"), Some(GENERATION));
    let mut rng = Rng::with_seed(seed);
    let mut writers = Vec::new();
    for id in 0..rng.u8(2..=3) {
        writers.push(Writer {
            seed,
            id,
            rng: rng.fork(),
            log: world.open_log().await,
            position: 0,
            next_item: 0,
            is_unsure: false,
            confirmed: Vec::new(),
        });
    }
    let mut observer = Follower::open(world, seed).await;
    let mut followers = [Follower::open(world, seed).await, Follower::open(world, seed).await];
    world.start_faults();
    for _ in 0..ROUNDS {
        if rng.bool() {
            join_all(writers.iter_mut().map(Writer::take_step)).await;
        } else {
            let index = rng.usize(..writers.len());
            writers[index].take_step().await;
        }
        outcome.unsure_appends += writers.iter().map(|it| u32::from(it.is_unsure)).sum::<u32>();
        observer.read_messages(usize::MAX, ROUND_WAIT).await;
        let follower = rng.usize(..followers.len());
        followers[follower].read_messages(rng.usize(..6), ROUND_WAIT).await;
        if rng.u8(..) < 40 {
            // A writer that knows an older end lists it again before its next append.
            advance(Duration::from_secs(30)).await;
            let known = writers.iter().map(|writer| writer.position).min().unwrap_or(0);
            world.truncate(known.min(observer.position)).await;
        }
    }
    world.settle();
    let mut steps = 0;
    while writers.iter().any(|writer| writer.next_item < ITEMS || writer.is_unsure) {
        join_all(writers.iter_mut().map(Writer::take_step)).await;
        steps += 1;
        assert!(steps < 1_000, "seed {seed}: the writers do not finish");
    }
    let tail = world.open_log().await.tail().await.expect("the log has a tail");
    observer.read_to(tail.last).await;
    check_log(&observer, &writers);
    for follower in &mut followers {
        follower.read_to(tail.last).await;
        outcome.truncations += follower.truncations;
        outcome.failed_reads += follower.failures;
        assert_eq!(follower.position, observer.position, "seed {seed}");
        for (sequence, message) in &follower.seen {
            assert_eq!(Some(message), observer.seen.get(sequence), "seed {seed}: {sequence}");
        }
    }
    check_tail(&observer, &tail);
}

/// Checks that each item is in the log once, in order and as a whole, and that no confirmed message changed.
fn check_log(observer: &Follower, writers: &[Writer]) {
    let seed = observer.seed;
    let sequences: Vec<u64> = observer.seen.keys().copied().collect();
    assert_eq!(sequences, (1..=observer.position).collect::<Vec<_>>(), "seed {seed}");
    let mut next_items = vec![0; writers.len()];
    let mut messages = observer.seen.values();
    while let Some(head) = messages.next() {
        let part = ItemPart::decode(&head.payload);
        let next_item = &mut next_items[usize::from(part.writer)];
        assert_eq!(part.item, *next_item, "seed {seed}: writer {}", part.writer);
        *next_item += 1;
        let expected = encode_item(part.writer, part.item);
        let found: Vec<_> = std::iter::once(head)
            .chain(messages.by_ref().take(expected.len() - 1))
            .cloned()
            .collect();
        assert_eq!(found, expected, "seed {seed}: item {}", part.item);
    }
    assert_eq!(next_items, vec![ITEMS; writers.len()], "seed {seed}");
    for (sequence, message) in writers.iter().flat_map(|writer| &writer.confirmed) {
        assert_eq!(observer.seen.get(sequence), Some(message), "seed {seed}: {sequence}");
    }
}

/// Checks the tail against the messages that an observer has read.
fn check_tail(observer: &Follower, tail: &Tail) {
    let seed = observer.seed;
    assert_eq!(tail.last, observer.position, "seed {seed}");
    assert!(tail.first >= 1 && tail.first <= tail.last, "seed {seed}: {tail:?}");
}

fn build_runtime() -> Runtime {
    Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime starts")
}

fn sample_config() -> LogConfig {
    LogConfig {
        url: "memory:".to_owned(),
        cluster: "test".to_owned(),
        replicas: 1,
        max_age: Duration::from_secs(3_600),
        max_bytes: u64::MAX,
        in_flight_bytes: 64,
        request_timeout: Duration::from_secs(10),
    }
}

fn open_objects(url: &str) -> ObjectLogSpace {
    let depot = Depot::open(url, &DepotConfig::default()).expect("the depot opens");
    ObjectLogSpace::with_depot(depot, &sample_config())
}

#[test]
fn a_log_in_memory_is_the_model_under_faults() {
    let runtime = build_runtime();
    let mut outcome = Outcome::default();
    for seed in 0..3_000 {
        let append = AppendFaults {
            unconfirmed: 60,
            lost: 60,
            late: 80,
            repeated: 60,
            fenced: 30,
            full: 30,
        };
        let faults = Faults { seed, append, failed_tail: 50, ..Faults::default() };
        let world = World::Memory(MemoryLogSpace::with_faults(faults));
        runtime.block_on(run_schedule(&world, seed, &mut outcome));
    }
    assert!(outcome.unsure_appends > 3_000 && outcome.truncations > 300, "{outcome:?}");
    assert_eq!(outcome.failed_reads, 0);
}

#[test]
fn a_log_of_objects_is_the_model() {
    let runtime = build_runtime();
    let mut outcome = Outcome::default();
    for seed in 0..1_000 {
        let world = World::Objects(open_objects("memory:"));
        runtime.block_on(run_schedule(&world, seed, &mut outcome));
    }
    assert!(outcome.unsure_appends > 1_000 && outcome.truncations > 100, "{outcome:?}");
    assert_eq!(outcome.failed_reads, 0);
}

#[test]
fn a_log_of_objects_is_the_model_under_faults() {
    let runtime = build_runtime();
    let mut outcome = Outcome::default();
    let config = DepotConfig {
        request_timeout: Duration::from_secs(3),
        retries_max: 1,
        backoff: Duration::from_millis(5),
        ..DepotConfig::default()
    };
    for seed in 0..500 {
        let store = FaultyStore::new(seed, depot::faults::Faults::default());
        let shared: Arc<FaultyStore> = Arc::clone(&store);
        let depot = Depot::with_store(shared, "log", &config);
        let space = ObjectLogSpace::with_depot(depot, &sample_config());
        let world = World::FaultyObjects { space, store };
        runtime.block_on(run_schedule(&world, seed, &mut outcome));
    }
    assert!(outcome.failed_reads > 100 && outcome.truncations > 50, "{outcome:?}");
}

#[test]
fn a_log_in_a_directory_is_the_model() {
    let runtime = build_runtime();
    let mut outcome = Outcome::default();
    for seed in 0..5 {
        let dir = tempfile::tempdir().expect("a directory is created");
        let world = World::Objects(open_objects(&format!("file://{}", dir.path().display())));
        runtime.block_on(run_schedule(&world, seed, &mut outcome));
    }
    assert!(outcome.unsure_appends > 0, "{outcome:?}");
}

#[test]
fn two_writers_on_threads_share_a_directory() {
    let dir = tempfile::tempdir().expect("a directory is created");
    let url = format!("file://{}", dir.path().display());
    let run = |id: u8| {
        let runtime = Builder::new_current_thread().enable_time().build();
        let url = &url;
        runtime.expect("a runtime starts").block_on(async move {
            let world = World::Objects(open_objects(url));
            world.space().create_generation(GENERATION).await.expect("it exists afterwards");
            let mut observer = Follower::open(&world, 0).await;
            let mut writer = Writer {
                seed: 0,
                id,
                rng: Rng::with_seed(u64::from(id)),
                log: world.open_log().await,
                position: 0,
                next_item: 0,
                is_unsure: false,
                confirmed: Vec::new(),
            };
            while writer.next_item < ITEMS || writer.is_unsure {
                writer.take_step().await;
            }
            let messages: usize = (0..ITEMS).map(|item| encode_item(id, item).len()).sum();
            observer.read_to(2 * messages as u64).await;
            (observer, writer)
        })
    };
    thread::scope(|scope| {
        let other = scope.spawn(|| run(1));
        let (observer, writer) = run(0);
        let (other_observer, other_writer) = other.join().expect("the other writer finishes");
        check_log(&observer, &[writer, other_writer]);
        assert_eq!(observer.seen, other_observer.seen);
    });
}
