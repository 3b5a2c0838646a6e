//! The program to package: its architecture, its features, and the libraries of the system that it needs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};

use crate::shell::Cmd;

/// Its version, which is that of every package.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// First bytes of an ELF file, for 64 bits and little endian.
const ELF_START: &[u8] = b"\x7fELF\x02\x01";
/// Offset of the two bytes that name its machine.
const MACHINE_OFFSET: usize = 18;
/// Prefix of the versions of the C library that it names.
const GLIBC_PREFIX: &[u8] = b"GLIBC_2.";
/// Text that precedes the compiler's version in a compiled program.
const RUSTC_PREFIX: &[u8] = b"rustc version ";

/// A processor by the names that package formats have for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Architecture {
    machine: u16,
    /// Output of `uname -m`.
    pub(crate) uname: &'static str,
    /// Name in Debian packages and in container images.
    pub(crate) debian: &'static str,
    /// Condition in a Homebrew formula.
    pub(crate) homebrew: &'static str,
    /// Value of `process.arch` in Node.js.
    pub(crate) node: &'static str,
}

/// The processors for which there are packages.
pub(crate) const ARCHITECTURES: [Architecture; 2] = [
    Architecture {
        machine: 62,
        uname: "x86_64",
        debian: "amd64",
        homebrew: "on_intel",
        node: "x64",
    },
    Architecture {
        machine: 183,
        uname: "aarch64",
        debian: "arm64",
        homebrew: "on_arm",
        node: "arm64",
    },
];

impl Architecture {
    /// Returns the target triple of its programs.
    pub(crate) fn target(&self) -> String {
        format!("{}-unknown-linux-gnu", self.uname)
    }
}

/// A program for Linux, with the facts read from its file.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    pub(crate) bytes: Arc<[u8]>,
    pub(crate) architecture: Architecture,
}

impl Program {
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let bytes = fs::read(path).with_context(|| format!("--binary {}", path.display()))?;
        let architecture = architecture(&bytes).with_context(|| path.display().to_string())?;
        Ok(Self { path: path.to_owned(), bytes: bytes.into(), architecture })
    }

    /// Checks that the program has the feature `cluster`: the bill of materials lists its packages, and the documents
    /// describe its commands. Runs a command that a program without the feature refuses, for an empty store in `dir`.
    pub(crate) fn check_cluster_feature(&self, dir: &Path) -> Result<()> {
        fs::create_dir_all(dir).with_context(|| format!("create {}", dir.display()))?;
        let url = format!("file://{}", dir.display());
        let hydrant = self.path.to_string_lossy();
        let listed = Cmd::new(&hydrant).args(["snapshots", &url]).output();
        let checked = listed.and_then(|listed| {
            let is_expected = listed.trim() == "No snapshots of cluster local";
            ensure!(is_expected, "hydrant snapshots: {listed}");
            Ok(())
        });
        checked.with_context(|| format!("{hydrant} must be built with `--features cluster`"))
    }

    /// Returns the oldest C library that has all versions which the program names, such as `2.34`.
    pub(crate) fn glibc_version(&self) -> Result<String> {
        let minor = glibc_minor(&self.bytes).context("it names no version of the C library")?;
        Ok(format!("2.{minor}"))
    }

    /// Returns the version of the compiler that made it, and so of the standard library. `None` if the program does not
    /// say so.
    pub(crate) fn rustc_version(&self) -> Option<String> {
        rustc_version(&self.bytes)
    }

    /// Returns the libraries that the loader opens, and the loader, by their paths on this machine.
    pub(crate) fn libraries(&self) -> Result<BTreeMap<String, Vec<u8>>> {
        let listed = Cmd::new("ldd").args([self.path.to_string_lossy()]).output()?;
        let paths = library_paths(&listed)?;
        ensure!(!paths.is_empty(), "ldd names no library");
        let read = |path: &str| {
            Ok((path.to_owned(), fs::read(path).with_context(|| format!("read {path}"))?))
        };
        paths.into_iter().map(read).collect()
    }
}

