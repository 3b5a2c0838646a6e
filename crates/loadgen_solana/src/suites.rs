//! The suites: one method each, with parameters from the endpoint's own data.
//!
//! They have the names of those in Agave's `accounts-cluster-bench`. Supply really measures
//! getSupply, and program-accounts is added, which that tool could not select.
//! Shape: [`Suite::params`] creates calls from discovered [`Inputs`].

use http_client::Client;
use serde_json::{Value, json};

use crate::addresses::TOKEN_PROGRAM;
use crate::{InputKinds, Inputs, SuiteError};

/// Responses of each suite that are checked before it is measured.
const CHECKED_RESPONSES: usize = 8;

/// The requests that one suite measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Suite {
    /// getAccountInfo.
    AccountInfo,
    /// getBlock.
    Block,
    /// getBlocks over as many slots as there are, at most 500,000.
    Blocks,
    /// getFirstAvailableBlock.
    FirstAvailableBlock,
    /// getMultipleAccounts of ten.
    MultipleAccounts,
    /// getSlot.
    Slot,
    /// getSupply.
    Supply,
    /// getTokenAccountsByDelegate.
    TokenAccountsByDelegate,
    /// getTokenAccountsByOwner.
    TokenAccountsByOwner,
    /// getTokenSupply.
    TokenSupply,
    /// getTransaction, base64.
    Transaction,
    /// getTransaction, jsonParsed.
    TransactionParsed,
    /// getVersion.
    Version,
    /// getProgramAccounts of a program, or of the token program by owner.
    ProgramAccounts,
}

