//! The accounts of the precompiles, programs of the node itself that check signatures.
//!
//! A precompile fails at its position among the instructions, costs no compute unit and logs nothing, as in Agave.
//! Not here: their checks (`agave_precompiles`), the fee for the signatures (the VM counts them).

pub(crate) use agave_precompiles::IDS;
use litesvm::LiteSVM;
use solana_account::{Account, AccountSharedData};
use solana_sdk_ids::native_loader;

/// Adds the genesis accounts of all precompiles. A ledger without the account of a precompile does not have it.
pub(crate) fn add(svm: &mut LiteSVM) {
    let account = AccountSharedData::from(Account {
        lamports: 1,
        data: Vec::new(),
        owner: native_loader::ID,
        executable: true,
        rent_epoch: 0,
    });
    for id in IDS {
        svm.set_account_no_checks(id, account.clone());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use p256::ecdsa::signature::hazmat::PrehashSigner;
    use p256::ecdsa::{Signature, SigningKey};
    use solana_feature_set::FeatureSet;
    use solana_hash::Hash;
    use solana_instruction::Instruction;
    use solana_instruction::error::InstructionError;
    use solana_keypair::Keypair;
    use solana_message::{Message, VersionedMessage};
    use solana_precompile_error::PrecompileError;
    use solana_program_runtime::declare_process_instruction;
    use solana_program_runtime::solana_sbpf::program::BuiltinFunctionDefinition;
    use solana_pubkey::Pubkey;
    use solana_sdk_ids::{ed25519_program, secp256k1_program, secp256r1_program};
    use solana_signer::Signer;
    use solana_system_interface::instruction::transfer;
    use solana_transaction::versioned::VersionedTransaction;
    use solana_transaction_error::TransactionError;

    use super::*;
    use crate::vm::{ExecutionOutcome, Vm};
    use crate::working_set::WorkingSet;

    const SOL: u64 = 1_000_000_000;

    const MESSAGE: &[u8] = b"what was signed";
    /// Units of a transfer, and of an instruction that sets the limit.
    const BUILTIN_UNITS: u64 = 150;

    /// Returns data with one signature, which has all parts after its offsets, in the instruction itself.
    fn signed_data(signature: &[u8], key: &[u8]) -> Vec<u8> {
        let own = u16::MAX;
        let key_at = 16 + signature.len() as u16;
        let message_at = key_at + key.len() as u16;
        let offsets = [16, own, key_at, own, message_at, MESSAGE.len() as u16, own];
        let offsets: Vec<u8> = offsets.iter().flat_map(|field| field.to_le_bytes()).collect();
        [&[1, 0][..], &offsets, signature, key, MESSAGE].concat()
    }

    fn ed25519() -> Instruction {
        let signer = Keypair::new_from_array([3; 32]);
        let signature = signer.sign_message(MESSAGE);
        call(ed25519_program::ID, signed_data(signature.as_ref(), signer.pubkey().as_ref()))
    }

    fn wrong_ed25519() -> Instruction {
        let mut wrong = ed25519();
        wrong.data[20] ^= 1;
        wrong
    }

    fn secp256r1() -> Instruction {
        let signer = SigningKey::from_slice(&[3; 32]).expect("a scalar");
        let hash = solana_sha256_hasher::hash(MESSAGE);
        let signature: Signature =
            PrehashSigner::sign_prehash(&signer, hash.as_ref()).expect("a signature");
        let key = signer.verifying_key().to_sec1_point(true).as_bytes().to_vec();
        call(secp256r1_program::ID, signed_data(&signature.normalize_s().to_bytes(), &key))
    }

    /// Creates an instruction that checks no signature.
    fn secp256k1() -> Instruction {
        call(secp256k1_program::ID, vec![0])
    }

    fn unit_limit(units: u64) -> Instruction {
        let data = [&[2][..], &(units as u32).to_le_bytes()].concat();
        call(solana_sdk_ids::compute_budget::ID, data)
    }

    fn call(program_id: Pubkey, data: Vec<u8>) -> Instruction {
        Instruction { program_id, accounts: Vec::new(), data }
    }

    fn run(vm: &mut Vm, instructions: &[Instruction], payer: &Keypair) -> ExecutionOutcome {
        vm.put(payer.pubkey(), &AccountSharedData::new(SOL, 0, &Pubkey::default()));
        let message = Message::new(instructions, Some(&payer.pubkey()));
        let transaction =
            VersionedTransaction::try_new(VersionedMessage::Legacy(message), &[payer]);
        vm.run(&transaction.expect("signers fit"), &Hash::default())
    }

    #[test]
    fn a_precompile_fails_in_instruction_order_and_the_fee_is_paid() {
        let mut vm = Vm::new(FeatureSet::all_enabled());
        let payer = Keypair::new();
        let pay = |lamports| transfer(&payer.pubkey(), &Pubkey::new_from_array([5; 32]), lamports);

        let outcome = run(&mut vm, &[pay(SOL / 2), wrong_ed25519()], &payer);
        let err = InstructionError::Custom(PrecompileError::InvalidSignature as u32);
        assert_eq!(outcome.result, Err(TransactionError::InstructionError(1, err)));
        assert!(outcome.is_included);
        // The transaction's signature, and the one to be checked.
        assert_eq!(outcome.fee, 10_000);
        let writes: Vec<_> = outcome.writes().map(|(key, _)| key).collect();
        assert_eq!(writes, [payer.pubkey()]);
        let system = Pubkey::default();
        let logs = [format!("Program {system} invoke [1]"), format!("Program {system} success")];
        assert_eq!(outcome.logs, logs);

        let outcome = run(&mut vm, &[pay(2 * SOL), wrong_ed25519()], &payer);
        let err = InstructionError::Custom(1);
        assert_eq!(outcome.result, Err(TransactionError::InstructionError(0, err)));
    }

    #[test]
    fn instructions_after_a_precompile_run_and_only_they_are_logged() {
        let mut vm = Vm::new(FeatureSet::all_enabled());
        let payer = Keypair::new();
        let pay = transfer(&payer.pubkey(), &payer.pubkey(), 1);
        let instructions = [ed25519(), secp256k1(), secp256r1(), pay];
        let outcome = run(&mut vm, &instructions, &payer);
        assert_eq!(outcome.result, Ok(()));
        assert_eq!(outcome.logs.len(), 2, "{:?}", outcome.logs);
        assert_eq!(outcome.fee, 15_000);
    }

    #[test]
    fn a_precompile_consumes_no_compute_unit() {
        let mut vm = Vm::new(FeatureSet::all_enabled());
        let payer = Keypair::new();
        let pay = || transfer(&payer.pubkey(), &payer.pubkey(), 1);
        let exact = unit_limit(3 * BUILTIN_UNITS);
        let checked = [exact, pay(), ed25519(), secp256k1(), secp256r1(), pay(), ed25519()];
        let outcome = run(&mut vm, &checked, &payer);
        assert_eq!((outcome.result, outcome.units_consumed), (Ok(()), 3 * BUILTIN_UNITS));

        let outcome = run(&mut vm, &[pay(), ed25519(), wrong_ed25519(), pay()], &payer);
        let err = InstructionError::Custom(PrecompileError::InvalidSignature as u32);
        let failed = Err(TransactionError::InstructionError(2, err));
        assert_eq!((outcome.result, outcome.units_consumed), (failed, BUILTIN_UNITS));
    }

    declare_process_instruction!(Returner, 1, |context| {
        let current = context.transaction_context.get_current_instruction_context()?;
        let program = *current.get_program_key()?;
        context.transaction_context.set_return_data(program, MESSAGE.to_vec())
    });

    #[test]
    fn a_precompile_keeps_the_return_data_before_it() {
        let mut vm = Vm::new(FeatureSet::all_enabled());
        let returner = Pubkey::new_from_array([7; 32]);
        vm.svm_mut().add_builtin(returner, Returner::register);
        let instructions = [call(returner, Vec::new()), ed25519(), secp256k1(), secp256r1()];
        let outcome = run(&mut vm, &instructions, &Keypair::new());
        assert_eq!(outcome.result, Ok(()));
        assert_eq!(
            (outcome.return_data.program_id, outcome.return_data.data.as_slice()),
            (returner, MESSAGE)
        );
    }

    declare_process_instruction!(Caller, 1, |context| {
        context.native_invoke_signed(ed25519(), &[])
    });

    #[test]
    fn a_program_cannot_call_a_precompile() {
        let mut vm = Vm::new(FeatureSet::all_enabled());
        let caller = Pubkey::new_from_array([7; 32]);
        vm.svm_mut().add_builtin(caller, Caller::register);
        let mut outer = call(caller, Vec::new());
        let program = solana_instruction::AccountMeta::new_readonly(ed25519_program::ID, false);
        outer.accounts.push(program);
        let outcome = run(&mut vm, &[outer], &Keypair::new());
        let err = InstructionError::UnsupportedProgramId;
        assert_eq!(outcome.result, Err(TransactionError::InstructionError(0, err)));
    }

    #[test]
    fn a_restored_ledger_has_the_precompiles_with_which_it_was_created() {
        let payer = Keypair::new();
        let instruction = ed25519();
        let vm = Vm::new(FeatureSet::all_enabled());
        let accounts = || vm.accounts().map(|(key, account)| (*key, account.clone()));
        let mut restored =
            WorkingSet::new(&accounts().collect::<HashMap<_, _>>(), vm.features().clone());
        let outcome = run(restored.vm_mut(), std::slice::from_ref(&instruction), &payer);
        assert_eq!(outcome.result, Ok(()));
        for id in IDS {
            assert_eq!(restored.vm().account(&id), vm.account(&id));
        }
        let older: HashMap<_, _> = accounts().filter(|(key, _)| !IDS.contains(key)).collect();
        let mut restored = WorkingSet::new(&older, vm.features().clone());
        let outcome = run(restored.vm_mut(), &[instruction], &payer);
        assert!(outcome.result.is_err());
        assert_eq!(restored.vm().account(&ed25519_program::ID), None);
    }
}
