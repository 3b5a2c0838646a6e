//! Lines for values that have a bar or a goal, as `cargo xtask bars` reads them:
//! `bar <name> <value> <unit> <<=|>=> <bar>`, and `goal ...` in the same form. A goal that is not reached fails nothing.

use std::fmt::Display;

/// Values that have bars: lines as they come, and rows of a table for a document.
#[derive(Default)]
pub(crate) struct Bars {
    rows: String,
}

impl Bars {
    /// Adds a value that may not be greater.
    pub(crate) fn at_most(&mut self, name: &str, value: f64, unit: &str, most: f64) {
        self.add(name, value, unit, "<=", most, value <= most);
    }

    /// Adds a value that may not be less.
    pub(crate) fn at_least(&mut self, name: &str, value: f64, unit: &str, least: f64) {
        self.add(name, value, unit, ">=", least, value >= least);
    }

    /// Returns the rows of a table: figure, value, unit, bar, and whether the value meets it.
    pub(crate) fn rows(&self) -> &str {
        &self.rows
    }

    fn add(&mut self, name: &str, value: f64, unit: &str, side: &str, bar: f64, is_met: bool) {
        to_four_digits(name, value, unit, side, bar);
        let met = if is_met { "yes" } else { "**missed**" };
        self.rows.push_str(&format!("| {name} | {value:.4} | {unit} | {side} {bar} | {met} |\n"));
    }
}

/// A value that may not be greater, to three digits.
pub(crate) fn at_most(name: &str, value: f64, unit: &str, most: f64) {
    line(name, format_args!("{value:.3}"), unit, "<=", most);
}

/// A value that may not be less, to three digits.
pub(crate) fn at_least(name: &str, value: f64, unit: &str, least: f64) {
    line(name, format_args!("{value:.3}"), unit, ">=", least);
}

/// A value that should not be greater, to three digits.
pub(crate) fn goal_at_most(name: &str, value: f64, unit: &str, most: f64) {
    println!("goal {name} {value:.3} {unit} <= {most}");
}

/// A value that should not be less, to three digits.
pub(crate) fn goal_at_least(name: &str, value: f64, unit: &str, least: f64) {
    println!("goal {name} {value:.3} {unit} >= {least}");
}

/// A value with the caller's number of digits.
pub(crate) fn line(name: &str, value: impl Display, unit: &str, side: &str, bar: impl Display) {
    println!("bar {name} {value} {unit} {side} {bar}");
}

/// A value with its bar on either side, to four digits.
pub(crate) fn to_four_digits(name: &str, value: f64, unit: &str, side: &str, bar: f64) {
    line(name, format_args!("{value:.4}"), unit, side, bar);
}
