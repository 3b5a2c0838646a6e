//! The flags of `surfpool start` 1.7: those that Hydrant has under another name, and those that it ignores or refuses.
//!
//! Not here: their translation to flags of `hydrant dev` (`surfpool`).

use std::path::PathBuf;

use clap::Args;

use crate::local::flags::BlockMode;

/// The flags of `surfpool start`.
#[derive(Args, Clone, Debug)]
pub(crate) struct SurfpoolFlags {
    /// Serve JSON-RPC, REST and WebSocket on this port; 0 uses two free ports.
    #[arg(short, long, value_name = "PORT", default_value_t = 8899)]
    pub(crate) port: u16,
    /// Serve WebSocket alone on this port, in addition to --port [default: the one after --port].
    #[arg(short, long, value_name = "PORT")]
    pub(crate) ws_port: Option<u16>,
    /// Listen on this address, or on the address of this name.
    #[arg(short = 'o', long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub(crate) host: String,
    /// Make a slot last this many milliseconds.
    #[arg(short = 't', long, value_name = "MS", default_value_t = 400)]
    pub(crate) slot_time: u64,
    /// Make blocks in this way.
    #[arg(short, long, value_name = "MODE", value_enum, default_value = "clock")]
    pub(crate) block_production_mode: BlockMode,
    /// Airdrop --airdrop-amount to this address when the ledger is created. Can be repeated.
    #[arg(short, long, value_name = "ADDRESS")]
    pub(crate) airdrop: Vec<String>,
    /// Airdrop this many lamports to each address.
    #[arg(short = 'q', long, value_name = "LAMPORTS", default_value_t = 10_000_000_000_000)]
    pub(crate) airdrop_amount: u64,
    /// Airdrop to the address of this keypair file, too. Can be repeated [default: the Solana CLI's file].
    #[arg(short = 'k', long, value_name = "FILE")]
    pub(crate) airdrop_keypair_path: Vec<String>,
    /// Fork the cluster at this URL: fetch an account that the ledger does not have when a request needs it.
    #[arg(short = 'u', long, value_name = "URL", conflicts_with = "network")]
    pub(crate) rpc_url: Option<String>,
    /// Fork this cluster: mainnet, devnet or testnet.
    #[arg(short, long, value_name = "NAME")]
    pub(crate) network: Option<String>,
    /// Do not fork a cluster, even with --rpc-url or --network.
    #[arg(long)]
    pub(crate) offline: bool,
    /// Start at slot 0 and at the current time, instead of at the slot, epoch and time of the forked cluster.
    #[arg(long)]
    pub(crate) fork_from_genesis: bool,
    /// Execute transactions with any blockhash, such as transactions that were signed for another cluster.
    #[arg(long)]
    pub(crate) skip_blockhash_check: bool,
    /// Do not deploy the programs of Anchor.toml, and ignore its other entries for the validator.
    #[arg(long)]
    pub(crate) no_deploy: bool,
    /// Read the programs' .so files from this directory.
    #[arg(long, value_name = "DIR", default_value = "target/deploy")]
    pub(crate) artifacts_path: PathBuf,
    /// Add the accounts, programs and clones of this Test.toml at genesis; they override Anchor.toml. Can be
    /// repeated.
    #[arg(long, value_name = "FILE")]
    pub(crate) anchor_test_config_path: Vec<PathBuf>,
    /// Ignored: genesis has the entries of Anchor.toml for the validator, with and without it.
    #[arg(long)]
    pub(crate) legacy_anchor_compatibility: bool,
    /// Record at most this many bytes of logs for a transaction; 0 is no limit [default: 10000].
    #[arg(long, value_name = "BYTES")]
    pub(crate) log_bytes_limit: Option<usize>,
    /// Add the accounts of this file of `surfnet_exportSnapshot` at genesis. Can be repeated.
    #[arg(long, value_name = "FILE")]
    pub(crate) snapshot: Vec<PathBuf>,
    /// Leave this feature inactive. Can be repeated.
    #[arg(long, value_name = "PUBKEY")]
    pub(crate) disable_feature: Vec<String>,
    /// Activate all features instead of those of mainnet.
    #[arg(long)]
    pub(crate) features_all: bool,
    /// Log to standard error, unless this level is none.
    #[arg(short, long, value_name = "LEVEL", default_value = "none")]
    pub(crate) log_level: String,
    /// Print no banner and no status line.
    #[arg(long)]
    pub(crate) no_tui: bool,
    /// Do not serve the console, the page at /.
    #[arg(long)]
    pub(crate) no_studio: bool,
    /// Run in the background, and return when the ledger is ready.
    #[arg(long)]
    pub(crate) daemon: bool,
    /// Apply --no-tui, --no-studio and --no-deploy.
    #[arg(long)]
    pub(crate) ci: bool,
    /// Write the endpoints to this file when the node is ready, as `hydrant dev` does.
    #[arg(long, value_name = "FILE")]
    pub(crate) endpoints_file: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) other: OtherFlags,
}

