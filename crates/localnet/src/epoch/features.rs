//! The active features according to the ledger's feature accounts.

use ledger::Slot;
use solana_account::ReadableAccount;
use solana_feature_set::{FEATURE_NAMES, FeatureSet};
use solana_pubkey::Pubkey;
use svm::AccountSource;

/// The active features, each with its activation slot.
pub(crate) fn active(accounts: &impl AccountSource) -> FeatureSet {
    let activated = |id: &Pubkey| {
        let account = accounts.account(id)?;
        let is_feature = account.0.owner() == &solana_sdk_ids::feature::ID;
        // The account's data is the activation slot, if it has one.
        bincode::deserialize::<Option<Slot>>(account.0.data()).ok()?.filter(|_| is_feature)
    };
    let all = || FEATURE_NAMES.keys();
    let active = all().filter_map(|id| Some((*id, activated(id)?))).collect();
    let inactive = all().filter(|id| activated(id).is_none()).copied().collect();
    FeatureSet::new(active, inactive)
}
