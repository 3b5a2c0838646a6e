//! The accounts in a VM: they are loaded from a ledger's state when a transaction names them, and evicted later.
//!
//! Shape: a [`Vm`], and an [`AccountSource`] for the state. The executing thread loads from the open block and writes
//! every change to both; a simulation loads from its view. Sysvars and builtin programs are always loaded. Compiled
//! code of other programs stays, because compiling is expensive.
//! Bounds: plain accounts [`PLAIN_BYTES_MAX`]; programs `PROGRAMS_MAX`, or `ELF_BYTES_MAX` of code, which compiles
//! to about six times as much. So at most 64 MiB and 400 MiB, plus the accounts of one transaction with up to
//! [`CODE_BYTES_MAX`] of compiled code.
//! Invariant: a loaded account equals that of the source. An absent account is cached as absent.
//! Not here: the ledger's state (`query`), running (`vm`).

mod account_source;
mod eviction;
mod loading;
mod program;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};

use foldhash::quality::RandomState;
use solana_account::{AccountSharedData, ReadableAccount};
use solana_feature_set::FeatureSet;
use solana_hash::Hash;
use solana_message::VersionedMessage;
use solana_pubkey::Pubkey;
use solana_sdk_ids::bpf_loader_upgradeable;
use solana_transaction::versioned::VersionedTransaction;

pub use self::account_source::{AccountSource, Overlay};
pub use self::loading::CODE_BYTES_MAX;
pub use self::program::CodeUsage;
use self::program::{Program, UncompiledProgram, is_program};
use crate::clock_cache::ClockCache;
use crate::program_account::{may_deploy, program_data_key};
use crate::runtime_limits::RuntimeLimits;
use crate::vm::{ExecutionOutcome, Vm};
use crate::{precompiles, sysvars};

/// Bytes of cached plain accounts: about 120,000 token accounts.
const PLAIN_BYTES_MAX: usize = 64 << 20;

/// A VM, and the accounts in it.
pub struct WorkingSet {
    vm: Vm,
    plain: ClockCache,
    programs: HashMap<Pubkey, Program, RandomState>,
    elf_bytes: usize,
    /// Sysvars and builtin programs.
    pinned: HashSet<Pubkey, RandomState>,
    /// Whether every change of the source is written here as well.
    write_through: bool,
    /// Whether an account of the VM has ceased to be a program. Only a new VM drops its code.
    is_outdated: bool,
    /// Addresses of evicted programs, and of calls that are not deployed programs. The VM stores an entry for each.
    closed: HashSet<Pubkey, RandomState>,
    /// The programs of the last transaction that are not compiled.
    uncompiled: Vec<UncompiledProgram>,
    /// The priority of the last evicted program.
    evicted_priority: u64,
    compiled_bytes: u64,
}

impl WorkingSet {
    /// Creates a VM with the sysvars and builtin programs of `source` only.
    pub fn new(source: &impl AccountSource, features: FeatureSet) -> Self {
        let mut set = Self::empty(Vm::without_programs(features));
        let builtins: Vec<Pubkey> = set.vm.accounts().map(|(key, _)| *key).collect();
        for key in builtins.into_iter().chain(sysvars::ALL).chain(precompiles::IDS) {
            if let Some(account) = source.account(&key) {
                set.vm.put(key, &account.0);
            }
            set.pinned.insert(key);
        }
        set
    }

    /// Replaces the runtime limits of transactions.
    #[must_use]
    pub fn with_limits(self, limits: RuntimeLimits) -> Self {
        Self { vm: self.vm.with_limits(limits), ..self }
    }

    fn empty(vm: Vm) -> Self {
        Self {
            vm,
            plain: ClockCache::new(PLAIN_BYTES_MAX),
            programs: HashMap::default(),
            elf_bytes: 0,
            pinned: HashSet::default(),
            write_through: true,
            is_outdated: false,
            closed: HashSet::default(),
            uncompiled: Vec::new(),
            evicted_priority: 0,
            compiled_bytes: 0,
        }
    }

    /// Returns a copy without plain accounts: for simulations, which load those of their view.
    pub fn clone_programs(&self) -> Self {
        let mut set = Self {
            vm: self.vm.clone(),
            programs: self.programs.clone(),
            pinned: self.pinned.clone(),
            write_through: false,
            closed: self.closed.clone(),
            elf_bytes: self.elf_bytes,
            plain: ClockCache::new(PLAIN_BYTES_MAX),
            is_outdated: false,
            uncompiled: Vec::new(),
            evicted_priority: self.evicted_priority,
            compiled_bytes: 0,
        };
        let is_retained = |key: &Pubkey| set.pinned.contains(key) || set.programs.contains_key(key);
        let plain: Vec<Pubkey> =
            self.vm.accounts().map(|(key, _)| *key).filter(|key| !is_retained(key)).collect();
        plain.into_iter().for_each(|key| set.vm.remove(key));
        set
    }

