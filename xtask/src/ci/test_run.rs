//! All tests of the workspace, in two runs: those that any machine can run, and those that need a program of others.
//!
//! Input: cargo. Output: how many tests passed, failed and were skipped, with the names of the latter two. A test that
//! needs such programs is ignored, and its reason names them: `#[ignore = "needs solana, spl-token"]`. The second run
//! has the ignored tests, by name, if this machine has the programs that they need.
//! Bounds: CI ends a run that takes longer than any machine needs, and names the tests that had not ended.
//! Not here: where the programs are (`foreign_programs`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::foreign_programs::find_program;
use crate::shell::{CapturedOutput, Cmd};

/// Time limit of a run of built tests in CI. The slowest machines need half of it.
pub(crate) const CI_LIMIT: Duration = Duration::from_secs(40 * 60);

/// Lines of a failed test's output that the end of the log repeats.
const REPEATED_LINES: usize = 30;

/// The start of the reason of an ignored test that needs programs.
const NEEDS: &str = "needs ";

/// Numbers of tests by their result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tests {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
}

/// Counts and names of all tests that ran.
#[derive(Debug, Default)]
pub(crate) struct TestRun {
    pub(crate) tests: Tests,
    /// The names of those that failed.
    pub(crate) failed: Vec<String>,
    /// The first lines that each of these printed.
    failed_output: Vec<String>,
    /// Those that cannot run on this machine.
    pub(crate) skipped: Vec<IgnoredTest>,
    /// The reason for which cargo failed.
    failure: Option<String>,
}

/// A test that does not run by default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IgnoredTest {
    name: String,
    /// The text of its `ignore` attribute.
    reason: String,
}

/// Runs all tests. With `args`, the second run is left out, since they may choose the tests. `limit` applies to each
/// run.
pub(crate) fn run(
    cargo: impl Fn() -> Cmd,
    args: &[String],
    limit: Option<Duration>,
) -> Result<TestRun> {
    let capture = |mut cmd: Cmd| match limit {
        Some(limit) => cmd.capture_with_timeout(limit),
        None => cmd.capture(),
    };
    println!("$ cargo test --workspace --no-fail-fast {}", args.join(" "));
    let first = capture(cargo().args(["test", "--workspace", "--no-fail-fast"]).args(args))?;
    let mut run = TestRun::default();
    run.add(&first);
    let sorted = SortedTests::new(parse_ignored(&first.lines), is_installed)?;
    run.skipped = sorted.skipped;
    if !args.is_empty() {
        run.skipped.extend(sorted.runnable);
    } else if !sorted.runnable.is_empty() {
        let args = second_run(&sorted.runnable);
        println!("$ cargo {}", args.join(" "));
        run.add_named(&sorted.runnable, &capture(cargo().args(args))?)?;
    }
    Ok(run)
}

/// Returns the arguments of a run of ignored tests. It has the targets of the first run, so nothing is compiled again.
fn second_run(tests: &[IgnoredTest]) -> Vec<&str> {
    let options =
        ["test", "--workspace", "--no-fail-fast", "--tests", "--", "--ignored", "--exact"];
    options.into_iter().chain(tests.iter().map(|test| test.name.as_str())).collect()
}

impl TestRun {
    fn add(&mut self, output: &CapturedOutput) {
        let counted = count(&output.lines);
        self.tests.passed += counted.passed;
        self.tests.failed += counted.failed;
        self.tests.skipped += counted.skipped;
        self.failed.extend(find_failed(&output.lines).into_iter().map(str::to_owned));
        self.failed_output.extend(find_failed_output(&output.lines));
        if output.failure.is_some() {
            let unfinished = find_unfinished(&output.lines).into_iter();
            self.failed.extend(unfinished.map(|name| format!("{name} (has not ended)")));
        }
        self.failure = self.failure.take().or_else(|| output.failure.clone());
    }

    /// Adds a run of tests that were counted as skipped.
    fn add_named(&mut self, tests: &[IgnoredTest], output: &CapturedOutput) -> Result<()> {
        let before = self.tests.passed + self.tests.failed;
        self.add(output);
        let ran = self.tests.passed + self.tests.failed - before;
        self.tests.skipped = self.tests.skipped.saturating_sub(ran);
        ensure!(
            ran == tests.len() as u64 || self.failure.is_some(),
            "{ran} of {} tests ran that were named: {}",
            tests.len(),
            join_names(tests)
        );
        Ok(())
    }

    /// Returns an error that names the failed tests, if cargo has failed.
    pub(crate) fn success(&self) -> Result<()> {
        let failure = self.failure.clone().map(anyhow::Error::msg);
        failure.map_or(Ok(()), Err).with_context(|| self.failed.join(", "))
    }

