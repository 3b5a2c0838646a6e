//! The stakes of epochs and the rates of inflation in the bank's fields.

use snapshot_solana::{Progress, SnapshotError};
use solana::{EpochStakes, EpochVoter};
use testkit::archive::{ArchivedVoter, UnhashedFields};

use crate::forge::{Forge, address, stored};
use crate::map::load;
use crate::sample::sample;

fn voter(n: u8, stake: u64) -> ArchivedVoter {
    let [vote_account, node, authorized_voter] = [n, n + 100, n + 200].map(|n| [n; 32]);
    ArchivedVoter { vote_account, node, authorized_voter, stake }
}

fn forge(epoch_stakes: Vec<(u64, Vec<ArchivedVoter>)>) -> Forge {
    let mut forge = Forge::full(40, vec![(40, stored(1, 10, &[]))]);
    let inflation = [0.08, 0.015, 0.15, 0.05, 7.0];
    forge.unhashed =
        UnhashedFields { slots_per_epoch: 32, inflation, epoch_stakes, ..Default::default() };
    forge
}

fn load_forged(forge: &Forge) -> Result<snapshot_solana::Snapshot, SnapshotError> {
    let dir = tempfile::tempdir().expect("a directory");
    load(&forge.write(dir.path()), None, 1, &Progress::default()).map(|(snapshot, _)| snapshot)
}

#[test]
fn vote_accounts_with_stake_are_read_in_the_order_of_epochs() {
    let epochs = vec![(2, vec![voter(3, 7), voter(1, 5), voter(2, 0)]), (1, vec![voter(1, 4)])];
    let bank = load_forged(&forge(epochs)).expect("it loads").bank;
    let expected = |n: u8, stake| EpochVoter {
        vote_account: address(n),
        node: address(n + 100),
        authorized_voter: Some(address(n + 200)),
        stake,
    };
    let stakes = [
        EpochStakes { epoch: 1, voters: vec![expected(1, 4)] },
        EpochStakes { epoch: 2, voters: vec![expected(1, 5), expected(3, 7)] },
    ];
    assert_eq!(bank.epoch_stakes, stakes);
    let rates = bank.inflation;
    assert_eq!((rates.initial, rates.terminal, rates.taper), (0.08, 0.015, 0.15));
    assert_eq!((rates.foundation, rates.foundation_term), (0.05, 7.0));
    assert_eq!(bank.lamports_per_signature, 5_000);
}

#[test]
fn stakes_that_contradict_themselves_are_damage() {
    let twice = vec![(1, vec![voter(1, 5)]), (1, vec![voter(2, 5)])];
    let same_voter = vec![(1, vec![voter(1, 5), voter(1, 5)])];
    let many = (0..65).map(|epoch| (epoch, Vec::new())).collect();
    for (epochs, reason) in [
        (twice, "epoch 1 has stakes twice"),
        (same_voter, "epoch 1 has 5 lamports of stake, and says 10"),
        (many, "more than 64 epochs with stakes"),
    ] {
        let err = load_forged(&forge(epochs)).expect_err(reason).to_string();
        assert!(err.contains(reason), "{err}");
    }
    let mut forge = forge(Vec::new());
    forge.unhashed.inflation[0] = f64::NAN;
    let err = load_forged(&forge).expect_err("no number").to_string();
    assert!(err.contains("NaN as a rate of inflation"), "{err}");
}

#[test]
fn the_stakes_of_a_validators_archive_are_those_of_its_vote_accounts() {
    let (snapshot, map) = load(&sample(), None, 1, &Progress::default()).expect("it loads");
    let stakes = snapshot.bank.epoch_stakes;
    let epochs: Vec<u64> = stakes.iter().map(|stakes| stakes.epoch).collect();
    assert_eq!(epochs, [0, 1, 2], "slot 100 is in epoch 1, and the next one has its leaders");
    for EpochStakes { voters, .. } in stakes {
        assert_eq!(voters.len(), 1);
        let account = map.accounts.get(&voters[0].vote_account).expect("its account");
        let node = &solana_account::ReadableAccount::data(account)[4..36];
        assert_eq!(voters[0].node.as_ref(), node);
        assert!(voters[0].stake > 0 && voters[0].authorized_voter.is_some());
    }
}
