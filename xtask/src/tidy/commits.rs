//! The subjects of commits: `area: what changes`, in at most [`SUBJECT_CHARS_MAX`] characters.
//!
//! Input: the commits after [`CHECKED_AFTER`], from git. Without git, or without that commit (a shallow clone), nothing
//! is checked. Merges do not count.

use std::path::Path;
use std::process::Command;

/// The last commit that is not checked.
const CHECKED_AFTER: &str = "10fe2e1e";

/// Maximum characters of a subject.
const SUBJECT_CHARS_MAX: usize = 71;

/// Returns the commits to check: a short hash, a space and the subject.
pub(crate) fn subjects(root: &Path) -> Vec<String> {
    let range = format!("{CHECKED_AFTER}..HEAD");
    let mut git = Command::new("git");
    git.args(["log", "--no-merges", "--format=%h %s", &range]).current_dir(root);
    let Ok(output) = git.output() else { return Vec::new() };
    // With an unknown commit git prints an error only.
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

/// Returns a complaint for each subject that is too long or has another form.
pub(crate) fn check(subjects: &[String]) -> Vec<String> {
    let mut complaints = Vec::new();
    for line in subjects {
        let Some((hash, subject)) = line.split_once(' ') else { continue };
        let chars = subject.chars().count();
        if chars > SUBJECT_CHARS_MAX {
            complaints.push(format!(
                "commit {hash}: its subject has {chars} characters, more than {SUBJECT_CHARS_MAX}: {subject}"
            ));
        }
        let has_area = subject.split_once(": ").is_some_and(|(area, what)| {
            !area.is_empty() && !what.is_empty() && !area.contains(char::is_uppercase)
        });
        if !has_area {
            complaints.push(format!(
                "commit {hash}: its subject names no area (`area: what`): {subject}"
            ));
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_subject(subject: &str) -> Vec<String> {
        check(&[format!("abc1234 {subject}")])
    }

    #[test]
    fn a_long_subject_is_caught() {
        let long = |chars: usize| format!("rpc: {}", "é".repeat(chars - 5));
        assert_eq!(check_subject(&long(71)), [""; 0]);
        let complaints = check_subject(&long(72));
        assert!(complaints[0].starts_with("commit abc1234: its subject has 72 characters"));
        assert_eq!(complaints.len(), 1);
    }

    #[test]
    fn a_subject_without_an_area_is_caught() {
        assert_eq!(check_subject("rpc, pool: one histogram"), [""; 0]);
        for subject in ["Fix things", "Fix: things", ": things", "rpc: "] {
            assert_eq!(check_subject(subject).len(), 1, "{subject}");
        }
    }
}
