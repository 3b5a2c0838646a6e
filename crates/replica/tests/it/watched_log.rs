//! A log in memory whose requests are counted and fail at times, and whose readers stop or panic at a message.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use futures_util::future::BoxFuture;
use replicated_log::memory::MemoryLogSpace;
use replicated_log::{
    AppendError, Log, LogError, LogMessage, LogReader, LogSpace, ReadError, StoredMessage, Tail,
};

/// The behaviour of readers, and a count of requests.
#[derive(Debug)]
pub(crate) struct Watch {
    /// Number of requests for the newest generation.
    pub(crate) generation_requests: AtomicU64,
    /// Whether each second of these requests fails.
    pub(crate) flaps: AtomicBool,
    /// Readers wait forever for this message and those after it.
    pub(crate) held_from: AtomicU64,
    /// Readers panic at this message and those after it.
    pub(crate) panics_from: AtomicU64,
}

/// A log in memory with a [`Watch`].
#[derive(Clone, Debug)]
pub(crate) struct WatchedSpace {
    space: MemoryLogSpace,
    pub(crate) watch: Arc<Watch>,
}

impl WatchedSpace {
    pub(crate) fn new(space: &MemoryLogSpace) -> Self {
        let watch = Watch {
            generation_requests: AtomicU64::new(0),
            flaps: AtomicBool::new(false),
            held_from: AtomicU64::new(u64::MAX),
            panics_from: AtomicU64::new(u64::MAX),
        };
        Self { space: space.clone(), watch: Arc::new(watch) }
    }
}

impl LogSpace for WatchedSpace {
    fn newest_generation(&self) -> BoxFuture<'_, Result<Option<u64>, LogError>> {
        let requests = self.watch.generation_requests.fetch_add(1, Ordering::Relaxed);
        if self.watch.flaps.load(Ordering::Relaxed) && requests % 2 == 1 {
            let err = LogError::with_reason("memory", "list the generations", "as the test says");
            return Box::pin(std::future::ready(Err(err)));
        }
        self.space.newest_generation()
    }

    fn create_generation(&self, generation: u64) -> BoxFuture<'_, Result<bool, LogError>> {
        self.space.create_generation(generation)
    }

    fn remove_generations_below(&self, generation: u64) -> BoxFuture<'_, Result<usize, LogError>> {
        self.space.remove_generations_below(generation)
    }

    fn open_generation(&self, generation: u64) -> BoxFuture<'_, Result<Arc<dyn Log>, LogError>> {
        Box::pin(async move {
            let log = self.space.open_generation(generation).await?;
            let watch = Arc::clone(&self.watch);
            Ok(Arc::new(WatchedLog { log, watch }) as Arc<dyn Log>)
        })
    }

    fn durability_faults(&self) -> BoxFuture<'_, Result<Vec<String>, LogError>> {
        self.space.durability_faults()
    }
}

struct WatchedLog {
    log: Arc<dyn Log>,
    watch: Arc<Watch>,
}

impl Log for WatchedLog {
    fn append(
        &self,
        after: u64,
        batch: Vec<LogMessage>,
    ) -> BoxFuture<'_, Result<u64, AppendError>> {
        self.log.append(after, batch)
    }

    fn tail(&self) -> BoxFuture<'_, Result<Tail, LogError>> {
        self.log.tail()
    }

    fn read(&self, after: u64) -> BoxFuture<'_, Result<Box<dyn LogReader>, LogError>> {
        Box::pin(async move {
            let reader = self.log.read(after).await?;
            let watch = Arc::clone(&self.watch);
            Ok(Box::new(WatchedReader { reader, watch }) as Box<dyn LogReader>)
        })
    }
}

struct WatchedReader {
    reader: Box<dyn LogReader>,
    watch: Arc<Watch>,
}

impl LogReader for WatchedReader {
    fn next(&mut self) -> BoxFuture<'_, Result<StoredMessage, ReadError>> {
        Box::pin(async move {
            let message = self.reader.next().await?;
            let sequence = message.sequence;
            assert!(sequence < self.watch.panics_from.load(Ordering::Relaxed), "as the test says");
            if sequence >= self.watch.held_from.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
            Ok(message)
        })
    }
}
