//! BENCHMARKS.md: the results of all pages of `docs/benchmarks` on one page.
//!
//! Input: the document and the pages. Output: the document with one table for each page, between markers with the
//! page's name, and the missed bars and goals between the markers `missed`. The rest of the document is written by
//! hand.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::markers::replace_section;
use super::result_page::{FigureResult, ResultPage};

const FILE: &str = "BENCHMARKS.md";

/// The section that lists the missed bars, and the goals that are not reached.
const MISSED: &str = "missed";

const HEAD: &str = "| what | against | result | bar | met | commit | date | age |\n|---|---|---|---|---|---|---|---|\n";

/// Lines of BENCHMARKS.md: some 250 results, those that are missed once more. A longer document is not read as one page.
const LINES_MAX: usize = 500;

/// Writes the tables of BENCHMARKS.md.
pub(super) fn write(root: &Path, pages: &[ResultPage]) -> Result<()> {
    let path = root.join(FILE);
    let document = fs::read_to_string(&path).with_context(|| format!("read {FILE}"))?;
    fs::write(&path, render(&document, pages)?).with_context(|| format!("write {FILE}"))
}

/// Checks that BENCHMARKS.md has the results of the pages, that each figure is described, and the length.
pub(crate) fn check(document: &str, pages: &[ResultPage]) -> Vec<String> {
    let mut complaints = Vec::new();
    match render(document, pages) {
        Ok(expected) if expected == document => {}
        Ok(_) => complaints.push(format!(
            "{FILE}: the results differ from docs/benchmarks; `cargo xtask bars --summary` writes them"
        )),
        Err(err) => complaints.push(format!("{FILE}: {err:#}")),
    }
    for page in pages {
        // A page that cannot be parsed is already reported.
        complaints.extend(page.complaints().unwrap_or_default());
    }
    let lines = document.lines().count();
    if lines > LINES_MAX {
        complaints.push(format!("{FILE}: {lines} lines, at most {LINES_MAX}"));
    }
    complaints
}

/// Returns `document` with the results of `pages`.
fn render(document: &str, pages: &[ResultPage]) -> Result<String> {
    let mut document = document.to_owned();
    let mut bars = Tally::default();
    let mut goals = Tally::default();
    for page in pages.iter().filter(|page| page.has_results()) {
        let results = page.results()?;
        document = with_section(&document, &page.name, &table(&results))?;
        for result in &results {
            let tally = if result.threshold.is_goal { &mut goals } else { &mut bars };
            tally.add(page, result);
        }
    }
    let mut text = bars.render("results meet their bars", "These miss them");
    if goals.count > 0 {
        text.push('\n');
        text.push_str(&goals.render("goals are reached", "These are not"));
    }
    with_section(&document, MISSED, &text)
}

/// The number of results with bars or with goals, and a line for each that does not meet its own.
#[derive(Default)]
struct Tally {
    count: usize,
    met_count: usize,
    missed: String,
}

impl Tally {
    fn add(&mut self, page: &ResultPage, result: &FigureResult) {
        self.count += 1;
        if result.threshold.is_met() {
            self.met_count += 1;
        } else {
            self.missed.push_str(&missed_line(page, result));
        }
    }

    fn render(&self, met: &str, below: &str) -> String {
        let Self { count, met_count, missed } = self;
        let end = if missed.is_empty() { ".".to_owned() } else { format!(". {below}:\n") };
        format!("{met_count} of {count} {met}{end}\n{missed}")
    }
}

fn with_section(document: &str, name: &str, text: &str) -> Result<String> {
    let Some(document) = replace_section(document, name, text) else {
        bail!("{FILE} has no section `{name}`");
    };
    Ok(document)
}

