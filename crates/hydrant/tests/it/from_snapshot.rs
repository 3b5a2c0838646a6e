//! `--from-snapshot` and `inspect`, with an archive that `solana-test-validator` wrote.

use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use solana_commitment_config::CommitmentConfig;
use solana_pubkey::Pubkey;
use solana_rpc_client::rpc_client::RpcClient;
use testkit::archive::{self, Accounts};
use testkit::child_process::run_to_end;

use crate::node::start_node;

/// Accounts of the sample, as the second reader counts them.
const ACCOUNTS: usize = 403;

fn hydrant(args: &[&str]) -> Result<Output> {
    run_to_end(Command::new(env!("CARGO_BIN_EXE_hydrant")).args(args))
}

#[test]
fn a_node_resumes_from_a_snapshot() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let sample = archive::find_recorded()?;
    resume_from(&sample)?;
    resume_from(&archive::copy_as_lz4(&sample, dir.path())?).context("LZ4")
}

fn resume_from(archive: &Path) -> Result<()> {
    let node = start_node(&["--from-snapshot", &archive.to_string_lossy()])?;
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
    let sample = archive::find_recorded()?;
    let mut accounts = Accounts::default();
    accounts.add(&archive::files(&sample)?).context("whole files")?;
    assert_eq!(accounts.open().count(), ACCOUNTS);
    let hash = accounts.lt_hash().checksum().to_string();
    let dir = tempfile::tempdir()?;
    for archive in [&sample, &archive::copy_as_lz4(&sample, dir.path())?] {
        let output = hydrant(&["inspect", &archive.to_string_lossy()])?;
        ensure!(output.status.success(), "{}: {output:?}", archive.display());
        let text = String::from_utf8(output.stdout)?;
        let words: Vec<&str> = text.split_whitespace().collect();
        let text = words.join(" ");
        let parts = [
            "100, parent 99, block height 100",
            &hash,
            "Accounts 403",
            "spl-token-owner 14",
            "spl-token-delegate 10",
            "lockups 0 0 B",
            "Accounts, packed",
            "Total",
        ];
        for part in parts {
            ensure!(text.contains(part), "{part:?} is not in\n{text}");
        }
        let log = String::from_utf8(output.stderr)?;
        ensure!(log.contains(&format!("{} accounts", accounts.written)), "{log}");
    }
    Ok(())
}

#[test]
fn an_invalid_snapshot_is_refused_and_does_not_reset_the_ledger() -> Result<()> {
    let files = tempfile::tempdir()?;
    let cut = files.path().join("cut.tar.zst");
    let ledger = files.path().join("ledger");
    let bytes = std::fs::read(archive::find_recorded()?)?;
    std::fs::write(&cut, &bytes[..bytes.len() / 2])?;
    drop(start_node(&["--ledger", &ledger.to_string_lossy()])?);
    let cut = cut.to_string_lossy();
    let ledger = ledger.to_string_lossy();
    let from_cut = ["dev", "--rpc-port", "0", "--from-snapshot", &cut, "--ledger", &ledger];

    let refused = hydrant(&from_cut)?;
    let log = String::from_utf8(refused.stderr)?;
    ensure!(refused.status.code() == Some(1) && log.contains("contains a ledger already"), "{log}");

    let refused = hydrant(&[&from_cut[..], &["--reset"]].concat())?;
    let log = String::from_utf8(refused.stderr)?;
    ensure!(
        refused.status.code() == Some(1) && log.contains(": accounts/") && log.contains("cut off"),
        "{log}"
    );
    drop(start_node(&["--ledger", &ledger]).context("the ledger is still there")?);
    Ok(())
}

#[test]
fn check_reads_the_start_of_an_archive() -> Result<()> {
    let files = tempfile::tempdir()?;
    let sample = archive::find_recorded()?;
    let foreign = files.path().join("snapshot.tar.zst");
    std::fs::write(&foreign, "BZh91AY&SY")?;
    let check = |full: &Path, incremental: &Path| {
        let full = full.to_string_lossy();
        let incremental = incremental.to_string_lossy();
        let flags = ["--from-snapshot", &*full, "--from-incremental-snapshot", &*incremental];
        hydrant(&[&["dev", "--check"][..], &flags[..]].concat())
    };

    let accepted = check(&sample, &sample)?;
    ensure!(accepted.status.success(), "{accepted:?}");
    for (full, incremental, reason) in [
        (&*foreign, &*sample, "compressed with bzip2"),
        (&*sample, &*foreign, "compressed with bzip2"),
        (files.path(), &*sample, "a directory, not a regular file"),
    ] {
        let refused = check(full, incremental)?;
        let log = String::from_utf8(refused.stderr)?;
        ensure!(!refused.status.success() && log.contains(reason), "{reason}: {log}");
    }
    Ok(())
}
