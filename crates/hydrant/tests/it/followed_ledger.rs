//! A ledger of this process, its Yellowstone gRPC, and a follower that starts from a snapshot of it: every bank hash is
//! computed again from the stream, and both ledgers are equal.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use chain_solana::{
    Cluster, ClusterInfo, EventSink, Faucet, ForkControl, History, Reader, Simulator,
    TransactionSender, Verification, View,
};
use clients::ClientId;
use feed::FeedConfig;
use follow::{
    AgreementConfig, Base, FollowHandle, FollowStatus, FollowedCluster, Follower, FollowerConfig,
    OnMismatch, SourceConfig, StreamConfig, UpstreamFacts, VerifyMode,
};
use ledger::{Address, Commitment};
use localnet::{Config, LocalnetHandle};
use query::LedgerConfig;
use snapshot_solana::{BankFields, Progress};
use solana::{Account, VerificationLevel};
use solana_account::ReadableAccount;
use solana_hash::Hash;
use solana_pubkey::Pubkey;
use solana_signer::Signer;
use testkit::archive::{
    self, Accounts, ArchivedVoter, HashedFields, StorageFile, Stored, UnhashedFields,
};
use testkit::clock::{now, sleep_for};

/// No step takes this long, however slow the machine is.
const TIMEOUT: Duration = Duration::from_secs(120);
const CLIENT: ClientId = ClientId(1);
pub(super) const SLOTS_PER_EPOCH: u64 = 32;

/// The ledger that is followed. It makes a block for each transaction.
pub(super) struct Source {
    pub(super) reader: Reader,
    pub(super) history: Arc<History>,
    pub(super) faucet: Arc<dyn Faucet>,
    pub(super) forks: Arc<dyn ForkControl>,
    pub(super) info: Arc<ClusterInfo>,
    pub(super) cluster: Arc<dyn Cluster>,
    pub(super) transaction_sender: Arc<dyn TransactionSender>,
    pub(super) simulator: Arc<dyn Simulator>,
    handle: LocalnetHandle,
    pub(super) grpc: grpc::Server,
    tpu: (tpu::Server, tpu::SigVerifyStage),
}

impl Source {
    pub(super) fn start() -> Self {
        Self::start_with(grpc::Config::default())
    }

    /// Starts a ledger with these limits of gRPC.
    pub(super) fn start_with(limits: grpc::Config) -> Self {
        let config = Config {
            slot_ms: 0,
            finalize_after: 4,
            slots_per_epoch: SLOTS_PER_EPOCH,
            ..Config::default()
        };
        let localnet = localnet::open(&config).expect("the ledger opens");
        let tpu = start_tpu(&localnet);
        let mut info = localnet.cluster_info().clone();
        info.tpu = Some(tpu.0.address());
        let info = Arc::new(info);
        let (grpc, events) = serve(localnet.reader().clone(), Arc::clone(&info), limits);
        Self {
            reader: localnet.reader().clone(),
            history: Arc::clone(localnet.history()),
            faucet: localnet.faucet(),
            forks: localnet.fork_control(),
            cluster: localnet.cluster(Arc::clone(&info)),
            info,
            transaction_sender: localnet.transaction_sender(),
            simulator: localnet.simulator(),
            handle: localnet.start(vec![Box::new(events)]).expect("it starts"),
            grpc,
            tpu,
        }
    }

    pub(super) fn slot(&self, commitment: Commitment) -> u64 {
        self.reader.view(commitment).block().slot
    }

    /// Makes blocks until the confirmed one is at `slot`.
    pub(super) fn run_to(&self, slot: u64) {
        while self.slot(Commitment::Confirmed) < slot {
            let before = self.slot(Commitment::Confirmed);
            let blockhash = self.reader.view(Commitment::Processed).meta().last_blockhash();
            let airdrop =
                self.faucet.airdrop(CLIENT.into(), Pubkey::new_unique(), 1_000_000, blockhash);
            airdrop.expect("the queue has room");
            wait("a block", || self.slot(Commitment::Confirmed) > before);
        }
    }

    pub(super) fn stop(self) {
        drop(self.tpu);
        self.handle.stop().expect("the ledger ends well");
        self.grpc.shut_down();
    }
}

/// A follower of a source, on a runtime of its own. It serves gRPC itself.
pub(super) struct Following {
    pub(super) reader: Reader,
    pub(super) history: Arc<History>,
    pub(super) status: Arc<FollowStatus>,
    pub(super) cluster: Arc<FollowedCluster>,
    pub(super) fields: BankFields,
    pub(super) handle: FollowHandle,
    pub(super) grpc: grpc::Server,
    _runtime: tokio::runtime::Runtime,
}