    /// Returns what the failed tests printed. Some services store only the end of a log.
    pub(crate) fn failed_output(&self) -> String {
        self.failed_output.concat()
    }

    /// Returns the skipped tests by their reasons, or `None` if all have run.
    pub(crate) fn skipped_by_reason(&self) -> Option<String> {
        let mut by_reason = BTreeMap::<&str, Vec<IgnoredTest>>::new();
        for test in &self.skipped {
            by_reason.entry(&test.reason).or_default().push(test.clone());
        }
        let lines =
            by_reason.iter().map(|(reason, tests)| format!("{reason}: {}", join_names(tests)));
        let lines: Vec<String> = lines.collect();
        (!lines.is_empty()).then(|| lines.join("; "))
    }
}

fn join_names(tests: &[IgnoredTest]) -> String {
    tests.iter().map(|test| test.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// Parses the ignored tests with a reason: `test a::b ... ignored, needs go`.
fn parse_ignored(lines: &[String]) -> Vec<IgnoredTest> {
    let tests =
        lines.iter().filter_map(|line| line.strip_prefix("test ")?.split_once(" ... ignored, "));
    tests
        .map(|(name, reason)| IgnoredTest { name: name.to_owned(), reason: reason.to_owned() })
        .collect()
}

/// Whether this machine has a program.
fn is_installed(program: &str) -> Result<bool> {
    Ok(find_program(program)?.is_some())
}

/// Ignored tests, by whether this machine can run them.
#[derive(Debug, Default)]
struct SortedTests {
    /// Those that need programs, and all of these are installed.
    runnable: Vec<IgnoredTest>,
    skipped: Vec<IgnoredTest>,
}

impl SortedTests {
    fn new(ignored: Vec<IgnoredTest>, is_installed: impl Fn(&str) -> Result<bool>) -> Result<Self> {
        let mut sorted = Self::default();
        for test in ignored {
            let programs = test.reason.strip_prefix(NEEDS).map(|programs| programs.split(", "));
            let mut can_run = programs.is_some();
            for program in programs.into_iter().flatten() {
                can_run &= is_installed(program)
                    .with_context(|| format!("test {} is ignored: {}", test.name, test.reason))?;
            }
            if can_run { &mut sorted.runnable } else { &mut sorted.skipped }.push(test);
        }
        Ok(sorted)
    }
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
                "ignored" => tests.skipped += number,
                _ => {}
            }
        }
    }
    tests
}

/// Returns the lines `test a::b ... FAILED` of all failed tests, so that the end of the log names them.
fn find_failed(lines: &[String]) -> Vec<&str> {
    let failed = lines.iter().filter_map(|line| line.strip_suffix("... FAILED"));
    failed.filter_map(|line| line.strip_prefix("test ")).map(str::trim).collect()
}

/// Returns the first lines of what each failed test printed, without backtraces.
fn find_failed_output(lines: &[String]) -> Vec<String> {
    let mut sections: Vec<Vec<&str>> = Vec::new();
    let mut is_open = false;
    for line in lines {
        if line.starts_with("---- ") && line.ends_with(" stdout ----") {
            sections.push(Vec::new());
            is_open = true;
        } else if line == "failures:" || line.eq_ignore_ascii_case("stack backtrace:") {
            is_open = false;
        }
        if let Some(section) = sections.last_mut().filter(|_| is_open)
            && section.len() < REPEATED_LINES
        {
            section.push(line);
        }
    }
    sections.into_iter().map(|lines| format!("\n{}\n", lines.join("\n").trim_end())).collect()
}

/// Returns the tests that ran for long and have no result.
fn find_unfinished(lines: &[String]) -> BTreeSet<&str> {
    let mut unfinished = BTreeSet::new();
    for line in lines.iter().filter_map(|line| line.strip_prefix("test ")) {
        if let Some((name, _)) = line.split_once(" has been running for over ") {
            unfinished.insert(name);
        } else if let Some((name, _)) = line.split_once(" ... ") {
            unfinished.remove(name);
        }
    }
    unfinished
}

