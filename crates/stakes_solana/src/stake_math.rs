//! How stake warms up and cools down, by the features of a ledger.

use solana_clock::Epoch;
use solana_epoch_schedule::EpochSchedule;
use solana_feature_set::FeatureSet;
use solana_stake_interface::stake_history::StakeHistory;
use solana_stake_interface::state::{Delegation, StakeActivationStatus};

/// The rules that turn a delegation into the stake that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StakeMath {
    /// The first epoch with the newer, slower rate.
    new_rate_epoch: Option<Epoch>,
    /// Whole numbers instead of floating point.
    is_fixed_point: bool,
}

impl StakeMath {
    /// The rules with these features, whose activation slots must be right.
    pub fn new(features: &FeatureSet, schedule: &EpochSchedule) -> Self {
        Self {
            new_rate_epoch: features.new_warmup_cooldown_rate_epoch(schedule),
            is_fixed_point: features.snapshot().upgrade_bpf_stake_program_to_v5_1,
        }
    }

    /// The effective, activating and deactivating stake of a delegation in an epoch.
    #[expect(deprecated, reason = "clusters without the feature still compute in floating point")]
    pub fn status(
        &self,
        delegation: &Delegation,
        epoch: Epoch,
        history: &StakeHistory,
    ) -> StakeActivationStatus {
        let rate = self.new_rate_epoch;
        if self.is_fixed_point {
            delegation.stake_activating_and_deactivating_v2(epoch, history, rate)
        } else {
            delegation.stake_activating_and_deactivating(epoch, history, rate)
        }
    }
}
