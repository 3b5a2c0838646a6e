//! A node on a hand-made ledger, served on loopback.
//!
//! The ledger: slot 100 is finalized, slot 101 confirmed, slot 102 open. `WALLET` has 1, 2 and 3 SOL
//! at the three commitments; everything else is the same at each.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Instant;

use chain_solana::{
    AirdropError, BankHashComponents, BlockInfo, BlockhashQueue, ComputedVerification, Faucet,
    History, HistoryLimits, InflationSchedule, OneNodeCluster, QueueBound, SendError, Sender,
    Simulation, SimulationError, SimulationRequest, Simulator, TransactionSender,
    VerifiedTransaction, View, WrittenAccounts,
};
use http_server::{Listeners, Socket, WebSocketHandler};
use jsonrpc::{Health, SystemClock};
use ledger::{Address, BlockId, Change};
use parking_lot::Mutex;
use pool::{
    Class, ClassCounters, ClientId, Clock, Counters, Pool, RateLimiter, Task, TaskPoll, TimeSlice,
};
use query::{IndexConfig, LedgerConfig};
use rpc_solana::{Config, SolanaApi, SolanaServer};
use solana::Account;
use solana_account::AccountSharedData;
use solana_hash::Hash;
use solana_program_pack::Pack;
use solana_pubkey::Pubkey;
use solana_signature::Signature;
use spl_token_interface::state::{Account as Token, AccountState, Mint};
use testkit::cluster_info::cluster_info;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use crate::wire::IO_TIMEOUT;

pub(crate) const SOL: u64 = 1_000_000_000;
pub(crate) const FINALIZED: u64 = 100;
pub(crate) const CONFIRMED: u64 = 101;
pub(crate) const PROCESSED: u64 = 102;
/// The clock of every block.
pub(crate) const NOW: i64 = 1_700_000_000;
pub(crate) const CAPITALIZATION: u64 = 500 * SOL;

pub(crate) const WALLET: Pubkey = Pubkey::new_from_array([1; 32]);
pub(crate) const OTHER_WALLET: Pubkey = Pubkey::new_from_array([2; 32]);
pub(crate) const DELEGATE: Pubkey = Pubkey::new_from_array([3; 32]);
pub(crate) const PROGRAM: Pubkey = Pubkey::new_from_array([9; 32]);
/// A mint of the older token program: 2 decimals, a supply of 1,000.
pub(crate) const MINT: Pubkey = Pubkey::new_from_array([10; 32]);
/// A mint of Token-2022 without decimals.
pub(crate) const NEW_MINT: Pubkey = Pubkey::new_from_array([11; 32]);
/// 700 of `MINT` for `WALLET`, 50 of it delegated to `DELEGATE`.
pub(crate) const TOKEN: Pubkey = Pubkey::new_from_array([20; 32]);
/// 300 of `MINT` for `OTHER_WALLET`.
pub(crate) const OTHER_TOKEN: Pubkey = Pubkey::new_from_array([21; 32]);
/// 5 of `NEW_MINT` for `WALLET`.
pub(crate) const NEW_TOKEN: Pubkey = Pubkey::new_from_array([22; 32]);
/// An account of the token program that is not a token account.
pub(crate) const ODD_TOKEN: Pubkey = Pubkey::new_from_array([23; 32]);
/// Accounts of `PROGRAM` with the bytes 0, 1, 2, ….
pub(crate) const DATA: [Pubkey; 3] = [
    Pubkey::new_from_array([30; 32]),
    Pubkey::new_from_array([31; 32]),
    Pubkey::new_from_array([32; 32]),
];
/// Their lengths in bytes.
pub(crate) const DATA_BYTES: [usize; 3] = [9, 129, 100_000];
/// A stake account of 7 SOL, locked until long after `NOW`.
pub(crate) const LOCKED_STAKE: Pubkey = Pubkey::new_from_array([40; 32]);
/// A stake account of 8 SOL that is free.
pub(crate) const FREE_STAKE: Pubkey = Pubkey::new_from_array([41; 32]);

