//! The settings of `hydrant dev`: flags and configuration file, merged, checked, and with all files that they name read.
//!
//! Not here: the settings that every node has (`node::config`).

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use solana_inflation::Inflation;
use solana_native_token::LAMPORTS_PER_SOL;

use crate::accounts_file;
use crate::banner::OutputStyle;
use crate::bounds::{self, SHRED_BYTES};
use crate::clone::CloneRequest;
use crate::config_file;
use crate::faucet_server::FAUCET_PORT;
use crate::local::LocalPreset;
use crate::local::flags::{BlockMode, DevFlags, FeatureBase};
use crate::node::config::cores;
use crate::node::{Merge, NodeConfig, ProducerDefaults};
use crate::snapshot_file::SnapshotFile;
use crate::solana_cli_config;
use crate::test_validator;
use crate::upstream_fork_setup::{self, ForkSettings};

/// Microseconds of a tick: 160 ticks a second, as on a cluster.
const TICK_US: u64 = 6_250;
/// Bytes of a request's body that may be a cheat code, as in surfpool: code of 7.5 MB in hexadecimal. Memory: all
/// bodies of more than 64 KiB together have 256 MiB at most.
const CHEATCODE_BODY_BYTES_MAX: usize = 15 << 20;
/// Slots that gRPC's log must have beyond those that are not final.
const REPLAY_SLOTS_AFTER_ROOT: u64 = 8;

/// The settings of `hydrant dev`.
pub(crate) struct DevConfig {
    pub(crate) node: NodeConfig,
    pub(crate) local: LocalConfig,
}

/// The settings of a local ledger.
pub struct LocalConfig {
    pub(crate) localnet: localnet::Config,
    pub(crate) snapshot: Option<SnapshotFile>,
    /// The accounts, features and slot that a new ledger takes from a cluster.
    pub(crate) clone: Option<CloneRequest>,
    /// The cluster that the ledger forks.
    pub(crate) fork: Option<ForkSettings>,
    /// Whether cheat codes may be called.
    pub(crate) cheatcodes: bool,
    /// `None`: the faucet is not served over TCP.
    pub(crate) faucet_port: Option<u16>,
    /// Directories of genesis accounts, which are read when the ledger is created.
    pub(crate) account_dirs: Vec<PathBuf>,
    /// The flags that an existing ledger ignores.
    pub(crate) genesis_flags: Vec<&'static str>,
    pub(crate) style: OutputStyle,
}

impl Default for LocalConfig {
    /// A new ledger with a slot of 400 ms, whose mint is a new key, with cheat codes.
    fn default() -> Self {
        Self {
            localnet: localnet::Config {
                account_bytes_max: account_bytes_max_default(),
                ..localnet::Config::default()
            },
            snapshot: None,
            clone: None,
            fork: None,
            cheatcodes: true,
            faucet_port: None,
            account_dirs: Vec::new(),
            genesis_flags: Vec::new(),
            style: OutputStyle::Hydrant,
        }
    }
}

/// Returns the default of `--account-bytes-max`: half of the machine's memory, because blocks, indices and responses need
/// memory, too. No limit where the memory is unknown.
fn account_bytes_max_default() -> u64 {
    process_usage::machine_memory_bytes().map_or(u64::MAX, |bytes| bytes / 2)
}

impl LocalConfig {
    /// Sets the time of a slot in milliseconds; 0 makes a block for each transaction, which is final at once.
    pub fn with_slot_ms(mut self, slot_ms: u64) -> Self {
        self.localnet.slot_ms = slot_ms;
        if slot_ms == 0 {
            self.localnet.finalize_after = 0;
        }
        self
    }

    /// Copies the settings of the node that its ledger also has, and checks all of them together. Called once, when the
    /// settings are checked or the ledger is opened.
    pub(crate) fn apply(&mut self, node: &NodeConfig) -> Result<()> {
        let config = &mut self.localnet;
        let history = node.history.for_solana();
        let blocks_max = history.blocks_max;
        let finalize_after = config.finalize_after;
        ensure!(
            blocks_max > finalize_after,
            "--history-slots {blocks_max}: must be more than --finalize-after ({finalize_after})"
        );
        config.history = history;
        config.queue_max = node.queue_max;
        config.addresses_max = node.ledger.addresses_max;
        config.indices = node.ledger.indices.clone();
        config.dir = node.ledger_dir.clone();
        // The pool's threads simulate transactions, and none may have to wait for a VM.
        config.simulators = node.pool.threads;
        config.check()?;
        Ok(())
    }

