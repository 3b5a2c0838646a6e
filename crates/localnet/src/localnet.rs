//! Making a ledger, or reading one back, and running it.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use chain_solana::{
    Block, BlockInfo, BlockhashQueue, ClusterInfo, EventSink, History, Reader, TransactionService,
};
use ledger::{BlockId, Commitment};
use query::{Ledger, LedgerError};
use solana::Account;
use solana_account::{AccountSharedData, ReadableAccount};
use solana_feature_set::FeatureSet;
use solana_pubkey::Pubkey;

use crate::block_builder::BlockBuilder;
use crate::bulk_load::BulkLoader;
use crate::chain_clock::ChainClock;
use crate::config::{Config, ConfigError, HEAD_SLOT_MAX};
use crate::epoch::{self, Epochs, Voters};
use crate::executor::{BlockTiming, Executor, ExecutorError, Parent, now, unix_ms};
use crate::executor_metrics::ExecutorMetrics;
use crate::features::{self, FeatureError};
use crate::from_snapshot::{self, LoadedSnapshot};
use crate::genesis::{Genesis, GenesisError};
use crate::genesis_accounts::{self, GenesisAccountSource, SourceError, guarded};
use crate::keypairs::{KeyError, NodeKeypairs};
use crate::queue::{Limits, Receiver, TransactionQueue};
use crate::restore;
use crate::simulator::Simulator;
use crate::status_cache::StatusCache;
use crate::store::{Opened, Store, StoreError};
use crate::transaction_service::LocalTransactionService;
use crate::vote::{self, Tower};
use crate::working_set::{AccountSource, WorkingSet};

/// What a server may write into a ledger directory about itself.
pub const LOG_FILE: &str = "validator.log";
/// Where the store is within a ledger directory.
const STORE_DIR: &str = "store";

