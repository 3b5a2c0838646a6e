//! Checks that the bank of an archive descends from the ledger's confirmed bank.
//!
//! In: the confirmed bank, and the fields and sysvars of the archive's bank. Out: nothing, or the contradiction.
//! Shape: the archive's SlotHashes lists the bank hashes of its last 512 ancestors. Beyond them its SlotHistory has the
//! slots of the last million, and what never changes on a chain must be the same: the time of genesis and the epoch
//! schedule.
//! Not here: whether the archive's own bank hash is that of the chain (`verification`). An archive that is made up as a
//! whole may list any ancestor.

use ledger::Slot;
use snapshot_solana::BankFields;
use solana_epoch_schedule::EpochSchedule;
use solana_hash::Hash;
use solana_slot_history::{Check, MAX_ENTRIES, SlotHistory};

/// Number of bank hashes in the SlotHashes sysvar. A shorter list has all ancestors.
const SLOT_HASHES_MAX: usize = 512;

/// The constant properties of a chain, as far as an archive has them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ChainFacts {
    pub(crate) genesis_unix_timestamp: i64,
    pub(crate) epoch_schedule: EpochSchedule,
}

impl ChainFacts {
    pub(crate) fn from_fields(fields: &BankFields) -> Self {
        let genesis_unix_timestamp = fields.genesis_unix_timestamp;
        Self { genesis_unix_timestamp, epoch_schedule: fields.epoch_schedule.clone() }
    }
}

/// The confirmed bank of the ledger.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConfirmedBank {
    pub(crate) slot: Slot,
    pub(crate) block_height: u64,
    pub(crate) blockhash: Hash,
    /// `None` if banks are not verified.
    pub(crate) bank_hash: Option<Hash>,
}

/// The data of the sysvars in an archive that name the ancestors of its bank.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AncestorSysvars<'a> {
    pub(crate) slot_hashes: &'a [u8],
    pub(crate) slot_history: &'a [u8],
}

/// Why an archive does not continue the ledger's chain.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AncestryError {
    #[error(
        "it is of another chain: its genesis was at {theirs}, and that of the ledger's at {ours}"
    )]
    Genesis { ours: i64, theirs: i64 },
    #[error("it is of another chain, with another epoch schedule")]
    EpochSchedule,
    #[error("it has no SlotHashes, so nothing shows that it descends from the ledger's slot {0}")]
    NoSlotHashes(Slot),
    #[error("it is of another chain or fork: it does not descend from the ledger's slot {0}")]
    NoAncestor(Slot),
    #[error(
        "it is of another chain or fork: the bank hash of slot {slot} is {theirs} there, and {ours} in the ledger"
    )]
    BankHash { slot: Slot, ours: Hash, theirs: Hash },
    #[error(
        "it is of another chain or fork: it does not have the blockhash {blockhash} of slot {slot}"
    )]
    Blockhash { slot: Slot, blockhash: Hash },
    #[error("the ledger's slot {0} is older than its SlotHistory: start again from it")]
    TooOld(Slot),
}

/// Fails unless the archive's own sysvars show that its bank descends from the confirmed one.
pub(crate) fn check_ancestry(
    confirmed: &ConfirmedBank,
    facts: &ChainFacts,
    fields: &BankFields,
    sysvars: AncestorSysvars<'_>,
) -> Result<(), AncestryError> {
    let archived = ChainFacts::from_fields(fields);
    let ours = facts.genesis_unix_timestamp;
    let theirs = archived.genesis_unix_timestamp;
    if ours != theirs {
        return Err(AncestryError::Genesis { ours, theirs });
    }
    if facts.epoch_schedule != archived.epoch_schedule {
        return Err(AncestryError::EpochSchedule);
    }
    check_blockhash(confirmed, fields)?;
    let slot = confirmed.slot;
    let listed: Vec<(Slot, Hash)> =
        verify::slot_hashes(sysvars.slot_hashes).take(SLOT_HASHES_MAX).collect();
    let Some((oldest, _)) = listed.last() else {
        return Err(AncestryError::NoSlotHashes(slot));
    };
    if listed.len() == SLOT_HASHES_MAX && slot < *oldest {
        return check_slot_history(slot, sysvars.slot_history);
    }
    let ancestor = listed.iter().find(|(listed, _)| *listed == slot);
    let (_, theirs) = *ancestor.ok_or(AncestryError::NoAncestor(slot))?;
    match confirmed.bank_hash {
        Some(ours) if ours != theirs => Err(AncestryError::BankHash { slot, ours, theirs }),
        _ => Ok(()),
    }
}

