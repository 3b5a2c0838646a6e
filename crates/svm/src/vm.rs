//! The VM behind one interface: it runs a transaction and reports exactly which accounts change. The caller writes
//! the changes back.
//!
//! Shape: LiteSVM runs each transaction once, on `&self`. [`Vm::execute`] converts its result into an
//! [`ExecutionOutcome`], with fee and nonce of a failed transaction. [`Vm::put`] writes accounts back.
//! Invariant: a panic inside the VM ends that transaction only. Execution takes `&self`, so no partial change stays.
//! Not here: whether a transaction may run at all (`executor`), how the accounts that it names are loaded
//! (`working_set`).

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ledger::Slot;
use litesvm::LiteSVM;
use solana_account::{AccountSharedData, ReadableAccount, WritableAccount};
use solana_feature_set::FeatureSet;
use solana_fee::FeeFeatures;
use solana_hash::Hash;
use solana_instruction::error::InstructionError;
use solana_message::inner_instruction::InnerInstructionsList;
use solana_message::v0::LoadedAddresses;
use solana_message::{AddressLoader, SimpleAddressLoader, VersionedMessage};
use solana_nonce_account::{SystemAccountKind, get_system_account_kind};
use solana_pubkey::Pubkey;
use solana_runtime_transaction::transaction_meta::TransactionConfiguration;
use solana_sdk_ids::bpf_loader_upgradeable;
use solana_signature::Signature;
use solana_transaction::sanitized::{MAX_TX_ACCOUNT_LOCKS, MessageHash, SanitizedTransaction};
use solana_transaction::versioned::VersionedTransaction;
use solana_transaction_context::transaction::TransactionReturnData;
use solana_transaction_error::TransactionError;

use crate::loading::{self, Loaded, NotLoaded};
use crate::program_account::{closed_program, program_data_key};
use crate::runtime_limits::{LOG_BYTES_MAX, RuntimeLimits};
use crate::signature_fee::LAMPORTS_PER_SIGNATURE;
use crate::{nonce, precompiles};

/// Accounts that a transaction may name without the feature that raises the limit.
const ACCOUNT_LOCKS_MAX_BEFORE: usize = 64;

/// Accounts in memory and a VM that runs transactions on them.
#[derive(Clone)]
pub struct Vm {
    svm: LiteSVM,
    limits: RuntimeLimits,
}

/// The outcome of an execution or a simulation.
#[derive(Debug)]
pub struct ExecutionOutcome {
    /// The result of the transaction.
    pub result: Result<(), TransactionError>,
    /// Whether a block may contain it: it paid its fee, whatever its result.
    pub is_included: bool,
    /// Whether it ran. A transaction that is included and did not run paid its fee only.
    pub is_executed: bool,
    /// Bytes of accounts that it loaded, as its limit counts them. 0 if no block may contain it.
    pub loaded_bytes: u32,
    /// The fee in lamports that it paid.
    pub fee: u64,
    /// The log lines of the programs.
    pub logs: Vec<String>,
    /// The instructions that its programs called, one list for each of its own.
    pub inner_instructions: InnerInstructionsList,
    /// Return data of the last program that set any.
    pub return_data: TransactionReturnData,
    /// Compute units that were consumed.
    pub units_consumed: u64,
    /// Addresses from lookup tables.
    pub loaded_addresses: LoadedAddresses,
    /// Static keys, then loaded writable, then loaded read-only.
    pub keys: Vec<Pubkey>,
    /// Each key's account before, in the order of `keys`.
    pub before: Vec<AccountSharedData>,
    /// Each key's account after, in the order of `keys`.
    pub after: Vec<AccountSharedData>,
}

impl ExecutionOutcome {
    /// Returns the accounts that changed, and programs with changed code.
    pub fn writes(&self) -> impl Iterator<Item = (Pubkey, &AccountSharedData)> + Clone {
        let pairs = self.keys.iter().zip(self.before.iter().zip(&self.after));
        pairs
            .filter(|(_, (before, after))| !is_same(before, after) || self.is_upgraded(after))
            .map(|(key, (_, after))| (*key, after))
    }