impl std::fmt::Display for Tests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { passed, failed, skipped } = self;
        write!(f, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[&str]) -> Vec<String> {
        text.iter().map(|line| (*line).to_owned()).collect()
    }

    #[test]
    fn the_output_of_failed_tests_is_repeated_without_backtraces() {
        let output = lines(&[
            "test a::b ... FAILED",
            "failures:",
            "",
            "---- a::b stdout ----",
            "",
            "thread 'a::b' panicked at src/a.rs:1:1:",
            "left: 1",
            "stack backtrace:",
            "   0: main",
            "---- c stdout ----",
            "Error: no port",
            "",
            "failures:",
            "    a::b",
        ]);
        let found = find_failed_output(&output).concat();
        let first = "\n---- a::b stdout ----\n\nthread 'a::b' panicked at src/a.rs:1:1:\nleft: 1\n";
        assert_eq!(found, format!("{first}\n---- c stdout ----\nError: no port\n"));
    }

    fn output(text: &[&str]) -> CapturedOutput {
        CapturedOutput { lines: lines(text), failure: None }
    }

    #[test]
    fn tests_are_added_up_over_binaries() {
        let tests = count(&lines(&[
            "running 3 tests",
            "test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s",
            "test result: FAILED. 5 passed; 4 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.21s",
        ]));
        assert_eq!(tests, Tests { passed: 7, failed: 4, skipped: 1 });
        assert_eq!(tests.to_string(), "7 passed, 4 failed, 1 skipped");
    }

    #[test]
    fn tests_that_failed_are_named() {
        let lines = lines(&[
            "test calls::good ... ok",
            "test calls::bad ... FAILED",
            "test sets - doc (line 7) ... FAILED",
            "test result: FAILED. 1 passed; 2 failed; 0 ignored",
        ]);
        assert_eq!(find_failed(&lines), ["calls::bad", "sets - doc (line 7)"]);
    }

    #[test]
    fn a_test_that_has_not_ended_is_named_if_the_run_failed() {
        let mut output = output(&[
            "test slow has been running for over 60 seconds",
            "test slow ... ok",
            "test stuck has been running for over 60 seconds",
        ]);
        let mut run = TestRun::default();
        run.add(&output);
        assert!(run.failed.is_empty());
        output.failure = Some("ended".to_owned());
        run.add(&output);
        assert_eq!(run.failed, ["stuck (has not ended)"]);
    }

    #[test]
    fn an_ignored_test_runs_where_all_its_programs_are() {
        let ignored = parse_ignored(&lines(&[
            "test tools::cli ... ignored, needs solana",
            "test tools::token ... ignored, needs solana, spl-token",
            "test slow ... ignored, an hour",
            "test x - doc (line 7) ... ignored",
            "test tools::other ... ok",
        ]));
        let all = SortedTests::new(ignored.clone(), |_| Ok(true)).unwrap();
        assert_eq!(join_names(&all.runnable), "tools::cli, tools::token");
        assert_eq!(join_names(&all.skipped), "slow");
        let one = SortedTests::new(ignored, |program| Ok(program == "solana")).unwrap();
        assert_eq!(join_names(&one.runnable), "tools::cli");
        assert_eq!(join_names(&one.skipped), "tools::token, slow");
        assert_eq!(second_run(&one.runnable).last(), Some(&"tools::cli"));
    }

    #[test]
    fn a_reason_that_names_an_unknown_program_is_an_error() {
        let ignored = parse_ignored(&lines(&["test tools::cli ... ignored, needs solano"]));
        let err = SortedTests::new(ignored, is_installed).unwrap_err();
        assert!(format!("{err:#}").contains("tools::cli is ignored: needs solano"), "{err:#}");
    }

    #[test]
    fn a_test_that_ran_by_its_name_is_not_counted_as_skipped() {
        let mut run = TestRun::default();
        let first = [
            "test slow ... ignored, an hour",
            "test tools::cli ... ignored, needs solana",
            "test result: ok. 3 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out",
        ];
        run.add(&output(&first));
        assert_eq!(run.tests.to_string(), "3 passed, 0 failed, 2 skipped");
        let sorted = SortedTests::new(parse_ignored(&lines(&first)), |_| Ok(true)).unwrap();
        let second = ["test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 4 filtered out"];
        run.add_named(&sorted.runnable, &output(&second)).unwrap();
        run.skipped = sorted.skipped;
        assert_eq!(run.tests.to_string(), "4 passed, 0 failed, 1 skipped");
        assert_eq!(run.skipped_by_reason().as_deref(), Some("an hour: slow"));
        assert!(run.success().is_ok());
    }

    #[test]
    fn a_named_test_that_did_not_run_is_an_error() {
        let tests = parse_ignored(&lines(&["test tools::cli ... ignored, needs solana"]));
        let none = ["test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 5 filtered out"];
        let err = TestRun::default().add_named(&tests, &output(&none)).unwrap_err();
        assert_eq!(err.to_string(), "0 of 1 tests ran that were named: tools::cli");
    }
}
