//! The profile of an executed transaction: compute units, log and error of the whole and of each instruction.
//!
//! In: the log, in which each program under a loader reports its consumption. Builtin programs do not: those of
//! [`DEFAULT_UNITS`] consume a fixed number, and one other instruction is the rest.
//! Not here: accounts before and after, which the ledger does not retain.

use chain_solana::ExecutedTransaction;
use solana_pubkey::Pubkey;
use solana_sdk_ids::{compute_budget, system_program};

use crate::cheatcodes::{Profile, ProfilePart};

/// Compute units of an instruction of these programs.
const DEFAULT_UNITS: u64 = 150;

/// Builds the profile of an executed transaction.
pub(super) fn profile(executed: &ExecutedTransaction) -> Profile {
    let meta = &executed.meta;
    let logs = meta.log_messages.clone().unwrap_or_default();
    let compute_units = meta.compute_units_consumed.unwrap_or_default();
    let error = meta.status.as_ref().err().map(ToString::to_string);
    let instructions = by_instruction(&logs, compute_units).map(|mut parts| {
        if let Some(last) = parts.last_mut() {
            last.error.clone_from(&error);
        }
        parts
    });
    Profile {
        slot: executed.slot,
        key: executed.signature().to_string(),
        tag: None,
        transaction: ProfilePart { accounts: Vec::new(), compute_units, logs, error },
        instructions,
        readonly: Vec::new(),
    }
}

struct Section {
    program: Pubkey,
    lines: Vec<String>,
    units: Option<u64>,
}

/// Returns the part of each instruction that ran. `None` if the log does not determine their consumption.
fn by_instruction(logs: &[String], all_units: u64) -> Option<Vec<ProfilePart>> {
    let mut sections: Vec<Section> = Vec::new();
    let mut depth = 0_usize;
    for line in logs {
        let words: Vec<&str> = line.split(' ').collect();
        let invoked = match words[..] {
            ["Program", program, "invoke", _] => program.parse().ok(),
            ["Log", "truncated"] => return None,
            _ => None,
        };
        if let Some(program) = invoked {
            depth += 1;
            if depth == 1 {
                sections.push(Section { program, lines: Vec::new(), units: None });
            }
        }
        let section = sections.last_mut()?;
        section.lines.push(line.clone());
        match words[..] {
            ["Program", _, "consumed", units, "of", ..] if depth == 1 => {
                section.units = units.parse().ok();
            }
            ["Program", _, "success"] | ["Program", _, "failed:", ..] => {
                depth = depth.saturating_sub(1);
            }
            _ => {}
        }
    }
    let is_fixed = |program: &Pubkey| [compute_budget::ID, system_program::ID].contains(program);
    for section in sections.iter_mut().filter(|section| is_fixed(&section.program)) {
        section.units = section.units.or(Some(DEFAULT_UNITS));
    }
    let known: u64 = sections.iter().filter_map(|section| section.units).sum();
    let rest = all_units.checked_sub(known)?;
    let mut unknown = sections.iter_mut().filter(|section| section.units.is_none());
    match (unknown.next(), unknown.next()) {
        (None, _) if rest == 0 => {}
        (Some(one), None) => one.units = Some(rest),
        _ => return None,
    }
    let part = |section: Section| ProfilePart {
        accounts: Vec::new(),
        compute_units: section.units.unwrap_or_default(),
        logs: section.lines,
        error: None,
    };
    Some(sections.into_iter().map(part).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA";
    const VOTE: &str = "Vote111111111111111111111111111111111111111";
    const SYSTEM: &str = "11111111111111111111111111111111";

    fn units(logs: &[String], all: u64) -> Option<Vec<u64>> {
        let parts = by_instruction(logs, all)?;
        let lines: usize = parts.iter().map(|part| part.logs.len()).sum();
        assert_eq!(lines, logs.len());
        Some(parts.iter().map(|part| part.compute_units).collect())
    }

    fn builtin(program: &str) -> Vec<String> {
        vec![format!("Program {program} invoke [1]"), format!("Program {program} success")]
    }

    /// Returns the log of a call that consumes 4,000 units with an inner one of 100.
    fn call() -> Vec<String> {
        vec![
            format!("Program {TOKEN} invoke [1]"),
            "Program log: invoke success".to_owned(),
            format!("Program {TOKEN} invoke [2]"),
            format!("Program {TOKEN} consumed 100 of 300 compute units"),
            format!("Program {TOKEN} success"),
            format!("Program {TOKEN} consumed 4000 of 200000 compute units"),
            format!("Program {TOKEN} success"),
        ]
    }

    #[test]
    fn the_log_determines_each_instructions_compute_units() {
        assert_eq!(units(&[], 0), Some(vec![]));
        assert_eq!(units(&[builtin(SYSTEM), call()].concat(), 4_150), Some(vec![150, 4_000]));
        let mixed = [call(), builtin(VOTE), builtin(SYSTEM), call()].concat();
        assert_eq!(units(&mixed, 10_250), Some(vec![4_000, 2_100, 150, 4_000]));
        // Two unknown instructions, units that do not add up, and a truncated log.
        assert_eq!(units(&[builtin(VOTE), builtin(VOTE)].concat(), 4_200), None);
        assert_eq!(units(&call(), 4_001), None);
        assert_eq!(units(&call(), 3_999), None);
        assert_eq!(units(&[call(), vec!["Log truncated".to_owned()]].concat(), 4_000), None);
        assert_eq!(units(&["a line of no program".to_owned()], 0), None);
    }

    #[test]
    fn a_failed_instruction_is_the_last_one() {
        let mut failed = call();
        failed.pop();
        failed.push(format!("Program {TOKEN} failed: custom program error: 0x1"));
        let logs = [builtin(SYSTEM), failed].concat();
        assert_eq!(units(&logs, 4_150), Some(vec![150, 4_000]));
    }
}
