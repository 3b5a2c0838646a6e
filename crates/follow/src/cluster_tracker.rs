//! Stakes, leaders, features and inflation of a followed chain, as the banks change them.
//!
//! In: each whole bank with the accounts that it wrote, on the writer's thread. Out: what [`FollowedCluster`] shows.
//! Shape: [`StakeTracker`] has the stakes of each bank. The first bank of an epoch determines the leaders of the next
//! one. They are shown when that bank, or a descendant, is the root.
//! Bounds: those of [`StakeTracker`]; [`ROOTS_RETAINED`] roots and [`EPOCHS_RETAINED`] epochs are shown.
//! Cost: of a bank, a lookup of each account's owner; some milliseconds once an epoch.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use chain_solana::{InflationSchedule, View, VoteStakes};
use ledger::{Address, BlockId};
use snapshot_solana::BankFields;
use snapshot_solana::stored_rows::{EPOCHS_STORED, write_epochs};
use solana::{Account, EpochStakes, key_kind};
use solana_account::ReadableAccount;
use solana_clock::Epoch;
use solana_epoch_schedule::EpochSchedule;
use solana_feature_set::FeatureSet;
use solana_inflation::Inflation;
use solana_pubkey::Pubkey;
use solana_rent::Rent;
use solana_sdk_ids::{feature, sysvar, vote};
use solana_stake_interface::stake_history::StakeHistory;
use solana_vote_interface::state::{VoteStateV4, VoteStateVersions};
use stakes_solana::{
    NewBank, StakeChange, StakeTracker, VoteCandidate, leader_schedule, read_delegation,
    read_delegations,
};
use svm::AccountSource;
use verify::{AccountChange, StakedVoters};

use crate::archive_stakes::agree_with_accounts;
use crate::cluster::{ClusterCounters, FollowedCluster, Published, PublishedEpoch, slot_ms};

/// Number of former roots with published stakes: a reader may still use one. 64 are 13 to 26 seconds of slots.
const ROOTS_RETAINED: usize = 64;
/// Number of epochs with published voters and leaders. Agave has ten leader schedules, and the stakes of five epochs.
const EPOCHS_RETAINED: usize = 10;

/// Tracks a followed cluster, and publishes it.
pub struct ClusterTracker {
    schedule: EpochSchedule,
    inflation: Inflation,
    tracker: StakeTracker,
    published: Published,
    cluster: Arc<FollowedCluster>,
    counters: Arc<ClusterCounters>,
    /// Stakes of epochs that the verification of votes has not taken.
    new_stakes: Vec<StakedVoters>,
    /// Stakes of the published epochs.
    epoch_stakes: BTreeMap<Epoch, EpochStakes>,
    /// Whether these changed since they were stored.
    is_changed: bool,
    /// The cluster at the block of an archive, and above it, until that block is the root.
    jumped: Option<(BlockId, Box<Self>)>,
}

impl ClusterTracker {
    /// Creates the cluster at the block of a snapshot. `view` has the accounts of that block.
    pub fn new(fields: &BankFields, view: &View, counters: Arc<ClusterCounters>) -> Self {
        let schedule = fields.epoch_schedule.clone();
        let features = svm::features::activated_in(view);
        let program = Address::from(feature::ID.to_bytes());
        for (address, account) in view.records_by_key(key_kind::PROGRAM, &program) {
            if let Ok(pubkey) = Pubkey::try_from(address.as_bytes()) {
                log_unknown_feature(&pubkey, &account);
            }
        }
        let root = view.block();
        let history = stake_history(view);
        let delegated = read_delegations(view);
        let tracker = StakeTracker::new(schedule.clone(), &features, root, history, &delegated);
        let stakes = tracker.bank(root).map(|bank| (root, Arc::clone(&bank.stakes)));
        let inflation = InflationSchedule::new(fields.inflation, &schedule, &features);
        let epochs = fields.epoch_stakes.iter();
        let new_stakes = epochs.clone().map(|stakes| staked_voters(stakes, &schedule)).collect();
        let published = Published {
            stakes: stakes.into_iter().collect(),
            epochs: epochs
                .map(|stakes| (stakes.epoch, published_epoch(stakes, &schedule)))
                .collect(),
            inflation: Arc::new(inflation),
            features: Arc::new(features),
            slot_ms: slot_ms(fields),
        };
        let cluster = Arc::new(FollowedCluster::new(published.clone(), Arc::clone(&counters)));
        let inflation = fields.inflation;
        let epoch_stakes = fields.epoch_stakes.iter().map(|it| (it.epoch, it.clone())).collect();
        let tracker = Self {
            schedule,
            inflation,
            tracker,
            published,
            cluster,
            counters,
            new_stakes,
            epoch_stakes,
            is_changed: false,
            jumped: None,
        };
        tracker.update_status();
        tracker
    }