    /// Bytes of a request's body that may be a cheat code. `None`: the limit of Agave, also under the name of
    /// `solana-test-validator`.
    pub(crate) fn body_bytes_max(&self) -> Option<usize> {
        let takes_cheatcodes = self.cheatcodes && self.style == OutputStyle::Hydrant;
        takes_cheatcodes.then_some(CHEATCODE_BODY_BYTES_MAX)
    }

    /// Whether the lines of `solana-test-validator` before its start are printed.
    pub(crate) fn prints_agave_lines(&self, node: &NodeConfig) -> bool {
        self.style == OutputStyle::TestValidator && !node.quiet
    }
}

/// The flags merged with the file: a flag overrides the file, lists are concatenated.
pub(crate) fn with_file(flags: DevFlags, style: OutputStyle) -> Result<DevFlags> {
    let Some(path) = flags.config.config.clone() else { return Ok(flags) };
    let flag = match style {
        OutputStyle::Hydrant => config_file::FLAG,
        OutputStyle::TestValidator => test_validator::CONFIG_FLAG,
    };
    let file = config_file::read_toml(flag, &path, DevFlags::from_toml)?;
    Ok(merge(flags, file))
}

/// Merges the flags with the file. A setting of the file that contradicts a flag is ignored.
fn merge(flags: DevFlags, mut file: DevFlags) -> DevFlags {
    let has_slot_flag = flags.slot_ms.is_some() || flags.ticks_per_slot.is_some();
    let has_clock = !matches!(flags.block_mode, Some(BlockMode::Transaction | BlockMode::Manual));
    if has_slot_flag || !has_clock {
        file.slot_ms = None;
        file.ticks_per_slot = None;
    }
    if has_slot_flag {
        file.block_mode = None;
    }
    if flags.node.history.history_bytes.is_some() || flags.limit_ledger_size.is_some() {
        file.node.history.history_bytes = None;
        file.limit_ledger_size = None;
    }
    flags.merge(file)
}

impl DevConfig {
    /// Settings from flags. Reads every file that they name, and checks every number alone.
    /// [`LocalConfig::apply`] completes and checks them together.
    pub(crate) fn from_flags(flags: DevFlags, preset: LocalPreset) -> Result<Self> {
        bounds::check(&bounds::local(&flags))?;
        let mut node = NodeConfig::from_flags(&flags.node, &producer_defaults(&flags))?;
        if let Some(shreds) = flags.limit_ledger_size {
            ensure!(
                flags.node.history.history_bytes.is_none(),
                "--history-bytes and --limit-ledger-size exclude each other"
            );
            node.history.bytes_max = Some(shreds.saturating_mul(SHRED_BYTES));
        }
        node.rpc_ports.pubsub = preset.pubsub_port;
        ensure!(
            flags.faucet_port.is_none() || node.api_keys.is_none(),
            "--faucet-port cannot be used with --api-keys: the faucet's protocol has no keys (requestAirdrop has)"
        );
        let mut local = LocalConfig {
            localnet: localnet_config(&flags, preset.cli_config.as_deref())?,
            snapshot: snapshot_file(&flags, cores())?,
            clone: CloneRequest::from_flags(&flags, &preset.cloned_addresses)?,
            fork: upstream_fork_setup::from_flags(&flags)?,
            cheatcodes: !flags.no_cheatcodes,
            faucet_port: flags.faucet_port.or_else(|| default_faucet_port(preset.style, &node)),
            genesis_flags: flags.genesis_flags(),
            account_dirs: flags.account_dir,
            style: preset.style,
        };
        node.check_ports(local.faucet_port)?;
        local.localnet.verifies_programs = preset.style == OutputStyle::Hydrant;
        local.localnet.accounts.extend(preset.accounts);
        Ok(Self { node, local })
    }
}

