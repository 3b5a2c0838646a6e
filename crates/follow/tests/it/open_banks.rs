//! Open banks are applied before they are whole: no reader sees anything of one, and one that ends leaves nothing.

use std::sync::atomic::{AtomicU64, Ordering};

use fastrand::Rng;
use follow::{FollowerConfig, VerifyMode};
use ledger::{Address, Commitment, Record};
use metrics::Collector;
use solana_pubkey::Pubkey;
use solana_sdk_ids::sysvar;
use testkit::geyser_source::Source;
use yellowstone_grpc_proto::geyser::subscribe_update::UpdateOneof;
use yellowstone_grpc_proto::geyser::{SlotStatus, SubscribeUpdate};

use crate::proofs::{Rig, config, source_config};
use crate::proven::Proven;
use crate::script::{account, signature, status, transaction};
use crate::snapshot::WALLET;

/// Accounts of a bank, besides its sysvars.
const ACCOUNTS: u8 = 40;

/// Whatever comes is prepared at once.
async fn config_without_delay(source: &Source) -> FollowerConfig {
    config(vec![source_config(source).await], VerifyMode::Sequence)
}

/// Addresses that the ledger holds, those of open banks included.
fn addresses(rig: &Rig) -> usize {
    rig.reader.view(Commitment::Processed).addresses_len()
}

/// Returns the last of several writes of an account with an owner of its own.
fn owned_account(slot: u64, n: u8, lamports: u64, owner: [u8; 32]) -> SubscribeUpdate {
    let mut update = account(slot, [n; 32], lamports, vec![n; 20]);
    if let Some(UpdateOneof::Account(update)) = &mut update.update_oneof {
        let info = update.account.as_mut().expect("an account");
        info.owner = owner.to_vec();
        info.write_version = slot * 1_000 + lamports;
    }
    update
}

fn owner(slot: u64) -> [u8; 32] {
    [200 + (slot % 50) as u8; 32]
}

/// A bank with many accounts of its own owner and some transactions, up to its block meta.
fn bank(chain: &mut Proven, slot: u64) -> Vec<SubscribeUpdate> {
    let mut writes: Vec<_> =
        (10..10 + ACCOUNTS).map(|n| owned_account(slot, n, 5, owner(slot))).collect();
    writes.push(account(slot, WALLET, slot, Vec::new()));
    chain.bank_with(slot, writes, (0..3).map(|index| transaction(slot, index)).collect())
}

fn with_bank_id(mut updates: Vec<SubscribeUpdate>, id: u64) -> Vec<SubscribeUpdate> {
    for update in &mut updates {
        match update.update_oneof.as_mut().expect("an update") {
            UpdateOneof::Account(it) => it.bank_id = Some(id),
            UpdateOneof::Transaction(it) => it.bank_id = id,
            UpdateOneof::BlockMeta(it) => it.bank_id = id,
            UpdateOneof::Slot(it) => it.bank_id = Some(id),
            _ => {}
        }
    }
    updates
}

fn frozen(slot: u64) -> Vec<SubscribeUpdate> {
    [SlotStatus::SlotProcessed, SlotStatus::SlotConfirmed].map(|it| status(slot, it)).into()
}

/// Returns the estimated bytes of prepared banks.
fn prepared_bytes(rig: &Rig) -> u64 {
    let memory = rig.status.memory();
    memory.iter().find(|(part, _)| *part == "follow_prepared_banks").expect("the metric").1
}

