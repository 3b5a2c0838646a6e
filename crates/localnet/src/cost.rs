//! What a transaction costs: its share of a block in cost units, and its fee for signatures.

use std::collections::HashSet;

use solana_cost_model::cost_model::CostModel;
use solana_feature_set::FeatureSet;
use solana_fee::FeeFeatures;
use solana_hash::Hash;
use solana_message::SimpleAddressLoader;
use solana_runtime_transaction::runtime_transaction::RuntimeTransaction;
use solana_transaction::sanitized::{MessageHash, SanitizedTransaction};
use solana_transaction::versioned::VersionedTransaction;

use crate::vm::{LAMPORTS_PER_SIGNATURE, Outcome};

/// The cost of a transaction that a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Lamports for its signatures, those that precompiles check included.
    pub(crate) signature_fee: u64,
    /// What it takes of a block's limit.
    pub(crate) units: u64,
}

/// The cost of a transaction by what it did.
pub(crate) fn of(
    transaction: &VersionedTransaction,
    message_hash: Hash,
    outcome: &Outcome,
    features: &FeatureSet,
) -> Option<Cost> {
    // Which keys are reserved does not matter: a lock that is asked for costs what it costs.
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
    let cost = CostModel::calculate_cost_for_executed_transaction(
        &transaction,
        outcome.units_consumed,
        outcome.loaded_bytes,
        features,
    );
    let fee = solana_fee::calculate_fee_details(
        &transaction,
        LAMPORTS_PER_SIGNATURE,
        0,
        FeeFeatures::from(features),
    );
    Some(Cost { signature_fee: fee.transaction_fee(), units: cost.sum() })
}
