//! A node whose ledger is driven by the test: blocks are opened, filled, completed and finalized by
//! hand, and each event is sent as a ledger sends it, after readers can see its effects.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use chain_solana::{
    AccountWrite, BankHashComponents, Block, BlockInfo, BlockhashQueue, ClusterInfo, EventSink,
    ExecutedTransaction, History, HistoryLimits, LedgerEvent, Reader,
};
use futures_util::{SinkExt, StreamExt};
use jsonrpc::SystemClock;
use jsonrpc::pubsub::{Stats, serve_connection};
use ledger::{Address, BlockId, Change, KeyKind, Record, Slot, StoredRecord};
use pool::{ClientId, Limits, Pool, RateLimiter};
use query::{Ledger, LedgerConfig};
use rpc_solana::pubsub::{self, Config, EventSender, SolanaPubSub};
use serde_json::{Value, json};
use solana::Account;
use solana_account::AccountSharedData;
use solana_hash::Hash;
use solana_message::VersionedMessage;
use solana_pubkey::Pubkey;
use solana_signature::Signature;
use solana_transaction::versioned::VersionedTransaction;
use solana_transaction_error::TransactionError;
use solana_transaction_status::TransactionStatusMeta;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role};
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

/// Longer than any step of a test takes. A test that waits so long has failed.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(20);

/// The slot of the event that marks that all events before it have been published.
const MARK: Slot = 999_999_999;

pub(crate) struct Node {
    pub(crate) pubsub: Arc<SolanaPubSub>,
    /// A client may have one heavy task at a time.
    pub(crate) pool: Arc<Pool>,
    /// The client id of connections from now on.
    pub(crate) next_client: Arc<AtomicU64>,
    pub(crate) reader: Reader,
    pub(crate) history: Arc<History>,
    pub(crate) event_sender: EventSender,
    address: SocketAddr,
    ledger: Ledger<Account, BlockInfo>,
    tip: Slot,
    transactions: Vec<Arc<ExecutedTransaction>>,
    writes: Vec<AccountWrite>,
    /// The keys of each account. A test writes an account once in a block.
    accounts: HashMap<Pubkey, Vec<(KeyKind, Address)>>,
    complete: VecDeque<Arc<Block>>,
    _server: JoinSet<()>,
}

/// A transaction to be executed.
pub(crate) struct Tx<'a> {
    pub(crate) signature: Signature,
    pub(crate) keys: &'a [Pubkey],
    pub(crate) logs: &'a [&'a str],
    pub(crate) err: Option<TransactionError>,
    pub(crate) is_vote: bool,
    /// The accounts that it writes; `None` closes an account.
    pub(crate) writes: Vec<(Pubkey, Option<AccountSharedData>)>,
}

impl Tx<'_> {
    pub(crate) fn new(n: u8) -> Self {
        Self {
            signature: signature(n),
            keys: &[],
            logs: &[],
            err: None,
            is_vote: false,
            writes: Vec::new(),
        }
    }
}

pub(crate) fn signature(n: u8) -> Signature {
    Signature::from([n; 64])
}

pub(crate) fn key(n: u8) -> Pubkey {
    Pubkey::new_from_array([n; 32])
}

/// An account of `owner` with those data.
pub(crate) fn account(lamports: u64, owner: Pubkey, data: &[u8]) -> Option<AccountSharedData> {
    let mut account = AccountSharedData::new(lamports, 0, &owner);
    account.set_data_from_slice(data);
    Some(account)
}

impl Node {
    pub(crate) async fn start(config: Config) -> Self {
        Self::with_limits(config, Limits::default()).await
    }

