//! The table of README.md: a column for each program, a row for each value, and the conditions below it.
//!
//! Invariant: the best value of a row is bold, whichever program has it.

use std::fmt::Write;
use std::fs;

use crate::percentiles::{find_percentile, sort_values};
use crate::rivals::candidate::{Candidate, Kind};
use crate::rivals::measurement::Measurement;
use crate::rivals::options::Options;

/// Width of a line of text.
const WIDTH: usize = 118;
const MIB: f64 = 1024.0 * 1024.0;
/// Share of failed requests from which a cell names it.
const FAILED_SHARE_MIN: f64 = 0.001;

/// A program with its measurements, one for each start. It has none if the program is not installed.
pub(super) struct Column {
    pub(super) candidate: Candidate,
    pub(super) measurements: Vec<Measurement>,
}

/// The conditions of a run, for the text below the table.
pub(super) struct Conditions {
    text: String,
}

/// A row of numbers.
struct NumberRow {
    label: String,
    unit: &'static str,
    digits: usize,
    value: fn(&Measurement) -> f64,
    /// Share of the requests of this row without a correct response.
    failed_share: fn(&Measurement) -> f64,
    best: Best,
}

/// Returns a cell of a row without numbers.
type TextCell = fn(&Column) -> String;

#[derive(Clone, Copy)]
enum Best {
    Lowest,
    Highest,
}

/// A cell with a number.
struct Cell {
    /// `None` if the program is not installed.
    number: Option<f64>,
    text: String,
}

impl Conditions {
    /// Describes a run that begins now.
    pub(super) fn new(options: &Options, provenance: &str) -> Self {
        let Options { starts, rate, scanners, accounts, transfers, .. } = options;
        let load_average = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load_average = load_average.split_whitespace().next().unwrap_or("unknown");
        let text = format!(
            "{provenance} `cargo xtask bench rivals --write` measured this. The values are medians of {starts} starts, \
             and the best one of a row is bold. The load average before was {load_average}. One program runs at a time, with its default slots of 400 ms and the same \
             {accounts} preloaded token accounts. One process sends {rate} getAccountInfo a second, another one scans \
             all token accounts over {scanners} connections. {transfers} transfers are sent over 16 connections, each \
             without waiting for a block. Load and node share the machine."
        );
        Self { text: wrap(&text) }
    }
}

/// Renders the section of README.md.
pub(super) fn render(columns: &[Column], conditions: &Conditions) -> String {
    let mut text = String::from("| |");
    for column in columns {
        // Writing to a string does not fail.
        let _ = write!(text, " {} |", column.candidate.heading);
    }
    let _ = writeln!(text, "\n|---|{}", "---|".repeat(columns.len()));
    for row in number_rows(columns) {
        push_row(&mut text, &row.label, &row.cells(columns));
    }
    let rows: [(&str, TextCell); 4] = [
        ("back to an earlier block", revert),
        ("reorganization", reorganization),
        ("Yellowstone gRPC", grpc),
        ("banks of a cluster verified", verification),
    ];
    for (label, cell) in rows {
        let cells: Vec<String> =
            columns.iter().map(|column| column.if_measured(|| cell(column))).collect();
        push_row(&mut text, label, &cells);
    }
    let _ = writeln!(text, "\n{}\n", conditions.text);
    for Column { candidate, .. } in columns {
        let build = match &candidate.program {
            Ok(_) => candidate.build.clone(),
            Err(reason) => format!("not measured, because it could not be built: {reason}"),
        };
        let _ = writeln!(
            text,
            "{}",
            wrap(&format!("* {}: {build}.", candidate.heading)).replace('\n', "\n  ")
        );
    }
    text
}

fn push_row(text: &mut String, label: &str, cells: &[String]) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "| {label} | {} |", cells.join(" | "));
}

