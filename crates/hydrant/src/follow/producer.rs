//! A followed chain as the producer of a node: from a snapshot or the stored state to the newest bank.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::follow::{
    ArchiveKind, Base, DownloadProgress, FollowHandle, FollowSimulator, FollowStatus, Follower,
    FollowerConfig, LeaderSender, LedgerDirectory, SenderChain, StoredLedger, StreamConfig,
    UpstreamCalls, UpstreamFacts, UpstreamSender, cluster_info, download,
};
use ::tpu::TlsIdentity;
use anyhow::{Context, Result};
use chain_solana::{
    Cluster, ClusterInfo, EventSink, PreSnapshotStatuses, TransactionSender, UpstreamRpc,
    Verification,
};
use feed::FeedConfig;
use http_client::{Endpoint, HttpClientError};
use indicatif::HumanBytes;
use jsonrpc::{Health, Status};
use metrics::Collector;
use solana_keypair::Keypair;
use solana_signer::Signer;
use web_console::LedgerKind;

use crate::banner::node_lines;
use crate::console::{now, print_line, print_stderr};
use crate::follow::FollowConfig;
use crate::follow::config::SnapshotSource;
use crate::follow::flags::SendTo;
use crate::node::composed::RunningLedger;
use crate::node::parts::BoxFuture;
use crate::node::producer::OpenContext;
use crate::node::solana::SolanaProducer;
use crate::node::solana::front_end::{ReadyNode, SolanaFrontEnd};
use crate::node::solana::ledger::{LedgerHandles, LedgerProducer, OpenedLedger};
use crate::node::{NodeConfig, Producer};
use crate::snapshot_file::SnapshotFile;
use crate::wait_notice::with_wait_notice;

/// Interval of the lines about a download.
const LINE_INTERVAL: Duration = Duration::from_secs(5);
/// Slots from the newest verified bank to the tip above which the node is unhealthy, unless `--slots-behind-max` is
/// larger. Votes need two slots, and some 32 if blocks are skipped.
const UNVERIFIED_SLOTS_MAX: u64 = 128;
/// Interval at which the node checks whether leaders can be dialled.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Follows a chain, as `hydrant follow` does.
pub struct FollowProducer {
    config: FollowConfig,
}

impl From<FollowProducer> for Producer {
    fn from(producer: FollowProducer) -> Self {
        Self(Box::new(SolanaProducer::new(producer)))
    }
}

impl FollowProducer {
    /// A producer with these settings.
    pub fn new(config: FollowConfig) -> Self {
        Self { config }
    }
}

impl LedgerProducer for FollowProducer {
    fn open(self: Box<Self>, context: &OpenContext<'_>) -> Result<Box<dyn OpenedLedger>> {
        let config = self.config;
        let (base, facts) = Start { config: &config, context }.state()?;
        Ok(Box::new(OpenedChain { config, base: Some(base), facts, follower: None }))
    }
}

/// The context of a start until the state is loaded.
struct Start<'a> {
    config: &'a FollowConfig,
    context: &'a OpenContext<'a>,
}

impl Start<'_> {
    /// Returns the state to start from, and the known facts of its chain: the stored state if any, else the snapshot.
    fn state(&self) -> Result<(Base, UpstreamFacts)> {
        let chain = self.config;
        let node = self.context.config;
        let directory = node.ledger_dir.as_deref().map(|dir| ledger_directory(dir, node.reset));
        let directory = directory.transpose()?;
        let stored = directory.as_ref().map(LedgerDirectory::open).transpose();
        if let Some(stored) = stored.context("--ledger")?.flatten() {
            return start_from_stored(chain, node, stored).context("start from --ledger");
        }
        let (snapshot, upstream) = chain.first_snapshot()?;
        // It blocks, and before the download: a wrong upstream must not cost hours.
        let facts = request_facts(upstream).context("request the chain's facts (--upstream)")?;
        chain.check_genesis(&facts.genesis_hash).context("--upstream")?;
        // A signal removes the part of the file that was downloaded.
        let path = snapshot_path(chain, snapshot, node.quiet);
        let path = self.context.signals.dropped_at_end(path);
        let full = self.context.runtime.block_on(path)?;
        let incremental = chain.incremental_snapshot.clone();
        let file = SnapshotFile { full, incremental, threads: chain.load_threads };
        let loaded = file.load(&node.ledger, node.quiet)?;
        let base = Base::from_snapshot(loaded).context("start from the snapshot")?;
        let base = match directory {
            Some(directory) => directory.create(base, facts.genesis_hash).context("--ledger")?,
            None => base,
        };
        Ok((base, facts))
    }
}

