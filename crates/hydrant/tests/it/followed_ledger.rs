//! A ledger of this process, its Yellowstone gRPC, and a follower that starts from a snapshot of it: every bank hash is
//! computed again from the stream, and both ledgers are equal.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use chain_solana::{Faucet, History, Reader, View};
use feed::FeedConfig;
use follow::{
    FollowHandle, FollowStatus, Follower, FollowerConfig, OnMismatch, SourceConfig, StreamConfig,
    VerifyMode,
};
use ledger::{Address, Commitment};
use localnet::{Config, LocalnetHandle};
use pool::ClientId;
use query::LedgerConfig;
use snapshot_solana::Progress;
use solana::Account;
use solana_account::ReadableAccount;
use solana_pubkey::Pubkey;
use testkit::archive::{self, Accounts, HashedFields, StorageFile, Stored};
use testkit::clock::{now, sleep_for};

/// No step takes this long, however slow the machine is.
const TIMEOUT: Duration = Duration::from_secs(120);
const CLIENT: ClientId = ClientId(1);
const SLOTS_PER_EPOCH: u64 = 32;

/// The ledger that is followed. It makes a block for each transaction.
struct Source {
    reader: Reader,
    history: Arc<History>,
    faucet: Arc<dyn Faucet>,
    handle: LocalnetHandle,
    grpc: grpc::Server,
}

impl Source {
    fn start() -> Self {
        let config = Config {
            slot_ms: 0,
            finalize_after: 4,
            slots_per_epoch: SLOTS_PER_EPOCH,
            ..Config::default()
        };
        let localnet = localnet::open(&config).expect("the ledger opens");
        let node = grpc::GrpcNode {
            reader: localnet.reader().clone(),
            cluster: Arc::new(localnet.cluster_info().clone()),
            program: ("test", "0"),
        };
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let started = grpc::Server::start(grpc::Config::default(), node, listener);
        let (grpc, events) = started.expect("a server");
        Self {
            reader: localnet.reader().clone(),
            history: Arc::clone(localnet.history()),
            faucet: localnet.faucet(),
            handle: localnet.start(vec![Box::new(events)]).expect("it starts"),
            grpc,
        }
    }

    fn slot(&self, commitment: Commitment) -> u64 {
        self.reader.view(commitment).block().slot
    }

    /// Makes blocks until the confirmed one is at `slot`.
    fn run_to(&self, slot: u64) {
        while self.slot(Commitment::Confirmed) < slot {
            let before = self.slot(Commitment::Confirmed);
            let blockhash = self.reader.view(Commitment::Processed).meta().last_blockhash();
            let airdrop =
                self.faucet.airdrop(CLIENT.into(), Pubkey::new_unique(), 1_000_000, blockhash);
            airdrop.expect("the queue has room");
            wait("a block", || self.slot(Commitment::Confirmed) > before);
        }
    }

    fn stop(self) {
        self.handle.stop().expect("the ledger ends well");
        self.grpc.shut_down();
    }
}

/// A follower of a source, on a runtime of its own.
struct Following {
    reader: Reader,
    history: Arc<History>,
    status: Arc<FollowStatus>,
    handle: FollowHandle,
    _runtime: tokio::runtime::Runtime,
}

impl Following {
    fn start(source: &Source, archive: &Path) -> Self {
        let config = FollowerConfig {
            sources: vec![SourceConfig {
                url: format!("http://{}", source.grpc.address()),
                x_token: None,
            }],
            stream: StreamConfig::default(),
            feed: FeedConfig::default(),
            history: chain_solana::HistoryLimits { slots_max: 1_000, bytes_max: 1 << 30 },
            verify: VerifyMode::Sequence,
            on_mismatch: OnMismatch::Stop,
        };
        let limits = LedgerConfig::new(100_000);
        let loaded =
            snapshot_ledger::load_snapshot(&limits, archive, None, 1, &Progress::default());
        let follower = Follower::new(config, loaded.expect("it loads")).expect("a follower");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let _entered = runtime.enter();
        Self {
            reader: follower.reader().clone(),
            history: Arc::clone(follower.history()),
            status: Arc::clone(follower.status()),
            handle: follower.start(Vec::new()).expect("it starts"),
            _runtime: runtime,
        }
    }
}

