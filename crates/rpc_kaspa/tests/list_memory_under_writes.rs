//! The memory of a long list whose client does not read while blocks are added, by an allocator's count.
//!
//! The list is read from one state, which stays in memory: at most 5 MB for each block with 1,500 changed scripts, and
//! never more than a second copy of the records. It is free again once the list has ended.
//! This test has a program of its own, because the heap is counted for the whole process.

use std::sync::Arc;
use std::time::Duration;

use chain_kaspa::{Chain, ChainConfig, ChainLoader, HistoryLimits, hash_utxos};
use clients::{ClientId, RateLimiter};
use cpu_pool::Pool;
use futures_util::SinkExt;
use kaspa::{
    AddressPayload, Encoding, Hash, KaspaAddress, Method, Network, Outpoint, Prefix,
    ScriptPublicKey, UtxoEntry,
};
use peak_alloc::PeakAlloc;
use rpc_kaspa::{Forward, ForwardError, ForwardFuture, KaspaRpc, SessionState, Settings};
use testkit::kaspa_chain::{BlockBuilder, UtxoPool, dust_utxo};
use testkit::session_config::roomy_session_config;
use tokio::io::duplex;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::Role;
use websocket::serve_session;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// Scripts with one UTXO each, which blocks spend.
const SCRIPTS: u32 = 40_000;
/// UTXOs of the list.
const LISTED: u32 = 10_000;
/// Blocks that are added while the list is not read.
const BLOCKS: usize = 20;
/// Transactions of a block, with three inputs and three outputs each.
const TRANSACTIONS: usize = 250;
/// Bytes that a block may make the list retain: the bound of `Settings::list_timeout_ms`.
const BLOCK_BYTES_MAX: usize = 5 << 20;
/// Bytes by which the heap of a chain may change for other reasons.
const OTHER_BYTES_MAX: usize = 2 << 20;

struct NoUpstream;

impl Forward for NoUpstream {
    fn forward(
        &self,
        _: ClientId,
        _: Encoding,
        _: kaspa::Operation,
        _: bytes::Bytes,
    ) -> ForwardFuture<'_> {
        Box::pin(async { Err(ForwardError::new("no upstream")) })
    }
}

struct GrowingChain {
    chain: Chain,
    builder: BlockBuilder,
    pool: UtxoPool,
}

impl GrowingChain {
    fn new(listed: &KaspaAddress) -> Self {
        let entry = UtxoEntry {
            amount: 1,
            script_public_key: ScriptPublicKey::from_payload(&listed.payload),
            block_daa_score: 0,
            is_coinbase: false,
            covenant_id: None,
        };
        let outpoint = |number: u32| {
            let mut transaction_id = Hash([3; 32]);
            transaction_id.0[..4].copy_from_slice(&number.to_le_bytes());
            Outpoint { transaction_id, index: 0 }
        };
        let list = (0..LISTED).map(|number| (outpoint(number), entry.clone()));
        let utxos: Vec<_> = (0..SCRIPTS).map(|number| dust_utxo(number, 1)).chain(list).collect();
        let builder = BlockBuilder::new(hash_utxos(&utxos));
        let history = HistoryLimits { blocks_max: 1, bytes_max: 1 };
        let config = ChainConfig { depth_max: 2, history, ..ChainConfig::new(200_000) };
        let mut loader = ChainLoader::new(config, builder.sink().clone());
        loader.insert(&utxos).expect("room");
        let chain = loader.finish().expect("the hash of the set");
        Self { chain, builder, pool: UtxoPool::new(7, SCRIPTS) }
    }

    /// Adds blocks. Returns the bytes by which the heap grew.
    fn add_blocks(&mut self, count: usize) -> usize {
        let before = HEAP.current_usage();
        for _ in 0..count {
            let made: Vec<_> =
                (0..TRANSACTIONS).map(|_| self.pool.make_transaction(3, 3)).collect();
            let daa_score = self.builder.next_daa_score();
            made.iter().for_each(|transaction| self.pool.add_outputs(transaction, daa_score));
            let accepted = made.into_iter().map(|transaction| transaction.accepted).collect();
            let mut step = self.chain.start_step(&[]).expect("a step");
            step.add_block(self.builder.build_block(accepted)).expect("an honest block");
            step.commit();
            drop(self.chain.publish().expect("a publication"));
            self.chain.reclaim();
        }
        HEAP.current_usage().saturating_sub(before)
    }
}

#[tokio::test]
async fn a_list_that_is_not_read_retains_what_blocks_change() {
    let address =
        KaspaAddress { prefix: Prefix::Simnet, payload: AddressPayload::PublicKey([1; 32]) };
    let empty = HEAP.current_usage();
    let mut chain = GrowingChain::new(&address);
    let at_rest = HEAP.current_usage().saturating_sub(empty);
    let pool = Pool::new(cpu_pool::Config::default(), Arc::new(|| Duration::ZERO), || {});
    let server = KaspaRpc::serve(
        chain.chain.reader(),
        Network::Simnet,
        Arc::new(NoUpstream),
        Settings::default(),
        roomy_session_config(),
        Arc::new(pool.expect("a thread")),
        Arc::new(RateLimiter::new(clients::Limits::default())),
    );
    // The first blocks allocate what later ones use again. The next ones show the growth without a list.
    chain.add_blocks(BLOCKS);
    let usual = chain.add_blocks(BLOCKS);
    let (client, io) = duplex(4 * 1024);
    let state = SessionState::new(Encoding::Borsh);
    tokio::spawn(serve_session(io, ClientId(1), Arc::clone(&server), state));
    let mut socket = WebSocketStream::from_raw_socket(client, Role::Client, None).await;
    let request = Method::GetUtxosByAddresses.encode_borsh_addresses(1, &[address]);
    socket.send(request.into()).await.expect("it reads");
    while server.stats().unwritten_bytes == 0 {
        tokio::task::yield_now().await;
    }
    let before = HEAP.current_usage();
    let grown = chain.add_blocks(BLOCKS);
    let retained = grown.saturating_sub(usual);
    assert!(retained <= BLOCKS * BLOCK_BYTES_MAX, "{retained} bytes in {BLOCKS} blocks");
    assert!(retained <= at_rest + OTHER_BYTES_MAX, "{retained} bytes, {at_rest} at rest");
    drop(socket);
    while server.stats().connections > 0 {
        tokio::task::yield_now().await;
    }
    chain.add_blocks(BLOCKS);
    let left = HEAP.current_usage().saturating_sub(before + 2 * usual);
    assert!(left <= OTHER_BYTES_MAX, "{left} bytes are left of {retained}");
}
