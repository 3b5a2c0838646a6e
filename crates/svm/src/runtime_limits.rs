//! Limits of every transaction in place of those of the protocol, for a ledger that is started with them.

use litesvm::LiteSVM;
use solana_compute_budget::compute_budget::ComputeBudget;
use solana_feature_set::raise_cpi_nesting_limit_to_8;

/// Limits of every transaction, in place of those of the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuntimeLimits {
    /// Compute units of a transaction, whatever it requests. It then has the default heap, too.
    pub compute_units: Option<u64>,
    /// Accounts that a transaction may name. It does not raise the limit of the active features.
    pub account_locks: Option<usize>,
}

impl RuntimeLimits {
    /// A VM that runs each transaction with these limits.
    pub(crate) fn apply(self, svm: LiteSVM) -> LiteSVM {
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
    use solana_pubkey::Pubkey;
    use solana_signer::Signer;
    use solana_system_interface::instruction::transfer;
    use solana_transaction::versioned::VersionedTransaction;
    use solana_transaction_error::TransactionError;

    use super::*;
    use crate::vm::Vm;

    /// The result of a transaction, and whether a block may contain it. It pays `accounts` new accounts, 150 units
    /// each, after it has requested units, which consumes 150, too.
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
    fn a_limit_of_compute_units_counts_whatever_a_transaction_requests() {
        let limited = |units| RuntimeLimits { compute_units: Some(units), account_locks: None };
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
    fn a_limit_of_account_locks_refuses_transactions_with_more() {
        // The payer and the system program are accounts, too.
        let limited = |locks| RuntimeLimits { compute_units: None, account_locks: Some(locks) };
        let refused = (Err(TransactionError::TooManyAccountLocks), false);
        assert_eq!(run(limited(5), None, 3), (Ok(()), true));
        assert_eq!(run(limited(5), None, 4), refused);
        assert_eq!(run(RuntimeLimits::default(), None, 4), (Ok(()), true));
    }
}
