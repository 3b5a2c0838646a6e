//! The flags of `solana-test-validator` 4.2.2 that `hydrant dev` does not have.
//!
//! Shape: [`FLAGS`] lists them in two groups. Those that mean nothing here, or that say what is so anyway,
//! are accepted, and a line at the start says why. Those that would change what a user sees are refused,
//! with what to use instead. [`add`] puts them into the command, hidden; [`response`] deals with those given.
//! Not here: the flags that both have (`cli`).

use anyhow::{Result, bail};
use clap::{Arg, ArgAction, ArgMatches, Command};

/// What becomes of a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlagHandling {
    /// It is accepted, and does nothing, for this reason.
    Ignored(&'static str),
    /// It is refused, with what to use instead.
    Refused(&'static str),
}

/// How many values a flag takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Values {
    None,
    One,
    /// One, or none.
    AtMostOne,
    /// One or more, as long as they follow.
    Many,
}

/// A flag of `solana-test-validator`.
struct Flag {
    long: &'static str,
    short: Option<char>,
    /// Another long name of it.
    alias: Option<&'static str>,
    values: Values,
    handling: FlagHandling,
}

const fn flag(long: &'static str, values: Values, answer: FlagHandling) -> Flag {
    Flag { long, short: None, alias: None, values, handling: answer }
}

const fn short(short: char, flag: Flag) -> Flag {
    Flag { short: Some(short), ..flag }
}

const fn alias(alias: &'static str, flag: Flag) -> Flag {
    Flag { alias: Some(alias), ..flag }
}

use FlagHandling::{Ignored, Refused};
use Values::{AtMostOne, Many, None as No, One};

const NO_GOSSIP: FlagHandling = Ignored("this ledger has one node and no gossip");
const NO_BIGTABLE: FlagHandling = Ignored("no Bigtable is used here");
const NO_CLONE: FlagHandling = Refused(
    "nothing is fetched from a cluster here; save the account with `solana account ADDRESS --output \
     json --output-file FILE` and give it with --account or --account-dir",
);
const HISTORY: FlagHandling =
    Refused("history is kept by the node itself: see --history-slots and --history-bytes");
const BLOCK_AND_VOTE: FlagHandling = Ignored("this subscription is always there");

/// The flags of `solana-test-validator` 4.2.2 that are not flags of `hydrant dev`, and `--gossip-host` of
/// versions before, which Anchor still passes.
const FLAGS: &[Flag] = &[
    short('u', flag("url", One, Ignored("nothing is fetched from a cluster here"))),
    flag("faucet-port", One, Ignored("airdrops come by requestAirdrop, there is no faucet on TCP")),
    flag(
        "faucet-time-slice-secs",
        One,
        Ignored("airdrops have no limit by time, only --faucet-per-request-sol-cap"),
    ),
    flag("gossip-port", One, NO_GOSSIP),
    flag("gossip-host", One, NO_GOSSIP),
    flag("advertised-ip", One, NO_GOSSIP),
    flag(
        "dynamic-port-range",
        One,
        Ignored("only --rpc-port, the port after it, and --tpu-port are used"),
    ),
    flag("enable-scheduler-bindings", No, Ignored("transactions are executed in one order here")),
    flag("rpc-pubsub-enable-block-subscription", No, BLOCK_AND_VOTE),
    flag("rpc-pubsub-enable-vote-subscription", No, BLOCK_AND_VOTE),
    flag(
        "rpc-pubsub-max-active-subscriptions",
        One,
        Ignored("pubsub.subscriptions_max of the configuration file is the bound"),
    ),
    flag(
        "rpc-pubsub-queue-capacity-items",
        One,
        Ignored("pubsub.queue_messages_max of the configuration file is the bound"),
    ),
    flag(
        "rpc-pubsub-queue-capacity-bytes",
        One,
        Ignored("pubsub.queue_bytes_max of the configuration file is the bound"),
    ),
    flag(
        "rpc-pubsub-worker-threads",
        One,
        Ignored("--io-threads and --cpu-threads say how many threads there are"),
    ),
    flag(
        "rpc-pubsub-notification-threads",
        One,
        Ignored("--io-threads and --cpu-threads say how many threads there are"),
    ),
    flag("rpc-bigtable-instance", One, NO_BIGTABLE),
    flag("rpc-bigtable-app-profile-id", One, NO_BIGTABLE),
    flag("enable-rpc-bigtable-ledger-storage", No, HISTORY),
    flag("enable-bigtable-ledger-upload", No, HISTORY),
    short('c', flag("clone", Many, NO_CLONE)),
    flag("maybe-clone", Many, NO_CLONE),
    flag("deep-clone-address-lookup-table", Many, NO_CLONE),
    flag(
        "clone-upgradeable-program",
        Many,
        Refused(
            "nothing is fetched from a cluster here; save the program with `solana program dump \
             ADDRESS FILE` and give it with --upgradeable-program or --bpf-program",
        ),
    ),
    flag(
        "clone-feature-set",
        No,
        Refused("nothing is fetched from a cluster here; --features says which are active"),
    ),
    flag(
        "faucet-per-time-sol-cap",
        AtMostOne,
        Refused("airdrops have no limit by time; --faucet-per-request-sol-cap limits each one"),
    ),
    alias(
        "accountsdb-plugin-config",
        flag(
            "geyser-plugin-config",
            Many,
            Refused("plugins are not loaded; WebSocket subscriptions tell every change"),
        ),
    ),
    alias(
        "max-compute-units",
        flag(
            "compute-unit-limit",
            One,
            Refused("a transaction has its own limit: the compute budget's SetComputeUnitLimit"),
        ),
    ),
    flag(
        "transaction-account-lock-limit",
        One,
        Refused("the limit is that of the active features; leave it out"),
    ),
    flag(
        "log-messages-bytes-limit",
        One,
        Refused("logs of a transaction are cut at 10,000 bytes, as by default there; leave it out"),
    ),
    flag("alpenglow", No, Refused("this ledger has one node and no consensus; leave it out")),
];