impl Following {
    pub(super) fn start(source: &Source, archive: &Path, verify: VerifyMode) -> Self {
        // A ledger's entries prove its transactions.
        let verify_entries = verify != VerifyMode::Off;
        let config = FollowerConfig { verify, verify_entries, ..config(source.grpc.address()) };
        Self::start_with(config, archive, Vec::new())
    }

    /// Starts a follower with further event sinks.
    pub(super) fn start_with(
        config: FollowerConfig,
        archive: &Path,
        sinks: Vec<Box<dyn EventSink>>,
    ) -> Self {
        Self::start_from(config, snapshot_base(archive), sinks)
    }

    /// Starts a follower from this base.
    pub(super) fn start_from(
        config: FollowerConfig,
        base: Base,
        mut sinks: Vec<Box<dyn EventSink>>,
    ) -> Self {
        let follower = Follower::new(config, base).expect("a follower");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let reader = follower.reader().clone();
        let history = Arc::clone(follower.history());
        let status = Arc::clone(follower.status());
        let cluster = follower.cluster();
        let fields = follower.snapshot_fields().clone();
        let facts = UpstreamFacts { genesis_hash: Hash::default() };
        let info = follow::cluster_info(&fields, &reader, &facts, Pubkey::new_unique());
        let info = Arc::new(info.expect("a whole snapshot"));
        let (grpc, events) = serve(reader.clone(), info, grpc::Config::default());
        sinks.push(Box::new(events));
        let handle = {
            let _entered = runtime.enter();
            follower.start(sinks).expect("it starts")
        };
        Self { reader, history, status, cluster, fields, handle, grpc, _runtime: runtime }
    }

    /// Waits until the follower has a source's last bank, and has verified all banks before.
    pub(super) fn wait_for(&self, end: u64) {
        let status = &self.status;
        wait("the last bank", || status.processed() >= end || status.mismatch().is_some());
        assert_eq!(status.mismatch(), None);
        wait("the parent of the last bank is verified", || status.verified() + 1 >= end);
        // The last bank is verified too if its source has sent the beginning of a child.
        assert!(status.verified() <= end, "{}", status.verified());
        assert_eq!(status.gaps(), 0);
    }

    pub(super) fn stop(self) {
        self.handle.stop().expect("the follower ends well");
        self.grpc.shut_down();
    }
}

/// Loads an archive as the base of a follower.
pub(super) fn snapshot_base(archive: &Path) -> Base {
    let loaded = snapshot_ledger::load_snapshot(&limits(), archive, None, 1, &Progress::default());
    Base::from_snapshot(loaded.expect("it loads")).expect("a base")
}

pub(super) fn limits() -> LedgerConfig {
    LedgerConfig::new(100_000)
}

/// Follows a source, and verifies it.
pub(super) fn config(source: SocketAddr) -> FollowerConfig {
    FollowerConfig {
        sources: vec![SourceConfig { url: format!("http://{source}"), x_token: None }],
        stream: StreamConfig::default(),
        feed: FeedConfig::default(),
        history: chain_solana::HistoryLimits { blocks_max: 1_000, bytes_max: 1 << 30 },
        verify: VerifyMode::Sequence,
        verify_entries: false,
        execution: None,
        agreement: AgreementConfig::default(),
        epoch_stakes: Vec::new(),
        trusted_banks: Vec::new(),
        on_mismatch: OnMismatch::Stop,
        upstream: None,
        archives: None,
    }
}

/// The gRPC of a ledger, on a free port.
fn serve(
    reader: Reader,
    cluster: Arc<ClusterInfo>,
    limits: grpc::Config,
) -> (grpc::Server, grpc::GrpcEventSink) {
    let node = grpc::GrpcNode {
        reader: Box::new(reader),
        cluster: Some(cluster),
        program: ("test", "0"),
        stored_blocks: Vec::new(),
    };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    grpc::Server::start(limits, node, listener).expect("a server")
}

pub(super) fn wait(what: &str, is_done: impl Fn() -> bool) {
    let started = now();
    while !is_done() {
        assert!(now() - started < TIMEOUT, "{what}");
        sleep_for(Duration::from_millis(1));
    }
}

/// Writes a full snapshot archive of a view. Returns its path.
pub(super) fn write_snapshot(view: &View, dir: &Path) -> PathBuf {
    write_archive(view, None, dir)
}

