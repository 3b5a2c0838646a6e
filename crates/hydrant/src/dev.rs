//! `hydrant dev`: a local ledger and its servers, from start to end.

use std::io::IsTerminal;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use localnet::{Localnet, LocalnetHandle};
use rpc::metrics::Collector;
use rpc::pubsub::PubSub;
use rpc::{Health, Listeners, Node, NodeMemory, SystemClock};

use crate::banner::Banner;
use crate::cli::{DevFlags, LogFormat};
use crate::config::{self, NodeConfig};
use crate::memory_report::ProcessMemory;
use crate::queue_metrics::QueueMetrics;
use crate::signals::EndSignals;
use crate::tpu::Tpu;
use crate::{accounts_file, memory_report, rlimit, status_line, validator_log};

/// How often the executing thread is looked after.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Stack of the thread that makes or reads a ledger: what a main thread has.
const OPEN_STACK_BYTES: usize = 8 << 20;
/// Ports tried when the system chooses: two in a row must be free.
const PORT_TRIES: usize = 64;

/// Runs the node until it is told to stop.
pub(crate) fn run(flags: DevFlags) -> Result<()> {
    let started = now();
    let check = flags.check;
    let mut options = NodeConfig::from_flags(config::with_file(flags)?)?;
    if check {
        check_genesis(&options)?;
        print_line("settings are good");
        return Ok(());
    }
    if options.log {
        start_log(options.log_format);
    }
    ensure!(
        has_date(),
        "the system's clock stands before 1970, which no response of HTTP can say: set it"
    );
    rlimit::raise_nofile(options.rpc.connections_max);
    let listeners = bind(&options)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(options.io_threads)
        .thread_name("io")
        .enable_all()
        .build()
        .context("start the IO threads")?;
    {
        let _runtime = runtime.enter();
        ignore_file_size_signal()?;
    }
    // On a thread that ends: what the allocator held for it goes back to the system.
    let opened = std::thread::scope(|scope| {
        let opening = std::thread::Builder::new().name("open".into());
        let opening = opening.stack_size(OPEN_STACK_BYTES);
        Ok::<_, std::io::Error>(opening.spawn_scoped(scope, || open_ledger(&options))?.join())
    });
    let opened = opened.context("start a thread that opens the ledger")?;
    let localnet = opened.map_err(|_| anyhow!("the thread that opens the ledger panicked"))??;
    // The ledger has them now.
    options.localnet.accounts = Vec::new();
    options.localnet.programs = Vec::new();
    if let Some(ahead) = localnet.ahead_of_clock() {
        warn_ahead(&options, ahead);
    }
    runtime.block_on(serve(&options, localnet, listeners, started))
}

/// Refuses what a start would refuse while it makes a ledger, and writes nothing. An archive is not
/// read: that may take minutes.
fn check_genesis(options: &NodeConfig) -> Result<()> {
    if options.snapshot.is_some() || (contains_ledger(options)? && !options.reset) {
        return read_account_dirs(options);
    }
    localnet::check(&options.localnet, &mut accounts_of_dirs(options)).context("make the ledger")
}

/// Reads every file of the directories of accounts, and keeps none of them.
fn read_account_dirs(options: &NodeConfig) -> Result<()> {
    accounts_file::account_dirs(&options.account_dirs).try_for_each(|read| read.map(drop))
}

/// The accounts of directories, each read when the ledger takes it in.
fn accounts_of_dirs(
    options: &NodeConfig,
) -> impl Iterator<Item = Result<localnet::GenesisAccount, localnet::SourceError>> {
    accounts_file::account_dirs(&options.account_dirs).map(|read| read.map_err(Into::into))
}

fn contains_ledger(options: &NodeConfig) -> Result<bool> {
    let Some(dir) = &options.localnet.dir else { return Ok(false) };
    localnet::contains_ledger(dir).context("open the ledger")
}

fn open_ledger(options: &NodeConfig) -> Result<Localnet> {
    let Some(file) = &options.snapshot else {
        if options.reset && contains_ledger(options)? {
            // Before that: a file that is refused costs no ledger.
            read_account_dirs(options)?;
        }
        reset(options)?;
        let opened = localnet::open_with(&options.localnet, &mut accounts_of_dirs(options));
        return opened.context("open the ledger");
    };
    if let Some(dir) = &options.localnet.dir
        && !options.reset
        && contains_ledger(options)?
    {
        bail!(
            "{} holds a ledger already: go on with it without --from-snapshot, or --reset it",
            dir.display()
        );
    }
    let loaded = file.load(&options.localnet, options.quiet)?;
    if options.reset && contains_ledger(options)? {
        read_account_dirs(options)?;
    }
    // Only now: an archive that is refused costs no ledger.
    reset(options)?;
    let (slot, accounts) = (loaded.snapshot().bank.slot, loaded.snapshot().accounts_len);
    let localnet =
        localnet::open_snapshot_with(&options.localnet, loaded, &mut accounts_of_dirs(options))
            .context("make the ledger")?;
    if !options.quiet {
        print_line(&format!(
            "Begins at slot {slot} with {accounts} accounts of the snapshot; the node's own faucet, \
             identity, vote and stake accounts are on top"
        ));
    }
    Ok(localnet)
}

