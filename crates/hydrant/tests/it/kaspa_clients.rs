//! The flows of unmodified Kaspa clients against `hydrant follow-kaspa`, in front of a model of kaspad: each in its
//! ecosystem's own test runner, with one node each.
//!
//! A flow mines through the node, compares the node with its upstream, and has the node restarted by a line to a port
//! of this test. So the same flows run in front of a real kaspad: `HYDRANT_KASPAD_PORTS` has the addresses of its wRPC
//! in Borsh and in JSON, with a comma between them, and `HYDRANT_COINBASE_MATURITY` the DAA scores after which it lets
//! a coinbase be spent. Its chain must not pay the flows' keys yet.
//! Bounds: 10 minutes to install, 5 minutes for a flow. Needs node 20, npm and python 3.11 on the path.

use std::env;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Command as StdCommand, Stdio};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use parking_lot::Mutex;
use tempfile::TempDir;
use testkit::child_process::KillOnDrop;
use testkit::kaspa_node::{COINBASE_MATURITY, KaspaNode};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::runtime;

use crate::clients::{FLOW_MAX, clients, install_node_js, install_python, run};
use crate::free_ports::free_ports;
use crate::node::HYDRANT;
use crate::raw_http::get;
use crate::world::{WAIT_TIMEOUT, wait_until};

/// The environment variable with the addresses of a real kaspad.
const KASPAD: &str = "HYDRANT_KASPAD_PORTS";
/// The environment variable with the coinbase maturity of the upstream, for this test and for the flows.
const MATURITY: &str = "HYDRANT_COINBASE_MATURITY";
const LOG: &str = "log";
const LOG_LINES_SHOWN: usize = 60;

#[test]
fn kaspa_python_flow() -> Result<()> {
    let folder = clients().join("py-kaspa");
    let python = install_python(&folder, "py-kaspa")?;
    let mut flow = Command::new(python);
    flow.args(["-B", "-m", "pytest", "flow.py"]).current_dir(&folder);
    run_flow(flow)
}

#[test]
fn kaspa_wasm_flow() -> Result<()> {
    node_js_flow("flow.test.js")
}

#[test]
fn kaspa_kiwi_flow() -> Result<()> {
    node_js_flow("kiwi.test.js")
}

fn node_js_flow(file: &str) -> Result<()> {
    let folder = clients().join("js-kaspa");
    install_node_js(&folder)?;
    let mut flow = Command::new("node");
    flow.args(["--test", "--test-reporter=spec", file]).current_dir(&folder);
    run_flow(flow)
}

/// Runs a flow against its own node and upstream. If it fails, the error has its output and the end of the node's log.
fn run_flow(mut flow: Command) -> Result<()> {
    let runtime = runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let upstream = runtime.block_on(Upstream::find_or_start())?;
    let node = KaspaFollower::start(&upstream)?;
    let control = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
    // Wallets of the clients are files there.
    let home = TempDir::new()?;
    flow.env("HOME", home.path())
        .env("HYDRANT_WRPC_BORSH_URL", format!("ws://{}", node.borsh))
        .env("HYDRANT_WRPC_JSON_URL", format!("ws://{}", node.json))
        .env("HYDRANT_UPSTREAM_URL", format!("ws://{}", upstream.borsh))
        .env(MATURITY, &upstream.coinbase_maturity)
        .env("HYDRANT_CONTROL", control.local_addr()?.to_string());
    let node = Arc::new(Mutex::new(node));
    runtime.spawn(serve_control(control, Arc::clone(&node)));
    run(flow, FLOW_MAX).with_context(|| format!("the node's log ends\n{}", node.lock().log_end()))
}

/// Executes the commands of a flow, each on a connection of its own: `restart` restarts the node. The reply is `ok`, or
/// the error.
async fn serve_control(listener: TcpListener, node: Arc<Mutex<KaspaFollower>>) -> Result<()> {
    loop {
        let (socket, _) = listener.accept().await?;
        let mut socket = BufReader::new(socket);
        let mut command = String::new();
        socket.read_line(&mut command).await?;
        let node = Arc::clone(&node);
        let execute = move || match command.trim() {
            "restart" => node.lock().restart(),
            other => bail!("unknown command {other:?}"),
        };
        let reply = match tokio::task::spawn_blocking(execute).await? {
            Ok(()) => "ok\n".to_owned(),
            Err(err) => format!("{err:#}\n"),
        };
        socket.write_all(reply.as_bytes()).await?;
    }
}

