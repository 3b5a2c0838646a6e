//! Hydrant: a read node for ledgers. This crate wires a producer of blocks to the servers: flags, settings, start, end.
//!
//! A program embeds a node by [`Node::builder`]; the binary is [`run`].

mod accounts_file;
mod admin;
mod anchor;
mod announced;
mod api_key;
mod api_key_file;
mod api_key_usage;
mod banner;
mod bench;
mod bounds;
mod clone;
mod cluster_flags;
mod cluster_log;
mod command_line;
mod config_file;
mod config_tables;
mod config_text;
mod connection_shares;
mod console;
mod daemon;
#[cfg(feature = "cluster")]
mod depot_snapshots;
mod dev;
mod draining;
mod executor_metrics;
mod existing_ledger;
mod faucet_server;
mod fixed_limits;
mod follow;
mod follow_kaspa;
mod generated_files;
mod grpc_setup;
mod index_flags;
mod inspect;
mod ledger_snapshot_metrics;
mod local;
#[cfg(feature = "cluster")]
mod log_check;
mod log_filter;
mod log_format;
mod memory_report;
mod missing_feature;
mod node;
mod otlp;
mod process_memory;
mod process_setup;
mod queue_metrics;
mod replica;
mod rlimit;
mod service_manager;
mod serving_options;
mod signals;
mod snapshot_file;
mod solana_cli_config;
mod start_signals;
mod status_line;
mod surfpool;
mod surfpool_flags;
mod test_validator;
mod tls_files;
mod tls_setup;
mod tpu;
mod tpu_metrics;
mod upstream_fork_setup;
mod validator_log;
mod wait_notice;

use std::path::Path;

pub use ::follow_kaspa::ImportProgress;

pub use crate::follow::{FollowConfig, FollowProducer};
pub use crate::follow_kaspa::{KaspaConfig, KaspaProducer};
pub use crate::local::{LocalConfig, LocalProducer};
pub use crate::node::{
    KaspaAddresses, Node, NodeAddresses, NodeBuilder, NodeConfig, NodeError, NodeHandle, Producer,
};

#[cfg(feature = "cluster")]
pub use crate::replica::{ReplicaNodeConfig, ReplicaProducer};

use crate::command_line::{Command, ParsedCommand};
use crate::console::print_stderr;
use crate::signals::Ignorable;
use crate::start_signals::StartSignals;
use crate::surfpool::{SurfpoolArgs, SurfpoolSetup};

/// Runs the command of the process's arguments until it ends. Signals are handled before anything else.
///
/// # Errors
///
/// The error that ends the process. Errors of the command line's syntax end the process here.
pub fn run() -> anyhow::Result<()> {
    let signals = StartSignals::for_process_1()?;
    let ParsedCommand { command, preset } = command_line::parse()?;
    match command {
        Command::Dev(flags) => dev::run(*flags, preset, signals.for_node(Ignorable::Hangup)?),
        Command::TestValidator(flags) => {
            dev::run(*flags, preset, signals.for_node(Ignorable::Terminal)?)
        }
        Command::Surfpool(args) => run_surfpool(args, signals),
        Command::Follow(flags) => follow::run(*flags, signals.for_node(Ignorable::Hangup)?),
        Command::Ingest(flags) => follow::run_ingest(*flags, signals.for_node(Ignorable::Hangup)?),
        #[cfg(feature = "cluster")]
        Command::Replica(flags) => replica::run(*flags, signals.for_node(Ignorable::Hangup)?),
        Command::FollowKaspa(flags) => {
            follow_kaspa::run(*flags, signals.for_node(Ignorable::Hangup)?)
        }
        Command::Inspect(flags) => inspect::run(&flags),
        #[cfg(feature = "cluster")]
        Command::LogCheck(flags) => log_check::run(&flags),
        #[cfg(feature = "cluster")]
        Command::Snapshots(flags) => depot_snapshots::run(&flags),
        #[cfg(not(feature = "cluster"))]
        Command::Replica(_) | Command::LogCheck(_) | Command::Snapshots(_) => {
            Err(missing_feature::missing_cluster_error("hydrant replica, log-check, snapshots"))
        }
        Command::Bench(flags) => bench::run(&flags),
        Command::Completions(flags) => {
            generated_files::print_completions(&flags, command_line::command())
        }
        Command::Man(flags) => generated_files::write_manual(&flags, command_line::command()),
        Command::Admin(flags) => admin::run_client(&flags),
        Command::ApiKey(flags) => api_key::run(&flags),
    }
}

/// Runs `hydrant dev` with the meaning of surfpool's flags.
fn run_surfpool(args: SurfpoolArgs, signals: StartSignals) -> anyhow::Result<()> {
    let setup = surfpool::setup(args, Path::new("."))?;
    let SurfpoolSetup { flags, preset, lines, is_daemon, fork_flag } = setup;
    for line in lines {
        print_stderr(&format!("hydrant: {line}"));
    }
    if is_daemon {
        return daemon::start(&flags.node.listen, flags.node.output.log);
    }
    let run = dev::run(flags, preset, signals.for_node(Ignorable::Hangup)?);
    run.map_err(|err| surfpool::rename_flags(&err, fork_flag))
}
