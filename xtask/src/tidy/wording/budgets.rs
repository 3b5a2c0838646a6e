//! The hits that each crate is still allowed: a list that only becomes shorter.
//!
//! Input: all hits, and [`PATH`] with one line `crate kind count` for each count above 0. Output: a complaint for each
//! count that differs. A count that rose is listed hit by hit. A count that fell has to be lowered in the list, so that
//! it cannot rise again: `cargo xtask tidy --update-budgets`.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};

use super::hit::{Hit, Kind};
use crate::workspace::Crate;

/// Path of the list, below the root.
pub(crate) const PATH: &str = "xtask/wording_budgets.txt";

/// The owner of hits in Markdown files, and of files outside of all crates.
const DOCUMENTS: &str = "documents";

const HEAD: &str = "\
# Uses of words and forms that CONTRIBUTING.md replaces, still to be rewritten: crate, kind, count.
# A count may only fall. `cargo xtask tidy --update-budgets` lowers the counts; `cargo xtask tidy --wording CRATE`
# lists the lines.
";

type Key = (String, Kind);

/// The hits of each crate by kind.
pub(crate) struct HitsByCrate(BTreeMap<Key, Vec<Hit>>);

/// The allowed number of hits of each crate by kind. A missing one is 0.
#[derive(Debug, PartialEq)]
pub(crate) struct Budgets(BTreeMap<Key, usize>);

impl HitsByCrate {
    pub(crate) fn new(hits: Vec<Hit>, crates: &[Crate]) -> Self {
        let mut by_crate: BTreeMap<Key, Vec<Hit>> = BTreeMap::new();
        for hit in hits {
            let key = (owner_name(&hit.path, crates), hit.kind);
            by_crate.entry(key).or_default().push(hit);
        }
        Self(by_crate)
    }

    /// Returns the hits of a crate, sorted by kind.
    pub(crate) fn in_crate<'a>(&'a self, name: &'a str) -> impl Iterator<Item = String> + 'a {
        let own = self.0.iter().filter(move |((owner, _), _)| owner == name);
        own.flat_map(|((_, kind), hits)| {
            hits.iter().map(|hit| format!("{}: {}", kind.name(), format_hit(hit)))
        })
    }

    fn count(&self, key: &Key) -> usize {
        self.0.get(key).map_or(0, Vec::len)
    }
}

impl Budgets {
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let text =
            std::fs::read_to_string(root.join(PATH)).with_context(|| format!("read {PATH}"))?;
        Self::parse(&text)
    }

    pub(crate) fn write(&self, root: &Path) -> Result<()> {
        std::fs::write(root.join(PATH), self.format()).with_context(|| format!("write {PATH}"))
    }

    /// Lowers each budget to the number of hits. Returns the number of hits by which all of them fell.
    pub(crate) fn lower(&mut self, hits: &HitsByCrate) -> usize {
        let mut lowered = 0;
        for (key, budget) in &mut self.0 {
            let count = hits.count(key);
            lowered += budget.saturating_sub(count);
            *budget = count.min(*budget);
        }
        self.0.retain(|_, budget| *budget > 0);
        lowered
    }

    /// Returns the number of hits that are allowed in all crates.
    pub(crate) fn total(&self) -> usize {
        self.0.values().sum()
    }

    /// Returns a complaint for each count that is not its budget.
    pub(crate) fn check(&self, hits: &HitsByCrate) -> Vec<String> {
        let mut complaints = Vec::new();
        for (key, found) in &hits.0 {
            let budget = self.budget(key);
            if found.len() > budget {
                complaints.extend(found.iter().map(format_hit));
                complaints.push(format!(
                    "{PATH}: {} has {} of {}, {budget} are allowed; rewrite the new ones of the lines above",
                    key.0,
                    found.len(),
                    key.1.name(),
                ));
            }
        }
        for (key, budget) in &self.0 {
            let count = hits.count(key);
            if count < *budget {
                complaints.push(format!(
                    "{PATH}: {} has {count} of {}, the list says {budget}; run `cargo xtask tidy --update-budgets`",
                    key.0,
                    key.1.name(),
                ));
            }
        }
        complaints
    }

    fn budget(&self, key: &Key) -> usize {
        self.0.get(key).copied().unwrap_or(0)
    }

    fn parse(text: &str) -> Result<Self> {
        let mut budgets = BTreeMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
            let (key, count) = parse_line(line)
                .with_context(|| format!("{PATH}: `{line}` is not `crate kind count`"))?;
            budgets.insert(key, count);
        }
        Ok(Self(budgets))
    }

    fn format(&self) -> String {
        let mut text = HEAD.to_owned();
        for ((owner, kind), count) in &self.0 {
            text += &format!("{owner} {} {count}\n", kind.name());
        }
        text
    }
}

