//! The command `hydrant replica`.
//!
//! Not here: its flags (`flags`) and settings (`config`), the node that it starts (`producer`).

use anyhow::Result;

use crate::console::{now, print_line};
use crate::node::{Node, NodeProcess, prepare_process};
use crate::replica::config::{self, ReplicaSettings};
use crate::replica::flags::ReplicaCommandFlags;
use crate::replica::producer::ReplicaProducer;
use crate::signals::Ignorable;
use crate::start_signals::StartSignals;

/// Follows a replicated log until a signal ends it.
pub(crate) fn run(flags: ReplicaCommandFlags, signals: StartSignals) -> Result<()> {
    let started = now();
    let check = flags.config.check;
    let ReplicaSettings { node, replica } =
        ReplicaSettings::from_flags(&config::with_file(flags)?)?;
    if check {
        print_line("settings are valid");
        return Ok(());
    }
    prepare_process(&node)?;
    let process = NodeProcess { signals, ignorable: Ignorable::Hangup, started };
    Ok(Node::builder(ReplicaProducer::new(replica)).with_process(process).serve(node)?.wait()?)
}
