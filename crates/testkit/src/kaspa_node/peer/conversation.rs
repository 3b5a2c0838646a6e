//! The conversation of a model peer with one client: the handshake of nodes, and the UTXO set of its pruning point.
//!
//! Like kaspad, it pings, announces a block and requests addresses after the handshake, and waits for a request after
//! each 99 chunks, even if no chunk follows. It sends no UTXO until the client has replied to both.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use kaspa::{Hash, Outpoint, ScriptPublicKey, UtxoEntry};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tonic::Streaming;

use super::faults::PeerFaults;
use super::wire::{Fields, chunk, number, peer_message, read_fields};
use crate::kaspa_node::connection::Shared;

/// The network of a model node.
const NETWORK: &str = "kaspa-simnet";
const PROTOCOL_VERSION: u32 = 10;
/// UTXOs of a chunk.
const CHUNK_UTXOS: usize = 1_000;
/// Chunks after which a node waits for a request.
const WINDOW_CHUNKS: usize = 99;

/// State that all connections of a peer share.
pub(crate) struct PeerShared {
    pub(crate) node: Arc<Shared>,
    pub(crate) faults: Mutex<PeerFaults>,
    pub(crate) requested_sets: AtomicU64,
    pub(crate) sent_chunks: AtomicU64,
}

/// A connection of a client.
pub(crate) struct Conversation {
    pub(crate) shared: Arc<PeerShared>,
    pub(crate) incoming: Streaming<Bytes>,
    pub(crate) outgoing: mpsc::Sender<Bytes>,
    pub(crate) faults: PeerFaults,
}

/// A UTXO with its outpoint.
type Utxo = (Outpoint, UtxoEntry);

impl Conversation {
    /// Runs until the client leaves, or until the peer has a reason to end.
    pub(crate) async fn run(mut self) {
        // `None`: the connection ends.
        let _ = self.converse().await;
    }

    async fn converse(&mut self) -> Option<()> {
        if self.faults.has_silent_handshake {
            return self.wait_for_end().await;
        }
        self.shake_hands().await?;
        self.send(number::PING, Fields::default().number(1, 77)).await?;
        self.send(number::REQUEST_ADDRESSES, Fields::default()).await?;
        let sink = self.shared.node.state.lock().dag.sink().hash;
        self.send(number::INV_RELAY_BLOCK, Fields::default().hash(1, &sink)).await?;
        let mut has_pong = false;
        let mut has_addresses = false;
        let mut requested = None;
        loop {
            let message = self.next_message().await?;
            match message.number {
                number::PONG => {
                    has_pong = read_fields(&message.content)?.iter().any(|field| field.value == 77);
                }
                number::ADDRESSES => has_addresses = true,
                number::REQUEST_UTXO_SET => requested = Some(read_hash(&message.content)?),
                _ => return None,
            }
            if let Some(block) = requested.take_if(|_| has_pong && has_addresses) {
                self.send_set(block).await?;
            }
        }
    }

    async fn shake_hands(&mut self) -> Option<()> {
        let network = self.faults.network.unwrap_or(NETWORK);
        let version = self.faults.protocol_version.unwrap_or(PROTOCOL_VERSION);
        let own = Fields::default()
            .number(1, u64::from(version))
            .number(3, 1_700_000_000_000)
            .bytes(5, &[9; 16])
            .bytes(6, b"/kaspad:2.1.0/")
            .bytes(10, network.as_bytes());
        self.send(number::VERSION, own).await?;
        let mut has_version = false;
        let mut is_accepted = false;
        let mut is_ready = false;
        while !(has_version && is_accepted) {
            let message = self.next_message().await?;
            match message.number {
                number::VERSION => {
                    let fields = read_fields(&message.content)?;
                    let has_id = fields.iter().any(|it| it.number == 5 && it.bytes.len() == 16);
                    let has_network =
                        fields.iter().any(|it| it.number == 10 && it.bytes == NETWORK.as_bytes());
                    let is_new = fields.iter().any(|it| it.number == 1 && it.value >= 10);
                    if !(has_id && has_network && is_new) {
                        return self.reject("wrong version").await;
                    }
                    self.send(number::VERACK, Fields::default()).await?;
                    has_version = true;
                }
                number::VERACK => is_accepted = true,
                number::READY => is_ready = true,
                _ => return None,
            }
        }
        if let Some(reason) = self.faults.rejection {
            return self.reject(reason).await;
        }
        self.send(number::READY, Fields::default()).await?;
        while !is_ready {
            is_ready = self.next_message().await?.number == number::READY;
        }
        Some(())
    }

