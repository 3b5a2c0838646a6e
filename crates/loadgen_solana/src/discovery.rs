//! Discovery of an endpoint's data for requests: accounts by kind, blocks, transactions.
//!
//! Shape: configured addresses are read. Without them, accounts are found with methods that need no
//! scan: pages of token accounts; on a node without pages, the lists of the largest accounts and of
//! the vote accounts. Data that no suite needs is not requested ([`InputKinds`]), as an endpoint
//! may charge for every call.
//! Bounds: [`DiscoveryConfig::inputs_max`] of each kind; at most [`PAGES_MAX`] pages of accounts,
//! and [`BLOCKS_MAX`] blocks for signatures.

use std::collections::HashSet;

use http_client::{Client, HttpClientError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::addresses::{NATIVE_MINT, TOKEN_PROGRAM};

/// Maximum number of pages of accounts that are read.
const PAGES_MAX: usize = 8;

/// Maximum number of blocks that are read for signatures.
const BLOCKS_MAX: usize = 256;

/// Maximum number of complete transactions that are read.
const TRANSACTIONS_MAX: usize = 100;

/// Maximum range of slots in one request: the limit of `getBlocks`.
const SLOTS_MAX: u64 = 500_000;

/// Addresses in one call.
const ADDRESSES_MAX: usize = 100;

/// Kinds of data that suites need: [`Suite::required_inputs`](crate::Suite::required_inputs),
/// [`RestSuite::required_inputs`](crate::RestSuite::required_inputs).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InputKinds {
    /// Accounts, their owners and mints.
    pub accounts: bool,
    /// Also delegates, for which more accounts are read.
    pub delegates: bool,
    /// The first and the last slot.
    pub slots: bool,
    /// Blocks and the signatures in them.
    pub blocks: bool,
    /// Complete transactions.
    pub transactions: bool,
}

/// Configured data. The rest is discovered.
#[derive(Clone, Debug)]
pub struct DiscoveryConfig {
    /// Addresses of accounts, mints and owners, in any order.
    pub addresses: Vec<String>,
    /// Program of the suite program-accounts, which then requests all its accounts.
    pub program: Option<String>,
    /// Maximum number of each kind.
    pub inputs_max: usize,
}

/// Discovered data for requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inputs {
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
    /// The first and the last slot to request.
    pub slots: (u64, u64),
    /// Signatures of transactions.
    pub signatures: Vec<String>,
    /// Some transactions as sent, in base64, for suites that post one.
    pub transactions: Vec<String>,
    pub(crate) program: Option<String>,
}

impl Default for DiscoveryConfig {
    fn default() -> Self {
        Self { addresses: Vec::new(), program: None, inputs_max: 1_000 }
    }
}

impl InputKinds {
    /// Nothing.
    pub const NONE: Self = Self {
        accounts: false,
        delegates: false,
        slots: false,
        blocks: false,
        transactions: false,
    };

    /// Everything.
    pub const ALL: Self =
        Self { accounts: true, delegates: true, slots: true, blocks: true, transactions: true };

    /// The union of several sets.
    pub fn union(needs: impl IntoIterator<Item = Self>) -> Self {
        needs.into_iter().fold(Self::NONE, |all, more| Self {
            accounts: all.accounts || more.accounts,
            delegates: all.delegates || more.delegates,
            slots: all.slots || more.slots,
            blocks: all.blocks || more.blocks,
            transactions: all.transactions || more.transactions,
        })
    }
}

impl Inputs {
    /// Discovers the data that is needed.
    ///
    /// Errors: the endpoint does not answer. Data that it does not have stays empty.
    pub fn discover(
        client: &mut Client,
        needs: InputKinds,
        config: &DiscoveryConfig,
    ) -> Result<Self, HttpClientError> {
        let mut found = Self { program: config.program.clone(), ..Self::default() };
        if needs.accounts || needs.delegates {
            found.discover_accounts(client, needs, config)?;
        }
        if needs.slots || needs.blocks || needs.transactions {
            found.discover_slots(client)?;
        }
        if needs.blocks || needs.transactions {
            found.discover_blocks(client, config.inputs_max)?;
        }
        if needs.transactions {
            found.discover_transactions(client)?;
        }
        Ok(found)
    }

    fn discover_accounts(
        &mut self,
        client: &mut Client,
        needs: InputKinds,
        config: &DiscoveryConfig,
    ) -> Result<(), HttpClientError> {
        let inputs_max = config.inputs_max.max(1);
        if !config.addresses.is_empty() {
            self.read_addresses(client, &config.addresses)?;
        } else if !self.read_pages(client, inputs_max, needs.delegates)? {
            // A node without pages: use lists that need no scan.
            let largest = call_optional(client, "getTokenLargestAccounts", &json!([NATIVE_MINT]))?;
            let mut addresses = strings(&largest["value"], "address");
            let largest = call_optional(client, "getLargestAccounts", &json!([]))?;
            addresses.extend(strings(&largest["value"], "address"));
            // These come last, as they change in every block: the suites of unchanged accounts use
            // the first ones.
            let votes = call_optional(client, "getVoteAccounts", &json!([]))?;
            for kind in ["current", "delinquent"] {
                addresses.extend(strings(&votes[kind], "votePubkey"));
                addresses.extend(strings(&votes[kind], "nodePubkey"));
            }
            self.read_addresses(client, &addresses)?;
        }
        for list in [&mut self.accounts, &mut self.owners, &mut self.mints, &mut self.delegates] {
            let mut seen = HashSet::new();
            list.retain(|address| seen.insert(address.clone()));
            list.truncate(inputs_max);
        }
        Ok(())
    }

