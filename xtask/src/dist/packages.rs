//! All packages of a program, by the names of their files.
//!
//! In: the program, a time, where releases are. Out: a tree of files; the image also as the files of its layout.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::dist::debian;
use crate::dist::file_tree::{FileTree, gzip, sha256};
use crate::dist::image;
use crate::dist::installed_files::{installed_files, packaging};
use crate::dist::program::Program;

/// The version of every package.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The file with the digests of the packages.
const DIGESTS: &str = "SHA256SUMS";

/// What packages are made from.
pub(crate) struct PackageSources {
    pub(crate) program: Program,
    /// In seconds of the Unix epoch.
    pub(crate) time: u64,
    pub(crate) release_url: Option<String>,
    /// A directory that may be written to.
    pub(crate) scratch: PathBuf,
}

impl PackageSources {
    /// Makes all packages.
    pub(crate) fn make(&self) -> Result<FileTree> {
        let Self { program, time, .. } = self;
        let installed = installed_files(program, &self.scratch)?;
        let mut tarball = FileTree::default();
        tarball.insert_tree(&format!("{}/", self.tarball_dir()), &installed);
        let tarball = gzip(&tarball.tar(*time)?)?;
        let image = image::layout(program, VERSION, *time)?;
        let mut packages = FileTree::default();
        let formula = self.release_url.as_ref().map(|url| self.formula(url, &tarball));
        packages.insert_file(&self.tarball_name(), tarball);
        packages.insert_file(
            &debian::file_name(program, VERSION),
            debian::package(&installed, program, VERSION, *time)?,
        );
        packages.insert_file(&format!("{}.tar", self.image_dir()), image.tar(*time)?);
        let digests: String =
            packages.files().map(|(name, bytes)| format!("{}  {name}\n", sha256(bytes))).collect();
        packages.insert_file(DIGESTS, digests.into_bytes());
        packages.insert_tree(&format!("{}/", self.image_dir()), &image);
        if let Some(formula) = formula.transpose()? {
            packages.insert_file("hydrant.rb", formula.into_bytes());
        }
        Ok(packages)
    }

    /// The Debian package of another version, to which the current one is upgraded in a check.
    pub(crate) fn debian_package(&self, version: &str) -> Result<Vec<u8>> {
        let installed = installed_files(&self.program, &self.scratch)?;
        debian::package(&installed, &self.program, version, self.time)
    }

    pub(crate) fn tarball_name(&self) -> String {
        format!("{}.tar.gz", self.tarball_dir())
    }

    /// The only directory at the root of the tarball.
    pub(crate) fn tarball_dir(&self) -> String {
        format!("hydrant-{VERSION}-{}-linux", self.program.architecture.uname)
    }

    /// The directory of the image layout.
    pub(crate) fn image_dir(&self) -> String {
        format!("hydrant-{VERSION}-oci-{}", self.program.architecture.debian)
    }

    fn formula(&self, release_url: &str, tarball: &[u8]) -> Result<String> {
        let template = packaging("homebrew/hydrant.rb.in")?;
        let template = String::from_utf8(template).context("the template of the formula")?;
        let url = format!("{release_url}/v{VERSION}/{}", self.tarball_name());
        Ok(formula(&template, &url, &sha256(tarball), self.program.architecture.homebrew))
    }
}

/// Removes the directory, which an earlier run has written, so that no blob of it is left.
pub(crate) fn remove_directory(dir: &Path) -> Result<()> {
    if dir.exists() {
        std::fs::remove_dir_all(dir).with_context(|| format!("remove {}", dir.display()))?;
    }
    Ok(())
}

/// The formula for the archive at `url`. Its homepage is the part of the URL before the releases.
fn formula(template: &str, url: &str, sha256: &str, on_architecture: &str) -> String {
    let homepage = url.split("/releases/").next().unwrap_or(url);
    let values = [
        ("@HOMEPAGE@", homepage),
        ("@VERSION@", VERSION),
        ("@URL@", url),
        ("@SHA256@", sha256),
        ("@ON_ARCHITECTURE@", on_architecture),
    ];
    values.iter().fold(template.to_owned(), |text, (name, value)| text.replace(name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_formula_has_its_archive_and_no_name_of_a_value() {
        let template = String::from_utf8(packaging("homebrew/hydrant.rb.in").unwrap()).unwrap();
        let url = "https://host.example/o/hydrant/releases/download/v1/a.tar.gz";
        let formula = formula(&template, url, "abc", "on_arm");
        for line in [
            &format!("url \"{url}\""),
            "homepage \"https://host.example/o/hydrant\"",
            "sha256 \"abc\"",
            "on_arm do",
        ] {
            assert!(formula.lines().any(|it| it.trim() == line), "no {line} in {formula}");
        }
        assert!(!formula.contains('@'), "{formula}");
    }
}