    /// Tracks the block of an archive and those above it, too. `view` has the accounts of that block.
    pub fn jump(&mut self, fields: &BankFields, view: &View) {
        let mut next = Self::new(fields, view, Arc::clone(&self.counters));
        next.drop_other_stakes(&self.epoch_stakes, view);
        self.published.stakes.extend(next.published.stakes.clone());
        self.jumped = Some((view.block(), Box::new(next)));
        self.publish();
    }

    /// Drops the stakes of the next epoch, unless they are `known`, if an archive states others than its accounts have.
    fn drop_other_stakes(&mut self, known: &BTreeMap<Epoch, EpochStakes>, view: &View) {
        let block = view.block();
        let epoch = self.schedule.get_leader_schedule_epoch(block.slot);
        let stated = self.epoch_stakes.get(&epoch).filter(|_| !known.contains_key(&epoch));
        let stakes = self.tracker.bank(block).map(|bank| Arc::clone(&bank.stakes));
        let (Some(stated), Some(stakes)) = (stated, stakes) else { return };
        let total = stakes.0.values().map(|stake| u128::from(*stake)).sum();
        let stake = |pubkey: &Pubkey| stakes.0.get(pubkey).copied().unwrap_or_default();
        let voter = |pubkey: &Pubkey| {
            vote_candidate(view, pubkey)?.state.authorized_voters.get_authorized_voter(epoch)
        };
        if total == 0 || agree_with_accounts(stated, total, stake, voter) {
            return;
        }
        tracing::error!(epoch, "the stakes in the archive are not those of its accounts");
        let first = self.schedule.get_first_slot_in_epoch(epoch);
        self.new_stakes.retain(|stakes| *stakes.slots().start() != first);
        self.published.epochs.remove(&epoch);
        self.epoch_stakes.remove(&epoch);
    }

    /// The block of an archive is the root. Servers read the former state of earlier blocks and epochs.
    fn take_jump(&mut self, next: Self) {
        let Published { stakes, epochs, .. } =
            std::mem::replace(&mut self.published, next.published);
        // Stakes that were computed from verified accounts are not replaced by those of a snapshot.
        self.published.epochs.extend(epochs);
        self.published.stakes.extend(stakes);
        (self.schedule, self.inflation, self.tracker) =
            (next.schedule, next.inflation, next.tracker);
        self.new_stakes = next.new_stakes;
        let known = std::mem::replace(&mut self.epoch_stakes, next.epoch_stakes);
        self.epoch_stakes.extend(known);
        while self.epoch_stakes.len() > EPOCHS_RETAINED {
            self.epoch_stakes.pop_first();
        }
        self.is_changed = true;
        let newest = self.published.epochs.len().saturating_sub(EPOCHS_RETAINED);
        (0..newest).for_each(|_| drop(self.published.epochs.pop_first()));
        self.publish();
        self.update_status();
    }

    /// Returns the cluster that servers read.
    pub fn cluster(&self) -> Arc<FollowedCluster> {
        Arc::clone(&self.cluster)
    }

    /// The stakes of epochs that became known since the last call: at most those of ten epochs.
    pub fn take_new_stakes(&mut self) -> Vec<StakedVoters> {
        std::mem::take(&mut self.new_stakes)
    }

