//! The memory of clients of the ports other than that of JSON-RPC, of a fork's addresses, and of TLS: named while it is in
//! use, bounded, and released.

use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;
use solana_pubkey::Pubkey;
use tempfile::TempDir;
use testkit::node::Node;
use testkit::raw_http_client::connect_stream_from;

use crate::admin::logged_address;
use crate::cheatcodes::ok;
use crate::memory::{
    MIB, OPEN_RESIDENT_MAX, Parts, WAIT_TIMEOUT, parse_memory, part, patient_node,
};
use crate::node::start_node;
use crate::raw_http::get;
use crate::snapshots::{download_silently, newest};
use crate::tls::Certificate;
use crate::world::wait_until;

/// Connections to gRPC, from as many addresses.
const GRPC: u8 = 64;
/// Silent connections to the faucet, the administration and the metrics each. They have a bound, and no part.
const SILENT: usize = 300;
/// Addresses that the cluster of the fork does not have.
const ABSENT: u32 = 20_000;
const DOWNLOADS: usize = snapshot_server::DOWNLOADS_MAX;
/// Memory of the bounded connections that no part names, and of requests that have ended.
const UNNAMED_MAX: f64 = 6.0 * MIB;

/// Writes accounts of random bytes, so that an archive is larger than the buffers of the sockets.
fn write_large_accounts(dir: &Path) -> Result<()> {
    let mut rng = fastrand::Rng::with_seed(3);
    for number in 1..=2_u8 {
        let data: Vec<u8> = std::iter::repeat_with(|| rng.u8(..)).take(8 << 20).collect();
        let key = Pubkey::new_from_array([number; 32]).to_string();
        let account = json!({"pubkey": key, "account": {
            "lamports": 100_000_000_000_u64, "data": [BASE64_STANDARD.encode(data), "base64"],
            "owner": "11111111111111111111111111111111",
            "executable": false, "rentEpoch": 0, "space": 8 << 20,
        }});
        fs::write(dir.join(format!("{key}.json")), account.to_string())?;
    }
    Ok(())
}

/// The memory in use by `metrics`, compared with that before.
struct Growth<'n> {
    metrics: SocketAddr,
    before: (f64, f64),
    node: &'n Node,
}

impl<'n> Growth<'n> {
    fn new(node: &'n Node) -> Result<Self> {
        let metrics = logged_address(node, "the metrics are served")?;
        let (_, named, resident) = parse_memory(&get(metrics, "/metrics")?)?;
        Ok(Self { metrics, before: (named, resident), node })
    }

    /// The parts, and the growth of their sum and of the resident size.
    fn measure(&self) -> Result<(Parts, f64, f64)> {
        let (parts, named, resident) = parse_memory(&get(self.metrics, "/metrics")?)?;
        Ok((parts, named - self.before.0, resident - self.before.1))
    }

    /// Waits until each part has at least its bytes, and the resident size is not above the sum of all.
    fn wait_until_named(&self, least: &[(&str, usize)]) -> Result<()> {
        wait_until("the memory in use, by name", WAIT_TIMEOUT, || {
            let (parts, named, resident) = self.measure()?;
            for (name, bytes) in least {
                if part(&parts, name)? < *bytes as f64 {
                    return Ok(None);
                }
            }
            Ok((resident <= OPEN_RESIDENT_MAX * named + UNNAMED_MAX).then_some(()))
        })
        .with_context(|| format!("{:?}\n{}", self.measure(), self.node.log()))
    }

    /// Waits until the parts have less than that.
    fn wait_until_released(&self, most: &[(&str, usize)]) -> Result<()> {
        wait_until("the memory to be released", WAIT_TIMEOUT, || {
            let (parts, ..) = self.measure()?;
            for (name, bytes) in most {
                if part(&parts, name)? >= *bytes as f64 {
                    return Ok(None);
                }
            }
            Ok(Some(()))
        })
        .with_context(|| format!("{:?}", self.measure()))
    }
}

