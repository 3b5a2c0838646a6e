//! The headings of the tables in `docs/benchmarks`: those that the programs print today.
//!
//! Input: the lines that a benchmark printed at toy size, and the pages. Output: complaints about headings that the
//! benchmark's recorded output does not have. Values of an old commit are marked by their age; a heading that changed
//! since then is corrected by hand. Pages that state an age of more than [`COMMITS_MAX`] are not checked: their tables
//! may be those of another program.

use anyhow::Result;

use super::age::COMMITS_MAX;
use super::result_page::ResultPage;

/// A heading has at least as many columns.
const COLUMNS_MIN: usize = 3;

/// Returns complaints about printed headings that the recorded output of a benchmark lacks.
pub(super) fn check(
    benchmark: &str,
    printed: &[String],
    pages: &[ResultPage],
) -> Result<Vec<String>> {
    let Some((page, recorded)) =
        pages.iter().find_map(|page| Some((page, page.recorded_output(benchmark)?)))
    else {
        return Ok(Vec::new());
    };
    let origins = page.origins()?;
    if origins.iter().any(|(name, origin)| *name == benchmark && origin.age > COMMITS_MAX) {
        return Ok(Vec::new());
    }
    let recorded: Vec<String> = recorded.lines().filter_map(heading).collect();
    let missing = printed.iter().filter_map(|line| heading(line));
    let missing = missing.filter(|heading| !recorded.contains(heading));
    let complaints = missing.map(|heading| {
        format!(
            "{}, section `{benchmark}`: lacks the printed heading `{heading}`; correct the heading by hand, or measure \
             it again",
            page.path().display()
        )
    });
    Ok(complaints.collect())
}

/// Returns a line of column names with single spaces: words without a digit, in columns that are two spaces apart.
fn heading(line: &str) -> Option<String> {
    if line.contains(|character: char| character.is_ascii_digit() || "|.:,".contains(character)) {
        return None;
    }
    let columns = line.split("  ").filter(|column| !column.trim().is_empty()).count();
    let words: Vec<&str> = line.split_whitespace().collect();
    (columns >= COLUMNS_MIN).then(|| words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::super::result_page::tests::page_with_output;
    use super::*;

    #[test]
    fn a_heading_that_the_program_does_not_print_any_more_is_caught() {
        let page = || page_with_output("what    rate   CPU us\nours      5       2\n");
        let check = |line: &str| check("rpc", &[line.to_owned()], &[page()]).unwrap();
        assert_eq!(check("what   rate        CPU us"), [""; 0]);
        assert_eq!(check("a sentence has no columns"), [""; 0]);
        assert_eq!(check("ours      7       3"), [""; 0]);
        let complaints = check("what    rate   allocations");
        assert_eq!(complaints.len(), 1);
        let start = "docs/benchmarks/rpc.md, section `rpc`: lacks the printed heading `what rate allocations`";
        assert!(complaints[0].starts_with(start), "{}", complaints[0]);
    }

    #[test]
    fn a_table_that_states_an_age_beyond_the_limit_is_not_checked() {
        let printed = ["what    rate   allocations".to_owned()];
        for (age, complaints) in [(COMMITS_MAX, 1), (COMMITS_MAX + 1, 0)] {
            let mut page = page_with_output("what    rate   CPU us\n");
            page.set_ages(|_| Ok(age)).unwrap();
            assert_eq!(check("rpc", &printed, &[page]).unwrap().len(), complaints, "{age}");
        }
    }

    #[test]
    fn a_benchmark_without_recorded_output_has_no_headings_to_compare() {
        let printed = ["what    rate   CPU us".to_owned()];
        assert_eq!(check("start", &printed, &[page_with_output("")]).unwrap(), [""; 0]);
    }
}