    /// The stakes of the published epochs, the oldest first.
    pub fn epoch_stakes(&self) -> impl Iterator<Item = &EpochStakes> {
        self.epoch_stakes.values()
    }

    /// The row of the epochs' stakes, if they changed since the last call.
    pub(crate) fn take_changed_epochs(&mut self) -> Option<Vec<u8>> {
        let is_changed = std::mem::take(&mut self.is_changed);
        let newest = self.epoch_stakes.len().saturating_sub(EPOCHS_STORED);
        is_changed.then(|| write_epochs(self.epoch_stakes.values().skip(newest)))
    }

    /// A bank is whole. `changes` are at least those of delegations, features and sysvars, `parent_state` has the
    /// accounts of its parent.
    pub fn add_bank(
        &mut self,
        id: BlockId,
        parent: BlockId,
        changes: &[AccountChange],
        parent_state: &impl AccountSource,
    ) {
        if let Some((_, next)) = &mut self.jumped
            && next.tracker.bank(parent).is_some()
        {
            next.add_bank(id, parent, changes, parent_state);
            let stakes = next.published.stakes.get(&id).cloned();
            self.published.stakes.extend(stakes.map(|stakes| (id, stakes)));
            return self.publish();
        }
        let bank_state = BankState { changes, parent: parent_state };
        let history = changes.iter().any(|change| change.pubkey == sysvar::stake_history::ID);
        let history = history.then(|| stake_history(&bank_state));
        let stake_changes: Vec<StakeChange> = changes.iter().filter_map(stake_change).collect();
        for (pubkey, account) in
            changes.iter().filter_map(|it| Some((it.pubkey, it.after.as_ref()?)))
        {
            log_unknown_feature(&pubkey, account);
        }
        let boundary = self.tracker.is_boundary(id, parent).then(|| {
            let features = svm::features::activated_in(&bank_state);
            (features, vote_account_reserve(&bank_state))
        });
        let bank = NewBank { id, parent, history, changes: &stake_changes };
        let terms = boundary.as_ref().map(|(features, reserve)| (features, *reserve));
        let added = self.tracker.add(bank, terms, |pubkey| vote_candidate(parent_state, pubkey));
        if let Some(added) = added {
            self.published.stakes.insert(id, Arc::clone(&added.stakes));
        }
        if let Some((features, _)) = boundary {
            self.set_features(features);
        }
        self.publish();
    }

    /// Removes a reverted bank.
    pub fn remove_bank(&mut self, id: BlockId) {
        self.jumped.take_if(|(jumped, _)| *jumped == id);
        if let Some((_, next)) = &mut self.jumped {
            next.tracker.remove(id);
        }
        self.tracker.remove(id);
        self.published.stakes.remove(&id);
        self.publish();
    }

    /// A bank is the root. Shows the stakes of an epoch that it, or an ancestor, has determined.
    pub fn set_root(&mut self, root: BlockId) {
        if let Some((_, next)) = self.jumped.take_if(|(jumped, _)| *jumped == root) {
            self.take_jump(*next);
        }
        let newest = self.tracker.bank(root).and_then(|bank| bank.newest_epoch.clone());
        if let Some(stakes) = newest
            && !self.published.epochs.contains_key(&stakes.epoch)
        {
            let epoch = published_epoch(&stakes, &self.schedule);
            tracing::info!(epoch = stakes.epoch, voters = stakes.voters.len(), "epoch stakes");
            self.published.epochs.insert(stakes.epoch, epoch);
            self.epoch_stakes.insert(stakes.epoch, EpochStakes::clone(&stakes));
            self.is_changed = true;
            self.new_stakes.push(staked_voters(&stakes, &self.schedule));
            while self.published.epochs.len() > EPOCHS_RETAINED {
                self.published.epochs.pop_first();
            }
            while self.epoch_stakes.len() > EPOCHS_RETAINED {
                self.epoch_stakes.pop_first();
            }
        }
        self.tracker.set_root(root);
        let older = self.published.stakes.range(..root).count();
        (ROOTS_RETAINED..older).for_each(|_| drop(self.published.stakes.pop_first()));
        self.publish();
        self.update_status();
    }