/// A served node. Dropping it stops the server.
pub(crate) struct World {
    pub(crate) node: Arc<SolanaServer>,
    pub(crate) transaction_service: Arc<FakeTransactionService>,
    pub(crate) rpc: SocketAddr,
    pub(crate) pubsub: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    served: Option<oneshot::Receiver<()>>,
    runtime: Runtime,
}

impl World {
    /// A node with the default limits.
    pub(crate) fn new() -> Self {
        Self::with(Config::default(), pool::Config::default())
    }

    /// A node with these indices.
    pub(crate) fn indexed(indices: IndexConfig) -> Self {
        Self::on(ledger(indices), Config::default(), pool::Config::default())
    }

    pub(crate) fn with(config: Config, pool: pool::Config) -> Self {
        Self::on(ledger(IndexConfig::default()), config, pool)
    }

    pub(crate) fn on(reader: chain_solana::Reader, config: Config, pool: pool::Config) -> Self {
        Self::on_with(reader, config, pool, None)
    }

    /// A node with an HTTP API in addition to JSON-RPC on its port.
    pub(crate) fn on_with(
        reader: chain_solana::Reader,
        config: Config,
        pool: pool::Config,
        web: Option<Arc<dyn jsonrpc::HttpApi<rpc_solana::SolanaApi>>>,
    ) -> Self {
        Self::timed(reader, config, pool, web, (Arc::new(SystemClock::new()), Health::default()))
    }

    /// A node with a response cache of `cache_bytes`.
    pub(crate) fn cached(reader: chain_solana::Reader, cache_bytes: u64) -> Self {
        let time: (Arc<dyn Clock>, _) = (Arc::new(SystemClock::new()), Health::default());
        Self::caching(reader, Config::default(), pool::Config::default(), None, time, cache_bytes)
    }

    /// A node with the clock of a test.
    pub(crate) fn timed(
        reader: chain_solana::Reader,
        config: Config,
        pool: pool::Config,
        web: Option<Arc<dyn jsonrpc::HttpApi<rpc_solana::SolanaApi>>>,
        time: (Arc<dyn Clock>, Health),
    ) -> Self {
        Self::caching(reader, config, pool, web, time, 1 << 24)
    }

    /// A node with a clock and a response cache of `cache_bytes_max`.
    pub(crate) fn caching(
        reader: chain_solana::Reader,
        config: Config,
        pool: pool::Config,
        web: Option<Arc<dyn jsonrpc::HttpApi<rpc_solana::SolanaApi>>>,
        (clock, health): (Arc<dyn Clock>, Health),
        cache_bytes_max: u64,
    ) -> Self {
        let transaction_service = Arc::new(FakeTransactionService::default());
        let clients = Arc::new(RateLimiter::new(pool.clients));
        let cluster_info = Arc::new(cluster_info());
        let inflation = InflationSchedule::default();
        let history = history(&reader);
        let verification = ComputedVerification::new(reader.clone(), Arc::clone(&history));
        let api = SolanaApi {
            verification: Arc::new(verification),
            cluster: Arc::new(OneNodeCluster::new(Arc::clone(&cluster_info), inflation)),
            cluster_info,
            history,
            reader,
            transaction_sender: Arc::clone(&transaction_service) as Arc<dyn TransactionSender>,
            simulator: Arc::clone(&transaction_service) as Arc<dyn Simulator>,
            faucet: Some(Arc::clone(&transaction_service) as Arc<dyn Faucet>),
            fork_control: None,
            upstream: None,
            account_upstream: None,
            snapshots: None,
            notified: Arc::default(),
            older_statuses: None,
            bundles: Arc::default(),
            cheatcodes: Arc::default(),
            pool: Arc::new(Pool::new(pool, clock, || {}).expect("threads")),
            health: Arc::new(health),
            metrics: SolanaApi::new_metrics(),
            config,
        };
        let response_cache = response_cache::ResponseCache::new(cache_bytes_max);
        let node = Arc::new(api.into_server(Arc::new(response_cache), clients));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let bind = || runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a port");
        let (rpc, pubsub) = (bind(), bind());
        let addresses = (rpc.local_addr().expect("bound"), pubsub.local_addr().expect("bound"));
        let listeners = Listeners { rpc, pubsub: Some(pubsub) };
        let (stop, stopped) = oneshot::channel();
        let (ended, served) = oneshot::channel();
        let serving = Arc::clone(&node);
        runtime.spawn(async move {
            let stopped = async move { drop(stopped.await) };
            let greeter = Arc::new(Greeter);
            jsonrpc::serve(serving, greeter, web, listeners, stopped).await;
            let _ = ended.send(());
        });
        Self {
            node,
            transaction_service,
            rpc: addresses.0,
            pubsub: addresses.1,
            stop: Some(stop),
            served: Some(served),
            runtime,
        }
    }

