//! Sending transactions, and airdrops.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use chain_solana::{AirdropError, QueueBound, SendError, SimulationError};
use jsonrpc::Status;
use serde_json::{Value, json};
use solana_instruction::error::InstructionError;
use solana_message::VersionedMessage;
use solana_signature::Signature;
use solana_signer::Signer;
use solana_system_interface::instruction::transfer;
use solana_transaction::versioned::VersionedTransaction;
use solana_transaction_error::TransactionError;

use super::world::{
    CONFIRMED, FINALIZED, PROCESSED, World, hash, keypair, sign_transaction, simulation,
    with_lookup,
};

fn wire(transaction: &VersionedTransaction) -> Vec<u8> {
    wincode::serialize(transaction).expect("a transaction has a size")
}

fn base64(transaction: &VersionedTransaction) -> String {
    BASE64_STANDARD.encode(wire(transaction))
}

fn payment() -> VersionedTransaction {
    let payer = keypair(10);
    sign_transaction(&[transfer(&payer.pubkey(), &keypair(11).pubkey(), 7)], &payer, FINALIZED)
}

#[test]
fn a_valid_transaction_is_simulated_and_then_sent() {
    let world = World::new();
    let payment = payment();
    let signature = payment.signatures[0].to_string();
    let base58 = bs58::encode(wire(&payment)).into_string();
    assert_eq!(world.ok("sendTransaction", json!([base58])), signature);
    for (config, slot) in [
        (json!({"encoding": "base64"}), FINALIZED),
        (json!({"encoding": "base64", "preflightCommitment": "confirmed"}), CONFIRMED),
        (
            json!({"encoding": "base64", "preflightCommitment": "processed", "maxRetries": 3,
                   "minContextSlot": 80}),
            PROCESSED,
        ),
    ] {
        assert_eq!(world.ok("sendTransaction", json!([base64(&payment), config])), signature);
        let simulated = world.transaction_service.simulated.lock().pop();
        let (simulated_slot, request) = simulated.expect("it was simulated");
        assert_eq!(simulated_slot, slot);
        assert_eq!(request.transaction, payment);
        assert!(!request.replace_recent_blockhash && !request.inner_instructions);
    }
    assert_eq!(world.transaction_service.sent.lock().len(), 4);
    let (lookup, _) = with_lookup(&keypair(10), hash(40));
    world.ok("sendTransaction", json!([base64(&lookup), {"encoding": "base64"}]));
}

#[test]
fn without_preflight_nothing_is_simulated() {
    let world = World::new();
    *world.transaction_service.simulation.lock() = Err(SimulationError::Panicked);
    world.api.health.set(Status::Unknown);
    let config = json!({"encoding": "base64", "skipPreflight": true, "minContextSlot": 80});
    world.ok("sendTransaction", json!([base64(&payment()), config]));
    assert!(world.transaction_service.simulated.lock().is_empty());
    assert_eq!(world.transaction_service.sent.lock().len(), 1);
}

#[test]
fn what_the_preflight_shows_is_the_errors_data() {
    let world = World::new();
    let mut failed = simulation();
    failed.err = Some(TransactionError::InstructionError(0, InstructionError::Custom(1)));
    failed.logs.push("Transfer: insufficient lamports".into());
    *world.transaction_service.simulation.lock() = Ok(failed);
    let params = || json!([base64(&payment()), {"encoding": "base64"}]);
    let message = "Transaction simulation failed: Error processing Instruction 0: custom program \
                   error: 0x1";
    let err = world.check_refusal("sendTransaction", params(), -32002, message);
    assert_eq!(
        err.data,
        Some(json!({
            "err": {"InstructionError": [0, {"Custom": 1}]},
            "logs": ["Program 11111111111111111111111111111111 invoke [1]",
                     "Transfer: insufficient lamports"],
            "accounts": null, "unitsConsumed": 150, "loadedAccountsDataSize": 9,
            "returnData": null, "innerInstructions": null, "replacementBlockhash": null,
            "fee": 5000, "preBalances": null, "postBalances": null, "preTokenBalances": null,
            "postTokenBalances": null, "loadedAddresses": null,
        }))
    );
    assert!(world.transaction_service.sent.lock().is_empty());

    for (err, message) in [
        (TransactionError::BlockhashNotFound, "Blockhash not found"),
        (TransactionError::AlreadyProcessed, "This transaction has already been processed"),
    ] {
        let mut refused = simulation();
        refused.err = Some(err);
        *world.transaction_service.simulation.lock() = Ok(refused);
        let message = format!("Transaction simulation failed: {message}");
        let data = world.check_refusal("sendTransaction", params(), -32002, &message).data;
        assert_eq!(data.map(|data| data["fee"].clone()), Some(Value::Null));
    }
}

