//! A follower stores its state, and starts from it: the same accounts, blocks and proof.
//! Not here: the state after a jump to an archive (`stored_jumps`).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use chain_solana::{History, Reader, Verification};
use fastrand::Rng;
use follow::{
    ArchiveStatusCache, Base, FollowError, FollowHandle, FollowStatus, Follower, FollowerConfig,
    LedgerDirectory, StoredLedger, VerifyMode,
};
use ledger::Commitment;
use ledger_store::{CallerRows, LedgerStore, NewLedger};
use parking_lot::Mutex;
use query::LedgerConfig;
use snapshot_solana::BankFields;
use solana::Account;
use solana_account::AccountSharedData;
use solana_hash::Hash;
use solana_pubkey::Pubkey;
use testkit::eventually::eventually;
use testkit::geyser_source::Source;
use yellowstone_grpc_proto::geyser::{SlotStatus, SubscribeUpdate};

use crate::follows::Words;
use crate::proofs::{config, load_base, source_config};
use crate::proven::Proven;
use crate::script::{account, status};
use crate::snapshot;

pub(crate) const GENESIS: Hash = Hash::new_from_array([42; 32]);
/// Rooted banks that are not stored yet.
pub(crate) const DELAY: u64 = 16;

pub(crate) type Accounts = BTreeMap<Pubkey, AccountSharedData>;

fn limits() -> LedgerConfig {
    LedgerConfig::new(100_000)
}

/// A process that is being started has the locks of this one until its program runs. No directory is opened meanwhile.
pub(crate) static PROCESS_STARTS: Mutex<()> = Mutex::new(());

fn open(directory: &LedgerDirectory) -> Result<Option<StoredLedger>, FollowError> {
    let _none = PROCESS_STARTS.lock();
    directory.open()
}

/// A follower with a directory.
pub(crate) struct Rig {
    pub(crate) reader: Reader,
    pub(crate) history: Arc<History>,
    pub(crate) status: Arc<FollowStatus>,
    pub(crate) older_statuses: Arc<ArchiveStatusCache>,
    pub(crate) fields: BankFields,
    /// The accounts from which it started.
    pub(crate) base: Accounts,
    pub(crate) words: Words,
    handle: FollowHandle,
}

impl Rig {
    /// Starts from the directory, or from the snapshot.
    pub(crate) fn start(config: FollowerConfig, dir: &Path) -> Self {
        let directory = LedgerDirectory::new(&dir.join("ledger")).expect("a directory of ours");
        let directory = directory.with_delay(Duration::ZERO);
        let base = match open(&directory).expect("undamaged") {
            Some(stored) => stored.into_base(GENESIS, &limits()).expect("a base"),
            None => directory.create(snapshot_base(dir), GENESIS).expect("it is created"),
        };
        let follower = Follower::new(config, base).expect("a follower");
        let reader = follower.reader().clone();
        let history = Arc::clone(follower.history());
        let status = Arc::clone(follower.status());
        let older_statuses = follower.older_statuses();
        let fields = follower.snapshot_fields().clone();
        let base = accounts(&reader, Commitment::Finalized);
        let words = Words::default();
        let handle = follower.start(vec![Box::new(words.clone())]).expect("it starts");
        Self { reader, history, status, older_statuses, fields, base, words, handle }
    }

    pub(crate) async fn wait(&self, what: &str, is_done: impl Fn(&FollowStatus) -> bool) {
        let describe = || format!("{what}: {:?}, {:?}", self.status, self.status.proof().summary());
        eventually(|| is_done(&self.status), describe).await;
    }

    pub(crate) async fn stop(self) {
        let stopped = tokio::task::spawn_blocking(|| self.handle.stop()).await;
        stopped.expect("it ends").expect("without an error");
    }
}

pub(crate) fn accounts(reader: &Reader, commitment: Commitment) -> Accounts {
    let view = reader.view(commitment);
    let all = view.all().map(|(address, account)| {
        (Pubkey::try_from(address.as_bytes()).expect("32 bytes"), account.0.clone())
    });
    all.collect()
}

