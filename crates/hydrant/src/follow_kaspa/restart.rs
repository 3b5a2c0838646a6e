//! The start below a reorganization that is deeper than the chain retains: the program starts again within its process.
//!
//! In: the error of a node that has stopped. Out: a new program with the same arguments and process id, which ignores
//! `--reset` because of a variable in its environment. It loads the snapshot file that the follower has prepared.
//! Bounds: a program that was started again does so once more only after [`UPTIME_MIN`]. Otherwise it ends with the error.
//! Why not a second ledger in the running program: addresses have other ids in it, so all connections, caches and servers
//! would be made again in any case, and for a time the memory would have both ledgers.
//! Not here: a service manager that is notified. It counts starts and limits their time, and a new program within a service
//! that it has reported as stopping would be killed. The node ends with its error, and is started again.

use std::error::Error;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use ::follow_kaspa::FollowError;
use anyhow::{Error as AnyError, Result};
use kaspa::Hash;

use crate::console::print_stderr;
use crate::node::NodeError;
use crate::service_manager::ServiceManager;

/// The variable with the process id of a program that was started again. A child process has another id.
const RESTARTED: &str = "HYDRANT_RESTARTED";

/// Time that a program has to run before it is started again a second time. Without it, a source that always leads to a
/// deep reorganization would keep the node loading.
const UPTIME_MIN: Duration = Duration::from_secs(10 * 60);

/// Whether this program was started again by itself.
pub(super) fn is_restarted() -> bool {
    std::env::var(RESTARTED).is_ok_and(|id| id == std::process::id().to_string())
}

/// Ends the command with the result of its node, or starts the program again if the chain has to.
pub(super) fn end_or_restart(served: Result<(), NodeError>, uptime: Duration) -> Result<()> {
    let Err(err) = served else { return Ok(()) };
    match find_restart_block(&err) {
        Some(block) if !ServiceManager::is_present() && may_restart(is_restarted(), uptime) => {
            restart_program(block)
        }
        _ => Err(err.into()),
    }
}

fn may_restart(is_restarted: bool, uptime: Duration) -> bool {
    !is_restarted || uptime >= UPTIME_MIN
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
    // The path of a file that was replaced does not exist, but the kernel still has the file.
    let program = std::env::current_exe().ok().filter(|path| path.exists());
    let program = program.unwrap_or_else(|| PathBuf::from("/proc/self/exe"));
    let mut args = std::env::args_os();
    let mut command = Command::new(program);
    if let Some(name) = args.next() {
        command.arg0(name);
    }
    let err = command.args(args).env(RESTARTED, std::process::id().to_string()).exec();
    Err(AnyError::from(err).context("start the program again; fix: start the node again"))
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
        assert!(end_or_restart(Err(err), UPTIME_MIN).is_err());
        assert!(end_or_restart(Ok(()), UPTIME_MIN).is_ok());
    }

    #[test]
    fn a_program_that_was_started_again_has_to_run_for_a_while() {
        let short = UPTIME_MIN - Duration::from_nanos(1);
        assert!(may_restart(false, Duration::ZERO));
        assert!(!may_restart(true, short));
        assert!(may_restart(true, UPTIME_MIN));
    }
}
