//! What an endpoint has to ask for: accounts by kind, blocks, transactions.
//!
//! Shape: what is wanted is looked at, or else found with methods that need no scan: pages of token accounts;
//! on a node without pages, what is told of the largest accounts and of votes.
//! What no suite needs is not asked for ([`InputKinds`]): an endpoint may count every call.
//! Bounds: [`DiscoveryConfig::inputs_max`] of each kind; at most [`PAGES_MAX`] pages of accounts, and [`BLOCKS_MAX`] blocks
//! for signatures.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::suites::TOKEN_PROGRAM;
use crate::{Client, LoadError};

/// The mint that every cluster has.
const NATIVE_MINT: &str = "So11111111111111111111111111111111111111112";

/// Pages that are read for accounts, at most.
const PAGES_MAX: usize = 8;

/// Blocks that are read for signatures, at most.
const BLOCKS_MAX: usize = 256;

/// Transactions that are read whole, at most.
const TRANSACTIONS_MAX: usize = 100;

/// Slots that are asked for at once: what `getBlocks` allows.
const SLOTS_MAX: u64 = 500_000;

/// Addresses in one call.
const ADDRESSES_MAX: usize = 100;

/// What suites need to be found out: [`Suite::required_inputs`](crate::Suite::required_inputs),
/// [`RestSuite::required_inputs`](crate::RestSuite::required_inputs).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InputKinds {
    /// Accounts, their owners and mints.
    pub accounts: bool,
    /// And delegates, for which more accounts are looked at.
    pub delegates: bool,
    /// The first and the last slot.
    pub slots: bool,
    /// Blocks and the signatures in them.
    pub blocks: bool,
    /// Whole transactions.
    pub transactions: bool,
}

/// What is to be asked for; what is left out is found out.
#[derive(Clone, Debug)]
pub struct DiscoveryConfig {
    /// Of accounts, mints, owners, in any mixture.
    pub addresses: Vec<String>,
    /// For program-accounts, all of whose accounts are then asked for.
    pub program: Option<String>,
    /// Of each kind, at most.
    pub inputs_max: usize,
}

/// What there is to ask for.
#[derive(Clone, Debug, Default)]
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
    /// The first and the last slot to ask for.
    pub slots: (u64, u64),
    /// Of transactions.
    pub signatures: Vec<String>,
    /// Some transactions as they went over the wire, in base64, for those suites that post one.
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

    /// What any of these needs.
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
    /// Finds out what is needed.
    ///
    /// Errors: the endpoint does not answer. What it does not have is simply not found.
    pub fn discover(
        client: &mut Client,
        needs: InputKinds,
        wanted: &DiscoveryConfig,
    ) -> Result<Self, LoadError> {
        let mut found = Self { program: wanted.program.clone(), ..Self::default() };
        if needs.accounts || needs.delegates {
            found.discover_accounts(client, needs, wanted)?;
        }
        if needs.slots || needs.blocks || needs.transactions {
            found.discover_slots(client)?;
        }
        if needs.blocks || needs.transactions {
            found.discover_blocks(client, wanted.inputs_max)?;
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
        wanted: &DiscoveryConfig,
    ) -> Result<(), LoadError> {
        let most = wanted.inputs_max.max(1);
        if !wanted.addresses.is_empty() {
            self.read_addresses(client, &wanted.addresses)?;
        } else if !self.read_pages(client, most, needs.delegates)? {
            // A node without pages: what is told of without a scan.
            let largest = call_optional(client, "getTokenLargestAccounts", &json!([NATIVE_MINT]))?;
            let mut addresses = strings(&largest["value"], "address");
            let largest = call_optional(client, "getLargestAccounts", &json!([]))?;
            addresses.extend(strings(&largest["value"], "address"));
            // Last, as they change in every block: what comes first is asked for again as unchanged.
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
            list.truncate(most);
        }
        Ok(())
    }

    /// Pages of token accounts, until there are as many of each kind as wanted, or enough was read.
    fn read_pages(
        &mut self,
        client: &mut Client,
        most: usize,
        needs_delegates: bool,
    ) -> Result<bool, LoadError> {
        let mut next = Value::Null;
        for _ in 0..PAGES_MAX {
            let mut config = json!({ "encoding": "jsonParsed", "limit": most.min(1_000),
                "filters": [{ "dataSize": 165 }] });
            if !next.is_null() {
                config["paginationKey"] = next;
            }
            let page =
                call_optional(client, "getProgramAccountsV2", &json!([TOKEN_PROGRAM, config]))?;
            let page = if page["accounts"].is_null() { &page["value"] } else { &page };
            for entry in page["accounts"].as_array().into_iter().flatten() {
                self.add_account(entry["pubkey"].as_str().unwrap_or_default(), &entry["account"]);
            }
            next = page["paginationKey"].clone();
            // Few accounts have a delegate.
            let has_delegates = !needs_delegates || self.delegates.len() * 20 >= most;
            let is_enough = self.accounts.len() >= most && has_delegates;
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
                    self.add_account(address, account);
                }
            }
        }
        Ok(())
    }

    /// An account as jsonParsed shows it.
    fn add_account(&mut self, address: &str, account: &Value) {
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

    fn discover_slots(&mut self, client: &mut Client) -> Result<(), LoadError> {
        let confirmed = json!({ "commitment": "confirmed" });
        let slot = client.call("getSlot", &json!([confirmed]))?.as_u64().unwrap_or(0);
        let first =
            call_optional(client, "getFirstAvailableBlock", &json!([]))?.as_u64().unwrap_or(0);
        let first = first.max(slot.saturating_sub(SLOTS_MAX)).min(slot);
        self.slots = (first, slot);
        Ok(())
    }

    fn discover_blocks(&mut self, client: &mut Client, most: usize) -> Result<(), LoadError> {
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
            if self.signatures.len() >= most {
                break;
            }
        }
        self.signatures.truncate(most);
        if self.blocks.is_empty() {
            self.blocks = blocks;
        }
        Ok(())
    }

    /// The bytes of some, in base64.
    fn discover_transactions(&mut self, client: &mut Client) -> Result<(), LoadError> {
        let config = json!({ "encoding": "base64", "maxSupportedTransactionVersion": 0,
            "commitment": "confirmed" });
        for signature in self.signatures.iter().take(TRANSACTIONS_MAX) {
            let told = call_optional(client, "getTransaction", &json!([signature, config]))?;
            let text = told["transaction"].get(0).and_then(Value::as_str);
            self.transactions.extend(text.map(str::to_owned));
        }
        Ok(())
    }
}

/// What a method tells; nothing if the node has no such method, or not that answer.
fn call_optional(client: &mut Client, method: &str, params: &Value) -> Result<Value, LoadError> {
    match client.call(method, params) {
        Err(LoadError::Call { .. }) => Ok(Value::Null),
        told => told,
    }
}

fn strings(list: &Value, name: &str) -> Vec<String> {
    let list = list.as_array().into_iter().flatten();
    list.filter_map(|entry| entry[name].as_str().map(str::to_owned)).collect()
}
