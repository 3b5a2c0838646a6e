//! The accounts in a VM: they are loaded from a ledger's state when a transaction names them, and evicted later.
//!
//! Shape: a [`Vm`], and an [`AccountSource`] for the state. The executing thread loads from the open block and writes
//! every change to both; a simulation loads from its view. Sysvars and builtin programs are always loaded. Compiled
//! code of other programs stays, because compiling is expensive.
//! Bounds: plain accounts [`PLAIN_BYTES_MAX`]; programs [`PROGRAMS_MAX`], or [`ELF_BYTES_MAX`] of code, which compiles
//! to about six times as much. So at most 64 MiB and 400 MiB, plus the accounts of one transaction with up to
//! [`CODE_BYTES_MAX`] of compiled code.
//! Past the bound of programs the least used ones are evicted: each has a priority, the number of its recent uses
//! (at most [`USES_MAX`]) plus the priority of the last evicted program at its last use. So a program that is used often
//! outlives many that are called once, and one that is not used any longer is evicted in the end.
//! Invariant: a loaded account equals that of the source. An absent account is cached as absent.
//! Long because loading, compiling and eviction change the same table, and half of it is their tests.
//! Not here: the ledger's state (`query`), running (`vm`).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use chain_solana::{BlockInfo, View, WrittenAccounts};
use foldhash::quality::RandomState;
use ledger::Address;
use solana::Account;
use solana_account::{AccountSharedData, ReadableAccount};
use solana_feature_set::FeatureSet;
use solana_hash::Hash;
use solana_message::VersionedMessage;
use solana_pubkey::Pubkey;
use solana_sdk_ids::{bpf_loader_upgradeable, native_loader};
use solana_transaction::versioned::VersionedTransaction;

use crate::clock_cache::ClockCache;
use crate::program_account::{deployed_slot, may_deploy, program_data_key};
use crate::runtime_limits::RuntimeLimits;
use crate::vm::{ExecutionOutcome, Vm};
use crate::{precompiles, sysvars};

/// Bytes of cached plain accounts: about 120,000 token accounts.
const PLAIN_BYTES_MAX: usize = 64 << 20;
/// Cached programs. The VM copies their list for each transaction: 256 take about 3 us.
const PROGRAMS_MAX: usize = 256;
/// Bytes of the cached programs' code before it is compiled.
const ELF_BYTES_MAX: usize = 64 << 20;
/// Cached programs, and addresses of programs that were evicted or are not deployed. The VM has an entry for each, which
/// only a new VM drops: past this bound all programs are evicted.
const ENTRIES_MAX: usize = 4 * PROGRAMS_MAX;
/// Uses of a program that count for its priority. A larger value lets a program that was popular once stay longer.
const USES_MAX: u64 = 64;
/// Bytes of code that one transaction may have compiled. A transaction that names more exceeds the limit of loaded
/// bytes, so it does not run.
pub const CODE_BYTES_MAX: usize = 64 << 20;

/// The accounts of a ledger as of one block.
pub trait AccountSource {
    /// Returns the account of `key`.
    fn account(&self, key: &Pubkey) -> Option<Arc<Account>>;
}

impl AccountSource for View {
    fn account(&self, key: &Pubkey) -> Option<Arc<Account>> {
        self.record(&Address::from(key.to_bytes()))
    }
}

impl AccountSource for query::Ledger<Account, BlockInfo> {
    fn account(&self, key: &Pubkey) -> Option<Arc<Account>> {
        self.record(&Address::from(key.to_bytes()))
    }
}

/// The accounts of a ledger after transactions that it does not have yet.
pub struct Overlay<'a, S> {
    /// The accounts that these transactions wrote.
    pub written: &'a WrittenAccounts,
    /// The source of all other accounts.
    pub source: &'a S,
}

impl<S: AccountSource> AccountSource for Overlay<'_, S> {
    fn account(&self, key: &Pubkey) -> Option<Arc<Account>> {
        self.written.get(key).unwrap_or_else(|| self.source.account(key))
    }
}

