//! Lines for values that have a bar, as `cargo xtask bars` reads them:
//! `bar <name> <value> <unit> <<=|>=> <bar>`.

use std::fmt::Display;

/// A value that may not be greater, to three digits.
pub(crate) fn at_most(name: &str, value: f64, unit: &str, most: f64) {
    line(name, format_args!("{value:.3}"), unit, "<=", most);
}

/// A value that may not be less, to three digits.
pub(crate) fn at_least(name: &str, value: f64, unit: &str, least: f64) {
    line(name, format_args!("{value:.3}"), unit, ">=", least);
}

/// A value with the caller's number of digits.
pub(crate) fn line(name: &str, value: impl Display, unit: &str, side: &str, bar: impl Display) {
    println!("bar {name} {value} {unit} {side} {bar}");
}

/// A value with its bar on either side, to four digits.
pub(crate) fn to_four_digits(name: &str, value: f64, unit: &str, side: &str, bar: f64) {
    line(name, format_args!("{value:.4}"), unit, side, bar);
}
