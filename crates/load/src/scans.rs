//! Scans: a whole program's accounts, asked for so that no cache has the answer.
//!
//! Shape: [`DIFFERENT`] calls of getProgramAccounts, without any filter that an index could serve; each wants
//! another slice of the accounts' data, so that the bytes of no two answers are the same. They are taken in
//! turn: a server that kept every answer would have to keep that many before one could serve it again.

use serde_json::{Value, json};

use crate::suites::TOKEN_PROGRAM;
use crate::{Endpoint, Found};

/// Slices begin at so many places, and have so many lengths: together a token account's data, at most.
const OFFSETS: usize = 64;
const LENGTHS: usize = 100;

/// So many scans differ from each other.
const DIFFERENT: usize = OFFSETS * LENGTHS;

/// Requests that scan: the program that was wanted, or the token program.
pub fn scans(endpoint: &Endpoint, found: &Found) -> Vec<Vec<u8>> {
    params(found).iter().map(|params| endpoint.call("getProgramAccounts", params)).collect()
}

fn params(found: &Found) -> Vec<Value> {
    let program = found.program.as_deref().unwrap_or(TOKEN_PROGRAM);
    let slice = |nth: usize| {
        let (offset, length) = (nth % OFFSETS, 1 + nth / OFFSETS);
        json!([program, { "encoding": "base64", "dataSlice": { "offset": offset, "length": length } }])
    };
    (0..DIFFERENT).map(slice).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_scans_are_the_same_and_none_has_a_filter() {
        let of_program = Found { program: Some("P".to_owned()), ..Found::default() };
        for (found, program) in [(of_program, "P"), (Found::default(), TOKEN_PROGRAM)] {
            let params = params(&found);
            assert!(params.iter().all(|params| params[0] == program));
            assert!(params.iter().all(|params| params[1]["filters"].is_null()));
            let different: HashSet<String> = params.iter().map(Value::to_string).collect();
            assert_eq!((params.len(), different.len()), (DIFFERENT, DIFFERENT));
        }
    }
}
