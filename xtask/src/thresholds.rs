//! Benchmarks, and their values against the bars.
//!
//! Input: the benchmark program's list and its lines `bar <name> <value> <unit> <<=|>=> <bar>`, and `goal ...`.
//! Output: one table; the exit code says whether every value meets its bar. A goal that is not reached is reported, and
//! does not count. With `--write` the table and the
//! benchmark's output go into its page of `docs/benchmarks`, with commit and machine, and all results into
//! BENCHMARKS.md.
//! Shape: `cluster` has parts, which are measured and stored one by one (`part_results`).
//! Not here: the measurements (`crates/benchmarks`).

mod age;
mod headings;
pub(crate) mod markers;
mod memory_latency;
mod part_results;
pub(crate) mod provenance;
pub(crate) mod result_page;
pub(crate) mod summary;

mod threshold;

use std::path::Path;

use anyhow::{Context, Result, ensure};

use self::part_results::{PartArgs, PartResults};
use self::provenance::provenance;
use self::result_page::{DIRECTORY, ResultPage};
use self::threshold::{TABLE_HEAD, Threshold, merge_parts};
use crate::ci::measured;
use crate::cluster;
use crate::foreign_programs::find_program;
use crate::rivals;
use crate::shell::{Cmd, cargo};
use crate::workspace::{CLUSTER_FEATURE_ARGS, root, target_dir};

/// The option of the benchmark `load` that counts instructions.
const QUICK: &str = "--quick";

/// The argument of `bars` before those of the benchmarks.
const BENCHMARK_ARGS: &str = "--";
/// The part of `cluster` that the program of the benchmarks measures.
const BENCHMARK_PART: &str = "benchmark";
/// Arguments with which a benchmark does not measure all of its figures at full size.
const PARTIAL: [&str; 3] = ["--toy", "--short", "--only"];

/// Runs `cargo xtask bench NAME [ARGS...]`.
pub(crate) fn bench(args: &[String]) -> Result<()> {
    ensure!(!args.is_empty(), "which one? `cargo xtask bench list` names them");
    if args.iter().any(|arg| arg == QUICK) {
        // The recorded values are those that CI measures.
        return measured::bench()?.args(args).run();
    }
    build()?;
    program()?.args(args).run()
}

/// Runs every benchmark at toy size: proof that none has rotted, without results. It fails if a table of
/// `docs/benchmarks` lacks a heading that the benchmarks print.
pub(crate) fn run_toys() -> Result<()> {
    let dir = measured::build()?;
    let pages = ResultPage::read_all(&root())?;
    let mut complaints = Vec::new();
    for name in names(measured::bench_in(&dir))? {
        let lines = measured::bench_in(&dir).args([name.as_str(), "--toy"]).run_captured()?;
        parse_thresholds(&lines)?;
        complaints.extend(headings::check(&name, &lines, &pages)?);
    }
    ensure!(complaints.is_empty(), "{}", complaints.join("\n"));
    Ok(())
}

/// Runs the quick profile of the benchmark `load`. It fails if a response costs more instructions than recorded. It
/// takes some minutes.
pub(crate) fn profile(args: &[String]) -> Result<()> {
    let is_built = args.iter().any(|arg| arg == "--built");
    let dir = if is_built { measured::built()? } else { measured::build()? };
    measured::bench_in(&dir).args(["load", QUICK]).run_captured().map(drop)
}

/// Runs `cargo xtask bars [--write] [NAME...] [-- ARGS...]` and `cargo xtask bars --summary`.
pub(crate) fn run(args: &[String]) -> Result<()> {
    if args.iter().any(|arg| arg == "--summary") {
        let mut pages = ResultPage::read_all(&root())?;
        for page in &mut pages {
            page.write_ages(&root(), age::commits_since)?;
        }
        return summary::write(&root(), &pages);
    }
    let BarsArgs { write, mut selected, benchmark_args } = BarsArgs::parse(args)?;
    build()?;
    let all = names(program()?)?;
    if selected.is_empty() {
        selected = all.clone();
    }
    for name in &selected {
        ensure!(all.contains(name), "no benchmark `{name}`; there are {}", all.join(", "));
        if write {
            // Before hours of measurements.
            find_page(&mut ResultPage::read_all(&root())?, name)?;
        }
    }
    let rewritten = if write { &selected[..] } else { &[] };
    let old = age::check(&ResultPage::read_all(&root())?, rewritten, age::commits_since)?;
    ensure!(old.is_empty(), "{}", old.join("\n"));
    let mut thresholds = Vec::new();
    for name in &selected {
        let lines = if name == cluster::NAME {
            measure_cluster(benchmark_args)?
        } else {
            program()?.args([name]).args(benchmark_args).run_captured()?
        };
        let of_benchmark = merge_parts(parse_thresholds(&lines)?);
        if write {
            let of_rows = provenance::oldest_row(&root(), name, age::commits_since)?;
            let provenance = of_rows.map_or_else(provenance, Ok)?;
            record(&root(), name, &section(&provenance, &of_benchmark, &lines))?;
        }
        thresholds.extend(of_benchmark);
    }
    println!("\n{}", table(&thresholds));
    let (goals, bars): (Vec<Threshold>, Vec<Threshold>) =
        thresholds.into_iter().partition(|threshold| threshold.is_goal);
    let short = names_below(&goals);
    if !short.is_empty() {
        println!("goals: {} of {} are not reached: {}", short.len(), goals.len(), short.join(", "));
    }
    let missed = names_below(&bars);
    ensure!(
        missed.is_empty(),
        "bars: {} of {} are missed: {}",
        missed.len(),
        bars.len(),
        missed.join(", ")
    );
    println!("bars: all {} values meet their bars", bars.len());
    Ok(())
}

