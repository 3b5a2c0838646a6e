//! All steps of CI within a budget of time. The steps that protect most run first.
//!
//! Output: each step with its wall time as it ends, one table at the end, and how many tests ran in the form that
//! test runners use. The later steps run even if a step has failed. A step that runs alongside another one
//! is in the table with the time by which it made the run longer.
//! Bounds: 80 minutes from the start of `.ci/run`, or `HYDRANT_CI_BUDGET_S` seconds. Lints and tests always run.
//! A later step is skipped if it does not fit into the remaining time, and ended when no time remains. The table
//! names it with the reason, and the run does not fail because of it.
//! Not here: whether a step fits (`budget`), what each step does (the tasks of `main.rs`).

mod alongside;
mod budget;
pub(crate) mod measured;
pub(crate) mod one_pass;
mod test_run;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, ensure};

use crate::ci::alongside::AlongsideStep;
use crate::ci::budget::Budget;
use crate::ci::test_run::{TestRun, Tests};
use crate::shell::{Cmd, CommandEnd, cargo, cargo_in_idle_time};
use crate::tidy;
use crate::workspace::{root, target_dir};

/// When `.ci/run` was started, in seconds of the Unix epoch: the time before this program runs counts too.
const STARTED: &str = "HYDRANT_CI_STARTED";

/// Overrides [`budget::TOTAL`], in seconds.
const BUDGET: &str = "HYDRANT_CI_BUDGET_S";

/// Time that `.ci/run` takes before the first step, on the reference machine: it builds this program.
const PREPARATION: Duration = Duration::from_secs(25);

/// The step that runs all tests.
const TESTS: &str = "tests";

/// The step that builds the measured programs.
const BENCHMARKS: &str = "benchmarks";

/// The step that counts instructions. It starts no build after [`BENCHMARKS`], so it does not wait for one alongside.
const PROFILE: &str = "profile";

/// The workspace of the plugin for a validator.
const PLUGIN: &str = "geyser/Cargo.toml";

/// Results of earlier steps that a later step needs.
#[derive(Debug)]
struct RunState {
    /// A copy of this program that cargo does not replace.
    program: PathBuf,
    /// The tests are built and without a warning.
    is_lint_free: bool,
    /// The measured programs are built, and each benchmark has run.
    is_measured_built: bool,
    tests: TestRun,
}

impl RunState {
    fn new(program: PathBuf) -> Self {
        let tests = TestRun::default();
        Self { program, is_lint_free: false, is_measured_built: false, tests }
    }

    /// Returns the command of a task of this program, in a process that can be ended.
    fn task(&self, args: &[&str]) -> Cmd {
        Cmd::new(&self.program.to_string_lossy()).args(args)
    }
}

/// A step of a run, and how long it takes on the reference machine when nothing has been built before.
struct Step {
    name: &'static str,
    reference_s: u64,
    task: Task,
}

