//! A follower: its ledger, its history, and the two parts that run.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use chain_solana::{BankProof, Block, BlockInfo, EventSink, History, HistoryLimits, Reader};
use feed::{Feed, FeedConfig};
use http_client::Endpoint;
use ledger::{Address, BlockId, Commitment};
use query::Ledger;
use snapshot_solana::BankFields;
use snapshot_solana::stored_rows::JumpRow;
use solana::Account;
use solana::VerificationLevel;
use solana_account::ReadableAccount;
use solana_sdk_ids::sysvar;
use tokio::sync::{mpsc, watch};
use verify::{StakedVoters, VerifierConfig};

use crate::agreement::AgreementSources;
use crate::ancestry::ChainFacts;
use crate::archive_status_cache::ArchiveStatusCache;
use crate::base::{Base, BaseStore};
use crate::cluster::FollowedCluster;
use crate::cluster_tracker::ClusterTracker;
use crate::error::FollowError;
use crate::execution::Execution;
use crate::execution_status::ExecutionConfig;
use crate::free_thread::FreeThread;
use crate::gap_closer::{ArchiveSource, GapCloser, KnownChain};
use crate::nodes;
use crate::proof_status::ProofStatus;
use crate::status::FollowStatus;
use crate::store_thread::StoreQueue;
use crate::stream::{Message, SourceConfig, StreamConfig, Streams, message_channel};
use crate::transaction_checks::TransactionChecks;
use crate::trust::{NamedBanks, TrustedBank, TrustedBanks};
use crate::verification::{self, OnMismatch, Verification, VerifyMode};
use crate::votes::VoteFilter;
use crate::writer::{Storage, Writer, WriterParts};

/// Independent sources, at most.
const SOURCES_MAX: usize = 16;

/// Configuration of a follower: its sources and its bounds.
#[derive(Clone, Debug)]
pub struct FollowerConfig {
    /// The sources, the preferred one first. The first healthy one is followed.
    pub sources: Vec<SourceConfig>,
    /// Timeouts and limits of streams.
    pub stream: StreamConfig,
    /// The bounds of banks that are not whole.
    pub feed: FeedConfig,
    /// Limits of the retained history.
    pub history: HistoryLimits,
    /// Method of verifying banks.
    pub verify: VerifyMode,
    /// Whether a bank's entries must prove its transactions and their order. Sources that are the leaders of their blocks
    /// have no entries of them.
    pub verify_entries: bool,
    /// The transactions that are executed again, to compare their results with the source's word. `None` for none.
    pub execution: Option<ExecutionConfig>,
    /// The independent sources of [`VerifyMode::Agree`].
    pub agreement: AgreementConfig,
    /// The stakes of epochs, which weight votes. The oldest first.
    pub epoch_stakes: Vec<StakedVoters>,
    /// Bank hashes that the chain must have. They need a mode that verifies banks.
    pub trusted_banks: Vec<TrustedBank>,
    /// Reaction to a bank that differs from the chain's bank hash.
    pub on_mismatch: OnMismatch,
    /// JSON-RPC that names the cluster's nodes, if no source has gossip.
    pub upstream: Option<Endpoint>,
    /// The archives that close gaps. Without them a gap stays open that is longer than the sources' replay windows.
    pub archives: Option<ArchiveSource>,
}

/// Independent sources, which send the SlotHashes sysvar.
#[derive(Clone, Debug, Default)]
pub struct AgreementConfig {
    /// The sources. They should not depend on each other, or on the sources that are followed.
    pub sources: Vec<SourceConfig>,
    /// Number of sources that must list a bank's hash.
    pub required: usize,
}

impl AgreementConfig {
    fn check(&self, mode: VerifyMode) -> Result<(), FollowError> {
        let required = self.required;
        let sources = self.sources.len();
        let is_valid = match mode {
            VerifyMode::Agree => (1..=sources).contains(&required) && sources <= SOURCES_MAX,
            VerifyMode::Off | VerifyMode::Sequence | VerifyMode::Votes | VerifyMode::Execution => {
                sources == 0
            }
        };
        let err = FollowError::Agreement { required, sources, max: SOURCES_MAX };
        if is_valid { Ok(()) } else { Err(err) }
    }
}

/// A ledger at the block of its base, which is not followed yet.
pub struct Follower {
    config: FollowerConfig,
    reader: Reader,
    history: Arc<History>,
    status: Arc<FollowStatus>,
    older_statuses: Arc<ArchiveStatusCache>,
    fields: BankFields,
    ledger: Ledger<Account, BlockInfo>,
    root: (Arc<Block>, BlockInfo),
    cluster: ClusterTracker,
    store: Option<BaseStore>,
    jump: Option<JumpRow>,
    trusted: TrustedBanks,
}

