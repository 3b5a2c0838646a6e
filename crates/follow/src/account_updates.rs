//! The account writes of a whole bank, for the sinks that need them: Yellowstone gRPC.
//!
//! In: the last write of each account of a bank, in any order. Out: updates in the order in which the source wrote
//! them.
//! Invariant: write versions rise over all banks, sources and sessions. Those of a source say nothing after it ended.
//! Not here: earlier writes of an account in the same bank. The feed retains the last one only.

use std::sync::Arc;

use chain_solana::AccountUpdate;

/// Numbers the writes of all banks.
#[derive(Default)]
pub(crate) struct WriteVersions(u64);

pub(crate) struct BankUpdates(Vec<AccountUpdate>);

impl BankUpdates {
    /// Space for a number of writes.
    pub(crate) fn new(len: usize) -> Self {
        Self(Vec::with_capacity(len))
    }

    /// Adds a write with the version of its source.
    pub(crate) fn push(&mut self, update: AccountUpdate) {
        self.0.push(update);
    }
}

impl WriteVersions {
    /// The writes in their order, with versions of this process.
    pub(crate) fn assign(&mut self, updates: BankUpdates) -> Arc<[AccountUpdate]> {
        let BankUpdates(mut updates) = updates;
        updates.sort_by_key(|update| update.write_version);
        for update in &mut updates {
            self.0 += 1;
            update.write_version = self.0;
        }
        updates.into()
    }
}

#[cfg(test)]
mod tests {
    use solana::Account;
    use solana_account::AccountSharedData;
    use solana_pubkey::Pubkey;

    use super::*;

    fn update(n: u8, write_version: u64) -> AccountUpdate {
        let account = Arc::new(Account(AccountSharedData::default()));
        let pubkey = Pubkey::new_from_array([n; 32]);
        AccountUpdate { pubkey, account, write_version, signature: None, executed: None }
    }

    #[test]
    fn versions_rise_when_those_of_the_source_start_anew() {
        let mut versions = WriteVersions::default();
        let mut numbered = |writes: &[(u8, u64)]| -> Vec<(u8, u64)> {
            let mut updates = BankUpdates::new(writes.len());
            writes.iter().for_each(|(n, version)| updates.push(update(*n, *version)));
            let all = versions.assign(updates);
            all.iter().map(|it| (it.pubkey.to_bytes()[0], it.write_version)).collect()
        };
        assert_eq!(numbered(&[(1, 900), (2, 700), (3, 800)]), [(2, 1), (3, 2), (1, 3)]);
        assert_eq!(numbered(&[(1, 5), (2, 4)]), [(2, 4), (1, 5)]);
    }
}
