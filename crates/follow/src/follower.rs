//! A follower: its ledger, its history, and the two parts that run.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use chain_solana::{
    BankProof, Block, BlockInfo, BlockhashQueue, EventSink, History, HistoryLimits, Reader,
    VerificationLevel,
};
use feed::{Feed, FeedConfig};
use loadgen::Endpoint;
use query::Ledger;
use snapshot_ledger::{LoadedSnapshot, block_of};
use snapshot_solana::{BankFields, Snapshot};
use solana::Account;
use solana_account::ReadableAccount;
use solana_clock::Clock;
use solana_sdk_ids::sysvar;
use tokio::sync::{mpsc, watch};
use verify::{EpochStakes, VerifierConfig};

use crate::agreement::AgreementSources;
use crate::cluster::FollowedCluster;
use crate::cluster_tracker::ClusterTracker;
use crate::error::FollowError;
use crate::nodes;
use crate::proof_status::ProofStatus;
use crate::status::FollowStatus;
use crate::stream::{Message, SourceConfig, StreamConfig, Streams, message_channel};
use crate::verification::{self, OnMismatch, Verification, VerifyMode};
use crate::votes::VoteThread;
use crate::writer::Writer;

/// Independent sources, at most.
const SOURCES_MAX: usize = 16;

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
    /// The independent sources of [`VerifyMode::Agree`].
    pub agreement: AgreementConfig,
    /// The stakes of epochs: whose votes count. The oldest first.
    pub epoch_stakes: Vec<EpochStakes>,
    /// What follows a bank that is not as the chain says.
    pub on_mismatch: OnMismatch,
    /// JSON-RPC that names the cluster's nodes, if no source has gossip.
    pub upstream: Option<Endpoint>,
}

/// Independent sources, which send the SlotHashes sysvar.
#[derive(Clone, Debug, Default)]
pub struct AgreementConfig {
    /// The sources. They should not depend on each other, or on the sources that are followed.
    pub sources: Vec<SourceConfig>,
    /// How many of them must list a bank's hash.
    pub required: usize,
}

impl AgreementConfig {
    fn check(&self, mode: VerifyMode) -> Result<(), FollowError> {
        let (required, sources) = (self.required, self.sources.len());
        let is_valid = match mode {
            VerifyMode::Agree => (1..=sources).contains(&required) && sources <= SOURCES_MAX,
            VerifyMode::Off | VerifyMode::Sequence | VerifyMode::Votes => sources == 0,
        };
        let err = FollowError::Agreement { required, sources, max: SOURCES_MAX };
        if is_valid { Ok(()) } else { Err(err) }
    }
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
    cluster: ClusterTracker,
}

/// A running follower.
pub struct FollowHandle {
    thread: JoinHandle<Result<(), FollowError>>,
    streams: tokio::task::JoinHandle<()>,
    nodes: tokio::task::JoinHandle<()>,
    agreement: tokio::task::JoinSet<()>,
}

impl Follower {
    /// A ledger whose root is the block of a snapshot.
    pub fn new(config: FollowerConfig, loaded: LoadedSnapshot) -> Result<Self, FollowError> {
        if config.sources.is_empty() {
            return Err(FollowError::NoSource);
        }
        config.agreement.check(config.verify)?;
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
        let urls = config.agreement.sources.iter().map(|source| source.url.clone()).collect();
        let proof = Arc::new(ProofStatus::new(config.verify.required(), urls));
        proof.record(block.id, BankProof { level: VerificationLevel::Computed, votes: None });
        let status = Arc::new(FollowStatus { proof, ..FollowStatus::default() });
        for counter in [&status.processed, &status.confirmed, &status.root] {
            counter.store(block.id.slot, Ordering::Relaxed);
        }
        let root = (Arc::new(block), info);
        let view = reader.view(ledger::Commitment::Finalized);
        let cluster = ClusterTracker::new(&fields, &view, Arc::clone(&status));
        Ok(Self { config, reader, history, status, fields, ledger, root, cluster })
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

    /// Leaders, stakes, nodes and inflation.
    pub fn cluster(&self) -> Arc<FollowedCluster> {
        self.cluster.cluster()
    }

    /// The fields of the snapshot.
    pub fn snapshot_fields(&self) -> &BankFields {
        &self.fields
    }

    /// Follows the sources: a task on the current runtime, and a thread. Events go to `sinks`.
    pub fn start(self, sinks: Vec<Box<dyn EventSink>>) -> Result<FollowHandle, FollowError> {
        let Self { config, history, status, ledger, root, fields, cluster, .. } = self;
        let (messages, receiver, permits) = message_channel(&config.stream);
        let (gaps, gap_receiver) = watch::channel(0);
        let needs_approval = config.verify != VerifyMode::Off;
        let feed = FeedConfig { needs_approval, ..config.feed };
        let feed = Feed::new(feed, root.0.id, root.0.blockhash);
        let is_agreement = config.verify == VerifyMode::Agree;
        let verifier_config = VerifierConfig {
            sources_max: SOURCES_MAX,
            sources_required: if is_agreement { config.agreement.required } else { 0 },
            ..VerifierConfig::default()
        };
        let verifier = needs_approval
            .then(|| verification::from_snapshot(root.0.id, &fields, verifier_config));
        let verification =
            Verification::new(verifier, config.on_mismatch, Arc::clone(status.proof()));
        let agreement = AgreementSources {
            sources: config.agreement.sources,
            config: config.stream.clone(),
            proof: Arc::clone(status.proof()),
            messages: messages.downgrade(),
        };
        let votes = (config.verify == VerifyMode::Votes)
            .then(|| VoteThread::start(messages.downgrade()))
            .transpose()?;
        let nodes = nodes::follow_nodes(
            config.sources.clone(),
            config.stream.clone(),
            config.upstream,
            cluster.cluster(),
        );
        let per_bank = (verification, cluster);
        let mut writer =
            Writer::new(feed, ledger, history, Arc::clone(&status), gaps, root, per_bank);
        writer.votes = votes;
        writer.take_epoch_stakes();
        for stakes in config.epoch_stakes {
            writer.set_epoch_stakes(Arc::new(stakes));
        }
        let needs_entries = sinks.iter().any(|sink| sink.needs_entries());
        writer.sinks = sinks;
        let thread = std::thread::Builder::new().name("follow".into());
        let thread = thread.spawn(move || write(writer, receiver)).map_err(FollowError::Thread)?;
        let streams = Streams {
            with_entries: vec![needs_entries; config.sources.len()],
            sources: config.sources,
            config: config.stream,
            status,
            messages,
            gaps: gap_receiver,
            permits,
        };
        let (agreement, nodes) = (agreement.start(), tokio::spawn(nodes));
        let streams = tokio::spawn(streams.run());
        Ok(FollowHandle { thread, streams, nodes, agreement })
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
    pub fn stop(mut self) -> Result<(), FollowError> {
        self.agreement.abort_all();
        self.streams.abort();
        self.nodes.abort();
        self.thread.join().map_err(|_| FollowError::Panicked)?
    }
}
