//! The sources of a follower: what is shown of their URLs, and what a silent one does to its health.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http_client::{Client, Endpoint};
use serde_json::json;
use testkit::json_rpc_client::JsonRpcClient;
use testkit::node::{Node, NodeCommand};
use tokio::runtime::Runtime;

use crate::follower::wait_until_healthy;
use crate::node::{HYDRANT, start_node};
use crate::world::wait_until;
use crate::yellowstone_client::cut_proxy::CutProxy;

/// Secrets that no response, no log and no argument may have.
const SECRET: &str = "SECRETKEY";
const TIMEOUT: Duration = Duration::from_secs(60);

/// A ledger, a proxy of its gRPC port as an independent source, and a follower whose URLs have a secret each.
struct Agreeing {
    follower: Node,
    proxy: CutProxy,
    dev: Node,
    /// The proxy ends with it.
    runtime: Runtime,
    _dir: tempfile::TempDir,
}

impl Agreeing {
    fn start() -> Result<Self> {
        let dev = start_node(&["--slot-ms", "20"])?;
        let grpc = dev.grpc.context("the ledger serves gRPC")?;
        let runtime = Runtime::new()?;
        let proxy = runtime.block_on(CutProxy::start(grpc))?;
        let dir = tempfile::tempdir()?;
        let config = dir.path().join("follow.toml");
        write_config(&config, grpc, proxy.address, &dev)?;
        let mut command = Command::new(HYDRANT);
        command.args(["follow", "--quiet", "--log", "--rpc-port", "0", "--config"]).arg(&config);
        let follower = NodeCommand::new(command).logged().watched().start()?;
        wait_until_healthy(&follower)?;
        Ok(Self { follower, proxy, dev, runtime, _dir: dir })
    }
}

fn get(node: &Node, path: &str) -> Result<(u16, String)> {
    let endpoint = Endpoint::from(node.rpc);
    let mut client = Client::open(endpoint.clone())?;
    let response = client.exchange(&endpoint.request("GET", path, None))?;
    Ok((response.status, String::from_utf8(response.body.to_vec())?))
}

fn write_config(path: &Path, source: SocketAddr, verify: SocketAddr, dev: &Node) -> Result<()> {
    let rpc = dev.rpc_url();
    let dir = path.parent().context("it is in a directory")?;
    let text = format!(
        "[follow]\nsource = [\"http://{source}/{SECRET}\"]\nverify = \"agree\"\n\
         verify-source = [\"http://{verify}/?token={SECRET}\"]\n\
         snapshot = \"{rpc}/?key={SECRET}\"\nsnapshot-dir = {dir:?}\n"
    );
    fs::write(path, text).context("write the file")
}

#[test]
fn secrets_in_the_urls_of_sources_are_shown_nowhere() -> Result<()> {
    let world = Agreeing::start()?;
    let verification =
        JsonRpcClient::open(world.follower.rpc)?.call("hydrantGetVerification", json!([]))?;
    ensure!(
        verification["sources"][0]["url"] == format!("http://{}", world.proxy.address),
        "{verification}"
    );
    world.proxy.cut();
    let log = || world.follower.log();
    wait_until("the end of a stream in the log", TIMEOUT, || {
        Ok(log().contains("stream ended").then_some(()))
    })?;
    let mut shown = vec![("hydrantGetVerification", verification.to_string()), ("the log", log())];
    for path in ["/metrics", "/ready", "/v1/ledger"] {
        shown.push((path, get(&world.follower, path)?.1));
    }
    let arguments = fs::read(format!("/proc/{}/cmdline", world.follower.pid()))?;
    shown.push(("the arguments", String::from_utf8(arguments)?));
    for (place, text) in shown {
        ensure!(!text.contains(SECRET), "{place}: {text}");
    }
    ensure!(log().contains(&format!("http://{}", world.proxy.address)), "{}", log());
    Ok(())
}

#[test]
fn a_follower_whose_independent_source_is_silent_is_not_ready() -> Result<()> {
    let Agreeing { follower, proxy, dev, runtime, _dir } = Agreeing::start()?;
    drop(proxy);
    runtime.shutdown_background();
    let slots = wait_until("the node to be unhealthy", TIMEOUT, || {
        let health = JsonRpcClient::open(follower.rpc)?.call("getHealth", json!([]));
        let behind = health.err().map(|err| format!("{err:#}"));
        let slots = behind.as_deref().and_then(|text| text.split("behind by ").nth(1));
        let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>();
        Ok(slots.and_then(|text| digits(text).parse::<u64>().ok()))
    })?;
    ensure!(slots > 128, "{slots}");
    let slot = |node: &Node| -> Result<u64> {
        let params = json!([{ "commitment": "processed" }]);
        let slot = JsonRpcClient::open(node.rpc)?.call("getSlot", params)?;
        slot.as_u64().context("a slot")
    };
    // The tip is not behind: only the proof is.
    let newest = slot(&dev)?;
    wait_until("the tip", TIMEOUT, || Ok((slot(&follower)? >= newest).then_some(())))?;
    let (status, body) = get(&follower, "/ready")?;
    ensure!(status == 503 && body.contains("behind by "), "{status} {body}");
    Ok(())
}
