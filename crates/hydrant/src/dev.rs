//! `hydrant dev`: a local ledger and its servers, from start to end.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use chain_solana::{ComputedVerification, EventSink, Snapshots};
use http_server::Listeners;
use jsonrpc::{Health, HttpApi, Status};
use localnet::{GenesisAccount, Localnet, LocalnetHandle};
use metrics::Collector;
use rest::Rest;
use rest_solana::SolanaRest;
use rpc_solana::{Bundles, Cheatcodes, NodeMemory, SolanaApi};
use snapshot_server::{ArchivedLedger, SnapshotArchives, WithSnapshots};
use solana_account::AccountSharedData;
use upstream_fork::ConnectedFork;
use web_console::LedgerKind;

use crate::admin::AdminApi;
use crate::api_key_file::{ApiKeyFile, close_keys};
use crate::banner::{Banner, OutputStyle};
use crate::clone::Cloned;
use crate::config::{self, NodeConfig};
use crate::console::{now, print_line, print_stderr};
use crate::dev_flags::DevFlags;
use crate::draining::drain;
use crate::faucet_server::{FAUCET_PORT, FaucetServer};
use crate::fork_metrics::ForkMetrics;
use crate::fork_setup::ForkedLedger;
use crate::memory_report::ProcessMemory;
use crate::otlp::export_spans;
use crate::process_setup::{
    BoundListeners, avoid_huge_pages, bind, cpu_pool, has_date, ignore_file_size_signal, start_log,
    tokio_listener, with_console, write_atomic,
};
use crate::queue_metrics::QueueMetrics;
use crate::service_manager::ServiceManager;
use crate::signals::{EndSignals, Ignorable};
use crate::tls_setup::start_tls;
use crate::tpu::Tpu;
use crate::{
    accounts_file, admin, faucet_server, fork_setup, grpc_setup, memory_report, rlimit,
    status_line, validator_log,
};

/// Interval at which the node checks that the executing thread runs.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Lamports of an account for tips at genesis: the minimum balance of a wallet.
const TIP_ACCOUNT_LAMPORTS: u64 = 890_880;
/// Stack of the thread that creates or reads a ledger: that of a main thread.
const OPEN_STACK_BYTES: usize = 8 << 20;

/// Runs the node until a signal ends it. A new ledger also has `accounts`.
pub(crate) fn run(
    flags: DevFlags,
    style: OutputStyle,
    accounts: Vec<GenesisAccount>,
) -> Result<()> {
    let started = now();
    let check = flags.check;
    let mut config = NodeConfig::from_flags(config::with_file(flags)?)?;
    config.style = style;
    config.faucet_port = config.faucet_port.or_else(|| default_faucet_port(&config));
    config.localnet.accounts.extend(accounts);
    add_tip_accounts(&mut config);
    if check {
        check_genesis(&config)?;
        print_line("settings are valid");
        return Ok(());
    }
    if config.log {
        start_log(config.log_format);
    }
    ensure!(
        has_date(),
        "the system's clock is before 1970, which HTTP cannot represent: set the clock"
    );
    let fork = config.fork.as_ref();
    let fork = fork.map(|fork| fork_setup::connect(fork, config.quiet)).transpose()?;
    clone_accounts(&mut config)?;
    if !is_loaded(&config)? {
        avoid_huge_pages();
    }
    rlimit::raise_nofile(config.rpc.connections_max);
    let listeners = bind(config.bind_address, config.rpc_ports, config.grpc_port)?;
    let faucet = config.faucet_port.map(|port| faucet_server::bind(config.bind_address, port));
    let faucet = faucet.transpose()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(config.io_threads)
        .thread_name("io")
        .enable_all()
        .build()
        .context("start the I/O threads")?;
    {
        let _runtime = runtime.enter();
        ignore_file_size_signal()?;
    }
    // On a thread that ends, so that the allocator returns the thread's memory to the system.
    let joined = std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().name("open".into());
        let builder = builder.stack_size(OPEN_STACK_BYTES);
        Ok::<_, std::io::Error>(builder.spawn_scoped(scope, || open_ledger(&config))?.join())
    });
    let joined = joined.context("start a thread that opens the ledger")?;
    let localnet = joined.map_err(|_| anyhow!("the thread that opens the ledger panicked"))??;
    // The ledger has copied them.
    config.localnet.accounts = Vec::new();
    config.localnet.programs = Vec::new();
    if let Some(ahead) = localnet.ahead_of_clock() {
        warn_ahead(&config, ahead);
    }
    runtime.block_on(serve(&config, (localnet, fork), (listeners, faucet), started))
}

