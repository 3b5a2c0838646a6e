//! The flags that users of `solana-test-validator` know, and the configuration file, on a real node.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use solana_pubkey::Pubkey;
use solana_rpc_client::rpc_client::RpcClient;
use solana_rpc_client_api::request::RpcRequest;
use tempfile::TempDir;
use testkit::child_process::run_to_end;
use testkit::node::Node;

use crate::clients::ProgramElves;
use crate::node::start_node;
use crate::world::wait_until;

/// An address whose key is unknown.
fn address(n: u8) -> String {
    Pubkey::new_from_array([n; 32]).to_string()
}

fn call(node: &Node, method: &'static str, params: &Value) -> Result<Value> {
    let client = RpcClient::new(node.rpc_url());
    client.send(RpcRequest::Custom { method }, params.clone()).context(method)
}

/// An account in the format of `solana account --output json`.
fn account_file(dir: &Path, address: &str, lamports: u64) -> Result<PathBuf> {
    let path = dir.join(format!("{address}.json"));
    let account = json!({
        "pubkey": address,
        "account": {
            "lamports": lamports,
            "data": ["AQID", "base64"],
            "owner": "11111111111111111111111111111111",
            "executable": false,
            "rentEpoch": u64::MAX,
            "space": 3,
        },
    });
    fs::write(&path, account.to_string())?;
    Ok(path)
}

fn lamports(node: &Node, address: &str) -> Result<Value> {
    Ok(call(node, "getBalance", &json!([address, {"commitment": "processed"}]))?["value"].clone())
}

#[test]
fn genesis_has_what_the_flags_set() -> Result<()> {
    let files = TempDir::new()?;
    let [funded, another, program, upgradeable, mint] = [1, 2, 3, 4, 5].map(address);
    let one = account_file(files.path(), &funded, 2_000_000)?;
    let dir = files.path().join("accounts");
    fs::create_dir(&dir)?;
    account_file(&dir, &another, 3_000_000)?;
    let elf = ProgramElves::find()?.upgrade;
    let text = |path: &Path| path.display().to_string();
    let node = start_node(&[
        "--account",
        &funded,
        &text(&one),
        "--account-dir",
        &text(&dir),
        "--bpf-program",
        &program,
        &text(&elf),
        "--upgradeable-program",
        &upgradeable,
        &text(&elf),
        &funded,
        "--mint",
        &mint,
        "--faucet-sol",
        "7",
        "--faucet-per-request-sol-cap",
        "2",
        "--slots-per-epoch",
        "64",
        "--warp-slot",
        "1000",
    ])?;
    assert_eq!(lamports(&node, &funded)?, json!(2_000_000));
    assert_eq!(lamports(&node, &another)?, json!(3_000_000));
    assert_eq!(lamports(&node, &mint)?, json!(500_000_000_000_000_000_u64));
    let no_authority = Pubkey::default().to_string();
    for (program, authority) in [(program, json!(no_authority)), (upgradeable, json!(funded))] {
        let info = call(
            &node,
            "getAccountInfo",
            &json!([program, {"commitment": "processed", "encoding": "jsonParsed"}]),
        )?;
        assert_eq!(info["value"]["executable"], json!(true), "{program}");
        let data = info["value"]["data"]["parsed"]["info"]["programData"].clone();
        let params = json!([data, {"commitment": "processed", "encoding": "jsonParsed"}]);
        let data = call(&node, "getAccountInfo", &params)?;
        assert_eq!(data["value"]["data"]["parsed"]["info"]["authority"], authority, "{program}");
    }
    let schedule = call(&node, "getEpochSchedule", &json!([]))?;
    assert_eq!(schedule["slotsPerEpoch"], json!(64));
    let slot = call(&node, "getSlot", &json!([{"commitment": "processed"}]))?;
    ensure!(slot.as_u64() >= Some(1_000), "slot {slot}");
    let refused = call(&node, "requestAirdrop", &json!([funded, 3_000_000_000_u64]));
    let refused = format!("{:#}", refused.expect_err("more than the cap"));
    ensure!(refused.contains("--faucet-per-request-sol-cap"), "{refused}");
    Ok(())
}

#[test]
fn a_ledger_directory_persists_until_reset() -> Result<()> {
    let files = TempDir::new()?;
    let dir = files.path().join("ledger").display().to_string();
    let flags = ["--ledger", &dir, "--slot-ms", "0"];
    let hash = |node: &Node| call(node, "getGenesisHash", &json!([]));
    let first = hash(&start_node(&flags)?)?;
    assert_eq!(hash(&start_node(&flags)?)?, first);
    let reset = [&flags[..], &["--reset"]].concat();
    assert_ne!(hash(&start_node(&reset)?)?, first);
    // A reset creates a new ledger, even next to a file of ours that it leaves.
    assert_ne!(hash(&start_node(&reset)?)?, first);
    Ok(())
}