/// Command or function of a step, and the condition for its start.
enum Task {
    /// Starts even if it does not fit into the remaining time, which does not end it either.
    Required(fn(&mut RunState) -> Result<()>),
    /// If it fits, in a process that can be ended.
    IfItFits(fn(&RunState) -> Cmd),
    /// Starts together with the step of this name, which comes before it.
    Alongside(&'static str, fn() -> Cmd),
    /// In no time: what an earlier step did not run, and why.
    Report(fn(&RunState) -> Option<String>),
}

/// The steps; the most important ones first. The last two run alongside the tests, which wait most of the time, and
/// alongside the profile, which counts instructions, not time, and needs one processor.
const STEPS: &[Step] = &[
    Step::new_required("fetch", 7, |_| {
        cargo().args(["fetch", "--locked"]).run()?;
        cargo().args(["fetch", "--locked", "--manifest-path", PLUGIN]).run()
    }),
    Step::new_required("format", 3, |_| {
        cargo().args(["fmt", "--all", "--check"]).run()?;
        cargo().args(["fmt", "--check", "--manifest-path", PLUGIN]).run()
    }),
    Step::new_required("tidy", 2, |_| tidy::run(&[])),
    Step::new_required("lints", 700, |state| {
        lints(&state.program)?;
        state.is_lint_free = true;
        Ok(())
    }),
    Step::new_required(TESTS, 300, all_tests),
    Step {
        name: "skipped tests",
        reference_s: 0,
        task: Task::Report(|state| state.tests.skipped_by_reason()),
    },
    Step::if_it_fits("help text", 1, |state| state.task(&["help-text", "--built"])),
    Step::if_it_fits("README", 20, |state| state.task(&["readme", "--built"])),
    Step::if_it_fits(BENCHMARKS, 240, |state| state.task(&["toys"])),
    Step::if_it_fits("packages", 45, |state| {
        // Both directories have the program, but the one of the tests is three times as large.
        let dir = if state.is_measured_built { "measured" } else { "debug" };
        let hydrant = target_dir().join(dir).join("hydrant");
        state.task(&["dist", "--check", "--binary", &hydrant.to_string_lossy()])
    }),
    Step::if_it_fits("loom", 90, |_| loom_models()),
    Step::if_it_fits(PROFILE, 200, |state| {
        state.task(if state.is_measured_built { &["profile", "--built"] } else { &["profile"] })
    }),
    Step {
        name: "default features",
        reference_s: 200,
        task: Task::Alongside(PROFILE, default_features),
    },
    Step { name: "plugin", reference_s: 420, task: Task::Alongside(TESTS, plugin) },
];

impl Step {
    const fn new_required(
        name: &'static str,
        reference_s: u64,
        run: fn(&mut RunState) -> Result<()>,
    ) -> Self {
        Self { name, reference_s, task: Task::Required(run) }
    }

    const fn if_it_fits(
        name: &'static str,
        reference_s: u64,
        command: fn(&RunState) -> Cmd,
    ) -> Self {
        Self { name, reference_s, task: Task::IfItFits(command) }
    }

