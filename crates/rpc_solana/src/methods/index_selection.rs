//! The keys by which a list of accounts is found, or -32010.
//!
//! As in Agave, each list has an index. If it is off, the program's index is used; if that is off too, all accounts are
//! scanned. If an index is on but excludes the key, the call fails with -32010.
//! Beyond Agave, all keys of the request narrow the scan, and there is an index by delegate. If that index is off, the
//! behaviour is Agave's; if it is on, it has precedence.
//! Not here: the choice of the narrowest index, and scans without an index (`query`).

use chain_solana::View;
use jsonrpc::error::RpcError;
use ledger::{Address, KeyKind};
use query::IndexCoverage;
use solana::{FilterError, Filters, key_kind};
use solana_pubkey::Pubkey;

use super::accounts_reader;
use crate::custom_error::RpcCustomError;

/// Returns the keys of the accounts of a program that pass `filters`.
pub(super) fn program_keys(
    view: &View,
    program: &Pubkey,
    filters: &Filters,
) -> Result<Vec<(KeyKind, Address)>, RpcError> {
    let keys = filters.keys(program).map_err(invalid_filter)?;
    let with_kind = |kind| keys.iter().copied().find(|key| key.0 == kind);
    // Agave has no such index. An index that excludes the delegate must not refuse a call that Agave answers.
    let delegate = || {
        with_kind(key_kind::DELEGATE)
            .filter(|key| index_coverage(view, key) == IndexCoverage::Covered)
    };
    let first = with_kind(key_kind::OWNER).or_else(|| with_kind(key_kind::MINT)).or_else(delegate);
    check(view, first.into_iter().chain([(key_kind::PROGRAM, *program)]))?;
    Ok(accounts_reader::keys(keys))
}

/// Returns the keys of token accounts: `first`, which is an owner, delegate or mint, and `mint` if it is present.
pub(super) fn token_keys(
    view: &View,
    first: (KeyKind, Pubkey),
    mint: Option<Pubkey>,
    program: Pubkey,
) -> Result<Vec<(KeyKind, Address)>, RpcError> {
    let mint = mint.map(|mint| (key_kind::MINT, mint));
    let program = (key_kind::PROGRAM, program);
    // Agave never finds an owner's accounts by the mint, so an excluded mint is not an error here.
    let second = mint.filter(|_| first.0 != key_kind::OWNER);
    check(view, [Some(first), second, Some(program)].into_iter().flatten())?;
    let is_found_by_first = index_coverage(view, &first) == IndexCoverage::Covered;
    let program = (!is_found_by_first).then_some(program);
    Ok(accounts_reader::keys([Some(first), mint, program].into_iter().flatten()))
}

/// Returns -32010 if, of these keys, the first whose index is on is excluded from it.
fn check(view: &View, keys: impl IntoIterator<Item = (KeyKind, Pubkey)>) -> Result<(), RpcError> {
    for key in keys {
        match index_coverage(view, &key) {
            IndexCoverage::Off => continue,
            IndexCoverage::Covered => break,
            IndexCoverage::Excluded => {
                let index_key = key.1.to_string();
                return Err(RpcCustomError::KeyExcludedFromSecondaryIndex { index_key }.into());
            }
        }
    }
    Ok(())
}

pub(super) fn invalid_filter(err: FilterError) -> RpcError {
    RpcError::invalid_params(err.to_string())
}

fn index_coverage(view: &View, index_key: &(KeyKind, Pubkey)) -> IndexCoverage {
    let (kind, key) = index_key;
    view.index_coverage(*kind, &accounts_reader::address(key))
}