/// The node that is followed.
struct Upstream {
    borsh: SocketAddr,
    json: SocketAddr,
    /// DAA scores, in decimal digits.
    coinbase_maturity: String,
    _model: Option<KaspaNode>,
}

impl Upstream {
    /// Finds the kaspad of the environment, or starts a model.
    async fn find_or_start() -> Result<Self> {
        if let Ok(addresses) = env::var(KASPAD) {
            let both = addresses.split_once(',');
            let (borsh, json) =
                both.with_context(|| format!("{KASPAD}={addresses}: BORSH,JSON"))?;
            let coinbase_maturity =
                env::var(MATURITY).with_context(|| format!("{KASPAD} needs {MATURITY}"))?;
            return Ok(Self {
                borsh: borsh.parse()?,
                json: json.parse()?,
                coinbase_maturity,
                _model: None,
            });
        }
        let model = KaspaNode::start().await;
        model.mine(2);
        Ok(Self {
            borsh: model.borsh(),
            json: model.json(),
            coinbase_maturity: COINBASE_MATURITY.to_string(),
            _model: Some(model),
        })
    }
}

/// A `hydrant follow-kaspa` that can be restarted on its ports. It ends with the value.
struct KaspaFollower {
    process: KillOnDrop,
    args: Vec<String>,
    borsh: SocketAddr,
    json: SocketAddr,
    /// Has the log and the snapshot.
    dir: TempDir,
}

impl KaspaFollower {
    /// Starts a node, and waits until it is ready.
    fn start(upstream: &Upstream) -> Result<Self> {
        let dir = TempDir::new()?;
        let first_port = free_ports(2)?;
        let local = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let borsh = local(first_port);
        let json = local(first_port + 1);
        let settings = [
            ("--network", "simnet".to_owned()),
            ("--source", format!("ws://{}", upstream.borsh)),
            ("--json-source", format!("ws://{}", upstream.json)),
            ("--rpc-port", "0".to_owned()),
            ("--wrpc-borsh-port", borsh.port().to_string()),
            ("--wrpc-json-port", json.port().to_string()),
            ("--ledger", dir.path().join("ledger").display().to_string()),
        ];
        let mut args = vec!["follow-kaspa".to_owned(), "--log".to_owned()];
        args.extend(settings.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]));
        let process = spawn_node(&args, dir.path())?;
        let mut node = Self { process, args, borsh, json, dir };
        node.wait_until_ready()?;
        Ok(node)
    }

    /// Kills the node, and starts it again on its ports.
    fn restart(&mut self) -> Result<()> {
        self.process.0.kill()?;
        self.process.0.wait()?;
        self.process = spawn_node(&self.args, self.dir.path())?;
        self.wait_until_ready()
    }

    /// Waits until the node has reached its upstream, and has compared the virtual UTXO set with it.
    fn wait_until_ready(&mut self) -> Result<()> {
        let borsh = self.borsh;
        let process = &mut self.process.0;
        let ready = wait_until("the node to be ready", WAIT_TIMEOUT, || {
            if let Some(status) = process.try_wait()? {
                bail!("it ended: {status}");
            }
            // The port may not be open yet.
            let response = get(borsh, "/ready").unwrap_or_default();
            let is_exact = response.contains("hydrant-virtual-state: exact\r\n");
            Ok((response.starts_with("HTTP/1.1 200 ") && is_exact).then_some(()))
        });
        ready.with_context(|| format!("the node's log ends\n{}", self.log_end()))
    }

    fn log_end(&self) -> String {
        let text = fs::read_to_string(self.dir.path().join(LOG));
        let text = text.unwrap_or_else(|err| format!("no log: {err}"));
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n")
    }
}

/// Starts a node. Its output is appended to the log in `dir`, so that the log of a restarted node has both runs.
fn spawn_node(args: &[String], dir: &Path) -> Result<KillOnDrop> {
    let log = File::options().create(true).append(true).open(dir.join(LOG))?;
    let mut command = StdCommand::new(HYDRANT);
    command.args(args).env("HOME", dir).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    KillOnDrop::spawn(&mut command)
}
