//! The options of `rig`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

/// Help text of `cargo xtask rig`.
pub(crate) const USAGE: &str = "\
cargo xtask rig [OPTIONS]    a real validator, followed and compared; docs/geyser.md

  --dir DIR          where the validator is built, and where ledgers and logs are [default: ~/.cache/hydrant-rig]
  --slots COUNT      compare this many banks [default: 1000]
  --minutes COUNT    and end after this time [default: 30]
  --validators COUNT 1: a solana-test-validator, or 3: a cluster of agave-validator, whose stakes are 40, 35 and 25 %,
                     followed with `--verify votes` and with `--verify agree` [default: 1]
  --replicas COUNT   instead of the followers, a `hydrant ingest` follows with a log and a store of snapshots in the
                     run's directory, in a cluster with `--verify votes`; this many `hydrant replica`, at most 8, read
                     the log and are compared, too [default: 0]
  --ticks COUNT      ticks of 6.25 ms in a slot [default: 16, which is 100 ms; of a cluster 64]
  --epoch SLOTS      slots in an epoch, at least 32 [default: 32; of a cluster 128]; a validator makes no blocks any more
                     if its root is not in the last epoch when one ends, so a slow or busy machine needs longer ones
  --tps COUNT        transfers a second of the load [default: 40]
  --no-load          only votes
  --validator FILE   a solana-test-validator 4.2.2 that is there; of a cluster, an agave-validator
  --genesis FILE     a solana-genesis 4.2.2 that is there, for a cluster
  --plugin FILE      a libhydrant_geyser.so that is there, of the same rustc
  --hydrant FILE     a hydrant that is there
  --record SLOTS     store the archive, and the stream of this many slots after it with the responses, for a test; with
                     --faults meanwhile a cluster has three forks and no other faults
  --recorder FILE    the recorder that is there
  --faults SECONDS   interval between faults, which repeat in this order [default: none]: cut the stream, kill the
                     follower or the ingester, kill the validator; in a cluster also make a fork, let a validator lag,
                     kill one that is not followed; with replicas also kill one of them, the next one each time
";

/// The most replicas of a run.
pub(crate) const REPLICAS_MAX: usize = 8;

#[derive(Clone)]
pub(crate) struct Options {
    pub(crate) dir: PathBuf,
    pub(crate) slots: usize,
    pub(crate) time: Duration,
    pub(crate) is_cluster: bool,
    pub(crate) replicas: usize,
    pub(crate) ticks: u32,
    pub(crate) slots_per_epoch: u64,
    pub(crate) tps: u32,
    pub(crate) has_load: bool,
    pub(crate) validator: Option<PathBuf>,
    pub(crate) genesis: Option<PathBuf>,
    pub(crate) plugin: Option<PathBuf>,
    pub(crate) hydrant: Option<PathBuf>,
    pub(crate) recorded_slots: Option<u64>,
    pub(crate) recorder: Option<PathBuf>,
    pub(crate) faults: Option<Duration>,
}

impl Options {
    pub(crate) fn parse(args: &[String]) -> Result<Self> {
        let home = std::env::var("HOME").context("HOME is not set: name --dir")?;
        let mut options = Self {
            dir: PathBuf::from(home).join(".cache/hydrant-rig"),
            slots: 1_000,
            time: Duration::from_secs(30 * 60),
            is_cluster: false,
            replicas: 0,
            ticks: 0,
            slots_per_epoch: 0,
            tps: 40,
            has_load: true,
            validator: None,
            genesis: None,
            plugin: None,
            hydrant: None,
            recorded_slots: None,
            recorder: None,
            faults: None,
        };
        let mut ticks = None;
        let mut slots_per_epoch = None;
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value =
                || args.next().with_context(|| format!("{arg} needs a value\n\n{USAGE}"));
            match arg.as_str() {
                "--dir" => options.dir = value()?.into(),
                "--slots" => options.slots = value()?.parse().context("--slots")?,
                "--minutes" => {
                    options.time = Duration::from_secs(60 * value()?.parse::<u64>()?);
                }
                "--validators" => {
                    options.is_cluster = match value()?.as_str() {
                        "1" => false,
                        "3" => true,
                        other => anyhow::bail!("--validators {other}: 1 or 3 is possible"),
                    };
                }
                "--replicas" => options.replicas = value()?.parse().context("--replicas")?,
                "--ticks" => ticks = Some(value()?.parse().context("--ticks")?),
                "--epoch" => slots_per_epoch = Some(value()?.parse().context("--epoch")?),
                "--tps" => options.tps = value()?.parse().context("--tps")?,
                "--no-load" => options.has_load = false,
                "--validator" => options.validator = Some(value()?.into()),
                "--genesis" => options.genesis = Some(value()?.into()),
                "--plugin" => options.plugin = Some(value()?.into()),
                "--hydrant" => options.hydrant = Some(value()?.into()),
                "--record" => options.recorded_slots = Some(value()?.parse().context("--record")?),
                "--recorder" => options.recorder = Some(value()?.into()),
                "--faults" => {
                    options.faults =
                        Some(Duration::from_secs(value()?.parse().context("--faults")?));
                }
                other => anyhow::bail!("no option named `{other}`\n\n{USAGE}"),
            }
        }
        options.ticks = ticks.unwrap_or(if options.is_cluster { 64 } else { 16 });
        options.slots_per_epoch =
            slots_per_epoch.unwrap_or(if options.is_cluster { 128 } else { 32 });
        ensure!(options.ticks > 0, "--ticks must be at least 1");
        let replicas = options.replicas;
        ensure!(
            replicas <= REPLICAS_MAX,
            "--replicas {replicas}: at most {REPLICAS_MAX} are possible"
        );
        std::fs::create_dir_all(&options.dir)?;
        options.dir = options.dir.canonicalize()?;
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Options> {
        let dir = std::env::temp_dir();
        let dir = dir.to_string_lossy();
        let args = ["--dir", &*dir].into_iter().chain(args.iter().copied());
        Options::parse(&args.map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn replicas_are_counted_up_to_a_limit() {
        assert_eq!(parse(&[]).unwrap().replicas, 0);
        let options = parse(&["--replicas", "2", "--faults", "20"]).unwrap();
        assert_eq!((options.replicas, options.faults), (2, Some(Duration::from_secs(20))));
        let refusal =
            |value| parse(&["--replicas", value]).err().expect("it is refused").to_string();
        assert_eq!(refusal("9"), "--replicas 9: at most 8 are possible");
        assert_eq!(refusal("two"), "--replicas");
        assert!(USAGE.contains(&format!("at most {REPLICAS_MAX}, read")));
    }
}
