//! The flows of clients with packages of their own: each in its ecosystem's own test runner, one node each. Some run
//! against a node that follows another one, too.
//!
//! The packages of a flow are installed from its registry on the first run, from a committed lock file, into
//! the client's `node_modules`, into a virtual environment under target/, or into Go's module cache.
//! Bounds: 10 minutes to install, 5 minutes for a flow. Needs node 20, npm and python 3.11 on the path. The flows that
//! need Go or chromium are ignored by default; `cargo xtask test` runs them where these programs are.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use testkit::json_rpc_client::JsonRpcClient;
use testkit::node::Node;
use testkit::scenario::{Scenario, SendStats, send_at_rate};
use testkit::transfers::{endless_transfers, fund_payers};
use tokio::process::Command;
use tokio::sync::oneshot;

use crate::follower::FollowedDev;
use crate::foreign_programs::find_program;
use crate::node::start_node;
use crate::tls::Certificate;

const INSTALL_MAX: Duration = Duration::from_secs(600);
pub(crate) const FLOW_MAX: Duration = Duration::from_secs(300);
/// Short slots, so that transactions are finalized while a flow is still running. The flows deploy published
/// programs, which are of version 0 of the instruction set: the feature that refuses it is not active.
pub(crate) const NODE_FLAGS: &[&str] =
    &["--slot-ms", "100", "--deactivate-feature", "B8JJXCy5amZyWG9r7EnUYLwzXSXTxG7GZ1qZ1qggo83g"];
/// Longer slots: final blocks are older on a follower, and web3.js uses their blockhashes.
pub(crate) const FOLLOWED_FLAGS: &[&str] =
    &["--slot-ms", "200", "--deactivate-feature", "B8JJXCy5amZyWG9r7EnUYLwzXSXTxG7GZ1qZ1qggo83g"];
/// With all features: Anchor's flow deploys a program of version 3.
const ANCHOR_FLAGS: &[&str] = &["--slot-ms", "100"];
/// Some slots a second, as people look at them.
const CONSOLE_FLAGS: &[&str] = &["--slot-ms", "200"];
/// Transactions a second under load.
const CONSOLE_RATE: f64 = 5_000.0;

/// The node that a flow runs against.
#[derive(Clone, Copy)]
enum Target {
    /// `hydrant dev` with these flags.
    Dev(&'static [&'static str]),
    /// `hydrant follow` of a `hydrant dev`.
    Follower,
}

const DEV: Target = Target::Dev(NODE_FLAGS);

#[test]
fn web3_js_flow() -> Result<()> {
    node_js_flow("js-web3", "flow.test.js", DEV)
}

#[test]
fn web3_js_flow_on_a_followed_chain() -> Result<()> {
    node_js_flow("js-web3", "flow.test.js", Target::Follower)
}

#[test]
fn web3_js_flow_over_tls() -> Result<()> {
    node_js_flow_over_tls("js-web3")
}

/// A client's flow over TLS. Node.js and Rust clients find the authority by different variables.
fn node_js_flow_over_tls(client: &str) -> Result<()> {
    let files = tempfile::tempdir()?;
    let certificate = Certificate::write(files.path())?;
    let tls = certificate.flags();
    let flags: Vec<&str> =
        NODE_FLAGS.iter().copied().chain(tls.iter().map(String::as_str)).collect();
    let node = start_node(&flags)?;
    let folder = clients().join(client);
    install_node_js(&folder)?;
    let mut flow = Command::new("node");
    flow.args(["--test", "--test-reporter=spec", "flow.test.js"]).current_dir(&folder);
    flow.env("NODE_EXTRA_CA_CERTS", &certificate.chain).env("SSL_CERT_FILE", &certificate.chain);
    let grpc = node.grpc.context("the node serves gRPC")?;
    let urls =
        [format!("https://{}", node.rpc), format!("wss://{}", node.ws), format!("https://{grpc}")];
    run_flow_with_urls(&node, urls, flow)
}

#[test]
fn spl_token_flow() -> Result<()> {
    node_js_flow("js-web3", "spl_token.test.js", DEV)
}

#[test]
fn jito_flow() -> Result<()> {
    node_js_flow("js-web3", "jito.test.js", DEV)
}

#[test]
fn kit_flow() -> Result<()> {
    node_js_flow("js-kit", "flow.test.js", DEV)
}

#[test]
fn kit_flow_on_a_followed_chain() -> Result<()> {
    node_js_flow("js-kit", "flow.test.js", Target::Follower)
}

/// The console in a browser. Its screenshots are in `target/tmp/console`.
#[test]
#[ignore = "needs chromium"]
fn console_flow() -> Result<()> {
    run_flow(console("flow.test.js")?, Target::Dev(CONSOLE_FLAGS))
}

#[test]
#[ignore = "needs chromium"]
fn console_flow_on_a_followed_chain() -> Result<()> {
    run_flow(console("followed.test.js")?, Target::Follower)
}

