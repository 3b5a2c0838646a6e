//! Payment of stake accounts, a part in each block.

use solana_account::{AccountSharedData, ReadableAccount, WritableAccount};
use solana_epoch_rewards::EpochRewards;
use solana_epoch_rewards_hasher::EpochRewardsHasher;
use solana_pubkey::Pubkey;
use solana_stake_interface::state::StakeStateV2;
use solana_transaction_status::RewardType;

use super::rewards::{StakeReward, Terms};

/// The rewards that are not paid yet.
pub(super) struct Payout {
    /// The height of the first block that pays.
    pub(super) first: u64,
    /// The rewards of each block. Empty for a block that has paid.
    partitions: Vec<Vec<StakeReward>>,
}

/// A stake account with its reward.
#[derive(Debug)]
pub(crate) struct Payment {
    pub(crate) account: AccountSharedData,
    /// `DeactivatedStake` if the stake has been deactivated.
    pub(crate) kind: RewardType,
}

pub(crate) struct Rewarded {
    pub(crate) pubkey: Pubkey,
    pub(crate) lamports: u64,
    pub(crate) post_balance: u64,
    pub(crate) kind: RewardType,
    pub(crate) commission_bps: Option<u16>,
}

impl Payout {
    /// Distributes the rewards to blocks by a keyed hash of the address.
    pub(super) fn new(sysvar: &EpochRewards, rewards: Vec<StakeReward>) -> Self {
        let blocks = usize::try_from(sysvar.num_partitions).unwrap_or(usize::MAX).max(1);
        let hasher = EpochRewardsHasher::new(blocks, &sysvar.parent_blockhash);
        let mut partitions: Vec<Vec<StakeReward>> = Vec::new();
        partitions.resize_with(blocks, Vec::new);
        for reward in rewards {
            let block = hasher.clone().hash_address_to_partition(&reward.pubkey);
            partitions[block].push(reward);
        }
        Self { first: sysvar.distribution_starting_block_height, partitions }
    }

    /// The rewards that the block of this height pays.
    pub(super) fn take_rewards(&mut self, block_height: u64) -> Vec<StakeReward> {
        let block = usize::try_from(block_height - self.first).unwrap_or(usize::MAX);
        self.partitions.get_mut(block).map(std::mem::take).unwrap_or_default()
    }

    /// Whether no block after this one pays.
    pub(super) fn is_over(&self, block_height: u64) -> bool {
        block_height.saturating_add(1) >= self.first + self.partitions.len() as u64
    }
}

/// Pays one stake account in its present state.
pub(super) fn pay(
    terms: &Terms<'_>,
    epoch: u64,
    reward: &StakeReward,
    account: &AccountSharedData,
) -> Option<Payment> {
    let StakeStateV2::Stake(meta, _, flags) = bincode::deserialize(account.data()).ok()? else {
        return None;
    };
    let mut account = account.clone();
    account.checked_add_lamports(reward.lamports).ok()?;
    let mut stake = reward.stake;
    if terms.adjusts_for_rent {
        let reserve = terms.rent.minimum_balance(account.data().len());
        let delegated = stake.delegation.stake.min(account.lamports().saturating_sub(reserve));
        if delegated != stake.delegation.stake {
            stake.delegation.stake = delegated;
            if delegated == 0 {
                stake.delegation.deactivation_epoch = terms.ended;
            }
        }
    }
    let state = StakeStateV2::Stake(meta, stake, flags);
    bincode::serialize_into(account.data_as_mut_slice(), &state).ok()?;
    let effective = stake.delegation.stake_v2(epoch, terms.history, terms.warmup);
    let kind = if effective == 0 { RewardType::DeactivatedStake } else { RewardType::Staking };
    Some(Payment { account, kind })
}
