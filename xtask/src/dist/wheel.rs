//! The Python wheel: a zip archive from which pip installs the program as a command.
//!
//! Input: the program, its SBOM. Output: the bytes of the wheel, for any Python 3.
//! Shape: the program is in `.data/scripts`, which pip copies into the directory of commands. The tag names the oldest
//! C library that the program runs with, so pip refuses the wheel elsewhere.
//! Invariant: the distribution is not named `hydrant`: on PyPI that name belongs to other people, and an upgrade by
//! name would install their package.

use anyhow::{Context, Result};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use crate::dist::file_tree::FileTree;
use crate::dist::installed_files::license;
use crate::dist::program::{Program, VERSION};

/// The name of the distribution.
pub(crate) const DISTRIBUTION: &str = "hydrant-node";
/// Libraries that each system of a `manylinux` tag has (PEP 600), without the version behind the name.
const SYSTEM_LIBRARIES: &[&str] =
    &["ld-linux-", "libc.", "libdl.", "libgcc_s.", "libm.", "libpthread.", "librt."];
/// Pre-releases by their names in Cargo and in Python (PEP 440).
const PRE_RELEASES: &[(&str, &str)] = &[("-alpha.", "a"), ("-beta.", "b"), ("-rc.", "rc")];

/// Returns the file name of the wheel.
pub(crate) fn file_name(program: &Program) -> Result<String> {
    Ok(format!("{}-{}.whl", stem()?, tag(program)?))
}

/// Returns the bytes of the wheel.
pub(crate) fn wheel(program: &Program, sbom: &[u8]) -> Result<Vec<u8>> {
    let stem = stem()?;
    let info = format!("{stem}.dist-info");
    let mut files = FileTree::default();
    files.insert_program(&format!("{stem}.data/scripts/hydrant"), program.bytes.clone());
    files.insert_file(&format!("{info}/LICENSE"), license()?);
    files.insert_file(&format!("{info}/METADATA"), metadata()?.into_bytes());
    let description = format!(
        "Wheel-Version: 1.0\nGenerator: cargo-xtask-dist {VERSION}\nRoot-Is-Purelib: false\nTag: {}\n",
        tag(program)?
    );
    files.insert_file(&format!("{info}/WHEEL"), description.into_bytes());
    // PEP 770: tools search for a bill of materials here.
    files.insert_file(&format!("{info}/sboms/hydrant.cdx.json"), sbom);
    let record = format!("{info}/RECORD");
    let lines = record_lines(&files, &record);
    files.insert_file(&record, lines.into_bytes());
    files.zip()
}

/// Returns the distribution and the version, in the form of names of files.
fn stem() -> Result<String> {
    Ok(format!("{}-{}", DISTRIBUTION.replace('-', "_"), python_version(VERSION)?))
}

fn metadata() -> Result<String> {
    Ok(format!(
        "Metadata-Version: 2.1\n\
         Name: {DISTRIBUTION}\n\
         Version: {}\n\
         Summary: Read node for Solana ledgers, and a local Solana ledger for tests\n\
         License: Apache-2.0\n\
         Classifier: License :: OSI Approved :: Apache Software License\n\
         Classifier: Operating System :: POSIX :: Linux\n\
         Requires-Python: >=3.7\n\
         Description-Content-Type: text/markdown\n\
         \n\
         `hydrant dev` starts a local Solana ledger in place of `solana-test-validator`. The package has the program,\n\
         and no module for `import`.\n",
        python_version(VERSION)?
    ))
}

/// Returns the tag: any Python 3, no interface of Python, and the platform.
fn tag(program: &Program) -> Result<String> {
    let libraries = program.libraries()?;
    let platform = platform_tag(libraries.keys().map(String::as_str), &program.glibc_version()?);
    Ok(format!("py3-none-{platform}_{}", program.architecture.uname))
}

/// Returns `manylinux` with the version of the C library if the program needs only libraries that all systems have.
fn platform_tag<'a>(libraries: impl IntoIterator<Item = &'a str>, glibc_version: &str) -> String {
    let is_of_system = |path: &str| {
        let name = path.rsplit('/').next().unwrap_or(path);
        SYSTEM_LIBRARIES.iter().any(|prefix| name.starts_with(prefix))
    };
    if libraries.into_iter().all(is_of_system) {
        format!("manylinux_{}", glibc_version.replace('.', "_"))
    } else {
        "linux".to_owned()
    }
}

/// Returns the version of a package of Cargo in the form of Python.
fn python_version(version: &str) -> Result<String> {
    if !version.contains(['-', '+']) {
        return Ok(version.to_owned());
    }
    let renamed = PRE_RELEASES.iter().find_map(|(cargo, python)| {
        let (release, number) = version.split_once(cargo)?;
        let number: u32 = number.parse().ok()?;
        Some(format!("{release}{python}{number}"))
    });
    renamed.with_context(|| format!("{version}: not -alpha.N, -beta.N or -rc.N, as Python has it"))
}

/// Returns the list of all files with their digests. It names itself without one.
fn record_lines(files: &FileTree, record: &str) -> String {
    let mut lines = String::new();
    for (path, bytes) in files.files() {
        let digest = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(bytes));
        lines += &format!("{path},sha256={digest},{}\n", bytes.len());
    }
    lines + record + ",,\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_other_systems_lack_makes_a_wheel_for_this_one() {
        let system = ["/lib/libc.so.6", "/lib/libgcc_s.so.1", "/lib64/ld-linux-x86-64.so.2"];
        assert_eq!(platform_tag(system, "2.34"), "manylinux_2_34");
        let foreign = ["/lib/libc.so.6", "/lib/libcrypto.so.3"];
        assert_eq!(platform_tag(foreign, "2.34"), "linux");
    }

    #[test]
    fn versions_follow_python_s_rules() {
        assert_eq!(python_version("0.1.0").unwrap(), "0.1.0");
        assert_eq!(python_version("1.2.3-rc.4").unwrap(), "1.2.3rc4");
        assert_eq!(python_version("1.2.3-beta.0").unwrap(), "1.2.3b0");
        assert!(python_version("1.2.3-dev").unwrap_err().to_string().contains("1.2.3-dev"));
    }

    #[test]
    fn the_record_has_every_digest() {
        let mut files = FileTree::default();
        files.insert_file("a", *b"abc");
        let digest = "ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0";
        assert_eq!(record_lines(&files, "b"), format!("a,sha256={digest},3\nb,,\n"));
    }
}
