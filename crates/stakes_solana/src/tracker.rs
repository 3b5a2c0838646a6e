//! The stakes of every bank of a chain with forks, from the stake accounts that each bank wrote.
//!
//! In: all delegations at the root, then of each bank the stake accounts that it changed, before and after. Out: the
//! stake of each vote account in the bank's epoch, and at the start of an epoch the [`EpochStakes`] of the next one.
//! Shape: a delegation that is fully effective until further notice is only part of its voter's sum. Those that warm up
//! or cool down, few at any time, are retained one by one. So the start of an epoch does not read every stake account.
//! Both are persistent maps: a bank shares with its parent what it did not change.
//! Bounds: the caller bounds the banks above the root; a bank costs what it changed. Accounts that warm up or cool down
//! cost 160 bytes, and all of a cluster's are in the bound of its state's addresses.
//! Invariant: a delegation with no deactivation epoch is in its voter's sum or in `unsettled`, never in both.

use std::collections::BTreeMap;
use std::sync::Arc;

use chain_solana::VoteStakes;
use imbl::HashMap as SharedMap;
use ledger::BlockId;
use solana::EpochStakes;
use solana_clock::Epoch;
use solana_epoch_schedule::EpochSchedule;
use solana_feature_set::FeatureSet;
use solana_pubkey::Pubkey;
use solana_stake_interface::stake_history::StakeHistory;
use solana_stake_interface::state::Delegation;

use crate::admission::{VoteCandidate, admit};
use crate::delegations::Delegated;
use crate::epoch_stakes::from_admitted;
use crate::stake_math::StakeMath;

/// A stake account that a bank changed.
#[derive(Clone, Copy, Debug)]
pub struct StakeChange {
    /// Address of the stake account.
    pub pubkey: Pubkey,
    /// What it delegated in the parent.
    pub before: Option<Delegation>,
    /// What it delegates now.
    pub after: Option<Delegation>,
}

/// A whole bank.
pub struct NewBank<'a> {
    /// The bank.
    pub id: BlockId,
    /// Its parent, which is tracked.
    pub parent: BlockId,
    /// The stake history that it wrote, if it did.
    pub history: Option<StakeHistory>,
    /// The stake accounts that it changed, each once.
    pub changes: &'a [StakeChange],
}

/// What is known of a bank's stakes.
#[derive(Clone, Debug)]
pub struct BankStakes {
    /// The stake of each vote account in the bank's epoch.
    pub stakes: Arc<VoteStakes>,
    /// The stakes of the newest epoch whose leaders this bank or an ancestor above the first root determined.
    pub newest_epoch: Option<Arc<EpochStakes>>,
}

/// The stakes of one bank.
#[derive(Clone)]
struct Node {
    epoch: Epoch,
    math: StakeMath,
    history: Arc<StakeHistory>,
    /// By voter, the sum of delegations that stay fully effective.
    settled: SharedMap<Pubkey, u64>,
    /// By stake account, the others that have or will have stake.
    unsettled: SharedMap<Pubkey, Delegation>,
    known: BankStakes,
}

/// Tracks the stakes of the root and of all banks above it.
pub struct StakeTracker {
    schedule: EpochSchedule,
    banks: BTreeMap<BlockId, Node>,
}

impl StakeTracker {
    /// The stakes at the root.
    pub fn new(
        schedule: EpochSchedule,
        features: &FeatureSet,
        root: BlockId,
        history: StakeHistory,
        delegated: &[Delegated],
    ) -> Self {
        let math = StakeMath::new(features, &schedule);
        let known = BankStakes { stakes: Arc::default(), newest_epoch: None };
        let epoch = schedule.get_epoch(root.slot);
        let settled = SharedMap::new();
        let unsettled = SharedMap::new();
        let history = Arc::new(history);
        let mut node = Node { epoch, math, history, settled, unsettled, known };
        let mut stakes = VoteStakes::default();
        for it in delegated {
            node.insert(it.pubkey, it.stake.delegation, &mut stakes);
        }
        node.known.stakes = Arc::new(stakes);
        Self { schedule, banks: BTreeMap::from([(root, node)]) }
    }

    /// The stakes of a bank.
    pub fn bank(&self, id: BlockId) -> Option<&BankStakes> {
        self.banks.get(&id).map(|node| &node.known)
    }

    /// Whether the bank is the first on its fork that determines the leaders of an epoch, or the first of an epoch.
    pub fn is_boundary(&self, id: BlockId, parent: BlockId) -> bool {
        let epochs =
            |slot| (self.schedule.get_epoch(slot), self.schedule.get_leader_schedule_epoch(slot));
        epochs(id.slot) != epochs(parent.slot)
    }

