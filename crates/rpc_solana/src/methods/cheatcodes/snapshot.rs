//! surfnet_exportSnapshot: the accounts of the ledger as JSON, which `surfpool start --snapshot` reads.
//!
//! Bounds: [`ACCOUNTS_MAX`] accounts of the ledger unless the request names those that it needs, and [`BYTES_MAX`] of
//! their data; an error names the bound.

use std::collections::{BTreeMap, HashSet};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use chain_solana::View;
use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use jsonrpc::{
    Execution, IncrementalQuery, MethodResult, MethodSpec, OutputBody, VISITS, run_incremental,
};
use ledger::Commitment;
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

/// Maximum number of accounts of a ledger that is exported without a list: their addresses are read at once, in some
/// milliseconds.
const ACCOUNTS_MAX: usize = 20_000;
/// Maximum bytes of the exported data.
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
    /// The accounts that this transaction names.
    PreTransaction(String),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AccountSnapshot {
    lamports: u64,
    owner: String,
    executable: bool,
    rent_epoch: u64,
    /// The data in base64.
    data: String,
    parsed_data: Option<ParsedAccount>,
}

/// The accounts that are exported.
struct Selection {
    includes_programs: bool,
    /// Only these accounts, unless it is empty.
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
    if selection.only.is_empty() && view.len() > ACCOUNTS_MAX {
        let message = format!(
            "the ledger has more than {ACCOUNTS_MAX} accounts: includeAccounts selects some, and GET \
             /snapshot.tar.bz2 has all of them"
        );
        return Err(RpcError::invalid_request(message));
    }
    let context = context(&view);
    let query = ExportQuery {
        view,
        selection,
        is_parsed: config.include_parsed_accounts.unwrap_or_default(),
        keys: None,
        accounts: BTreeMap::new(),
        bytes: 0,
        visits: 0,
    };
    run_incremental(Some(context), query)
}

/// Collects the accounts, some in each step.
struct ExportQuery {
    view: View,
    selection: Selection,
    is_parsed: bool,
    /// The keys that are not read yet. `None` before the first step.
    keys: Option<Vec<Pubkey>>,
    accounts: BTreeMap<String, AccountSnapshot>,
    bytes: usize,
    visits: u64,
}

impl IncrementalQuery for ExportQuery {
    fn step(&mut self) -> Result<Option<OutputBody>, RpcError> {
        let keys = match &mut self.keys {
            Some(keys) if keys.is_empty() => return OutputBody::json(&self.accounts).map(Some),
            Some(keys) => keys.split_off(keys.len().saturating_sub(VISITS)),
            None => {
                self.keys = Some(self.all_keys());
                return Ok(None);
            }
        };
        self.visits += keys.len() as u64;
        for key in keys {
            let account = accounts_reader::account(&self.view, &key);
            let selected = account.filter(|account| self.selection.selects(&key, &account.0));
            let Some(account) = selected else { continue };
            self.bytes += account.0.data().len();
            self.accounts.insert(key.to_string(), self.snapshot(&key, &account.0));
        }
        if self.bytes > BYTES_MAX {
            let message = format!(
                "more than {BYTES_MAX} bytes of data: a filter selects fewer, and GET /snapshot.tar.bz2 has all of \
                 them"
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
    /// Returns the addresses that may be exported.
    fn all_keys(&self) -> Vec<Pubkey> {
        if self.selection.only.is_empty() {
            let all = self.view.all();
            return all.filter_map(|(address, _)| accounts_reader::pubkey(&address)).collect();
        }
        self.selection.only.iter().copied().collect()
    }

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
