//! Import circles: files of one crate that import each other.
//!
//! Input: the `.rs` files of each crate. Output: one complaint for each circle, with the imports of each file from the
//! others. A circle is a strongly connected component of more than one file. `pub use` leads on to the file that it
//! names, and counts as an import only if the re-exporting file itself uses the name. Code for tests does not count.
//! Not here: how a file's imports are read (`imports`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::imports::FileImports;
use super::source::Source;
use crate::workspace::Crate;

/// Circles that are not defects: crate, files, reason.
const ALLOWED: &[(&str, &[&str], &str)] =
    &[("testkit", &["toy_api", "toy_api::methods"], "an API is the table of methods that take it")];

/// Maximum number of re-exports through which a name is followed.
const REEXPORTS_MAX: usize = 16;

/// A module as its path below the crate: `[]` for `lib.rs`, `["pubsub", "session"]`.
type ModulePath = Vec<String>;

/// Returns a complaint for each circle in one crate.
pub(crate) fn check(krate: &Crate, sources: &[Source]) -> Vec<String> {
    let name = krate.name.as_str();
    let src = krate.dir.join("src");
    let mut circles = Vec::new();
    for modules in module_trees(&src, sources) {
        circles.extend(modules.circles());
    }
    let allowed: Vec<_> = ALLOWED.iter().filter(|(of, ..)| *of == name).collect();
    let is_same = |circle: &Circle, files: &[&str]| circle.files == *files;
    let mut complaints: Vec<String> = circles
        .iter()
        .filter(|circle| !allowed.iter().any(|(_, files, _)| is_same(circle, files)))
        .map(|circle| format!("{name}: import circle: {}", circle.describe()))
        .collect();
    for (_, files, _) in allowed {
        if !circles.iter().any(|circle| is_same(circle, files)) {
            complaints.push(format!(
                "{name}: {} are no import circle; take them out of ALLOWED in xtask/src/tidy/circles.rs",
                files.join(", ")
            ));
        }
    }
    complaints
}

/// Files that import each other.
#[derive(Debug, PartialEq)]
struct Circle {
    files: Vec<String>,
    /// From file, to file, the names.
    imports: Vec<(String, String, Vec<String>)>,
}

impl Circle {
    fn describe(&self) -> String {
        let line = |(from, to, names): &(String, String, Vec<String>)| {
            format!("{from} takes {} from {to}", names.join(", "))
        };
        self.imports.iter().map(line).collect::<Vec<_>>().join("; ")
    }
}

/// The modules below one `lib.rs` or `main.rs`.
struct ModuleTree {
    modules: BTreeMap<ModulePath, FileImports>,
}

/// Returns each tree of modules in a folder: that of the crate, and those of its other programs.
fn module_trees(src: &Path, sources: &[Source]) -> Vec<ModuleTree> {
    let is_root = |path: &Path| path.ends_with("lib.rs") || path.ends_with("main.rs");
    let files: Vec<&Source> = sources.iter().filter(|one| one.path.starts_with(src)).collect();
    let roots: BTreeSet<&Path> =
        files.iter().filter(|one| is_root(&one.path)).filter_map(|one| one.path.parent()).collect();
    roots.iter().map(|root| ModuleTree::new(root, &roots, &files)).collect()
}

impl ModuleTree {
    /// Makes the tree of the files for which `root` is the nearest of all `roots`.
    fn new(root: &Path, roots: &BTreeSet<&Path>, files: &[&Source]) -> Self {
        let mut modules = BTreeMap::new();
        for file in files {
            let nearest = file.path.ancestors().find(|folder| roots.contains(folder));
            let is_program = file.path.starts_with(root.join("bin"));
            if nearest == Some(root) && !is_program {
                modules.insert(module_path(root, &file.path), FileImports::parse(&file.text));
            }
        }
        let mut tree = Self { modules };
        tree.add_files_elsewhere();
        tree.remove_test_modules();
        tree
    }

    /// Adds modules whose files are in another tree (`#[path]`), without imports.
    fn add_files_elsewhere(&mut self) {
        let declared: Vec<ModulePath> = self
            .modules
            .iter()
            .flat_map(|(module, file)| {
                let child =
                    |name: &String| [module.as_slice(), std::slice::from_ref(name)].concat();
                file.modules.iter().map(child)
            })
            .collect();
        for module in declared {
            self.modules.entry(module).or_default();
        }
    }

    fn remove_test_modules(&mut self) {
        let mut for_tests = Vec::new();
        for (module, file) in &self.modules {
            for name in &file.test_modules {
                for_tests.push([module.as_slice(), std::slice::from_ref(name)].concat());
            }
        }
        self.modules.retain(|module, _| !for_tests.iter().any(|test| module.starts_with(test)));
    }