    /// A node with rate limits. All connections are of one client.
    pub(crate) async fn with_limits(config: Config, limits: Limits) -> Self {
        let root = BlockId { slot: 0, version: 0 };
        let (mut ledger, reader) = Ledger::new(LedgerConfig::new(10_000), root, bank(0, true));
        ledger.publish();
        let history_limits = HistoryLimits { slots_max: 1_000, bytes_max: 100_000_000 };
        let history = Arc::new(History::new(history_limits, root));
        let pool = pool::Config { threads: 2, client_heavy_max: 1, ..pool::Config::default() };
        let pool = Pool::new(pool, Arc::new(SystemClock::new()), || {}).expect("threads start");
        let pool = Arc::new(pool);
        let (pubsub_reader, pubsub_history) = (reader.clone(), Arc::clone(&history));
        let pool_and_limiter = (Arc::clone(&pool), Arc::new(RateLimiter::new(limits)));
        let (pubsub, event_sender) = pubsub::start(
            config,
            cluster_info(),
            pubsub_reader,
            pubsub_history,
            Arc::default(),
            pool_and_limiter,
        )
        .expect("a thread starts");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
        let address = listener.local_addr().expect("it is bound");
        let mut server = JoinSet::new();
        let next_client = Arc::new(AtomicU64::new(7));
        server.spawn(accept(listener, Arc::clone(&next_client), Arc::clone(&pubsub)));
        Self {
            pubsub,
            pool,
            next_client,
            reader,
            history,
            event_sender,
            address,
            ledger,
            tip: 0,
            transactions: Vec::new(),
            writes: Vec::new(),
            accounts: HashMap::new(),
            complete: VecDeque::new(),
            _server: server,
        }
    }

    pub(crate) async fn connect(&self) -> Client {
        Client::new(self.socket().await)
    }

    pub(crate) async fn socket(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("the server listens")
    }

    pub(crate) fn send_event(&mut self, event: &LedgerEvent) {
        self.event_sender.send(event);
    }

    /// Opens the next block.
    pub(crate) fn open(&mut self) -> Slot {
        let parent = self.tip;
        let slot = parent + 1;
        self.ledger.open(id(slot), id(parent), bank(slot, false)).expect("the parent is complete");
        self.ledger.publish();
        self.tip = slot;
        self.send_event(&LedgerEvent::BankCreated {
            block: id(slot),
            parent: id(parent),
            root: 0,
            timestamp_ms: 1,
        });
        slot
    }

    /// Executes a transaction in the open block, without an event.
    pub(crate) fn execute_silently(&mut self, tx: Tx<'_>) -> Arc<ExecutedTransaction> {
        let changes = tx
            .writes
            .iter()
            .map(|(pubkey, account)| Change {
                address: Address::from(pubkey.to_bytes()),
                record: account.clone().map(|account| Arc::new(Account(account))),
            })
            .collect();
        let block = id(self.tip);
        let ids = self.ledger.apply(block, changes, bank(self.tip, false)).expect("room");
        for ((pubkey, account), id) in tx.writes.into_iter().zip(ids) {
            self.writes.retain(|write| write.pubkey != pubkey);
            let account = account.map(|account| Arc::new(Account(account)));
            let keys = keys_of(account.as_deref());
            let old_keys = self.accounts.insert(pubkey, keys.clone()).unwrap_or_default();
            let removed_keys = old_keys.into_iter().filter(|key| !keys.contains(key)).collect();
            let account = account.map(StoredRecord::from);
            self.writes.push(AccountWrite { pubkey, id, account, removed_keys });
        }
        let executed = Arc::new(ExecutedTransaction {
            slot: self.tip,
            index: self.transactions.len() as u32,
            block_time: 1,
            transaction: VersionedTransaction {
                signatures: vec![tx.signature],
                message: VersionedMessage::default(),
            },
            meta: TransactionStatusMeta {
                status: tx.err.map_or(Ok(()), Err),
                log_messages: Some(tx.logs.iter().map(|line| (*line).to_owned()).collect()),
                ..TransactionStatusMeta::default()
            },
            account_keys: tx.keys.to_vec(),
            is_vote: tx.is_vote,
        });
        self.ledger.publish();
        self.history.record_transactions(block, &[Arc::clone(&executed)]);
        self.history.publish();
        self.transactions.push(Arc::clone(&executed));
        executed
    }

