//! The ranges of all numeric settings, checked before anything is opened.
//!
//! Shape: `node`, `local`, `follow`, `replica`, `follow_kaspa` and `bench` list the flags, and `rpc`, `pool`, `pubsub`, `quic` and
//! `grpc` the tables, each setting with value, minimum and maximum. [`check`] refuses the first one that is out of its
//! range. A table of the file is destructured field by field, so that a setting without a range does not compile.
//! A maximum is a value above which no use is known: a day for times, the resources of a large machine for the rest.
//! Not here: fractions of `bench` (`bench::limits`), checks that depend on another setting (`node::config`,
//! `local::config`, `follow::config`, and each crate's own `Config::check`).

use std::ops::RangeInclusive;

use anyhow::{Result, bail};

use crate::bench::flags::BenchFlags;
use crate::follow::flags::FollowerFlags;
use crate::follow_kaspa::flags::KaspaFollowerFlags;
use crate::local::flags::DevFlags;
use crate::node::NodeFlags;
#[cfg(feature = "cluster")]
use crate::replica::flags::ReplicaFlags;
use crate::serving_options::DRAIN_SECONDS_MAX;

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;
const YEAR_S: u64 = 365 * 24 * 60 * 60;
const HOUR_MS: u64 = 60 * 60 * 1_000;
/// Threads: many times the cores of any machine. Each needs a stack, and some need a VM.
const THREADS_MAX: u64 = 1_024;
/// Sockets that a process may have open on a large machine.
const CONNECTIONS_MAX: u64 = 1_000_000;
/// Milliseconds that a call waits for a slot: less than proxies wait for a response.
const MIN_SLOT_WAIT_MS_MAX: u64 = 30_000;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;
const PIB: u64 = 1 << 50;
const MILLION: u64 = 1_000_000;
const BILLION: u64 = 1_000_000_000;
/// Runs of `hydrant bench`. Each keeps three histograms for each stream, about a megabyte.
const RUNS_MAX: u64 = 100;
/// Ticks of 6.25 ms in an hour.
const TICKS_MAX: u64 = HOUR_MS * 1_000 / 6_250;
/// SOL of the faucet: a quarter of the lamports that a `u64` counts.
pub(crate) const FAUCET_SOL_MAX: f64 = 4_611_686_018.0;
/// Bytes that one shred carries.
pub(crate) const SHRED_BYTES: u64 = 1_228;

/// A numeric setting with its range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    /// The flag, or the key in the file's tables.
    pub(crate) name: &'static str,
    pub(crate) value: u64,
    pub(crate) range: RangeInclusive<u64>,
    /// The meaning of the maximum, or its reason, as the error shows it.
    note: &'static str,
}

/// Refuses the first setting that is out of its range, with its name, value and range.
pub(crate) fn check(settings: &[Setting]) -> Result<()> {
    let Some(invalid) = settings.iter().find(|it| !it.range.contains(&it.value)) else {
        return Ok(());
    };
    let Setting { name, value, range, note } = invalid;
    bail!("{name} is {value}: must be from {} to {}{note}", range.start(), range.end())
}

/// A setting whose maximum needs no note.
fn setting(name: &'static str, value: usize, range: RangeInclusive<u64>) -> Setting {
    Setting { name, value: value as u64, range, note: "" }
}

/// A time in milliseconds, at most a day.
fn setting_ms(name: &'static str, value: u64, min: u64) -> Setting {
    Setting { name, value, range: min..=DAY_MS, note: ", a day" }
}

/// Returns the setting of a flag, or `None` if the flag is not set.
fn flag(
    name: &'static str,
    value: Option<u64>,
    range: RangeInclusive<u64>,
    note: &'static str,
) -> Option<Setting> {
    value.map(|value| Setting { name, value, range, note })
}

fn port(name: &'static str, value: Option<u16>) -> Option<Setting> {
    flag(name, value.map(u64::from), 0..=65_535, "")
}

fn count(name: &'static str, value: Option<usize>, range: RangeInclusive<u64>) -> Option<Setting> {
    flag(name, value.map(|value| value as u64), range, "")
}

