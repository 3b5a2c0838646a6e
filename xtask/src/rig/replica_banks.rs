//! The final banks of a replica, which does not log them, and their levels: `hydrantGetVerification` of each slot.
//!
//! Shape: a reading continues with the slot after the last one, up to the newest final one. A slot that the replica has
//! no block of is left out: it was skipped, or it is in a gap or before the replica's history.
//! Bounds: [`SLOTS_PER_READING`]. Memory grows with the slots of a run, as for the lines of a log.
//! Not here: the comparison with the validators' banks (`frozen_banks`).

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::rig::bank_parts::BankParts;
use crate::rig::json_rpc::call;
use crate::rig::nodes::final_slot;

/// Slots that are requested in one reading.
const SLOTS_PER_READING: u64 = 64;

/// The final banks of a replica so far.
pub(crate) struct ReplicaBanks {
    node: SocketAddr,
    next_slot: Option<u64>,
    banks: BTreeMap<u64, BTreeSet<BankParts>>,
    levels: BankLevels,
}

/// Numbers of final banks by their level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BankLevels {
    /// Those with the level that the ingester requires of a confirmed bank.
    pub(crate) required: usize,
    /// Those with another level, or none.
    pub(crate) other: usize,
}

impl ReplicaBanks {
    pub(crate) fn new(node: SocketAddr) -> Self {
        Self { node, next_slot: None, banks: BTreeMap::new(), levels: BankLevels::default() }
    }

    /// Reads the banks that became final since the last reading. A replica that does not respond is read later.
    pub(crate) fn read(&mut self) {
        // It was killed, or loads a snapshot.
        let _ = self.read_slots();
    }

    fn read_slots(&mut self) -> Result<()> {
        let mut slot = match self.next_slot {
            Some(slot) => slot,
            None => {
                let first = call(self.node, "getFirstAvailableBlock", &json!([]))?;
                first["result"].as_u64().context("no first block")?
            }
        };
        let newest = final_slot(self.node)?.min(slot.saturating_add(SLOTS_PER_READING));
        while slot <= newest {
            let response = call(self.node, "hydrantGetVerification", &json!([slot]))?;
            self.add(slot, &response["result"]);
            slot += 1;
            self.next_slot = Some(slot);
        }
        Ok(())
    }

    /// Adds the bank of a result. An error has none.
    fn add(&mut self, slot: u64, result: &Value) {
        let bank = &result["bank"];
        if !bank.is_object() {
            return;
        }
        self.banks.entry(slot).or_default().insert(BankParts::from_verification(bank));
        let level = &bank["level"];
        match level.is_string() && *level == result["requiredLevel"] {
            true => self.levels.required += 1,
            false => self.levels.other += 1,
        }
    }

    /// Returns the banks by slot.
    pub(crate) fn banks(&self) -> &BTreeMap<u64, BTreeSet<BankParts>> {
        &self.banks
    }

    pub(crate) fn levels(&self) -> BankLevels {
        self.levels
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn banks_are_counted_by_their_level() {
        let mut banks = ReplicaBanks::new(SocketAddr::from(([127, 0, 0, 1], 1)));
        let result = |level: Value| json!({"requiredLevel": "voted", "bank": {"level": level}});
        banks.add(5, &result(json!("voted")));
        banks.add(6, &result(json!("consistent")));
        banks.add(7, &result(json!(null)));
        // A skipped slot, and an ingester that verifies nothing.
        banks.add(8, &json!(null));
        banks.add(9, &json!({"requiredLevel": null, "bank": {"level": null}}));
        assert_eq!(banks.levels(), BankLevels { required: 1, other: 3 });
        assert_eq!(banks.banks().keys().copied().collect::<Vec<_>>(), [5, 6, 7, 9]);
    }
}