    pub(crate) fn execute(&mut self, tx: Tx<'_>) {
        let executed = self.execute_silently(tx);
        self.send_event(&LedgerEvent::Executed([executed].into()));
    }

    /// Completes the open block.
    pub(crate) fn complete(&mut self) {
        let block = Arc::new(Block {
            id: id(self.tip),
            parent: id(self.tip - 1),
            block_height: self.tip,
            blockhash: Hash::new_from_array([self.tip as u8; 32]),
            previous_blockhash: Hash::new_from_array([self.tip as u8 - 1; 32]),
            bank_hash: Hash::default(),
            hash_components: BankHashComponents::default(),
            block_time: 1,
            transaction_count: 0,
            transactions: std::mem::take(&mut self.transactions),
            rewards: Vec::new(),
            reward_partitions: None,
            entries: Vec::new(),
            writes: std::mem::take(&mut self.writes),
        });
        self.history.record_block(&block);
        self.history.set_tip(block.id);
        self.history.confirm(block.id);
        self.history.publish();
        self.ledger.complete(block.id, bank(self.tip, true)).expect("it is open");
        self.ledger.confirm(block.id).expect("it is complete");
        self.ledger.publish();
        self.complete.push_back(Arc::clone(&block));
        self.send_confirmed(block);
    }

    /// Sends the events of a block that is frozen, becomes the tip and is confirmed at once.
    pub(crate) fn send_confirmed(&mut self, block: Arc<Block>) {
        let id = block.id;
        self.send_event(&LedgerEvent::Frozen { block: Arc::clone(&block), timestamp_ms: 2 });
        self.send_event(&LedgerEvent::TipMoved { block: id });
        self.send_event(&LedgerEvent::Confirmed { block, timestamp_ms: 2 });
    }

    /// Finalizes the oldest block that is complete and not final.
    pub(crate) fn finalize(&mut self) {
        let block = self.complete.pop_front().expect("one is complete");
        self.history.finalize(block.id);
        self.history.publish();
        self.ledger.finalize(block.id).expect("it is next to the root");
        self.ledger.publish();
        self.send_event(&LedgerEvent::Rooted { block, timestamp_ms: 3 });
    }

    /// Number of blocks that are complete and not final.
    pub(crate) fn pending(&self) -> usize {
        self.complete.len()
    }

    /// The ledger jumps over the slots up to this one. Accounts have these lamports, or are closed, after it.
    pub(crate) fn jump(&mut self, slot: Slot, lamports: &[(u8, Option<u64>)]) {
        while !self.complete.is_empty() {
            self.finalize();
        }
        let (block, parent) = (id(slot), id(self.tip));
        self.ledger.open(block, parent, bank(slot, false)).expect("the parent is complete");
        let record = |(n, lamports): &(u8, Option<u64>)| {
            let account = account((*lamports)?, key(200), &[*n]);
            account.map(|account| Arc::new(Account(account)))
        };
        let records = lamports.iter().map(record);
        let records: Vec<_> = records.collect();
        let changes = lamports.iter().zip(&records).map(|((n, _), record)| Change {
            address: Address::from(key(*n).to_bytes()),
            record: record.clone(),
        });
        let ids = self.ledger.apply(block, changes.collect(), bank(slot, false)).expect("room");
        let writes = lamports.iter().zip(records).zip(ids).map(|(((n, _), account), id)| {
            let (account, removed_keys) = (account.map(StoredRecord::from), Vec::new());
            AccountWrite { pubkey: key(*n), id, account, removed_keys }
        });
        let hash = |slot: Slot| Hash::new_from_array([slot as u8; 32]);
        let block = Arc::new(Block {
            id: block,
            parent,
            block_height: slot,
            blockhash: hash(slot),
            previous_blockhash: hash(slot - 1),
            bank_hash: Hash::default(),
            hash_components: BankHashComponents::default(),
            block_time: 1,
            transaction_count: 0,
            transactions: Vec::new(),
            rewards: Vec::new(),
            reward_partitions: None,
            entries: Vec::new(),
            writes: writes.collect(),
        });
        self.history.record_jump(&block);
        self.history.set_tip(block.id);
        self.history.confirm(block.id);
        self.history.finalize(block.id);
        self.history.publish();
        self.ledger.complete(block.id, bank(slot, true)).expect("it is open");
        self.ledger.confirm(block.id).expect("it is complete");
        self.ledger.finalize(block.id).expect("it is confirmed");
        self.ledger.publish();
        self.tip = slot;
        self.send_event(&LedgerEvent::Jumped { block: Arc::clone(&block) });
        self.send_event(&LedgerEvent::TipMoved { block: block.id });
        self.send_event(&LedgerEvent::Confirmed { block: Arc::clone(&block), timestamp_ms: 2 });
        self.send_event(&LedgerEvent::Rooted { block, timestamp_ms: 3 });
    }

