//! The compute units that a transaction requests, as Agave counts them: the limit that it sets, or the default for its
//! instructions.

use std::sync::LazyLock;

use solana_compute_budget_instruction::instructions_processor::process_compute_budget_instructions;
use solana_feature_set::FeatureSet;
use solana_svm_transaction::instruction::SVMInstruction;
use solana_transaction::versioned::VersionedTransaction;

use super::round_robin::UNITS_MAX;

/// The features only determine which builtin programs have become ordinary ones, which have a higher default.
static FEATURES: LazyLock<FeatureSet> = LazyLock::new(FeatureSet::all_enabled);

/// The compute units that a transaction may use. The maximum if its request does not parse.
pub(super) fn compute_units(transaction: &VersionedTransaction) -> u32 {
    let keys = transaction.message.static_account_keys();
    let instructions = transaction.message.instructions().iter().filter_map(|instruction| {
        let program_id = keys.get(usize::from(instruction.program_id_index))?;
        Some((program_id, SVMInstruction::from(instruction)))
    });
    let limits = process_compute_budget_instructions(instructions, &FEATURES);
    limits.map_or(UNITS_MAX, |limits| limits.compute_unit_limit).min(UNITS_MAX)
}

#[cfg(test)]
mod tests {
    use solana_instruction::Instruction;
    use solana_message::{Message, VersionedMessage};
    use solana_pubkey::Pubkey;

    use super::*;

    fn units(instructions: &[Instruction]) -> u32 {
        let payer = Pubkey::new_from_array([9; 32]);
        let message = VersionedMessage::Legacy(Message::new(instructions, Some(&payer)));
        compute_units(&VersionedTransaction { signatures: Vec::new(), message })
    }

    fn call(program_id: Pubkey, data: &[u8]) -> Instruction {
        Instruction { program_id, accounts: Vec::new(), data: data.to_vec() }
    }

    #[test]
    fn a_transaction_requests_its_limit_or_the_default_of_its_instructions() {
        let budget = |tag: u8, value: u32| {
            let data = [&[tag], value.to_le_bytes().as_slice()].concat();
            call(solana_sdk_ids::compute_budget::ID, &data)
        };
        let program = || call(Pubkey::new_from_array([7; 32]), &[]);
        let transfer = solana_system_interface::instruction::transfer(
            &Pubkey::new_from_array([1; 32]),
            &Pubkey::new_from_array([2; 32]),
            1,
        );
        assert_eq!(units(&[]), 0);
        assert_eq!(units(&[transfer]), 3_000);
        assert_eq!(units(&[program()]), 200_000);
        assert_eq!(units(&[program(), program()]), 400_000);
        assert_eq!(units(&[budget(2, 5_000), program()]), 5_000);
        assert_eq!(units(&[budget(2, u32::MAX), program()]), UNITS_MAX);
        assert_eq!(units(&vec![program(); 20]), UNITS_MAX);
        // It fails at once when it is executed, but the queue does not rely on that.
        assert_eq!(units(&[budget(2, 1), budget(2, 1), program()]), UNITS_MAX);
        assert_eq!(units(&[budget(99, 1), program()]), UNITS_MAX);
    }
}