/// Why a ledger could not be opened, or ended.
#[derive(Debug, thiserror::Error)]
pub enum LocalnetError {
    /// A setting is out of its range.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The ledger's newest block leaves hardly a slot for the next ones: an older version let it be warped there.
    #[error(
        "the ledger stands at slot {slot}, after which it cannot go on: at most {HEAD_SLOT_MAX} is opened (start with --reset)"
    )]
    NoSlotLeft {
        /// The slot of its newest block.
        slot: ledger::Slot,
    },
    /// Genesis cannot be.
    #[error(transparent)]
    Genesis(#[from] GenesisError),
    /// The ledger cannot have the features that were chosen.
    #[error(transparent)]
    Features(#[from] FeatureError),
    /// An account to begin with could not be had.
    #[error(transparent)]
    Source(SourceError),
    /// A keypair file of the ledger directory is not one.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The store of the ledger directory refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The ledger has no room for its own accounts.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The ledger directory is there, and holds no ledger of ours.
    #[error("{dir} holds a ledger that this version cannot read: {reason} (start with --reset)")]
    Foreign {
        /// Which directory.
        dir: String,
        /// What was wrong.
        reason: String,
    },
    /// The ledger directory is somebody else's.
    #[error("{dir} holds {name}, which is not ours: give --ledger a directory of its own")]
    NotEmpty {
        /// Which directory.
        dir: String,
        /// What is in it.
        name: String,
    },
    /// A ledger is there, and a snapshot would have to take its place.
    #[error("{dir} holds a ledger already: a snapshot makes a new one (start with --reset)")]
    Exists {
        /// Which directory.
        dir: String,
    },
    /// The directory could not be made.
    #[error("ledger directory {dir}")]
    Dir {
        /// Which directory.
        dir: String,
        /// What the system said.
        #[source]
        err: std::io::Error,
    },
    /// The executing thread could not be started.
    #[error("executing thread")]
    Thread(#[source] std::io::Error),
    /// The executing thread gave up.
    #[error(transparent)]
    Executor(#[from] ExecutorError),
    /// The executing thread panicked; that is our bug.
    #[error("the executing thread panicked")]
    Panicked,
}

/// A ledger that is open and not running yet.
pub struct Localnet {
    cluster: ClusterInfo,
    mint: Option<Pubkey>,
    reader: Reader,
    history: Arc<History>,
    transaction_service: Arc<LocalTransactionService>,
    queue: Arc<TransactionQueue>,
    receiver: Receiver,
    executor: Executor,
    parent: Parent,
}

/// A ledger that runs.
pub struct LocalnetHandle {
    queue: Arc<TransactionQueue>,
    thread: JoinHandle<Result<(), ExecutorError>>,
}

/// What a ledger goes on from.
struct InitialState {
    set: WorkingSet,
    ledger: Ledger<Account, BlockInfo>,
    reader: Reader,
    genesis: Genesis,
    keypairs: NodeKeypairs,
    store: Option<Store>,
    parent: Parent,
    /// The oldest first; never empty.
    blocks: Vec<Arc<Block>>,
    status_cache: StatusCache,
    tower: Tower,
    /// What was kept of vote accounts.
    voters: Option<Voters>,
}

/// Opens the ledger of `config.dir`, or makes one there; in memory if there is none.
pub fn open(config: &Config) -> Result<Localnet, LocalnetError> {
    open_with(config, &mut std::iter::empty())
}

/// As [`builder`]. A new ledger begins with `accounts` as well, taken in one at a time: they win over those
/// of `config`, and the later of two over the earlier. They are not read if the ledger exists.
pub fn open_with(
    config: &Config,
    accounts: &mut GenesisAccountSource<'_>,
) -> Result<Localnet, LocalnetError> {
    config.check()?;
    let start = match &config.dir {
        Some(dir) => match Store::open(&dir.join(STORE_DIR))? {
            Some(opened) => InitialState::restore(config, dir, opened)?,
            None => guarded(|| InitialState::create(config, accounts))?,
        },
        None => guarded(|| InitialState::create(config, accounts))?,
    };
    Localnet::new(config, start)
}

/// Makes the first block of a new ledger in memory, opens the next, and forgets both: what [`open_with`]
/// and [`Localnet::start`] would refuse is refused here, and nothing is written.
pub fn check(
    config: &Config,
    accounts: &mut GenesisAccountSource<'_>,
) -> Result<(), LocalnetError> {
    let config = Config { dir: None, ..config.clone() };
    let mut localnet = open_with(&config, accounts)?;
    guarded(|| Ok(localnet.executor.open_block(localnet.parent)?))
}

/// Makes a ledger whose first block is the one that `loaded` was taken at, in `config.dir` or in
/// memory. Its accounts are those of the snapshot, and on top the node's own: faucet, identity, vote
/// and stake account, and what `config` asks for at genesis.
pub fn open_snapshot(config: &Config, loaded: LoadedSnapshot) -> Result<Localnet, LocalnetError> {
    open_snapshot_with(config, loaded, &mut std::iter::empty())
}

/// As [`open_snapshot`], with `accounts` on top as [`open_with`] has them.
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
    check_head(loaded.snapshot.bank.slot)?;
    let start = guarded(|| InitialState::from_snapshot(config, loaded, accounts))?;
    Localnet::new(config, start)
}

/// Whether a directory holds a ledger of ours, readable or not.
pub fn contains_ledger(dir: &Path) -> Result<bool, LocalnetError> {
    Ok(<Store>::is_in(&dir.join(STORE_DIR))?)
}

/// Empties a ledger directory: its store and its keys go, what else is there stays.
pub fn reset_directory(dir: &Path) -> Result<(), LocalnetError> {
    <Store>::remove(&dir.join(STORE_DIR))?;
    Ok(NodeKeypairs::remove(dir)?)
}

impl InitialState {
    fn create(
        config: &Config,
        accounts: &mut GenesisAccountSource<'_>,
    ) -> Result<Self, LocalnetError> {
        config.accounts.iter().try_for_each(genesis_accounts::check_account)?;
        let keys = NodeKeypairs::generate();
        let mut genesis = Genesis::new(config, &keys, unix_ms().div_euclid(1_000));
        genesis.ensure_mint();
        let active = features::chosen(&config.features);
        let mut vm = genesis.build(config, &keys, active.clone())?;
        let mut filling = BulkLoader::new(config, genesis_bank(&genesis, 0));
        let is_there = |account: &AccountSharedData| account.lamports() > 0;
        for (key, account) in vm.accounts().filter(|(_, account)| is_there(account)) {
            filling.add(*key, Account(account.clone()))?;
        }
        genesis_accounts::load_genesis_accounts(config, &mut vm, &mut filling, accounts)?;
        drop(vm);
        filling.check_lamports()?;
        let set = WorkingSet::new(filling.ledger()?, active);
        let bank = genesis_bank(&genesis, filling.lamports());
        let (block, bank) = BlockBuilder::new(bank, genesis.hash()).complete();
        // Transactions name the genesis hash first of all, as on a cluster.
        let block = Block { blockhash: genesis.hash(), ..block };
        let bank = BlockInfo { blockhashes: Arc::new(BlockhashQueue::new(genesis.hash())), ..bank };
        Self::with_first_block(config, (genesis, keys), (block, bank), filling, set)
    }

    fn from_snapshot(
        config: &Config,
        loaded: LoadedSnapshot,
        accounts: &mut GenesisAccountSource<'_>,
    ) -> Result<Self, LocalnetError> {
        config.accounts.iter().try_for_each(genesis_accounts::check_account)?;
        let LoadedSnapshot { snapshot, loader: mut filling } = loaded;
        let keys = NodeKeypairs::generate();
        let genesis = Genesis::new(config, &keys, snapshot.bank.genesis_unix_timestamp);
        let (lamports, mut set) = from_snapshot::complete(config, &keys, &snapshot, &mut filling)?;
        filling.set_lamports(lamports);
        if genesis_accounts::load_genesis_accounts(config, set.vm_mut(), &mut filling, accounts)? {
            let active = set.vm().features().clone();
            set = WorkingSet::new(filling.ledger()?, active);
        }
        filling.check_lamports()?;
        let lamports = filling.lamports();
        let first = from_snapshot::first_block(&snapshot.bank, set.vm(), lamports);
        Self::with_first_block(config, (genesis, keys), first, filling, set)
    }

    /// A new ledger, kept if `config` says where.
    fn with_first_block(
        config: &Config,
        (genesis, keys): (Genesis, NodeKeypairs),
        (block, bank): (Block, BlockInfo),
        filling: BulkLoader,
        set: WorkingSet,
    ) -> Result<Self, LocalnetError> {
        let (ledger, reader) = filling.finish(bank.clone())?;
        let dir = config.dir.as_deref();
        let store =
            dir.map(|dir| create_store(dir, &genesis, &keys, &reader, &block)).transpose()?;
        let mut statuses = StatusCache::default();
        statuses.start_block(block.id.slot);
        Ok(Self {
            set,
            ledger,
            reader,
            genesis,
            keypairs: keys,
            store,
            parent: Parent { bank, bank_hash: block.bank_hash },
            blocks: vec![Arc::new(block)],
            status_cache: statuses,
            tower: Tower::default(),
            voters: None,
        })
    }

    fn restore(config: &Config, dir: &Path, opened: Opened) -> Result<Self, LocalnetError> {
        let foreign =
            |reason: String| LocalnetError::Foreign { dir: dir.display().to_string(), reason };
        let keys = NodeKeypairs::read(dir)?;
        let genesis =
            Genesis::read(&opened.genesis).map_err(|err| foreign(format!("genesis: {err}")))?;
        let blocks = opened.blocks.clone();
        check_head(blocks.last().map_or(0, |block| block.id.slot))?;
        let voters = opened.epochs.as_deref().map(bincode::deserialize).transpose();
        let voters = voters.map_err(|err| foreign(format!("epochs: {err}")))?;
        let parent = |capitalization| {
            restore::head(&blocks, capitalization).ok_or_else(|| foreign("no block".into()))
        };
        let mut filling = BulkLoader::new(config, parent(0)?.bank);
        let mut added = Ok(());
        let store = opened.read(|key, account| {
            if added.is_ok() {
                added = filling.add(key, account);
            }
        })?;
        added?;
        if let Some(what) = from_snapshot::missing(filling.ledger()?) {
            return Err(foreign(format!("no {what}")));
        }
        let active = features::from_accounts(filling.ledger()?);
        features::check(&config.features, &active)?;
        let set = WorkingSet::new(filling.ledger()?, active);
        let lacking = filling.missing_accounts(set.vm())?;
        let (more, _) = filling.replace(set.vm(), &lacking)?;
        let parent = parent(filling.lamports().saturating_add(more))?;
        let vote_account = solana_signer::Signer::pubkey(&keys.vote_account);
        let tower = restore::tower(filling.ledger()?, &vote_account);
        let (ledger, reader) = filling.finish(parent.bank.clone())?;
        Ok(Self {
            status_cache: restore::status_cache(&blocks),
            tower,
            voters,
            set,
            ledger,
            reader,
            genesis,
            keypairs: keys,
            store: Some(store),
            parent,
            blocks,
        })
    }
}

impl Localnet {
    fn new(config: &Config, mut start: InitialState) -> Result<Self, LocalnetError> {
        let root = start.parent.bank.block;
        let clock = ChainClock::new(start.parent.bank.unix_timestamp, now());
        let history = Arc::new(History::new(config.history));
        for block in &start.blocks {
            history.record_transactions(&block.transactions);
            history.record_block(block);
        }
        history.publish();

        let first_slot = start.blocks.first().map_or(0, |block| block.id.slot);
        let features = epoch::active_features(&start.ledger);
        let vm = start.set.vm();
        let cluster = start.genesis.cluster(config, &start.keypairs, vm, &features, first_slot);
        let epochs = restore_epochs(&mut start, features, &cluster);
        let vote_account = start.ledger.account(&cluster.vote_account);
        let voter = vote::voter(vote_account.as_deref(), &start.keypairs);
        let queue = Arc::new(TransactionQueue::new(Limits {
            transactions: config.queue_max as u64,
            compute_units: config.queue_compute_units_max,
        }));
        let simulator = Simulator::new(start.set.clone_programs(), config.simulators);
        let door = LocalTransactionService::new(
            Arc::clone(&queue),
            simulator,
            start.reader.clone(),
            Arc::clone(&history),
            start.keypairs.faucet,
            config.airdrop_lamports_max,
        );
        let executor = Executor {
            set: start.set,
            ledger: start.ledger,
            reader: start.reader.clone(),
            history: Arc::clone(&history),
            store: start.store,
            sinks: Vec::new(),
            status_cache: start.status_cache,
            tower: start.tower,
            identity: start.keypairs.identity,
            voter,
            vote_account: cluster.vote_account,
            epochs,
            timing: BlockTiming {
                slot_ms: config.slot_ms,
                finalize_after: config.finalize_after,
                warp_slot: config.warp_slot,
            },
            clock,
            builder: BlockBuilder::new(start.parent.bank.clone(), start.parent.bank_hash),
            finalized_slot: root.slot,
            unfinalized: VecDeque::new(),
            unpublished_vote: None,
            unpublished: Vec::new(),
            metrics: Arc::default(),
        };
        let mint = start.genesis.mint.map(Pubkey::new_from_array);
        let (parent, reader) = (start.parent, start.reader);
        let receiver = Receiver::new(Arc::clone(&queue));
        Ok(Self {
            cluster,
            mint,
            reader,
            history,
            transaction_service: door,
            queue,
            receiver,
            executor,
            parent,
        })
    }

    /// What never changes while the ledger runs.
    pub fn cluster(&self) -> &ClusterInfo {
        &self.cluster
    }

    /// The node's own key.
    pub fn identity(&self) -> &solana_keypair::Keypair {
        &self.executor.identity
    }

    /// Who got the lamports of genesis, if anybody did.
    pub fn mint(&self) -> Option<Pubkey> {
        self.mint
    }

    /// Where accounts are read.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Where blocks and transactions are read.
    pub fn history(&self) -> &Arc<History> {
        &self.history
    }

    /// Where the executing thread's time goes.
    pub fn executor_metrics(&self) -> &Arc<ExecutorMetrics> {
        &self.executor.metrics
    }

    /// What waits for the executing thread.
    pub fn queue(&self) -> &Arc<TransactionQueue> {
        &self.queue
    }

    /// By how much the newest block's time is ahead of the system's clock, if it is by seconds: the clock was set
    /// back, or the ledger comes from a machine with another time.
    pub fn ahead_of_clock(&self) -> Option<Duration> {
        self.executor.clock.ahead(unix_ms())
    }

    /// Where transactions are sent.
    pub fn transaction_service(&self) -> Arc<dyn TransactionService> {
        Arc::clone(&self.transaction_service) as Arc<dyn TransactionService>
    }

    /// Runs the ledger on a thread of its own, telling `sinks` what happens. The first block is open
    /// when this returns.
    pub fn start(
        mut self,
        sinks: Vec<Box<dyn EventSink>>,
    ) -> Result<LocalnetHandle, LocalnetError> {
        self.executor.sinks = sinks;
        let (executor, parent) = (&mut self.executor, self.parent);
        guarded(|| Ok(executor.open_block(parent)?))?;
        let (executor, receiver) = (self.executor, self.receiver);
        let thread = std::thread::Builder::new()
            .name("executor".into())
            .spawn(move || executor.run(&receiver))
            .map_err(LocalnetError::Thread)?;
        Ok(LocalnetHandle { queue: self.queue, thread })
    }
}

impl LocalnetHandle {
    /// Whether the executing thread has ended, which it does by itself only on an error.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Ends after the transaction that is being executed, and completes the open block. Those that wait are dropped
    /// and counted: however many they are, the end does not wait for them.
    pub fn stop(self) -> Result<(), LocalnetError> {
        self.queue.close();
        self.thread.join().map_err(|_| LocalnetError::Panicked)?.map_err(LocalnetError::from)
    }
}

/// Whether a ledger can go on from its newest block.
fn check_head(slot: ledger::Slot) -> Result<(), LocalnetError> {
    if slot > HEAD_SLOT_MAX { Err(LocalnetError::NoSlotLeft { slot }) } else { Ok(()) }
}

/// What the ledger knows of its epochs. Vote accounts that were not kept are those of its newest block.
fn restore_epochs(start: &mut InitialState, features: FeatureSet, cluster: &ClusterInfo) -> Epochs {
    let view = start.reader.view(Commitment::Finalized);
    let (schedule, vm, head) = (&cluster.epoch_schedule, start.set.vm(), &start.parent.bank);
    let slot = head.block.slot;
    let voters = start.voters.take().unwrap_or_else(|| {
        let known = (schedule.get_epoch(slot), schedule.get_leader_schedule_epoch(slot));
        Voters::from_view(&features, schedule, vm, &view, known)
    });
    if let Some(store) = &mut start.store {
        store.set_epochs(bincode::serialize(&voters).unwrap_or_default());
    }
    let mut epochs = Epochs::new(features, schedule.clone(), cluster.inflation.clone(), voters);
    epochs.resume(vm, &view, head);
    epochs
}

fn genesis_bank(genesis: &Genesis, capitalization: u64) -> BlockInfo {
    BlockInfo {
        block: BlockId { slot: 0, bank: 0 },
        parent_slot: 0,
        block_height: 0,
        blockhashes: Arc::new(BlockhashQueue::new(genesis.hash())),
        transaction_count: 0,
        unix_timestamp: genesis.unix_timestamp,
        capitalization,
        complete: false,
    }
}

fn create_store(
    dir: &Path,
    genesis: &Genesis,
    keys: &NodeKeypairs,
    reader: &Reader,
    block: &Block,
) -> Result<Store, LocalnetError> {
    let dir_error = |err| LocalnetError::Dir { dir: dir.display().to_string(), err };
    std::fs::create_dir_all(dir).map_err(dir_error)?;
    for entry in std::fs::read_dir(dir).map_err(dir_error)? {
        let name = entry.map_err(dir_error)?.file_name();
        if name != STORE_DIR && name != LOG_FILE && !NodeKeypairs::is_file(&name) {
            return Err(LocalnetError::NotEmpty {
                dir: dir.display().to_string(),
                name: name.display().to_string(),
            });
        }
    }
    keys.write(dir)?;
    let bytes = bincode::serialize(genesis).unwrap_or_default();
    let view = reader.view(Commitment::Finalized);
    let accounts = view.all().filter_map(|(address, account)| {
        // Every address of the ledger is a pubkey.
        Some((Pubkey::try_from(address.as_bytes()).ok()?, account))
    });
    Ok(Store::create(&dir.join(STORE_DIR), &bytes, accounts, block)?)
}
