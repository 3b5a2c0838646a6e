//! Pages of `docs/benchmarks`: the method of each benchmark, its last results and output.
//!
//! Input: a page has two kinds of tables. `| figure | what | against |` describes figures and is written by hand. A
//! table of results is between the markers of its benchmark, below the line `Commit <id> of <date>...`. `cargo xtask
//! bars --write` writes both, with the output.
//! Output: the results with their descriptions, in the order of the page; complaints about figures without a
//! description.
//! Not here: the page of results (`summary`).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::markers::{Section, replace_section, sections};
use super::threshold::{TABLE_HEAD, Threshold, parse_cells};

/// Directory of the pages, below the root.
pub(super) const DIRECTORY: &str = "docs/benchmarks";

const DESCRIPTIONS_HEAD: &str = "| figure | what | against |";

/// A page of `docs/benchmarks`.
pub(crate) struct ResultPage {
    /// The file's name without `.md`.
    pub(super) name: String,
    text: String,
}

/// The last result of one figure.
#[derive(Debug, PartialEq)]
pub(super) struct FigureResult {
    pub(super) threshold: Threshold,
    pub(super) description: Description,
    pub(super) origin: Origin,
}

/// The description of a figure.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Description {
    pub(super) what: String,
    /// The rival or the other case of a ratio; `-` for an absolute value.
    pub(super) against: String,
}

/// The commit that was measured.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Origin {
    /// The short id; "with changes" follows if files were edited.
    pub(super) commit: String,
    /// The date of the commit, as `2026-11-23`.
    pub(super) date: String,
    /// Commits since then, when the page was written last.
    pub(super) age: u32,
}

impl ResultPage {
    /// Reads all pages, sorted by name.
    pub(crate) fn read_all(root: &Path) -> Result<Vec<Self>> {
        let directory = root.join(DIRECTORY);
        let mut pages = Vec::new();
        for entry in fs::read_dir(&directory).with_context(|| format!("read {DIRECTORY}"))? {
            let path = entry?.path();
            let Some(name) = path.file_stem().and_then(|name| name.to_str()) else { continue };
            if path.extension().is_some_and(|extension| extension == "md") {
                let text = fs::read_to_string(&path)
                    .with_context(|| format!("read {DIRECTORY}/{name}.md"))?;
                pages.push(Self { name: name.to_owned(), text });
            }
        }
        pages.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(pages)
    }

    /// Returns the path of the page below the root.
    pub(super) fn path(&self) -> PathBuf {
        Path::new(DIRECTORY).join(format!("{}.md", self.name))
    }

    pub(super) fn has_results(&self) -> bool {
        !sections(&self.text).is_empty()
    }

    pub(super) fn has_section(&self, benchmark: &str) -> bool {
        sections(&self.text).iter().any(|section| section.name == benchmark)
    }

    /// Replaces the section of a benchmark in the page and in its file.
    pub(super) fn record(&mut self, root: &Path, benchmark: &str, text: &str) -> Result<()> {
        let path = self.path();
        self.text = replace_section(&self.text, benchmark, text)
            .with_context(|| format!("{} has no section `{benchmark}`", path.display()))?;
        fs::write(root.join(&path), &self.text).with_context(|| format!("write {}", path.display()))
    }

    /// Returns the recorded output of a benchmark, if it has results.
    pub(super) fn recorded_output(&self, benchmark: &str) -> Option<&str> {
        let section = sections(&self.text).into_iter().find(|section| section.name == benchmark)?;
        Some(section.text.split_once("```text\n")?.1)
    }

    /// Returns the commit of each benchmark that has results.
    pub(super) fn origins(&self) -> Result<Vec<(&str, Origin)>> {
        let with_results = sections(&self.text);
        let with_results = with_results.iter().filter(|section| section.text.contains(TABLE_HEAD));
        with_results
            .map(|section| Ok((section.name, Origin::from_section(section.text)?)))
            .collect()
    }

    /// Writes the age of each result into the page and its file. `commits_since` counts the commits since an id.
    pub(super) fn write_ages(
        &mut self,
        root: &Path,
        commits_since: impl Fn(&str) -> Result<u32>,
    ) -> Result<()> {
        let path = self.path();
        self.set_ages(commits_since)?;
        fs::write(root.join(&path), &self.text).with_context(|| format!("write {}", path.display()))
    }

