//! Creates a ledger or reads one back, and runs it.

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use chain_solana::{
    BankHashComponents, Block, BlockInfo, BlockhashQueue, BundleSender, Cluster, ClusterInfo,
    EventSink, Faucet, ForkControl, History, InflationSchedule, LedgerControl, OneNodeCluster,
    Reader, Simulator, TransactionSender,
};
use ledger::{BlockId, Commitment};
use ledger_store::{LedgerStore, Opened};
use parking_lot::Mutex;
use query::Ledger;
use snapshot_ledger::{BulkLoader, LoadedSnapshot};
use solana::Account;
use solana_account::{AccountSharedData, ReadableAccount};
use solana_epoch_schedule::EpochSchedule;
use solana_feature_set::FeatureSet;
use solana_hash::Hash;
use solana_pubkey::Pubkey;
use svm::{AccountSource, SimulationPool, WorkingSet};

use crate::account_bytes::AccountBytes;
use crate::accounts_sum::AccountsSum;
use crate::adopted_accounts::AdoptedAccounts;
use crate::baseline::Baseline;
use crate::block_builder::BlockBuilder;
use crate::chain_clock::ChainClock;
use crate::checkpoints::{Checkpoint, Checkpoints, ForkCounters};
use crate::config::{Config, HEAD_SLOT_MAX};
use crate::directory::{DirectoryLock, STORE_DIR};
use crate::epoch::{Epochs, Voters};
use crate::error::LocalnetError;
use crate::executor::{BlockTiming, Executor, ExecutorError, now, unix_ms};
use crate::executor_metrics::ExecutorMetrics;
use crate::faucet::LocalFaucet;
use crate::features;
use crate::fork_control::LocalForkControl;
use crate::from_snapshot;
use crate::genesis::Genesis;
use crate::genesis_accounts::{self, GenesisAccountSource, catch_panic};
use crate::hidden_statuses::HiddenStatuses;
use crate::keypairs::NodeKeypairs;
use crate::local_control::LocalControl;
use crate::queue::{Limits, Receiver, TransactionQueue};
use crate::restore;
use crate::retries::Retries;
use crate::simulator::{LocalSimulator, WaitingBlock};
use crate::status_cache::StatusCache;
use crate::vote::{self, Tower};

/// The log file that a server may write into a ledger directory.
pub const LOG_FILE: &str = "validator.log";
/// The directory of the snapshots that a server may make, within a ledger directory.
pub const SNAPSHOTS_DIR: &str = "snapshots";
/// The socket of the node's administration, within a ledger directory. It stays behind if the node is killed.
pub const ADMIN_SOCKET: &str = "admin.sock";

/// A ledger that is open and does not run yet.
pub struct Localnet {
    cluster_info: ClusterInfo,
    inflation: InflationSchedule,
    faucet_pubkey: Pubkey,
    mint: Option<Pubkey>,
    reader: Reader,
    history: Arc<History>,
    queue: Arc<TransactionQueue>,
    simulator: Arc<LocalSimulator>,
    faucet: Arc<LocalFaucet>,
    fork_control: Arc<LocalForkControl>,
    control: Arc<LocalControl>,
    receiver: Receiver,
    executor: Executor,
    parent: BlockInfo,
    /// Of the directory, if the ledger is stored.
    lock: Option<DirectoryLock>,
}

/// A running ledger.
pub struct LocalnetHandle {
    queue: Arc<TransactionQueue>,
    thread: JoinHandle<Result<(), ExecutorError>>,
    _lock: Option<DirectoryLock>,
}

/// The state from which a ledger starts.
struct InitialState {
    set: WorkingSet,
    ledger: Ledger<Account, BlockInfo>,
    reader: Reader,
    genesis: Genesis,
    keypairs: NodeKeypairs,
    store: Option<LedgerStore>,
    /// The newest block's bank.
    parent: BlockInfo,
    accounts_sum: AccountsSum,
    /// The oldest first; never empty.
    blocks: Vec<Arc<Block>>,
    status_cache: StatusCache,
    tower: Tower,
    /// The stored vote accounts of the last epochs.
    voters: Option<Voters>,
}

/// Opens the ledger of `config.dir`, or creates one there. Without a directory the ledger is in memory.
pub fn open(config: &Config) -> Result<Localnet, LocalnetError> {
    open_with(config, &mut std::iter::empty())
}