/// The faucet's port of `solana-test-validator`; a free one if all ports are. None with API keys, which its protocol
/// does not have.
fn default_faucet_port(config: &NodeConfig) -> Option<u16> {
    let is_served = config.style == OutputStyle::TestValidator && config.api_keys.is_none();
    is_served.then_some(if config.rpc_ports.rpc == 0 { 0 } else { FAUCET_PORT })
}

/// Adds the accounts that bundles pay tips to, which exist on a cluster: a tip may be less than the minimum balance of a
/// new account. A snapshot has its own, and so may the flags.
fn add_tip_accounts(config: &mut NodeConfig) {
    if config.snapshot.is_some() {
        return;
    }
    let wallet = |address| GenesisAccount {
        address,
        account: AccountSharedData::new(
            TIP_ACCOUNT_LAMPORTS,
            0,
            &solana_sdk_ids::system_program::ID,
        ),
    };
    // Of two with the same address the later one counts.
    config.localnet.accounts.splice(0..0, rpc_solana::tip_accounts().map(wallet));
}

/// Fetches what a new ledger takes from a cluster. An existing ledger has its accounts.
fn clone_accounts(config: &mut NodeConfig) -> Result<()> {
    let Some(request) = config.clone.take() else { return Ok(()) };
    if contains_ledger(config)? && !config.reset {
        print_stderr("hydrant: --clone and similar flags are ignored: the ledger exists already");
        return Ok(());
    }
    let Cloned { accounts, inactive_features, slot } = request.fetch()?;
    config.localnet.accounts.extend(accounts);
    config.localnet.features.deactivated.extend(inactive_features);
    config.localnet.warp_slot = slot.or(config.localnet.warp_slot);
    config.localnet.check()?;
    Ok(())
}

/// Finds the errors that a start would find while it creates a ledger, and writes nothing. An archive is not
/// read, because that may take minutes.
fn check_genesis(config: &NodeConfig) -> Result<()> {
    if config.snapshot.is_some() || (contains_ledger(config)? && !config.reset) {
        return read_account_dirs(config);
    }
    localnet::check(&config.localnet, &mut accounts_of_dirs(config)).context("create the ledger")
}

/// Reads and checks every file of the account directories.
fn read_account_dirs(config: &NodeConfig) -> Result<()> {
    accounts_file::account_dirs(&config.account_dirs).try_for_each(|read| read.map(drop))
}

/// The accounts of the account directories. Each is read when the ledger inserts it.
fn accounts_of_dirs(
    config: &NodeConfig,
) -> impl Iterator<Item = Result<localnet::GenesisAccount, localnet::SourceError>> {
    accounts_file::account_dirs(&config.account_dirs).map(|read| read.map_err(Into::into))
}

fn contains_ledger(config: &NodeConfig) -> Result<bool> {
    let Some(dir) = &config.localnet.dir else { return Ok(false) };
    localnet::contains_ledger(dir).context("open the ledger")
}

/// Whether the ledger has the accounts of an archive or of an earlier run, which may be many.
fn is_loaded(config: &NodeConfig) -> Result<bool> {
    Ok(config.snapshot.is_some() || (!config.reset && contains_ledger(config)?))
}

