//! simulateTransaction, with a fake transaction service.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use solana_message::compiled_instruction::CompiledInstruction;
use solana_sdk_ids::{system_program, vote};
use solana_signature::Signature;
use solana_signer::Signer;
use solana_system_interface::instruction::transfer;
use solana_transaction::versioned::VersionedTransaction;
use solana_transaction_context::transaction::TransactionReturnData;
use solana_transaction_error::TransactionError;
use solana_transaction_status::{InnerInstruction, InnerInstructions};

use super::world::{
    CONFIRMED, FINALIZED, World, account, hash, keypair, sign_transaction, simulation, with_lookup,
};

fn payment() -> VersionedTransaction {
    let payer = keypair(10);
    sign_transaction(&[transfer(&payer.pubkey(), &keypair(11).pubkey(), 7)], &payer, FINALIZED)
}

fn params(transaction: &VersionedTransaction, mut config: Value) -> Value {
    let wire = wincode::serialize(transaction).expect("a transaction has a size");
    config["encoding"] = json!("base64");
    json!([BASE64_STANDARD.encode(wire), config])
}

#[test]
fn everything_that_would_happen_is_reported() {
    let world = World::new();
    let mut done = simulation();
    done.return_data =
        Some(TransactionReturnData { program_id: system_program::ID, data: vec![1, 2] });
    *world.transaction_service.simulation.lock() = Ok(done);
    let result = world.value(FINALIZED, "simulateTransaction", params(&payment(), json!({})));
    assert_eq!(
        result,
        json!({
            "err": null, "logs": ["Program 11111111111111111111111111111111 invoke [1]"],
            "accounts": null, "unitsConsumed": 150, "loadedAccountsDataSize": 9,
            "returnData": {"programId": system_program::ID.to_string(), "data": ["AQI=", "base64"]},
            "innerInstructions": null, "replacementBlockhash": null, "fee": 5000,
            "preBalances": [100, 0], "postBalances": [40, 60],
            "preTokenBalances": [], "postTokenBalances": [],
            "loadedAddresses": {"writable": [], "readonly": []},
        })
    );
    let (lookup, _) = with_lookup(&keypair(10), hash(40));
    let result = world.value(FINALIZED, "simulateTransaction", params(&lookup, json!({})));
    let loaded = json!({"writable": [keypair(30).pubkey().to_string()], "readonly": []});
    assert_eq!(result["loadedAddresses"], loaded);
}

#[test]
fn inner_instructions_are_returned_parsed() {
    let world = World::new();
    let mut done = simulation();
    let pay = CompiledInstruction {
        program_id_index: 2,
        accounts: vec![0, 1],
        data: transfer(&keypair(10).pubkey(), &keypair(11).pubkey(), 3).data,
    };
    let call = InnerInstruction { instruction: pay, stack_height: Some(2) };
    done.inner_instructions = Some(vec![InnerInstructions { index: 0, instructions: vec![call] }]);
    *world.transaction_service.simulation.lock() = Ok(done);
    let config = json!({"innerInstructions": true, "commitment": "confirmed"});
    let result = world.value(CONFIRMED, "simulateTransaction", params(&payment(), config));
    let call = &result["innerInstructions"][0]["instructions"][0];
    assert_eq!(call["parsed"]["info"]["lamports"], 3);
    assert_eq!(call["stackHeight"], 2);
    let (slot, request) =
        world.transaction_service.simulated.lock().pop().expect("it was simulated");
    assert_eq!((slot, request.inner_instructions), (CONFIRMED, true));
}

#[test]
fn a_replaced_blockhash_is_returned() {
    let world = World::new();
    let mut done = simulation();
    done.replacement_blockhash = Some((hash(48), 197));
    *world.transaction_service.simulation.lock() = Ok(done);
    let config = json!({"replaceRecentBlockhash": true});
    let result = world.value(FINALIZED, "simulateTransaction", params(&payment(), config));
    let replacement = json!({"blockhash": hash(48).to_string(), "lastValidBlockHeight": 197});
    assert_eq!(result["replacementBlockhash"], replacement);
    let (_, request) = world.transaction_service.simulated.lock().pop().expect("it was simulated");
    assert!(request.replace_recent_blockhash);
    let config = json!({"replaceRecentBlockhash": true, "sigVerify": true});
    let message = "sigVerify may not be used with replaceRecentBlockhash";
    world.check_refusal("simulateTransaction", params(&payment(), config), -32602, message);
}

