//! From flags and configuration file to settings: merged, checked, and with all files that they name read.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use chain_solana::HistoryLimits;
use solana_inflation::Inflation;
use solana_native_token::LAMPORTS_PER_SOL;

use crate::accounts_file;
use crate::api_key_file::ApiKeyFile;
use crate::banner::OutputStyle;
use crate::bounds::{self, SHRED_BYTES};
use crate::clone::CloneRequest;
use crate::dev_flags::{BlockMode, DevFlags, FeatureBase};
use crate::fork_setup;
use crate::grpc_setup;
use crate::index_flags;
use crate::input_file;
use crate::log_format::LogFormat;
use crate::process_setup::{GrpcPort, RpcPorts};
use crate::serving_options::{ServingOptions, allowed_origins};
use crate::shared_flags::concat;
use crate::snapshot_file::SnapshotFile;
use crate::solana_cli_config;

/// Microseconds of a tick: 160 ticks a second, as on a cluster.
const TICK_US: u64 = 6_250;
/// The port on which clients expect JSON-RPC.
const RPC_PORT_DEFAULT: u16 = 8899;
/// Slots that gRPC's log must have beyond those that are not final.
const REPLAY_SLOTS_AFTER_ROOT: u64 = 8;

/// Bytes of a file of weights. Up to 100,000 lines are read.
const WEIGHTS_BYTES_MAX: u64 = 64 << 20;
/// Bytes of a configuration file: some ten thousand lines.
const CONFIG_BYTES_MAX: u64 = 1 << 20;

/// Bytes of the response cache: a thousand responses of a quarter of a megabyte.
const CACHE_BYTES_MAX_DEFAULT: u64 = 256 << 20;

/// The settings of `hydrant dev`.
pub(crate) struct NodeConfig {
    pub(crate) localnet: localnet::Config,
    pub(crate) snapshot: Option<SnapshotFile>,
    /// What a new ledger takes from a cluster.
    pub(crate) clone: Option<CloneRequest>,
    /// The cluster that the ledger forks.
    pub(crate) fork: Option<upstream_fork::Config>,
    pub(crate) rpc: rpc_solana::Config,
    pub(crate) pubsub: rpc_solana::pubsub::Config,
    pub(crate) quic: ::tpu::Config,
    pub(crate) tpu_port: u16,
    pub(crate) grpc: grpc::Config,
    /// `None`: gRPC is not served.
    pub(crate) grpc_port: Option<GrpcPort>,
    /// Whether the console is served.
    pub(crate) console: bool,
    /// Whether cheat codes may be called.
    pub(crate) cheatcodes: bool,
    /// `None`: the faucet is not served over TCP.
    pub(crate) faucet_port: Option<u16>,
    pub(crate) forward: Vec<SocketAddr>,
    pub(crate) bind_address: IpAddr,
    pub(crate) rpc_ports: RpcPorts,
    pub(crate) endpoints_file: Option<PathBuf>,
    pub(crate) serving: ServingOptions,
    /// Directories of genesis accounts, which are read when the ledger is created.
    pub(crate) account_dirs: Vec<PathBuf>,
    pub(crate) io_threads: usize,
    pub(crate) pool: pool::Config,
    pub(crate) cache_bytes_max: u64,
    /// `None`: clients need no key.
    pub(crate) api_keys: Option<ApiKeyFile>,
    pub(crate) reset: bool,
    pub(crate) quiet: bool,
    pub(crate) style: OutputStyle,
    pub(crate) log: bool,
    pub(crate) log_format: LogFormat,
    /// The collector of spans.
    pub(crate) otlp_endpoint: Option<String>,
}

/// The flags merged with the file: a flag overrides the file, lists are concatenated.
pub(crate) fn with_file(flags: DevFlags) -> Result<DevFlags> {
    let Some(path) = flags.config.clone() else { return Ok(flags) };
    let file = read_toml(&path, DevFlags::from_toml)?;
    Ok(merge(flags, file))
}

/// The settings of the file of `--config`.
pub(crate) fn read_toml<T>(
    path: &Path,
    parse: impl FnOnce(&str) -> Result<T, toml::de::Error>,
) -> Result<T> {
    let text = input_file::read(path, CONFIG_BYTES_MAX).context("--config")?;
    let text = String::from_utf8(text).with_context(|| format!("--config {}", path.display()))?;
    parse(&text).with_context(|| format!("--config {}", path.display()))
}