fn architecture(elf: &[u8]) -> Result<Architecture> {
    ensure!(elf.starts_with(ELF_START), "no program for Linux with 64 bits");
    let machine = elf.get(MACHINE_OFFSET..MACHINE_OFFSET + 2).context("it is cut off")?;
    let machine = u16::from_le_bytes([machine[0], machine[1]]);
    let found = ARCHITECTURES.into_iter().find(|it| it.machine == machine);
    found.with_context(|| format!("machine {machine} is neither x86_64 nor aarch64"))
}

/// Returns the greatest number after [`GLIBC_PREFIX`].
fn glibc_minor(program: &[u8]) -> Option<u32> {
    let digits = |after: &[u8]| leading_text(after, |byte| byte.is_ascii_digit());
    texts_after(program, GLIBC_PREFIX).filter_map(|after| digits(after).parse().ok()).max()
}

/// Returns the first version after [`RUSTC_PREFIX`].
fn rustc_version(program: &[u8]) -> Option<String> {
    let after = texts_after(program, RUSTC_PREFIX).next()?;
    Some(leading_text(after, |byte| byte.is_ascii_graphic()))
}

/// Returns the rest of `bytes` after each `prefix`.
pub(crate) fn texts_after<'a>(bytes: &'a [u8], prefix: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        loop {
            let start = rest.iter().position(|byte| Some(byte) == prefix.first())?;
            let found = rest[start..].strip_prefix(prefix);
            rest = found.unwrap_or_else(|| &rest[start + 1..]);
            if found.is_some() {
                return found;
            }
        }
    })
}

/// Returns the bytes up to the first one that is not `is_part`.
pub(crate) fn leading_text(bytes: &[u8], is_part: impl Fn(u8) -> bool) -> String {
    bytes.iter().copied().take_while(|byte| is_part(*byte)).map(char::from).collect()
}

/// Returns the paths in the output of `ldd`. The page that the kernel provides has none.
fn library_paths(listed: &str) -> Result<Vec<&str>> {
    let mut paths = Vec::new();
    for line in listed.lines().map(str::trim) {
        let file = line.split_once(" => ").map_or(line, |(_, file)| file);
        if file.starts_with("not found") {
            bail!("a library of the program is not on this machine: {line}");
        }
        let path = file.split(' ').next().unwrap_or_default();
        if path.starts_with('/') {
            paths.push(path);
        }
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_read_from_the_header() {
        let mut elf = ELF_START.to_vec();
        elf.resize(MACHINE_OFFSET, 0);
        assert!(architecture(&elf).is_err());
        elf.extend(183_u16.to_le_bytes());
        assert_eq!(architecture(&elf).unwrap().debian, "arm64");
        elf[MACHINE_OFFSET] = 3;
        assert!(architecture(&elf).unwrap_err().to_string().contains("machine 3"));
        assert!(architecture(b"#!/bin/sh").is_err());
    }

    #[test]
    fn the_newest_c_library_version_counts() {
        assert_eq!(glibc_minor(b"..GLIBC_2.9\0GGLIBC_2.34\0GLIBC_2.4"), Some(34));
        assert_eq!(glibc_minor(b"GLIBC_2.x GLIBC_PRIVATE"), None);
    }

    #[test]
    fn the_compiler_version_is_found() {
        let comment = b"GCC: (Debian)\0rustc version 1.95.0 (59807616e 2026-04-14)\0";
        assert_eq!(rustc_version(comment).as_deref(), Some("1.95.0"));
        assert_eq!(rustc_version(b"GCC: (Debian)"), None);
    }

    #[test]
    fn libraries_have_paths_and_a_missing_one_is_an_error() {
        let listed = "\tlinux-vdso.so.1 (0x00007f5e)\n\tlibc.so.6 => /lib/libc.so.6 (0x0000)\n\
                      \t/lib64/ld-linux-x86-64.so.2 (0x0000)\n";
        let paths = library_paths(listed).unwrap();
        assert_eq!(paths, ["/lib/libc.so.6", "/lib64/ld-linux-x86-64.so.2"]);
        assert!(library_paths("\tlibz.so.1 => not found\n").is_err());
    }
}