    pub(crate) fn client(&self) -> crate::wire::Client {
        crate::wire::Client::connect(self.rpc)
    }

    /// Occupies the pool's only thread until the returned value is dropped.
    pub(crate) fn occupy_pool(&self) -> Occupied {
        let (release, released): (_, Receiver<()>) = sync_channel(0);
        let (started, start) = sync_channel(1);
        let task = Box::new(Occupier { started, release: released });
        let ticket = self.node.context.pool.submit(Class::Light, ClientId(0), task);
        let ticket = ticket.unwrap_or_else(|full| panic!("{full}"));
        start.recv_timeout(IO_TIMEOUT).expect("the pool works");
        Occupied { _release: release, _ticket: ticket }
    }

    /// Queues a task that occupies the pool's thread until the returned value is dropped.
    pub(crate) fn queue(&self, class: Class, client: ClientId) -> Occupied {
        let (release, released): (_, Receiver<()>) = sync_channel(0);
        let (started, _start) = sync_channel(1);
        let ticket = self.node.context.pool.submit(
            class,
            client,
            Box::new(Occupier { started, release: released }),
        );
        let ticket = ticket.unwrap_or_else(|full| panic!("{full}"));
        Occupied { _release: release, _ticket: ticket }
    }

    /// Waits until the counters of the pool satisfy `until`.
    #[expect(clippy::disallowed_methods, reason = "patience is a matter of time")]
    pub(crate) fn wait_pool(&self, until: impl Fn(&Counters) -> bool) {
        let started = Instant::now();
        while !until(&self.node.context.pool.counters()) {
            assert!(started.elapsed() < IO_TIMEOUT, "{:?}", self.node.context.pool.counters());
            std::thread::yield_now();
        }
    }

    /// Waits until the counters of the response cache satisfy `until`.
    #[expect(clippy::disallowed_methods, reason = "patience is a matter of time")]
    pub(crate) fn wait_response_cache(&self, until: impl Fn(&cache::Counters) -> bool) {
        let started = Instant::now();
        while !until(&self.node.context.response_cache.counters()) {
            assert!(
                started.elapsed() < IO_TIMEOUT,
                "{:?}",
                self.node.context.response_cache.counters()
            );
            std::thread::yield_now();
        }
    }

    /// The counters of a class of the pool.
    pub(crate) fn class(&self, class: Class) -> ClassCounters {
        *self.node.context.pool.counters().class(class)
    }

    /// Starts the shutdown of the server.
    pub(crate) fn stop(&mut self) {
        drop(self.stop.take());
    }

    /// Waits until the server has stopped.
    pub(crate) fn wait_stopped(&mut self) {
        let served = self.served.take().expect("waited for once");
        let waited =
            self.runtime.block_on(async { tokio::time::timeout(IO_TIMEOUT, served).await });
        waited.expect("the server stops in time").expect("the server does not panic");
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let panicked = self.node.context.metrics.connections_panicked();
            assert_eq!(panicked, 0, "connections panicked; a poll may have done too much");
        }
    }
}

/// Occupies a thread of the pool. The fields are dropped in this order.
pub(crate) struct Occupied {
    _release: SyncSender<()>,
    _ticket: pool::Ticket,
}

struct Occupier {
    started: SyncSender<()>,
    release: Receiver<()>,
}

