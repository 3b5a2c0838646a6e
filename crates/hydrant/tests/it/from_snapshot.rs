//! `--from-snapshot` and `inspect`, with the sample archive that `solana-test-validator` wrote.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use solana_commitment_config::CommitmentConfig;
use solana_pubkey::Pubkey;
use solana_rpc_client::rpc_client::RpcClient;

use crate::node::start_node;

/// Agave put the hash over all accounts into the name.
const HASH: &str = "6uxVmS2tqh65Uj9mVAmmD9WB9L3gLsG7JZc5SAfyibDj";
const TOKEN_ACCOUNTS_AND_MINTS: &str = "60,051";

/// The sample is not in the repository: `shared` is next to the clone.
fn sample() -> Result<PathBuf> {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let path = root.join(format!("../shared/data/snapshots/snapshot-100-{HASH}.tar.zst"));
    ensure!(path.is_file(), "{}: the shared data must be next to the repository", path.display());
    Ok(path)
}

fn hydrant(args: &[&str]) -> Result<Output> {
    Command::new(env!("CARGO_BIN_EXE_hydrant")).args(args).output().context("run hydrant")
}

#[test]
fn a_node_resumes_from_a_snapshot() -> Result<()> {
    let sample = sample()?;
    let node = start_node(&["--from-snapshot", &sample.to_string_lossy()])?;
    let client = RpcClient::new_with_commitment(node.rpc_url(), CommitmentConfig::processed());
    ensure!(client.get_slot()? > 100);
    ensure!(client.get_first_available_block()? == 100);
    ensure!(client.get_block_height()? > 100);
    let wrapped_sol: Pubkey = "So11111111111111111111111111111111111111112".parse()?;
    ensure!(client.get_balance(&wrapped_sol)? == 1_000_000_000);
    let blockhash = client.get_latest_blockhash()?;
    let signature = client.request_airdrop(&Pubkey::new_unique(), 1_000_000_000)?;
    client.confirm_transaction_with_spinner(
        &signature,
        &blockhash,
        CommitmentConfig::confirmed(),
    )?;
    Ok(())
}

#[test]
fn inspect_summarizes_the_sample() -> Result<()> {
    let output = hydrant(&["inspect", &sample()?.to_string_lossy()])?;
    let text = String::from_utf8(output.stdout)?;
    ensure!(output.status.success());
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = words.join(" ");
    let parts = [
        "100, parent 99, block height 100",
        HASH,
        TOKEN_ACCOUNTS_AND_MINTS,
        "60378",
        "spl-token-owner 60,000",
        "spl-token-delegate 0 0 B",
        "Accounts, packed",
        "Total",
    ];
    for part in parts {
        ensure!(text.contains(part), "{part:?} is not in\n{text}");
    }
    let log = String::from_utf8(output.stderr)?;
    ensure!(log.contains("60,378 accounts"), "{log}");
    Ok(())
}

#[test]
fn an_invalid_snapshot_is_refused_and_does_not_reset_the_ledger() -> Result<()> {
    let files = tempfile::tempdir()?;
    let (cut, ledger) = (files.path().join("cut.tar.zst"), files.path().join("ledger"));
    let bytes = std::fs::read(sample()?)?;
    std::fs::write(&cut, &bytes[..bytes.len() / 2])?;
    drop(start_node(&["--ledger", &ledger.to_string_lossy()])?);
    let (cut, ledger) = (cut.to_string_lossy(), ledger.to_string_lossy());
    let from_cut = ["dev", "--rpc-port", "0", "--from-snapshot", &cut, "--ledger", &ledger];

    let refused = hydrant(&from_cut)?;
    let log = String::from_utf8(refused.stderr)?;
    ensure!(refused.status.code() == Some(1) && log.contains("contains a ledger already"), "{log}");

    let refused = hydrant(&[&from_cut[..], &["--reset"]].concat())?;
    let log = String::from_utf8(refused.stderr)?;
    ensure!(refused.status.code() == Some(1) && log.contains("accounts/0.0 at byte"), "{log}");
    drop(start_node(&["--ledger", &ledger]).context("the ledger is still there")?);
    Ok(())
}