/// As [`open`]. A new ledger also gets `accounts`, which are read one at a time. They replace those of `config`,
/// and of two with the same address the later one counts. They are not read if the ledger exists.
pub fn open_with(
    config: &Config,
    accounts: &mut GenesisAccountSource<'_>,
) -> Result<Localnet, LocalnetError> {
    config.check()?;
    let lock = config.dir.as_deref().map(DirectoryLock::acquire).transpose()?;
    let state = match &config.dir {
        Some(dir) => match LedgerStore::open(&dir.join(STORE_DIR))? {
            Some(opened) => InitialState::restore(config, dir, opened)?,
            None => catch_panic(|| InitialState::create(config, accounts))?,
        },
        None => catch_panic(|| InitialState::create(config, accounts))?,
    };
    Ok(Localnet::new(config, state, lock))
}

/// Makes the first block of a new ledger in memory, opens the next one, and drops both. It fails where
/// [`open_with`] or [`Localnet::start`] would fail, and writes nothing.
pub fn check(
    config: &Config,
    accounts: &mut GenesisAccountSource<'_>,
) -> Result<(), LocalnetError> {
    let config = Config { dir: None, ..config.clone() };
    let mut localnet = open_with(&config, accounts)?;
    catch_panic(|| Ok(localnet.executor.open_block(localnet.parent)?))
}

/// Creates a ledger in `config.dir` or in memory. Its first block is that of the snapshot. Its accounts are those
/// of the snapshot, the node's own (faucet, identity, vote and stake account), and those that `config` adds at
/// genesis.
pub fn open_snapshot(config: &Config, loaded: LoadedSnapshot) -> Result<Localnet, LocalnetError> {
    open_snapshot_with(config, loaded, &mut std::iter::empty())
}

/// As [`open_snapshot`], with `accounts` added as by [`open_with`].
pub fn open_snapshot_with(
    config: &Config,
    loaded: LoadedSnapshot,
    accounts: &mut GenesisAccountSource<'_>,
) -> Result<Localnet, LocalnetError> {
    config.check()?;
    if let Some(dir) = &config.dir
        && contains_ledger(dir)?
    {
        return Err(LocalnetError::Exists { dir: dir.display().to_string() });
    }
    check_head(loaded.snapshot().bank.slot)?;
    let lock = config.dir.as_deref().map(DirectoryLock::acquire).transpose()?;
    let state = catch_panic(|| InitialState::from_snapshot(config, loaded, accounts))?;
    Ok(Localnet::new(config, state, lock))
}

/// Whether a directory contains a ledger of Hydrant, readable or not.
pub fn contains_ledger(dir: &Path) -> Result<bool, LocalnetError> {
    Ok(<LedgerStore>::is_in(&dir.join(STORE_DIR))?)
}

impl InitialState {
    fn create(
        config: &Config,
        accounts: &mut GenesisAccountSource<'_>,
    ) -> Result<Self, LocalnetError> {
        config.accounts.iter().try_for_each(genesis_accounts::check_account)?;
        let keypairs = NodeKeypairs::for_new_ledger(config.dir.as_deref())?;
        let mut genesis = Genesis::at_start(config, &keypairs, unix_ms().div_euclid(1_000));
        genesis.ensure_mint();
        let active = features::choose_features(&config.features);
        let mut vm = genesis.build(config, &keypairs, active.clone())?;
        let mut loader = BulkLoader::new(config.ledger(), genesis_bank(&genesis, 0));
        let is_there = |account: &AccountSharedData| account.lamports() > 0;
        for (key, account) in vm.accounts().filter(|(_, account)| is_there(account)) {
            loader.add(*key, Account(account.clone()))?;
        }
        genesis_accounts::load_genesis_accounts(config, &mut vm, &mut loader, accounts)?;
        drop(vm);
        let set = WorkingSet::new(loader.ledger()?, active);
        let bank = genesis_bank(&genesis, genesis_accounts::check_lamports(&loader)?);
        let first = BlockBuilder::new(bank).complete_genesis(loader.lt_hash());
        Self::with_first_block(config, (genesis, keypairs), first, loader, set)
    }

