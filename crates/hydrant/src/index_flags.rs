//! `--account-index` and its lists of keys, as in `agave-validator`: from flags to the ledger's indices.

use std::collections::HashSet;
use std::str::FromStr;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use ledger::{Address, KeyKind};
use query::{IndexConfig, IndexKeyFilter};
use solana::key_kind;
use solana_pubkey::Pubkey;

use crate::node::flags::{AccountIndex, IndexFlags};

/// The indices, and the kind of key of each.
const INDICES: [(AccountIndex, KeyKind); 4] = [
    (AccountIndex::ProgramId, key_kind::PROGRAM),
    (AccountIndex::SplTokenOwner, key_kind::OWNER),
    (AccountIndex::SplTokenMint, key_kind::MINT),
    (AccountIndex::SplTokenDelegate, key_kind::DELEGATE),
];

/// The indices that the flags enable, and the keys that the node itself needs.
pub(crate) fn from_flags(flags: &IndexFlags) -> Result<IndexConfig> {
    let enabled = &flags.account_index;
    ensure!(
        !enabled.contains(&AccountIndex::None)
            || enabled.iter().all(|index| *index == AccountIndex::None),
        "--account-index none excludes all others"
    );
    let included = keys("account-index-include-key", &flags.account_index_include_key)?;
    let excluded = keys("account-index-exclude-key", &flags.account_index_exclude_key)?;
    ensure!(
        included.is_none() || excluded.is_none(),
        "--account-index-include-key and --account-index-exclude-key exclude each other"
    );
    let filter =
        included.map(IndexKeyFilter::Only).or_else(|| excluded.map(IndexKeyFilter::AllBut));
    let filter = filter.unwrap_or_default();
    let mut indices = IndexConfig::default();
    for (index, key_kind) in INDICES {
        let is_on = enabled.is_empty() || enabled.contains(&index);
        indices = indices.with(key_kind, if is_on { filter.clone() } else { IndexKeyFilter::Off });
    }
    Ok(rpc_solana::required_index_keys()
        .into_iter()
        .fold(indices, |indices, (key_kind, key)| indices.with_own(key_kind, key)))
}

/// A list of keys; `None` if it is empty.
fn keys(name: &str, texts: &[String]) -> Result<Option<Arc<HashSet<Address>>>> {
    let key = |text: &String| {
        let key = Pubkey::from_str(text).with_context(|| format!("--{name} {text}"))?;
        Ok(Address::from(key.to_bytes()))
    };
    let keys: HashSet<Address> = texts.iter().map(key).collect::<Result<_>>()?;
    Ok((!keys.is_empty()).then(|| Arc::new(keys)))
}

#[cfg(test)]
mod tests {
    use query::IndexCoverage;

    use super::*;

    fn check(flags: &IndexFlags) -> Result<Vec<[IndexCoverage; 2]>> {
        let indices = from_flags(flags)?;
        let key_kinds = [
            key_kind::PROGRAM,
            key_kind::OWNER,
            key_kind::MINT,
            key_kind::DELEGATE,
            key_kind::LOCKUP,
        ];
        let indexed =
            |key_kind| [1, 2].map(|n| indices.coverage(key_kind, &Address::from([n; 32])));
        Ok(key_kinds.into_iter().map(indexed).collect())
    }

    fn key(n: u8) -> String {
        Pubkey::new_from_array([n; 32]).to_string()
    }

    #[test]
    fn indices_are_on_unless_others_are_named() -> Result<()> {
        use IndexCoverage::{Covered, Off};
        assert_eq!(check(&IndexFlags::default())?, [[Covered; 2]; 5]);
        let account_index = vec![AccountIndex::SplTokenMint, AccountIndex::ProgramId];
        let flags = IndexFlags { account_index, ..IndexFlags::default() };
        assert_eq!(check(&flags)?, [[Covered; 2], [Off; 2], [Covered; 2], [Off; 2], [Covered; 2]]);
        let none = IndexFlags { account_index: vec![AccountIndex::None], ..IndexFlags::default() };
        assert_eq!(check(&none)?, [[Off; 2], [Off; 2], [Off; 2], [Off; 2], [Covered; 2]]);
        let own = from_flags(&none)?;
        assert!(
            rpc_solana::required_index_keys().iter().all(|(kind, key)| own.has_entries(*kind, key))
        );
        Ok(())
    }

    #[test]
    fn one_list_of_keys_applies_to_every_index() -> Result<()> {
        use IndexCoverage::{Covered, Excluded};
        let only = IndexFlags { account_index_include_key: vec![key(1)], ..IndexFlags::default() };
        let mut expected = [[Covered, Excluded]; 5];
        expected[4] = [Covered; 2];
        assert_eq!(check(&only)?, expected);
        let but = IndexFlags { account_index_exclude_key: vec![key(1)], ..IndexFlags::default() };
        let mut expected = [[Excluded, Covered]; 5];
        expected[4] = [Covered; 2];
        assert_eq!(check(&but)?, expected);
        Ok(())
    }

    #[test]
    fn lists_that_contradict_each_other_are_refused() {
        let err = |flags: IndexFlags| match from_flags(&flags) {
            Ok(indices) => panic!("{indices:?}"),
            Err(err) => format!("{err:#}"),
        };
        let both = IndexFlags {
            account_index_include_key: vec![key(1)],
            account_index_exclude_key: vec![key(2)],
            ..IndexFlags::default()
        };
        assert!(err(both).contains("exclude each other"));
        let account_index = vec![AccountIndex::None, AccountIndex::ProgramId];
        assert!(
            err(IndexFlags { account_index, ..IndexFlags::default() })
                .contains("excludes all others")
        );
        let account_index_include_key = vec!["nobody".into()];
        let invalid = IndexFlags { account_index_include_key, ..IndexFlags::default() };
        assert!(err(invalid).contains("--account-index-include-key nobody"));
    }
}