fn producer_defaults(flags: &DevFlags) -> ProducerDefaults {
    let finalize_after =
        flags.finalize_after.unwrap_or_else(|| localnet::Config::default().finalize_after);
    ProducerDefaults {
        has_tpu: true,
        replay_slots_min: finalize_after + REPLAY_SLOTS_AFTER_ROOT,
        // Its clients compare it with Agave, which refuses a slot of the future at once.
        min_slot_wait_ms: 0,
    }
}

/// The faucet's port of `solana-test-validator`; a free one if all ports are. None with API keys, which its protocol
/// does not have.
fn default_faucet_port(style: OutputStyle, node: &NodeConfig) -> Option<u16> {
    let is_served = style == OutputStyle::TestValidator && node.api_keys.is_none();
    is_served.then_some(if node.rpc_ports.rpc == 0 { 0 } else { FAUCET_PORT })
}

fn localnet_config(flags: &DevFlags, cli_config: Option<&Path>) -> Result<localnet::Config> {
    let defaults = localnet::Config::default();
    ensure!(
        flags.slot_ms.is_none() || flags.ticks_per_slot.is_none(),
        "--slot-ms and --ticks-per-slot exclude each other"
    );
    let slot_ms = match (flags.slot_ms, flags.ticks_per_slot) {
        (Some(ms), _) => Some(ms),
        (None, Some(ticks)) => Some((ticks.saturating_mul(TICK_US) / 1_000).max(1)),
        (None, None) => None,
    };
    let has_clock = slot_ms.map(|ms| ms > 0);
    let slot_ms = match flags.block_mode {
        None | Some(BlockMode::Clock) => slot_ms.unwrap_or(defaults.slot_ms),
        Some(BlockMode::Transaction | BlockMode::Manual) => 0,
    };
    match flags.block_mode {
        Some(BlockMode::Clock) => ensure!(slot_ms > 0, "--block-mode clock excludes --slot-ms 0"),
        Some(_) => ensure!(
            has_clock != Some(true),
            "--block-mode transaction and manual exclude a slot time (--slot-ms, --ticks-per-slot)"
        ),
        None => {}
    }
    let is_manual = flags.block_mode == Some(BlockMode::Manual);
    let finalize_after = match (flags.finalize_after, slot_ms) {
        (Some(slots), _) => slots,
        (None, 0) if !is_manual => 0,
        (None, _) => defaults.finalize_after,
    };
    Ok(localnet::Config {
        slot_ms,
        is_manual,
        finalize_after,
        slots_per_epoch: flags.slots_per_epoch.unwrap_or(defaults.slots_per_epoch),
        warp_slot: flags.warp_slot.flatten(),
        skips_blockhash_check: flags.skip_blockhash_check,
        queue_compute_units_max: flags
            .queue_compute_units_max
            .unwrap_or(defaults.queue_compute_units_max),
        account_bytes_max: flags.account_bytes_max.unwrap_or_else(account_bytes_max_default),
        faucet_lamports: lamports("faucet-sol", flags.faucet_sol)?
            .unwrap_or(defaults.faucet_lamports),
        airdrops: airdrops(flags)?,
        inflation: inflation(flags, defaults.inflation)?,
        mint: mint(flags, cli_config)?,
        features: features(flags)?,
        accounts: accounts(flags)?,
        programs: programs(flags)?,
        runtime_limits: localnet::RuntimeLimits {
            compute_units: flags.compute_unit_limit,
            account_locks: flags.transaction_account_lock_limit,
            log_bytes: flags.log_messages_bytes_limit,
        },
        // Only a cheat code resets a ledger.
        baseline_bytes_max: if flags.no_cheatcodes { 0 } else { defaults.baseline_bytes_max },
        ..defaults
    })
}

fn airdrops(flags: &DevFlags) -> Result<localnet::AirdropLimits> {
    let cap = |name, value: Option<Option<f64>>| lamports(name, value.flatten());
    let default = localnet::AirdropLimits::default();
    Ok(localnet::AirdropLimits {
        per_request: cap("faucet-per-request-sol-cap", flags.faucet_per_request_sol_cap)?,
        per_time: cap("faucet-per-time-sol-cap", flags.faucet_per_time_sol_cap)?,
        time_slice: flags.faucet_time_slice_secs.map_or(default.time_slice, Duration::from_secs),
    })
}

