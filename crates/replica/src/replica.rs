//! A replica: its ledger, its history, and the parts that run.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use chain_solana::wire::RecordDigest;
use chain_solana::{BlockInfo, EventSink, History, Reader};
use cluster_snapshot::Manifest;
use depot::{Depot, DepotConfig};
use follow::FollowedCluster;
use follow::bank::{ClusterTracker, FreeThread};
use ledger::Commitment;
use query::Ledger;
use replicated_log::LogSpace;
use snapshot_ledger::BulkLoader;
use snapshot_solana::BankFields;
use snapshot_solana::stored_rows::ChainRow;
use solana::Account;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::clock::now;
use crate::config::ReplicaConfig;
use crate::error::ReplicaError;
use crate::input_queue::{Input, input_queue};
use crate::log_follower::LogFollower;
use crate::log_position::RecentBlocks;
use crate::proof::ReplicaProof;
use crate::snapshot_bank::SnapshotBank;
use crate::snapshot_cache::{SnapshotCopies, copy_snapshots};
use crate::snapshot_task::SnapshotTask;
use crate::snapshots::{LogExtent, SnapshotSources, UsableSnapshot};
use crate::status::{LoadReason, ReadyLimits, ReplicaStatus, error_text};
use crate::stuck_time::StuckTime;
use crate::writer::{Writer, WriterParts};

/// Faults of the writer that the reader of the log has not taken. A halted writer has one.
const FAULTS_MAX: usize = 4;

/// A ledger at the block of a snapshot, which does not follow the log yet.
pub struct Replica {
    config: Arc<ReplicaConfig>,
    sources: SnapshotSources,
    ledger: Ledger<Account, BlockInfo>,
    reader: Reader,
    history: Arc<History>,
    status: Arc<ReplicaStatus>,
    proof: Arc<ReplicaProof>,
    cluster: ClusterTracker,
    bank: SnapshotBank,
    /// Digest of the first record of the log's generation, if the log still has it.
    first_digest: Option<RecordDigest>,
    /// The snapshot, if it was loaded from the object store and is to be copied.
    copied: Option<Manifest>,
}

/// A running replica. Its tasks end with it.
pub struct ReplicaHandle {
    writer: JoinHandle<Result<(), ReplicaError>>,
    log: JoinHandle<()>,
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

impl Replica {
    /// Loads the newest snapshot from which the log can be read on: from the local copy if it is as new as the object
    /// store's, else an older one.
    ///
    /// # Errors
    ///
    /// The log cannot be read, or no snapshot fits to it. The error says of each why not.
    pub async fn load(
        config: ReplicaConfig,
        space: Arc<dyn LogSpace>,
        depot: Depot,
    ) -> Result<Self, ReplicaError> {
        let limits = ReadyLimits {
            lag_max_slots: config.lag_max_slots,
            resume_slots_min: config.resume_slots_min,
        };
        let status = Arc::new(ReplicaStatus::new(limits));
        let cluster = config.cluster.clone();
        let cache = config.cache_dir.as_deref().map(open_cache).transpose()?;
        let level_min = config.level_min;
        let sources = SnapshotSources { space, depot, cache, level_min };
        let generation = sources.newest_generation(None).await?;
        let generation =
            generation.ok_or_else(|| ReplicaError::NoLog { cluster: cluster.clone() })?;
        let log = sources.space.open_generation(generation).await?;
        let extent = LogExtent::new(generation, &*log, config.idle_check_interval).await?;
        let found = sources.find_usable(&cluster, &extent, None).await;
        let mut reasons = found.reasons_text();
        let started = now();
        for snapshot in found.usable {
            match snapshot.load(&config).await {
                Ok(loader) => {
                    let elapsed = now().saturating_duration_since(started).as_millis() as u64;
                    status.record_load(LoadReason::Start, elapsed);
                    let first_digest = extent.first_digest();
                    return Self::from_loaded(
                        config,
                        sources,
                        status,
                        snapshot,
                        first_digest,
                        loader,
                    );
                }
                Err(err) => {
                    let key = snapshot.manifest.key();
                    let text = error_text(&*err);
                    tracing::warn!("snapshot {key}: {text}");
                    reasons = format!("{reasons}; {key}: {text}");
                }
            }
        }
        Err(ReplicaError::NoSnapshot { cluster, reasons })
    }