    /// Adds a bank. At a boundary ([`Self::is_boundary`]) `features` are those of the bank, and `vote_accounts` reads
    /// the vote accounts of its parent. Nothing is known of a bank whose parent is not tracked.
    ///
    /// Cost: O(changes); with changes, or at a boundary, also O(vote accounts + delegations that warm up or cool down).
    pub fn add(
        &mut self,
        bank: NewBank<'_>,
        boundary: Option<(&FeatureSet, u64)>,
        vote_account: impl Fn(&Pubkey) -> Option<VoteCandidate>,
    ) -> Option<&BankStakes> {
        let mut node = self.banks.get(&bank.parent)?.clone();
        if let Some(history) = bank.history {
            node.history = Arc::new(history);
        }
        if let Some((features, reserve)) = boundary {
            node.math = StakeMath::new(features, &self.schedule);
            node.start_epoch(self.schedule.get_epoch(bank.id.slot));
            let scheduled = self.schedule.get_leader_schedule_epoch(bank.id.slot);
            if scheduled != self.schedule.get_leader_schedule_epoch(bank.parent.slot) {
                let staked = node.known.stakes.0.iter();
                let with_stake = |(pubkey, stake): (&Pubkey, &u64)| {
                    Some(VoteCandidate { stake: *stake, ..vote_account(pubkey)? })
                };
                let mut candidates = staked.filter_map(with_stake).collect();
                admit(features, reserve, &mut candidates);
                node.known.newest_epoch = Some(Arc::new(from_admitted(scheduled, candidates)));
            }
        }
        if !bank.changes.is_empty() {
            let mut stakes = VoteStakes::clone(&node.known.stakes);
            for change in bank.changes {
                if let Some(before) = &change.before {
                    node.remove(&change.pubkey, before, &mut stakes);
                }
                if let Some(after) = change.after {
                    node.insert(change.pubkey, after, &mut stakes);
                }
            }
            node.known.stakes = Arc::new(stakes);
        }
        self.banks.insert(bank.id, node);
        self.bank(bank.id)
    }

    /// Removes a bank that was reverted.
    pub fn remove(&mut self, id: BlockId) {
        self.banks.remove(&id);
    }

    /// Removes what is below the new root.
    pub fn set_root(&mut self, root: BlockId) {
        self.banks = self.banks.split_off(&root);
    }

    /// Bytes in use, about: maps that banks share are counted once, with the newest bank.
    pub fn bytes(&self) -> usize {
        let maps = self.banks.values().next_back().map_or(0, |node| {
            node.settled.len() * 2 * size_of::<(Pubkey, u64)>()
                + node.unsettled.len() * 2 * size_of::<(Pubkey, Delegation)>()
        });
        let mut last = None;
        let stakes = self.banks.values().map(|node| {
            let stakes = Arc::as_ptr(&node.known.stakes);
            let is_shared = last.replace(stakes) == Some(stakes);
            if is_shared { 0 } else { node.known.stakes.0.capacity() * size_of::<(Pubkey, u64)>() }
        });
        maps + stakes.sum::<usize>() + self.banks.len() * size_of::<(BlockId, Node)>()
    }
}

impl Node {
    /// Whether all of a delegation counts in this epoch and in all later ones, unless it is changed.
    fn is_settled(&self, delegation: &Delegation) -> bool {
        let status = self.math.status(delegation, self.epoch, &self.history);
        delegation.deactivation_epoch == Epoch::MAX && status.effective == delegation.stake
    }

    fn effective(&self, delegation: &Delegation) -> u64 {
        self.math.status(delegation, self.epoch, &self.history).effective
    }

    fn insert(&mut self, pubkey: Pubkey, delegation: Delegation, stakes: &mut VoteStakes) {
        let total = stakes.0.entry(delegation.voter_pubkey).or_default();
        *total = total.saturating_add(self.effective(&delegation));
        if self.is_settled(&delegation) {
            let sum = self.settled.entry(delegation.voter_pubkey).or_insert(0);
            *sum = sum.saturating_add(delegation.stake);
        } else if !self.is_over(&delegation) {
            self.unsettled.insert(pubkey, delegation);
        }
    }

    fn remove(&mut self, pubkey: &Pubkey, delegation: &Delegation, stakes: &mut VoteStakes) {
        let effective = self.effective(delegation);
        if let Some(total) = stakes.0.get_mut(&delegation.voter_pubkey) {
            *total = total.saturating_sub(effective);
        }
        let was_unsettled = self.unsettled.remove(pubkey).is_some();
        if !was_unsettled
            && delegation.deactivation_epoch == Epoch::MAX
            && let Some(sum) = self.settled.get_mut(&delegation.voter_pubkey)
        {
            *sum = sum.saturating_sub(delegation.stake);
        }
    }

    /// Whether nothing of a delegation counts in this epoch or in a later one, unless it is changed.
    fn is_over(&self, delegation: &Delegation) -> bool {
        let status = self.math.status(delegation, self.epoch, &self.history);
        delegation.deactivation_epoch <= self.epoch
            && status.effective == 0
            && status.deactivating == 0
    }

    /// Computes the stakes of an epoch from all delegations of the last one.
    fn start_epoch(&mut self, epoch: Epoch) {
        self.epoch = epoch;
        let unsettled = std::mem::take(&mut self.unsettled);
        let settled = self.settled.iter().map(|(voter, stake)| (*voter, *stake));
        // A voter that lost its last stake is left out.
        let mut stakes = VoteStakes(settled.filter(|(_, stake)| *stake > 0).collect());
        for (pubkey, delegation) in unsettled {
            self.insert(pubkey, delegation, &mut stakes);
        }
        self.known.stakes = Arc::new(stakes);
    }
}

#[cfg(test)]
mod tests;
