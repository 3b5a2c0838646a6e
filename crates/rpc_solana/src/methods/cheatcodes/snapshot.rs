//! surfnet_exportSnapshot: the accounts of the ledger as JSON, which `surfpool start --snapshot` reads.
//!
//! Bounds: [`ACCOUNTS_MAX`] accounts and [`BYTES_MAX`] of their data; an error names the bound.

use std::collections::{BTreeMap, HashSet};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use chain_solana::View;
use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use jsonrpc::{
    Execution, IncrementalQuery, MethodResult, MethodSpec, OutputBody, VISITS, run_incremental,
};
use ledger::{AddressId, Commitment};
use serde::{Deserialize, Serialize};
use solana::Encoding;
use solana_account::{AccountSharedData, ReadableAccount};
use solana_account_decoder_client_types::{ParsedAccount, UiAccountData, UiAccountEncoding};
use solana_pubkey::Pubkey;
use solana_sdk_ids::{feature, sysvar};

use super::super::{accounts_reader, parse_key};
use crate::commitment::context;
use crate::solana_api::SolanaApi;

pub(super) const METHODS: &[MethodSpec<SolanaApi>] =
    &[gated!("surfnet_exportSnapshot", Execution::Medium, export_snapshot)];

/// Accounts of a snapshot at most.
const ACCOUNTS_MAX: usize = 100_000;
/// Bytes of their data at most.
const BYTES_MAX: usize = 32 << 20;

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct ExportConfig {
    include_parsed_accounts: Option<bool>,
    filter: Option<ExportFilter>,
    scope: Option<Scope>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct ExportFilter {
    include_program_accounts: Option<bool>,
    include_accounts: Option<Vec<String>>,
    exclude_accounts: Option<Vec<String>>,
    exclude_sysvars: Option<bool>,
    exclude_feature_gates: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum Scope {
    Network,
    /// The accounts that a transaction names.
    PreTransaction(String),
}

/// An account of a snapshot.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AccountSnapshot {
    lamports: u64,
    owner: String,
    executable: bool,
    rent_epoch: u64,
    /// In base64.
    data: String,
    parsed_data: Option<ParsedAccount>,
}

/// Which accounts are exported.
struct Selection {
    includes_programs: bool,
    /// Only these, if there are any.
    only: HashSet<Pubkey>,
    excluded: HashSet<Pubkey>,
    excludes_sysvars: bool,
    excludes_features: bool,
}

impl Selection {
    fn new(filter: ExportFilter) -> Result<Self, RpcError> {
        let keys = |texts: Option<Vec<String>>| -> Result<HashSet<Pubkey>, RpcError> {
            Ok(parse_key::pubkeys(&texts.unwrap_or_default())?.into_iter().collect())
        };
        Ok(Self {
            includes_programs: filter.include_program_accounts.unwrap_or_default(),
            only: keys(filter.include_accounts)?,
            excluded: keys(filter.exclude_accounts)?,
            excludes_sysvars: filter.exclude_sysvars.unwrap_or_default(),
            excludes_features: filter.exclude_feature_gates.unwrap_or_default(),
        })
    }

    fn selects(&self, key: &Pubkey, account: &AccountSharedData) -> bool {
        if self.excluded.contains(key) {
            return false;
        }
        if self.only.contains(key) {
            return true;
        }
        self.only.is_empty()
            && (self.includes_programs || !account.executable())
            && !(self.excludes_sysvars && account.owner() == &sysvar::ID)
            && !(self.excludes_features && account.owner() == &feature::ID)
    }
}

fn export_snapshot(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let (config,): (Option<ExportConfig>,) = params.parse(0)?;
    let config = config.unwrap_or_default();
    let mut selection = Selection::new(config.filter.unwrap_or_default())?;
    if let Some(Scope::PreTransaction(signature)) = config.scope {
        let signature = parse_key::signature(&signature)?;
        let history = api.history.snapshot();
        let executed = history.transaction(&signature, Commitment::Processed).ok_or_else(|| {
            RpcError::invalid_params(format!("transaction {signature} is not in the history"))
        })?;
        selection.only.extend(&executed.account_keys);
    }
    let view = api.reader.view(Commitment::Processed);
    let context = context(&view);
    let query = ExportQuery {
        view,
        selection,
        is_parsed: config.include_parsed_accounts.unwrap_or_default(),
        next: Some(AddressId(0)),
        accounts: BTreeMap::new(),
        bytes: 0,
        visits: 0,
    };
    run_incremental(Some(context), query)
}

/// Collects the accounts, some at a time.
struct ExportQuery {
    view: View,
    selection: Selection,
    is_parsed: bool,
    next: Option<AddressId>,
    accounts: BTreeMap<String, AccountSnapshot>,
    bytes: usize,
    visits: u64,
}

impl IncrementalQuery for ExportQuery {
    fn step(&mut self) -> Result<Option<OutputBody>, RpcError> {
        let Some(first) = self.next else { return OutputBody::json(&self.accounts).map(Some) };
        let mut found = Vec::new();
        self.next = self.view.scan(&[], first, VISITS, |id, account| found.push((id, account())));
        self.visits += found.len() as u64;
        for (id, account) in found {
            let key = self.view.address(id).and_then(|it| accounts_reader::pubkey(&it));
            let Some(key) = key.filter(|key| self.selection.selects(key, &account.0)) else {
                continue;
            };
            self.bytes += account.0.data().len();
            self.accounts.insert(key.to_string(), self.snapshot(&key, &account.0));
        }
        if self.accounts.len() > ACCOUNTS_MAX || self.bytes > BYTES_MAX {
            let message = format!(
                "more than {ACCOUNTS_MAX} accounts or {BYTES_MAX} bytes of data: a filter selects fewer, and \
                 GET /snapshot.tar.bz2 has all of them"
            );
            return Err(RpcError::invalid_request(message));
        }
        Ok(None)
    }

    fn records_visited(&self) -> u64 {
        self.visits
    }
}

impl ExportQuery {
    fn snapshot(&self, key: &Pubkey, account: &AccountSharedData) -> AccountSnapshot {
        let parsed = || {
            let encoding = Encoding { form: UiAccountEncoding::JsonParsed, slice: None };
            let mint = |mint: &Pubkey| accounts_reader::mint_info(&self.view, mint);
            match encoding.encode(key, account, mint).data {
                UiAccountData::Json(parsed) => Some(parsed),
                _ => None,
            }
        };
        AccountSnapshot {
            lamports: account.lamports(),
            owner: account.owner().to_string(),
            executable: account.executable(),
            rent_epoch: account.rent_epoch(),
            data: BASE64_STANDARD.encode(account.data()),
            parsed_data: if self.is_parsed { parsed() } else { None },
        }
    }
}
