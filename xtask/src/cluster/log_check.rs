//! `hydrant log-check`: damages of the log, by their effect on readers.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// The prefix of a line with a damage: `Damage  message SEQUENCE: NAME: TEXT`.
const DAMAGE: &str = "Damage";
/// The line that every log has.
const BLOCKS: &str = "Blocks";

/// Damages of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogDamages {
    pub(crate) missing: u64,
    pub(crate) doubled: u64,
    /// Out of order, or of another chain of records.
    pub(crate) disordered: u64,
    /// Unreadable, or with another content than its digests say.
    pub(crate) other: u64,
    /// The first lines.
    pub(crate) examples: Vec<String>,
}

/// Examples that are stored.
const EXAMPLES_MAX: usize = 5;

impl LogDamages {
    /// Reads the newest generation of a log through.
    pub(crate) fn check(
        hydrant: &Path,
        log_url: &str,
        cluster: &str,
        environment: Vec<(&'static str, String)>,
    ) -> Result<Self> {
        let mut command = Command::new(hydrant);
        command.args(["log-check", log_url, "--log-cluster", cluster]).envs(environment);
        let output = command.output().context("start hydrant log-check")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(text.contains(BLOCKS), "hydrant log-check: {}", errors.trim());
        let damages = Self::parse(&text);
        ensure!(
            output.status.success() || damages.count() > 0,
            "hydrant log-check fails without naming a damage: {}",
            errors.trim()
        );
        Ok(damages)
    }

    /// Returns the number of all damages.
    pub(crate) fn count(&self) -> u64 {
        self.missing + self.doubled + self.disordered + self.other
    }

    fn parse(text: &str) -> Self {
        let mut damages = Self::default();
        for line in text.lines().filter(|line| line.starts_with(DAMAGE)) {
            let name = line.split(": ").nth(1).unwrap_or_default();
            let counter = match name {
                "missing" | "cut" | "parent" | "gone" => &mut damages.missing,
                "repeated" => &mut damages.doubled,
                "order" | "digest" | "chain" | "number" | "term" | "mark" | "slot" | "root" => {
                    &mut damages.disordered
                }
                _ => &mut damages.other,
            };
            *counter += 1;
            if damages.examples.len() < EXAMPLES_MAX {
                damages.examples.push(line.to_owned());
            }
        }
        damages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damages_are_counted_by_name() {
        let text = "Generation 1\nBlocks         5, slots 1 to 6, root 2\n\
                    Damage         message 9: missing: 2 messages before message 11\n\
                    Damage         message 12: repeated: message 12 came again\n\
                    Damage         message 13: mark: record 4 is not a block\n\
                    Damage         message 14: value: of the accounts\n";
        let damages = LogDamages::parse(text);
        let counts = [damages.missing, damages.doubled, damages.disordered, damages.other];
        assert_eq!(counts, [1; 4]);
        assert_eq!(damages.count(), 4);
        assert_eq!(damages.examples.len(), 4);
        assert_eq!(LogDamages::parse("Blocks 5\n"), LogDamages::default());
    }
}
