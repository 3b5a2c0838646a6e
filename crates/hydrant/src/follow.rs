//! `hydrant follow`: a followed chain and its servers, from start to end.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::follow::{
    AgreementConfig, ArchiveKind, ArchiveSource, Base, DownloadLimits, DownloadProgress,
    FollowHandle, FollowSimulator, FollowStatus, Follower, FollowerConfig, LeaderSender,
    LedgerDirectory, SenderChain, SourceConfig, StoredLedger, StreamConfig, UpstreamCalls,
    UpstreamFacts, UpstreamSender, cluster_info, download,
};
use ::tpu::TlsIdentity;
use anyhow::{Context, Result, anyhow, bail, ensure};
use chain_solana::{
    Cluster, EventSink, HistoryLimits, OlderStatuses, TransactionSender, Upstream, Verification,
};
use feed::FeedConfig;
use http_server::Listeners;
use indicatif::HumanBytes;
use jsonrpc::{Health, Status};
use loadgen::Endpoint;
use metrics::Collector;
use query::LedgerConfig;
use rest::Rest;
use rest_solana::SolanaRest;
use rpc_solana::{NodeMemory, SolanaApi};
use solana_keypair::Keypair;
use solana_signer::Signer;
use web_console::LedgerKind;

use crate::admin::AdminApi;
use crate::api_key_file::{ApiKeyFile, close_keys};
use crate::console::{now, print_line, print_stderr};
use crate::draining::drain;
use crate::follow_flags::{FollowFile, FollowFlags, SendTo, Verify};
use crate::memory_report::{self, MemoryLine, ProcessMemory};
use crate::otlp::export_spans;
use crate::process_setup::{
    BoundListeners, RpcPorts, bind, cpu_pool, has_date, ignore_file_size_signal, start_log,
    tokio_listener, with_console, write_atomic,
};
use crate::service_manager::ServiceManager;
use crate::serving_options::{ServingOptions, allowed_origins};
use crate::signals::{EndSignals, Ignorable};
use crate::snapshot_file::SnapshotFile;
use crate::tls_setup::start_tls;
use crate::{admin, config, grpc_setup, input_file, rlimit};

/// Interval at which the node checks how far it is, and that its writer runs.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Interval of the lines about a download.
const LINE_INTERVAL: Duration = Duration::from_secs(5);
/// Slots behind from which on Agave's nodes are unhealthy.
const SLOTS_BEHIND_MAX_DEFAULT: u64 = 128;
const RPC_PORT_DEFAULT: u16 = 8899;
/// Slots in gRPC's log: those that are not final, and one minute of 400 ms for followers that come back.
const REPLAY_SLOTS_MIN: u64 = 150;
const CACHE_BYTES_MAX: u64 = 256 << 20;

/// Follows the chain until a signal ends it.
pub(crate) fn run(flags: &FollowFlags) -> Result<()> {
    let started = now();
    if flags.logging.log {
        start_log(flags.logging.log_format.unwrap_or_default());
    }
    ensure!(
        has_date(),
        "the system's clock is before 1970, which HTTP cannot represent: set the clock"
    );
    let upstream = upstream(flags)?;
    let send = flags.send.unwrap_or_default();
    ensure!(send != SendTo::Upstream || upstream.is_some(), "--send upstream needs --upstream");
    let (sources, agreement) = (sources(flags)?, agreement(flags)?);
    let allowed_origins = allowed_origins(&flags.serving.allow_origin, &flags.serving.allow_host)?;
    let rpc = rpc_solana::Config { allowed_origins, ..rpc_solana::Config::default() };
    let serving = ServingOptions::from_flags(&flags.serving, flags.ledger.as_deref())?;
    rlimit::raise_nofile(rpc.connections_max);
    let ip = flags.listen.bind_address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let (grpc, api_keys) = file_config(flags)?;
    let grpc_port = grpc_setup::port(&flags.services, flags.rpc_port)?;
    let ports = RpcPorts { rpc: flags.rpc_port.unwrap_or(RPC_PORT_DEFAULT), pubsub: None };
    let bound = bind(ip, ports, grpc_port)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads((cores / 2).max(1))
        .thread_name("io")
        .enable_all()
        .build()
        .context("start the I/O threads")?;
    {
        let _runtime = runtime.enter();
        ignore_file_size_signal()?;
    }
    let (base, facts) = start_state(flags, upstream.as_ref(), &runtime, cores)?;
    let node = Node {
        flags,
        sources,
        agreement,
        upstream,
        facts,
        cores,
        rpc,
        serving,
        grpc,
        api_keys,
        started,
    };
    runtime.block_on(node.serve(base, bound))
}

