//! `/ready` of a follower with a gap: it is 503 with the reason while the archive that closes the gap is not proven,
//! and after an archive of another chain was refused.

use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use parking_lot::Mutex;
use serde_json::json;
use solana_pubkey::Pubkey;
use testkit::node::Node;

use crate::cheatcodes::ok;
use crate::follow_trust::{get, start};
use crate::follower::wait_until_healthy;
use crate::node::{HYDRANT, start_node};
use crate::world::wait_until;

/// No step takes this long, however slow the machine is.
const TIMEOUT: Duration = Duration::from_secs(120);
/// More slots than the source can replay.
const GAP_SLOTS: u64 = 150;
/// Readings of `/ready` after the refusal.
const READINGS: usize = 100;

/// A proxy that chooses the server of a connection by its first bytes; without one the connection ends.
struct Proxy {
    address: SocketAddr,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Proxy {
    fn start(choose: impl Fn(&[u8]) -> Option<SocketAddr> + Send + Sync + 'static) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let open: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        let all = Arc::clone(&open);
        let choose = Arc::new(choose);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let all = Arc::clone(&all);
                let choose = Arc::clone(&choose);
                std::thread::spawn(move || forward(&client, &*choose, &all));
            }
        });
        Ok(Self { address, open })
    }

    /// Cuts all open connections.
    fn cut(&self) {
        for stream in self.open.lock().drain(..) {
            // It may have ended.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

fn forward(
    client: &TcpStream,
    choose: &impl Fn(&[u8]) -> Option<SocketAddr>,
    open: &Mutex<Vec<TcpStream>>,
) -> Result<()> {
    let mut head = [0; 16];
    let bytes = client.peek(&mut head)?;
    let Some(server) = choose(&head[..bytes]) else { return Ok(()) };
    let server = &TcpStream::connect(server)?;
    open.lock().extend([client.try_clone()?, server.try_clone()?]);
    std::thread::scope(|scope| {
        scope.spawn(move || copy(client, server));
        copy(server, client);
    });
    Ok(())
}

/// Copies until one side ends, and then ends both.
fn copy(mut from: &TcpStream, mut to: &TcpStream) {
    // A connection that was cut ends with an error.
    let _ = std::io::copy(&mut from, &mut to);
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

/// A proxy of one server that can be cut off from it.
struct CuttableProxy {
    proxy: Proxy,
    is_cut: Arc<AtomicBool>,
}

impl CuttableProxy {
    fn new(server: SocketAddr) -> Result<Self> {
        let is_cut = Arc::new(AtomicBool::new(false));
        let is_open = Arc::clone(&is_cut);
        let choose = move |_: &[u8]| (!is_open.load(Ordering::Relaxed)).then_some(server);
        Ok(Self { proxy: Proxy::start(choose)?, is_cut })
    }

    /// Cuts all open connections, and ends new ones.
    fn cut(&self) {
        self.is_cut.store(true, Ordering::Relaxed);
        self.proxy.cut();
    }

    fn restore(&self) {
        self.is_cut.store(false, Ordering::Relaxed);
    }
}

/// Starts a follower, which only a missing proof makes unhealthy, and waits until it is ready.
fn start_follower(
    source: &CuttableProxy,
    snapshot: &str,
    dir: &Path,
    verify: &[&str],
) -> Result<Node> {
    let mut command = Command::new(HYDRANT);
    command.args(["follow", "--quiet", "--log", "--rpc-port", "0"]).args(verify);
    command.args(["--source", &source.proxy.url(), "--snapshot", snapshot]);
    command.arg("--snapshot-dir").arg(dir);
    let follower = start(command, &["--slots-behind-max", "1000000"])?;
    wait_until_healthy(&follower)?;
    ensure!(get(&follower, "/ready")?.0 == 200);
    Ok(follower)
}

/// Waits until the source cannot replay the banks since now.
fn wait_for_gap(dev: &Node) -> Result<()> {
    let before = slot(dev)?;
    wait_until("a gap", TIMEOUT, || Ok((slot(dev)? > before + GAP_SLOTS).then_some(())))
}

fn slot(node: &Node) -> Result<u64> {
    ok(node, "getSlot", &json!([{ "commitment": "processed" }]))?.as_u64().context("a slot")
}

fn balance(node: &Node, key: &Pubkey) -> Result<u64> {
    let params = json!([key.to_string(), { "commitment": "processed" }]);
    ok(node, "getBalance", &params)?["value"].as_u64().context("a balance")
}

#[test]
fn a_node_is_not_ready_after_an_archive_of_another_chain_until_its_own() -> Result<()> {
    let dev = start_node(&["--slot-ms", "50"])?;
    let other = start_node(&["--slot-ms", "50", "--warp-slot", "50000"])?;
    let victim = Pubkey::new_from_array([77; 32]);
    ok(&other, "surfnet_setAccount", &json!([victim.to_string(), { "lamports": 123_456 }]))?;
    let serves_other = Arc::new(AtomicBool::new(false));
    let source = CuttableProxy::new(dev.grpc.context("it serves gRPC")?)?;
    let lies = Arc::clone(&serves_other);
    let [own_rpc, other_rpc] = [dev.rpc, other.rpc];
    let upstream = Proxy::start(move |head| {
        let is_lie = head.starts_with(b"GET /") && lies.load(Ordering::Relaxed);
        Some(if is_lie { other_rpc } else { own_rpc })
    })?;
    let dir = tempfile::tempdir()?;
    let follower = start_follower(&source, &upstream.url(), dir.path(), &["--verify", "votes"])?;

    source.cut();
    serves_other.store(true, Ordering::Relaxed);
    wait_for_gap(&dev)?;
    source.restore();
    let is_refused = || {
        let (status, body) = get(&follower, "/ready")?;
        ensure!(balance(&follower, &victim)? == 0 && slot(&follower)? < 50_000, "{body}");
        Ok((status == 503 && body.contains("of another chain")).then_some(()))
    };
    wait_until("the refusal", TIMEOUT, is_refused)
        .with_context(|| format!("{:?}\n{}", get(&follower, "/ready"), follower.log_end()))?;
    for _ in 0..READINGS {
        ensure!(is_refused()?.is_some(), "{:?}", get(&follower, "/ready")?);
    }
    serves_other.store(false, Ordering::Relaxed);
    wait_until_healthy(&follower)?;
    ensure!(get(&follower, "/ready")?.0 == 200 && balance(&follower, &victim)? == 0);
    Ok(())
}

#[test]
fn a_node_is_not_ready_while_an_archive_is_not_proven() -> Result<()> {
    let dev = start_node(&["--slot-ms", "50"])?;
    let grpc = dev.grpc.context("it serves gRPC")?;
    let source = CuttableProxy::new(grpc)?;
    let independent = CuttableProxy::new(grpc)?;
    let dir = tempfile::tempdir()?;
    let independent_url = independent.proxy.url();
    let verify = ["--verify", "agree", "--verify-source", &independent_url];
    let follower = start_follower(&source, &dev.rpc_url(), dir.path(), &verify)?;

    source.cut();
    independent.cut();
    wait_for_gap(&dev)?;
    // The banks and the archive come, and the other source says nothing of them.
    source.restore();
    let is_unproven = || {
        let (status, body) = get(&follower, "/ready")?;
        let reason = "the archive of slot ";
        Ok((status == 503 && body.contains(reason) && body.contains("is not proven")).then_some(()))
    };
    wait_until("the archive", TIMEOUT, is_unproven)
        .with_context(|| format!("{:?}\n{}", get(&follower, "/ready"), follower.log_end()))?;
    for _ in 0..READINGS {
        ensure!(is_unproven()?.is_some(), "{:?}", get(&follower, "/ready")?);
    }
    independent.restore();
    let is_ready = || Ok((get(&follower, "/ready")?.0 == 200).then_some(()));
    wait_until("the proof", TIMEOUT, is_ready)
}
