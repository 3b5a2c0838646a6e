//! Programs and features on a real node: errors of a missing program, the accounts that a transaction loads, and
//! flags that are refused. The transactions in base64 are those of the review that found the differences.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use serde_json::{Value, json};
use solana_keypair::Keypair;
use solana_rpc_client::rpc_client::RpcClient;
use solana_rpc_client_api::request::RpcRequest;
use solana_signer::Signer;
use solana_transaction::versioned::VersionedTransaction;
use solana_transaction_error::TransactionError;
use solana_transaction_status_client_types::UiTransactionEncoding;
use tempfile::TempDir;
use testkit::child_process::run_to_end;
use testkit::node::Node;

use crate::clients::ProgramElves;
use crate::node::start_node;
use crate::world::World;

const CALL_OF_NOTHING: &str = "AXZYa0Perq30xOLkow/y8NaosnAlgCZWkOWBXHxU/jjYoA9hkBCsY6JbPehmeLjENyM2n6bAKaxKzn23GiTt7QoBAAECiojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1wHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAQEAAQE=";
const CALL_PAST_ITS_LIMIT: &str = "AbQI6mqAOtkr2dIv39X797RvhA02SvI6iHhIZIDomSTtS+47cvnIxmg7j3T6DYBvd3h0WiP5DVEzyUrlDkZ71gIBAAMEiojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1wDBkZv5SEXMv/srbpyw5vnvIzlu8X3EmssQ5s6QAAAAAabiFf+q4GE+2h/Y0YYwDXaxDncGus7VZig8AAAAAABBt324ddloZPZy+FGzut5rBy0he1fWzeROoz1hX7/AKkAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAIBAAUE6AMAAAMBAgEV";
const CALL_WITHOUT_PAYER: &str = "AYtKhWa84SBPOwC1VWEwmiczQRvGk8nbyQwursEA7hlifp00a20C0BDLGUxJE5DMWUYm6Tk7tryPzlk1mDeNhwoBAAIDp/bfr484uJuozmSbWU+R5NAf3Ff5yUk99DteUKmYc2cGm4hX/quBhPtof2NGGMA12sQ53BrrO1WYoPAAAAAAAQbd9uHXZaGT2cvhRs7reawctIXtX1s3kTqM9YV+/wCpAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAABAgEBARU=";
const MEMO: &str = "AZnjgk46hxj7GEyVmRDaMlEsE+l4vLCzzRSWs92uloIKbgNyDwYB4IsF7U6lG9grJZNqmaAZ1R/iX3RM1HZdWgkBAAECiojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1wFSlNamSkhBk0k6HFg2jh8fDW13bySu4HkH6hAQQVEjQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAQEABHRlc3Q=";

fn simulate(rpc: &RpcClient, transaction: &str) -> Result<Value> {
    let config = json!({
        "encoding": "base64",
        "replaceRecentBlockhash": true,
        "innerInstructions": true,
        "commitment": "confirmed",
    });
    let request = RpcRequest::Custom { method: "simulateTransaction" };
    let result: Value = rpc.send(request, json!([transaction, config]))?;
    Ok(result["value"].clone())
}

