//! By which keys a list of accounts is found, and whether it may be asked for.
//!
//! As Agave: each list has an index to be found by; where that is off, the program's; where that is off
//! too, all accounts are looked at. An index that is on and leaves the key out refuses: -32010.
//! Beyond Agave: whatever the request names narrows the search, and there is an index by delegate. If
//! that is off, everything is as in Agave; if it is on, it comes first.
//! Not here: which index is the narrowest, and searching without any (`query`).

use chain_solana::View;
use ledger::{Address, KeyKind};
use query::IndexCoverage;
use solana::{Filters, key_kind};
use solana_pubkey::Pubkey;

use super::accounts_reader;
use crate::custom_error::RpcCustomError;
use crate::error::RpcError;

/// The keys of a program's accounts that pass filters.
pub(super) fn program_keys(
    view: &View,
    program: &Pubkey,
    filters: &Filters,
) -> Result<Vec<(KeyKind, Address)>, RpcError> {
    let keys = filters.keys(program)?;
    let of = |facet| keys.iter().copied().find(|key| key.0 == facet);
    // Agave has no such index: one that leaves the delegate out must not refuse what Agave answers.
    let delegate =
        || of(key_kind::DELEGATE).filter(|key| indexed(view, key) == IndexCoverage::Covered);
    let first = of(key_kind::OWNER).or_else(|| of(key_kind::MINT)).or_else(delegate);
    check(view, first.into_iter().chain([(key_kind::PROGRAM, *program)]))?;
    Ok(accounts_reader::keys(keys))
}

/// The keys of token accounts: by `first`, an owner, delegate or mint, and by `mint` if there is one.
pub(super) fn token_keys(
    view: &View,
    first: (KeyKind, Pubkey),
    mint: Option<Pubkey>,
    program: Pubkey,
) -> Result<Vec<(KeyKind, Address)>, RpcError> {
    let mint = mint.map(|mint| (key_kind::MINT, mint));
    let program = (key_kind::PROGRAM, program);
    // An owner's accounts are never found by the mint in Agave, so a mint does not refuse them.
    let second = mint.filter(|_| first.0 != key_kind::OWNER);
    check(view, [Some(first), second, Some(program)].into_iter().flatten())?;
    let is_found_by_first = indexed(view, &first) == IndexCoverage::Covered;
    let program = (!is_found_by_first).then_some(program);
    Ok(accounts_reader::keys([Some(first), mint, program].into_iter().flatten()))
}

/// Refuses if the first of these keys whose index is on is left out of it.
fn check(view: &View, keys: impl IntoIterator<Item = (KeyKind, Pubkey)>) -> Result<(), RpcError> {
    for key in keys {
        match indexed(view, &key) {
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

fn indexed(view: &View, (facet, key): &(KeyKind, Pubkey)) -> IndexCoverage {
    view.index_coverage(*facet, &accounts_reader::address(key))
}