pub(crate) fn snapshot_base(dir: &Path) -> Base {
    load_base(&snapshot::write(dir))
}

/// The chain above the snapshot, with all that a restart must bring back.
pub(crate) struct RandomChain {
    pub(crate) random: Rng,
    pub(crate) proven: Proven,
    /// The accounts after each bank.
    pub(crate) states: BTreeMap<u64, Accounts>,
    pub(crate) hashes: BTreeMap<u64, Hash>,
}

impl RandomChain {
    pub(crate) fn new(seed: u64, rig: &Rig) -> Self {
        let accounts = rig.base.clone();
        let proven = Proven::new(&rig.fields, accounts.clone().into_iter().collect());
        let slot = proven.slot;
        let random = Rng::with_seed(seed);
        let hashes = [(slot, proven.hash)].into();
        Self { random, proven, states: [(slot, accounts)].into(), hashes }
    }

    pub(crate) fn send(&mut self, source: &Source, banks: u64, depth: usize) {
        source.send(self.banks(banks, depth));
    }

    /// Banks that open, change and close accounts, some slots apart. Each of them is confirmed, and those that are
    /// `depth` banks below are final.
    pub(crate) fn banks(&mut self, banks: u64, depth: usize) -> Vec<SubscribeUpdate> {
        let mut updates = Vec::new();
        for _ in 0..banks {
            let slot = self.proven.slot + self.random.u64(1..4);
            let mut writes = BTreeMap::new();
            for _ in 0..self.random.usize(0..6) {
                let pubkey = [self.random.u8(100..130); 32];
                let is_closed = self.random.u8(0..4) == 0;
                let lamports = if is_closed { 0 } else { self.random.u64(1..1_000) };
                let data = vec![self.random.u8(..); self.random.usize(0..300)];
                writes.insert(pubkey, account(slot, pubkey, lamports, data));
            }
            let writes = writes.into_values().collect();
            updates.extend(self.proven.bank_with(slot, writes, Vec::new()));
            updates.extend(
                [SlotStatus::SlotProcessed, SlotStatus::SlotConfirmed].map(|it| status(slot, it)),
            );
            self.states.insert(slot, self.proven.accounts());
            self.hashes.insert(slot, self.proven.hash);
            let rooted = self.hashes.keys().rev().nth(depth);
            updates.extend(rooted.map(|slot| status(*slot, SlotStatus::SlotFinalized)));
        }
        updates
    }

