//! `solana-test-validator` 4.2.2: its flags that `hydrant dev` does not have, and the command of its name.
//!
//! Shape: [`FLAGS`] lists them in two groups. Flags that have no meaning here, or that request the default, are
//! ignored, and a line at the start says why. Flags that would change visible behaviour are refused, and the error
//! names an alternative. [`add`] adds them to the command, hidden; [`check_flags`] handles those on the command line.
//! The command [`COMMAND`] is `dev` with the defaults of [`apply_preset`]. A program that is called [`PROGRAM`] is that
//! command ([`arguments`]).
//! Not here: the flags that both programs have (`local::flags`).

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use anyhow::{Result, bail};
use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::banner::OutputStyle;
use crate::local::LocalPreset;
use crate::local::flags::DevFlags;
use crate::solana_cli_config;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlagHandling {
    /// Accepted without effect, for this reason.
    Ignored(&'static str),
    /// Refused, with this alternative.
    Refused(&'static str),
}

/// The number of values of a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Values {
    None,
    One,
    Many,
}

/// A flag of `solana-test-validator`.
struct Flag {
    long: &'static str,
    /// A second long name of the flag.
    alias: Option<&'static str>,
    values: Values,
    handling: FlagHandling,
}

const fn flag(long: &'static str, values: Values, handling: FlagHandling) -> Flag {
    Flag { long, alias: None, values, handling }
}

const fn alias(alias: &'static str, flag: Flag) -> Flag {
    Flag { alias: Some(alias), ..flag }
}

use FlagHandling::{Ignored, Refused};
use Values::{Many, None as No, One};

const NO_GOSSIP: FlagHandling = Ignored("this ledger has one node and no gossip");
const NO_BIGTABLE: FlagHandling = Ignored("Hydrant does not use Bigtable");
const HISTORY: FlagHandling =
    Refused("the node stores history itself; see --history-slots and --history-bytes");
const BLOCK_AND_VOTE: FlagHandling = Ignored("this subscription is always enabled");

/// The flags of `solana-test-validator` 4.2.2 that are not flags of `hydrant dev`. `--gossip-host` of earlier versions,
/// which Anchor still passes, is another name of `--advertised-ip`.
const FLAGS: &[Flag] = &[
    flag("gossip-port", One, NO_GOSSIP),
    flag(
        "dynamic-port-range",
        One,
        Ignored("Hydrant uses only --rpc-port, the next port and --tpu-port"),
    ),
    flag(
        "enable-scheduler-bindings",
        No,
        Ignored("Hydrant executes transactions in a single order"),
    ),
    flag("rpc-pubsub-enable-block-subscription", No, BLOCK_AND_VOTE),
    flag("rpc-pubsub-enable-vote-subscription", No, BLOCK_AND_VOTE),
    flag(
        "rpc-pubsub-max-active-subscriptions",
        One,
        Ignored("use pubsub.subscriptions_max in the configuration file"),
    ),
    flag(
        "rpc-pubsub-queue-capacity-items",
        One,
        Ignored("use pubsub.queue_messages_max in the configuration file"),
    ),
    flag(
        "rpc-pubsub-queue-capacity-bytes",
        One,
        Ignored("use pubsub.queue_bytes_max in the configuration file"),
    ),
    flag("rpc-pubsub-worker-threads", One, Ignored("use --io-threads and --cpu-threads")),
    flag("rpc-pubsub-notification-threads", One, Ignored("use --io-threads and --cpu-threads")),
    flag("rpc-bigtable-instance", One, NO_BIGTABLE),
    flag("rpc-bigtable-app-profile-id", One, NO_BIGTABLE),
    flag("enable-rpc-bigtable-ledger-storage", No, HISTORY),
    flag("enable-bigtable-ledger-upload", No, HISTORY),
    alias(
        "accountsdb-plugin-config",
        flag(
            "geyser-plugin-config",
            Many,
            Ignored(
                "Hydrant does not load plugins; it serves Yellowstone gRPC itself, at --grpc-port (10000)",
            ),
        ),
    ),
    flag("alpenglow", No, Refused("this ledger has one node and no consensus; omit this flag")),
];

/// The program that this one replaces.
const PROGRAM: &str = "solana-test-validator";
pub(crate) const COMMAND: &str = "test-validator";
/// The version after the name of the program (`--version`) or package (the log), in Agave's format, without a commit.
pub(crate) static VERSION: LazyLock<String> = LazyLock::new(|| {
    let version = rpc_solana::api_version();
    let feature_set = chain_solana::feature_set();
    format!("{version} (src:00000000; feat:{feature_set:08x}, client:Hydrant)")
});
/// Directory of the ledger without `--ledger`.
const LEDGER_DIR: &str = "test-ledger";
/// `--config` of `dev`, in the command of the other name.
const OWN_CONFIG: &str = "hydrant-config";
/// The flag of that name, in errors.
pub(crate) const CONFIG_FLAG: &str = "--hydrant-config";

const RESET_HELP: &str = "Empty the ledger directory first: every file in it is removed";
/// The short form of `--config`, which means another file in `solana-test-validator`.
const CONFIG_SHORT: char = 'C';
const CONFIG_REFUSED: &str = "-C means the Solana CLI's configuration in solana-test-validator, which \
                              reads only the keypair from it; use --mint";
const REFUSED_CONFIG: &str = "refused-config";
const CLI_CONFIG: &str = "cli-config";

/// Adds the flags to the command `dev`, hidden in its help, and `-C`, which is refused.
pub(crate) fn add(command: Command) -> Command {
    let config = Arg::new(REFUSED_CONFIG).short(CONFIG_SHORT).hide(true).num_args(1);
    add_flags(command).arg(config)
}

fn add_flags(command: Command) -> Command {
    let arg = |flag: &Flag| {
        let arg = Arg::new(flag.long).long(flag.long).alias(flag.alias).hide(true);
        match flag.values {
            No => arg.action(ArgAction::Count),
            One => arg.action(ArgAction::Append).num_args(1).allow_hyphen_values(true),
            Many => arg.action(ArgAction::Append).num_args(1..),
        }
    };
    command.args(FLAGS.iter().map(arg))
}

/// Adds them to the command of the other name, where `--config` is the Solana CLI's file.
pub(crate) fn add_to_own(command: Command) -> Command {
    let config = Arg::new(CLI_CONFIG)
        .short(CONFIG_SHORT)
        .long("config")
        .value_name("FILE")
        .help_heading("Configuration")
        .help("The Solana CLI's configuration, of which only the keypair is read: the mint");
    let command = command.mut_arg("config", |arg| arg.long(OWN_CONFIG));
    add_flags(command.mut_arg("reset", |arg| arg.help(RESET_HELP)))
        .arg(config)
        .display_name(PROGRAM)
        .version(VERSION.as_str())
}

/// Returns the arguments with the command inserted if the program is called [`PROGRAM`].
pub(crate) fn arguments(mut args: Vec<OsString>) -> Vec<OsString> {
    let is_program = args.first().is_some_and(|name| Path::new(name).ends_with(PROGRAM));
    if is_program {
        args.insert(1, COMMAND.into());
    }
    args
}

/// Sets the defaults of `solana-test-validator`, and returns its preset.
pub(crate) fn apply_preset(flags: &mut DevFlags, matches: &ArgMatches) -> LocalPreset {
    flags.node.ledger.ledger.get_or_insert_with(|| PathBuf::from(LEDGER_DIR));
    let cli_config = matches.get_one::<String>(CLI_CONFIG).map(PathBuf::from);
    LocalPreset { style: OutputStyle::TestValidator, cli_config, ..LocalPreset::default() }
}

/// Returns a line about a fault of the `--config` file, which does not end the start.
pub(crate) fn check_cli_config(flags: &DevFlags, preset: &LocalPreset) -> Option<String> {
    let path = preset.cli_config.as_deref().filter(|_| flags.mint.is_none())?;
    let err = solana_cli_config::keypair_path(path).err()?;
    Some(format!("--config is ignored: {err:#}"))
}

/// One line for each ignored flag on the command line, with the reason. An error if a flag is refused.
pub(crate) fn check_flags(matches: &ArgMatches) -> Result<Vec<String>> {
    let is_present =
        |id: &str| matches.value_source(id) == Some(clap::parser::ValueSource::CommandLine);
    let mut ignored = Vec::new();
    let mut refused = Vec::new();
    for flag in FLAGS.iter().filter(|flag| is_present(flag.long)) {
        match flag.handling {
            Ignored(why) => ignored.push(format!("--{} is ignored: {why}", flag.long)),
            Refused(why) => refused.push(format!("--{}: {why}", flag.long)),
        }
    }
    // The command of the other name does not have it.
    if matches.try_contains_id(REFUSED_CONFIG).unwrap_or_default() {
        refused.push(CONFIG_REFUSED.to_owned());
    }
    if !refused.is_empty() {
        bail!("flags of solana-test-validator that Hydrant refuses\n  {}", refused.join("\n  "));
    }
    Ok(ignored)
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, FromArgMatches};

    use super::*;
    use crate::command_line::Cli;

    /// Every flag that `solana-test-validator --help` of 4.2.2 has, hidden ones included.
    const OF_TEST_VALIDATOR: &[&str] = &[
        "account",
        "account-dir",
        "account-index",
        "advertised-ip",
        "alpenglow",
        "bind-address",
        "bpf-program",
        "clone",
        "clone-feature-set",
        "clone-upgradeable-program",
        "compute-unit-limit",
        "config",
        "deactivate-feature",
        "deep-clone-address-lookup-table",
        "dynamic-port-range",
        "enable-bigtable-ledger-upload",
        "enable-rpc-bigtable-ledger-storage",
        "enable-scheduler-bindings",
        "faucet-per-request-sol-cap",
        "faucet-per-time-sol-cap",
        "faucet-port",
        "faucet-sol",
        "faucet-time-slice-secs",
        "geyser-plugin-config",
        "gossip-port",
        "inflation-fixed",
        "ledger",
        "limit-ledger-size",
        "log",
        "log-messages-bytes-limit",
        "maybe-clone",
        "mint",
        "quiet",
        "reset",
        "rpc-bigtable-app-profile-id",
        "rpc-bigtable-instance",
        "rpc-port",
        "rpc-pubsub-enable-block-subscription",
        "rpc-pubsub-enable-vote-subscription",
        "rpc-pubsub-max-active-subscriptions",
        "rpc-pubsub-notification-threads",
        "rpc-pubsub-queue-capacity-bytes",
        "rpc-pubsub-queue-capacity-items",
        "rpc-pubsub-worker-threads",
        "slots-per-epoch",
        "ticks-per-slot",
        "transaction-account-lock-limit",
        "upgradeable-program",
        "url",
        "warp-slot",
    ];

    fn parse(flags: &[&str]) -> Result<Vec<String>> {
        let command = crate::command_line::command();
        let matches = command.try_get_matches_from([&["hydrant", "dev"], flags].concat())?;
        check_flags(matches.subcommand_matches("dev").expect("it is `dev`"))
    }

    #[test]
    fn every_flag_of_test_validator_is_supported_ignored_or_refused() {
        assert_eq!(OF_TEST_VALIDATOR.len(), 50);
        let cli = Cli::command();
        let dev = cli.find_subcommand("dev").expect("it is there");
        for name in OF_TEST_VALIDATOR {
            let is_supported = dev.get_arguments().any(|arg| arg.get_long() == Some(name));
            let handled = FLAGS.iter().filter(|flag| flag.long == *name).count();
            let groups = usize::from(is_supported) + handled;
            assert!(groups == 1, "--{name} is in {groups} groups");
        }
        for flag in FLAGS {
            let is_theirs = OF_TEST_VALIDATOR.contains(&flag.long);
            assert!(is_theirs, "--{} is not a flag of test-validator", flag.long);
        }
    }

    #[test]
    fn each_flag_is_reported_with_its_reason() {
        for flag in FLAGS {
            let names = [Some(flag.long), flag.alias].into_iter().flatten();
            for name in names.map(|name| format!("--{name}")) {
                let args = match flag.values {
                    No => vec![name.as_str()],
                    One => vec![name.as_str(), "1"],
                    Many => vec![name.as_str(), "1", "2"],
                };
                match (flag.handling, parse(&args)) {
                    (Ignored(why), Ok(lines)) => {
                        assert_eq!(lines, [format!("--{} is ignored: {why}", flag.long)]);
                    }
                    (Refused(why), Err(err)) => {
                        let message = err.to_string();
                        assert!(message.contains(&format!("--{}: {why}", flag.long)), "{message}");
                    }
                    (handling, result) => panic!("{name} is {handling:?}, but was {result:?}"),
                }
            }
        }
    }

    #[test]
    fn all_refused_flags_are_named_at_once_and_short_forms_are_known() {
        let err =
            parse(&["-u", "devnet", "-c", "abc", "--alpenglow", "--enable-bigtable-ledger-upload"])
                .expect_err("two are refused");
        let message = err.to_string();
        let refused = ["--enable-bigtable-ledger-upload: ", "--alpenglow: "];
        assert!(refused.iter().all(|flag| message.contains(flag)), "{message}");
        assert!(!message.contains("--url") && !message.contains("--clone"), "{message}");
        let err = parse(&["-C", "cli.yml"]).expect_err("another file");
        assert!(err.to_string().contains("use --mint"), "{err}");
        assert_eq!(parse(&["--gossip-port", "1", "-r"]).expect("it is ignored").len(), 1);
        assert!(parse(&["--quiet"]).expect("it is supported").is_empty());
    }

    #[test]
    fn a_program_of_the_other_name_is_the_command_of_that_name() {
        let args = |name: &str| arguments(vec![name.into(), "-r".into()]);
        for name in ["solana-test-validator", "/usr/bin/solana-test-validator"] {
            assert_eq!(args(name), [name, COMMAND, "-r"]);
        }
        assert_eq!(args("/usr/bin/hydrant"), ["/usr/bin/hydrant", "-r"]);
        assert!(arguments(Vec::new()).is_empty());
    }

    #[test]
    fn the_command_of_the_other_name_has_its_own_configuration_and_ledger() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("config.yml");
        std::fs::write(&path, "keypair_path: /a/id.json\n").expect("it is written");
        let path = path.display().to_string();
        let parse = |flags: &[&str]| {
            let args = [&["hydrant", COMMAND], flags].concat();
            let matches =
                crate::command_line::command().try_get_matches_from(args).expect("known flags");
            let flags = matches.subcommand_matches(COMMAND).expect("it is that command");
            let mut dev = DevFlags::from_arg_matches(flags).expect("valid flags");
            assert!(check_flags(flags).expect("none is refused").is_empty());
            let preset = apply_preset(&mut dev, flags);
            let fault = check_cli_config(&dev, &preset);
            (dev, preset, fault)
        };
        for config in ["-C", "--config"] {
            let (flags, preset, fault) = parse(&[config, &path]);
            assert_eq!((flags.mint, preset.cli_config), (None, Some(path.clone().into())));
            assert_eq!(flags.config.config, None);
            assert_eq!(flags.node.ledger.ledger, Some(LEDGER_DIR.into()));
            assert_eq!(fault, None);
        }
        let (_, _, fault) = parse(&["-C", "/nowhere"]);
        let fault = fault.expect("no such file");
        assert!(fault.starts_with("--config is ignored: /nowhere: "), "{fault}");
        let (own, _, fault) =
            parse(&["-C", "/nowhere", "--mint", "m", "--ledger", "l", "--hydrant-config", "h"]);
        assert_eq!(fault, None, "its keypair is not needed");
        assert_eq!(own.mint.as_deref(), Some("m"));
        assert_eq!(own.config.config, Some("h".into()));
        assert_eq!(own.node.ledger.ledger, Some("l".into()));
    }

    #[test]
    fn the_documentation_has_each_flag_in_its_group() {
        let text = std::fs::read_to_string(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../docs/configuration.md"
        ));
        let text = text.expect("the file is there");
        for flag in FLAGS {
            let group = match flag.handling {
                Ignored(_) => "ignored",
                Refused(_) => "refused",
            };
            let row = format!("| `--{}` | {group} |", flag.long);
            assert!(text.contains(&row), "{row} is not in docs/configuration.md");
        }
    }
}