/// What the flags say, checked.
struct Node<'a> {
    flags: &'a FollowFlags,
    sources: Vec<SourceConfig>,
    agreement: AgreementConfig,
    upstream: Option<Endpoint>,
    facts: UpstreamFacts,
    cores: usize,
    rpc: rpc_solana::Config,
    serving: ServingOptions,
    grpc: grpc::Config,
    api_keys: Option<ApiKeyFile>,
    started: Instant,
}

fn is_url(text: &str) -> bool {
    text.starts_with("http://") || text.starts_with("https://")
}

/// The state to start from, and what is known of its chain: the stored state if there is one, else the snapshot.
fn start_state(
    flags: &FollowFlags,
    upstream: Option<&Endpoint>,
    runtime: &tokio::runtime::Runtime,
    cores: usize,
) -> Result<(Base, UpstreamFacts)> {
    let directory = flags.ledger.as_deref().map(|dir| ledger_directory(dir, flags.reset));
    let directory = directory.transpose()?;
    let stored = directory.as_ref().map(LedgerDirectory::open).transpose().context("--ledger")?;
    if let Some(stored) = stored.flatten() {
        return start_from_stored(flags, upstream, stored).context("start from --ledger");
    }
    let snapshot = flags.snapshot.as_deref();
    let snapshot =
        snapshot.context("--ledger has no state yet: name a snapshot with --snapshot")?;
    let upstream =
        upstream.context("--snapshot is a file: name a node of the chain with --upstream")?;
    // It blocks, and before the download: a wrong upstream must not cost hours.
    let facts =
        UpstreamFacts::request(upstream).context("request the chain's facts (--upstream)")?;
    let full = runtime.block_on(snapshot_path(flags, snapshot))?;
    let incremental = flags.incremental_snapshot.clone();
    let file = SnapshotFile { full, incremental, threads: cores };
    let loaded = file.load(&ledger_config(flags), flags.quiet)?;
    let base = Base::from_snapshot(loaded).context("start from the snapshot")?;
    let base = match directory {
        Some(directory) => directory.create(base, facts.genesis_hash).context("--ledger")?,
        None => base,
    };
    Ok((base, facts))
}

fn ledger_directory(dir: &Path, is_reset: bool) -> Result<LedgerDirectory> {
    let directory = LedgerDirectory::new(dir).context("--ledger")?;
    if is_reset {
        directory.reset().context("--reset")?;
    }
    Ok(directory)
}

/// The stored state. An upstream that does not respond does not prevent the start.
fn start_from_stored(
    flags: &FollowFlags,
    upstream: Option<&Endpoint>,
    stored: StoredLedger,
) -> Result<(Base, UpstreamFacts)> {
    let (started, slot) = (now(), stored.slot());
    let facts = upstream.map(UpstreamFacts::request).transpose().unwrap_or_else(|err| {
        let err = &err as &dyn std::error::Error;
        tracing::warn!(err, "the upstream does not respond, so its genesis hash is not compared");
        None
    });
    let facts = facts.unwrap_or_else(|| UpstreamFacts { genesis_hash: stored.genesis_hash() });
    let base = stored.into_base(facts.genesis_hash, &ledger_config(flags))?;
    if !flags.quiet {
        let unread = if flags.snapshot.is_some() { "; --snapshot is not read" } else { "" };
        let elapsed = now() - started;
        print_stderr(&format!(
            "Starts from the state at slot {slot} in --ledger, read in {elapsed:.1?}{unread}"
        ));
    }
    Ok((base, facts))
}