fn merge(flags: DevFlags, file: DevFlags) -> DevFlags {
    let has_slot_flag = flags.slot_ms.is_some() || flags.ticks_per_slot.is_some();
    let has_clock = !matches!(flags.block_mode, Some(BlockMode::Transaction | BlockMode::Manual));
    let has_bytes_flag = flags.history_bytes.is_some() || flags.limit_ledger_size.is_some();
    DevFlags {
        config: flags.config,
        check: flags.check,
        rpc: file.rpc,
        pubsub: file.pubsub,
        pool: file.pool,
        quic: file.quic,
        grpc: file.grpc,
        ledger: flags.ledger.or(file.ledger),
        reset: flags.reset || file.reset,
        slot_ms: flags.slot_ms.or_else(|| file.slot_ms.filter(|_| !has_slot_flag && has_clock)),
        ticks_per_slot: flags
            .ticks_per_slot
            .or_else(|| file.ticks_per_slot.filter(|_| !has_slot_flag && has_clock)),
        block_mode: flags.block_mode.or_else(|| file.block_mode.filter(|_| !has_slot_flag)),
        finalize_after: flags.finalize_after.or(file.finalize_after),
        slots_per_epoch: flags.slots_per_epoch.or(file.slots_per_epoch),
        warp_slot: flags.warp_slot.or(file.warp_slot),
        history_slots: flags.history_slots.or(file.history_slots),
        history_bytes: flags
            .history_bytes
            .or_else(|| file.history_bytes.filter(|_| !has_bytes_flag)),
        limit_ledger_size: flags
            .limit_ledger_size
            .or_else(|| file.limit_ledger_size.filter(|_| !has_bytes_flag)),
        from_snapshot: flags.from_snapshot.or(file.from_snapshot),
        from_incremental_snapshot: flags
            .from_incremental_snapshot
            .or(file.from_incremental_snapshot),
        mint: flags.mint.or(file.mint),
        faucet_sol: flags.faucet_sol.or(file.faucet_sol),
        faucet_per_request_sol_cap: flags
            .faucet_per_request_sol_cap
            .or(file.faucet_per_request_sol_cap),
        faucet_per_time_sol_cap: flags.faucet_per_time_sol_cap.or(file.faucet_per_time_sol_cap),
        faucet_time_slice_secs: flags.faucet_time_slice_secs.or(file.faucet_time_slice_secs),
        faucet_port: flags.faucet_port.or(file.faucet_port),
        inflation_fixed: flags.inflation_fixed.or(file.inflation_fixed),
        features: flags.features.or(file.features),
        url: flags.url.or(file.url),
        clone: concat(flags.clone, file.clone),
        maybe_clone: concat(flags.maybe_clone, file.maybe_clone),
        clone_upgradeable_program: concat(
            flags.clone_upgradeable_program,
            file.clone_upgradeable_program,
        ),
        deep_clone_address_lookup_table: concat(
            flags.deep_clone_address_lookup_table,
            file.deep_clone_address_lookup_table,
        ),
        clone_feature_set: flags.clone_feature_set || file.clone_feature_set,
        fork_url: flags.fork_url.or(file.fork_url),
        fork_slot: flags.fork_slot.or(file.fork_slot),
        fork_cache: flags.fork_cache.or(file.fork_cache),
        fork_genesis: flags.fork_genesis.or(file.fork_genesis),
        fork_bytes_max: flags.fork_bytes_max.or(file.fork_bytes_max),
        fork_requests_max: flags.fork_requests_max.or(file.fork_requests_max),
        fork_timeout_ms: flags.fork_timeout_ms.or(file.fork_timeout_ms),
        deactivate_feature: concat(flags.deactivate_feature, file.deactivate_feature),
        account: concat(flags.account, file.account),
        account_dir: concat(flags.account_dir, file.account_dir),
        bpf_program: concat(flags.bpf_program, file.bpf_program),
        upgradeable_program: concat(flags.upgradeable_program, file.upgradeable_program),
        account_index: match flags.account_index.is_empty() {
            true => file.account_index,
            false => flags.account_index,
        },
        account_index_exclude_key: concat(
            flags.account_index_exclude_key,
            file.account_index_exclude_key,
        ),
        account_index_include_key: concat(
            flags.account_index_include_key,
            file.account_index_include_key,
        ),
        listen: flags.listen.or(file.listen),
        rpc_port: flags.rpc_port.or(file.rpc_port),
        pubsub_port: flags.pubsub_port,
        tpu_port: flags.tpu_port.or(file.tpu_port),
        services: flags.services.or(file.services),
        no_cheatcodes: flags.no_cheatcodes || file.no_cheatcodes,
        tpu_connections_max: flags.tpu_connections_max.or(file.tpu_connections_max),
        identity_weights: flags.identity_weights.or(file.identity_weights),
        forward: concat(flags.forward, file.forward),
        endpoints_file: flags.endpoints_file.or(file.endpoints_file),
        serving: flags.serving.or(file.serving),
        io_threads: flags.io_threads.or(file.io_threads),
        cpu_threads: flags.cpu_threads.or(file.cpu_threads),
        rpc_max_request_body_size: flags
            .rpc_max_request_body_size
            .or(file.rpc_max_request_body_size),
        queue_max: flags.queue_max.or(file.queue_max),
        queue_compute_units_max: flags.queue_compute_units_max.or(file.queue_compute_units_max),
        compute_unit_limit: flags.compute_unit_limit.or(file.compute_unit_limit),
        transaction_account_lock_limit: flags
            .transaction_account_lock_limit
            .or(file.transaction_account_lock_limit),
        heavy_max: flags.heavy_max.or(file.heavy_max),
        cache_bytes_max: flags.cache_bytes_max.or(file.cache_bytes_max),
        connections_max: flags.connections_max.or(file.connections_max),
        capacity: flags.capacity.or(file.capacity),
        max_tracked_addresses: flags.max_tracked_addresses.or(file.max_tracked_addresses),
        quiet: flags.quiet || file.quiet,
        logging: flags.logging.or(file.logging),
        slow_request_ms: flags.slow_request_ms.or(file.slow_request_ms),
        traces: flags.traces.or(file.traces),
    }
}

