//! A random chain of the upstream, with forks, dead banks and replays.

use std::collections::BTreeMap;

use fastrand::Rng;
use ledger::Slot;
use solana_hash::Hash;
use solana_pubkey::Pubkey;
use solana_sdk_ids::sysvar;

/// The slot of the root at the start.
pub(crate) const ROOT_SLOT: Slot = 100;

pub(crate) const SYSVARS: [Pubkey; 4] = [
    sysvar::clock::ID,
    sysvar::slot_hashes::ID,
    sysvar::recent_blockhashes::ID,
    sysvar::slot_history::ID,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Frozen,
    /// Frozen, and then replaced by another bank of the slot.
    FrozenThenReplaced,
    Replaced,
    Dead,
    /// The stream has no more updates of it.
    Stops,
}

#[derive(Clone, Debug)]
pub(crate) struct TrueBank {
    pub(crate) slot: Slot,
    pub(crate) parent_slot: Slot,
    pub(crate) parent_hash: Hash,
    pub(crate) hash: Hash,
    pub(crate) end: End,
    /// Of each transaction: accounts and values. The last entry has the writes without a transaction.
    pub(crate) writes: Vec<Vec<(Pubkey, u64)>>,
    pub(crate) is_canonical: bool,
}

impl TrueBank {
    pub(crate) fn transactions(&self) -> u64 {
        self.writes.len() as u64 - 1
    }

    /// Each account with its last value.
    pub(crate) fn last_writes(&self) -> BTreeMap<Pubkey, u64> {
        self.writes.iter().flatten().copied().collect()
    }

    pub(crate) fn is_frozen(&self) -> bool {
        matches!(self.end, End::Frozen | End::FrozenThenReplaced)
    }
}

pub(crate) fn hash(number: u64) -> Hash {
    let mut bytes = [7; 32];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    Hash::new_from_array(bytes)
}

#[derive(Clone, Debug)]
pub(crate) struct Chain {
    /// Banks in the order of their creation.
    pub(crate) banks: Vec<TrueBank>,
    /// Canonical slots that are confirmed, ascending; the first ones are finalized.
    pub(crate) confirmed: Vec<Slot>,
    pub(crate) finalized: usize,
}

impl Chain {
    pub(crate) fn root_hash() -> Hash {
        hash(0)
    }

    pub(crate) fn random(rng: &mut Rng) -> Self {
        let mut banks: Vec<TrueBank> = Vec::new();
        let mut canonical = vec![(ROOT_SLOT, Self::root_hash())];
        let mut number = 0;
        let mut slot = ROOT_SLOT;
        for _ in 0..rng.usize(3..14) {
            slot += if rng.u8(0..5) == 0 { rng.u64(2..4) } else { 1 };
            let is_fork = rng.u8(0..4) == 0;
            let back = if is_fork { rng.usize(0..canonical.len().min(3)) } else { 0 };
            let parent = canonical[canonical.len() - 1 - back];
            let ends = match rng.u8(0..10) {
                0 => vec![End::FrozenThenReplaced, End::Frozen],
                1 => vec![End::Replaced, End::Frozen],
                2 if is_fork => vec![End::Dead],
                3 if is_fork => vec![End::Stops],
                _ => vec![End::Frozen],
            };
            for end in ends {
                number += 1;
                let is_canonical = !is_fork && end == End::Frozen;
                let bank = Self::bank(rng, slot, number, parent, end, is_canonical);
                if is_canonical {
                    canonical.push((slot, bank.hash));
                }
                banks.push(bank);
            }
        }
        let slots: Vec<Slot> = canonical[1..].iter().map(|(slot, _)| *slot).collect();
        let confirmed = slots[..rng.usize(0..=slots.len())].to_vec();
        let finalized = rng.usize(0..=confirmed.len());
        Self { banks, confirmed, finalized }
    }

    fn bank(
        rng: &mut Rng,
        slot: Slot,
        number: u64,
        parent: (Slot, Hash),
        end: End,
        is_canonical: bool,
    ) -> TrueBank {
        let mut writes: Vec<Vec<(Pubkey, u64)>> = Vec::new();
        for _ in 0..rng.usize(0..4) {
            let key = |rng: &mut Rng| Pubkey::from([rng.u8(1..6); 32]);
            writes.push((0..rng.usize(0..3)).map(|_| (key(rng), rng.u64(..))).collect());
        }
        writes.push(SYSVARS.iter().map(|key| (*key, rng.u64(..))).collect());
        let (parent_slot, parent_hash) = parent;
        let hash = hash(number);
        TrueBank { slot, parent_slot, parent_hash, hash, end, writes, is_canonical }
    }

    /// The bank of a slot that is on the final chain.
    pub(crate) fn canonical(&self, slot: Slot) -> &TrueBank {
        let mut banks = self.banks.iter().filter(|bank| bank.slot == slot && bank.is_canonical);
        banks.next_back().expect("a canonical bank")
    }

    pub(crate) fn by_hash(&self, hash: Hash) -> &TrueBank {
        self.banks.iter().find(|bank| bank.hash == hash).expect("a bank of the chain")
    }

    /// The canonical slots that are finalized, ascending.
    pub(crate) fn finalized_slots(&self) -> &[Slot] {
        &self.confirmed[..self.finalized]
    }
}
