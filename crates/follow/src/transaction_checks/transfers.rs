//! The balances that a plain payment must have if it succeeded, so that a failed one is not shown as a success.
//!
//! In: a transaction that only transfers lamports. Out: whether its balances changed by them.
//! Not here: payments by other programs, whose effect on balances only an execution tells.

use chain_solana::ExecutedTransaction;
use solana_message::compiled_instruction::CompiledInstruction;
use solana_pubkey::Pubkey;
use solana_sdk_ids::{compute_budget, system_program};

/// Programs that move no lamports.
const NEUTRAL: [Pubkey; 3] = [
    compute_budget::ID,
    Pubkey::from_str_const("MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr"),
    Pubkey::from_str_const("Memo1UhkJRfHyvLMcVucJwxXeuD728EqVDDwQDxFMNo"),
];

/// The variants of the system program's instructions.
const TRANSFER: u32 = 2;
const ADVANCE_NONCE: u32 = 4;

/// Whether a successful transaction changed the balances as its transfers say. True if it does anything else, too.
pub(super) fn are_consistent(executed: &ExecutedTransaction) -> bool {
    let Some(mut expected) = expected_changes(executed) else { return true };
    let meta = &executed.meta;
    if let Some(payer) = expected.first_mut() {
        *payer -= i128::from(meta.fee);
    }
    let balances = meta.pre_balances.iter().zip(&meta.post_balances);
    let changes = balances.map(|(pre, post)| i128::from(*post) - i128::from(*pre));
    changes.eq(expected)
}

/// The lamports that transfers add to each account; `None` if the transaction does anything else.
fn expected_changes(executed: &ExecutedTransaction) -> Option<Vec<i128>> {
    let keys = &executed.account_keys;
    let mut changes = vec![0; keys.len()];
    for instruction in executed.transaction.message.instructions() {
        let program = keys.get(usize::from(instruction.program_id_index))?;
        if NEUTRAL.contains(program) {
            continue;
        }
        if *program != system_program::ID {
            return None;
        }
        let (variant, data) = instruction.data.split_first_chunk()?;
        match u32::from_le_bytes(*variant) {
            TRANSFER => {
                let lamports = i128::from(u64::from_le_bytes(*data.first_chunk()?));
                *changes.get_mut(account_index(instruction, 0)?)? -= lamports;
                *changes.get_mut(account_index(instruction, 1)?)? += lamports;
            }
            ADVANCE_NONCE => {}
            _ => return None,
        }
    }
    Some(changes)
}

fn account_index(instruction: &CompiledInstruction, at: usize) -> Option<usize> {
    instruction.accounts.get(at).copied().map(usize::from)
}
