//! The proof of the chain as a whole, and of one bank's hash.
//!
//! Agave has no such method. `hydrantGetVerification` reads history and small values: its cost does not depend on the
//! ledger.

use std::sync::Arc;

use chain_solana::{
    AgreementSource, BankContent, BankProof, Block, ExecutionDifference, ExecutionSummary,
    HistorySnapshot, ResultOrigin, VerificationSummary,
};
use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use jsonrpc::{Execution, MethodOutput, MethodResult, MethodSpec};
use ledger::{BlockId, Commitment, Slot};
use response_cache::Dependencies;
use serde_json::{Value, json};
use solana::{BankMismatch, TransactionProof, VerificationLevel};
use solana_hash::Hash;

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

/// The result is current while the state that it describes compares equal.
fn dependencies(api: &SolanaApi, params: Params<'_>) -> Option<Dependencies> {
    let (slot,): (Option<Slot>,) = params.parse(0).ok()?;
    let read = move |api: &SolanaApi| VerifiedState::read(api, slot).ok();
    let seen = read(api)?;
    let bytes = seen.bytes();
    let is_same = move |api: &SolanaApi| read(api).as_ref() == Some(&seen);
    let dependencies = Dependencies::none(Commitment::Processed, None);
    Some(dependencies.with_compared_state(bytes, is_same))
}

/// All that a result describes.
#[derive(PartialEq, Eq)]
struct VerifiedState {
    summary: VerificationSummary,
    bank: Option<VerifiedBank>,
}

/// A bank with its proof. The rest of its block follows from these.
#[derive(PartialEq, Eq)]
struct VerifiedBank {
    block: BlockId,
    bank_hash: Hash,
    proof: Option<BankProof>,
    content: BankContent,
}

impl VerifiedState {
    fn read(api: &SolanaApi, slot: Option<Slot>) -> Result<Self, RpcError> {
        let summary = api.verification.summary();
        let history = api.history.snapshot();
        let block = find_described(&history, &summary, slot)?;
        Ok(Self { bank: block.map(|block| VerifiedBank::read(api, block)), summary })
    }

    /// Estimates the bytes of the summary and the bank.
    fn bytes(&self) -> u64 {
        let VerificationSummary { first_mismatch, sources, limitation, trust_root, .. } =
            &self.summary;
        let accounts = first_mismatch.as_ref().map_or(0, |it| size_of_val(&*it.accounts_written));
        let urls: usize = sources.iter().map(|source| source.url.len()).sum();
        let texts = [limitation, trust_root].map(|text| text.as_ref().map_or(0, String::len));
        (size_of::<Self>() + accounts + size_of_val(&**sources) + urls + texts[0] + texts[1]) as u64
    }
}

impl VerifiedBank {
    fn read(api: &SolanaApi, block: &Block) -> Self {
        Self {
            block: block.id,
            bank_hash: block.bank_hash,
            proof: api.verification.proof(block.id),
            content: api.verification.content(block.id),
        }
    }
}

fn describe(api: &SolanaApi, slot: Option<Slot>) -> Result<Value, RpcError> {
    let summary = api.verification.summary();
    let history = api.history.snapshot();
    let block = find_described(&history, &summary, slot)?;
    let is_own = summary.required == Some(VerificationLevel::Computed);
    let bank = block.map(|block| describe_bank(&VerifiedBank::read(api, block), block, is_own));
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

/// Finds the block that a result describes: that of `slot`, or the newest verified one.
fn find_described<'a>(
    history: &'a HistorySnapshot,
    summary: &VerificationSummary,
    slot: Option<Slot>,
) -> Result<Option<&'a Arc<Block>>, RpcError> {
    match slot {
        Some(slot) => find_block(history, slot).map(Some),
        None => {
            let verified = summary.verified_slot;
            Ok(verified.and_then(|slot| history.block(slot, Commitment::Processed)))
        }
    }
}

/// Finds the block of a slot on the processed chain. The error is the reason why it is missing.
fn find_block(history: &HistorySnapshot, slot: Slot) -> Result<&Arc<Block>, RpcError> {
    history.block(slot, Commitment::Processed).ok_or_else(|| {
        let is_retained = history.first_slot().is_some_and(|first| slot >= first);
        match is_retained && slot < history.newest_slot(Commitment::Processed) {
            true => RpcCustomError::SlotSkipped { slot }.into(),
            false => RpcCustomError::BlockNotAvailable { slot }.into(),
        }
    })
}

/// Describes a bank. `is_own` says whether this node makes the banks.
fn describe_bank(bank: &VerifiedBank, block: &Block, is_own: bool) -> Value {
    let VerifiedBank { proof, content, .. } = *bank;
    let components = &block.hash_components;
    let votes = proof.and_then(|proof| proof.votes);
    let hash = |hash: &Hash| block.has_bank_hash().then(|| hash.to_string());
    json!({
        "slot": block.id.slot,
        "parentSlot": block.parent.slot,
        "bankHash": hash(&block.bank_hash),
        "parentBankHash": hash(&components.parent_hash),
        "signatureCount": block.has_bank_hash().then_some(components.signature_count),
        "blockhash": block.blockhash.to_string(),
        "ltHashChecksum": hash(&components.lt_checksum),
        "components": content_json(proof, content, is_own),
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