impl Task for Occupier {
    fn poll(&mut self, _: &TimeSlice<'_>) -> TaskPoll {
        // The test may not wait for it.
        let _ = self.started.send(());
        let _ = self.release.recv();
        TaskPoll::Done
    }
}

/// Sends "hello" and the client id, then closes the WebSocket.
struct Greeter;

impl WebSocketHandler for Greeter {
    fn handle(
        self: Arc<Self>,
        socket: Socket,
        client: ClientId,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            let mut socket = hyper_util::rt::TokioIo::new(socket.into_inner());
            let _ = socket.write_all(format!("hello {client}").as_bytes()).await;
            let _ = socket.shutdown().await;
        })
    }
}

/// A transaction service that accepts everything, does nothing, and counts.
#[derive(Default)]
pub(crate) struct FakeTransactionService {
    pub(crate) sent: AtomicUsize,
    /// The senders of all transactions and airdrops.
    pub(crate) senders: Mutex<Vec<Sender>>,
    pub(crate) simulated: AtomicUsize,
    /// Whether its queue is full.
    pub(crate) is_full: AtomicBool,
    /// The result of every simulation. If `None`, simulations fail.
    pub(crate) simulation: Mutex<Option<Simulation>>,
}

impl FakeTransactionService {
    fn check_queue(&self) -> Result<(), SendError> {
        match self.is_full.load(Ordering::SeqCst) {
            true => {
                Err(SendError::QueueFull { bound: QueueBound::Transactions, queued: 8, limit: 8 })
            }
            false => Ok(()),
        }
    }
}

