//! The checks that this machine cannot run: printed where they would have run, and listed again at the end.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// The list of the process with its own mounts, in its directory.
const FILE: &str = "skipped";

/// The skipped checks, each with its reason.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SkippedChecks(Vec<String>);

impl SkippedChecks {
    /// Adds a check with the reason why it is not run.
    pub(crate) fn add(&mut self, check: &str, reason: &str) {
        let line = format!("{check}: {reason}");
        println!("not run: {line}");
        self.0.push(line);
    }

    /// Writes the list for the process that started this one.
    pub(crate) fn write(&self, dir: &Path) -> Result<()> {
        fs::write(dir.join(FILE), self.0.join("\n")).context(FILE)
    }

    /// Adds the list that another process wrote.
    pub(crate) fn add_written(&mut self, dir: &Path) -> Result<()> {
        let text = fs::read_to_string(dir.join(FILE)).context("the list of skipped checks")?;
        self.0.extend(text.lines().map(str::to_owned));
        Ok(())
    }

    /// Lists all skipped checks. Fails in strict mode if there are any.
    pub(crate) fn report(&self, is_strict: bool) -> Result<()> {
        if self.0.is_empty() {
            println!("every check was run");
            return Ok(());
        }
        println!("{} checks were not run:", self.0.len());
        for line in &self.0 {
            println!("  {line}");
        }
        if is_strict {
            bail!("{} checks were not run (--strict): {}", self.0.len(), self.0.join("; "));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skipped_check_fails_a_strict_run_alone() {
        let mut skipped = SkippedChecks::default();
        assert!(skipped.report(true).is_ok(), "nothing was skipped");
        skipped.add("the wheel", "this machine has no Python");
        assert!(skipped.report(false).is_ok());
        let err = skipped.report(true).unwrap_err().to_string();
        assert_eq!(err, "1 checks were not run (--strict): the wheel: this machine has no Python");
    }

    #[test]
    fn checks_that_another_process_skipped_are_listed() {
        let dir = std::env::temp_dir().join(format!("hydrant-skipped-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let mut all = SkippedChecks::default();
        assert!(all.add_written(&dir).is_err(), "it ended before its list");
        SkippedChecks::default().write(&dir).unwrap();
        all.add_written(&dir).unwrap();
        assert_eq!(all, SkippedChecks::default());
        let mut mounted = SkippedChecks::default();
        mounted.add("a", "b");
        mounted.add("c", "d");
        mounted.write(&dir).unwrap();
        all.add_written(&dir).unwrap();
        assert_eq!(all, mounted);
        fs::remove_dir_all(&dir).unwrap();
    }
}
