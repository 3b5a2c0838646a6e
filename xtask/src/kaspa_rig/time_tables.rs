//! Tables of measured times: those of both nodes with their ratios, and those of one.
//!
//! All times are in milliseconds, and a ratio is that of Hydrant to kaspad.

use std::fmt::Write as _;
use std::time::Duration;

use crate::kaspa_rig::statistics::{Samples, Statistics, format_ratio};

/// The times of the same events at both nodes: equally many.
#[derive(Clone, Debug, Default)]
pub(crate) struct ComparedTimes {
    kaspad: Samples,
    hydrant: Samples,
}

impl ComparedTimes {
    /// Adds the times of one event.
    pub(crate) fn add(&mut self, kaspad: Duration, hydrant: Duration) {
        self.kaspad.add(kaspad);
        self.hydrant.add(hydrant);
    }
}

/// Returns a table with one row for each kind of event that happened.
pub(crate) fn render_compared_times<'a>(
    heading: &str,
    rows: impl IntoIterator<Item = (String, &'a ComparedTimes)>,
) -> String {
    let mut table = format!(
        "\n| {heading} | number | kaspad: median ms | Hydrant: median ms | ratio | kaspad: p99 ms | Hydrant: p99 ms | \
         ratio |\n|---|---|---|---|---|---|---|---|\n"
    );
    for (name, ComparedTimes { kaspad, hydrant }) in rows {
        let Some(kaspad) = kaspad.statistics() else { continue };
        let Some(hydrant) = hydrant.statistics() else { continue };
        // Writing to a string does not fail.
        let _ = writeln!(
            table,
            "| {name} | {} | {:.3} | {:.3} | {} | {:.3} | {:.3} | {} |",
            kaspad.number,
            kaspad.median_ms,
            hydrant.median_ms,
            format_ratio(hydrant.median_ms, kaspad.median_ms),
            kaspad.p99_ms,
            hydrant.p99_ms,
            format_ratio(hydrant.p99_ms, kaspad.p99_ms),
        );
    }
    table
}

/// Returns a table of times that have no counterpart at the other node.
pub(crate) fn render_times<'a>(
    heading: &str,
    rows: impl IntoIterator<Item = (String, &'a Samples)>,
) -> String {
    let mut table = format!("\n| {heading} | number | median ms | p99 ms |\n|---|---|---|---|\n");
    for (name, samples) in rows {
        let Some(statistics) = samples.statistics() else { continue };
        let Statistics { number, median_ms, p99_ms } = statistics;
        let _ = writeln!(table, "| {name} | {number} | {median_ms:.3} | {p99_ms:.3} |");
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_both_nodes_and_their_ratios() {
        let mut times = ComparedTimes::default();
        for ms in 1..=200 {
            times.add(Duration::from_millis(ms), Duration::from_micros(250 * ms));
        }
        let rows = [("one".to_owned(), &times), ("none".to_owned(), &ComparedTimes::default())];
        let table = render_compared_times("call", rows);
        let row = "| one | 200 | 100.000 | 25.000 | 0.250 | 198.000 | 49.500 | 0.250 |\n";
        assert!(table.ends_with(row), "{table}");
        let columns: Vec<usize> =
            table.lines().skip(1).map(|line| line.matches('|').count()).collect();
        assert_eq!(columns, [9, 9, 9]);
    }

    #[test]
    fn times_of_one_node_have_no_ratio() {
        let mut samples = Samples::default();
        samples.add_ms(-0.5);
        let table = render_times("time", [("delay".to_owned(), &samples)]);
        assert!(table.ends_with("|---|---|---|---|\n| delay | 1 | -0.500 | -0.500 |\n"), "{table}");
    }
}