    /// Resolves a path in `module` to a file and the name in it; no name if the path leads to the file itself.
    /// `None` if it leads out of the crate.
    fn resolve<'a>(
        &self,
        module: &ModulePath,
        path: &'a [String],
        reexports: usize,
    ) -> Option<(ModulePath, Option<&'a str>)> {
        let (first, mut rest) = path.split_first()?;
        let mut at = module.clone();
        let mut name = None;
        match first.as_str() {
            "crate" => at.clear(),
            "self" => {}
            "super" => drop(at.pop()),
            _ => (at, name) = self.step(module, first, true, reexports)?,
        }
        while let Some((segment, after)) = rest.split_first() {
            if name.is_some() {
                break;
            }
            if segment == "super" {
                at.pop();
            } else {
                (at, name) = match self.step(&at, segment, false, reexports) {
                    Some(next) => next,
                    None => (at, Some(segment.as_str())),
                };
            }
            rest = after;
        }
        Some((at, name))
    }

    /// Resolves one segment: into a module, or through an import. `None` if `module` has neither.
    fn step<'a>(
        &self,
        module: &ModulePath,
        segment: &'a str,
        is_own: bool,
        reexports: usize,
    ) -> Option<(ModulePath, Option<&'a str>)> {
        let child = [module.as_slice(), &[segment.to_owned()]].concat();
        if self.modules.contains_key(&child) {
            return Some((child, None));
        }
        let imports = &self.modules.get(module)?.imports;
        let import = imports
            .iter()
            .find(|one| one.name.as_deref() == Some(segment) && (is_own || one.is_reexport))?;
        let reexports = reexports.checked_sub(1)?;
        // The first segment of `use a::a` is not an import, or it would lead to itself.
        let (at, name) = self.resolve_import(module, &import.path, reexports)?;
        Some((at, name.map(|_| segment)))
    }

    /// Resolves the path of a `use` declaration. It does not start with a name that another declaration brings in.
    fn resolve_import<'a>(
        &self,
        module: &ModulePath,
        path: &'a [String],
        reexports: usize,
    ) -> Option<(ModulePath, Option<&'a str>)> {
        let first = path.first()?;
        let child = [module.as_slice(), std::slice::from_ref(first)].concat();
        let is_ours = matches!(first.as_str(), "crate" | "self" | "super")
            || self.modules.contains_key(&child);
        is_ours.then(|| self.resolve(module, path, reexports)).flatten()
    }

    /// Returns the names that `module` imports from other files, by file.
    fn collect_imports(&self, module: &ModulePath) -> BTreeMap<ModulePath, BTreeSet<String>> {
        let mut found: BTreeMap<ModulePath, BTreeSet<String>> = BTreeMap::new();
        let mut add = |target: Option<(ModulePath, Option<&str>)>, is_glob: bool| {
            let Some((to, name)) = target else { return };
            let name = if is_glob { Some("*") } else { name };
            if let Some(name) = name
                && to != *module
            {
                found.entry(to).or_default().insert(name.to_owned());
            }
        };
        let file = &self.modules[module];
        for import in &file.imports {
            let is_used = import.name.as_ref().is_some_and(|name| file.words.contains(name));
            if !import.is_reexport || is_used {
                let target = self.resolve_import(module, &import.path, REEXPORTS_MAX);
                add(target, import.name.is_none());
            }
        }
        for path in &file.paths {
            add(self.resolve(module, path, REEXPORTS_MAX), false);
        }
        found
    }

    fn circles(&self) -> Vec<Circle> {
        let imports: BTreeMap<&ModulePath, _> =
            self.modules.keys().map(|module| (module, self.collect_imports(module))).collect();
        let reached: BTreeMap<&ModulePath, BTreeSet<&ModulePath>> =
            self.modules.keys().map(|module| (module, reachable(module, &imports))).collect();
        let mut circles = Vec::new();
        let mut seen = BTreeSet::new();
        for module in self.modules.keys() {
            let is_member = |other: &&ModulePath| {
                reached[module].contains(*other) && reached[*other].contains(module)
            };
            let members: Vec<&ModulePath> = self.modules.keys().filter(is_member).collect();
            if members.len() < 2 || !seen.insert(members.clone()) {
                continue;
            }
            let mut between = Vec::new();
            for from in &members {
                for (to, names) in imports[from].iter().filter(|(to, _)| members.contains(to)) {
                    between.push((show(from), show(to), names.iter().cloned().collect()));
                }
            }
            let files = members.iter().map(|member| show(member)).collect();
            circles.push(Circle { files, imports: between });
        }
        circles
    }
}

