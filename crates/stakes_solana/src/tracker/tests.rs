//! Compares the tracker with a plain map of all delegations, which is added up for every bank.

use chain_solana::VoteStakes;
use fastrand::Rng;
use ledger::Slot;
use solana_feature_set::{reduce_stake_warmup_cooldown, upgrade_bpf_stake_program_to_v5_1};
use solana_stake_interface::state::Stake;

use super::*;
use crate::delegations::{by_voter, total};

const SLOTS_PER_EPOCH: u64 = 32;
const BANKS: u64 = 400;

fn schedule() -> EpochSchedule {
    EpochSchedule::custom(SLOTS_PER_EPOCH, SLOTS_PER_EPOCH, false)
}

fn features(is_fixed_point: bool) -> FeatureSet {
    let mut features = FeatureSet::default();
    features.activate(&reduce_stake_warmup_cooldown::ID, 0);
    if is_fixed_point {
        features.activate(&upgrade_bpf_stake_program_to_v5_1::ID, 0);
    }
    features
}

fn key(n: u64) -> Pubkey {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&n.to_le_bytes());
    Pubkey::new_from_array(bytes)
}

fn delegation(rng: &mut Rng, epoch: Epoch) -> Delegation {
    Delegation {
        voter_pubkey: key(rng.u64(1..6)),
        stake: rng.u64(0..1_000_000_000),
        activation_epoch: if rng.u8(0..8) == 0 { Epoch::MAX } else { epoch },
        deactivation_epoch: Epoch::MAX,
        ..Delegation::default()
    }
}

/// All delegations of a bank, and its history.
#[derive(Clone, Default)]
struct Model {
    delegations: BTreeMap<Pubkey, Delegation>,
    history: StakeHistory,
    next_epoch: Option<(Epoch, BTreeMap<Pubkey, u64>)>,
}

impl Model {
    fn delegated(&self) -> Vec<Delegated> {
        let delegated = |(pubkey, delegation): (&Pubkey, &Delegation)| Delegated {
            pubkey: *pubkey,
            stake: Stake { delegation: *delegation, credits_observed: 0 },
            lamports: 0,
            data_len: 0,
        };
        self.delegations.iter().map(delegated).collect()
    }

    fn stakes(&self, epoch: Epoch, math: &StakeMath) -> BTreeMap<Pubkey, u64> {
        let stakes = by_voter(&self.delegated(), &self.history, epoch, math);
        stakes.into_iter().filter(|(_, stake)| *stake > 0).collect()
    }

    /// What a bank of random transactions changes.
    fn change(&mut self, rng: &mut Rng, epoch: Epoch) -> Vec<StakeChange> {
        let mut changes = BTreeMap::new();
        for _ in 0..rng.usize(0..4) {
            let pubkey = key(rng.u64(100..130));
            let before = self.delegations.get(&pubkey).copied();
            let after = match (before, rng.u8(0..4)) {
                (Some(it), 0) => Some(Delegation { deactivation_epoch: epoch, ..it }),
                (Some(it), 1) => Some(Delegation { stake: it.stake + rng.u64(0..1_000), ..it }),
                (Some(_), 2) => None,
                _ => Some(delegation(rng, epoch)),
            };
            match after {
                Some(after) => self.delegations.insert(pubkey, after),
                None => self.delegations.remove(&pubkey),
            };
            let first = changes.get(&pubkey).map_or(before, |change: &StakeChange| change.before);
            changes.insert(pubkey, StakeChange { pubkey, before: first, after });
        }
        changes.into_values().collect()
    }
}

fn nonzero(stakes: &VoteStakes) -> BTreeMap<Pubkey, u64> {
    stakes.0.iter().filter(|(_, stake)| **stake > 0).map(|(key, stake)| (*key, *stake)).collect()
}

fn candidate(pubkey: &Pubkey) -> Option<VoteCandidate> {
    let state = solana_vote_interface::state::VoteStateV4::default();
    Some(VoteCandidate { pubkey: *pubkey, stake: 0, state, lamports: 1 })
}

fn run(seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let features = features(rng.bool());
    let schedule = schedule();
    let math = StakeMath::new(&features, &schedule);
    let root = BlockId { slot: 40, version: 0 };
    let mut start = Model::default();
    (100..120).for_each(|n| _ = start.delegations.insert(key(n), delegation(&mut rng, 0)));
    let entry = total(&start.delegated(), &start.history, 0, &math);
    start.history.add(0, entry);
    let mut tracker = StakeTracker::new(
        schedule.clone(),
        &features,
        root,
        start.history.clone(),
        &start.delegated(),
    );
    assert_eq!(nonzero(&tracker.bank(root).expect("the root").stakes), start.stakes(1, &math));
    let mut banks = BTreeMap::from([(root, start)]);
    for version in 1..=BANKS {
        let choices: Vec<BlockId> = banks.keys().rev().take(3).copied().collect();
        let parent = *rng.choice(&choices).expect("the root, or one above");
        let slot: Slot = parent.slot + rng.u64(1..4);
        let id = BlockId { slot, version };
        let mut model = banks[&parent].clone();
        let epoch = schedule.get_epoch(slot);
        let ended = schedule.get_epoch(parent.slot);
        let mut history = None;
        if epoch != ended {
            let entry = total(&model.delegated(), &model.history, ended, &math);
            model.history.add(ended, entry);
            history = Some(model.history.clone());
        }
        let at_start = model.stakes(epoch, &math);
        let changes = model.change(&mut rng, epoch);
        let boundary = tracker.is_boundary(id, parent).then_some((&features, 0));
        assert_eq!(boundary.is_some(), epoch != ended);
        let added =
            tracker.add(NewBank { id, parent, history, changes: &changes }, boundary, candidate);
        let added = added.expect("its parent is tracked");
        assert_eq!(nonzero(&added.stakes), model.stakes(epoch, &math), "seed {seed}, {id:?}");
        if epoch != ended {
            model.next_epoch = Some((epoch + 1, at_start));
        }
        let newest = added.newest_epoch.as_ref();
        let newest = newest.map(|it| (it.epoch, nonzero(&VoteStakes::from(&**it))));
        assert_eq!(newest, model.next_epoch, "seed {seed}, {id:?}");
        banks.insert(id, model);
        if banks.len() > 12 {
            let root = *banks.keys().nth(4).expect("there are more");
            tracker.set_root(root);
            banks = banks.split_off(&root);
        }
        if rng.u8(0..10) == 0 && banks.len() > 2 {
            let last = *banks.keys().next_back().expect("there are some");
            tracker.remove(last);
            banks.remove(&last);
        }
    }
}

#[test]
fn every_bank_has_the_stakes_of_its_delegations() {
    (0..20).for_each(run);
}

#[test]
fn a_bank_of_an_unknown_parent_is_not_tracked() {
    let root = BlockId { slot: 1, version: 0 };
    let history = StakeHistory::default();
    let mut tracker = StakeTracker::new(schedule(), &features(true), root, history, &[]);
    let id = BlockId { slot: 3, version: 0 };
    let parent = BlockId { slot: 2, version: 0 };
    let bank = NewBank { id, parent, history: None, changes: &[] };
    assert!(tracker.add(bank, None, candidate).is_none());
    assert!(tracker.bank(id).is_none());
}
