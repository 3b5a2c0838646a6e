//! The cost of a transaction: its share of a block in cost units, and its signature fee.

use std::collections::HashSet;

use solana_feature_set::FeatureSet;
use solana_fee::FeeFeatures;
use solana_hash::Hash;
use solana_message::SimpleAddressLoader;
use solana_runtime_transaction::runtime_transaction::RuntimeTransaction;
use solana_runtime_transaction::transaction_meta::TransactionMeta;
use solana_transaction::sanitized::{MessageHash, SanitizedTransaction};
use solana_transaction::versioned::VersionedTransaction;
use svm::{ExecutionOutcome, LAMPORTS_PER_SIGNATURE};

/// Cost units by kind: Agave's `block_cost_limits`. Its crate `solana-cost-model` is not used, because its metrics
/// bring an HTTP client and 40 other crates along. A test compares the two.
const SIGNATURE_UNITS: u64 = 720;
const SECP256K1_UNITS: u64 = 6_690;
const ED25519_UNITS: u64 = 2_400;
const SECP256R1_UNITS: u64 = 4_800;
const WRITE_LOCK_UNITS: u64 = 300;
const LOADED_PAGE_UNITS: u64 = 8;

/// Bytes of instruction data for one unit.
const DATA_BYTES_PER_UNIT: u64 = 4;

/// Bytes of a page of loaded account data.
const LOADED_PAGE_BYTES: u64 = 32 * 1024;

/// The cost of a transaction in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Lamports for its signatures, including those that precompiles check.
    pub(crate) signature_fee: u64,
    /// Cost units, which count against a block's limit.
    pub(crate) units: u64,
}

/// The cost of a transaction by its outcome. `None` if it is malformed.
pub(crate) fn transaction_cost(
    transaction: &VersionedTransaction,
    message_hash: Hash,
    outcome: &ExecutionOutcome,
    features: &FeatureSet,
) -> Option<Cost> {
    // Reserved keys do not matter: every requested lock costs the same.
    let reserved = HashSet::new();
    let transaction = RuntimeTransaction::<SanitizedTransaction>::try_create(
        transaction.clone(),
        MessageHash::Precomputed(message_hash),
        Some(false),
        SimpleAddressLoader::Enabled(outcome.loaded_addresses.clone()),
        &reserved,
        false,
    );
    let transaction = transaction.ok()?;
    let fee = solana_fee::calculate_fee_details(
        &transaction,
        LAMPORTS_PER_SIGNATURE,
        0,
        FeeFeatures::from(features),
    );
    Some(Cost {
        signature_fee: fee.transaction_fee(),
        units: units(&transaction, outcome.units_consumed, outcome.loaded_bytes),
    })
}

/// Cost units of an executed transaction: its programs consumed `units_consumed`, and it loaded `loaded_bytes`.
fn units(
    transaction: &RuntimeTransaction<SanitizedTransaction>,
    units_consumed: u64,
    loaded_bytes: u32,
) -> u64 {
    let signatures = transaction.signature_details();
    signatures.num_transaction_signatures() * SIGNATURE_UNITS
        + signatures.num_secp256k1_instruction_signatures() * SECP256K1_UNITS
        + signatures.num_ed25519_instruction_signatures() * ED25519_UNITS
        + signatures.num_secp256r1_instruction_signatures() * SECP256R1_UNITS
        + transaction.message().num_write_locks() * WRITE_LOCK_UNITS
        + u64::from(transaction.instruction_data_len()) / DATA_BYTES_PER_UNIT
        + u64::from(loaded_bytes).div_ceil(LOADED_PAGE_BYTES) * LOADED_PAGE_UNITS
        + units_consumed
}

#[cfg(test)]
mod tests {
    use solana_cost_model::cost_model::CostModel;
    use solana_instruction::{AccountMeta, Instruction};
    use solana_message::{Message, VersionedMessage};
    use solana_pubkey::Pubkey;
    use solana_signature::Signature;

    use super::*;

    #[test]
    fn units_are_those_of_agaves_cost_model() {
        let features = FeatureSet::all_enabled();
        let programs = [
            solana_sdk_ids::system_program::id(),
            solana_sdk_ids::secp256k1_program::id(),
            solana_sdk_ids::ed25519_program::id(),
            solana_sdk_ids::secp256r1_program::id(),
        ];
        for (count, data_bytes) in [(1_u8, 0), (2, 3), (3, 4), (9, 61)] {
            // The first byte is the number of signatures for the programs that check them.
            let data = [vec![count; 1], vec![0; data_bytes]].concat();
            let instruction = |program: &Pubkey| {
                let keys =
                    (0..count).map(|index| AccountMeta::new(Pubkey::new_unique(), index % 3 == 0));
                Instruction::new_with_bytes(*program, &data, keys.collect())
            };
            let instructions: Vec<Instruction> = programs.iter().map(instruction).collect();
            let message = Message::new(&instructions, Some(&Pubkey::new_unique()));
            let signatures =
                vec![Signature::default(); usize::from(message.header.num_required_signatures)];
            let message = VersionedMessage::Legacy(message);
            let transaction = RuntimeTransaction::<SanitizedTransaction>::try_create(
                VersionedTransaction { signatures, message },
                MessageHash::Compute,
                Some(false),
                SimpleAddressLoader::Disabled,
                &HashSet::new(),
                false,
            );
            let transaction = transaction.expect("it is well formed");
            for (consumed, loaded) in [(0, 0), (150, 1), (200_000, 32_768), (1_400_000, 32_769)] {
                let theirs = CostModel::calculate_cost_for_executed_transaction(
                    &transaction,
                    consumed,
                    loaded,
                    &features,
                );
                assert_eq!(units(&transaction, consumed, loaded), theirs.sum());
            }
        }
    }
}