    /// Sets the ages in the lines `Commit <id> of <date>...`.
    pub(super) fn set_ages(&mut self, commits_since: impl Fn(&str) -> Result<u32>) -> Result<()> {
        let mut text = String::new();
        for line in self.text.split_inclusive('\n') {
            let Some(origin) = Origin::parse(line) else {
                text.push_str(line);
                continue;
            };
            let age = commits_since(origin.id())?;
            let line = line.replace(&age_mark(origin.age), "");
            let end = line.find([',', ';']).unwrap_or(line.len());
            text.push_str(&line[..end]);
            text.push_str(&age_mark(age));
            text.push_str(&line[end..]);
        }
        self.text = text;
        Ok(())
    }

    /// Returns the results of all benchmarks of the page.
    pub(super) fn results(&self) -> Result<Vec<FigureResult>> {
        let descriptions = descriptions(&self.text);
        let mut results = Vec::new();
        for section in sections(&self.text) {
            let of_section = section_results(&section, &descriptions);
            results.extend(of_section.with_context(|| {
                format!("{}, section `{}`", self.path().display(), section.name)
            })?);
        }
        Ok(results)
    }

    /// Figures that have no description, and descriptions of figures that are not measured.
    pub(super) fn complaints(&self) -> Result<Vec<String>> {
        let mut described = descriptions(&self.text);
        let mut complaints = Vec::new();
        let path = self.path();
        for FigureResult { threshold, .. } in self.results()? {
            if described.remove(threshold.name.as_str()).is_none() {
                complaints.push(format!(
                    "{}: `{}` is not described",
                    path.display(),
                    threshold.name
                ));
            }
        }
        complaints.extend(
            described.keys().map(|name| format!("{}: `{name}` is not measured", path.display())),
        );
        Ok(complaints)
    }
}

/// Returns the descriptions of the page's figures, by the figure's name.
fn descriptions(text: &str) -> BTreeMap<&str, Description> {
    let mut descriptions = BTreeMap::new();
    let mut is_table = false;
    for line in text.lines() {
        is_table = line == DESCRIPTIONS_HEAD || is_table && line.starts_with('|');
        if let (true, Some([name, what, against])) = (is_table, parse_cells(line))
            && let Some(name) = name.strip_prefix('`').and_then(|name| name.strip_suffix('`'))
        {
            let description = Description { what: what.to_owned(), against: against.to_owned() };
            descriptions.insert(name, description);
        }
    }
    descriptions
}

fn section_results(
    section: &Section<'_>,
    descriptions: &BTreeMap<&str, Description>,
) -> Result<Vec<FigureResult>> {
    let Some((_, table)) = section.text.split_once(TABLE_HEAD) else { return Ok(Vec::new()) };
    let origin = Origin::from_section(section.text)?;
    let rows = table.lines().take_while(|line| line.starts_with('|'));
    let results = rows.map(|row| {
        let threshold =
            Threshold::parse_row(row).with_context(|| format!("not a result: `{row}`"))?;
        let description = descriptions.get(threshold.name.as_str()).cloned();
        let description = description.unwrap_or_else(|| Description::from_name(&threshold.name));
        Ok(FigureResult { threshold, description, origin: origin.clone() })
    });
    let results: Vec<FigureResult> = results.collect::<Result<_>>()?;
    ensure!(!results.is_empty(), "an empty table of results");
    Ok(results)
}

impl Description {
    /// Returns the description of a figure that its page does not describe.
    fn from_name(name: &str) -> Self {
        Self { what: format!("`{name}`"), against: "-".to_owned() }
    }
}

impl Origin {
    /// Whether files were edited, so that the commit does not name the measured code.
    pub(super) fn has_changes(&self) -> bool {
        self.commit.contains(' ')
    }

    /// Finds the line of a section.
    fn from_section(section: &str) -> Result<Self> {
        let head = section.split(TABLE_HEAD).next().unwrap_or_default();
        head.lines().find_map(Self::parse).context("no `Commit <id> of <date>`")
    }

