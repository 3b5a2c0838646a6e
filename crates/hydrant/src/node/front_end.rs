//! The output of a node's process: the lines at its start, and the status line.

use anyhow::Result;

use crate::node::NodeAddresses;

/// The output of a node's process.
pub(crate) trait FrontEnd: Send {
    /// Shows that the node is ready at these addresses.
    fn show_ready(&mut self, addresses: &NodeAddresses) -> Result<()>;

    /// Ends the output, such as the status line.
    fn stop(&mut self) {}
}