impl Suite {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::AccountInfo,
        Self::Block,
        Self::Blocks,
        Self::FirstAvailableBlock,
        Self::MultipleAccounts,
        Self::Slot,
        Self::Supply,
        Self::TokenAccountsByDelegate,
        Self::TokenAccountsByOwner,
        Self::TokenSupply,
        Self::Transaction,
        Self::TransactionParsed,
        Self::Version,
        Self::ProgramAccounts,
    ];

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::AccountInfo => "account-info",
            Self::Block => "block",
            Self::Blocks => "blocks",
            Self::FirstAvailableBlock => "first-available-block",
            Self::MultipleAccounts => "multiple-accounts",
            Self::Slot => "slot",
            Self::Supply => "supply",
            Self::TokenAccountsByDelegate => "token-accounts-by-delegate",
            Self::TokenAccountsByOwner => "token-accounts-by-owner",
            Self::TokenSupply => "token-supply",
            Self::Transaction => "transaction",
            Self::TransactionParsed => "transaction-parsed",
            Self::Version => "version",
            Self::ProgramAccounts => "program-accounts",
        }
    }

    /// The suite with a name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|suite| suite.name() == name)
    }

    /// Name of the method.
    pub fn method(self) -> &'static str {
        match self {
            Self::AccountInfo => "getAccountInfo",
            Self::Block => "getBlock",
            Self::Blocks => "getBlocks",
            Self::FirstAvailableBlock => "getFirstAvailableBlock",
            Self::MultipleAccounts => "getMultipleAccounts",
            Self::Slot => "getSlot",
            Self::Supply => "getSupply",
            Self::TokenAccountsByDelegate => "getTokenAccountsByDelegate",
            Self::TokenAccountsByOwner => "getTokenAccountsByOwner",
            Self::TokenSupply => "getTokenSupply",
            Self::Transaction | Self::TransactionParsed => "getTransaction",
            Self::Version => "getVersion",
            Self::ProgramAccounts => "getProgramAccounts",
        }
    }

    /// Its share of a mix, in percent: an estimate without a source ([`crate::PUBLISHED_MIX`] has one), and the default
    /// of the generator.
    pub fn weight(self) -> f64 {
        match self {
            Self::AccountInfo => 40.0,
            Self::MultipleAccounts => 15.0,
            Self::TokenAccountsByOwner => 12.0,
            Self::Transaction | Self::Slot => 8.0,
            Self::TransactionParsed | Self::Block | Self::TokenSupply => 4.0,
            Self::ProgramAccounts | Self::Blocks | Self::TokenAccountsByDelegate => 1.0,
            Self::FirstAvailableBlock | Self::Version => 0.8,
            Self::Supply => 0.4,
        }
    }

    /// The parameters of its calls, sent in order.
    ///
    /// Errors: [`SuiteError::NoInput`] if the endpoint has no data for it.
    pub fn params(self, found: &Inputs) -> Result<Vec<Value>, SuiteError> {
        let base64 = json!({ "encoding": "base64" });
        let token = json!({ "programId": TOKEN_PROGRAM });
        let of_each = |list: &[String], make: &dyn Fn(&String) -> Value, what: &str| {
            if list.is_empty() {
                let why = format!("the endpoint has no {what} to ask for");
                return Err(SuiteError::NoInput { suite: self.name(), why });
            }
            Ok(list.iter().map(make).collect::<Vec<_>>())
        };
        let transaction = |encoding: &'static str| {
            let config = json!({ "encoding": encoding, "maxSupportedTransactionVersion": 0,
                "commitment": "confirmed" });
            of_each(&found.signatures, &|signature| json!([signature, config]), "transaction")
        };
        match self {
            Self::AccountInfo => {
                of_each(&found.accounts, &|address| json!([address, base64]), "account")
            }
            Self::MultipleAccounts => {
                of_each(&found.accounts, &|_| Value::Null, "account")?;
                Ok(found.accounts.chunks(10).map(|ten| json!([ten, base64])).collect())
            }
            Self::TokenAccountsByOwner => of_each(
                &found.owners,
                &|owner| json!([owner, token, base64]),
                "owner of token accounts",
            ),
            Self::TokenAccountsByDelegate => of_each(
                &found.delegates,
                &|delegate| json!([delegate, token, base64]),
                "delegate of token accounts",
            ),
            Self::TokenSupply => of_each(&found.mints, &|mint| json!([mint]), "mint"),
            Self::ProgramAccounts => match &found.program {
                Some(program) => Ok(vec![json!([program, base64])]),
                None => of_each(
                    &found.owners,
                    &|owner| {
                        let memcmp = json!({ "memcmp": { "offset": 32, "bytes": owner } });
                        let filters = json!([{ "dataSize": 165 }, memcmp]);
                        json!([TOKEN_PROGRAM, { "encoding": "base64", "filters": filters }])
                    },
                    "owner of token accounts",
                ),
            },
            Self::Block => {
                let blocks: Vec<String> = found.blocks.iter().map(u64::to_string).collect();
                of_each(&blocks, &|_| Value::Null, "block")?;
                let config = json!({ "encoding": "json", "maxSupportedTransactionVersion": 0,
                    "commitment": "confirmed", "rewards": false });
                Ok(found.blocks.iter().map(|slot| json!([slot, config])).collect())
            }
            Self::Blocks => {
                let config = json!({ "commitment": "confirmed" });
                Ok(vec![json!([found.slots.0, found.slots.1, config])])
            }
            Self::Transaction => transaction("base64"),
            Self::TransactionParsed => transaction("jsonParsed"),
            Self::FirstAvailableBlock | Self::Slot | Self::Supply | Self::Version => {
                Ok(vec![json!([])])
            }
        }
    }

    /// Makes the requests of the suite. Some are sent first, and their responses must have results.
    pub fn requests(self, client: &mut Client, found: &Inputs) -> Result<Vec<Vec<u8>>, SuiteError> {
        let params = self.params(found)?;
        let every = params.len().div_ceil(CHECKED_RESPONSES);
        for params in params.iter().step_by(every) {
            let result = client.call(self.method(), params)?;
            // An account of a file of inputs may not exist at this endpoint.
            if result.is_null() || result.get("value").is_some_and(Value::is_null) {
                let why = format!("the result of {} {params} is null", self.method());
                return Err(SuiteError::NoInput { suite: self.name(), why });
            }
        }
        let endpoint = client.endpoint();
        Ok(params.iter().map(|params| endpoint.call(self.method(), params)).collect())
    }

    /// Data that must be discovered for it.
    pub fn required_inputs(self) -> InputKinds {
        match self {
            Self::FirstAvailableBlock | Self::Slot | Self::Supply | Self::Version => {
                InputKinds::NONE
            }
            Self::AccountInfo
            | Self::MultipleAccounts
            | Self::TokenAccountsByOwner
            | Self::TokenSupply
            | Self::ProgramAccounts => InputKinds { accounts: true, ..InputKinds::NONE },
            Self::TokenAccountsByDelegate => {
                InputKinds { accounts: true, delegates: true, ..InputKinds::NONE }
            }
            Self::Blocks => InputKinds { slots: true, ..InputKinds::NONE },
            Self::Block | Self::Transaction | Self::TransactionParsed => {
                InputKinds { blocks: true, ..InputKinds::NONE }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use http_client::testing::{respond, serve};

    use super::*;
    use crate::{DiscoveryConfig, RestSuite};

    /// The body of a short request.
    fn body(request: &[u8]) -> Value {
        let text = String::from_utf8_lossy(request);
        let (_, body) = text.split_once("\r\n\r\n").expect("a body");
        serde_json::from_str(body).expect("JSON")
    }

    /// A node with one token account with a delegate and one block with one transaction; with or
    /// without pages.
    fn node(has_pages: bool) -> Client {
        recording_node(has_pages, Arc::default())
    }

    /// Starts a node that appends the name of each requested method to `methods`.
    fn recording_node(has_pages: bool, methods: Arc<Mutex<Vec<String>>>) -> Client {
        let address = serve(move |request, socket| {
            let body = body(request);
            let account = json!({ "data": { "parsed": { "type": "account", "info":
                { "owner": "O", "mint": "M", "delegate": "D" } } } });
            let method = body["method"].as_str().expect("a method");
            methods.lock().expect("not poisoned").push(method.to_owned());
            let result = match method {
                "getProgramAccountsV2" if has_pages => {
                    json!({ "accounts": [{ "pubkey": "A", "account": account }] })
                }
                "getTokenLargestAccounts" => json!({ "value": [{ "address": "A" }] }),
                "getMultipleAccounts" => json!({ "value": [account] }),
                "getSlot" => json!(7),
                "getFirstAvailableBlock" => json!(5),
                "getBlocks" => json!([5, 7]),
                "getBlock" if body["params"][0] == 7 => json!({ "signatures": [] }),
                "getBlock" => json!({ "signatures": ["S"] }),
                "getTransaction" => Value::Null,
                "getAccountInfo" => json!({ "value": {} }),
                _ => {
                    let error = json!({ "code": -32601, "message": "Method not found" });
                    return respond(socket, 200, &json!({ "error": error }).to_string());
                }
            };
            respond(socket, 200, &json!({ "result": result }).to_string())
        });
        Client::open(address).expect("the node listens")
    }

    #[test]
    fn every_suite_finds_its_input_with_pages_and_without() {
        for has_pages in [true, false] {
            let found = Inputs::discover(
                &mut node(has_pages),
                InputKinds::ALL,
                &DiscoveryConfig::default(),
            )
            .expect("the node answers");
            assert_eq!(
                (&found.accounts[..], &found.owners[..]),
                (&["A".into()][..], &["O".into()][..])
            );
            assert_eq!(
                (&found.mints[..], &found.delegates[..]),
                (&["M".into()][..], &["D".into()][..])
            );
            assert_eq!(
                (found.slots, &found.blocks[..], &found.signatures[..]),
                ((5, 7), &[5][..], &["S".into()][..])
            );
            for suite in Suite::ALL {
                assert_eq!(
                    suite.params(&found).expect("there is input").len(),
                    1,
                    "{}",
                    suite.name()
                );
            }
        }
    }

    #[test]
    fn an_endpoint_gets_no_request_that_no_suite_needs() {
        let asked_for = |needs: InputKinds| {
            let methods = Arc::default();
            let mut node = recording_node(true, Arc::clone(&methods));
            Inputs::discover(&mut node, needs, &DiscoveryConfig::default())
                .expect("the node answers");
            let methods = methods.lock().expect("not poisoned").clone();
            methods.join(" ")
        };
        let rest = |name| RestSuite::parse(name).expect("it is one").required_inputs();
        assert_eq!(
            asked_for(InputKinds::union([Suite::Slot.required_inputs(), rest("rest-node")])),
            ""
        );
        for needs in [Suite::AccountInfo.required_inputs(), rest("rest-account-transactions")] {
            assert_eq!(asked_for(needs), "getProgramAccountsV2");
        }
        assert_eq!(asked_for(Suite::Blocks.required_inputs()), "getSlot getFirstAvailableBlock");
        let blocks = "getSlot getFirstAvailableBlock getBlocks getBlock getBlock";
        for needs in [Suite::Transaction.required_inputs(), rest("rest-block")] {
            assert_eq!(asked_for(needs), blocks);
        }
        let all = format!("getProgramAccountsV2 {blocks} getTransaction");
        assert_eq!(
            asked_for(InputKinds::union(Suite::ALL.map(Suite::required_inputs)))
                + " getTransaction",
            all
        );
        assert_eq!(
            asked_for(InputKinds::union(
                RestSuite::ALL.iter().map(|suite| suite.required_inputs())
            )),
            all
        );
    }

    #[test]
    fn every_suite_has_its_input_if_it_is_discovered_for_it_alone() {
        for suite in Suite::ALL {
            let found = Inputs::discover(
                &mut node(true),
                suite.required_inputs(),
                &DiscoveryConfig::default(),
            );
            suite.params(&found.expect("the node answers")).expect("there is input");
        }
    }

    #[test]
    fn accounts_that_change_in_every_block_come_last() {
        let address = serve(|request, socket| {
            let result = match body(request)["method"].as_str().expect("a method") {
                "getLargestAccounts" => r#"{"value":[{"address":"L"}]}"#,
                "getVoteAccounts" => r#"{"current":[{"votePubkey":"V"}]}"#,
                "getMultipleAccounts" => r#"{"value":[{},{}]}"#,
                _ => "null",
            };
            respond(socket, 200, &format!(r#"{{"result":{result}}}"#))
        });
        let mut node = Client::open(address).expect("the node listens");
        let needs = Suite::AccountInfo.required_inputs();
        let found = Inputs::discover(&mut node, needs, &DiscoveryConfig::default())
            .expect("the node answers");
        assert_eq!(found.accounts, ["L", "V"]);
    }

    #[test]
    fn a_suite_whose_responses_are_errors_or_null_has_no_input() {
        let mut node = node(true);
        let found = Inputs::discover(&mut node, InputKinds::ALL, &DiscoveryConfig::default())
            .expect("the node answers");
        Suite::AccountInfo.requests(&mut node, &found).expect("it has an account");
        let missing =
            Suite::Transaction.requests(&mut node, &found).expect_err("the node has none");
        assert!(matches!(missing, SuiteError::NoInput { suite: "transaction", .. }), "{missing}");
        let err = Suite::Supply.requests(&mut node, &found).expect_err("the node has none");
        assert!(err.to_string().contains("Method not found"), "{err}");
        let empty = Inputs::default();
        let err = Suite::TokenSupply.params(&empty).expect_err("nothing was found").to_string();
        assert_eq!(err, "token-supply: the endpoint has no mint to ask for");
    }

    #[test]
    fn an_account_of_another_endpoint_has_no_input() {
        let address = serve(|_, socket| respond(socket, 200, r#"{"result":{"value":null}}"#));
        let mut node = Client::open(address).expect("the node listens");
        let inputs = Inputs { accounts: vec!["A".to_owned()], ..Inputs::default() };
        let err = Suite::AccountInfo.requests(&mut node, &inputs).expect_err("no account");
        assert!(err.to_string().starts_with("account-info: the result of getAccountInfo"), "{err}");
    }

    #[test]
    fn names_are_those_of_the_command_line() {
        for suite in Suite::ALL {
            assert_eq!(Suite::parse(suite.name()), Some(suite));
        }
        assert_eq!(Suite::parse("everything"), None);
    }
}
