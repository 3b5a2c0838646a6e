//! The import of the pruning point's UTXO set: from honest peers, lost ones, and peers that lie.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use chain_kaspa::{Chain, ChainConfig, all_utxos, hash_utxos};
use follow_kaspa::{
    ImportConfig, ImportError, ImportLimits, ImportProgress, PeerConfig, SourceConfig,
    import_chain, start_chain,
};
use kaspa::{AddressPayload, Hash, Header, Network, Outpoint, ScriptPublicKey, UtxoEntry};
use ledger::Commitment;
use tempfile::TempDir;
use testkit::eventually::eventually;
use testkit::kaspa_node::{KaspaNode, KaspaPeer, MINER, Payment, PeerFaults};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::world::{Utxos, World, chain_config, config, source};

/// Outputs of the payments below the pruning point: they make three chunks.
const OUTPUTS: [u64; 2] = [1_150, 1_150];

/// A pruned node, a peer of it, and a directory for the files of an import.
struct Pruned {
    node: KaspaNode,
    peer: KaspaPeer,
    dir: TempDir,
}

/// A running import.
struct RunningImport {
    progress: Arc<ImportProgress>,
    task: JoinHandle<Result<Chain, ImportError>>,
}

impl Pruned {
    async fn start() -> Self {
        let node = KaspaNode::start().await;
        node.mine(10);
        for (key, outputs) in OUTPUTS.into_iter().enumerate() {
            let payload = AddressPayload::PublicKey([key as u8 + 1; 32]);
            let script = ScriptPublicKey::from_payload(&payload);
            let to = (0..outputs).map(|output| (script.clone(), 1_000 + output)).collect();
            node.pay(&Payment { from: MINER, to, fee: 1_000 }).expect("enough sompi");
            node.mine(2);
        }
        let pruning_point = node.mine(2)[1];
        node.set_pruning_point(pruning_point);
        node.mine(6);
        let peer = node.serve_peers().await;
        Self { node, peer, dir: tempfile::tempdir().expect("a directory") }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("kaspa.snapshot")
    }

    fn config(&self, peers: &[&KaspaPeer]) -> ImportConfig {
        import_config(vec![source(&self.node)], peers, &self.path())
    }

    fn pruning_point_set(&self) -> Utxos {
        let block = self.node.with_dag(|dag| dag.chain_block(6));
        self.node.utxos_at(&block)
    }

    /// Imports from this peer alone, which is refused. Returns the error.
    async fn import_refused(&self, limits: ImportLimits) -> String {
        let config = ImportConfig { limits, ..self.config(&[&self.peer]) };
        let import = RunningImport::start(config);
        let refused = import.task.await.expect("no panic").err();
        match refused {
            Some(ImportError::NoPeer { last }) => last,
            other => panic!("{other:?}"),
        }
    }
}

impl RunningImport {
    fn start(config: ImportConfig) -> Self {
        Self::start_with(config, chain_config())
    }

    fn start_with(config: ImportConfig, chain: ChainConfig) -> Self {
        let progress = Arc::new(ImportProgress::default());
        let shared = Arc::clone(&progress);
        let runtime = Handle::current();
        let import = move || import_chain(&runtime, &config, &chain, &shared);
        Self { progress, task: tokio::task::spawn_blocking(import) }
    }

    /// Waits until a transfer has failed for a reason.
    async fn wait_for_problem(&self, expected: &str) {
        let has_problem =
            || self.progress.last_problem().is_some_and(|problem| problem.contains(expected));
        eventually(has_problem, || self.progress.to_string()).await;
    }

    async fn finish(self) -> Chain {
        self.task.await.expect("no panic").expect("a chain")
    }
}