/// A program, and the accounts from which it was compiled.
#[derive(Clone)]
struct Program {
    account: Arc<Account>,
    /// The account with its code, if that is separate.
    data: Option<Arc<Account>>,
    /// Whether it may be called, which is not the case in its deployment slot.
    is_visible: bool,
    /// The uses since it was loaded, at most [`USES_MAX`].
    uses: u64,
    /// The program with the lowest priority is evicted first.
    priority: u64,
}

impl Program {
    fn elf_bytes(&self) -> usize {
        self.data.as_ref().unwrap_or(&self.account).0.data().len()
    }

    fn note_use(&mut self, evicted_priority: u64) {
        self.uses = USES_MAX.min(self.uses + 1);
        self.priority = evicted_priority + self.uses;
    }
}

/// A program that has to be compiled before it is called.
struct UncompiledProgram {
    key: Pubkey,
    account: Arc<Account>,
    code_bytes: usize,
}

/// The compiled programs of a working set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CodeUsage {
    /// Programs in the VM.
    pub programs: usize,
    /// Bytes of their code before it was compiled.
    pub bytes: usize,
    /// Bytes of code that was compiled since the start.
    pub compiled_bytes: u64,
}

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
    fn put_program(&mut self, key: Pubkey, account: &AccountSharedData) {
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
    fn track(&mut self, key: Pubkey, account: &AccountSharedData, is_visible: bool) {
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

    fn forget_program(&mut self, key: &Pubkey) -> bool {
        let Some(known) = self.programs.remove(key) else { return false };
        self.elf_bytes -= known.elf_bytes();
        true
    }

    fn evict_excess(&mut self) {
        if self.is_outdated || self.programs.len() + self.closed.len() > ENTRIES_MAX {
            self.rebuild();
        }
        while (self.programs.len() > PROGRAMS_MAX || self.elf_bytes > ELF_BYTES_MAX)
            && self.evict_program()
        {}
        while let Some(key) = self.plain.evict_one() {
            // It may have become a program meanwhile.
            if !self.programs.contains_key(&key) {
                self.vm.remove(key);
            }
        }
    }

    /// Evicts the least used program. Returns `false` if there is none. Cost: one step for each program.
    fn evict_program(&mut self) -> bool {
        let least = self.programs.iter().min_by_key(|(key, program)| (program.priority, **key));
        let Some((key, priority)) = least.map(|(key, program)| (*key, program.priority)) else {
            return false;
        };
        self.evicted_priority = priority;
        self.forget_program(&key);
        self.vm.remove_program(key);
        self.closed.insert(key);
        true
    }

    /// Starts a new VM with the pinned accounts only.
    fn rebuild(&mut self) {
        tracing::debug!(programs = self.programs.len(), self.elf_bytes, "programs are evicted");
        let vm = Vm::without_programs(self.vm.features().clone()).with_limits(self.vm.limits());
        let empty = Self::empty(vm);
        let old = std::mem::replace(self, empty);
        self.pinned = old.pinned;
        self.write_through = old.write_through;
        self.compiled_bytes = old.compiled_bytes;
        for key in &self.pinned {
            match old.vm.account(key) {
                Some(account) => self.vm.put(*key, account),
                None => self.vm.remove(*key),
            }
        }
    }
}

/// Returns whether the VM compiles the account. Builtin programs are code of the VM itself.
fn is_program(account: &AccountSharedData) -> bool {
    account.executable() && account.owner() != &native_loader::ID && account.lamports() > 0
}

#[cfg(test)]
impl AccountSource for HashMap<Pubkey, AccountSharedData> {
    fn account(&self, key: &Pubkey) -> Option<Arc<Account>> {
        self.get(key).map(|account| Arc::new(Account(account.clone())))
    }
}

#[cfg(test)]
mod tests {
    use solana_account::WritableAccount;
    use solana_clock::Clock;
    use solana_hash::Hash;
    use solana_instruction::error::InstructionError;
    use solana_instruction::{AccountMeta, Instruction};
    use solana_keypair::Keypair;
    use solana_message::Message;
    use solana_signer::Signer;
    use solana_transaction::versioned::VersionedTransaction;
    use solana_transaction_error::TransactionError;
    use spl_generic_token::{token, token_2022};

    use super::*;
    use crate::signature_fee::LAMPORTS_PER_SIGNATURE;

    type Map = HashMap<Pubkey, AccountSharedData>;

    /// Returns the accounts of a new ledger, with the SPL programs. They were deployed one slot earlier.
    fn genesis() -> Map {
        let mut vm = Vm::new(FeatureSet::all_enabled());
        let mut clock: Clock = vm.svm().get_sysvar();
        clock.slot += 1;
        vm.svm_mut().set_sysvar(&clock);
        for (key, account) in solana_program_binaries::spl_programs(&vm.svm().get_sysvar()) {
            vm.put_as_data(key, &account);
        }
        vm.accounts().map(|(key, account)| (*key, account.clone())).collect()
    }

    fn working_set(map: &Map) -> WorkingSet {
        WorkingSet::new(map, FeatureSet::all_enabled())
    }

    fn wallet(map: &mut Map) -> Keypair {
        let keypair = Keypair::new();
        let account = AccountSharedData::new(1 << 40, 0, &solana_sdk_ids::system_program::ID);
        map.insert(keypair.pubkey(), account);
        keypair
    }

    fn transfer(from: &Keypair, to: &Pubkey, lamports: u64) -> VersionedTransaction {
        let transfer = solana_system_interface::instruction::transfer(&from.pubkey(), to, lamports);
        sign(transfer, from)
    }

    fn sign(instruction: Instruction, payer: &Keypair) -> VersionedTransaction {
        let message = Message::new(&[instruction], Some(&payer.pubkey()));
        VersionedTransaction::try_new(VersionedMessage::Legacy(message), &[payer])
            .expect("signers fit")
    }

    /// Runs a transaction, and writes its changes to `set` and `map`.
    fn execute(set: &mut WorkingSet, map: &mut Map, transaction: &VersionedTransaction) {
        set.load(map, &transaction.message);
        let outcome = set.run(transaction, None, &Hash::default());
        assert_eq!(outcome.result, Ok(()));
        set.commit(outcome.writes());
        for (key, account) in outcome.writes() {
            match account.lamports() {
                0 => map.remove(&key),
                _ => map.insert(key, account.clone()),
            };
        }
    }

    /// Returns an `InitializeMint2` without a freeze authority. Adds the mint's account to `map`.
    fn make_mint(map: &mut Map, program: Pubkey, payer: &Keypair) -> VersionedTransaction {
        let mint = Pubkey::new_unique();
        map.insert(mint, AccountSharedData::new(1 << 30, 82, &program));
        let mut data = vec![20, 6];
        data.extend([7; 32]);
        data.push(0);
        let accounts = vec![AccountMeta::new(mint, false)];
        sign(Instruction { program_id: program, accounts, data }, payer)
    }

    #[test]
    fn accounts_are_loaded_when_named_and_evicted_past_the_bound() {
        let mut map = genesis();
        let payers: Vec<Keypair> = (0..40).map(|_| wallet(&mut map)).collect();
        let mut set = working_set(&map);
        let pinned = set.vm().accounts().count();
        set.plain = ClockCache::new(4_000);
        for round in 0..3 {
            for payer in &payers {
                let to = payers[round].pubkey();
                let lamports = if payer.pubkey() == to { 0 } else { 1_000 };
                execute(&mut set, &mut map, &transfer(payer, &to, lamports));
                let cached = set.vm().accounts().count() - pinned;
                assert!(cached < 20, "{cached} accounts are cached");
            }
        }
        for payer in &payers {
            let account = set.account(&map, &payer.pubkey()).cloned();
            assert_eq!(account.as_ref(), map.get(&payer.pubkey()));
        }
    }

    #[test]
    fn an_account_that_is_closed_and_created_again_is_up_to_date() {
        let mut map = genesis();
        let payer = wallet(&mut map);
        let brief = Keypair::new();
        let mut set = working_set(&map);
        let fee = LAMPORTS_PER_SIGNATURE;
        for _ in 0..3 {
            assert_eq!(set.account(&map, &brief.pubkey()), None);
            execute(&mut set, &mut map, &transfer(&payer, &brief.pubkey(), 1 << 30));
            let back = transfer(&brief, &payer.pubkey(), (1 << 30) - fee);
            execute(&mut set, &mut map, &back);
            assert!(!map.contains_key(&brief.pubkey()));
        }
    }

    #[test]
    fn programs_are_compiled_when_named_and_evicted_past_a_bound() {
        let mut map = genesis();
        let payer = wallet(&mut map);
        let mut set = working_set(&map);
        assert!(set.programs.is_empty());
        for program in [token::id(), token_2022::id()] {
            let transaction = make_mint(&mut map, program, &payer);
            execute(&mut set, &mut map, &transaction);
            assert!(set.programs.contains_key(&program));
        }
        set.elf_bytes += ELF_BYTES_MAX;
        let transaction = make_mint(&mut map, token::id(), &payer);
        execute(&mut set, &mut map, &transaction);
        assert_eq!(set.programs.keys().collect::<Vec<_>>(), [&token::id()]);
    }

    #[test]
    fn a_simulation_sees_programs_as_its_view_has_them() {
        let mut map = genesis();
        let payer = wallet(&mut map);
        let mut set = working_set(&map);
        let transaction = make_mint(&mut map, token_2022::id(), &payer);
        execute(&mut set, &mut map, &transaction);
        let mut simulation = set.clone_programs();
        let run = |simulation: &mut WorkingSet, map: &Map, transaction: &VersionedTransaction| {
            simulation.clear();
            simulation.load(map, &transaction.message);
            simulation.run(transaction, None, &Hash::default()).result
        };
        let transaction = make_mint(&mut map, token_2022::id(), &payer);
        assert_eq!(run(&mut simulation, &map, &transaction), Ok(()));

        // In one view the code is invalid, and in another the program does not exist.
        let mut broken = map.clone();
        let code = program_data_key(&map[&token_2022::id()]).expect("it is upgradeable");
        broken.get_mut(&code).expect("it has code").data_as_mut_slice()[45..].fill(1);
        assert!(run(&mut simulation, &broken, &transaction).is_err());
        let mut without = map.clone();
        without.remove(&token_2022::id());
        assert!(run(&mut simulation, &without, &transaction).is_err());
        assert_eq!(run(&mut simulation, &map, &transaction), Ok(()));

        // Run again after all programs were evicted.
        simulation.elf_bytes += ELF_BYTES_MAX;
        assert_eq!(run(&mut simulation, &map, &transaction), Ok(()));
        assert!(run(&mut simulation, &broken, &transaction).is_err());
    }

    #[test]
    fn reloaded_accounts_equal_the_source() {
        let mut map = genesis();
        let payer = wallet(&mut map);
        let other = wallet(&mut map).pubkey();
        let mut set = working_set(&map);
        let transaction = make_mint(&mut map, token::id(), &payer);
        execute(&mut set, &mut map, &transaction);
        let before = map.clone();
        let new = Keypair::new().pubkey();
        execute(&mut set, &mut map, &transfer(&payer, &new, 1 << 30));
        let mut clock: Clock = set.vm().svm().get_sysvar();
        clock.slot += 5;
        set.vm_mut().svm_mut().set_sysvar(&clock);
        let clock_key = solana_sdk_ids::sysvar::clock::ID;

        let mut source = before.clone();
        set.reload(&source, [payer.pubkey(), new, other, clock_key].iter());
        for key in [payer.pubkey(), new, other] {
            assert_eq!(set.account(&source, &key), before.get(&key));
        }
        assert_eq!(set.vm().slot(), clock.slot - 5);
        assert!(set.programs.contains_key(&token::id()), "no program was written");
        execute(&mut set, &mut source, &transfer(&payer, &new, 1 << 30));

        // The program was not deployed in the state to which the source reverts.
        let code = program_data_key(&before[&token::id()]).expect("it is upgradeable");
        source.remove(&token::id());
        set.reload(&source, [token::id(), code].iter());
        assert!(set.programs.is_empty());
        let transaction = make_mint(&mut source, token::id(), &payer);
        set.load(&source, &transaction.message);
        assert!(set.run(&transaction, None, &Hash::default()).result.is_err());
        // And deployed again.
        source.insert(token::id(), before[&token::id()].clone());
        set.reload(&source, [token::id()].iter());
        execute(&mut set, &mut source, &transaction);
    }

    #[test]
    fn undeployed_addresses_are_evicted_past_the_program_bound() {
        let mut map = genesis();
        let payer = wallet(&mut map);
        let mut set = working_set(&map);
        let owner = solana_sdk_ids::bpf_loader_upgradeable::ID;
        let unsupported = InstructionError::UnsupportedProgramId;
        let unsupported = Err(TransactionError::InstructionError(0, unsupported));
        for _ in 0..ENTRIES_MAX + 10 {
            let program_id = Pubkey::new_unique();
            map.insert(program_id, AccountSharedData::new(1, 0, &owner));
            let call = Instruction { program_id, accounts: Vec::new(), data: Vec::new() };
            let transaction = sign(call, &payer);
            set.load(&map, &transaction.message);
            assert_eq!(set.run(&transaction, None, &Hash::default()).result, unsupported);
            assert_eq!(set.account(&map, &program_id), map.get(&program_id));
        }
        assert!(set.closed.len() <= ENTRIES_MAX, "{}", set.closed.len());
    }

    /// Adds programs with 9 MiB of invalid code each, which takes no time to compile.
    fn add_large_programs(map: &mut Map, count: usize) -> Vec<Pubkey> {
        let loader = solana_sdk_ids::bpf_loader::ID;
        let mut program = AccountSharedData::new(1, 9 << 20, &loader);
        program.set_executable(true);
        let programs = (0..count).map(|_| Pubkey::new_unique());
        programs.inspect(|key| drop(map.insert(*key, program.clone()))).collect()
    }

    #[test]
    fn a_program_in_use_outlives_a_flood_of_large_ones() {
        let mut map = genesis();
        let payer = wallet(&mut map);
        let mut set = working_set(&map);
        let in_use = make_mint(&mut map, token::id(), &payer);
        (0..20).for_each(|_| set.load(&map, &in_use.message));
        let large: Vec<VersionedTransaction> = add_large_programs(&mut map, 12)
            .into_iter()
            .map(|program_id| Instruction { program_id, accounts: Vec::new(), data: Vec::new() })
            .map(|call| sign(call, &payer))
            .collect();
        let flood = |set: &mut WorkingSet, rounds: usize| {
            for call in large.iter().cycle().take(rounds * large.len()) {
                set.load(&map, &call.message);
                assert!(set.code_usage().bytes <= ELF_BYTES_MAX + (9 << 20));
            }
        };
        flood(&mut set, 5);
        assert!(set.programs.contains_key(&token::id()));
        // It is no longer in use.
        flood(&mut set, 20);
        assert!(!set.programs.contains_key(&token::id()));
        set.load(&map, &in_use.message);
        assert_eq!(set.run(&in_use, None, &Hash::default()).result, Ok(()));
    }

    #[test]
    fn a_deployment_compiles_its_buffer_and_a_write_to_it_does_not() {
        let mut map = genesis();
        let payer = wallet(&mut map);
        let mut set = working_set(&map);
        let loader = bpf_loader_upgradeable::ID;
        let buffer = Pubkey::new_unique();
        map.insert(buffer, AccountSharedData::new(1, 5_000, &loader));
        let mut code_bytes = |program_id, tag: u32, accounts: &[Pubkey]| {
            let accounts = accounts.iter().map(|key| AccountMeta::new(*key, false)).collect();
            let data = tag.to_le_bytes().to_vec();
            let message = sign(Instruction { program_id, accounts, data }, &payer).message;
            set.load_without_code(&map, std::iter::once(&message));
            set.deployed_code_bytes(&message)
        };
        let [write, deploy, upgrade] = [1, 2, 3];
        assert_eq!(code_bytes(loader, write, &[buffer]), 0);
        assert_eq!(code_bytes(loader, deploy, &[buffer]), 5_000);
        assert_eq!(code_bytes(loader, upgrade, &[buffer]), 5_000);
        // Another program may call the loader if the transaction names it.
        assert_eq!(code_bytes(token::id(), write, &[buffer, loader]), 5_000);
        assert_eq!(code_bytes(token::id(), write, &[buffer]), 0);
    }

    #[test]
    fn an_evicted_program_that_was_absent_before_is_loaded_again() {
        let mut map = genesis();
        let payer = wallet(&mut map);
        let program = token::id();
        let deployed = map.remove(&program).expect("a program");
        let mut set = working_set(&map);
        assert_eq!(set.account(&map, &program), None);
        set.commit([(program, &deployed)].into_iter());
        map.insert(program, deployed);
        let large = add_large_programs(&mut map, 8);
        for program_id in large.into_iter().cycle().take(80) {
            let call = Instruction { program_id, accounts: Vec::new(), data: Vec::new() };
            set.load(&map, &sign(call, &payer).message);
        }
        assert!(!set.programs.contains_key(&program));
        let transaction = make_mint(&mut map, program, &payer);
        execute(&mut set, &mut map, &transaction);
    }

    #[test]
    fn a_transaction_with_too_much_code_has_none_of_it_compiled() {
        let mut map = genesis();
        let payer = wallet(&mut map);
        let mut set = working_set(&map);
        let programs = add_large_programs(&mut map, 8);
        let accounts = programs.iter().map(|key| AccountMeta::new_readonly(*key, false)).collect();
        let call =
            sign(Instruction { program_id: programs[0], accounts, data: Vec::new() }, &payer);
        let before = set.code_usage().compiled_bytes;
        let code_bytes = set.load_without_code(&map, std::iter::once(&call.message));
        assert_eq!(code_bytes, 8 * (9 << 20));
        set.load(&map, &call.message);
        let exceeded = Err(TransactionError::MaxLoadedAccountsDataSizeExceeded);
        assert_eq!(set.run(&call, None, &Hash::default()).result, exceeded);
        assert_eq!(set.code_usage().compiled_bytes, before);
        // One of them alone is compiled when it is called.
        let program_id = programs[3];
        let call = Instruction { program_id, accounts: Vec::new(), data: Vec::new() };
        set.load(&map, &sign(call, &payer).message);
        assert_eq!(set.code_usage().compiled_bytes, before + (9 << 20));
    }

    #[test]
    fn a_program_is_not_called_in_the_slot_in_which_it_was_deployed() {
        let mut map = genesis();
        let payer = wallet(&mut map);
        let program = token_2022::id();
        let deployed = map.remove(&program).expect("a program");
        let code = program_data_key(&deployed).expect("it is upgradeable");
        let mut program_data = map.remove(&code).expect("it has code");
        let mut set = working_set(&map);
        let slot = set.vm().slot();
        program_data.data_as_mut_slice()[4..12].copy_from_slice(&slot.to_le_bytes());

        // It was looked up before it existed.
        assert_eq!(set.account(&map, &program), None);
        set.commit([(program, &deployed), (code, &program_data)].into_iter());
        map.extend([(program, deployed), (code, program_data)]);

        let transaction = make_mint(&mut map, program, &payer);
        let run = |set: &mut WorkingSet, map: &Map| {
            set.load(map, &transaction.message);
            set.run(&transaction, None, &Hash::default()).result
        };
        let unsupported = InstructionError::UnsupportedProgramId;
        let not_yet = Err(TransactionError::InstructionError(0, unsupported));
        let mut simulation = set.clone_programs();
        assert_eq!(run(&mut set, &map), not_yet);
        assert_eq!(run(&mut simulation, &map), not_yet);

        let mut clock: Clock = set.vm().svm().get_sysvar();
        clock.slot += 1;
        simulation.clear();
        for set in [&mut set, &mut simulation] {
            set.vm_mut().svm_mut().set_sysvar(&clock);
            assert_eq!(run(set, &map), Ok(()));
        }
    }
}