#[test]
fn signatures_are_verified_on_request() {
    let world = World::new();
    let mut wrong = payment();
    wrong.signatures[0] = Signature::default();
    let simulate = |config| world.value(FINALIZED, "simulateTransaction", params(&wrong, config));
    assert_eq!(simulate(json!({}))["err"], Value::Null);
    world.transaction_service.simulated.lock().clear();
    let accounts = json!({"addresses": [keypair(10).pubkey().to_string()]});
    assert_eq!(
        simulate(json!({"sigVerify": true, "accounts": accounts})),
        json!({
            "err": "SignatureFailure", "logs": [], "accounts": [null], "unitsConsumed": 0,
            "loadedAccountsDataSize": 0, "returnData": null, "innerInstructions": null,
            "replacementBlockhash": null, "fee": null, "preBalances": null,
            "postBalances": null, "preTokenBalances": null, "postTokenBalances": null,
            "loadedAddresses": {"writable": [], "readonly": []},
        })
    );
    assert!(world.transaction_service.simulated.lock().is_empty());
    let config = json!({"sigVerify": true});
    let result = world.value(FINALIZED, "simulateTransaction", params(&payment(), config));
    assert_eq!(result["err"], Value::Null);
}

#[test]
fn what_is_refused_before_it_runs_costs_nothing() {
    let world = World::new();
    for err in [TransactionError::AlreadyProcessed, TransactionError::BlockhashNotFound] {
        let mut refused = simulation();
        refused.err = Some(err.clone());
        *world.transaction_service.simulation.lock() = Ok(refused);
        let result = world.value(FINALIZED, "simulateTransaction", params(&payment(), json!({})));
        assert_eq!(result["err"], json!(err));
        assert_eq!(result["fee"], Value::Null);
        assert_eq!(result["loadedAccountsDataSize"], 0);
    }
}

#[test]
fn accounts_are_returned_as_they_would_be() {
    let world = World::new();
    let mut done = simulation();
    done.post_accounts = vec![
        (keypair(10).pubkey(), account(&system_program::ID, b"after")),
        (keypair(11).pubkey(), Default::default()),
    ];
    *world.transaction_service.simulation.lock() = Ok(done.clone());
    let addresses = [10, 2, 99].map(|number| keypair(number).pubkey().to_string());
    let config =
        |encoding: Value| json!({"accounts": {"encoding": encoding, "addresses": addresses}});
    let transaction = payment();
    let accounts = |config| {
        let params = params(&transaction, config);
        world.value(FINALIZED, "simulateTransaction", params)["accounts"].clone()
    };
    // The first account is one of the transaction, the second one of the state, and the third does not exist.
    let base64 = accounts(config(json!("base64")));
    assert_eq!(base64[0]["data"], json!(["YWZ0ZXI=", "base64"]));
    assert_eq!(base64[1]["owner"], vote::ID.to_string());
    assert_eq!(base64[2], Value::Null);
    assert_eq!(accounts(config(Value::Null))[0]["data"][1], "base64");
    let parsed = accounts(config(json!("jsonParsed")));
    assert_eq!(parsed[1]["data"]["program"], "vote");
    assert_eq!(
        accounts(json!({"accounts": {"addresses": [keypair(11).pubkey().to_string()]}}))[0]["lamports"],
        0
    );

    done.err = Some(TransactionError::AccountNotFound);
    done.fee = 0;
    *world.transaction_service.simulation.lock() = Ok(done);
    assert_eq!(accounts(config(json!("base64"))), json!([null, null, null]));
}

#[test]
fn what_cannot_be_simulated_is_refused() {
    let world = World::new();
    let address = keypair(10).pubkey().to_string();
    for (config, code, message) in [
        (
            json!({"accounts": {"encoding": "base58", "addresses": []}}),
            -32602,
            "base58 encoding not supported",
        ),
        (
            json!({"accounts": {"encoding": "binary", "addresses": []}}),
            -32602,
            "base58 encoding not supported",
        ),
        (
            json!({"accounts": {"addresses": [address, address, address, address]}}),
            -32602,
            "Too many accounts provided; max 3",
        ),
        (json!({"accounts": {"addresses": ["x"]}}), -32602, "Invalid param: WrongSize"),
        (json!({"minContextSlot": 49}), -32016, "Minimum context slot has not been reached"),
    ] {
        world.check_refusal("simulateTransaction", params(&payment(), config), code, message);
    }
    let mut unsound = payment();
    unsound.signatures.clear();
    let message = "invalid transaction: Transaction failed to sanitize accounts offsets correctly";
    world.check_refusal("simulateTransaction", params(&unsound, json!({})), -32602, message);
    *world.transaction_service.simulation.lock() =
        Err(chain_solana::SimulationError::Sanitize("why".into()));
    world.check_refusal(
        "simulateTransaction",
        params(&payment(), json!({})),
        -32602,
        "invalid transaction: why",
    );
}
