//! The error of a node whose ledger cannot be written.

use std::process::Command;

use anyhow::Result;
use tempfile::TempDir;
use testkit::child_process::run_to_end;

#[test]
fn a_limit_of_the_size_of_files_is_named_and_ends_the_start_with_1() -> Result<()> {
    let files = TempDir::new()?;
    let ledger = files.path().join("ledger");
    // 1 MiB in dash, 2 MiB in bash: less than the storage engine allocates for its journal.
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -f 2048; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_hydrant"), "dev"])
        .args(["--rpc-port", "0", "--quiet", "--ledger"])
        .arg(&ledger)
        .env("HOME", files.path());
    let output = run_to_end(&mut command)?;
    let log = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{:?}: {log}", output.status);
    assert!(log.contains("(ulimit -f)"), "{log}");
    assert!(log.contains(&ledger.join("store").display().to_string()), "{log}");
    Ok(())
}
