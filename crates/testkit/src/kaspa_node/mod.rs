//! A model of kaspad 2.1.0 on simnet: wRPC in Borsh and JSON on free ports of the loopback, over a small DAG.
//!
//! In: requests of clients, and calls of a test that mine blocks, siblings and reorganizations, or submit transactions.
//! Out: replies and notifications in kaspad's shapes and order. Header hashes, links and commitments are real.
//! Faults on request: lies in one bit, false commitments, lost, doubled and late notifications, cut connections,
//! delayed replies.
//! The behaviour was recorded from kaspad 2.1.0, or read in its source. The heads of `dag` and `mempool` list the
//! simplifications. The encoders are independent of the crate `kaspa`, so that tests compare two implementations. The
//! sockets are those of tungstenite and not of `websocket`, because kaspad ends connections without a close frame.
//! Bounds: none. All blocks and all unread messages stay in memory.

mod chain_page;
mod client;
mod connection;
mod dag;
mod faults;
mod listener;
mod notices;
mod peer;
mod plain_replies;
mod replies;
mod state;
mod wire;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use kaspa::{
    AddressPayload, Event, Hash, Header, KaspaAddress, Method, Outpoint, Prefix, ScriptPublicKey,
    Transaction, TransactionInput, TransactionOutput, UtxoEntry,
};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use self::chain_page::encode_chain_page;
pub use self::client::{WrpcClient, WrpcMessage};
use self::connection::{Shared, accept_connections};
pub use self::dag::{
    Accepted, BlockEffects, ChainPath, ChainState, Dag, DagBlock, Ghostdag, InvalidBlock,
    MempoolEntry, Miner, NewBlock, Reward, UtxoDiff, VirtualBlock, VirtualChange,
};
pub use self::faults::{Disturbance, Lie};
pub use self::notices::NOTIFICATION_ORDER;
use self::notices::Notice;
pub use self::peer::{KaspaPeer, PeerFaults};
pub use self::replies::CHAIN_BATCH_MAX;
use self::state::NodeState;
pub use self::wire::Encoding;

/// The default coinbase maturity in DAA scores, as on the network of the golden messages. Simnet has 1,000.
pub const COINBASE_MATURITY: u64 = 4;

/// A model node. It stops when it is dropped.
pub struct KaspaNode {
    shared: Arc<Shared>,
    borsh: SocketAddr,
    json: SocketAddr,
    servers: [JoinHandle<()>; 2],
}

/// A payment to make.
#[derive(Clone, Debug)]
pub struct Payment {
    /// The payer, which also gets the change.
    pub from: AddressPayload,
    /// The new outputs, with their amounts in sompi.
    pub to: Vec<(ScriptPublicKey, u64)>,
    /// The fee in sompi.
    pub fee: u64,
}

impl KaspaNode {
    /// Starts a node with simnet's first block, in the current runtime.
    pub async fn start() -> Self {
        Self::start_with_maturity(COINBASE_MATURITY).await
    }

    /// Starts a node with another coinbase maturity, in DAA scores.
    pub async fn start_with_maturity(coinbase_maturity: u64) -> Self {
        let shared = Arc::new(Shared {
            state: Mutex::new(NodeState::new(Dag::new(coinbase_maturity))),
            held: watch::Sender::default(),
            is_accepting: watch::Sender::new(true),
        });
        let bind = || async { TcpListener::bind("127.0.0.1:0").await.expect("a free port") };
        let borsh_listener = bind().await;
        let json_listener = bind().await;
        let borsh = borsh_listener.local_addr().expect("it is bound");
        let json = json_listener.local_addr().expect("it is bound");
        let serve = |listener, encoding| {
            tokio::spawn(accept_connections(Arc::clone(&shared), listener, encoding))
        };
        let servers =
            [serve(borsh_listener, Encoding::Borsh), serve(json_listener, Encoding::Json)];
        Self { shared, borsh, json, servers }
    }

    /// The address of wRPC in Borsh.
    pub fn borsh(&self) -> SocketAddr {
        self.borsh
    }

    /// The address of wRPC in JSON.
    pub fn json(&self) -> SocketAddr {
        self.json
    }

    /// Reads the DAG.
    pub fn with_dag<T>(&self, read: impl FnOnce(&Dag) -> T) -> T {
        read(&self.shared.state.lock().dag)
    }

    /// The tip of the selected chain.
    pub fn sink(&self) -> Hash {
        self.with_dag(|dag| dag.sink().hash)
    }

    /// The selected chain, from the block above the first one to the sink.
    pub fn chain(&self) -> Vec<Hash> {
        self.with_dag(|dag| dag.chain_path(&dag.genesis()).added)
    }

    /// The UTXO set of the virtual block.
    pub fn utxos(&self) -> BTreeMap<Outpoint, UtxoEntry> {
        self.with_dag(Dag::utxos)
    }

    /// Mines blocks one after another, each with the transactions of the mempool.
    pub fn mine(&self, count: usize) -> Vec<Hash> {
        (0..count).map(|_| self.mine_to(&default_miner())).collect()
    }