    fn from_snapshot(
        config: &Config,
        loaded: LoadedSnapshot,
        accounts: &mut GenesisAccountSource<'_>,
    ) -> Result<Self, LocalnetError> {
        config.accounts.iter().try_for_each(genesis_accounts::check_account)?;
        let (snapshot, mut loader) = loaded.into_parts();
        let keypairs = NodeKeypairs::for_new_ledger(config.dir.as_deref())?;
        let genesis = Genesis::new(config, &keypairs, snapshot.bank.genesis_unix_timestamp);
        let (lamports, mut set) =
            from_snapshot::complete(config, &keypairs, &snapshot, &mut loader)?;
        loader.set_lamports(lamports);
        if genesis_accounts::load_genesis_accounts(config, set.vm_mut(), &mut loader, accounts)? {
            let active = set.vm().features().clone();
            set = WorkingSet::new(loader.ledger()?, active);
        }
        let lamports = genesis_accounts::check_lamports(&loader)?;
        let first = from_snapshot::first_block(&snapshot.bank, set.vm(), lamports);
        Self::with_first_block(config, (genesis, keypairs), first, loader, set)
    }

    /// A new ledger, stored if `config` names a directory.
    fn with_first_block(
        config: &Config,
        (genesis, keypairs): (Genesis, NodeKeypairs),
        (block, bank): (Block, BlockInfo),
        loader: BulkLoader,
        set: WorkingSet,
    ) -> Result<Self, LocalnetError> {
        let accounts_sum = AccountsSum::new(loader.lt_hash().clone());
        let (ledger, reader) = loader.finish(bank.clone())?;
        let bytes = ledger.record_bytes() as u64;
        let limit = config.account_bytes_max;
        if bytes > limit {
            return Err(LocalnetError::AccountBytes { bytes, limit });
        }
        let dir = config.dir.as_deref();
        let store =
            dir.map(|dir| create_store(dir, &genesis, &keypairs, &reader, &block)).transpose()?;
        let mut status_cache = StatusCache::default();
        status_cache.start_block(block.id.slot);
        Ok(Self {
            set,
            ledger,
            reader,
            genesis,
            keypairs,
            store,
            parent: bank,
            accounts_sum,
            blocks: vec![Arc::new(block)],
            status_cache,
            tower: Tower::default(),
            voters: None,
        })
    }

    fn restore(config: &Config, dir: &Path, opened: Opened) -> Result<Self, LocalnetError> {
        let foreign =
            |reason: String| LocalnetError::Foreign { dir: dir.display().to_string(), reason };
        let keypairs = NodeKeypairs::read(dir)?;
        let genesis = Genesis::read(&opened.rows.genesis)
            .map_err(|err| foreign(format!("genesis: {err}")))?;
        let blocks = opened.blocks.clone();
        check_head(blocks.last().map_or(0, |block| block.id.slot))?;
        let voters = opened.rows.epochs.as_deref().map(bincode::deserialize).transpose();
        let voters = voters.map_err(|err| foreign(format!("epochs: {err}")))?;
        let parent = |capitalization| {
            restore::head(&blocks, capitalization).ok_or_else(|| foreign("no block".into()))
        };
        let mut loader = BulkLoader::new(config.ledger(), parent(0)?);
        let mut added = Ok(());
        let store = opened.read(|key, account| {
            if added.is_ok() {
                added = loader.add(key, account);
            }
        })?;
        added?;
        if let Some(what) = from_snapshot::missing(loader.ledger()?) {
            return Err(foreign(format!("no {what}")));
        }
        let active = svm::features::active_in(loader.ledger()?);
        features::check(&config.features, &active)?;
        let set = WorkingSet::new(loader.ledger()?, active);
        let missing = from_snapshot::missing_accounts(loader.ledger()?, set.vm());
        let (more, _) = loader.replace(missing)?;
        let lamports = u64::try_from(loader.lamports()).unwrap_or(u64::MAX);
        let parent = parent(lamports.saturating_add(more))?;
        let vote_account = solana_signer::Signer::pubkey(&keypairs.vote_account);
        let tower = restore::tower(loader.ledger()?, &vote_account);
        let accounts_sum = AccountsSum::new(loader.lt_hash().clone());
        let (ledger, reader) = loader.finish(parent.clone())?;
        Ok(Self {
            status_cache: restore::status_cache(&blocks),
            tower,
            voters,
            set,
            ledger,
            reader,
            genesis,
            keypairs,
            store: Some(store),
            parent,
            accounts_sum,
            blocks,
        })
    }

