//! The settings in `packaging/debian`, and the files that are generated from the command line for packages.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use testkit::child_process::run_to_end;

use crate::node::HYDRANT;

fn packaging(file: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../../packaging", file].iter().collect()
}

fn run(args: &[&str]) -> Result<Output> {
    run_to_end(Command::new(HYDRANT).args(args))
}

/// Checks a file with each command that reads it.
fn check(config: &str) -> Result<()> {
    let url = "http://127.0.0.1:1";
    let kaspa = ["follow-kaspa", "--source", "ws://127.0.0.1:1", "--network", "simnet"];
    for command in [&["dev"][..], &["follow", "--source", url, "--snapshot", url], &kaspa] {
        let checked = run(&[command, &["--config", config, "--check"]].concat())?;
        ensure!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    }
    Ok(())
}

#[test]
fn the_packaged_configuration_is_valid_as_it_is_and_with_every_setting_in_it() -> Result<()> {
    let path = packaging("debian/hydrant.toml");
    check(&path.to_string_lossy())?;
    // A setting is a comment without a space: `#rpc-port = 8899`, `#[rpc]`.
    let text = fs::read_to_string(&path)?;
    let is_setting = |line: &str| line.starts_with(|c: char| c == '[' || c.is_ascii_lowercase());
    let lines = text.lines().map(|line| match line.strip_prefix('#') {
        Some(setting) if is_setting(setting) => setting,
        _ => line,
    });
    let lines: Vec<&str> = lines.collect();
    let settings = lines.iter().filter(|line| is_setting(line)).count();
    ensure!(settings > 20, "only {settings} settings");
    let dir = TempDir::new()?;
    let all = dir.path().join("all.toml");
    fs::write(&all, lines.join("\n"))?;
    check(&all.to_string_lossy())
}

#[test]
fn completions_of_each_shell_name_the_commands_and_flags() -> Result<()> {
    for shell in ["bash", "zsh", "fish"] {
        let printed = run(&["completions", shell])?;
        ensure!(printed.status.success(), "{shell}: {}", String::from_utf8_lossy(&printed.stderr));
        let text = String::from_utf8(printed.stdout)?;
        for word in ["follow", "slot-ms", "endpoints-file"] {
            ensure!(text.contains(word), "{shell}: no {word}");
        }
    }
    Ok(())
}

#[test]
fn each_command_has_a_manual_page() -> Result<()> {
    let dir = TempDir::new()?;
    let written = run(&["man", &dir.path().to_string_lossy()])?;
    ensure!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
    let mut pages: Vec<String> = fs::read_dir(dir.path())?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<Result<_>>()?;
    pages.sort();
    assert_eq!(
        pages,
        [
            "hydrant-admin-clients.1",
            "hydrant-admin-drain.1",
            "hydrant-admin-log-level.1",
            "hydrant-admin-memory.1",
            "hydrant-admin-metrics.1",
            "hydrant-admin-reload.1",
            "hydrant-admin-report.1",
            "hydrant-admin.1",
            "hydrant-api-key-new.1",
            "hydrant-api-key.1",
            "hydrant-bench.1",
            "hydrant-completions.1",
            "hydrant-dev.1",
            "hydrant-follow-kaspa.1",
            "hydrant-follow.1",
            "hydrant-ingest.1",
            "hydrant-inspect.1",
            "hydrant-log-check.1",
            "hydrant-replica.1",
            "hydrant-snapshots.1",
            "hydrant-surfpool-start.1",
            "hydrant-surfpool.1",
            "hydrant-test-validator.1",
            "hydrant.1",
        ]
    );
    let page = fs::read_to_string(dir.path().join("hydrant-dev.1")).context("the page of dev")?;
    ensure!(page.contains("endpoints\\-file"), "{page}");
    Ok(())
}