/// The flags that are ignored or refused.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct OtherFlags {
    #[arg(short, long, hide = true)]
    pub(crate) manifest_file_path: Option<String>,
    #[arg(short, long, hide = true)]
    pub(crate) runbook: Vec<String>,
    #[arg(short = 'i', long, hide = true)]
    pub(crate) runbook_input: Vec<String>,
    #[arg(short, long, hide = true)]
    pub(crate) yes: bool,
    #[arg(long, hide = true)]
    pub(crate) watch: bool,
    #[arg(short, long, hide = true)]
    pub(crate) geyser_plugin_config: Vec<String>,
    #[arg(short = 'd', long, hide = true)]
    pub(crate) subgraph_db: Option<String>,
    #[arg(short, long, hide = true)]
    pub(crate) studio_port: Option<u16>,
    #[arg(long, hide = true)]
    pub(crate) disable_instruction_profiling: bool,
    #[arg(short = 'c', long, hide = true)]
    pub(crate) max_profiles: Option<usize>,
    #[arg(long, hide = true)]
    pub(crate) log_path: Option<String>,
    #[arg(short, long, hide = true)]
    pub(crate) feature: Vec<String>,
    #[arg(long, hide = true)]
    pub(crate) db: Option<String>,
    #[arg(long, hide = true)]
    pub(crate) surfnet_id: Option<String>,
    #[arg(long, hide = true)]
    pub(crate) metrics_enabled: bool,
    #[arg(long, hide = true)]
    pub(crate) metrics_addr: Option<String>,
    #[arg(long, hide = true)]
    pub(crate) skip_signature_verification: bool,
}

impl OtherFlags {
    /// One line for each flag that is ignored, with the reason.
    pub(crate) fn ignored_lines(&self) -> Vec<String> {
        let runbooks =
            "runbooks are not supported; programs of Anchor.toml are in the ledger at its creation";
        let metrics = "/metrics of the RPC port has the metrics";
        let log = "the log goes to standard error";
        let rows = [
            (self.manifest_file_path.is_some(), "--manifest-file-path", runbooks),
            (!self.runbook.is_empty(), "--runbook", runbooks),
            (!self.runbook_input.is_empty(), "--runbook-input", runbooks),
            (self.yes, "--yes", "there are no prompts"),
            (self.watch, "--watch", "programs are read once; surfnet_writeProgram replaces one"),
            (self.subgraph_db.is_some(), "--subgraph-db", "surfpool ignores it as well"),
            (self.studio_port.is_some(), "--studio-port", "the console is at / of the RPC port"),
            (
                self.disable_instruction_profiling,
                "--disable-instruction-profiling",
                "transactions are profiled only on request",
            ),
            (
                self.max_profiles.is_some(),
                "--max-profiles",
                "at most 200 profiles are retained, and none without a request",
            ),
            (self.log_path.is_some(), "--log-path", log),
            (
                !self.geyser_plugin_config.is_empty(),
                "--geyser-plugin-config",
                "Hydrant does not load plugins; it serves Yellowstone gRPC itself, at port 10000",
            ),
            (!self.feature.is_empty(), "--feature", "--features-all activates every feature"),
            (self.surfnet_id.is_some(), "--surfnet-id", "the ledger is in memory"),
            (self.metrics_enabled, "--metrics-enabled", metrics),
            (self.metrics_addr.is_some(), "--metrics-addr", metrics),
        ];
        let given = rows.into_iter().filter(|(is_given, ..)| *is_given);
        given.map(|(_, flag, why)| format!("{flag} is ignored: {why}")).collect()
    }

    /// Returns a line for each refused flag that is set, with its alternative.
    pub(crate) fn refused_lines(&self) -> Vec<String> {
        let rows = [
            (self.db.is_some(), "--db: hydrant dev --ledger stores a ledger in a directory"),
            (
                self.skip_signature_verification,
                "--skip-signature-verification: sendTransaction has skipSigVerify",
            ),
        ];
        let given = rows.into_iter().filter(|(is_given, _)| *is_given);
        given.map(|(_, line)| line.to_owned()).collect()
    }
}