fn wait(what: &str, is_done: impl Fn() -> bool) {
    let started = now();
    while !is_done() {
        assert!(now() - started < TIMEOUT, "{what}");
        sleep_for(Duration::from_millis(1));
    }
}

/// Writes a snapshot archive of a view. Returns its path.
fn write_snapshot(view: &View, dir: &Path) -> PathBuf {
    let (slot, info) = (view.block().slot, view.meta());
    let mut file = Vec::new();
    for (address, account) in view.all() {
        let account = &account.0;
        let stored = Stored {
            lamports: account.lamports(),
            owner: account.owner().to_bytes(),
            executable: account.executable(),
            rent_epoch: account.rent_epoch(),
            data: account.data(),
        };
        let address = address.as_bytes().try_into().expect("an address of 32 bytes");
        archive::put(&mut file, &address, &stored);
    }
    let name = format!("accounts/{slot}.1");
    let mut accounts = Accounts::default();
    accounts.add(&[(name.clone(), file.clone())].into()).expect("whole files");
    let (lattice, lamports) = (accounts.lt_hash(), accounts.lamports());
    let files = [StorageFile { slot, id: 1, bytes: file.len() as u64 }];
    let hashed = HashedFields {
        parent_slot: info.parent.slot,
        parent_hash: info.hash_components.parent_hash.to_bytes(),
        signature_count: info.hash_components.signature_count,
        last_blockhash: info.hash_components.last_blockhash.to_bytes(),
    };
    let bank = archive::bank_fields_with(slot, hashed, &files, lamports, &lattice);
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
    let path = dir.join(format!("snapshot-{slot}-{}.tar.zst", lattice.checksum()));
    let packed = zstd::stream::encode_all(&tar[..], 1).expect("compress");
    std::fs::write(&path, packed).expect("write the archive");
    path
}

fn accounts(view: &View) -> Vec<(Address, Arc<Account>)> {
    let mut all: Vec<_> = view.all().collect();
    all.sort_by_key(|(address, _)| *address);
    all
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
    let following = Following::start(&source, &archive);
    // Two boundaries of epochs.
    source.run_to(3 * SLOTS_PER_EPOCH);
    let end = source.slot(Commitment::Confirmed);
    let status = &following.status;
    wait("the last bank", || status.processed() >= end || status.mismatch().is_some());
    assert_eq!(status.mismatch(), None);
    // The last bank has no child.
    wait("its parent is verified", || status.verified() + 1 >= end);
    assert_eq!((status.gaps(), status.verified() + 1), (0, end));
    let (source_view, view) =
        (source.reader.view(Commitment::Confirmed), following.reader.view(Commitment::Processed));
    assert_eq!((source_view.block().slot, view.block().slot), (end, end));
    assert!(accounts(&source_view) == accounts(&view), "the accounts differ");
    let (sent, found) = (source.history.snapshot(), following.history.snapshot());
    for slot in rooted.block().slot + 1..=end {
        let hashes = |history: &chain_solana::HistorySnapshot| {
            let block = history.block(slot, Commitment::Processed).expect("a block");
            (block.bank_hash, block.hash_components, block.blockhash, block.transactions.len())
        };
        assert_eq!(hashes(&sent), hashes(&found), "slot {slot}");
    }
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
    let following = Following::start(&source, &archive);
    let status = &following.status;
    let root = status.root();
    wait("a mismatch or a gap", || status.mismatch().is_some() || status.gaps() > 0);
    assert_eq!(status.root(), root, "nothing of it is shown as final");
    let confirmed = following.reader.view(Commitment::Confirmed).block().slot;
    assert_eq!(confirmed, root, "nothing of it is shown as confirmed");
    following.handle.stop().expect("the follower ends well");
    source.stop();
}
