//! The options of `bench rivals`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::workspace::target_dir;

/// Help text of `cargo xtask bench rivals`.
pub(super) const USAGE: &str = "\
cargo xtask bench rivals [OPTIONS]    Hydrant, solana-test-validator and surfpool, measured one after the other

  --write            write the table into README.md
  --hydrant FILE     an existing hydrant [default: a release build, which is built first]
  --validator FILE   an existing solana-test-validator [default: that of `cargo xtask tools --rivals`]
  --surfpool FILE    an existing surfpool-node (clients/surfpool) [default: that of `cargo xtask tools --rivals`]
  --dir DIR          directory of accounts, ledgers and logs [default: target/rivals]
  --starts COUNT     starts of each program; the table has their medians [default: 3]
  --seconds COUNT    seconds of each load [default: 8]
  --rate COUNT       getAccountInfo a second [default: 500]
  --scanners COUNT   connections that scan [default: 2]
  --accounts COUNT   token accounts, preloaded and scanned [default: 20000]
  --transfers COUNT  transfers that are sent as quickly as a node accepts them [default: 1500]

A rival that is not installed is built first, which takes about half an hour. If its build fails, the table has the
reason. Stop other work on the machine meanwhile.
";

#[derive(Clone, Debug)]
pub(super) struct Options {
    pub(super) is_written: bool,
    pub(super) hydrant: Option<PathBuf>,
    pub(super) validator: Option<PathBuf>,
    pub(super) surfpool: Option<PathBuf>,
    pub(super) dir: PathBuf,
    pub(super) starts: usize,
    pub(super) time: Duration,
    pub(super) rate: u32,
    pub(super) scanners: usize,
    pub(super) accounts: u32,
    pub(super) transfers: u32,
}

impl Options {
    /// Parses the options, and makes the directory.
    pub(super) fn parse(args: &[String]) -> Result<Self> {
        let mut options = Self {
            is_written: false,
            hydrant: None,
            validator: None,
            surfpool: None,
            dir: target_dir().join("rivals"),
            starts: 3,
            time: Duration::from_secs(8),
            rate: 500,
            scanners: 2,
            accounts: 20_000,
            transfers: 1_500,
        };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value =
                || args.next().with_context(|| format!("{arg} needs a value\n\n{USAGE}"));
            match arg.as_str() {
                "--write" => options.is_written = true,
                "--hydrant" => options.hydrant = Some(value()?.into()),
                "--validator" => options.validator = Some(value()?.into()),
                "--surfpool" => options.surfpool = Some(value()?.into()),
                "--dir" => options.dir = value()?.into(),
                "--starts" => options.starts = value()?.parse().context("--starts")?,
                "--seconds" => {
                    options.time = Duration::from_secs(value()?.parse().context("--seconds")?);
                }
                "--rate" => options.rate = value()?.parse().context("--rate")?,
                "--scanners" => options.scanners = value()?.parse().context("--scanners")?,
                "--accounts" => options.accounts = value()?.parse().context("--accounts")?,
                "--transfers" => options.transfers = value()?.parse().context("--transfers")?,
                other => bail!("no option named `{other}`\n\n{USAGE}"),
            }
        }
        let counts = [u64::from(options.rate), u64::from(options.accounts)];
        let sizes = [options.starts as u64, options.scanners as u64, options.time.as_secs()];
        let is_measured = counts.iter().chain(&sizes).all(|count| *count > 0);
        ensure!(is_measured && options.transfers > 0, "a count must be at least 1\n\n{USAGE}");
        std::fs::create_dir_all(&options.dir)?;
        options.dir = options.dir.canonicalize()?;
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options> {
        let dir = std::env::temp_dir().join(format!("hydrant-rivals-{}", std::process::id()));
        let args = format!("--dir {} {line}", dir.display());
        let args: Vec<String> = args.split_whitespace().map(str::to_owned).collect();
        Options::parse(&args)
    }

    #[test]
    fn options_are_parsed_and_wrong_ones_are_named() {
        let options = parse("--write --starts 5 --seconds 2 --surfpool /s").unwrap();
        assert!(options.is_written && options.validator.is_none());
        assert_eq!((options.starts, options.time), (5, Duration::from_secs(2)));
        assert_eq!(options.surfpool, Some(PathBuf::from("/s")));
        let message = |line: &str| format!("{:#}", parse(line).unwrap_err());
        assert!(message("--starts").starts_with("--starts needs a value"));
        assert!(message("--rate fast").starts_with("--rate: invalid digit"));
        assert!(message("--scanners 0").starts_with("a count must be at least 1"));
        assert!(message("--speed 2").starts_with("no option named `--speed`"));
    }
}