    /// Returns each account that it names, before and after.
    pub fn changes(
        &self,
    ) -> impl Iterator<Item = (&Pubkey, &AccountSharedData, &AccountSharedData)> {
        let pairs = self.keys.iter().zip(self.before.iter().zip(&self.after));
        pairs.map(|(key, (before, after))| (key, before, after))
    }

    /// Returns whether this is a program with changed code. An upgrade writes only the program data, but the program
    /// has to be loaded again.
    fn is_upgraded(&self, program: &AccountSharedData) -> bool {
        if !program.executable() {
            return false;
        }
        let Some(code) = program_data_key(program) else { return false };
        let index = self.keys.iter().position(|key| *key == code);
        index.is_some_and(|index| !is_same(&self.before[index], &self.after[index]))
    }

    fn new_refused(
        keys: AccountKeys,
        before: Vec<AccountSharedData>,
        err: TransactionError,
    ) -> Self {
        Self {
            result: Err(err),
            is_included: false,
            is_executed: false,
            loaded_bytes: 0,
            fee: 0,
            logs: Vec::new(),
            inner_instructions: Vec::new(),
            return_data: TransactionReturnData::default(),
            units_consumed: 0,
            loaded_addresses: keys.loaded,
            keys: keys.all,
            after: before.clone(),
            before,
        }
    }
}

/// All keys that a transaction names.
pub struct AccountKeys {
    /// Static keys, then loaded writable, then loaded read-only.
    pub all: Vec<Pubkey>,
    /// The keys from lookup tables.
    pub loaded: LoadedAddresses,
}

impl AccountKeys {
    fn new(message: &VersionedMessage, loaded: LoadedAddresses) -> Self {
        let mut all = message.static_account_keys().to_vec();
        all.extend_from_slice(&loaded.writable);
        all.extend_from_slice(&loaded.readonly);
        Self { all, loaded }
    }
}

/// A transaction with loaded accounts, ready to run.
pub struct ReadyTransaction {
    keys: AccountKeys,
    /// Each key's account, in the order of the keys.
    before: Vec<AccountSharedData>,
    loaded: Loaded,
}

impl ReadyTransaction {
    /// Returns the programs that it calls and that are not deployed, with their accounts.
    pub fn undeployed_programs(&self) -> impl Iterator<Item = (Pubkey, &AccountSharedData)> {
        let pairs = self.keys.all.iter().zip(&self.before);
        pairs
            .filter(|(key, _)| self.loaded.undeployed.contains(key))
            .map(|(key, account)| (*key, account))
    }
}

/// The fee of a transaction that a block may contain, and its limit of loaded bytes.
struct Terms {
    fee: u64,
    loaded_bytes_max: u32,
}

impl Vm {
    /// Creates a VM with features and builtins, with their accounts and the sysvars. It has no other programs.
    pub fn new(features: FeatureSet) -> Self {
        let svm = Self::without_programs(features).svm.with_sysvars().with_feature_accounts();
        let mut vm = Self { svm, limits: RuntimeLimits::default() };
        precompiles::add(&mut vm.svm);
        vm
    }

    /// Returns a VM with features and the builtins that they allow. Its only accounts are those of the builtins.
    pub fn without_programs(features: FeatureSet) -> Self {
        let svm = LiteSVM::default()
            .with_feature_set(features)
            .with_builtins()
            .with_sigverify(false)
            .with_blockhash_check(false)
            .with_transaction_history(0)
            .with_log_bytes_limit(Some(LOG_BYTES_MAX));
        Self { svm, limits: RuntimeLimits::default() }
    }

