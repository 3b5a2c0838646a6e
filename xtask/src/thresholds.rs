//! Benchmarks, and their values against the bars.
//!
//! In: the benchmark program's list and its lines `bar <name> <value> <unit> <<=|>=> <bar>`.
//! Out: one table; the exit code says whether every value meets its bar. With `--write` the
//! table and the benchmark's output go into BENCHMARKS.md, with commit and machine.
//! Not here: what is measured (`crates/benchmarks`).

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use crate::ci::measured;
use crate::shell::{Cmd, cargo};
use crate::workspace::{root, target_dir};

/// The option of the benchmark `load` that counts instructions.
const QUICK: &str = "--quick";

/// A measured value and its bar.
#[derive(Clone, Debug, PartialEq)]
struct Threshold {
    name: String,
    value: f64,
    unit: String,
    is_upper_bound: bool,
    bound: f64,
}

/// `cargo xtask bench NAME [ARGS...]`.
pub(crate) fn bench(args: &[String]) -> Result<()> {
    ensure!(!args.is_empty(), "which one? `cargo xtask bench list` names them");
    if args.iter().any(|arg| arg == QUICK) {
        // The recorded values are those that CI measures.
        return measured::bench()?.args(args).run();
    }
    build()?;
    program().args(args).run()
}

/// Every benchmark at toy size: proof that none has rotted, without results.
pub(crate) fn run_toys() -> Result<()> {
    let dir = measured::build()?;
    for name in names(measured::bench_in(&dir))? {
        let lines = measured::bench_in(&dir).args([name.as_str(), "--toy"]).run_captured()?;
        parse_thresholds(&lines)?;
    }
    Ok(())
}

/// The quick profile of the benchmark `load`. It fails if a response costs more instructions than recorded. It takes
/// some minutes.
pub(crate) fn profile(args: &[String]) -> Result<()> {
    let is_built = args.iter().any(|arg| arg == "--built");
    let dir = if is_built { measured::built()? } else { measured::build()? };
    measured::bench_in(&dir).args(["load", QUICK]).run_captured().map(drop)
}

/// `cargo xtask bars [--write] [NAME...]`.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let write = args.iter().any(|arg| arg == "--write");
    let mut selected: Vec<String> = args.iter().filter(|arg| *arg != "--write").cloned().collect();
    build()?;
    let all = names(program())?;
    if selected.is_empty() {
        selected = all.clone();
    }
    let mut thresholds = Vec::new();
    for name in &selected {
        ensure!(all.contains(name), "no benchmark `{name}`; there are {}", all.join(", "));
        let lines = program().args([name]).run_captured()?;
        let of_benchmark = parse_thresholds(&lines)?;
        if write {
            record(name, &of_benchmark, &lines)?;
        }
        thresholds.extend(of_benchmark);
    }
    println!("\n{}", table(&thresholds));
    let short: Vec<&str> = thresholds
        .iter()
        .filter(|threshold| !threshold.is_met())
        .map(|threshold| threshold.name.as_str())
        .collect();
    ensure!(
        short.is_empty(),
        "bars: {} of {} fall short: {}",
        short.len(),
        thresholds.len(),
        short.join(", ")
    );
    println!("bars: all {} values meet their bars", thresholds.len());
    Ok(())
}

/// Builds the measured and the measuring program together. Separate builds would choose other features of
/// the shared dependencies, and compile all of them twice.
fn build() -> Result<()> {
    cargo().args(["build", "--release", "--package", "hydrant", "--package", "benchmarks"]).run()
}

fn program() -> Cmd {
    let release = target_dir().join("release");
    Cmd::new(&release.join("benchmarks").to_string_lossy()).env("HYDRANT", release.join("hydrant"))
}

fn names(program: Cmd) -> Result<Vec<String>> {
    let list = program.args(["list"]).output()?;
    Ok(list.lines().filter_map(|line| Some(line.split_whitespace().next()?.to_owned())).collect())
}

/// The values among the lines that a benchmark printed.
fn parse_thresholds(lines: &[String]) -> Result<Vec<Threshold>> {
    lines
        .iter()
        .filter(|line| line.starts_with("bar "))
        .map(|line| Threshold::parse(line).with_context(|| format!("not a bar: `{line}`")))
        .collect()
}

impl Threshold {
    fn parse(line: &str) -> Option<Self> {
        let parts: Vec<&str> = line.split_whitespace().collect();
        let [_, name, value, unit, side, bar] = parts[..] else { return None };
        let at_most = match side {
            "<=" => true,
            ">=" => false,
            _ => return None,
        };
        let (value, bar) = (value.parse().ok()?, bar.parse().ok()?);
        Some(Self {
            name: name.to_owned(),
            value,
            unit: unit.to_owned(),
            is_upper_bound: at_most,
            bound: bar,
        })
    }

    fn is_met(&self) -> bool {
        if self.is_upper_bound { self.value <= self.bound } else { self.value >= self.bound }
    }
}