fn open_ledger(config: &NodeConfig) -> Result<Localnet> {
    let Some(file) = &config.snapshot else {
        if config.reset && contains_ledger(config)? {
            // Before the reset: an invalid file must not cost a ledger.
            read_account_dirs(config)?;
        }
        reset(config)?;
        let opened = localnet::open_with(&config.localnet, &mut accounts_of_dirs(config));
        return opened.context("open the ledger");
    };
    if let Some(dir) = &config.localnet.dir
        && !config.reset
        && contains_ledger(config)?
    {
        bail!(
            "{} contains a ledger already: continue it without --from-snapshot, or --reset it",
            dir.display()
        );
    }
    let loaded = file.load(&config.localnet.ledger(), config.quiet)?;
    if config.reset && contains_ledger(config)? {
        read_account_dirs(config)?;
    }
    // Only now: an invalid archive must not cost a ledger.
    reset(config)?;
    let (slot, accounts) = (loaded.snapshot().bank.slot, loaded.snapshot().accounts_len);
    let localnet =
        localnet::open_snapshot_with(&config.localnet, loaded, &mut accounts_of_dirs(config))
            .context("create the ledger")?;
    if !config.quiet {
        print_line(&format!(
            "Starts at slot {slot} with {accounts} accounts of the snapshot, and with the node's own \
             faucet, identity, vote and stake accounts"
        ));
    }
    Ok(localnet)
}

/// Warns that the newest block's time is later than the system's: the clock was set back, or is wrong.
fn warn_ahead(config: &NodeConfig, ahead: Duration) {
    let seconds = ahead.as_secs();
    tracing::warn!(ahead_s = seconds, "the ledger's time is ahead of the system's clock");
    if !config.quiet {
        print_line(&format!(
            "The ledger's time is {seconds} s ahead of the system's clock. It advances at three quarters of its \
             speed until the clock has caught up"
        ));
    }
}

fn reset(config: &NodeConfig) -> Result<()> {
    let (true, Some(dir)) = (config.reset, &config.localnet.dir) else { return Ok(()) };
    localnet::reset_directory(dir).with_context(|| format!("--reset {}", dir.display()))
}

