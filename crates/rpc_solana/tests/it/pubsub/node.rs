//! A node whose ledger is driven by the test: blocks are opened, filled, completed and finalized by
//! hand, and each event is sent as a ledger sends it, after readers can see its effects.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use chain_solana::{
    Block, BlockInfo, ClusterInfo, ExecutedTransaction, LedgerEvent, Reader, StatusVisibility,
};
use clients::{ClientId, Limits, RateLimiter};
use cpu_pool::Pool;
use futures_util::{SinkExt, StreamExt};
use jsonrpc::SystemClock;
use ledger::{BlockId, Slot};
use rpc_solana::pubsub::{self, Config, SolanaPubSub};
use serde_json::{Value, json};
use solana_account::AccountSharedData;
use solana_message::VersionedMessage;
use solana_pubkey::Pubkey;
use solana_signature::Signature;
use solana_transaction::versioned::VersionedTransaction;
use solana_transaction_error::TransactionError;
use solana_transaction_status::TransactionStatusMeta;
use testkit::test_ledger::{
    AccountWrites, TestLedger, TestLedgerConfig, TestTransaction, block_info,
};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role};
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};
use websocket::{Stats, serve_connection};

/// Longer than any step of a test. A test that waits for this time has failed.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(20);

/// The slot of the event that marks that all events before it have been published.
const MARK: Slot = 999_999_999;

pub(crate) struct Node {
    pub(crate) pubsub: Arc<SolanaPubSub>,
    /// The pool, in which a client may have one heavy task at a time.
    pub(crate) pool: Arc<Pool>,
    /// The client id of connections from now on.
    pub(crate) next_client: Arc<AtomicU64>,
    pub(crate) reader: Reader,
    pub(crate) ledger: TestLedger,
    address: SocketAddr,
    _server: JoinSet<()>,
}

/// A transaction to be executed.
pub(crate) struct Tx<'a> {
    pub(crate) signature: Signature,
    pub(crate) keys: &'a [Pubkey],
    pub(crate) logs: &'a [&'a str],
    pub(crate) err: Option<TransactionError>,
    pub(crate) is_vote: bool,
    pub(crate) message: VersionedMessage,
    /// The accounts that it writes; `None` closes an account.
    pub(crate) writes: AccountWrites,
}

impl Tx<'_> {
    pub(crate) fn new(n: u8) -> Self {
        Self {
            signature: signature(n),
            keys: &[],
            logs: &[],
            err: None,
            is_vote: false,
            message: VersionedMessage::default(),
            writes: Vec::new(),
        }
    }
}

impl From<Tx<'_>> for TestTransaction {
    fn from(tx: Tx<'_>) -> Self {
        let signatures = vec![tx.signature];
        Self {
            transaction: VersionedTransaction { signatures, message: tx.message },
            meta: TransactionStatusMeta {
                status: tx.err.map_or(Ok(()), Err),
                log_messages: Some(tx.logs.iter().map(|line| (*line).to_owned()).collect()),
                ..TransactionStatusMeta::default()
            },
            account_keys: tx.keys.to_vec(),
            is_vote: tx.is_vote,
            visibility: StatusVisibility::hidden(),
            writes: tx.writes,
        }
    }
}

pub(crate) fn signature(n: u8) -> Signature {
    Signature::from([n; 64])
}

pub(crate) fn key(n: u8) -> Pubkey {
    Pubkey::new_from_array([n; 32])
}

/// Makes an account of `owner` with this data.
pub(crate) fn account(lamports: u64, owner: Pubkey, data: &[u8]) -> Option<AccountSharedData> {
    let mut account = AccountSharedData::new(lamports, 0, &owner);
    account.set_data_from_slice(data);
    Some(account)
}

impl Node {
    pub(crate) async fn start(config: Config) -> Self {
        Self::with_limits(config, Limits::default()).await
    }

    /// Starts a node whose notifications wait for some milliseconds after the reply to their subscription.
    pub(crate) async fn with_hold(hold_ms: u64) -> Self {
        let config = Config { hold_ms, ..Config::default() };
        Self::with_config(config, Limits::default()).await
    }

    /// Starts a node with rate limits. All connections are of one client.
    pub(crate) async fn with_limits(config: Config, limits: Limits) -> Self {
        Self::with_config(Config { hold_ms: 0, ..config }, limits).await
    }

