//! The options of `rig kaspa`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

/// Help text of `cargo xtask rig kaspa`.
pub(crate) const USAGE: &str = "\
cargo xtask rig kaspa [OPTIONS]    a real kaspad, followed and compared; docs/kaspa_rig.md

  --dir DIR          where kaspad is built, and where ledgers and logs are [default: ~/.cache/hydrant-kaspa-rig]
  --blocks COUNT     mine and compare this many blocks [default: 10000]
  --minutes COUNT    and end after this time [default: 60]
  --kaspad FILE      an existing kaspad 2.1.0
  --hydrant FILE     an existing hydrant
  --rust-clients FILE
                     compare kaspa-grpc-client and kaspa-wrpc-client, too: an existing program of clients/rust-kaspa,
                     or `build`, which builds it once [default: none]
  --faults SECONDS   interval between faults, which repeat in this order [default: none]: kill Hydrant, kill the kaspad,
                     cut the connection between them
  --kills COUNT      end the faults after this many [default: 50]
  --seed NUMBER      of the amounts, and of the choices among UTXOs and addresses [default: 1]
";

/// The program with kaspa-grpc-client and kaspa-wrpc-client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RustClientProgram {
    /// It is built, unless it was built earlier.
    Build,
    File(PathBuf),
}

/// Settings of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) dir: PathBuf,
    pub(crate) blocks: u64,
    pub(crate) time: Duration,
    pub(crate) kaspad: Option<PathBuf>,
    pub(crate) hydrant: Option<PathBuf>,
    pub(crate) rust_client: Option<RustClientProgram>,
    pub(crate) faults: Option<Duration>,
    pub(crate) kills: u64,
    pub(crate) seed: u64,
}

impl Options {
    /// Reads the arguments after `rig kaspa`. `home` is the directory of the default one.
    pub(crate) fn parse(args: &[String], home: PathBuf) -> Result<Self> {
        let mut options = Self {
            dir: home.join(".cache/hydrant-kaspa-rig"),
            blocks: 10_000,
            time: Duration::from_secs(60 * 60),
            kaspad: None,
            hydrant: None,
            rust_client: None,
            faults: None,
            kills: 50,
            seed: 1,
        };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value =
                || args.next().with_context(|| format!("{arg} needs a value\n\n{USAGE}"));
            match arg.as_str() {
                "--dir" => options.dir = value()?.into(),
                "--blocks" => options.blocks = parse_number(arg, value()?)?,
                "--minutes" => {
                    options.time = Duration::from_secs(60 * parse_number(arg, value()?)?);
                }
                "--kaspad" => options.kaspad = Some(value()?.into()),
                "--hydrant" => options.hydrant = Some(value()?.into()),
                "--rust-clients" => {
                    let value = value()?.as_str();
                    options.rust_client = Some(match value {
                        "build" => RustClientProgram::Build,
                        file => RustClientProgram::File(file.into()),
                    });
                }
                "--faults" => {
                    options.faults = Some(Duration::from_secs(parse_number(arg, value()?)?));
                }
                "--kills" => options.kills = parse_number(arg, value()?)?,
                "--seed" => options.seed = parse_number(arg, value()?)?,
                other => bail!("no option named `{other}`\n\n{USAGE}"),
            }
        }
        ensure!(options.blocks > 0, "--blocks must be at least 1");
        Ok(options)
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
        assert_eq!(defaults.blocks, 10_000);
        assert_eq!(defaults.faults, None);
        assert_eq!(defaults.dir, PathBuf::from("/home/.cache/hydrant-kaspa-rig"));
        let options = parse(&["--blocks", "7", "--faults", "20", "--minutes", "2"]).unwrap();
        let time = Duration::from_secs(120);
        let faults = Some(Duration::from_secs(20));
        assert_eq!(options, Options { blocks: 7, time, faults, ..defaults });
        let client = |value| parse(&["--rust-clients", value]).unwrap().rust_client;
        assert_eq!(client("build"), Some(RustClientProgram::Build));
        assert_eq!(client("./build"), Some(RustClientProgram::File("./build".into())));
    }

    #[test]
    fn wrong_options_are_named() {
        for (args, part) in [
            (&["--slots"][..], "no option named `--slots`"),
            (&["--blocks"], "--blocks needs a value"),
            (&["--kills", "many"], "--kills many"),
            (&["--blocks", "0"], "at least 1"),
        ] {
            let error = format!("{:#}", parse(args).unwrap_err());
            assert!(error.contains(part), "{error}");
        }
    }
}
