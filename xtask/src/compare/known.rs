//! The differences that are known: by nature, or as the documents say. They are in `differences.toml`.

use anyhow::{Context, Result, ensure};

use crate::workspace::root;

/// The path of the list in the repository.
const LIST: &str = "xtask/src/compare/differences.toml";

/// Why a difference is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// Two runs of one node would differ as well.
    Nature,
    /// A difference of ours that a document describes.
    Documented,
}

/// A difference that is expected, and its reason.
#[derive(Debug)]
struct Known {
    class: Class,
    /// A prefix of the question's name.
    question: String,
    /// A prefix of the first difference, which starts with the path of the value.
    at: String,
    /// A part of the first difference.
    contains: String,
}

pub(crate) struct KnownDifferences(Vec<Known>);

impl KnownDifferences {
    /// Reads the list. Errors: an entry has no reason, or names a document that does not have its text.
    pub(crate) fn read() -> Result<Self> {
        Self::parse(&std::fs::read_to_string(root().join(LIST)).context(LIST)?)
    }

    fn parse(text: &str) -> Result<Self> {
        let list: toml::Table = toml::from_str(text).context(LIST)?;
        let mut all = Vec::new();
        for (name, class) in [("nature", Class::Nature), ("documented", Class::Documented)] {
            let entries = list.get(name).and_then(toml::Value::as_array);
            for entry in entries.into_iter().flatten() {
                let text = |key: &str| entry.get(key).and_then(toml::Value::as_str);
                let known = Known {
                    class,
                    question: text("question").unwrap_or_default().to_owned(),
                    at: text("at").unwrap_or_default().to_owned(),
                    contains: text("contains").unwrap_or_default().to_owned(),
                };
                ensure!(!known.question.is_empty(), "{LIST}: an entry without a question");
                let reason = text("reason").unwrap_or_default();
                ensure!(!reason.is_empty(), "{LIST}: {} has no reason", known.question);
                if class == Class::Documented {
                    let reference = text("document").unwrap_or_default();
                    check_reference(reference)
                        .with_context(|| format!("{LIST}: {}", known.question))?;
                }
                all.push(known);
            }
        }
        Ok(Self(all))
    }

    /// Returns the class of a difference; `None` if it is not known.
    pub(crate) fn find(&self, question: &str, difference: &str) -> Option<Class> {
        let found = self.0.iter().find(|known| {
            question.starts_with(&known.question)
                && difference.starts_with(&known.at)
                && difference.contains(&known.contains)
        });
        found.map(|known| known.class)
    }
}

/// Checks a reference to a document: `docs/NAME.md: TEXT`, where the document has the text.
fn check_reference(reference: &str) -> Result<()> {
    let (path, text) = reference.split_once(": ").context("its document is not `FILE: TEXT`")?;
    let document = std::fs::read_to_string(root().join(path)).with_context(|| path.to_owned())?;
    ensure!(document.contains(text), "{path} does not have `{text}`");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_has_a_reason_and_a_place_that_exists() {
        assert!(KnownDifferences::read().is_ok_and(|known| !known.0.is_empty()));
        let without =
            "[[documented]]\nquestion = 'a'\nreason = 'b'\ndocument = 'docs/rest.md: no such text'";
        assert!(KnownDifferences::parse(without).is_err());
        assert!(KnownDifferences::parse("[[nature]]\nquestion = 'a'").is_err());
    }

    #[test]
    fn a_difference_is_found_by_question_and_place() {
        let list = "[[nature]]\nquestion = 'getSupply'\nat = '.body.result'\nreason = 'r'";
        let known = KnownDifferences::parse(list).unwrap();
        assert_eq!(
            known.find("getSupply finalized", ".body.result.value: 1, not 2"),
            Some(Class::Nature)
        );
        assert_eq!(known.find("getSupply finalized", ".status: 1, not 2"), None);
        assert_eq!(known.find("getSlot", ".body.result: 1, not 2"), None);
    }
}