/// Returns the data that readers see: lamports of all accounts by commitment, transactions of the wallet, addresses by
/// owner.
fn read_everything(rig: &Rig, owner: [u8; 32]) -> (Vec<Vec<(Pubkey, u64)>>, usize, usize) {
    let accounts = Commitment::ALL.map(|commitment| {
        let view = rig.reader.view(commitment);
        let lamports =
            |account: &solana::Account| solana_account::ReadableAccount::lamports(&account.0);
        let all = view.all().map(|(address, account)| {
            let pubkey = Pubkey::try_from(address.as_bytes()).expect("32 bytes");
            (pubkey, lamports(&account))
        });
        let mut all: Vec<_> = all.collect();
        all.sort_unstable();
        all
    });
    let history = rig.history.snapshot();
    let wallet = history.signatures_for_address(&WALLET.into()).map_or(0, |all| all.len());
    let view = rig.reader.view(Commitment::Processed);
    let owner = Address::from(owner);
    let owned = view.records_by_key(solana::key_kind::PROGRAM, &owner).count();
    (accounts.into(), wallet, owned)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_sees_nothing_of_an_open_bank_and_then_all_of_it() {
    let source = Source::new(None);
    let (rig, mut chain) = Rig::start(config_without_delay(&source).await);
    source.send(chain.chain(101..=101));
    rig.wait_for_slots([101, 100, 100]).await;
    let mut updates = bank(&mut chain, 102);
    let meta = updates.pop();
    let known = addresses(&rig);
    source.send(updates);
    // Its SlotHashes confirms its parent, so something is published while it is open.
    rig.wait_for_slots([101, 101, 100]).await;
    rig.wait("it is prepared", |rig| addresses(rig) > known + usize::from(ACCOUNTS)).await;
    rig.wait("its bytes are counted", |rig| prepared_bytes(rig) > 0).await;
    source.send([status(101, SlotStatus::SlotFinalized)]);
    rig.wait_for_slots([101, 101, 101]).await;
    let (accounts, transactions, owned) = read_everything(&rig, owner(102));
    assert_eq!((accounts[0].len(), transactions, owned), (6, 1, 0), "{accounts:?}");
    assert_eq!(accounts[0], accounts[2]);
    let history = rig.history.snapshot();
    let find = |index| history.transaction(&signature(102, index).into(), Commitment::Processed);
    assert!((0..4).all(|index| find(index).is_none()));
    assert!(history.block(102, Commitment::Processed).is_none());
    source.send(meta);
    source.send(frozen(102));
    rig.wait_for_slots([102, 101, 101]).await;
    let (accounts, transactions, owned) = read_everything(&rig, owner(102));
    let expected = chain.accounts().len();
    assert_eq!((accounts[0].len(), transactions, owned), (expected, 5, usize::from(ACCOUNTS)));
    source.send(chain.chain(103..=103));
    rig.wait("its hash is right", |rig| rig.status.verified() == 102).await;
    rig.wait("nothing is open", |rig| prepared_bytes(rig) == 0).await;
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_bank_that_dies_or_is_replaced_leaves_nothing() {
    let source = Source::new(None);
    let (rig, mut chain) = Rig::start(config_without_delay(&source).await);
    source.send(chain.chain(101..=101));
    rig.wait_for_slots([101, 100, 100]).await;
    let before = read_everything(&rig, owner(102));
    let known = addresses(&rig);
    let mut left = chain.clone();
    let mut updates = with_bank_id(bank(&mut left, 102), 1);
    updates.pop();
    source.send(updates.clone());
    rig.wait("it is prepared", |rig| addresses(rig) > known + usize::from(ACCOUNTS)).await;
    // Another bank of the slot replaces it, and dies.
    let second = with_bank_id(vec![status(102, SlotStatus::SlotCreatedBank)], 2);
    source.send(second.into_iter().chain(with_bank_id(updates, 2)));
    let dead = with_bank_id(vec![status(102, SlotStatus::SlotDead)], 2);
    source.send(dead);
    rig.wait("nothing is prepared", |rig| prepared_bytes(rig) == 0).await;
    assert_eq!(addresses(&rig), known, "it holds no address");
    let after = read_everything(&rig, owner(102));
    assert_eq!((&after.0[0], after.1, after.2), (&before.0[0], 1, 0));
    // The next bank is on the same parent.
    source.send(bank(&mut chain, 103));
    source.send(frozen(103));
    source.send(chain.chain(104..=104));
    rig.wait("its hash is right", |rig| rig.status.verified() == 103).await;
    rig.wait_for_slots([104, 103, 100]).await;
    let history = rig.history.snapshot();
    let of_102 = history.transaction(&signature(102, 0).into(), Commitment::Processed);
    assert!(of_102.is_none());
    assert_eq!(read_everything(&rig, owner(102)).2, 0);
    assert_eq!(rig.status.gaps(), 0);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_open_banks_of_different_forks_are_prepared_at_once_and_not_mixed() {
    let source = Source::new(None);
    let (rig, mut chain) = Rig::start(config_without_delay(&source).await);
    source.send(chain.chain(101..=101));
    rig.wait_for_slots([101, 100, 100]).await;
    let mut fork = chain.clone();
    let left = bank(&mut fork, 102);
    let right = bank(&mut chain, 103);
    let mut pairs: Vec<SubscribeUpdate> = Vec::new();
    let mut right = right.into_iter();
    for update in left {
        pairs.push(update);
        pairs.extend(right.next());
    }
    source.send(pairs);
    rig.wait_for_slots([103, 101, 100]).await;
    let of = |slot| read_everything(&rig, owner(slot)).2;
    assert_eq!((of(102), of(103)), (0, usize::from(ACCOUNTS)));
    source.send(frozen(102).into_iter().take(1).chain(frozen(103)));
    source.send(chain.chain(104..=104));
    rig.wait("its hash is right", |rig| rig.status.verified() == 103).await;
    source.send([status(103, SlotStatus::SlotFinalized)]);
    rig.wait_for_slots([104, 103, 103]).await;
    // Index entries are freed some publications later.
    source.send(chain.chain(105..=120));
    rig.wait("its keys are gone", |rig| {
        let view = rig.reader.view(Commitment::Finalized);
        view.records_by_key_len(solana::key_kind::PROGRAM, &Address::from(owner(102))) == 0
    })
    .await;
    rig.stop().await;
}

/// The writes and the transactions of a bank in another order: each account's own writes stay in theirs.
fn shuffle(updates: Vec<SubscribeUpdate>, rng: &mut Rng) -> Vec<SubscribeUpdate> {
    let mut updates = updates;
    let meta = updates.pop();
    // The bank's creation, its Clock and its SlotHashes come first, as at every source.
    let content = &mut updates[3..];
    rng.shuffle(content);
    updates.extend(meta);
    updates
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bank_has_the_same_hash_whatever_the_order_of_its_updates() {
    for seed in 0..8 {
        let mut rng = Rng::with_seed(seed);
        let source = Source::new(None);
        let mut config = config_without_delay(&source).await;
        config.feed.quiescent_after = rng.u64(..30);
        config.feed.hot_quiescent_after = rng.u64(..60);
        let (rig, mut chain) = Rig::start(config);
        for slot in 101..=110 {
            let mut updates = bank(&mut chain, slot);
            // Older writes of accounts, anywhere: the newest version counts.
            let mut older = Vec::new();
            for n in (10..10 + ACCOUNTS).filter(|n| n % 2 == slot as u8 % 2) {
                older.push(owned_account(slot, n, 1 + rng.u64(..4), owner(1)));
            }
            updates.splice(4..4, older);
            let updates = shuffle(updates, &mut rng);
            // In parts, so that some of it is prepared before the rest comes.
            for part in updates.chunks(1 + rng.usize(..30)) {
                source.send(part.to_vec());
                if rng.bool() {
                    tokio::task::yield_now().await;
                }
            }
            source.send(frozen(slot));
        }
        rig.wait("all hashes are right", |rig| rig.status.verified() == 109).await;
        assert_eq!((rig.status.gaps(), rig.status.mismatch()), (0, None), "seed {seed}");
        rig.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn open_banks_without_end_are_prepared_up_to_their_bounds() {
    static MOST: AtomicU64 = AtomicU64::new(0);
    let source = Source::new(None);
    let (rig, mut chain) = Rig::start(config_without_delay(&source).await);
    source.send(chain.chain(101..=101));
    rig.wait_for_slots([101, 100, 100]).await;
    for slot in 110..150 {
        let mut open = bank(&mut chain.clone(), slot);
        open.pop();
        source.send(open);
    }
    let observe = |rig: &Rig| MOST.fetch_max(prepared_bytes(rig), Ordering::Relaxed);
    source.send(bank(&mut chain, 102));
    source.send(frozen(102));
    rig.wait("a bank among them is whole", |rig| {
        observe(rig);
        rig.slots()[0] == 102
    })
    .await;
    let of_bank = u64::from(ACCOUNTS + 8) * 3_000;
    let most = MOST.load(Ordering::Relaxed);
    assert!(most > 0 && most < 5 * of_bank, "{most} bytes");
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bank_whose_metadata_names_another_parent_than_its_sysvar_is_written_anew() {
    let source = Source::new(None);
    let mut config = config_without_delay(&source).await;
    // Nothing says which parent is right but the metadata.
    config.verify = VerifyMode::Off;
    let (rig, mut chain) = Rig::start(config);
    source.send(chain.chain(101..=102));
    rig.wait_for_slots([102, 102, 100]).await;
    let mut updates = bank(&mut chain, 103);
    let at = updates.iter().position(|update| match &update.update_oneof {
        Some(UpdateOneof::Account(it)) => {
            it.account.as_ref().is_some_and(|it| it.pubkey == sysvar::slot_hashes::ID.to_bytes())
        }
        _ => false,
    });
    let hashes = solana_slot_hashes::SlotHashes::new(&[(101, solana_hash::Hash::default())]);
    let data = bincode::serialize(&hashes).expect("it has a wire form");
    updates[at.expect("the sysvar")] = account(103, sysvar::slot_hashes::ID.to_bytes(), 1, data);
    let meta = updates.pop();
    source.send(updates);
    rig.wait("it is prepared", |rig| prepared_bytes(rig) > 0).await;
    source.send(meta);
    rig.wait_for_slots([103, 102, 100]).await;
    let view = rig.reader.view(Commitment::Processed);
    assert_eq!(view.meta().parent.slot, 102);
    let total: u64 =
        view.all().map(|(_, account)| solana_account::ReadableAccount::lamports(&account.0)).sum();
    assert_eq!(view.meta().capitalization, total);
    let mut keys = 0;
    view.all().for_each(|(_, account)| account.keys(&mut |_, _| keys += 1));
    assert!(keys > 0);
    rig.wait("nothing is open", |rig| prepared_bytes(rig) == 0).await;
    rig.stop().await;
}

/// Bytes of the account that the next test writes.
const LARGE_BYTES: usize = 8 << 10;

/// A large account. Each bank changes some of its bytes.
fn large(slot: u64) -> Vec<u8> {
    let mut data = vec![7; LARGE_BYTES];
    for at in (0..LARGE_BYTES).step_by(1_000) {
        data[at..at + 8].copy_from_slice(&(slot * at as u64).to_le_bytes());
    }
    data
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_that_many_banks_write_is_held_once() {
    let key = [77; 32];
    let source = Source::new(None);
    let (rig, mut chain) = Rig::start(config_without_delay(&source).await);
    source.send(chain.chain(101..=101));
    rig.wait_for_slots([101, 100, 100]).await;
    let unpacked = || rig.reader.view(Commitment::Processed).bytes().unpacked;
    let before = unpacked();
    for slot in 102..=131 {
        let first = account(slot, key, slot, large(0));
        let mut last = account(slot, key, slot, large(slot));
        if let Some(UpdateOneof::Account(update)) = &mut last.update_oneof {
            update.account.as_mut().expect("an account").write_version = 1_000_000 + slot;
        }
        source.send(chain.bank_with(slot, vec![first, last], Vec::new()));
        source.send(frozen(slot));
    }
    rig.wait_for_slots([131, 130, 100]).await;
    // Each of 30 banks has its own version. Half of the allowed bytes are its sysvars.
    let held = unpacked() - before;
    assert!((LARGE_BYTES..15 * LARGE_BYTES).contains(&held), "{held}");
    source.send(chain.chain(132..=132));
    rig.wait("its hash is right", |rig| rig.status.verified() == 131).await;
    for root in [102, 115, 131] {
        source.send([status(root, SlotStatus::SlotFinalized)]);
        rig.wait_for_slots([132, 131, root]).await;
        for (commitment, slot) in [(Commitment::Finalized, root), (Commitment::Confirmed, 131)] {
            let view = rig.reader.view(commitment);
            let found = view.record(&Address::from(key)).expect("it is written");
            let data = solana_account::ReadableAccount::data(&found.0);
            assert!(data == large(slot), "{commitment:?} at {root}");
        }
    }
    assert_eq!(rig.status.gaps(), 0);
    rig.stop().await;
}
