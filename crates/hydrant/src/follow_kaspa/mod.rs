//! A followed chain of Kaspa: its settings, its producer, and the command `hydrant follow-kaspa`.

pub(crate) mod config;
pub(crate) mod flags;
mod producer;
mod restart;

use anyhow::Result;

pub use config::KaspaConfig;
pub use producer::KaspaProducer;

use crate::console::{now, print_line};
use crate::follow_kaspa::config::KaspaSettings;
use crate::follow_kaspa::flags::FollowKaspaFlags;
use crate::node::{Node, NodeProcess, prepare_process};
use crate::signals::Ignorable;
use crate::start_signals::StartSignals;

/// Follows the chain until a signal ends it. After a reorganization that is too deep the program starts again.
pub(crate) fn run(flags: FollowKaspaFlags, signals: StartSignals) -> Result<()> {
    let started = now();
    let check = flags.config.check;
    let KaspaSettings { mut node, chain } = KaspaSettings::from_flags(&config::with_file(flags)?)?;
    if check {
        chain.check(&node)?;
        print_line("settings are valid");
        return Ok(());
    }
    // It would remove the snapshot file from which the program was started again.
    node.reset &= !restart::is_restarted();
    prepare_process(&node)?;
    let process = NodeProcess { signals, ignorable: Ignorable::Hangup, started };
    let node = Node::builder(KaspaProducer::new(chain)).with_process(process).serve(node)?;
    let served = node.wait();
    restart::end_or_restart(served, now().saturating_duration_since(started))
}
