//! Points: the earnings of a stake by the votes of its validator. Lamports are distributed in proportion to them.

use std::collections::HashMap;

use solana_pubkey::Pubkey;
use solana_stake_interface::stake_history::StakeHistory;
use solana_stake_interface::state::Stake;
use stakes_solana::Delegated;

/// The credits of a vote account: epoch, credits at its end, credits at its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Credits(pub(super) Vec<(u64, u64, u64)>);

impl Credits {
    /// All credits so far.
    fn now(&self) -> u64 {
        self.0.last().map_or(0, |(_, credits, _)| *credits)
    }
}

/// A vote account that rewards are computed for.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) credits: Credits,
    /// The collector of its commission.
    pub(super) collector: Pubkey,
}

/// Earnings of a stake since its last payment.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Earned {
    pub(super) points: u128,
    /// The credits that it has observed after that.
    pub(super) credits_observed: u64,
    /// The vote account has fewer credits than the stake has observed, because it was created again.
    pub(super) is_rewound: bool,
}

/// Earnings of a stake: in each epoch its effective stake for each credit that it has not observed.
pub(super) fn earnings(
    stake: &Stake,
    credits: &Credits,
    history: &StakeHistory,
    warmup: Option<u64>,
) -> Earned {
    let observed = stake.credits_observed;
    let now = credits.now();
    if now <= observed {
        return Earned { points: 0, credits_observed: now, is_rewound: now < observed };
    }
    let mut earned = Earned { credits_observed: observed, ..Earned::default() };
    for (epoch, end, start) in &credits.0 {
        let unobserved = if observed < *start {
            end.saturating_sub(*start)
        } else {
            // It was delegated during the epoch, or has observed all of it.
            end.saturating_sub(earned.credits_observed.max(observed))
        };
        earned.credits_observed = earned.credits_observed.max(*end);
        let effective = stake.delegation.stake_v2(*epoch, history, warmup);
        earned.points += u128::from(effective) * u128::from(unobserved);
    }
    earned
}

/// The points of all stakes that are delegated to one of `voters`.
pub(super) fn total(
    delegated: &[Delegated],
    voters: &HashMap<Pubkey, Candidate>,
    history: &StakeHistory,
    warmup: Option<u64>,
) -> u128 {
    let points = delegated.iter().filter_map(|it| {
        let voter = voters.get(&it.stake.delegation.voter_pubkey)?;
        Some(earnings(&it.stake, &voter.credits, history, warmup).points)
    });
    points.sum()
}

#[cfg(test)]
mod tests {
    use solana_stake_interface::state::Delegation;

    use super::*;

    fn stake(credits_observed: u64) -> Stake {
        // Fully effective since before the first epoch.
        let delegation = Delegation::new(&Pubkey::new_from_array([1; 32]), 1_000, u64::MAX);
        Stake { delegation, credits_observed }
    }

    fn earned_from(credits_observed: u64, credits: &[(u64, u64, u64)]) -> Earned {
        let credits = Credits(credits.to_vec());
        earnings(&stake(credits_observed), &credits, &StakeHistory::default(), Some(0))
    }

    #[test]
    fn each_credit_that_a_stake_has_not_observed_earns_its_stake() {
        let credits = [(0, 100, 0), (1, 250, 100)];
        assert_eq!(earned_from(0, &credits).points, 250_000);
        assert_eq!(earned_from(100, &credits).points, 150_000);
        // It was delegated in the middle of the epoch.
        assert_eq!(earned_from(130, &credits).points, 120_000);
        assert_eq!(earned_from(130, &credits).credits_observed, 250);
    }

    #[test]
    fn without_new_credits_nothing_is_earned() {
        let same = Earned { points: 0, credits_observed: 250, is_rewound: false };
        assert_eq!(earned_from(250, &[(1, 250, 100)]), same);
        let rewound = Earned { points: 0, credits_observed: 250, is_rewound: true };
        assert_eq!(earned_from(300, &[(1, 250, 100)]), rewound);
        assert_eq!(earned_from(0, &[]), Earned::default());
    }
}