    async fn with_config(config: Config, limits: Limits) -> Self {
        let root = BlockInfo { unix_timestamp: 1, ..block_info(0) };
        let settings = TestLedgerConfig { block_time: |_| 1, ..TestLedgerConfig::default() };
        let mut ledger = TestLedger::new(root, Vec::new(), settings);
        let reader = ledger.reader().clone();
        let pool =
            cpu_pool::Config { threads: 2, client_heavy_max: 1, ..cpu_pool::Config::default() };
        let pool = Pool::new(pool, Arc::new(SystemClock::new()), || {}).expect("threads start");
        let pool = Arc::new(pool);
        let pubsub_reader = reader.clone();
        let pubsub_history = Arc::clone(ledger.history());
        let pool_and_limiter = (Arc::clone(&pool), Arc::new(RateLimiter::new(limits)));
        let (pubsub, event_sender) =
            pubsub::start(config, cluster_info(), pubsub_reader, pubsub_history, pool_and_limiter)
                .expect("a thread starts");
        ledger.add_sink(Box::new(event_sender));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
        let address = listener.local_addr().expect("it is bound");
        let mut server = JoinSet::new();
        let next_client = Arc::new(AtomicU64::new(7));
        server.spawn(accept(listener, Arc::clone(&next_client), Arc::clone(&pubsub)));
        Self { pubsub, pool, next_client, reader, ledger, address, _server: server }
    }

    pub(crate) async fn connect(&self) -> Client {
        Client::new(self.socket().await)
    }

    pub(crate) async fn socket(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("the server listens")
    }

    pub(crate) fn send_event(&mut self, event: &LedgerEvent) {
        self.ledger.send(event);
    }

    /// Opens the next block, and returns its slot.
    pub(crate) fn open(&mut self) -> Slot {
        let slot = self.ledger.tip().block.slot + 1;
        self.ledger.open(slot);
        slot
    }

    /// Executes a transaction in the open block, without an event.
    pub(crate) fn execute_silently(&mut self, tx: Tx<'_>) -> Arc<ExecutedTransaction> {
        self.ledger.execute_unreported(tx.into())
    }

    pub(crate) fn execute(&mut self, tx: Tx<'_>) {
        self.ledger.execute(tx.into());
    }

    /// Completes the open block, which is confirmed at once.
    pub(crate) fn complete(&mut self) {
        self.ledger.complete();
        self.ledger.confirm();
    }

    /// Sends the events of a block that is frozen, becomes the tip and is confirmed at once.
    pub(crate) fn send_confirmed(&mut self, block: Arc<Block>) {
        let id = block.id;
        let info = Arc::new(block_info(id.slot));
        let frozen = LedgerEvent::Frozen { block: Arc::clone(&block), info, timestamp_ms: 2 };
        self.send_event(&frozen);
        self.send_event(&LedgerEvent::TipMoved { block: id });
        self.send_event(&LedgerEvent::Confirmed { block, timestamp_ms: 2 });
    }

    /// Finalizes the oldest block that is complete and not final.
    pub(crate) fn finalize(&mut self) {
        self.ledger.finalize();
    }

    /// Returns the number of blocks that are complete and not final.
    pub(crate) fn pending(&self) -> usize {
        self.ledger.unrooted()
    }

    /// Jumps over the slots up to this one. Accounts have these lamports, or are closed, after it.
    pub(crate) fn jump(&mut self, slot: Slot, lamports: &[(u8, Option<u64>)]) {
        let write = |(n, lamports): &(u8, Option<u64>)| {
            (key(*n), lamports.and_then(|lamports| account(lamports, key(200), &[*n])))
        };
        self.ledger.jump(slot, lamports.iter().map(write).collect());
    }

    /// Writes a complete block of one transaction.
    pub(crate) fn block(&mut self, tx: Tx<'_>) -> Slot {
        let slot = self.open();
        self.execute(tx);
        self.complete();
        slot
    }

    /// Writes the lamports of an account, in a block of its own.
    pub(crate) fn write(&mut self, n: u8, lamports: u64) -> Slot {
        let writes = vec![(key(n), account(lamports, key(200), &[n]))];
        self.block(Tx { writes, ..Tx::new(n) })
    }

    /// Returns all notifications of a client so far, without those of slots.
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

pub(crate) fn id(slot: Slot) -> BlockId {
    BlockId { slot, version: slot }
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

    /// Returns the next message as text, or the close frame of the connection; `None` if the stream ended without one.
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
    pub(crate) async fn read_until_closed(&mut self) -> Option<(u16, String)> {
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

    /// Sends a text, and returns the reply.
    pub(crate) async fn request(&mut self, text: impl Into<Utf8Bytes>) -> Value {
        self.send(text).await;
        self.reply().await
    }

    /// Sends a binary message, and returns the reply.
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

    /// Calls a method, and returns its result or its error.
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
