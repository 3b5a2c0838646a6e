//! Epochs: the processing at the end of an epoch, as in Agave's runtime.
//!
//! Shape: the first block of an epoch adds to the stake history (`passed_epochs`), computes the rewards of the epoch
//! before and their recipients (`rewards`), and pays the commissions. Each block after it pays a part of the stake
//! accounts (`payout`). Epochs that a jump of slots passes over are epochs without a block: stake warms up and cools
//! down in each of them, and no stake earns anything. Meanwhile the EpochRewards sysvar is active, and the stake
//! program refuses changes.
//! Bounds: about 300 bytes for each stake account while rewards are computed, 200 until they are paid.
//! Invariant: payments follow from the accounts at the end of the epoch and from the stored vote accounts (`voters`).
//! So a ledger that is opened again pays the same.
//! Not here: how accounts are written (`executor`), the inflation rate of an epoch (`chain_solana`).

mod passed_epochs;
mod payout;
mod points;
mod rewards;
mod voters;

use std::sync::Arc;

use chain_solana::{BlockInfo, InflationSchedule, View};
use ledger::Slot;
use solana_account::{AccountSharedData, ReadableAccount};
use solana_epoch_rewards::EpochRewards;
use solana_epoch_schedule::EpochSchedule;
use solana_feature_set::FeatureSet;
use solana_pubkey::Pubkey;
use solana_sdk_ids::sysvar;
use solana_slot_hashes::SlotHashes;
use solana_stake_interface::stake_history::{StakeHistory, StakeHistoryEntry};
use solana_transaction_status::Reward;
use stakes_solana::StakeMath;
use svm::{Vm, sysvars};

pub(crate) use payout::Payment;
use payout::Payout;
pub(crate) use payout::Rewarded;
use rewards::Terms;
pub(crate) use rewards::{Commission, StakeReward};
use voters::EPOCHS_RETAINED;
pub(crate) use voters::Voters;

/// Stake accounts are paid from the second block of an epoch on.
const CALCULATION_BLOCKS: u64 = 1;
/// Payments take at most a tenth of an epoch's slots.
const PAYING_PART_OF_EPOCH: u64 = 10;

/// The ledger's state of epochs.
pub(crate) struct Epochs {
    features: FeatureSet,
    schedule: EpochSchedule,
    inflation: InflationSchedule,
    voters: Arc<Voters>,
    payout: Option<Payout>,
}

/// The results of the start of an epoch.
pub(crate) struct EpochStart {
    /// The epochs that ended, each with its stake, for the history. The oldest first.
    pub(crate) ended: Vec<(u64, StakeHistoryEntry)>,
    /// The commissions, with their burnt parts.
    pub(crate) commissions: Vec<Commission>,
    /// The sysvar before any payment.
    pub(crate) sysvar: EpochRewards,
}

impl Epochs {
    pub(crate) fn new(
        features: FeatureSet,
        schedule: EpochSchedule,
        inflation: InflationSchedule,
        voters: Voters,
    ) -> Self {
        Self { features, schedule, inflation, voters: Arc::new(voters), payout: None }
    }

    pub(crate) fn features(&self) -> &FeatureSet {
        &self.features
    }

    pub(crate) fn schedule(&self) -> &EpochSchedule {
        &self.schedule
    }

    pub(crate) fn voters(&self) -> &Arc<Voters> {
        &self.voters
    }

    /// The collector of the fees of an epoch's blocks.
    pub(crate) fn fee_collector(
        &self,
        epoch: u64,
        vote_account: &Pubkey,
        identity: Pubkey,
    ) -> Pubkey {
        if !self.features.snapshot().custom_commission_collector {
            return identity;
        }
        self.voters.voter(epoch, vote_account).map_or(identity, |voter| voter.fee_collector())
    }

