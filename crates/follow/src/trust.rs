//! The bank hashes that the operator trusts: the chain must have each of them.
//!
//! In: slots with their bank hashes, which the operator did not get from the sources. Out: the contradiction, if any.
//! A hash is compared with the bank that the node starts from, with its SlotHashes and those of archives, and with each
//! bank before it is approved.
//! Invariant: a bank is approved only if all trusted slots up to it were compared and found right, or are older than
//! anything that names them. Those make the node unhealthy for as long as it runs.

use std::str::FromStr;

use ledger::Slot;
use solana_hash::Hash;

/// A slot, and the hash of its bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrustedBank {
    /// The slot.
    pub slot: Slot,
    /// The bank hash, as `hydrantGetVerification` and the log of a validator have it.
    pub bank_hash: Hash,
}

/// The text is not `SLOT:BANKHASH`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the form is SLOT:BANKHASH, with the hash in base58")]
pub struct TrustedBankError;

impl FromStr for TrustedBank {
    type Err = TrustedBankError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (slot, bank_hash) = text.split_once(':').ok_or(TrustedBankError)?;
        let slot = slot.parse().map_err(|_| TrustedBankError)?;
        let bank_hash = bank_hash.parse().map_err(|_| TrustedBankError)?;
        Ok(Self { slot, bank_hash })
    }
}

/// Why the chain is not the trusted one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrustError {
    /// The slot has another bank hash.
    #[error("slot {slot} has the bank hash {found}, and the trusted one is {trusted} (--trust)")]
    Hash {
        /// The trusted slot.
        slot: Slot,
        /// The trusted bank hash.
        trusted: Hash,
        /// The bank hash that the chain has.
        found: Hash,
    },
    /// The chain has no bank in the slot.
    #[error("slot {slot} has no bank, and one is trusted there (--trust)")]
    Skipped {
        /// The trusted slot.
        slot: Slot,
    },
    /// The archive is too far above the slot to name its bank.
    #[error(
        "the trusted slot {slot} cannot be compared: the archive names the bank hashes from slot {oldest} on (--trust)"
    )]
    Unnamed {
        /// The trusted slot.
        slot: Slot,
        /// The oldest slot with a bank hash.
        oldest: Slot,
    },
}

impl TrustError {
    /// Returns the trusted slot.
    pub(crate) fn slot(&self) -> Slot {
        match self {
            Self::Hash { slot, .. } | Self::Skipped { slot } | Self::Unnamed { slot, .. } => *slot,
        }
    }
}

/// The trusted banks that were not compared yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct TrustedBanks {
    /// Those that later banks name.
    pending: Vec<TrustedBank>,
    /// The slot of the start.
    start: Slot,
    /// The newest slot that was compared.
    compared: Option<Slot>,
}

/// The bank hashes up to a block: its own, and those in its SlotHashes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NamedBanks<'a> {
    pub(crate) slot: Slot,
    pub(crate) bank_hash: Hash,
    pub(crate) slot_hashes: &'a [u8],
}

impl NamedBanks<'_> {
    /// Compares a trusted bank that is not above the block.
    fn check(&self, bank: &TrustedBank) -> Result<(), TrustError> {
        let TrustedBank { slot, bank_hash: trusted } = *bank;
        if slot == self.slot {
            let found = self.bank_hash;
            return if found == trusted { Ok(()) } else { Err(mismatch(bank, found)) };
        }
        let mut oldest = self.slot;
        for (listed, found) in verify::slot_hashes(self.slot_hashes) {
            oldest = oldest.min(listed);
            if listed == slot {
                return if found == trusted { Ok(()) } else { Err(mismatch(bank, found)) };
            }
        }
        match oldest < slot {
            true => Err(TrustError::Skipped { slot }),
            false => Err(TrustError::Unnamed { slot, oldest }),
        }
    }
}

fn mismatch(bank: &TrustedBank, found: Hash) -> TrustError {
    TrustError::Hash { slot: bank.slot, trusted: bank.bank_hash, found }
}

