//! The command `hydrant dev`, also under the names of `solana-test-validator` and surfpool.

use anyhow::Result;
use localnet::GenesisAccount;

use crate::banner::OutputStyle;
use crate::console::{now, print_line};
use crate::faucet_server::FAUCET_PORT;
use crate::local::LocalProducer;
use crate::local::config::{self, DevConfig};
use crate::local::flags::DevFlags;
use crate::node::{Node, NodeProcess, prepare_process};
use crate::process_setup::avoid_huge_pages;
use crate::signals::Ignorable;
use crate::start_signals::StartSignals;

/// Runs the node until a signal ends it. A new ledger also has `accounts`.
pub(crate) fn run(
    flags: DevFlags,
    style: OutputStyle,
    accounts: Vec<GenesisAccount>,
    signals: StartSignals,
) -> Result<()> {
    let started = now();
    let check = flags.config.check;
    let mut config = DevConfig::from_flags(config::with_file(flags)?)?;
    config.local.style = style;
    config.local.localnet.verifies_programs = style == OutputStyle::Hydrant;
    config.local.faucet_port = config.local.faucet_port.or_else(|| default_faucet_port(&config));
    config.local.localnet.accounts.extend(accounts);
    let DevConfig { node, local } = config;
    let producer = LocalProducer::new(local);
    if check {
        producer.check(&node)?;
        print_line("settings are valid");
        return Ok(());
    }
    prepare_process(&node)?;
    if !producer.is_loaded(&node)? {
        avoid_huge_pages();
    }
    let ignorable = match style {
        OutputStyle::Hydrant => Ignorable::Hangup,
        OutputStyle::TestValidator => Ignorable::Terminal,
    };
    let process = NodeProcess { signals, ignorable, started };
    Node::builder(producer).with_process(process).serve(node)?.wait()
}

/// The faucet's port of `solana-test-validator`; a free one if all ports are. None with API keys, which its protocol
/// does not have.
fn default_faucet_port(config: &DevConfig) -> Option<u16> {
    let is_served =
        config.local.style == OutputStyle::TestValidator && config.node.api_keys.is_none();
    is_served.then_some(if config.node.rpc_ports.rpc == 0 { 0 } else { FAUCET_PORT })
}
