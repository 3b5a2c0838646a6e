//! Which vote accounts count in an epoch, if admission has conditions (SIMD-0357).

use solana_feature_set::FeatureSet;
use solana_pubkey::Pubkey;
use solana_vote_interface::state::VoteStateV4;

/// Vote accounts that count.
const ADMITTED_MAX: usize = 2_000;

/// A vote account at the start of an epoch.
#[derive(Clone, Debug)]
pub struct VoteCandidate {
    /// Address of the vote account.
    pub pubkey: Pubkey,
    /// The stake that counts for it.
    pub stake: u64,
    /// State of the vote account.
    pub state: VoteStateV4,
    /// All its lamports.
    pub lamports: u64,
}

/// Retains the vote accounts that count. Without the feature all of them do. `reserve` is what a vote account must have.
///
/// Beyond 2,000 accounts only those with the most stake count. Equal stakes at the border are all excluded.
pub fn admit(features: &FeatureSet, reserve: u64, candidates: &mut Vec<VoteCandidate>) {
    if !features.snapshot().validator_admission_ticket {
        return;
    }
    candidates.retain(|candidate| {
        candidate.stake > 0
            && candidate.state.bls_pubkey_compressed.is_some()
            && candidate.lamports >= reserve
    });
    if candidates.len() > ADMITTED_MAX {
        candidates.sort_unstable_by_key(|candidate| std::cmp::Reverse(candidate.stake));
        let border = candidates[ADMITTED_MAX].stake;
        candidates.retain(|candidate| candidate.stake > border);
    }
}

#[cfg(test)]
mod tests {
    use solana_feature_set::validator_admission_ticket;

    use super::*;

    fn candidate(stake: u64, lamports: u64, has_key: bool) -> VoteCandidate {
        let bls_pubkey_compressed = has_key.then_some([1; 48]);
        let state = VoteStateV4 { bls_pubkey_compressed, ..VoteStateV4::default() };
        VoteCandidate { pubkey: Pubkey::new_unique(), stake, state, lamports }
    }

    fn admitted(features: &FeatureSet, mut candidates: Vec<VoteCandidate>) -> Vec<u64> {
        admit(features, 10, &mut candidates);
        candidates.iter().map(|candidate| candidate.stake).collect()
    }

    #[test]
    fn admission_has_conditions_only_with_the_feature() {
        let all = || {
            vec![
                candidate(5, 10, true),
                candidate(4, 9, true),
                candidate(3, 10, false),
                candidate(0, 10, true),
            ]
        };
        let mut features = FeatureSet::default();
        assert_eq!(admitted(&features, all()), [5, 4, 3, 0]);
        features.activate(&validator_admission_ticket::ID, 0);
        assert_eq!(admitted(&features, all()), [5]);
    }

    #[test]
    fn equal_stakes_at_the_border_are_all_excluded() {
        let mut features = FeatureSet::default();
        features.activate(&validator_admission_ticket::ID, 0);
        let stakes = (0..1_999).map(|n| 100 + n).chain([7; 3]);
        let admitted = admitted(&features, stakes.map(|it| candidate(it, 10, true)).collect());
        assert_eq!((admitted.len(), admitted.contains(&7)), (1_999, false));
    }
}