    /// Ends the parent's epoch. `view` is the parent's; `bank` is the empty first block of the new epoch.
    pub(crate) fn start_epoch(&mut self, vm: &Vm, view: &View, bank: &BlockInfo) -> EpochStart {
        let slot = bank.block.slot;
        let epoch = self.schedule.get_epoch(slot);
        let ended = self.schedule.get_epoch(bank.parent.slot);
        let delegated = stakes_solana::read_delegations(view);
        let warmup = self.features.new_warmup_cooldown_rate_epoch(&self.schedule);
        let math = StakeMath::new(&self.features, &self.schedule);
        let mut history = sysvars::stake_history(vm);
        let totals = passed_epochs::add_totals(&mut history, ended..epoch, &delegated, &math);

        let rewarded = self.rewarded_epochs(ended);
        let voters = Arc::make_mut(&mut self.voters);
        // Of the epochs that have passed, only the newest ones are retained.
        let first = (ended + 1).max(epoch.saturating_sub(EPOCHS_RETAINED));
        for started in std::iter::once(ended + 1).chain(first + 1..=epoch) {
            let staked = stakes_solana::by_voter(&delegated, &history, started, &math);
            let scheduled = scheduled_epoch(&self.schedule, started);
            voters.record_epoch(&self.features, view, &staked, scheduled);
        }
        let newest = scheduled_epoch(&self.schedule, epoch);
        voters.retain(newest, &rewarded);
        let [.., scheduled] = rewarded;
        let candidates = self.voters.candidates(view, scheduled, ended);
        let points = points::total(&delegated, &candidates, &history, warmup);
        let made = self.inflation.lamports(epoch, ended, bank.capitalization);
        // Without points there are no rewards.
        let total = if points > 0 { made } else { 0 };
        let terms = self.terms(vm, ended, (total, points), &history);
        let commission_of =
            |voter: &Pubkey| self.voters.commission(&self.features, voter, rewarded);
        let redeemed = if points > 0 {
            rewards::redeem_all(&terms, delegated, &candidates, commission_of)
        } else {
            rewards::Redeemed::default()
        };

        let partitions = self.partitions(slot, redeemed.stakes.len() as u64);
        let first = bank.block_height + CALCULATION_BLOCKS;
        let sysvar = EpochRewards {
            distribution_starting_block_height: first,
            num_partitions: partitions,
            parent_blockhash: bank.last_blockhash(),
            total_points: points,
            total_rewards: total,
            distributed_rewards: 0,
            active: true,
        };
        self.payout = Some(Payout::new(&sysvar, redeemed.stakes));
        EpochStart { ended: totals, commissions: redeemed.commissions, sysvar }
    }

    /// Resumes the payments of a ledger that was closed. `head` is its newest block.
    pub(crate) fn resume(&mut self, vm: &Vm, view: &View, head: &BlockInfo) {
        let sysvar = read_epoch_rewards(vm);
        let slot = head.block.slot;
        let epoch = self.schedule.get_epoch(slot);
        if !sysvar.active || epoch == 0 {
            return;
        }
        let ended = self.ended_epoch(vm, epoch);
        let rewarded = self.rewarded_epochs(ended);
        let [.., scheduled] = rewarded;
        let math = StakeMath::new(&self.features, &self.schedule);
        let history = sysvars::stake_history(vm);
        let delegated = stakes_solana::read_delegations(view);
        if !self.voters.has(scheduled) {
            // A snapshot of another ledger does not contain the voters.
            let staked = stakes_solana::by_voter(&delegated, &history, epoch, &math);
            let voters = Arc::make_mut(&mut self.voters);
            voters.record_epoch(&self.features, view, &staked, scheduled);
        }
        let candidates = self.voters.candidates(view, scheduled, ended);
        let made = (sysvar.total_rewards, sysvar.total_points);
        let terms = self.terms(vm, ended, made, &history);
        let commission_of =
            |voter: &Pubkey| self.voters.commission(&self.features, voter, rewarded);
        let redeemed = if sysvar.total_points > 0 {
            rewards::redeem_all(&terms, delegated, &candidates, commission_of)
        } else {
            rewards::Redeemed::default()
        };
        self.payout = Some(Payout::new(&sysvar, redeemed.stakes));
    }

    /// Goes back to the block `head`, whose voters these were.
    pub(crate) fn revert_to(
        &mut self,
        voters: Arc<Voters>,
        vm: &Vm,
        view: &View,
        head: &BlockInfo,
    ) {
        self.voters = voters;
        self.payout = None;
        self.resume(vm, view, head);
    }

    /// Whether stake accounts are still to be paid.
    pub(crate) fn is_paying(&self) -> bool {
        self.payout.is_some()
    }

