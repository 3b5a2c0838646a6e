//! The command line: what can be said, and how it reads in `--help`.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use serde::Deserialize;

use crate::bench::BenchFlags;
use crate::index_flags::AccountIndex;
use crate::test_validator;

/// A read node for ledgers: takes transactions in, keeps the state in memory, serves it to many.
#[derive(Parser)]
#[command(name = "hydrant", version, term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run a local Solana ledger, in place of solana-test-validator.
    ///
    /// Transactions are executed as they arrive, slots tick on a clock, and JSON-RPC and WebSocket
    /// subscriptions are served to unmodified clients. Without --ledger everything is in memory.
    Dev(Box<DevFlags>),
    /// Say what is in a snapshot archive, and check it whole.
    ///
    /// All its accounts are read into memory, hashed, and compared with what the archive says.
    Inspect(InspectFlags),
    /// Offer load to any endpoint that speaks Solana's JSON-RPC, and tell latencies and rates.
    ///
    /// What there is to ask for is found out from the endpoint. It changes nothing there.
    Bench(Box<BenchFlags>),
}

/// The whole command line, with the flags of `solana-test-validator` that are only answered.
pub(crate) fn command() -> clap::Command {
    Cli::command().mut_subcommand("dev", test_validator::add)
}

/// Reads the command line. Flags that are ignored are named on standard error; flags that are refused
/// are the error. What clap refuses ends the process.
pub(crate) fn parse() -> Result<Command> {
    let given = command().get_matches();
    if let Some(dev) = given.subcommand_matches("dev") {
        for line in test_validator::check_flags(dev)? {
            // A start does not fail because nobody reads this.
            let _ = writeln!(std::io::stderr(), "hydrant: {line}");
        }
    }
    let cli = Cli::from_arg_matches(&given).unwrap_or_else(|err| err.exit());
    Ok(cli.command)
}

/// What `hydrant inspect` can be told.
#[derive(Args, Clone, Debug)]
pub(crate) struct InspectFlags {
    /// A full snapshot archive (snapshot-SLOT-HASH.tar.zst).
    #[arg(value_name = "FILE")]
    pub(crate) full: PathBuf,
    /// An incremental archive to put on top.
    #[arg(long, value_name = "FILE")]
    pub(crate) incremental: Option<PathBuf>,
    /// How many of the largest accounts, and of the programs with the most data, are listed.
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    pub(crate) largest: usize,
    /// Threads that parse and hash, beside the one that unpacks [default: the cores].
    #[arg(long, value_name = "COUNT")]
    pub(crate) threads: Option<usize>,
    /// No progress on standard error.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// Everything `hydrant dev` can be told, by flag or by configuration file.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct DevFlags {
    /// Read settings from this TOML file: the long flags as keys, and the tables rpc, pool, pubsub and
    /// quic
    /// for limits that have no flag. Flags win.
    #[arg(long, value_name = "FILE", help_heading = "Configuration")]
    #[serde(skip)]
    pub(crate) config: Option<PathBuf>,
    /// Check flags and configuration file, say what is wrong, and start nothing.
    #[arg(long, help_heading = "Configuration")]
    #[serde(skip)]
    pub(crate) check: bool,
    /// The table `[rpc]` of the file: limits that have no flag, and those that have.
    #[arg(skip)]
    pub(crate) rpc: rpc::Config,
    /// The table `[pool]` of the file.
    #[arg(skip)]
    pub(crate) pool: pool::Config,
    /// The table `[pubsub]` of the file.
    #[arg(skip)]
    pub(crate) pubsub: rpc::pubsub::Config,
    /// The table `[quic]` of the file.
    #[arg(skip)]
    pub(crate) quic: ::tpu::Config,

