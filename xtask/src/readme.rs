//! Runs the commands of README.md, so that they cannot rot.
//!
//! Input: its fenced blocks. A `sh` block has one command a line, or several lines joined by `\`. Any block that starts
//! with a comment, in which a file's name stands alone, is saved under that name. `cargo` commands run at the
//! repository's root, others in a fresh directory, all in the order of the README.
//! The commands that start a ledger, and a node that follows it, run in the background, with a binary that has been
//! built, on free ports. They replace the ports of the README in all later commands. A `curl` must get a result. Of the
//! command that follows a kaspad only the settings are checked, because none runs here.
//! Not here: commands that are CI steps of their own; see [`COVERED_BY_CI`].

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::shell::Cmd;
use crate::workspace::root;

/// The command that starts the ledger.
const START: &str = "cargo run --release -- dev";

/// The start of the command for a node that follows the ledger.
const FOLLOW: &str = "cargo run --release -- follow ";

/// The start of the command for a node that follows a kaspad.
const FOLLOW_KASPA: &str = "cargo run --release -- follow-kaspa ";

/// The part of all of them before what goes to the binary.
const CARGO_RUN: &str = "cargo run --release -- ";

/// Commands that are CI steps of their own, or would start CI again.
const COVERED_BY_CI: &[&str] = &[
    "cargo xtask test",
    "cargo xtask ci",
    "cargo xtask bars",
    "cargo xtask bench rpc",
    "cargo xtask dist",
];

/// The ports in the README: of the ledger, and of the node that follows it. WebSocket has the next one.
const RPC_PORT: u16 = 8899;
const GRPC_PORT: u16 = 10_000;
const FOLLOWER_PORT: u16 = 9899;

/// Time limit for the start of the ledger.
const READY_TIMEOUT: Duration = Duration::from_secs(300);

#[derive(Debug, PartialEq, Eq)]
struct Block {
    language: String,
    text: String,
}

#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// Save a text under this name.
    Save { name: String, text: String },
    /// A command to run to its end.
    Run(String),
}

/// Runs the commands. The program `hydrant` replaces `cargo run --release --`.
pub(crate) fn run(hydrant: &Path) -> Result<()> {
    let readme = fs::read_to_string(root().join("README.md")).context("read README.md")?;
    let steps = steps(&blocks(&readme));
    for needed in [START, FOLLOW, FOLLOW_KASPA, "cargo xtask test"] {
        let is_meant = |step: &Step| matches!(step, Step::Run(it) if it.starts_with(needed));
        ensure!(steps.iter().any(is_meant), "README.md: no block says `{needed}`");
    }
    let mut reader = Reader { hydrant, dir: scratch_dir()?, ports: Vec::new(), nodes: Vec::new() };
    let outcome = steps.iter().try_for_each(|step| reader.perform(step));
    // The follower first.
    let ended = reader.nodes.into_iter().rev().try_for_each(end);
    fs::remove_dir_all(&reader.dir)?;
    outcome.and(ended)
}

/// The state of a run: fresh directory, ports and processes.
struct Reader<'a> {
    hydrant: &'a Path,
    /// Directory in which files are saved and clients run.
    dir: PathBuf,
    /// Ports of the README, each with the free port that replaces it.
    ports: Vec<(u16, u16)>,
    /// The ledger, and the node that follows it.
    nodes: Vec<Child>,
}

impl Reader<'_> {
    fn perform(&mut self, step: &Step) -> Result<()> {
        match step {
            Step::Save { name, text } => {
                println!("+ {name}");
                fs::write(self.dir.join(name), with_ports(text, &self.ports))
                    .with_context(|| name.clone())
            }
            Step::Run(command) if COVERED_BY_CI.contains(&command.as_str()) => {
                println!("({command}: a step of its own)");
                Ok(())
            }
            Step::Run(command) if command == START => self.start_node(command, RPC_PORT),
            Step::Run(command) if command.starts_with(FOLLOW) => {
                self.start_node(command, FOLLOWER_PORT)
            }
            Step::Run(command) if command.starts_with(FOLLOW_KASPA) => self.check_settings(command),
            Step::Run(command) => self.run_command(&with_ports(command, &self.ports)),
        }
    }

    /// Starts a node that has `port` in the README. Its files in the current directory go into the fresh one.
    fn start_node(&mut self, command: &str, port: u16) -> Result<()> {
        let command = with_ports(command.trim_start_matches(CARGO_RUN), &self.ports);
        let own_port = format!("--rpc-port {port}");
        let command = command.replace(&own_port, "");
        let endpoints = self.dir.join(format!("endpoints-{port}.json"));
        let file = endpoints.to_string_lossy();
        let free_ports = ["--rpc-port", "0", "--endpoints-file", file.as_ref()];
        let args = command.split_whitespace().chain(free_ports);
        let program = Cmd::new(&self.hydrant.to_string_lossy());
        println!("+ hydrant {command}");
        self.nodes.push(program.args(args).dir(&self.dir).spawn()?);
        let Some(node) = self.nodes.last_mut() else { bail!("no node was started") };
        let endpoints = wait_for(&endpoints, node)?;
        let found = |name: &str| {
            port_in(&endpoints, name).with_context(|| format!("no {name}: {endpoints}"))
        };
        let rpc = found("rpc")?;
        self.ports.extend([(port, rpc), (port + 1, rpc + 1)]);
        if port == RPC_PORT {
            self.ports.push((GRPC_PORT, found("grpc")?));
        }
        Ok(())
    }

    /// Checks the settings of a command that starts a node.
    fn check_settings(&self, command: &str) -> Result<()> {
        let args = command.trim_start_matches(CARGO_RUN).split_whitespace().chain(["--check"]);
        Cmd::new(&self.hydrant.to_string_lossy()).args(args).dir(&self.dir).run()
    }

    fn run_command(&self, command: &str) -> Result<()> {
        let at = if command.starts_with("cargo ") { root() } else { self.dir.clone() };
        let script = format!("set -euo pipefail; {command}");
        let lines = Cmd::new("bash").args(["-c", &script]).dir(&at).run_captured()?;
        let is_answered = lines.iter().any(|line| line.contains("\"result\""));
        ensure!(is_answered || !command.starts_with("curl "), "no result: {command}");
        Ok(())
    }
}

