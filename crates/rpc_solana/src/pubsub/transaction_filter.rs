//! `transactionSubscribe`, in the form that Solana's RPC providers offer: whole transactions by the
//! accounts that they name.
//!
//! A transaction is sent if it passes every part of the filter: it names one of `accountInclude` (if there are any),
//! all of `accountRequired`, and none of `accountExclude`; votes and failed ones are left out on request. At
//! `processed` it is sent as soon as it was executed. A transaction of a version that the client does not support is
//! reported as an error with its signature, so that nothing that passes the filter is left out.
//! Bounds: 50,000 addresses in each list, as providers have it. Cost: subscriptions are looked up by the addresses
//! that a transaction names; the other parts of the filter are checked on the subscriptions found.

use std::sync::Arc;

use address::{AddressTable, TableFull};
use chain_solana::ExecutedTransaction;
use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use ledger::{Address, Commitment};
use serde::Deserialize;
use serde::Serialize;
use solana_commitment_config::{CommitmentConfig, CommitmentLevel};
use solana_pubkey::Pubkey;
use solana_rpc_client_types::response::RpcBlockUpdateError;
use solana_signature::Signature;
use solana_transaction_status::{
    BlockEncodingOptions, ConfirmedBlock, EncodeError, EncodedTransactionWithStatusMeta,
    TransactionDetails, TransactionWithStatusMeta, UiTransactionEncoding,
};
use subscriptions::{AddressSet, ExactKey, Filter};

use super::key_kind;
use crate::commitment::level;
use crate::stored_transaction::with_meta;

/// The most addresses in one list.
const ADDRESSES_MAX: usize = 50_000;

/// The filter of a subscription to transactions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TransactionFilter {
    vote: Option<bool>,
    failed: Option<bool>,
    signature: Option<Signature>,
    /// The lists are sorted and have no duplicates.
    include: Vec<Pubkey>,
    exclude: Vec<Pubkey>,
    required: Vec<Pubkey>,
}

