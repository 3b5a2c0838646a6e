//! Transactions to leaders that misbehave: one never reads, one takes no streams, one closes each connection, one does
//! not exist. The others get everything.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::num::NonZeroU64;
use std::sync::Arc;

use chain_solana::{
    Cluster, ClusterNode, InflationSchedule, LeaderSchedule, QueueBound, SendError,
    TransactionSender, VerifiedTransaction, View, VoteStakes,
};
use clients::ClientId;
use follow::{Base, Follower, LeaderSender, SenderChain, SourceConfig, UpstreamSender};
use metrics::Collector;
use parking_lot::Mutex;
use query::LedgerConfig;
use quinn::{Connection, Endpoint, ServerConfig, TransportConfig, VarInt};
use snapshot_solana::Progress;
use solana_feature_set::FeatureSet;
use solana_hash::Hash;
use solana_keypair::Keypair;
use solana_message::{Message, VersionedMessage};
use solana_pubkey::Pubkey;
use solana_signer::Signer;
use solana_transaction::versioned::VersionedTransaction;
use testkit::eventually::eventually;

use crate::follows::config;
use crate::snapshot;

const QUEUE_MAX: usize = 40;

/// The reaction of a leader to connections.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Behaviour {
    Reads,
    NeverReads,
    TakesNoStreams,
    Closes,
}

/// The bytes of each stream that a leader read.
type Received = Arc<Mutex<Vec<Vec<u8>>>>;

/// A leader on a free port of the loopback.
fn leader(behaviour: Behaviour) -> (SocketAddr, Received) {
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).expect("a key");
    let params = rcgen::CertificateParams::new(["localhost".to_owned()]).expect("a name");
    let certificate = params.self_signed(&key).expect("a certificate");
    let der = rustls::pki_types::PrivatePkcs8KeyDer::from(key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], der.into())
        .expect("a certificate");
    tls.alpn_protocols = vec![tpu::ALPN.to_vec()];
    let tls = quinn::crypto::rustls::QuicServerConfig::try_from(tls).expect("a cipher");
    let mut config = ServerConfig::with_crypto(Arc::new(tls));
    let mut transport = TransportConfig::default();
    let streams = match behaviour {
        Behaviour::TakesNoStreams => 0,
        Behaviour::NeverReads => 1,
        Behaviour::Reads | Behaviour::Closes => 100,
    };
    transport.max_concurrent_uni_streams(VarInt::from_u32(streams));
    config.transport_config(Arc::new(transport));
    let socket = UdpSocket::bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port");
    let address = socket.local_addr().expect("it is bound");
    let runtime = quinn::default_runtime().expect("a runtime");
    let endpoint = Endpoint::new(Default::default(), Some(config), socket, runtime);
    let endpoint = endpoint.expect("an endpoint");
    let received = Received::default();
    let all = Arc::clone(&received);
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Some(incoming) = endpoint.accept().await {
            let Ok(connection) = incoming.await else { continue };
            match behaviour {
                Behaviour::Reads => drop(tokio::spawn(read(connection, Arc::clone(&all)))),
                Behaviour::NeverReads | Behaviour::TakesNoStreams => open.push(connection),
                Behaviour::Closes => connection.close(VarInt::from_u32(0), b"go away"),
            }
        }
    });
    (address, received)
}

async fn read(connection: Connection, all: Received) {
    while let Ok(mut stream) = connection.accept_uni().await {
        if let Ok(bytes) = stream.read_to_end(4_096).await {
            all.lock().push(bytes);
        }
    }
}

/// A cluster with leaders of four consecutive slots each.
struct Leaders {
    nodes: Arc<[ClusterNode]>,
    schedule: Arc<LeaderSchedule>,
}

impl Leaders {
    fn new(addresses: &[Option<SocketAddr>]) -> Self {
        let node = |tpu_quic: &Option<SocketAddr>| ClusterNode {
            identity: Pubkey::new_unique(),
            tpu_quic: *tpu_quic,
            ..ClusterNode::default()
        };
        let nodes: Arc<[ClusterNode]> = addresses.iter().map(node).collect();
        let turns: Vec<Pubkey> =
            nodes.iter().map(|node| node.identity).cycle().take(2_048).collect();
        let four = NonZeroU64::new(4).expect("it is not 0");
        Self { nodes, schedule: Arc::new(LeaderSchedule::new(&turns, four, 8_192)) }
    }
}

impl Cluster for Leaders {
    fn leaders(&self, _: u64) -> Option<Arc<LeaderSchedule>> {
        Some(Arc::clone(&self.schedule))
    }

    fn stakes(&self, _: &View) -> Option<Arc<VoteStakes>> {
        None
    }

    fn nodes(&self) -> Option<Arc<[ClusterNode]>> {
        Some(Arc::clone(&self.nodes))
    }

    fn inflation(&self) -> Option<Arc<InflationSchedule>> {
        None
    }

    fn features(&self) -> Arc<FeatureSet> {
        Arc::default()
    }

    fn slot_ms(&self) -> u64 {
        400
    }
}

fn start(leaders: Leaders) -> Arc<LeaderSender> {
    start_with(leaders, None)
}

