//! The grid as plots: a file for each profile, with a plot for each axis and side.
//!
//! Shape: both scales are logarithmic; 0 is left of 1. A point is the mean over the cells of the
//! profile at that level, as in the tables.
//! Not here: how a plot is drawn (`loadgen::svg`).

use std::fs;
use std::path::Path;

use ::loadgen::svg::{Axis, Document, Line, Plot, Point, Scale};
use anyhow::{Context, Result};

use super::cell::{AXES, LEVELS, PROFILES};
use super::cell_result::{CellResult, Measure};
use super::options::Options;
use super::sets::CANDIDATES;
use super::tables::{along, mean, short};

pub(crate) fn write(dir: &str, outcomes: &[CellResult], options: &Options) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("create {dir}"))?;
    let names = CANDIDATES.map(|candidate| candidate.name());
    for profile in &PROFILES {
        let mut plots = Vec::new();
        for measure in [Measure::Reads, Measure::Writes] {
            for axis in AXES {
                let along = along(axis, profile, outcomes);
                let line = |(candidate, name)| {
                    let point = |(level, cells): &(u32, Vec<&CellResult>)| {
                        let y = mean(cells, candidate, measure, options)?;
                        Some(Point { x: position(*level), y, label: short(*level) })
                    };
                    Line { name, points: along.iter().filter_map(point).collect() }
                };
                let lines = names.iter().map(String::as_str).enumerate().map(line).collect();
                let marks = LEVELS.map(|level| (position(level), short(level)));
                let x = Axis::linear(axis.name(), -0.5, LEVELS.len() as f64 - 0.5);
                let x = x.with_marks(marks);
                let plot = Plot { x, y_scale: Scale::Logarithmic, unit: "s", lines };
                plots.push((format!("{}, by {}", measure.name(), axis.name()), plot));
            }
        }
        let title = format!("{} load: seconds for a second's work", profile.name);
        let document = Document { title: &title, columns: AXES.len(), plots };
        let path = Path::new(dir).join(format!("{}.svg", profile.name));
        fs::write(&path, document.svg()).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}

/// The position of a level among all.
fn position(level: u32) -> f64 {
    LEVELS.iter().position(|other| *other == level).unwrap_or(0) as f64
}
