//! The tables and plots of the set-ups, and their bars.

use std::fmt::Write;

use ::loadgen::svg::{Axis, Document, Line, Plot, Point, Scale};
use anyhow::Result;

use super::results::{ActivityRow, Column, CycleRow, Results};
use super::size::{SET_UPS, SetUp, Size};
use crate::median::median;
use crate::report::{Report, table_head};
use crate::threshold;

/// Parts of the memory that are smaller in every set-up have no row.
const PART_BYTES_MIN: f64 = 500_000.0;

/// Writes README.md and the plots, and prints the tables and the bars.
pub(super) fn write(report: &Report, results: &Results, size: &Size) -> Result<()> {
    let measured: Vec<&SetUp> = SET_UPS.iter().filter(|it| results.has(it)).collect();
    if measured.is_empty() {
        return Ok(());
    }
    let document = Tables { results, size, measured };
    let tables =
        [document.memory(), document.parts(), document.notifications(), document.changes()]
            .concat();
    println!("{tables}");
    document.print_bars();
    report.write("memory.svg", &document.memory_plot())?;
    report.write("cycles.svg", &document.cycle_plot())?;
    let text = format!(
        "# Benchmarks: sets of addresses\n\nWritten by `cargo xtask bench sets`. {}\nSet-ups by commit: {}.\n\n\
         {} clients with {} (client, address) pairs of {} addresses, scattered over a ledger of {} accounts; {} \
         transactions a second to every fourth of these addresses. [set_ups.csv](set_ups.csv) has a row for each \
         set-up, [cycles.csv](cycles.csv) for each cycle, [memory.csv](memory.csv) for each second, \
         [parts.csv](parts.csv) for each part of the memory.\n{tables}\n![Resident memory](memory.svg)\n\n\
         ![Time until all pairs are subscribed](cycles.svg)\n",
        report.sources()?,
        results.commits(),
        size.sets.clients,
        size.sets.pairs(),
        size.sets.addresses,
        size.ledger_accounts,
        size.rate,
    );
    report.write("README.md", &text)
}

struct Tables<'a> {
    results: &'a Results,
    size: &'a Size,
    measured: Vec<&'a SetUp>,
}