fn upstream(flags: &FollowFlags) -> Result<Option<Endpoint>> {
    let of_snapshot = || flags.snapshot.as_deref().filter(|it| is_url(it));
    let url = flags.upstream.as_deref().or_else(of_snapshot);
    ensure!(
        flags.upstream_key.is_none() || url.is_some(),
        "--upstream-key needs --upstream, or a URL as --snapshot"
    );
    url.map(|url| http_endpoint(flags, url)).transpose().context("--upstream")
}

/// A node's RPC port, with the key of `--upstream-key`.
fn http_endpoint(flags: &FollowFlags, url: &str) -> Result<Endpoint> {
    let endpoint = Endpoint::parse(url)?;
    let Some(path) = &flags.upstream_key else { return Ok(endpoint) };
    let key = input_file::read_secret(path).context("--upstream-key")?;
    endpoint.with_api_key(&key).with_context(|| format!("--upstream-key {}", path.display()))
}

fn sources(flags: &FollowFlags) -> Result<Vec<SourceConfig>> {
    let token = flags.x_token.as_deref().map(read_token).transpose()?;
    let source = |url: &String| {
        ensure!(is_url(url), "--source {url}: the form is http[s]://HOST:PORT");
        Ok(SourceConfig { url: url.clone(), x_token: token.clone() })
    };
    flags.source.iter().map(source).collect()
}

/// The independent sources. The n-th token is that of the n-th source.
fn agreement(flags: &FollowFlags) -> Result<AgreementConfig> {
    let (urls, tokens) = (&flags.verify_source, &flags.verify_x_token);
    ensure!(tokens.len() <= urls.len(), "there are more --verify-x-token than --verify-source");
    let is_agreement = matches!(flags.verify, Some(Verify::Agree));
    ensure!(
        is_agreement != urls.is_empty(),
        "--verify agree needs --verify-source, and nothing else does"
    );
    let required = flags.verify_sources_min.unwrap_or(urls.len());
    ensure!(
        !is_agreement || (1..=urls.len()).contains(&required),
        "--verify-sources-min {required}: there are {} --verify-source",
        urls.len()
    );
    let source = |(number, url): (usize, &String)| {
        ensure!(is_url(url), "--verify-source {url}: the form is http[s]://HOST:PORT");
        let x_token = tokens.get(number).map(|path| read_token(path)).transpose()?;
        Ok(SourceConfig { url: url.clone(), x_token })
    };
    let sources = urls.iter().enumerate().map(source).collect::<Result<_>>()?;
    Ok(AgreementConfig { sources, required })
}

fn read_token(path: &Path) -> Result<String> {
    input_file::read_secret(path).context("--x-token")
}

/// What the file of `--config` sets: gRPC's limits, and the API keys unless a flag does.
fn file_config(flags: &FollowFlags) -> Result<(grpc::Config, Option<ApiKeyFile>)> {
    let read = |path: &PathBuf| config::read_toml(path, FollowFile::from_toml);
    let file = flags.config.as_ref().map(read).transpose()?.unwrap_or_default();
    let api_keys = flags.services.api_keys.as_deref().or(file.api_keys.as_deref());
    let api_keys = api_keys.map(ApiKeyFile::open).transpose()?;
    Ok((grpc_setup::config(&file.grpc, REPLAY_SLOTS_MIN)?, api_keys))
}

fn ledger_config(flags: &FollowFlags) -> LedgerConfig {
    LedgerConfig::new(flags.capacity.max_addresses.unwrap_or(localnet::ADDRESSES_MAX_DEFAULT))
}

