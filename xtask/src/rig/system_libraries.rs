//! Replacement of RocksDB and protoc in the validator's build by Debian's packages. That halves its time.
//!
//! Shape: the package `protobuf-src`, which compiles protoc, is replaced by one that names Debian's. Debian's RocksDB
//! is older than the bindings, so it lacks some of their functions: they are linked as functions that do nothing. The
//! validator calls few of them, for statistics and options of the storage. Nothing of this is in a program of ours.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::shell::{Cmd, cargo};

/// Directory of Debian's RocksDB.
pub(crate) const LIBRARY_DIR: &str = "/usr/lib/x86_64-linux-gnu";
/// Prefix of the functions of RocksDB.
const PREFIX: &str = "rocksdb_";

/// Writes a package that replaces `protobuf-src`. Returns its directory.
pub(crate) fn protoc_package(dir: &Path) -> Result<PathBuf> {
    let package = dir.join("protobuf-src");
    fs::create_dir_all(package.join("src"))?;
    let manifest = "[package]\nname = \"protobuf-src\"\nversion = \"1.1.0+21.5\"\nedition = \"2021\"\n\n[workspace]\n";
    fs::write(package.join("Cargo.toml"), manifest)?;
    let path = |name: &str, path: &str| {
        format!("pub fn {name}() -> std::path::PathBuf {{\n    {path:?}.into()\n}}\n")
    };
    let text = path("protoc", "/usr/bin/protoc") + &path("include", "/usr/include");
    fs::write(package.join("src/lib.rs"), text)?;
    Ok(package)
}

/// Compiles the functions of RocksDB that the bindings of a workspace declare and Debian's library lacks. Returns the
/// object file.
pub(crate) fn missing_functions(dir: &Path, manifest: &Path, config: &[String]) -> Result<PathBuf> {
    let manifest = manifest.to_string_lossy();
    let args = ["metadata", "--format-version", "1", "--manifest-path", &manifest];
    let metadata = cargo().args(args).args(config).output()?;
    let metadata: Value = serde_json::from_str(&metadata)?;
    let packages = metadata["packages"].as_array().context("no packages")?;
    let bindings = packages.iter().find(|package| package["name"] == "librocksdb-sys");
    let bindings = bindings.and_then(|it| it["manifest_path"].as_str()).context("no bindings")?;
    let header = Path::new(bindings).with_file_name("rocksdb/include/rocksdb/c.h");
    let declared =
        parse_declarations(&fs::read_to_string(&header).context("the header of RocksDB")?);
    let library = format!("{LIBRARY_DIR}/librocksdb.so");
    let symbols = Cmd::new("nm").args(["-D", "--defined-only", &library]).output()?;
    let defined: BTreeSet<&str> =
        symbols.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    ensure!(defined.iter().any(|name| name.starts_with(PREFIX)), "{library} has no functions");
    let missing = declared.iter().filter(|name| !defined.contains(name.as_str()));
    let text: String =
        missing.map(|name| format!("void *{name}(void) {{ return 0; }}\n")).collect();
    let source = dir.join("missing.c");
    let object = dir.join("missing.o");
    fs::write(&source, text)?;
    let files = [source.to_string_lossy(), object.to_string_lossy()];
    Cmd::new("cc").args(["-O1", "-c", &files[0], "-o", &files[1]]).run()?;
    Ok(object)
}

/// Returns the names of the functions that a header declares.
fn parse_declarations(header: &str) -> BTreeSet<String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut names = BTreeSet::new();
    for (at, _) in header.match_indices(PREFIX) {
        let rest = &header[at..];
        let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        let is_whole = !header[..at].chars().next_back().is_some_and(is_name);
        if is_whole && rest[end..].starts_with('(') {
            names.insert(rest[..end].to_owned());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_and_types_are_not() {
        let header = "extern LIB rocksdb_t* rocksdb_open(\n const rocksdb_options_t* o);\n\
                      enum { rocksdb_bottommost = 1 };\nvoid my_rocksdb_call(int);";
        assert_eq!(parse_declarations(header), BTreeSet::from(["rocksdb_open".to_owned()]));
    }
}
