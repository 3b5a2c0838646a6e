//! What methods read of a view, in Solana's words: accounts by pubkey, mints, lists of accounts.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use chain::View;
use ledger::{Address, Facet};
use serde::{Serialize, Serializer};
use solana::{Account, Encoding, MintFacts};
use solana_account::ReadableAccount;
use solana_account_decoder_client_types::{UiAccount, UiAccountEncoding};
use solana_pubkey::Pubkey;
use solana_rpc_client_types::response::RpcKeyedAccount;

use crate::error::RpcError;

/// A pubkey as the ledger's address.
pub(crate) fn address(pubkey: &Pubkey) -> Address {
    Address::from(pubkey.to_bytes())
}

/// The account of a pubkey.
pub(crate) fn account(view: &View, pubkey: &Pubkey) -> Option<Arc<Account>> {
    view.record(&address(pubkey))
}

/// An account as JSON; -32600 if it is too long for base58.
pub(crate) fn encode(
    view: &View,
    pubkey: &Pubkey,
    account: &Account,
    encoding: Encoding,
) -> Result<UiAccount, RpcError> {
    encoding.check(&account.0).map_err(|err| RpcError::invalid_request(err.to_string()))?;
    Ok(encoding.encode(pubkey, &account.0, |mint| mint_facts(view, mint)))
}

/// What it takes to write amounts of a mint, as a token account's JSON does; `None` if it is none.
pub(crate) fn mint_facts(view: &View, mint: &Pubkey) -> Option<MintFacts> {
    if solana::is_native_mint(mint) {
        return Some(MintFacts::native());
    }
    MintFacts::of(account(view, mint)?.0.data(), view.meta().unix_timestamp)
}

/// The program and the facts of a mint that a client names; -32602 if it is none.
pub(crate) fn named_mint(view: &View, mint: &Pubkey) -> Result<(Pubkey, MintFacts), RpcError> {
    if solana::is_native_mint(mint) {
        return Ok((spl_token_interface::id(), MintFacts::native()));
    }
    let found = account(view, mint)
        .ok_or_else(|| RpcError::invalid_params("Invalid param: could not find mint"))?;
    let facts = MintFacts::of(found.0.data(), view.meta().unix_timestamp).ok_or_else(|| {
        RpcError::invalid_params("Invalid param: Token mint could not be unpacked")
    })?;
    Ok((*found.0.owner(), facts))
}

/// Accounts with their pubkeys, as a list of JSON. Each is encoded when it is written, so that the
/// list costs the bytes that go out and nothing else.
pub(crate) struct List<'a> {
    view: &'a View,
    accounts: Vec<(Pubkey, Arc<Account>)>,
    encoding: Encoding,
    only_parsed_tokens: bool,
}

impl<'a> List<'a> {
    /// The accounts found under a key that `keep` lets pass, in the order of pubkeys if `sorted`.
    pub(crate) fn find(
        view: &'a View,
        (facet, key): (Facet, &Pubkey),
        sorted: bool,
        keep: impl Fn(&Account) -> bool,
    ) -> Self {
        let mut accounts: Vec<_> = view
            .keyed(facet, &address(key))
            .filter(|(_, account)| keep(account))
            .filter_map(|(address, account)| Some((pubkey(&address)?, account)))
            .collect();
        if sorted {
            accounts.sort_unstable_by_key(|(key, _)| *key);
        }
        let encoding = Encoding { form: UiAccountEncoding::Binary, slice: None };
        Self { view, accounts, encoding, only_parsed_tokens: false }
    }

    /// The list in an encoding; -32600 if an account is too long for base58. Token accounts as
    /// `jsonParsed` leave out what cannot be parsed, as Agave does.
    pub(crate) fn encoded(mut self, encoding: Encoding, of_tokens: bool) -> Result<Self, RpcError> {
        for (_, account) in &self.accounts {
            encoding.check(&account.0).map_err(|err| RpcError::invalid_request(err.to_string()))?;
        }
        self.encoding = encoding;
        self.only_parsed_tokens = of_tokens && encoding.form == UiAccountEncoding::JsonParsed;
        Ok(self)
    }
}

impl Serialize for List<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mints: RefCell<HashMap<Pubkey, Option<MintFacts>>> = RefCell::default();
        let facts = |mint: &Pubkey| {
            *mints.borrow_mut().entry(*mint).or_insert_with(|| mint_facts(self.view, mint))
        };
        let keyed =
            |pubkey: &Pubkey, account| RpcKeyedAccount { pubkey: pubkey.to_string(), account };
        let accounts = self.accounts.iter();
        if self.only_parsed_tokens {
            return serializer.collect_seq(accounts.filter_map(|(pubkey, account)| {
                Some(keyed(pubkey, solana::parsed_token(pubkey, &account.0, facts)?))
            }));
        }
        serializer.collect_seq(accounts.map(|(pubkey, account)| {
            keyed(pubkey, self.encoding.encode(pubkey, &account.0, facts))
        }))
    }
}

/// An address as a pubkey. Every address of a Solana ledger is one.
pub(crate) fn pubkey(address: &Address) -> Option<Pubkey> {
    address.to_array().map(Pubkey::new_from_array)
}