    fn from_loaded(
        config: ReplicaConfig,
        sources: SnapshotSources,
        status: Arc<ReplicaStatus>,
        snapshot: UsableSnapshot,
        first_digest: Option<RecordDigest>,
        loader: BulkLoader,
    ) -> Result<Self, ReplicaError> {
        let UsableSnapshot { manifest, bank, is_cached, .. } = snapshot;
        let id = bank.id();
        let (ledger, reader) = loader
            .finish(BlockInfo::clone(&bank.info))
            .map_err(|err| ReplicaError::Ledger { block: id, err })?;
        let history = Arc::new(History::new(config.history, id));
        // Its transactions are not in the snapshot.
        history.record_jump(&bank.block);
        history.set_tip(id);
        history.publish();
        status.restart_window(id.slot);
        status.record_snapshot(manifest.made_at_ms);
        status.record_position(&bank.log_position());
        let view = reader.view(Commitment::Finalized);
        let cluster = ClusterTracker::new(&bank.fields(), &view, Arc::clone(&status.cluster));
        let copied = (!is_cached).then_some(manifest);
        let config = Arc::new(config);
        Ok(Self {
            config,
            sources,
            ledger,
            reader,
            history,
            status,
            proof: Arc::new(ReplicaProof::new(id.slot, bank.level)),
            cluster,
            bank,
            first_digest,
            copied,
        })
    }

    /// Returns a reader of the ledger's accounts.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Returns the history of blocks and transactions. It starts after the snapshot's block.
    pub fn history(&self) -> &Arc<History> {
        &self.history
    }

    /// Returns the progress of the replica.
    pub fn status(&self) -> &Arc<ReplicaStatus> {
        &self.status
    }

    /// Returns whose word the banks of the replica are.
    pub fn proof(&self) -> &Arc<ReplicaProof> {
        &self.proof
    }

    /// Returns leaders, stakes and inflation.
    pub fn cluster(&self) -> Arc<FollowedCluster> {
        self.cluster.cluster()
    }

    /// Returns the constant properties of the chain.
    pub fn chain(&self) -> &ChainRow {
        &self.bank.chain
    }

    /// Returns the fields of the snapshot's bank, without its hash over all accounts.
    pub fn snapshot_fields(&self) -> BankFields {
        self.bank.fields()
    }

