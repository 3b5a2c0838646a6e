//! Compares the stakes of an epoch in an archive with the archive's accounts: its proof covers these, and not those.
//!
//! In: the stakes that an archive states for the epoch after that of its bank, the stakes by its stake accounts, and
//! its vote accounts. Out: whether they agree.
//! Shape: the stakes of the next epoch are those that were effective when the bank's epoch began. In an epoch nothing
//! makes stake effective or ends it; only rewards are added. The authorized voter of an epoch is determined before the
//! epoch before it begins.

use solana::{EpochStakes, EpochVoter};
use solana_pubkey::Pubkey;

/// Percent of the stake that may differ. Rewards of an epoch are far below one percent on a cluster.
const DIFFERENCE_MAX_PERCENT: u128 = 5;

/// Whether the stated stakes are those of the accounts. `stake` has the stake of a vote account by the stake accounts,
/// whose sum is `total`, and `authorized_voter` the voter of the stated epoch.
pub(crate) fn agree_with_accounts(
    stated: &EpochStakes,
    total: u128,
    stake: impl Fn(&Pubkey) -> u64,
    authorized_voter: impl Fn(&Pubkey) -> Option<Pubkey>,
) -> bool {
    let is_right = |voter: &&EpochVoter| {
        voter.authorized_voter.is_none()
            || voter.authorized_voter == authorized_voter(&voter.vote_account)
    };
    let common = |voter: &EpochVoter| u128::from(voter.stake.min(stake(&voter.vote_account)));
    let common: u128 = stated.voters.iter().filter(is_right).map(common).sum();
    let stated: u128 = stated.voters.iter().map(|voter| u128::from(voter.stake)).sum();
    common * 100 >= stated.max(total) * (100 - DIFFERENCE_MAX_PERCENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAKES: [u64; 3] = [4_000, 3_500, 2_500];

    fn key(n: u8) -> Pubkey {
        Pubkey::new_from_array([n; 32])
    }

    fn agree(change: impl FnOnce(&mut Vec<EpochVoter>)) -> bool {
        let voter = |(n, stake): (u8, u64)| EpochVoter {
            vote_account: key(n),
            node: key(n + 100),
            authorized_voter: Some(key(n + 200)),
            stake,
        };
        let mut voters: Vec<EpochVoter> = (0..).zip(STAKES).map(voter).collect();
        change(&mut voters);
        let stated = EpochStakes { epoch: 8, voters };
        let number = |vote_account: &Pubkey| vote_account.to_bytes()[0];
        let stake = |pubkey: &Pubkey| STAKES.get(usize::from(number(pubkey))).copied();
        let voter = |pubkey: &Pubkey| Some(key(number(pubkey) + 200));
        agree_with_accounts(&stated, 10_000, |pubkey| stake(pubkey).unwrap_or_default(), voter)
    }

    #[test]
    fn stakes_are_those_of_the_accounts_but_for_rewards() {
        assert!(agree(|_| {}));
        assert!(agree(|voters| voters[0].stake -= 100), "rewards came later");
        assert!(!agree(|voters| voters[0].stake += 1_000_000));
        assert!(!agree(|voters| voters[1].authorized_voter = Some(key(99))));
        assert!(!agree(|voters| voters.truncate(2)));
        assert!(!agree(|voters| voters.iter_mut().for_each(|it| it.vote_account = key(50))));
        assert!(!agree(Vec::clear));
    }
}
