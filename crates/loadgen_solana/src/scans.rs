//! Scans: requests for all accounts of a program that no cache can serve.
//!
//! Shape: [`VARIANTS`] calls of getProgramAccounts, without a filter that an index could serve.
//! Each requests another slice of the accounts' data, so that no two responses are equal. They are
//! sent in order: a server that caches every response would have to store that many before it could
//! serve one again.

use std::fmt;

use http_client::{Client, Endpoint};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Value, json};

use crate::addresses::TOKEN_PROGRAM;
use crate::{Inputs, SuiteError};

/// Number of offsets and of lengths of the slices: together at most a token account's data.
const OFFSETS: usize = 64;
const LENGTHS: usize = 100;

/// Number of different scans.
const VARIANTS: usize = OFFSETS * LENGTHS;

/// A response prefix of this length contains an account if there is one.
const PREFIX_BYTES: u64 = 1024;

/// Creates scan requests of the configured program, or of the token program. A separate scan, of
/// which only a prefix is read, checks first that there is an account.
///
/// Errors: [`SuiteError::NoInput`] if the program has no account, or the endpoint refuses the scan.
pub fn scan_requests(client: &Client, found: &Inputs) -> Result<Vec<Vec<u8>>, SuiteError> {
    let no_input = |why: String| SuiteError::NoInput { suite: "scans", why };
    // A slice without data: it is none of the measured requests.
    let request = call(client.endpoint(), &params(found, 0, 0));
    let (status, prefix) = client.exchange_prefix(&request, PREFIX_BYTES)?;
    match ScanResult::parse_prefix(&prefix) {
        ScanResult::Accounts if status == 200 => {}
        ScanResult::Empty if status == 200 => {
            let program = found.program.as_deref().unwrap_or(TOKEN_PROGRAM);
            return Err(no_input(format!("the endpoint has no account of {program} to scan")));
        }
        _ => {
            let prefix = String::from_utf8_lossy(&prefix);
            let prefix: String = prefix.chars().take(200).collect();
            return Err(no_input(format!("getProgramAccounts is answered with {status} {prefix}")));
        }
    }
    let different = scan_params(found);
    Ok(different.iter().map(|params| call(client.endpoint(), params)).collect())
}

fn call(endpoint: &Endpoint, params: &Value) -> Vec<u8> {
    endpoint.call("getProgramAccounts", params)
}

fn scan_params(found: &Inputs) -> Vec<Value> {
    let nths = 0..VARIANTS;
    nths.map(|nth| params(found, nth % OFFSETS, 1 + nth / OFFSETS)).collect()
}

fn params(found: &Inputs, offset: usize, length: usize) -> Value {
    let program = found.program.as_deref().unwrap_or(TOKEN_PROGRAM);
    json!([program, { "encoding": "base64", "dataSlice": { "offset": offset, "length": length } }])
}

/// The result of a scan, as far as the beginning of its response says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScanResult {
    /// At least one account.
    Accounts,
    /// No account.
    Empty,
    /// An error, or no valid response.
    None,
}

impl ScanResult {
    /// Reads a response up to its first account.
    fn parse_prefix(prefix: &[u8]) -> Self {
        let mut result = Self::None;
        let mut response = serde_json::Deserializer::from_slice(prefix);
        // It stops within the list, which the parser reports as an error.
        let _ = response.deserialize_map(FirstAccount { result: &mut result });
        result
    }
}

/// Reads the members of a response up to `result`, and of that the first account.
struct FirstAccount<'a> {
    result: &'a mut ScanResult,
}

impl<'de> Visitor<'de> for FirstAccount<'_> {
    type Value = ();

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a response with a list of accounts")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while let Some(name) = members.next_key::<&str>()? {
            if name == "result" {
                return members.next_value_seed(self);
            }
            members.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut accounts: A) -> Result<(), A::Error> {
        *self.result = match accounts.next_element::<IgnoredAny>()? {
            Some(_) => ScanResult::Accounts,
            None => ScanResult::Empty,
        };
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for FirstAccount<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, list: D) -> Result<(), D::Error> {
        list.deserialize_seq(self)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use http_client::testing::{respond, serve};

    use super::*;

    #[test]
    fn nothing_to_scan_is_an_error_that_says_so() {
        let of = |body: &'static str| {
            let address = serve(move |request, socket| {
                assert!(String::from_utf8_lossy(request).contains(r#""length":0"#));
                respond(socket, 200, body)
            });
            let client = Client::open(address).expect("it listens");
            scan_requests(&client, &Inputs::default())
        };
        let some = of(r#"{"jsonrpc":"2.0","result":[{"pubkey":"A","account":{}}],"id":1}"#);
        assert_eq!(some.expect("there is one").len(), VARIANTS);
        let none = of(r#"{"jsonrpc":"2.0","result":[],"id":1}"#).expect_err("none").to_string();
        let why = format!("scans: the endpoint has no account of {TOKEN_PROGRAM} to scan");
        assert_eq!(none, why);
        let refused = of(r#"{"error":{"code":-32010,"message":"excluded"}}"#).expect_err("refused");
        assert!(refused.to_string().contains("200 {\"error\""), "{refused}");
    }

    #[test]
    fn the_beginning_of_a_response_says_whether_there_are_accounts() {
        for (prefix, result) in [
            (
                r#"{"jsonrpc":"2.0","result":[{"pubkey":"A","account":{"data":[]}},{"pub"#,
                "Accounts",
            ),
            (r#"{"id":1,"result":[]}"#, "Empty"),
            (r#"{"error":{"message":"\"result\" \"pubkey\"","data":{"result":[1]}}}"#, "None"),
            (r#"{"result":null}"#, "None"),
            ("no JSON", "None"),
        ] {
            let parsed = ScanResult::parse_prefix(prefix.as_bytes());
            assert_eq!(format!("{parsed:?}"), result, "{prefix}");
        }
    }

    #[test]
    fn no_two_scans_are_the_same_and_none_has_a_filter() {
        let of_program = Inputs { program: Some("P".to_owned()), ..Inputs::default() };
        for (found, program) in [(of_program, "P"), (Inputs::default(), TOKEN_PROGRAM)] {
            let params = scan_params(&found);
            assert!(params.iter().all(|params| params[0] == program));
            assert!(params.iter().all(|params| params[1]["filters"].is_null()));
            let different: HashSet<String> = params.iter().map(Value::to_string).collect();
            assert_eq!((params.len(), different.len()), (VARIANTS, VARIANTS));
        }
    }
}
