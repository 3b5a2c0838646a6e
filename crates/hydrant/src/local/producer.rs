//! A local ledger as the producer of a node: it is created, forked from a cluster, or continued.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use chain_solana::{Cluster, ClusterInfo, ComputedVerification, EventSink};
use jsonrpc::{Health, Status};
use localnet::{GenesisAccount, Localnet, LocalnetHandle};
use metrics::Collector;
use rpc_solana::{Bundles, Cheatcodes};
use solana_account::AccountSharedData;
use upstream_fork::ConnectedFork;
use web_console::LedgerKind;

use crate::banner::{self, OutputStyle};
use crate::clone::Cloned;
use crate::console::{print_line, print_stderr};
use crate::executor_metrics::{AccountBytesMetrics, ExecutorTimes};
use crate::faucet_server::{self, BoundFaucet};
use crate::ledger_snapshot_metrics::LedgerSnapshotMetrics;
use crate::local::LocalConfig;
use crate::local::front_end::LocalFrontEnd;
use crate::node::composed::RunningLedger;
use crate::node::producer::OpenContext;
use crate::node::solana::SolanaProducer;
use crate::node::solana::front_end::SolanaFrontEnd;
use crate::node::solana::ledger::{LedgerHandles, LedgerProducer, OpenedLedger};
use crate::node::{NodeConfig, Producer, STACK_BYTES};
use crate::queue_metrics::QueueMetrics;
use crate::upstream_fork_setup::{self, ForkedLedger};
use crate::{accounts_file, existing_ledger, grpc_setup};

/// Lamports of an account for tips at genesis: the minimum balance of a wallet.
const TIP_ACCOUNT_LAMPORTS: u64 = 890_880;

/// Makes the blocks of a local ledger, as `hydrant dev` does.
pub struct LocalProducer {
    config: LocalConfig,
}

impl From<LocalProducer> for Producer {
    fn from(producer: LocalProducer) -> Self {
        Self(Box::new(SolanaProducer::new(producer)))
    }
}

impl LocalProducer {
    /// A producer with these settings.
    pub fn new(config: LocalConfig) -> Self {
        Self { config }
    }

    /// Finds the errors that a start would find while it creates a ledger, and writes nothing. Of an archive only the start
    /// is read, because the whole may take minutes.
    pub(crate) fn check(mut self, node: &NodeConfig) -> Result<()> {
        if let Some(dir) = &node.ledger_dir {
            localnet::check_directory(dir).context("open the ledger")?;
        }
        self.prepare(node, true)?;
        let config = &self.config;
        if let Some(file) = &config.snapshot {
            file.check()?;
        }
        if config.snapshot.is_some() || (contains_ledger(config, node)? && !node.reset) {
            return read_account_dirs(config);
        }
        localnet::check(&config.localnet, &mut read_genesis_accounts(config))
            .context("create the ledger")
    }

    /// Whether the ledger has the accounts of an archive or of an earlier run, which may be many.
    pub(crate) fn is_loaded(&self, node: &NodeConfig) -> Result<bool> {
        let config = &self.config;
        Ok(config.snapshot.is_some() || (!node.reset && contains_ledger(config, node)?))
    }

    /// Completes the settings. Reports those that have no effect on the ledger, if the node has an output.
    fn prepare(&mut self, node: &NodeConfig, has_output: bool) -> Result<()> {
        self.config.apply(node)?;
        add_tip_accounts(&mut self.config);
        let is_continued =
            !node.reset && self.config.snapshot.is_none() && contains_ledger(&self.config, node)?;
        if has_output {
            report_genesis(&self.config, node, is_continued);
        }
        if is_continued {
            existing_ledger::ignore_genesis(&mut self.config);
        }
        Ok(())
    }
}

impl LedgerProducer for LocalProducer {
    fn body_bytes_max(&self) -> Option<usize> {
        self.config.body_bytes_max()
    }

    fn open(mut self: Box<Self>, context: &OpenContext<'_>) -> Result<Box<dyn OpenedLedger>> {
        let node = context.config;
        self.prepare(node, context.has_output)?;
        let mut config = self.config;
        let faucet = config.faucet_port.map(|port| faucet_server::bind(node.bind_address, port));
        let faucet_listener = faucet.transpose()?;
        let fork = config.fork.as_ref();
        let fork = fork.map(|fork| upstream_fork_setup::connect(fork, node.quiet)).transpose()?;
        if let (Some(settings), Some(connected)) = (&config.fork, &fork) {
            config.localnet.start = settings.start_point(connected);
        }
        clone_accounts(&mut config)?;
        if let Some(dir) = node.ledger_dir.as_deref().filter(|_| config.prints_agave_lines(node)) {
            banner::print_start(dir);
        }
        let localnet = open_on_thread(&config, node)?;
        // The ledger has copied them.
        config.localnet.accounts = Vec::new();
        config.localnet.programs = Vec::new();
        if let Some(ahead) = localnet.ahead_of_clock() {
            warn_ahead(node, ahead);
        }
        Ok(Box::new(OpenedLocalnet { config, localnet, fork, faucet_listener }))
    }
}

