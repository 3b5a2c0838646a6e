//! Archives that are written here: the second reader and the loader read them, with their status cache.

use std::path::Path;
use std::sync::Arc;

use lattice::{BankHashInputs, HardFork, LtHash};
use snapshot_solana::{
    ArchiveWriteError, ArchivedBank, BankFields, Progress, SnapshotError, write_archive,
};
use solana::{Account, lt_hash};
use solana::{EpochStakes, EpochVoter};
use solana_account::AccountSharedData;
use solana_epoch_schedule::EpochSchedule;
use solana_hash::Hash;
use solana_inflation::Inflation;
use solana_pubkey::Pubkey;
use solana_transaction_error::TransactionError;
use testkit::archive::{self, Accounts};

use crate::forge::{address, pack};
use crate::map::load;
use crate::sample::sample;

const SLOT: u64 = 700;

fn accounts() -> Vec<(Pubkey, Arc<Account>)> {
    let account = |key: u8| {
        let data = vec![key; usize::from(key) * 1_000 + 3];
        let account = solana_account::Account {
            lamports: u64::from(key) * 10,
            data,
            owner: Pubkey::new_from_array([key + 100; 32]),
            executable: key == 2,
            rent_epoch: u64::MAX,
        };
        (address(key), Arc::new(Account(AccountSharedData::from(account))))
    };
    (1..=40).map(account).collect()
}

fn bank(status_cache: Vec<u8>) -> ArchivedBank {
    let mut sum = LtHash::EMPTY;
    accounts().iter().for_each(|(pubkey, account)| sum.mix_in(&lt_hash(pubkey, &account.0)));
    let voter = EpochVoter {
        vote_account: address(3),
        node: address(4),
        authorized_voter: Some(address(5)),
        stake: 77,
    };
    let mut fields = BankFields::empty();
    fields.slot = SLOT;
    fields.parent_slot = SLOT - 2;
    fields.block_height = SLOT - 9;
    fields.parent_hash = Hash::new_from_array([8; 32]);
    fields.transaction_count = 1_234;
    fields.signature_count = 6;
    fields.genesis_unix_timestamp = 1_700_000_000;
    fields.epoch_schedule = EpochSchedule::custom(64, 64, false);
    fields.ns_per_slot = 400_000_000;
    fields.blockhashes = (1..=5).map(|n| Hash::new_from_array([n; 32])).collect();
    fields.lamports_per_signature = 5_000;
    fields.inflation = Inflation::default();
    fields.epoch_stakes = [10, 11].map(|epoch| EpochStakes { epoch, voters: vec![voter] }).into();
    // One of them is between the bank and its parent.
    fields.hard_forks =
        [(600, 1), (SLOT - 1, 2)].map(|(slot, count)| HardFork { slot, count }).into();
    let inputs = BankHashInputs {
        parent_hash: [8; 32],
        signature_count: 6,
        last_blockhash: [5; 32],
        lt_hash: &sum,
        hard_forks: 2,
    };
    fields.bank_hash = Hash::new_from_array(inputs.hash());
    ArchivedBank { fields, leader: address(4), status_cache }
}

#[test]
fn an_archive_that_was_written_is_read_as_it_was() {
    let dir = tempfile::tempdir().expect("a directory");
    let bank = bank(Vec::new());
    let written =
        write_archive(dir.path(), &bank, || accounts().into_iter()).expect("it is written");
    let files = std::fs::read_dir(dir.path()).expect("the directory").count();
    assert_eq!((files, written.slot), (1, SLOT));
    assert_eq!(written.bytes, std::fs::metadata(&written.path).expect("a file").len());
    let mut second = Accounts::default();
    second.add(&archive::files(&written.path).expect("its files")).expect("whole files");
    assert_eq!(second.open().count(), 40);
    assert!(written.name.contains(&second.lt_hash().checksum().to_string()), "{}", written.name);
    let (snapshot, map) = load(&written.path, None, 2, &Progress::default()).expect("it loads");
    for (pubkey, account) in accounts() {
        assert_eq!(map.accounts[&pubkey], account.0);
    }
    let read = snapshot.bank;
    let bank = bank.fields;
    assert_eq!(snapshot.lamports, second.lamports());
    assert_eq!((read.slot, read.parent_slot, read.block_height), (SLOT, SLOT - 2, SLOT - 9));
    assert_eq!((read.bank_hash, read.parent_hash), (bank.bank_hash, bank.parent_hash));
    assert_eq!((read.transaction_count, read.signature_count), (1_234, 6));
    assert_eq!((read.ns_per_slot, read.genesis_unix_timestamp), (400_000_000, 1_700_000_000));
    assert_eq!((read.blockhashes, read.epoch_schedule), (bank.blockhashes, bank.epoch_schedule));
    assert_eq!((read.epoch_stakes, read.lamports_per_signature), (bank.epoch_stakes, 5_000));
    assert_eq!((read.inflation.initial, read.inflation.foundation_term), (0.08, 7.0));
    assert_eq!((read.hard_forks, read.status_cache.newest_slot()), (bank.hard_forks, None));
}

