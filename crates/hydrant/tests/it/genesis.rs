//! Inputs of a new ledger, valid and refused: `--check` and a start report the same errors.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};
use serde_json::json;
use tempfile::TempDir;
use testkit::child_process::run_to_end;
use testkit::node::Node;

use crate::node::start_node;

const OWNER: &str = "Sysvar1111111111111111111111111111111111111";

/// The sysvars whose accounts a ledger stores.
const SYSVARS: [&str; 10] = [
    "SysvarC1ock11111111111111111111111111111111",
    "SysvarEpochRewards1111111111111111111111111",
    "SysvarEpochSchedu1e111111111111111111111111",
    "SysvarFees111111111111111111111111111111111",
    "SysvarLastRestartS1ot1111111111111111111111",
    "SysvarRecentB1ockHashes11111111111111111111",
    "SysvarRent111111111111111111111111111111111",
    "SysvarS1otHashes111111111111111111111111111",
    "SysvarS1otHistory11111111111111111111111111",
    "SysvarStakeHistory1111111111111111111111111",
];

fn account_file(dir: &Path, address: &str, data: &str) -> Result<PathBuf> {
    let path = dir.join(format!("{address}.json"));
    let account = json!({"pubkey": address, "account": {
        "lamports": 1, "data": [data, "base64"], "owner": OWNER,
        "executable": false, "rentEpoch": 0, "space": 0,
    }});
    fs::write(&path, account.to_string())?;
    Ok(path)
}

/// The exit code and the output of `hydrant dev` with these flags.
fn dev(flags: &[&str]) -> Result<(Option<i32>, String)> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hydrant"));
    command.args(["dev", "--rpc-port", "0", "--quiet"]).args(flags).env("HOME", "/nonexistent");
    let run = run_to_end(&mut command)?;
    let output = [run.stdout, run.stderr].concat();
    Ok((run.status.code(), String::from_utf8_lossy(&output).into_owned()))
}

/// Checks that a start and `--check` exit with 1 and an output that has all of `parts`.
fn check_refusal(flags: &[&str], parts: &[&str]) -> Result<()> {
    for flags in [flags.to_vec(), [flags, &["--check"]].concat()] {
        let (code, output) = dev(&flags)?;
        ensure!(code == Some(1), "{flags:?} ended with {code:?}: {output}");
        ensure!(!output.contains("panicked"), "{flags:?}: {output}");
        for part in parts {
            ensure!(output.contains(part), "{flags:?}: {part:?} is not in {output}");
        }
    }
    Ok(())
}

#[test]
fn a_sysvar_that_does_not_parse_is_refused_by_start_and_check() -> Result<()> {
    let files = TempDir::new()?;
    for sysvar in SYSVARS {
        let path = account_file(files.path(), sysvar, "")?;
        let path = path.display().to_string();
        check_refusal(&["--account", "-", &path], &[sysvar, "its data does not parse", &path])?;
    }
    let dir = files.path().display().to_string();
    check_refusal(&["--account-dir", &dir], &[SYSVARS[0], "its data does not parse"])
}

#[test]
fn a_program_that_does_not_load_is_refused_by_start_and_check() -> Result<()> {
    let files = TempDir::new()?;
    let path = files.path().join("program.so");
    let program = "Prog111111111111111111111111111111111111111";
    for junk in [&b""[..], b"\x7fELF and no more"] {
        fs::write(&path, junk)?;
        let path = path.display().to_string();
        check_refusal(&["--bpf-program", program, &path], &[program])?;
    }
    check_refusal(&["--bpf-program", program, "/dev/zero"], &["/dev/zero: a device"])?;
    check_refusal(&["--account", program, "/dev/zero"], &["/dev/zero: a device"])?;
    check_refusal(&["--mint", "/dev/zero"], &["/dev/zero: a device"])?;
    check_refusal(&["--identity-weights", "/dev/zero"], &["/dev/zero: a device"])?;
    check_refusal(&["--config", "/dev/zero"], &["/dev/zero: a device"])
}

#[test]
fn accounts_that_programs_would_not_expect_leave_the_node_running() -> Result<()> {
    let files = TempDir::new()?;
    // Programs, a loader, a native program, features, the stake program's configuration.
    let addresses = [
        "11111111111111111111111111111111",
        "Vote111111111111111111111111111111111111111",
        "Stake11111111111111111111111111111111111111",
        "StakeConfig11111111111111111111111111111111",
        "ComputeBudget111111111111111111111111111111",
        "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA",
        "BPFLoaderUpgradeab1e11111111111111111111111",
        "AddressLookupTab1e1111111111111111111111111",
        "Feature111111111111111111111111111111111111",
        "Ed25519SigVerify111111111111111111111111111",
        "Sysvar1nstructions1111111111111111111111111",
        "SysvarRewards111111111111111111111111111111",
    ];
    for address in addresses {
        account_file(files.path(), address, "AAAA")?;
    }
    let node = start_node(&["--account-dir", &files.path().display().to_string()])?;
    let world = crate::world::World::new(&node);
    let slot = world.rpc.get_slot()?;
    world.slot_after(slot + 1)?;
    let log = node.log();
    ensure!(!log.contains("panicked"), "{log}");
    Ok(())
}

#[test]
fn an_invalid_file_of_a_directory_does_not_reset_the_ledger() -> Result<()> {
    let files = TempDir::new()?;
    let ledger = files.path().join("ledger");
    let accounts = files.path().join("accounts");
    fs::create_dir(&accounts)?;
    let ledger = ledger.display().to_string();
    let hash = |node: &Node| -> Result<String> {
        Ok(crate::world::World::new(node).rpc.get_genesis_hash()?.to_string())
    };
    let first = hash(&start_node(&["--ledger", &ledger])?)?;
    fs::write(accounts.join("a.json"), "{}")?;
    let accounts = accounts.display().to_string();
    let (code, output) = dev(&["--ledger", &ledger, "--reset", "--account-dir", &accounts])?;
    ensure!(code == Some(1) && output.contains("a.json"), "{code:?}: {output}");
    ensure!(hash(&start_node(&["--ledger", &ledger])?)? == first, "the ledger was reset");
    Ok(())
}

#[test]
fn flags_of_test_validator_are_ignored_with_a_line_or_refused_with_an_alternative() -> Result<()> {
    let ignored = [
        "--rpc-pubsub-enable-vote-subscription",
        "--rpc-pubsub-enable-block-subscription",
        "--gossip-port",
        "23000",
        "--dynamic-port-range",
        "20000-20099",
        "--geyser-plugin-config",
        "plugin.json",
    ];
    let node = start_node(&ignored)?;
    let log = node.log();
    for flag in ignored.iter().filter(|flag| flag.starts_with("--")) {
        ensure!(log.contains(&format!("{flag} is ignored: ")), "{flag} is not in {log}");
    }
    check_refusal(&["--alpenglow"], &["--alpenglow: ", "no consensus"])
}
