//! getTransactionsForAddress: the transactions of an address, filtered, in either order, with their contents if
//! requested.
//!
//! Agave has no such method. Its shape is that on which providers agree, and which kit's client declares.
//! In: the history, and the accounts that hold the address's tokens.
//! Out: a page, and the token of the next one. A page ends at its limit, or after [`SCANNED_MAX`] transactions.
//! Bounds: 1,000 signatures or 100 transactions on a page, and [`TOKEN_ACCOUNTS_MAX`] token accounts of the address.
//! One transaction is encoded at a time.
//! Not here: the order, and bounds by slot, time and signature (`address_history`).

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use chain_solana::{ExecutedTransaction, HistorySnapshot, TransactionPosition, View};
use cpu_pool::TimeSlice;
use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use jsonrpc::{
    Execution, ListTemplate, MethodOutput, MethodResult, MethodSpec, StreamState, StreamedResult,
    write_json,
};
use ledger::Slot;
use query::IndexCoverage;
use response_cache::RESULT_CHUNK_BYTES;
use serde::{Deserialize, Serialize};
use solana::key_kind;
use solana_commitment_config::{CommitmentConfig, CommitmentLevel};
use solana_pubkey::Pubkey;
use solana_rpc_client_types::config::RpcContextConfig;
use solana_transaction_status::{TransactionTokenBalance, UiTransactionEncoding};

use super::address_history::{
    Comparison, SortOrder, first_at_or_after, merge_positions, next_position, slot_start,
};
use super::encode_transaction::{check_version, encode};
use super::{accounts_reader, blocks, parse_key, transactions};
use crate::commitment::view_for_config;
use crate::custom_error::RpcCustomError;
use crate::solana_api::SolanaApi;

pub(super) const METHODS: &[MethodSpec<SolanaApi>] =
    &[MethodSpec::new("getTransactionsForAddress", Execution::Medium, transactions_for_address)];

/// Maximum number of signatures on a page: the limit of other providers.
const SIGNATURES_MAX: usize = 1_000;
/// Maximum number of whole transactions on a page: the limit of other providers.
const TRANSACTIONS_MAX: usize = 100;
/// Maximum number of transactions scanned for a page: about a millisecond.
const SCANNED_MAX: usize = 5_000;
/// Maximum number of token accounts of the address whose transactions are found.
const TOKEN_ACCOUNTS_MAX: usize = 1_000;

/// The config object. A member of another name is an error, since the page would be that of another request.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Config {
    transaction_details: Details,
    sort_order: SortOrder,
    limit: Option<usize>,
    pagination_token: Option<String>,
    filters: Option<Filters>,
    encoding: Option<UiTransactionEncoding>,
    max_supported_transaction_version: Option<u8>,
    /// An alias of `filters.slot.lt`.
    before_slot: Option<Slot>,
    /// An alias of `filters.slot.gt`.
    until_slot: Option<Slot>,
    commitment: Option<CommitmentLevel>,
    min_context_slot: Option<Slot>,
}

impl Config {
    fn context(&self) -> RpcContextConfig {
        let commitment = self.commitment.map(|commitment| CommitmentConfig { commitment });
        RpcContextConfig { commitment, min_context_slot: self.min_context_slot }
    }
}

/// The contents of a page for each transaction.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
enum Details {
    #[default]
    Signatures,
    Full,
}

/// The filters of a request. A transaction must match all that are present. A filter of another name is an error, since
/// it would match everything.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Filters {
    slot: Option<Comparison<Slot>>,
    block_time: Option<Comparison<i64>>,
    signature: Option<Comparison<String>>,
    status: StatusFilter,
    token_accounts: TokenAccounts,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
enum StatusFilter {
    #[default]
    #[serde(alias = "all")]
    Any,
    Succeeded,
    Failed,
}

