//! Tests that documents name as evidence.
//!
//! Invariant: each test and each file of tests that SECURITY.md and the pages of [`DOCUMENTS`] name exists. In
//! [`COMPLETE`] each row of a table with a last column `test` names one.
//! Not here: docs/methods.md, whose tests are checked with its methods (`rpc_solana`).

use std::path::Path;

use super::source::Source;

pub(crate) const DOCUMENTS: &[&str] = &["SECURITY.md", "docs/compatibility.md", COMPLETE];
/// The page on which each claim has a test.
const COMPLETE: &str = "docs/verify.md";
/// Underscores in a name above which it is that of a test, and not of a field or a setting.
const TEST_UNDERSCORES_MIN: usize = 4;
/// The prefix of metrics, which are as long.
const METRIC_PREFIX: &str = "hydrant_";

/// Checks a document against the files of our crates.
pub(crate) fn check(document: &Source, rust: &[Source]) -> Vec<String> {
    let mut complaints = find_unknown(document, rust);
    if document.path == Path::new(COMPLETE) {
        complaints.extend(find_rows_without_test(document));
    }
    complaints
}

/// Finds the names in code spans that no file of tests or function has.
fn find_unknown(document: &Source, rust: &[Source]) -> Vec<String> {
    let spans = document.text.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    let is_known = |span: &str| {
        if span.ends_with(".rs") {
            return rust.iter().any(|source| source.path.ends_with(span));
        }
        let definition = format!("fn {span}(");
        !is_test_name(span) || rust.iter().any(|source| source.text.contains(&definition))
    };
    let path = document.path.display();
    spans
        .filter(|span| !is_known(span))
        .map(|span| format!("{path}: the test `{span}` does not exist"))
        .collect()
}

fn is_test_name(span: &str) -> bool {
    let is_lower = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let underscores = span.chars().filter(|c| *c == '_').count();
    underscores >= TEST_UNDERSCORES_MIN
        && !span.starts_with(METRIC_PREFIX)
        && span.chars().all(is_lower)
}

/// Finds the rows without a code span in their last column, in the tables whose last column is `test`.
fn find_rows_without_test(document: &Source) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut has_tests = None;
    for line in document.text.lines() {
        let Some(row) = line.strip_prefix('|').and_then(|row| row.strip_suffix('|')) else {
            has_tests = None;
            continue;
        };
        let last = row.rsplit('|').next().unwrap_or_default().trim();
        match has_tests {
            None => has_tests = Some(last == "test"),
            Some(true) if !last.contains('`') && !last.starts_with("---") => {
                let first = row.split('|').next().unwrap_or_default().trim();
                let path = document.path.display();
                complaints.push(format!("{path}: the row `{first}` names no test"));
            }
            Some(_) => {}
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source { path: path.into(), text: text.to_owned() }
    }

    #[test]
    fn a_test_that_does_not_exist_is_caught() {
        let rust = [source("crates/a/tests/it/lies.rs", "async fn a_lie_that_is_found() {}")];
        let text = "`lies.rs` `a_lie_that_is_found` `a_lie_that_is_lost` `crates/b/lies.rs` `a_setting` \
                    `hydrant_metric_of_some_total` `fn x`";
        assert_eq!(
            check(&source("SECURITY.md", text), &rust),
            [
                "SECURITY.md: the test `a_lie_that_is_lost` does not exist",
                "SECURITY.md: the test `crates/b/lies.rs` does not exist"
            ]
        );
    }

    #[test]
    fn a_row_without_a_test_is_caught() {
        let table =
            |head: &str| format!("{head}\n|---|---|\n| one | `lies.rs` |\n| two | none |\n\n");
        let text = table("| lie | test |") + &table("| lie | where |");
        let rust = [source("lies.rs", "")];
        assert_eq!(
            check(&source(COMPLETE, &text), &rust),
            ["docs/verify.md: the row `two` names no test"]
        );
        assert_eq!(check(&source("SECURITY.md", &text), &rust), [""; 0]);
    }
}