#[test]
fn a_missing_program_and_the_loaded_size_are_reported() -> Result<()> {
    let node = start_node(&["--slot-ms", "100"])?;
    let world = World { payer: Keypair::new_from_array([1; 32]), ..World::new(&node) };
    world.airdrop(&world.payer.pubkey(), 1)?;

    let result = simulate(&world.rpc, CALL_OF_NOTHING)?;
    assert_eq!(result["err"], "ProgramAccountNotFound");
    assert_eq!((&result["fee"], &result["loadedAccountsDataSize"]), (&json!(5_000), &json!(64)));
    assert_eq!(result["innerInstructions"], Value::Null);
    let result = simulate(&world.rpc, CALL_PAST_ITS_LIMIT)?;
    assert_eq!(result["err"], "MaxLoadedAccountsDataSizeExceeded");
    assert_eq!((&result["fee"], &result["loadedAccountsDataSize"]), (&json!(5_000), &json!(1_000)));
    let result = simulate(&world.rpc, CALL_WITHOUT_PAYER)?;
    assert_eq!(result["err"], "AccountNotFound");
    assert_eq!((&result["fee"], &result["loadedAccountsDataSize"]), (&Value::Null, &json!(0)));
    let result = simulate(&world.rpc, MEMO)?;
    assert_eq!((&result["err"], &result["unitsConsumed"]), (&Value::Null, &json!(2_862)));
    assert_eq!(result["logs"][1], "Program log: Memo (len 4): \"test\"");

    // Sent: refused by the preflight, or in history with the same error.
    let bytes = BASE64.decode(CALL_OF_NOTHING)?;
    let mut transaction: VersionedTransaction = bincode::deserialize(&bytes)?;
    transaction.message.set_recent_blockhash(world.rpc.get_latest_blockhash()?);
    let transaction = VersionedTransaction::try_new(transaction.message, &[&world.payer])?;
    let refused = world.rpc.send_transaction(&transaction).err().context("it was sent")?;
    let text = "Attempt to load a program that does not exist";
    ensure!(refused.to_string().contains(text), "{refused}");
    let (signature, status) = world.send_unchecked(&transaction)?;
    assert_eq!(status, Err(TransactionError::ProgramAccountNotFound));
    let landed = world.transaction(&signature, UiTransactionEncoding::Json)?;
    let meta = landed.transaction.meta.context("no meta")?;
    assert_eq!(meta.err, Some(TransactionError::ProgramAccountNotFound.into()));
    assert_eq!(meta.fee, 5_000);
    Ok(())
}

/// Whether `hydrant dev` succeeds, and its output.
fn run_dev(args: &[&str]) -> Result<(bool, String)> {
    let run = run_to_end(Command::new(env!("CARGO_BIN_EXE_hydrant")).arg("dev").args(args))?;
    let text = [run.stdout, run.stderr].concat();
    Ok((run.status.success(), String::from_utf8_lossy(&text).into_owned()))
}

#[test]
fn a_check_names_the_unknown_symbol_of_an_elf() -> Result<()> {
    let files = TempDir::new()?;
    let mut elf = fs::read(ProgramElves::find()?.upgrade)?;
    let good = files.path().join("good.so");
    let bad = files.path().join("bad.so");
    fs::write(&good, &elf)?;
    let name = b"sol_log_pubkey\0";
    let at = elf.windows(name.len()).position(|window| window == name).context("the symbol")?;
    elf[at..at + 9].copy_from_slice(b"sol_bogus");
    fs::write(&bad, &elf)?;
    let address = Keypair::new().pubkey().to_string();
    let checked = |path: &std::path::Path| {
        run_dev(&["--check", "--bpf-program", &address, &path.to_string_lossy()])
    };
    let (is_good, text) = checked(&good)?;
    ensure!(is_good && text.contains("settings are valid"), "{text}");
    let (is_good, text) = checked(&bad)?;
    ensure!(is_good && text.contains("settings are valid"), "only calls of it fail: {text}");
    let line =
        format!("hydrant: program {address} runs, but a deployment of it would fail: Unresolved");
    ensure!(text.contains(&line) && text.contains("sol_bogusubkey"), "{text}");
    let (_, text) = run_dev(&["--check", "--deactivate-feature", "nothing"])?;
    ensure!(text.contains("--deactivate-feature \"nothing\""), "{text}");
    Ok(())
}

#[test]
fn a_ledger_that_exists_ignores_other_features_than_its_own() -> Result<()> {
    let files = TempDir::new()?;
    let ledger = files.path().join("ledger");
    let ledger = ledger.to_string_lossy();
    let sha512 = solana_feature_set::enable_sha512_syscall::ID;
    let has_sha512 = |node: &Node| -> Result<bool> {
        let accounts = World::new(node).rpc.get_multiple_accounts(&[sha512])?;
        Ok(accounts[0].is_some())
    };
    let node = start_node(&["--ledger", &ledger, "--features", "mainnet"])?;
    ensure!(!has_sha512(&node)?);
    drop(node);
    let node = start_node(&["--ledger", &ledger, "--features", "all"])?;
    let line = "hydrant: --features argument ignored, ledger already exists";
    ensure!(node.log().contains(line), "{}", node.log());
    ensure!(!has_sha512(&node)?);
    Ok(())
}