/// Measures the parts of the benchmark `cluster` that lack a result. Returns the lines of all selected parts.
fn measure_cluster(args: &[String]) -> Result<Vec<String>> {
    let parts: Vec<&str> = [BENCHMARK_PART].into_iter().chain(cluster::PARTS).collect();
    let args = PartArgs::parse(args, &parts)?;
    let dir = root().join(DIRECTORY).join(cluster::NAME);
    let results = PartResults::open(dir, provenance()?, &parts, &args)?;
    let mut lines = Vec::new();
    for part in parts.into_iter().filter(|part| args.selects(part)) {
        if results.find(part)?.is_none() {
            println!("{}, {part}:", cluster::NAME);
            let measured = match part {
                BENCHMARK_PART => program()?.args([cluster::NAME]).run_captured()?,
                // Of real processes, which this program starts.
                _ => cluster::measure_part(part)?,
            };
            results.store(part, &measured)?;
        }
        println!("{}, {part}: {}", cluster::NAME, results.path(part).display());
        if !lines.is_empty() {
            lines.push(String::new());
        }
        lines.extend(results.find(part)?.context("a part without a result")?);
    }
    Ok(lines)
}

/// The arguments of `bars`.
struct BarsArgs<'a> {
    write: bool,
    selected: Vec<String>,
    /// The arguments of each selected benchmark, such as `--keep`.
    benchmark_args: &'a [String],
}

impl<'a> BarsArgs<'a> {
    fn parse(args: &'a [String]) -> Result<Self> {
        let end = args.iter().position(|arg| arg == BENCHMARK_ARGS).unwrap_or(args.len());
        let own = &args[..end];
        let benchmark_args = args.get(end + 1..).unwrap_or_default();
        let write = own.iter().any(|arg| arg == "--write");
        let selected: Vec<String> = own.iter().filter(|arg| *arg != "--write").cloned().collect();
        ensure!(
            benchmark_args.is_empty() || !selected.is_empty(),
            "arguments after `{BENCHMARK_ARGS}` need the name of a benchmark before it"
        );
        let is_partial = benchmark_args.iter().any(|arg| PARTIAL.contains(&arg.as_str()));
        ensure!(
            !write || !is_partial,
            "--write takes whole results, not those of {}",
            PARTIAL.join(", ")
        );
        Ok(Self { write, selected, benchmark_args })
    }
}

/// Returns the names of values that do not meet their bars or goals.
fn names_below(thresholds: &[Threshold]) -> Vec<&str> {
    let below = thresholds.iter().filter(|threshold| !threshold.is_met());
    below.map(|threshold| threshold.name.as_str()).collect()
}

/// Builds the measured and the measuring program together. Separate builds would choose other features of
/// the shared dependencies, and compile all of them twice. The measured program is that of the packages and of CI.
fn build() -> Result<()> {
    let packages = ["build", "--release", "--package", "hydrant", "--package", "benchmarks"];
    cargo().args(packages).args(CLUSTER_FEATURE_ARGS).run()
}

fn program() -> Result<Cmd> {
    let release = target_dir().join("release");
    let program = Cmd::new(&release.join("benchmarks").to_string_lossy());
    // Commit and machine: for the benchmarks that write documents of their own.
    let program = program.env("HYDRANT_BENCH_SOURCE", provenance()?);
    let program = program.env("HYDRANT", release.join("hydrant"));
    // The log of `cluster`, which is a directory without it.
    let program = match find_program("nats-server")? {
        Some(server) => program.env("NATS_SERVER", server),
        None => program,
    };
    // The rival of `agave`, which says so if there is none.
    Ok(match rivals::build::find_validator()? {
        Some(validator) => program.env("HYDRANT_VALIDATOR", validator),
        None => program,
    })
}

fn names(program: Cmd) -> Result<Vec<String>> {
    let list = program.args(["list"]).output()?;
    Ok(list.lines().filter_map(|line| Some(line.split_whitespace().next()?.to_owned())).collect())
}

/// Parses the values among the lines that a benchmark printed.
fn parse_thresholds(lines: &[String]) -> Result<Vec<Threshold>> {
    lines
        .iter()
        .filter(|line| Threshold::is_line(line))
        .map(|line| Threshold::parse(line).with_context(|| format!("not a bar: `{line}`")))
        .collect()
}

fn table(thresholds: &[Threshold]) -> String {
    let rows: String = thresholds.iter().map(Threshold::row).collect();
    format!("{TABLE_HEAD}{rows}")
}