/// A running follower. Its tasks end with it.
pub struct FollowHandle {
    thread: JoinHandle<Result<(), FollowError>>,
    streams: tokio::task::JoinHandle<()>,
    nodes: tokio::task::JoinHandle<()>,
    /// The tasks that end with the follower.
    tasks: tokio::task::JoinSet<()>,
}

impl Follower {
    /// Creates a ledger with the block of a base as its root.
    pub fn new(config: FollowerConfig, base: Base) -> Result<Self, FollowError> {
        if config.sources.is_empty() {
            return Err(FollowError::NoSource);
        }
        config.agreement.check(config.verify)?;
        let all = (config.verify == VerifyMode::Execution).then(ExecutionConfig::default);
        let config = FollowerConfig { execution: config.execution.or(all), ..config };
        let Base { ledger, reader, block, info, older, jump, fields, store } = base;
        if config.verify != VerifyMode::Off && !block.has_bank_hash() {
            return Err(FollowError::UnverifiedState { slot: block.id.slot });
        }
        if config.verify == VerifyMode::Off && !config.trusted_banks.is_empty() {
            return Err(FollowError::TrustWithoutVerification);
        }
        if config.verify == VerifyMode::Off && config.execution.is_some() {
            return Err(FollowError::ExecutionWithoutVerification);
        }
        let slot_hashes = Address::from(sysvar::slot_hashes::ID.to_bytes());
        let slot_hashes = reader.view(Commitment::Finalized).record(&slot_hashes);
        let slot_hashes = slot_hashes.as_ref().map_or(&[][..], |account| account.0.data());
        let slot = block.id.slot;
        let named = NamedBanks { slot, bank_hash: block.bank_hash, slot_hashes };
        let (trusted, unnamed) = TrustedBanks::at_start(config.trusted_banks.clone(), &named)?;
        let history = Arc::new(History::new(config.history, block.id));
        for block in older.iter().chain([&block]) {
            match jump {
                Some(jump) if jump.slot == block.id.slot => history.record_jump(block),
                _ => history.record_block(block),
            }
            history.set_tip(block.id);
        }
        history.publish();
        let sources = config.agreement.sources.iter();
        let servers = sources.map(|source| source.server().to_string()).collect();
        let proof = ProofStatus::new(config.verify.required_level(), servers);
        let proof = Arc::new(proof.with_execution(config.execution));
        if let Some(unnamed) = unnamed {
            tracing::error!("the start is not as trusted as it should be: {unnamed}");
            proof.set_untrusted(unnamed.to_string());
        }
        let (start, compared) = trusted.trust_root();
        proof.set_trust_root(start, compared);
        proof.record(block.id, BankProof { level: VerificationLevel::Computed, votes: None });
        let status = Arc::new(FollowStatus { proof, ..FollowStatus::default() });
        for counter in [&status.cluster.processed, &status.confirmed, &status.root] {
            counter.store(block.id.slot, Ordering::Relaxed);
        }
        let statuses = Arc::clone(&fields.status_cache);
        let older_statuses = ArchiveStatusCache::new(statuses, fields.slot, Arc::clone(&status));
        let view = reader.view(Commitment::Finalized);
        let cluster = ClusterTracker::new(&fields, &view, Arc::clone(&status.cluster));
        let root = (block, info);
        Ok(Self {
            config,
            reader,
            history,
            status,
            older_statuses,
            fields,
            ledger,
            root,
            cluster,
            store,
            jump,
            trusted,
        })
    }

    /// Returns a reader of the ledger's accounts.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Returns the history of blocks and transactions.
    pub fn history(&self) -> &Arc<History> {
        &self.history
    }

    /// Returns the progress of the follower.
    pub fn status(&self) -> &Arc<FollowStatus> {
        &self.status
    }

    /// Leaders, stakes, nodes and inflation.
    pub fn cluster(&self) -> Arc<FollowedCluster> {
        self.cluster.cluster()
    }

    /// Returns the statuses of the transactions that were executed before the snapshot, and later those of the gap
    /// before the archive of a jump.
    pub fn older_statuses(&self) -> Arc<ArchiveStatusCache> {
        Arc::clone(&self.older_statuses)
    }

    /// The fields of the base's bank.
    pub fn snapshot_fields(&self) -> &BankFields {
        &self.fields
    }

