//! A step that runs while another step leaves processors idle.
//!
//! Input: the step's command and the remaining time. Output: its result. The output of the command goes to a file
//! below `target/ci` and is printed when the step has finished, so it does not mix with that of the other step.
//! Invariant: it has the lowest priority, so the other step is hardly slower.
//! Not here: which steps these are (`ci`). Cargo locks a target directory while it builds, so a step that would wait
//! for such a lock must not run alongside the build that has it.

use std::fs::{self, File};
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};

use crate::shell::{Cmd, CommandEnd};
use crate::workspace::target_dir;

/// A step that has been started.
pub(crate) struct AlongsideStep {
    process: JoinHandle<Result<CommandEnd>>,
    output: PathBuf,
}

impl AlongsideStep {
    /// Starts `cmd`. It is ended after `limit`.
    pub(crate) fn start(name: &str, cmd: Cmd, limit: Duration) -> Result<Self> {
        let output = target_dir().join("ci").join(format!("{}.log", name.replace(' ', "-")));
        fs::create_dir_all(output.with_file_name(""))?;
        let file = File::create(&output).with_context(|| format!("create {}", output.display()))?;
        Ok(Self { process: cmd.with_output_to(file)?.start_with_timeout(limit), output })
    }

    /// Waits for the end of the command and prints its output.
    pub(crate) fn finish(self) -> Result<CommandEnd> {
        let end = self.process.join().unwrap_or_else(|_| Err(anyhow!("its thread panicked")));
        let printed =
            fs::read(&self.output).with_context(|| format!("read {}", self.output.display()))?;
        println!("{}", String::from_utf8_lossy(&printed).trim_end());
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(script: &str, limit: Duration) -> AlongsideStep {
        let name = format!("test of alongside {}", script.len());
        AlongsideStep::start(&name, Cmd::new("sh").args(["-c", script]), limit).unwrap()
    }

    #[test]
    fn a_step_alongside_ends_as_its_command_does() {
        let limit = Duration::from_secs(600);
        assert_eq!(start("echo one; echo two >&2", limit).finish().unwrap(), CommandEnd::InTime);
        assert!(start("exit 3", limit).finish().is_err());
    }

    #[test]
    fn a_step_alongside_is_ended_when_its_time_is_over() {
        let step = start("sleep 1000 & wait", Duration::from_millis(50));
        assert_eq!(step.finish().unwrap(), CommandEnd::OutOfTime);
    }

    #[test]
    fn a_step_alongside_writes_to_its_file() {
        let step = start("printf out; printf err >&2; true", Duration::from_secs(600));
        let output = step.output.clone();
        step.finish().unwrap();
        assert_eq!(fs::read_to_string(output).unwrap(), "outerr");
    }
}