fn features(flags: &DevFlags) -> Result<localnet::FeatureChoice> {
    let base = flags.features.map(|base| match base {
        FeatureBase::All => localnet::FeatureBase::All,
        FeatureBase::Mainnet => localnet::FeatureBase::Mainnet,
    });
    let key = |text: &String| {
        text.parse().with_context(|| format!("--deactivate-feature {text:?}: not an address"))
    };
    let deactivated = flags.deactivate_feature.iter().map(key).collect::<Result<_>>()?;
    Ok(localnet::FeatureChoice { base, deactivated })
}

fn snapshot_file(flags: &DevFlags, threads: usize) -> Result<Option<SnapshotFile>> {
    let incremental = flags.from_incremental_snapshot.clone();
    let Some(full) = flags.from_snapshot.clone() else {
        ensure!(incremental.is_none(), "--from-incremental-snapshot requires --from-snapshot");
        return Ok(None);
    };
    ensure!(
        flags.slots_per_epoch.is_none(),
        "--slots-per-epoch: --from-snapshot defines it, so the two exclude each other"
    );
    for (flag, path) in
        [("--from-snapshot", Some(&full)), ("--from-incremental-snapshot", incremental.as_ref())]
    {
        let Some(path) = path else { continue };
        input_file::check(path, u64::MAX).map_err(|err| anyhow!("{flag} {err}"))?;
    }
    Ok(Some(SnapshotFile { full, incremental, threads }))
}

fn lamports(name: &str, sol: Option<f64>) -> Result<Option<u64>> {
    let Some(sol) = sol else { return Ok(None) };
    ensure!(
        (0.0..=bounds::FAUCET_SOL_MAX).contains(&sol),
        "--{name} is {sol}: must be from 0 to {}",
        bounds::FAUCET_SOL_MAX
    );
    // Rounded: 8.2 SOL are 8,199,999,999.999999 lamports in binary.
    Ok(Some((sol * LAMPORTS_PER_SOL as f64).round() as u64))
}

fn inflation(flags: &DevFlags, default: Inflation) -> Result<Inflation> {
    let Some(rate) = flags.inflation_fixed else { return Ok(default) };
    ensure!((0.0..=1.0).contains(&rate), "--inflation-fixed is {rate}: must be from 0 to 1");
    Ok(Inflation::new_fixed(rate))
}

fn mint(flags: &DevFlags, cli_config: Option<&Path>) -> Result<Option<solana_pubkey::Pubkey>> {
    if let Some(mint) = &flags.mint {
        return accounts_file::address_or_keypair(mint).context("--mint").map(Some);
    }
    let home = std::env::var_os("HOME").map(PathBuf::from);
    Ok(solana_cli_config::wallet(cli_config, home.as_deref()))
}

fn accounts(flags: &DevFlags) -> Result<Vec<localnet::GenesisAccount>> {
    let mut accounts = Vec::new();
    for row in flags.account.chunks(2) {
        let [address, path] = row else { bail!("--account requires an address and a file") };
        let account = accounts_file::account(address, Path::new(path)).context("--account")?;
        accounts.push(account);
    }
    Ok(accounts)
}