    fn reference(&self) -> Duration {
        Duration::from_secs(self.reference_s)
    }
}

/// The result of a step, as the table shows it.
enum StepOutcome {
    Passed,
    Failed(String),
    /// Not started, or ended before it was through.
    Skipped(String),
}

/// The steps that have been started alongside others, or the outcome of those that could not be.
type Running = HashMap<&'static str, Result<AlongsideStep, StepOutcome>>;

struct FinishedStep {
    name: &'static str,
    took: Duration,
    outcome: StepOutcome,
}

pub(crate) fn run() -> Result<()> {
    let clock = Clock::start()?;
    let mut budget = Budget::new(budget_total()?);
    budget.record(PREPARATION, clock.elapsed());
    let program = one_pass::own_copy()?;
    let mut state = RunState::new(program);
    let mut finished = Vec::new();
    let mut running = Running::new();
    for step in STEPS {
        println!("\n=== {}", step.name);
        start_alongside(step.name, &budget, &clock, &mut running);
        let before = clock.elapsed();
        let outcome = perform(step, &budget, &clock, &mut state, &mut running);
        let took = clock.elapsed() - before;
        println!("=== {}: {outcome} ({:.1} s)", step.name, took.as_secs_f64());
        if !matches!(outcome, StepOutcome::Skipped(_)) && !matches!(step.task, Task::Alongside(..))
        {
            budget.record(step.reference(), took);
        }
        if step.name == BENCHMARKS {
            state.is_measured_built = matches!(outcome, StepOutcome::Passed);
        }
        finished.push(FinishedStep { name: step.name, took, outcome });
    }
    println!("{}", state.tests.failed_output());
    println!("this machine took {:.1} times the reference machine's time", budget.slowness());
    summary(&finished, state.tests.tests)
}

/// Starts the steps that run alongside the step `name`.
fn start_alongside(name: &str, budget: &Budget, clock: &Clock, running: &mut Running) {
    for step in STEPS {
        let Task::Alongside(with, command) = &step.task else { continue };
        if *with != name {
            continue;
        }
        let started = match budget.check_fits(step.reference(), clock.elapsed()) {
            Err(why) => Err(StepOutcome::Skipped(why)),
            Ok(()) => {
                AlongsideStep::start(step.name, command(), budget.remaining_after(clock.elapsed()))
                    .map_err(|err| StepOutcome::Failed(format!("{err:#}")))
            }
        };
        running.insert(step.name, started);
    }
}

fn perform(
    step: &Step,
    budget: &Budget,
    clock: &Clock,
    state: &mut RunState,
    running: &mut Running,
) -> StepOutcome {
    match &step.task {
        Task::Required(run) => StepOutcome::from(run(state)),
        Task::Report(report) => report(state).map_or(StepOutcome::Passed, StepOutcome::Skipped),
        Task::IfItFits(command) => match budget.check_fits(step.reference(), clock.elapsed()) {
            Err(why) => StepOutcome::Skipped(why),
            Ok(()) => {
                command(state).run_with_timeout(budget.remaining_after(clock.elapsed())).into()
            }
        },
        Task::Alongside(with, _) => match running.remove(step.name) {
            Some(Ok(started)) => started.finish().into(),
            Some(Err(outcome)) => outcome,
            None => StepOutcome::Failed(format!("no step {with} comes before it")),
        },
    }
}

/// Checks the code that the newcomer's first command compiles: the features of the binary alone, without `cluster`,
/// which all other steps have. So the package of the binary is linted again. No build is needed, as the benchmarks run
/// the same code as in release (`measured`). The profile is not `release`, so that the macros and build scripts are
/// those of the tests.
fn default_features() -> Cmd {
    cargo_in_idle_time()
        .args(["clippy", "--locked", "--no-deps", "--", "--deny", "warnings"])
        .env("CARGO_PROFILE_DEV_DEBUG_ASSERTIONS", "false")
}

/// Tries the interleavings of threads that share memory without a lock. The flag compiles the dependencies of these crates
/// once more, into a folder of their own.
fn loom_models() -> Cmd {
    cargo()
        .args(["test", "--locked", "-p", "address", "-p", "index", "--lib", "loom", "--target-dir"])
        .args([target_dir().join("loom").to_string_lossy()])
        .env("RUSTFLAGS", "--cfg loom")
}

/// Builds the plugin. Its dependencies have the validator's versions, so all of them are built once more, into a folder
/// of their own.
fn plugin() -> Cmd {
    cargo_in_idle_time()
        .args(["test", "--locked", "--manifest-path", PLUGIN, "--target-dir"])
        .args([target_dir().join("plugin").to_string_lossy()])
}

impl From<Result<CommandEnd>> for StepOutcome {
    fn from(result: Result<CommandEnd>) -> Self {
        match result {
            Ok(CommandEnd::InTime) => Self::Passed,
            Ok(CommandEnd::OutOfTime) => {
                Self::Skipped("ended when the budget was spent".to_owned())
            }
            Err(err) => Self::Failed(format!("{err:#}")),
        }
    }
}

impl From<Result<()>> for StepOutcome {
    fn from(result: Result<()>) -> Self {
        result.map_or_else(|err| Self::Failed(format!("{err:#}")), |()| Self::Passed)
    }
}

impl std::fmt::Display for StepOutcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Passed => write!(f, "ok"),
            Self::Failed(why) => write!(f, "{why}"),
            Self::Skipped(why) => write!(f, "skipped: {why}"),
        }
    }
}

/// The time since `.ci/run` was started.
struct Clock {
    /// The time that had passed when this program was started.
    before: Duration,
    started: Instant,
}

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "a run has a budget of time")]
    fn start() -> Result<Self> {
        let before = match std::env::var(STARTED) {
            Err(_) => Duration::ZERO,
            Ok(text) => {
                let started =
                    text.parse().with_context(|| format!("{STARTED}: not seconds: {text}"))?;
                let started = SystemTime::UNIX_EPOCH + Duration::from_secs(started);
                // The clock was set back meanwhile, so the time of the step is unknown.
                SystemTime::now().duration_since(started).unwrap_or_default()
            }
        };
        Ok(Self { before, started: Instant::now() })
    }

    fn elapsed(&self) -> Duration {
        self.before + self.started.elapsed()
    }
}