#[test]
#[ignore = "needs chromium"]
fn console_flow_under_load() -> Result<()> {
    let flow = console("load.test.js")?;
    let node = start_node(CONSOLE_FLAGS)?;
    let mut client = JsonRpcClient::open(node.rpc)?;
    let payers = fund_payers(&mut client, 64)?;
    let rpc = node.rpc;
    let sent = SendStats::default();
    let mut load = Scenario::default();
    load.add(send_at_rate(rpc, CONSOLE_RATE, &sent, endless_transfers(client, payers)));
    let (over, is_over) = oneshot::channel::<()>();
    let loading = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(load.run(async { drop(is_over.await) }))
    });
    let flow = run_flow_at(&node, flow);
    drop(over);
    let loaded = loading.join().map_err(|_| anyhow!("the load panicked"))?.context("the load");
    flow.and(loaded)
}

/// Returns the command of a flow of the console in chromium.
fn console(file: &str) -> Result<Command> {
    let browser = program("chromium")?;
    let folder = clients().join("js-console");
    install_node_js(&folder)?;
    let mut flow = Command::new("node");
    flow.args(["--test", "--test-reporter=spec", file]).current_dir(&folder);
    flow.env("HYDRANT_CHROMIUM", browser);
    flow.env("HYDRANT_SCREENSHOTS", Path::new(env!("CARGO_TARGET_TMPDIR")).join("console"));
    Ok(flow)
}

#[test]
fn anchor_flow() -> Result<()> {
    node_js_flow("js-anchor", "flow.test.js", Target::Dev(ANCHOR_FLAGS))
}

#[test]
fn yellowstone_js_flow() -> Result<()> {
    node_js_flow("js-grpc", "flow.test.js", DEV)
}

/// The client is a Rust library under its npm package: it trusts the system's certificates.
#[test]
fn yellowstone_js_flow_over_tls() -> Result<()> {
    node_js_flow_over_tls("js-grpc")
}

#[test]
fn yellowstone_js_flow_on_a_followed_chain() -> Result<()> {
    node_js_flow("js-grpc", "flow.test.js", Target::Follower)
}

#[test]
fn laserstream_flow() -> Result<()> {
    node_js_flow("js-grpc", "laserstream.test.js", DEV)
}

#[test]
fn laserstream_flow_on_a_followed_chain() -> Result<()> {
    node_js_flow("js-grpc", "laserstream.test.js", Target::Follower)
}

#[test]
fn python_grpc_flow() -> Result<()> {
    python_flow("py-grpc", "python-grpc", DEV)
}

#[test]
fn python_grpc_flow_on_a_followed_chain() -> Result<()> {
    python_flow("py-grpc", "python-grpc", Target::Follower)
}

#[test]
#[ignore = "needs go"]
fn solana_go_flow() -> Result<()> {
    let mut flow = Command::new(install_go(&program("go")?)?);
    flow.arg("-test.v");
    run_flow(flow, DEV)
}

#[test]
fn solana_py_flow() -> Result<()> {
    python_flow("python", "solana-py", DEV)
}

#[test]
fn solana_py_flow_on_a_followed_chain() -> Result<()> {
    python_flow("python", "solana-py", Target::Follower)
}

#[test]
fn rest_flow() -> Result<()> {
    python_flow("rest", "rest", DEV)
}

fn python_flow(client: &str, environment: &str, target: Target) -> Result<()> {
    let folder = clients().join(client);
    let python = install_python(&folder, environment)?;
    let mut flow = Command::new(python);
    flow.args(["-B", "-m", "pytest", "flow.py"]).current_dir(&folder);
    run_flow(flow, target)
}

fn node_js_flow(client: &str, file: &str, target: Target) -> Result<()> {
    let folder = clients().join(client);
    install_node_js(&folder)?;
    let mut flow = Command::new("node");
    flow.args(["--test", "--test-reporter=spec", file]).current_dir(&folder);
    run_flow(flow, target)
}

/// The file of a program that a test needs and this machine may not have.
pub(crate) fn program(name: &str) -> Result<PathBuf> {
    find_program(name)?.with_context(|| format!("there is no {name}"))
}

/// Runs a flow against its own node. If it fails, the error has its output.
fn run_flow(flow: Command, target: Target) -> Result<()> {
    match target {
        Target::Dev(flags) => run_flow_at(&start_node(flags)?, flow),
        Target::Follower => {
            let mut flow = flow;
            flow.env("HYDRANT_FOLLOWED", "1");
            let nodes = FollowedDev::start(FOLLOWED_FLAGS)?;
            run_flow_at(&nodes.follower, flow)
                .with_context(|| format!("the ledger's log ends\n{}", nodes.dev.log_end()))
        }
    }
}

fn run_flow_at(node: &Node, flow: Command) -> Result<()> {
    let grpc = node.grpc.context("the node serves gRPC")?;
    run_flow_with_urls(node, [node.rpc_url(), node.ws_url(), format!("http://{grpc}")], flow)
}