    /// Mines a block for a miner.
    pub fn mine_to(&self, miner: &Miner) -> Hash {
        let mut state = self.shared.state.lock();
        let block = state.dag.build_template(miner);
        add_with_nonce(&mut state, block)
    }

    /// Mines blocks with the same parents and the same transactions.
    pub fn mine_siblings(&self, count: usize) -> Vec<Hash> {
        let mut state = self.shared.state.lock();
        let block = state.dag.build_template(&default_miner());
        (0..count).map(|_| add_with_nonce(&mut state, block.clone())).collect()
    }

    /// Mines a block on any parents.
    pub fn mine_on(&self, parents: &[Hash], transactions: Vec<Transaction>) -> Hash {
        let mut state = self.shared.state.lock();
        let block = state.dag.build_block_on(parents, &default_miner(), transactions);
        add_with_nonce(&mut state, block)
    }

    /// Mines a block with one wrong bit in its commitment. Its hash and its link are correct, and the node accepts it
    /// as its sink.
    pub fn mine_with_false_commitment(&self, bit: usize) -> Hash {
        let mut state = self.shared.state.lock();
        let mut block = state.dag.build_template(&default_miner());
        faults::flip_bit(&mut block.header.utxo_commitment, bit);
        block.header.nonce = take_nonce(&mut state);
        let hash = block.header.hash();
        let effects = state.dag.add_unchecked(block).expect("a template is valid");
        state.notify_effects(&effects);
        hash
    }

    /// Mines a branch from the chain block `depth` below the sink until it is the selected chain. Returns the change:
    /// `depth` blocks leave the chain. Clients are notified of each block.
    pub fn reorganize(&self, depth: usize) -> ChainPath {
        let before = self.sink();
        let mut tip = self.with_dag(|dag| dag.chain_block(depth));
        while self.sink() != tip || tip == before {
            tip = self.mine_on(&[tip], Vec::new());
        }
        self.with_dag(|dag| dag.chain_path(&before))
    }

    /// Adds a block as another node would relay it.
    pub fn add_block(&self, block: NewBlock) -> Result<Hash, InvalidBlock> {
        self.shared.state.lock().add_block(block)
    }

    /// Adds a transaction to the mempool. The error is the text that kaspad sends.
    pub fn submit_transaction(&self, transaction: Transaction) -> Result<Hash, String> {
        self.shared.state.lock().dag.submit_transaction(transaction)
    }

    /// Submits a payment from spendable outputs, the oldest first. Returns the id of the transaction.
    pub fn pay(&self, payment: &Payment) -> Result<Hash, String> {
        let transaction = self.with_dag(|dag| build_payment(dag, payment))?;
        self.submit_transaction(transaction)
    }

    /// Opens a port for other nodes, which sends the UTXO set of the pruning point.
    pub async fn serve_peers(&self) -> KaspaPeer {
        KaspaPeer::start(Arc::clone(&self.shared)).await
    }

    /// Sets the pruning point: a block of the selected chain. It is the first block until then. Nothing is deleted.
    pub fn set_pruning_point(&self, block: Hash) {
        let mut state = self.shared.state.lock();
        state.pruning_point = block;
        state.foreign_set = None;
    }

    /// Sets a pruning point that commits to any UTXO set, which other nodes get. The block is off the selected chain,
    /// and the node's own set stays as it is. So a set can be larger than one that the node could mine.
    pub fn set_foreign_pruning_point(&self, header: Header, set: Vec<(Outpoint, UtxoEntry)>) {
        let mut state = self.shared.state.lock();
        state.pruning_point = state.dag.add_foreign_block(header);
        state.foreign_set = Some(set);
    }

    /// The UTXO set after the acceptance of a chain block.
    pub fn utxos_at(&self, block: &Hash) -> BTreeMap<Outpoint, UtxoEntry> {
        self.shared.state.lock().dag.utxos_at(block)
    }

    /// Sets whether the node reports that it is in sync. Default: true.
    pub fn set_synced(&self, is_synced: bool) {
        self.shared.state.lock().is_synced = is_synced;
    }

    /// Sets whether the node runs with `--utxoindex`. Default: true.
    pub fn set_utxo_index(&self, has_utxo_index: bool) {
        self.shared.state.lock().has_utxo_index = has_utxo_index;
    }

    /// Sets whether the node runs with `--unsaferpc`. If not, it refuses subscriptions to the changes of all UTXOs.
    /// Default: true.
    pub fn set_unsafe_rpc(&self, is_unsafe: bool) {
        self.shared.state.lock().is_unsafe = is_unsafe;
    }

    /// Deletes all blocks above the first one and cuts all connections, as if the node had restarted without its
    /// database. Late notifications of the deleted blocks are never sent.
    pub fn reset(&self) {
        let mut state = self.shared.state.lock();
        state.dag = Dag::new(state.dag.coinbase_maturity());
        state.pruning_point = state.dag.genesis();
        state.foreign_set = None;
        state.faults.clear_late();
        cut_all(&mut state, 0);
    }

    /// The number of connections.
    pub fn connections(&self) -> usize {
        self.shared.state.lock().listeners.len()
    }

