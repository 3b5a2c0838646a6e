//! The VM behind one interface: run a transaction, learn exactly what it changes, keep what it
//! changed only when told to.
//!
//! Shape: LiteSVM runs each transaction once, on `&self`; [`Vm::run`] turns what it tells into an
//! [`Outcome`], fee and nonce of a failed transaction included; [`Vm::commit`] writes accounts back.
//! Invariant: a panic inside the VM ends that transaction only: running takes `&self`, so nothing
//! half-done can stay.
//! Not here: whether a transaction may run at all (`executor`), how the accounts that it names come in
//! (`working_set`).

use std::panic::{AssertUnwindSafe, catch_unwind};

use ledger::Slot;
use litesvm::LiteSVM;
use solana_account::{AccountSharedData, ReadableAccount, WritableAccount};
use solana_hash::Hash;
use solana_instruction::error::InstructionError;
use solana_message::inner_instruction::InnerInstructionsList;
use solana_message::v0::LoadedAddresses;
use solana_message::{AddressLoader, VersionedMessage};
use solana_pubkey::Pubkey;
use solana_sdk_ids::bpf_loader_upgradeable;
use solana_signature::Signature;
use solana_transaction::versioned::VersionedTransaction;
use solana_transaction_context::transaction::TransactionReturnData;
use solana_transaction_error::TransactionError;

use crate::{nonce, precompiles};

/// Lamports that each signature costs.
pub(crate) const LAMPORTS_PER_SIGNATURE: u64 = 5_000;
/// Bytes of logs kept for a transaction, as Agave keeps.
const LOG_BYTES_MAX: usize = 10_000;
/// The first byte of a program under the upgradeable loader.
const PROGRAM_TAG: u8 = 2;
/// The first byte of a program's data account under the upgradeable loader.
const PROGRAM_DATA_TAG: u8 = 3;
/// Where program data holds the slot in which it was deployed, after the tag.
const DEPLOYED_SLOT_AT: usize = 4;
/// Where a program account holds the address of its program data, after the tag.
const PROGRAM_DATA_KEY_AT: usize = 4;
const PROGRAM_SIZE: usize = 36;

/// Where a program of the upgradeable loader has its code.
pub(crate) fn program_data_key(program: &AccountSharedData) -> Option<Pubkey> {
    if program.owner() != &bpf_loader_upgradeable::id() {
        return None;
    }
    let key = program.data().get(PROGRAM_DATA_KEY_AT..PROGRAM_SIZE)?;
    Pubkey::try_from(key).ok()
}

/// The slot in which a program's code was deployed, as its program data says.
pub(crate) fn deployed_slot(program_data: &AccountSharedData) -> Option<Slot> {
    let is_ours = program_data.owner() == &bpf_loader_upgradeable::id()
        && program_data.data().first() == Some(&PROGRAM_DATA_TAG);
    let slot = program_data.data().get(DEPLOYED_SLOT_AT..)?.first_chunk()?;
    is_ours.then_some(Slot::from_le_bytes(*slot))
}

/// Accounts in memory and a VM that runs transactions on them.
#[derive(Clone)]
pub(crate) struct Vm {
    svm: LiteSVM,
}

/// What a transaction did, or would do.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) result: Result<(), TransactionError>,
    /// Whether a block may hold it: it paid its fee, whatever its result.
    pub(crate) included: bool,
    pub(crate) fee: u64,
    pub(crate) logs: Vec<String>,
    pub(crate) inner_instructions: InnerInstructionsList,
    pub(crate) return_data: TransactionReturnData,
    pub(crate) units_consumed: u64,
    pub(crate) loaded_addresses: LoadedAddresses,
    /// Static keys, then loaded writable, then loaded read-only.
    pub(crate) keys: Vec<Pubkey>,
    /// Each key's account before, in the order of `keys`.
    pub(crate) before: Vec<AccountSharedData>,
    /// Each key's account after, in the order of `keys`.
    pub(crate) after: Vec<AccountSharedData>,
}

impl Outcome {
    /// The accounts that are not as they were, and programs whose code is not.
    pub(crate) fn writes(&self) -> impl Iterator<Item = (Pubkey, &AccountSharedData)> + Clone {
        let pairs = self.keys.iter().zip(self.before.iter().zip(&self.after));
        pairs
            .filter(|(_, (before, after))| !is_same(before, after) || self.is_upgraded(after))
            .map(|(key, (_, after))| (*key, after))
    }

