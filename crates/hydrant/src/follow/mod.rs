//! A followed chain: its settings, its producer, and the command `hydrant follow`.

pub(crate) mod config;
pub(crate) mod flags;
mod producer;

use anyhow::{Result, ensure};

pub use config::FollowConfig;
pub use producer::FollowProducer;

use crate::console::{now, print_line};
use crate::follow::config::FollowSettings;
use crate::follow::flags::FollowFlags;
use crate::node::{Node, NodeProcess, prepare_process};
use crate::signals::Ignorable;
use crate::start_signals::StartSignals;

/// Follows the chain until a signal ends it.
pub(crate) fn run(flags: FollowFlags, signals: StartSignals) -> Result<()> {
    run_with_file(&config::with_file(flags)?, signals)
}

/// Follows the chain for a replicated log, until a signal ends it.
pub(crate) fn run_ingest(flags: FollowFlags, signals: StartSignals) -> Result<()> {
    let flags = config::with_file(flags)?;
    ensure!(
        flags.node.cluster_log.log_url.is_some(),
        "--log-url is required: the log that the blocks are appended to"
    );
    run_with_file(&flags, signals)
}

/// Follows the chain of flags that were merged with the file.
fn run_with_file(flags: &FollowFlags, signals: StartSignals) -> Result<()> {
    let started = now();
    let check = flags.config.check;
    let FollowSettings { node, chain } = FollowSettings::from_flags(flags)?;
    if check {
        chain.check(&node)?;
        print_line("settings are valid");
        return Ok(());
    }
    prepare_process(&node)?;
    let process = NodeProcess { signals, ignorable: Ignorable::Hangup, started };
    Ok(Node::builder(FollowProducer::new(chain)).with_process(process).serve(node)?.wait()?)
}
