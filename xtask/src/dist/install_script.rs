//! The install script of a release: downloads the tarball of a version, compares its digest, and copies its files.
//!
//! Input: the template in `packaging`, and where releases are. Output: the script. The version is a default, so one
//! script installs any release.

use anyhow::{Context, Result};

use crate::dist::installed_files::packaging;
use crate::dist::program::VERSION;

pub(crate) const FILE_NAME: &str = "install.sh";

/// Returns the script. Without a URL its user has to name one.
pub(crate) fn script(release_url: Option<&str>) -> Result<String> {
    let template = packaging("install.sh.in")?;
    let template = String::from_utf8(template).context("the template of the install script")?;
    let values = [("@VERSION@", VERSION), ("@RELEASE_URL@", release_url.unwrap_or_default())];
    Ok(values.iter().fold(template, |text, (name, value)| text.replace(name, value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_has_the_version_and_the_url_as_defaults() {
        let script = script(Some("https://host.example/releases/download")).unwrap();
        assert!(script.contains(&format!("${{HYDRANT_VERSION:-{VERSION}}}")), "{script}");
        assert!(script.contains("RELEASE_URL:-https://host.example/releases/download}"));
        assert!(!script.contains("@VERSION") && !script.contains("@RELEASE"), "{script}");
    }
}