#[test]
fn a_bank_hash_that_its_accounts_do_not_have_is_not_written() {
    let dir = tempfile::tempdir().expect("a directory");
    let write = || write_archive(dir.path(), &bank(Vec::new()), || accounts().into_iter().skip(1));
    assert!(matches!(write(), Err(ArchiveWriteError::BankHash { slot: SLOT, .. })));
    assert_eq!(std::fs::read_dir(dir.path()).expect("the directory").count(), 0);
    let gone =
        write_archive(&dir.path().join("gone"), &bank(Vec::new()), || accounts().into_iter());
    assert!(matches!(gone, Err(ArchiveWriteError::Write { .. })));
}

/// A slot of a status cache: its number, and by blockhash the offset of the keys, and the statuses.
type Slot = (u64, bool, Vec<([u8; 32], (u64, Vec<([u8; 20], Vec<u8>)>))>);

/// The bytes of a status cache. A status is in bincode already.
fn status_cache(slots: &[Slot]) -> Vec<u8> {
    let mut out = Vec::new();
    let n = |number: usize| (number as u64).to_le_bytes();
    out.extend(n(slots.len()));
    for (slot, is_root, blockhashes) in slots {
        out.extend(slot.to_le_bytes());
        out.push(u8::from(*is_root));
        out.extend(n(blockhashes.len()));
        for (blockhash, (offset, statuses)) in blockhashes {
            out.extend(blockhash);
            out.extend(offset.to_le_bytes());
            out.extend(n(statuses.len()));
            for (key, status) in statuses {
                out.extend(key);
                out.extend(status);
            }
        }
    }
    out
}

/// A signature, and its part from an offset on.
fn signature(n: u8, offset: usize) -> ([u8; 64], [u8; 20]) {
    let signature: [u8; 64] = std::array::from_fn(|at| n.wrapping_mul(31).wrapping_add(at as u8));
    let key = signature[offset..].first_chunk().expect("20 bytes");
    (signature, *key)
}

/// Loads an archive with this status cache, before the bank's fields or behind them.
fn load_with(
    dir: &Path,
    cache: &[u8],
    is_before: bool,
) -> Result<snapshot_solana::Snapshot, SnapshotError> {
    let bank = bank(Vec::new());
    let written = write_archive(dir, &bank, || accounts().into_iter()).expect("it is written");
    let mut files = archive::files(&written.path).expect("its files");
    files.remove("snapshots/status_cache");
    let fields = format!("snapshots/{SLOT}/{SLOT}");
    let mut entries: Vec<(String, Vec<u8>)> = ["version".to_owned(), fields]
        .map(|name| {
            let bytes = files.remove(&name).expect("it is there");
            (name, bytes)
        })
        .into();
    let at = if is_before { 1 } else { 2 };
    entries.insert(at, ("snapshots/status_cache".to_owned(), cache.to_vec()));
    entries.extend(files);
    std::fs::write(&written.path, pack(&entries)).expect("write the archive");
    load(&written.path, None, 1, &Progress::default()).map(|(snapshot, _)| snapshot)
}

