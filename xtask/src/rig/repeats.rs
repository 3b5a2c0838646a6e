//! Calls about the newest final slot whose responses differ: they are made again at newer slots.
//!
//! Reason: a validator may respond about a final slot whose account versions it no longer has. It sets a root at once,
//! and the final slot of its RPC follows on another thread (`update_commitment_cache`), or when enough of the others
//! have that root. Meanwhile it writes and cleans accounts up to its own root, and retains the newest rooted version of
//! each only. So an account that such a newer root has written appears in the final bank as missing, or to scans in its
//! newer version: null for sysvars, AccountNotFound, "No slot history". This is known:
//! github.com/anza-xyz/agave/issues/12545, and pull request 11666 for reads that returned newer versions. A follower
//! reads each slot from a version of its own.
//! Bounds: [`REPEATS_MAX`] more calls.
//! Invariant: a difference counts as such unless a later pair of responses is equal. A later pair that is missing proves
//! nothing.

use anyhow::Result;
use serde_json::{Value, json};

use crate::rig::nodes::Pair;

/// Number of times that a call is made again. The race may affect several final slots in a row: sysvars are written in
/// each.
pub(crate) const REPEATS_MAX: usize = 3;

/// The outcome of a comparison about final slots.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Equal,
    /// The first responses differ. Those to the same call at a newer slot are equal.
    EqualLater(Pair),
    /// The first responses, which differ as all later ones do.
    Different(Pair),
    /// The nodes were never at the same slot.
    NotCompared,
}

/// Compares responses, again at newer slots up to `repeats_max` times if they differ. `request` gets the number of the
/// call and the slot above which it must be.
pub(crate) fn compare_repeatedly(
    repeats_max: usize,
    mut request: impl FnMut(usize, Option<u64>) -> Result<Option<Pair>>,
) -> Result<Outcome> {
    let Some(first) = request(0, None)? else { return Ok(Outcome::NotCompared) };
    if first.is_equal() {
        return Ok(Outcome::Equal);
    }
    let mut newest = first.slot;
    for repeat in 1..=repeats_max {
        // A call that fails does not excuse the difference.
        let Ok(Some(later)) = request(repeat, newest) else { continue };
        if later.is_equal() {
            return Ok(Outcome::EqualLater(first));
        }
        newest = later.slot.or(newest);
    }
    Ok(Outcome::Different(first))
}

/// Returns the parameters of a call that is made again. A validator stores its response to getLargestAccounts for two
/// hours, one for each filter.
pub(crate) fn repeated_params(method: &str, params: &Value, repeat: usize) -> Value {
    let filter = match repeat {
        1 => "circulating",
        2 => "nonCirculating",
        _ => return params.clone(),
    };
    match method {
        "getLargestAccounts" => json!([{"commitment": "finalized", "filter": filter}]),
        _ => params.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(slot: u64, is_equal: bool) -> Pair {
        let follower = json!(if is_equal { 1 } else { 2 });
        Pair { slot: Some(slot), validator: json!(1), follower }
    }

    /// Compares prepared pairs. Returns the outcome and the slots above which calls were made.
    fn compare(pairs: Vec<Result<Option<Pair>>>) -> (Result<Outcome>, Vec<Option<u64>>) {
        let mut pairs = pairs.into_iter();
        let mut above = Vec::new();
        let outcome = compare_repeatedly(REPEATS_MAX, |repeat, slot| {
            assert_eq!(repeat, above.len());
            above.push(slot);
            pairs.next().unwrap()
        });
        (outcome, above)
    }

    #[test]
    fn equal_responses_are_not_requested_again() {
        let (outcome, above) = compare(vec![Ok(Some(pair(5, true)))]);
        assert_eq!(outcome.unwrap(), Outcome::Equal);
        assert_eq!(above, [None]);
    }

    #[test]
    fn a_difference_that_vanishes_at_a_newer_slot_is_excused() {
        let pairs =
            vec![Ok(Some(pair(5, false))), Ok(Some(pair(6, false))), Ok(Some(pair(8, true)))];
        let (outcome, above) = compare(pairs);
        assert_eq!(outcome.unwrap(), Outcome::EqualLater(pair(5, false)));
        assert_eq!(above, [None, Some(5), Some(6)]);
    }

    #[test]
    fn a_difference_that_remains_is_one() {
        let pairs = (5..9).map(|slot| Ok(Some(pair(slot, false)))).collect();
        let (outcome, above) = compare(pairs);
        assert_eq!(outcome.unwrap(), Outcome::Different(pair(5, false)));
        assert_eq!(above, [None, Some(5), Some(6), Some(7)]);
    }

    #[test]
    fn later_calls_without_responses_excuse_nothing() {
        let failed = || Err(anyhow::anyhow!("no node"));
        let (outcome, _) = compare(vec![Ok(Some(pair(5, false))), Ok(None), failed(), Ok(None)]);
        assert_eq!(outcome.unwrap(), Outcome::Different(pair(5, false)));
        let (outcome, _) = compare(vec![Ok(None)]);
        assert_eq!(outcome.unwrap(), Outcome::NotCompared);
        let (outcome, _) = compare(vec![failed()]);
        outcome.unwrap_err();
    }

    #[test]
    fn largest_accounts_are_requested_with_another_filter() {
        let params = json!([{"commitment": "finalized"}]);
        let repeated = |method, repeat| repeated_params(method, &params, repeat);
        assert_eq!(repeated("getLargestAccounts", 0), params);
        assert_eq!(repeated("getLargestAccounts", 1)[0]["filter"], "circulating");
        assert_eq!(repeated("getLargestAccounts", 2)[0]["filter"], "nonCirculating");
        assert_eq!(repeated("getSupply", 1), params);
    }
}
