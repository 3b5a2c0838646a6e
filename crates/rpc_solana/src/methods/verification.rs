//! The proof of the chain as a whole, and of one bank's hash.
//!
//! Agave has no such method. `hydrantGetVerification` reads history and small values: its cost does not depend on the
//! ledger.

use chain_solana::{
    AgreementSource, BankContent, BankProof, Block, ExecutionDifference, ExecutionSummary,
    ResultOrigin,
};
use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use jsonrpc::{Execution, MethodOutput, MethodResult, MethodSpec};
use ledger::{Commitment, Slot};
use response_cache::Dependencies;
use serde_json::{Value, json};
use solana::{BankMismatch, TransactionProof, VerificationLevel};

use crate::custom_error::RpcCustomError;
use crate::solana_api::SolanaApi;

pub(super) const METHODS: &[MethodSpec<SolanaApi>] =
    &[MethodSpec::new("hydrantGetVerification", Execution::Inline, verification)
        .with_revalidation_dependencies(dependencies)
        .stateless()];

/// Parses `[slot]`, which is optional. Default: the newest verified slot.
fn verification(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let (slot,): (Option<Slot>,) = params.parse(0)?;
    MethodOutput::json(&describe(api, slot)?)
}

/// Returns the dependency of the result: a hash of the result itself.
fn dependencies(_: &SolanaApi, params: Params<'_>) -> Option<Dependencies> {
    let (slot,): (Option<Slot>,) = params.parse(0).ok()?;
    let hash = move |api: &SolanaApi| {
        let text = describe(api, slot).ok()?.to_string();
        Some(*blake3::hash(text.as_bytes()).as_bytes())
    };
    Some(Dependencies::none(Commitment::Processed, None).immutable(hash))
}

fn describe(api: &SolanaApi, slot: Option<Slot>) -> Result<Value, RpcError> {
    let summary = api.verification.summary();
    let history = api.history.snapshot();
    let bank = match slot {
        Some(slot) => Some(bank(api, find_block(&history, slot)?)),
        None => {
            let verified = summary.verified_slot;
            let block = verified.and_then(|slot| history.block(slot, Commitment::Processed));
            block.map(|block| bank(api, block))
        }
    };
    Ok(json!({
        "requiredLevel": summary.required.map(VerificationLevel::name),
        "verifiedSlot": summary.verified_slot,
        "mismatchedBanks": summary.mismatched_banks,
        "repairs": summary.repairs,
        "firstMismatch": summary.first_mismatch.as_ref().map(mismatch),
        "sources": summary.sources.iter().map(source).collect::<Vec<_>>(),
        "limitation": summary.limitation,
        "trustRoot": summary.trust_root,
        "execution": summary.execution.as_ref().map(execution),
        "bank": bank,
    }))
}

/// Finds the block of a slot on the processed chain. The error is the reason why it is missing.
fn find_block(
    history: &chain_solana::HistorySnapshot,
    slot: Slot,
) -> Result<&std::sync::Arc<Block>, RpcError> {
    history.block(slot, Commitment::Processed).ok_or_else(|| {
        let is_retained = history.first_slot().is_some_and(|first| slot >= first);
        match is_retained && slot < history.newest_slot(Commitment::Processed) {
            true => RpcCustomError::SlotSkipped { slot }.into(),
            false => RpcCustomError::BlockNotAvailable { slot }.into(),
        }
    })
}

fn bank(api: &SolanaApi, block: &Block) -> Value {
    let proof = api.verification.proof(block.id);
    let is_own = api.verification.required_level() == Some(VerificationLevel::Computed);
    let components = &block.hash_components;
    let votes = proof.and_then(|proof| proof.votes);
    let hash = |hash: &solana_hash::Hash| block.has_bank_hash().then(|| hash.to_string());
    json!({
        "slot": block.id.slot,
        "parentSlot": block.parent.slot,
        "bankHash": hash(&block.bank_hash),
        "parentBankHash": hash(&components.parent_hash),
        "signatureCount": block.has_bank_hash().then_some(components.signature_count),
        "blockhash": block.blockhash.to_string(),
        "ltHashChecksum": hash(&components.lt_checksum),
        "components": content_json(proof, api.verification.content(block.id), is_own),
        "level": proof.map(|proof| proof.level.name()),
        "votes": votes.map(|votes| json!({
            "slot": votes.slot,
            "votedStake": votes.voted,
            "totalStake": votes.total,
        })),
    })
}

/// Returns the origin or the level of each part of a bank. `is_own` says whether this node makes the banks: only then
/// it computes their rewards.
fn content_json(proof: Option<BankProof>, content: BankContent, is_own: bool) -> Value {
    let BankContent { transactions, results } = content;
    let unproven = TransactionProof::Unproven.name();
    let are_signed = transactions > TransactionProof::Unproven;
    let is_compared = results != ResultOrigin::Source;
    let is_executed = results == ResultOrigin::Executed;
    let origin = |is_known: bool| match (is_executed, is_known) {
        (true, _) => "executed",
        (false, true) => "compared",
        (false, false) => "source",
    };
    json!({
        "accounts": proof.map_or(unproven, |proof| proof.level.name()),
        "transactions": transactions.name(),
        "signatures": if are_signed { TransactionProof::Proven.name() } else { unproven },
        "status": origin(is_compared),
        "balances": origin(is_compared),
        "logs": origin(false),
        "rewards": if is_own { origin(false) } else { "source" },
    })
}

fn mismatch(mismatch: &BankMismatch) -> Value {
    let accounts: Vec<String> = mismatch.accounts_written.iter().map(ToString::to_string).collect();
    let fault = mismatch.fault.map(|fault| {
        json!({
            "check": fault.check.name(),
            "index": fault.index,
            "account": fault.account.map(|account| account.to_string()),
        })
    });
    json!({
        "slot": mismatch.slot,
        "fault": fault,
        "computedHash": mismatch.computed.to_string(),
        "reportedHash": mismatch.reported.to_string(),
        "reporter": mismatch.reporter.name(),
        "accountsWritten": accounts,
        "accountsWrittenCount": mismatch.accounts_written_len,
    })
}

fn execution(execution: &ExecutionSummary) -> Value {
    let difference = |it: &ExecutionDifference| {
        json!({
            "slot": it.slot,
            "field": it.field.name(),
            "index": it.index,
            "signature": it.signature.map(|signature| signature.to_string()),
            "account": it.account.map(|account| account.to_string()),
        })
    };
    json!({
        "transactionsPerSecond": execution.transactions_per_s,
        "equalBanks": execution.equal_banks,
        "differingBanks": execution.differing_banks,
        "partialBanks": execution.partial_banks,
        "skippedBanks": execution.skipped_banks,
        "executedTransactions": execution.executed_transactions,
        "skippedTransactions": execution.skipped_transactions,
        "firstDifference": execution.first_difference.as_ref().map(difference),
        "lastSkip": execution.last_skip,
    })
}

fn source(source: &AgreementSource) -> Value {
    let first = source.first_disagreement;
    json!({
        "url": source.url,
        "isConnected": source.is_connected,
        "newestSlot": source.newest_slot,
        "disagreements": source.disagreements,
        "firstDisagreement": first.map(|(slot, hash)| {
            json!({ "slot": slot, "reportedHash": hash.to_string() })
        }),
    })
}