    /// Replaces the runtime limits of transactions.
    #[must_use]
    pub fn with_limits(self, limits: RuntimeLimits) -> Self {
        Self { svm: limits.apply(self.svm), limits }
    }

    /// Returns the limits of transactions.
    pub fn limits(&self) -> RuntimeLimits {
        self.limits
    }

    /// Returns the features that are active.
    pub fn features(&self) -> &FeatureSet {
        self.svm.get_feature_set_ref()
    }

    /// Returns every account in the VM.
    pub fn accounts(&self) -> impl Iterator<Item = (&Pubkey, &AccountSharedData)> {
        self.svm.accounts_db().inner.iter()
    }

    /// Returns the account of a key.
    pub fn account(&self, key: &Pubkey) -> Option<&AccountSharedData> {
        self.svm.accounts_db().get_account_ref(key)
    }

    /// Returns the VM itself, to write sysvars.
    pub fn svm_mut(&mut self) -> &mut LiteSVM {
        &mut self.svm
    }

    /// Returns the VM itself, to read sysvars and rent.
    pub fn svm(&self) -> &LiteSVM {
        &self.svm
    }

    /// Returns the keys that a message names, lookup tables resolved.
    pub fn keys(&self, message: &VersionedMessage) -> Result<AccountKeys, TransactionError> {
        let loaded = match message.address_table_lookups() {
            Some(lookups) if !lookups.is_empty() => {
                self.svm.accounts_db().load_addresses(lookups)?
            }
            _ => LoadedAddresses::default(),
        };
        Ok(AccountKeys::new(message, loaded))
    }

    /// Loads the accounts that a transaction names. An error is the outcome of a transaction that does not run: no
    /// block may contain it, or it only pays its fee. `nonce` and `last_blockhash` are those of [`Self::execute`];
    /// `program_data_bytes` returns the size of a program's code account.
    pub fn load(
        &self,
        transaction: &VersionedTransaction,
        nonce: Option<Pubkey>,
        last_blockhash: &Hash,
        program_data_bytes: impl Fn(&Pubkey) -> Option<usize>,
    ) -> Result<ReadyTransaction, Box<ExecutionOutcome>> {
        let message = &transaction.message;
        let keys = match self.keys(message) {
            Ok(keys) => keys,
            Err(err) => {
                let keys = AccountKeys::new(message, LoadedAddresses::default());
                let before = self.read_accounts(&keys.all);
                return Err(Box::new(ExecutionOutcome::new_refused(keys, before, err)));
            }
        };
        let before = self.read_accounts(&keys.all);
        if self.limits.account_locks.is_some_and(|limit| keys.all.len() > limit) {
            let err = TransactionError::TooManyAccountLocks;
            return Err(Box::new(ExecutionOutcome::new_refused(keys, before, err)));
        }
        // Most transactions set no limit, and their budget need not be parsed for it.
        let (bytes_max, terms) = match loading::bytes_max(message) {
            Some(bytes_max) => (bytes_max, None),
            None => match self.terms(transaction, &keys, &before) {
                Ok(terms) => (terms.loaded_bytes_max, Some(terms)),
                Err(err) => return Err(Box::new(ExecutionOutcome::new_refused(keys, before, err))),
            },
        };
        if matches!(message, VersionedMessage::V1(_)) && !self.features().snapshot().enable_tx_v1 {
            let err = TransactionError::UnsupportedVersion;
            return Err(Box::new(ExecutionOutcome::new_refused(keys, before, err)));
        }
        match loading::load(message, &keys.all, &before, bytes_max, program_data_bytes) {
            Ok(loaded) => Ok(ReadyTransaction { keys, before, loaded }),
            Err(NotLoaded { err, bytes }) => {
                let terms = terms.map_or_else(|| self.terms(transaction, &keys, &before), Ok);
                Err(Box::new(match terms {
                    Err(err) => ExecutionOutcome::new_refused(keys, before, err),
                    Ok(Terms { fee, .. }) => {
                        let mut outcome = ExecutionOutcome::new_refused(keys, before, err);
                        outcome.charge(fee, nonce, last_blockhash);
                        outcome.loaded_bytes = self.fee_only_bytes(bytes, nonce, &outcome);
                        outcome
                    }
                }))
            }
        }
    }