fn steps(blocks: &[Block]) -> Vec<Step> {
    let mut steps = Vec::new();
    for block in blocks {
        if let Some(name) = file_name(&block.text) {
            steps.push(Step::Save { name, text: block.text.clone() });
        } else if block.language == "sh" {
            let joined = block.text.replace("\\\n", " ");
            let commands = joined.lines().map(without_comment);
            let commands = commands.filter(|command| !command.is_empty());
            steps.extend(commands.map(Step::Run));
        }
    }
    steps
}

/// Returns the name in a first line like `// tour.mjs` or `# tour.py`.
fn file_name(text: &str) -> Option<String> {
    let line = text.lines().next()?;
    let name = line.strip_prefix("// ").or_else(|| line.strip_prefix("# "))?.trim();
    let is_name = name.contains('.') && name.chars().all(|c| c.is_alphanumeric() || c == '.');
    is_name.then(|| name.to_owned())
}

fn without_comment(line: &str) -> String {
    let command =
        if line.starts_with('#') { "" } else { line.split("  # ").next().unwrap_or(line) };
    command.trim().to_owned()
}

fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for line in text.lines() {
        match (line.strip_prefix("```"), open.as_mut()) {
            (Some(language), None) => {
                open = Some(Block { language: language.trim().to_owned(), text: String::new() });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some(block)) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    blocks
}

/// Returns the text with other ports. A port follows a colon.
fn with_ports(text: &str, ports: &[(u16, u16)]) -> String {
    let replace = |text: String, (from, to): &(u16, u16)| {
        text.replace(&format!(":{from}"), &format!(":{to}"))
    };
    ports.iter().fold(text.to_owned(), replace)
}

fn scratch_dir() -> Result<PathBuf> {
    let dir = std::env::temp_dir().join(format!("hydrant-readme-{}", std::process::id()));
    fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
    Ok(dir)
}

/// Waits until `writer` has written a file, and returns its contents. The file appears whole.
#[expect(clippy::disallowed_methods, reason = "waits for another process, with a limit")]
fn wait_for(path: &Path, writer: &mut Child) -> Result<String> {
    let started = Instant::now();
    while started.elapsed() < READY_TIMEOUT {
        if path.exists() {
            return fs::read_to_string(path).with_context(|| path.display().to_string());
        }
        if let Some(status) = writer.try_wait()? {
            bail!("a node ended before it was ready: {status}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    bail!("a node was not ready within {READY_TIMEOUT:?}")
}

/// Returns a port in `{"rpc":"http://127.0.0.1:4000",...}`.
fn port_in(endpoints: &str, name: &str) -> Option<u16> {
    let endpoints: serde_json::Value = serde_json::from_str(endpoints).ok()?;
    endpoints[name].as_str()?.rsplit(':').next()?.parse().ok()
}

/// Ends a node with an interrupt, as a person does. Errors: the exit is not clean.
fn end(mut node: Child) -> Result<()> {
    Cmd::new("kill").args(["-INT", &node.id().to_string()]).run()?;
    let status = node.wait()?;
    ensure!(status.success(), "a node ended with {status}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const README: &str = "\
# X
```sh
cargo run --release -- dev      # the ledger
```
Then:
```js
// tour.mjs
new Connection('http://127.0.0.1:8899')
```
```sh
# in another terminal
curl http://127.0.0.1:8899 \\
  -d '{}'
node tour.mjs
```
```text
what it prints
```
";

    #[test]
    fn commands_and_files_are_found_in_their_order() {
        let run = |command: &str| Step::Run(command.to_owned());
        let text = "// tour.mjs\nnew Connection('http://127.0.0.1:8899')\n".to_owned();
        assert_eq!(
            steps(&blocks(README)),
            [
                run(START),
                Step::Save { name: "tour.mjs".to_owned(), text },
                run("curl http://127.0.0.1:8899    -d '{}'"),
                run("node tour.mjs"),
            ]
        );
    }

    #[test]
    fn the_ledger_says_its_port() {
        let endpoints = r#"{"rpc":"http://127.0.0.1:4000","ws":"ws://127.0.0.1:4001"}"#;
        assert_eq!(port_in(endpoints, "ws"), Some(4001));
        assert_eq!(port_in("{}", "rpc"), None);
    }

    #[test]
    fn ports_are_replaced() {
        let ports = [(8899, 4000), (8900, 4001), (9899, 5000)];
        let text = "ws://h:8900 http://h:8899 http://h:9899 8899";
        assert_eq!(with_ports(text, &ports), "ws://h:4001 http://h:4000 http://h:5000 8899");
    }
}
