//! The features of Agave that are active in a ledger, by its feature accounts.

use solana_feature_gate_interface::from_account;
use solana_feature_set::{FEATURE_NAMES, FeatureSet};
use solana_pubkey::Pubkey;

use crate::AccountSource;

/// Returns the features that are active in the accounts of a ledger.
pub fn active_in(accounts: &impl AccountSource) -> FeatureSet {
    feature_set_where(|key| {
        let feature = accounts.account(key).and_then(|account| from_account(&account.0));
        feature.is_some_and(|feature| feature.activated_at.is_some())
    })
}

/// Returns the active features, each with its activation slot.
pub fn activated_in(accounts: &impl AccountSource) -> FeatureSet {
    let activated = |key: &Pubkey| {
        let feature = accounts.account(key).and_then(|account| from_account(&account.0));
        feature.and_then(|feature| feature.activated_at)
    };
    let slots: Vec<(Pubkey, Option<u64>)> =
        FEATURE_NAMES.keys().map(|key| (*key, activated(key))).collect();
    FeatureSet::new(
        slots.iter().filter_map(|(key, slot)| Some((*key, (*slot)?))).collect(),
        slots.iter().filter(|(_, slot)| slot.is_none()).map(|(key, _)| *key).collect(),
    )
}

/// Returns the features of this release for which `is_active` holds, active since the first slot. The others are
/// inactive.
pub fn feature_set_where(is_active: impl Fn(&Pubkey) -> bool) -> FeatureSet {
    let (active, inactive): (Vec<Pubkey>, Vec<Pubkey>) =
        FEATURE_NAMES.keys().copied().partition(|key| is_active(key));
    FeatureSet::new(
        active.into_iter().map(|key| (key, 0)).collect(),
        inactive.into_iter().collect(),
    )
}