fn number_rows(columns: &[Column]) -> Vec<NumberRow> {
    let row = |label: &str, unit, digits, value, best| NumberRow {
        label: label.to_owned(),
        unit,
        digits,
        value,
        failed_share: |_| 0.0,
        best,
    };
    let measured = columns.iter().flat_map(|column| &column.measurements);
    let methods = measured.map(|it| it.methods.len()).max().unwrap_or_default();
    let methods_label = format!("JSON-RPC methods answered, of Agave's {methods}");
    let answered: fn(&Measurement) -> f64 =
        |it| it.methods.values().filter(|is_supported| **is_supported).count() as f64;
    vec![
        row("ready after", " s", 2, |it| it.ready_s, Best::Lowest),
        row("ready after, with accounts", " s", 2, |it| it.ready_preloaded_s, Best::Lowest),
        row("memory at the start", " MiB", 0, |it| it.resident_at_start / MIB, Best::Lowest),
        row("memory after the load", " MiB", 0, |it| it.resident_after_load / MIB, Best::Lowest),
        row(&methods_label, "", 0, answered, Best::Highest),
        NumberRow {
            failed_share: |it| it.alone.failed_share,
            ..row("p99 of getAccountInfo", " ms", 2, |it| it.alone.p99_ms, Best::Lowest)
        },
        NumberRow {
            failed_share: |it| it.alongside_scans.failed_share,
            ..row(
                "p99 of getAccountInfo during scans",
                " ms",
                2,
                |it| it.alongside_scans.p99_ms,
                Best::Lowest,
            )
        },
        NumberRow {
            failed_share: |it| it.scans.failed_share,
            ..row("scans a second meanwhile", "", 1, |it| it.scans.rate, Best::Highest)
        },
        NumberRow {
            failed_share: |it| it.lost_share,
            ..row("transfers confirmed a second", "", 0, |it| it.transfers, Best::Highest)
        },
    ]
}

impl NumberRow {
    fn cells(&self, columns: &[Column]) -> Vec<String> {
        let cells: Vec<Cell> = columns.iter().map(|column| self.cell(column)).collect();
        let better = |one: f64, other: f64| match self.best {
            Best::Lowest => one < other,
            Best::Highest => one > other,
        };
        let numbers: Vec<f64> = cells.iter().filter_map(|cell| cell.number).collect();
        let is_best = |number: f64| !numbers.iter().any(|other| better(*other, number));
        let is_unequal = numbers.iter().any(|number| !is_best(*number));
        let bold = |cell: &Cell| match cell.number {
            Some(number) if is_unequal && is_best(number) => format!("**{}**", cell.text),
            _ => cell.text.clone(),
        };
        cells.iter().map(bold).collect()
    }

    fn cell(&self, column: &Column) -> Cell {
        if column.measurements.is_empty() {
            return Cell { number: None, text: "not built".to_owned() };
        }
        let number = median(column.measurements.iter().map(self.value));
        let failed_share = median(column.measurements.iter().map(self.failed_share));
        let mut text = format!("{number:.*}{}", self.digits, self.unit);
        if failed_share >= 1.0 {
            // A latency or a rate of nothing.
            return Cell { number: None, text: "no response".to_owned() };
        }
        if failed_share >= FAILED_SHARE_MIN {
            // Writing to a string does not fail.
            let _ = write!(text, " ({:.1} % failed)", failed_share * 100.0);
        }
        Cell { number: Some(number), text }
    }
}

impl Column {
    /// Returns the cell of a program that is installed.
    fn if_measured(&self, cell: impl FnOnce() -> String) -> String {
        if self.measurements.is_empty() { "not built".to_owned() } else { cell() }
    }

