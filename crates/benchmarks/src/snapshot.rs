//! A ledger from a snapshot archive: rate and memory: `snapshot [--toy] [--accounts N] [--archive FILE]`.
//!
//! Two archives: a sample that Agave wrote (FILE, or the recorded one of the tests), and one forged from it with N
//! token accounts more, some with older versions, some closed, its files in any order. `hydrant inspect` loads each,
//! and its output is compared with a second reader's sums (the sample) or the forge's own. Then
//! `hydrant dev --from-snapshot` is timed until it is ready, and its memory is read, at rest and at its peak.
//! Rates count versions as they are written; the time is the whole process's, from its start.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use process_usage::Process;
use testkit::archive::forge::{self, Contents, Sample};
use testkit::clock::now;

use crate::arguments::value_of;
use crate::{node, threshold};

/// Token accounts of the forged archive.
const ACCOUNTS: u64 = 2_000_000;
const ACCOUNTS_TOY: u64 = 5_000;
const SEED: u64 = 5;

pub(crate) fn run(args: &[String]) -> Result<()> {
    let is_toy = args.iter().any(|arg| arg == "--toy");
    let accounts = match value_of(args, "--accounts")? {
        Some(accounts) => accounts.parse().context("--accounts")?,
        None if is_toy => ACCOUNTS_TOY,
        None => ACCOUNTS,
    };
    let sample = match value_of(args, "--archive")? {
        Some(path) => PathBuf::from(path),
        None => testkit::archive::find_recorded()?,
    };
    let read = Sample::read(&sample)?;
    let expected = read.contents();
    println!("archive          accounts   lamports, hash over all accounts");
    println!("sample         {:10}   {}, {}", expected.accounts, expected.lamports, expected.hash);
    let sample_is_right = matches_inspect(&sample, &expected)?;

    let dir = tempfile::tempdir()?;
    let (forged, forged_expected) = forge::write(dir.path(), &read, accounts, SEED)?;
    drop(read);
    println!(
        "forged         {:10}   {}, {}",
        forged_expected.accounts, forged_expected.lamports, forged_expected.hash
    );
    let forged_is_right = matches_inspect(&forged, &forged_expected)?;

    println!("\narchive          MB    MB unpacked   accounts/s   MB/s   MB/s unpacked   seconds");
    for (name, path, expected) in
        [("sample", &sample, &expected), ("forged", &forged, &forged_expected)]
    {
        let took = inspect(path)?.1;
        let mb = |bytes: u64| bytes as f64 / 1e6;
        let archive = mb(path.metadata()?.len());
        println!(
            "{name:10} {archive:8.1} {:14.1} {:12.0} {:6.0} {:15.0} {took:9.2}",
            mb(expected.bytes),
            expected.written as f64 / took,
            archive / took,
            mb(expected.bytes) / took,
        );
    }
    memory(&forged, &forged_expected)?;
    for (name, is_right) in [("sample", sample_is_right), ("forged", forged_is_right)] {
        threshold::line(
            &format!("snapshot_{name}_as_computed"),
            u8::from(is_right),
            "of_1",
            ">=",
            1,
        );
    }
    Ok(())
}

/// A node that starts from an archive: its memory compared with that of an empty node.
fn memory(archive: &Path, expected: &Contents) -> Result<()> {
    let empty = node::dev(&[])?.start()?.resident_bytes()?;
    let path = archive.to_str().context("the path is text")?;
    let node = node::dev(&["--from-snapshot", path])?.with_ready_timeout(node::LOAD_TIMEOUT);
    let node = node.start()?;
    let ready = node.started.elapsed().as_secs_f64();
    let rests = node.resident_bytes()?;
    let most = Process::with_id(node.pid()).peak_resident_bytes()?;
    let each = |bytes: u64| bytes.saturating_sub(empty) as f64 / expected.accounts as f64;
    println!("\na node from the forged archive: ready after {ready:.2} s");
    println!("  resident, B an account: {:.1} at rest, {:.1} at most", each(rests), each(most));
    println!("  of these the account's own data, key and fields: {:.1}", own_bytes(expected));
    println!("  most over rest: {:.2} times", each(most) / each(rests));
    Ok(())
}

/// Bytes of an account as it is written, on average.
fn own_bytes(expected: &Contents) -> f64 {
    expected.bytes as f64 / expected.written as f64
}

/// Whether the node's output equals the expected contents.
fn matches_inspect(archive: &Path, expected: &Contents) -> Result<bool> {
    let (text, _) = inspect(archive)?;
    let value_of = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line[name.len()..].split_whitespace().next())
    };
    let found = (value_of("Accounts "), value_of("Lamports"), value_of("Accounts hash"));
    let accounts = expected.accounts.to_string();
    let lamports = expected.lamports.to_string();
    let expected_lines = (Some(&*accounts), Some(&*lamports), Some(&*expected.hash));
    if found != expected_lines {
        println!("found {found:?} and not {expected_lines:?}");
    }
    Ok(found == expected_lines)
}

/// The output of `hydrant inspect` for an archive, and its seconds.
fn inspect(archive: &Path) -> Result<(String, f64)> {
    let started = now();
    let output = Command::new(node::program()?)
        .args(["inspect", "--quiet"])
        .arg(archive)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("run hydrant inspect")?;
    ensure!(output.status.success(), "inspect {}: {}", archive.display(), output.status);
    Ok((String::from_utf8(output.stdout)?, started.elapsed().as_secs_f64()))
}