    /// Reads pages of token accounts until there are `inputs_max` of each kind, or [`PAGES_MAX`]
    /// were read.
    fn read_pages(
        &mut self,
        client: &mut Client,
        inputs_max: usize,
        needs_delegates: bool,
    ) -> Result<bool, HttpClientError> {
        let mut next = Value::Null;
        for _ in 0..PAGES_MAX {
            let mut params = json!({ "encoding": "jsonParsed", "limit": inputs_max.min(1_000),
                "filters": [{ "dataSize": 165 }] });
            if !next.is_null() {
                params["paginationKey"] = next;
            }
            let page =
                call_optional(client, "getProgramAccountsV2", &json!([TOKEN_PROGRAM, params]))?;
            let page = if page["accounts"].is_null() { &page["value"] } else { &page };
            for entry in page["accounts"].as_array().into_iter().flatten() {
                self.add_account(entry["pubkey"].as_str().unwrap_or_default(), &entry["account"]);
            }
            next = page["paginationKey"].clone();
            // Few accounts have a delegate.
            let has_delegates = !needs_delegates || self.delegates.len() * 20 >= inputs_max;
            let is_enough = self.accounts.len() >= inputs_max && has_delegates;
            if next.is_null() || is_enough {
                break;
            }
        }
        Ok(!self.accounts.is_empty())
    }

    fn read_addresses(
        &mut self,
        client: &mut Client,
        addresses: &[String],
    ) -> Result<(), HttpClientError> {
        for addresses in addresses.chunks(ADDRESSES_MAX) {
            let params = json!([addresses, { "encoding": "jsonParsed" }]);
            let result = client.call("getMultipleAccounts", &params)?;
            let accounts = result["value"].as_array();
            for (address, account) in addresses.iter().zip(accounts.into_iter().flatten()) {
                if account.is_null() {
                    // The account does not exist, but its address may own others.
                    self.owners.push(address.clone());
                } else {
                    self.add_account(address, account);
                }
            }
        }
        Ok(())
    }

    /// Adds an account in the form of jsonParsed.
    fn add_account(&mut self, address: &str, account: &Value) {
        self.accounts.push(address.to_owned());
        let parsed = &account["data"]["parsed"];
        let info = |name: &str| parsed["info"][name].as_str().map(str::to_owned);
        match parsed["type"].as_str() {
            Some("mint") => self.mints.push(address.to_owned()),
            Some("account") => {
                self.owners.extend(info("owner"));
                self.delegates.extend(info("delegate"));
                // Wrapped SOL has no supply of its own; on some nodes its mint is not an account.
                self.mints.extend(info("mint").filter(|mint| mint != NATIVE_MINT));
            }
            _ => self.owners.push(address.to_owned()),
        }
    }

    fn discover_slots(&mut self, client: &mut Client) -> Result<(), HttpClientError> {
        let confirmed = json!({ "commitment": "confirmed" });
        let slot = client.call("getSlot", &json!([confirmed]))?.as_u64().unwrap_or(0);
        let first =
            call_optional(client, "getFirstAvailableBlock", &json!([]))?.as_u64().unwrap_or(0);
        let first = first.max(slot.saturating_sub(SLOTS_MAX)).min(slot);
        self.slots = (first, slot);
        Ok(())
    }

    fn discover_blocks(
        &mut self,
        client: &mut Client,
        inputs_max: usize,
    ) -> Result<(), HttpClientError> {
        let confirmed = json!({ "commitment": "confirmed" });
        let (first, slot) = self.slots;
        let since = first.max(slot.saturating_sub(BLOCKS_MAX as u64));
        let blocks = call_optional(client, "getBlocks", &json!([since, slot, confirmed]))?;
        let blocks = blocks.as_array().into_iter().flatten().filter_map(Value::as_u64);
        let blocks: Vec<u64> = blocks.collect();
        let config = json!({ "transactionDetails": "signatures", "rewards": false,
            "maxSupportedTransactionVersion": 0, "commitment": "confirmed" });
        for slot in blocks.iter().rev() {
            let block = call_optional(client, "getBlock", &json!([slot, config]))?;
            let signatures = block["signatures"].as_array().into_iter().flatten();
            let before = self.signatures.len();
            self.signatures.extend(signatures.filter_map(Value::as_str).map(str::to_owned));
            if self.signatures.len() > before {
                self.blocks.push(*slot);
            }
            if self.signatures.len() >= inputs_max {
                break;
            }
        }
        self.signatures.truncate(inputs_max);
        if self.blocks.is_empty() {
            self.blocks = blocks;
        }
        Ok(())
    }

    /// Reads the bytes of some transactions, in base64.
    fn discover_transactions(&mut self, client: &mut Client) -> Result<(), HttpClientError> {
        let config = json!({ "encoding": "base64", "maxSupportedTransactionVersion": 0,
            "commitment": "confirmed" });
        for signature in self.signatures.iter().take(TRANSACTIONS_MAX) {
            let result = call_optional(client, "getTransaction", &json!([signature, config]))?;
            let text = result["transaction"].get(0).and_then(Value::as_str);
            self.transactions.extend(text.map(str::to_owned));
        }
        Ok(())
    }
}

/// Calls a method. Returns null if the node does not have the method or answers with an error.
fn call_optional(
    client: &mut Client,
    method: &str,
    params: &Value,
) -> Result<Value, HttpClientError> {
    match client.call(method, params) {
        Err(HttpClientError::Call { .. }) => Ok(Value::Null),
        result => result,
    }
}

fn strings(list: &Value, name: &str) -> Vec<String> {
    let list = list.as_array().into_iter().flatten();
    list.filter_map(|entry| entry[name].as_str().map(str::to_owned)).collect()
}
