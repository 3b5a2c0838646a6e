//! The flags of `hydrant dev`, and their texts in `--help`.
//!
//! Not here: those that `hydrant follow` has too (`shared_flags`).

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::Deserialize;

use crate::config_text::ConfigText;
use crate::shared_flags::{
    CapacityFlags, ListenFlags, LogFlags, ServiceFlags, ServingFlags, TraceFlags,
};

/// The flags of `hydrant dev`, which are also the keys of the configuration file.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct DevFlags {
    /// Read settings from this TOML file: the long flags as keys, and the tables rpc, pool, pubsub,
    /// quic and grpc for settings that have no flag. Flags override the file.
    #[arg(long, value_name = "FILE", help_heading = "Configuration")]
    #[serde(skip)]
    pub(crate) config: Option<PathBuf>,
    /// Check the flags and the configuration file, report the first error, and exit.
    #[arg(long, help_heading = "Configuration")]
    #[serde(skip)]
    pub(crate) check: bool,
    /// The table `[rpc]` of the file: settings that have no flag, and those that have one.
    #[arg(skip)]
    pub(crate) rpc: rpc_solana::Config,
    /// The table `[pool]` of the file.
    #[arg(skip)]
    pub(crate) pool: pool::Config,
    /// The table `[pubsub]` of the file.
    #[arg(skip)]
    pub(crate) pubsub: rpc_solana::pubsub::Config,
    /// The table `[quic]` of the file.
    #[arg(skip)]
    pub(crate) quic: ::tpu::Config,
    /// The table `[grpc]` of the file.
    #[arg(skip)]
    pub(crate) grpc: grpc::Config,

    /// Store the ledger in this directory, and continue a ledger that is there.
    #[arg(short, long, value_name = "DIR", help_heading = "Ledger")]
    pub(crate) ledger: Option<PathBuf>,
    /// Empty the ledger directory first.
    #[arg(short, long, help_heading = "Ledger")]
    pub(crate) reset: bool,
    /// Milliseconds of a slot; 0 creates a block for each transaction [default: 400].
    #[arg(long, value_name = "MS", help_heading = "Ledger")]
    pub(crate) slot_ms: Option<u64>,
    /// Ticks of 6.25 ms in a slot: an alternative to --slot-ms.
    #[arg(long, value_name = "TICKS", conflicts_with = "slot_ms", help_heading = "Ledger")]
    pub(crate) ticks_per_slot: Option<u64>,
    /// When blocks are made [default: clock, and transaction with --slot-ms 0].
    #[arg(long, value_name = "MODE", help_heading = "Ledger")]
    pub(crate) block_mode: Option<BlockMode>,
    /// Slots from confirmed to finalized [default: 31, and 0 if each transaction makes a block].
    #[arg(long, value_name = "SLOTS", help_heading = "Ledger")]
    pub(crate) finalize_after: Option<u64>,
    /// Slots of an epoch, at least 32; fixed when the ledger is created [default: 432000].
    #[arg(long, value_name = "SLOTS", help_heading = "Ledger")]
    pub(crate) slots_per_epoch: Option<u64>,
    /// Start the next block at this slot, at most 18446744069414584319.
    ///
    /// Without a value: the slot of the cluster of --url.
    #[arg(short, long, value_name = "SLOT", help_heading = "Ledger")]
    pub(crate) warp_slot: Option<Option<u64>>,
    /// Slots of history to retain: about 3.6 KB for an empty one [default: 10000].
    #[arg(long, value_name = "SLOTS", help_heading = "Ledger")]
    pub(crate) history_slots: Option<u64>,
    /// Bytes of history to retain at most, in addition to the limit of slots: about 2 KB for each
    /// transfer [default: 1073741824].
    #[arg(long, value_name = "BYTES", help_heading = "Ledger")]
    pub(crate) history_bytes: Option<u64>,
    /// Shreds of history to retain, 1,228 bytes each: an alternative to --history-bytes.
    #[arg(long, value_name = "SHREDS", conflicts_with = "history_bytes", help_heading = "Ledger")]
    pub(crate) limit_ledger_size: Option<u64>,

    /// Start with the accounts of this snapshot archive, at its slot, instead of an empty ledger.
    ///
    /// A full archive of Agave 4 (snapshot-SLOT-HASH.tar.zst). All of it is read and checked. The
    /// node's own faucet, identity, vote and stake accounts are added.
    #[arg(long, value_name = "FILE", help_heading = "Genesis")]
    pub(crate) from_snapshot: Option<PathBuf>,
    /// An incremental archive on top of --from-snapshot.
    #[arg(long, value_name = "FILE", help_heading = "Genesis")]
    pub(crate) from_incremental_snapshot: Option<PathBuf>,
    /// The account that gets 500,000,000 SOL at genesis: an address or a keypair file.
    ///
    /// Default: the keypair of the Solana CLI (of its configuration, or ~/.config/solana/id.json), if it exists.
    #[arg(long, value_name = "PUBKEY", help_heading = "Genesis")]
    pub(crate) mint: Option<String>,
    /// SOL of the faucet at genesis [default: 1000000].
    #[arg(long, value_name = "SOL", help_heading = "Genesis")]
    pub(crate) faucet_sol: Option<f64>,
    /// Maximum SOL of one airdrop [default: no limit].
    #[arg(long, value_name = "SOL", help_heading = "Genesis")]
    pub(crate) faucet_per_request_sol_cap: Option<Option<f64>>,
    /// Maximum SOL of all airdrops to one account, and of one client over TCP, in a slice of time
    /// [default: no limit].
    #[arg(long, value_name = "SOL", help_heading = "Genesis")]
    pub(crate) faucet_per_time_sol_cap: Option<Option<f64>>,
    /// Seconds of this slice of time [default: 60].
    #[arg(long, value_name = "SECONDS", help_heading = "Genesis")]
    pub(crate) faucet_time_slice_secs: Option<u64>,
    /// Constant inflation rate, all of it for stakes: 0.08 is 8 % a year [default: falling from 8 %,
    /// as on a new cluster].
    #[arg(long, value_name = "RATE", help_heading = "Genesis")]
    pub(crate) inflation_fixed: Option<f64>,
    /// The active features: all that the node knows except Alpenglow, or those of mainnet; fixed when
    /// the ledger is created [default: all].
    #[arg(long, value_name = "SET", value_enum, help_heading = "Genesis")]
    pub(crate) features: Option<FeatureBase>,
    /// A feature to leave inactive. Can be repeated.
    #[arg(long, value_name = "PUBKEY", num_args = 1.., help_heading = "Genesis")]
    pub(crate) deactivate_feature: Vec<String>,
    /// An account for genesis, from a file in the format of `solana account --output json`. With "-" as
    /// address, the file's address is used. Can be repeated.
    #[arg(long, num_args = 2, value_names = ["ADDRESS", "FILE"], help_heading = "Genesis")]
    #[serde(deserialize_with = "rows")]
    pub(crate) account: Vec<String>,
    /// A directory of such files; all that end in .json are read. Can be repeated.
    #[arg(long, value_name = "DIR", help_heading = "Genesis")]
    pub(crate) account_dir: Vec<PathBuf>,
    /// A program for genesis that cannot be upgraded: address or keypair file, then the ELF.
    #[arg(long, num_args = 2, value_names = ["ADDRESS", "FILE"], help_heading = "Genesis")]
    #[serde(deserialize_with = "rows")]
    pub(crate) bpf_program: Vec<String>,
    /// A program for genesis that the authority can upgrade ("none": no authority).
    #[arg(long, num_args = 3, value_names = ["ADDRESS", "FILE", "AUTHORITY"], help_heading = "Genesis")]
    #[serde(deserialize_with = "rows")]
    pub(crate) upgradeable_program: Vec<String>,

    /// The cluster to clone from: the URL of its JSON-RPC, or mainnet-beta, testnet, devnet or localhost.
    #[arg(short, long, value_name = "URL", help_heading = "Clone")]
    pub(crate) url: Option<String>,
    /// Clone this account from --url when the ledger is created. Can be repeated.
    #[arg(short, long, value_name = "ADDRESS", num_args = 1.., help_heading = "Clone")]
    pub(crate) clone: Vec<String>,
    /// The same, but an account that does not exist is skipped. Can be repeated.
    #[arg(long, value_name = "ADDRESS", num_args = 1.., help_heading = "Clone")]
    pub(crate) maybe_clone: Vec<String>,
    /// Clone this upgradeable program with its data. Can be repeated.
    #[arg(long, value_name = "ADDRESS", num_args = 1.., help_heading = "Clone")]
    pub(crate) clone_upgradeable_program: Vec<String>,
    /// Clone this address lookup table with the accounts that it lists. Can be repeated.
    #[arg(long, value_name = "ADDRESS", num_args = 1.., help_heading = "Clone")]
    pub(crate) deep_clone_address_lookup_table: Vec<String>,
    /// Leave the features inactive that are inactive on --url.
    #[arg(long, help_heading = "Clone")]
    pub(crate) clone_feature_set: bool,

    /// Fork this cluster: an account that the ledger does not have is fetched from there when a request
    /// needs it. The URL of its JSON-RPC, or mainnet-beta, testnet, devnet or localhost. The ledger is in
    /// memory.
    #[arg(long, value_name = "URL", help_heading = "Fork")]
    pub(crate) fork_url: Option<String>,
    /// The newest slot as of which an account may be fetched. What the cluster answers as of a later slot
    /// is an error, unless --fork-cache has the account.
    #[arg(long, value_name = "SLOT", help_heading = "Fork")]
    pub(crate) fork_slot: Option<u64>,
    /// Store what was fetched in this directory, and read it from there first.
    #[arg(long, value_name = "DIR", help_heading = "Fork")]
    pub(crate) fork_cache: Option<PathBuf>,
    /// The genesis hash that the cluster must have.
    #[arg(long, value_name = "HASH", help_heading = "Fork")]
    pub(crate) fork_genesis: Option<String>,
    /// Maximum bytes of fetched accounts, in memory, and of the file in --fork-cache [default: 1073741824].
    #[arg(long, value_name = "BYTES", help_heading = "Fork")]
    pub(crate) fork_bytes_max: Option<u64>,
    /// Maximum number of requests at the cluster at once [default: 4].
    #[arg(long, value_name = "COUNT", help_heading = "Fork")]
    pub(crate) fork_requests_max: Option<usize>,
    /// Milliseconds until a request that waits for the cluster gets an error [default: 8000].
    #[arg(long, value_name = "MS", help_heading = "Fork")]
    pub(crate) fork_timeout_ms: Option<u64>,

    /// An index to maintain; all others are off. Can be repeated [default: all indices].
    ///
    /// A request by an index that is off scans all accounts of the program, or all accounts.
    #[arg(long, value_name = "INDEX", num_args = 1.., value_enum, help_heading = "Indices")]
    pub(crate) account_index: Vec<AccountIndex>,
    /// Exclude this key from every index; a request by it is an error. Can be repeated.
    #[arg(long, value_name = "KEY", num_args = 1.., help_heading = "Indices")]
    pub(crate) account_index_exclude_key: Vec<String>,
    /// Include only these keys in every index; a request by another key is an error. Can be repeated.
    #[arg(
        long,
        value_name = "KEY",
        num_args = 1..,
        conflicts_with = "account_index_exclude_key",
        help_heading = "Indices"
    )]
    pub(crate) account_index_include_key: Vec<String>,

    #[command(flatten)]
    #[serde(skip)]
    pub(crate) listen: ListenFlags,
    /// Port for JSON-RPC, and for WebSocket by upgrade. The next port is for WebSocket only. 0 uses two
    /// free ports [default: 8899].
    #[arg(long, value_name = "PORT", help_heading = "Serving")]
    pub(crate) rpc_port: Option<u16>,
    /// The port of WebSocket, if it is not the next one: `--ws-port` of surfpool.
    #[arg(skip)]
    #[serde(skip)]
    pub(crate) pubsub_port: Option<u16>,
    /// UDP port for transactions over QUIC; 0 uses a free port [default: two after --rpc-port].
    #[arg(long, value_name = "PORT", help_heading = "Serving")]
    pub(crate) tpu_port: Option<u16>,
    /// TCP port of the faucet, which signs airdrops for clients that send them; 0 uses a free port
    /// [default: none; 9900 as solana-test-validator, a free port with --rpc-port 0].
    #[arg(long, value_name = "PORT", help_heading = "Serving")]
    pub(crate) faucet_port: Option<u16>,
    #[command(flatten)]
    #[serde(skip)]
    pub(crate) services: ServiceFlags,
    /// Do not serve cheat codes, the methods that set accounts and time past the ledger's rules.
    #[arg(long, help_heading = "Serving")]
    pub(crate) no_cheatcodes: bool,
    /// Maximum number of QUIC connections [default: 4000].
    #[arg(long, value_name = "COUNT", help_heading = "Serving")]
    pub(crate) tpu_connections_max: Option<usize>,
    /// A file of identities with a larger share of QUIC, in lines of PUBKEY WEIGHT (all others have
    /// weight 1); read again when it changes.
    #[arg(long, value_name = "FILE", help_heading = "Serving")]
    pub(crate) identity_weights: Option<PathBuf>,
    /// Forward accepted transactions to this TPU over QUIC. Can be repeated.
    #[arg(long, value_name = "ADDRESS:PORT", help_heading = "Serving")]
    pub(crate) forward: Vec<SocketAddr>,
    /// Write {"rpc": URL, "ws": URL, "tpu": ADDRESS, "grpc": URL} to this file when the node is ready.
    #[arg(long, value_name = "FILE", help_heading = "Serving")]
    pub(crate) endpoints_file: Option<PathBuf>,
    #[command(flatten)]
    #[serde(skip)]
    pub(crate) serving: ServingFlags,
    /// Threads for network I/O and inline requests [default: half the number of cores, at least 1].
    #[arg(long, value_name = "COUNT", help_heading = "Serving")]
    pub(crate) io_threads: Option<usize>,
    /// Threads that compute all other responses and verify signatures, at a lower priority than the
    /// I/O threads [default: the number of cores].
    #[arg(long, value_name = "COUNT", help_heading = "Serving")]
    pub(crate) cpu_threads: Option<usize>,
    /// Maximum bytes of a request's body [default: 51200].
    #[arg(long, value_name = "BYTES", help_heading = "Serving")]
    pub(crate) rpc_max_request_body_size: Option<usize>,

    /// Maximum number of transactions that wait for execution, half of it for one client; more get 429
    /// [default: 40000].
    #[arg(long, value_name = "COUNT", help_heading = "Bounds")]
    pub(crate) queue_max: Option<usize>,
    /// Maximum compute units that these transactions request, at least 10000000, half of it for one
    /// client; more get 429 [default: 8000000000].
    #[arg(long, value_name = "UNITS", help_heading = "Bounds")]
    pub(crate) queue_compute_units_max: Option<u64>,
    /// Maximum number of heavy requests, running and waiting, half of it for one client; more get 429
    /// [default: 256].
    #[arg(long, value_name = "COUNT", help_heading = "Bounds")]
    pub(crate) heavy_max: Option<usize>,
    /// Bytes of the response cache, whose responses are valid until their data changes; 0 disables it
    /// [default: 268435456].
    #[arg(long, value_name = "BYTES", help_heading = "Bounds")]
    pub(crate) cache_bytes_max: Option<u64>,
    /// Maximum number of connections, HTTP and WebSocket together [default: 10000].
    #[arg(long, value_name = "COUNT", help_heading = "Bounds")]
    pub(crate) connections_max: Option<usize>,
    #[command(flatten)]
    #[serde(skip)]
    pub(crate) capacity: CapacityFlags,
    /// Maximum number of addresses in all subscribed sets, at most 16 bytes each; equal subscriptions
    /// count once [default: 10000000].
    #[arg(long, value_name = "COUNT", help_heading = "Bounds")]
    pub(crate) max_tracked_addresses: Option<usize>,

    /// Compute units that each transaction may use, whatever it requests, at most 1000000000 [default: what it
    /// requests, at most 1400000].
    #[arg(long, alias = "max-compute-units", value_name = "UNITS", help_heading = "Bounds")]
    pub(crate) compute_unit_limit: Option<u64>,
    /// Maximum number of accounts that a transaction may name; the limit of the active features stays [default:
    /// that limit: 128, or 64].
    #[arg(long, value_name = "COUNT", help_heading = "Bounds")]
    pub(crate) transaction_account_lock_limit: Option<usize>,

    /// No banner and no status line.
    #[arg(short, long, help_heading = "Output")]
    pub(crate) quiet: bool,
    #[command(flatten)]
    #[serde(skip)]
    pub(crate) logging: LogFlags,
    /// Log requests that take longer than this number of milliseconds, at most ten lines a second; 0
    /// logs none [default: 1000].
    #[arg(long, value_name = "MS", help_heading = "Output")]
    pub(crate) slow_request_ms: Option<u64>,
    #[command(flatten)]
    #[serde(skip)]
    pub(crate) traces: TraceFlags,
}