    /// The last epoch with a block before the epoch `epoch`: the one whose rewards it pays.
    fn ended_epoch(&self, vm: &Vm, epoch: u64) -> u64 {
        let hashes: SlotHashes = vm.svm().get_sysvar();
        let epochs = hashes.iter().map(|(slot, _)| self.schedule.get_epoch(*slot));
        epochs.into_iter().find(|of| *of < epoch).unwrap_or_else(|| epoch.saturating_sub(1))
    }

    /// The epochs by whose vote accounts the rewards of an epoch are computed: the epoch itself, the next one, and the
    /// one whose leaders were determined when it ended.
    fn rewarded_epochs(&self, ended: u64) -> [u64; 3] {
        [ended, ended + 1, scheduled_epoch(&self.schedule, ended + 1)]
    }

    /// The stake accounts that a block pays, and whether it is the last that pays any.
    pub(crate) fn due(&mut self, block_height: u64) -> Option<Due> {
        let payout = self.payout.as_mut()?;
        if block_height < payout.first {
            return None;
        }
        let rewards = payout.take_rewards(block_height);
        let is_last = payout.is_over(block_height);
        if is_last {
            self.payout = None;
        }
        Some(Due { rewards, is_last })
    }

    /// The stake accounts after their payment. `None` for one that cannot be paid.
    pub(crate) fn payments(
        &self,
        vm: &Vm,
        epoch: u64,
        due: &[(StakeReward, Option<AccountSharedData>)],
    ) -> Vec<Option<Payment>> {
        let history = sysvars::stake_history(vm);
        let terms = self.terms(vm, self.ended_epoch(vm, epoch), (0, 0), &history);
        let pay = |(reward, account): &(StakeReward, Option<AccountSharedData>)| {
            payout::pay(&terms, epoch, reward, account.as_ref()?)
        };
        due.iter().map(pay).collect()
    }

    /// A reward in the form of blocks.
    pub(crate) fn reward(&self, reward: Rewarded) -> Reward {
        let in_bps = self.features.snapshot().commission_rate_in_basis_points;
        let bps = reward.commission_bps;
        Reward {
            pubkey: reward.pubkey.to_string(),
            lamports: i64::try_from(reward.lamports).unwrap_or(i64::MAX),
            post_balance: reward.post_balance,
            reward_type: Some(reward.kind),
            commission: bps.filter(|_| !in_bps).map(|bps| (bps / 100) as u8),
            commission_bps: bps.filter(|_| in_bps),
        }
    }

    fn terms<'a>(
        &self,
        vm: &Vm,
        ended: u64,
        (rewards, points): (u64, u128),
        history: &'a StakeHistory,
    ) -> Terms<'a> {
        let features = self.features.snapshot();
        Terms {
            ended,
            rewards,
            points,
            history,
            warmup: self.features.new_warmup_cooldown_rate_epoch(&self.schedule),
            rent: vm.svm().get_sysvar(),
            adjusts_for_rent: features.relax_post_exec_min_balance_check,
            has_collectors: features.custom_commission_collector,
        }
    }

    fn partitions(&self, slot: Slot, accounts: u64) -> u64 {
        let per_block = self.inflation.stake_accounts_per_block(slot);
        let longest = (self.schedule.slots_per_epoch / PAYING_PART_OF_EPOCH).max(1);
        accounts.div_ceil(per_block).clamp(1, longest)
    }
}

/// The epoch whose leaders are determined at the start of another one.
fn scheduled_epoch(schedule: &EpochSchedule, started: u64) -> u64 {
    schedule.get_leader_schedule_epoch(schedule.get_first_slot_in_epoch(started))
}

/// The payments due in a block.
pub(crate) struct Due {
    pub(crate) rewards: Vec<StakeReward>,
    pub(crate) is_last: bool,
}

/// The sysvar with the progress of an epoch's rewards.
pub(crate) fn read_epoch_rewards(vm: &Vm) -> EpochRewards {
    let account = vm.account(&sysvar::epoch_rewards::ID);
    account.and_then(|account| bincode::deserialize(account.data()).ok()).unwrap_or_default()
}

/// Whether a fee or a commission may be paid to an account: a wallet that is rent exempt, or the incinerator.
pub(crate) fn may_collect(
    features: &FeatureSet,
    rent: &solana_rent::Rent,
    collector: &Pubkey,
    lamports_before: u64,
    account: &AccountSharedData,
) -> bool {
    rewards::may_collect(features, rent, collector, lamports_before, account)
}