    /// The slot of the bank that has this number of newer banks.
    pub(crate) fn below(&self, banks: usize) -> u64 {
        *self.hashes.keys().rev().nth(banks).expect("a bank")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_has_the_state_from_before_and_verifies_on_from_there() {
    for seed in 0..6 {
        let dir = tempfile::tempdir().expect("a directory");
        let source = Source::new(None);
        let config = config(vec![source_config(&source).await], VerifyMode::Sequence);
        let mut rig = Rig::start(config.clone(), dir.path());
        let mut chain = RandomChain::new(seed, &rig);
        for round in 0..4 {
            let banks = chain.random.u64(3..70);
            let depth = chain.random.usize(1..8);
            chain.send(&source, banks, depth);
            // The newest bank has no child.
            let verified = chain.below(1);
            rig.wait("the banks are verified", |it| it.verified() >= verified).await;
            rig.wait("a state is stored", |it| it.stored() > 0).await;
            // The writer puts a new root off until nothing else waits.
            let last_root = chain.hashes.keys().rev().nth(depth).copied().unwrap_or(snapshot::SLOT);
            rig.wait("the last root", |it| it.root() >= last_root).await;
            let root = rig.status.root();
            rig.stop().await;

            rig = Rig::start(config.clone(), dir.path());
            let started = rig.fields.slot;
            assert!(started <= root, "seed {seed}, round {round}");
            assert_eq!(rig.fields.bank_hash, chain.hashes[&started], "seed {seed}, round {round}");
            assert!(
                rig.base == chain.states[&started],
                "seed {seed}, round {round}: the accounts of slot {started}"
            );
            let history = rig.history.snapshot();
            for (slot, hash) in chain.hashes.range(..=started) {
                let block = history.block(*slot, Commitment::Processed).expect("a block");
                let transactions = usize::from(*slot > snapshot::SLOT);
                assert_eq!((block.bank_hash, block.transactions.len()), (*hash, transactions));
            }
            let newest = chain.below(0);
            let verified = chain.below(1);
            rig.wait("the newest bank", |it| it.processed() >= newest).await;
            rig.wait("it is verified again", |it| it.verified() >= verified).await;
            assert!(accounts(&rig.reader, Commitment::Processed) == chain.states[&newest]);
            let from = source.requests().last().and_then(|request| request.from_slot);
            assert_eq!(from, Some(started + 1), "seed {seed}, round {round}");
            assert_eq!((rig.status.gaps(), rig.status.mismatch()), (0, None));
        }
        rig.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bank_is_stored_once_enough_later_ones_are_final() {
    let dir = tempfile::tempdir().expect("a directory");
    let source = Source::new(None);
    let config = config(vec![source_config(&source).await], VerifyMode::Sequence);
    let rig = Rig::start(config, dir.path());
    let mut chain = RandomChain::new(1, &rig);
    chain.send(&source, 40, 2);
    let root = chain.below(2);
    rig.wait("the root", |it| it.root() == root).await;
    let stored = chain.below(2 + DELAY as usize);
    rig.wait("the bank before the delay", |it| it.stored() == stored).await;
    // The next one moves it by one bank.
    chain.send(&source, 1, 2);
    let stored = chain.below(2 + DELAY as usize);
    rig.wait("the next one", |it| it.stored() == stored).await;
    rig.stop().await;
}

/// A directory with a stored state at some slot, closed.
async fn stored_state(verify: VerifyMode) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    let source = Source::new(None);
    let config = config(vec![source_config(&source).await], verify);
    let rig = Rig::start(config, dir.path());
    let mut chain = RandomChain::new(7, &rig);
    chain.send(&source, 40, 2);
    let stored = chain.below(2 + DELAY as usize);
    rig.wait("a stored state", |it| it.stored() == stored).await;
    rig.stop().await;
    dir
}

/// Why a state is not started from.
fn refusal(dir: &Path, genesis: Hash) -> FollowError {
    let directory = LedgerDirectory::new(&dir.join("ledger")).expect("a directory of ours");
    let opened = open(&directory).map(|stored| stored.expect("a state"));
    match opened.and_then(|stored| stored.into_base(genesis, &limits())) {
        Ok(_) => panic!("it opens"),
        Err(err) => err,
    }
}

/// Replaces the state of a directory with other contents that the ledger on disk accepts.
fn rewrite(
    dir: &Path,
    rows: impl FnOnce(&mut CallerRows),
    accounts: impl FnOnce(&mut BTreeMap<Pubkey, Arc<Account>>),
) -> tempfile::TempDir {
    let opened = {
        let _none = PROCESS_STARTS.lock();
        LedgerStore::<store::Fjall>::open(&dir.join("ledger/followed"))
    };
    let opened = opened.expect("undamaged").expect("a state");
    let mut new_rows = opened.rows.clone();
    let block = opened.blocks.last().cloned();
    let mut all = BTreeMap::new();
    let read = opened.read(|pubkey, account| drop(all.insert(pubkey, Arc::new(account))));
    drop(read.expect("the accounts are undamaged"));
    rows(&mut new_rows);
    accounts(&mut all);
    let other = tempfile::tempdir().expect("a directory");
    let path = other.path().join("ledger/followed");
    let block = block.expect("a block");
    let mut new = NewLedger::<store::Fjall>::start(&path, &new_rows, &block).expect("it starts");
    let mut all = all.into_iter();
    while new.insert_chunk(&mut all).expect("it is written") {}
    drop(new.finish().expect("it is finished"));
    other
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_that_is_not_what_was_verified_is_refused() {
    let dir = stored_state(VerifyMode::Sequence).await;
    let text = |dir: &tempfile::TempDir| {
        let text = refusal(dir.path(), GENESIS).to_string();
        text.replace(&dir.path().display().to_string(), "DIR")
    };
    let damage_error = |what: &str| {
        format!("ledger DIR/ledger/followed is damaged: {what}; fix: start with --reset")
    };
    // An account with one lamport more, which every checksum covers.
    let more = rewrite(
        dir.path(),
        |_| {},
        |accounts| {
            let account = accounts.get_mut(&Pubkey::new_from_array(snapshot::WALLET));
            let account = Arc::make_mut(account.expect("the wallet"));
            solana_account::WritableAccount::checked_add_lamports(&mut account.0, 1)
                .expect("one more");
        },
    );
    assert_eq!(text(&more), damage_error("accounts: their sum is not that of the bank"));
    let none = rewrite(dir.path(), |rows| rows.bank = None, |_| {});
    assert_eq!(text(&none), damage_error("bank: missing"));
    let cut = rewrite(dir.path(), |rows| rows.bank = Some(vec![1, 2, 3]), |_| {});
    assert!(text(&cut).contains("bank: cannot read its"), "{}", text(&cut));
    let none = rewrite(dir.path(), |rows| rows.epochs = None, |_| {});
    assert_eq!(text(&none), damage_error("epochs: missing"));
    let newer = rewrite(dir.path(), |rows| rows.genesis[0] += 1, |_| {});
    let format =
        "ledger DIR/ledger/followed has format 3, this version reads 2; fix: start with --reset";
    assert_eq!(text(&newer), format);
    // And the state itself is fine.
    let same = rewrite(dir.path(), |_| {}, |_| {});
    for dir in [&dir, &same] {
        let directory = LedgerDirectory::new(&dir.path().join("ledger")).expect("ours");
        let stored = open(&directory).expect("undamaged").expect("a state");
        assert_eq!(stored.genesis_hash(), GENESIS);
        assert!(stored.into_base(GENESIS, &limits()).is_ok());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_does_not_fit_is_refused_with_a_reason() {
    let dir = stored_state(VerifyMode::Sequence).await;
    let path = dir.path().join("ledger");
    let other = refusal(dir.path(), Hash::new_from_array([9; 32])).to_string();
    assert!(other.contains(&GENESIS.to_string()) && other.contains("--reset"), "{other}");
    let directory = LedgerDirectory::new(&path).expect("ours");
    let opened = open(&directory).expect("undamaged").expect("a state");
    let in_use = open(&directory).err().map(|err| err.to_string()).unwrap_or_default();
    assert!(in_use.contains("is in use by process"), "{in_use}");
    drop(opened);
    let created = directory.create(snapshot_base(dir.path()), GENESIS);
    assert!(created.is_err(), "a state is not overwritten");
    directory.reset().expect("it is removed");
    assert!(open(&directory).expect("nothing").is_none());
    // A node that was killed leaves its socket behind.
    let socket = std::os::unix::net::UnixListener::bind(path.join("admin.sock")).expect("bound");
    drop(socket);
    std::fs::create_dir(path.join("lost+found")).expect("created");
    let directory = LedgerDirectory::new(&path).expect("what else is there does not matter");
    directory.reset().expect("there is no state");
    assert!(path.join("lost+found").exists(), "only the state is removed");
    std::fs::create_dir(path.join("store")).expect("created");
    let dev = LedgerDirectory::new(&path).err().map(|err| err.to_string()).unwrap_or_default();
    assert!(dev.contains("hydrant dev"), "{dev}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_that_was_not_verified_is_followed_without_verification_only() {
    let dir = stored_state(VerifyMode::Off).await;
    let directory = LedgerDirectory::new(&dir.path().join("ledger")).expect("ours");
    for (verify, is_refused) in [(VerifyMode::Sequence, true), (VerifyMode::Off, false)] {
        let stored = open(&directory).expect("undamaged").expect("a state");
        let base = stored.into_base(GENESIS, &limits()).expect("a base");
        let source = Source::new(None);
        let follower = Follower::new(config(vec![source_config(&source).await], verify), base);
        let refused = matches!(follower, Err(FollowError::UnverifiedState { .. }));
        assert_eq!(refused, is_refused, "{verify:?}");
    }
}
