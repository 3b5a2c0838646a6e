//! A connection to another node of Kaspa: the handshake, and the chunks of its UTXO set.
//!
//! In: the address of the node. Out: encoded chunks, in the order in which they came.
//! A node sends the set of its pruning point only, from the first UTXO on, in chunks of 1,000. After each 99 chunks it
//! waits for a request. Meanwhile it announces blocks, pings, and requests addresses; a node that gets no reply to the
//! latter two ends the connection.
//! Bounds: [`ImportLimits`]. The windows of HTTP/2 bound the bytes that a peer sends ahead; messages are not
//! compressed.
//! Not here: the content of a chunk (`chunk`), the choice of a peer (`importer`).

use std::hash::{BuildHasher, RandomState};
use std::time::SystemTime;

use bytes::Bytes;
use http_client::shorten_message;
use kaspa::{Hash, Network};
use tokio::sync::mpsc;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Streaming};
use tonic_prost::ProstCodec;

use super::config::{ImportLimits, PeerConfig};
use super::deadline::Deadline;
use super::messages::{
    Empty, Payload, PeerHash, PeerMessage, RequestUtxoSet, STREAM_PATH, Version,
};
use super::peer_error::PeerError;

/// The version of the protocol: that of kaspad 2.1.0, and the lowest that it accepts.
const PROTOCOL_VERSION: u32 = 10;
/// Chunks after which a node waits for a request.
const WINDOW_CHUNKS: u32 = 99;
/// The name of these chunks in errors.
const WINDOW_STEP: &str = "99 chunks of UTXOs";
/// Our messages that wait for the peer. All but replies to its pings are few.
const OUTGOING_MAX: usize = 64;
/// Windows of HTTP/2, for the stream and for the connection.
const STREAM_WINDOW_BYTES: u32 = 4 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 8 << 20;

/// A connection after the handshake.
pub(crate) struct Peer {
    /// The connection ends with it.
    _channel: Channel,
    outgoing: mpsc::Sender<PeerMessage>,
    incoming: Streaming<PeerMessage>,
    limits: ImportLimits,
}

/// The UTXO set that a peer sends after a request.
pub(crate) struct RequestedSet<'a> {
    peer: &'a mut Peer,
    /// The block to which the set belongs.
    pruning_point: Hash,
    /// Chunks since the last request.
    window_chunks: u32,
    /// Deadline of the chunks up to the next request.
    window: Deadline,
    /// Deadline of all chunks.
    end: Deadline,
}

impl Peer {
    /// Connects to a node of a network.
    pub(crate) async fn connect(
        peer: &PeerConfig,
        network: Network,
        limits: ImportLimits,
    ) -> Result<Self, PeerError> {
        let connection = Deadline::start("connection", limits.connect_timeout);
        let mut connected = connection.run(Self::open_stream(peer, network, limits)).await?;
        connected.shake_hands(network).await?;
        Ok(connected)
    }

    async fn open_stream(
        peer: &PeerConfig,
        network: Network,
        limits: ImportLimits,
    ) -> Result<Self, PeerError> {
        let connect_error = |error| PeerError::Connect(Box::new(error));
        let endpoint = Endpoint::from_shared(peer.url()).map_err(connect_error)?;
        let endpoint = endpoint
            .tcp_nodelay(true)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
        let channel = endpoint.connect().await.map_err(connect_error)?;
        let message_bytes_max = limits.message_bytes_max;
        let mut client = Grpc::new(channel.clone()).max_decoding_message_size(message_bytes_max);
        client.ready().await.map_err(connect_error)?;
        let (outgoing, mut waiting) = mpsc::channel(OUTGOING_MAX);
        let version = PeerMessage { payload: Some(Payload::Version(own_version(network))) };
        outgoing.try_send(version).map_err(|_| PeerError::NotReading)?;
        let requests = futures_util::stream::poll_fn(move |context| waiting.poll_recv(context));
        let path = PathAndQuery::from_static(STREAM_PATH);
        let codec: ProstCodec<PeerMessage, PeerMessage> = ProstCodec::default();
        let response = client.streaming(Request::new(requests), path, codec).await;
        let response =
            response.map_err(|status| PeerError::from_status(&status, message_bytes_max))?;
        Ok(Self { _channel: channel, outgoing, incoming: response.into_inner(), limits })
    }

    /// Exchanges versions. Each side confirms that of the other, and then says that it is ready.
    async fn shake_hands(&mut self, network: Network) -> Result<(), PeerError> {
        let deadline = Deadline::start("handshake", self.limits.handshake_timeout);
        let mut has_version = false;
        let mut is_accepted = false;
        let mut is_ready = false;
        while !(has_version && is_accepted && is_ready) {
            match self.next_payload(deadline).await? {
                Payload::Version(version) if !has_version => {
                    check_version(&version, network)?;
                    self.send(Payload::Verack(Empty {}))?;
                    has_version = true;
                }
                Payload::Verack(_) if !is_accepted => {
                    self.send(Payload::Ready(Empty {}))?;
                    is_accepted = true;
                }
                Payload::Ready(_) => is_ready = true,
                _ => {}
            }
        }
        Ok(())
    }

