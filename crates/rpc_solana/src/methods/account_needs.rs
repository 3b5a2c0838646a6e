//! The accounts that a call needs, where the ledger is the fork of another cluster: they are fetched before the call
//! runs.
//!
//! In: a method and its parameters. Out: [`AccountsRequest`], and the wait for it. Lists of accounts by an owner, a
//! program or a mint contain the ledger's own accounts and the fetched ones, and fetch only the mint.
//! Invalid parameters need no accounts: the method returns the error.
//! Not here: the fetch (`upstream_fork`).

use std::task::{Poll, Waker};

use chain_solana::{AccountsRequest, FetchCall, FetchError, RemoteAccounts};
use jsonrpc::Preparation;
use jsonrpc::error::{OVERLOADED, RpcError};
use jsonrpc::params::Params;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;
use solana_account_decoder_client_types::UiAccountEncoding;
use solana_loader_v3_interface::get_program_data_address;
use solana_pubkey::Pubkey;
use solana_rpc_client_types::config::RpcTokenAccountsFilter;
use solana_transaction::versioned::VersionedTransaction;
use solana_transaction_status::{TransactionBinaryEncoding, UiTransactionEncoding};
use spl_generic_token::associated_token_account;

use super::{parse_key, transaction_codec};
use crate::cheatcodes::is_cheatcode;
use crate::solana_api::SolanaApi;

/// Whether a call whose result may be cached, or that may run inline, needs accounts that are missing.
pub(crate) fn must_fetch(api: &SolanaApi, method: &str, params: Params<'_>) -> bool {
    let Some(upstream) = &api.account_upstream else { return false };
    find_read_needs(api, method, params).is_some_and(|request| upstream.is_missing(&request))
}

/// Starts the fetch for which a call waits; `None` if no account is missing.
pub(crate) fn fetch(
    api: &SolanaApi,
    method: &str,
    params: Params<'_>,
) -> Result<Option<Box<dyn Preparation>>, RpcError> {
    let Some(upstream) = &api.account_upstream else { return Ok(None) };
    let request = find_read_needs(api, method, params)
        .or_else(|| find_transaction_needs(method, params))
        .or_else(|| find_cheatcode_needs(api, method, params));
    let Some(request) = request else { return Ok(None) };
    let call = upstream.request(params.client(), request).map_err(rpc_error)?;
    Ok(call.map(|call| Box::new(Fetch(call)) as Box<dyn Preparation>))
}

/// A fetch that a call waits for.
struct Fetch(FetchCall);

impl Preparation for Fetch {
    fn poll_ready(&mut self, waker: &dyn Fn() -> Waker) -> Poll<()> {
        self.0.poll(waker)
    }

    fn finish(self: Box<Self>) -> Result<(), RpcError> {
        self.0.wait().unwrap_or(Err(FetchError::Closed)).map_err(rpc_error)
    }
}

/// Converts an error to JSON-RPC. No such error says that an account does not exist.
pub(super) fn rpc_error(err: FetchError) -> RpcError {
    let message = err.to_string();
    match err {
        FetchError::TooMany { waiting, limit } => RpcError::new(OVERLOADED, message)
            .with_data(json!({ "queued": waiting, "limit": limit })),
        FetchError::Newer { .. } | FetchError::Full { .. } => RpcError::invalid_request(message),
        FetchError::Unreachable { .. }
        | FetchError::Refused { .. }
        | FetchError::TimedOut { .. }
        | FetchError::Ledger(_)
        | FetchError::Closed => RpcError::internal_with(message),
    }
}

/// The part of a configuration with the encoding of accounts.
#[derive(Default, Deserialize)]
#[serde(default)]
struct EncodingOnly {
    encoding: Option<UiAccountEncoding>,
}

