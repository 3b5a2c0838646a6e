//! A Kaspa chain behind wRPC in Borsh, and its clients, on sockets in memory.
//!
//! Shape: the server and its connections are those of a node: `rpc_kaspa` over `websocket`. No limit is reached.
//! Not here: TLS and the upgrade from HTTP.

use std::ops::Range;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use chain_kaspa::{Chain, ChainConfig, ChainLoader, ChainReader};
use clients::{ClientId, RateLimiter};
use cpu_pool::Pool;
use futures_util::{SinkExt, StreamExt};
use jsonrpc::SystemClock;
use kaspa::{BorshServerMessage, Encoding, KaspaAddress, Network, Operation, Prefix, Scope};
use muhash::MuHash;
use rpc_kaspa::{
    Forward, ForwardError, ForwardFuture, KaspaRpc, KaspaServer, SessionState, Settings,
};
use subscriptions::Limits;
use testkit::kaspa_chain::{BlockBuilder, numbered_payload};
use tokio::io::{DuplexStream, duplex};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use websocket::{Config, serve_session};

/// Addresses of a message: 950 KB.
const ADDRESSES_PER_MESSAGE: u32 = 25_000;
/// Bytes that a client reads at once. By default tungstenite fills a buffer of 128 KiB for each client with zeros.
const READ_BUFFER_BYTES: usize = 4 * 1024;
const HOUR_MS: u64 = 3_600_000;
/// More than a benchmark has of anything.
const UNLIMITED: usize = 1 << 27;

/// A connected client of a chain.
pub(crate) struct Client {
    pub(crate) socket: WebSocketStream<DuplexStream>,
    next_id: u64,
}

struct NoUpstream;

impl Forward for NoUpstream {
    fn forward(&self, _: ClientId, _: Encoding, _: Operation, _: Bytes) -> ForwardFuture<'_> {
        Box::pin(async { Err(ForwardError::new("no upstream")) })
    }
}

/// Creates a chain without UTXOs.
pub(crate) fn empty_chain(addresses_max: u32) -> Result<Chain> {
    let first = BlockBuilder::new(MuHash::EMPTY);
    let config = ChainConfig::new(addresses_max);
    Ok(ChainLoader::new(config, first.sink().clone()).finish()?)
}

/// Creates the server of a chain.
pub(crate) fn serve_chain(chain: ChainReader) -> Result<Arc<KaspaServer>> {
    let pool = Pool::new(cpu_pool::Config::default(), Arc::new(SystemClock::new()), || {})?;
    Ok(KaspaRpc::serve(
        chain,
        Network::Simnet,
        Arc::new(NoUpstream),
        Settings::default(),
        config(),
        Arc::new(pool),
        Arc::new(RateLimiter::new(clients::Limits::default())),
    ))
}

fn config() -> Config {
    Config {
        limits: Limits {
            listeners_max: UNLIMITED,
            subscriptions_max: UNLIMITED,
            subscriptions_per_listener_max: 10,
            addresses_max: UNLIMITED,
            address_pairs_max: UNLIMITED,
            addresses_per_owner_max: UNLIMITED,
            addresses_per_listener_max: UNLIMITED,
            retained_steps: 150,
            retained_bytes: 256 << 20,
            unrooted_max: 4_096,
            queue_messages_max: 1 << 16,
            queue_bytes_max: 64 << 20,
            queues_bytes_max: 1 << 30,
        },
        message_bytes_max: 64 * 1024,
        addresses_message_bytes_max: 64 << 20,
        message_timeout_ms: HOUR_MS,
        incoming_bytes_max: 1 << 30,
        set_tasks_max: 1,
        write_timeout_ms: HOUR_MS,
        close_timeout_ms: HOUR_MS,
        ping_ms: HOUR_MS,
        hold_ms: 0,
    }
}

/// Returns the address of a numbered key.
pub(crate) fn numbered_address(number: u32) -> KaspaAddress {
    KaspaAddress { prefix: Prefix::Simnet, payload: numbered_payload(number) }
}

/// Returns the scopes of subscriptions to addresses, each short enough for a message.
pub(crate) fn utxo_scopes(addresses: Range<u32>) -> impl Iterator<Item = Scope> {
    let end = addresses.end;
    addresses.step_by(ADDRESSES_PER_MESSAGE as usize).map(move |first| {
        let part = first..end.min(first.saturating_add(ADDRESSES_PER_MESSAGE));
        Scope::UtxosChanged { addresses: part.map(numbered_address).collect() }
    })
}

impl Client {
    /// Connects, in the current runtime. The socket holds `buffer_bytes` in each direction.
    pub(crate) async fn connect(
        server: &Arc<KaspaServer>,
        number: u32,
        buffer_bytes: usize,
    ) -> Self {
        let (client, io) = duplex(buffer_bytes);
        let state = SessionState::new(Encoding::Borsh);
        let client_id = ClientId(u128::from(number) + 1);
        tokio::spawn(serve_session(io, client_id, Arc::clone(server), state));
        let config = WebSocketConfig::default().read_buffer_size(READ_BUFFER_BYTES);
        let socket = WebSocketStream::from_raw_socket(client, Role::Client, Some(config)).await;
        Self { socket, next_id: 1 }
    }

    /// Sends a request with a new id, and waits for its reply.
    pub(crate) async fn exchange(&mut self, encode: impl FnOnce(u64) -> Vec<u8>) -> Result<Bytes> {
        let id = self.next_id;
        self.next_id += 1;
        self.socket.send(Message::Binary(encode(id).into())).await?;
        let message = self.receive().await?;
        match BorshServerMessage::parse(&message)? {
            BorshServerMessage::Reply(reply) => {
                ensure!(reply.id == id, "the reply to another request");
                reply.result?;
            }
            BorshServerMessage::Notification { event, .. } => bail!("a notification of {event:?}"),
        }
        Ok(message)
    }

    /// Returns the next message of the server.
    pub(crate) async fn receive(&mut self) -> Result<Bytes> {
        loop {
            match self.socket.next().await.context("the connection has ended")?? {
                Message::Binary(message) => return Ok(message),
                Message::Ping(_) | Message::Pong(_) => {}
                other => bail!("another message: {other}"),
            }
        }
    }

    /// Subscribes to changes of the UTXOs of numbered addresses, in addition to those before.
    pub(crate) async fn subscribe(&mut self, addresses: Range<u32>) -> Result<()> {
        for scope in utxo_scopes(addresses) {
            self.exchange(|id| scope.encode_borsh_subscribe(id)).await?;
        }
        Ok(())
    }

    /// Subscribes to one address with a message as long as one of `addresses`, and leaves: both ends allocate their
    /// buffers.
    pub(crate) async fn warm_up(&mut self, addresses: Range<u32>) -> Result<()> {
        let len = addresses.len().min(ADDRESSES_PER_MESSAGE as usize);
        let scope = Scope::UtxosChanged { addresses: vec![numbered_address(addresses.start); len] };
        self.exchange(|id| scope.encode_borsh_subscribe(id)).await?;
        self.unsubscribe().await
    }

    /// Ends the subscription to changes of UTXOs.
    pub(crate) async fn unsubscribe(&mut self) -> Result<()> {
        let all = Scope::UtxosChanged { addresses: Vec::new() };
        self.exchange(|id| all.encode_borsh_unsubscribe(id)).await.map(drop)
    }
}
