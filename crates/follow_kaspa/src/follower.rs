//! A follower: its chain, its settings, and the parts that run.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use chain_kaspa::{Chain, ChainReader};
use kaspa::Network;
use tokio::task::JoinSet;

use crate::agreement_checks::AgreementChecks;
use crate::config::FollowerConfig;
use crate::error::FollowError;
use crate::event::EventSink;
use crate::json_relay::JsonRelay;
use crate::restart::prepare_restart;
use crate::restart_point::{RestartOptions, RestartPoint};
use crate::session::SessionContext;
use crate::snapshot_thread::SnapshotThread;
use crate::sources::Sources;
use crate::status::FollowStatus;
use crate::writer::Writer;
use crate::writer_queue::{QueueUsage, writer_channel};

/// A chain that is not followed yet.
pub struct Follower {
    config: FollowerConfig,
    chain: Chain,
    reader: ChainReader,
    status: Arc<FollowStatus>,
    queue: Arc<QueueUsage>,
}

/// A running follower.
pub struct FollowHandle {
    thread: JoinHandle<Result<(), FollowError>>,
    /// The tasks of the connections.
    tasks: JoinSet<()>,
    snapshot: Option<SnapshotThread>,
    /// The path of the snapshot file.
    snapshot_path: Option<PathBuf>,
    network: Network,
}

impl Follower {
    /// Creates a follower of a chain, which [`crate::start_chain`] returns.
    pub fn new(config: FollowerConfig, chain: Chain) -> Result<Self, FollowError> {
        if config.sources.is_empty() {
            return Err(FollowError::NoSource);
        }
        let mut sources = config.sources.iter().chain(&config.json_sources);
        if let Some(source) = sources.find(|source| !source.has_valid_url()) {
            return Err(FollowError::Url { server: source.server().to_string() });
        }
        let reader = chain.reader();
        let queue = Arc::new(QueueUsage::new(&config.connection));
        let status = Arc::new(FollowStatus::new(reader.clone(), Arc::clone(&queue)));
        Ok(Self { config, chain, reader, status, queue })
    }

    /// Returns the readers' access to the chain.
    pub fn reader(&self) -> &ChainReader {
        &self.reader
    }

    /// Returns the progress. It is also a collector of metrics.
    pub fn status(&self) -> &Arc<FollowStatus> {
        &self.status
    }

    /// Follows the sources: a task on the current runtime, a thread that writes, and one for the snapshot file. Events
    /// go to `sinks`. The runtime needs more than one thread, or [`FollowHandle::stop`] waits forever.
    pub fn start(self, sinks: Vec<Box<dyn EventSink>>) -> Result<FollowHandle, FollowError> {
        let Self { config, chain, reader, status, queue } = self;
        let FollowerConfig {
            network,
            sources,
            json_sources,
            connection,
            session,
            snapshot,
            can_import,
        } = config;
        let snapshot_path = snapshot.as_ref().map(|snapshot| snapshot.path.clone());
        let snapshot = snapshot.map(|snapshot| {
            SnapshotThread::start(snapshot, network, reader.clone(), Arc::clone(&status))
        });
        let snapshot = snapshot.transpose().map_err(FollowError::Thread)?;
        let (handle, messages) = writer_channel(queue);
        let writer = Writer::new(chain, Arc::clone(&status), sinks);
        let thread = std::thread::Builder::new().name("kaspa-writer".into());
        let thread = thread.spawn(move || {
            let ended = writer.run(messages);
            if let Err(error) = &ended {
                let error = error as &dyn std::error::Error;
                tracing::error!(error, "the writing thread ends");
            }
            ended
        });
        let thread = thread.map_err(FollowError::Thread)?;
        let has_others = sources.len() > 1;
        let context =
            SessionContext { network, config: session, reader, status, writer: handle, has_others };
        let mut tasks = JoinSet::new();
        if !json_sources.is_empty() {
            let writer = context.writer.clone();
            let session = context.config.clone();
            let sources = json_sources;
            tasks.spawn(JsonRelay { network, sources, connection, session, writer }.run());
        }
        if has_others {
            let checks = AgreementChecks {
                network,
                sources: sources.clone(),
                connection,
                interval: context.config.agreement_interval,
                reader: context.reader.clone(),
                status: Arc::clone(&context.status),
                writer: context.writer.clone(),
            };
            tasks.spawn(checks.run());
        }
        let restart = RestartOptions { snapshot: snapshot_path.clone(), can_import };
        tasks.spawn(Sources { sources, connection, context, restart }.run());
        Ok(FollowHandle { thread, tasks, snapshot, snapshot_path, network })
    }
}

impl FollowHandle {
    /// Whether the writing thread has ended. Without [`Self::stop`] it ends only on an error.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Ends the session, the writer and the snapshot thread. It blocks for the messages that wait, and for the last snapshot
    /// file if it can be written within 10 s. After [`FollowError::Restart`] the snapshot file is the one to start from.
    pub fn stop(mut self) -> Result<(), FollowError> {
        self.tasks.abort_all();
        let ended = self.thread.join().map_err(|_| FollowError::Panicked)?;
        if let Some(snapshot) = self.snapshot {
            // After an error the final block may be one that the sources have left.
            snapshot.stop(ended.is_ok());
        }
        if let (Some(path), Err(FollowError::Restart { block, base })) =
            (self.snapshot_path, &ended)
        {
            let point = RestartPoint { block: *block, base: *base };
            let prepared = prepare_restart(&path, self.network, point);
            prepared.map_err(|error| FollowError::PrepareRestart { path, error })?;
        }
        ended
    }
}