    fn create_clock(&self) -> ChainClock {
        let unix_timestamp = self.parent.unix_timestamp;
        let offset_ms = match self.genesis.start {
            Some(_) => unix_timestamp.saturating_mul(1_000).saturating_sub(unix_ms()),
            None => 0,
        };
        ChainClock::with_offset(unix_timestamp, offset_ms, now())
    }

    fn create_history(&self, config: &Config) -> History {
        let history = History::new(config.history, self.parent.block);
        for block in &self.blocks {
            history.record_block(block);
            history.set_tip(block.id);
        }
        history.publish();
        history
    }

    fn create_simulator(
        &self,
        config: &Config,
        history: &Arc<History>,
        clock: &Arc<Mutex<ChainClock>>,
        account_bytes: &Arc<AccountBytes>,
    ) -> LocalSimulator {
        let simulations = SimulationPool::new(self.set.clone_programs(), config.simulators)
            .with_blockhash_check(!config.skips_blockhash_check);
        let waiting = (config.slot_ms == 0).then(|| {
            let reader = self.reader.clone();
            WaitingBlock { reader, clock: Arc::clone(clock) }
        });
        LocalSimulator::new(simulations, Arc::clone(history), waiting, Arc::clone(account_bytes))
    }

    fn create_account_bytes(&self, config: &Config) -> AccountBytes {
        let account_bytes = AccountBytes::new(config.account_bytes_max);
        account_bytes.set_bytes(self.ledger.record_bytes());
        account_bytes
    }

    /// Returns the accounts of the start, if they are retained.
    fn create_baseline(&self, config: &Config) -> Option<Arc<Baseline>> {
        let view = self.reader.view(Commitment::Finalized);
        Baseline::from_view(&view, config.baseline_bytes_max).map(Arc::new)
    }

    fn create_checkpoint(&self, voters: &Arc<Voters>) -> Checkpoint {
        Checkpoint {
            block: Arc::clone(&self.blocks[self.blocks.len() - 1]), // never empty
            bank: self.parent.clone(),
            lt_hash: self.accounts_sum.lt_hash().clone(),
            tower: self.tower.clone(),
            voters: Arc::clone(voters),
        }
    }
}

impl Localnet {
    fn new(config: &Config, mut state: InitialState, lock: Option<DirectoryLock>) -> Self {
        state.set = state.set.with_limits(config.runtime_limits);
        let root = state.parent.block;
        let clock = Arc::new(Mutex::new(state.create_clock()));
        let history = Arc::new(state.create_history(config));
        let first_slot = state.blocks.first().map_or(0, |block| block.id.slot);
        let features = svm::features::activated_in(&state.ledger);
        let vm = state.set.vm();
        let cluster_info = state.genesis.cluster_info(config, &state.keypairs, vm, first_slot);
        let inflation = state.genesis.inflation(&cluster_info.epoch_schedule, &features);
        let schedule = cluster_info.epoch_schedule.clone();
        let epochs = restore_epochs(&mut state, features, schedule, inflation.clone());
        let checkpoint = state.create_checkpoint(epochs.voters());
        let vote_pubkey = solana_signer::Signer::pubkey(&state.keypairs.vote_account);
        let faucet_pubkey = solana_signer::Signer::pubkey(&state.keypairs.faucet);
        let voter = vote::voter(state.ledger.account(&vote_pubkey).as_deref(), &state.keypairs);
        let queue = Arc::new(create_queue(config));
        let account_bytes = Arc::new(state.create_account_bytes(config));
        let simulator = state.create_simulator(config, &history, &clock, &account_bytes);
        let baseline = state.create_baseline(config);
        let faucet = LocalFaucet::new(Arc::clone(&queue), state.keypairs.faucet, config.airdrops);
        let fork_counters = Arc::<ForkCounters>::default();
        let fork_control = LocalForkControl::new(Arc::clone(&queue), Arc::clone(&fork_counters));
        let baseline_bytes = baseline.as_ref().map_or(0, |baseline| baseline.bytes());
        let control = Arc::new(LocalControl::new(Arc::clone(&queue), baseline_bytes));
        let executor = Executor {
            set: state.set,
            ledger: state.ledger,
            reader: state.reader.clone(),
            history: Arc::clone(&history),
            store: state.store,
            sinks: Vec::new(),
            status_cache: state.status_cache,
            tower: state.tower,
            identity: state.keypairs.identity,
            voter,
            vote_account: vote_pubkey,
            epochs,
            timing: BlockTiming::from_config(config),
            skips_blockhash_check: config.skips_blockhash_check,
            clock,
            builder: BlockBuilder::new(state.parent.clone()),
            accounts_sum: state.accounts_sum,
            finalized_slot: root.slot,
            checkpoints: Checkpoints::new(checkpoint, fork_counters),
            newest: root,
            is_written: false,
            unpublished_vote: None,
            unpublished: Vec::new(),
            unpublished_bundles: Vec::new(),
            unpublished_updates: None,
            write_version: 0,
            baseline,
            baseline_bytes_max: config.baseline_bytes_max,
            adopted: AdoptedAccounts::default(),
            account_bytes,
            hidden_statuses: HiddenStatuses::default(),
            retries: Retries::new(Arc::clone(queue.retries())),
            queue: Arc::clone(&queue),
            metrics: Arc::default(),
        };
        Self {
            cluster_info,
            inflation,
            faucet_pubkey,
            mint: state.genesis.mint.map(Pubkey::new_from_array),
            reader: state.reader,
            history,
            receiver: Receiver::new(Arc::clone(&queue)),
            queue,
            simulator: Arc::new(simulator),
            faucet: Arc::new(faucet),
            fork_control: Arc::new(fork_control),
            control,
            executor,
            parent: state.parent,
            lock,
        }
    }

