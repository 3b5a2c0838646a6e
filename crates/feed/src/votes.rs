//! The last vote of each voter, and the best bank by them.
//!
//! Bounds: `voters_max` voters; a vote of one more is ignored. Votes at and below the root are removed.

use std::collections::{BTreeMap, HashMap};

use foldhash::quality::RandomState;
use ledger::{BlockId, Slot};
use solana_pubkey::Pubkey;

use crate::bank_tree::BankTree;
use crate::decision::LandedVote;

#[derive(Clone, Copy)]
struct LastVote {
    slot: Slot,
    stake: u64,
}

pub(crate) struct Votes {
    voters: HashMap<Pubkey, LastVote, RandomState>,
    voters_max: usize,
}

impl Votes {
    pub(crate) fn new(voters_max: usize) -> Self {
        Self { voters: HashMap::default(), voters_max }
    }

    /// Records a vote. True if it is newer than the voter's last one.
    pub(crate) fn record(&mut self, vote: &LandedVote) -> bool {
        let LandedVote { voter, slot, stake } = *vote;
        let is_known = match self.voters.get(&voter) {
            Some(last) if last.slot >= slot => return false,
            known => known.is_some(),
        };
        if !is_known && self.voters.len() >= self.voters_max {
            return false;
        }
        self.voters.insert(voter, LastVote { slot, stake });
        true
    }

    pub(crate) fn prune(&mut self, root: Slot) {
        self.voters.retain(|_, vote| vote.slot > root);
    }

    /// Returns the processed tip: from `start`, always to the child with the most stake that last voted on or above it,
    /// then to the child that leads to the highest slot, then to the one that was frozen first.
    ///
    /// Cost: O(voters + banks above `start`).
    pub(crate) fn best(&self, tree: &BankTree, start: BlockId) -> BlockId {
        let banks = tree.subtree(start);
        // A vote names a slot; with several banks in it, it counts for each.
        let mut stake_of_slot: BTreeMap<Slot, u128> = BTreeMap::new();
        for vote in self.voters.values() {
            *stake_of_slot.entry(vote.slot).or_default() += u128::from(vote.stake);
        }
        // Stake and highest slot of each subtree; children come before their parents.
        let mut weights: BTreeMap<BlockId, (u128, Slot)> = BTreeMap::new();
        for bank in &banks {
            let own = stake_of_slot.get(&bank.slot).copied().unwrap_or_default();
            let children = tree.children(*bank).iter().filter_map(|it| weights.get(it));
            let (stake, highest) = children.fold((own, bank.slot), |sum, child| {
                (sum.0.saturating_add(child.0), sum.1.max(child.1))
            });
            weights.insert(*bank, (stake, highest));
        }
        let mut best = start;
        loop {
            // `max_by_key` takes the last of equals, so the first frozen must come last.
            let children = tree.children(best).iter().rev();
            match children.max_by_key(|child| weights.get(child).copied()) {
                Some(child) => best = *child,
                None => return best,
            }
        }
    }
}
