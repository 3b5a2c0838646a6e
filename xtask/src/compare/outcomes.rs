//! The results of a comparison: the questions of each method by the class of their responses, and all differences.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::compare::alignment::align;
use crate::compare::known::{Class, KnownDifferences};
use crate::rig::response_comparison::difference;

/// Numbers of questions of a method, by the class of their responses.
#[derive(Default)]
struct Counts {
    equal: usize,
    by_nature: usize,
    documented: usize,
    wrong: usize,
}

/// The results of all questions.
pub(crate) struct Outcomes {
    known: KnownDifferences,
    counts: BTreeMap<String, Counts>,
    differences: Vec<Value>,
    wrong: Vec<String>,
}

/// Wrong responses that the summary names; all of them are in the file.
const EXAMPLES_MAX: usize = 40;

impl Outcomes {
    pub(crate) fn new(known: KnownDifferences) -> Self {
        Self { known, counts: BTreeMap::new(), differences: Vec::new(), wrong: Vec::new() }
    }

    /// Compares two responses. The question's name starts with the method.
    pub(crate) fn add(&mut self, name: &str, question: &str, theirs: Value, ours: Value) {
        let mut aligned_theirs = theirs.clone();
        let mut aligned_ours = ours.clone();
        align("", &mut aligned_theirs, &mut aligned_ours);
        let method = name.split(' ').next().unwrap_or_default();
        let counts = self.counts.entry(method.to_owned()).or_default();
        let Some(first) = difference(&aligned_theirs, &aligned_ours, String::new()) else {
            counts.equal += 1;
            return;
        };
        let class = self.known.find(name, &first);
        let class_name = match class {
            Some(Class::Nature) => "nature",
            Some(Class::Documented) => "documented",
            None => "wrong",
        };
        match class {
            Some(Class::Nature) => counts.by_nature += 1,
            Some(Class::Documented) => counts.documented += 1,
            None => {
                counts.wrong += 1;
                self.wrong.push(format!("{name}: {first}"));
            }
        }
        self.differences.push(json!({
            "class": class_name, "question": name, "body": question, "first_difference": first,
            "validator": theirs, "hydrant": ours,
        }));
    }

    /// Returns the number of wrong responses.
    pub(crate) fn wrong(&self) -> usize {
        self.wrong.len()
    }

    /// Returns all differences as a JSON array.
    pub(crate) fn to_json(&self) -> String {
        Value::Array(self.differences.clone()).to_string()
    }

    /// Returns the wrong responses, and a table with a row for each method.
    pub(crate) fn table(&self) -> String {
        let mut text = String::new();
        for wrong in self.wrong.iter().take(EXAMPLES_MAX) {
            // Writing to a String does not fail.
            let _ = writeln!(text, "wrong: {wrong}");
        }
        text.push_str(
            "\n| method | equal | by nature | documented | wrong |\n|---|---|---|---|---|\n",
        );
        let mut sum = Counts::default();
        for (method, counts) in &self.counts {
            let Counts { equal, by_nature, documented, wrong } = counts;
            let _ = writeln!(text, "| {method} | {equal} | {by_nature} | {documented} | {wrong} |");
            sum.equal += equal;
            sum.by_nature += by_nature;
            sum.documented += documented;
            sum.wrong += wrong;
        }
        let Counts { equal, by_nature, documented, wrong } = sum;
        let _ = write!(text, "| all | {equal} | {by_nature} | {documented} | {wrong} |");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_equal_known_or_wrong() -> anyhow::Result<()> {
        let mut outcomes = Outcomes::new(KnownDifferences::read()?);
        outcomes.add(
            "getSlot",
            "",
            json!({ "result": { "slot": 1 } }),
            json!({ "result": { "slot": 2 } }),
        );
        assert_eq!(outcomes.wrong(), 0);
        outcomes.add("getSlot", "", json!({ "result": "a" }), json!({ "result": "b" }));
        assert_eq!(outcomes.wrong(), 1);
        assert!(outcomes.table().ends_with("| all | 1 | 0 | 0 | 1 |"), "{}", outcomes.table());
        Ok(())
    }
}