/// The short form of `--config`, which names another file there.
const CONFIG_SHORT: char = 'C';
const CONFIG_REFUSED: &str = "-C names the Solana CLI's configuration there, of which only the keypair \
                              is read; give it with --mint";
const CONFIG_ID: &str = "solana-cli-config";

/// Adds the flags to the command `dev`, hidden in its help.
pub(crate) fn add(command: Command) -> Command {
    let arg = |flag: &Flag| {
        let arg =
            Arg::new(flag.long).long(flag.long).short(flag.short).alias(flag.alias).hide(true);
        match flag.values {
            No => arg.action(ArgAction::Count),
            One => arg.action(ArgAction::Append).num_args(1).allow_hyphen_values(true),
            AtMostOne => arg.action(ArgAction::Append).num_args(0..=1),
            Many => arg.action(ArgAction::Append).num_args(1..),
        }
    };
    let config = Arg::new(CONFIG_ID).short(CONFIG_SHORT).hide(true).num_args(1);
    command.args(FLAGS.iter().map(arg)).arg(config)
}

/// The lines that say which of the given flags do nothing, and why. An error if one is refused.
pub(crate) fn check_flags(given: &ArgMatches) -> Result<Vec<String>> {
    let is_given =
        |id: &str| given.value_source(id) == Some(clap::parser::ValueSource::CommandLine);
    let (mut ignored, mut refused) = (Vec::new(), Vec::new());
    for flag in FLAGS.iter().filter(|flag| is_given(flag.long)) {
        match flag.handling {
            Ignored(why) => ignored.push(format!("--{} is ignored: {why}", flag.long)),
            Refused(why) => refused.push(format!("--{}: {why}", flag.long)),
        }
    }
    if is_given(CONFIG_ID) {
        refused.push(CONFIG_REFUSED.to_owned());
    }
    if !refused.is_empty() {
        bail!("flags of solana-test-validator that Hydrant refuses\n  {}", refused.join("\n  "));
    }
    Ok(ignored)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

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
        let command = crate::cli::command();
        let given = command.try_get_matches_from([&["hydrant", "dev"], flags].concat())?;
        check_flags(given.subcommand_matches("dev").expect("it is `dev`"))
    }

    #[test]
    fn every_flag_of_test_validator_is_had_ignored_or_refused() {
        assert_eq!(OF_TEST_VALIDATOR.len(), 50);
        let cli = Cli::command();
        let dev = cli.find_subcommand("dev").expect("it is there");
        for name in OF_TEST_VALIDATOR {
            let had = dev.get_arguments().any(|arg| arg.get_long() == Some(name));
            let here = FLAGS.iter().filter(|flag| flag.long == *name).count();
            let groups = usize::from(had) + here;
            assert!(groups == 1, "--{name} is in {groups} groups");
        }
        for flag in FLAGS {
            let is_theirs = OF_TEST_VALIDATOR.contains(&flag.long) || flag.long == "gossip-host";
            assert!(is_theirs, "--{} is no flag of test-validator", flag.long);
        }
    }

    #[test]
    fn each_flag_is_answered_with_its_reason() {
        for flag in FLAGS {
            let names = [Some(flag.long), flag.alias].into_iter().flatten();
            for name in names.map(|name| format!("--{name}")) {
                let given = match flag.values {
                    No | AtMostOne => vec![name.as_str()],
                    One => vec![name.as_str(), "1"],
                    Many => vec![name.as_str(), "1", "2"],
                };
                match (flag.handling, parse(&given)) {
                    (Ignored(why), Ok(lines)) => {
                        assert_eq!(lines, [format!("--{} is ignored: {why}", flag.long)]);
                    }
                    (Refused(why), Err(err)) => {
                        let said = err.to_string();
                        assert!(said.contains(&format!("--{}: {why}", flag.long)), "{said}");
                    }
                    (answer, got) => panic!("{name} is {answer:?} and was {got:?}"),
                }
            }
        }
    }

    #[test]
    fn all_refused_flags_are_named_at_once_and_short_forms_are_known() {
        let err =
            parse(&["-u", "devnet", "-c", "abc", "--alpenglow"]).expect_err("two are refused");
        let said = err.to_string();
        assert!(said.contains("--clone: ") && said.contains("--alpenglow: "), "{said}");
        assert!(!said.contains("--url"), "{said}");
        let err = parse(&["-C", "cli.yml"]).expect_err("another file");
        assert!(err.to_string().contains("give it with --mint"), "{err}");
        assert_eq!(parse(&["--url", "devnet", "-r"]).expect("it is ignored").len(), 1);
        assert!(parse(&["--quiet"]).expect("it is had").is_empty());
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