/// Opens a connection to gRPC from an address of its own: the preface of HTTP/2, and empty settings.
fn open_grpc(address: SocketAddr, number: u8) -> Result<TcpStream> {
    let mut stream = connect_stream_from([127, 0, 1, number + 1], address);
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")?;
    Ok(stream)
}

fn open_silent(address: SocketAddr) -> Result<Vec<TcpStream>> {
    (0..SILENT).map(|_| TcpStream::connect(address).context("connect")).collect()
}

/// Has the node ask its cluster for addresses that do not exist.
fn fetch_absent_accounts(node: &Node) -> Result<()> {
    for call in 0..ABSENT / 100 {
        let address = |n: u32| {
            let mut bytes = [9; 32];
            bytes[..4].copy_from_slice(&(call * 100 + n).to_le_bytes());
            Pubkey::new_from_array(bytes).to_string()
        };
        let addresses: Vec<String> = (0..100).map(address).collect();
        ok(node, "getMultipleAccounts", &json!([addresses]))?;
    }
    Ok(())
}

#[test]
fn memory_of_the_other_ports_is_reported_and_released() -> Result<()> {
    let files = TempDir::new()?;
    let accounts = TempDir::new()?;
    write_large_accounts(accounts.path())?;
    let accounts = accounts.path().display().to_string();
    let upstream = start_node(&["--slot-ms", "0"])?;
    let flags = ["--faucet-port", "0", "--admin-address", "127.0.0.1:0"];
    let other = ["--metrics-address", "127.0.0.1:0", "--account-dir", &accounts];
    let fork = ["--fork-url", &upstream.rpc_url()];
    let node = patient_node(&files, &[&flags[..], &other, &fork].concat())?;
    let archive = newest(&node)?;
    let growth = Growth::new(&node)?;
    fetch_absent_accounts(&node)?;
    // The allocator returns the memory of these requests with a delay. The connections would end meanwhile.
    growth.wait_until_named(&[("upstream_fork", ABSENT as usize * 100)])?;
    let faucet = node.faucet.context("a faucet")?;
    let admin = logged_address(&node, "the administration is served")?;
    let grpc = node.grpc.context("gRPC")?;
    let mut open = Vec::new();
    for address in [faucet, admin, growth.metrics] {
        open.extend(open_silent(address)?);
    }
    for number in 0..GRPC {
        open.push(open_grpc(grpc, number)?);
    }
    for nth in 0..DOWNLOADS {
        let ip = [127, 0, 0, 2 + u8::try_from(nth)?];
        let (stream, status) = download_silently(&node, ip, &archive)?;
        ensure!(status == "200", "HTTP {status}");
        open.push(stream);
    }
    let downloads = DOWNLOADS * 262_144;
    let grpc_bytes = usize::from(GRPC) * 20_480;
    growth
        .wait_until_named(&[("snapshot_downloads", downloads), ("grpc_connections", grpc_bytes)])?;
    drop(open);
    growth.wait_until_released(&[("snapshot_downloads", 1), ("grpc_connections", grpc_bytes / 10)])
}

#[test]
fn memory_of_tls_connections_is_reported_and_released() -> Result<()> {
    const CONNECTIONS: usize = 200;
    let files = TempDir::new()?;
    let certificate = Certificate::write(files.path())?;
    let tls = certificate.flags();
    let flags = ["--slot-ms", "50", "--metrics-address", "127.0.0.1:0"];
    let flags: Vec<&str> = flags.into_iter().chain(tls.iter().map(String::as_str)).collect();
    let node = start_node(&flags)?;
    // The first handshake takes memory that stays.
    ensure!(certificate.get(&node, "/health")?.ends_with("ok"));
    let growth = Growth::new(&node)?;
    let mut open = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut stream = certificate.connect(node.rpc)?;
        stream.write_all(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n")?;
        stream.flush()?;
        open.push(stream);
    }
    let bytes = CONNECTIONS * 7_168;
    growth.wait_until_named(&[("tls_connections", bytes), ("connections", 3 * bytes)])?;
    drop(open);
    growth.wait_until_released(&[("tls_connections", bytes / 10), ("connections", bytes / 10)])
}