    async fn send_set(&mut self, block: Hash) -> Option<()> {
        self.shared.requested_sets.fetch_add(1, Ordering::Relaxed);
        let pruning_point = self.shared.node.state.lock().pruning_point;
        if block != pruning_point || self.faults.has_other_pruning_point {
            return self.send(number::UNEXPECTED_PRUNING_POINT, Fields::default()).await;
        }
        if self.faults.has_endless_set {
            return self.send_endless_set().await;
        }
        let chunks = self.make_chunks(block);
        for end in [self.faults.cut_after, self.faults.silent_after].into_iter().flatten() {
            assert!(
                end <= chunks.len(),
                "a fault after {end} chunks, and there are {}",
                chunks.len()
            );
        }
        for sent in 0..=chunks.len() {
            if self.faults.cut_after == Some(sent) {
                return None;
            }
            if self.faults.silent_after == Some(sent) {
                return self.wait_for_end().await;
            }
            let Some(utxos) = chunks.get(sent) else { break };
            // The current pruning point is checked for each chunk.
            if self.shared.node.state.lock().pruning_point != block {
                return self.send(number::UNEXPECTED_PRUNING_POINT, Fields::default()).await;
            }
            self.send_chunk(utxos, sent).await?;
        }
        self.send(number::UTXO_CHUNKS_END, Fields::default()).await
    }

    /// Sends a chunk. After the last one of a window it waits for a request.
    async fn send_chunk(&mut self, utxos: &[Utxo], sent: usize) -> Option<()> {
        if let Some(delay) = self.faults.chunk_delay {
            tokio::time::sleep(delay).await;
        }
        let content = match self.faults.chunk_bytes {
            Some(len) => Fields::default().bytes(1, &vec![0; len]),
            None if self.faults.has_cut_chunks => chunk(utxos).cut(),
            None => chunk(utxos),
        };
        self.send(number::UTXO_CHUNK, content).await?;
        self.shared.sent_chunks.fetch_add(1, Ordering::Relaxed);
        if (sent + 1).is_multiple_of(WINDOW_CHUNKS) {
            while self.next_message().await?.number != number::REQUEST_NEXT_UTXO_CHUNK {}
        }
        Some(())
    }

    /// Returns the chunks of the set of a block. The last one has fewer UTXOs than the others, or none.
    fn make_chunks(&self, block: Hash) -> Vec<Vec<Utxo>> {
        let faults = &self.faults;
        let block = faults.other_block.unwrap_or(block);
        let foreign = self.shared.node.state.lock().foreign_set.clone();
        let mut utxos: Vec<Utxo> = foreign.unwrap_or_else(|| {
            let set = self.shared.node.state.lock().dag.utxos_at(&block);
            set.into_iter().collect()
        });
        utxos.sort_by_key(|(outpoint, _)| (outpoint.transaction_id, outpoint.index.to_le_bytes()));
        if let Some(at) = faults.flipped_amount {
            utxos[at].1.amount ^= 1;
        }
        if let Some(at) = faults.repeated_utxo {
            utxos.insert(at, utxos[at].clone());
        }
        let first_len = CHUNK_UTXOS + usize::from(faults.has_long_chunk);
        let first = utxos.drain(..first_len.min(utxos.len())).collect();
        let mut chunks: Vec<Vec<Utxo>> = vec![first];
        chunks.extend(utxos.chunks(CHUNK_UTXOS).map(<[Utxo]>::to_vec));
        if chunks.last().is_some_and(|last| last.len() >= CHUNK_UTXOS) {
            chunks.push(Vec::new());
        }
        if let Some(at) = faults.missing_chunk {
            chunks.remove(at);
        }
        if faults.has_no_last_chunk {
            chunks.pop();
        }
        chunks
    }

    /// Sends UTXOs that do not exist, in order.
    async fn send_endless_set(&mut self) -> Option<()> {
        for sent in 0.. {
            let utxo = |at: usize| {
                let mut id = [0; 32];
                id[..8].copy_from_slice(&((sent * CHUNK_UTXOS + at) as u64).to_be_bytes());
                let entry = UtxoEntry {
                    amount: 1,
                    script_public_key: ScriptPublicKey { version: 0, script: vec![7; 34].into() },
                    block_daa_score: 0,
                    is_coinbase: false,
                    covenant_id: None,
                };
                (Outpoint { transaction_id: Hash(id), index: 0 }, entry)
            };
            let utxos: Vec<Utxo> = (0..CHUNK_UTXOS).map(utxo).collect();
            self.send_chunk(&utxos, sent).await?;
        }
        None
    }

    async fn reject(&mut self, reason: &str) -> Option<()> {
        self.send(number::REJECT, Fields::default().bytes(1, reason.as_bytes())).await?;
        None
    }

    /// Sends nothing until the client leaves.
    async fn wait_for_end(&mut self) -> Option<()> {
        loop {
            self.next_message().await?;
        }
    }

    async fn send(&mut self, number: u64, content: Fields) -> Option<()> {
        self.outgoing.send(peer_message(number, content)).await.ok()
    }

    async fn next_message(&mut self) -> Option<ReceivedMessage> {
        let bytes = self.incoming.message().await.ok()??;
        let fields = read_fields(&bytes)?;
        let [field] = fields.as_slice() else { return None };
        let content = Bytes::copy_from_slice(field.bytes);
        Some(ReceivedMessage { number: field.number, content })
    }
}

/// A message of a client.
struct ReceivedMessage {
    number: u64,
    content: Bytes,
}

/// Reads the hash of a request.
fn read_hash(content: &[u8]) -> Option<Hash> {
    let fields = read_fields(content)?;
    let inner = read_fields(fields.first()?.bytes)?;
    inner.first()?.bytes.try_into().ok().map(Hash)
}
