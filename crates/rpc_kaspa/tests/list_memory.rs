//! The memory of a long list while its client does not read, by an allocator's count.
//!
//! This test has a program of its own, because the heap is counted for the whole process.

use std::sync::Arc;
use std::time::Duration;

use chain_kaspa::{ChainConfig, ChainLoader, hash_utxos};
use clients::{ClientId, RateLimiter};
use cpu_pool::Pool;
use futures_util::{SinkExt, StreamExt};
use kaspa::{
    AddressPayload, Encoding, Hash, Header, KaspaAddress, Method, Network, Outpoint, Prefix,
    ScriptPublicKey, UtxoEntry,
};
use peak_alloc::PeakAlloc;
use rpc_kaspa::{Forward, ForwardError, ForwardFuture, KaspaRpc, SessionState, Settings};
use subscriptions::Limits;
use tokio::io::{AsyncReadExt, duplex};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::Role;
use websocket::{Config, serve_session};

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// UTXOs of one address: 30 MB in Borsh.
const UTXOS: u32 = 200_000;
/// Bytes that the list may take on top of the ledger. The issue has 16 MB, for five times as many.
const BYTES_MAX: usize = 2 << 20;

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

fn config() -> Config {
    Config {
        limits: Limits {
            listeners_max: 10,
            subscriptions_max: 10,
            subscriptions_per_listener_max: 10,
            addresses_max: 10,
            address_pairs_max: 10,
            addresses_per_owner_max: 10,
            addresses_per_listener_max: 10,
            retained_steps: 1,
            retained_bytes: 1,
            unrooted_max: 10,
            queue_messages_max: 10,
            queue_bytes_max: 1 << 20,
            queues_bytes_max: 4 << 20,
        },
        message_bytes_max: 4_096,
        addresses_message_bytes_max: 1 << 20,
        message_timeout_ms: 60_000,
        incoming_bytes_max: 4 << 20,
        set_tasks_max: 1,
        write_timeout_ms: 60_000,
        close_timeout_ms: 60_000,
        ping_ms: 60_000,
        hold_ms: 0,
    }
}

#[tokio::test]
async fn a_list_that_is_read_slowly_takes_the_memory_of_a_part() {
    let address =
        KaspaAddress { prefix: Prefix::Simnet, payload: AddressPayload::PublicKey([1; 32]) };
    let utxo = |number: u32| {
        let mut transaction_id = Hash([3; 32]);
        transaction_id.0[..4].copy_from_slice(&number.to_le_bytes());
        let entry = UtxoEntry {
            amount: 1,
            script_public_key: ScriptPublicKey::from_payload(&address.payload),
            block_daa_score: 0,
            is_coinbase: false,
            covenant_id: None,
        };
        (Outpoint { transaction_id, index: 0 }, entry)
    };
    let utxos: Vec<_> = (0..UTXOS).map(utxo).collect();
    let product = hash_utxos(&utxos);
    let header = Header { utxo_commitment: Hash(product.finalize()), ..Network::Simnet.genesis() };
    let mut loader = ChainLoader::new(ChainConfig::new(UTXOS + 1_000), header);
    loader.add_product(&product);
    loader.insert_unhashed(&utxos).expect("room");
    drop(utxos);
    let chain = loader.finish().expect("the hash of the set");
    let pool = Pool::new(cpu_pool::Config::default(), Arc::new(|| Duration::ZERO), || {});
    let server = KaspaRpc::serve(
        chain.reader(),
        Network::Simnet,
        Arc::new(NoUpstream),
        Settings::default(),
        config(),
        Arc::new(pool.expect("a thread")),
        Arc::new(RateLimiter::new(clients::Limits::default())),
    );
    let (client, io) = duplex(16 * 1024);
    let state = SessionState::new(Encoding::Borsh);
    tokio::spawn(serve_session(io, ClientId(1), Arc::clone(&server), state));
    let mut socket = WebSocketStream::from_raw_socket(client, Role::Client, None).await;
    // One request for what is allocated once.
    for list in [&[][..], &[address]] {
        let request = Method::GetUtxosByAddresses.encode_borsh_addresses(1, list);
        if list.is_empty() {
            socket.send(request.into()).await.expect("it reads");
            socket.next().await.expect("it is open").expect("a reply");
            HEAP.reset_peak_usage();
        } else {
            socket.send(request.into()).await.expect("it reads");
        }
    }
    let before = HEAP.current_usage();
    let mut raw = socket.into_inner();
    let mut buffer = vec![0; 16 * 1024];
    let mut read = 0_usize;
    while read < 148 * UTXOS as usize {
        read += raw.read(&mut buffer).await.expect("it is open");
        // The server makes what fits into the socket.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    }
    let grown = HEAP.peak_usage().saturating_sub(before);
    assert!(grown <= BYTES_MAX, "{grown} bytes more than before");
}
