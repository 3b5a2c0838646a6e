//! The simplest sink: a map, with ids that are never reused.

use std::collections::BTreeMap;
use std::path::Path;

use snapshot_solana::{
    AccountSink, AccountSinkError, BankFields, Progress, Snapshot, SnapshotError,
};
use solana_account::AccountSharedData;
use solana_pubkey::Pubkey;

#[derive(Default)]
pub(crate) struct Map {
    pub(crate) accounts: BTreeMap<Pubkey, AccountSharedData>,
    pub(crate) ids: BTreeMap<Pubkey, u32>,
    /// The slot of the bank passed to `start`.
    pub(crate) slot: Option<u64>,
    /// Maximum number of accounts.
    pub(crate) accounts_max: Option<usize>,
}

impl AccountSink for Map {
    fn start(&mut self, bank: &BankFields) -> Result<(), AccountSinkError> {
        assert_eq!(self.slot, None, "started once");
        self.slot = Some(bank.slot);
        Ok(())
    }

    fn id_of(&self, key: &Pubkey) -> Option<u32> {
        self.ids.get(key).copied()
    }

    fn account(&self, key: &Pubkey) -> Option<AccountSharedData> {
        self.accounts.get(key).cloned()
    }

    fn put(
        &mut self,
        changes: Vec<(Pubkey, Option<AccountSharedData>)>,
    ) -> Result<Vec<u32>, AccountSinkError> {
        let mut ids = Vec::new();
        for (key, account) in changes {
            match account {
                Some(account) => self.accounts.insert(key, account),
                None => self.accounts.remove(&key),
            };
            if self.accounts_max.is_some_and(|max| self.accounts.len() > max) {
                return Err("the map is full".into());
            }
            let next = self.ids.len() as u32;
            ids.push(*self.ids.entry(key).or_insert(next));
        }
        Ok(ids)
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
    let snapshot = snapshot_solana::load(full, incremental, threads, progress, &mut map)?;
    assert_eq!(map.slot, Some(snapshot.bank.slot));
    assert_eq!(map.accounts.len(), snapshot.accounts_len);
    Ok((snapshot, map))
}