    /// Keep the ledger in this directory, and go on from what it holds.
    #[arg(short, long, value_name = "DIR", help_heading = "Ledger")]
    pub(crate) ledger: Option<PathBuf>,
    /// Empty the ledger directory first.
    #[arg(short, long, help_heading = "Ledger")]
    pub(crate) reset: bool,
    /// Milliseconds of a slot; 0 makes a block of every transaction [default: 400].
    #[arg(long, value_name = "MS", help_heading = "Ledger")]
    pub(crate) slot_ms: Option<u64>,
    /// Ticks of 6.25 ms in a slot: another way to say --slot-ms.
    #[arg(long, value_name = "TICKS", conflicts_with = "slot_ms", help_heading = "Ledger")]
    pub(crate) ticks_per_slot: Option<u64>,
    /// Slots from confirmed to finalized [default: 31, and 0 with --slot-ms 0].
    #[arg(long, value_name = "SLOTS", help_heading = "Ledger")]
    pub(crate) finalize_after: Option<u64>,
    /// Slots of an epoch, at least 32; fixed when the ledger is made [default: 432000].
    #[arg(long, value_name = "SLOTS", help_heading = "Ledger")]
    pub(crate) slots_per_epoch: Option<u64>,
    /// Begin the next block at this slot, at most 18446744069414584319.
    #[arg(short, long, value_name = "SLOT", help_heading = "Ledger")]
    pub(crate) warp_slot: Option<u64>,
    /// Slots of history kept: about 3.6 KB for an empty one [default: 10000].
    #[arg(long, value_name = "SLOTS", help_heading = "Ledger")]
    pub(crate) history_slots: Option<u64>,
    /// Bytes of history kept, whatever the slots: about 2 KB a transfer [default: 1073741824].
    #[arg(long, value_name = "BYTES", help_heading = "Ledger")]
    pub(crate) history_bytes: Option<u64>,
    /// Shreds of history kept: another way to say --history-bytes, 1,228 bytes each.
    #[arg(long, value_name = "SHREDS", conflicts_with = "history_bytes", help_heading = "Ledger")]
    pub(crate) limit_ledger_size: Option<u64>,

    /// Begin with the accounts of this snapshot archive, at its slot, instead of with nothing.
    ///
    /// A full archive as Agave 4 writes it (snapshot-SLOT-HASH.tar.zst). It is read and checked
    /// whole. The node's own faucet, identity, vote and stake accounts come on top.
    #[arg(long, value_name = "FILE", help_heading = "Genesis")]
    pub(crate) from_snapshot: Option<PathBuf>,
    /// An incremental archive on top of --from-snapshot.
    #[arg(long, value_name = "FILE", help_heading = "Genesis")]
    pub(crate) from_incremental_snapshot: Option<PathBuf>,
    /// Who gets 500,000,000 SOL at genesis: an address or a keypair file.
    ///
    /// Without it: the keypair of the Solana CLI (~/.config/solana/id.json), if there is one.
    #[arg(long, value_name = "PUBKEY", help_heading = "Genesis")]
    pub(crate) mint: Option<String>,
    /// SOL of the faucet at genesis [default: 1000000].
    #[arg(long, value_name = "SOL", help_heading = "Genesis")]
    pub(crate) faucet_sol: Option<f64>,
    /// SOL that one airdrop gives at most [default: no limit].
    #[arg(long, value_name = "SOL", help_heading = "Genesis")]
    pub(crate) faucet_per_request_sol_cap: Option<f64>,
    /// Inflation of this rate for good, all of it for stakes: 0.08 is 8 % a year [default: from 8 %,
    /// falling, as a new cluster has it].
    #[arg(long, value_name = "RATE", help_heading = "Genesis")]
    pub(crate) inflation_fixed: Option<f64>,
    /// Which features are active: all that the node knows but Alpenglow, or those of mainnet; fixed
    /// when the ledger is made [default: all].
    #[arg(long, value_name = "SET", value_enum, help_heading = "Genesis")]
    pub(crate) features: Option<FeatureBase>,
    /// A feature that stays inactive. May be given more than once.
    #[arg(long, value_name = "PUBKEY", num_args = 1.., help_heading = "Genesis")]
    pub(crate) deactivate_feature: Vec<String>,
    /// An account to begin with, from a file as `solana account --output json` writes it. "-" as
    /// address takes the file's. May be given more than once.
    #[arg(long, num_args = 2, value_names = ["ADDRESS", "FILE"], help_heading = "Genesis")]
    #[serde(deserialize_with = "rows")]
    pub(crate) account: Vec<String>,
    /// A directory of such files, every one ending in .json. May be given more than once.
    #[arg(long, value_name = "DIR", help_heading = "Genesis")]
    pub(crate) account_dir: Vec<PathBuf>,
    /// A program to begin with, which nobody may upgrade: address or keypair file, then the ELF.
    #[arg(long, num_args = 2, value_names = ["ADDRESS", "FILE"], help_heading = "Genesis")]
    #[serde(deserialize_with = "rows")]
    pub(crate) bpf_program: Vec<String>,
    /// A program to begin with, which the authority may upgrade ("none": nobody).
    #[arg(long, num_args = 3, value_names = ["ADDRESS", "FILE", "AUTHORITY"], help_heading = "Genesis")]
    #[serde(deserialize_with = "rows")]
    pub(crate) upgradeable_program: Vec<String>,