impl DevFlags {
    /// The settings of a configuration file. A key that is no setting is refused.
    pub(crate) fn from_toml(text: &str) -> Result<Self, toml::de::Error> {
        let mut file = ConfigText::new(text);
        let flags = Self {
            listen: file.part()?,
            services: file.part()?,
            serving: file.part()?,
            capacity: file.part()?,
            logging: file.part()?,
            traces: file.part()?,
            ..file.part()?
        };
        file.check_keys()?;
        Ok(flags)
    }
}

/// An index of accounts, by its name on the command line.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum AccountIndex {
    /// By the program that owns the account.
    ProgramId,
    /// By the wallet that owns the token account.
    SplTokenOwner,
    /// By the mint of the token account.
    SplTokenMint,
    /// By the delegate of the token account; Agave has no such index.
    SplTokenDelegate,
    /// No index.
    None,
}

/// When blocks are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum BlockMode {
    /// After each slot's time.
    Clock,
    /// One for each transaction.
    Transaction,
    /// On request, by hydrant_mine; transactions wait.
    Manual,
}

/// A set of features.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FeatureBase {
    /// Those of `solana-test-validator`.
    All,
    /// Those of mainnet.
    Mainnet,
}

/// In a file, an argument with several values is an array of arrays. Here it is flat, as in clap.
fn rows<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Ok(Vec::<Vec<String>>::deserialize(deserializer)?.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_is_a_key_of_the_file() {
        let command = DevFlags::augment_args(clap::Command::new("dev"));
        let names: Vec<&str> = command.get_arguments().filter_map(clap::Arg::get_long).collect();
        assert!(names.len() > 60, "{} flags", names.len());
        for name in names.into_iter().filter(|name| !["config", "check"].contains(name)) {
            // No flag is a table.
            let err = DevFlags::from_toml(&format!("[{name}]")).expect_err(name).to_string();
            assert!(err.contains(&format!("[{name}]")), "{err}");
            assert!(!err.contains("unknown field"), "{err}");
        }
        for name in ["config", "check"] {
            let err = DevFlags::from_toml(&format!("{name} = 1")).expect_err(name).to_string();
            assert!(err.contains(&format!("unknown field `{name}`")), "{err}");
        }
    }
}