fn table(bars: &[Threshold]) -> String {
    let mut table = String::from("| figure | value | unit | bar | met |\n|---|---|---|---|---|\n");
    for bar in bars {
        let Threshold { name, value, unit, is_upper_bound: at_most, bound: limit } = bar;
        let side = if *at_most { "<=" } else { ">=" };
        let met = if bar.is_met() { "yes" } else { "**no**" };
        table.push_str(&format!("| {name} | {value} | {unit} | {side} {limit} | {met} |\n"));
    }
    table
}

/// Writes one benchmark's results into its section of BENCHMARKS.md.
fn record(name: &str, bars: &[Threshold], lines: &[String]) -> Result<()> {
    let path = root().join("BENCHMARKS.md");
    let document = fs::read_to_string(&path).context("read BENCHMARKS.md")?;
    let table = if bars.is_empty() { String::new() } else { format!("{}\n", table(bars)) };
    let printed: Vec<&str> =
        lines.iter().map(String::as_str).filter(|line| !line.starts_with("bar ")).collect();
    let text =
        format!("{}\n\n{table}```text\n{}\n```\n", provenance()?, printed.join("\n").trim_end());
    fs::write(&path, replace_section(&document, name, &text)?).context("write BENCHMARKS.md")
}

/// `document` with `text` between the two markers of a benchmark.
fn replace_section(document: &str, name: &str, text: &str) -> Result<String> {
    let (begin, end) = (format!("<!-- begin {name} -->\n"), format!("<!-- end {name} -->"));
    let Some((before, rest)) = document.split_once(&begin) else {
        bail!("BENCHMARKS.md has no line `{}`", begin.trim_end());
    };
    let Some((_, after)) = rest.split_once(&end) else {
        bail!("BENCHMARKS.md has no line `{end}`");
    };
    Ok(format!("{before}{begin}{text}{end}{after}"))
}

/// Which commit on which machine.
fn provenance() -> Result<String> {
    let git = |args: &[&str]| Cmd::new("git").args(args).dir(&root()).output();
    let commit = git(&["rev-parse", "--short", "HEAD"])?;
    let changed = git(&["status", "--porcelain", "--untracked-files=no"])?;
    let edited = changed.lines().any(|line| !line.ends_with("BENCHMARKS.md"));
    let edited = if edited { " with changes" } else { "" };
    let rustc = Cmd::new("rustc").args(["--version"]).output()?;
    let kernel = Cmd::new("uname").args(["-sr"]).output()?;
    let cores = std::thread::available_parallelism()?;
    Ok(format!(
        "Commit {}{edited}; {cores} cores of {}, {}; {}, {}.",
        commit.trim(),
        first_value("/proc/cpuinfo", "model name").unwrap_or_else(|| "an unknown CPU".to_owned()),
        memory().unwrap_or_else(|| "unknown memory".to_owned()),
        kernel.trim(),
        rustc.trim()
    ))
}

fn memory() -> Option<String> {
    let kib: u64 =
        first_value("/proc/meminfo", "MemTotal")?.split_whitespace().next()?.parse().ok()?;
    Some(format!("{} GiB", kib.div_ceil(1024 * 1024)))
}

/// The value of the first line `key : value` of a file of the kernel.
fn first_value(path: &str, key: &str) -> Option<String> {
    let text = fs::read_to_string(Path::new(path)).ok()?;
    let line = text.lines().find(|line| line.starts_with(key))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threshold_is_parsed_and_checked() {
        let met = |line: &str| Threshold::parse(line).map(|bar| bar.is_met());
        assert_eq!(met("bar start_ms 412.5 ms <= 1000"), Some(true));
        assert_eq!(met("bar start_ms 1000.1 ms <= 1000"), Some(false));
        assert_eq!(met("bar getSlot_ratio 0.71 x >= 0.7"), Some(true));
        assert_eq!(met("bar getSlot_ratio 0.69 x >= 0.7"), Some(false));
        assert_eq!(met("bar getSlot_ratio 0.69 x > 0.7"), None);
        assert_eq!(met("bar getSlot_ratio fast x >= 0.7"), None);
        assert_eq!(met("bar getSlot_ratio 0.69 >= 0.7"), None);
    }

    #[test]
    fn only_bar_lines_are_parsed_and_a_broken_one_is_an_error() {
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let thresholds = parse_thresholds(&lines("barely\nbar a 1 ms <= 2\n bar b")).unwrap();
        assert_eq!(thresholds.len(), 1);
        assert_eq!(
            table(&thresholds),
            "| figure | value | unit | bar | met |\n|---|---|---|---|---|\n| a | 1 | ms | <= 2 | yes |\n"
        );
        assert!(parse_thresholds(&lines("bar a 1")).is_err());
    }

    #[test]
    fn a_benchmark_has_its_section_in_the_document() {
        let document = "# B\n<!-- begin rpc -->\nold\n<!-- end rpc -->\nrest\n";
        assert_eq!(
            replace_section(document, "rpc", "new\n").unwrap(),
            "# B\n<!-- begin rpc -->\nnew\n<!-- end rpc -->\nrest\n"
        );
        assert!(replace_section(document, "start", "new\n").is_err());
    }
}