fn import_config(sources: Vec<SourceConfig>, peers: &[&KaspaPeer], path: &Path) -> ImportConfig {
    let parse = |peer: &&KaspaPeer| {
        let address = peer.address().to_string();
        PeerConfig::parse(&address, Network::Simnet).expect("an address")
    };
    let peers = peers.iter().map(parse).collect();
    let follower = config(Vec::new());
    ImportConfig {
        connection: follower.connection,
        session: follower.session,
        ..ImportConfig::new(Network::Simnet, sources, peers, path)
    }
}

fn read_set(chain: &Chain) -> Utxos {
    all_utxos(&chain.reader().utxos.view(Commitment::Finalized)).collect()
}

fn list_files(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).expect("a directory");
    let name = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.expect("an entry").file_name().to_string_lossy().into_owned()
    };
    entries.map(name).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chain_starts_from_the_pruning_point_of_its_source() {
    let pruned = Pruned::start().await;
    let import = RunningImport::start(pruned.config(&[&pruned.peer]));
    let progress = Arc::clone(&import.progress);
    let chain = import.finish().await;
    let expected = pruned.pruning_point_set();
    assert!(expected.len() > 2_000, "{} UTXOs are less than three chunks", expected.len());
    assert_eq!(read_set(&chain), expected);
    assert_eq!((progress.utxos(), progress.transfers()), (expected.len() as u64, 1));
    // The next start does not import.
    assert_eq!(list_files(pruned.dir.path()), ["kaspa.snapshot"]);
    let restarted = start_chain(Network::Simnet, chain_config(), Some(&pruned.path()));
    assert_eq!(read_set(&restarted.expect("a file")), expected);

    let world = World::start_with(config(vec![source(&pruned.node)]), chain);
    world.reach_virtual(&pruned.node).await;
    pruned.node.mine(5);
    world.reach_virtual(&pruned.node).await;
    assert_eq!(pruned.peer.requested_sets(), 1);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_set_is_imported() {
    let node = KaspaNode::start().await;
    node.mine(3);
    let peer = node.serve_peers().await;
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("kaspa.snapshot");
    let chain = RunningImport::start(import_config(vec![source(&node)], &[&peer], &path));
    let chain = chain.finish().await;
    assert_eq!(chain.sink().hash, Network::Simnet.genesis().hash());
    assert!(read_set(&chain).is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_set_that_the_source_has_not_mined_is_imported() {
    let node = KaspaNode::start().await;
    let utxo = |index| {
        let entry = UtxoEntry {
            amount: 5,
            script_public_key: ScriptPublicKey::from_payload(&MINER),
            block_daa_score: 7,
            is_coinbase: false,
            covenant_id: None,
        };
        (Outpoint { transaction_id: Hash([9; 32]), index }, entry)
    };
    let set: Vec<(Outpoint, UtxoEntry)> = (0..2_500).map(utxo).collect();
    let utxo_commitment = Hash(hash_utxos(&set).finalize());
    let header = Header { utxo_commitment, daa_score: 7, ..Network::Simnet.genesis() };
    let block = header.hash();
    let expected: Utxos = set.iter().cloned().collect();
    node.set_foreign_pruning_point(header, set);
    let peer = node.serve_peers().await;
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("kaspa.snapshot");
    let chain = RunningImport::start(import_config(vec![source(&node)], &[&peer], &path));
    let chain = chain.finish().await;
    assert_eq!(chain.sink().hash, block);
    assert_eq!(read_set(&chain), expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_lie_is_refused_by_name() {
    let pruned = Pruned::start().await;
    let other_block = pruned.node.with_dag(|dag| dag.chain_block(8));
    let limits = ImportLimits { message_bytes_max: 1 << 20, ..ImportLimits::default() };
    let faults = PeerFaults::default;
    for (lie, expected) in [
        (
            PeerFaults { network: Some("kaspa-mainnet"), ..faults() },
            "the peer is of the network \"kaspa-mainnet\"",
        ),
        (
            PeerFaults { protocol_version: Some(9), ..faults() },
            "the peer has version 9 of the protocol, at least 10",
        ),
        (PeerFaults { flipped_amount: Some(1_500), ..faults() }, "and pruning point"),
        (PeerFaults { missing_chunk: Some(1), ..faults() }, "and pruning point"),
        (PeerFaults { other_block: Some(other_block), ..faults() }, "and pruning point"),
        (PeerFaults { repeated_utxo: Some(1_500), ..faults() }, "is repeated"),
        (PeerFaults { has_long_chunk: true, ..faults() }, "a chunk has more than 1000 UTXOs"),
        (
            PeerFaults { has_cut_chunks: true, ..faults() },
            "a chunk of UTXOs is malformed: the length of a UTXO",
        ),
        (
            PeerFaults { has_no_last_chunk: true, ..faults() },
            "the UTXO set ends before its last chunk",
        ),
        (
            PeerFaults { chunk_bytes: Some(2 << 20), ..faults() },
            "a message has more than 1048576 bytes",
        ),
    ] {
        pruned.peer.add_fault(|faults| *faults = lie.clone());
        let error = pruned.import_refused(limits).await;
        assert!(error.contains(expected), "{lie:?}: {error}");
        assert!(!pruned.path().exists(), "{lie:?}");
    }
    // Nothing that they sent harms a later import.
    pruned.peer.clear_faults();
    let chain = RunningImport::start(pruned.config(&[&pruned.peer])).finish().await;
    assert_eq!(read_set(&chain), pruned.pruning_point_set());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_set_that_never_ends_is_refused() {
    let pruned = Pruned::start().await;
    pruned.peer.add_fault(|faults| faults.has_endless_set = true);
    // More than the 99 chunks after which a node waits for a request.
    let set_bytes_max = 100 * 1_000 * 93;
    let limits = ImportLimits { set_bytes_max, ..ImportLimits::default() };
    let error = pruned.import_refused(limits).await;
    assert!(error.contains("the UTXO set has more than 9300000 bytes (set_bytes_max)"), "{error}");
    let sent = pruned.peer.sent_chunks();
    assert!((101..200).contains(&sent), "{sent} chunks");
    let stored: u64 = list_files(pruned.dir.path())
        .iter()
        .map(|name| std::fs::metadata(pruned.dir.path().join(name)).expect("a file").len())
        .sum();
    assert!(stored < set_bytes_max + 10_000, "{stored} bytes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_peer_is_left_in_time() {
    let timeout = Duration::from_millis(200);
    let limits = ImportLimits {
        handshake_timeout: timeout,
        chunk_timeout: timeout,
        ..ImportLimits::default()
    };
    let silent_handshake = PeerFaults { has_silent_handshake: true, ..PeerFaults::default() };
    assert_left_in_time(&silent_handshake, limits, "no handshake within 200ms").await;
    // After the last of three chunks only the message is missing that ends the set.
    for chunks in [1, 3] {
        let silent = PeerFaults { silent_after: Some(chunks), ..PeerFaults::default() };
        assert_left_in_time(&silent, limits, "no chunk of UTXOs within 200ms").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_peer_is_left_in_time() {
    // Each of the three chunks comes in time.
    let slow =
        PeerFaults { chunk_delay: Some(Duration::from_millis(100)), ..PeerFaults::default() };
    let timeout = Duration::from_millis(250);
    let limits = ImportLimits { window_timeout: timeout, ..ImportLimits::default() };
    assert_left_in_time(&slow, limits, "no 99 chunks of UTXOs within 250ms").await;
    let limits = ImportLimits { set_timeout: timeout, ..ImportLimits::default() };
    assert_left_in_time(&slow, limits, "no UTXO set within 250ms").await;
}

/// Checks that an import leaves a peer with this error, and ends once the peer has no faults.
async fn assert_left_in_time(faults: &PeerFaults, limits: ImportLimits, expected: &str) {
    let pruned = Pruned::start().await;
    pruned.peer.add_fault(|own| *own = faults.clone());
    let config = ImportConfig { limits, ..pruned.config(&[&pruned.peer]) };
    let import = RunningImport::start(config);
    import.wait_for_problem(expected).await;
    pruned.peer.clear_faults();
    assert_eq!(read_set(&import.finish().await), pruned.pruning_point_set());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_refuses_is_retried() {
    let pruned = Pruned::start().await;
    let faults = PeerFaults::default;
    for (fault, expected) in [
        (
            PeerFaults { rejection: Some("too many peers"), ..faults() },
            "the peer refuses the connection: too many peers",
        ),
        (
            PeerFaults { has_other_pruning_point: true, ..faults() },
            "is not the pruning point of the peer",
        ),
        (PeerFaults { cut_after: Some(0), ..faults() }, "the peer closed the connection"),
    ] {
        pruned.peer.add_fault(|own| *own = fault);
        let import = RunningImport::start(pruned.config(&[&pruned.peer]));
        import.wait_for_problem(expected).await;
        pruned.peer.clear_faults();
        assert_eq!(import.progress.refused_peers(), 0);
        import.finish().await;
        std::fs::remove_file(pruned.path()).expect("it was written");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_peer_replaces_one_that_lies() {
    let pruned = Pruned::start().await;
    let honest = pruned.node.serve_peers().await;
    pruned.peer.add_fault(|faults| faults.flipped_amount = Some(10));
    let import = RunningImport::start(pruned.config(&[&pruned.peer, &honest]));
    let progress = Arc::clone(&import.progress);
    assert_eq!(read_set(&import.finish().await), pruned.pruning_point_set());
    assert_eq!((progress.refused_peers(), progress.transfers()), (1, 2));
    assert_eq!(progress.hashed_before(), 0, "nothing of a wrong set is used");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn utxos_of_a_lost_peer_are_not_hashed_again() {
    let pruned = Pruned::start().await;
    pruned.peer.add_fault(|faults| faults.cut_after = Some(2));
    let import = RunningImport::start(pruned.config(&[&pruned.peer]));
    import.wait_for_problem("the peer closed the connection").await;
    pruned.peer.clear_faults();
    let progress = Arc::clone(&import.progress);
    assert_eq!(read_set(&import.finish().await), pruned.pruning_point_set());
    assert_eq!(progress.hashed_before(), 2_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_continues_with_what_was_received() {
    let pruned = Pruned::start().await;
    // The first chunk is right, and the import ends at the second one.
    pruned.peer.add_fault(|faults| faults.repeated_utxo = Some(1_500));
    pruned.import_refused(ImportLimits::default()).await;
    pruned.peer.clear_faults();
    let import = RunningImport::start(pruned.config(&[&pruned.peer]));
    let progress = Arc::clone(&import.progress);
    assert_eq!(read_set(&import.finish().await), pruned.pruning_point_set());
    assert_eq!((progress.hashed_before(), progress.transfers()), (1_000, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disagreement_of_peers_is_resolved_by_the_commitment() {
    let pruned = Pruned::start().await;
    // Its first chunk has a wrong amount, and it ends before its set can be checked.
    pruned.peer.add_fault(|faults| faults.flipped_amount = Some(10));
    pruned.peer.add_fault(|faults| faults.cut_after = Some(2));
    let honest = pruned.node.serve_peers().await;
    let import = RunningImport::start(pruned.config(&[&pruned.peer, &honest]));
    let progress = Arc::clone(&import.progress);
    assert_eq!(read_set(&import.finish().await), pruned.pruning_point_set());
    // That of the liar, and two of the honest peer.
    assert_eq!((progress.refused_peers(), progress.transfers()), (0, 3));
    assert!(
        progress.last_problem().is_some_and(|it| it.contains("other UTXOs than the one before"))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_import_starts_again_when_the_pruning_point_moves() {
    let pruned = Pruned::start().await;
    pruned.peer.add_fault(|faults| faults.cut_after = Some(1));
    let import = RunningImport::start(pruned.config(&[&pruned.peer]));
    import.wait_for_problem("the peer closed the connection").await;
    let moved = pruned.node.with_dag(|dag| dag.chain_block(2));
    pruned.node.set_pruning_point(moved);
    pruned.peer.clear_faults();
    let chain = import.finish().await;
    assert_eq!(chain.sink().hash, moved);
    assert_eq!(read_set(&chain), pruned.node.utxos_at(&moved));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_set_is_loaded_without_a_peer() {
    let pruned = Pruned::start().await;
    RunningImport::start(pruned.config(&[&pruned.peer])).finish().await;
    let received = pruned.dir.path().join("kaspa.snapshot.import");
    std::fs::rename(pruned.path(), &received).expect("it was written");
    let chain = RunningImport::start(pruned.config(&[&pruned.peer])).finish().await;
    assert_eq!(read_set(&chain), pruned.pruning_point_set());
    assert_eq!(pruned.peer.requested_sets(), 1);
    assert_eq!(list_files(pruned.dir.path()), ["kaspa.snapshot"]);
    // A damaged one is received again.
    let mut bytes = std::fs::read(pruned.path()).expect("it was written");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::remove_file(pruned.path()).expect("it is there");
    std::fs::write(&received, bytes).expect("it is written");
    let chain = RunningImport::start(pruned.config(&[&pruned.peer])).finish().await;
    assert_eq!(read_set(&chain), pruned.pruning_point_set());
    assert_eq!(pruned.peer.requested_sets(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proven_set_that_does_not_fit_names_the_setting() {
    let pruned = Pruned::start().await;
    let import = RunningImport::start_with(pruned.config(&[&pruned.peer]), ChainConfig::new(100));
    let error = import.task.await.expect("no panic").err();
    assert!(matches!(error, Some(ImportError::Load(_))), "{error:?}");
    // It was received, and only has to be loaded.
    let import = RunningImport::start(pruned.config(&[&pruned.peer]));
    assert_eq!(read_set(&import.finish().await), pruned.pruning_point_set());
    assert_eq!(pruned.peer.requested_sets(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_set_that_no_source_continues_is_received_again() {
    let pruned = Pruned::start().await;
    RunningImport::start(pruned.config(&[&pruned.peer])).finish().await;
    let received = pruned.dir.path().join("kaspa.snapshot.import");
    std::fs::rename(pruned.path(), &received).expect("it was written");
    // Its block leaves the chain.
    pruned.node.reorganize(10);
    let moved = pruned.node.with_dag(|dag| dag.chain_block(2));
    pruned.node.set_pruning_point(moved);
    let chain = RunningImport::start(pruned.config(&[&pruned.peer])).finish().await;
    assert_eq!(chain.sink().hash, moved);
    assert_eq!(read_set(&chain), pruned.node.utxos_at(&moved));
    assert_eq!(pruned.peer.requested_sets(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_import_is_cancelled_while_it_waits() {
    let pruned = Pruned::start().await;
    // The system accepts connections for it, and no program replies.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = silent.local_addr().expect("it is bound").to_string();
    let peer = PeerConfig::parse(&address, Network::Simnet).expect("an address");
    let config = ImportConfig { peers: vec![peer], ..pruned.config(&[]) };
    for waits_for_peer in [true, false] {
        pruned.node.set_accepting(waits_for_peer);
        let import = RunningImport::start(config.clone());
        let progress = Arc::clone(&import.progress);
        let is_waiting = || {
            if waits_for_peer {
                progress.transfers() == 1
            } else {
                progress.last_problem().is_some()
            }
        };
        eventually(is_waiting, || progress.to_string()).await;
        progress.cancel();
        let cancelled = import.task.await.expect("no panic").err();
        assert!(matches!(cancelled, Some(ImportError::Cancelled)), "{cancelled:?}");
    }
    assert!(!pruned.path().exists());
}
