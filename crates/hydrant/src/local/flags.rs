//! The flags of `hydrant dev`, and their texts in `--help`.
//!
//! Not here: those of every node (`node::flags`).

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::Deserialize;

use crate::node::flags::ConfigFlags;
use crate::node::{NodeFlags, merge_by_field};

/// The flags of `hydrant dev`, which are also keys of the configuration file, and of its table `[dev]`.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct DevFlags {
    #[command(flatten)]
    #[serde(skip)]
    pub(crate) config: ConfigFlags,

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
    /// Without a value: the slot of the cluster of --url, or of --fork-url.
    #[arg(short, long, value_name = "SLOT", help_heading = "Ledger")]
    pub(crate) warp_slot: Option<Option<u64>>,
    /// Execute transactions with any blockhash, such as signed ones of another cluster.
    #[arg(long, help_heading = "Ledger")]
    pub(crate) skip_blockhash_check: bool,
    /// Shreds of history to retain, 1,228 bytes each: an alternative to --history-bytes.
    #[arg(long, value_name = "SHREDS", conflicts_with = "history_bytes", help_heading = "Ledger")]
    pub(crate) limit_ledger_size: Option<u64>,

    /// Start with the accounts of this snapshot archive, at its slot, instead of an empty ledger.
    ///
    /// A full archive of Agave 4 (snapshot-SLOT-HASH.tar.zst or .tar.lz4). All of it is read and
    /// checked. The node's own faucet, identity, vote and stake accounts are added.
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
    #[arg(long, value_name = "DIR", num_args = 1.., help_heading = "Genesis")]
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
    /// Clone an account if it exists, and skip it otherwise. Can be repeated.
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
    /// Start at slot 0, now, and not at the slot, the epoch and the time of the cluster.
    #[arg(long, help_heading = "Fork")]
    pub(crate) fork_from_genesis: bool,
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

    #[command(flatten)]
    #[serde(skip)]
    pub(crate) node: NodeFlags,

    /// TCP port of the faucet, which signs airdrops for clients that send them; 0 uses a free port
    /// [default: none; 9900 as solana-test-validator, a free port with --rpc-port 0].
    #[arg(long, value_name = "PORT", help_heading = "Serving")]
    pub(crate) faucet_port: Option<u16>,
    /// Do not serve cheat codes, the methods that set accounts and time past the ledger's rules.
    #[arg(long, help_heading = "Serving")]
    pub(crate) no_cheatcodes: bool,
    /// Maximum compute units that these transactions request, at least 10000000, half of it for one
    /// client; more get 429 [default: 8000000000].
    #[arg(long, value_name = "UNITS", help_heading = "Bounds")]
    pub(crate) queue_compute_units_max: Option<u64>,
    /// Compute units that each transaction may use, whatever it requests, at most 1000000000 [default: what it
    /// requests, at most 1400000].
    #[arg(long, alias = "max-compute-units", value_name = "UNITS", help_heading = "Bounds")]
    pub(crate) compute_unit_limit: Option<u64>,
    /// Maximum number of accounts that a transaction may name; the limit of the active features stays [default:
    /// that limit: 128, or 64].
    #[arg(long, value_name = "COUNT", help_heading = "Bounds")]
    pub(crate) transaction_account_lock_limit: Option<usize>,
    /// Maximum bytes of logs that are recorded for a transaction; later lines are replaced by "Log truncated"
    /// [default: 10000].
    #[arg(long, value_name = "BYTES", help_heading = "Bounds")]
    pub(crate) log_messages_bytes_limit: Option<usize>,
}

impl DevFlags {
    /// The flags that have an effect only when a ledger is made, and that are set: first those that
    /// `solana-test-validator` reports, in its order.
    pub(crate) fn genesis_flags(&self) -> Vec<&'static str> {
        let rows = [
            ("--bpf-program", !self.bpf_program.is_empty()),
            ("--clone", !self.clone.is_empty()),
            ("--account", !self.account.is_empty()),
            ("--mint", self.mint.is_some()),
            ("--slots-per-epoch", self.slots_per_epoch.is_some()),
            ("--inflation-fixed", self.inflation_fixed.is_some()),
            ("--faucet-sol", self.faucet_sol.is_some()),
            ("--deactivate-feature", !self.deactivate_feature.is_empty()),
            ("--upgradeable-program", !self.upgradeable_program.is_empty()),
            ("--account-dir", !self.account_dir.is_empty()),
            ("--maybe-clone", !self.maybe_clone.is_empty()),
            ("--clone-upgradeable-program", !self.clone_upgradeable_program.is_empty()),
            ("--deep-clone-address-lookup-table", !self.deep_clone_address_lookup_table.is_empty()),
            ("--clone-feature-set", self.clone_feature_set),
            ("--features", self.features.is_some()),
        ];
        rows.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| name).collect()
    }
}

merge_by_field! {
    DevFlags {
        config, slot_ms, ticks_per_slot, block_mode, finalize_after, slots_per_epoch, warp_slot,
        skip_blockhash_check, limit_ledger_size, from_snapshot, from_incremental_snapshot, mint,
        faucet_sol, faucet_per_request_sol_cap, faucet_per_time_sol_cap,
        faucet_time_slice_secs, inflation_fixed, features, deactivate_feature, account, account_dir,
        bpf_program, upgradeable_program, url, clone, maybe_clone, clone_upgradeable_program,
        deep_clone_address_lookup_table, clone_feature_set, fork_url, fork_slot,
        fork_from_genesis, fork_cache, fork_genesis, fork_bytes_max, fork_requests_max,
        fork_timeout_ms, node, faucet_port, no_cheatcodes, queue_compute_units_max,
        compute_unit_limit, transaction_account_lock_limit, log_messages_bytes_limit,
    }
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
