//! The bill of materials: it is of this program, and every reference in it has a component.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::dist::file_tree::sha256;
use crate::dist::program::VERSION;

/// Packages without which there is no such program: its VM, its runtime, a crate of this repository.
const LINKED: &[&str] = &["litesvm", "rpc_solana", "tokio"];
/// Packages of macros, of builds, of tests, and of this program.
const NOT_LINKED: &[&str] = &["cc", "proptest", "syn", "testkit", "xtask"];

/// Checks the document with the bytes of the program.
pub(crate) fn check(document: &[u8], program: &[u8]) -> Result<()> {
    let document: Value = serde_json::from_slice(document)?;
    let own = &document["metadata"]["component"];
    ensure!(own["name"] == "hydrant" && own["version"] == VERSION, "it is of {own}");
    let digest = &own["hashes"][0]["content"];
    ensure!(*digest == sha256(program), "it is of the program with the digest {digest}");
    let components = document["components"].as_array().context("components")?;
    let names: BTreeSet<&str> = components.iter().filter_map(|it| it["name"].as_str()).collect();
    for name in LINKED {
        ensure!(names.contains(name), "it does not have {name}");
    }
    for name in NOT_LINKED {
        ensure!(!names.contains(name), "it has {name}, which is not linked into the program");
    }
    check_references(&document)?;
    println!("bill of materials: {} components of this program", components.len());
    Ok(())
}

/// Checks that each component has a name of its own, and that each dependency is one of them.
fn check_references(document: &Value) -> Result<()> {
    let components = document["components"].as_array().context("components")?;
    let mut references = BTreeSet::new();
    for component in components.iter().chain([&document["metadata"]["component"]]) {
        let reference = component["bom-ref"].as_str().context("a component without bom-ref")?;
        ensure!(references.insert(reference), "{reference} is there twice");
    }
    for dependency in document["dependencies"].as_array().context("dependencies")? {
        let named = dependency["dependsOn"].as_array().into_iter().flatten();
        for reference in named.chain([&dependency["ref"]]).filter_map(Value::as_str) {
            ensure!(references.contains(reference), "{reference} is no component");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_dependency_that_is_no_component_is_refused() {
        let document = |depends_on: &str| {
            json!({
                "metadata": { "component": { "bom-ref": "a" } },
                "components": [{ "bom-ref": "b" }],
                "dependencies": [{ "ref": "a", "dependsOn": [depends_on] }],
            })
        };
        check_references(&document("b")).unwrap();
        assert!(check_references(&document("c")).unwrap_err().to_string().contains("c is no"));
    }

    #[test]
    fn another_program_s_document_is_refused() {
        let component = json!({ "name": "hydrant", "version": VERSION, "hashes": [{ "content": sha256(b"1") }] });
        let document = json!({ "metadata": { "component": component } }).to_string();
        let refused = check(document.as_bytes(), b"2").unwrap_err();
        assert!(refused.to_string().contains(&sha256(b"1")), "{refused}");
    }
}
