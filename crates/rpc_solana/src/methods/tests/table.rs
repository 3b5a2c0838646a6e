//! docs/methods.md has a row for every method and subscription, and names tests that exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use jsonrpc::{Api, Execution};

use crate::solana_api::SolanaApi;

fn document() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/methods.md");
    fs::read_to_string(path).expect("docs/methods.md exists")
}

/// Returns the first cell and the words of the last cell of each row of the document's tables.
fn rows() -> Vec<(String, Vec<String>)> {
    let text = document();
    let row = |line: &str| {
        let mut cells = line.strip_prefix("| ")?.strip_suffix(" |")?.split('|');
        let tests = cells.next_back()?.split_whitespace().map(|test| test.trim_matches('`').into());
        Some((cells.next()?.trim().to_owned(), tests.collect()))
    };
    let is_named = |(name, _): &(String, _)| name != "method" && name != "subscription";
    text.lines().filter_map(row).filter(is_named).collect()
}

fn sources(folder: &Path, into: &mut String) {
    for entry in fs::read_dir(folder).expect("the crate's own folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push_str(&fs::read_to_string(&path).expect("a source is text"));
        }
    }
}

#[test]
fn every_method_and_subscription_has_its_row() {
    let rows: BTreeSet<String> = rows().into_iter().map(|(name, _)| name).collect();
    let (subscriptions, methods): (BTreeSet<_>, BTreeSet<_>) =
        rows.into_iter().partition(|name| name.ends_with("Subscribe"));
    let served: BTreeSet<String> =
        SolanaApi::sorted_methods().iter().map(|method| method.name.into()).collect();
    assert_eq!(methods, served);
    assert_eq!(
        (methods.len(), subscriptions.len(), SolanaApi::sorted_methods().len()),
        (99, 11, 99)
    );
}

#[test]
fn every_agave_method_has_its_class_in_its_row() {
    let text = document();
    let (agaves, _) = text.split_once("## Extensions").expect("the extensions follow");
    let mut checked = 0;
    for method in SolanaApi::sorted_methods() {
        let start = format!("| {} | ", method.name);
        let Some(row) = agaves.lines().find_map(|line| line.strip_prefix(&start)) else { continue };
        let (class, _) = row.split_once(" | ").expect("it has more cells");
        match method.execution {
            Execution::Inline => assert_eq!(class, "inline", "{}", method.name),
            Execution::Light => assert_eq!(class, "light", "{}", method.name),
            Execution::Medium => assert_eq!(class, "medium", "{}", method.name),
            Execution::TryInline(_) => assert_eq!(class, "by size", "{}", method.name),
            // The cell names the input of the choice.
            Execution::ByCost { .. } => assert!(class.contains(' '), "{}: {class}", method.name),
        }
        checked += 1;
    }
    assert_eq!(checked, 53);
}

#[test]
fn every_row_names_tests_that_are_there() {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut text = String::new();
    sources(&crate_folder.join("src"), &mut text);
    sources(&crate_folder.join("tests"), &mut text);
    for (name, tests) in rows() {
        assert!(!tests.is_empty(), "{name} has no test");
        for test in tests {
            assert!(text.contains(&format!("fn {test}()")), "{name}: no test is called {test}");
        }
    }
}