fn ledger_directory(dir: &Path, is_reset: bool) -> Result<LedgerDirectory> {
    let directory = LedgerDirectory::new(dir).context("--ledger")?;
    if is_reset {
        directory.reset().context("--reset")?;
    }
    Ok(directory)
}

fn request_facts(upstream: &Endpoint) -> Result<UpstreamFacts, HttpClientError> {
    with_wait_notice(upstream.server(), || UpstreamFacts::request(upstream))
}

/// The stored state. An upstream that does not respond does not prevent the start.
fn start_from_stored(
    chain: &FollowConfig,
    node: &NodeConfig,
    stored: StoredLedger,
) -> Result<(Base, UpstreamFacts)> {
    let started = now();
    let slot = stored.slot();
    let facts = chain.upstream.as_ref().map(request_facts);
    let facts = facts.transpose().unwrap_or_else(|err| {
        let err = &err as &dyn std::error::Error;
        tracing::warn!(err, "the upstream does not respond, so its genesis hash is not compared");
        None
    });
    let facts = facts.unwrap_or_else(|| UpstreamFacts { genesis_hash: stored.genesis_hash() });
    chain.check_genesis(&facts.genesis_hash)?;
    let base = stored.into_base(facts.genesis_hash, &node.ledger)?;
    if !node.quiet {
        let unread = if chain.snapshot.is_some() { "; --snapshot is not read" } else { "" };
        let elapsed = now() - started;
        print_stderr(&format!(
            "Starts from the state at slot {slot} in --ledger, read in {elapsed:.1?}{unread}"
        ));
    }
    Ok((base, facts))
}

/// The archive of `--snapshot`, downloaded if it is a URL.
async fn snapshot_path(
    chain: &FollowConfig,
    snapshot: &SnapshotSource,
    is_quiet: bool,
) -> Result<PathBuf> {
    let endpoint = match snapshot {
        SnapshotSource::File(path) => return Ok(path.clone()),
        SnapshotSource::Node(endpoint) => endpoint,
    };
    let FollowConfig { archive_dir, download_limits, .. } = chain;
    let progress = DownloadProgress::default();
    let started = now();
    let mut lines = tokio::time::interval(LINE_INTERVAL);
    lines.tick().await; // the first one is at once
    let downloaded = download(endpoint, ArchiveKind::Full, archive_dir, download_limits, &progress);
    tokio::pin!(downloaded);
    loop {
        tokio::select! {
            path = &mut downloaded => return path.context("--snapshot"),
            _ = lines.tick() => if !is_quiet {
                print_stderr(&progress_line(&progress, now() - started));
            },
        }
    }
}

fn progress_line(progress: &DownloadProgress, elapsed: Duration) -> String {
    let bytes = progress.bytes();
    let total = progress.bytes_total();
    let rate = bytes as f64 / elapsed.as_secs_f64().max(f64::EPSILON);
    let left = total.saturating_sub(bytes) as f64 / rate.max(1.0);
    format!(
        "{} of {} downloaded ({}/s), {left:.0} s left",
        HumanBytes(bytes),
        HumanBytes(total),
        HumanBytes(rate as u64)
    )
}

/// The state from which a chain is followed.
struct OpenedChain {
    config: FollowConfig,
    /// `None` once the follower has it.
    base: Option<Base>,
    facts: UpstreamFacts,
    /// `None` before [`OpenedLedger::handles`].
    follower: Option<Follower>,
}

impl OpenedChain {
    /// Makes the follower. Its tasks are of the current runtime.
    fn follow(&mut self, node: &NodeConfig) -> Result<Follower> {
        let chain = &self.config;
        let config = FollowerConfig {
            sources: chain.sources.clone(),
            stream: StreamConfig::default(),
            feed: FeedConfig::default(),
            history: node.history.for_solana(),
            verify: chain.verify,
            verify_entries: chain.verify_entries,
            execution: chain.execution,
            agreement: chain.agreement.clone(),
            epoch_stakes: Vec::new(),
            trusted_banks: chain.trusted_banks.clone(),
            on_mismatch: chain.on_mismatch,
            upstream: chain.upstream.clone(),
            archives: chain.archive_source(),
        };
        let base = self.base.take().context("a chain is followed once")?;
        Follower::new(config, base).context("start to follow")
    }
}