#[test]
fn transactions_are_found_by_their_signatures_with_their_results() {
    let bytes = |variants: &[u32], rest: &[u8]| {
        let mut bytes: Vec<u8> = 1_u32.to_le_bytes().into();
        variants[..1].iter().for_each(|variant| bytes.extend(variant.to_le_bytes()));
        if let [_, inner] = variants {
            bytes.push(4);
            bytes.extend(inner.to_le_bytes());
        }
        bytes.extend(rest);
        bytes
    };
    let text = [&3_u64.to_le_bytes()[..], b"why"].concat();
    let ok = 0_u32.to_le_bytes().to_vec();
    let statuses = [
        ok,
        bytes(&[8, 25], &6_u32.to_le_bytes()),
        bytes(&[8, 44], &text),
        bytes(&[31], &[2]),
        bytes(&[30], &[3]),
        bytes(&[7], &[]),
        bytes(&[8, 25], &6_u32.to_le_bytes()),
    ];
    let expected = [
        "None",
        "Some(InstructionError(4, Custom(6)))",
        "Some(InstructionError(4, BorshIoError))",
        "Some(InsufficientFundsForRent { account_index: 2 })",
        "Some(DuplicateInstruction(3))",
        "Some(BlockhashNotFound)",
        "Some(InstructionError(4, Custom(6)))",
    ];
    // Each blockhash has another offset.
    let offsets = [0, 44, 7, 0, 13, 30, 44];
    let slots: Vec<Slot> = (0..7)
        .map(|n: usize| {
            let key = signature(n as u8, offsets[n]).1;
            let by_blockhash = (offsets[n] as u64, vec![(key, statuses[n].clone())]);
            (SLOT - n as u64, true, vec![([n as u8; 32], by_blockhash)])
        })
        .collect();
    for is_before in [true, false] {
        let dir = tempfile::tempdir().expect("a directory");
        let cache = status_cache(&slots);
        let cache = load_with(dir.path(), &cache, is_before).expect("it loads").bank.status_cache;
        assert_eq!((cache.newest_slot(), cache.left_out()), (Some(SLOT), 0));
        for (n, expected) in (0..7_u8).zip(expected) {
            let (slot, result) = cache.find(&signature(n, 0).0).expect("it is there");
            assert_eq!(slot, SLOT - u64::from(n));
            let err: Option<&TransactionError> = result.as_ref().err();
            assert_eq!(format!("{err:?}"), expected);
        }
        assert_eq!(cache.find(&signature(99, 0).0), None);
    }
}

#[test]
fn different_errors_beyond_their_bound_are_left_out() {
    const RESULTS_MAX: u32 = 1 << 16;
    let key = |code: u32| -> [u8; 20] {
        let mut key = [7; 20];
        key[..4].copy_from_slice(&code.to_le_bytes());
        key
    };
    let status = |code: u32| {
        let parts = [1, 8, 25, code].map(u32::to_le_bytes);
        let [tag, variant, inner, code] = parts.each_ref().map(|part| &part[..]);
        [tag, variant, &[4], inner, code].concat()
    };
    let statuses = (0..RESULTS_MAX + 1_000).map(|code| (key(code), status(code)));
    // An error that is known already is stored.
    let statuses = statuses.chain([(key(u32::MAX), status(6))]).collect();
    let cache = status_cache(&[(SLOT, true, vec![([1; 32], (0, statuses))])]);
    let dir = tempfile::tempdir().expect("a directory");
    let cache = load_with(dir.path(), &cache, true).expect("it loads").bank.status_cache;
    // Success is one of the results.
    assert_eq!(cache.left_out(), 1_001);
    let find = |code: u32| {
        let mut signature = [0; 64];
        signature[..20].copy_from_slice(&key(code));
        cache.find(&signature).map(|(_, result)| format!("{result:?}"))
    };
    let expected = Some("Err(InstructionError(4, Custom(6)))".to_owned());
    assert_eq!([find(6), find(u32::MAX)], [expected.clone(), expected]);
    assert_eq!(find(RESULTS_MAX), None);
}

#[test]
fn a_status_cache_that_contradicts_itself_is_damage() {
    let refuse = |cache: &[u8]| {
        let dir = tempfile::tempdir().expect("a directory");
        load_with(dir.path(), cache, true).expect_err("it is damaged").to_string()
    };
    let status = |offset, status: Vec<u8>| {
        let statuses = vec![(signature(1, 0).1, status)];
        status_cache(&[(SLOT, true, vec![([1; 32], (offset, statuses))])])
    };
    let ok = 0_u32.to_le_bytes().to_vec();
    let whole = status(0, ok.clone());
    for (cache, reason) in [
        (whole[..whole.len() - 3].to_vec(), "room for"),
        (u64::MAX.to_le_bytes().to_vec(), "slots with statuses"),
        (status(64, ok), "behind the end of signatures"),
        (status(0, 2_u32.to_le_bytes().to_vec()), "is 2, not 0 or 1"),
        (status(0, [1_u32, 999].map(u32::to_le_bytes).concat()), "Agave 4.2 has not"),
    ] {
        let found = refuse(&cache);
        assert!(found.contains(reason), "{found}");
    }
}

#[test]
fn the_status_cache_of_a_validators_archive_is_read() {
    let (snapshot, _) = load(&sample(), None, 2, &Progress::default()).expect("the sample loads");
    let cache = snapshot.bank.status_cache;
    assert_eq!((cache.newest_slot(), cache.left_out()), (Some(100), 0));
    assert!(cache.bytes() > 1_000, "{cache:?}");
}
