//! All of CI, one step after the other: what fails soonest comes first.
//!
//! Out: each step with its wall time as it ends, one table at the end, and how many tests ran in the
//! form that test runners use. A failing step does not keep the later ones from telling theirs.

use std::fmt::Write as _;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::shell::{Cmd, Listened};
use crate::workspace::{root, target_dir};
use crate::{bars, cargo, fuzz, readme, tidy};

/// How many tests ran, by how they ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tests {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) ignored: u64,
}

/// A step that has ended.
struct Done {
    name: &'static str,
    took: Duration,
    failure: Option<String>,
}

pub(crate) fn run() -> Result<()> {
    let mut tests = Tests::default();
    let mut done = Vec::new();
    step(&mut done, "fetch", || cargo().args(["fetch", "--locked"]).run());
    step(&mut done, "format", || cargo().args(["fmt", "--all", "--check"]).run());
    step(&mut done, "tidy", tidy::run);
    step(&mut done, "lints", lints);
    step(&mut done, "docs", docs);
    step(&mut done, "tests", || {
        let listened = run_tests(&[])?;
        tests = count(&listened.lines);
        let failed = names_of_failed(&listened.lines).join(", ");
        listened.success().map(drop).context(failed)
    });
    step(&mut done, "release", || cargo().args(["build", "--release", "--locked"]).run());
    step(&mut done, "help text", || help_text(false));
    step(&mut done, "README", readme::run);
    step(&mut done, "benchmarks", bars::toys);
    step(&mut done, "fuzzing", || fuzz::run(&[]));
    summary(&done, tests)
}

/// All tests of the workspace: the README's second command.
pub(crate) fn test(args: &[String]) -> Result<Tests> {
    let listened = run_tests(args)?;
    let tests = count(&listened.lines);
    println!("\ntests: {tests}");
    listened.success().map(|_| tests)
}

/// Compares the help texts in `docs/` with what the built program says, or writes them.
pub(crate) fn help_text(write: bool) -> Result<()> {
    let hydrant = target_dir().join("release/hydrant");
    cargo().args(["build", "--release", "--quiet"]).run()?;
    for (command, file) in [("dev", "help.txt"), ("bench", "help-bench.txt")] {
        let help = Cmd::new(&hydrant.to_string_lossy()).args([command, "--help"]).output()?;
        let path = root().join("docs").join(file);
        if write {
            fs::write(&path, help).with_context(|| format!("write docs/{file}"))?;
            continue;
        }
        let kept = fs::read_to_string(&path).with_context(|| format!("read docs/{file}"))?;
        ensure!(
            kept == help,
            "docs/{file} is not what `hydrant {command} --help` says; `cargo xtask help-text --write`, and look at docs/configuration.md and docs/operations.md too"
        );
    }
    Ok(())
}

fn lints() -> Result<()> {
    cargo()
        .args(["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"])
        .run()
}

fn docs() -> Result<()> {
    cargo()
        .args(["doc", "--workspace", "--no-deps", "--locked"])
        .env("RUSTDOCFLAGS", "-D warnings")
        .run()
}

fn run_tests(args: &[String]) -> Result<Listened> {
    println!("$ cargo test --workspace --no-fail-fast {}", args.join(" "));
    cargo().args(["test", "--workspace", "--no-fail-fast"]).args(args).listen()
}

#[expect(clippy::disallowed_methods, reason = "each step tells how long it took")]
fn step(done: &mut Vec<Done>, name: &'static str, run: impl FnOnce() -> Result<()>) {
    println!("\n=== {name}");
    let started = Instant::now();
    let failure = run().err().map(|err| format!("{err:#}"));
    let took = started.elapsed();
    let how = failure.as_deref().unwrap_or("ok");
    println!("=== {name}: {how} ({:.1} s)", took.as_secs_f64());
    done.push(Done { name, took, failure });
}

fn summary(done: &[Done], tests: Tests) -> Result<()> {
    let mut table = String::from("\nstep          seconds\n");
    for step in done {
        let how = step.failure.as_deref().unwrap_or("ok");
        // Writing to a string cannot fail.
        let _ = writeln!(table, "{:12} {:8.1}  {how}", step.name, step.took.as_secs_f64());
    }
    let total: Duration = done.iter().map(|step| step.took).sum();
    println!("{table}{:12} {:8.1}\n", "all", total.as_secs_f64());
    println!("tests: {tests}");
    let failed: Vec<&str> =
        done.iter().filter(|step| step.failure.is_some()).map(|step| step.name).collect();
    ensure!(failed.is_empty(), "ci: {} failed", failed.join(", "));
    Ok(())
}

/// Adds up the closing lines of all test binaries.
fn count(lines: &[String]) -> Tests {
    let mut tests = Tests::default();
    for line in lines {
        let Some((_, counts)) =
            line.split_once("test result: ").and_then(|(_, rest)| rest.split_once(". "))
        else {
            continue;
        };
        for part in counts.split("; ") {
            let Some((number, what)) = part.split_once(' ') else { continue };
            let number: u64 = number.parse().unwrap_or(0);
            match what {
                "passed" => tests.passed += number,
                "failed" => tests.failed += number,
                "ignored" => tests.ignored += number,
                _ => {}
            }
        }
    }
    tests
}

/// `test a::b ... FAILED`, for each of them, so that the end of the log names it.
fn names_of_failed(lines: &[String]) -> Vec<&str> {
    let failed = lines.iter().filter_map(|line| line.strip_suffix("... FAILED"));
    failed.filter_map(|line| line.strip_prefix("test ")).map(str::trim).collect()
}

impl std::fmt::Display for Tests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { passed, failed, ignored } = self;
        write!(f, "{passed} passed, {failed} failed, {ignored} skipped")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_added_up_over_binaries() {
        let lines = [
            "running 3 tests",
            "test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s",
            "test result: FAILED. 5 passed; 4 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.21s",
        ]
        .map(str::to_owned);
        let tests = count(&lines);
        assert_eq!(tests, Tests { passed: 7, failed: 4, ignored: 1 });
        assert_eq!(tests.to_string(), "7 passed, 4 failed, 1 skipped");
    }

    #[test]
    fn tests_that_failed_are_named() {
        let lines = [
            "test calls::good ... ok",
            "test calls::bad ... FAILED",
            "test sets - doc (line 7) ... FAILED",
            "test result: FAILED. 1 passed; 2 failed; 0 ignored",
        ]
        .map(str::to_owned);
        assert_eq!(names_of_failed(&lines), ["calls::bad", "sets - doc (line 7)"]);
    }
}
