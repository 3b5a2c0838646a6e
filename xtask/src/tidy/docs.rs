//! Rules for documents: the crate list is complete, every flag is described, and links lead somewhere.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::layers::layer_of;
use super::source::Source;
use crate::workspace::Crate;

/// Compares ARCHITECTURE.md's codemap with the crates that exist.
///
/// The codemap has, below a heading `### L<layer> ...`, one line for each crate. It starts with the folder:
/// "* `crates/state`: ...".
pub(crate) fn crate_list(architecture: &str, crates: &[Crate]) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut listed: Vec<&str> = Vec::new();
    let mut layer = None;
    for line in architecture.lines() {
        if let Some(heading) = line.strip_prefix("### L") {
            layer =
                heading.split(|c: char| !c.is_ascii_digit()).next().and_then(|n| n.parse().ok());
        } else if line.starts_with("## ") {
            layer = None;
        }
        let folder = line.strip_prefix("* `").and_then(|rest| rest.split('`').next());
        let (Some(_), Some(dir)) = (layer, folder) else { continue };
        let Some(krate) = crates.iter().find(|krate| krate.dir == Path::new(dir)) else {
            if dir.starts_with("crates/") {
                complaints.push(format!("ARCHITECTURE.md: `{dir}` does not exist"));
            }
            continue;
        };
        listed.push(&krate.name);
        if layer != layer_of(&krate.name) {
            complaints.push(format!(
                "ARCHITECTURE.md: `{dir}` is on the wrong layer; see xtask/src/tidy/layers.rs"
            ));
        }
    }
    for krate in crates {
        if !listed.contains(&krate.name.as_str()) {
            complaints.push(format!("ARCHITECTURE.md: `{}` is missing", krate.dir.display()));
        }
    }
    complaints
}

/// Returns the relative links of a Markdown file that lead nowhere. `exists` gets paths below the root.
pub(crate) fn dead_links(document: &Source, exists: impl Fn(&Path) -> bool) -> Vec<String> {
    let mut complaints = Vec::new();
    for rest in document.text.split("](").skip(1) {
        let Some(link) = rest.split(')').next() else { continue };
        let file = link.split('#').next().unwrap_or(link);
        if file.is_empty() || file.contains("://") || file.contains(char::is_whitespace) {
            continue;
        }
        let linked = document.path.parent().unwrap_or_else(|| Path::new("")).join(file);
        if !exists(&linked) {
            complaints.push(format!("{}: `{link}` leads nowhere", document.path.display()));
        }
    }
    complaints
}

/// Flags that the help lists and docs/configuration.md does not.
pub(crate) fn flags_without_cost(help: &str, configuration: &str) -> Vec<String> {
    let is_flag = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let flags = help.lines().filter_map(|line| {
        let (before, flag) = line.split_once("--")?;
        let is_definition = before.trim_start().is_empty() || before.trim().ends_with(',');
        is_definition.then(|| flag.split(|c| !is_flag(c)).next().unwrap_or(flag))
    });
    flags
        .filter(|flag| *flag != "help" && !configuration.contains(&format!("`--{flag}")))
        .map(|flag| format!("docs/configuration.md: `--{flag}` is missing"))
        .collect()
}

/// Returns the Markdown files at the root, in `docs/` and its folders, in `clients/` and `fuzz/`.
pub(crate) fn markdown_files(root: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for dir in ["", "docs", "docs/benchmarks", "docs/design", "clients", "fuzz"] {
        for entry in fs::read_dir(root.join(dir))? {
            let path = Path::new(dir).join(entry?.file_name());
            if path.extension().is_some_and(|extension| extension == "md") {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crates() -> Vec<Crate> {
        let krate = |name: &str, dir: &str| Crate {
            name: name.to_owned(),
            dir: dir.into(),
            dependencies: Vec::new(),
        };
        vec![krate("ledger", "crates/ledger"), krate("xtask", "xtask")]
    }

    #[test]
    fn a_true_codemap_passes() {
        let text = "### L0, words\n* `crates/ledger`: words\n### L10, doors\n* `xtask`: tasks\n";
        assert_eq!(crate_list(text, &crates()), [""; 0]);
    }

    #[test]
    fn a_missing_a_gone_and_a_misplaced_crate_are_caught() {
        let text = "### L0, words\n* `crates/gone`: was here\n* `xtask`: tasks\n";
        let complaints = crate_list(text, &crates());
        assert_eq!(complaints.len(), 3);
        assert_eq!(complaints[0], "ARCHITECTURE.md: `crates/gone` does not exist");
        assert!(complaints[1].starts_with("ARCHITECTURE.md: `xtask` is on the wrong layer"));
        assert_eq!(complaints[2], "ARCHITECTURE.md: `crates/ledger` is missing");
    }

    #[test]
    fn a_flag_without_its_cost_is_caught() {
        let help =
            "  -q, --quiet\n          As --log, less\n      --io-threads <COUNT>\n  -h, --help\n";
        assert_eq!(
            flags_without_cost(help, "| `--quiet`, `-q` |"),
            ["docs/configuration.md: `--io-threads` is missing"]
        );
        assert_eq!(flags_without_cost(help, "`--quiet` `--io-threads`"), [""; 0]);
    }

    #[test]
    fn a_dead_link_is_caught_and_the_web_is_left_alone() {
        let document = Source {
            path: "docs/a.md".into(),
            text: "[b](b.md#part) [c](../c.md) [web](https://host.example/) [here](#top)"
                .to_owned(),
        };
        let dead = dead_links(&document, |path| path == Path::new("docs/b.md"));
        assert_eq!(dead, ["docs/a.md: `../c.md` leads nowhere"]);
    }
}
