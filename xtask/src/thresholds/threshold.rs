//! A measured value and its bar.
//!
//! Input: a benchmark's line `bar <name> <value> <unit> <<=|>=> <bar>`, or a row of a table of results.
//! Output: the row. Whether a bar is met is computed from the numbers, never read from a row.

/// The head of a table of results, with its rule.
pub(super) const TABLE_HEAD: &str =
    "| figure | value | unit | bar | met |\n|---|---|---|---|---|\n";

/// A measured value and its bar.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Threshold {
    pub(super) name: String,
    value: f64,
    unit: String,
    is_upper_bound: bool,
    bound: f64,
}

impl Threshold {
    /// Parses a line that a benchmark printed.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let parts: Vec<&str> = line.split_whitespace().collect();
        let ["bar", name, value, unit, side, bound] = parts[..] else { return None };
        Self::from_parts([name, value, unit, side, bound])
    }

    /// Parses a row of a table of results.
    pub(super) fn parse_row(row: &str) -> Option<Self> {
        let [name, value, unit, bar, _] = parse_cells(row)?;
        let (side, bound) = bar.split_once(' ')?;
        Self::from_parts([name, value, unit, side, bound])
    }

    fn from_parts([name, value, unit, side, bound]: [&str; 5]) -> Option<Self> {
        let is_upper_bound = match side {
            "<=" => true,
            ">=" => false,
            _ => return None,
        };
        Some(Self {
            name: name.to_owned(),
            value: value.parse().ok()?,
            unit: unit.to_owned(),
            is_upper_bound,
            bound: bound.parse().ok()?,
        })
    }

    pub(super) fn is_met(&self) -> bool {
        if self.is_upper_bound { self.value <= self.bound } else { self.value >= self.bound }
    }

    /// Formats the row of a table of results.
    pub(super) fn row(&self) -> String {
        let Self { name, value, unit, .. } = self;
        format!("| {name} | {value} | {unit} | {} | {} |\n", self.bar(), self.verdict())
    }

    /// Formats the value with its unit. `x`, `ratio` and `of_1` are ratios.
    pub(super) fn value_with_unit(&self) -> String {
        let unit = match self.unit.as_str() {
            "ratio" => "x".to_owned(),
            unit => unit.replace('_', " "),
        };
        format!("{} {unit}", self.value)
    }

    /// Formats the bar with its side: `<= 1000`.
    pub(super) fn bar(&self) -> String {
        format!("{} {}", if self.is_upper_bound { "<=" } else { ">=" }, self.bound)
    }

    pub(super) fn verdict(&self) -> &'static str {
        if self.is_met() { "yes" } else { "**missed**" }
    }
}

/// Parses the cells of a row of a Markdown table with `N` columns.
pub(super) fn parse_cells<const N: usize>(row: &str) -> Option<[&str; N]> {
    let cells = row.trim().strip_prefix('|')?.strip_suffix('|')?;
    let cells: Vec<&str> = cells.split('|').map(str::trim).collect();
    cells.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threshold_is_parsed_and_checked() {
        let met = |line: &str| Threshold::parse(line).map(|bar| bar.is_met());
        assert_eq!(met("bar start_ms 412.5 ms <= 1000"), Some(true));
        assert_eq!(met("bar start_ms 1000.1 ms <= 1000"), Some(false));
        assert_eq!(met("bar getSlot_ratio 0.71 x >= 0.7"), Some(true));
        assert_eq!(met("bar getSlot_ratio 0.69 x >= 0.7"), Some(false));
        assert_eq!(met("bar getSlot_ratio 0.69 x > 0.7"), None);
        assert_eq!(met("bar getSlot_ratio fast x >= 0.7"), None);
        assert_eq!(met("bar getSlot_ratio 0.69 >= 0.7"), None);
    }

    #[test]
    fn a_row_is_parsed_back_to_its_threshold() {
        for line in ["bar cost 0.0056 a_stream <= 0.03", "bar rate -2 x >= 1"] {
            let threshold = Threshold::parse(line).unwrap();
            assert_eq!(Threshold::parse_row(&threshold.row()), Some(threshold));
        }
        assert_eq!(Threshold::parse_row("| a | 1 | ms | 2 | yes |"), None);
        assert_eq!(Threshold::parse_row("| a | 1 | ms | <= 2 |"), None);
    }

    #[test]
    fn a_missed_bar_is_marked_whatever_the_row_said() {
        let threshold = Threshold::parse_row("| a | 3 | ratio | <= 2 | yes |").unwrap();
        assert_eq!(threshold.row(), "| a | 3 | ratio | <= 2 | **missed** |\n");
        assert_eq!(threshold.value_with_unit(), "3 x");
    }
}