    fn feature(&self, find: fn(&Measurement) -> Option<&'static str>) -> Option<&'static str> {
        self.measurements.first().and_then(find)
    }
}

fn revert(column: &Column) -> String {
    let revert = column.feature(|it| it.features.revert);
    let reset = column.feature(|it| it.features.reset);
    match (revert, reset) {
        (Some(call), _) => format!("yes: `{call}`"),
        (None, Some(call)) => format!("to the start: `{call}`"),
        (None, None) => "no".to_owned(),
    }
}

fn reorganization(column: &Column) -> String {
    let call = column.feature(|it| it.features.reorganization);
    call.map_or_else(|| "no".to_owned(), |call| format!("yes: `{call}`"))
}

/// Returns the cell of the gRPC interface, from each program's documentation.
fn grpc(column: &Column) -> String {
    match column.candidate.kind {
        Kind::Hydrant => "yes".to_owned(),
        Kind::Validator | Kind::Surfpool => "with a Geyser plugin".to_owned(),
    }
}

fn verification(column: &Column) -> String {
    let call = column.feature(|it| it.features.verification);
    call.map_or_else(|| "no".to_owned(), |call| format!("`hydrant follow`: `{call}`"))
}

/// Breaks a text into lines of at most [`WIDTH`] bytes, unless a word is longer.
fn wrap(text: &str) -> String {
    let mut wrapped = String::new();
    let mut line_len = 0;
    for word in text.split_whitespace() {
        let is_first = wrapped.is_empty();
        if !is_first && line_len + 1 + word.len() > WIDTH {
            wrapped.push('\n');
            line_len = 0;
        } else if !is_first {
            wrapped.push(' ');
            line_len += 1;
        }
        wrapped.push_str(word);
        line_len += word.len();
    }
    wrapped
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    find_percentile(&sort_values(values), 50).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use super::*;
    use crate::rivals::load::LoadResult;
    use crate::rivals::methods::Features;

    fn measurement(ready_s: f64, p99_ms: f64, failed_share: f64) -> Measurement {
        let load = LoadResult { rate: 100.0, p99_ms, failed_share };
        let methods = [("getSlot", true), ("getSupply", p99_ms < 5.0)];
        Measurement {
            ready_s,
            ready_preloaded_s: ready_s,
            resident_at_start: 64.0 * MIB,
            resident_after_load: 128.0 * MIB,
            alone: load,
            alongside_scans: load,
            scans: LoadResult { failed_share: 0.0, ..load },
            transfers: 1_000.0 * ready_s,
            lost_share: 0.0,
            methods: BTreeMap::from(
                methods.map(|(name, is_supported)| (name.to_owned(), is_supported)),
            ),
            features: Features {
                revert: (p99_ms < 5.0).then_some("hydrant_revert"),
                ..Features::default()
            },
        }
    }

    fn column(heading: &str, measurements: Vec<Measurement>) -> Column {
        let program = if measurements.is_empty() {
            Err("cc is missing".to_owned())
        } else {
            Ok(PathBuf::from("/p"))
        };
        let kind = Kind::Validator;
        let heading = heading.to_owned();
        let build = "level 3".to_owned();
        Column { candidate: Candidate { kind, heading, program, build }, measurements }
    }

    fn rows(columns: &[Column]) -> Vec<String> {
        let conditions = Conditions { text: "Commit 1 of 2026-11-27.".to_owned() };
        render(columns, &conditions).lines().map(str::to_owned).collect()
    }

    #[test]
    fn medians_are_shown_and_the_best_of_a_row_is_bold() {
        let ours = [0.2, 0.9, 0.1].map(|ready_s| measurement(ready_s, 1.0, 0.0));
        let theirs = vec![measurement(4.0, 9.0, 0.25)];
        let rows = rows(&[column("A 1", ours.to_vec()), column("B 2", theirs)]);
        assert_eq!(
            rows[..3],
            ["| | A 1 | B 2 |", "|---|---|---|", "| ready after | **0.20 s** | 4.00 s |"]
        );
        assert_eq!(
            rows[4], "| memory at the start | 64 MiB | 64 MiB |",
            "equal values: neither is better"
        );
        assert_eq!(rows[6], "| JSON-RPC methods answered, of Agave's 2 | **2** | 1 |");
        assert_eq!(rows[7], "| p99 of getAccountInfo | **1.00 ms** | 9.00 ms (25.0 % failed) |");
        assert_eq!(rows[10], "| transfers confirmed a second | 200 | **4000** |", "a lost row");
        assert_eq!(rows[11], "| back to an earlier block | yes: `hydrant_revert` | no |");
    }

    #[test]
    fn a_rival_that_cannot_be_built_is_named_with_the_reason() {
        let rows =
            rows(&[column("A 1", vec![measurement(1.0, 1.0, 0.0)]), column("B 2", Vec::new())]);
        assert_eq!(rows[2], "| ready after | 1.00 s | not built |");
        assert_eq!(rows[11], "| back to an earlier block | yes: `hydrant_revert` | not built |");
        let reason = "* B 2: not measured, because it could not be built: cc is missing.";
        assert_eq!(rows.last().map(String::as_str), Some(reason));
    }

    #[test]
    fn text_is_wrapped_between_words() {
        let text = wrap(&"word ".repeat(30));
        assert_eq!(text.lines().map(str::len).collect::<Vec<_>>(), [114, 34]);
        assert_eq!(wrap("one two"), "one two");
    }

    #[test]
    fn a_load_without_a_response_has_no_latency() {
        let rows = rows(&[
            column("A 1", vec![measurement(1.0, 1.0, 0.0)]),
            column("B 2", vec![measurement(1.0, 0.0, 1.0)]),
        ]);
        assert_eq!(rows[7], "| p99 of getAccountInfo | 1.00 ms | no response |");
    }
}