    /// Returns the bytes that count for a transaction that only pays: its loaded accounts, or its payer and nonce
    /// account.
    fn fee_only_bytes(
        &self,
        loaded: u32,
        nonce: Option<Pubkey>,
        outcome: &ExecutionOutcome,
    ) -> u32 {
        if self.features().snapshot().define_ltds_fee_only_semantics {
            return loaded;
        }
        let payer = outcome.keys.first().copied();
        let written = payer.into_iter().chain(nonce.filter(|nonce| Some(*nonce) != payer));
        let bytes =
            written.filter_map(|key| self.account(&key)).map(|account| account.data().len());
        u32::try_from(bytes.sum::<usize>()).unwrap_or(u32::MAX)
    }

    /// Returns the fee and the load limit of a transaction, or why no block may contain it. In the order of Agave's
    /// checks.
    fn terms(
        &self,
        transaction: &VersionedTransaction,
        keys: &AccountKeys,
        before: &[AccountSharedData],
    ) -> Result<Terms, TransactionError> {
        let sanitized = SanitizedTransaction::try_create(
            transaction.clone(),
            MessageHash::Precomputed(Hash::default()),
            Some(false),
            SimpleAddressLoader::Enabled(keys.loaded.clone()),
            // Write locks do not matter here.
            &HashSet::new(),
        )?;
        let message = sanitized.message();
        SanitizedTransaction::validate_account_locks(message, self.account_locks_max())?;
        let budget =
            TransactionConfiguration::try_from_sanitized_message(message, self.features())?;
        let fee = solana_fee::calculate_fee(
            message,
            LAMPORTS_PER_SIGNATURE,
            budget.priority_fee_lamports,
            FeeFeatures::from(self.features()),
        );
        self.check_payer(before.first(), fee)?;
        Ok(Terms { fee, loaded_bytes_max: budget.loaded_accounts_data_size_limit })
    }

    /// Returns the maximum number of accounts that a transaction may name.
    fn account_locks_max(&self) -> usize {
        if self.features().snapshot().increase_tx_account_lock_limit {
            MAX_TX_ACCOUNT_LOCKS
        } else {
            ACCOUNT_LOCKS_MAX_BEFORE
        }
    }

