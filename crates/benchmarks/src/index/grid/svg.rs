//! The grid as plots: a file for each profile, with a panel for each axis and side.
//!
//! Shape: both scales are logarithmic; 0 is left of 1. A point is the mean over the cells of the
//! profile at that level, as in the tables. Written by hand: rectangles, lines and words.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::sets::CANDIDATES;
use super::tables::{along, mean, short};
use super::{AXES, CellResult, LEVELS, Measure, Options, PROFILES};

/// One panel, its margins and its plot.
const WIDTH: f64 = 380.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 60.0;
const TOP: f64 = 40.0;
const PLOT_WIDTH: f64 = 300.0;
const PLOT_HEIGHT: f64 = 170.0;
const COLORS: [&str; CANDIDATES.len()] = ["#c0392b", "#e67e22", "#8e6bbf", "#1f6f43", "#3aa0c9"];

pub(crate) fn write(dir: &str, outcomes: &[CellResult], options: &Options) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("create {dir}"))?;
    for profile in &PROFILES {
        let mut panels = String::new();
        for (column, axis) in AXES.into_iter().enumerate() {
            for (row, measure) in [Measure::Reads, Measure::Writes].into_iter().enumerate() {
                let along = along(axis, profile, outcomes);
                let lines = std::array::from_fn(|candidate| {
                    let point = |(level, cells): &(u32, Vec<&CellResult>)| {
                        Some((*level, mean(cells, candidate, measure, options)?))
                    };
                    along.iter().filter_map(point).collect()
                });
                let title = format!("{}, by {}", measure.name(), axis.name());
                let (x, y) = (column as f64 * WIDTH, 30.0 + row as f64 * HEIGHT);
                writeln!(panels, r#"<g transform="translate({x},{y})">"#)?;
                panel(&mut panels, &title, &lines)?;
                writeln!(panels, "</g>")?;
            }
        }
        let (width, height) = (3.0 * WIDTH, 30.0 + 2.0 * HEIGHT);
        let svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             font-family=\"sans-serif\" font-size=\"11\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
             <text x=\"{LEFT}\" y=\"22\" font-size=\"15\">{} load: seconds for a second's work</text>\n\
             {}{panels}</svg>\n",
            profile.name,
            legend()?,
        );
        let path = Path::new(dir).join(format!("{}.svg", profile.name));
        fs::write(&path, svg).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}

fn legend() -> Result<String> {
    let mut legend = String::new();
    for (at, (candidate, color)) in CANDIDATES.iter().zip(COLORS).enumerate() {
        let x = 420.0 + at as f64 * 140.0;
        let name = candidate.name();
        writeln!(legend, r#"<rect x="{x}" y="12" width="14" height="10" fill="{color}"/>"#)?;
        writeln!(legend, r#"<text x="{}" y="22">{name}</text>"#, x + 20.0)?;
    }
    Ok(legend)
}

/// A panel with a line for each candidate.
fn panel(svg: &mut String, title: &str, lines: &[Vec<(u32, f64)>; CANDIDATES.len()]) -> Result<()> {
    let times = || lines.iter().flatten().map(|(_, seconds)| seconds.log10());
    let low = times().fold(f64::INFINITY, f64::min).floor();
    let high = times().fold(f64::NEG_INFINITY, f64::max).ceil().max(low + 1.0);
    writeln!(svg, r#"<text x="{LEFT}" y="{}">{title}</text>"#, TOP - 8.0)?;
    writeln!(
        svg,
        r##"<rect x="{LEFT}" y="{TOP}" width="{PLOT_WIDTH}" height="{PLOT_HEIGHT}" fill="none" stroke="#999"/>"##
    )?;
    if !low.is_finite() {
        return Ok(());
    }
    let x = |level: u32| {
        let at = LEVELS.iter().position(|other| *other == level).unwrap_or(0);
        LEFT + PLOT_WIDTH * (at as f64 + 0.5) / LEVELS.len() as f64
    };
    let y = |log: f64| TOP + PLOT_HEIGHT * (high - log) / (high - low);
    for level in LEVELS {
        let (x, y, label) = (x(level), TOP + PLOT_HEIGHT + 14.0, short(level));
        writeln!(svg, r#"<text x="{x:.1}" y="{y}" text-anchor="middle">{label}</text>"#)?;
    }
    let step = ((high - low) / 6.0).ceil().max(1.0);
    let mut log = low;
    while log <= high {
        let (x, y) = (LEFT - 6.0, y(log));
        writeln!(
            svg,
            r##"<line x1="{LEFT}" x2="{}" y1="{y:.1}" y2="{y:.1}" stroke="#ddd"/>"##,
            LEFT + PLOT_WIDTH
        )?;
        writeln!(svg, r#"<text x="{x}" y="{:.1}" text-anchor="end">1e{log}</text>"#, y + 4.0)?;
        log += step;
    }
    for (line, color) in lines.iter().zip(COLORS) {
        let points: Vec<(f64, f64)> =
            line.iter().map(|(level, seconds)| (x(*level), y(seconds.log10()))).collect();
        let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        writeln!(
            svg,
            r#"<polyline points="{}" fill="none" stroke="{color}" stroke-width="1.6"/>"#,
            path.join(" ")
        )?;
        for (x, y) in points {
            writeln!(svg, r#"<circle cx="{x:.1}" cy="{y:.1}" r="2.4" fill="{color}"/>"#)?;
        }
    }
    Ok(())
}