fn programs(flags: &DevFlags) -> Result<Vec<localnet::GenesisProgram>> {
    let mut programs = Vec::new();
    for row in flags.bpf_program.chunks(2) {
        let [id, path] = row else { bail!("--bpf-program requires an address and a file") };
        programs.push(accounts_file::program(id, Path::new(path), None)?);
    }
    for row in flags.upgradeable_program.chunks(3) {
        let [id, path, authority] = row else {
            bail!("--upgradeable-program requires an address, a file and an authority")
        };
        programs.push(accounts_file::program(id, Path::new(path), Some(authority))?);
    }
    Ok(programs)
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::node::NodeFlags;
    use crate::node::flags::{AccountIndex, GrpcFlags, IndexFlags, RequestFlags, ServingFlags};
    use crate::process_setup::GrpcPort;
    use crate::serving_options::allowed_origins;

    fn with_node(node: NodeFlags) -> DevFlags {
        DevFlags { node, ..DevFlags::default() }
    }

    fn check(flags: DevFlags, file: &str) -> Result<DevConfig> {
        let file = DevFlags::from_toml(file)?;
        let mut config = DevConfig::from_flags(merge(flags, file), LocalPreset::default())?;
        config.local.apply(&config.node)?;
        Ok(config)
    }

    #[test]
    fn a_flag_overrides_the_file() {
        let flags = DevFlags { ticks_per_slot: Some(8), ..DevFlags::default() };
        let file = "slot-ms = 100\nqueue-max = 7\nforward = [\"127.0.0.1:9\"]\n[rpc]\nbatch_max = 3\n\
                    [pubsub]\nping_ms = 9\n[quic]\nstreams_max = 64";
        let config = check(flags, file).expect("valid settings");
        assert_eq!((config.node.rpc.batch_max, config.node.pubsub.ping_ms), (3, 9));
        assert_eq!((config.node.quic.streams_max, config.node.tpu_port), (64, Some(8901)));
        assert_eq!(config.node.forward, [SocketAddr::from(([127, 0, 0, 1], 9))]);
        assert_eq!(config.local.localnet.slot_ms, 50);
        assert_eq!(config.local.localnet.queue_max, 7);
    }

    #[test]
    fn one_file_has_one_bound_of_history() {
        let both = "history-bytes = 1000000\nlimit-ledger-size = 1000000";
        let err = check(DevFlags::default(), both).err().expect("it is refused").to_string();
        assert_eq!(err, "--history-bytes and --limit-ledger-size exclude each other");
        // A flag overrides the key that it contradicts.
        let flags = DevFlags { limit_ledger_size: Some(1_000_000), ..DevFlags::default() };
        let config = check(flags, "history-bytes = 1000000").expect("valid settings");
        assert_eq!(config.node.history.bytes_max, Some(1_000_000 * SHRED_BYTES));
    }

    #[test]
    fn the_refused_file_is_named_by_the_flag_of_the_command() {
        for (style, flag) in
            [(OutputStyle::Hydrant, "--config"), (OutputStyle::TestValidator, "--hydrant-config")]
        {
            let mut flags = DevFlags::default();
            flags.config.config = Some("/nowhere".into());
            let err = with_file(flags, style).expect_err("no such file");
            assert!(format!("{err:#}").starts_with(&format!("{flag}: /nowhere: ")), "{err:#}");
        }
    }

    #[test]
    fn lists_of_keys_are_concatenated_and_lists_of_indices_are_not() {
        let [one, two] = [1, 2].map(|n| solana_pubkey::Pubkey::new_from_array([n; 32]).to_string());
        let indices = IndexFlags {
            account_index: vec![AccountIndex::ProgramId],
            account_index_exclude_key: vec![one.clone()],
            ..IndexFlags::default()
        };
        let flags = with_node(NodeFlags { indices, ..NodeFlags::default() });
        let file = format!(
            "account-index = [\"spl-token-mint\"]\naccount-index-exclude-key = [\"{two}\"]"
        );
        let file = DevFlags::from_toml(&file).expect("valid settings");
        let merged = merge(flags, file).node.indices;
        assert_eq!(merged.account_index, [AccountIndex::ProgramId]);
        assert_eq!(merged.account_index_exclude_key, [one, two]);
    }

    #[test]
    fn default_times_are_shorter_or_longer_than_those_of_proxies() {
        const HAPROXY_MS: u64 = 50_000;
        const CLOUDFLARE_IDLE_MS: u64 = 900_000;
        let config = check(DevFlags::default(), "").expect("valid settings").node;
        let rpc = config.rpc;
        let pubsub = config.pubsub;
        let grpc = config.grpc;
        assert!(rpc.keep_alive_ms > CLOUDFLARE_IDLE_MS, "a request would be lost: 502");
        assert!(rpc.first_byte_timeout_ms < HAPROXY_MS, "the proxy would answer: 504");
        for ping_ms in [pubsub.ping_ms, grpc.ping_ms, grpc.keep_alive_ms] {
            assert!(ping_ms <= HAPROXY_MS / 2, "{ping_ms}: a proxy would close a quiet connection");
        }
        let of_clients = [
            rpc.header_timeout_ms,
            rpc.body_timeout_ms,
            rpc.write_timeout_ms,
            pubsub.message_timeout_ms,
            pubsub.write_timeout_ms,
            grpc.handshake_timeout_ms,
            grpc.close_timeout_ms,
            config.quic.idle_timeout_ms,
        ];
        assert!(of_clients.iter().all(|ms| *ms < HAPROXY_MS), "{of_clients:?}");
    }

    #[test]
    fn a_local_ledger_refuses_a_future_slot_at_once() {
        let wait_ms = |file: &str| {
            let config = check(DevFlags::default(), file).expect("valid settings").node;
            config.rpc.min_slot_wait_ms
        };
        assert_eq!(wait_ms(""), Some(0), "as Agave does");
        assert_eq!(wait_ms("[rpc]\nmin_slot_wait_ms = 500"), Some(500));
    }

    #[test]
    fn every_thread_that_simulates_has_a_vm() {
        let config = check(DevFlags::default(), "cpu-threads = 7").expect("valid settings");
        assert_eq!((config.node.pool.threads, config.local.localnet.simulators), (7, 7));
    }

    #[test]
    fn the_header_of_a_proxy_is_case_insensitive() {
        let config = check(DevFlags::default(), "[rpc]\nclient_header = \"X-Real-IP\"");
        let header = config.expect("valid settings").node.rpc.client_header;
        assert_eq!(header.as_ref().map(|header| header.as_str()), Some("x-real-ip"));
        let none = check(DevFlags::default(), "[rpc]\nclient_header = \"\"");
        assert!(none.expect("valid settings").node.rpc.client_header.is_none());
    }

    #[test]
    fn a_request_that_may_be_a_cheat_code_has_fifteen_mebibytes() {
        let bytes = |flags: DevFlags, style: OutputStyle, file: &str| {
            let file = DevFlags::from_toml(file).expect("valid settings");
            let preset = LocalPreset { style, ..LocalPreset::default() };
            let config = DevConfig::from_flags(merge(flags, file), preset).expect("valid settings");
            config.node.rpc.body_bytes_max.or_else(|| config.local.body_bytes_max())
        };
        let none = DevFlags::default;
        let without = || DevFlags { no_cheatcodes: true, ..none() };
        let file = "[rpc]\nbody_bytes_max = 51_200";
        assert_eq!(bytes(none(), OutputStyle::Hydrant, ""), Some(15 << 20));
        assert_eq!(bytes(without(), OutputStyle::Hydrant, ""), None);
        assert_eq!(bytes(none(), OutputStyle::TestValidator, ""), None);
        assert_eq!(bytes(none(), OutputStyle::Hydrant, "no-cheatcodes = true"), None);
        // A value that is set counts, even the default one.
        assert_eq!(bytes(none(), OutputStyle::Hydrant, file), Some(51_200));
        let requests = RequestFlags { rpc_max_request_body_size: Some(100) };
        let flag = with_node(NodeFlags { requests, ..NodeFlags::default() });
        assert_eq!(bytes(flag, OutputStyle::TestValidator, file), Some(100));
        assert_eq!(LocalConfig::default().body_bytes_max(), Some(15 << 20));
    }

    #[test]
    fn origins_of_flags_and_file_are_concatenated_and_checked() {
        let serving = ServingFlags {
            allow_origin: vec!["https://app.example".to_owned()],
            ..ServingFlags::default()
        };
        let flags = with_node(NodeFlags { serving, ..NodeFlags::default() });
        let config = check(flags, "allow-origin = [\"http://localhost:5173\"]");
        let both = ["https://app.example", "http://localhost:5173"].map(str::to_owned);
        let allowed = allowed_origins(&both, &[]).expect("origins");
        assert_eq!(config.expect("valid settings").node.rpc.allowed_origins, allowed);
        let any = check(DevFlags::default(), "").expect("valid settings").node.rpc.allowed_origins;
        assert_eq!(any, allowed_origins(&[], &[]).expect("origins"));
        let wrong = check(DevFlags::default(), "allow-origin = [\"https://app.example/path\"]");
        let wrong = format!("{:#}", wrong.err().expect("it has a path"));
        assert!(wrong.contains("--allow-origin: \"https://app.example/path\" is no"), "{wrong}");
    }

    #[test]
    fn a_port_without_one_for_quic_after_it_is_refused_unless_tpu_port_is_set() {
        let port = |file: &str| check(DevFlags::default(), file).map(|config| config.node.tpu_port);
        let refused = format!("{:#}", port("rpc-port = 65534").expect_err("65536 is not a port"));
        assert!(
            refused.contains("--rpc-port 65534") && refused.contains("--tpu-port"),
            "{refused}"
        );
        assert_eq!(port("rpc-port = 65534\ntpu-port = 9000").expect("its own port"), Some(9_000));
        assert_eq!(port("rpc-port = 65533").expect("the last one"), Some(65_535));
        assert_eq!(port("rpc-port = 0").expect("free ones"), Some(0));
    }

    #[test]
    fn the_port_of_grpc_is_fixed_unless_ports_are_free_ones_or_it_is_closed() {
        let port =
            |flags: DevFlags, file: &str| check(flags, file).map(|config| config.node.grpc_port);
        let none = DevFlags::default;
        assert_eq!(port(none(), "").expect("valid"), Some(GrpcPort::Preferably(10_000)));
        assert_eq!(port(none(), "rpc-port = 0").expect("valid"), Some(GrpcPort::Exactly(0)));
        assert_eq!(
            port(none(), "grpc-port = 7\nrpc-port = 0").expect("valid"),
            Some(GrpcPort::Exactly(7))
        );
        assert_eq!(port(none(), "no-grpc = true").expect("valid"), None);
        let with = |grpc| with_node(NodeFlags { grpc, ..NodeFlags::default() });
        let closed = || with(GrpcFlags { no_grpc: true, ..GrpcFlags::default() });
        assert_eq!(port(closed(), "grpc-port = 7").expect("valid"), None);
        let open = with(GrpcFlags { grpc_port: Some(8), ..GrpcFlags::default() });
        assert_eq!(port(open, "no-grpc = true").expect("valid"), Some(GrpcPort::Exactly(8)));
        let both = port(none(), "no-grpc = true\ngrpc-port = 7").expect_err("both");
        assert!(both.to_string().contains("--no-grpc"), "{both}");
    }

    #[test]
    fn blocks_are_made_by_a_clock_by_transactions_or_on_request() {
        let blocks = |flags: DevFlags, file: &str| {
            let localnet = check(flags, file)?.local.localnet;
            Ok::<_, anyhow::Error>((localnet.slot_ms, localnet.is_manual, localnet.finalize_after))
        };
        let none = DevFlags::default;
        assert_eq!(blocks(none(), "block-mode = \"manual\"").expect("valid"), (0, true, 31));
        let mode = "block-mode = \"transaction\"";
        assert_eq!(blocks(none(), mode).expect("valid"), (0, false, 0));
        let both = "block-mode = \"manual\"\nfinalize-after = 0";
        assert_eq!(blocks(none(), both).expect("valid"), (0, true, 0));
        let clock = "block-mode = \"clock\"\nslot-ms = 50";
        assert_eq!(blocks(none(), clock).expect("valid"), (50, false, 31));
        // A flag overrides what contradicts it in the file.
        let flag = DevFlags { block_mode: Some(BlockMode::Manual), ..none() };
        assert_eq!(blocks(flag, "slot-ms = 50").expect("valid"), (0, true, 31));
        let flag = DevFlags { slot_ms: Some(50), ..none() };
        assert_eq!(blocks(flag, "block-mode = \"manual\"").expect("valid"), (50, false, 31));
        for file in ["slot-ms = 0\nblock-mode = \"clock\"", "slot-ms = 5\nblock-mode = \"manual\""]
        {
            let err = blocks(none(), file).expect_err(file);
            assert!(err.to_string().contains("--block-mode"), "{err}");
        }
    }

    #[test]
    fn the_log_of_grpc_reaches_behind_the_root() {
        let config = check(DevFlags::default(), "finalize-after = 100").expect("valid");
        assert_eq!(config.node.grpc.replay_slots_max, 108);
    }

    #[test]
    fn a_block_per_transaction_is_final_at_once() {
        let config = check(DevFlags::default(), "slot-ms = 0").expect("valid settings");
        assert_eq!(config.local.localnet.finalize_after, 0);
    }

    #[test]
    fn a_warp_leaves_slots_to_continue() {
        let warp_to = |warp_slot| {
            check(DevFlags { warp_slot: Some(Some(warp_slot)), ..DevFlags::default() }, "")
                .map(drop)
        };
        assert!(warp_to(localnet::WARP_SLOT_MAX).is_ok());
        let err = warp_to(u64::MAX).expect_err("no slot is left").to_string();
        assert!(err.contains("--warp-slot is 18446744073709551615: must be from 0 to"), "{err}");
    }

    #[test]
    fn invalid_settings_are_refused_by_name() {
        let err = |file: &str| match check(DevFlags::default(), file) {
            Ok(_) => panic!("{file:?} was accepted"),
            Err(err) => format!("{err:#}"),
        };
        assert!(err("slot-mss = 1").contains("unknown field `slot-mss`"));
        assert!(err("[rpc]\nbatchmax = 1").contains("unknown field `batchmax`"));
        assert!(
            err("slots-per-epoch = 31").contains("--slots-per-epoch is 31: must be from 32 to")
        );
        assert!(err("history-slots = 31").contains("--history-slots 31"));
        let units = err("queue-compute-units-max = 9999999");
        assert!(
            units.contains("--queue-compute-units-max is 9999999: must be from 10000000 to"),
            "{units}"
        );
        assert!(
            err("inflation-fixed = 1.5").contains("--inflation-fixed is 1.5: must be from 0 to 1")
        );
        assert!(err("cpu-threads = 0").contains("--cpu-threads is 0: must be from 1 to 1024"));
        assert!(
            err("rpc-port = 65535")
                .contains("--rpc-port is 65535: must be from 0 to 65534: the next")
        );
        assert!(err("rpc-port = 65534").contains("--tpu-port"));
        assert!(err("faucet-sol = -1.0").contains("--faucet-sol is -1: must be from 0 to"));
        assert!(err("from-incremental-snapshot = \"x\"").contains("--from-snapshot"));
        assert!(err("from-snapshot = \"/nowhere\"").contains("--from-snapshot /nowhere"));
        let epoch = "from-snapshot = \"/nowhere\"\nslots-per-epoch = 64";
        assert!(err(epoch).contains("--slots-per-epoch"));
        assert!(err("mint = \"nobody\"").contains("--mint"));
        assert!(err("[quic]\nshards = 0").contains("quic.shards is 0: must be from 1 to 256"));
        for setting in ["body_bytes_max", "connections_max", "batch_max", "write_timeout_ms"] {
            let err = err(&format!("[rpc]\n{setting} = 0"));
            assert!(err.contains(&format!("rpc.{setting} is 0: ")), "{err}");
        }
        let limits = ["connections_max", "queue_bytes_max", "events_max", "ping_ms"];
        let sums = ["message_timeout_ms", "incoming_bytes_max", "queues_bytes_max"];
        for setting in limits.into_iter().chain(sums) {
            let err = err(&format!("[pubsub]\n{setting} = 0"));
            assert!(err.contains(&format!("pubsub.{setting} is 0: ")), "{err}");
        }
        let short = err("[rpc]\nhead_bytes_max = 8191");
        assert!(
            short.contains("rpc.head_bytes_max is 8191: must be from 8192 to 32768"),
            "{short}"
        );
        let forever = err("[rpc]\nheader_timeout_ms = 86400001");
        assert!(
            forever.contains("rpc.header_timeout_ms is 86400001: must be from 1 to"),
            "{forever}"
        );
        let header = err("[rpc]\nclient_header = \"x api key\"");
        assert!(header.contains("rpc.client_header is \"x api key\""), "{header}");
        assert!(
            err("identity-weights = \"/nowhere\"")
                .contains("--identity-weights: /nowhere: No such file")
        );
        assert!(err("slot-ms = 1\nticks-per-slot = 1").contains("exclude each other"));
        assert!(err("account = [[\"-\", \"/nowhere.json\"]]").contains("/nowhere.json"));
    }
}
