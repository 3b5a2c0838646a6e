//! Which of Agave's features are active in a ledger.
//!
//! Shape: a new ledger gets the set that its configuration names, as feature accounts in its state. From then on
//! those accounts define what is active, so the features of a ledger are fixed. It is the same for a snapshot.
//! Not here: what a feature changes (the VM and its builtin programs).

use solana_feature_gate_interface::{Feature, create_account};
use solana_feature_set::{FEATURE_NAMES, FeatureSet, alpenglow};
use solana_pubkey::Pubkey;
use svm::features::{active_in, feature_set_where};
use svm::{AccountSource, WorkingSet};

use crate::config::{FeatureBase, FeatureChoice};

/// The choice of features does not fit the ledger.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FeatureError {
    /// The ledger was created with a feature that the choice leaves out.
    #[error(
        "feature {0} ({name}) is active in the ledger, and --features or --deactivate-feature leave it out. \
         Features are fixed when a ledger is made: start without these flags, or with --reset",
        name = name(.0)
    )]
    Active(Pubkey),
    /// The ledger was created without a feature that the choice names.
    #[error(
        "feature {0} ({name}) is not active in the ledger, and --features requests it. \
         Features are fixed when a ledger is made: start without these flags, or with --reset",
        name = name(.0)
    )]
    Inactive(Pubkey),
}

/// The features of a new ledger.
pub(crate) fn choose_features(choice: &FeatureChoice) -> FeatureSet {
    for key in choice.deactivated.iter().filter(|key| !FEATURE_NAMES.contains_key(*key)) {
        tracing::warn!(%key, "--deactivate-feature: the node does not know this feature");
    }
    let base = choice.base.unwrap_or_default();
    feature_set_where(|key| is_in(base, key) && !choice.deactivated.contains(key))
}

/// The features of a ledger from a snapshot: those that are active in the snapshot, and the chosen ones. Without a
/// chosen set these are mainnet's, which every snapshot of today has.
pub(crate) fn for_snapshot(
    choice: &FeatureChoice,
    accounts: &impl AccountSource,
) -> Result<FeatureSet, FeatureError> {
    let present = active_in(accounts);
    if let Some(key) = choice.deactivated.iter().find(|key| present.is_active(key)) {
        return Err(FeatureError::Active(*key));
    }
    let base = choice.base.unwrap_or(FeatureBase::Mainnet);
    let chosen = choose_features(&FeatureChoice { base: Some(base), ..choice.clone() });
    Ok(feature_set_where(|key| present.is_active(key) || chosen.is_active(key)))
}

/// Checks that a choice fits the features of a ledger. Without a chosen set, a ledger fits if it has none of the
/// deactivated features.
pub(crate) fn check(choice: &FeatureChoice, active: &FeatureSet) -> Result<(), FeatureError> {
    if let Some(key) = choice.deactivated.iter().find(|key| active.is_active(key)) {
        return Err(FeatureError::Active(*key));
    }
    let Some(_) = choice.base else { return Ok(()) };
    let chosen = choose_features(choice);
    if let Some(key) = min_key(active.active().keys().filter(|key| !chosen.is_active(key))) {
        return Err(FeatureError::Active(key));
    }
    match min_key(chosen.active().keys().filter(|key| !active.is_active(key))) {
        Some(key) => Err(FeatureError::Inactive(key)),
        None => Ok(()),
    }
}

/// Writes the accounts of active features that `source` lacks to the VM of `set`. Returns their keys.
pub(crate) fn add_accounts(
    set: &mut WorkingSet,
    source: &impl AccountSource,
    active: &FeatureSet,
) -> Vec<Pubkey> {
    let account = Feature { activated_at: Some(0) };
    let lamports = set.vm().svm().minimum_balance_for_rent_exemption(Feature::size_of());
    let account = create_account(&account, lamports);
    let present = active_in(source);
    let missing: Vec<Pubkey> =
        active.active().keys().filter(|key| !present.is_active(key)).copied().collect();
    for key in &missing {
        set.vm_mut().put(*key, &account);
    }
    missing
}

fn is_in(base: FeatureBase, key: &Pubkey) -> bool {
    match base {
        // As in `solana-test-validator`: Alpenglow is another consensus.
        FeatureBase::All => *key != alpenglow::id(),
        FeatureBase::Mainnet => {
            litesvm::features::MAINNET_ACTIVE_FEATURES.iter().any(|(active, _)| active == key)
        }
    }
}

/// The smallest of several features, so that an error does not depend on the order of the set.
fn min_key<'a>(keys: impl Iterator<Item = &'a Pubkey>) -> Option<Pubkey> {
    keys.min().copied()
}

fn name(key: &Pubkey) -> &'static str {
    FEATURE_NAMES.get(key).copied().unwrap_or("unknown")
}

#[cfg(test)]
mod tests {
    use solana_feature_set::raise_cpi_nesting_limit_to_8;

    use super::*;

    #[test]
    fn a_ledger_with_mainnets_features_nests_fewer_calls() {
        let mainnet = FeatureChoice { base: Some(FeatureBase::Mainnet), deactivated: Vec::new() };
        for (choice, is_active) in [(FeatureChoice::default(), true), (mainnet, false)] {
            assert_eq!(
                choose_features(&choice).is_active(&raise_cpi_nesting_limit_to_8::ID),
                is_active
            );
        }
    }
}
