//! Limits of every transaction that replace those of the protocol, for a ledger that is started with them.

use litesvm::LiteSVM;
use solana_compute_budget::compute_budget::ComputeBudget;
use solana_feature_set::raise_cpi_nesting_limit_to_8;

/// Bytes of logs that are recorded for a transaction, as in Agave.
pub(crate) const LOG_BYTES_MAX: usize = 10_000;

/// Limits of every transaction that replace those of the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuntimeLimits {
    /// Compute units of a transaction, whatever it requests. It then has the default heap, too.
    pub compute_units: Option<u64>,
    /// Accounts that a transaction may name. It does not raise the limit of the active features.
    pub account_locks: Option<usize>,
    /// Bytes of logs that are recorded for a transaction. `usize::MAX` records all.
    pub log_bytes: Option<usize>,
}

impl RuntimeLimits {
    /// Applies the limits to a VM.
    pub(crate) fn apply(self, svm: LiteSVM) -> LiteSVM {
        let svm = svm.with_log_bytes_limit(Some(self.log_bytes.unwrap_or(LOG_BYTES_MAX)));
        let Some(compute_unit_limit) = self.compute_units else { return svm };
        let is_nesting_raised =
            svm.get_feature_set_ref().is_active(&raise_cpi_nesting_limit_to_8::ID);
        svm.with_compute_budget(ComputeBudget {
            compute_unit_limit,
            ..ComputeBudget::new_with_defaults(is_nesting_raised)
        })
    }
}

#[cfg(test)]
mod tests {
    use solana_account::AccountSharedData;
    use solana_feature_set::FeatureSet;
    use solana_hash::Hash;
    use solana_instruction::Instruction;
    use solana_instruction::error::InstructionError;
    use solana_keypair::Keypair;
    use solana_message::{Message, VersionedMessage};
    use solana_program_runtime::declare_process_instruction;
    use solana_program_runtime::solana_sbpf::program::BuiltinFunctionDefinition;
    use solana_pubkey::Pubkey;
    use solana_signer::Signer;
    use solana_system_interface::instruction::transfer;
    use solana_transaction::versioned::VersionedTransaction;
    use solana_transaction_error::TransactionError;

    use super::*;
    use crate::vm::Vm;

    /// Returns the result of a transaction, and whether a block may contain it. It pays `accounts` new accounts, 150
    /// units each, after it has requested units, which consumes 150, too.
    fn run(
        limits: RuntimeLimits,
        requested: Option<u32>,
        accounts: usize,
    ) -> (Result<(), TransactionError>, bool) {
        let payer = Keypair::new();
        let mut vm = Vm::new(FeatureSet::all_enabled()).with_limits(limits);
        let wallet = AccountSharedData::new(1 << 30, 0, &solana_sdk_ids::system_program::ID);
        vm.put(payer.pubkey(), &wallet);
        let request = requested.map(|units| {
            let data = [&[2], units.to_le_bytes().as_slice()].concat();
            let program_id = solana_sdk_ids::compute_budget::ID;
            Instruction { program_id, accounts: Vec::new(), data }
        });
        let pay = (0..accounts).map(|_| transfer(&payer.pubkey(), &Pubkey::new_unique(), 1 << 20));
        let instructions: Vec<_> = request.into_iter().chain(pay).collect();
        let message = VersionedMessage::Legacy(Message::new(&instructions, Some(&payer.pubkey())));
        let transaction = VersionedTransaction::try_new(message, &[&payer]).expect("signed");
        let outcome = vm.run(&transaction, &Hash::default());
        (outcome.result, outcome.is_included)
    }

    #[test]
    fn a_compute_unit_limit_overrides_the_requested_one() {
        let limited =
            |units| RuntimeLimits { compute_units: Some(units), ..RuntimeLimits::default() };
        let exceeded = |index| {
            let err = InstructionError::ComputationalBudgetExceeded;
            (Err(TransactionError::InstructionError(index, err)), true)
        };
        let passed = (Ok(()), true);
        let none = RuntimeLimits::default();
        assert_eq!(run(none, None, 3), passed);
        assert_eq!(run(none, Some(450), 3), exceeded(3));
        assert_eq!(run(limited(600), Some(450), 3), passed);
        assert_eq!(run(limited(599), Some(1_000_000), 3), exceeded(3));
        assert_eq!(run(limited(450), None, 3), passed);
        assert_eq!(run(limited(449), None, 3), exceeded(2));
    }

    #[test]
    fn an_account_lock_limit_refuses_transactions_with_more() {
        // The payer and the system program are accounts, too.
        let limited =
            |locks| RuntimeLimits { account_locks: Some(locks), ..RuntimeLimits::default() };
        let refused = (Err(TransactionError::TooManyAccountLocks), false);
        assert_eq!(run(limited(5), None, 3), (Ok(()), true));
        assert_eq!(run(limited(5), None, 4), refused);
        assert_eq!(run(RuntimeLimits::default(), None, 4), (Ok(()), true));
    }

    const LOGGER: Pubkey = Pubkey::new_from_array([7; 32]);

    // Logs 300 lines of 100 bytes.
    declare_process_instruction!(Logs, 1, |context| {
        for _ in 0..300 {
            let Some(log) = context.get_log_collector() else { continue };
            log.borrow_mut().log(&"x".repeat(100));
        }
        Ok(())
    });

    /// Returns the bytes and the last line that are recorded of 30,000 bytes.
    fn record_logs(log_bytes: Option<usize>) -> (usize, String) {
        let limits = RuntimeLimits { log_bytes, ..RuntimeLimits::default() };
        let mut vm = Vm::new(FeatureSet::all_enabled()).with_limits(limits);
        vm.svm_mut().add_builtin(LOGGER, Logs::register);
        let payer = Keypair::new();
        let wallet = AccountSharedData::new(1 << 30, 0, &solana_sdk_ids::system_program::ID);
        vm.put(payer.pubkey(), &wallet);
        let call = Instruction { program_id: LOGGER, accounts: Vec::new(), data: Vec::new() };
        let message = VersionedMessage::Legacy(Message::new(&[call], Some(&payer.pubkey())));
        let transaction = VersionedTransaction::try_new(message, &[&payer]).expect("signed");
        let logs = vm.run(&transaction, &Hash::default()).logs;
        let bytes = logs.iter().map(String::len).sum();
        (bytes, logs.last().cloned().unwrap_or_default())
    }

    #[test]
    fn logs_are_truncated_at_the_ledgers_limit() {
        let truncated = "Log truncated";
        let (bytes, last) = record_logs(None);
        assert!((9_800..10_000 + truncated.len()).contains(&bytes), "{bytes}");
        assert_eq!(last, truncated);
        assert_eq!(record_logs(Some(0)), (truncated.len(), truncated.to_owned()));
        let (bytes, last) = record_logs(Some(500));
        assert!(bytes < 500 + truncated.len() && last == truncated, "{bytes}");
        for all in [40_000, usize::MAX] {
            let (bytes, last) = record_logs(Some(all));
            assert!(bytes >= 30_000 && last.ends_with(" success"), "{bytes}: {last}");
        }
    }
}