/// A file that may not grow any more (`ulimit -f`) makes a write fail with an error that is said, instead of ending
/// the process with SIGXFSZ, which says nothing.
fn ignore_file_size_signal() -> Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let number = rustix::process::Signal::XFSZ.as_raw();
    // The runtime's handler stays for as long as the process runs, and does nothing more than to take the signal.
    signal(SignalKind::from_raw(number)).map(drop).context("listen for SIGXFSZ")
}

/// The newest block says a later time than the system: its clock was set back, or is wrong.
fn warn_ahead(options: &NodeConfig, ahead: Duration) {
    let seconds = ahead.as_secs();
    tracing::warn!(ahead_s = seconds, "the ledger's time is ahead of the system's clock");
    if !options.quiet {
        print_line(&format!(
            "The ledger's time is {seconds} s ahead of the system's clock; it advances at three quarters of its \
             speed until the clock has caught up"
        ));
    }
}

fn reset(options: &NodeConfig) -> Result<()> {
    let (true, Some(dir)) = (options.reset, &options.localnet.dir) else { return Ok(()) };
    localnet::reset_directory(dir).with_context(|| format!("--reset {}", dir.display()))
}

/// The two ports of a node, bound.
struct BoundListeners {
    rpc: TcpListener,
    pubsub: TcpListener,
}

async fn serve(
    options: &NodeConfig,
    localnet: Localnet,
    bound: BoundListeners,
    started: Instant,
) -> Result<()> {
    // Before the node says that it is ready: from then on each signal means what the documentation says.
    let mut signals = EndSignals::listen()?;
    let (rpc, pubsub_address) = (bound.rpc.local_addr()?, bound.pubsub.local_addr()?);
    let mut cluster = localnet.cluster().clone();
    (cluster.rpc, cluster.pubsub) = (Some(rpc), Some(pubsub_address));
    let tpu = Tpu::start(options, &localnet)?;
    cluster.tpu = Some(tpu.address());
    let cluster = Arc::new(cluster);
    let node = Arc::new(Node {
        cluster: Arc::clone(&cluster),
        reader: localnet.reader().clone(),
        history: Arc::clone(localnet.history()),
        transaction_service: localnet.transaction_service(),
        pool: Arc::new(cpu_pool(&options.pool).context("start the CPU threads")?),
        response_cache: Arc::new(rpc::ResponseCache::new(options.cache_bytes_max)),
        clients: Arc::new(pool::RateLimiter::new(options.pool.clients)),
        health: Arc::new(health(options)),
        metrics: Arc::new(rpc::Metrics::new()),
        config: options.rpc.clone(),
    });
    let (pubsub, sink) = PubSub::start(
        options.pubsub.clone(),
        Arc::clone(&cluster),
        node.reader.clone(),
        Arc::clone(&node.history),
        (Arc::clone(&node.pool), Arc::clone(&node.clients)),
    )
    .context("start PubSub")?;
    let (rest, waits) = rest::Rest::start().context("start REST")?;
    let rest = Arc::new(rest);
    node.metrics.add(Arc::clone(&pubsub) as Arc<dyn Collector>);
    node.metrics.add(Arc::clone(&rest) as Arc<dyn Collector>);
    node.metrics.add(Arc::new(tpu.metrics()));
    node.metrics.add(Arc::new(QueueMetrics(Arc::clone(localnet.queue()))));
    let mint = localnet.mint();
    let running =
        localnet.start(vec![Box::new(sink), Box::new(waits)]).context("start the ledger")?;

    let listeners =
        Listeners { rpc: tokio_listener(bound.rpc)?, pubsub: Some(tokio_listener(bound.pubsub)?) };
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let server = tokio::spawn(rpc::serve_with_http_api(
        Arc::clone(&node),
        Arc::clone(&pubsub) as Arc<dyn rpc::WebSocketHandler>,
        rest,
        listeners,
        // Dropped or used, either way it is time to stop.
        async { drop(stopped.await) },
    ));
    let banner = Banner {
        cluster: &cluster,
        mint,
        has_wallet: options.localnet.mint.is_some(),
        ledger: options.localnet.dir.as_deref(),
        rpc,
        pubsub: pubsub_address,
        tpu: tpu.address(),
        ready_after: now() - started,
        usage: NodeMemory::for_node(&node),
    };
    node.metrics.add(Arc::new(ProcessMemory::at_start(&node)));
    announce_ready(options, &banner)?;
    let report = tokio::spawn(tpu.log_periodically());
    let usage_log = tokio::spawn(memory_report::log_periodically(Arc::clone(&node))?);
    let line = (!options.quiet && status_line::has_reader())
        .then(|| tokio::spawn(status_line::draw(node.reader.clone(), Arc::clone(&pubsub))));

    let ended_by_itself = wait_for_shutdown(&mut signals, &running).await;
    if let Some(line) = line {
        line.abort();
        print_line("");
    }
    usage_log.abort();
    report.abort();
    // Joins its threads: nothing comes in any more.
    tokio::task::spawn_blocking(move || drop(tpu)).await.context("the door for transactions")?;
    pubsub.shut_down();
    // A server that has gone already needs no telling.
    let _ = stop.send(());
    server.await.context("the servers")?;
    running.stop().context("the ledger")?;
    if ended_by_itself {
        bail!("the ledger ended by itself");
    }
    Ok(())
}