/// Returns all files that can be reached from a file by imports.
fn reachable<'a>(
    start: &'a ModulePath,
    imports: &'a BTreeMap<&ModulePath, BTreeMap<ModulePath, BTreeSet<String>>>,
) -> BTreeSet<&'a ModulePath> {
    let mut reached = BTreeSet::new();
    let mut open = vec![start];
    while let Some(module) = open.pop() {
        for to in imports.get(module).into_iter().flat_map(|targets| targets.keys()) {
            if reached.insert(to) {
                open.push(to);
            }
        }
    }
    reached
}

fn module_path(root: &Path, file: &Path) -> ModulePath {
    let below: PathBuf = file.strip_prefix(root).unwrap_or(file).with_extension("");
    let mut path: ModulePath =
        below.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if path.last().is_some_and(|last| last == "mod") || path == ["lib"] || path == ["main"] {
        path.pop();
    }
    path
}

fn show(module: &ModulePath) -> String {
    if module.is_empty() { "the root".to_owned() } else { module.join("::") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks a crate with these files below `src`.
    fn check_files(files: &[(&str, &str)]) -> Vec<String> {
        let dir = PathBuf::from("crates/x");
        let krate = Crate { name: "x".to_owned(), dir: dir.clone(), dependencies: Vec::new() };
        let source = |(path, text): &(&str, &str)| Source {
            path: dir.join("src").join(path),
            text: (*text).to_owned(),
        };
        check(&krate, &files.iter().map(source).collect::<Vec<_>>())
    }

    #[test]
    fn imports_in_one_direction_are_fine() {
        let files = [
            ("lib.rs", "mod a; mod b; pub use a::A; pub use b::{B, C};"),
            ("a.rs", "use crate::C; use crate::b::B; use std::fmt; struct A(B, C);"),
            ("b.rs", "pub struct B; pub struct C;"),
        ];
        assert_eq!(check_files(&files), [""; 0]);
    }

    #[test]
    fn files_that_import_each_other_are_caught() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::b::{self, B}; fn f() { b::g() }"),
            ("b.rs", "use crate::c::C;"),
            ("c.rs", "struct C(super::a::A);"),
        ];
        assert_eq!(
            check_files(&files),
            ["x: import circle: a takes B, g from b; b takes C from c; c takes A from a"]
        );
    }

    #[test]
    fn a_name_is_followed_through_reexports() {
        let files = [
            ("lib.rs", "mod a; mod b; pub use b::B;"),
            ("a.rs", "use crate::B;"),
            ("b/mod.rs", "mod inner; pub(crate) use self::inner::B;"),
            ("b/inner.rs", "use crate::a::A; struct B(A);"),
        ];
        assert_eq!(
            check_files(&files),
            ["x: import circle: a takes B from b::inner; b::inner takes A from a"]
        );
    }

    #[test]
    fn a_child_may_take_from_its_parent_unless_the_parent_takes_from_it() {
        let child = ("a/b.rs", "use super::A; impl A {} pub struct B;");
        assert_eq!(
            check_files(&[("lib.rs", "mod a;"), ("a.rs", "mod b; struct A;"), child]),
            [""; 0]
        );
        let parent = ("a.rs", "mod b; struct A(b::B);");
        assert_eq!(
            check_files(&[("lib.rs", "mod a;"), parent, child]),
            ["x: import circle: a takes B from a::b; a::b takes A from a"]
        );
    }

    #[test]
    fn code_for_tests_does_not_count() {
        let files = [
            ("lib.rs", "mod a; mod b; #[cfg(test)] mod tests;"),
            ("a.rs", "use crate::b::B; #[cfg(test)] pub fn help() { crate::tests::T }"),
            ("b.rs", "#[cfg(test)] mod tests { use crate::a::A; }"),
            ("tests.rs", "use crate::a::A; pub struct T;"),
        ];
        assert_eq!(check_files(&files), [""; 0]);
    }

    #[test]
    fn each_program_has_its_own_modules() {
        let files = [
            ("main.rs", "mod a; fn f() { a::g() }"),
            ("a.rs", "pub fn g() {}"),
            ("other/main.rs", "mod a; pub const X: u8 = 1; fn f() { a::g() }"),
            ("other/a.rs", "use crate::X; pub fn g() {}"),
            ("bin/third.rs", "fn main() { crate::f() }"),
        ];
        assert_eq!(
            check_files(&files),
            ["x: import circle: the root takes g from a; a takes X from the root"]
        );
    }

    #[test]
    fn a_module_with_a_file_in_another_folder_is_not_the_root() {
        let files = [
            ("lib.rs", "mod m;"),
            ("m.rs", "pub fn print() {}"),
            ("other/main.rs", "#[path = \"../m.rs\"] mod m; mod a; fn f() { a::g() }"),
            ("other/a.rs", "use crate::m::print; pub fn g() { print() }"),
        ];
        assert_eq!(check_files(&files), [""; 0]);
    }
}
