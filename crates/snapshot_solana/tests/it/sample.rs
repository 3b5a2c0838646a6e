//! The archive that `solana-test-validator` 4.2.2 wrote, against the second reader.

use std::collections::BTreeMap;
use std::path::PathBuf;

use snapshot_solana::{Progress, Summary};
use solana_account::ReadableAccount;
use testkit::archive::{self, Accounts};

use crate::map::load;

pub(crate) fn sample() -> PathBuf {
    archive::find_recorded().expect("the recorded archive")
}

#[test]
fn every_account_of_the_sample_is_read_as_the_second_reader_reads_it() {
    let path = sample();
    let mut written = Accounts::default();
    written.add(&archive::files(&path).expect("its files")).expect("whole files");
    let mut expected: BTreeMap<_, _> = written.open().collect();
    let progress = Progress::default();
    let (snapshot, map) = load(&path, None, 2, &progress).expect("the sample loads");

    assert_eq!(snapshot.accounts_len, expected.len());
    assert_eq!(snapshot.lamports, written.lamports());
    assert_eq!(snapshot.accounts_hash, written.lt_hash().checksum());
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    assert!(name.is_some_and(|name| name.contains(&snapshot.accounts_hash.to_string())));

    assert_eq!((snapshot.bank.slot, snapshot.bank.parent_slot), (100, 99));
    assert_eq!(snapshot.bank.block_height, 100);
    assert_eq!(snapshot.bank.blockhashes.len(), 101);
    let sysvar = solana_pubkey::pubkey!("SysvarEpochSchedu1e111111111111111111111111");
    let slots_per_epoch = snapshot.bank.epoch_schedule.slots_per_epoch.to_le_bytes();
    assert!(expected[&sysvar].data.starts_with(&slots_per_epoch));
    assert_eq!(progress.archive_bytes(), progress.archive_bytes_total());
    assert!(progress.accounts() >= expected.len() as u64);

    for (address, account) in map.accounts {
        let expected = expected.remove(&address).expect("an account that is there");
        assert_eq!(account.lamports(), expected.lamports);
        assert_eq!(account.owner().to_bytes(), expected.owner);
        assert_eq!(account.executable(), expected.executable);
        assert_eq!(account.rent_epoch(), expected.rent_epoch);
        assert_eq!(account.data(), expected.data);
    }
    assert!(expected.is_empty());
}

#[test]
fn the_summary_adds_up() {
    let loaded = load(&sample(), None, 1, &Progress::default()).expect("the sample loads");
    let (snapshot, map) = loaded;
    let summary = Summary::from_accounts(map.accounts, 5);
    let accounts: u64 = summary.programs.iter().map(|(_, holdings)| holdings.accounts).sum();
    assert_eq!(accounts, snapshot.accounts_len as u64);
    let lamports: u64 = summary.programs.iter().map(|(_, holdings)| holdings.lamports).sum();
    assert_eq!(lamports, snapshot.lamports);
    assert_eq!(summary.largest.len(), 5);
    assert!(summary.largest.is_sorted_by(|a, b| a.data_bytes >= b.data_bytes));
    let most = summary.programs.iter().max_by_key(|(_, holdings)| holdings.accounts);
    let (program, holdings) = most.expect("a program");
    assert_eq!(program.to_string(), "Feature111111111111111111111111111111111111");
    assert_eq!(holdings.accounts, 283);
}