    /// What never changes while the ledger runs.
    pub fn cluster_info(&self) -> &ClusterInfo {
        &self.cluster_info
    }

    /// The cluster of this node alone. `info` is that of [`Self::cluster_info`], with the node's addresses.
    pub fn cluster(&self, info: Arc<ClusterInfo>) -> Arc<dyn Cluster> {
        Arc::new(OneNodeCluster::new(info, self.inflation.clone()))
    }

    /// The rates of inflation.
    pub fn inflation(&self) -> &InflationSchedule {
        &self.inflation
    }

    /// The vote account of this node's validator.
    pub fn vote_account(&self) -> Pubkey {
        self.executor.vote_account
    }

    /// The account that pays airdrops.
    pub fn faucet_pubkey(&self) -> Pubkey {
        self.faucet_pubkey
    }

    /// The node's own key.
    pub fn identity(&self) -> &solana_keypair::Keypair {
        &self.executor.identity
    }

    /// The account that got the lamports of genesis, if there is one.
    pub fn mint(&self) -> Option<Pubkey> {
        self.mint
    }

    /// Reads accounts.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Reads blocks and transactions.
    pub fn history(&self) -> &Arc<History> {
        &self.history
    }

    /// The bytes of accounts in memory, and their limit.
    pub fn account_bytes(&self) -> &Arc<AccountBytes> {
        &self.executor.account_bytes
    }

    /// How the executing thread spends its time.
    pub fn executor_metrics(&self) -> &Arc<ExecutorMetrics> {
        &self.executor.metrics
    }

    /// The transactions that wait for the executing thread.
    pub fn queue(&self) -> &Arc<TransactionQueue> {
        &self.queue
    }

    /// By how much the newest block's time is ahead of the system's clock. `None` below two seconds. Reasons: the
    /// clock was set back, or the ledger comes from a machine with another time.
    pub fn ahead_of_clock(&self) -> Option<Duration> {
        self.executor.clock.lock().ahead(unix_ms())
    }

    /// Accepts transactions.
    pub fn transaction_sender(&self) -> Arc<dyn TransactionSender> {
        Arc::clone(&self.queue) as Arc<dyn TransactionSender>
    }

    /// Accepts bundles.
    pub fn bundle_sender(&self) -> Arc<dyn BundleSender> {
        Arc::clone(&self.queue) as Arc<dyn BundleSender>
    }

    /// Simulates transactions.
    pub fn simulator(&self) -> Arc<dyn Simulator> {
        Arc::clone(&self.simulator) as Arc<dyn Simulator>
    }

    /// Pays airdrops.
    pub fn faucet(&self) -> Arc<dyn Faucet> {
        Arc::clone(&self.faucet) as Arc<dyn Faucet>
    }

    /// Signs airdrops that clients send themselves.
    pub fn signing_faucet(&self) -> Arc<LocalFaucet> {
        Arc::clone(&self.faucet)
    }

