//! The stake that voted for each bank hash of a slot.
//!
//! Bounds: the hashes of the slot's banks, and [`OTHER_HASHES_MAX`] others; for each one bit a vote account. Of the
//! others one with more stake replaces the one with the least.
//! Invariant: a vote account counts once for each slot and hash.

use std::collections::BTreeMap;

use ledger::Slot;
use solana::{EpochVoter, VotedStake};
use solana_hash::Hash;

use crate::stakes::StakedVoters;

/// Hashes of a slot that no bank has, at most: more than one means that validators contradict each other.
const OTHER_HASHES_MAX: usize = 8;

struct HashTally {
    hash: Hash,
    stake: u128,
    /// A bit for each vote account of the epoch.
    voters: Vec<u64>,
}

impl HashTally {
    fn new(hash: Hash, voters_len: usize) -> Self {
        Self { hash, stake: 0, voters: vec![0; voters_len.div_ceil(64)] }
    }

    fn add(&mut self, number: usize, stake: u64) {
        let bit = 1 << (number % 64);
        let word = &mut self.voters[number / 64];
        if *word & bit == 0 {
            *word |= bit;
            self.stake += u128::from(stake);
        }
    }
}

enum SlotTally {
    Open(Vec<HashTally>),
    /// More than two thirds of the stake voted for it.
    Decided(Decision),
}

/// The hash of a slot for which more than two thirds of the stake voted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) hash: Hash,
    pub(crate) voted: VotedStake,
}

/// The votes for all slots above the root.
#[derive(Default)]
pub(crate) struct VoteTallies(BTreeMap<Slot, SlotTally>);

impl VoteTallies {
    /// Counts a vote. `is_bank` says whether a bank of the slot has the hash. True if it decides the slot.
    pub(crate) fn add(
        &mut self,
        (slot, hash): (Slot, Hash),
        (number, voter): (usize, &EpochVoter),
        stakes: &StakedVoters,
        is_bank: impl Fn(&Hash) -> bool,
    ) -> bool {
        let tally = self.0.entry(slot).or_insert_with(|| SlotTally::Open(Vec::new()));
        let SlotTally::Open(hashes) = tally else { return false };
        let index = match hashes.iter().position(|tally| tally.hash == hash) {
            Some(known) => known,
            None => {
                if !is_bank(&hash) && !make_space(hashes, voter.stake, &is_bank) {
                    return false;
                }
                hashes.push(HashTally::new(hash, stakes.len()));
                hashes.len() - 1
            }
        };
        hashes[index].add(number, voter.stake);
        let stake = hashes[index].stake;
        let is_decided = stakes.is_supermajority(stake);
        if is_decided {
            let total = stakes.total();
            let voted = VotedStake { slot, voted: lamports(stake), total: lamports(total) };
            *tally = SlotTally::Decided(Decision { hash, voted });
        }
        is_decided
    }

    /// The hash that more than two thirds of the stake voted for.
    pub(crate) fn decision(&self, slot: Slot) -> Option<Decision> {
        match self.0.get(&slot)? {
            SlotTally::Decided(decision) => Some(*decision),
            SlotTally::Open(_) => None,
        }
    }

    /// Removes the votes for the slots of an epoch.
    pub(crate) fn remove_epoch(&mut self, stakes: &StakedVoters) {
        self.0.retain(|slot, _| !stakes.slots().contains(slot));
    }

    /// Removes the votes for slots up to `slot`.
    pub(crate) fn remove_to(&mut self, slot: Slot) {
        self.0 = self.0.split_off(&(slot + 1));
    }

    /// Bytes that the tallies occupy.
    pub(crate) fn bytes(&self) -> usize {
        let hashes = self.0.values().map(|tally| match tally {
            SlotTally::Open(hashes) => {
                let voters = hashes.iter().map(|tally| tally.voters.capacity() * 8);
                hashes.capacity() * size_of::<HashTally>() + voters.sum::<usize>()
            }
            SlotTally::Decided(_) => 0,
        });
        self.0.len() * (size_of::<Slot>() + size_of::<SlotTally>()) + hashes.sum::<usize>()
    }
}

/// A sum of stakes in lamports. All SOL fit; only made-up stakes can exceed 64 bits.
fn lamports(stake: u128) -> u64 {
    u64::try_from(stake).unwrap_or(u64::MAX)
}

/// Makes space for a hash that no bank has. False if all others have as much stake.
fn make_space(hashes: &mut Vec<HashTally>, stake: u64, is_bank: &impl Fn(&Hash) -> bool) -> bool {
    let others = || hashes.iter().enumerate().filter(|(_, tally)| !is_bank(&tally.hash));
    if others().count() < OTHER_HASHES_MAX {
        return true;
    }
    match others().min_by_key(|(_, tally)| tally.stake) {
        Some((index, least)) if least.stake < u128::from(stake) => {
            hashes.swap_remove(index);
            true
        }
        _ => false,
    }
}