fn snapshot_dir(flags: &FollowFlags) -> PathBuf {
    flags.snapshot_dir.clone().unwrap_or_else(|| PathBuf::from("."))
}

fn download_limits(flags: &FollowFlags) -> DownloadLimits {
    let default = DownloadLimits::default();
    let bytes_max = flags.snapshot_bytes_max.unwrap_or(default.bytes_max);
    DownloadLimits { bytes_max, ..default }
}

/// The archives that close gaps: of the node that the snapshot came from, or of the upstream. `None` without either.
fn archive_source(
    flags: &FollowFlags,
    upstream: Option<&Endpoint>,
    threads: usize,
) -> Result<Option<ArchiveSource>> {
    let of_snapshot = flags.snapshot.as_deref().filter(|snapshot| is_url(snapshot));
    let of_snapshot = of_snapshot.map(|url| http_endpoint(flags, url)).transpose();
    let of_snapshot = of_snapshot.context("--snapshot")?;
    Ok(of_snapshot.or_else(|| upstream.cloned()).map(|endpoint| {
        let source = ArchiveSource::new(endpoint, snapshot_dir(flags), threads);
        ArchiveSource { limits: download_limits(flags), ..source }
    }))
}

/// The archive of `--snapshot`, downloaded if it is a URL.
async fn snapshot_path(flags: &FollowFlags, snapshot: &str) -> Result<PathBuf> {
    if !is_url(snapshot) {
        return Ok(PathBuf::from(snapshot));
    }
    ensure!(
        flags.incremental_snapshot.is_none(),
        "--incremental-snapshot needs a file as --snapshot"
    );
    let endpoint = http_endpoint(flags, snapshot).context("--snapshot")?;
    let (dir, limits) = (snapshot_dir(flags), download_limits(flags));
    let (progress, started) = (DownloadProgress::default(), now());
    let mut lines = tokio::time::interval(LINE_INTERVAL);
    lines.tick().await; // the first one is at once
    let downloaded = download(&endpoint, ArchiveKind::Full, &dir, &limits, &progress);
    tokio::pin!(downloaded);
    loop {
        tokio::select! {
            path = &mut downloaded => return path.context("--snapshot"),
            _ = lines.tick() => if !flags.quiet {
                print_stderr(&progress_line(&progress, now() - started));
            },
        }
    }
}

fn progress_line(progress: &DownloadProgress, elapsed: Duration) -> String {
    let (bytes, total) = (progress.bytes(), progress.bytes_total());
    let rate = bytes as f64 / elapsed.as_secs_f64().max(f64::EPSILON);
    let left = total.saturating_sub(bytes) as f64 / rate.max(1.0);
    format!(
        "{} of {} downloaded ({}/s), {left:.0} s left",
        HumanBytes(bytes),
        HumanBytes(total),
        HumanBytes(rate as u64)
    )
}