    /// A block of one transaction, complete.
    pub(crate) fn block(&mut self, tx: Tx<'_>) -> Slot {
        let slot = self.open();
        self.execute(tx);
        self.complete();
        slot
    }

    /// An account with those lamports, written in a block of its own.
    pub(crate) fn write(&mut self, n: u8, lamports: u64) -> Slot {
        let writes = vec![(key(n), account(lamports, key(200), &[n]))];
        self.block(Tx { writes, ..Tx::new(n) })
    }

    /// All notifications of a client up to now, without those of slots.
    pub(crate) async fn notifications(&mut self, client: &mut Client) -> Vec<Value> {
        client.subscribe("slot", json!([])).await;
        self.send_event(&LedgerEvent::BankCreated {
            block: id(MARK),
            parent: id(0),
            root: 0,
            timestamp_ms: 0,
        });
        let mut notifications = Vec::new();
        loop {
            let notification = client.notification().await;
            if notification["method"] != "slotNotification" {
                notifications.push(notification);
            } else if notification["params"]["result"]["slot"] == MARK {
                return notifications;
            }
        }
    }

    /// Waits until the counts meet a condition.
    pub(crate) async fn wait_until(&self, is_met: impl Fn(Stats) -> bool) {
        let met = async {
            while !is_met(self.pubsub.stats()) {
                tokio::task::yield_now().await;
            }
        };
        let met = timeout(TEST_TIMEOUT, met).await;
        assert!(met.is_ok(), "the counts stay {:?}", self.pubsub.stats());
    }

    /// Waits until there are no subscriptions and no connections.
    pub(crate) async fn wait_until_empty(&self) {
        let empty = async {
            loop {
                let stats = self.pubsub.stats();
                // Blocks are retained for clients that resume.
                let empty = Stats { resume_bytes: stats.resume_bytes, ..Stats::default() };
                if stats == empty {
                    return;
                }
                tokio::task::yield_now().await;
            }
        };
        timeout(TEST_TIMEOUT, empty).await.expect("clients leave nothing behind");
    }
}

pub(crate) async fn accept(
    listener: TcpListener,
    next_client: Arc<AtomicU64>,
    pubsub: Arc<SolanaPubSub>,
) {
    let mut connections = JoinSet::new();
    loop {
        let (socket, _) = listener.accept().await.expect("loopback");
        socket.set_nodelay(true).expect("it is open");
        let client = ClientId(next_client.load(Ordering::SeqCst).into());
        connections.spawn(serve_connection(socket, client, Arc::clone(&pubsub)));
    }
}

fn keys_of(account: Option<&Account>) -> Vec<(KeyKind, Address)> {
    let mut keys = Vec::new();
    if let Some(account) = account {
        account.keys(&mut |kind, address| keys.push((kind, address)));
    }
    keys
}

pub(crate) fn id(slot: Slot) -> BlockId {
    BlockId { slot, version: slot }
}