    /// Returns the VM for reading only.
    pub fn vm(&self) -> &Vm {
        &self.vm
    }

    /// Returns the VM, to update pinned accounts.
    pub fn vm_mut(&mut self) -> &mut Vm {
        &mut self.vm
    }

    /// Returns whether an address is that of a sysvar, or of a builtin program or precompile that the VM has.
    pub fn is_pinned(&self, key: &Pubkey) -> bool {
        self.pinned.contains(key)
    }

    /// Returns the bytes of code that the upgradeable loader may compile while a message runs, after its accounts were
    /// loaded: those of the buffers and the program data that it names.
    pub fn deployed_code_bytes(&self, message: &VersionedMessage) -> usize {
        let Ok(keys) = self.vm.keys(message) else { return 0 };
        if !may_deploy(message, &keys.all) {
            return 0;
        }
        let accounts = keys.all.iter().filter_map(|key| self.vm.account(key));
        let is_code = |account: &&AccountSharedData| {
            account.owner() == &bpf_loader_upgradeable::ID && !account.executable()
        };
        accounts.filter(is_code).map(|account| account.data().len()).sum()
    }

    /// Returns the compiled programs and the bytes of their code.
    pub fn code_usage(&self) -> CodeUsage {
        let Self { elf_bytes: bytes, compiled_bytes, .. } = *self;
        CodeUsage { programs: self.programs.len(), bytes, compiled_bytes }
    }

    /// Runs a transaction after its accounts were loaded. Writes nothing.
    pub fn run(
        &mut self,
        transaction: &VersionedTransaction,
        nonce: Option<Pubkey>,
        last_blockhash: &Hash,
    ) -> ExecutionOutcome {
        let data_bytes = |key: &Pubkey| self.program_data_bytes(key);
        let ready = match self.vm.load(transaction, nonce, last_blockhash, data_bytes) {
            Ok(ready) => ready,
            Err(outcome) => return *outcome,
        };
        let undeployed: Vec<(Pubkey, AccountSharedData)> =
            ready.undeployed_programs().map(|(key, account)| (key, account.clone())).collect();
        // Agave starts such a call and then fails it. The VM does so only if the account looks like a program.
        for (key, account) in &undeployed {
            self.vm.put_closed(*key, account);
            self.closed.insert(*key);
        }
        let outcome = self.vm.execute(transaction, ready, nonce, last_blockhash);
        for (key, account) in &undeployed {
            self.vm.put_as_data(*key, account);
        }
        outcome
    }

    /// Writes accounts. The accounts with programs' code are written before the programs.
    pub fn commit<'a>(
        &mut self,
        writes: impl Iterator<Item = (Pubkey, &'a AccountSharedData)> + Clone,
    ) {
        for (key, account) in writes.clone().filter(|(_, account)| !is_program(account)) {
            self.vm.put(key, account);
            self.track(key, account, true);
        }
        for (key, account) in writes.filter(|(_, account)| is_program(account)) {
            self.put_program(key, account);
        }
    }

    /// Reads these accounts from the source again, which reverted to a state before they were written. A program among
    /// them evicts all programs.
    ///
    /// Cost: a lookup for each account, whatever is cached.
    pub fn reload<'a>(
        &mut self,
        source: &impl AccountSource,
        written: impl Iterator<Item = &'a Pubkey>,
    ) {
        let programs = self.programs.values();
        let code: HashSet<Pubkey, RandomState> =
            programs.filter_map(|program| program_data_key(&program.account.0)).collect();
        for key in written {
            let account = source.account(key);
            let is_pinned = self.pinned.contains(key);
            self.is_outdated |= !is_pinned
                && (self.programs.contains_key(key)
                    || self.closed.contains(key)
                    || code.contains(key)
                    || account.as_ref().is_some_and(|account| is_program(&account.0)));
            if !is_pinned && !self.plain.touch(key) {
                continue;
            }
            if !is_pinned {
                let data_bytes = account.as_ref().map_or(0, |account| account.0.data().len());
                self.plain.insert(*key, data_bytes);
            }
            match account {
                // It is evicted below.
                Some(account) if is_program(&account.0) => {}
                Some(account) => self.vm.put(*key, &account.0),
                None => self.vm.remove(*key),
            }
        }
        if self.is_outdated {
            self.rebuild();
        }
    }

    /// Makes the next [`Self::load`] start with a new VM: for writes that replace code without a loader.
    pub fn reload_programs(&mut self) {
        self.is_outdated = true;
    }

    /// Evicts all accounts that are not programs.
    pub fn clear(&mut self) {
        for key in self.plain.drain() {
            if !self.programs.contains_key(&key) {
                self.vm.remove(key);
            }
        }
    }

    /// Returns the size of a program's code account that was loaded with it.
    fn program_data_bytes(&self, key: &Pubkey) -> Option<usize> {
        Some(self.programs.get(key)?.data.as_ref()?.0.data().len())
    }
}
