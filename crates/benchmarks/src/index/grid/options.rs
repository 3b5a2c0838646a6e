//! The options of the grid.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::cell::Cell;
use super::workload::{Focus, Times};
use crate::arguments::value_of;

pub(crate) struct Options {
    /// All cells, or a sample of this size.
    pub(crate) sample: Option<usize>,
    pub(crate) seed: u64,
    pub(crate) focus: Focus,
    pub(crate) times: Times,
    pub(crate) level_max: u32,
    /// Only this one.
    pub(crate) cell: Option<Cell>,
    /// Binary logarithm of the ledger's addresses.
    pub(crate) ledger_bits: u32,
    pub(crate) csv: Option<String>,
    pub(crate) svg: Option<String>,
}

impl Options {
    pub(crate) fn parse(args: &[String], is_toy: bool) -> Result<Self> {
        let number = |flag: &str, default: u64| -> Result<u64> {
            let Some(text) = value_of(args, flag)? else { return Ok(default) };
            text.parse().with_context(|| format!("{flag} takes a number, not `{text}`"))
        };
        let sample = match value_of(args, "--grid")? {
            Some("all") => None,
            Some(text) => {
                let count = text.strip_prefix("sample=").unwrap_or(text).parse();
                Some(
                    count
                        .with_context(|| format!("--grid takes `all` or a number, not `{text}`"))?,
                )
            }
            None => Some(if is_toy { 4 } else { 8 }),
        };
        let focus = match value_of(args, "--focus")? {
            Some("reads") => Focus::Reads,
            Some("writes") => Focus::Writes,
            Some(other) => bail!("--focus takes `reads` or `writes`, not `{other}`"),
            None => Focus::Both,
        };
        let (offered_ms, bound_ms) = if is_toy { (10, 25) } else { (1_000, 3_000) };
        let offered = Duration::from_millis(number("--offered-ms", offered_ms)?);
        let bound = Duration::from_millis(number("--bound-ms", bound_ms)?);
        ensure!(!offered.is_zero() && bound > offered, "--bound-ms must be above --offered-ms");
        Ok(Self {
            sample,
            seed: number("--seed", 1)?,
            focus,
            times: Times { offered, bound },
            cell: value_of(args, "--cell")?.map(Cell::parse).transpose()?,
            level_max: if is_toy { 10_000 } else { 10_000_000 },
            ledger_bits: number("--ledger-bits", if is_toy { 15 } else { 25 })?.clamp(1, 30) as u32,
            csv: value_of(args, "--csv")?.map(str::to_owned),
            svg: value_of(args, "--svg")?.map(str::to_owned),
        })
    }
}
