//! The lattice hash over all accounts of the newest complete block.
//!
//! In: the accounts that a block wrote, with their last state, and the state of its parent. Each of them is hashed
//! twice, once in a block, however often the block wrote it: the states in between do not count.
//! Bounds: 2 KiB, and as much for each sysvar.
//! Invariant: the sum is that over all accounts of the state, whatever wrote them: every write is in a block
//! (`Executor::apply`), or was there before the first one (`bulk_load`).

use std::collections::HashMap;

use chain_solana::AccountWrite;
use foldhash::quality::RandomState;
use lattice::LtHash;
use solana::lt_hash;
use solana_pubkey::Pubkey;
use svm::{AccountSource, sysvars};

/// The lattice hash over all accounts of a chain's newest complete block.
pub(crate) struct AccountsSum {
    sum: LtHash,
    /// The hashes of sysvars. Some are large, and every block writes them.
    sysvars: HashMap<Pubkey, LtHash, RandomState>,
}

impl AccountsSum {
    /// The sum over the accounts before the first block.
    pub(crate) fn new(sum: LtHash) -> Self {
        Self { sum, sysvars: HashMap::default() }
    }

    /// The lattice hash over all accounts.
    pub(crate) fn lt_hash(&self) -> &LtHash {
        &self.sum
    }

    /// Adds a block: each account that it wrote, once. `parent` has the accounts before the block.
    pub(crate) fn add_block<'a>(
        &mut self,
        parent: &impl AccountSource,
        writes: impl Iterator<Item = &'a AccountWrite>,
    ) {
        for write in writes {
            let pubkey = &write.pubkey;
            let account = write.after();
            let is_sysvar = sysvars::ALL.contains(pubkey);
            let before = match self.sysvars.remove(pubkey) {
                Some(before) => before,
                None => {
                    let before = parent.account(pubkey);
                    if before.as_ref().map(|before| &before.0)
                        == account.as_ref().map(|account| &account.0)
                    {
                        continue;
                    }
                    before.map_or(LtHash::EMPTY, |before| lt_hash(pubkey, &before.0))
                }
            };
            self.sum.mix_out(&before);
            let after = account.as_ref().map_or(LtHash::EMPTY, |it| lt_hash(pubkey, &it.0));
            self.sum.mix_in(&after);
            if is_sysvar {
                self.sysvars.insert(*pubkey, after);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ledger::{AddressId, StoredRecord};
    use solana::Account;
    use solana_account::AccountSharedData;

    use super::*;

    struct Accounts(HashMap<Pubkey, AccountSharedData>);

    impl AccountSource for Accounts {
        fn account(&self, key: &Pubkey) -> Option<Arc<Account>> {
            self.0.get(key).map(|account| Arc::new(Account(account.clone())))
        }
    }

    impl Accounts {
        /// The sum over all of them.
        fn sum(&self) -> LtHash {
            let mut sum = LtHash::EMPTY;
            self.0.iter().for_each(|(key, account)| sum.mix_in(&lt_hash(key, account)));
            sum
        }
    }

    #[test]
    fn the_sum_over_blocks_is_that_over_all_accounts() {
        let mut random = fastrand::Rng::with_seed(5);
        let keys: Vec<Pubkey> =
            (0..20).map(|n| Pubkey::new_from_array([n; 32])).chain(sysvars::ALL).collect();
        let mut accounts = Accounts(HashMap::new());
        let mut sum = AccountsSum::new(LtHash::EMPTY);
        for _ in 0..100 {
            let written = random.choose_multiple(&keys, 10);
            let writes: Vec<AccountWrite> = written
                .into_iter()
                .map(|pubkey| {
                    let account =
                        AccountSharedData::new(random.u64(0..3), random.usize(0..9), pubkey);
                    let account = Account(account).into_record().map(StoredRecord::from);
                    let id = AddressId(0);
                    let removed_keys = Vec::new();
                    AccountWrite { pubkey: *pubkey, id, account, removed_keys }
                })
                .collect();
            sum.add_block(&accounts, writes.iter());
            for write in writes {
                match write.after() {
                    Some(account) => accounts.0.insert(write.pubkey, account.0.clone()),
                    None => accounts.0.remove(&write.pubkey),
                };
            }
            assert_eq!(*sum.lt_hash(), accounts.sum());
        }
    }
}
