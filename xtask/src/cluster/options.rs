//! The options of `cluster`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

/// Help text of `cargo xtask cluster`.
pub(crate) const USAGE: &str = "\
cargo xtask cluster [OPTIONS]         a replicated log, two ingesters and three replicas on this machine, compared
cargo xtask cluster chaos [OPTIONS]   and one fault after the other; docs/cluster.md
cargo xtask cluster soak [OPTIONS]    compared for an hour at twice the rate, with samples of memory, positions and lag

  --dir DIR           where ledgers, stores and logs are [default: ~/.cache/hydrant-cluster]
  --log KIND          nats, dir or s3 [default: nats if nats-server is built, else dir]
  --blocks COUNT      compare until the producer has made this many blocks [default: 10000; soak: no limit]
  --minutes COUNT     and end after this time [default: 60]
  --slot-ms MS        time between two blocks [default: 100]
  --transactions COUNT  airdrops each second [default: 20; soak: 40]
  --write-bytes BYTES bytes of accounts that are written each second, besides transactions
                      [default: 500000; soak: 1000000]
  --fork-interval N   leave some blocks for a fork after this many blocks; 0 makes no forks [default: 25]
  --history-slots COUNT  blocks whose transactions each node retains [default: 1000000; soak: 3000]
  --log-bytes BYTES   size at which the log removes its oldest messages [default: 67108864; soak: 134217728]
  --requests COUNT    requests that are sent while a replica is killed behind HAProxy [default: 100000; soak: none]
  --hydrant FILE      an existing hydrant
  --nats-server FILE  an existing nats-server 2.15

  chaos:
  --rounds COUNT      number of faults [default: 50]
  --seed NUMBER       of the order of the faults and their targets [default: 1]
  --pause SECONDS     time for which the leading ingester is stopped [default: 30]
  --outage SECONDS    time for which a node is cut off or slow, or the log or the store is down [default: 30]
";

/// The first arguments of the modes.
pub(crate) const CHAOS: &str = "chaos";
pub(crate) const SOAK: &str = "soak";
/// The load and the size of the log of a soak, relative to those of other runs. Its log reaches back as far in time.
const SOAK_RATE: u64 = 2;
/// Blocks of history in a soak. It is full within the first quarter, which does not count.
const SOAK_HISTORY_SLOTS: u64 = 3_000;
/// Blocks of history in other runs: all of a run.
const HISTORY_SLOTS: u64 = 1_000_000;

/// The kind of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogKind {
    Nats,
    Directory,
    Bucket,
}

/// The activity of a run after its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// It compares.
    Compare,
    /// It makes faults, and compares after each.
    Chaos,
    /// It compares, and samples the processes.
    Soak,
}

impl Mode {
    /// Returns the mode that the first argument names.
    fn parse(args: &[String]) -> Self {
        match args.first().map(String::as_str) {
            Some(CHAOS) => Self::Chaos,
            Some(SOAK) => Self::Soak,
            _ => Self::Compare,
        }
    }
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
    /// Airdrops a second.
    pub(crate) transactions: u64,
    /// Bytes of edited accounts a second.
    pub(crate) write_bytes: u64,
    pub(crate) fork_interval: u64,
    pub(crate) history_slots: u64,
    pub(crate) log_bytes: u64,
    pub(crate) requests: u64,
    pub(crate) hydrant: Option<PathBuf>,
    pub(crate) nats_server: Option<PathBuf>,
    pub(crate) rounds: u64,
    pub(crate) seed: u64,
    /// SIGSTOP of the leading ingester.
    pub(crate) pause: Duration,
    /// Other faults that last.
    pub(crate) outage: Duration,
}