impl Node<'_> {
    async fn serve(self, base: Base, bound: BoundListeners) -> Result<()> {
        // Before the node is reported ready: from then on each signal has its documented meaning.
        let mut signals = EndSignals::listen(Ignorable::Hangup)?;
        let (rpc, pubsub_address) = (bound.rpc.local_addr()?, bound.pubsub.local_addr()?);
        let history = HistoryLimits {
            slots_max: self.flags.history_slots.unwrap_or(localnet::HISTORY_SLOTS_DEFAULT),
            bytes_max: localnet::HISTORY_BYTES_DEFAULT,
        };
        let config = FollowerConfig {
            sources: self.sources,
            stream: StreamConfig::default(),
            feed: FeedConfig::default(),
            history,
            verify: self.flags.verify.unwrap_or_default().into(),
            agreement: self.agreement,
            epoch_stakes: Vec::new(),
            on_mismatch: self.flags.on_mismatch.unwrap_or_default().into(),
            upstream: self.upstream.clone(),
            archives: archive_source(self.flags, self.upstream.as_ref(), self.cores)?,
        };
        let follower = Follower::new(config, base).context("start to follow")?;
        let identity = Keypair::new();
        let (fields, reader) = (follower.snapshot_fields(), follower.reader().clone());
        let mut info = cluster_info(fields, &reader, &self.facts, identity.pubkey())?;
        (info.rpc, info.pubsub) = (Some(rpc), Some(pubsub_address));
        let info = Arc::new(info);
        let queue_max = self.flags.queue_max.unwrap_or(localnet::QUEUE_MAX_DEFAULT);
        ensure!(queue_max > 0, "--queue-max must be at least 1");
        let pool = pool::Config { threads: self.cores, ..pool::Config::default() };
        let simulators = self.cores;
        let health = Arc::new(Health::default());
        health.set(Status::Unknown);
        let status = Arc::clone(follower.status());
        let older_statuses = follower.older_statuses();
        let history = Arc::clone(follower.history());
        let cluster = follower.cluster();
        let simulator =
            FollowSimulator::new(&reader, Arc::clone(&history), Arc::clone(&cluster), simulators)
                .with_older_statuses(Arc::clone(&older_statuses) as Arc<dyn OlderStatuses>);
        let upstream_calls = self.upstream.as_ref().map(UpstreamCalls::start).transpose();
        let upstream_calls = upstream_calls.context("start the threads that call the upstream")?;
        let upstream_calls = upstream_calls.map(Arc::new);
        let chain = SenderChain {
            reader: reader.clone(),
            history: Arc::clone(&history),
            cluster: Arc::clone(&cluster) as Arc<dyn Cluster>,
            epochs: info.epoch_schedule.clone(),
        };
        let send = self.flags.send.unwrap_or_default();
        let sender = start_sender(send, self.upstream.as_ref(), chain, &identity, queue_max)?;
        let api = SolanaApi {
            cluster_info: Arc::clone(&info),
            cluster,
            verification: Arc::clone(status.proof()) as Arc<dyn Verification>,
            reader,
            history,
            transaction_sender: Arc::clone(&sender.transactions),
            simulator: Arc::new(simulator),
            faucet: None,
            fork_control: None,
            upstream: upstream_calls.clone().map(|calls| calls as Arc<dyn Upstream>),
            account_upstream: None,
            snapshots: None,
            notified: Arc::default(),
            older_statuses: Some(Arc::clone(&older_statuses) as Arc<dyn OlderStatuses>),
            bundles: Arc::default(),
            cheatcodes: Arc::default(),
            pool: Arc::new(cpu_pool(&pool).context("start the CPU threads")?),
            health: Arc::clone(&health),
            metrics: SolanaApi::new_metrics(),
            config: self.rpc,
        };
        let response_cache = response_cache::ResponseCache::new(CACHE_BYTES_MAX);
        let mut api_keys = self.api_keys;
        api_keys.iter_mut().for_each(|file| file.restore_usage(self.flags.ledger.as_deref()));
        let keys = api_keys.as_ref().map(ApiKeyFile::keys);
        let clients = pool::RateLimiter::new(pool.clients).with_api_keys(keys);
        let node = Arc::new(api.into_server(Arc::new(response_cache), Arc::new(clients)));
        let (pubsub, sink) = rpc_solana::pubsub::start(
            rpc_solana::pubsub::Config::default(),
            Arc::clone(&info),
            node.api.reader.clone(),
            Arc::clone(&node.api.history),
            Arc::clone(&node.api.notified),
            (Arc::clone(&node.context.pool), Arc::clone(&node.context.clients)),
        )
        .context("start PubSub")?;
        let rest = Arc::new(Rest::new(SolanaRest::default()));
        let waiter_events = rest.api().start_waker(Arc::clone(&node.api.history));
        let waiter_events = waiter_events.context("start REST")?;
        pubsub.add_metrics_to(&node.context.metrics);
        node.context.metrics.add(Arc::clone(&rest) as Arc<dyn Collector>);
        node.context.metrics.add(Arc::clone(&status) as Arc<dyn Collector>);
        node.context.metrics.add(sender.metrics);
        if let Some(calls) = upstream_calls {
            node.context.metrics.add(calls);
        }
        node.context.metrics.add(older_statuses);
        let mut sinks: Vec<Box<dyn EventSink>> = vec![Box::new(sink), Box::new(waiter_events)];
        let reader = &node.api.reader;
        let grpc = bound.grpc.map(|listener| {
            let authenticator = node.context.http.authenticator.clone();
            let access = (listener, authenticator, &self.serving);
            grpc_setup::start(&self.grpc, &info, reader, access)
        });
        let grpc = grpc.transpose()?.map(|(server, events)| {
            node.context.metrics.add(Arc::new(server.metrics()));
            sinks.push(Box::new(events));
            server
        });
        let nodes = grpc.as_ref().map(|server| {
            let (gossip, cluster) = (Arc::clone(server.gossip()), Arc::clone(&node.api.cluster));
            tokio::spawn(grpc_setup::mirror_nodes(gossip, cluster))
        });
        export_spans(self.flags.traces.otlp_endpoint.as_deref(), &node.context.metrics)?;
        let key_watch = api_keys.clone().map(|file| {
            let closer = grpc.as_ref().map(grpc::Server::key_closer);
            tokio::spawn(file.watch(close_keys(Arc::clone(&pubsub), closer)))
        });
        let running = follower.start(sinks).context("follow the chain")?;
        let listeners = Listeners {
            rpc: tokio_listener(bound.rpc)?,
            pubsub: Some(tokio_listener(bound.pubsub)?),
        };
        let mut administration = AdminApi::new(Arc::clone(&node), signals.request());
        let tls_watch = start_tls(&self.serving, &node.context, &mut administration);
        let admin = admin::start(&self.serving, administration).await?;
        let schemes = [self.serving.http_scheme(), self.serving.websocket_scheme()];
        let server = tokio::spawn(jsonrpc::serve(
            Arc::clone(&node),
            Arc::clone(&pubsub) as Arc<dyn http_server::WebSocketHandler>,
            Some(with_console(!self.flags.services.no_console, LedgerKind::Followed, rest)),
            listeners,
            // It ends by its drain.
            std::future::pending(),
        ));
        let process_memory = Arc::new(ProcessMemory::at_start(&node));
        node.context.metrics.add(Arc::clone(&process_memory) as Arc<dyn Collector>);
        let start_memory = tokio::spawn(process_memory.measure_at_first_root(Arc::clone(&node)));
        let memory_log = tokio::spawn(memory_report::log_periodically(Arc::clone(&node))?);
        if !self.flags.quiet {
            let usage = NodeMemory::new(&node.api.reader, &node.api.history);
            print_line(&format!(
                "Hydrant {}, follows from slot {} after {:?}\n  JSON-RPC   {}://{rpc}\n  WebSocket  \
                 {}://{pubsub_address}\n{}  Memory     {}\n  Genesis    {}\n  Identity   {}",
                env!("CARGO_PKG_VERSION"),
                info.first_slot,
                now() - self.started,
                schemes[0],
                schemes[1],
                grpc.as_ref().map_or_else(String::new, |grpc| {
                    format!("  gRPC       {}://{} (Yellowstone)\n", grpc.scheme(), grpc.address())
                }),
                MemoryLine(usage),
                info.genesis_hash,
                info.identity,
            ));
        }
        if let Some(path) = &self.flags.endpoints_file {
            let mut endpoints = serde_json::json!({
                "rpc": format!("{}://{rpc}", schemes[0]),
                "ws": format!("{}://{pubsub_address}", schemes[1]),
            });
            if let Some(grpc) = &grpc {
                endpoints["grpc"] = format!("{}://{}", grpc.scheme(), grpc.address()).into();
            }
            write_atomic(path, &endpoints.to_string())
                .with_context(|| format!("--endpoints-file {}", path.display()))?;
        }
        let mut service_manager = ServiceManager::from_environment();
        service_manager.notify_ready(rpc);
        let slots_max = self.flags.slots_behind_max.unwrap_or(SLOTS_BEHIND_MAX_DEFAULT);
        let follower = (&running, &*status, &*health);
        let ended = wait_for_end(&mut signals, follower, slots_max, &mut service_manager).await;
        service_manager.notify_stopping();
        start_memory.abort();
        memory_log.abort();
        nodes.iter().chain(&key_watch).for_each(tokio::task::JoinHandle::abort);
        tls_watch.iter().for_each(tokio::task::JoinHandle::abort);
        let servers = async {
            pubsub.shut_down();
            grpc_setup::stop(grpc).await?;
            server.await.context("the servers")
        };
        drain(&mut signals, &node.context.http.drain, self.serving.drain, servers).await?;
        drop(admin);
        api_keys.iter().for_each(ApiKeyFile::store_usage);
        let stopped = tokio::task::spawn_blocking(|| running.stop()).await;
        stopped.map_err(|_| anyhow!("the follower panicked"))?.context("the follower")?;
        if ended {
            bail!("the writing thread ended unexpectedly");
        }
        Ok(())
    }
}