impl TrustedBanks {
    /// Compares the banks of a start. Returns the first that nothing names, and the ones above the start.
    pub(crate) fn at_start(
        mut trusted: Vec<TrustedBank>,
        start: &NamedBanks<'_>,
    ) -> Result<(Self, Option<TrustError>), TrustError> {
        trusted.sort_by_key(|bank| bank.slot);
        let above = trusted.split_off(trusted.partition_point(|bank| bank.slot <= start.slot));
        let mut unnamed = None;
        let mut compared = None;
        for bank in &trusted {
            match start.check(bank) {
                Ok(()) => compared = Some(bank.slot),
                Err(err @ TrustError::Unnamed { .. }) => unnamed = unnamed.or(Some(err)),
                Err(err) => return Err(err),
            }
        }
        Ok((Self { pending: above, start: start.slot, compared }, unnamed))
    }

    /// Compares the trusted banks between the ledger's confirmed slot and an archive.
    pub(crate) fn check_archive(
        &self,
        confirmed: Slot,
        archive: &NamedBanks<'_>,
    ) -> Result<(), TrustError> {
        let between = |bank: &&TrustedBank| (confirmed + 1..=archive.slot).contains(&bank.slot);
        self.pending.iter().filter(between).try_for_each(|bank| archive.check(bank))
    }

    /// The trusted banks up to a slot, the oldest first.
    pub(crate) fn up_to(&self, slot: Slot) -> &[TrustedBank] {
        &self.pending[..self.pending.partition_point(|bank| bank.slot <= slot)]
    }

    /// Removes those up to a slot, because they were compared. True if there are any.
    pub(crate) fn remove_to(&mut self, slot: Slot) -> bool {
        let end = self.pending.partition_point(|bank| bank.slot <= slot);
        let newest = self.pending.drain(..end).next_back().map(|bank| bank.slot);
        self.compared = newest.or(self.compared);
        newest.is_some()
    }

    /// The slot of the start, and the newest slot that was compared.
    pub(crate) fn trust_root(&self) -> (Slot, Option<Slot>) {
        (self.start, self.compared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(n: u8) -> Hash {
        Hash::new_from_array([n; 32])
    }

    fn bank(slot: Slot, n: u8) -> TrustedBank {
        TrustedBank { slot, bank_hash: hash(n) }
    }

    #[test]
    fn a_trusted_bank_is_a_slot_and_a_hash_in_base58() {
        let text = format!("77:{}", hash(5));
        assert_eq!(text.parse(), Ok(bank(77, 5)));
        for wrong in ["77", "x:y", "77:", "77:abc!", ":11111111111111111111111111111111"] {
            assert_eq!(wrong.parse::<TrustedBank>(), Err(TrustedBankError), "{wrong}");
        }
    }

    #[test]
    fn what_a_start_and_an_archive_name_is_compared() {
        let listed: Vec<(Slot, Hash)> = vec![(99, hash(9)), (97, hash(7))];
        let slot_hashes = bincode::serialize(&listed).expect("a wire form");
        let named = NamedBanks { slot: 100, bank_hash: hash(1), slot_hashes: &slot_hashes };
        let start = |trusted| TrustedBanks::at_start(trusted, &named);
        let (rest, unnamed) = start(vec![bank(101, 3), bank(100, 1), bank(97, 7)]).expect("right");
        assert_eq!((rest.up_to(200), unnamed), (&[bank(101, 3)][..], None));
        let wrong = |slot, trusted, found| {
            let trusted = hash(trusted);
            let found = hash(found);
            TrustError::Hash { slot, trusted, found }
        };
        assert_eq!(start(vec![bank(100, 2)]).err(), Some(wrong(100, 2, 1)));
        assert_eq!(start(vec![bank(99, 2)]).err(), Some(wrong(99, 2, 9)));
        assert_eq!(start(vec![bank(98, 2)]).err(), Some(TrustError::Skipped { slot: 98 }));
        let (_, unnamed) = start(vec![bank(50, 2)]).expect("nothing contradicts it");
        assert_eq!(unnamed, Some(TrustError::Unnamed { slot: 50, oldest: 97 }));
        assert_eq!(rest.trust_root(), (100, Some(100)));
        let archive = |trusted| {
            let banks = TrustedBanks { pending: vec![trusted], ..TrustedBanks::default() };
            banks.check_archive(90, &named)
        };
        assert_eq!(archive(bank(99, 9)), Ok(()));
        assert_eq!(archive(bank(99, 8)), Err(wrong(99, 8, 9)));
        assert_eq!(archive(bank(95, 8)), Err(TrustError::Unnamed { slot: 95, oldest: 97 }));
        assert_eq!(archive(bank(120, 8)), Ok(()), "a later one names it");
    }
}