#[test]
fn flags_of_genesis_are_named_on_an_existing_ledger() -> Result<()> {
    let files = TempDir::new()?;
    let dir = files.path().join("ledger").display().to_string();
    let account = account_file(files.path(), &address(1), 5)?.display().to_string();
    drop(start_node(&["--ledger", &dir])?);
    let flags = ["--ledger", &dir, "--faucet-sol", "5", "--account", "-", &account];
    let node = start_node(&flags)?;
    for flag in ["--faucet-sol", "--account"] {
        let line = format!("hydrant: {flag} argument ignored, ledger already exists\n");
        ensure!(node.log().contains(&line), "{}", node.log());
    }
    ensure!(lamports(&node, &address(1))? == json!(0), "the ledger is as it was");
    Ok(())
}

#[test]
fn a_reset_leaves_files_of_others_in_the_ledger_directory() -> Result<()> {
    let files = TempDir::new()?;
    let dir = files.path().join("ledger");
    fs::create_dir_all(dir.join("lost+found"))?;
    fs::write(dir.join("notes.txt"), "mine")?;
    let flags = ["--ledger", &dir.display().to_string(), "--reset"];
    let hash = |node: &Node| call(node, "getGenesisHash", &json!([]));
    let first = hash(&start_node(&flags)?)?;
    ensure!(hash(&start_node(&flags)?)? != first, "it was not reset");
    ensure!(fs::read_to_string(dir.join("notes.txt"))? == "mine");
    ensure!(dir.join("lost+found").exists());
    Ok(())
}

#[test]
fn a_ledger_directory_has_a_log_for_scripts() -> Result<()> {
    let files = TempDir::new()?;
    let dir = files.path().join("ledger");
    let node = start_node(&["--ledger", &dir.display().to_string(), "--slot-ms", "0"])?;
    let log = || fs::read_to_string(dir.join("validator.log"));
    let text = log()?;
    let hash = call(&node, "getGenesisHash", &json!([]))?;
    let hash = hash.as_str().context("a hash")?;
    ensure!(text.contains(&format!("genesis hash: {hash}\n")), "{text}");
    let port = node.rpc.port();
    ensure!(text.contains(&format!("rpc bound to 127.0.0.1:{port}\n")), "{text}");
    let version = call(&node, "getVersion", &json!([]))?;
    let feature_set = version["feature-set"].as_u64().context("a number")?;
    let core = version["solana-core"].as_str().context("a version")?;
    let first = text.lines().next().context("a line")?;
    let expected =
        format!("agave-validator {core} (src:00000000; feat:{feature_set:08x}, client:Hydrant)");
    ensure!(first.ends_with(&format!(" INFO  solana_test_validator] {expected}")), "{first}");
    let nodes = call(&node, "getClusterNodes", &json!([]))?;
    let shred_version = &nodes[0]["shredVersion"];
    for part in [
        format!("shred version: {shred_version}, hard forks: HardForks {{ hard_forks: [] }}\n"),
        format!("shred_version: {shred_version}, version: Version {{ major: "),
        "local gossip address: 127.0.0.1:".to_owned(),
    ] {
        ensure!(text.contains(&part), "{part} is not in {text}");
    }
    drop(node);
    // Overwritten, not appended.
    let lines = text.lines().count();
    let _node = start_node(&["--ledger", &dir.display().to_string(), "--slot-ms", "0"])?;
    assert_eq!(log()?.lines().count(), lines);
    Ok(())
}

#[test]
fn inflation_is_fixed_by_a_flag() -> Result<()> {
    let node = start_node(&["--inflation-fixed", "0.25"])?;
    let governor = call(&node, "getInflationGovernor", &json!([]))?;
    let expected = json!({"initial": 0.25, "terminal": 0.25, "taper": 1.0, "foundation": 0.0,
                          "foundationTerm": 0.0});
    assert_eq!(governor, expected);
    let node = start_node(&[])?;
    let schedule = call(&node, "getEpochSchedule", &json!([]))?;
    assert_eq!(schedule["slotsPerEpoch"], json!(432_000));
    let slots = call(&node, "getLeaderSchedule", &json!([]))?;
    let slots = slots.as_object().and_then(|by| by.values().next()).context("one leader")?;
    assert_eq!(slots.as_array().map(Vec::len), Some(432_000));
    assert_eq!(slots[431_999], json!(431_999));
    Ok(())
}