impl NodeConfig {
    /// Settings from flags. Reads every file that they name, and checks every number.
    pub(crate) fn from_flags(flags: DevFlags) -> Result<Self> {
        bounds::check(&bounds::flags(&flags))?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let pool = pool_config(&flags, cores)?;
        ensure!(
            flags.faucet_port.is_none() || flags.services.api_keys.is_none(),
            "--faucet-port cannot be used with --api-keys: the faucet's protocol has no keys (requestAirdrop has)"
        );
        Ok(Self {
            serving: ServingOptions::from_flags(&flags.serving, flags.ledger.as_deref())?,
            // The pool's threads simulate transactions, and none may have to wait for a VM.
            localnet: localnet_config(&flags, pool.threads)?,
            snapshot: snapshot_file(&flags, cores)?,
            clone: CloneRequest::from_flags(&flags)?,
            fork: fork_setup::from_flags(&flags)?,
            rpc: rpc_config(&flags)?,
            pubsub: pubsub_config(&flags)?,
            pool,
            cache_bytes_max: flags.cache_bytes_max.unwrap_or(CACHE_BYTES_MAX_DEFAULT),
            api_keys: flags.services.api_keys.as_deref().map(ApiKeyFile::open).transpose()?,
            quic: quic_config(&flags)?,
            tpu_port: tpu_port(&flags)?,
            grpc: grpc_config(&flags)?,
            grpc_port: grpc_setup::port(&flags.services, flags.rpc_port)?,
            console: !flags.services.no_console,
            cheatcodes: !flags.no_cheatcodes,
            faucet_port: flags.faucet_port,
            forward: flags.forward.clone(),
            bind_address: flags.listen.bind_address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            rpc_ports: RpcPorts {
                rpc: flags.rpc_port.unwrap_or(RPC_PORT_DEFAULT),
                pubsub: flags.pubsub_port,
            },
            endpoints_file: flags.endpoints_file,
            io_threads: flags.io_threads.unwrap_or_else(|| (cores / 2).max(1)),
            account_dirs: flags.account_dir,
            reset: flags.reset,
            quiet: flags.quiet,
            style: OutputStyle::Hydrant,
            log: flags.logging.log,
            log_format: flags.logging.log_format.unwrap_or_default(),
            otlp_endpoint: flags.traces.otlp_endpoint,
        })
    }
}