fn start_with(leaders: Leaders, upstream: Option<UpstreamSender>) -> Arc<LeaderSender> {
    let dir = tempfile::tempdir().expect("a directory");
    let archive = snapshot::write(dir.path());
    let limits = LedgerConfig::new(100_000);
    let loaded = snapshot_ledger::load_snapshot(&limits, &archive, None, 1, &Progress::default());
    let source = SourceConfig { url: "http://127.0.0.1:1".into(), x_token: None };
    let base = Base::from_snapshot(loaded.expect("the archive loads")).expect("a base");
    let follower = Follower::new(config(vec![source]), base).expect("a follower");
    let chain = SenderChain {
        reader: follower.reader().clone(),
        history: Arc::clone(follower.history()),
        cluster: Arc::new(leaders),
        epochs: follower.snapshot_fields().epoch_schedule.clone(),
    };
    let keypair = Keypair::new();
    let identity = tpu::TlsIdentity::new(*keypair.secret_bytes(), keypair.pubkey());
    LeaderSender::start(chain, &identity, QUEUE_MAX, upstream).expect("a socket and a thread")
}

fn transaction() -> VerifiedTransaction {
    let payer = Keypair::new();
    let blockhash = Hash::new_from_array(snapshot::BLOCKHASH);
    let message = Message::new_with_blockhash(&[], Some(&payer.pubkey()), &blockhash);
    let message = VersionedMessage::Legacy(message);
    let transaction = VersionedTransaction::try_new(message, &[&payer]).expect("a signature");
    VerifiedTransaction::verify(transaction).expect("it is valid")
}

async fn wait(what: &str, is_done: impl Fn() -> bool) {
    eventually(is_done, || what.to_owned()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_misbehaves_delays_no_other() {
    for behaviour in [Behaviour::NeverReads, Behaviour::TakesNoStreams, Behaviour::Closes] {
        let (bad, _) = leader(behaviour);
        let (good, received) = leader(Behaviour::Reads);
        // The slot after the snapshot's is the second leader's, and then comes the first.
        let sender = start(Leaders::new(&[Some(bad), Some(good)]));
        let sent: Vec<VerifiedTransaction> = (0..10).map(|_| transaction()).collect();
        for (n, transaction) in sent.iter().enumerate() {
            let client = ClientId(n as u128);
            sender.send(client.into(), transaction.clone()).expect("there is space");
        }
        let bytes = |it: &VerifiedTransaction| wincode::serialize(it.transaction()).expect("bytes");
        wait("the good leader gets all of them", || {
            let received = received.lock();
            sent.iter().all(|transaction| received.contains(&bytes(transaction)))
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_known_leader_transactions_wait_within_their_bound() {
    let dialable = Some(SocketAddr::from(([127, 0, 0, 1], 1)));
    // The one that is known is not among the next leaders.
    let sender = start(Leaders::new(&[None, None, None, None, None, dialable]));
    let mut refused = Vec::new();
    for n in 0..2 * QUEUE_MAX {
        let client = ClientId((n % 4) as u128);
        refused.extend(sender.send(client.into(), transaction()).err());
    }
    let is_full = |err: &SendError| {
        let share = QueueBound::ClientTransactions;
        matches!(err, SendError::QueueFull { bound, .. } if *bound == share)
    };
    assert!(refused.iter().all(is_full), "{refused:?}");
    // Four clients leave a fifth of the queue free for others.
    assert_eq!(2 * QUEUE_MAX - refused.len(), 4 * QUEUE_MAX / 5);
    sender.send(ClientId(9).into(), transaction()).expect("another client finds space");
    let (part, bytes) = sender.memory()[0];
    assert_eq!(part, "follow_send_queue");
    assert!(bytes > 0 && bytes < (QUEUE_MAX * 2_048) as u64, "{bytes}");
}

/// A node that no client can dial, as one that listens on every address announced itself before.
fn undialable() -> Leaders {
    Leaders::new(&[None, Some(SocketAddr::from(([0, 0, 0, 0], 9_901)))])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sender_is_told_that_no_leader_can_be_dialled() {
    let sender = start(undialable());
    wait("the nodes are checked", || sender.is_cut_off()).await;
    let refused = sender.send(ClientId(1).into(), transaction());
    assert_eq!(refused, Err(SendError::NoLeader));
    let with_one = start(Leaders::new(&[None, Some(SocketAddr::from(([127, 0, 0, 1], 1)))]));
    with_one.send(ClientId(1).into(), transaction()).expect("it waits for that leader");
    assert!(!with_one.is_cut_off());
}

/// Answers one request of JSON-RPC on a free port, and returns its body.
fn upstream() -> (SocketAddr, std::thread::JoinHandle<String>) {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port");
    let address = listener.local_addr().expect("it is bound");
    let thread = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().expect("a connection");
        let mut reader = BufReader::new(socket.try_clone().expect("a socket"));
        let mut line = String::new();
        let mut length = 0;
        while reader.read_line(&mut line).expect("a head") > 2 {
            let lower = line.to_ascii_lowercase();
            if let Some(value) = lower.strip_prefix("content-length:") {
                length = value.trim().parse().expect("a length");
            }
            line.clear();
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).expect("a body");
        let reply = r#"{"jsonrpc":"2.0","result":"","id":1}"#;
        write!(socket, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{reply}", reply.len())
            .expect("it reads");
        String::from_utf8(body).expect("text")
    });
    (address, thread)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_upstream_gets_what_no_leader_can_be_sent() {
    let (address, received) = upstream();
    let endpoint = http_client::Endpoint::parse(&format!("http://{address}")).expect("a URL");
    let upstream = UpstreamSender::start(&endpoint, QUEUE_MAX).expect("threads");
    let sender = start_with(undialable(), Some(upstream));
    wait("the nodes are checked", || sender.is_cut_off()).await;
    sender.send(ClientId(1).into(), transaction()).expect("the upstream takes it");
    let body = tokio::task::spawn_blocking(|| received.join()).await.expect("a thread");
    assert!(body.expect("a request").contains("sendTransaction"));
}