    /// An index to find accounts by: those that are not named are off. May be given more than once
    /// [default: all of them].
    ///
    /// What is asked by an index that is off is looked for in the program's accounts, or in all.
    #[arg(long, value_name = "INDEX", num_args = 1.., value_enum, help_heading = "Indices")]
    pub(crate) account_index: Vec<AccountIndex>,
    /// Leave this key out of every index; asking by it is an error. May be given more than once.
    #[arg(long, value_name = "KEY", num_args = 1.., help_heading = "Indices")]
    pub(crate) account_index_exclude_key: Vec<String>,
    /// Keep only such keys in every index; asking by another is an error. May be given more than once.
    #[arg(
        long,
        value_name = "KEY",
        num_args = 1..,
        conflicts_with = "account_index_exclude_key",
        help_heading = "Indices"
    )]
    pub(crate) account_index_include_key: Vec<String>,

    /// Where to listen [default: 127.0.0.1].
    #[arg(long, value_name = "ADDRESS", help_heading = "Serving")]
    pub(crate) bind_address: Option<IpAddr>,
    /// Port of JSON-RPC; WebSocket is on the next one, and here by upgrade; 0 takes free ones
    /// [default: 8899].
    #[arg(long, value_name = "PORT", help_heading = "Serving")]
    pub(crate) rpc_port: Option<u16>,
    /// UDP port on which transactions are taken over QUIC; 0 takes a free one [default: two after
    /// --rpc-port].
    #[arg(long, value_name = "PORT", help_heading = "Serving")]
    pub(crate) tpu_port: Option<u16>,
    /// Connections over QUIC at once [default: 4000].
    #[arg(long, value_name = "COUNT", help_heading = "Serving")]
    pub(crate) tpu_connections_max: Option<usize>,
    /// A file of identities that get more over QUIC, lines of PUBKEY WEIGHT (others weigh 1); read
    /// again when it changes.
    #[arg(long, value_name = "FILE", help_heading = "Serving")]
    pub(crate) identity_weights: Option<PathBuf>,
    /// Send accepted transactions on to this TPU over QUIC. May be given more than once.
    #[arg(long, value_name = "ADDRESS:PORT", help_heading = "Serving")]
    pub(crate) forward: Vec<SocketAddr>,
    /// Write {"rpc": URL, "ws": URL, "tpu": ADDRESS} to this file once the node answers.
    #[arg(long, value_name = "FILE", help_heading = "Serving")]
    pub(crate) endpoints_file: Option<PathBuf>,
    /// Origin of web pages that may send requests, such as `https://app.example`. May be given more than
    /// once; pages of other origins get 403, also for WebSockets [default: *, any].
    #[arg(long, value_name = "ORIGIN", help_heading = "Serving")]
    pub(crate) allow_origin: Vec<String>,
    /// Threads that move bytes and answer inline requests [default: half the cores, at least 1].
    #[arg(long, value_name = "COUNT", help_heading = "Serving")]
    pub(crate) io_threads: Option<usize>,
    /// Threads that read, encode and compress what is not inline, and verify signatures, at a lower
    /// priority than the others [default: the cores].
    #[arg(long, value_name = "COUNT", help_heading = "Serving")]
    pub(crate) cpu_threads: Option<usize>,
    /// Bytes of a request's body, at most [default: 51200].
    #[arg(long, value_name = "BYTES", help_heading = "Serving")]
    pub(crate) rpc_max_request_body_size: Option<usize>,

    /// Transactions that may wait for execution, at most half of them of one client; more are refused
    /// with 429 [default: 40000].
    #[arg(long, value_name = "COUNT", help_heading = "Bounds")]
    pub(crate) queue_max: Option<usize>,
    /// Compute units that those may ask for, at least 10000000, at most half of them by one client; more
    /// are refused with 429 [default: 8000000000].
    #[arg(long, value_name = "UNITS", help_heading = "Bounds")]
    pub(crate) queue_compute_units_max: Option<u64>,
    /// Heavy requests at once, those that wait included, at most half of them of one client; more are
    /// refused with 429 [default: 256].
    #[arg(long, value_name = "COUNT", help_heading = "Bounds")]
    pub(crate) heavy_max: Option<usize>,
    /// Bytes of answers kept for as long as what they were read from is unchanged; 0 keeps none
    /// [default: 268435456].
    #[arg(long, value_name = "BYTES", help_heading = "Bounds")]
    pub(crate) cache_bytes_max: Option<u64>,
    /// Connections at once, HTTP and WebSocket together [default: 10000].
    #[arg(long, value_name = "COUNT", help_heading = "Bounds")]
    pub(crate) connections_max: Option<usize>,
    /// Addresses the ledger may know, about 100 bytes each once used [default: 64000000].
    #[arg(long, value_name = "COUNT", help_heading = "Bounds")]
    pub(crate) max_addresses: Option<u32>,
    /// Addresses of all subscribed sets, at most 16 bytes each; equal subscriptions count once
    /// [default: 10000000].
    #[arg(long, value_name = "COUNT", help_heading = "Bounds")]
    pub(crate) max_tracked_addresses: Option<usize>,

    /// No banner and no status line.
    #[arg(short, long, help_heading = "Output")]
    pub(crate) quiet: bool,
    /// Log to standard error; RUST_LOG says what (default: info).
    #[arg(long, help_heading = "Output")]
    pub(crate) log: bool,
    /// How a line of the log is written [default: text].
    #[arg(long, value_name = "FORMAT", value_enum, help_heading = "Output")]
    pub(crate) log_format: Option<LogFormat>,
    /// Log requests that take longer than so many milliseconds, at most ten lines a second; 0 logs
    /// none [default: 1000].
    #[arg(long, value_name = "MS", help_heading = "Output")]
    pub(crate) slow_request_ms: Option<u64>,
}

/// A set of features.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FeatureBase {
    /// As `solana-test-validator` has them.
    All,
    /// As mainnet has them.
    Mainnet,
}

/// How a line of the log is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// For programs: an object a line, with a field a member.
    Json,
}

/// In a file, an argument of several values is an array of arrays; inside it is flat, as clap has it.
fn rows<'de, D: serde::Deserializer<'de>>(given: D) -> Result<Vec<String>, D::Error> {
    Ok(Vec::<Vec<String>>::deserialize(given)?.into_iter().flatten().collect())
}
