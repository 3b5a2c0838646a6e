//! The command line: the commands, and how it is parsed.
//!
//! Not here: the flags of a command, which are in a file of their own (`local::flags`, `follow::flags`,
//! `follow_kaspa::flags`, `replica::flags`, `cluster_flags`) or with the command (`inspect`, `bench`).
//! Every build has all commands. One without the feature `cluster` refuses those that need it (`missing_feature`).

use anyhow::{Result, bail};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::admin::AdminFlags;
use crate::api_key::ApiKeyFlags;
use crate::bench::flags::BenchFlags;
use crate::bounds;
use crate::cluster_flags::{LogCheckFlags, SnapshotsFlags};
use crate::console::print_stderr;
use crate::follow::flags::FollowFlags;
use crate::follow_kaspa::flags::{self as kaspa_flags, FollowKaspaFlags};
use crate::generated_files::{CompletionsFlags, ManFlags};
use crate::inspect::InspectFlags;
use crate::local::LocalPreset;
use crate::local::flags::DevFlags;
use crate::replica::flags::{self as replica_flags, ReplicaCommandFlags};
use crate::surfpool::{self, SurfpoolArgs};
use crate::test_validator;

/// The end of the help of `hydrant ingest`.
const INGEST_FOOTER: &str = "\
Example:
  hydrant ingest --source http://VALIDATOR:10000 --snapshot http://VALIDATOR:8899 \\
      --log-url nats://N1:4222,nats://N2:4222,nats://N3:4222 --depot s3://BUCKET/hydrant

docs/cluster.md is the runbook, and docs/configuration.md describes the settings.";
/// The end of the help of `hydrant replica`.
const REPLICA_FOOTER: &str = "\
Example:
  hydrant replica --log-url file:///tmp/hydrant/log --depot file:///tmp/hydrant/depot

docs/cluster.md is the runbook, and docs/configuration.md describes the settings.";
/// The end of the help of `hydrant log-check`.
const LOG_CHECK_FOOTER: &str = "\
Example:
  hydrant log-check nats://N1:4222,nats://N2:4222,nats://N3:4222 --log-cluster mainnet

docs/operations.md describes the damages, and docs/cluster.md the restore.";
/// The end of the help of `hydrant snapshots`.
const SNAPSHOTS_FOOTER: &str = "\
Example:
  hydrant snapshots s3://BUCKET/hydrant --log-cluster mainnet --check

docs/cluster.md describes snapshots, the archive with its holes, and the restore.";

/// A read node for ledgers: accepts transactions, holds the state in memory, serves many clients.
#[derive(Parser)]
#[command(name = "hydrant", version, term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run a local Solana ledger, as a replacement for solana-test-validator.
    ///
    /// Transactions are executed as they arrive, and slots advance by a clock. JSON-RPC and WebSocket
    /// subscriptions are served to unmodified clients. Without --ledger everything is in memory.
    Dev(Box<DevFlags>),
    /// Run a local Solana ledger under the name, flags and defaults of solana-test-validator.
    ///
    /// Runs `dev` with the ledger in ./test-ledger, with the Solana CLI's file as --config, and with the first lines of
    /// solana-test-validator's output. A link to this program that is named solana-test-validator runs it, too.
    #[command(name = test_validator::COMMAND)]
    TestValidator(Box<DevFlags>),
    /// Run a local Solana ledger under the name and flags of surfpool.
    ///
    /// Runs `dev` with the flags of `surfpool start`. A link to this program that is named surfpool runs it, too.
    #[command(name = surfpool::COMMAND, display_name = surfpool::COMMAND, version = surfpool::VERSION)]
    Surfpool(SurfpoolArgs),
    /// Follow a Solana chain from a snapshot and a Yellowstone gRPC stream, and serve it.
    ///
    /// All that is served is in memory. A start loads a snapshot, or the state in --ledger, and follows the stream from
    /// its slot on.
    Follow(Box<FollowFlags>),
    /// Follow a Solana chain and append its blocks to a replicated log, for replicas.
    ///
    /// Runs `follow` with --log-url. Several may append to one log: one leads, and another takes over.
    #[command(after_help = INGEST_FOOTER)]
    Ingest(Box<FollowFlags>),
    /// Serve a Solana ledger that is fed by a replicated log.
    ///
    /// Loads the newest snapshot in --depot, reads the log of --log-url from there on, and verifies each bank before it
    /// is shown. Any number of replicas may read one log.
    #[command(after_help = REPLICA_FOOTER)]
    Replica(Box<ReplicaCommandFlags>),
    /// Follow a Kaspa node, verify its UTXO sets, and serve wRPC and gRPC.
    ///
    /// The UTXO set of each chain block is compared with the commitment in its header. UTXOs, balances and
    /// subscriptions are served from it; other methods are forwarded to the node. The set is in memory; --ledger stores
    /// it in a snapshot file.
    FollowKaspa(Box<FollowKaspaFlags>),
    /// Check a snapshot archive and print a summary of it.
    ///
    /// All its accounts are read into memory and hashed, and the hash is compared with the archive's.
    Inspect(InspectFlags),
    /// Read a replicated log through, and print a summary of it.
    ///
    /// Each record is decoded, its digests and its link to the record before are checked, and so is the order of blocks
    /// and marks. The exit code is 1 if anything is damaged.
    #[command(after_help = LOG_CHECK_FOOTER)]
    LogCheck(LogCheckFlags),
    /// List the snapshots and the archive of a cluster in a directory or bucket.
    ///
    /// The exit code is 1 if anything that was read is damaged, or if the archive has a hole.
    #[command(after_help = SNAPSHOTS_FOOTER)]
    Snapshots(SnapshotsFlags),
    /// Generate load on any Solana JSON-RPC endpoint, and report latencies and rates.
    ///
    /// The inputs of requests are discovered from the endpoint. The load is read-only.
    Bench(Box<BenchFlags>),
    /// Print completions for a shell.
    Completions(CompletionsFlags),
    /// Write the manual pages to a directory.
    #[command(hide = true)]
    Man(ManFlags),
    /// Administer a running node: end it, reload its files, change its log, read its state.
    ///
    /// The node listens on a unix socket: --admin-socket, or admin.sock in its ledger directory.
    Admin(AdminFlags),
    /// Create API keys for --api-keys.
    ApiKey(ApiKeyFlags),
}

