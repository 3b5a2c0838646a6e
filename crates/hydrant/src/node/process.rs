//! The process of a node that has it for itself: its signals, its log, its limits.

use std::time::Instant;

use anyhow::{Result, ensure};

use crate::node::config::NodeConfig;
use crate::process_setup::{has_date, start_log};
use crate::rlimit;
use crate::signals::Ignorable;
use crate::start_signals::StartSignals;

/// The signals of the process, and its start.
pub(crate) struct NodeProcess {
    pub(crate) signals: StartSignals,
    pub(crate) ignorable: Ignorable,
    pub(crate) started: Instant,
}

/// Prepares the process for a node: its log, its clock, its limits.
pub(crate) fn prepare_process(config: &NodeConfig) -> Result<()> {
    if config.log {
        start_log(config.log_format);
    }
    ensure!(
        has_date(),
        "the system's clock is before 1970, which HTTP cannot represent: set the clock"
    );
    rlimit::raise_nofile(config.rpc.connections_max);
    Ok(())
}
