//! A program that the rig starts, with its log.
//!
//! Invariant: it ends with the value.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::rig::clock::{now, pause};

/// Time that a program has to end after a signal, before it is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval between two polls of its end.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A running program.
pub(crate) struct ChildProcess {
    name: String,
    log: PathBuf,
    child: Child,
}

impl ChildProcess {
    /// Starts a program. Its output is appended to a file with its name in `dir`.
    pub(crate) fn start(dir: &Path, name: &str, mut command: Command) -> Result<Self> {
        let log = dir.join(format!("{name}.log"));
        let file = OpenOptions::new().create(true).append(true).open(&log)?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let child = command.spawn().with_context(|| format!("start {name}"))?;
        Ok(Self { name: name.to_owned(), log, child })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the id of the process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns an error if it has ended.
    pub(crate) fn check(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("{} ended ({status}): {}", self.name, self.log.display());
        }
        Ok(())
    }

    /// Kills it, as `kill -9` does.
    pub(crate) fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Ends it with a signal that lets it finish its files.
    pub(crate) fn stop(&mut self) {
        // It may have ended already.
        let _ = Command::new("kill").arg(self.id().to_string()).status();
        let signalled = now();
        while matches!(self.child.try_wait(), Ok(None)) && signalled.elapsed() < STOP_TIMEOUT {
            pause(POLL_INTERVAL);
        }
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_ends_when_it_is_stopped_and_its_end_is_reported() {
        let dir = std::env::temp_dir().join(format!("xtask-child-process-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo started; exec sleep 1000"]);
        let mut process = ChildProcess::start(&dir, "sleeper", command).unwrap();
        process.check().unwrap();
        process.stop();
        let error = process.check().unwrap_err().to_string();
        assert!(error.starts_with("sleeper ended"), "{error}");
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
