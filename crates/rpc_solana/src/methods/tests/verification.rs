//! getVerification: the proof of the chain as a client reads it.

use std::sync::Arc;

use chain_solana::{
    AgreementSource, BankContent, BankProof, ExecutionDifference, ExecutionSummary, ResultField,
    ResultOrigin, Verification, VerificationSummary,
};
use ledger::BlockId;
use serde_json::json;
use solana::{
    BankMismatch, HashReporter, TransactionCheck, TransactionFault, TransactionProof,
    VerificationLevel, VotedStake,
};

use super::world::{FINALIZED, PROCESSED, World, hash, keypair};
use solana_signer::Signer;

struct Voted(VerificationSummary);

impl Verification for Voted {
    fn summary(&self) -> VerificationSummary {
        self.0.clone()
    }

    fn proof(&self, bank: BlockId) -> Option<BankProof> {
        let votes = VotedStake { slot: bank.slot + 1, voted: 67, total: 100 };
        let is_voted = Some(bank.slot) <= self.0.verified_slot;
        is_voted.then_some(BankProof { level: VerificationLevel::Voted, votes: Some(votes) })
    }

    fn content(&self, bank: BlockId) -> BankContent {
        match Some(bank.slot) <= self.0.verified_slot {
            true => BankContent {
                transactions: TransactionProof::Counted,
                results: ResultOrigin::Compared,
            },
            false => BankContent::default(),
        }
    }
}

fn world(summary: VerificationSummary) -> World {
    let mut world = World::new();
    world.api.verification = Arc::new(Voted(summary));
    world
}

#[test]
fn a_client_learns_how_far_the_chain_is_proven() {
    let check = TransactionCheck::Balance;
    let fault = TransactionFault { check, index: Some(4), account: Some(keypair(3).pubkey()) };
    let mismatch = BankMismatch {
        slot: 9,
        computed: hash(1),
        reported: hash(2),
        reporter: HashReporter::Votes,
        accounts_written: [keypair(3).pubkey()].into(),
        accounts_written_len: 70,
        fault: Some(fault),
    };
    let source = AgreementSource {
        url: "http://source".into(),
        is_connected: true,
        newest_slot: Some(8),
        disagreements: 1,
        first_disagreement: Some((7, hash(5))),
    };
    let world = world(VerificationSummary {
        required: Some(VerificationLevel::Voted),
        verified_slot: Some(FINALIZED),
        mismatched_banks: 2,
        repairs: 1,
        first_mismatch: Some(mismatch),
        sources: vec![source],
        limitation: Some("stakes of epoch 7 are unknown".into()),
        trust_root: Some("the word of the snapshot".into()),
        execution: None,
    });
    let mut found = world.ok("hydrantGetVerification", json!([]));
    let bank = found["bank"].take();
    assert_eq!((&bank["slot"], &bank["level"]), (&json!(FINALIZED), &json!("voted")), "{bank}");
    let votes = json!({"slot": FINALIZED + 1, "votedStake": 67, "totalStake": 100});
    assert_eq!(bank["votes"], votes);
    let components = json!({
        "accounts": "voted",
        "transactions": "counted",
        "signatures": "proven",
        "status": "compared",
        "balances": "compared",
        "logs": "source",
        "rewards": "source",
    });
    assert_eq!(bank["components"], components);
    let expected = json!({
        "requiredLevel": "voted",
        "verifiedSlot": FINALIZED,
        "mismatchedBanks": 2,
        "repairs": 1,
        "firstMismatch": {
            "slot": 9,
            "computedHash": hash(1).to_string(),
            "reportedHash": hash(2).to_string(),
            "reporter": "votes",
            "accountsWritten": [keypair(3).pubkey().to_string()],
            "accountsWrittenCount": 70,
            "fault": {"check": "balance", "index": 4, "account": keypair(3).pubkey().to_string()},
        },
        "sources": [{
            "url": "http://source",
            "isConnected": true,
            "newestSlot": 8,
            "disagreements": 1,
            "firstDisagreement": {"slot": 7, "reportedHash": hash(5).to_string()},
        }],
        "limitation": "stakes of epoch 7 are unknown",
        "trustRoot": "the word of the snapshot",
        "execution": null,
        "bank": null,
    });
    assert_eq!(found, expected);
}

/// A follower that executed its banks.
struct Executed(Voted);

impl Verification for Executed {
    fn summary(&self) -> VerificationSummary {
        self.0.summary()
    }

    fn proof(&self, bank: BlockId) -> Option<BankProof> {
        self.0.proof(bank)
    }

    fn content(&self, bank: BlockId) -> BankContent {
        BankContent { results: ResultOrigin::Executed, ..self.0.content(bank) }
    }
}

#[test]
fn a_client_learns_what_an_execution_found() {
    let difference = ExecutionDifference {
        slot: 9,
        field: ResultField::InnerInstructions,
        index: Some(4),
        signature: Some([7; 64].into()),
        account: None,
    };
    let execution = ExecutionSummary {
        transactions_per_s: Some(500),
        equal_banks: 1,
        differing_banks: 2,
        partial_banks: 3,
        skipped_banks: 4,
        executed_transactions: 5,
        skipped_transactions: 6,
        first_difference: Some(difference),
        last_skip: Some("slot 8: transaction 2 is not executed".into()),
    };
    let summary = VerificationSummary {
        required: Some(VerificationLevel::Voted),
        verified_slot: Some(FINALIZED),
        execution: Some(execution),
        ..VerificationSummary::default()
    };
    let mut world = World::new();
    world.api.verification = Arc::new(Executed(Voted(summary)));
    let found = world.ok("hydrantGetVerification", json!([]));
    let expected = json!({
        "transactionsPerSecond": 500,
        "equalBanks": 1,
        "differingBanks": 2,
        "partialBanks": 3,
        "skippedBanks": 4,
        "executedTransactions": 5,
        "skippedTransactions": 6,
        "firstDifference": {
            "slot": 9,
            "field": "inner_instructions",
            "index": 4,
            "signature": difference.signature.map(|signature| signature.to_string()),
            "account": null,
        },
        "lastSkip": "slot 8: transaction 2 is not executed",
    });
    assert_eq!(found["execution"], expected);
    let components = &found["bank"]["components"];
    for part in ["status", "balances", "logs"] {
        assert_eq!(components[part], "executed", "{part}");
    }
    assert_eq!(components["rewards"], "source", "the node does not compute them");
}

#[test]
fn a_banks_proof_is_found_by_its_slot() {
    let world = world(VerificationSummary {
        required: Some(VerificationLevel::Voted),
        ..VerificationSummary::default()
    });
    let none = world.ok("hydrantGetVerification", json!([null]));
    assert_eq!((&none["verifiedSlot"], &none["bank"]), (&json!(null), &json!(null)));
    let bank = &world.ok("hydrantGetVerification", json!([FINALIZED]))["bank"];
    assert_eq!((&bank["slot"], &bank["level"]), (&json!(FINALIZED), &json!(null)));
    let message =
        format!("Slot {} was skipped, or missing due to ledger jump to recent snapshot", 64);
    world.check_refusal("hydrantGetVerification", json!([64]), -32007, &message);
    let message = format!("Block not available for slot {}", PROCESSED + 1);
    world.check_refusal("hydrantGetVerification", json!([PROCESSED + 1]), -32004, &message);
}