fn table(results: &[FigureResult]) -> String {
    if results.is_empty() {
        return "Not measured yet.\n".to_owned();
    }
    let mut table = HEAD.to_owned();
    for FigureResult { threshold, description, origin } in results {
        // Writing to a string does not fail.
        let _ = writeln!(
            table,
            "| {} | {} | {} | {} | {} | {} | {} | {} |",
            description.what,
            description.against,
            threshold.value_with_unit(),
            threshold.bar(),
            threshold.verdict(),
            origin.commit,
            origin.date,
            origin.age
        );
    }
    table
}

fn missed_line(page: &ResultPage, result: &FigureResult) -> String {
    let FigureResult { threshold, description, .. } = result;
    let against = match description.against.as_str() {
        "-" => String::new(),
        against => format!(", against {against}"),
    };
    let bar = if threshold.is_goal { "" } else { "bar " };
    format!(
        "* [{}.md]({}): {}{against}: {}, {bar}{}\n",
        page.name,
        page.path().display(),
        description.what,
        threshold.value_with_unit(),
        threshold.bar()
    )
}

#[cfg(test)]
mod tests {
    use super::super::result_page::tests::{page, page_with_row};
    use super::*;

    const EMPTY: &str = "# B\n<!-- begin missed -->\n<!-- end missed -->\n\
                         ## RPC\n<!-- begin rpc -->\n<!-- end rpc -->\n";

    #[test]
    fn the_summary_has_every_result_with_its_bar() {
        let document = render(EMPTY, &[page()]).unwrap();
        let lines: Vec<&str> = document.lines().collect();
        assert_eq!(
            lines[2..5],
            [
                "1 of 2 results meet their bars. These miss them:",
                "",
                "* [rpc.md](docs/benchmarks/rpc.md): Rate of `getSlot`, against constant: 0.6 x, bar >= 0.7",
            ]
        );
        assert_eq!(
            lines[10..12],
            [
                "| Rate of `getSlot` | constant | 0.6 x | >= 0.7 | **missed** | 5bde72a with changes | 2026-11-23 | 0 |",
                "| `new` | - | 1 ms | <= 2 | yes | 5bde72a with changes | 2026-11-23 | 0 |",
            ]
        );
    }

    #[test]
    fn goals_are_counted_apart_from_bars() {
        let page = page_with_row("| memory | 101 | B | goal <= 100 | no |\n");
        let document = render(EMPTY, &[page]).unwrap();
        let goals = "\n0 of 1 goals are reached. These are not:\n\n\
                     * [rpc.md](docs/benchmarks/rpc.md): `memory`: 101 B, goal <= 100\n";
        assert!(document.contains("\n1 of 2 results meet their bars. These miss them:\n"));
        assert!(document.contains(goals), "{document}");
        assert!(document.contains("| `memory` | - | 101 B | goal <= 100 | no |"), "{document}");
    }

    #[test]
    fn a_page_without_results_says_so() {
        assert_eq!(table(&[]), "Not measured yet.\n");
    }

    #[test]
    fn an_edited_summary_is_caught() {
        let document = render(EMPTY, &[page()]).unwrap();
        let complaints = |document: &str| {
            let all = check(document, &[page()]);
            all.into_iter().filter(|one| one.starts_with(FILE)).collect::<Vec<_>>()
        };
        assert_eq!(complaints(&document), [""; 0]);
        let edited = complaints(&document.replace("0.6 x", "0.8 x"));
        assert_eq!(edited.len(), 1);
        assert!(edited[0].starts_with("BENCHMARKS.md: the results differ"), "{}", edited[0]);
        let without = complaints("# B\n<!-- begin missed -->\n<!-- end missed -->\n");
        assert_eq!(without, ["BENCHMARKS.md: BENCHMARKS.md has no section `rpc`"]);
        let long = complaints(&format!("{document}{}", "\n".repeat(LINES_MAX)));
        let lines = document.lines().count() + LINES_MAX;
        assert_eq!(long, [format!("BENCHMARKS.md: {lines} lines, at most {LINES_MAX}")]);
    }
}