/// What takes transactions, and its metrics.
struct StartedSender {
    transactions: Arc<dyn TransactionSender>,
    metrics: Arc<dyn Collector>,
}

fn start_sender(
    send: SendTo,
    upstream: Option<&Endpoint>,
    chain: SenderChain,
    identity: &Keypair,
    queue_max: usize,
) -> Result<StartedSender> {
    Ok(match send {
        SendTo::Leaders => {
            let identity = TlsIdentity::new(*identity.secret_bytes(), identity.pubkey());
            let sender = LeaderSender::start(chain, &identity, queue_max);
            let sender = sender.context("start the thread that sends to leaders")?;
            let transactions: Arc<dyn TransactionSender> = Arc::clone(&sender) as _;
            StartedSender { transactions, metrics: sender }
        }
        SendTo::Upstream => {
            let upstream = upstream.context("--send upstream needs --upstream")?;
            let sender = UpstreamSender::start(upstream, queue_max);
            let sender = Arc::new(sender.context("start the forwarding threads")?);
            let transactions: Arc<dyn TransactionSender> = Arc::clone(&sender) as _;
            StartedSender { transactions, metrics: sender }
        }
    })
}

/// Reports the health until a signal comes or the writer ends; true if it ended. A follower without a source is alive:
/// a restart would not bring the source back, and would load the state again.
async fn wait_for_end(
    signals: &mut EndSignals,
    (running, status, health): (&FollowHandle, &FollowStatus, &Health),
    slots_behind_max: u64,
    service_manager: &mut ServiceManager,
) -> bool {
    let mut poll = tokio::time::interval(POLL_INTERVAL);
    loop {
        tokio::select! {
            () = signals.next() => return false,
            _ = poll.tick() => {
                health.set(health_status(status, slots_behind_max));
                if running.is_finished() {
                    return true;
                }
                service_manager.notify_alive(true, now());
            }
        }
    }
}

/// Unknown while banks cannot be verified, until a source has said its newest slot, and while none is connected.
fn health_status(status: &FollowStatus, slots_behind_max: u64) -> Status {
    if status.mismatch().is_some() || status.proof().limitation().is_some() {
        return Status::Unknown;
    }
    match status.slots_behind().filter(|_| status.is_connected()) {
        None => Status::Unknown,
        Some(slots) if slots > slots_behind_max => Status::Behind { slots },
        Some(_) => Status::Ok,
    }
}