    /// Runs a loaded transaction and writes nothing. `nonce` is the nonce account that it advances, if its
    /// blockhash is a durable nonce; such an account advances to `last_blockhash`. The caller has to
    /// [close](Self::put_closed) its programs that are not deployed while it runs.
    pub fn execute(
        &self,
        transaction: &VersionedTransaction,
        ready: ReadyTransaction,
        nonce: Option<Pubkey>,
        last_blockhash: &Hash,
    ) -> ExecutionOutcome {
        let ReadyTransaction { keys, before, loaded } = ready;
        // The VM advances nonces to the message's blockhash, as if it were the newest one. Nothing else reads it,
        // so it is set to the newest one.
        let mut transaction_to_run = transaction.clone();
        transaction_to_run.message.set_recent_blockhash(*last_blockhash);
        // Boxed in the closure, so that unwinding carries a pointer and not the whole result.
        let run = || self.svm.simulate_transaction(transaction_to_run).map_err(Box::new);
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(Ok(info)) => {
                let mut after = before.clone();
                for (key, mut account) in info.post_accounts {
                    trim(&mut account);
                    if let Some(index) = keys.all.iter().position(|known| *known == key) {
                        after[index] = account;
                    }
                }
                ExecutionOutcome {
                    result: Ok(()),
                    is_included: true,
                    is_executed: true,
                    loaded_bytes: loaded.bytes,
                    fee: info.meta.fee,
                    logs: info.meta.logs,
                    inner_instructions: info.meta.inner_instructions,
                    return_data: info.meta.return_data,
                    units_consumed: info.meta.compute_units_consumed,
                    loaded_addresses: keys.loaded,
                    keys: keys.all,
                    before,
                    after,
                }
            }
            Ok(Err(failed)) => {
                // LiteSVM returns a signature only if the transaction got a context, which needs a payer that can
                // pay. A transaction that fails to load its programs or accounts pays as well.
                let fee = failed.meta.fee;
                let is_executed = failed.meta.signature != Signature::default();
                let included = is_executed
                    || (is_load_failure(&failed.err)
                        && self.check_payer(before.first(), fee).is_ok());
                let mut outcome = ExecutionOutcome::new_refused(keys, before, failed.err);
                outcome.is_executed = is_executed;
                outcome.logs = failed.meta.logs;
                outcome.inner_instructions = failed.meta.inner_instructions;
                outcome.return_data = failed.meta.return_data;
                outcome.units_consumed = failed.meta.compute_units_consumed;
                if included {
                    outcome.loaded_bytes = loaded.bytes;
                    outcome.charge(fee, nonce, last_blockhash);
                }
                outcome
            }
            Err(_) => {
                let fee = LAMPORTS_PER_SIGNATURE * transaction.signatures.len() as u64;
                let err = TransactionError::InstructionError(
                    0,
                    InstructionError::ProgramFailedToComplete,
                );
                tracing::error!(signature = ?transaction.signatures.first(), "the VM panicked");
                let mut outcome = ExecutionOutcome::new_refused(keys, before, err);
                outcome.is_executed = true;
                outcome.loaded_bytes = loaded.bytes;
                outcome.charge(fee, nonce, last_blockhash);
                outcome
            }
        }
    }

    /// Writes one account. A program that does not load is stored as data: only a call of it fails, as on Agave.
    pub fn put(&mut self, key: Pubkey, account: &AccountSharedData) {
        let is_plain = !account.executable()
            && account.lamports() > 0
            && account.owner() != &solana_sdk_ids::sysvar::id();
        if !is_plain {
            if let Err(err) = self.svm.set_account(key, account.clone().into()) {
                tracing::debug!(%key, %err, "not loadable, stored as data");
                if account.executable() {
                    self.close(key);
                }
            } else if account.lamports() == 0 {
                return;
            }
        }
        self.svm.set_account_no_checks(key, account.clone());
    }

    /// Writes an account without compiling it.
    pub fn put_as_data(&mut self, key: Pubkey, account: &AccountSharedData) {
        self.svm.set_account_no_checks(key, account.clone());
    }

    /// Writes an account as a program that is not deployed, for a transaction that must fail.
    pub fn put_closed(&mut self, key: Pubkey, account: &AccountSharedData) {
        let mut closed = account.clone();
        closed.set_owner(bpf_loader_upgradeable::ID);
        closed.set_executable(true);
        self.put_invisible_program(key, &closed);
    }

    /// Writes a program that may not be called yet.
    pub fn put_invisible_program(&mut self, key: Pubkey, program: &AccountSharedData) {
        self.close(key);
        self.svm.set_account_no_checks(key, program.clone());
    }

    /// Removes a program and its code. A small entry remains.
    pub fn remove_program(&mut self, key: Pubkey) {
        self.close(key);
        self.remove(key);
    }

    /// Returns the slot that programs see.
    pub fn slot(&self) -> Slot {
        self.svm.accounts_db().sysvar_cache.get_clock().map_or(0, |clock| clock.slot)
    }

    /// Makes a call of a program fail as one that is not deployed. The caller has to set its account again.
    fn close(&mut self, key: Pubkey) {
        self.remove(key);
        // The account is well-formed, so the VM accepts it as closed.
        let _ = self.svm.set_account(key, closed_program(&key).into());
    }

    /// Removes an account from the VM.
    pub fn remove(&mut self, key: Pubkey) {
        // An account without lamports and without code is removed, and cannot fail to load.
        let _ = self.svm.set_account(key, solana_account::Account::default());
    }

    /// Checks that an account may pay a fee: a wallet or a nonce account with enough lamports, which is rent exempt or
    /// empty after it.
    fn check_payer(
        &self,
        payer: Option<&AccountSharedData>,
        fee: u64,
    ) -> Result<(), TransactionError> {
        let payer = payer.filter(|payer| payer.lamports() > 0);
        let payer = payer.ok_or(TransactionError::AccountNotFound)?;
        let exempt = self.svm.minimum_balance_for_rent_exemption(payer.data().len());
        let left_min = match get_system_account_kind(payer) {
            Some(SystemAccountKind::System) => 0,
            Some(SystemAccountKind::Nonce) => exempt,
            None => return Err(TransactionError::InvalidAccountForFee),
        };
        let left = payer.lamports().checked_sub(fee).filter(|left| *left >= left_min);
        let left = left.ok_or(TransactionError::InsufficientFundsForFee)?;
        // LiteSVM lets an account pay that was not rent exempt before.
        if left > 0 && left < exempt && payer.lamports() >= exempt {
            return Err(TransactionError::InsufficientFundsForRent { account_index: 0 });
        }
        Ok(())
    }

    fn read_accounts(&self, keys: &[Pubkey]) -> Vec<AccountSharedData> {
        keys.iter().map(|key| self.account(key).cloned().unwrap_or_default()).collect()
    }
}