/// Writes the section of a benchmark into its page of `docs/benchmarks`, and the tables of BENCHMARKS.md.
fn record(root: &Path, benchmark: &str, section: &str) -> Result<()> {
    let mut pages = ResultPage::read_all(root)?;
    find_page(&mut pages, benchmark)?.record(root, benchmark, section)?;
    summary::write(root, &pages)
}

/// Formats the section of a benchmark in its page.
fn section(provenance: &str, thresholds: &[Threshold], lines: &[String]) -> String {
    let table =
        if thresholds.is_empty() { String::new() } else { format!("{}\n", table(thresholds)) };
    // A text block shows no images. They are in the page of the benchmark's own directory.
    let is_text = |line: &&str| !Threshold::is_line(line) && !line.starts_with("![");
    let printed: Vec<&str> = lines.iter().map(String::as_str).filter(is_text).collect();
    format!("{provenance}\n\n{table}```text\n{}\n```\n", printed.join("\n").trim_end())
}

/// Finds the page with the section of a benchmark.
fn find_page<'a>(pages: &'a mut [ResultPage], benchmark: &str) -> Result<&'a mut ResultPage> {
    pages
        .iter_mut()
        .find(|page| page.has_section(benchmark))
        .with_context(|| format!("no page of docs/benchmarks has a section `{benchmark}`"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn arguments_after_the_mark_are_those_of_the_benchmark() {
        let args = lines("--write\nagave\n--\n--keep\n--sample\na.tar");
        let parsed = BarsArgs::parse(&args).unwrap();
        assert!(parsed.write);
        assert_eq!(parsed.selected, ["agave"]);
        assert_eq!(parsed.benchmark_args, ["--keep", "--sample", "a.tar"]);
        let args = lines("quic\nrpc");
        let parsed = BarsArgs::parse(&args).unwrap();
        assert!(!parsed.write && parsed.benchmark_args.is_empty());
        assert_eq!(parsed.selected, ["quic", "rpc"]);
        assert!(BarsArgs::parse(&lines("--write\n--\n--keep")).is_err());
        assert!(BarsArgs::parse(&lines("--write\nagave\n--\n--only\nsuites")).is_err());
        assert!(BarsArgs::parse(&lines("agave\n--\n--only\nsuites")).is_ok());
    }

    #[test]
    fn only_bar_lines_are_parsed_and_a_broken_one_is_an_error() {
        let thresholds = parse_thresholds(&lines("barely\nbar a 1 ms <= 2\n bar b")).unwrap();
        assert_eq!(thresholds.len(), 1);
        assert_eq!(
            table(&thresholds),
            "| figure | value | unit | bar | met |\n|---|---|---|---|---|\n| a | 1 | ms | <= 2 | yes |\n"
        );
        assert!(parse_thresholds(&lines("bar a 1")).is_err());
    }

    #[test]
    fn a_section_has_the_table_and_the_other_lines() {
        let printed = lines("rounds\nbar a 3 ms <= 2\n![Rounds](rounds.svg)\n  of 1 s\n");
        let thresholds = parse_thresholds(&printed).unwrap();
        assert_eq!(
            section("Commit 1 of 2.", &thresholds, &printed),
            "Commit 1 of 2.\n\n| figure | value | unit | bar | met |\n|---|---|---|---|---|\n\
             | a | 3 | ms | <= 2 | **missed** |\n\n```text\nrounds\n  of 1 s\n```\n"
        );
        assert_eq!(section("C", &[], &lines("a")), "C\n\n```text\na\n```\n");
    }

    #[test]
    fn a_recorded_section_is_in_its_page_and_in_the_summary() {
        let root = std::env::temp_dir().join(format!("hydrant-bars-{}", std::process::id()));
        let pages = root.join("docs/benchmarks");
        fs::create_dir_all(&pages).unwrap();
        let file = |name: &str| fs::read_to_string(root.join(name)).unwrap();
        let empty = |name: &str| format!("<!-- begin {name} -->\n<!-- end {name} -->\n");
        fs::write(root.join("BENCHMARKS.md"), empty("missed") + &empty("quic") + &empty("rpc"))
            .unwrap();
        fs::write(pages.join("rpc.md"), empty("start") + &empty("load")).unwrap();
        fs::write(pages.join("quic.md"), empty("quic")).unwrap();

        let thresholds = parse_thresholds(&lines("bar a 3 ms <= 2")).unwrap();
        let text = section("Commit 1 of 2026-11-23; 2 cores.", &thresholds, &lines("rounds"));
        record(&root, "load", &text).unwrap();
        assert_eq!(
            file("docs/benchmarks/rpc.md"),
            format!("{}<!-- begin load -->\n{text}<!-- end load -->\n", empty("start"))
        );
        let row = "| `a` | - | 3 ms | <= 2 | **missed** | 1 | 2026-11-23 | 0 |\n";
        assert!(file("BENCHMARKS.md").contains(row), "{}", file("BENCHMARKS.md"));
        assert!(record(&root, "other", &text).is_err());
        fs::remove_dir_all(&root).unwrap();
    }
}