impl Tables<'_> {
    fn memory(&self) -> String {
        let columns = [
            "set-up",
            "cycles",
            "transactions",
            "resident, MB",
            "above A",
            "B a pair",
            "75-96 % / 25-50 %",
            "most, MB",
            "CPU, s",
            "kaspad, MB; above A",
            "B a pair",
        ];
        let about = "Means of the resident memory, each second, from 25 to 96 % of the time: the first quarter is \
                     warm-up, and the clients of B leave at 97 %. The last columns are those of Kaspa's PR 427: \
                     kaspad with its own ledger, all of A and the others above A.";
        let mut table = table_head("Memory", about, &columns);
        let pairs = self.size.sets.pairs() as f64;
        for set_up in &self.measured {
            let number = |column| self.number(set_up, column);
            let resident = number(Column::Resident);
            let above = self.above_a(set_up.name);
            let kaspad = set_up.kaspad_gb * 1e9;
            let of_pair =
                if set_up.cycles == 0 { "-".to_owned() } else { format!("{:.0}", kaspad / pairs) };
            let _ = writeln!(
                table,
                "| {} | {:.0} | {:.0} | {:.1} | {} | {} | {:.3} | {:.1} | {:.0} | {:.0} | {of_pair} |",
                title(set_up),
                number(Column::Cycles),
                number(Column::Transactions),
                resident / 1e6,
                above.map_or_else(|| "-".to_owned(), |bytes| format!("{:.1}", bytes / 1e6)),
                above.map_or_else(|| "-".to_owned(), |bytes| format!("{:.1}", bytes / pairs)),
                self.growth(set_up),
                number(Column::Peak) / 1e6,
                number(Column::CpuSeconds),
                kaspad / 1e6,
            );
        }
        table
    }

    fn parts(&self) -> String {
        let mut columns = vec!["part, MB".to_owned()];
        columns.extend(self.measured.iter().map(|set_up| title(set_up)));
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        let about = "Means of the memory that the node counts as in use, from 25 to 96 % of the time. The rest of the \
                     anonymous memory is in no part: free memory of the allocator, and sockets. mimalloc reports its \
                     own lines at the end of the process; they include the load of the ledger.";
        let mut table = table_head("Parts of the memory", about, &columns);
        let row = |name: &str, value: &dyn Fn(&SetUp) -> Option<f64>| {
            let cells = self.measured.iter().map(|set_up| {
                value(set_up).map_or_else(|| "-".to_owned(), |it| format!("{:.1}", it / 1e6))
            });
            format!("| {name} | {} |\n", cells.collect::<Vec<_>>().join(" | "))
        };
        let names = self.results.part_names();
        let part = |set_up: &SetUp, name: &str| self.results.part(set_up.name, name);
        for name in &names {
            let largest = self.measured.iter().filter_map(|it| part(it, name)).fold(0.0, f64::max);
            if largest >= PART_BYTES_MIN {
                table.push_str(&row(name, &|set_up| part(set_up, name)));
            }
        }
        let is_in_use = |name: &&String| !name.starts_with("mimalloc") && *name != "executable";
        let in_no_part = |set_up: &SetUp| {
            let in_use = names.iter().filter(is_in_use).filter_map(|name| part(set_up, name));
            Some(self.number(set_up, Column::Anonymous) - in_use.sum::<f64>())
        };
        table.push_str(&row("anonymous memory in no part", &in_no_part));
        table
    }

    fn notifications(&self) -> String {
        let columns =
            ["set-up", "expected", "received", "missing", "wrong", "lag p50, ms", "p99, ms"];
        let about = "Every notification of every client compared with the blocks. Wrong: duplicated, out of order, or \
                     of a block without it or before the subscription. Lag: from the confirmation of a block to the \
                     client, all notifications.";
        let mut table = table_head("Notifications", about, &columns);
        for set_up in &self.measured {
            let number = |column| self.number(set_up, column);
            let lags = [Column::LagP50, Column::LagP99].map(number);
            // A set-up without notifications does not have a lag.
            let lags = lags.map(|ms| if ms.is_nan() { "-".to_owned() } else { format!("{ms:.1}") });
            let _ = writeln!(
                table,
                "| {} | {:.0} | {:.0} | {:.0} | {:.0} | {} |",
                title(set_up),
                number(Column::Expected),
                number(Column::Received),
                self.missing(set_up),
                number(Column::Wrong),
                lags.join(" | "),
            );
        }
        table
    }

    /// Returns the table of the activity while all clients subscribed and left.
    fn changes(&self) -> String {
        let columns = [
            "set-up",
            "cycles",
            "what",
            "s until done, median",
            "most",
            "transactions/s meanwhile",
            "least",
            "lag p99 meanwhile, ms, median",
            "most",
            "transactions/s before",
            "lag p50 before, ms",
            "p99",
        ];
        let about = format!(
            "All {} pairs at once. Lag: that of a client with one address. Before: the seconds before the first \
             subscription.",
            self.size.sets.pairs()
        );
        let mut table = table_head("All subscribe, and all leave", &about, &columns);
        for set_up in &self.measured {
            let cycles = self.results.cycles(set_up.name);
            let subscribing: Vec<_> = cycles.iter().map(|cycle| cycle.subscribing).collect();
            let leaving: Vec<_> = cycles.iter().map(|cycle| cycle.leaving).collect();
            for (what, activities) in [("subscribe", subscribing), ("leave", leaving)] {
                if cycles.is_empty() {
                    continue;
                }
                let all = |value: fn(&ActivityRow) -> f64| -> Vec<f64> {
                    let values = activities.iter().map(value);
                    values.filter(|value| value.is_finite()).collect()
                };
                let seconds = all(|it| it.seconds);
                let rates = all(|it| it.rate);
                let lags = all(|it| it.lag_p99);
                let _ = writeln!(
                    table,
                    "| {} | {} | {what} | {:.2} | {:.2} | {:.0} | {:.0} | {:.1} | {:.1} | {:.0} | {:.1} | {:.1} |",
                    title(set_up),
                    cycles.len(),
                    median(seconds.clone()),
                    seconds.iter().copied().fold(f64::NAN, f64::max),
                    median(rates.clone()),
                    rates.iter().copied().fold(f64::NAN, f64::min),
                    median(lags.clone()),
                    lags.iter().copied().fold(f64::NAN, f64::max),
                    self.number(set_up, Column::QuietRate),
                    self.number(set_up, Column::QuietLagP50),
                    self.number(set_up, Column::QuietLagP99),
                );
            }
        }
        table
    }

    fn print_bars(&self) {
        for set_up in &self.measured {
            let name = set_up.name;
            let number = |column| self.number(set_up, column);
            threshold::line(
                &format!("sets_{name}_transactions"),
                number(Column::Transactions),
                "transactions",
                ">=",
                self.size.transactions,
            );
            threshold::line(
                &format!("sets_{name}_missing"),
                self.missing(set_up),
                "notifications",
                "<=",
                0,
            );
            threshold::line(
                &format!("sets_{name}_wrong"),
                number(Column::Wrong),
                "notifications",
                "<=",
                0,
            );
            if set_up.cycles > 0 {
                threshold::line(
                    &format!("sets_{name}_cycles"),
                    number(Column::Cycles),
                    "cycles",
                    ">=",
                    self.size.cycle_count(set_up),
                );
            }
            threshold::at_most(&format!("sets_{name}_growth"), self.growth(set_up), "x", 1.05);
        }
        let pairs = self.size.sets.pairs() as f64;
        if let Some(b) = self.above_a('b') {
            threshold::line(
                "sets_bytes_a_pair",
                format_args!("{:.1}", b / pairs),
                "B/pair",
                "<=",
                12,
            );
            if let Some(e) = self.above_a('e') {
                threshold::at_most("sets_cycles_memory_above_a", e / b, "x", 1.05);
            }
        }
        let resident = |name| self.results.number(name, Column::Resident);
        if let (Some(b), Some(e)) = (resident('b'), resident('e')) {
            threshold::at_most("sets_cycles_memory", e / b, "x", 1.05);
        }
    }

    fn number(&self, set_up: &SetUp, column: Column) -> f64 {
        self.results.number(set_up.name, column).unwrap_or(f64::NAN)
    }

    fn missing(&self, set_up: &SetUp) -> f64 {
        self.number(set_up, Column::Expected) - self.number(set_up, Column::Received)
    }

    /// Resident memory above that of A; `None` for A.
    fn above_a(&self, set_up: char) -> Option<f64> {
        let resident = |name| self.results.number(name, Column::Resident);
        (set_up != 'a').then_some(resident(set_up)? - resident('a')?)
    }

    /// Resident memory of the last quarter of the time, up to 96 %, as a multiple of the second's.
    fn growth(&self, set_up: &SetUp) -> f64 {
        self.number(set_up, Column::LastQuarter) / self.number(set_up, Column::SecondQuarter)
    }

    fn memory_plot(&self) -> String {
        let points = |set_up: &&SetUp| -> Vec<Point> {
            let points = self.results.memory(set_up.name).into_iter();
            points
                .map(|it| Point {
                    x: it.second,
                    y: it.resident / 1e6,
                    label: format!("{:.0} s", it.second),
                })
                .collect()
        };
        self.plot("Resident memory of the node", "seconds", self.size.seconds(), "MB", points)
    }

    fn cycle_plot(&self) -> String {
        let points = |set_up: &&SetUp| -> Vec<Point> {
            let cycles = self.results.cycles(set_up.name);
            // All cycles of a set-up are spread over the same width.
            let count = cycles.len() as f64;
            let point = |(nth, cycle): (usize, &CycleRow)| Point {
                x: (nth as f64 + 0.5) / count,
                y: cycle.subscribing.seconds,
                label: format!("cycle {nth}"),
            };
            cycles.iter().enumerate().map(point).collect()
        };
        self.plot("Until all pairs are subscribed", "part of the time", 1.0, "s", points)
    }

    fn plot(
        &self,
        title_of_plot: &str,
        x: &str,
        x_max: f64,
        unit: &'static str,
        points: impl Fn(&&SetUp) -> Vec<Point>,
    ) -> String {
        let names: Vec<String> = self.measured.iter().map(|set_up| title(set_up)).collect();
        let lines = names.iter().zip(&self.measured);
        let lines = lines.map(|(name, set_up)| Line { name, points: points(set_up) }).collect();
        let x = Axis::linear(x, 0.0, x_max);
        let plot = Plot { x, y_scale: Scale::Linear, unit, lines };
        let plots = vec![("by set-up".to_owned(), plot)];
        Document { title: title_of_plot, columns: 1, plots }.svg()
    }
}

fn title(set_up: &SetUp) -> String {
    set_up.name.to_ascii_uppercase().to_string()
}