impl TransactionSender for FakeTransactionService {
    fn send(&self, sender: Sender, _: VerifiedTransaction) -> Result<(), SendError> {
        self.senders.lock().push(sender);
        self.check_queue()?;
        self.sent.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

impl Simulator for FakeTransactionService {
    fn simulate_after(
        &self,
        view: &View,
        _: &WrittenAccounts,
        _: SimulationRequest,
    ) -> Result<Simulation, SimulationError> {
        self.simulated.fetch_add(1, Ordering::SeqCst);
        if let Some(simulation) = &*self.simulation.lock() {
            return Ok(simulation.clone());
        }
        Err(SimulationError::Sanitize(format!("simulated at {}", view.block().slot)))
    }
}

impl Faucet for FakeTransactionService {
    fn airdrop(
        &self,
        sender: Sender,
        _: Pubkey,
        lamports: u64,
        _: Hash,
    ) -> Result<Signature, AirdropError> {
        self.senders.lock().push(sender);
        if lamports > 1_000 * SOL {
            return Err(AirdropError::TooMuch { lamports, limit: 1_000 * SOL });
        }
        self.check_queue().map_err(AirdropError::Send)?;
        Ok(Signature::from([7; 64]))
    }
}

/// A history without blocks, with the tips of the ledger.
fn history(reader: &chain_solana::Reader) -> Arc<History> {
    let views = reader.views();
    let limits = HistoryLimits { slots_max: 100, bytes_max: 1 << 20 };
    let history = History::new(limits, views.finalized.block());
    history.set_tip(views.processed.block());
    history.confirm(views.confirmed.block());
    history.publish();
    Arc::new(history)
}

pub(crate) fn block(slot: u64) -> BlockId {
    BlockId { slot, version: slot }
}

pub(crate) fn bank(slot: u64) -> Arc<BlockInfo> {
    Arc::new(BlockInfo {
        block: block(slot),
        parent: block(slot - 1),
        block_height: slot - 10,
        blockhashes: Arc::new(BlockhashQueue::new(Hash::new_from_array([6; 32]))),
        transaction_count: slot * 10,
        unix_timestamp: NOW,
        capitalization: CAPITALIZATION,
        bank_hash: Hash::default(),
        hash_components: BankHashComponents::default(),
        complete: slot < PROCESSED,
    })
}

pub(crate) fn ledger(indices: IndexConfig) -> chain_solana::Reader {
    let config = LedgerConfig { addresses_max: 10_000, indices };
    let (mut ledger, reader) = query::Ledger::new(config, block(FINALIZED), bank(FINALIZED));
    let change = |pubkey: Pubkey, account: AccountSharedData| Change {
        address: Address::from(pubkey.to_bytes()),
        record: Account(account).into_record(),
    };
    let mut accounts: Vec<_> = genesis().into_iter().map(|(key, it)| change(key, it)).collect();
    accounts.push(change(WALLET, plain(SOL)));
    ledger.apply(block(FINALIZED), accounts, bank(FINALIZED)).expect("the root takes accounts");
    ledger.publish();
    for (slot, sol) in [(CONFIRMED, 2), (PROCESSED, 3)] {
        ledger.open(block(slot), block(slot - 1), bank(slot)).expect("open");
        let wallet = vec![change(WALLET, plain(sol * SOL))];
        ledger.apply(block(slot), wallet, bank(slot)).expect("apply");
        if slot == CONFIRMED {
            ledger.complete(block(slot), bank(slot)).expect("complete");
            ledger.confirm(block(slot)).expect("it is complete");
        }
    }
    ledger.publish();
    reader
}

fn genesis() -> Vec<(Pubkey, AccountSharedData)> {
    let mut accounts = vec![
        (OTHER_WALLET, plain(4 * SOL)),
        (MINT, with_data(spl_token_interface::id(), &mint(2, 1_000))),
        (NEW_MINT, with_data(spl_token_2022_interface::id(), &mint(0, 5))),
        (TOKEN, with_data(spl_token_interface::id(), &token(MINT, WALLET, 700, Some(DELEGATE)))),
        (OTHER_TOKEN, with_data(spl_token_interface::id(), &token(MINT, OTHER_WALLET, 300, None))),
        (NEW_TOKEN, with_data(spl_token_2022_interface::id(), &token(NEW_MINT, WALLET, 5, None))),
        (ODD_TOKEN, with_data(spl_token_interface::id(), &[1, 2, 3])),
        (LOCKED_STAKE, stake(7 * SOL, NOW + 1_000)),
        (FREE_STAKE, stake(8 * SOL, NOW - 1_000)),
    ];
    for (pubkey, bytes) in DATA.into_iter().zip(DATA_BYTES) {
        let data: Vec<u8> = (0..bytes).map(|byte| byte as u8).collect();
        accounts.push((pubkey, with_data(PROGRAM, &data)));
    }
    accounts
}

fn plain(lamports: u64) -> AccountSharedData {
    AccountSharedData::new(lamports, 0, &solana_sdk_ids::system_program::id())
}

pub(crate) fn with_data(owner: Pubkey, data: &[u8]) -> AccountSharedData {
    let mut account = AccountSharedData::new(SOL / 100, 0, &owner);
    account.set_data_from_slice(data);
    account
}

pub(crate) fn mint(decimals: u8, supply: u64) -> Vec<u8> {
    let mint = Mint { decimals, supply, is_initialized: true, ..Mint::default() };
    let mut data = vec![0; Mint::LEN];
    Mint::pack(mint, &mut data).expect("it fits");
    data
}

pub(crate) fn token(mint: Pubkey, owner: Pubkey, amount: u64, delegate: Option<Pubkey>) -> Vec<u8> {
    let token = Token {
        mint,
        owner,
        amount,
        delegate: delegate.into(),
        delegated_amount: if delegate.is_some() { 50 } else { 0 },
        state: AccountState::Initialized,
        ..Token::default()
    };
    let mut data = vec![0; Token::LEN];
    Token::pack(token, &mut data).expect("it fits");
    data
}

/// An initialized stake account without authorities, with a lockup until `unlocks`.
fn stake(lamports: u64, unlocks: i64) -> AccountSharedData {
    let mut data = vec![0; 200];
    data[0] = 1;
    data[76..84].copy_from_slice(&unlocks.to_le_bytes());
    let mut account = with_data(solana_sdk_ids::stake::id(), &data);
    solana_account::WritableAccount::set_lamports(&mut account, lamports);
    account
}