/// The selection of transactions that have a token account of the address, but not the address itself.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
enum TokenAccounts {
    #[default]
    None,
    BalanceChanged,
    All,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Page<T> {
    data: T,
    pagination_token: Option<String>,
}

fn transactions_for_address(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let (address, config): (String, Option<Config>) = params.parse(1)?;
    let address = parse_key::pubkey(&address)?;
    let config = config.unwrap_or_default();
    let filters = config.filters.as_ref();
    let limit = limit(config.limit, config.transaction_details)?;
    let (history, _, newest) = blocks::confirmed_history(api, config.context())?;
    let range = range(&history, newest, &config)?;
    let token_selection = filters.map_or(TokenAccounts::None, |filters| filters.token_accounts);
    let status = filters.map_or(StatusFilter::Any, |filters| filters.status);
    let mut addresses = BTreeSet::from([address]);
    if token_selection != TokenAccounts::None {
        let view = view_for_config(api, Some(config.context()))?;
        addresses.extend(list_token_accounts(&view, &history, &address, newest)?);
    }

    let owner = address.to_string();
    let is_match = |executed: &ExecutedTransaction| {
        has_status(executed, status)
            && (token_selection != TokenAccounts::BalanceChanged
                || executed.account_keys.contains(&address)
                || changes_balance(executed, &owner))
    };
    let mut found = Vec::new();
    let mut next = None;
    let mut last = None;
    for (scanned, position) in
        merge_positions(&history, &addresses, &range, config.sort_order).enumerate()
    {
        if found.len() == limit || scanned == SCANNED_MAX {
            next = last;
            break;
        }
        last = Some(position);
        let executed = history.transaction_at(position);
        found.extend(executed.filter(|executed| is_match(executed)).map(Arc::clone));
    }
    let pagination_token =
        next.map(|TransactionPosition { slot, index }| format!("{slot}:{index}"));
    match config.transaction_details {
        Details::Signatures => {
            let status = |executed: &Arc<_>| transactions::signature_status(&history, executed);
            let data: Vec<_> = found.iter().map(status).collect();
            MethodOutput::json(&Page { data, pagination_token })
        }
        Details::Full => {
            found.iter().for_each(|executed| executed.show_status());
            TransactionStream::start(found, pagination_token, &config)
        }
    }
}

fn limit(requested: Option<usize>, details: Details) -> Result<usize, RpcError> {
    let max = match details {
        Details::Signatures => SIGNATURES_MAX,
        Details::Full => TRANSACTIONS_MAX,
    };
    match requested {
        Some(0) => Err(RpcError::invalid_params("Invalid limit; min 1")),
        requested => Ok(requested.unwrap_or(max).min(max)),
    }
}

/// Narrows a range to `beforeSlot` and `untilSlot`, which exclude the filters of the same meaning.
fn narrow_by_aliases(
    range: &mut Range<TransactionPosition>,
    config: &Config,
) -> Result<(), RpcError> {
    let slot = config.filters.as_ref().and_then(|filters| filters.slot.as_ref());
    let exclude = |name: &str, is_bounded: bool| match is_bounded {
        false => Ok(()),
        true => Err(RpcError::invalid_params(format!(
            "Invalid param: {name} and filters.slot bound the same side"
        ))),
    };
    if let Some(before) = config.before_slot {
        exclude("beforeSlot", slot.is_some_and(Comparison::has_upper_bound))?;
        range.end = range.end.min(slot_start(before));
    }
    if let Some(until) = config.until_slot {
        exclude("untilSlot", slot.is_some_and(Comparison::has_lower_bound))?;
        range.start = range.start.max(slot_start(until.saturating_add(1)));
    }
    Ok(())
}

/// Returns the range of positions that the filters and the token of the previous page select.
fn range(
    history: &HistorySnapshot,
    newest: Slot,
    config: &Config,
) -> Result<Range<TransactionPosition>, RpcError> {
    let mut range = slot_start(0)..slot_start(newest.saturating_add(1));
    narrow_by_aliases(&mut range, config)?;
    if let Some(filters) = &config.filters {
        let slot_after = |slot: &Slot| Ok::<_, RpcError>(slot_start(slot.saturating_add(1)));
        let time_after =
            |time: &i64| Ok::<_, RpcError>(first_at_or_after(history, time.saturating_add(1)));
        let signature_at = |signature: &String| {
            let signature = parse_key::signature(signature)?;
            transactions::find_position(history, &signature, newest)
        };
        if let Some(slot) = &filters.slot {
            slot.narrow(&mut range, |slot| Ok(slot_start(*slot)), slot_after)?;
        }
        if let Some(time) = &filters.block_time {
            time.narrow(&mut range, |time| Ok(first_at_or_after(history, *time)), time_after)?;
        }
        if let Some(signature) = &filters.signature {
            let after = |signature: &String| signature_at(signature).map(next_position);
            signature.narrow(&mut range, signature_at, after)?;
        }
    }
    if let Some(token) = &config.pagination_token {
        let last = parse_token(history, newest, token)?;
        match config.sort_order {
            SortOrder::Asc => range.start = range.start.max(next_position(last)),
            SortOrder::Desc => range.end = range.end.min(last),
        }
    }
    Ok(range)
}

/// Parses a pagination token: slot and index of the last transaction that was scanned for the previous page. The
/// signature of a transaction is accepted, too.
fn parse_token(
    history: &HistorySnapshot,
    newest: Slot,
    token: &str,
) -> Result<TransactionPosition, RpcError> {
    if let Ok(signature) = parse_key::signature(token) {
        return transactions::find_position(history, &signature, newest);
    }
    let parsed = token.split_once(':').and_then(|(slot, index)| {
        Some(TransactionPosition { slot: slot.parse().ok()?, index: index.parse().ok()? })
    });
    parsed.ok_or_else(|| {
        RpcError::invalid_params(
            "Invalid param: paginationToken is neither `slot:position` nor a signature",
        )
    })
}

/// Lists the token accounts of an owner: the existing ones, and those that the newest transactions with the owner name
/// as such. The latter may be closed. -32010 if the index by owner is off or excludes the owner.
fn list_token_accounts(
    view: &View,
    history: &HistorySnapshot,
    owner: &Pubkey,
    newest: Slot,
) -> Result<BTreeSet<Pubkey>, RpcError> {
    let key = accounts_reader::address(owner);
    if view.index_coverage(key_kind::OWNER, &key) != IndexCoverage::Covered {
        let index_key = owner.to_string();
        return Err(RpcCustomError::KeyExcludedFromSecondaryIndex { index_key }.into());
    }
    let too_many = || {
        RpcError::invalid_params(format!(
            "Invalid param: the address has more than {TOKEN_ACCOUNTS_MAX} token accounts; leave out \
             filters.tokenAccounts"
        ))
    };
    let mut found = BTreeSet::new();
    for (address, _) in view.records_by_key(key_kind::OWNER, &key) {
        found.extend(accounts_reader::pubkey(&address));
        if found.len() > TOKEN_ACCOUNTS_MAX {
            return Err(too_many());
        }
    }
    let owner_text = owner.to_string();
    let range = slot_start(0)..slot_start(newest.saturating_add(1));
    for position in merge_positions(history, [owner], &range, SortOrder::Desc).take(SCANNED_MAX) {
        let Some(executed) = history.transaction_at(position) else { continue };
        let owned = balances(executed).filter(|balance| balance.owner == owner_text);
        let key = |balance: &TransactionTokenBalance| {
            executed.account_keys.get(usize::from(balance.account_index))
        };
        found.extend(owned.filter_map(key).copied());
        if found.len() > TOKEN_ACCOUNTS_MAX {
            return Err(too_many());
        }
    }
    Ok(found)
}

fn has_status(executed: &ExecutedTransaction, filter: StatusFilter) -> bool {
    match filter {
        StatusFilter::Any => true,
        StatusFilter::Succeeded => executed.meta.status.is_ok(),
        StatusFilter::Failed => executed.meta.status.is_err(),
    }
}

/// Returns all token balances, before and after.
fn balances(executed: &ExecutedTransaction) -> impl Iterator<Item = &TransactionTokenBalance> {
    let meta = &executed.meta;
    [&meta.pre_token_balances, &meta.post_token_balances].into_iter().flatten().flatten()
}

/// Whether the transaction changes the amount of a token account of `owner`.
fn changes_balance(executed: &ExecutedTransaction, owner: &str) -> bool {
    let meta = &executed.meta;
    let amount = |balances: &Option<Vec<TransactionTokenBalance>>, index: u8| {
        let found = balances.iter().flatten();
        let mut found = found.filter(|it| it.account_index == index && it.owner == owner);
        found.next().map_or("0", |balance| &balance.ui_token_amount.amount).to_owned()
    };
    balances(executed).filter(|balance| balance.owner == owner).any(|balance| {
        let index = balance.account_index;
        amount(&meta.pre_token_balances, index) != amount(&meta.post_token_balances, index)
    })
}

struct TransactionStream {
    transactions: Vec<Arc<ExecutedTransaction>>,
    encoding: UiTransactionEncoding,
    version_max: Option<u8>,
    template: ListTemplate,
    written: usize,
}

impl TransactionStream {
    fn start(
        transactions: Vec<Arc<ExecutedTransaction>>,
        pagination_token: Option<String>,
        config: &Config,
    ) -> MethodResult {
        let version_max = config.max_supported_transaction_version;
        // Errors are impossible after the first byte is sent, so all transactions are checked first.
        let mut versions = transactions.iter();
        versions.try_for_each(|executed| check_version(executed, version_max))?;
        let encoding = config.encoding.unwrap_or(UiTransactionEncoding::Json);
        let template = ListTemplate::at_first_list(&Page { data: [(); 0], pagination_token })?;
        let stream = Self { transactions, encoding, version_max, template, written: 0 };
        Ok(MethodOutput::streamed(None, stream))
    }
}

impl StreamedResult for TransactionStream {
    fn write(&mut self, slice: &TimeSlice<'_>, out: &mut Vec<u8>) -> Result<StreamState, RpcError> {
        out.append(&mut self.template.head);
        while let Some(executed) = self.transactions.get(self.written) {
            if self.written > 0 {
                out.push(b',');
            }
            write_json(out, &encode(executed, self.encoding, self.version_max)?)?;
            self.written += 1;
            if out.len() >= RESULT_CHUNK_BYTES || slice.is_over() {
                return Ok(StreamState::More);
            }
        }
        out.append(&mut self.template.tail);
        Ok(StreamState::Done)
    }
}