impl OpenedLedger for OpenedChain {
    fn kind(&self) -> LedgerKind {
        LedgerKind::Followed
    }

    fn handles(&mut self, config: &NodeConfig) -> Result<LedgerHandles> {
        let follower = self.follow(config)?;
        let chain = &self.config;
        let identity = Keypair::new();
        let fields = follower.snapshot_fields();
        let reader = follower.reader().clone();
        let history = Arc::clone(follower.history());
        let cluster = follower.cluster();
        let status = Arc::clone(follower.status());
        let older_statuses = follower.older_statuses();
        let info = cluster_info(fields, &reader, &self.facts, identity.pubkey())?;
        let simulators = config.pool.threads;
        let simulator =
            FollowSimulator::new(&reader, Arc::clone(&history), Arc::clone(&cluster), simulators)
                .with_older_statuses(Arc::clone(&older_statuses) as Arc<dyn PreSnapshotStatuses>);
        let upstream_calls = chain.upstream.as_ref().map(UpstreamCalls::start).transpose();
        let upstream_calls = upstream_calls.context("start the threads that call the upstream")?;
        let upstream_calls = upstream_calls.map(Arc::new);
        let sender_chain = SenderChain {
            reader: reader.clone(),
            history: Arc::clone(&history),
            cluster: cluster as Arc<dyn Cluster>,
            epochs: info.epoch_schedule.clone(),
        };
        let sender = start_sender(chain, sender_chain, &identity, config.queue_max)?;
        let warning = sender.leaders.filter(|_| !config.quiet);
        let has_upstream = chain.upstream.is_some();
        let warning = warning.map(|leaders| warn_when_cut_off(leaders, has_upstream));
        let mut collectors: Vec<Arc<dyn Collector>> = vec![status.clone(), sender.metrics];
        collectors.extend(upstream_calls.clone().map(|calls| calls as Arc<dyn Collector>));
        collectors.push(older_statuses.clone());
        let health = Health::default();
        health.set(Status::Unknown);
        health.withhold_state(!status.proof().is_state_proven());
        self.follower = Some(follower);
        Ok(LedgerHandles {
            cluster_info: info,
            identity,
            request_reader: reader.clone(),
            reader,
            history,
            verification: Arc::clone(status.proof()) as Arc<dyn Verification>,
            transaction_sender: sender.transactions,
            simulator: Arc::new(simulator),
            faucet: None,
            bound_faucet: None,
            fork_control: None,
            upstream: upstream_calls.map(|calls| calls as Arc<dyn UpstreamRpc>),
            account_upstream: None,
            older_statuses: Some(older_statuses as Arc<dyn PreSnapshotStatuses>),
            bundles: Arc::default(),
            cheatcodes: Arc::default(),
            health: Arc::new(health),
            stored_blocks: Vec::new(),
            has_gossip: true,
            collectors,
            tasks: warning
                .map(|task| Box::pin(task) as BoxFuture<'static, ()>)
                .into_iter()
                .collect(),
        })
    }

    fn cluster(&self, _: &Arc<ClusterInfo>) -> Result<Arc<dyn Cluster>> {
        let follower = self.follower.as_ref().context("the follower exists after `handles`")?;
        Ok(follower.cluster())
    }

    fn has_archives(&self) -> bool {
        false
    }

    fn front_end(&self, config: &NodeConfig, started: Instant) -> Box<dyn SolanaFrontEnd> {
        Box::new(FollowFrontEnd { has_banner: !config.quiet, started })
    }

    fn start(self: Box<Self>, sinks: Vec<Box<dyn EventSink>>) -> Result<Box<dyn RunningLedger>> {
        let follower = self.follower.context("a chain is followed once")?;
        let status = Arc::clone(follower.status());
        let handle = follower.start(sinks).context("follow the chain")?;
        let slots_behind_max = self.config.slots_behind_max;
        Ok(Box::new(FollowedChain { handle, status, slots_behind_max }))
    }
}

struct FollowedChain {
    handle: FollowHandle,
    status: Arc<FollowStatus>,
    slots_behind_max: u64,
}

impl RunningLedger for FollowedChain {
    fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }

    /// A follower without a source is alive: a restart would not bring the source back, and would load the state again.
    fn poll_health(&mut self, health: &Health) -> bool {
        health.set(health_status(&self.status, self.slots_behind_max));
        health.set_reason(missing_proof(&self.status));
        health.withhold_state(!self.status.proof().is_state_proven());
        true
    }

    fn stop(self: Box<Self>) -> Result<()> {
        Ok(self.handle.stop()?)
    }
}

/// The output of a process that follows a chain.
struct FollowFrontEnd {
    has_banner: bool,
    started: Instant,
}

impl SolanaFrontEnd for FollowFrontEnd {
    fn show_ready(&mut self, node: &ReadyNode<'_>) -> Result<()> {
        if !self.has_banner {
            return Ok(());
        }
        let info = &node.server.api.cluster_info;
        let first = format!(
            "Hydrant {}, follows from slot {} after {:?}",
            env!("CARGO_PKG_VERSION"),
            info.first_slot,
            now() - self.started
        );
        print_line(&(first + &node_lines(node)));
        Ok(())
    }
}

/// The sender of transactions, and its metrics.
struct StartedSender {
    transactions: Arc<dyn TransactionSender>,
    metrics: Arc<dyn Collector>,
    /// The sender of `--send leaders`.
    leaders: Option<Arc<LeaderSender>>,
}

fn start_sender(
    config: &FollowConfig,
    chain: SenderChain,
    identity: &Keypair,
    queue_max: usize,
) -> Result<StartedSender> {
    let upstream = config.upstream.as_ref();
    Ok(match config.send {
        SendTo::Leaders => {
            let identity = TlsIdentity::new(*identity.secret_bytes(), identity.pubkey());
            let upstream = upstream.map(|upstream| UpstreamSender::start(upstream, queue_max));
            let upstream = upstream.transpose().context("start the forwarding threads")?;
            let sender = LeaderSender::start(chain, &identity, queue_max, upstream);
            let sender = sender.context("start the thread that sends to leaders")?;
            let transactions: Arc<dyn TransactionSender> = Arc::clone(&sender) as _;
            StartedSender { transactions, leaders: Some(Arc::clone(&sender)), metrics: sender }
        }
        SendTo::Upstream => {
            let upstream = upstream.context("--send upstream needs --upstream")?;
            let sender = UpstreamSender::start(upstream, queue_max);
            let sender = Arc::new(sender.context("start the forwarding threads")?);
            let transactions: Arc<dyn TransactionSender> = Arc::clone(&sender) as _;
            StartedSender { transactions, metrics: sender, leaders: None }
        }
    })
}

/// Prints a line when no leader can be dialled, for users who do not read the log.
async fn warn_when_cut_off(leaders: Arc<LeaderSender>, has_upstream: bool) {
    let mut poll = tokio::time::interval(POLL_INTERVAL);
    while !leaders.is_cut_off() {
        poll.tick().await;
    }
    let effect = match has_upstream {
        true => "transactions go to sendTransaction of the upstream",
        false => "transactions are refused (--upstream forwards them)",
    };
    print_stderr(&format!(
        "hydrant: no node of the cluster has an address that can be dialled, so {effect}; nodes set theirs with \
         --advertised-ip"
    ));
}

/// Why the state is not proven, or cannot be proven any further, in words.
fn missing_proof(status: &FollowStatus) -> Option<String> {
    let proof = status.proof();
    if let Some(reason) = status.mismatch() {
        return Some(reason);
    }
    if let Some(reason) = proof.limitation() {
        return Some(reason.to_string());
    }
    if let Some(slot) = status.unproven_jump() {
        return Some(format!("the archive of slot {slot} is not proven"));
    }
    (!proof.is_state_proven()).then(|| "no bank after the start is verified".to_owned())
}

/// Unknown while banks cannot be verified, or wait for the proof of the start or of an archive, until a source has said
/// its newest slot, and while none is connected. Behind if the tip is behind the source, or the newest verified bank is
/// behind the tip.
fn health_status(status: &FollowStatus, slots_behind_max: u64) -> Status {
    if missing_proof(status).is_some() {
        return Status::Unknown;
    }
    match status.slots_behind().filter(|_| status.is_connected()) {
        None => Status::Unknown,
        Some(slots) if slots > slots_behind_max => Status::Behind { slots },
        Some(_) => match status.slots_unverified() {
            slots if slots > slots_behind_max.max(UNVERIFIED_SLOTS_MAX) => Status::Behind { slots },
            _ => Status::Ok,
        },
    }
}
