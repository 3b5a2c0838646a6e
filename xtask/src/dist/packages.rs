//! All packages of a program, by the names of their files.
//!
//! Input: the program, a time, where releases are. Output: a tree of files; the image also as the files of its layout.

use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::dist::debian;
use crate::dist::file_tree::{FileTree, gzip, sha256};
use crate::dist::image;
use crate::dist::install_script;
use crate::dist::installed_files::{installed_files, packaging};
use crate::dist::npm;
use crate::dist::program::{Program, VERSION};
use crate::dist::sbom;
use crate::dist::wheel;

/// The file with the digests of the packages.
const DIGESTS: &str = "SHA256SUMS";

/// Files and facts from which the packages are made.
pub(crate) struct PackageSources {
    pub(crate) program: Program,
    /// In seconds of the Unix epoch.
    pub(crate) time: u64,
    pub(crate) release_url: Option<String>,
    /// A directory that may be written to.
    pub(crate) scratch: PathBuf,
}

impl PackageSources {
    /// Makes all packages of the program.
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
        let release_url = self.release_url.as_deref();
        let script = install_script::script(release_url)?;
        packages.insert_program(install_script::FILE_NAME, script.into_bytes());
        packages.insert_file(&npm::file_name(npm::LAUNCHER), self.npm_launcher(release_url)?);
        packages.insert_file(
            &npm::file_name(&npm::platform_name(program.architecture)),
            npm::platform(program.architecture, &program.bytes, *time)?,
        );
        let sbom = sbom::document(program, *time)?;
        packages.insert_file(&wheel::file_name(program)?, wheel::wheel(program, &sbom)?);
        packages.insert_file(&self.sbom_name(), sbom);
        let digests: String =
            packages.files().map(|(name, bytes)| format!("{}  {name}\n", sha256(bytes))).collect();
        packages.insert_file(DIGESTS, digests.into_bytes());
        packages.insert_tree(&format!("{}/", self.image_dir()), &image);
        if let Some(formula) = formula.transpose()? {
            packages.insert_file("hydrant.rb", formula.into_bytes());
        }
        Ok(packages)
    }

    /// Returns the Debian package of another version, to which the current one is upgraded in a check.
    pub(crate) fn debian_package(&self, version: &str) -> Result<Vec<u8>> {
        let installed = installed_files(&self.program, &self.scratch)?;
        debian::package(&installed, &self.program, version, self.time)
    }

    pub(crate) fn tarball_name(&self) -> String {
        format!("{}.tar.gz", self.tarball_dir())
    }

    /// Returns the only directory at the root of the tarball.
    pub(crate) fn tarball_dir(&self) -> String {
        format!("hydrant-{VERSION}-{}-linux", self.program.architecture.uname)
    }

    /// Returns the tarball of the launcher for npm, with a release or without.
    pub(crate) fn npm_launcher(&self, release_url: Option<&str>) -> Result<Vec<u8>> {
        npm::launcher(self.program.architecture, release_url, self.time)
    }

    /// Returns the file name of the bill of materials.
    pub(crate) fn sbom_name(&self) -> String {
        format!("{}.cdx.json", self.tarball_dir())
    }

    /// Returns the directory of the image layout.
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

/// Returns the formula for the archive at `url`. Its homepage is the part of the URL before the releases.
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
    fn a_formula_has_its_archive_and_no_placeholder() {
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
