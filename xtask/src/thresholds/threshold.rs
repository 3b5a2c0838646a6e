//! A measured value and its bar or goal.
//!
//! Input: a benchmark's line `bar <name> <value> <unit> <<=|>=> <bar>`, or `goal ...` in the same form, or a row of a
//! table of results.
//! Output: the row; one value of a figure that several parts of a benchmark measure. Whether a bar is met is computed
//! from the numbers, never read from a row.

/// The head of a table of results, with its rule.
pub(super) const TABLE_HEAD: &str =
    "| figure | value | unit | bar | met |\n|---|---|---|---|---|\n";

/// The words that lines of values start with.
const BAR: &str = "bar ";
const GOAL: &str = "goal ";

/// The unit of values that are added.
const COUNT: &str = "count";

/// A measured value and its bar or goal.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Threshold {
    pub(super) name: String,
    /// Whether it is a goal: it is reported, and fails nothing.
    pub(super) is_goal: bool,
    value: f64,
    unit: String,
    is_upper_bound: bool,
    bound: f64,
}

impl Threshold {
    /// Returns whether a benchmark printed the line for a value with a bar or a goal.
    pub(super) fn is_line(line: &str) -> bool {
        [BAR, GOAL].iter().any(|word| line.starts_with(word))
    }

    /// Parses a line that a benchmark printed.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let is_goal = line.starts_with(GOAL);
        let rest = line.strip_prefix(if is_goal { GOAL } else { BAR })?;
        let parts: Vec<&str> = rest.split_whitespace().collect();
        let [name, value, unit, side, bound] = parts[..] else { return None };
        let threshold = Self::from_parts([name, value, unit, side, bound])?;
        Some(Self { is_goal, ..threshold })
    }

    /// Parses a row of a table of results.
    pub(super) fn parse_row(row: &str) -> Option<Self> {
        let [name, value, unit, bar, _] = parse_cells(row)?;
        let goal = bar.strip_prefix(GOAL);
        let (side, bound) = goal.unwrap_or(bar).split_once(' ')?;
        let threshold = Self::from_parts([name, value, unit, side, bound])?;
        Some(Self { is_goal: goal.is_some(), ..threshold })
    }

    fn from_parts([name, value, unit, side, bound]: [&str; 5]) -> Option<Self> {
        let is_upper_bound = match side {
            "<=" => true,
            ">=" => false,
            _ => return None,
        };
        Some(Self {
            name: name.to_owned(),
            is_goal: false,
            value: value.parse().ok()?,
            unit: unit.to_owned(),
            is_upper_bound,
            bound: bound.parse().ok()?,
        })
    }

    /// Merges the value of another part of the benchmark: counts are added, and of other values the worse one remains.
    fn merge(&mut self, other: &Self) {
        self.value = match self.unit.as_str() {
            COUNT => self.value + other.value,
            _ if self.is_upper_bound => self.value.max(other.value),
            _ => self.value.min(other.value),
        };
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

    /// Formats the bar with its side: `<= 1000`, or `goal <= 1000`.
    pub(super) fn bar(&self) -> String {
        let goal = if self.is_goal { GOAL } else { "" };
        format!("{goal}{} {}", if self.is_upper_bound { "<=" } else { ">=" }, self.bound)
    }

    pub(super) fn verdict(&self) -> &'static str {
        match (self.is_met(), self.is_goal) {
            (true, _) => "yes",
            (false, true) => "no",
            (false, false) => "**missed**",
        }
    }
}

/// Merges the values of a benchmark's parts: one value for each name, in the order of the first ones.
pub(super) fn merge_parts(of_parts: Vec<Threshold>) -> Vec<Threshold> {
    let mut merged: Vec<Threshold> = Vec::new();
    for threshold in of_parts {
        if let Some(first) = merged.iter_mut().find(|it| it.name == threshold.name) {
            first.merge(&threshold);
        } else {
            merged.push(threshold);
        }
    }
    merged
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
        for line in
            ["bar cost 0.0056 a_stream <= 0.03", "bar rate -2 x >= 1", "goal memory 91.5 B <= 100"]
        {
            assert!(Threshold::is_line(line));
            let threshold = Threshold::parse(line).unwrap();
            assert_eq!(Threshold::parse_row(&threshold.row()), Some(threshold));
        }
        assert_eq!(Threshold::parse_row("| a | 1 | ms | 2 | yes |"), None);
        assert_eq!(Threshold::parse_row("| a | 1 | ms | <= 2 |"), None);
    }

    #[test]
    fn counts_of_parts_are_added_and_the_worst_of_other_values_remains() {
        let lines = [
            "bar differences 1 count <= 0",
            "bar compared 600 count >= 1000",
            "bar repeated 0.2 % <= 1",
            "bar reads 0.98 x >= 0.95",
            "bar differences 2 count <= 0",
            "bar compared 500 count >= 1000",
            "bar repeated 0.1 % <= 1",
            "bar reads 0.96 x >= 0.95",
        ];
        let of_parts = lines.iter().filter_map(|line| Threshold::parse(line)).collect();
        let rows: String = merge_parts(of_parts).iter().map(Threshold::row).collect();
        assert_eq!(
            rows,
            "| differences | 3 | count | <= 0 | **missed** |\n| compared | 1100 | count | >= 1000 | yes |\n\
             | repeated | 0.2 | % | <= 1 | yes |\n| reads | 0.96 | x | >= 0.95 | yes |\n"
        );
    }

    #[test]
    fn a_goal_that_is_not_reached_is_not_marked_as_missed() {
        let goal = Threshold::parse("goal memory 101 B <= 100").unwrap();
        assert!(goal.is_goal && !goal.is_met());
        assert_eq!(goal.row(), "| memory | 101 | B | goal <= 100 | no |\n");
        assert_eq!(Threshold::parse("goals memory 101 B <= 100"), None);
        assert!(!Threshold::is_line("goals: none"));
    }

    #[test]
    fn a_missed_bar_is_marked_whatever_the_row_said() {
        let threshold = Threshold::parse_row("| a | 3 | ratio | <= 2 | yes |").unwrap();
        assert_eq!(threshold.row(), "| a | 3 | ratio | <= 2 | **missed** |\n");
        assert_eq!(threshold.value_with_unit(), "3 x");
    }
}