/// A local ledger that is open.
struct OpenedLocalnet {
    config: LocalConfig,
    localnet: Localnet,
    fork: Option<ConnectedFork>,
    faucet_listener: Option<TcpListener>,
}

impl OpenedLedger for OpenedLocalnet {
    fn kind(&self) -> LedgerKind {
        LedgerKind::Local
    }

    fn handles(&mut self, config: &NodeConfig) -> Result<LedgerHandles> {
        let Self { config: local, localnet, fork, faucet_listener } = self;
        let forked = ForkedLedger::start(localnet, fork.take())?;
        let reader = localnet.reader().clone();
        let history = Arc::clone(localnet.history());
        let mut collectors: Vec<Arc<dyn Collector>> = vec![
            Arc::new(ExecutorTimes(Arc::clone(localnet.executor_metrics()))),
            Arc::new(AccountBytesMetrics(Arc::clone(localnet.account_bytes()))),
            Arc::new(QueueMetrics(Arc::clone(localnet.queue()))),
            Arc::new(LedgerSnapshotMetrics(localnet.fork_control())),
        ];
        collectors.extend(forked.fork.clone().map(|fork| fork as Arc<dyn Collector>));
        let bound_faucet = faucet_listener.take();
        let bound_faucet = bound_faucet
            .map(|listener| BoundFaucet { listener, faucet: localnet.signing_faucet() });
        // A node without new blocks is unhealthy, if blocks are made by a clock.
        let ms = Duration::from_millis;
        let health = Health::with_slot_clock(ms(local.localnet.slot_ms), ms(config.rpc.stall_ms));
        let stored_blocks = match config.grpc_port {
            Some(_) => grpc_setup::stored_blocks(&history, &config.grpc),
            None => Vec::new(),
        };
        Ok(LedgerHandles {
            cluster_info: localnet.cluster_info().clone(),
            identity: localnet.identity().insecure_clone(),
            request_reader: forked.reader.clone(),
            verification: Arc::new(ComputedVerification::new(reader.clone(), Arc::clone(&history))),
            reader,
            history,
            transaction_sender: Arc::clone(&forked.transaction_sender),
            simulator: localnet.simulator(),
            faucet: Some(localnet.faucet()),
            bound_faucet,
            fork_control: Some(localnet.fork_control()),
            upstream: None,
            account_upstream: forked.upstream(),
            older_statuses: None,
            bundles: Arc::new(Bundles::new(localnet.bundle_sender())),
            cheatcodes: Arc::new(Cheatcodes::new(localnet.control(), local.cheatcodes)),
            health: Arc::new(health),
            stored_blocks,
            has_gossip: false,
            collectors,
            tasks: Vec::new(),
        })
    }

    fn cluster(&self, info: &Arc<ClusterInfo>) -> Result<Arc<dyn Cluster>> {
        Ok(self.localnet.cluster(Arc::clone(info)))
    }

    fn has_archives(&self) -> bool {
        true
    }

    fn front_end(&self, config: &NodeConfig, started: Instant) -> Box<dyn SolanaFrontEnd> {
        Box::new(LocalFrontEnd::new(&self.localnet, &self.config, config, started))
    }

    fn start(self: Box<Self>, sinks: Vec<Box<dyn EventSink>>) -> Result<Box<dyn RunningLedger>> {
        let handle = self.localnet.start(sinks).context("start the ledger")?;
        Ok(Box::new(RunningLocalnet(handle)))
    }
}

/// A local ledger that makes blocks.
struct RunningLocalnet(LocalnetHandle);

impl RunningLedger for RunningLocalnet {
    fn is_finished(&self) -> bool {
        self.0.is_finished()
    }

    /// A ledger that makes no blocks is not alive.
    fn poll_health(&mut self, health: &Health) -> bool {
        health.status() == Status::Ok
    }

    fn stop(self: Box<Self>) -> Result<()> {
        Ok(self.0.stop()?)
    }
}

/// Opens the ledger on a thread that ends, so that the allocator returns the thread's memory to the system.
fn open_on_thread(config: &LocalConfig, node: &NodeConfig) -> Result<Localnet> {
    let joined = std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().name("open".into());
        let builder = builder.stack_size(STACK_BYTES);
        Ok::<_, std::io::Error>(builder.spawn_scoped(scope, || open_ledger(config, node))?.join())
    });
    let joined = joined.context("start a thread that opens the ledger")?;
    joined.map_err(|_| anyhow!("the thread that opens the ledger panicked"))?
}

