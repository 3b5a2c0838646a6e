//! The options of `compare`.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::shell::cargo;
use crate::workspace::target_dir;

/// Help text of `cargo xtask compare`.
pub(crate) const USAGE: &str = "\
cargo xtask compare --validator FILE [OPTIONS]    a real solana-test-validator and hydrant test-validator, side by side

  --validator FILE   a solana-test-validator 4.2.2 that is there; `cargo xtask rig` builds one
  --hydrant FILE     a hydrant that is there [default: a debug build, which is built first]
  --dir DIR          where ledgers, logs and the list of differences are [default: target/compare]
  --calls COUNT      end after this many calls [default: all]

It sends both nodes the same transactions, calls and subscriptions, and sorts what differs: by nature or documented, as
xtask/src/compare/differences.toml says, or wrong. It fails if anything is wrong. It takes some minutes on two cores.
";

#[derive(Clone)]
pub(crate) struct Options {
    pub(crate) validator: PathBuf,
    pub(crate) hydrant: PathBuf,
    pub(crate) dir: PathBuf,
    pub(crate) calls_max: usize,
}

impl Options {
    pub(crate) fn parse(args: &[String]) -> Result<Self> {
        let mut validator = None;
        let mut hydrant = None;
        let mut dir = target_dir().join("compare");
        let mut calls_max = usize::MAX;
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value =
                || args.next().with_context(|| format!("{arg} needs a value\n\n{USAGE}"));
            match arg.as_str() {
                "--validator" => validator = Some(PathBuf::from(value()?)),
                "--hydrant" => hydrant = Some(PathBuf::from(value()?)),
                "--dir" => dir = value()?.into(),
                "--calls" => calls_max = value()?.parse().context("--calls")?,
                other => bail!("no option named `{other}`\n\n{USAGE}"),
            }
        }
        let validator = validator.with_context(|| format!("--validator is missing\n\n{USAGE}"))?;
        let hydrant = match hydrant {
            Some(hydrant) => hydrant,
            None => {
                cargo().args(["build", "--quiet", "-p", "hydrant"]).run()?;
                target_dir().join("debug/hydrant")
            }
        };
        std::fs::create_dir_all(&dir)?;
        Ok(Self { validator, hydrant, dir: dir.canonicalize()?, calls_max })
    }
}
