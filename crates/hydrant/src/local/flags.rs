//! The flags of `hydrant dev`, and their texts in `--help`.
//!
//! Not here: those of every node (`node::flags`).

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::Deserialize;

use crate::node::flags::{ConfigFlags, file_or};
use crate::node::{NodeFlags, merge_by_field};

/// The flags of `hydrant dev`, which are also keys of the configuration file, and of its table `[dev]`.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[command(
    group = file_or("full_archive", "from_snapshot"),
    group = file_or("fork_source", "fork_url")
)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct DevFlags {
    #[command(flatten)]
    #[serde(skip)]
    pub(crate) config: ConfigFlags,

    /// Make a slot last this many milliseconds; 0 makes a block for each transaction [default: 400].
    #[arg(long, value_name = "MS", help_heading = "Ledger")]
    pub(crate) slot_ms: Option<u64>,
    /// Make a slot last this many ticks of 6.25 ms, as an alternative to --slot-ms.
    #[arg(long, value_name = "TICKS", conflicts_with = "slot_ms", help_heading = "Ledger")]
    pub(crate) ticks_per_slot: Option<u64>,
    /// Make blocks in this way [default: clock; transaction with --slot-ms 0].
    #[arg(long, value_name = "MODE", help_heading = "Ledger")]
    pub(crate) block_mode: Option<BlockMode>,
    /// Finalize a block this many slots after its confirmation [default: 31; 0 if each transaction makes a
    /// block].
    #[arg(long, value_name = "SLOTS", help_heading = "Ledger")]
    pub(crate) finalize_after: Option<u64>,
    /// Create the ledger with epochs of this many slots, at least 32 [default: 432000].
    #[arg(long, value_name = "SLOTS", help_heading = "Ledger")]
    pub(crate) slots_per_epoch: Option<u64>,
    /// Start the next block at this slot, at most 18446744069414584319.
    ///
    /// Without a value, start at the current slot of the cluster of --url or --fork-url.
    #[arg(short, long, value_name = "SLOT", help_heading = "Ledger")]
    pub(crate) warp_slot: Option<Option<u64>>,
    /// Execute transactions with any blockhash, such as transactions that were signed for another cluster.
    #[arg(long, help_heading = "Ledger")]
    pub(crate) skip_blockhash_check: bool,
    /// Retain this many shreds of history, 1,228 bytes each, as an alternative to --history-bytes.
    #[arg(long, value_name = "SHREDS", conflicts_with = "history_bytes", help_heading = "Ledger")]
    pub(crate) limit_ledger_size: Option<u64>,

    /// Start with the accounts of this snapshot archive, at its slot, instead of an empty ledger.
    ///
    /// The archive must be a full one of Agave 4 (snapshot-SLOT-HASH.tar.zst or .tar.lz4). It is read and
    /// verified whole. The node adds its own faucet, identity, vote and stake accounts.
    #[arg(long, value_name = "FILE", conflicts_with = "slots_per_epoch", help_heading = "Genesis")]
    pub(crate) from_snapshot: Option<PathBuf>,
    /// Apply this incremental archive to the archive of --from-snapshot.
    #[arg(long, value_name = "FILE", requires = "full_archive", help_heading = "Genesis")]
    pub(crate) from_incremental_snapshot: Option<PathBuf>,
    /// Give 500,000,000 SOL at genesis to this account, an address or a keypair file.
    ///
    /// Default: the keypair of the Solana CLI (named in its configuration, or ~/.config/solana/id.json), if
    /// it exists.
    #[arg(long, value_name = "PUBKEY", help_heading = "Genesis")]
    pub(crate) mint: Option<String>,
    /// Give the faucet this many SOL at genesis [default: 1000000].
    #[arg(long, value_name = "SOL", help_heading = "Genesis")]
    pub(crate) faucet_sol: Option<f64>,
    /// Refuse an airdrop of more than this many SOL [default: no limit].
    #[arg(long, value_name = "SOL", help_heading = "Genesis")]
    pub(crate) faucet_per_request_sol_cap: Option<Option<f64>>,
    /// Refuse airdrops to one account, or to one client over TCP, of more than this many SOL in
    /// --faucet-time-slice-secs [default: no limit].
    #[arg(long, value_name = "SOL", help_heading = "Genesis")]
    pub(crate) faucet_per_time_sol_cap: Option<Option<f64>>,
    /// Count airdrops for --faucet-per-time-sol-cap over this many seconds [default: 60].
    #[arg(long, value_name = "SECONDS", help_heading = "Genesis")]
    pub(crate) faucet_time_slice_secs: Option<u64>,
    /// Use this constant inflation rate, all of it for stakes: 0.08 is 8 % a year [default: falling from
    /// 8 %, as on a new cluster].
    #[arg(long, value_name = "RATE", help_heading = "Genesis")]
    pub(crate) inflation_fixed: Option<f64>,
    /// Create the ledger with these features: all that the node knows except Alpenglow, or those of mainnet
    /// [default: all].
    #[arg(long, value_name = "SET", value_enum, help_heading = "Genesis")]
    pub(crate) features: Option<FeatureBase>,
    /// Leave this feature inactive. Can be repeated.
    #[arg(long, value_name = "PUBKEY", num_args = 1.., help_heading = "Genesis")]
    pub(crate) deactivate_feature: Vec<String>,
    /// Add an account at genesis, from a file in the format of `solana account --output json`. With "-" as
    /// the address, use the address in the file. Can be repeated.
    #[arg(long, num_args = 2, value_names = ["ADDRESS", "FILE"], help_heading = "Genesis")]
    #[serde(deserialize_with = "rows")]
    pub(crate) account: Vec<String>,
    /// Add the accounts of all .json files in this directory at genesis. Can be repeated.
    #[arg(long, value_name = "DIR", num_args = 1.., help_heading = "Genesis")]
    pub(crate) account_dir: Vec<PathBuf>,
    /// Add a program at genesis that cannot be upgraded: an address or a keypair file, then the ELF. Can be
    /// repeated.
    #[arg(long, num_args = 2, value_names = ["ADDRESS", "FILE"], help_heading = "Genesis")]
    #[serde(deserialize_with = "rows")]
    pub(crate) bpf_program: Vec<String>,
    /// Add a program at genesis that the authority can upgrade ("none": no authority). Can be repeated.
    #[arg(long, num_args = 3, value_names = ["ADDRESS", "FILE", "AUTHORITY"], help_heading = "Genesis")]
    #[serde(deserialize_with = "rows")]
    pub(crate) upgradeable_program: Vec<String>,

    /// Clone from this cluster: the URL of its JSON-RPC, or mainnet-beta, testnet, devnet or localhost.
    #[arg(short, long, value_name = "URL", help_heading = "Clone")]
    pub(crate) url: Option<String>,
    /// Clone this account from --url when the ledger is created. Can be repeated.
    #[arg(short, long, value_name = "ADDRESS", num_args = 1.., help_heading = "Clone")]
    pub(crate) clone: Vec<String>,
    /// Clone this account from --url if it exists there. Can be repeated.
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

    /// Fork this cluster: fetch an account that the ledger does not have when a request needs it. The URL
    /// of its JSON-RPC, or mainnet-beta, testnet, devnet or localhost. The ledger is in memory.
    #[arg(long, value_name = "URL", conflicts_with = "ledger", help_heading = "Fork")]
    pub(crate) fork_url: Option<String>,
    /// Accept accounts as of this slot at the latest; a response of the cluster as of a later slot is an
    /// error, unless --fork-cache has the account.
    #[arg(long, value_name = "SLOT", requires = "fork_source", help_heading = "Fork")]
    pub(crate) fork_slot: Option<u64>,
    /// Start at slot 0 and at the current time, instead of at the slot, epoch and time of the cluster.
    #[arg(long, requires = "fork_source", help_heading = "Fork")]
    pub(crate) fork_from_genesis: bool,
    /// Store fetched accounts in this directory, and read them from there first.
    #[arg(long, value_name = "DIR", requires = "fork_source", help_heading = "Fork")]
    pub(crate) fork_cache: Option<PathBuf>,
    /// Require the cluster to have this genesis hash.
    #[arg(long, value_name = "HASH", requires = "fork_source", help_heading = "Fork")]
    pub(crate) fork_genesis: Option<String>,
    /// Store at most this many bytes of fetched accounts, in memory and in the file of --fork-cache
    /// [default: 1073741824].
    #[arg(long, value_name = "BYTES", requires = "fork_source", help_heading = "Fork")]
    pub(crate) fork_bytes_max: Option<u64>,
    /// Send at most this many requests to the cluster at a time [default: 4].
    #[arg(long, value_name = "COUNT", requires = "fork_source", help_heading = "Fork")]
    pub(crate) fork_requests_max: Option<usize>,
    /// Send at most this many requests of one client to the cluster a second, those of ten seconds at once
    /// [default: 100].
    #[arg(long, value_name = "COUNT", requires = "fork_source", help_heading = "Fork")]
    pub(crate) fork_client_calls_per_s: Option<u32>,
    /// Fail a request that has waited this many milliseconds for the cluster [default: 8000].
    #[arg(long, value_name = "MS", requires = "fork_source", help_heading = "Fork")]
    pub(crate) fork_timeout_ms: Option<u64>,

    #[command(flatten)]
    #[serde(skip)]
    pub(crate) node: NodeFlags,

    /// Serve the faucet on this TCP port: it signs airdrops for clients that send them. 0 uses a free port
    /// [default: none; 9900 as solana-test-validator, a free port with --rpc-port 0].
    #[arg(long, value_name = "PORT", conflicts_with = "api_keys", help_heading = "Serving")]
    pub(crate) faucet_port: Option<u16>,
    /// Do not serve cheat codes, the methods that set accounts and time regardless of the ledger's rules.
    #[arg(long, help_heading = "Serving")]
    pub(crate) no_cheatcodes: bool,
    /// Queue transactions that request at most this many compute units in total, at least 10000000, half of
    /// it for one client; more get 429 [default: 8000000000].
    #[arg(long, value_name = "UNITS", help_heading = "Bounds")]
    pub(crate) queue_compute_units_max: Option<u64>,
    /// Hold at most this many bytes of accounts in memory; a transaction or cheat code that would exceed it has
    /// no effect [default: half of the machine's memory].
    #[arg(long, value_name = "BYTES", help_heading = "Bounds")]
    pub(crate) account_bytes_max: Option<u64>,
    /// Let each transaction use this many compute units, at most 1000000000, regardless of its request
    /// [default: its request, at most 1400000].
    #[arg(long, alias = "max-compute-units", value_name = "UNITS", help_heading = "Bounds")]
    pub(crate) compute_unit_limit: Option<u64>,
    /// Refuse a transaction with more than this many accounts; the limit of the active features still
    /// applies [default: that limit, 128 or 64].
    #[arg(long, value_name = "COUNT", help_heading = "Bounds")]
    pub(crate) transaction_account_lock_limit: Option<usize>,
    /// Record at most this many bytes of logs for a transaction, and replace later lines with "Log
    /// truncated" [default: 10000].
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
        fork_client_calls_per_s, fork_timeout_ms, node, faucet_port, no_cheatcodes, queue_compute_units_max,
        account_bytes_max, compute_unit_limit, transaction_account_lock_limit, log_messages_bytes_limit,
    }
}

/// The way in which blocks are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum BlockMode {
    /// At the end of each slot.
    Clock,
    /// For each transaction, at once.
    Transaction,
    /// On request, by hydrant_mine; transactions wait.
    Manual,
}

/// A set of active features, the values of `--features`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FeatureBase {
    /// All features that the node knows, except Alpenglow.
    All,
    /// The features that are active on mainnet.
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
