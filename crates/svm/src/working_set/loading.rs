//! Loads the accounts that a transaction names, and compiles the programs among them.
//!
//! Bounds: a transaction has at most [`CODE_BYTES_MAX`] of code compiled.
//! Invariant: a loaded account equals that of the source. An absent account is cached as absent.
//! Not here: eviction (`eviction`), running (`vm`).

use std::sync::Arc;

use solana::Account;
use solana_account::{AccountSharedData, ReadableAccount};
use solana_message::VersionedMessage;
use solana_pubkey::Pubkey;

use super::WorkingSet;
use super::account_source::AccountSource;
use super::program::{Program, UncompiledProgram, is_program};
use crate::program_account::{deployed_slot, program_data_key};

/// Bytes of code that one transaction may have compiled. A transaction that names more exceeds the limit of loaded
/// bytes, so it does not run.
pub const CODE_BYTES_MAX: usize = 64 << 20;

impl WorkingSet {
    /// Loads the missing accounts that a transaction needs: those that it names itself, its lookup
    /// tables, and those that it names by the tables.
    pub fn load(&mut self, source: &impl AccountSource, message: &VersionedMessage) {
        self.load_without_code(source, std::iter::once(message));
        self.compile_all();
    }

    /// Loads the accounts of transactions as [`Self::load`] does, except the programs that have to be compiled. Returns
    /// the bytes of their code.
    pub fn load_without_code<'a>(
        &mut self,
        source: &impl AccountSource,
        messages: impl Iterator<Item = &'a VersionedMessage> + Clone,
    ) -> usize {
        self.evict_excess();
        self.uncompiled.clear();
        messages.clone().for_each(|message| self.load_all(source, message));
        if self.is_outdated {
            self.rebuild();
            messages.for_each(|message| self.load_all(source, message));
        }
        self.uncompiled_bytes()
    }

    fn uncompiled_bytes(&self) -> usize {
        self.uncompiled.iter().map(|program| program.code_bytes).sum()
    }

    /// Compiles the programs of the last transaction, unless they have more code than any transaction may load.
    fn compile_all(&mut self) {
        let is_within_limit = self.uncompiled_bytes() <= CODE_BYTES_MAX;
        for UncompiledProgram { key, account, .. } in std::mem::take(&mut self.uncompiled) {
            if is_within_limit {
                self.put_program(key, &account.0);
            } else {
                self.vm.put_invisible_program(key, &account.0);
                self.track(key, &account.0, false);
            }
        }
    }

    fn load_all(&mut self, source: &impl AccountSource, message: &VersionedMessage) {
        let own = message.static_account_keys();
        for key in own {
            self.load_one(source, key);
        }
        let lookups = message.address_table_lookups().unwrap_or_default();
        for lookup in lookups {
            self.load_one(source, &lookup.account_key);
        }
        // A transaction with unresolved tables fails, so it needs only its own keys.
        if !lookups.is_empty()
            && let Ok(keys) = self.vm.keys(message)
        {
            keys.all[own.len()..].iter().for_each(|key| self.load_one(source, key));
        }
    }

    /// Returns one account, and loads it if needed.
    pub fn account(
        &mut self,
        source: &impl AccountSource,
        key: &Pubkey,
    ) -> Option<&AccountSharedData> {
        self.uncompiled.clear();
        self.load_one(source, key);
        self.compile_all();
        self.vm.account(key)
    }

    fn load_one(&mut self, source: &impl AccountSource, key: &Pubkey) {
        let evicted_priority = self.evicted_priority;
        if let Some(known) = self.programs.get_mut(key) {
            known.note_use(evicted_priority);
        }
        let is_loaded = match self.programs.get(key) {
            Some(known) => self.write_through && self.is_settled(known),
            None => self.plain.touch(key) || self.pinned.contains(key),
        };
        if is_loaded {
            return;
        }
        let Some(account) = source.account(key) else {
            self.is_outdated |= self.forget_program(key);
            self.vm.remove(*key);
            self.plain.insert(*key, 0);
            return;
        };
        if is_program(&account.0) {
            self.load_program(source, *key, account);
            return;
        }
        self.vm.put(*key, &account.0);
        self.track(*key, &account.0, true);
    }

    /// Loads a program, unless the same version is loaded: compiling is expensive.
    fn load_program(&mut self, source: &impl AccountSource, key: Pubkey, account: Arc<Account>) {
        let data_key = program_data_key(&account.0);
        let data = data_key.and_then(|data_key| source.account(&data_key));
        let code = |data: &Option<Arc<Account>>| data.as_ref().map(|data| data.0.clone());
        if let Some(known) = self.programs.get(&key)
            && self.is_settled(known)
            && known.account.0 == account.0
            && code(&known.data) == code(&data)
        {
            return;
        }
        if let Some(data_key) = data_key {
            match &data {
                Some(data) => self.vm.put(data_key, &data.0),
                None => self.vm.remove(data_key),
            }
            self.plain.insert(data_key, data.map_or(0, |data| data.0.data().len()));
        }
        // The VM needs the account of a program's owner.
        let owner = account.0.owner();
        if !self.pinned.contains(owner)
            && !self.plain.touch(owner)
            && let Some(account) = source.account(owner)
        {
            self.vm.put(*owner, &account.0);
            self.plain.insert(*owner, account.0.data().len());
        }
        if self.uncompiled.iter().any(|program| program.key == key) {
            return;
        }
        let code = data_key.and_then(|data_key| self.vm.account(&data_key)).unwrap_or(&account.0);
        let code_bytes = code.data().len();
        self.uncompiled.push(UncompiledProgram { key, account, code_bytes });
    }

    /// Returns whether a program's visibility is up to date: it may be called, or it was deployed in this slot.
    fn is_settled(&self, program: &Program) -> bool {
        let deployed = || program.data.as_ref().and_then(|data| deployed_slot(&data.0));
        program.is_visible || deployed() == Some(self.vm.slot())
    }

    /// Writes a program that already has its code in the VM.
    pub(super) fn put_program(&mut self, key: Pubkey, account: &AccountSharedData) {
        let data = program_data_key(account).and_then(|key| self.vm.account(&key));
        let is_visible = data.and_then(deployed_slot) != Some(self.vm.slot());
        if is_visible {
            self.compiled_bytes += data.unwrap_or(account).data().len() as u64;
            self.vm.put(key, account);
        } else {
            self.vm.put_invisible_program(key, account);
        }
        self.track(key, account, is_visible);
    }

    /// Records a write to the VM in the cache.
    pub(super) fn track(&mut self, key: Pubkey, account: &AccountSharedData, is_visible: bool) {
        if self.pinned.contains(&key) {
            return;
        }
        let was_program = self.forget_program(&key);
        if !is_program(account) {
            self.is_outdated |= was_program;
            self.plain.insert(key, account.data().len());
            return;
        }
        let data = program_data_key(account).and_then(|key| self.vm.account(&key));
        let data = data.map(|data| Arc::new(Account(data.clone())));
        let account = Arc::new(Account(account.clone()));
        let mut program = Program { account, data, is_visible, uses: 0, priority: 0 };
        program.note_use(self.evicted_priority);
        self.closed.remove(&key);
        self.plain.remove(&key);
        self.elf_bytes += program.elf_bytes();
        self.programs.insert(key, program);
    }
}
