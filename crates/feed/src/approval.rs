//! The caller's approvals: the banks that may be confirmed, and the highest slot that may be the root.
//!
//! Bounds: the banks above the root.

use std::collections::BTreeSet;

use ledger::{BlockId, Slot};

#[derive(Default)]
pub(crate) struct Approval {
    /// `None` if the caller does not have to approve banks.
    banks: Option<BTreeSet<BlockId>>,
    root_max: Option<Slot>,
}

impl Approval {
    pub(crate) fn new(is_required: bool) -> Self {
        Self { banks: is_required.then(BTreeSet::new), root_max: None }
    }

    /// Whether the status of a bank may be applied.
    pub(crate) fn allows(&self, bank: BlockId, is_root: bool) -> bool {
        let is_approved = self.banks.as_ref().is_none_or(|banks| banks.contains(&bank));
        let is_below = self.root_max.is_none_or(|max| bank.slot <= max);
        is_approved && (is_below || !is_root)
    }

    /// Approves banks. True if one of them was not approved before.
    pub(crate) fn insert(&mut self, approved: Vec<BlockId>) -> bool {
        let Some(banks) = &mut self.banks else { return false };
        let before = banks.len();
        banks.extend(approved);
        banks.len() > before
    }

    /// True if the highest slot changes.
    pub(crate) fn set_root_max(&mut self, root_max: Option<Slot>) -> bool {
        std::mem::replace(&mut self.root_max, root_max) != root_max
    }

    /// Removes the banks below the root.
    pub(crate) fn prune(&mut self, root: BlockId) {
        if let Some(banks) = &mut self.banks {
            *banks = banks.split_off(&root);
        }
    }
}