fn budget_total() -> Result<Duration> {
    let Ok(text) = std::env::var(BUDGET) else { return Ok(budget::TOTAL) };
    let seconds = text.parse().with_context(|| format!("{BUDGET}: not seconds: {text}"))?;
    Ok(Duration::from_secs(seconds))
}

fn all_tests(state: &mut RunState) -> Result<()> {
    // A warning must not prevent the tests from running.
    let wrapped = || one_pass::wrap(cargo(), &state.program);
    // Tests that are not built yet take as long as the build, so only those that are have a limit.
    state.tests = if state.is_lint_free {
        test_run::run(wrapped, &[], Some(test_run::CI_LIMIT))?
    } else {
        test_run::run(cargo, &[], None)?
    };
    state.tests.success()
}

/// Runs all tests of the workspace: the README's second command.
pub(crate) fn test(args: &[String]) -> Result<()> {
    let run = test_run::run(cargo, args, None)?;
    if let Some(skipped) = run.skipped_by_reason() {
        println!("\nskipped: {skipped}");
    }
    println!("\n{}", run.tests);
    run.success()
}

/// Compares the help texts in `docs/` with the output of the program `hydrant`, or writes them.
pub(crate) fn help_text(hydrant: &Path, write: bool) -> Result<()> {
    for (command, file) in [
        ("dev", "help.txt"),
        ("follow", "help-follow.txt"),
        ("follow-kaspa", "help-follow-kaspa.txt"),
        ("replica", "help-replica.txt"),
        ("bench", "help-bench.txt"),
        ("admin", "help-admin.txt"),
    ] {
        let help = Cmd::new(&hydrant.to_string_lossy()).args([command, "--help"]).output()?;
        let path = root().join("docs").join(file);
        if write {
            fs::write(&path, help).with_context(|| format!("write docs/{file}"))?;
            continue;
        }
        let committed = fs::read_to_string(&path).with_context(|| format!("read docs/{file}"))?;
        ensure!(
            committed == help,
            "docs/{file} is not what `hydrant {command} --help` says; `cargo xtask help-text --write`, and look at docs/configuration.md and docs/operations.md too"
        );
    }
    Ok(())
}

/// Builds our crates and all tests, with Clippy's lints and the documentation, without a warning.
pub(crate) fn lints(program: &Path) -> Result<()> {
    one_pass::wrap(cargo(), program).args(["test", "--workspace", "--no-run", "--locked"]).run()
}

fn summary(finished: &[FinishedStep], tests: Tests) -> Result<()> {
    let mut table = String::from("\nstep             seconds\n");
    for FinishedStep { name, took, outcome } in finished {
        let counts = if *name == TESTS { format!("; {tests}") } else { String::new() };
        // Writing to a string cannot fail.
        let _ = writeln!(table, "{name:16} {:7.1}  {outcome}{counts}", took.as_secs_f64());
    }
    let total: Duration = finished.iter().map(|step| step.took).sum();
    println!("{table}{:16} {:7.1}\n", "all", total.as_secs_f64());
    println!("{tests}");
    let failed: Vec<&str> = finished
        .iter()
        .filter(|step| matches!(step.outcome, StepOutcome::Failed(_)))
        .map(|step| step.name)
        .collect();
    ensure!(failed.is_empty(), "ci: {} failed", failed.join(", "));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_alongside_starts_with_an_earlier_one() {
        for (at, step) in STEPS.iter().enumerate() {
            let Task::Alongside(with, _) = step.task else { continue };
            assert!(STEPS[..at].iter().any(|earlier| earlier.name == with), "{}", step.name);
        }
    }
}