    /// Each account that it names, as it was before and as it is after.
    pub(crate) fn changes(
        &self,
    ) -> impl Iterator<Item = (&Pubkey, &AccountSharedData, &AccountSharedData)> {
        let pairs = self.keys.iter().zip(self.before.iter().zip(&self.after));
        pairs.map(|(key, (before, after))| (key, before, after))
    }

    /// Whether it ran, however it ended. One whose accounts or programs do not load pays and runs not.
    pub(crate) fn is_executed(&self) -> bool {
        self.included && !self.result.as_ref().is_err_and(is_load_failure)
    }

    /// Whether this is a program whose code was changed: an upgrade writes the program data, and the
    /// program, though its own bytes stay as they are, has to be loaded again.
    fn is_upgraded(&self, program: &AccountSharedData) -> bool {
        if !program.executable() {
            return false;
        }
        let Some(code) = program_data_key(program) else { return false };
        let place = self.keys.iter().position(|key| *key == code);
        place.is_some_and(|place| !is_same(&self.before[place], &self.after[place]))
    }

    fn refused(keys: Keys, before: Vec<AccountSharedData>, err: TransactionError) -> Self {
        Self {
            result: Err(err),
            included: false,
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
pub(crate) struct Keys {
    pub(crate) all: Vec<Pubkey>,
    pub(crate) loaded: LoadedAddresses,
}

impl Keys {
    fn of(message: &VersionedMessage, loaded: LoadedAddresses) -> Self {
        let mut all = message.static_account_keys().to_vec();
        all.extend_from_slice(&loaded.writable);
        all.extend_from_slice(&loaded.readonly);
        Self { all, loaded }
    }
}

impl Vm {
    /// A VM with mainnet's features, the builtins, and the programs everybody expects deployed.
    pub(crate) fn new() -> Self {
        let mut svm = LiteSVM::default()
            .with_mainnet_features()
            .with_builtins()
            .with_sysvars()
            .with_feature_accounts()
            .with_default_programs()
            .with_sigverify(false)
            .with_blockhash_check(false)
            .with_transaction_history(0)
            .with_log_bytes_limit(Some(LOG_BYTES_MAX));
        precompiles::add(&mut svm);
        Self { svm }
    }

    /// A VM with mainnet's features and builtins, and no account but theirs.
    pub(crate) fn bare() -> Self {
        let svm = LiteSVM::default()
            .with_mainnet_features()
            .with_builtins()
            .with_sigverify(false)
            .with_blockhash_check(false)
            .with_transaction_history(0)
            .with_log_bytes_limit(Some(LOG_BYTES_MAX));
        Self { svm }
    }

    /// Adds the precompiles whose accounts are there.
    pub(crate) fn restore_precompiles(&mut self) {
        precompiles::restore(&mut self.svm);
    }

    /// Every account that the VM holds.
    pub(crate) fn accounts(&self) -> impl Iterator<Item = (&Pubkey, &AccountSharedData)> {
        self.svm.accounts_db().inner.iter()
    }

    /// One account.
    pub(crate) fn account(&self, key: &Pubkey) -> Option<&AccountSharedData> {
        self.svm.accounts_db().get_account_ref(key)
    }

    /// Gives access to what sysvars need.
    pub(crate) fn svm_mut(&mut self) -> &mut LiteSVM {
        &mut self.svm
    }

    /// Gives access to sysvars and rent.
    pub(crate) fn svm(&self) -> &LiteSVM {
        &self.svm
    }

    /// The keys that a message names, lookup tables resolved.
    pub(crate) fn keys(&self, message: &VersionedMessage) -> Result<Keys, TransactionError> {
        let loaded = match message.address_table_lookups() {
            Some(lookups) if !lookups.is_empty() => {
                self.svm.accounts_db().load_addresses(lookups)?
            }
            _ => LoadedAddresses::default(),
        };
        Ok(Keys::of(message, loaded))
    }

    /// Runs a transaction and keeps nothing. `nonce` is the nonce account that it advances, if its
    /// blockhash is a durable nonce; `last_blockhash` is what such an account advances to.
    pub(crate) fn run(
        &self,
        transaction: &VersionedTransaction,
        nonce: Option<Pubkey>,
        last_blockhash: &Hash,
    ) -> Outcome {
        let keys = match self.keys(&transaction.message) {
            Ok(keys) => keys,
            Err(err) => {
                let keys = Keys::of(&transaction.message, LoadedAddresses::default());
                let before = self.load(&keys.all);
                return Outcome::refused(keys, before, err);
            }
        };
        let before = self.load(&keys.all);
        // The VM takes the message's blockhash for the newest, by which nonces advance; as nobody else
        // looks at it, the newest it is.
        let mut named = transaction.clone();
        named.message.set_recent_blockhash(*last_blockhash);
        // Boxed in the closure, so that unwinding carries a pointer and not the whole answer.
        let run = || self.svm.simulate_transaction(named).map_err(Box::new);
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(Ok(mut info)) => {
                precompiles::strip_logs(&mut info.meta.logs);
                let mut after = before.clone();
                for (key, account) in info.post_accounts {
                    if let Some(place) = keys.all.iter().position(|known| *known == key) {
                        after[place] = account;
                    }
                }
                Outcome {
                    result: Ok(()),
                    included: true,
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
            Ok(Err(mut failed)) => {
                precompiles::strip_logs(&mut failed.meta.logs);
                // LiteSVM names the transaction only once it has a context, which is once its payer
                // could pay. One whose programs or accounts do not load pays all the same.
                let fee = failed.meta.fee;
                let included = failed.meta.signature != Signature::default()
                    || (is_load_failure(&failed.err) && self.can_pay(before.first(), fee));
                let mut outcome = Outcome::refused(keys, before, failed.err);
                outcome.logs = failed.meta.logs;
                outcome.inner_instructions = failed.meta.inner_instructions;
                outcome.return_data = failed.meta.return_data;
                outcome.units_consumed = failed.meta.compute_units_consumed;
                if included {
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
                let mut outcome = Outcome::refused(keys, before, err);
                outcome.charge(fee, nonce, last_blockhash);
                outcome
            }
        }
    }

    /// Keeps one account. A program that does not load is kept as data: calling it fails, as on
    /// Agave, and nothing else does.
    pub(crate) fn put(&mut self, key: Pubkey, account: &AccountSharedData) {
        let is_plain = !account.executable()
            && account.lamports() > 0
            && account.owner() != &solana_sdk_ids::sysvar::id();
        if !is_plain {
            if let Err(err) = self.svm.set_account(key, account.clone().into()) {
                tracing::debug!(%key, %err, "not loadable, kept as data");
                self.forget_code(key);
            } else if account.lamports() == 0 {
                return;
            }
        }
        self.svm.set_account_no_checks(key, account.clone());
    }

    /// Keeps a program that is not to be called yet.
    pub(crate) fn put_undeployed(&mut self, key: Pubkey, program: &AccountSharedData) {
        self.close(key);
        self.svm.set_account_no_checks(key, program.clone());
    }

    /// The slot that programs see.
    pub(crate) fn slot(&self) -> Slot {
        self.svm.accounts_db().sysvar_cache.get_clock().map_or(0, |clock| clock.slot)
    }

    /// Lets go of what a program compiled to when it was another one.
    fn forget_code(&mut self, key: Pubkey) {
        if self.svm.accounts_db().programs_cache.find(&key).is_none() {
            return;
        }
        self.close(key);
    }

    /// Makes calling a program fail as one that is not deployed. Its account is to be set anew.
    fn close(&mut self, key: Pubkey) {
        // A program whose code would be its own account, which is not there, takes its place.
        let mut data = vec![0; PROGRAM_SIZE];
        data[0] = PROGRAM_TAG;
        data[PROGRAM_DATA_KEY_AT..].copy_from_slice(key.as_ref());
        let mut closed = AccountSharedData::new(1, 0, &bpf_loader_upgradeable::ID);
        closed.set_data_from_slice(&data);
        closed.set_executable(true);
        self.remove(key);
        // It is well-formed, so that it is taken, as closed.
        let _ = self.svm.set_account(key, closed.into());
    }

    /// Forgets an account.
    pub(crate) fn remove(&mut self, key: Pubkey) {
        // An account of no lamports and no program is removed and cannot fail to load.
        let _ = self.svm.set_account(key, solana_account::Account::default());
    }

    /// Whether an account may pay a fee: a plain wallet that has it, and is left empty or exempt.
    fn can_pay(&self, payer: Option<&AccountSharedData>, fee: u64) -> bool {
        let Some(payer) = payer else { return false };
        let left = payer.lamports().checked_sub(fee);
        let is_wallet = payer.owner() == &solana_sdk_ids::system_program::ID
            && payer.data().is_empty()
            && payer.lamports() > 0;
        let exempt = self.svm.minimum_balance_for_rent_exemption(0);
        is_wallet && left.is_some_and(|left| left == 0 || left >= exempt)
    }

    fn load(&self, keys: &[Pubkey]) -> Vec<AccountSharedData> {
        keys.iter().map(|key| self.account(key).cloned().unwrap_or_default()).collect()
    }
}

/// Whether two accounts are equal. What shares its data is not compared by it: a program has a lot.
pub(crate) fn is_same(one: &AccountSharedData, other: &AccountSharedData) -> bool {
    if std::ptr::eq(one.data(), other.data()) {
        return one.lamports() == other.lamports()
            && one.owner() == other.owner()
            && one.executable() == other.executable()
            && one.rent_epoch() == other.rent_epoch();
    }
    one == other
}

/// Whether a transaction failed because something that it names does not load.
fn is_load_failure(err: &TransactionError) -> bool {
    matches!(
        err,
        TransactionError::MaxLoadedAccountsDataSizeExceeded
            | TransactionError::InvalidProgramForExecution
            | TransactionError::ProgramAccountNotFound
    )
}

impl Outcome {
    /// A failed transaction still pays, and still advances its nonce.
    fn charge(&mut self, fee: u64, nonce: Option<Pubkey>, last_blockhash: &Hash) {
        let Some(payer) = self.after.first_mut() else { return };
        let fee = fee.min(payer.lamports());
        payer.set_lamports(payer.lamports() - fee);
        self.fee = fee;
        self.included = true;
        if let Some(place) = nonce.and_then(|nonce| self.keys.iter().position(|key| *key == nonce))
        {
            nonce::advance(&mut self.after[place], last_blockhash);
        }
    }
}

#[cfg(test)]
mod tests {
    use solana_instruction::Instruction;
    use solana_keypair::Keypair;
    use solana_message::Message;
    use solana_program_runtime::declare_process_instruction;
    use solana_program_runtime::solana_sbpf::program::BuiltinFunctionDefinition;
    use solana_signer::Signer;

    use super::*;

    declare_process_instruction!(Panics, 1, |_context| { panic!("a builtin's bug") });

    const PROGRAM: Pubkey = Pubkey::new_from_array([7; 32]);

    fn call(payer: &Keypair, program_id: Pubkey) -> VersionedTransaction {
        let call = Instruction { program_id, accounts: Vec::new(), data: Vec::new() };
        let message = VersionedMessage::Legacy(Message::new(&[call], Some(&payer.pubkey())));
        VersionedTransaction::try_new(message, &[payer]).expect("signers fit")
    }

    #[test]
    fn a_panic_in_the_vm_fails_its_transaction_and_no_other() {
        let mut vm = Vm::new();
        vm.svm_mut().add_builtin(PROGRAM, Panics::register);
        let payer = Keypair::new();
        let lamports = 1_000_000_000;
        let wallet = AccountSharedData::new(lamports, 0, &solana_sdk_ids::system_program::ID);
        vm.put(payer.pubkey(), &wallet);

        let outcome = vm.run(&call(&payer, PROGRAM), None, &Hash::default());
        let err = InstructionError::ProgramFailedToComplete;
        assert_eq!(outcome.result, Err(TransactionError::InstructionError(0, err)));
        assert!(outcome.included);
        let writes: Vec<_> =
            outcome.writes().map(|(key, account)| (key, account.lamports())).collect();
        assert_eq!(writes, [(payer.pubkey(), lamports - LAMPORTS_PER_SIGNATURE)]);

        let next = vm.run(&call(&payer, solana_sdk_ids::vote::ID), None, &Hash::default());
        assert!(matches!(next.result, Err(TransactionError::InstructionError(0, _))));
    }

    #[test]
    fn who_cannot_pay_is_not_included() {
        let vm = Vm::new();
        let outcome = vm.run(&call(&Keypair::new(), PROGRAM), None, &Hash::default());
        assert_eq!(outcome.result, Err(TransactionError::AccountNotFound));
        assert!(!outcome.included);
        assert_eq!(outcome.writes().count(), 0);
    }

    #[test]
    fn a_nonce_advances_once_a_block_whatever_blockhash_its_transactions_name() {
        let mut vm = Vm::new();
        let (payer, nonce) = (Keypair::new(), Pubkey::new_unique());
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
            let outcome = vm.run(&transaction, None, &newest);
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
