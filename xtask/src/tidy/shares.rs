//! The share of each crate in the code of all crates: a crate that holds too much of it is split.
//!
//! Input: the `.rs` files below `src` of each crate, without tests. Output: one complaint for each crate above
//! [`SHARE_MAX`].

use super::source::Source;
use crate::workspace::Crate;

/// Maximum share of one crate, in percent of all lines.
const SHARE_MAX: f64 = 12.0;

/// Returns a complaint for each crate above the share.
pub(crate) fn check(crates: &[Crate], sources: &[Source]) -> Vec<String> {
    let sizes: Vec<(&str, usize)> =
        crates.iter().map(|krate| (krate.name.as_str(), lines(krate, sources))).collect();
    let all: usize = sizes.iter().map(|(_, lines)| lines).sum();
    let mut complaints = Vec::new();
    for (name, lines) in sizes {
        let share = 100.0 * lines as f64 / all.max(1) as f64;
        if share > SHARE_MAX {
            complaints.push(format!(
                "{name}: holds {share:.1} % of the code ({lines} lines), more than {SHARE_MAX} %; split it"
            ));
        }
    }
    complaints
}

fn lines(krate: &Crate, sources: &[Source]) -> usize {
    let src = krate.dir.join("src");
    let own = sources.iter().filter(|one| one.path.starts_with(&src) && !is_test(one));
    own.map(|one| before_tests(&one.text).lines().count()).sum()
}

fn is_test(source: &Source) -> bool {
    source.path.with_extension("").iter().any(|part| {
        let part = part.to_string_lossy();
        part == "tests" || part.ends_with("_tests")
    })
}

fn before_tests(text: &str) -> &str {
    text.split("\nmod tests {").next().unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks a workspace of crates with these numbers of lines.
    fn check_sizes(sizes: &[(&str, usize)]) -> Vec<String> {
        let krate = |name: &str| Crate {
            name: name.to_owned(),
            dir: format!("crates/{name}").into(),
            dependencies: Vec::new(),
        };
        let crates: Vec<Crate> = sizes.iter().map(|(name, _)| krate(name)).collect();
        let mut sources = Vec::new();
        for (name, lines) in sizes {
            let text = format!("{}mod tests {{\n{}}}\n", "x\n".repeat(*lines), "y\n".repeat(900));
            for (file, text) in
                [("lib.rs", text.as_str()), ("big_tests.rs", &text), ("a/tests/b.rs", &text)]
            {
                let path = format!("crates/{name}/src/{file}").into();
                sources.push(Source { path, text: text.to_owned() });
            }
        }
        check(&crates, &sources)
    }

    #[test]
    fn a_crate_with_too_much_code_is_caught_and_its_tests_do_not_count() {
        let nine: Vec<String> = (0..9).map(|n| format!("c{n}")).collect();
        let mut sizes: Vec<(&str, usize)> = nine.iter().map(|name| (name.as_str(), 100)).collect();
        sizes.push(("large", 122));
        assert_eq!(check_sizes(&sizes), [""; 0]);
        sizes[9].1 = 130;
        assert_eq!(
            check_sizes(&sizes),
            ["large: holds 12.6 % of the code (130 lines), more than 12 %; split it"]
        );
    }
}