    /// Parses `Commit 5bde72a of 2026-11-23 with changes, 12 commits old; 2 cores of ...`.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let mut parts = line.strip_prefix("Commit ")?.split([',', ';']);
        let (id, dated) = parts.next()?.split_once(" of ")?;
        let (date, changes) = dated.split_once(' ').unwrap_or((dated, ""));
        let commit = format!("{id} {changes}").trim_end().to_owned();
        let age = parts.find_map(|part| part.trim().strip_suffix(" commits old")?.parse().ok());
        Some(Self { commit, date: date.to_owned(), age: age.unwrap_or(0) })
    }

    /// Returns the short id.
    pub(super) fn id(&self) -> &str {
        self.commit.split(' ').next().unwrap_or_default()
    }
}

/// Formats the age behind a commit.
fn age_mark(age: u32) -> String {
    format!(", {age} commits old")
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Makes a page with one described and one undescribed figure.
    pub(crate) fn page() -> ResultPage {
        let text = "# RPC\n\n| figure | what | against |\n|---|---|---|\n\
                    | `rate` | Rate of `getSlot` | constant |\n| `gone` | Removed | - |\n\n\
                    <!-- begin rpc -->\nCommit 5bde72a of 2026-11-23 with changes; 2 cores of X.\n\n\
                    | figure | value | unit | bar | met |\n|---|---|---|---|---|\n\
                    | rate | 0.6 | x | >= 0.7 | **missed** |\n| new | 1 | ms | <= 2 | yes |\n\n\
                    ```text\n| not | a | row |\n```\n<!-- end rpc -->\n";
        ResultPage { name: "rpc".to_owned(), text: text.to_owned() }
    }

    /// Makes a page whose only benchmark printed `output`.
    pub(crate) fn page_with_output(output: &str) -> ResultPage {
        let page = page();
        ResultPage { text: page.text.replace("| not | a | row |\n", output), ..page }
    }

    /// Makes a page with another row in its table of results.
    pub(crate) fn page_with_row(row: &str) -> ResultPage {
        let page = page();
        let last = "| new | 1 | ms | <= 2 | yes |\n";
        ResultPage { text: page.text.replace(last, &format!("{last}{row}")), ..page }
    }

    #[test]
    fn the_age_of_a_result_is_written_once_and_read_back() {
        let mut page = page();
        assert_eq!(page.results().unwrap()[0].origin.age, 0);
        for age in [7, 512] {
            page.set_ages(|_| Ok(age)).unwrap();
            let results = page.results().unwrap();
            assert_eq!(results[0].origin.age, age);
            assert_eq!(results[0].origin.commit, "5bde72a with changes");
        }
        let line = "Commit 5bde72a of 2026-11-23 with changes, 512 commits old; 2 cores of X.";
        assert!(page.text.contains(line), "{}", page.text);
    }

    #[test]
    fn results_have_their_description_and_origin() {
        let results = page().results().unwrap();
        assert_eq!(results.len(), 2);
        assert_eq!(results[0].threshold.value_with_unit(), "0.6 x");
        assert_eq!(results[0].description.what, "Rate of `getSlot`");
        assert_eq!(results[0].description.against, "constant");
        assert_eq!(results[0].origin.commit, "5bde72a with changes");
        assert_eq!(results[0].origin.date, "2026-11-23");
        assert_eq!(results[1].description.what, "`new`");
    }

    #[test]
    fn figures_and_descriptions_that_do_not_match_are_caught() {
        assert_eq!(
            page().complaints().unwrap(),
            [
                "docs/benchmarks/rpc.md: `new` is not described",
                "docs/benchmarks/rpc.md: `gone` is not measured"
            ]
        );
    }

    #[test]
    fn a_page_with_a_broken_section_is_an_error() {
        let broken = |from: &str, to: &str| {
            let page = page();
            ResultPage { text: page.text.replace(from, to), ..page }.results().unwrap_err()
        };
        assert_eq!(
            broken(" of 2026-11-23", "").to_string(),
            "docs/benchmarks/rpc.md, section `rpc`"
        );
        let cause = format!("{:#}", broken("<= 2", "2"));
        assert!(cause.ends_with("not a result: `| new | 1 | ms | 2 | yes |`"), "{cause}");
    }
}
