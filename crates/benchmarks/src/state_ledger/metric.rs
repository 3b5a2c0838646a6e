//! The output for the program that started this one.

/// Reports a measurement.
pub(crate) fn print_metric(name: &str, value: f64) {
    println!("figure {name} {value}");
}
