//! The plainest table there is: a map, with numbers that are never given again.

use std::collections::BTreeMap;
use std::path::Path;

use snapshot::{BankFields, Progress, Snapshot, SnapshotError, Table, TableError};
use solana_account::AccountSharedData;
use solana_pubkey::Pubkey;

#[derive(Default)]
pub(crate) struct Map {
    pub(crate) accounts: BTreeMap<Pubkey, AccountSharedData>,
    pub(crate) numbers: BTreeMap<Pubkey, u32>,
    /// The slot of the bank that it was told of.
    pub(crate) slot: Option<u64>,
    /// Accounts that it takes before it is full.
    pub(crate) room: Option<usize>,
}

impl Table for Map {
    fn begin(&mut self, bank: &BankFields) -> Result<(), TableError> {
        assert_eq!(self.slot, None, "begun once");
        self.slot = Some(bank.slot);
        Ok(())
    }

    fn number(&self, key: &Pubkey) -> Option<u32> {
        self.numbers.get(key).copied()
    }

    fn account(&self, key: &Pubkey) -> Option<AccountSharedData> {
        self.accounts.get(key).cloned()
    }

    fn put(
        &mut self,
        changes: Vec<(Pubkey, Option<AccountSharedData>)>,
    ) -> Result<Vec<u32>, TableError> {
        let mut given = Vec::new();
        for (key, account) in changes {
            match account {
                Some(account) => self.accounts.insert(key, account),
                None => self.accounts.remove(&key),
            };
            if self.room.is_some_and(|room| self.accounts.len() > room) {
                return Err("the map is full".into());
            }
            let next = self.numbers.len() as u32;
            given.push(*self.numbers.entry(key).or_insert(next));
        }
        Ok(given)
    }
}

/// Loads into a map.
pub(crate) fn load(
    full: &Path,
    incremental: Option<&Path>,
    threads: usize,
    progress: &Progress,
) -> Result<(Snapshot, Map), SnapshotError> {
    let mut map = Map::default();
    let snapshot = snapshot::load(full, incremental, threads, progress, &mut map)?;
    assert_eq!(map.slot, Some(snapshot.bank.slot));
    assert_eq!(map.accounts.len(), snapshot.accounts_len);
    Ok((snapshot, map))
}