    fn set_features(&mut self, features: FeatureSet) {
        let is_same = features.active() == self.published.features.active();
        if !is_same {
            let inflation = InflationSchedule::new(self.inflation, &self.schedule, &features);
            self.published.inflation = Arc::new(inflation);
            self.published.features = Arc::new(features);
        }
    }

    fn publish(&self) {
        self.cluster.published.store(Arc::new(self.published.clone()));
    }

    fn update_status(&self) {
        let epochs = self.published.epochs.values().map(|epoch| {
            let leaders = epoch.leaders.as_ref().map_or(0, |leaders| leaders.bytes());
            leaders + epoch.voters.bytes() + size_of_val(&epoch.stakes.voters[..])
        });
        let bytes = self.tracker.bytes() + epochs.sum::<usize>();
        self.counters.bytes.store(bytes as u64, Ordering::Relaxed);
    }
}

struct BankState<'a, P> {
    changes: &'a [AccountChange],
    parent: &'a P,
}

impl<P: AccountSource> AccountSource for BankState<'_, P> {
    fn account(&self, key: &Pubkey) -> Option<Arc<Account>> {
        match self.changes.iter().rev().find(|change| change.pubkey == *key) {
            Some(change) => change.after.clone(),
            None => self.parent.account(key),
        }
    }
}

/// The chain may compute something else with the feature than this node's VM.
fn log_unknown_feature(feature: &Pubkey, account: &Account) {
    if let Some(slot) = svm::features::unknown_activation(feature, account) {
        tracing::warn!(%feature, slot, "this release lacks a feature of the chain: simulations and executions may differ");
    }
}

/// The voters of an epoch, as votes are counted by them.
fn staked_voters(stakes: &EpochStakes, schedule: &EpochSchedule) -> StakedVoters {
    let first = schedule.get_first_slot_in_epoch(stakes.epoch);
    let last = schedule.get_last_slot_in_epoch(stakes.epoch);
    StakedVoters::new(first..=last, stakes.voters.clone())
}

fn published_epoch(stakes: &EpochStakes, schedule: &EpochSchedule) -> PublishedEpoch {
    let leaders = leader_schedule(stakes, schedule.get_slots_in_epoch(stakes.epoch));
    PublishedEpoch {
        stakes: Arc::new(stakes.clone()),
        voters: Arc::new(VoteStakes::from(stakes)),
        leaders: leaders.map(Arc::new),
    }
}

fn stake_history(accounts: &impl AccountSource) -> StakeHistory {
    let account = accounts.account(&sysvar::stake_history::ID);
    account.and_then(|account| bincode::deserialize(account.0.data()).ok()).unwrap_or_default()
}

fn stake_change(change: &AccountChange) -> Option<StakeChange> {
    let delegation = |account: &Option<Arc<Account>>| account.as_deref().and_then(read_delegation);
    let before = delegation(&change.before);
    let after = delegation(&change.after);
    (before != after).then_some(StakeChange { pubkey: change.pubkey, before, after })
}

fn vote_candidate(accounts: &impl AccountSource, pubkey: &Pubkey) -> Option<VoteCandidate> {
    let account = accounts.account(pubkey)?;
    let data = account.0.data();
    if account.0.owner() != &vote::ID || !VoteStateVersions::is_correct_size_and_initialized(data) {
        return None;
    }
    let state = VoteStateV4::deserialize(data, pubkey).ok()?;
    Some(VoteCandidate { pubkey: *pubkey, stake: 0, state, lamports: account.0.lamports() })
}

/// Lamports that a vote account must have to be admitted.
fn vote_account_reserve(accounts: &impl AccountSource) -> u64 {
    let rent = accounts.account(&sysvar::rent::ID);
    let rent: Rent =
        rent.and_then(|account| bincode::deserialize(account.0.data()).ok()).unwrap_or_default();
    rent.minimum_balance(VoteStateV4::size_of())
}