    /// The number of connections with subscriptions.
    pub fn subscribed_connections(&self) -> usize {
        let state = self.shared.state.lock();
        state.listeners.iter().filter(|listener| listener.is_subscribed()).count()
    }
}

/// Faults.
impl KaspaNode {
    /// Adds a lie to all later reports.
    pub fn add_lie(&self, lie: Lie) {
        self.shared.state.lock().faults.add_lie(lie);
    }

    /// Ends all lies.
    pub fn clear_lies(&self) {
        self.shared.state.lock().faults.clear_lies();
    }

    /// Disturbs the next notification of an event.
    pub fn disturb(&self, event: Event, disturbance: Disturbance) {
        self.shared.state.lock().faults.add_disturbance(event, disturbance);
    }

    /// Sets the order of the notifications of one change. Omitted events are not notified. The default is
    /// [`NOTIFICATION_ORDER`].
    pub fn set_notification_order(&self, order: &[Event]) {
        self.shared.state.lock().order = order.to_vec();
    }

    /// Notifies of a block that violates finality.
    pub fn notify_finality_conflict(&self, block: Hash) {
        self.shared.state.lock().notify(Notice::FinalityConflict(block));
    }

    /// Notifies of the end of a finality conflict.
    pub fn notify_finality_resolved(&self, block: Hash) {
        self.shared.state.lock().notify(Notice::FinalityConflictResolved(block));
    }

    /// Notifies that the whole UTXO set was replaced.
    pub fn notify_utxo_set_override(&self) {
        self.shared.state.lock().notify(Notice::PruningPointUtxoSetOverride);
    }

    /// Cuts each connection after this many further messages to it, without a close frame.
    pub fn cut_after(&self, messages: u64) {
        cut_all(&mut self.shared.state.lock(), messages);
    }

    /// Sets whether new connections are served. If not, they are closed before the handshake.
    pub fn set_accepting(&self, is_accepting: bool) {
        self.shared.is_accepting.send_replace(is_accepting);
    }

    /// Delays replies of a method until [`Self::release_replies`]. Later requests of the same connection wait as well.
    pub fn delay_replies(&self, method: Method) {
        self.shared.held.send_modify(|held| {
            held.insert(method);
        });
    }

    /// Ends all delays.
    pub fn release_replies(&self) {
        self.shared.held.send_modify(|held| held.clear());
    }
}

impl Drop for KaspaNode {
    fn drop(&mut self) {
        self.servers.iter().for_each(JoinHandle::abort);
    }
}

/// The miner of blocks, unless a test names another one.
pub fn default_miner() -> Miner {
    Miner { script: ScriptPublicKey::from_payload(&MINER), extra_data: Vec::new() }
}

/// The key of [`default_miner`].
pub const MINER: AddressPayload = AddressPayload::PublicKey([7; 32]);

/// The address of a key on simnet.
pub fn simnet_address(payload: AddressPayload) -> KaspaAddress {
    KaspaAddress { prefix: Prefix::Simnet, payload }
}

fn take_nonce(state: &mut NodeState) -> u64 {
    let nonce = state.next_nonce;
    state.next_nonce += 1;
    nonce
}

fn add_with_nonce(state: &mut NodeState, mut block: NewBlock) -> Hash {
    block.header.nonce = take_nonce(state);
    state.add_block(block).expect("a block that the node made is valid")
}

fn cut_all(state: &mut NodeState, messages: u64) {
    state.listeners.iter_mut().for_each(|listener| listener.cut_after(messages));
}

fn build_payment(dag: &Dag, payment: &Payment) -> Result<Transaction, String> {
    let own_script = ScriptPublicKey::from_payload(&payment.from);
    let mut own: Vec<(Outpoint, UtxoEntry)> = dag.utxos().into_iter().collect();
    own.retain(|(outpoint, entry)| {
        entry.script_public_key == own_script && dag.is_spendable(outpoint)
    });
    own.sort_by_key(|(outpoint, entry)| (entry.block_daa_score, *outpoint));
    let needed = payment.to.iter().map(|(_, amount)| amount).sum::<u64>() + payment.fee;
    let mut found = 0;
    let mut inputs = Vec::new();
    for (outpoint, entry) in own {
        if found >= needed {
            break;
        }
        found += entry.amount;
        inputs.push(TransactionInput {
            previous_outpoint: outpoint,
            signature_script: vec![0x41; 66],
            sequence: 0,
            sig_op_count: 1,
            compute_budget: 0,
        });
    }
    let change = found.checked_sub(needed);
    let change =
        change.ok_or_else(|| format!("{found} sompi can be spent, {needed} are needed"))?;
    let output = |(script_public_key, amount): (ScriptPublicKey, u64)| TransactionOutput {
        amount,
        script_public_key,
        covenant: None,
    };
    let mut outputs: Vec<TransactionOutput> = payment.to.iter().cloned().map(output).collect();
    if change > 0 {
        outputs.push(output((own_script, change)));
    }
    Ok(Transaction { inputs, outputs, ..Transaction::default() })
}