/// Frees the spare capacity that the VM reserves for growth: 10 KiB for each written account.
fn trim(account: &mut AccountSharedData) {
    let len = account.data().len();
    if account.capacity() - len > len / 4 {
        *account = AccountSharedData::create_from_existing_shared_data(
            account.lamports(),
            Arc::new(account.data().to_vec()),
            *account.owner(),
            account.executable(),
            account.rent_epoch(),
        );
    }
}

/// Returns whether two accounts are equal. Shared data is not compared byte by byte, because programs are large.
pub fn is_same(one: &AccountSharedData, other: &AccountSharedData) -> bool {
    if std::ptr::eq(one.data(), other.data()) {
        return one.lamports() == other.lamports()
            && one.owner() == other.owner()
            && one.executable() == other.executable()
            && one.rent_epoch() == other.rent_epoch();
    }
    one == other
}

/// Returns whether a transaction failed because an account or a program does not load.
fn is_load_failure(err: &TransactionError) -> bool {
    matches!(
        err,
        TransactionError::MaxLoadedAccountsDataSizeExceeded
            | TransactionError::InvalidProgramForExecution
            | TransactionError::ProgramAccountNotFound
    )
}

impl ExecutionOutcome {
    /// Takes the fee of a failed transaction and advances its nonce.
    fn charge(&mut self, fee: u64, nonce: Option<Pubkey>, last_blockhash: &Hash) {
        let Some(payer) = self.after.first_mut() else { return };
        let fee = fee.min(payer.lamports());
        payer.set_lamports(payer.lamports() - fee);
        self.fee = fee;
        self.is_included = true;
        if let Some(index) = nonce.and_then(|nonce| self.keys.iter().position(|key| *key == nonce))
        {
            nonce::advance(&mut self.after[index], last_blockhash);
        }
    }
}