fn bank(slot: Slot, complete: bool) -> Arc<BlockInfo> {
    Arc::new(BlockInfo {
        block: id(slot),
        parent: id(slot.saturating_sub(1)),
        block_height: slot,
        blockhashes: Arc::new(BlockhashQueue::new(Hash::default())),
        transaction_count: 0,
        unix_timestamp: 1,
        capitalization: 0,
        bank_hash: Hash::default(),
        hash_components: BankHashComponents::default(),
        complete,
    })
}

pub(crate) fn cluster_info() -> Arc<ClusterInfo> {
    Arc::new(ClusterInfo { feature_set: 77, ..testkit::cluster_info::cluster_info() })
}

/// A client that stores notifications that come while it waits for a reply.
pub(crate) struct Client {
    pub(crate) socket: WebSocketStream<TcpStream>,
    early: VecDeque<Value>,
    next_id: u64,
}

impl Client {
    async fn new_over(socket: TcpStream) -> WebSocketStream<TcpStream> {
        WebSocketStream::from_raw_socket(socket, Role::Client, None).await
    }

    pub(crate) fn new(socket: TcpStream) -> Self {
        let socket = futures_util::FutureExt::now_or_never(Self::new_over(socket))
            .expect("it only wraps the socket");
        Self { socket, early: VecDeque::new(), next_id: 1 }
    }

    /// The next message as text, or how the connection was closed; `None` if the stream ended without a close frame.
    pub(crate) async fn message(&mut self) -> Option<Result<Utf8Bytes, Option<CloseFrame>>> {
        loop {
            let message = timeout(TEST_TIMEOUT, self.socket.next()).await.expect("a message comes");
            match message {
                Some(Ok(Message::Text(text))) => return Some(Ok(text)),
                Some(Ok(Message::Close(frame))) => return Some(Err(frame)),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return None,
            }
        }
    }

    async fn value(&mut self) -> Value {
        match self.message().await {
            Some(Ok(text)) => serde_json::from_str(&text).expect("it is JSON"),
            other => panic!("a message was expected, not {other:?}"),
        }
    }

    /// Reads until the connection is closed. Returns the code and the reason.
    pub(crate) async fn closed(&mut self) -> Option<(u16, String)> {
        loop {
            match self.message().await {
                Some(Ok(_)) => {}
                Some(Err(frame)) => {
                    return frame.map(|frame| (frame.code.into(), frame.reason.to_string()));
                }
                None => return None,
            }
        }
    }

    pub(crate) async fn send(&mut self, text: impl Into<Utf8Bytes>) {
        self.socket.send(Message::Text(text.into())).await.expect("the server reads");
    }

    /// The reply to a text.
    pub(crate) async fn request(&mut self, text: impl Into<Utf8Bytes>) -> Value {
        self.send(text).await;
        self.reply().await
    }

    /// The reply to a binary message.
    pub(crate) async fn request_binary(&mut self, message: Vec<u8>) -> Value {
        let sent = self.socket.send(Message::Binary(message.into())).await;
        sent.expect("the server reads");
        self.reply().await
    }

    async fn reply(&mut self) -> Value {
        loop {
            let value = self.value().await;
            if value.get("method").is_none() {
                return value;
            }
            self.early.push_back(value);
        }
    }

    /// The result of a call, or its error.
    pub(crate) async fn call(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        let id = self.next_id;
        self.next_id += 1;
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let mut reply = self.request(request.to_string()).await;
        assert_eq!((&reply["id"], &reply["jsonrpc"]), (&json!(id), &json!("2.0")), "{reply}");
        match reply.get_mut("error") {
            Some(err) => Err(err.take()),
            None => Ok(reply["result"].take()),
        }
    }

    pub(crate) async fn subscribe(&mut self, kind: &str, params: Value) -> u64 {
        let id = self.call(&format!("{kind}Subscribe"), params).await.expect("it is right");
        id.as_u64().expect("a number")
    }

    pub(crate) async fn notification(&mut self) -> Value {
        match self.early.pop_front() {
            Some(early) => early,
            None => self.value().await,
        }
    }
}