/// Returns the accounts that a read needs.
fn find_read_needs(api: &SolanaApi, method: &str, params: Params<'_>) -> Option<AccountsRequest> {
    let keys = |keys: Vec<Pubkey>| AccountsRequest { keys, ..AccountsRequest::default() };
    match method {
        "getBalance" | "getTokenSupply" | "getTokenLargestAccounts" => {
            let (key, _) = params.parse_fast::<(String, Option<IgnoredAny>)>(1)?;
            Some(keys(vec![parse_key::pubkey(&key).ok()?]))
        }
        "getTokenAccountBalance" => {
            let (key, _) = params.parse_fast::<(String, Option<IgnoredAny>)>(1)?;
            let keys = vec![parse_key::pubkey(&key).ok()?];
            Some(AccountsRequest { keys, with_mints: true, ..AccountsRequest::default() })
        }
        "getAccountInfo" => {
            let (key, config) = params.parse_fast::<(String, Option<EncodingOnly>)>(1)?;
            let keys = vec![parse_key::pubkey(&key).ok()?];
            Some(AccountsRequest {
                keys,
                with_mints: is_parsed(config),
                ..AccountsRequest::default()
            })
        }
        "getMultipleAccounts" => {
            let (keys, config) = params.parse_fast::<(Vec<String>, Option<EncodingOnly>)>(1)?;
            if keys.len() > api.config.multiple_accounts_max {
                return None;
            }
            let keys = parse_key::pubkeys(&keys).ok()?;
            Some(AccountsRequest {
                keys,
                with_mints: is_parsed(config),
                ..AccountsRequest::default()
            })
        }
        "getTokenAccountsByOwner" | "getTokenAccountsByDelegate" => {
            type ListParams = (IgnoredAny, RpcTokenAccountsFilter, Option<IgnoredAny>);
            match params.parse_fast::<ListParams>(2)?.1 {
                RpcTokenAccountsFilter::Mint(mint) => {
                    Some(keys(vec![parse_key::pubkey(&mint).ok()?]))
                }
                RpcTokenAccountsFilter::ProgramId(_) => None,
            }
        }
        _ => None,
    }
}

fn is_parsed(config: Option<EncodingOnly>) -> bool {
    config.unwrap_or_default().encoding == Some(UiAccountEncoding::JsonParsed)
}