#[cfg(test)]
impl Vm {
    /// Runs a transaction that calls nothing but builtin programs.
    pub(crate) fn run(
        &self,
        transaction: &VersionedTransaction,
        last_blockhash: &Hash,
    ) -> ExecutionOutcome {
        match self.load(transaction, None, last_blockhash, |_| None) {
            Ok(ready) => self.execute(transaction, ready, None, last_blockhash),
            Err(outcome) => *outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use solana_feature_set::raise_cpi_nesting_limit_to_8;
    use solana_instruction::Instruction;
    use solana_keypair::Keypair;
    use solana_message::Message;
    use solana_program_runtime::declare_process_instruction;
    use solana_program_runtime::solana_sbpf::program::BuiltinFunctionDefinition;
    use solana_signer::Signer;

    use super::*;

    fn every_feature() -> FeatureSet {
        FeatureSet::all_enabled()
    }

    declare_process_instruction!(Panics, 1, |_context| { panic!("a builtin's bug") });

    const PROGRAM: Pubkey = Pubkey::new_from_array([7; 32]);

    // Calls itself as many times as its instruction data says.
    declare_process_instruction!(Recurses, 1, |context| {
        let current = context.transaction_context.get_current_instruction_context()?;
        let left = current.get_instruction_data().first().copied().unwrap_or(0);
        match left.checked_sub(1) {
            Some(left) => context.native_invoke_signed(recursion(left), &[]),
            None => Ok(()),
        }
    });

    fn recursion(depth: u8) -> Instruction {
        let program = solana_instruction::AccountMeta::new_readonly(PROGRAM, false);
        Instruction { program_id: PROGRAM, accounts: vec![program], data: vec![depth] }
    }

    #[test]
    fn programs_call_each_other_as_deep_as_the_features_allow() {
        let mut fewer = every_feature();
        fewer.deactivate(&raise_cpi_nesting_limit_to_8::ID);
        for (features, most) in [(every_feature(), 8), (fewer, 4)] {
            let mut vm = Vm::new(features);
            vm.svm_mut().add_builtin(PROGRAM, Recurses::register);
            let payer = Keypair::new();
            let wallet = AccountSharedData::new(1 << 30, 0, &solana_sdk_ids::system_program::ID);
            vm.put(payer.pubkey(), &wallet);
            let result = |depth| {
                let message = Message::new(&[recursion(depth)], Some(&payer.pubkey()));
                let message = VersionedMessage::Legacy(message);
                let transaction = VersionedTransaction::try_new(message, &[&payer]);
                vm.run(&transaction.expect("signers fit"), &Hash::default()).result
            };
            assert_eq!(result(most), Ok(()));
            let too_deep = TransactionError::InstructionError(0, InstructionError::CallDepth);
            assert_eq!(result(most + 1), Err(too_deep));
        }
    }

    fn call(payer: &Keypair, program_id: Pubkey) -> VersionedTransaction {
        let call = Instruction { program_id, accounts: Vec::new(), data: Vec::new() };
        let message = VersionedMessage::Legacy(Message::new(&[call], Some(&payer.pubkey())));
        VersionedTransaction::try_new(message, &[payer]).expect("signers fit")
    }

    #[test]
    fn a_panic_in_the_vm_fails_its_transaction_and_no_other() {
        let mut vm = Vm::new(every_feature());
        vm.svm_mut().add_builtin(PROGRAM, Panics::register);
        let payer = Keypair::new();
        let lamports = 1_000_000_000;
        let wallet = AccountSharedData::new(lamports, 0, &solana_sdk_ids::system_program::ID);
        vm.put(payer.pubkey(), &wallet);

        let outcome = vm.run(&call(&payer, PROGRAM), &Hash::default());
        let err = InstructionError::ProgramFailedToComplete;
        assert_eq!(outcome.result, Err(TransactionError::InstructionError(0, err)));
        assert!(outcome.is_included);
        let writes: Vec<_> =
            outcome.writes().map(|(key, account)| (key, account.lamports())).collect();
        assert_eq!(writes, [(payer.pubkey(), lamports - LAMPORTS_PER_SIGNATURE)]);

        let next = vm.run(&call(&payer, solana_sdk_ids::vote::ID), &Hash::default());
        assert!(matches!(next.result, Err(TransactionError::InstructionError(0, _))));
    }

    // Writes to its account.
    declare_process_instruction!(Writes, 1, |context| {
        let current = context.transaction_context.get_current_instruction_context()?;
        current.try_borrow_instruction_account(0)?.set_data_from_slice(&[1; 100])
    });

    #[test]
    fn a_written_account_has_no_spare_capacity() {
        let mut vm = Vm::new(every_feature());
        vm.svm_mut().add_builtin(PROGRAM, Writes::register);
        let payer = Keypair::new();
        let written = Pubkey::new_from_array([8; 32]);
        let wallet = AccountSharedData::new(1 << 30, 0, &solana_sdk_ids::system_program::ID);
        vm.put(payer.pubkey(), &wallet);
        vm.put(written, &AccountSharedData::new(1 << 30, 100, &PROGRAM));
        let accounts = vec![solana_instruction::AccountMeta::new(written, false)];
        let call = Instruction { program_id: PROGRAM, accounts, data: Vec::new() };
        let message = VersionedMessage::Legacy(Message::new(&[call], Some(&payer.pubkey())));
        let transaction = VersionedTransaction::try_new(message, &[&payer]).expect("signers fit");
        let outcome = vm.run(&transaction, &Hash::default());
        assert_eq!(outcome.result, Ok(()));
        let (_, after) = outcome.writes().find(|(key, _)| *key == written).expect("it was written");
        assert_eq!(after.data(), [1; 100]);
        assert!(after.capacity() <= 125, "{}", after.capacity());
    }

    #[test]
    fn a_payer_that_cannot_pay_is_not_included() {
        let vm = Vm::new(every_feature());
        let outcome = vm.run(&call(&Keypair::new(), PROGRAM), &Hash::default());
        assert_eq!(outcome.result, Err(TransactionError::AccountNotFound));
        assert!(!outcome.is_included);
        assert_eq!(outcome.writes().count(), 0);
    }

    #[test]
    fn a_nonce_advances_once_a_block_whatever_blockhash_its_transactions_name() {
        let mut vm = Vm::new(every_feature());
        let payer = Keypair::new();
        let nonce = Pubkey::new_unique();
        let system = solana_sdk_ids::system_program::ID;
        vm.put(payer.pubkey(), &AccountSharedData::new(1 << 40, 0, &system));
        let hash = |n| Hash::new_from_array([n; 32]);
        let data = solana_nonce::state::Data::new(
            payer.pubkey(),
            solana_nonce::state::DurableNonce::from_blockhash(&hash(1)),
            LAMPORTS_PER_SIGNATURE,
        );
        let state = solana_nonce::state::State::Initialized(data);
        let versions = solana_nonce::versions::Versions::new(state);
        let account = AccountSharedData::new_data(1 << 30, &versions, &system);
        vm.put(nonce, &account.expect("a nonce account"));

        let advance =
            solana_system_interface::instruction::advance_nonce_account(&nonce, &payer.pubkey());
        let run = |vm: &mut Vm, named: Hash, newest: Hash| {
            let instructions = std::slice::from_ref(&advance);
            let mut message = Message::new(instructions, Some(&payer.pubkey()));
            message.recent_blockhash = named;
            let message = VersionedMessage::Legacy(message);
            let transaction = VersionedTransaction::try_new(message, &[&payer]).expect("signed");
            let outcome = vm.run(&transaction, &newest);
            outcome.writes().for_each(|(key, account)| vm.put(key, account));
            outcome.result
        };
        let again = InstructionError::Custom(7); // NonceBlockhashNotExpired
        let again = Err(TransactionError::InstructionError(0, again));
        assert_eq!(run(&mut vm, hash(2), hash(9)), Ok(()));
        assert_eq!(run(&mut vm, hash(3), hash(9)), again);
        assert_eq!(run(&mut vm, hash(2), hash(9)), again);
        assert_eq!(run(&mut vm, hash(2), hash(10)), Ok(()));
    }
}
