//! The start below a reorganization that is deeper than the chain retains: the program starts again within its process.
//!
//! In: the error of a node that has stopped. Out: a new program with the same arguments, environment and process id, but
//! without `--reset`. It loads the snapshot file that the follower has prepared.
//! Why not a second ledger in the running program: addresses have other ids in it, so all connections, caches and servers
//! would be made again in any case, and for a time the memory would have both ledgers.
//! Not here: a service manager that is notified. It counts starts and limits their time, and a new program within a service
//! that it has reported as stopping would be killed. The node ends with its error, and is started again.

use std::error::Error;
use std::os::unix::process::CommandExt;
use std::process::Command;

use ::follow_kaspa::FollowError;
use anyhow::{Context, Result};
use kaspa::Hash;

use crate::console::print_stderr;
use crate::node::NodeError;
use crate::service_manager::ServiceManager;

/// The flag that would remove the snapshot file.
const RESET: &str = "--reset";

/// Ends the command with the result of its node, or starts the program again if the chain has to.
pub(super) fn end_or_restart(served: Result<(), NodeError>) -> Result<()> {
    let Err(err) = served else { return Ok(()) };
    match find_restart_block(&err) {
        Some(block) if !ServiceManager::is_present() => restart_program(block),
        _ => Err(err.into()),
    }
}

/// Returns the block from which the chain has to start again, if that is the error.
fn find_restart_block(err: &NodeError) -> Option<Hash> {
    let mut cause: Option<&(dyn Error + 'static)> = Some(err);
    while let Some(err) = cause {
        if let Some(FollowError::Restart { block, .. }) = err.downcast_ref() {
            return Some(*block);
        }
        cause = err.source();
    }
    None
}

/// Replaces this program by a new one. Returns only if that fails.
fn restart_program(block: Hash) -> Result<()> {
    print_stderr(&format!(
        "hydrant: the chain was reorganized below its final block; starts again from block {block}"
    ));
    let program = std::env::current_exe().context("this program's file")?;
    let args = std::env::args_os().skip(1).filter(|arg| arg != RESET);
    let err = Command::new(program).args(args).exec();
    Err(err).context("start the program again; fix: start the node again")
}

#[cfg(test)]
mod tests {
    use ::follow_kaspa::RestartBase;

    use super::*;

    #[test]
    fn only_a_deep_reorganization_starts_the_program_again() {
        let restart = FollowError::Restart { block: Hash([7; 32]), base: RestartBase::Snapshot };
        let err = NodeError::new(anyhow::Error::from(restart).context("the ledger"));
        assert_eq!(find_restart_block(&err), Some(Hash([7; 32])));
        let err = NodeError::new(anyhow::Error::from(FollowError::NoSource).context("the ledger"));
        assert_eq!(find_restart_block(&err), None);
        assert!(end_or_restart(Err(err)).is_err());
        assert!(end_or_restart(Ok(())).is_ok());
    }
}