/// The part of a configuration with the encoding of a transaction, and the accounts that a simulation returns.
#[derive(Default, Deserialize)]
#[serde(default)]
struct TransactionConfig {
    encoding: Option<UiTransactionEncoding>,
    accounts: Option<ReturnedAccounts>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ReturnedAccounts {
    addresses: Vec<String>,
}

/// Returns the accounts that a transaction needs.
fn find_transaction_needs(method: &str, params: Params<'_>) -> Option<AccountsRequest> {
    match method {
        "sendTransaction" | "simulateTransaction" => {
            let (text, config) = params.parse_fast::<(String, Option<TransactionConfig>)>(1)?;
            let config = config.unwrap_or_default();
            let encoding = transaction_codec::binary(config.encoding).ok()?;
            let returned = config.accounts.unwrap_or_default().addresses;
            Some(AccountsRequest {
                // These need not be accounts of the transaction, which has at most 256.
                keys: returned.iter().take(256).filter_map(|it| it.parse().ok()).collect(),
                transactions: vec![decode(&text, encoding)?],
                with_mints: true,
                ..AccountsRequest::default()
            })
        }
        "sendBundle" => {
            let (texts, config) =
                params.parse_fast::<(Vec<String>, Option<TransactionConfig>)>(1)?;
            find_bundle_needs(&texts, config.unwrap_or_default().encoding)
        }
        "simulateBundle" => {
            let (request, config) =
                params.parse_fast::<(BundleRequest, Option<BundleConfig>)>(1)?;
            let encoding = config.unwrap_or_default().transaction_encoding;
            let encoding = encoding.unwrap_or(UiTransactionEncoding::Base64);
            find_bundle_needs(&request.encoded_transactions, Some(encoding))
        }
        "requestAirdrop" => {
            let (key, ..) = params.parse_fast::<(String, IgnoredAny, Option<IgnoredAny>)>(2)?;
            let keys = vec![parse_key::pubkey(&key).ok()?];
            Some(AccountsRequest { keys, ..AccountsRequest::default() })
        }
        _ => None,
    }
}

/// The part of a request of `simulateBundle` that has transactions.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BundleRequest {
    encoded_transactions: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct BundleConfig {
    transaction_encoding: Option<UiTransactionEncoding>,
}

/// Returns the accounts that the transactions of a bundle need. The method refuses more transactions than this.
fn find_bundle_needs(
    texts: &[String],
    encoding: Option<UiTransactionEncoding>,
) -> Option<AccountsRequest> {
    const TRANSACTIONS_MAX: usize = 32;
    let encoding = transaction_codec::binary(encoding).ok()?;
    let decoded = texts.iter().take(TRANSACTIONS_MAX).filter_map(|text| decode(text, encoding));
    Some(AccountsRequest { transactions: decoded.collect(), ..AccountsRequest::default() })
}

fn decode(text: &str, encoding: TransactionBinaryEncoding) -> Option<VersionedTransaction> {
    transaction_codec::decode(text, encoding).ok()
}

/// The part of a request of `hydrant_reorg` that has transactions.
#[derive(Deserialize)]
struct ReorgTransactions {
    transactions: Option<Vec<String>>,
}

/// Returns the accounts that a cheat code needs: those that it changes, and those that it reads for the change.
fn find_cheatcode_needs(
    api: &SolanaApi,
    method: &str,
    params: Params<'_>,
) -> Option<AccountsRequest> {
    if !is_cheatcode(method) || api.cheatcodes.gate.check(method).is_err() {
        return None;
    }
    type Rest = Option<IgnoredAny>;
    let program = |id: &str| {
        let id = parse_key::pubkey(id).ok()?;
        Some([id, get_program_data_address(&id)])
    };
    let accounts = |keys: Vec<Pubkey>| AccountsRequest {
        keys,
        with_program_data: true,
        ..AccountsRequest::default()
    };
    match method {
        "surfnet_setAccount" => {
            let (key, _) = params.parse_fast::<(String, IgnoredAny)>(2)?;
            Some(accounts(vec![parse_key::pubkey(&key).ok()?]))
        }
        "surfnet_setTokenAccount" => {
            type TokenParams = (String, String, IgnoredAny, Rest);
            let (owner, mint, ..) = params.parse_fast::<TokenParams>(3)?;
            let owner = parse_key::pubkey(&owner).ok()?;
            let mint = parse_key::pubkey(&mint).ok()?;
            // The program of the mint is not known before the mint is fetched.
            let programs = [spl_token_interface::id(), spl_token_2022_interface::id()];
            let token_account = |program: Pubkey| {
                let seeds = [owner.as_ref(), program.as_ref(), mint.as_ref()];
                Pubkey::find_program_address(&seeds, &associated_token_account::id()).0
            };
            Some(accounts([mint].into_iter().chain(programs.map(token_account)).collect()))
        }
        "surfnet_writeProgram" => {
            type WriteParams = (String, IgnoredAny, IgnoredAny, Rest);
            let (id, ..) = params.parse_fast::<WriteParams>(3)?;
            Some(accounts(program(&id)?.to_vec()))
        }
        "surfnet_setProgramAuthority" => {
            let (id, _) = params.parse_fast::<(String, Rest)>(1)?;
            Some(accounts(program(&id)?.to_vec()))
        }
        "surfnet_cloneProgramAccount" => {
            let (source, destination) = params.parse_fast::<(String, String)>(2)?;
            Some(accounts([program(&source)?, program(&destination)?].concat()))
        }
        "surfnet_profileTransaction" => {
            let (text, ..) = params.parse_fast::<(String, Rest, Rest)>(1)?;
            let transaction = decode(&text, TransactionBinaryEncoding::Base64)?;
            Some(AccountsRequest { transactions: vec![transaction], ..AccountsRequest::default() })
        }
        "hydrant_reorg" => {
            let (reorg,) = params.parse_fast::<(ReorgTransactions,)>(1)?;
            let texts = reorg.transactions?;
            let texts = texts.iter().take(chain_solana::REORG_TRANSACTIONS_MAX);
            let decode = |text: &String| decode(text, TransactionBinaryEncoding::Base64);
            let transactions = texts.filter_map(decode).collect();
            Some(AccountsRequest { transactions, ..AccountsRequest::default() })
        }
        _ => None,
    }
}

/// Returns the upstream for cheat codes that concern it.
pub(super) fn upstream(api: &SolanaApi) -> Option<&dyn RemoteAccounts> {
    api.account_upstream.as_deref()
}