    /// Follows the log: two threads, and tasks on the current runtime. Events go to `sinks`.
    ///
    /// # Errors
    ///
    /// A thread could not be started.
    pub fn start(self, sinks: Vec<Box<dyn EventSink>>) -> Result<ReplicaHandle, ReplicaError> {
        let Self {
            config,
            sources,
            ledger,
            reader,
            history,
            status,
            proof,
            cluster,
            bank,
            first_digest,
            copied,
        } = self;
        let (inputs, received) = input_queue(config.queue_bytes_max);
        let (faults, halted) = mpsc::channel(FAULTS_MAX);
        let mut tasks = JoinSet::new();
        let copies = match &sources.cache {
            None => SnapshotCopies::none(),
            Some(cache) => {
                let (copies, requests) = SnapshotCopies::new();
                tasks.spawn(copy_snapshots(sources.depot.clone(), cache.clone(), requests));
                copies
            }
        };
        if let Some(manifest) = copied {
            copies.request(&manifest);
        }
        if let Some(interval) = config.snapshot_interval {
            let task = SnapshotTask {
                config: Arc::clone(&config),
                sources: sources.clone(),
                status: Arc::clone(&status),
                inputs: inputs.clone(),
                copies: copies.clone(),
            };
            tasks.spawn(task.run(interval));
        }
        let at = bank.log_position();
        let mut recent = RecentBlocks::default();
        recent.push(bank.name(), bank.position.digest);
        let follower = LogFollower {
            config,
            sources,
            reader: reader.clone(),
            status: Arc::clone(&status),
            inputs,
            faults: halted,
            at,
            first_digest,
            recent,
            rereads: 0,
            stuck_time: StuckTime::default(),
            reported: None,
            copies,
        };
        let writer = Writer::new(WriterParts {
            ledger,
            reader,
            history,
            cluster,
            status,
            proof,
            root: bank,
            free_thread: FreeThread::start().map_err(ReplicaError::Thread)?,
            faults,
            sinks,
        });
        let (stop, stopped) = watch::channel(false);
        let runtime = Handle::current();
        let thread = std::thread::Builder::new().name("replica-log".into());
        let read = move || read_log(&runtime, follower, stopped);
        let log = thread.spawn(read).map_err(ReplicaError::Thread)?;
        let thread = std::thread::Builder::new().name("replica".into());
        let write = move || {
            let ended = writer.run(received);
            if let Err(err) = &ended {
                tracing::error!(err = err as &dyn std::error::Error, "the writing thread ends");
            }
            ended
        };
        let writer = thread.spawn(write).map_err(ReplicaError::Thread)?;
        Ok(ReplicaHandle { writer, log, stop, tasks })
    }
}

/// Reads the log until the replica stops, and then stops the writer: tasks may still hold its queue, and are not polled
/// if their runtime's thread waits for the end. If the reader panics, the writer is stopped, too, and the state says so.
fn read_log(runtime: &Handle, follower: LogFollower, stopped: watch::Receiver<bool>) {
    let inputs = follower.inputs.clone();
    let status = Arc::clone(&follower.status);
    let read = || runtime.block_on(read_until_stopped(follower, stopped));
    let ended = catch_unwind(AssertUnwindSafe(read));
    if !matches!(ended, Ok(ReadingEnd::Stopped)) {
        status.set_ended();
    }
    // The writer may have ended.
    let _ = runtime.block_on(inputs.send(Input::Stop, 0));
    if let Err(panic) = ended {
        resume_unwind(panic);
    }
}

/// Why the reading of the log ended.
enum ReadingEnd {
    Stopped,
    WriterEnded,
}

/// Reads the log until the replica stops, or until the writer has ended, which is noticed during an outage, too.
async fn read_until_stopped(
    follower: LogFollower,
    mut stopped: watch::Receiver<bool>,
) -> ReadingEnd {
    let inputs = follower.inputs.clone();
    tokio::select! {
        _ = stopped.changed() => ReadingEnd::Stopped,
        () = inputs.wait_until_closed() => ReadingEnd::WriterEnded,
        () = follower.run() => ReadingEnd::WriterEnded,
    }
}

/// Opens the directory of the copy as a store. It is created if it does not exist.
fn open_cache(dir: &Path) -> Result<Depot, ReplicaError> {
    // A URL has no relative paths. Without a working directory, the store says why it cannot be opened.
    let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    let url = format!("file://{}", dir.display());
    Ok(Depot::open(&url, &DepotConfig::default())?)
}

impl ReplicaHandle {
    /// Whether one of the threads has ended. Without [`Self::stop`] they end only on an error. Servers must ask for it: the
    /// replica serves its last state until it is stopped.
    pub fn is_finished(&self) -> bool {
        self.writer.is_finished() || self.log.is_finished()
    }

    /// Ends the reader and then the writer. It blocks for the events that are on their way.
    ///
    /// # Errors
    ///
    /// The writing thread had ended with this error, or a thread had panicked.
    pub fn stop(mut self) -> Result<(), ReplicaError> {
        // The reader may have ended.
        let _ = self.stop.send(true);
        self.tasks.abort_all();
        let log = self.log.join();
        let writer = self.writer.join().map_err(|_| ReplicaError::Panicked)?;
        log.map_err(|_| ReplicaError::Panicked)?;
        writer
    }
}