impl Options {
    /// Reads the arguments after `cluster`. `home` is the directory of the default one.
    pub(crate) fn parse(args: &[String], home: PathBuf) -> Result<Self> {
        let mode = Mode::parse(args);
        let is_chaos = mode == Mode::Chaos;
        let mut options = Self::with_defaults(mode, home.join(".cache/hydrant-cluster"));
        let mut args = args.iter().skip(usize::from(mode != Mode::Compare));
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
                "--transactions" => options.transactions = parse_number(arg, value()?)?,
                "--write-bytes" => options.write_bytes = parse_number(arg, value()?)?,
                "--fork-interval" => options.fork_interval = parse_number(arg, value()?)?,
                "--history-slots" => options.history_slots = parse_number(arg, value()?)?,
                "--log-bytes" => options.log_bytes = parse_number(arg, value()?)?,
                "--requests" => options.requests = parse_number(arg, value()?)?,
                "--hydrant" => options.hydrant = Some(value()?.into()),
                "--nats-server" => options.nats_server = Some(value()?.into()),
                "--rounds" if is_chaos => options.rounds = parse_number(arg, value()?)?,
                "--seed" if is_chaos => options.seed = parse_number(arg, value()?)?,
                "--pause" if is_chaos => {
                    options.pause = Duration::from_secs(parse_number(arg, value()?)?);
                }
                "--outage" if is_chaos => {
                    options.outage = Duration::from_secs(parse_number(arg, value()?)?);
                }
                other => bail!("no option named `{other}`\n\n{USAGE}"),
            }
        }
        ensure!(options.blocks > 0, "--blocks must be at least 1");
        ensure!(options.slot_ms > 0, "--slot-ms must be at least 1");
        Ok(options)
    }

    fn with_defaults(mode: Mode, dir: PathBuf) -> Self {
        let is_soak = mode == Mode::Soak;
        let rate = if is_soak { SOAK_RATE } else { 1 };
        Self {
            mode,
            dir,
            log: None,
            blocks: if is_soak { u64::MAX } else { 10_000 },
            time: Duration::from_secs(60 * 60),
            slot_ms: 100,
            transactions: 20 * rate,
            write_bytes: 500_000 * rate,
            fork_interval: 25,
            history_slots: if is_soak { SOAK_HISTORY_SLOTS } else { HISTORY_SLOTS },
            log_bytes: (64 << 20) * rate,
            requests: 100_000,
            hydrant: None,
            nats_server: None,
            rounds: 50,
            seed: 1,
            pause: Duration::from_secs(30),
            outage: Duration::from_secs(30),
        }
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
        let args = ["chaos", "--rounds", "3", "--seed", "9", "--pause", "5", "--outage", "4"];
        let options = parse(&args).unwrap();
        assert_eq!(options.mode, Mode::Chaos);
        assert_eq!((options.rounds, options.seed), (3, 9));
        assert_eq!(options.pause, Duration::from_secs(5));
        assert_eq!(options.outage, Duration::from_secs(4));
        assert_eq!(parse(&["chaos"]).unwrap().rounds, 50);
    }

    #[test]
    fn a_soak_has_twice_the_rate_for_an_hour_and_no_limit_of_blocks() {
        let compared = parse(&[]).unwrap();
        let soak = parse(&["soak"]).unwrap();
        assert_eq!(soak.mode, Mode::Soak);
        assert_eq!(soak.transactions, 2 * compared.transactions);
        assert_eq!(soak.write_bytes, 2 * compared.write_bytes);
        assert_eq!(soak.log_bytes, 2 * compared.log_bytes);
        assert_eq!((soak.time, soak.blocks), (Duration::from_secs(3_600), u64::MAX));
        // The first quarter has more blocks than a history has.
        assert!(u128::from(soak.history_slots * soak.slot_ms) < soak.time.as_millis() / 8);
        let short = parse(&["soak", "--minutes", "4", "--transactions", "7"]).unwrap();
        assert_eq!((short.time, short.transactions), (Duration::from_secs(240), 7));
    }

    #[test]
    fn wrong_options_are_named() {
        for (args, part) in [
            (&["--slots"][..], "no option named `--slots`"),
            (&["--rounds", "3"], "no option named `--rounds`"),
            (&["soak", "--outage", "3"], "no option named `--outage`"),
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