/// Adds the accounts that bundles pay tips to, which exist on a cluster: a tip may be less than the minimum balance of a
/// new account. A snapshot has its own, and so may the flags.
fn add_tip_accounts(config: &mut LocalConfig) {
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

/// Fetches the accounts, features and slot that a new ledger clones from a cluster.
fn clone_accounts(config: &mut LocalConfig) -> Result<()> {
    let Some(request) = config.clone.take() else { return Ok(()) };
    let Cloned { accounts, inactive_features, slot } = request.fetch()?;
    config.localnet.accounts.extend(accounts);
    config.localnet.features.deactivated.extend(inactive_features);
    config.localnet.warp_slot = slot.or(config.localnet.warp_slot);
    config.localnet.check()?;
    Ok(())
}

/// Prints lines about flags of genesis: those that an existing ledger ignores, and programs with faults.
fn report_genesis(config: &LocalConfig, node: &NodeConfig, is_continued: bool) {
    if is_continued {
        return existing_ledger::report_ignored_flags(config);
    }
    let agave = config.localnet.dir.as_deref().filter(|dir| localnet::contains_agave_ledger(dir));
    if let Some(dir) = agave.filter(|_| !node.reset) {
        print_stderr(&format!(
            "hydrant: {} has a ledger of Agave, which is not read: a new one is next to it",
            dir.display()
        ));
    }
    for fault in localnet::program_faults(&config.localnet) {
        let localnet::ProgramFault { program_id, reason, is_loadable } = fault;
        if is_loadable {
            print_stderr(&format!(
                "hydrant: program {program_id} runs, but a deployment of it would fail: {reason}"
            ));
        } else if !config.localnet.verifies_programs {
            print_stderr(&format!(
                "hydrant: program {program_id} does not load, so every call of it fails: {reason}"
            ));
        }
    }
    if config.style == OutputStyle::TestValidator && config.localnet.mint.is_none() {
        banner::print_no_wallet();
    }
}

/// Reads and checks every file of the account directories.
fn read_account_dirs(config: &LocalConfig) -> Result<()> {
    accounts_file::account_dirs(&config.account_dirs).try_for_each(|read| read.map(drop))
}

/// The accounts of the account directories. Each is read when the ledger inserts it.
fn read_genesis_accounts(
    config: &LocalConfig,
) -> impl Iterator<Item = Result<localnet::GenesisAccount, localnet::SourceError>> {
    accounts_file::account_dirs(&config.account_dirs).map(|read| read.map_err(Into::into))
}

fn contains_ledger(config: &LocalConfig, node: &NodeConfig) -> Result<bool> {
    let Some(dir) = &node.ledger_dir else { return Ok(false) };
    // An unreadable ledger will be removed.
    let is_emptied = node.reset && config.style == OutputStyle::TestValidator;
    match localnet::contains_ledger(dir) {
        Err(_) if is_emptied => Ok(true),
        contained => contained.context("open the ledger"),
    }
}

fn open_ledger(config: &LocalConfig, node: &NodeConfig) -> Result<Localnet> {
    let Some(file) = &config.snapshot else {
        if node.reset && contains_ledger(config, node)? {
            // Before the reset: an invalid file must not cost a ledger.
            read_account_dirs(config)?;
        }
        reset(config, node)?;
        let opened = localnet::open_with(&config.localnet, &mut read_genesis_accounts(config));
        return opened.context("open the ledger");
    };
    if let Some(dir) = &config.localnet.dir
        && !node.reset
        && contains_ledger(config, node)?
    {
        bail!(
            "{} contains a ledger already: continue it without --from-snapshot, or --reset it",
            dir.display()
        );
    }
    let loaded = file.load(&config.localnet.ledger(), node.quiet)?;
    if node.reset && contains_ledger(config, node)? {
        read_account_dirs(config)?;
    }
    // Only now: an invalid archive must not cost a ledger.
    reset(config, node)?;
    let slot = loaded.snapshot().bank.slot;
    let accounts = loaded.snapshot().accounts_len;
    let localnet =
        localnet::open_snapshot_with(&config.localnet, loaded, &mut read_genesis_accounts(config))
            .context("create the ledger")?;
    if !node.quiet {
        print_line(&format!(
            "Starts at slot {slot} with {accounts} accounts of the snapshot, and with the node's own \
             faucet, identity, vote and stake accounts"
        ));
    }
    Ok(localnet)
}

/// Warns that the newest block's time is later than the system's: the clock was set back, or is wrong.
fn warn_ahead(node: &NodeConfig, ahead: Duration) {
    let seconds = ahead.as_secs();
    tracing::warn!(ahead_s = seconds, "the ledger's time is ahead of the system's clock");
    if !node.quiet {
        print_line(&format!(
            "The ledger's time is {seconds} s ahead of the system's clock. It advances at three quarters of its \
             speed until the clock has caught up"
        ));
    }
}

fn reset(config: &LocalConfig, node: &NodeConfig) -> Result<()> {
    let (true, Some(dir)) = (node.reset, &config.localnet.dir) else { return Ok(()) };
    existing_ledger::reset(dir, config.style)
}