#[test]
fn a_configuration_file_is_read_and_checked() -> Result<()> {
    let files = TempDir::new()?;
    let path = files.path().join("hydrant.toml");
    let config = path.display().to_string();
    let check = |text: &str| -> Result<(bool, String)> {
        fs::write(&path, text)?;
        let args = ["dev", "--config", &config, "--check"];
        let run = run_to_end(Command::new(env!("CARGO_BIN_EXE_hydrant")).args(args))?;
        let output = [run.stdout, run.stderr].concat();
        Ok((run.status.success(), String::from_utf8_lossy(&output).into_owned()))
    };
    let bad = check("slots-per-epoch = 64\nslot_ms = 5")?;
    ensure!(!bad.0 && bad.1.contains("unknown field `slot_ms`"), "{}", bad.1);
    let bad = check("[pubsub]\nping = 5")?;
    ensure!(!bad.0 && bad.1.contains("unknown field `ping`"), "{}", bad.1);
    let good = check("slots-per-epoch = 64\nslot-ms = 0\n[rpc]\nbatch_max = 1")?;
    ensure!(good.0 && good.1.contains("settings are valid"), "{}", good.1);

    let node = start_node(&["--config", &config])?;
    let schedule = call(&node, "getEpochSchedule", &json!([]))?;
    assert_eq!(schedule["slotsPerEpoch"], json!(64));
    Ok(())
}

#[test]
fn a_node_that_cannot_report_its_ports_ends_and_leaves_its_ledger_whole() -> Result<()> {
    let files = TempDir::new()?;
    let ledger = files.path().join("ledger").display().to_string();
    let endpoints = files.path().join("endpoints.json").display().to_string();
    // It is written under this name first.
    fs::create_dir(format!("{endpoints}.new"))?;
    let args = ["dev", "--rpc-port", "0", "--ledger", &ledger, "--endpoints-file", &endpoints];
    let run = run_to_end(Command::new(env!("CARGO_BIN_EXE_hydrant")).args(args))?;
    let output = String::from_utf8_lossy(&run.stderr);
    ensure!(run.status.code() == Some(1) && output.contains("--endpoints-file"), "{output}");
    drop(start_node(&["--ledger", &ledger])?);
    Ok(())
}

#[test]
fn a_port_in_use_is_reported() -> Result<()> {
    let node = start_node(&[])?;
    let port = node.rpc.port().to_string();
    let args = ["dev", "--rpc-port", &port];
    let run = run_to_end(Command::new(env!("CARGO_BIN_EXE_hydrant")).args(args))?;
    let output = String::from_utf8_lossy(&run.stderr);
    ensure!(
        !run.status.success() && output.contains(&port) && output.contains("--rpc-port"),
        "{output}"
    );
    Ok(())
}

#[test]
fn an_index_is_off_or_excludes_a_key() -> Result<()> {
    let system = address(0);
    let vote = "Vote111111111111111111111111111111111111111";
    let accounts = |node: &Node, program: &str| {
        let config = json!({"commitment": "processed", "encoding": "base64"});
        call(node, "getProgramAccounts", &json!([program, config]))
    };
    let flags = ["--account-index", "spl-token-mint", "--account-index", "program-id"];
    let out = ["--account-index-exclude-key", system.as_str()];
    let node = start_node(&[&flags[..], &out].concat())?;
    let refused = format!("{:#}", accounts(&node, &system).expect_err("it is excluded"));
    ensure!(refused.contains("-32010") && refused.contains(&system), "{refused}");
    assert_eq!(accounts(&node, vote)?.as_array().map(Vec::len), Some(1));

    let node = start_node(&["--account-index", "none"])?;
    ensure!(accounts(&node, &system)?.as_array().is_some_and(|found| !found.is_empty()));
    assert_eq!(accounts(&node, vote)?.as_array().map(Vec::len), Some(1));
    let validators = call(&node, "getVoteAccounts", &json!([{"commitment": "processed"}]))?;
    let count = |which: &str| validators[which].as_array().map_or(0, Vec::len);
    assert_eq!(count("current") + count("delinquent"), 1, "one of them, depending on the time");
    Ok(())
}

#[test]
fn memory_use_is_logged_at_start_and_on_request() -> Result<()> {
    let node = start_node(&[])?;
    let wait_for_lines = |times: usize| {
        wait_until("a line of memory", Duration::from_secs(30), || {
            let log = node.log_end();
            Ok((log.matches("memory: addresses ").count() >= times).then_some(log))
        })
    };
    let log = wait_for_lines(1)?;
    for part in ["indices ", "packed and ", "ranks ", "history ", "resident_bytes="] {
        ensure!(log.contains(part), "{part:?} is not in\n{log}");
    }
    let kill = Command::new("kill").args(["-USR1", &node.pid().to_string()]).status()?;
    ensure!(kill.success(), "{kill}");
    wait_for_lines(2)?;
    Ok(())
}
