//! Fuzzing with libFuzzer: runs each target of `fuzz/` for a while.
//!
//! Input: the `[[bin]]` targets of `fuzz/Cargo.toml`, seeds in `fuzz/seeds/<target>`. Inputs that reach
//! new code are written to `fuzz/corpus/<target>`, inputs that crash to `fuzz/artifacts/<target>`.
//! Neither is committed.
//! It needs a C++ compiler. CI runs the seeds and inputs made from them as tests instead (`cargo test -p fuzz`).
//! Only our own crates are instrumented (`compiler`), so dependencies are shared with every other build, and no
//! other toolchain is needed. Generic code of dependencies is covered where our crates instantiate it.

use std::fs;

use anyhow::{Context, Result, bail, ensure};

use crate::compilation::Purpose;
use crate::shell::{Cmd, cargo};
use crate::workspace::{root, target_dir};

/// The compiler options that libFuzzer needs: counters on edges, and reports of comparisons.
pub(crate) const COVERAGE: &[&str] = &[
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Ccodegen-units=1",
];

/// Seconds that each target runs by default.
const SECONDS: &str = "60";

/// Runs `cargo xtask fuzz [SECONDS [TARGET...]]`.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let (seconds, requested) = match args.split_first() {
        Some((seconds, requested)) => (seconds.as_str(), requested),
        None => (SECONDS, args),
    };
    let seconds: u32 = seconds.parse().with_context(|| format!("not seconds: {seconds}"))?;
    let manifest = fs::read_to_string(root().join("fuzz/Cargo.toml"))?;
    let all = targets(&manifest)?;
    if let Some(unknown) = requested.iter().find(|name| !all.contains(name)) {
        bail!("no target `{unknown}`; there are {}", all.join(", "));
    }
    let chosen = if requested.is_empty() { &all[..] } else { requested };
    let build = cargo().args(["build", "--package", "fuzz", "--bins", "--features", "libfuzzer"]);
    Purpose::Coverage.wrap(build, std::env::current_exe()?).run()?;
    chosen.iter().try_for_each(|name| run_target(name, seconds))
}

fn run_target(name: &str, seconds: u32) -> Result<()> {
    let fuzz = root().join("fuzz");
    let seeds = fuzz.join("seeds").join(name);
    let corpus = fuzz.join("corpus").join(name);
    let artifacts = fuzz.join("artifacts");
    fs::create_dir_all(&corpus)?;
    fs::create_dir_all(&artifacts)?;
    let program = target_dir().join("debug").join(name);
    let mut run = Cmd::new(&program.to_string_lossy())
        .args([
            &format!("-max_total_time={seconds}"),
            &format!("-artifact_prefix={}/{name}-", artifacts.display()),
            "-timeout=10",
            "-rss_limit_mb=2048",
            "-print_final_stats=1",
            "-verbosity=0",
        ])
        .args([corpus.to_string_lossy()]);
    if seeds.exists() {
        run = run.args([seeds.to_string_lossy()]);
    }
    run.run().with_context(|| format!("fuzz target {name}: the input is in fuzz/artifacts"))
}

/// Returns the names of the programs of a manifest.
fn targets(manifest: &str) -> Result<Vec<String>> {
    let manifest: toml::Table = manifest.parse().context("parse fuzz/Cargo.toml")?;
    let bins = manifest.get("bin").and_then(toml::Value::as_array);
    let names: Vec<String> = bins
        .into_iter()
        .flatten()
        .filter_map(|bin| Some(bin.get("name")?.as_str()?.to_owned()))
        .collect();
    ensure!(!names.is_empty(), "fuzz/Cargo.toml names no programs");
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_the_manifest_s_programs() {
        let manifest = "[package]\nname = \"fuzz\"\n[[bin]]\nname = \"a\"\n[[bin]]\nname = \"b\"\n";
        assert_eq!(targets(manifest).unwrap(), ["a", "b"]);
        assert!(targets("[package]\nname = \"fuzz\"\n").is_err());
    }
}