fn localnet_config(flags: &DevFlags, simulators: usize) -> Result<localnet::Config> {
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
    let config = localnet::Config {
        slot_ms,
        is_manual,
        finalize_after,
        slots_per_epoch: flags.slots_per_epoch.unwrap_or(defaults.slots_per_epoch),
        warp_slot: flags.warp_slot.flatten(),
        history: history(flags, defaults.history, finalize_after)?,
        queue_max: flags.queue_max.unwrap_or(defaults.queue_max),
        queue_compute_units_max: flags
            .queue_compute_units_max
            .unwrap_or(defaults.queue_compute_units_max),
        addresses_max: flags.capacity.max_addresses.unwrap_or(defaults.addresses_max),
        indices: index_flags::from_flags(flags)?,
        faucet_lamports: lamports("faucet-sol", flags.faucet_sol)?
            .unwrap_or(defaults.faucet_lamports),
        airdrops: airdrops(flags)?,
        inflation: inflation(flags, defaults.inflation)?,
        mint: mint(flags)?,
        dir: flags.ledger.clone(),
        features: features(flags)?,
        accounts: accounts(flags)?,
        programs: programs(flags)?,
        simulators,
        runtime_limits: localnet::RuntimeLimits {
            compute_units: flags.compute_unit_limit,
            account_locks: flags.transaction_account_lock_limit,
        },
        // Only a cheat code resets a ledger.
        baseline_bytes_max: if flags.no_cheatcodes { 0 } else { defaults.baseline_bytes_max },
    };
    config.check()?;
    Ok(config)
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
        ensure!(path.is_file(), "{flag} {}: no such file", path.display());
    }
    Ok(Some(SnapshotFile { full, incremental, threads }))
}

fn history(
    flags: &DevFlags,
    defaults: HistoryLimits,
    finalize_after: u64,
) -> Result<HistoryLimits> {
    let slots_max = flags.history_slots.unwrap_or(defaults.slots_max);
    ensure!(
        slots_max > finalize_after,
        "--history-slots {slots_max}: must be more than --finalize-after ({finalize_after})"
    );
    let shreds = flags.limit_ledger_size.map(|shreds| shreds.saturating_mul(SHRED_BYTES));
    let bytes_max = flags.history_bytes.or(shreds).unwrap_or(defaults.bytes_max);
    Ok(HistoryLimits { slots_max, bytes_max })
}

fn rpc_config(flags: &DevFlags) -> Result<rpc_solana::Config> {
    let file = flags.rpc.clone();
    let config = rpc_solana::Config {
        body_bytes_max: flags.rpc_max_request_body_size.unwrap_or(file.body_bytes_max),
        connections_max: flags.connections_max.unwrap_or(file.connections_max),
        slow_request_ms: flags.slow_request_ms.unwrap_or(file.slow_request_ms),
        allowed_origins: allowed_origins(&flags.serving.allow_origin, &flags.serving.allow_host)?,
        ..file
    };
    bounds::check(&bounds::rpc(&config))?;
    config.check()?;
    Ok(config)
}

fn pool_config(flags: &DevFlags, cores: usize) -> Result<pool::Config> {
    let mut config = flags.pool.clone();
    config.threads = flags.cpu_threads.unwrap_or(cores);
    config.heavy.tasks_max = flags.heavy_max.unwrap_or(config.heavy.tasks_max);
    bounds::check(&bounds::pool(&config))?;
    Ok(config)
}

fn quic_config(flags: &DevFlags) -> Result<::tpu::Config> {
    let file = flags.quic.clone();
    let config = ::tpu::Config {
        connections_max: flags.tpu_connections_max.unwrap_or(file.connections_max),
        weights: flags.identity_weights.clone().or_else(|| file.weights.clone()),
        ..file
    };
    bounds::check(&bounds::quic(&config))?;
    config.check()?;
    if let Some(path) = &config.weights {
        input_file::check(path, WEIGHTS_BYTES_MAX).context("--identity-weights")?;
    }
    Ok(config)
}

/// The port two after JSON-RPC's. If the system chooses that one, it chooses this one too.
fn tpu_port(flags: &DevFlags) -> Result<u16> {
    match (flags.tpu_port, flags.rpc_port.unwrap_or(RPC_PORT_DEFAULT)) {
        (Some(port), _) => Ok(port),
        (None, 0) => Ok(0),
        (None, port) => port.checked_add(2).with_context(|| {
            format!(
                "--rpc-port {port}: no port two after it exists for transactions over QUIC; \
                 set --tpu-port (0 uses a free port)"
            )
        }),
    }
}

