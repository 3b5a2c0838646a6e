//! What a transaction costs: its share of a block in cost units, and its fee for signatures.

use std::collections::HashSet;

use solana_account::ReadableAccount;
use solana_cost_model::cost_model::CostModel;
use solana_feature_set::FeatureSet;
use solana_fee::FeeFeatures;
use solana_hash::Hash;
use solana_message::{SimpleAddressLoader, VersionedMessage};
use solana_runtime_transaction::runtime_transaction::RuntimeTransaction;
use solana_transaction::sanitized::{MessageHash, SanitizedTransaction};
use solana_transaction::versioned::VersionedTransaction;

use crate::vm::{LAMPORTS_PER_SIGNATURE, Outcome};
use crate::working_set::WorkingSet;

/// What an account counts beside its data.
const ACCOUNT_BYTES: usize = 64;
/// What a lookup table counts, whatever it holds.
const TABLE_BYTES: usize = 8_248;

/// The cost of a transaction that a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Lamports for its signatures, those that precompiles check included.
    pub(crate) signature_fee: u64,
    /// What it takes of a block's limit.
    pub(crate) units: u64,
}

/// Bytes that a transaction loaded, counted as its limit counts them; of one that did not load, the data
/// of what it paid with.
pub(crate) fn loaded_bytes(set: &WorkingSet, outcome: &Outcome, message: &VersionedMessage) -> u32 {
    let accounts = outcome.before.iter().filter(|account| account.lamports() > 0);
    let total = if outcome.is_executed() {
        let own = accounts.map(|account| ACCOUNT_BYTES + account.data().len());
        let program_data = outcome.keys.iter().filter_map(|key| set.program_data_bytes(key));
        let programs = program_data.map(|bytes| ACCOUNT_BYTES + bytes);
        let tables = message.address_table_lookups().map_or(0, <[_]>::len);
        own.chain(programs).sum::<usize>() + tables * TABLE_BYTES
    } else {
        let changed = outcome.writes().map(|(_, account)| account.data().len());
        changed.sum()
    };
    u32::try_from(total).unwrap_or(u32::MAX)
}

/// The cost of a transaction by what it did and by the bytes that it loaded.
pub(crate) fn of(
    transaction: &VersionedTransaction,
    message_hash: Hash,
    outcome: &Outcome,
    loaded_bytes: u32,
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
        loaded_bytes,
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
