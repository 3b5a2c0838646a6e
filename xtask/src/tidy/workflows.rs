//! The workflows of GitHub: their image has the toolchain of `Cargo.toml`, which is the one that CI's lints pass with.
//!
//! Input: the text files of the repository, and `Cargo.toml`.

use anyhow::{Context, Result};

use super::source::Source;

/// Directory of the workflows, below the root.
const DIR: &str = ".github/workflows";
/// Start of a line with an image of Rust. A version and the system follow.
const IMAGE: &str = "image: rust:";

/// Returns a complaint for each image with another toolchain than `manifest` names.
pub(crate) fn check(manifest: &str, tracked: &[Source]) -> Result<Vec<String>> {
    let manifest: toml::Table = manifest.parse().context("parse Cargo.toml")?;
    let package = manifest.get("workspace").and_then(|workspace| workspace.get("package"));
    let toolchain = package.and_then(|package| package.get("rust-version")?.as_str());
    let toolchain = toolchain.context("Cargo.toml: no rust-version")?;
    let mut complaints = Vec::new();
    for source in tracked.iter().filter(|source| source.path.starts_with(DIR)) {
        for (number, line) in (1..).zip(source.text.lines()) {
            let Some(tag) = line.trim().strip_prefix(IMAGE) else { continue };
            if tag.split('-').next() != Some(toolchain) {
                complaints.push(format!(
                    "{}:{number}: rust:{tag}; Cargo.toml names {toolchain}",
                    source.path.display()
                ));
            }
        }
    }
    Ok(complaints)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_with_another_toolchain_is_caught() {
        let manifest = "[workspace.package]\nrust-version = \"1.95\"\n";
        let workflow = |tag: &str| {
            let text = format!("jobs:\n  container:\n    image: rust:{tag}\n");
            [Source { path: ".github/workflows/ci.yml".into(), text }]
        };
        assert_eq!(check(manifest, &workflow("1.95-bookworm")).unwrap(), [""; 0]);
        let complaints = check(manifest, &workflow("1.94-bookworm")).unwrap();
        let expected = ".github/workflows/ci.yml:3: rust:1.94-bookworm; Cargo.toml names 1.95";
        assert_eq!(complaints, [expected]);
        assert!(check("", &[]).is_err());
    }
}