fn grpc_config(flags: &DevFlags) -> Result<grpc::Config> {
    let finalize_after =
        flags.finalize_after.unwrap_or_else(|| localnet::Config::default().finalize_after);
    grpc_setup::config(&flags.grpc, finalize_after + REPLAY_SLOTS_AFTER_ROOT)
}

fn pubsub_config(flags: &DevFlags) -> Result<rpc_solana::pubsub::Config> {
    let file = flags.pubsub.clone();
    let tracked_addresses_max = flags.max_tracked_addresses.unwrap_or(file.tracked_addresses_max);
    let config = rpc_solana::pubsub::Config { tracked_addresses_max, ..file };
    bounds::check(&bounds::pubsub(&config))?;
    config.check()?;
    Ok(config)
}

fn lamports(name: &str, sol: Option<f64>) -> Result<Option<u64>> {
    let Some(sol) = sol else { return Ok(None) };
    let lamports = sol * LAMPORTS_PER_SOL as f64;
    ensure!(
        lamports >= 0.0 && lamports < (u64::MAX / 4) as f64,
        "--{name} is {sol}: must be from 0 to {}",
        u64::MAX / 4 / LAMPORTS_PER_SOL
    );
    Ok(Some(lamports as u64))
}

fn inflation(flags: &DevFlags, default: Inflation) -> Result<Inflation> {
    let Some(rate) = flags.inflation_fixed else { return Ok(default) };
    ensure!((0.0..=1.0).contains(&rate), "--inflation-fixed is {rate}: must be from 0 to 1");
    Ok(Inflation::new_fixed(rate))
}