/// Blocks come by the clock, if there is one: whoever waits for them in vain is told.
fn health(options: &NodeConfig) -> Health {
    let ms = Duration::from_millis;
    Health::with_slot_clock(ms(options.localnet.slot_ms), ms(options.rpc.stall_ms))
}

/// The CPU pool. Its threads stand behind those that poll sockets, so that on a machine of few cores a
/// light request does not wait for the end of a slice.
fn cpu_pool(config: &pool::Config) -> std::io::Result<pool::Pool> {
    let nice = config.nice;
    pool::Pool::new(config.clone(), Arc::new(SystemClock::new()), move || {
        // Of this thread alone, on Linux. Raising the value is always allowed.
        let set = rustix::process::setpriority_process(None, i32::from(nice));
        if let Err(err) = set {
            tracing::warn!(%err, nice, "the CPU threads keep the priority of the others");
        }
    })
}

/// Waits for a signal, or for the ledger to give up; true if it was the ledger.
async fn wait_for_shutdown(signals: &mut EndSignals, running: &LocalnetHandle) -> bool {
    let mut watch = tokio::time::interval(POLL_INTERVAL);
    loop {
        tokio::select! {
            () = signals.next() => return false,
            _ = watch.tick() => if running.is_finished() {
                return true;
            },
        }
    }
}

fn announce_ready(options: &NodeConfig, banner: &Banner<'_>) -> Result<()> {
    if !options.quiet {
        print_line(&banner.to_string());
    }
    if let Some(dir) = banner.ledger {
        validator_log::write(dir, banner)?;
    }
    let Some(path) = &options.endpoints_file else { return Ok(()) };
    let endpoints = serde_json::json!({
        "rpc": format!("http://{}", banner.rpc),
        "ws": format!("ws://{}", banner.pubsub),
        "tpu": banner.tpu.to_string(),
    });
    write_atomic(path, &endpoints.to_string())
        .with_context(|| format!("--endpoints-file {}", path.display()))
}

/// Writes a file so that nobody ever sees half of it.
fn write_atomic(path: &Path, text: &str) -> std::io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    std::fs::write(&beside, text)?;
    std::fs::rename(&beside, path)
}

/// Binds JSON-RPC's port and the next; with port 0, the first two in a row that are free.
fn bind(options: &NodeConfig) -> Result<BoundListeners> {
    let ip = options.bind_address;
    let listen = |port: u16| TcpListener::bind(SocketAddr::new(ip, port));
    if options.rpc_port != 0 {
        let port = options.rpc_port;
        let taken = |port: u16| format!("listen on {ip}:{port} (--bind-address, --rpc-port)");
        return Ok(BoundListeners {
            rpc: listen(port).with_context(|| taken(port))?,
            pubsub: listen(port + 1).with_context(|| taken(port + 1))?,
        });
    }
    for _ in 0..PORT_TRIES {
        let rpc = listen(0).with_context(|| format!("listen on {ip} (--bind-address)"))?;
        let Some(next) = rpc.local_addr()?.port().checked_add(1) else { continue };
        if let Ok(pubsub) = listen(next) {
            return Ok(BoundListeners { rpc, pubsub });
        }
    }
    bail!("no two free ports in a row on {ip} (--rpc-port)")
}

fn tokio_listener(listener: TcpListener) -> Result<tokio::net::TcpListener> {
    listener.set_nonblocking(true)?;
    Ok(tokio::net::TcpListener::from_std(listener)?)
}

fn start_log(format: LogFormat) {
    use tracing_subscriber::EnvFilter;
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    // Colours are for people: a file or a collector gets none.
    let colours = std::io::stderr().is_terminal();
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours);
    let log = log.with_writer(std::io::stderr);
    match format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
}

#[expect(clippy::print_stdout, reason = "the banner is what this command prints")]
pub(crate) fn print_line(text: &str) {
    println!("{text}");
}

#[expect(clippy::disallowed_methods, reason = "the binary is where time begins")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "the binary is where time begins")]
fn has_date() -> bool {
    std::time::SystemTime::now() >= std::time::UNIX_EPOCH
}