fn run_flow_with_urls(node: &Node, [rpc, ws, grpc]: [String; 3], mut flow: Command) -> Result<()> {
    let elves = ProgramElves::find()?;
    flow.env("HYDRANT_RPC_URL", rpc)
        .env("HYDRANT_GRPC_URL", grpc)
        .env("HYDRANT_WS_URL", ws)
        .env("HYDRANT_PROTO", package_dir("yellowstone-grpc-proto")?.join("proto"))
        .env("HYDRANT_PROGRAM_ELF", &elves.first)
        .env("HYDRANT_UPGRADE_ELF", &elves.upgrade);
    run(flow, FLOW_MAX).with_context(|| format!("the node's log ends\n{}", node.log_end()))
}

pub(crate) fn clients() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients")
}

/// Two flows share a folder: the second one waits, and then finds the installed packages.
pub(crate) fn install_node_js(folder: &Path) -> Result<()> {
    static INSTALLING: Mutex<()> = Mutex::new(());
    let _installing = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    let lock = folder.join("package-lock.json");
    let installed = folder.join("node_modules/.installed-lock.json");
    if same_text(&lock, &installed) {
        return Ok(());
    }
    let mut install = Command::new("npm");
    install.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(folder);
    run(install, INSTALL_MAX).context("npm ci")?;
    fs::copy(lock, installed).context("record what was installed")?;
    Ok(())
}

/// The interpreter of a virtual environment with the packages of requirements.txt.
///
/// Two flows share an environment: the second one waits, and then finds the installed packages.
pub(crate) fn install_python(folder: &Path, environment: &str) -> Result<PathBuf> {
    static INSTALLING: Mutex<()> = Mutex::new(());
    let _installing = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    let environment_dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(environment);
    let python = environment_dir.join("bin/python");
    let installed = environment_dir.join("installed-requirements.txt");
    let requirements = folder.join("requirements.txt");
    if same_text(&requirements, &installed) {
        return Ok(python);
    }
    let mut create = Command::new("python3");
    create.args(["-m", "venv", "--clear"]).arg(&environment_dir);
    run(create, INSTALL_MAX).context("python3 -m venv")?;
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "install", "--quiet", "--no-deps", "-r"]).arg(&requirements);
    run(install, INSTALL_MAX).context("pip install")?;
    fs::copy(requirements, installed).context("record what was installed")?;
    Ok(python)
}

fn cargo() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// The compiled flow. Go stores modules and compiled packages in its own caches.
fn install_go(go: &Path) -> Result<PathBuf> {
    let flow = Path::new(env!("CARGO_TARGET_TMPDIR")).join("solana-go-flow");
    let mut install = Command::new(go);
    install
        .args(["test", "-c", "-mod=readonly", "-buildvcs=false", "-o"])
        .arg(&flow)
        .arg(".")
        .current_dir(clients().join("go"))
        // Only this Go, no C compiler, and no flags from the environment.
        .env("GOTOOLCHAIN", "local")
        .env("CGO_ENABLED", "0")
        .env("GOFLAGS", "");
    run(install, INSTALL_MAX).context("go test -c")?;
    Ok(flow)
}

fn same_text(one: &Path, other: &Path) -> bool {
    matches!((fs::read(one), fs::read(other)), (Ok(one), Ok(other)) if one == other)
}

/// Runs `command` until it ends. If it fails, the error has its output.
#[expect(clippy::print_stdout, reason = "a flow's steps belong into the output of its test")]
pub(crate) fn run(mut command: Command, time_max: Duration) -> Result<()> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let output = runtime.block_on(async {
        let child = command
            .spawn()
            .with_context(|| format!("start {:?}", command.as_std().get_program()))?;
        let ended = tokio::time::timeout(time_max, child.wait_with_output()).await;
        Ok::<_, anyhow::Error>(ended.with_context(|| format!("not done after {time_max:?}"))??)
    })?;
    let text = [output.stdout, output.stderr]
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .concat();
    println!("{text}");
    ensure!(
        output.status.success(),
        "{:?} ended with {}:\n{text}",
        command.as_std().get_program(),
        output.status
    );
    Ok(())
}

/// Two small programs from LiteSVM's package on crates.io: one is upgraded to the other.
pub(crate) struct ProgramElves {
    /// The associated token account program, 105 KB: creates accounts by calling other programs.
    pub(crate) first: PathBuf,
    /// The memo program, 2 KB: logs its input.
    pub(crate) upgrade: PathBuf,
}

impl ProgramElves {
    /// Finds the package with cargo. It is already there, because the node is built from it.
    pub(crate) fn find() -> Result<Self> {
        let elves = package_dir("litesvm")?.join("src/programs/elf");
        Ok(Self {
            first: elves.join("spl_associated_token_account-1.1.1.so"),
            upgrade: elves.join("spl_memo-4.0.0.so"),
        })
    }
}

/// The folder of a package from which the node is built.
fn package_dir(name: &str) -> Result<PathBuf> {
    let output = std::process::Command::new(cargo())
        .args(["metadata", "--format-version", "1", "--locked", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .context("run cargo metadata")?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).context("read cargo metadata")?;
    let packages = metadata["packages"].as_array().context("cargo metadata without packages")?;
    let package = packages.iter().find(|package| package["name"] == name);
    let package = package.with_context(|| format!("no package {name}"))?;
    let manifest = package["manifest_path"].as_str().context("a package without a manifest")?;
    Ok(Path::new(manifest).with_file_name(""))
}
