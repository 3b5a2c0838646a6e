//! An account of another cluster that a local ledger takes over while it runs.
//!
//! Shape: the ledger writes the account into its open block ([`crate::ControlCommand::Adopt`]), and records here when it
//! did. In an older block the account is as it was fetched.
//! Invariant: the ledger's thread takes no lock for it, and no reader waits for that thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ledger::Slot;
use solana::Account;
use solana_pubkey::Pubkey;

/// The slot of an account that the ledger has not written yet.
const UNWRITTEN: Slot = Slot::MAX;

/// An account as it was fetched, and the block in which the ledger wrote it.
#[derive(Debug)]
pub struct AdoptedAccount {
    pubkey: Pubkey,
    account: Arc<Account>,
    /// The publish that made the written account visible.
    version: AtomicU64,
    /// The slot of the block in which the ledger wrote the account, or [`UNWRITTEN`].
    slot: AtomicU64,
}

impl AdoptedAccount {
    /// Creates an account that the ledger has not written yet.
    pub fn new(pubkey: Pubkey, account: Arc<Account>) -> Self {
        Self { pubkey, account, version: AtomicU64::new(u64::MAX), slot: AtomicU64::new(UNWRITTEN) }
    }

    /// Returns the address of the account.
    pub fn pubkey(&self) -> Pubkey {
        self.pubkey
    }

    /// Returns the account as it was fetched.
    pub fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// Returns the slot of the block in which the ledger wrote the account. `Slot::MAX`, which no block has, until
    /// then.
    pub fn slot(&self) -> Slot {
        self.slot.load(Ordering::Acquire)
    }

    /// Whether the newest state contains the account.
    pub fn is_written(&self) -> bool {
        self.slot() != UNWRITTEN
    }

    /// Whether a view without the account is older than its write. Any other view does not have it because it was
    /// closed.
    pub fn is_later_than(&self, slot: Slot, version: u64) -> bool {
        // The slot is stored last, so the version of a written account is already stored.
        slot < self.slot() || version < self.version.load(Ordering::Relaxed)
    }

    /// Records that the ledger wrote it in the block of `slot`, visible since the publish `version`.
    pub fn set_written(&self, slot: Slot, version: u64) {
        self.version.store(version, Ordering::Relaxed);
        self.slot.store(slot, Ordering::Release);
    }

    /// Records that the block that wrote the account was reverted.
    pub fn set_unwritten(&self) {
        self.slot.store(UNWRITTEN, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_sees_it_until_it_was_written_and_not_after_that() {
        let account = Arc::new(Account(solana_account::AccountSharedData::default()));
        let adopted = AdoptedAccount::new(Pubkey::default(), account);
        assert!(!adopted.is_written() && adopted.is_later_than(u64::MAX - 1, 7));
        adopted.set_written(10, 5);
        assert!(adopted.is_written());
        assert!(adopted.is_later_than(9, 5), "an older block");
        assert!(adopted.is_later_than(10, 4), "the same block, before it was written there");
        assert!(!adopted.is_later_than(10, 5) && !adopted.is_later_than(11, 6));
        adopted.set_unwritten();
        assert!(adopted.is_later_than(11, 6));
    }
}