/// The whole command line, with the flags of `solana-test-validator` that are ignored or refused.
pub(crate) fn command() -> clap::Command {
    Cli::command()
        .mut_subcommand("dev", test_validator::add)
        .mut_subcommand(test_validator::COMMAND, test_validator::add_to_own)
        .mut_subcommand(kaspa_flags::COMMAND, kaspa_flags::describe_flags)
        .mut_subcommand(replica_flags::COMMAND, replica_flags::hide_flags)
}

/// A command of the command line.
pub(crate) struct ParsedCommand {
    pub(crate) command: Command,
    /// Settings that depend on the name of a local node's command.
    pub(crate) preset: LocalPreset,
}

impl From<Command> for ParsedCommand {
    fn from(command: Command) -> Self {
        Self { command, preset: LocalPreset::default() }
    }
}

/// Parses the command line. Ignored flags are reported on standard error. Refused flags are an error. If clap
/// finds an error, the process ends.
pub(crate) fn parse() -> Result<ParsedCommand> {
    let args = test_validator::arguments(std::env::args_os().collect());
    let args = surfpool::arguments(args);
    let is_test_validator = args.get(1).is_some_and(|name| name == test_validator::COMMAND);
    let matches = match command().try_get_matches_from(args) {
        // Its exit code is 1, as of any other error, and that of clap is 2.
        Err(err) if is_test_validator && err.use_stderr() => bail!("{}", err.render()),
        matches => matches.unwrap_or_else(|err| err.exit()),
    };
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|err| err.exit());
    match (matches.subcommand(), cli.command) {
        (Some((_, flags)), Command::Dev(mut dev)) => {
            report(&test_validator::check_flags(flags)?);
            report(&bounds::clamp(&mut dev));
            Ok(Command::Dev(dev).into())
        }
        (Some((_, flags)), Command::TestValidator(mut dev)) => {
            report(&test_validator::check_flags(flags)?);
            report(&bounds::clamp(&mut dev));
            let preset = test_validator::apply_preset(&mut dev, flags);
            let fault = test_validator::check_cli_config(&dev, &preset);
            report(fault.as_slice());
            Ok(ParsedCommand { command: Command::TestValidator(dev), preset })
        }
        (_, command) => Ok(command.into()),
    }
}

/// Prints lines about flags to standard error.
fn report(lines: &[String]) {
    for line in lines {
        print_stderr(&format!("hydrant: {line}"));
    }
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;

    use super::*;

    fn refusal(args: &[&str]) -> Option<ErrorKind> {
        Cli::try_parse_from([&["hydrant"], args].concat()).err().map(|err| err.kind())
    }

    #[test]
    fn a_flag_requires_its_counterpart_or_a_file() {
        for args in [
            &["dev", "--fork-slot", "7"][..],
            &["dev", "--fork-from-genesis"],
            &["dev", "--from-incremental-snapshot", "i"],
            &["dev", "--tls-cert", "c"],
            &["dev", "--tls-key", "k"],
            &["follow", "--source", "s", "--ledger", "l", "--incremental-snapshot", "i"],
            &["follow", "--source", "s", "--snapshot", "f", "--verify-sources-min", "2"],
        ] {
            assert_eq!(refusal(args), Some(ErrorKind::MissingRequiredArgument), "{args:?}");
            // The counterpart may be a key of the file, which is checked when it is read.
            assert_eq!(refusal(&[args, &["--config", "f"]].concat()), None, "{args:?}");
        }
        assert_eq!(refusal(&["dev", "--fork-slot", "7", "--fork-url", "u"]), None);
        assert_eq!(refusal(&["dev", "--tls-cert", "c", "--tls-key", "k"]), None);
    }

    #[test]
    fn the_help_of_a_cluster_command_ends_with_an_example_that_is_valid() {
        for name in ["ingest", "replica", "log-check", "snapshots"] {
            let mut command = command();
            let found = command.find_subcommand_mut(name).expect(name);
            let help = found.render_long_help().to_string();
            let (_, footer) = help.split_once("Example:\n").expect(name);
            let (example, documents) = footer.split_once("\n\n").expect(name);
            let args = example.split_whitespace().filter(|arg| *arg != "\\");
            assert_eq!(Cli::try_parse_from(args).err().map(|err| err.to_string()), None, "{name}");
            assert!(documents.starts_with("docs/"), "{documents}");
        }
    }

    #[test]
    fn flags_that_contradict_each_other_are_refused() {
        for args in [
            ["dev", "--fork-url", "u", "--ledger", "l"],
            ["dev", "--from-snapshot", "f", "--slots-per-epoch", "64"],
            ["dev", "--faucet-port", "1", "--api-keys", "k"],
        ] {
            assert_eq!(refusal(&args), Some(ErrorKind::ArgumentConflict), "{args:?}");
        }
    }
}
