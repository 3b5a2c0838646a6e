//! A follower: its ledger, its history, and the two parts that run.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use chain_solana::{Block, BlockInfo, BlockhashQueue, EventSink, History, HistoryLimits, Reader};
use feed::{Feed, FeedConfig};
use query::Ledger;
use snapshot_ledger::{LoadedSnapshot, block_of};
use snapshot_solana::{BankFields, Snapshot};
use solana::Account;
use solana_account::ReadableAccount;
use solana_clock::Clock;
use solana_sdk_ids::sysvar;
use tokio::sync::{mpsc, watch};

use crate::error::FollowError;
use crate::status::FollowStatus;
use crate::stream::{Message, SourceConfig, StreamConfig, Streams, message_channel};
use crate::verification::{self, OnMismatch, Verification, VerifyMode};
use crate::writer::Writer;

/// What a follower follows, and its bounds.
#[derive(Clone, Debug)]
pub struct FollowerConfig {
    /// The sources, the preferred one first. The first healthy one is followed.
    pub sources: Vec<SourceConfig>,
    /// The bounds of streams.
    pub stream: StreamConfig,
    /// The bounds of banks that are not whole.
    pub feed: FeedConfig,
    /// The bounds of history.
    pub history: HistoryLimits,
    /// How banks are verified.
    pub verify: VerifyMode,
    /// What follows a bank that is not as the chain says.
    pub on_mismatch: OnMismatch,
}

/// A ledger at the block of a snapshot, which is not followed yet.
pub struct Follower {
    config: FollowerConfig,
    reader: Reader,
    history: Arc<History>,
    status: Arc<FollowStatus>,
    fields: BankFields,
    ledger: Ledger<Account, BlockInfo>,
    root: (Arc<Block>, BlockInfo),
}

/// A running follower.
pub struct FollowHandle {
    thread: JoinHandle<Result<(), FollowError>>,
    streams: tokio::task::JoinHandle<()>,
}

impl Follower {
    /// A ledger whose root is the block of a snapshot.
    pub fn new(config: FollowerConfig, loaded: LoadedSnapshot) -> Result<Self, FollowError> {
        if config.sources.is_empty() {
            return Err(FollowError::NoSource);
        }
        let (snapshot, loader) = loaded.into_parts();
        let Snapshot { bank: fields, lamports, .. } = snapshot;
        let clock = loader.account(&sysvar::clock::ID);
        let clock = clock.and_then(|it| bincode::deserialize::<Clock>(it.0.data()).ok());
        let clock = clock.filter(|clock| clock.slot == fields.slot);
        let clock = clock.ok_or(FollowError::Incomplete("clock sysvar"))?;
        let (block, info) = block_of(&fields, clock.unix_timestamp, lamports);
        let blockhashes = BlockhashQueue::restore(fields.blockhashes.iter().copied());
        let blockhashes = blockhashes.map_or_else(|| Arc::clone(&info.blockhashes), Arc::new);
        let info = BlockInfo { blockhashes, ..info };
        let (ledger, reader) = loader.finish(info.clone()).map_err(FollowError::Snapshot)?;
        let history = Arc::new(History::new(config.history, block.id));
        history.record_block(&block);
        history.set_tip(block.id);
        history.publish();
        let status = Arc::new(FollowStatus::default());
        for counter in [&status.processed, &status.confirmed, &status.root] {
            counter.store(block.id.slot, Ordering::Relaxed);
        }
        let root = (Arc::new(block), info);
        Ok(Self { config, reader, history, status, fields, ledger, root })
    }

    /// Reads accounts.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Reads blocks and transactions.
    pub fn history(&self) -> &Arc<History> {
        &self.history
    }

    /// How far it is.
    pub fn status(&self) -> &Arc<FollowStatus> {
        &self.status
    }

    /// The fields of the snapshot.
    pub fn snapshot_fields(&self) -> &BankFields {
        &self.fields
    }

    /// Follows the sources: a task on the current runtime, and a thread. Events go to `sinks`.
    pub fn start(self, sinks: Vec<Box<dyn EventSink>>) -> Result<FollowHandle, FollowError> {
        let Self { config, history, status, ledger, root, fields, .. } = self;
        let (messages, receiver, permits) = message_channel(&config.stream);
        let (gaps, gap_receiver) = watch::channel(0);
        let feed = Feed::new(config.feed, root.0.id, root.0.blockhash);
        let verifier = match config.verify {
            VerifyMode::Off => None,
            VerifyMode::Sequence => Some(verification::from_snapshot(root.0.id, &fields)),
        };
        let verification = Verification::new(verifier, config.on_mismatch, Arc::clone(&status));
        let mut writer =
            Writer::new(feed, ledger, history, Arc::clone(&status), gaps, root, verification);
        writer.sinks = sinks;
        let thread = std::thread::Builder::new().name("follow".into());
        let thread = thread.spawn(move || write(writer, receiver)).map_err(FollowError::Thread)?;
        let streams = Streams {
            sources: config.sources,
            config: config.stream,
            status,
            messages,
            gaps: gap_receiver,
            permits,
        };
        Ok(FollowHandle { thread, streams: tokio::spawn(streams.run()) })
    }
}

fn write(writer: Writer, receiver: mpsc::Receiver<Message>) -> Result<(), FollowError> {
    let ended = writer.run(receiver);
    if let Err(err) = &ended {
        tracing::error!(err = err as &dyn std::error::Error, "the writing thread ends");
    }
    ended
}

impl FollowHandle {
    /// Whether the writing thread has ended. Without [`Self::stop`] it ends only on an error.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Ends the streams and then the writer. It blocks for the events that are on their way.
    pub fn stop(self) -> Result<(), FollowError> {
        self.streams.abort();
        self.thread.join().map_err(|_| FollowError::Panicked)?
    }
}
