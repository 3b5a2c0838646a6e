//! A node for a test: a real `hydrant dev` on free ports, ended with the test, its log shown on failure.
//!
//! Bounds: 30 s from start to ready.

use std::process::Command;

use anyhow::Result;
use testkit::node::{Node, NodeCommand};

pub(crate) const HYDRANT: &str = env!("CARGO_BIN_EXE_hydrant");

/// A ready node with `flags`, in addition to those for free ports and a quiet terminal. SIGTERM ends it.
pub(crate) fn start_node(flags: &[&str]) -> Result<Node> {
    NodeCommand::dev(Command::new(HYDRANT)).args(["--log"]).args(flags).logged().watched().start()
}
