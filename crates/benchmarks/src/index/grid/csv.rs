//! The grid as CSV: a line for each cell and candidate, written when it has been measured.

use std::fs::File;
use std::io::Write;

use anyhow::{Context, Result};

use super::cell::Cell;
use super::cell_result::CellResult;
use super::options::Options;
use super::sets::CANDIDATES;
use super::workload::{Focus, Side};

pub(crate) struct Csv {
    file: File,
    path: String,
}

const SIDE: [&str; 5] = ["offered", "served", "took_s", "cpu_s", "whole_s"];

impl Csv {
    pub(crate) fn create(path: &str) -> Result<Self> {
        let file = File::create(path).with_context(|| format!("create {path}"))?;
        let mut csv = Self { file, path: path.to_owned() };
        let side = |name: &str| SIDE.map(|column| format!("{name}_{column}")).join(",");
        let reads = side("reads");
        let writes = side("writes");
        csv.line(&format!(
            "candidate,prior,reads_per_second,writes_per_second,focus,{reads},{writes}"
        ))?;
        Ok(csv)
    }

    pub(crate) fn write(&mut self, outcome: &CellResult, options: &Options) -> Result<()> {
        let focus = match options.focus {
            Focus::Both => "both",
            Focus::Reads => "reads",
            Focus::Writes => "writes",
        };
        let side = |side: &Side| {
            let Side { offered, served, took, cpu } = side;
            let took = took.as_secs_f64();
            let cpu = cpu.as_secs_f64();
            format!("{offered},{served},{took:.6},{cpu:.6},{:.6}", side.seconds(&options.times))
        };
        for (candidate, sides) in CANDIDATES.iter().zip(&outcome.sides) {
            let Cell { prior, reads, writes } = outcome.cell;
            let name = candidate.name();
            let read = side(&sides.reads);
            let written = side(&sides.writes);
            self.line(&format!("\"{name}\",{prior},{reads},{writes},{focus},{read},{written}"))?;
        }
        Ok(())
    }

    fn line(&mut self, line: &str) -> Result<()> {
        writeln!(self.file, "{line}").with_context(|| format!("write {}", self.path))
    }
}
