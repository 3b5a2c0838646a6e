//! The suites: one method each, asked of what an endpoint really has.
//!
//! They are those of Agave's `accounts-cluster-bench` under its names, with supply really supply, and
//! program-accounts, which that tool could not select. Their methods and one program's address are
//! text: the only place of this crate that knows what it asks for.
//! Shape: [`Found::look`] finds out what there is to ask for, [`Suite::params`] makes calls of it.
//! Bounds: `Wanted::inputs_max` of each kind; at most [`BLOCKS_MAX`] blocks are read for signatures.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::rest::look_for_transactions;
use crate::{Client, LoadError};

/// The token program's address: its accounts tell of owners, mints and delegates.
pub(crate) const TOKEN_PROGRAM: &str = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA";

/// The mint that every cluster has.
const NATIVE_MINT: &str = "So11111111111111111111111111111111111111112";

/// Blocks that are read for signatures, at most.
const BLOCKS_MAX: usize = 256;

/// Transactions that are read whole, at most.
const TRANSACTIONS_MAX: usize = 100;

/// Slots that are asked for at once: what `getBlocks` allows.
const SLOTS_MAX: u64 = 500_000;

/// Addresses in one call.
const ADDRESSES_MAX: usize = 100;

/// Answers of each suite that are looked at before it is measured.
const CHECKED: usize = 8;

/// What is measured by one suite.
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

/// What is to be asked for; what is left out is found out.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Of accounts, mints, owners, in any mixture.
    pub addresses: Vec<String>,
    /// For program-accounts, all of whose accounts are then asked for.
    pub program: Option<String>,
    /// Of each kind, at most.
    pub inputs_max: usize,
}