/// Writes an archive of a view: a full one, or an incremental one on top of another view. Returns its path.
pub(super) fn write_archive(view: &View, base: Option<&View>, dir: &Path) -> PathBuf {
    let slot = view.block().slot;
    let info = view.meta();
    let mut all = Vec::new();
    let mut file = Vec::new();
    let before = |address: &Address| base.and_then(|base| base.record(address));
    for (address, account) in view.all() {
        let is_same = before(&address).is_some_and(|before| before.0 == account.0);
        let account = &account.0;
        let stored = Stored {
            lamports: account.lamports(),
            owner: account.owner().to_bytes(),
            executable: account.executable(),
            rent_epoch: account.rent_epoch(),
            data: account.data(),
        };
        let address = address.as_bytes().try_into().expect("an address of 32 bytes");
        archive::put(&mut all, &address, &stored);
        if !is_same {
            archive::put(&mut file, &address, &stored);
        }
    }
    for (address, _) in base.into_iter().flat_map(View::all) {
        if view.record(&address).is_none() {
            let owner = [0; 32];
            let rent_epoch = u64::MAX;
            let data = &[][..];
            let closed = Stored { lamports: 0, owner, executable: false, rent_epoch, data };
            let address = address.as_bytes().try_into().expect("an address of 32 bytes");
            archive::put(&mut file, &address, &closed);
        }
    }
    let name = format!("accounts/{slot}.1");
    let mut accounts = Accounts::default();
    accounts.add(&[(name.clone(), all)].into()).expect("whole files");
    let lattice = accounts.lt_hash();
    let lamports = accounts.lamports();
    let files = [StorageFile { slot, id: 1, bytes: file.len() as u64 }];
    let hashed = HashedFields {
        parent_slot: info.parent.slot,
        parent_hash: info.hash_components.parent_hash.to_bytes(),
        signature_count: info.hash_components.signature_count,
        last_blockhash: info.hash_components.last_blockhash.to_bytes(),
        hard_fork: None,
    };
    let epoch = slot / SLOTS_PER_EPOCH;
    let unhashed = UnhashedFields {
        transaction_count: info.transaction_count,
        slots_per_epoch: SLOTS_PER_EPOCH,
        inflation: [0.08, 0.015, 0.15, 0.05, 7.0],
        epoch_stakes: [epoch, epoch + 1].map(|epoch| (epoch, voters(view))).into(),
    };
    let bank = archive::bank_fields_with(slot, hashed, &unhashed, &files, lamports, &lattice);
    let mut tar = tar::Builder::new(Vec::new());
    for (name, bytes) in [
        ("version".to_owned(), b"1.2.0".to_vec()),
        ("snapshots/status_cache".to_owned(), vec![0; 8]),
        (format!("snapshots/{slot}/{slot}"), bank),
        (name, file),
    ] {
        archive::append(&mut tar, &name, &bytes).expect("append an entry");
    }
    let tar = tar.into_inner().expect("end the archive");
    let kind = base
        .map_or_else(String::new, |base| format!("incremental-snapshot-{}-", base.block().slot));
    let kind = if base.is_some() { kind } else { "snapshot-".to_owned() };
    let path = dir.join(format!("{kind}{slot}-{}.tar.zst", lattice.checksum()));
    let packed = zstd::stream::encode_all(&tar[..], 1).expect("compress");
    std::fs::write(&path, packed).expect("write the archive");
    path
}

/// The vote accounts that have stake delegated, as the stakes of an epoch.
fn voters(view: &View) -> Vec<ArchivedVoter> {
    let mut stakes: BTreeMap<[u8; 32], u64> = BTreeMap::new();
    for it in stakes_solana::read_delegations(view) {
        let delegation = it.stake.delegation;
        *stakes.entry(delegation.voter_pubkey.to_bytes()).or_default() += delegation.stake;
    }
    let voter = |(vote_account, stake): ([u8; 32], u64)| {
        let account = view.record(&Address::from(vote_account)).expect("a vote account");
        // Behind the version; the voter is not compared.
        let node = account.0.data()[4..36].try_into().expect("32 bytes");
        ArchivedVoter { vote_account, node, authorized_voter: vote_account, stake }
    };
    stakes.into_iter().map(voter).collect()
}

/// Takes transactions over QUIC, as `hydrant dev` does.
fn start_tpu(localnet: &localnet::Localnet) -> (tpu::Server, tpu::SigVerifyStage) {
    let keypair = localnet.identity();
    let identity = tpu::TlsIdentity::new(*keypair.secret_bytes(), keypair.pubkey());
    let config = Arc::new(tpu::Config::default());
    let counters = Arc::<tpu::Counters>::default();
    let queue = Arc::new(tpu::FairQueue::new(config.queue_max, Arc::clone(&counters)));
    let sigverify = tpu::SigVerifyStage::start(
        Arc::clone(&config),
        Arc::clone(&queue),
        Arc::clone(&counters),
        localnet.transaction_sender(),
        Some(Arc::clone(localnet.history())),
        None,
    );
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    let server = tpu::Server::start(config, address, &identity, queue, counters);
    (server.expect("a socket"), sigverify.expect("threads"))
}