    /// Controls its forks.
    pub fn fork_control(&self) -> Arc<dyn ForkControl> {
        Arc::clone(&self.fork_control) as Arc<dyn ForkControl>
    }

    /// Controls the ledger.
    pub fn control(&self) -> Arc<dyn LedgerControl> {
        Arc::clone(&self.control) as Arc<dyn LedgerControl>
    }

    /// Runs the ledger on its own thread and sends events to `sinks`. The first block is open when this
    /// returns.
    pub fn start(
        mut self,
        sinks: Vec<Box<dyn EventSink>>,
    ) -> Result<LocalnetHandle, LocalnetError> {
        if sinks.iter().any(|sink| sink.needs_account_updates()) {
            self.executor.unpublished_updates = Some(Vec::new());
        }
        self.executor.sinks = sinks;
        let executor = &mut self.executor;
        let parent = self.parent;
        catch_panic(|| Ok(executor.open_block(parent)?))?;
        let executor = self.executor;
        let receiver = self.receiver;
        let thread = std::thread::Builder::new()
            .name("executor".into())
            .spawn(move || executor.run(&receiver))
            .map_err(LocalnetError::Thread)?;
        Ok(LocalnetHandle { queue: self.queue, thread, _lock: self.lock })
    }
}

impl LocalnetHandle {
    /// Whether the executing thread has ended. Without [`Self::stop`] it ends only on an error.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Ends after the current transaction and completes the open block. Waiting transactions are dropped and
    /// counted, so the time to stop does not depend on their number.
    pub fn stop(self) -> Result<(), LocalnetError> {
        self.queue.close();
        self.thread.join().map_err(|_| LocalnetError::Panicked)?.map_err(LocalnetError::from)
    }
}

/// Fails if a ledger has too few slots after its newest block.
fn check_head(slot: ledger::Slot) -> Result<(), LocalnetError> {
    if slot > HEAD_SLOT_MAX { Err(LocalnetError::NoSlotLeft { slot }) } else { Ok(()) }
}

fn create_queue(config: &Config) -> TransactionQueue {
    let limits = Limits {
        transactions: config.queue_max as u64,
        compute_units: config.queue_compute_units_max,
    };
    TransactionQueue::new(limits, config.runtime_limits.compute_units)
}

/// Restores the ledger's state of epochs. Vote accounts that were not stored are taken from its newest block.
fn restore_epochs(
    state: &mut InitialState,
    features: FeatureSet,
    schedule: EpochSchedule,
    inflation: InflationSchedule,
) -> Epochs {
    let view = state.reader.view(Commitment::Finalized);
    let vm = state.set.vm();
    let head = &state.parent;
    let slot = head.block.slot;
    let voters = state.voters.take().unwrap_or_else(|| {
        let known = (schedule.get_epoch(slot), schedule.get_leader_schedule_epoch(slot));
        Voters::from_view(&features, &schedule, vm, &view, known)
    });
    if let Some(store) = &mut state.store {
        store.set_epochs(bincode::serialize(&voters).unwrap_or_default());
    }
    let mut epochs = Epochs::new(features, schedule, inflation, voters);
    epochs.resume(vm, &view, head);
    epochs
}

fn genesis_bank(genesis: &Genesis, capitalization: u64) -> BlockInfo {
    let block = BlockId { slot: genesis.slot(), version: 0 };
    BlockInfo {
        block,
        parent: block,
        block_height: 0,
        blockhashes: Arc::new(BlockhashQueue::new(genesis.hash())),
        transaction_count: 0,
        unix_timestamp: genesis.unix_timestamp,
        capitalization,
        bank_hash: Hash::default(),
        hash_components: BankHashComponents::default(),
        complete: false,
    }
}

fn create_store(
    dir: &Path,
    genesis: &Genesis,
    keypairs: &NodeKeypairs,
    reader: &Reader,
    block: &Block,
) -> Result<LedgerStore, LocalnetError> {
    keypairs.write(dir)?;
    let bytes = bincode::serialize(genesis).unwrap_or_default();
    let view = reader.view(Commitment::Finalized);
    let accounts = view.all().filter_map(|(address, account)| {
        // Every address of the ledger is a pubkey.
        Some((Pubkey::try_from(address.as_bytes()).ok()?, account))
    });
    Ok(LedgerStore::create(&dir.join(STORE_DIR), &bytes, accounts, block)?)
}
