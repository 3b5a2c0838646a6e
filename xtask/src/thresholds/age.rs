//! The age of results: the number of commits from the measured one to the present one.
//!
//! Input: the pages, and a function that counts commits. Output: complaints about results that are older than
//! [`COMMITS_MAX`] without saying so. `cargo xtask bars --summary` writes the ages into the pages and BENCHMARKS.md.

use anyhow::{Context, Result};

use super::result_page::ResultPage;
use crate::shell::Cmd;
use crate::workspace::root;

/// The age from which on a result must say it, in commits.
pub(super) const COMMITS_MAX: u32 = 100;

/// Counts the commits since the one with this id.
pub(super) fn commits_since(id: &str) -> Result<u32> {
    let range = format!("{id}..HEAD");
    let count = Cmd::new("git").args(["rev-list", "--count", &range]).dir(&root()).output();
    let count = count.with_context(|| format!("count the commits since {id}"))?;
    count.trim().parse().with_context(|| format!("count the commits since {id}"))
}

/// Returns complaints about the sections whose results are old and do not say so. The sections of the benchmarks
/// `rewritten` are left out: they are about to be measured.
pub(super) fn check(
    pages: &[ResultPage],
    rewritten: &[String],
    commits_since: impl Fn(&str) -> Result<u32>,
) -> Result<Vec<String>> {
    let mut complaints = Vec::new();
    for page in pages {
        for (benchmark, origin) in page.origins()? {
            if rewritten.iter().any(|name| name == benchmark) || origin.age > COMMITS_MAX {
                continue;
            }
            let age = commits_since(origin.id())?;
            if age > COMMITS_MAX {
                complaints.push(format!(
                    "{}, section `{benchmark}`: measured {age} commits ago at {}, at most {COMMITS_MAX}; measure it \
                     again, or let `cargo xtask bars --summary` write the age into its rows",
                    page.path().display(),
                    origin.commit
                ));
            }
        }
    }
    Ok(complaints)
}

#[cfg(test)]
mod tests {
    use super::super::result_page::tests::page;
    use super::*;

    #[test]
    fn an_old_result_is_refused_unless_its_row_says_so() {
        let check = |page: ResultPage, rewritten: &[String], age| {
            check(&[page], rewritten, |id| {
                assert_eq!(id, "5bde72a");
                Ok(age)
            })
            .unwrap()
        };
        assert_eq!(check(page(), &[], COMMITS_MAX), [""; 0]);
        let complaints = check(page(), &[], COMMITS_MAX + 1);
        assert_eq!(complaints.len(), 1);
        let start = "docs/benchmarks/rpc.md, section `rpc`: measured 101 commits ago at 5bde72a with changes";
        assert!(complaints[0].starts_with(start), "{}", complaints[0]);
        assert_eq!(check(page(), &["rpc".to_owned()], COMMITS_MAX + 1), [""; 0]);

        let mut dated = page();
        dated.set_ages(|_| Ok(101)).unwrap();
        assert_eq!(check(dated, &[], COMMITS_MAX + 1), [""; 0]);
    }
}
