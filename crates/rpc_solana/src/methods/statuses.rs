//! Statuses of transactions, by signature.
//!
//! As in Agave, a transaction older than the status cache is found only with `searchTransactionHistory`. The
//! confirmations of a transaction are the number of complete blocks above its own: a vote for a block is in the next
//! one.
//!
//! A transaction has no status before a client was notified of it or its block is complete
//! ([`chain_solana::ExecutedTransaction::has_status`]). Clients subscribe to a signature and then request its status
//! once. On Agave the request arrives before the transaction is executed; here it arrives afterwards. A status at that
//! time would make web3.js resolve below the commitment that it waits for, or reject with the raw error.

use chain_solana::{HistorySnapshot, RECENT_BLOCKHASHES_MAX};
use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use jsonrpc::{Execution, MethodOutput, MethodResult, MethodSpec};
use ledger::{Commitment, Slot};
use response_cache::Dependencies;
use solana_rpc_client_types::config::RpcSignatureStatusConfig;
use solana_rpc_client_types::request::MAX_GET_SIGNATURE_STATUSES_QUERY_ITEMS;
use solana_signature::Signature;
use solana_transaction_error::TransactionError;
use solana_transaction_status::{TransactionConfirmationStatus, TransactionStatus};
use solana_vote_interface::state::MAX_LOCKOUT_HISTORY;

use super::parse_key;
use crate::commitment::context_at;
use crate::solana_api::SolanaApi;

pub(super) const METHODS: &[MethodSpec<SolanaApi>] =
    &[MethodSpec::new("getSignatureStatuses", Execution::Inline, statuses)
        .with_revalidation_dependencies(dependencies)];

fn statuses(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let query = StatusQuery::parse(params)?;
    let statuses = query.run(api);
    // A writer publishes a block to history first, so a status may be of a block that no view has yet.
    let processed = api.reader.view(Commitment::Processed).block().slot;
    let newest = statuses.iter().flatten().map(|status| status.slot).max();
    let slot = processed.max(newest.unwrap_or_default());
    MethodOutput::json_in(context_at(slot), &statuses)
}

/// Compares the statuses themselves: finding them is expensive only if there are many.
fn dependencies(api: &SolanaApi, params: Params<'_>) -> Option<Dependencies> {
    let query = StatusQuery::parse(params).ok()?;
    let seen = query.run(api);
    let bytes = size_of_val(&*seen) + size_of_val(&*query.signatures);
    let is_same = move |api: &SolanaApi| query.run(api) == seen;
    let dependencies = Dependencies::none(Commitment::Processed, None);
    Some(dependencies.with_compared_state(bytes as u64, is_same))
}

/// The transactions whose statuses are requested.
struct StatusQuery {
    signatures: Vec<Signature>,
    searches: bool,
}

impl StatusQuery {
    fn parse(params: Params<'_>) -> Result<Self, RpcError> {
        let (texts, config): (Vec<String>, Option<RpcSignatureStatusConfig>) = params.parse(1)?;
        if texts.len() > MAX_GET_SIGNATURE_STATUSES_QUERY_ITEMS {
            return Err(RpcError::invalid_params(format!(
                "Too many inputs provided; max {MAX_GET_SIGNATURE_STATUSES_QUERY_ITEMS}"
            )));
        }
        let signatures: Vec<Signature> =
            texts.iter().map(|text| parse_key::signature(text)).collect::<Result<_, _>>()?;
        let searches = config.is_some_and(|config| config.search_transaction_history);
        Ok(Self { signatures, searches })
    }

    /// Returns the statuses on the chain of the processed block.
    fn run(&self, api: &SolanaApi) -> Vec<Option<TransactionStatus>> {
        let Self { signatures, searches } = self;
        let history = api.history.snapshot();
        let root = history.newest_slot(Commitment::Finalized);
        let oldest_known = root.saturating_sub(RECENT_BLOCKHASHES_MAX as u64);
        signatures
            .iter()
            .map(|signature| {
                history
                    .transaction(signature, Commitment::Processed)
                    .filter(|executed| {
                        *searches || is_recent(&history, executed.slot, oldest_known)
                    })
                    .filter(|executed| executed.has_status())
                    .map(|executed| status(&history, executed.slot, executed.meta.status.clone()))
                    .or_else(|| older_status(api, &history, signature, oldest_known))
            })
            .collect()
    }
}

/// Whether Agave would know a transaction without a search: it has those of the last 300 rooted blocks, whatever their
/// slots, and above. `oldest_known` is 300 slots below the root.
fn is_recent(history: &HistorySnapshot, slot: Slot, oldest_known: Slot) -> bool {
    let root = history.newest_slot(Commitment::Finalized);
    slot >= oldest_known
        || history
            .height_difference(slot, root)
            .is_some_and(|blocks| blocks <= RECENT_BLOCKHASHES_MAX as u64)
}

/// Returns the number of complete blocks above that of a slot. Without a large gap of slots it is close to the number
/// of slots.
fn blocks_above(history: &HistorySnapshot, slot: Slot) -> u64 {
    let newest = history.newest_slot(Commitment::Confirmed);
    let slots = newest.saturating_sub(slot);
    if slots <= MAX_LOCKOUT_HISTORY as u64 {
        return slots;
    }
    history.height_difference(slot, newest).unwrap_or(slots)
}

/// Returns the status of a transaction that was executed before the history starts, or in a gap of it, if Agave would
/// still know it. In a gap it is final once the block of the archive that closes the gap is.
fn older_status(
    api: &SolanaApi,
    history: &HistorySnapshot,
    signature: &Signature,
    oldest_known: Slot,
) -> Option<TransactionStatus> {
    let (slot, result) = api.older_statuses.as_ref()?.find(signature)?;
    (slot >= oldest_known).then(|| status(history, slot, result))
}

/// Returns the status of a transaction in a slot of the chain of the processed block.
fn status(
    history: &HistorySnapshot,
    slot: Slot,
    result: Result<(), TransactionError>,
) -> TransactionStatus {
    let (confirmations, confirmation_status) = match history.commitment(slot) {
        Commitment::Finalized => (None, TransactionConfirmationStatus::Finalized),
        Commitment::Confirmed => {
            let above = blocks_above(history, slot);
            (Some(above as usize), TransactionConfirmationStatus::Confirmed)
        }
        Commitment::Processed => (Some(0), TransactionConfirmationStatus::Processed),
    };
    TransactionStatus {
        slot,
        confirmations,
        err: result.clone().err(),
        status: result,
        confirmation_status: Some(confirmation_status),
    }
}