fn mint(flags: &DevFlags) -> Result<Option<solana_pubkey::Pubkey>> {
    if let Some(mint) = &flags.mint {
        return accounts_file::address_or_keypair(mint).context("--mint").map(Some);
    }
    let Some(home) = std::env::var_os("HOME").map(PathBuf::from) else { return Ok(None) };
    let chosen =
        solana_cli_config::keypair_path(&home.join(solana_cli_config::FILE)).ok().flatten();
    let keypair = chosen.unwrap_or_else(|| home.join(".config/solana/id.json"));
    let exists = keypair.exists();
    Ok(exists.then(|| accounts_file::address_or_keypair(&keypair.to_string_lossy()).ok()).flatten())
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
    use super::*;
    use crate::dev_flags::AccountIndex;
    use crate::shared_flags::{ServiceFlags, ServingFlags};

    fn check(flags: DevFlags, file: &str) -> Result<NodeConfig> {
        let file = DevFlags::from_toml(file)?;
        NodeConfig::from_flags(merge(flags, file))
    }

    #[test]
    fn a_flag_overrides_the_file() {
        let flags = DevFlags { ticks_per_slot: Some(8), ..DevFlags::default() };
        let file = "slot-ms = 100\nqueue-max = 7\nforward = [\"127.0.0.1:9\"]\n[rpc]\nbatch_max = 3\n\
                    [pubsub]\nping_ms = 9\n[quic]\nwindow_max = 64";
        let config = check(flags, file).expect("valid settings");
        assert_eq!((config.rpc.batch_max, config.pubsub.ping_ms), (3, 9));
        assert_eq!((config.quic.window_max, config.tpu_port), (64, 8901));
        assert_eq!(config.forward, [SocketAddr::from(([127, 0, 0, 1], 9))]);
        assert_eq!(config.localnet.slot_ms, 50);
        assert_eq!(config.localnet.queue_max, 7);
    }

    #[test]
    fn lists_of_keys_are_concatenated_and_lists_of_indices_are_not() {
        let [one, two] = [1, 2].map(|n| solana_pubkey::Pubkey::new_from_array([n; 32]).to_string());
        let flags = DevFlags {
            account_index: vec![AccountIndex::ProgramId],
            account_index_exclude_key: vec![one.clone()],
            ..DevFlags::default()
        };
        let file = format!(
            "account-index = [\"spl-token-mint\"]\naccount-index-exclude-key = [\"{two}\"]"
        );
        let file = DevFlags::from_toml(&file).expect("valid settings");
        let merged = merge(flags, file);
        assert_eq!(merged.account_index, [AccountIndex::ProgramId]);
        assert_eq!(merged.account_index_exclude_key, [one, two]);
    }

    #[test]
    fn every_thread_that_simulates_has_a_vm() {
        let config = check(DevFlags::default(), "cpu-threads = 7").expect("valid settings");
        assert_eq!((config.pool.threads, config.localnet.simulators), (7, 7));
    }

    #[test]
    fn the_header_of_a_proxy_is_case_insensitive() {
        let config = check(DevFlags::default(), "[rpc]\nclient_header = \"X-Real-IP\"");
        let header = config.expect("valid settings").rpc.client_header;
        assert_eq!(header.as_ref().map(|header| header.as_str()), Some("x-real-ip"));
        let none = check(DevFlags::default(), "[rpc]\nclient_header = \"\"");
        assert!(none.expect("valid settings").rpc.client_header.is_none());
    }

    #[test]
    fn origins_of_flags_and_file_are_concatenated_and_checked() {
        let serving = ServingFlags {
            allow_origin: vec!["https://app.example".to_owned()],
            ..ServingFlags::default()
        };
        let flags = DevFlags { serving, ..DevFlags::default() };
        let config = check(flags, "allow-origin = [\"http://localhost:5173\"]");
        let both = ["https://app.example", "http://localhost:5173"].map(str::to_owned);
        let allowed = allowed_origins(&both, &[]).expect("origins");
        assert_eq!(config.expect("valid settings").rpc.allowed_origins, allowed);
        let any = check(DevFlags::default(), "").expect("valid settings").rpc.allowed_origins;
        assert_eq!(any, allowed_origins(&[], &[]).expect("origins"));
        let wrong = check(DevFlags::default(), "allow-origin = [\"https://app.example/path\"]");
        let wrong = format!("{:#}", wrong.err().expect("it has a path"));
        assert!(wrong.contains("--allow-origin: \"https://app.example/path\" is no"), "{wrong}");
    }

    #[test]
    fn a_port_without_one_for_quic_after_it_is_refused_unless_tpu_port_is_set() {
        let port = |file: &str| check(DevFlags::default(), file).map(|config| config.tpu_port);
        let refused = format!("{:#}", port("rpc-port = 65534").expect_err("65536 is no port"));
        assert!(
            refused.contains("--rpc-port 65534") && refused.contains("--tpu-port"),
            "{refused}"
        );
        assert_eq!(port("rpc-port = 65534\ntpu-port = 9000").expect("its own port"), 9_000);
        assert_eq!(port("rpc-port = 65533").expect("the last one"), 65_535);
        assert_eq!(port("rpc-port = 0").expect("free ones"), 0);
    }

    #[test]
    fn the_port_of_grpc_is_fixed_unless_ports_are_free_ones_or_it_is_closed() {
        let port = |flags: DevFlags, file: &str| check(flags, file).map(|config| config.grpc_port);
        let none = DevFlags::default;
        assert_eq!(port(none(), "").expect("valid"), Some(GrpcPort::Preferably(10_000)));
        assert_eq!(port(none(), "rpc-port = 0").expect("valid"), Some(GrpcPort::Exactly(0)));
        assert_eq!(
            port(none(), "grpc-port = 7\nrpc-port = 0").expect("valid"),
            Some(GrpcPort::Exactly(7))
        );
        assert_eq!(port(none(), "no-grpc = true").expect("valid"), None);
        let with = |services| DevFlags { services, ..none() };
        let closed = || with(ServiceFlags { no_grpc: true, ..ServiceFlags::default() });
        assert_eq!(port(closed(), "grpc-port = 7").expect("valid"), None);
        let open = with(ServiceFlags { grpc_port: Some(8), ..ServiceFlags::default() });
        assert_eq!(port(open, "no-grpc = true").expect("valid"), Some(GrpcPort::Exactly(8)));
        let both = port(none(), "no-grpc = true\ngrpc-port = 7").expect_err("both");
        assert!(both.to_string().contains("--no-grpc"), "{both}");
    }

    #[test]
    fn blocks_are_made_by_a_clock_by_transactions_or_on_request() {
        let blocks = |flags: DevFlags, file: &str| {
            let localnet = check(flags, file)?.localnet;
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
        assert_eq!(config.grpc.replay_slots_max, 108);
    }

    #[test]
    fn a_block_per_transaction_is_final_at_once() {
        let config = check(DevFlags::default(), "slot-ms = 0").expect("valid settings");
        assert_eq!(config.localnet.finalize_after, 0);
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