/// Looks for the blockhash of the confirmed bank among those that the archive's bank still accepts.
fn check_blockhash(confirmed: &ConfirmedBank, fields: &BankFields) -> Result<(), AncestryError> {
    let ConfirmedBank { slot, block_height, blockhash, .. } = *confirmed;
    let blocks = fields.block_height.saturating_sub(block_height);
    let is_recent = blocks < fields.blockhashes.len() as u64;
    if is_recent && !fields.blockhashes.contains(&blockhash) {
        return Err(AncestryError::Blockhash { slot, blockhash });
    }
    Ok(())
}

fn check_slot_history(slot: Slot, data: &[u8]) -> Result<(), AncestryError> {
    let is_whole = data.len() <= solana_slot_history::SIZE;
    let history = bincode::deserialize::<SlotHistory>(data).ok().filter(|_| is_whole);
    let history = history.filter(|it| it.bits.len() == MAX_ENTRIES && it.next_slot > 0);
    match history.map(|history| history.check(slot)) {
        Some(Check::Found) => Ok(()),
        Some(Check::TooOld) => Err(AncestryError::TooOld(slot)),
        Some(Check::NotFound | Check::Future) | None => Err(AncestryError::NoAncestor(slot)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIRMED: ConfirmedBank = ConfirmedBank {
        slot: 1_000,
        block_height: 900,
        blockhash: Hash::new_from_array([8; 32]),
        bank_hash: Some(Hash::new_from_array([9; 32])),
    };

    fn fields(slot: Slot) -> BankFields {
        let mut fields = BankFields::empty();
        (fields.slot, fields.block_height) = (slot, slot - 100);
        fields.blockhashes = vec![Hash::default(); 301];
        fields
    }

    fn slot_hashes(slots: impl Iterator<Item = (Slot, Hash)>) -> Vec<u8> {
        let entries: Vec<(Slot, Hash)> = slots.collect();
        bincode::serialize(&entries).expect("a wire form")
    }

    fn check(
        fields: &BankFields,
        slot_hashes: &[u8],
        slot_history: &[u8],
    ) -> Result<(), AncestryError> {
        let facts = ChainFacts::from_fields(&BankFields::empty());
        check_ancestry(&CONFIRMED, &facts, fields, AncestorSysvars { slot_hashes, slot_history })
    }

    #[test]
    fn a_recent_ancestor_is_known_by_its_bank_hash() {
        let ours = Hash::new_from_array([9; 32]);
        let hashes =
            |from: Slot, of_ours: Hash| {
                slot_hashes((from..1_400).rev().map(|slot| {
                    (slot, if slot == CONFIRMED.slot { of_ours } else { Hash::default() })
                }))
            };
        let archived = fields(1_400);
        assert_eq!(check(&archived, &hashes(900, ours), &[]), Ok(()));
        let theirs = Hash::new_from_array([1; 32]);
        let other = AncestryError::BankHash { slot: 1_000, ours, theirs };
        assert_eq!(check(&archived, &hashes(900, theirs), &[]), Err(other));
        let none = Err(AncestryError::NoAncestor(1_000));
        assert_eq!(check(&archived, &hashes(1_001, ours), &[]), none, "a short list has all");
        assert_eq!(check(&archived, &[], &[]), Err(AncestryError::NoSlotHashes(1_000)));
    }

    #[test]
    fn an_older_ancestor_is_known_by_its_slot() {
        let hashes = slot_hashes((4_488..5_000).rev().map(|slot| (slot, Hash::default())));
        let history = |slots: &[Slot]| {
            let mut history = SlotHistory::default();
            slots.iter().for_each(|slot| history.add(*slot));
            bincode::serialize(&history).expect("a wire form")
        };
        let archived = fields(5_000);
        assert_eq!(check(&archived, &hashes, &history(&[999, 1_000, 4_999])), Ok(()));
        let none = Err(AncestryError::NoAncestor(1_000));
        assert_eq!(check(&archived, &hashes, &history(&[999, 1_001, 4_999])), none);
        assert_eq!(check(&archived, &hashes, &[1; 40]), none);
        let too_old = Err(AncestryError::TooOld(1_000));
        assert_eq!(check(&archived, &hashes, &history(&[1_000, 2_000_000])), too_old);
    }

    #[test]
    fn another_genesis_and_another_blockhash_are_named() {
        let hashes = slot_hashes((900..1_200).rev().map(|slot| (slot, Hash::default())));
        let mut other = fields(1_200);
        let blockhash = CONFIRMED.blockhash;
        let error = AncestryError::Blockhash { slot: 1_000, blockhash };
        assert_eq!(check(&other, &hashes, &[]), Err(error));
        other.genesis_unix_timestamp = 7;
        let genesis = AncestryError::Genesis { ours: 0, theirs: 7 };
        assert_eq!(check(&other, &hashes, &[]), Err(genesis));
        other.genesis_unix_timestamp = 0;
        other.epoch_schedule.slots_per_epoch += 1;
        assert_eq!(check(&other, &hashes, &[]), Err(AncestryError::EpochSchedule));
    }
}
