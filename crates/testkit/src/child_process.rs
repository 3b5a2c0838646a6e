//! Programs that a benchmark or a test starts. Some of them read lines and write lines.
//!
//! Invariant: a process ends with its value, however the caller ends.

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::path::PathBuf;
use std::process::{self, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// How long [`run_to_end`] waits. A program that runs longer is one that should have refused to run.
const END_TIMEOUT: Duration = Duration::from_secs(300);

/// A child process. It ends with its value.
pub struct KillOnDrop(pub process::Child);

impl KillOnDrop {
    /// Starts a process.
    pub fn spawn(command: &mut Command) -> Result<Self> {
        let spawned = command.spawn();
        Ok(Self(spawned.with_context(|| format!("start {}", command.get_program().display()))?))
    }
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        // It may have ended already. Then the kill fails, and the wait still has to be done.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A child process with pipes for standard input and output.
pub struct Child {
    process: KillOnDrop,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Child {
    /// Starts a process.
    pub fn start(command: &mut Command) -> Result<Self> {
        let mut process = KillOnDrop::spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped()))?;
        let stdout = process.0.stdout.take().context("it is piped")?;
        Ok(Self { process, lines: BufReader::new(stdout).lines() })
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.process.0.id()
    }

    /// Writes a line to its input.
    pub fn send_line(&mut self, line: &str) -> Result<()> {
        let stdin = self.process.0.stdin.as_mut().context("it is piped")?;
        writeln!(stdin, "{line}").context("the process has ended")
    }

    /// The next line of its output. `None`: the output has ended.
    pub fn line(&mut self) -> Result<Option<String>> {
        Ok(self.lines.next().transpose()?)
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> Result<ExitStatus> {
        Ok(self.process.0.wait()?)
    }
}

/// Runs a process that is expected to exit on its own, and returns its output.
///
/// Errors: it does not start, or it still runs after five minutes. Then it is killed, and the error has its output.
pub fn run_to_end(command: &mut Command) -> Result<Output> {
    run_within(command, END_TIMEOUT)
}

fn run_within(command: &mut Command, timeout: Duration) -> Result<Output> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = KillOnDrop::spawn(command)?;
    let stdout = process.0.stdout.take().context("it is piped")?;
    let stderr = process.0.stderr.take().context("it is piped")?;
    // It is disconnected when both outputs are closed, which they are when the process has ended.
    let (open, closed) = sync_channel::<()>(0);
    let readers = [read_all(stdout, open.clone()), read_all(stderr, open)];
    let is_late = closed.recv_timeout(timeout) == Err(RecvTimeoutError::Timeout);
    if is_late {
        process.0.kill().context("kill a process that does not end")?;
    }
    let status = process.0.wait()?;
    let [stdout, stderr] = readers.map(|reader| reader.join().expect("a reader does not panic"));
    if is_late {
        let text = String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned();
        bail!("{command:?} still ran after {timeout:?}: {text}");
    }
    Ok(Output { status, stdout, stderr })
}

/// Reads an output until it is closed, and drops `open` then.
fn read_all(
    mut output: impl Read + Send + 'static,
    open: SyncSender<()>,
) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before an error is the output.
        let _ = output.read_to_end(&mut bytes);
        drop(open);
        bytes
    })
}

/// A program that was built together with this one.
pub fn sibling_binary(name: &str) -> Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_does_not_end_is_killed_and_its_output_is_told() {
        let mut command = Command::new("sh");
        let err = run_within(
            command.args(["-c", "echo out; echo err >&2; exec sleep 1000"]),
            Duration::from_secs(2),
        );
        let err = err.unwrap_err().to_string();
        assert!(err.ends_with("still ran after 2s: out\nerr\n"), "{err}");
    }

    #[test]
    fn output_and_status_are_those_of_the_process() {
        let mut command = Command::new("sh");
        let output = run_to_end(command.args(["-c", "echo out; echo err >&2; exit 3"])).unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!((text(&output.stdout), text(&output.stderr)), ("out\n".into(), "err\n".into()));
        assert_eq!(output.status.code(), Some(3));
    }
}