    /// Requests the UTXO set of a block, which must be the pruning point of the node.
    pub(crate) fn request_set(
        &mut self,
        pruning_point: Hash,
    ) -> Result<RequestedSet<'_>, PeerError> {
        let bytes = Bytes::copy_from_slice(&pruning_point.0);
        let request = RequestUtxoSet { pruning_point: Some(PeerHash { bytes }) };
        self.send(Payload::RequestUtxoSet(request))?;
        let window = window_deadline(&self.limits);
        let end = Deadline::start("UTXO set", self.limits.set_timeout);
        Ok(RequestedSet { peer: self, pruning_point, window_chunks: 0, window, end })
    }

    /// Returns the next message that is known, and replies to those that every node replies to.
    async fn next_payload(&mut self, deadline: Deadline) -> Result<Payload, PeerError> {
        loop {
            let message_bytes_max = self.limits.message_bytes_max;
            let read = async {
                let message = self.incoming.message().await;
                message.map_err(|status| PeerError::from_status(&status, message_bytes_max))
            };
            let message = deadline.run(read).await?.ok_or(PeerError::Closed)?;
            match message.payload {
                Some(Payload::Ping(nonce)) => self.send(Payload::Pong(nonce))?,
                Some(Payload::RequestAddresses(_)) => self.send(Payload::Addresses(Empty {}))?,
                Some(Payload::Reject(reject)) => {
                    return Err(PeerError::Rejected { reason: shorten_message(&reject.reason) });
                }
                Some(payload) => return Ok(payload),
                None => {}
            }
        }
    }

    fn send(&self, payload: Payload) -> Result<(), PeerError> {
        let message = PeerMessage { payload: Some(payload) };
        self.outgoing.try_send(message).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => PeerError::NotReading,
            mpsc::error::TrySendError::Closed(_) => PeerError::Closed,
        })
    }
}

impl RequestedSet<'_> {
    /// Returns the next chunk. `None` after the last one.
    pub(crate) async fn next_chunk(&mut self) -> Result<Option<Bytes>, PeerError> {
        let chunk = Deadline::start("chunk of UTXOs", self.peer.limits.chunk_timeout);
        let deadline = chunk.min(self.window).min(self.end);
        loop {
            match self.peer.next_payload(deadline).await? {
                Payload::UtxoChunk(chunk) => {
                    self.window_chunks += 1;
                    // Before the chunk is handled, so that the next ones are on their way.
                    if self.window_chunks == WINDOW_CHUNKS {
                        self.window_chunks = 0;
                        self.window = window_deadline(&self.peer.limits);
                        self.peer.send(Payload::RequestNextUtxoChunk(Empty {}))?;
                    }
                    return Ok(Some(chunk));
                }
                Payload::DoneUtxoChunks(_) => return Ok(None),
                Payload::UnexpectedPruningPoint(_) => {
                    let block = self.pruning_point;
                    return Err(PeerError::UnexpectedPruningPoint { block });
                }
                _ => {}
            }
        }
    }
}

/// Returns the deadline of the chunks up to the next request, from now on.
fn window_deadline(limits: &ImportLimits) -> Deadline {
    Deadline::start(WINDOW_STEP, limits.window_timeout)
}

/// Returns the name of a network as nodes have it.
fn network_name(network: Network) -> String {
    format!("kaspa-{network}")
}

fn own_version(network: Network) -> Version {
    let random = || RandomState::new().hash_one(0_u8).to_le_bytes();
    Version {
        protocol_version: PROTOCOL_VERSION,
        timestamp_ms: unix_time_ms(),
        id: Bytes::from([random(), random()].concat()),
        user_agent: concat!("/hydrant:", env!("CARGO_PKG_VERSION"), "/").to_owned(),
        disable_relay_tx: true,
        network: network_name(network),
    }
}

#[expect(clippy::disallowed_methods, reason = "a node compares its clock with those of its peers")]
fn unix_time_ms() -> i64 {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let since_epoch = since_epoch.unwrap_or_default();
    i64::try_from(since_epoch.as_millis()).unwrap_or_default()
}

fn check_version(version: &Version, network: Network) -> Result<(), PeerError> {
    if version.network != network_name(network) {
        let found = shorten_message(&version.network);
        return Err(PeerError::OtherNetwork { found, network });
    }
    if version.protocol_version < PROTOCOL_VERSION {
        let min = PROTOCOL_VERSION;
        return Err(PeerError::TooOld { version: version.protocol_version, min });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_of_the_network_and_new_enough() {
        let own = own_version(Network::Testnet(10));
        assert_eq!((own.id.len(), own.network.as_str()), (16, "kaspa-testnet-10"));
        assert_ne!(own.id, own_version(Network::Testnet(10)).id);
        let check = |version: &Version| check_version(version, Network::Testnet(10));
        assert!(check(&own).is_ok());
        assert!(check(&Version { protocol_version: 11, ..own.clone() }).is_ok());
        let old = check(&Version { protocol_version: 9, ..own.clone() });
        assert!(matches!(old, Err(PeerError::TooOld { version: 9, min: 10 })));
        for network in ["kaspa-mainnet", "kaspa-testnet-11", "testnet-10", ""] {
            let other = check(&Version { network: network.to_owned(), ..own.clone() });
            assert!(matches!(other, Err(PeerError::OtherNetwork { .. })), "{network}");
        }
    }
}
