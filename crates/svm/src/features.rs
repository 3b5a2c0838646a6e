//! The features of Agave that are active in a ledger, by its feature accounts.

use ledger::Slot;
use solana::Account;
use solana_account::ReadableAccount;
use solana_feature_gate_interface::from_account;
use solana_feature_set::{FEATURE_NAMES, FeatureSet};
use solana_pubkey::Pubkey;
use solana_sdk_ids::feature;

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

/// Returns the activation slot of an active feature that this release does not have; `None` for any other account.
pub fn unknown_activation(key: &Pubkey, account: &Account) -> Option<Slot> {
    let is_unknown = *account.0.owner() == feature::ID && !FEATURE_NAMES.contains_key(key);
    is_unknown.then(|| from_account(&account.0)).flatten()?.activated_at
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

#[cfg(test)]
mod tests {
    use solana_account::WritableAccount;
    use solana_feature_gate_interface::{Feature, create_account};
    use solana_feature_set::enable_tx_v1;

    use super::*;

    #[test]
    fn an_active_feature_of_a_later_release_is_unknown() {
        let account = |activated_at| Account(create_account(&Feature { activated_at }, 1));
        let other = Pubkey::new_from_array([7; 32]);
        assert_eq!(unknown_activation(&other, &account(Some(5))), Some(5));
        assert_eq!(unknown_activation(&other, &account(None)), None);
        assert_eq!(unknown_activation(&enable_tx_v1::ID, &account(Some(5))), None);
        let mut not_a_feature = account(Some(5));
        not_a_feature.0.set_owner(other);
        assert_eq!(unknown_activation(&other, &not_a_feature), None);
    }
}