fn parse_line(line: &str) -> Option<(Key, usize)> {
    let mut words = line.split_whitespace();
    let owner = words.next()?.to_owned();
    let name = words.next()?;
    let kind = Kind::ALL.into_iter().find(|kind| kind.name() == name)?;
    Some(((owner, kind), words.next()?.parse().ok()?))
}

fn owner_name(path: &Path, crates: &[Crate]) -> String {
    let is_rust = path.extension().is_some_and(|extension| extension == "rs");
    let owner = crates.iter().find(|krate| is_rust && path.starts_with(&krate.dir));
    owner.map_or_else(|| DOCUMENTS.to_owned(), |krate| krate.name.clone())
}

fn format_hit(hit: &Hit) -> String {
    format!("{}:{}: {}", hit.path.display(), hit.line, hit.message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hits(count: usize) -> HitsByCrate {
        let hit = |line| Hit {
            kind: Kind::IsNo,
            path: "crates/x/src/lib.rs".into(),
            line,
            message: "text".to_owned(),
        };
        let krate =
            Crate { name: "x".to_owned(), dir: "crates/x".into(), dependencies: Vec::new() };
        HitsByCrate::new((1..=count).map(hit).collect(), &[krate])
    }

    #[test]
    fn a_count_that_rose_is_listed_hit_by_hit() {
        let complaints = Budgets::parse("x is_no 1\n").unwrap().check(&hits(2));
        assert_eq!(complaints.len(), 3);
        assert_eq!(complaints[0], "crates/x/src/lib.rs:1: text");
        assert!(complaints[2].contains("x has 2 of is_no, 1 are allowed"), "{complaints:?}");
        assert_eq!(Budgets::parse("").unwrap().check(&hits(1)).len(), 2);
    }

    #[test]
    fn a_count_that_fell_has_to_be_lowered_in_the_list() {
        let mut budgets = Budgets::parse("# text\nx is_no 3\nx german 1\ny is_no 1\n").unwrap();
        assert_eq!(budgets.check(&hits(2)).len(), 3);
        assert_eq!(budgets.lower(&hits(2)), 3);
        assert_eq!(budgets.format(), format!("{HEAD}x is_no 2\n"));
        assert_eq!(budgets.check(&hits(2)), [""; 0]);
    }

    #[test]
    fn an_update_never_raises_a_budget() {
        let mut budgets = Budgets::parse("x is_no 1\n").unwrap();
        assert_eq!(budgets.lower(&hits(2)), 0);
        assert_eq!(budgets.total(), 1);
    }

    #[test]
    fn hits_in_documents_belong_to_documents() {
        assert_eq!(owner_name(Path::new("docs/a.md"), &[]), DOCUMENTS);
        let listed: Vec<String> = hits(1).in_crate("x").collect();
        assert_eq!(listed, ["is_no: crates/x/src/lib.rs:1: text"]);
    }

    #[test]
    fn a_malformed_line_is_refused() {
        for line in ["x", "x is_no", "x unknown 1", "x is_no many"] {
            assert!(Budgets::parse(line).is_err(), "{line}");
        }
    }
}
