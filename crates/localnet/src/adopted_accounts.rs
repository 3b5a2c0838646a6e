//! The accounts of another cluster that the ledger took over above its root.
//!
//! Bounds: those accounts, which the ledger's blocks hold as well; the caller of the ledger bounds their bytes.
//! Not here: their writes (`adoption`).

use std::collections::HashSet;
use std::sync::Arc;

use chain_solana::AdoptedAccount;
use ledger::Slot;

/// Slots for which an account is retained below the root: readers may still have a view from before its write.
const RETAINED_SLOTS: Slot = 64;

/// The accounts that were taken over above the root, in the order of their slots.
#[derive(Default)]
pub(crate) struct AdoptedAccounts {
    written: Vec<Arc<AdoptedAccount>>,
    /// Those whose blocks were left.
    unwritten: Vec<Arc<AdoptedAccount>>,
}

impl AdoptedAccounts {
    /// Drops the accounts that every later block has.
    pub(crate) fn drop_rooted(&mut self, root: Slot) {
        let rooted =
            self.written.partition_point(|it| it.slot().saturating_add(RETAINED_SLOTS) <= root);
        self.written.drain(..rooted);
    }

    /// Adds accounts that were written in the open block.
    pub(crate) fn add_written(&mut self, accounts: Vec<Arc<AdoptedAccount>>) {
        self.written.extend(accounts);
    }

    /// Takes those whose blocks were left. Of several with the same address, which was reset in between, the last one
    /// counts.
    pub(crate) fn take_unwritten(&mut self) -> Vec<Arc<AdoptedAccount>> {
        let mut accounts = std::mem::take(&mut self.unwritten);
        let mut seen = HashSet::new();
        accounts.reverse();
        accounts.retain(|account| seen.insert(account.pubkey()));
        accounts
    }

    /// Puts them back.
    pub(crate) fn restore_unwritten(&mut self, accounts: Vec<Arc<AdoptedAccount>>) {
        self.unwritten = accounts;
    }

    /// Records that the blocks above `slot` are left.
    pub(crate) fn leave_blocks_above(&mut self, slot: Slot) {
        let first = self.written.partition_point(|it| it.slot() <= slot);
        for account in self.written.drain(first..) {
            account.set_unwritten();
            self.unwritten.push(account);
        }
    }
}

#[cfg(test)]
mod tests {
    use solana::Account;
    use solana_account::AccountSharedData;
    use solana_pubkey::Pubkey;

    use super::*;

    fn adopted(n: u8, slot: Slot) -> Arc<AdoptedAccount> {
        let account = Arc::new(Account(AccountSharedData::default()));
        let adopted = AdoptedAccount::new(Pubkey::new_from_array([n; 32]), account);
        adopted.set_written(slot, slot);
        Arc::new(adopted)
    }

    #[test]
    fn accounts_of_left_blocks_are_unwritten_and_the_last_of_an_address_counts() {
        let mut accounts = AdoptedAccounts::default();
        let all = [adopted(1, 5), adopted(2, 6), adopted(2, 7), adopted(3, 8)];
        accounts.add_written(all.to_vec());
        accounts.leave_blocks_above(5);
        assert!(all[0].is_written() && all[1..].iter().all(|it| !it.is_written()));
        let left = accounts.take_unwritten();
        assert!(
            left.len() == 2 && Arc::ptr_eq(&left[0], &all[3]) && Arc::ptr_eq(&left[1], &all[2])
        );
        assert!(accounts.take_unwritten().is_empty());
        accounts.drop_rooted(5 + RETAINED_SLOTS - 1);
        assert_eq!(accounts.written.len(), 1);
        accounts.drop_rooted(5 + RETAINED_SLOTS);
        assert!(accounts.written.is_empty());
    }
}
