//! Paths that leave the repository. A clone has nothing next to it, so a test that reads `..` of the root fails there.
//!
//! Input: the text files of the repository. A path that starts with `..` is relative to the directory of its file;
//! after `CARGO_MANIFEST_DIR` it is relative to the package, and after a `root` to the root.
//! Not here: absolute paths, and paths that are assembled in another way.

use std::path::Path;

use super::source::Source;

/// Directories that some developers have next to their clone.
const NEIGHBOURS: &[&str] = &["shared"];

/// The environment variable with the directory of a package.
const MANIFEST_DIR: &str = "CARGO_MANIFEST_DIR";

/// Maximum bytes between [`MANIFEST_DIR`], or a `root`, and the path that is relative to it.
const BASE_BYTES_MAX: usize = 48;

/// Returns a complaint for each such path in a file of the package in the directory `package`.
pub(crate) fn check(source: &Source, package: &Path) -> Vec<String> {
    let mut complaints = Vec::new();
    for path in paths(&source.text) {
        let file_dir = source.path.parent().unwrap_or_else(|| Path::new(""));
        let base = match base(&source.text[..path.start], path.text) {
            Base::File => file_dir,
            Base::Package => package,
            Base::Root => Path::new(""),
            Base::Unknown => continue,
        };
        if leaves(base, path.text) {
            let line = source.text[..path.start].matches('\n').count() + 1;
            complaints.push(format!(
                "{}:{line}: `{}` leaves the repository; a clone has nothing there",
                source.path.display(),
                path.text
            ));
        }
    }
    complaints
}

/// A path that was found in a text.
struct FoundPath<'a> {
    start: usize,
    text: &'a str,
}

/// The directory that a path is relative to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Base {
    File,
    Package,
    Root,
    /// It is absolute, a part of a URL, or in a script behind a variable.
    Unknown,
}

/// Returns the paths of a text that contain `..`.
fn paths(text: &str) -> impl Iterator<Item = FoundPath<'_>> {
    let is_part = |c: char| c.is_alphanumeric() || "._-/{}".contains(c);
    let mut start = 0;
    let words = text.split(move |c| !is_part(c)).map(move |word| {
        let found = FoundPath { start, text: word };
        // Every separator is in the text once, and may be longer than a byte.
        start += word.len() + text[start + word.len()..].chars().next().map_or(0, char::len_utf8);
        found
    });
    words.filter(|path| path.text.len() > 2 && path.text.split('/').any(|part| part == ".."))
}

/// Returns the base of a path that follows `before`.
fn base(before: &str, path: &str) -> Base {
    let line_start = before.char_indices().rev().nth(BASE_BYTES_MAX).map_or(0, |(at, _)| at);
    let near = &before[line_start..];
    let first = path.split('/').next().unwrap_or(path);
    let between = near.rsplit_once(MANIFEST_DIR).map(|(_, between)| between);
    if between.is_some_and(|between| !between.contains(';')) {
        return Base::Package;
    }
    let call = near.trim_end_matches(['"', ' ', '\n']).trim_end_matches("format!(");
    let joined =
        call.strip_suffix("join(").map(|receiver| receiver.trim_end_matches(['.', '(', ')']));
    if first.ends_with("root}") || joined.is_some_and(|receiver| receiver.ends_with("root")) {
        return Base::Root;
    }
    match first {
        "" => Base::Unknown,
        first if first.contains(['{', '}']) => Base::Unknown,
        _ => Base::File,
    }
}

/// Whether `path` leads out of the root, or to a neighbour of it.
fn leaves(base: &Path, path: &str) -> bool {
    let mut depth = base.components().count();
    let mut has_climbed = false;
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if depth == 0 => return true,
            ".." => depth -= 1,
            part if has_climbed && NEIGHBOURS.contains(&part) => return true,
            part if part.contains('{') => {}
            _ => depth += 1,
        }
        has_climbed = part == "..";
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_line(path: &str, line: &str) -> Vec<String> {
        let source = Source { path: path.into(), text: format!("first\n{line}\n") };
        check(&source, Path::new("crates/x"))
    }

    fn climb(levels: usize, to: &str) -> String {
        format!("{}{to}", "../".repeat(levels))
    }

    const TEST: &str = "crates/x/tests/it/a.rs";

    #[test]
    fn a_path_that_climbs_above_the_root_is_caught() {
        let include = |levels| format!("include_str!(\"{}\");", climb(levels, "docs/a.md"));
        assert_eq!(check_line(TEST, &include(4)), [""; 0]);
        let path = climb(5, "docs/a.md");
        assert_eq!(
            check_line(TEST, &include(5)),
            [format!("{TEST}:2: `{path}` leaves the repository; a clone has nothing there")]
        );
        let manifest = |levels| format!("other = {{ path = \"{}\" }}", climb(levels, "other"));
        assert_eq!(check_line("crates/x/Cargo.toml", &manifest(2)), [""; 0]);
        assert_eq!(check_line("crates/x/Cargo.toml", &manifest(3)).len(), 1);
        assert_eq!(check_line("docs/a.md", "[b](../docs/b.md)"), [""; 0]);
        assert_eq!(check_line("docs/a.md", &format!("`{}`", climb(2, "b.md"))).len(), 1);
    }

    #[test]
    fn a_path_behind_the_manifests_directory_is_relative_to_it() {
        let env = format!("env!(\"{MANIFEST_DIR}\")");
        for (open, close) in
            [("concat!(", ", \"/"), ("concat!(\n", ",\n    \"/"), ("Path::new(", ").join(\"")]
        {
            let line = |levels| format!("{open}{env}{close}{}\")", climb(levels, "data"));
            assert_eq!(check_line(TEST, &line(2)), [""; 0]);
            assert_eq!(check_line(TEST, &line(3)).len(), 1, "{}", line(3));
        }
    }

    #[test]
    fn a_path_behind_the_root_is_relative_to_it() {
        for before in [
            "root.join(\"",
            "root().join(format!(\"",
            "PathBuf::from(root).join(\"",
            "format!(\"{root}/",
        ] {
            let line = |to: &str| format!("{before}{to}\")");
            assert_eq!(check_line(TEST, &line(&climb(1, "data"))).len(), 1, "{before}");
            assert_eq!(check_line(TEST, &line("docs/../data")), [""; 0], "{before}");
        }
    }

    #[test]
    fn a_path_next_to_the_clone_is_caught_at_any_depth() {
        let neighbour = climb(1, NEIGHBOURS[0]);
        for line in [format!("dir.join(\"{neighbour}/data\")"), format!("see `{neighbour}`")] {
            assert_eq!(check_line(TEST, &line).len(), 1, "{line}");
        }
    }

    #[test]
    fn ranges_absolute_paths_and_urls_are_no_such_paths() {
        for line in [
            "for n in 0..10 { f(..); } let X { a, .. } = x;",
            "(\"GET\", \"/../../../../etc/passwd\")",
            "cd \"$(dirname \"$0\")/..\"",
            "and so on ...",
        ] {
            assert_eq!(check_line(TEST, line), [""; 0], "{line}");
        }
    }
}
