//! The options of `cargo xtask dist`.

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};

use crate::workspace::target_dir;

pub(crate) const USAGE: &str = "\
cargo xtask dist [OPTIONS]

Makes a tarball, a Debian package, an OCI image layout, npm packages, a Python wheel, an install script and a bill of
materials. The same program gives the same bytes: what has a time is of SOURCE_DATE_EPOCH, or else of the newest commit.

  --binary PATH      package this program, which must have been built with `--features cluster`; otherwise a release
                     build with it
  --out DIR          write there [default: target/dist]
  --release-url URL  the files will be at URL/vVERSION/: the npm launcher and the install script download from there,
                     and a Homebrew formula is written
  --check            then install and run each package, as far as this machine allows
  --strict           with --check: fail if this machine cannot run one of the checks";

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) binary: Option<PathBuf>,
    pub(crate) out: PathBuf,
    pub(crate) release_url: Option<String>,
    pub(crate) is_checked: bool,
    pub(crate) is_strict: bool,
}

impl Options {
    pub(crate) fn parse(args: &[String]) -> Result<Self> {
        let mut options = Self {
            binary: None,
            out: target_dir().join("dist"),
            release_url: None,
            is_checked: false,
            is_strict: false,
        };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().with_context(|| format!("{arg} needs a value"));
            match arg.as_str() {
                "--binary" => options.binary = Some(value()?.into()),
                "--out" => options.out = value()?.into(),
                "--release-url" => {
                    options.release_url = Some(value()?.trim_end_matches('/').to_owned());
                }
                "--check" => options.is_checked = true,
                "--strict" => options.is_strict = true,
                _ => bail!("no option is named `{arg}`\n\n{USAGE}"),
            }
        }
        ensure!(options.is_checked || !options.is_strict, "--strict needs --check");
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Options> {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        Options::parse(&args)
    }

    #[test]
    fn options_are_read_and_others_refused() {
        let options = parse(&["--binary", "a", "--out", "b", "--release-url", "u/", "--check"]);
        let expected = Options {
            binary: Some("a".into()),
            out: "b".into(),
            release_url: Some("u".to_owned()),
            is_checked: true,
            is_strict: false,
        };
        assert_eq!(options.unwrap(), expected);
        assert!(parse(&["--strict", "--check"]).unwrap().is_strict);
        assert!(parse(&["--strict"]).unwrap_err().to_string().contains("--strict needs --check"));
        assert!(parse(&["--out"]).unwrap_err().to_string().contains("--out needs a value"));
        assert!(parse(&["--docker"]).unwrap_err().to_string().contains("--release-url"));
    }
}