#[test]
fn a_transaction_that_makes_no_sense_is_refused() {
    let world = World::new();
    let payment = payment();
    let send = |transaction: &VersionedTransaction, mut config: Value| {
        config["encoding"] = json!("base64");
        json!([base64(transaction), config])
    };

    let mut wrong = payment.clone();
    wrong.signatures[0] = Signature::from([1; 64]);
    let message = "Transaction simulation failed: Transaction did not pass signature verification";
    let err = world.check_refusal("sendTransaction", send(&wrong, json!({})), -32002, message);
    let data = err.data.expect("a simulation's result");
    assert_eq!((&data["err"], &data["logs"]), (&json!("SignatureFailure"), &json!([])));
    let message = "Transaction signature verification failure";
    let params = send(&wrong, json!({"skipPreflight": true}));
    world.check_refusal("sendTransaction", params, -32003, message);

    let mut short = payment.clone();
    short.signatures.clear();
    let message = "invalid transaction: Transaction failed to sanitize accounts offsets correctly";
    world.check_refusal("sendTransaction", send(&short, json!({})), -32602, message);

    let (mut lookup, _) = with_lookup(&keypair(10), hash(40));
    let VersionedMessage::V0(message) = &mut lookup.message else { panic!("it is version 0") };
    message.address_table_lookups[0].writable_indexes[0] = 9;
    let text = "invalid transaction: Transaction address table lookup uses an invalid index";
    world.check_refusal("sendTransaction", send(&lookup, json!({})), -32602, text);
    let VersionedMessage::V0(message) = &mut lookup.message else { panic!("it is version 0") };
    message.address_table_lookups[0].account_key = keypair(77).pubkey();
    let text = "invalid transaction: Transaction loads an address table account that doesn't exist";
    world.check_refusal("sendTransaction", send(&lookup, json!({})), -32602, text);
    let VersionedMessage::V0(message) = &mut lookup.message else { panic!("it is version 0") };
    message.address_table_lookups[0].account_key = keypair(2).pubkey();
    let text =
        "invalid transaction: Transaction loads an address table account with an invalid owner";
    world.check_refusal("sendTransaction", send(&lookup, json!({})), -32602, text);

    let unsupported = "unsupported encoding: json. Supported encodings: base58, base64";
    let params = json!([base64(&payment), {"encoding": "json"}]);
    world.check_refusal("sendTransaction", params, -32602, unsupported);
    let message = "invalid base58 encoding: InvalidCharacter { character: '0', index: 0 }";
    world.check_refusal("sendTransaction", json!(["0"]), -32602, message);
    let message = "Minimum context slot has not been reached";
    let params = send(&payment, json!({"minContextSlot": 49}));
    world.check_refusal("sendTransaction", params, -32016, message);
    assert!(world.transaction_service.sent.lock().is_empty());
}

#[test]
fn a_ledger_that_cannot_take_more_says_so() {
    let world = World::new();
    let params = || json!([base64(&payment()), {"encoding": "base64"}]);
    *world.transaction_service.send.lock() =
        Err(SendError::QueueFull { bound: QueueBound::Transactions, queued: 8, limit: 8 });
    let message = "transaction queue is full: 8 waiting, at most 8 (--queue-max)";
    let err = world.check_refusal("sendTransaction", params(), -32005, message);
    assert_eq!(err.data, Some(json!({"queued": 8, "limit": 8})));
    *world.transaction_service.send.lock() = Err(SendError::Closed);
    world.check_refusal("sendTransaction", params(), -32603, "the ledger is shutting down");
    *world.transaction_service.simulation.lock() = Err(SimulationError::Panicked);
    let message = "the VM panicked while running this transaction";
    world.check_refusal("sendTransaction", params(), -32603, message);
    world.api.health.set(Status::Behind { slots: 9 });
    world.check_refusal("sendTransaction", params(), -32005, "Node is behind by 9 slots");
}

#[test]
fn an_airdrop_uses_its_commitments_blockhash() {
    let world = World::new();
    let to = keypair(60).pubkey();
    let signature = Signature::from([9; 64]).to_string();
    for (config, blockhash) in [
        (Value::Null, hash(FINALIZED)),
        (json!({"commitment": "confirmed"}), hash(CONFIRMED)),
        (json!({"recentBlockhash": hash(5).to_string()}), hash(5)),
    ] {
        let result = world.ok("requestAirdrop", json!([to.to_string(), 1_000, config]));
        assert_eq!(result, signature);
        assert_eq!(world.transaction_service.airdrops.lock().pop(), Some((to, 1_000, blockhash)));
    }
}

#[test]
fn an_airdrop_is_refused_with_a_reason() {
    let world = World::new();
    let to = keypair(60).pubkey().to_string();
    let wrong = json!([to, 1, {"recentBlockhash": "x"}]);
    world.check_refusal("requestAirdrop", wrong, -32602, "Invalid param: WrongSize");
    world.check_refusal("requestAirdrop", json!(["x", 1]), -32602, "Invalid param: WrongSize");
    let too_few = "`params` should have at least 2 argument(s)";
    world.check_refusal("requestAirdrop", json!([to]), -32602, too_few);
    for (err, code) in [
        (AirdropError::TooMuch { lamports: 9, limit: 8 }, -32603),
        (AirdropError::NoFaucet, -32603),
        (
            AirdropError::Send(SendError::QueueFull {
                bound: QueueBound::Transactions,
                queued: 8,
                limit: 8,
            }),
            -32005,
        ),
    ] {
        let message = err.to_string();
        *world.transaction_service.airdrop.lock() = Err(err);
        world.check_refusal("requestAirdrop", json!([to, 9]), code, &message);
    }
}

#[test]
fn a_node_without_a_faucet_refuses_airdrops() {
    let mut world = World::new();
    world.api.faucet = None;
    let to = keypair(60).pubkey().to_string();
    let message = AirdropError::NoFaucet.to_string();
    world.check_refusal("requestAirdrop", json!([to, 9]), -32603, &message);
}