/// What a client subscribes to, and how it is encoded.
pub(super) struct TransactionSubscribeParams {
    pub(super) filter: Arc<TransactionFilter>,
    pub(super) commitment: Commitment,
    pub(super) encoding: UiTransactionEncoding,
    pub(super) details: TransactionDetails,
    pub(super) rewards: bool,
    pub(super) version_max: Option<u8>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct TransactionFilterParams {
    vote: Option<bool>,
    failed: Option<bool>,
    signature: Option<String>,
    account_include: Vec<String>,
    account_exclude: Vec<String>,
    account_required: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Options {
    commitment: Option<CommitmentLevel>,
    encoding: Option<UiTransactionEncoding>,
    transaction_details: Option<TransactionDetails>,
    show_rewards: Option<bool>,
    max_supported_transaction_version: Option<u8>,
}

/// The notification of a transaction.
#[derive(Serialize)]
pub(super) struct TransactionNotification {
    /// Absent if it was not requested, null if there is an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    transaction: Option<Option<EncodedTransactionWithStatusMeta>>,
    signature: String,
    slot: u64,
    #[serde(rename = "transactionIndex")]
    index: u32,
    /// Why the transaction cannot be encoded as requested, as in the notifications of `blockSubscribe`.
    #[serde(skip_serializing_if = "Option::is_none")]
    err: Option<RpcBlockUpdateError>,
}

/// Parses the parameters of a subscription.
pub(super) fn parse_params(params: Params<'_>) -> Result<TransactionSubscribeParams, RpcError> {
    let (filter, options): (TransactionFilterParams, Option<Options>) = params.parse(1)?;
    let options = options.unwrap_or_default();
    let details = options.transaction_details.unwrap_or_default();
    let version_max = options.max_supported_transaction_version;
    let needs_version = matches!(details, TransactionDetails::Full | TransactionDetails::Accounts);
    if needs_version && version_max.is_none() {
        return Err(RpcError::invalid_params(
            "Invalid params: maxSupportedTransactionVersion is needed for transactionDetails \
             `full` and `accounts`",
        ));
    }
    let signature = filter.signature.map(|text| {
        text.parse().map_err(|_| RpcError::invalid_params("Invalid params: signature"))
    });
    let filter = TransactionFilter {
        vote: filter.vote,
        failed: filter.failed,
        signature: signature.transpose()?,
        include: parse_addresses("accountInclude", &filter.account_include)?,
        exclude: parse_addresses("accountExclude", &filter.account_exclude)?,
        required: parse_addresses("accountRequired", &filter.account_required)?,
    };
    Ok(TransactionSubscribeParams {
        filter: Arc::new(filter),
        commitment: level(options.commitment.map(|commitment| CommitmentConfig { commitment })),
        encoding: options.encoding.unwrap_or(UiTransactionEncoding::Base64),
        details,
        rewards: options.show_rewards.unwrap_or_default(),
        version_max,
    })
}

fn parse_addresses(name: &str, texts: &[String]) -> Result<Vec<Pubkey>, RpcError> {
    if texts.len() > ADDRESSES_MAX {
        let message = format!("Invalid params: {name} has more than {ADDRESSES_MAX} addresses");
        return Err(RpcError::invalid_params(message));
    }
    let invalid = |text: &String| {
        RpcError::invalid_params(format!("Invalid params: {name}: {text} is no address"))
    };
    let parsed = texts.iter().map(|text| text.parse().map_err(|_| invalid(text)));
    let mut addresses: Vec<Pubkey> = parsed.collect::<Result<_, _>>()?;
    addresses.sort_unstable();
    addresses.dedup();
    Ok(addresses)
}

impl TransactionFilter {
    /// The part of the filter that the index matches.
    pub(super) fn lookup_filter(&self, table: &Arc<AddressTable>) -> Result<Filter, TableFull> {
        if let Some(signature) = &self.signature {
            return Ok(Filter::Exact(ExactKey::from(signature.as_ref())));
        }
        let keys = if self.include.is_empty() {
            &self.required[..self.required.len().min(1)]
        } else {
            &self.include
        };
        if keys.is_empty() {
            return Ok(Filter::All);
        }
        let set =
            AddressSet::register(table, keys.iter().map(|key| Address::from(key.to_bytes())))?;
        Ok(Filter::Set(key_kind::MENTIONED, Arc::new(set)))
    }

    /// The other addresses of the filter, so that they count like those of [`Self::lookup_filter`].
    pub(super) fn counted_filter(
        &self,
        table: &Arc<AddressTable>,
    ) -> Result<Option<Filter>, TableFull> {
        let by_signature = self.signature.iter().flat_map(|_| &self.include);
        let others = self.required.iter().chain(&self.exclude).chain(by_signature);
        let mut others = others.map(|key| Address::from(key.to_bytes())).peekable();
        if others.peek().is_none() {
            return Ok(None);
        }
        let set = AddressSet::register(table, others)?;
        Ok(Some(Filter::Set(key_kind::MENTIONED, Arc::new(set))))
    }

    /// Whether a transaction passes the filter.
    pub(super) fn matches(&self, executed: &ExecutedTransaction) -> bool {
        let names = |list: &[Pubkey]| {
            executed.account_keys.iter().any(|key| list.binary_search(key).is_ok())
        };
        self.vote.is_none_or(|vote| vote == executed.is_vote)
            && self.failed.is_none_or(|failed| failed == executed.meta.status.is_err())
            && self.signature.is_none_or(|signature| signature == executed.signature())
            && (self.include.is_empty() || names(&self.include))
            && !names(&self.exclude)
            && self.required.iter().all(|key| executed.account_keys.contains(key))
    }
}

/// The notification of a transaction. It has an error if the transaction cannot be encoded as requested.
pub(super) fn encode_notification(
    executed: &ExecutedTransaction,
    encoding: UiTransactionEncoding,
    details: TransactionDetails,
    rewards: bool,
    version_max: Option<u8>,
) -> TransactionNotification {
    let (transaction, err) = match details {
        TransactionDetails::Full | TransactionDetails::Accounts => {
            let options = BlockEncodingOptions {
                transaction_details: details,
                show_rewards: rewards,
                max_supported_transaction_version: version_max,
            };
            match encode_transaction(executed, encoding, options) {
                Ok(transaction) => (Some(transaction), None),
                Err(err) => (Some(None), Some(err)),
            }
        }
        TransactionDetails::Signatures | TransactionDetails::None => (None, None),
    };
    TransactionNotification {
        transaction,
        signature: executed.signature().to_string(),
        slot: executed.slot,
        index: executed.index,
        err,
    }
}

/// Encodes the transaction as the only one of an empty block.
fn encode_transaction(
    executed: &ExecutedTransaction,
    encoding: UiTransactionEncoding,
    options: BlockEncodingOptions,
) -> Result<Option<EncodedTransactionWithStatusMeta>, RpcBlockUpdateError> {
    let transaction = TransactionWithStatusMeta::Complete(with_meta(executed));
    let block = ConfirmedBlock {
        previous_blockhash: String::new(),
        blockhash: String::new(),
        parent_slot: 0,
        transactions: vec![transaction],
        rewards: Vec::new(),
        num_partitions: None,
        block_time: None,
        block_height: None,
    };
    match block.encode_with_options(encoding, options) {
        Ok(block) => Ok(block.transactions.and_then(|mut all| all.pop())),
        Err(EncodeError::UnsupportedTransactionVersion(version)) => {
            Err(RpcBlockUpdateError::UnsupportedTransactionVersion(version))
        }
    }
}
