//! The options of `cluster`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

/// Help text of `cargo xtask cluster`.
pub(crate) const USAGE: &str = "\
cargo xtask cluster [OPTIONS]         a replicated log, two ingesters and three replicas on this machine, compared
cargo xtask cluster chaos [OPTIONS]   and one fault after the other; docs/cluster.md

  --dir DIR           where ledgers, stores and logs are [default: ~/.cache/hydrant-cluster]
  --log KIND          nats, dir or s3 [default: nats if nats-server is built, else dir]
  --blocks COUNT      compare until the producer has made this many blocks [default: 10000]
  --minutes COUNT     and end after this time [default: 60]
  --slot-ms MS        time between two blocks [default: 100]
  --write-bytes BYTES bytes of accounts that are written each second, besides transactions [default: 500000]
  --fork-interval N   leave some blocks for a fork after this many blocks; 0 makes no forks [default: 25]
  --log-bytes BYTES   size at which the log removes its oldest messages [default: 67108864]
  --requests COUNT    requests that are sent while a replica is killed behind HAProxy [default: 100000]
  --hydrant FILE      an existing hydrant
  --nats-server FILE  an existing nats-server 2.15

  chaos:
  --rounds COUNT      number of faults [default: 50]
  --seed NUMBER       of the order of the faults and their targets [default: 1]
  --pause SECONDS     time for which a leader is stopped, or a node is cut off [default: 30]
";

/// The kind of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogKind {
    Nats,
    Directory,
    Bucket,
}

/// The work of a run after its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// It compares.
    Compare,
    /// It makes faults, and compares after each.
    Chaos,
}

/// Settings of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) mode: Mode,
    pub(crate) dir: PathBuf,
    /// `None`: NATS if its server is built.
    pub(crate) log: Option<LogKind>,
    pub(crate) blocks: u64,
    pub(crate) time: Duration,
    pub(crate) slot_ms: u64,
    pub(crate) write_bytes: u64,
    pub(crate) fork_interval: u64,
    pub(crate) log_bytes: u64,
    pub(crate) requests: u64,
    pub(crate) hydrant: Option<PathBuf>,
    pub(crate) nats_server: Option<PathBuf>,
    pub(crate) rounds: u64,
    pub(crate) seed: u64,
    pub(crate) pause: Duration,
}

impl Options {
    /// Reads the arguments after `cluster`. `home` is the directory of the default one.
    pub(crate) fn parse(args: &[String], home: PathBuf) -> Result<Self> {
        let is_chaos = args.first().is_some_and(|arg| arg == "chaos");
        let mut options = Self {
            mode: if is_chaos { Mode::Chaos } else { Mode::Compare },
            dir: home.join(".cache/hydrant-cluster"),
            log: None,
            blocks: 10_000,
            time: Duration::from_secs(60 * 60),
            slot_ms: 100,
            write_bytes: 500_000,
            fork_interval: 25,
            log_bytes: 64 << 20,
            requests: 100_000,
            hydrant: None,
            nats_server: None,
            rounds: 50,
            seed: 1,
            pause: Duration::from_secs(30),
        };
        let mut args = args.iter().skip(usize::from(is_chaos));
        while let Some(arg) = args.next() {
            let mut value =
                || args.next().with_context(|| format!("{arg} needs a value\n\n{USAGE}"));
            match arg.as_str() {
                "--dir" => options.dir = value()?.into(),
                "--log" => options.log = Some(parse_log(value()?)?),
                "--blocks" => options.blocks = parse_number(arg, value()?)?,
                "--minutes" => {
                    options.time = Duration::from_secs(60 * parse_number(arg, value()?)?);
                }
                "--slot-ms" => options.slot_ms = parse_number(arg, value()?)?,
                "--write-bytes" => options.write_bytes = parse_number(arg, value()?)?,
                "--fork-interval" => options.fork_interval = parse_number(arg, value()?)?,
                "--log-bytes" => options.log_bytes = parse_number(arg, value()?)?,
                "--requests" => options.requests = parse_number(arg, value()?)?,
                "--hydrant" => options.hydrant = Some(value()?.into()),
                "--nats-server" => options.nats_server = Some(value()?.into()),
                "--rounds" if is_chaos => options.rounds = parse_number(arg, value()?)?,
                "--seed" if is_chaos => options.seed = parse_number(arg, value()?)?,
                "--pause" if is_chaos => {
                    options.pause = Duration::from_secs(parse_number(arg, value()?)?);
                }
                other => bail!("no option named `{other}`\n\n{USAGE}"),
            }
        }
        ensure!(options.blocks > 0, "--blocks must be at least 1");
        ensure!(options.slot_ms > 0, "--slot-ms must be at least 1");
        Ok(options)
    }
}

fn parse_log(value: &str) -> Result<LogKind> {
    match value {
        "nats" => Ok(LogKind::Nats),
        "dir" => Ok(LogKind::Directory),
        "s3" => Ok(LogKind::Bucket),
        other => bail!("--log {other}: nats, dir or s3"),
    }
}

fn parse_number(option: &str, value: &str) -> Result<u64> {
    value.parse().with_context(|| format!("{option} {value}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Options> {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        Options::parse(&args, "/home".into())
    }

    #[test]
    fn options_replace_the_defaults() {
        let defaults = parse(&[]).unwrap();
        assert_eq!(defaults.mode, Mode::Compare);
        assert_eq!(defaults.dir, PathBuf::from("/home/.cache/hydrant-cluster"));
        assert_eq!((defaults.blocks, defaults.log), (10_000, None));
        let options = parse(&["--log", "s3", "--blocks", "7", "--minutes", "2"]).unwrap();
        let time = Duration::from_secs(120);
        let log = Some(LogKind::Bucket);
        assert_eq!(options, Options { log, blocks: 7, time, ..defaults });
    }

    #[test]
    fn chaos_has_options_of_its_own() {
        let options = parse(&["chaos", "--rounds", "3", "--seed", "9", "--pause", "5"]).unwrap();
        assert_eq!(options.mode, Mode::Chaos);
        assert_eq!((options.rounds, options.seed), (3, 9));
        assert_eq!(options.pause, Duration::from_secs(5));
        assert_eq!(parse(&["chaos"]).unwrap().rounds, 50);
    }

    #[test]
    fn wrong_options_are_named() {
        for (args, part) in [
            (&["--slots"][..], "no option named `--slots`"),
            (&["--rounds", "3"], "no option named `--rounds`"),
            (&["chaos", "--rounds"], "--rounds needs a value"),
            (&["--log", "kafka"], "--log kafka: nats, dir or s3"),
            (&["--minutes", "many"], "--minutes many"),
            (&["--blocks", "0"], "at least 1"),
        ] {
            let error = format!("{:#}", parse(args).unwrap_err());
            assert!(error.contains(part), "{error}");
        }
    }
}