pub(super) fn accounts(view: &View) -> Vec<(Address, Arc<Account>)> {
    let mut all: Vec<_> = view.all().collect();
    all.sort_by_key(|(address, _)| *address);
    all
}

/// Both have the same accounts at the source's last bank, and the same hashes after a slot.
pub(super) fn assert_equal(source: &Source, following: &Following, after: u64) {
    let source_view = source.reader.view(Commitment::Confirmed);
    let view = following.reader.view(Commitment::Processed);
    let end = source_view.block().slot;
    assert_eq!(view.block().slot, end);
    assert!(accounts(&source_view) == accounts(&view), "the accounts differ");
    let sent = source.history.snapshot();
    let found = following.history.snapshot();
    for slot in after + 1..=end {
        let hashes = |history: &chain_solana::HistorySnapshot| {
            let block = history.block(slot, Commitment::Processed).expect("a block");
            (block.bank_hash, block.hash_components, block.blockhash, block.transactions.len())
        };
        assert_eq!(hashes(&sent), hashes(&found), "slot {slot}");
    }
}

#[test]
fn every_bank_of_a_followed_ledger_is_verified_and_both_are_equal() {
    let source = Source::start();
    source.run_to(20);
    let dir = tempfile::tempdir().expect("a directory");
    let rooted = source.reader.view(Commitment::Finalized);
    let archive = write_snapshot(&rooted, dir.path());
    // Banks that the follower gets from the source's log.
    source.run_to(30);
    let following = Following::start(&source, &archive, VerifyMode::Sequence);
    // Two boundaries of epochs.
    source.run_to(3 * SLOTS_PER_EPOCH);
    let end = source.slot(Commitment::Confirmed);
    following.wait_for(end);
    assert_equal(&source, &following, rooted.block().slot);
    following.stop();
    source.stop();
}

#[test]
fn a_followed_ledger_is_proven_by_its_votes_over_boundaries_of_epochs() {
    let source = Source::start();
    source.run_to(20);
    let dir = tempfile::tempdir().expect("a directory");
    let archive = write_snapshot(&source.reader.view(Commitment::Finalized), dir.path());
    let following = Following::start(&source, &archive, VerifyMode::Votes);
    // The stakes of the later epochs are not in the snapshot.
    source.run_to(4 * SLOTS_PER_EPOCH);
    let end = source.slot(Commitment::Confirmed);
    let status = &following.status;
    // A vote for a block is in the next one.
    wait("the votes are counted", || status.verified() + 2 >= end || status.mismatch().is_some());
    // The stakes of so short an epoch are known only after its start: when the first bank of the previous epoch is final.
    wait("the stakes of the last epoch are known", || status.proof().limitation().is_none());
    assert_eq!(status.proof().summary().mismatched_banks, 0);
    let history = following.history.snapshot();
    let block = history.block(status.verified(), Commitment::Confirmed).expect("a block");
    let proof = status.proof().proof(block.id).expect("it is known");
    assert_eq!(proof.level, VerificationLevel::Voted);
    let votes = proof.votes.expect("stake");
    assert!(votes.total > 0 && votes.voted * 3 > votes.total * 2, "{votes:?}");
    // The super-majority root is 31 slots behind, as in Agave.
    let root = following.reader.view(Commitment::Finalized).block().slot;
    assert!(root + 31 <= end && root > 2 * SLOTS_PER_EPOCH, "root {root}, end {end}");
    following.handle.stop().expect("the follower ends well");
    source.stop();
}

#[test]
fn a_snapshot_of_another_chain_is_found_by_the_first_bank() {
    let source = Source::start();
    source.run_to(20);
    let dir = tempfile::tempdir().expect("a directory");
    let other = Source::start();
    other.run_to(20);
    let archive = write_snapshot(&other.reader.view(Commitment::Finalized), dir.path());
    other.stop();
    let following = Following::start(&source, &archive, VerifyMode::Sequence);
    let status = &following.status;
    let root = status.root();
    wait("a mismatch or a gap", || status.mismatch().is_some() || status.gaps() > 0);
    assert_eq!(status.root(), root, "nothing of it is shown as final");
    let confirmed = following.reader.view(Commitment::Confirmed).block().slot;
    assert_eq!(confirmed, root, "nothing of it is shown as confirmed");
    following.stop();
    source.stop();
}
