//! Domain types that have one definition in all crates, on the lowest layer that needs them.
//!
//! In: the `.rs` files of the workspace. Out: one complaint for each further definition, and for a name of the list
//! that no file defines.
//! Not here: variants and fields of these names, and types of other packages.

use std::path::Path;

use super::source::Source;
use super::wording;

/// Names that one type of the workspace has. A type for another purpose needs a name of its own.
const DOMAIN_TYPES: &[&str] = &[
    "AccountUpdate",
    "AccountWrite",
    "BankMismatch",
    "BlockMeta",
    "EpochStakes",
    "EpochVoter",
    "LtHash",
    "OnMismatch",
    "VerificationLevel",
    "VerifyMode",
    "VotedStake",
];

/// Keywords that define a type or a trait.
const TYPE_KEYWORDS: &[&str] = &["struct", "enum", "union", "trait", "type"];

/// Domain types with several definitions, or with none.
pub(crate) fn check(sources: &[Source]) -> Vec<String> {
    let mut found: Vec<Definition<'_>> = Vec::new();
    let mut complaints = Vec::new();
    for source in sources {
        let code = wording::code(&source.text);
        for wording::Definition { line, keyword, name } in wording::definitions(&code) {
            if !TYPE_KEYWORDS.contains(&keyword) {
                continue;
            }
            let Some(name) = DOMAIN_TYPES.iter().find(|domain| **domain == name) else { continue };
            let path = source.path.as_path();
            match found.iter().find(|known| known.name == *name) {
                Some(first) => complaints.push(format!(
                    "{}:{line}: `{name}` is also defined in {}:{}; use that type, or another name",
                    path.display(),
                    first.path.display(),
                    first.line
                )),
                None => found.push(Definition { name, path, line }),
            }
        }
    }
    let missing =
        DOMAIN_TYPES.iter().filter(|name| !found.iter().any(|known| known.name == **name));
    complaints.extend(missing.map(|name| {
        format!("xtask/src/tidy/domain_types.rs: no file defines `{name}`; remove it from the list")
    }));
    complaints
}

/// The first definition of a domain type.
struct Definition<'a> {
    name: &'static str,
    path: &'a Path,
    line: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that defines each of these types.
    fn file(path: &str, names: &[&str]) -> Source {
        let lines = names.iter().map(|name| format!("pub struct {name};\n"));
        Source { path: path.into(), text: lines.collect() }
    }

    #[test]
    fn a_second_definition_is_caught() {
        let sources = [
            file("a.rs", DOMAIN_TYPES),
            Source {
                path: "b.rs".into(),
                text: "// struct LtHash;\nuse a::LtHash;\nenum Update { BlockMeta(BlockMeta) }\n\
                       pub(crate) enum VotedStake {}\n"
                    .into(),
            },
        ];
        let line = 1 + DOMAIN_TYPES.iter().position(|name| *name == "VotedStake").expect("listed");
        assert_eq!(
            check(&sources),
            [format!(
                "b.rs:4: `VotedStake` is also defined in a.rs:{line}; use that type, or another name"
            )]
        );
    }

    #[test]
    fn a_name_without_a_definition_is_caught() {
        assert_eq!(
            check(&[file("a.rs", &DOMAIN_TYPES[1..])]),
            [
                "xtask/src/tidy/domain_types.rs: no file defines `AccountUpdate`; remove it from the list"
            ]
        );
    }
}