/// The flags of every node that are set, or the keys of the same names in the file.
pub(crate) fn node(flags: &NodeFlags) -> Vec<Setting> {
    let NodeFlags { history, listen, grpc, quic, serving, threads, requests, queue, .. } = flags;
    let NodeFlags { bounds, log_writer, output, .. } = flags;
    let log_replicas = log_writer.log_replicas.map(u64::from);
    let rpc_port = listen.rpc_port.map(u64::from);
    let body_bytes = requests.rpc_max_request_body_size.map(|bytes| bytes as u64);
    let addresses = bounds.max_addresses.map(u64::from);
    let note = ": the next port is needed for WebSocket";
    [
        flag("--history-slots", history.history_slots, 1..=BILLION, ""),
        flag("--history-bytes", history.history_bytes, 0..=TIB, ", a tebibyte"),
        flag("--rpc-port", rpc_port, 0..=65_534, note),
        port("--grpc-port", grpc.grpc_port),
        port("--tpu-port", quic.tpu_port),
        count("--tpu-connections-max", quic.tpu_connections_max, 1..=CONNECTIONS_MAX),
        flag("--drain-delay", serving.drain_delay, 0..=DRAIN_SECONDS_MAX, ", an hour"),
        flag("--drain-seconds", serving.drain_seconds, 0..=DRAIN_SECONDS_MAX, ", an hour"),
        count("--io-threads", threads.io_threads, 1..=THREADS_MAX),
        count("--cpu-threads", threads.cpu_threads, 1..=THREADS_MAX),
        flag("--rpc-max-request-body-size", body_bytes, 1..=GIB, ", a gibibyte"),
        count("--queue-max", queue.queue_max, 1..=MILLION),
        count("--heavy-max", bounds.heavy_max, 1..=MILLION),
        flag("--cache-bytes-max", bounds.cache_bytes_max, 0..=TIB, ", a tebibyte"),
        count("--connections-max", bounds.connections_max, 1..=CONNECTIONS_MAX),
        flag("--max-addresses", addresses, 1..=4 * BILLION, ""),
        count("--max-tracked-addresses", bounds.max_tracked_addresses, 1..=BILLION),
        flag("--log-replicas", log_replicas, 1..=5, ", as in NATS"),
        flag("--log-max-age", log_writer.log_max_age, 60..=YEAR_S, ", a year"),
        flag("--log-max-bytes", log_writer.log_max_bytes, 1 << 20..=PIB, ", a pebibyte"),
        flag("--slow-request-ms", output.slow_request_ms, 0..=DAY_MS, ", a day"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The flags of a local ledger that are set, or the keys of the same names in the file.
pub(crate) fn local(flags: &DevFlags) -> Vec<Setting> {
    let epoch = 32..=localnet::SLOTS_PER_EPOCH_MAX;
    let warp = 0..=localnet::WARP_SLOT_MAX;
    let units = localnet::QUEUE_COMPUTE_UNITS_MAX_MIN..=MILLION * BILLION;
    let locks = flags.transaction_account_lock_limit.map(|locks| locks as u64);
    let requests = flags.fork_requests_max.map(|requests| requests as u64);
    let calls = flags.fork_client_calls_per_s.map(u64::from);
    let shreds = 0..=TIB / SHRED_BYTES;
    let protocol = ", the most that the protocol allows";
    [
        flag("--slot-ms", flags.slot_ms, 0..=HOUR_MS, ", an hour"),
        flag("--ticks-per-slot", flags.ticks_per_slot, 1..=TICKS_MAX, ", an hour"),
        flag("--finalize-after", flags.finalize_after, 0..=4_000, ""),
        flag("--slots-per-epoch", flags.slots_per_epoch, epoch, ", 46 days of 400 ms slots"),
        flag("--warp-slot", flags.warp_slot.flatten(), warp, ": 2^32 slots must be left"),
        flag("--limit-ledger-size", flags.limit_ledger_size, shreds, ", a tebibyte"),
        port("--faucet-port", flags.faucet_port),
        flag("--faucet-time-slice-secs", flags.faucet_time_slice_secs, 0..=BILLION, ", 31 years"),
        flag("--queue-compute-units-max", flags.queue_compute_units_max, units, ""),
        flag("--account-bytes-max", flags.account_bytes_max, 1 << 20..=TIB, ", a tebibyte"),
        flag("--compute-unit-limit", flags.compute_unit_limit, 1..=BILLION, ""),
        flag("--transaction-account-lock-limit", locks, 1..=128, protocol),
        flag("--fork-slot", flags.fork_slot, 0..=u64::MAX - 1, ""),
        flag("--fork-bytes-max", flags.fork_bytes_max, 1_024..=TIB, ", a tebibyte"),
        flag("--fork-requests-max", requests, 1..=64, ": a thread each"),
        flag("--fork-client-calls-per-s", calls, 1..=MILLION, ""),
        flag("--fork-timeout-ms", flags.fork_timeout_ms, 1..=DAY_MS, ", a day"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The flags of a followed chain that are set, or the keys of the same names in the file.
pub(crate) fn follow(flags: &FollowerFlags) -> Vec<Setting> {
    [
        flag("--snapshot-bytes-max", flags.snapshot_bytes_max, 1..=64 * TIB, ", 64 tebibytes"),
        count("--verify-sources-min", flags.verify_sources_min, 1..=1_000),
        flag("--verify-execution-per-s", flags.verify_execution_per_s, 1..=MILLION, ""),
        flag("--slots-behind-max", flags.slots_behind_max, 0..=BILLION, ""),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The flags of a replica that are set, or the keys of the same names in the file.
#[cfg(feature = "cluster")]
pub(crate) fn replica(flags: &ReplicaFlags) -> Vec<Setting> {
    [
        flag("--replica-lag-max-slots", flags.replica_lag_max_slots, 0..=BILLION, ""),
        flag("--replica-resume-slots", flags.replica_resume_slots, 0..=MILLION, ""),
        flag("--snapshot-interval", flags.snapshot_interval, 0..=DAY_MS / 1_000, ", a day"),
        count("--snapshots-kept", flags.snapshots_kept, 1..=1_000),
        count("--load-threads", flags.load_threads, 1..=THREADS_MAX),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The flags of a followed chain of Kaspa that are set, or the keys of the same names in the file.
pub(crate) fn follow_kaspa(flags: &KaspaFollowerFlags) -> Vec<Setting> {
    let depth = 1..=chain_kaspa::DEPTH_LIMIT as u64;
    [
        count("--reorg-depth", flags.reorg_depth, depth),
        port("--wrpc-borsh-port", flags.wrpc_borsh_port),
        port("--wrpc-json-port", flags.wrpc_json_port),
        port("--grpc-port", flags.grpc_port),
        flag("--snapshot-interval", flags.snapshot_interval, 1..=DAY_MS / 1_000, ", a day"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The flags of `hydrant bench` that are counts.
pub(crate) fn bench(flags: &BenchFlags) -> Vec<Setting> {
    let connections_max = loadgen::CONNECTIONS_MAX as u64;
    [
        count("--connections", flags.connections, 1..=connections_max),
        count("--scans", Some(flags.scans), 0..=connections_max),
        count("--threads", Some(flags.threads), 1..=loadgen::THREADS_MAX as u64),
        count("--runs", Some(flags.runs), 1..=RUNS_MAX),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Brings flags of `solana-test-validator` that are too large into their ranges: there they have none. Returns a line
/// for each. Values of a file are not changed.
pub(crate) fn clamp(flags: &mut DevFlags) -> Vec<String> {
    let mut lines = Vec::new();
    for Setting { name, value, range, note } in local(flags) {
        let clamped = value.clamp(*range.start(), *range.end());
        let is_clamped = clamped != value && clamp_flag(flags, name, value, clamped);
        if is_clamped {
            lines.push(format!("{name} is {value}: {clamped} is used{note}"));
        }
    }
    for (name, value, max) in [
        ("--faucet-sol", flags.faucet_sol.as_mut(), FAUCET_SOL_MAX),
        (
            "--faucet-per-request-sol-cap",
            flatten_mut(&mut flags.faucet_per_request_sol_cap),
            FAUCET_SOL_MAX,
        ),
        (
            "--faucet-per-time-sol-cap",
            flatten_mut(&mut flags.faucet_per_time_sol_cap),
            FAUCET_SOL_MAX,
        ),
        ("--inflation-fixed", flags.inflation_fixed.as_mut(), 1.0),
    ] {
        if let Some(value) = value.filter(|value| **value > max) {
            lines.push(format!("{name} is {value}: {max} is used"));
            *value = max;
        }
    }
    lines
}

/// Sets a flag of `solana-test-validator` to the nearest value of its range. False if it is not such a flag, or if that
/// program refuses the value, too.
fn clamp_flag(flags: &mut DevFlags, name: &str, value: u64, clamped: u64) -> bool {
    let size = usize::try_from(clamped).ok();
    let is_too_large = value > clamped;
    match name {
        "--limit-ledger-size" => flags.limit_ledger_size = Some(clamped),
        "--warp-slot" => flags.warp_slot = Some(Some(clamped)),
        "--compute-unit-limit" => flags.compute_unit_limit = Some(clamped),
        "--transaction-account-lock-limit" => flags.transaction_account_lock_limit = size,
        "--faucet-time-slice-secs" => flags.faucet_time_slice_secs = Some(clamped),
        "--slots-per-epoch" if is_too_large => flags.slots_per_epoch = Some(clamped),
        "--ticks-per-slot" if is_too_large => flags.ticks_per_slot = Some(clamped),
        _ => return false,
    }
    true
}

fn flatten_mut(value: &mut Option<Option<f64>>) -> Option<&mut f64> {
    value.as_mut().and_then(Option::as_mut)
}

/// The table `[rpc]`, flags merged in.
pub(crate) fn rpc(config: &rpc_solana::Config) -> Vec<Setting> {
    let rpc_solana::Config {
        body_bytes_max,
        head_bytes_max,
        uri_bytes_max,
        list_header_bytes_max: _,
        batch_max,
        connections_max,
        connections_per_address_max,
        header_timeout_ms,
        keep_alive_ms,
        body_timeout_ms,
        first_byte_timeout_ms,
        write_timeout_ms,
        client_header: _,
        allowed_origins: _,
        multiple_accounts_max,
        inline_bytes_max,
        inline_accounts_max: _,
        slow_request_ms,
        min_slot_wait_ms,
        min_slot_waits_max,
        stall_ms,
    } = config.clone();
    let of_address = connections_per_address_max.unwrap_or(1);
    vec![
        setting("rpc.body_bytes_max", body_bytes_max.unwrap_or(1), 1..=GIB),
        setting("rpc.head_bytes_max", head_bytes_max, 8_192..=32_768),
        setting("rpc.uri_bytes_max", uri_bytes_max, 1..=32_768),
        setting("rpc.batch_max", batch_max, 1..=MILLION),
        setting("rpc.connections_max", connections_max, 1..=CONNECTIONS_MAX),
        setting("rpc.connections_per_address_max", of_address, 1..=CONNECTIONS_MAX),
        setting_ms("rpc.header_timeout_ms", header_timeout_ms, 1),
        setting_ms("rpc.keep_alive_ms", keep_alive_ms, 1),
        setting_ms("rpc.body_timeout_ms", body_timeout_ms, 1),
        setting_ms("rpc.first_byte_timeout_ms", first_byte_timeout_ms, 1),
        setting_ms("rpc.write_timeout_ms", write_timeout_ms, 1),
        setting("rpc.multiple_accounts_max", multiple_accounts_max, 1..=MILLION),
        setting("rpc.inline_bytes_max", inline_bytes_max, 0..=GIB),
        setting_ms("rpc.slow_request_ms", slow_request_ms, 0),
        Setting {
            name: "rpc.min_slot_wait_ms",
            value: min_slot_wait_ms.unwrap_or(0),
            range: 0..=MIN_SLOT_WAIT_MS_MAX,
            note: ", half a minute",
        },
        setting("rpc.min_slot_waits_max", min_slot_waits_max, 1..=CONNECTIONS_MAX),
        setting_ms("rpc.stall_ms", stall_ms, 0),
    ]
}

/// The table `[pool]`, flags merged in. The number of its threads is a flag.
pub(crate) fn pool(config: &cpu_pool::Config) -> Vec<Setting> {
    let cpu_pool::Config {
        threads: _,
        slice_us: _,
        nice: _,
        ref light,
        ref medium,
        ref heavy,
        client_heavy_max,
        clients: clients::Limits { requests_per_s, bytes_per_s },
    } = *config;
    let mut settings = vec![
        setting("pool.client_heavy_max", client_heavy_max, 0..=MILLION),
        setting("pool.clients.requests_per_s", requests_per_s as usize, 0..=BILLION),
        Setting { name: "pool.clients.bytes_per_s", value: bytes_per_s, range: 0..=TIB, note: "" },
    ];
    let names = [
        ["pool.light.tasks_max", "pool.light.active_max", "pool.light.deadline_ms"],
        ["pool.medium.tasks_max", "pool.medium.active_max", "pool.medium.deadline_ms"],
        ["pool.heavy.tasks_max", "pool.heavy.active_max", "pool.heavy.deadline_ms"],
    ];
    for (names, class) in names.into_iter().zip([light, medium, heavy]) {
        let cpu_pool::ClassConfig { tasks_max, active_max, deadline_ms, weight: _ } = *class;
        settings.extend([
            setting(names[0], tasks_max, 1..=MILLION),
            setting(names[1], active_max, 1..=MILLION),
            setting_ms(names[2], deadline_ms, 1),
        ]);
    }
    settings
}

/// The table `[pubsub]`, flags merged in.
pub(crate) fn pubsub(config: &rpc_solana::pubsub::Config) -> Vec<Setting> {
    let rpc_solana::pubsub::Config {
        connections_max,
        subscriptions_max,
        subscriptions_per_connection_max,
        tracked_addresses_max,
        tracked_pairs_max,
        tracked_addresses_per_client_max,
        tracked_addresses_per_connection_max,
        preallocate_tracked_addresses: _,
        message_bytes_max,
        addresses_message_bytes_max,
        message_timeout_ms,
        incoming_bytes_max,
        set_tasks_max: _,
        snapshot_accounts_max,
        resume_blocks,
        resume_bytes,
        queue_messages_max,
        queue_bytes_max,
        queues_bytes_max,
        events_max,
        write_timeout_ms,
        close_timeout_ms: _,
        ping_ms,
        apply_data_slice: _,
        hold_ms: _,
    } = *config;
    let of_one = tracked_addresses_per_connection_max;
    let of_client = tracked_addresses_per_client_max;
    vec![
        setting("pubsub.connections_max", connections_max, 1..=CONNECTIONS_MAX),
        setting("pubsub.subscriptions_max", subscriptions_max, 1..=BILLION),
        setting(
            "pubsub.subscriptions_per_connection_max",
            subscriptions_per_connection_max,
            1..=BILLION,
        ),
        setting("pubsub.tracked_addresses_max", tracked_addresses_max, 1..=BILLION),
        setting("pubsub.tracked_pairs_max", tracked_pairs_max, 0..=4 * BILLION),
        setting("pubsub.tracked_addresses_per_client_max", of_client, 0..=BILLION),
        setting("pubsub.tracked_addresses_per_connection_max", of_one, 1..=BILLION),
        setting("pubsub.message_bytes_max", message_bytes_max, 1..=GIB),
        setting("pubsub.addresses_message_bytes_max", addresses_message_bytes_max, 1..=GIB),
        setting_ms("pubsub.message_timeout_ms", message_timeout_ms, 1),
        setting("pubsub.incoming_bytes_max", incoming_bytes_max, 1..=TIB),
        setting("pubsub.snapshot_accounts_max", snapshot_accounts_max, 0..=BILLION),
        setting("pubsub.resume_blocks", resume_blocks, 0..=MILLION),
        setting("pubsub.resume_bytes", resume_bytes, 0..=TIB),
        setting("pubsub.queue_messages_max", queue_messages_max, 1..=BILLION),
        setting("pubsub.queue_bytes_max", queue_bytes_max, 1..=TIB),
        setting("pubsub.queues_bytes_max", queues_bytes_max, 1..=TIB),
        setting("pubsub.events_max", events_max, 1..=10 * MILLION),
        setting_ms("pubsub.write_timeout_ms", write_timeout_ms, 1),
        setting_ms("pubsub.ping_ms", ping_ms, 1),
    ]
}

/// The table `[quic]`, flags merged in.
pub(crate) fn quic(config: &::tpu::Config) -> Vec<Setting> {
    let ::tpu::Config {
        shards,
        verify_threads,
        connections_max,
        connections_per_address_max,
        connections_per_identity_max,
        window_max: _,
        window_initial: _,
        window_min: _,
        streams_max,
        receive_window_bytes: _,
        transaction_bytes_max,
        unfinished_bytes_max,
        stream_timeout_ms: _,
        broken_streams_max: _,
        idle_timeout_ms,
        handshakes_per_second,
        handshakes_per_address_per_minute,
        handshakes_max: _,
        retry_above: _,
        handshake_timeout_ms: _,
        buffers_max: _,
        socket_bytes,
        gather_us: _,
        receive_offload: _,
        queue_max,
        repeat_ms: _,
        repeats_max: _,
        hand_over_ms: _,
        forward_max,
        weights: _,
    } = *config;
    let of_one = connections_per_address_max;
    let of_address = handshakes_per_address_per_minute as usize;
    vec![
        Setting {
            name: "quic.shards",
            value: shards as u64,
            range: 1..=256,
            note: ": a connection id has one byte for it",
        },
        setting("quic.verify_threads", verify_threads, 1..=THREADS_MAX),
        setting("quic.connections_max", connections_max, 1..=CONNECTIONS_MAX),
        setting("quic.connections_per_address_max", of_one, 1..=CONNECTIONS_MAX),
        setting(
            "quic.connections_per_identity_max",
            connections_per_identity_max,
            1..=CONNECTIONS_MAX,
        ),
        setting("quic.streams_max", streams_max, 0..=BILLION),
        setting("quic.transaction_bytes_max", transaction_bytes_max, 1_232..=65_536),
        setting("quic.unfinished_bytes_max", unfinished_bytes_max, 0..=TIB),
        setting_ms("quic.idle_timeout_ms", idle_timeout_ms, 1),
        setting("quic.handshakes_per_second", handshakes_per_second as usize, 1..=10 * MILLION),
        setting("quic.handshakes_per_address_per_minute", of_address, 1..=BILLION),
        setting("quic.socket_bytes", socket_bytes, 0..=GIB),
        setting("quic.queue_max", queue_max, 1..=10 * MILLION),
        setting("quic.forward_max", forward_max, 0..=10 * MILLION),
    ]
}

pub(crate) fn grpc(config: &::grpc::Config) -> Vec<Setting> {
    let ::grpc::Config {
        threads,
        connections_max,
        connections_per_address_max,
        connection_streams_max,
        subscriptions_max,
        request_bytes_max,
        incoming_bytes_max,
        handshake_timeout_ms: _,
        idle_timeout_ms: _,
        message_timeout_ms: _,
        keep_alive_ms,
        queue_messages_max,
        queue_bytes_max,
        queues_bytes_max,
        events_max,
        events_bytes_max,
        replay_slots_max,
        replay_bytes_max,
        ping_ms,
        close_timeout_ms: _,
        filters_max,
        name_bytes_max: _,
        addresses_max,
        data_filters_max: _,
        data_slices_max: _,
        filters_bytes_max,
        unindexed_cost_max: _,
        x_token_file: _,
    } = *config;
    let replay_slots = replay_slots_max as usize;
    let of_address = connections_per_address_max.unwrap_or(1);
    vec![
        setting("grpc.threads", threads, 1..=THREADS_MAX),
        setting("grpc.connections_max", connections_max, 1..=CONNECTIONS_MAX),
        setting("grpc.connections_per_address_max", of_address, 1..=CONNECTIONS_MAX),
        setting("grpc.connection_streams_max", connection_streams_max, 1..=MILLION),
        setting("grpc.subscriptions_max", subscriptions_max, 1..=CONNECTIONS_MAX),
        setting("grpc.request_bytes_max", request_bytes_max, 1_024..=GIB),
        setting("grpc.incoming_bytes_max", incoming_bytes_max, 1_024..=TIB),
        setting_ms("grpc.keep_alive_ms", keep_alive_ms, 1),
        setting("grpc.queue_messages_max", queue_messages_max, 1..=100 * MILLION),
        setting("grpc.queue_bytes_max", queue_bytes_max, 1..=TIB),
        setting("grpc.queues_bytes_max", queues_bytes_max, 1..=TIB),
        setting("grpc.events_max", events_max, 1..=10 * MILLION),
        setting("grpc.events_bytes_max", events_bytes_max, 1..=TIB),
        setting("grpc.replay_slots_max", replay_slots, 1..=MILLION),
        setting("grpc.replay_bytes_max", replay_bytes_max, 1..=TIB),
        setting_ms("grpc.ping_ms", ping_ms, 1),
        setting("grpc.filters_max", filters_max, 1..=MILLION),
        setting("grpc.addresses_max", addresses_max, 1..=10 * MILLION),
        setting("grpc.filters_bytes_max", filters_bytes_max, 1_024..=TIB),
    ]
}

#[cfg(test)]
mod tests {
    use std::any::TypeId;

    use clap::{Args, Parser};

    use super::*;
    use crate::command_line::{Cli, Command};
    use crate::follow::flags::FollowFlags;

    /// Every numeric setting with its range.
    fn all() -> Vec<Setting> {
        // Sets every flag.
        let lines = |names: Vec<String>| {
            let value = |name: &str| if name.contains("sol") { "1.0" } else { "64" };
            names.iter().map(|name| format!("{name} = {}\n", value(name))).collect::<String>()
        };
        let dev = DevFlags::from_toml(&lines(numeric_flags::<DevFlags>())).expect("flags");
        let follower = numeric_flags::<FollowerFlags>();
        let file = format!("[follow]\n{}", lines(follower));
        let file = FollowFlags::from_toml(&file).expect("flags");
        [dev_settings(&dev), follow(&file.follower)].concat()
    }

    /// All settings of `hydrant dev`.
    fn dev_settings(flags: &DevFlags) -> Vec<Setting> {
        [node_settings(&flags.node), local(flags)].concat()
    }

    /// Returns all settings that every node has.
    fn node_settings(flags: &NodeFlags) -> Vec<Setting> {
        let tables = &flags.tables;
        [
            node(flags),
            rpc(&tables.rpc),
            pool(&tables.pool),
            pubsub(&tables.pubsub),
            quic(&tables.quic),
            grpc(&tables.grpc),
        ]
        .concat()
    }

    /// The long names of the flags of a command that take a number.
    fn numeric_flags<A: Args>() -> Vec<String> {
        let command = A::augment_args(clap::Command::new("a command"));
        let is_number = |arg: &&clap::Arg| {
            let value_type = arg.get_value_parser().type_id();
            [
                TypeId::of::<u16>(),
                TypeId::of::<u32>(),
                TypeId::of::<u64>(),
                TypeId::of::<usize>(),
                TypeId::of::<f64>(),
            ]
            .iter()
            .any(|number| value_type == *number)
        };
        command
            .get_arguments()
            .filter(is_number)
            .filter_map(|arg| arg.get_long().map(str::to_owned))
            .collect()
    }

    fn is_follower_flag(name: &str) -> bool {
        let flag = name.trim_start_matches("--");
        numeric_flags::<FollowerFlags>().iter().any(|name| name == flag)
    }

    /// Checks one setting in the file of each command that has it.
    fn in_file(name: &str, value: u64) -> Result<()> {
        let text = match name.strip_prefix("--") {
            Some(flag) if is_follower_flag(name) => format!("[follow]\n{flag} = {value}"),
            Some(flag) => format!("{flag} = {value}"),
            None => {
                let (table, key) = name.rsplit_once('.').expect("a key of a table");
                format!("[{table}]\n{key} = {value}")
            }
        };
        if is_follower_flag(name) {
            return check(&follow(&FollowFlags::from_toml(&text)?.follower));
        }
        check(&dev_settings(&DevFlags::from_toml(&text)?))?;
        let is_local = local(&DevFlags::from_toml(&text)?).iter().any(|it| it.name == name);
        if is_local { Ok(()) } else { check(&node_settings(&FollowFlags::from_toml(&text)?.node)) }
    }

    /// Checks a flag on the command line.
    fn on_command_line(flag: &str, value: u64) -> Result<()> {
        let value = value.to_string();
        let command = if is_follower_flag(flag) { "follow" } else { "dev" };
        // A file, which is not read here, may have the flags that this one requires.
        let args = ["hydrant", command, flag, &value, "--config", "x"];
        match Cli::try_parse_from(args)?.command {
            Command::Dev(dev) => check(&dev_settings(&dev)),
            Command::Follow(flags) => check(&follow(&flags.follower)),
            _ => unreachable!("it is one of the two"),
        }
    }

    #[test]
    fn every_number_is_refused_above_its_max_and_below_its_min() {
        let settings = all();
        assert!(settings.len() > 80, "{} settings", settings.len());
        for Setting { name, range, .. } in settings {
            let min = *range.start();
            let max = *range.end();
            let checks: &[fn(&str, u64) -> Result<()>] =
                if name.starts_with("--") { &[in_file, on_command_line] } else { &[in_file] };
            for check in checks {
                for valid in [min, max] {
                    if let Err(err) = check(name, valid) {
                        panic!("{name} = {valid} was refused: {err}");
                    }
                }
                let below = (min > 0).then_some(0);
                for invalid in [max + 1, u64::MAX].into_iter().chain(below) {
                    let Err(err) = check(name, invalid) else {
                        panic!("{name} = {invalid} was accepted")
                    };
                    let message = err.to_string();
                    let key = name.trim_start_matches("--");
                    let key = key.rsplit('.').next().unwrap_or(key);
                    assert!(message.contains(key), "{name} = {invalid}: {message}");
                    let has_range = message.contains(&format!("from {min} to {max}"));
                    // A value that does not fit into its type is refused by the parser, with the type's range.
                    let is_parser_error = invalid > u64::from(u16::MAX);
                    assert!(has_range || is_parser_error, "{name} = {invalid}: {message}");
                    assert!(
                        message.contains(&invalid.to_string()),
                        "{name} = {invalid}: {message}"
                    );
                }
            }
        }
    }

    #[test]
    fn every_numeric_flag_has_a_range() {
        let names: Vec<&str> = all().iter().map(|setting| setting.name).collect();
        for flag in [numeric_flags::<DevFlags>(), numeric_flags::<FollowFlags>()].concat() {
            // SOL and rates are fractions: `config` has their ranges.
            let is_fraction = flag.contains("-sol") || flag == "inflation-fixed";
            // Agave has no range for it, and compute units bound the logs of a transaction.
            let is_unbounded = flag == "log-messages-bytes-limit";
            let has_range = names.contains(&format!("--{flag}").as_str());
            assert!(is_fraction || is_unbounded || has_range, "--{flag}");
        }
    }

    #[test]
    fn defaults_are_in_their_ranges() {
        check(&node_settings(&NodeFlags::default())).expect("defaults are valid");
    }
}