/// What there is to ask for.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Accounts of any kind.
    pub accounts: Vec<String>,
    /// Owners of token accounts.
    pub owners: Vec<String>,
    /// Mints.
    pub mints: Vec<String>,
    /// Delegates of token accounts.
    pub delegates: Vec<String>,
    /// Slots that have a block, those with transactions if there are any.
    pub blocks: Vec<u64>,
    /// The first and the last slot to ask for.
    pub slots: (u64, u64),
    /// Of transactions.
    pub signatures: Vec<String>,
    /// Some transactions as they went over the wire, in base64.
    pub transactions: Vec<String>,
    pub(crate) program: Option<String>,
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

    /// As it is called on a command line.
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

    /// The suite of a name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|suite| suite.name() == name)
    }

    /// What it calls.
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

    /// What a realistic mix has of it, in parts of a hundred; a generator's default.
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

    /// The parameters of its calls, to be taken in turn.
    ///
    /// Errors: [`LoadError::NoInput`] if the endpoint has nothing that it could ask for.
    pub fn params(self, found: &Found) -> Result<Vec<Value>, LoadError> {
        let base64 = json!({ "encoding": "base64" });
        let token = json!({ "programId": TOKEN_PROGRAM });
        let of_each = |list: &[String], make: &dyn Fn(&String) -> Value, what: &str| {
            if list.is_empty() {
                let why = format!("the endpoint has no {what} to ask for");
                return Err(LoadError::NoInput { suite: self.name(), why });
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

    /// Its requests; some are sent, and their answers must be results.
    pub fn requests(self, client: &mut Client, found: &Found) -> Result<Vec<Vec<u8>>, LoadError> {
        let params = self.params(found)?;
        let every = params.len().div_ceil(CHECKED);
        for params in params.iter().step_by(every) {
            if client.call(self.method(), params)?.is_null() {
                let why = format!("null is the answer to {} {params}", self.method());
                return Err(LoadError::NoInput { suite: self.name(), why });
            }
        }
        let endpoint = client.endpoint();
        Ok(params.iter().map(|params| endpoint.call(self.method(), params)).collect())
    }

    fn needs_accounts(self) -> bool {
        matches!(
            self,
            Self::AccountInfo
                | Self::MultipleAccounts
                | Self::TokenAccountsByDelegate
                | Self::TokenAccountsByOwner
                | Self::TokenSupply
                | Self::ProgramAccounts
        )
    }

    fn needs_blocks(self) -> bool {
        matches!(self, Self::Block | Self::Blocks | Self::Transaction | Self::TransactionParsed)
    }
}

impl Default for Wanted {
    fn default() -> Self {
        Self { addresses: Vec::new(), program: None, inputs_max: 1_000 }
    }
}

impl Found {
    /// Finds out what these suites need.
    ///
    /// Errors: the endpoint does not answer. What it does not have is simply not found.
    pub fn look(client: &mut Client, suites: &[Suite], wanted: &Wanted) -> Result<Self, LoadError> {
        let mut found = Self { program: wanted.program.clone(), ..Self::default() };
        if suites.iter().any(|suite| suite.needs_accounts()) {
            found.look_for_accounts(client, wanted)?;
        }
        if suites.iter().any(|suite| suite.needs_blocks()) {
            found.look_for_blocks(client, wanted.inputs_max)?;
        }
        Ok(found)
    }

    fn look_for_accounts(&mut self, client: &mut Client, wanted: &Wanted) -> Result<(), LoadError> {
        let most = wanted.inputs_max.max(1);
        if !wanted.addresses.is_empty() {
            self.take_addresses(client, &wanted.addresses)?;
        } else if !self.take_pages(client, most)? {
            // A node without pages: what is told of without a scan.
            let largest = told(client, "getTokenLargestAccounts", &json!([NATIVE_MINT]))?;
            let mut addresses = strings(&largest["value"], "address");
            let votes = told(client, "getVoteAccounts", &json!([]))?;
            for kind in ["current", "delinquent"] {
                addresses.extend(strings(&votes[kind], "votePubkey"));
                addresses.extend(strings(&votes[kind], "nodePubkey"));
            }
            let largest = told(client, "getLargestAccounts", &json!([]))?;
            addresses.extend(strings(&largest["value"], "address"));
            self.take_addresses(client, &addresses)?;
        }
        for list in [&mut self.accounts, &mut self.owners, &mut self.mints, &mut self.delegates] {
            let mut seen = HashSet::new();
            list.retain(|address| seen.insert(address.clone()));
            list.truncate(most);
        }
        Ok(())
    }

    /// Pages of token accounts, until there are as many of each kind as wanted, or enough was read.
    fn take_pages(&mut self, client: &mut Client, most: usize) -> Result<bool, LoadError> {
        let mut next = Value::Null;
        for _ in 0..8 {
            let mut config = json!({ "encoding": "jsonParsed", "limit": most.min(1_000),
                "filters": [{ "dataSize": 165 }] });
            if !next.is_null() {
                config["paginationKey"] = next;
            }
            let page = told(client, "getProgramAccountsV2", &json!([TOKEN_PROGRAM, config]))?;
            let page = if page["accounts"].is_null() { &page["value"] } else { &page };
            for entry in page["accounts"].as_array().into_iter().flatten() {
                self.take(entry["pubkey"].as_str().unwrap_or_default(), &entry["account"]);
            }
            next = page["paginationKey"].clone();
            let is_enough = self.accounts.len() >= most && self.delegates.len() * 20 >= most;
            if next.is_null() || is_enough {
                break;
            }
        }
        Ok(!self.accounts.is_empty())
    }

    fn take_addresses(
        &mut self,
        client: &mut Client,
        addresses: &[String],
    ) -> Result<(), LoadError> {
        for addresses in addresses.chunks(ADDRESSES_MAX) {
            let params = json!([addresses, { "encoding": "jsonParsed" }]);
            let answer = client.call("getMultipleAccounts", &params)?;
            let accounts = answer["value"].as_array();
            for (address, account) in addresses.iter().zip(accounts.into_iter().flatten()) {
                if account.is_null() {
                    // Nothing is there, but it may own something.
                    self.owners.push(address.clone());
                } else {
                    self.take(address, account);
                }
            }
        }
        Ok(())
    }

    /// An account as jsonParsed shows it.
    fn take(&mut self, address: &str, account: &Value) {
        self.accounts.push(address.to_owned());
        let parsed = &account["data"]["parsed"];
        let info = |name: &str| parsed["info"][name].as_str().map(str::to_owned);
        match parsed["type"].as_str() {
            Some("mint") => self.mints.push(address.to_owned()),
            Some("account") => {
                self.owners.extend(info("owner"));
                self.delegates.extend(info("delegate"));
                // Wrapped SOL has no supply of its own; on some nodes it is no account.
                self.mints.extend(info("mint").filter(|mint| mint != NATIVE_MINT));
            }
            _ => self.owners.push(address.to_owned()),
        }
    }

    fn look_for_blocks(&mut self, client: &mut Client, most: usize) -> Result<(), LoadError> {
        let confirmed = json!({ "commitment": "confirmed" });
        let slot = client.call("getSlot", &json!([confirmed]))?.as_u64().unwrap_or(0);
        let first = told(client, "getFirstAvailableBlock", &json!([]))?.as_u64().unwrap_or(0);
        let first = first.max(slot.saturating_sub(SLOTS_MAX)).min(slot);
        self.slots = (first, slot);
        let since = first.max(slot.saturating_sub(BLOCKS_MAX as u64));
        let blocks = told(client, "getBlocks", &json!([since, slot, confirmed]))?;
        let blocks = blocks.as_array().into_iter().flatten().filter_map(Value::as_u64);
        let blocks: Vec<u64> = blocks.collect();
        let config = json!({ "transactionDetails": "signatures", "rewards": false,
            "maxSupportedTransactionVersion": 0, "commitment": "confirmed" });
        for slot in blocks.iter().rev() {
            let block = told(client, "getBlock", &json!([slot, config]))?;
            let signatures = block["signatures"].as_array().into_iter().flatten();
            let before = self.signatures.len();
            self.signatures.extend(signatures.filter_map(Value::as_str).map(str::to_owned));
            if self.signatures.len() > before {
                self.blocks.push(*slot);
            }
            if self.signatures.len() >= most {
                break;
            }
        }
        self.signatures.truncate(most);
        if self.blocks.is_empty() {
            self.blocks = blocks;
        }
        let some = &self.signatures[..self.signatures.len().min(TRANSACTIONS_MAX)];
        self.transactions = look_for_transactions(client, some)?;
        Ok(())
    }
}

/// What a method tells; nothing if the node has no such method, or not that answer.
fn told(client: &mut Client, method: &str, params: &Value) -> Result<Value, LoadError> {
    match client.call(method, params) {
        Err(LoadError::Call { .. }) => Ok(Value::Null),
        told => told,
    }
}

fn strings(list: &Value, name: &str) -> Vec<String> {
    let list = list.as_array().into_iter().flatten();
    list.filter_map(|entry| entry[name].as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{respond, serve};

    /// A node of one token account with a delegate, one block with one transaction, and no pages if so.
    fn node(has_pages: bool) -> Client {
        let address = serve(move |request, socket| {
            let text = String::from_utf8_lossy(request);
            let body: Value =
                serde_json::from_str(text.split("\r\n\r\n").nth(1).expect("a body")).expect("JSON");
            let account = json!({ "data": { "parsed": { "type": "account", "info":
                { "owner": "O", "mint": "M", "delegate": "D" } } } });
            let answer = match body["method"].as_str().expect("a method") {
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
            respond(socket, 200, &json!({ "result": answer }).to_string())
        });
        Client::open(address).expect("the node listens")
    }

    #[test]
    fn every_suite_finds_its_input_with_pages_and_without() {
        for has_pages in [true, false] {
            let found = Found::look(&mut node(has_pages), &Suite::ALL, &Wanted::default())
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
    fn what_is_answered_with_an_error_or_nothing_is_no_suite() {
        let mut node = node(true);
        let found =
            Found::look(&mut node, &Suite::ALL, &Wanted::default()).expect("the node answers");
        Suite::AccountInfo.requests(&mut node, &found).expect("it has an account");
        let missing =
            Suite::Transaction.requests(&mut node, &found).expect_err("the node has none");
        assert!(matches!(missing, LoadError::NoInput { suite: "transaction", .. }), "{missing}");
        let err = Suite::Supply.requests(&mut node, &found).expect_err("the node has none");
        assert!(err.to_string().contains("Method not found"), "{err}");
        let empty = Found::default();
        let err = Suite::TokenSupply.params(&empty).expect_err("nothing was found").to_string();
        assert_eq!(err, "token-supply: the endpoint has no mint to ask for");
    }

    #[test]
    fn names_are_those_of_the_command_line() {
        for suite in Suite::ALL {
            assert_eq!(Suite::parse(suite.name()), Some(suite));
        }
        assert_eq!(Suite::parse("everything"), None);
    }
}
