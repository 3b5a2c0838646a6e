//! A replica: its settings, its producer, and the command `hydrant replica`.
//!
//! Without the feature `cluster` there are the flags only, because one configuration file serves all commands.
//! Not here: the ledger that is fed by a log (the crate `replica`), the settings of the log (`cluster_log`).

#[cfg(feature = "cluster")]
mod archiver;
#[cfg(feature = "cluster")]
mod config;
pub(crate) mod flags;
#[cfg(feature = "cluster")]
mod front_end;
#[cfg(feature = "cluster")]
mod producer;
#[cfg(feature = "cluster")]
mod refusing_sender;
#[cfg(feature = "cluster")]
mod verification;

use anyhow::Result;

#[cfg(feature = "cluster")]
pub use config::ReplicaNodeConfig;
#[cfg(feature = "cluster")]
pub use producer::ReplicaProducer;

use crate::replica::flags::ReplicaCommandFlags;
use crate::start_signals::StartSignals;

/// Follows a replicated log until a signal ends it.
#[cfg(feature = "cluster")]
pub(crate) fn run(flags: ReplicaCommandFlags, signals: StartSignals) -> Result<()> {
    use crate::console::{now, print_line};
    use crate::node::{Node, NodeProcess, prepare_process};
    use crate::replica::config::ReplicaSettings;
    use crate::signals::Ignorable;

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

/// Refuses the command by name.
#[cfg(not(feature = "cluster"))]
pub(crate) fn run(_: ReplicaCommandFlags, _: StartSignals) -> Result<()> {
    Err(crate::missing_feature::refuse_cluster("hydrant replica"))
}