    /// Follows the sources: a task on the current runtime, and a thread. Events go to `sinks`.
    pub fn start(self, sinks: Vec<Box<dyn EventSink>>) -> Result<FollowHandle, FollowError> {
        let Self {
            config,
            reader,
            history,
            status,
            older_statuses,
            fields,
            ledger,
            root,
            cluster,
            store,
            jump,
            trusted,
        } = self;
        let base = || reader.view(Commitment::Finalized);
        let store = store.map(|store| StoreQueue::start(store, base(), Arc::clone(&status)));
        let (messages, receiver, permits) = message_channel(&config.stream);
        let (gaps, gap_receiver) = watch::channel(0);
        let votes = (config.verify == VerifyMode::Votes).then(|| Arc::new(VoteFilter::default()));
        let verified = VerifiedChain { root: root.0.id, fields: &fields, trusted: &trusted };
        let verification = verified.start(&config, votes.clone(), &status, &messages)?;
        let execution = config.execution.zip(status.proof.execution.clone());
        let execution = execution
            .map(|(config, status)| Execution::start(config, messages.downgrade(), status))
            .transpose()?;
        let needs_approval = config.verify != VerifyMode::Off;
        let feed = FeedConfig { needs_approval, ..config.feed };
        let feed = Feed::new(feed, root.0.id, root.0.blockhash);
        let agreement = AgreementSources {
            sources: config.agreement.sources,
            config: config.stream.clone(),
            proof: Arc::clone(status.proof()),
            messages: messages.downgrade(),
        };
        let nodes = nodes::follow_nodes(
            config.sources.clone(),
            config.stream.clone(),
            config.upstream,
            cluster.cluster(),
        );
        let closer = config.archives.map(|archives| {
            let messages = messages.downgrade();
            let known = KnownChain { facts: ChainFacts::from_fields(&fields), trusted };
            GapCloser::new(archives, reader.clone(), Arc::clone(&status), messages, known)
        });
        let needs_proof = needs_approval && config.verify_entries;
        let needs_entries = needs_proof || sinks.iter().any(|sink| sink.needs_entries());
        let (root, root_info) = root;
        let writer = Writer::new(WriterParts {
            feed,
            ledger,
            reader,
            history,
            root,
            root_info,
            status: Arc::clone(&status),
            older_statuses,
            gaps,
            verification,
            cluster,
            votes,
            storage: Storage { queue: store.transpose()?, last_jump: jump },
            execution,
            free_thread: FreeThread::start().map_err(FollowError::Thread)?,
            sinks,
        });
        let thread = start_writer(writer, config.epoch_stakes, receiver)?;
        let streams = Streams {
            with_entries: vec![needs_entries; config.sources.len()],
            sources: config.sources,
            config: config.stream,
            status,
            messages,
            gaps: gap_receiver,
            permits,
            has_archives: closer.is_some(),
        };
        let mut tasks = agreement.start();
        if let Some(closer) = closer {
            tasks.spawn(closer.run());
        }
        let nodes = tokio::spawn(nodes);
        Ok(FollowHandle { thread, streams: tokio::spawn(streams.run()), nodes, tasks })
    }
}

/// The chain above a root, whose banks are verified.
struct VerifiedChain<'a> {
    root: BlockId,
    /// The fields of the root's bank.
    fields: &'a BankFields,
    trusted: &'a TrustedBanks,
}

impl VerifiedChain<'_> {
    /// Starts the verification of banks, with the threads that check their transactions, unless it is off. `votes`
    /// selects the votes that are counted.
    fn start(
        self,
        config: &FollowerConfig,
        votes: Option<Arc<VoteFilter>>,
        status: &FollowStatus,
        messages: &mpsc::Sender<Message>,
    ) -> Result<Verification, FollowError> {
        let trusted = self.trusted.clone();
        let proof = Arc::clone(status.proof());
        let on_mismatch = config.on_mismatch;
        if config.verify == VerifyMode::Off {
            return Ok(Verification::new(None, None, on_mismatch, trusted, proof));
        }
        let is_agreement = config.verify == VerifyMode::Agree;
        let verifier_config = VerifierConfig {
            sources_max: SOURCES_MAX,
            sources_required: if is_agreement { config.agreement.required } else { 0 },
            ..VerifierConfig::default()
        };
        let verifier = verification::from_snapshot(self.root, self.fields, verifier_config);
        let metrics = Arc::clone(&proof.checks);
        let messages = messages.downgrade();
        let checks = TransactionChecks::start(messages, config.verify_entries, votes, metrics)?;
        Ok(Verification::new(Some(verifier), Some(checks), on_mismatch, trusted, proof))
    }
}

/// Starts the thread that writes the ledger.
fn start_writer(
    mut writer: Writer,
    epoch_stakes: Vec<StakedVoters>,
    receiver: mpsc::Receiver<Message>,
) -> Result<JoinHandle<Result<(), FollowError>>, FollowError> {
    writer.take_epoch_stakes();
    for stakes in epoch_stakes {
        writer.set_epoch_stakes(Arc::new(stakes));
    }
    let thread = std::thread::Builder::new().name("follow".into());
    thread.spawn(move || write(writer, receiver)).map_err(FollowError::Thread)
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
        self.tasks.abort_all();
        self.streams.abort();
        self.nodes.abort();
        self.thread.join().map_err(|_| FollowError::Panicked)?
    }
}