async fn serve(
    config: &NodeConfig,
    (localnet, fork): (Localnet, Option<ConnectedFork>),
    (bound, faucet_listener): (BoundListeners, Option<TcpListener>),
    started: Instant,
) -> Result<()> {
    // Before the node is reported ready: from then on each signal has its documented meaning.
    let mut signals = EndSignals::listen(match config.style {
        OutputStyle::Hydrant => Ignorable::Hangup,
        OutputStyle::TestValidator => Ignorable::Terminal,
    })?;
    let (rpc, pubsub_address) = (bound.rpc.local_addr()?, bound.pubsub.local_addr()?);
    let mut cluster_info = localnet.cluster_info().clone();
    (cluster_info.rpc, cluster_info.pubsub) = (Some(rpc), Some(pubsub_address));
    let forked = ForkedLedger::start(&localnet, fork)?;
    let tpu = Tpu::start(config, &localnet, Arc::clone(&forked.transaction_sender))?;
    cluster_info.tpu = Some(tpu.address());
    let cluster_info = Arc::new(cluster_info);
    let (reader, history) = (localnet.reader().clone(), Arc::clone(localnet.history()));
    let archived = ArchivedLedger {
        reader: reader.clone(),
        history: Arc::clone(&history),
        info: Arc::clone(&cluster_info),
        cluster: localnet.cluster(Arc::clone(&cluster_info)),
    };
    let archive_dir = config.localnet.dir.as_ref().map(|dir| dir.join(localnet::SNAPSHOTS_DIR));
    let archives = Arc::new(SnapshotArchives::new(archived, archive_dir));
    let api = SolanaApi {
        cluster_info: Arc::clone(&cluster_info),
        verification: Arc::new(ComputedVerification::new(reader, history)),
        cluster: localnet.cluster(Arc::clone(&cluster_info)),
        reader: forked.reader.clone(),
        history: Arc::clone(localnet.history()),
        transaction_sender: Arc::clone(&forked.transaction_sender),
        simulator: localnet.simulator(),
        faucet: Some(localnet.faucet()),
        fork_control: Some(localnet.fork_control()),
        upstream: None,
        account_upstream: forked.upstream(),
        snapshots: Some(Arc::clone(&archives) as Arc<dyn Snapshots>),
        notified: Arc::default(),
        older_statuses: None,
        bundles: Arc::new(Bundles::new(localnet.bundle_sender())),
        cheatcodes: Arc::new(Cheatcodes::new(localnet.control(), config.cheatcodes)),
        pool: Arc::new(cpu_pool(&config.pool).context("start the CPU threads")?),
        health: Arc::new(health(config)),
        metrics: SolanaApi::new_metrics(),
        config: config.rpc.clone(),
    };
    let response_cache = response_cache::ResponseCache::new(config.cache_bytes_max);
    let mut api_keys = config.api_keys.clone();
    api_keys.iter_mut().for_each(|file| file.restore_usage(config.localnet.dir.as_deref()));
    let keys = api_keys.as_ref().map(ApiKeyFile::keys);
    let clients = pool::RateLimiter::new(config.pool.clients).with_api_keys(keys);
    let node = Arc::new(api.into_server(Arc::new(response_cache), Arc::new(clients)));
    let (pubsub, sink) = rpc_solana::pubsub::start(
        config.pubsub.clone(),
        Arc::clone(&cluster_info),
        localnet.reader().clone(),
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
    node.context.metrics.add(Arc::new(tpu.metrics()));
    node.context.metrics.add(Arc::new(QueueMetrics(Arc::clone(localnet.queue()))));
    node.context.metrics.add(Arc::new(ForkMetrics(localnet.fork_control())));
    if let Some(fork) = &forked.fork {
        node.context.metrics.add(Arc::clone(fork) as Arc<dyn Collector>);
    }
    let (vote_account, faucet) = (localnet.vote_account(), localnet.faucet_pubkey());
    let mint = localnet.mint();
    let mut sinks: Vec<Box<dyn EventSink>> = vec![Box::new(sink), Box::new(waiter_events)];
    let grpc = bound.grpc.map(|listener| {
        let authenticator = node.context.http.authenticator.clone();
        let reader = localnet.reader();
        let access = (listener, authenticator, &config.serving);
        grpc_setup::start(&config.grpc, &cluster_info, reader, access)
    });
    let grpc = grpc.transpose()?.map(|(server, events)| {
        node.context.metrics.add(Arc::new(server.metrics()));
        sinks.push(Box::new(events));
        server
    });
    let faucet_server = faucet_listener
        .map(|listener| FaucetServer::start(listener, localnet.signing_faucet()))
        .transpose()
        .context("start the faucet")?;
    if let Some(server) = &faucet_server {
        node.context.metrics.add(server.metrics());
    }
    export_spans(config.otlp_endpoint.as_deref(), &node.context.metrics)?;
    let running = localnet.start(sinks).context("start the ledger")?;

    let listeners =
        Listeners { rpc: tokio_listener(bound.rpc)?, pubsub: Some(tokio_listener(bound.pubsub)?) };
    node.context.metrics.add(Arc::clone(&archives) as Arc<dyn Collector>);
    let http_api: Arc<dyn HttpApi<SolanaApi>> = Arc::new(WithSnapshots::new(archives, rest));
    let http_api = with_console(config.console, LedgerKind::Local, http_api);
    let mut administration = AdminApi::new(Arc::clone(&node), signals.request());
    let tls_watch = start_tls(&config.serving, &node.context, &mut administration);
    let admin = admin::start(&config.serving, administration).await?;
    let server = tokio::spawn(jsonrpc::serve(
        Arc::clone(&node),
        Arc::clone(&pubsub) as Arc<dyn http_server::WebSocketHandler>,
        Some(http_api),
        listeners,
        // It ends by its drain.
        std::future::pending(),
    ));
    let banner = Banner {
        style: config.style,
        cluster_info: &cluster_info,
        is_manual: config.localnet.is_manual,
        vote_account,
        faucet,
        mint,
        has_wallet: config.localnet.mint.is_some(),
        ledger: config.localnet.dir.as_deref(),
        rpc,
        pubsub: pubsub_address,
        tpu: tpu.address(),
        grpc: grpc.as_ref().map(|grpc| format!("{}://{}", grpc.scheme(), grpc.address())),
        faucet_server: faucet_server.as_ref().map(FaucetServer::address),
        console: config.console,
        schemes: [config.serving.http_scheme(), config.serving.websocket_scheme()],
        ready_after: now() - started,
        usage: NodeMemory::new(&node.api.reader, &node.api.history),
    };
    let process_memory = Arc::new(ProcessMemory::at_start(&node));
    node.context.metrics.add(Arc::clone(&process_memory) as Arc<dyn Collector>);
    announce_ready(config, &banner)?;
    let mut service_manager = ServiceManager::from_environment();
    service_manager.notify_ready(rpc);
    let start_memory = tokio::spawn(process_memory.measure_at_first_root(Arc::clone(&node)));
    let tpu_log = tokio::spawn(tpu.log_periodically());
    let memory_log = tokio::spawn(memory_report::log_periodically(Arc::clone(&node))?);
    let key_watch = api_keys.clone().map(|file| {
        let closer = grpc.as_ref().map(grpc::Server::key_closer);
        tokio::spawn(file.watch(close_keys(Arc::clone(&pubsub), closer)))
    });
    let line = (!config.quiet && status_line::has_reader()).then(|| {
        tokio::spawn(status_line::draw(node.api.reader.clone(), Arc::clone(&pubsub), config.style))
    });

    let ledger_ended =
        wait_for_shutdown(&mut signals, &running, &node.api.health, &mut service_manager).await;
    service_manager.notify_stopping();
    if let Some(line) = line {
        line.abort();
        print_line("");
    }
    start_memory.abort();
    memory_log.abort();
    tpu_log.abort();
    key_watch.iter().for_each(tokio::task::JoinHandle::abort);
    tls_watch.iter().for_each(tokio::task::JoinHandle::abort);
    let servers = async {
        pubsub.shut_down();
        // It joins its thread, which only drops connections.
        drop(faucet_server);
        // It joins its threads: no transactions arrive by QUIC after this.
        let tpu = tokio::task::spawn_blocking(move || drop(tpu));
        grpc_setup::stop(grpc).await?;
        tpu.await.context("stop the TPU")?;
        server.await.context("the servers")
    };
    drain(&mut signals, &node.context.http.drain, config.serving.drain, servers).await?;
    drop(admin);
    api_keys.iter().for_each(ApiKeyFile::store_usage);
    running.stop().context("the ledger")?;
    if ledger_ended {
        bail!("the ledger's thread ended unexpectedly");
    }
    Ok(())
}

/// Health by the slot clock, if there is one: a node without new blocks is unhealthy.
fn health(config: &NodeConfig) -> Health {
    let ms = Duration::from_millis;
    Health::with_slot_clock(ms(config.localnet.slot_ms), ms(config.rpc.stall_ms))
}

/// Waits for a signal or for the end of the ledger's thread; true if the ledger ended. A ledger that makes no blocks
/// is not alive.
async fn wait_for_shutdown(
    signals: &mut EndSignals,
    running: &LocalnetHandle,
    health: &Health,
    service_manager: &mut ServiceManager,
) -> bool {
    let mut poll = tokio::time::interval(POLL_INTERVAL);
    loop {
        tokio::select! {
            () = signals.next() => return false,
            _ = poll.tick() => {
                if running.is_finished() {
                    return true;
                }
                service_manager.notify_alive(health.status() == Status::Ok, now());
            }
        }
    }
}

fn announce_ready(config: &NodeConfig, banner: &Banner<'_>) -> Result<()> {
    if !config.quiet {
        print_line(&banner.to_string());
    }
    if let Some(dir) = banner.ledger {
        validator_log::write(dir, banner)?;
    }
    let Some(path) = &config.endpoints_file else { return Ok(()) };
    let mut endpoints = serde_json::json!({
        "rpc": format!("{}://{}", banner.schemes[0], banner.rpc),
        "ws": format!("{}://{}", banner.schemes[1], banner.pubsub),
        "tpu": banner.tpu.to_string(),
    });
    if let Some(grpc) = &banner.grpc {
        endpoints["grpc"] = grpc.as_str().into();
    }
    if let Some(faucet) = banner.faucet_server {
        endpoints["faucet"] = faucet.to_string().into();
    }
    write_atomic(path, &endpoints.to_string())
        .with_context(|| format!("--endpoints-file {}", path.display()))
}
