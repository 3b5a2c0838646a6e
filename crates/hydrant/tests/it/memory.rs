//! The node's memory by part, compared with its resident memory.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;
use solana_commitment_config::CommitmentConfig;
use solana_keypair::Keypair;
use solana_pubkey::Pubkey;
use solana_signature::Signature;
use solana_signer::Signer;
use tempfile::TempDir;
use testkit::node::Node;
use tokio::runtime::{Builder, Runtime};
use tpu::TlsIdentity;

use crate::node::start_node;
use crate::world::{World, wait_until};

const ACCOUNTS: u32 = 20_000;
pub(crate) const MIB: f64 = 1_048_576.0;
pub(crate) const WAIT_TIMEOUT: Duration = Duration::from_secs(120);

/// Maximum growth of the resident size by open connections, as a multiple of the bytes that the parts report.
pub(crate) const OPEN_RESIDENT_MAX: f64 = 1.15;

/// Maximum growth of the resident size by an unread response: its unsent chunks, its sorted list of accounts, and the
/// memory of sent chunks that the allocator retains.
const UNREAD_RESIDENT_MAX: f64 = 4.0 * MIB;

/// Token accounts of 50 mints, two of each owner.
fn write_accounts(dir: &Path) -> Result<()> {
    let address = |kind: u8, n: u32| {
        let mut bytes = [kind; 32];
        bytes[..4].copy_from_slice(&n.to_le_bytes());
        // Scattered, like real keys.
        bytes[4..8].copy_from_slice(&n.wrapping_mul(2_654_435_761).to_be_bytes());
        Pubkey::new_from_array(bytes)
    };
    for n in 0..ACCOUNTS {
        let mut data = [address(1, n % 50).to_bytes(), address(2, n / 2).to_bytes()].concat();
        data.extend(u64::from(n + 1).to_le_bytes());
        data.resize(165, 0);
        data[108] = 1;
        let key = address(3, n).to_string();
        let account = json!({"pubkey": key, "account": {
            "lamports": 2_039_280, "data": [BASE64_STANDARD.encode(data), "base64"],
            "owner": "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA",
            "executable": false, "rentEpoch": u64::MAX, "space": 165,
        }});
        fs::write(dir.join(format!("{key}.json")), account.to_string())?;
    }
    Ok(())
}

/// Each part of `hydrant_memory_bytes`, in bytes.
pub(crate) type Parts = Vec<(String, f64)>;

/// The parts, their sum, and the resident size.
fn memory(node: &Node) -> Result<(Parts, f64, f64)> {
    parse_memory(&crate::observability::metrics(node)?)
}

/// Parses the parts, their sum and the resident size from the text of the metrics.
pub(crate) fn parse_memory(text: &str) -> Result<(Parts, f64, f64)> {
    let value = |line: &str| -> Result<f64> {
        line.rsplit(' ').next().and_then(|value| value.parse().ok()).context("a value")
    };
    let mut parts = Vec::new();
    for line in text.lines().filter(|line| line.starts_with("hydrant_memory_bytes{")) {
        let part = line.split('"').nth(1).context("a part")?;
        parts.push((part.to_owned(), value(line)?));
    }
    let resident = text.lines().find(|line| line.starts_with("process_resident_memory_bytes "));
    let sum = parts.iter().map(|(_, bytes)| bytes).sum();
    Ok((parts, sum, value(resident.context("a resident size")?)?))
}

/// Waits until a node with 50 ms a slot has had its first root for a second: afterwards a new block replaces an old one,
/// and `start` is measured.
pub(crate) fn wait_until_steady(node: &Node) -> Result<()> {
    let world = World::new(node);
    let root = || -> Result<u64> {
        Ok(world.rpc.get_slot_with_commitment(CommitmentConfig::finalized())?)
    };
    let first = root()?;
    wait_until("a root", WAIT_TIMEOUT, || Ok((root()? > first + 20).then_some(())))
}

/// Returns the bytes that a part reports.
pub(crate) fn part(parts: &Parts, name: &str) -> Result<f64> {
    let part = parts.iter().find(|(part, _)| part == name);
    part.map(|(_, bytes)| *bytes).with_context(|| format!("no part `{name}`"))
}

/// Bytes that no part accounts for, of a node that has run for some slots. The allocator returns free memory with a
/// delay, so the resident size is above the sum for a while after each burst.
fn unattributed_bytes(node: &Node) -> Result<(f64, String)> {
    wait_until_steady(node)?;
    let mut text = String::new();
    let unnamed = wait_until("all but 15 % to be accounted for", WAIT_TIMEOUT, || {
        let (parts, sum, resident) = memory(node)?;
        text = format!("resident {:.1} MiB, named {:.1} MiB: {parts:?}", resident / MIB, sum / MIB);
        let is_named = (resident - sum).abs() <= 0.15 * resident;
        Ok(is_named.then_some(resident - sum + part(&parts, "start")?))
    });
    Ok((unnamed.with_context(|| text.clone())?, text))
}

#[test]
fn resident_memory_is_accounted_for_and_an_account_directory_leaves_only_its_accounts() -> Result<()>
{
    let files = TempDir::new()?;
    write_accounts(files.path())?;
    let flags = ["--slot-ms", "50"];
    let (without, text) = unattributed_bytes(&start_node(&flags)?)?;
    let dir = files.path().display().to_string();
    let node = start_node(&[&flags[..], &["--account-dir", &dir]].concat())?;
    let (with, text_with) = unattributed_bytes(&node)?;
    // A second copy of 20,000 accounts, as a list and in the VM, would be 20 MiB.
    ensure!(with - without < 8.0 * MIB, "without accounts {text}\nwith them {text_with}");
    Ok(())
}

#[test]
fn blocks_are_retained_for_resuming_clients_only_if_there_are_any() -> Result<()> {
    let node = start_node(&["--slot-ms", "20"])?;
    let resume = || part(&memory(&node)?.0, "resume");
    let world = World::new(&node);
    let slot = world.rpc.get_slot()?;
    world.slot_after(slot + 60)?;
    let alone = resume()?;
    // Eight blocks of each commitment, of 160 KB each, and each counted once.
    ensure!(alone < 5.0 * MIB, "{alone} bytes are in use without a client");
    Ok(())
}

/// Connects to a node, sends `bytes`, and leaves the connection open.
fn open_connection(address: &str, bytes: &[u8]) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    stream.write_all(bytes)?;
    Ok(stream)
}

/// A WebSocket with an unfinished message.
fn open_unfinished_message(address: &str, bytes: usize) -> Result<TcpStream> {
    let upgrade = "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                   Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    let mut stream = open_connection(address, upgrade.as_bytes())?;
    let mut response = Vec::new();
    while !response.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        response.push(byte[0]);
    }
    // The header of a masked text frame, with a mask of zeros.
    let mut frame = vec![0x81, 0x80 | 127];
    frame.extend((bytes as u64 + 1_000).to_be_bytes());
    frame.extend([0; 4]);
    let begin =
        br#"{"jsonrpc":"2.0","id":1,"method":"addressesSubscribe","params":[{"addresses":["#;
    frame.extend(begin);
    frame.resize(frame.len() + bytes - begin.len(), b' ');
    stream.write_all(&frame)?;
    Ok(stream)
}

/// The head of a JSON-RPC request with a body of `length` bytes.
fn post(length: usize) -> String {
    format!(
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    )
}

/// A request that waits for a transaction that never comes, for as long as it may.
fn status_request(nth: usize) -> String {
    let mut signature = [1; 64];
    signature[0] = nth as u8;
    let signature = Signature::from(signature);
    format!("GET /v1/transactions/{signature}/status?waitMs=30000 HTTP/1.1\r\nHost: a\r\n\r\n")
}

/// QUIC connections to the TPU, each with an open stream.
struct QuicClients {
    open: Vec<(quinn::Endpoint, quinn::Connection, quinn::SendStream)>,
    runtime: Runtime,
}

impl QuicClients {
    fn open(server: SocketAddr, count: usize) -> Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let mut open = Vec::new();
        for _ in 0..count {
            let key = Keypair::new();
            let identity = TlsIdentity::new(*key.secret_bytes(), key.pubkey());
            let mut config = quinn::ClientConfig::new(Arc::new(tpu::client_config(&identity)?));
            let mut transport = quinn::TransportConfig::default();
            transport.keep_alive_interval(Some(Duration::from_secs(5)));
            config.transport_config(Arc::new(transport));
            open.push(runtime.block_on(async {
                let endpoint = quinn::Endpoint::client((Ipv4Addr::LOCALHOST, 0).into())?;
                let connection = endpoint.connect_with(config, server, "localhost")?.await?;
                let mut stream = connection.open_uni().await?;
                stream.write_all(&[1; 500]).await?;
                anyhow::Ok((endpoint, connection, stream))
            })?);
        }
        Ok(Self { open, runtime })
    }

    fn close(self) {
        for (_, connection, _) in &self.open {
            connection.close(0_u8.into(), b"");
        }
        self.runtime.block_on(async {
            for (endpoint, ..) in &self.open {
                endpoint.wait_idle().await;
            }
        });
    }
}

/// A node whose time limits do not end before a measurement, however slow the machine is.
pub(crate) fn patient_node(files: &TempDir, flags: &[&str]) -> Result<Node> {
    let config = files.path().join("hydrant.toml");
    fs::write(
        &config,
        "[rpc]\nbody_timeout_ms = 600000\nheader_timeout_ms = 600000\nwrite_timeout_ms = 600000\n\
         [pubsub]\nmessage_timeout_ms = 600000\n",
    )?;
    let config = config.display().to_string();
    let node =
        start_node(&[&["--slot-ms", "50", "--config", config.as_str()][..], flags].concat())?;
    wait_until_steady(&node)?;
    Ok(node)
}

#[test]
fn memory_of_open_connections_is_reported_and_released() -> Result<()> {
    const CONNECTIONS: usize = 150;
    const BODIES: usize = 300;
    const BODY_BYTES: usize = 40_000;
    const MESSAGES: usize = 60;
    const MESSAGE_BYTES: usize = 300_000;
    const WAITERS: usize = 100;
    const QUIC: usize = 50;
    let files = TempDir::new()?;
    let node = patient_node(&files, &[])?;
    let address = node.rpc.to_string();
    let (_, before, resident_before) = memory(&node)?;
    let body = [post(50_000).as_bytes(), &[b' '; BODY_BYTES]].concat();
    let quic = QuicClients::open(node.tpu.context("the address of the TPU")?, QUIC)?;
    let mut open = Vec::new();
    for _ in 0..CONNECTIONS {
        open.push(open_connection(&address, b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n")?);
    }
    for _ in 0..BODIES {
        open.push(open_connection(&address, &body)?);
    }
    for _ in 0..MESSAGES {
        open.push(open_unfinished_message(&address, MESSAGE_BYTES)?);
    }
    for nth in 0..WAITERS {
        open.push(open_connection(&address, status_request(nth).as_bytes())?);
    }
    let least = [
        ("connections", open.len() * 20_480),
        ("request_bodies", BODIES * BODY_BYTES),
        ("websocket_messages", MESSAGES * MESSAGE_BYTES * 9 / 10),
        ("status_waiters", WAITERS * 10_240),
        ("quic_connections", QUIC * 40_960),
    ];
    let grown = || {
        let (parts, named, resident) = memory(&node)?;
        Ok::<_, anyhow::Error>((parts, named - before, resident - resident_before))
    };
    // All of it is named while it is open, and the resident size settles.
    wait_until("the memory in use, by name", WAIT_TIMEOUT, || {
        let (parts, named, resident) = grown()?;
        for (name, bytes) in least {
            if part(&parts, name)? < bytes as f64 {
                return Ok(None);
            }
        }
        Ok((resident <= OPEN_RESIDENT_MAX * named).then_some(()))
    })
    .with_context(|| format!("more parts, named, resident: {:?}", grown()))?;
    drop(open);
    quic.close();
    let all: usize = least.iter().map(|(_, bytes)| bytes).sum();
    wait_until("the memory to be released", WAIT_TIMEOUT, || {
        Ok((grown()?.1 < 0.2 * all as f64).then_some(()))
    })
    .with_context(|| format!("{:?}", grown()))
}

#[test]
fn memory_of_unread_responses_is_reported_and_released() -> Result<()> {
    const UNREAD: usize = 40;
    let files = TempDir::new()?;
    let accounts = TempDir::new()?;
    write_accounts(accounts.path())?;
    let node = patient_node(&files, &["--account-dir", &accounts.path().display().to_string()])?;
    let address = node.rpc.to_string();
    let resident_before = memory(&node)?.2;
    let mut open = Vec::new();
    for nth in 0..UNREAD {
        // Each list differs, so that each is computed. It is far longer than the sockets' buffers.
        let list = json!({"jsonrpc": "2.0", "id": 1, "method": "getProgramAccounts", "params": [
            "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA",
            {"encoding": "base64", "dataSlice": {"offset": 0, "length": 165 - nth}},
        ]});
        let list = list.to_string();
        open.push(open_connection(&address, (post(list.len()) + &list).as_bytes())?);
    }
    let unsent = || part(&memory(&node)?.0, "unsent_responses");
    // More than half a megabyte of each response, and less than the limits of its channel and of a time slice.
    wait_until("the unsent responses", WAIT_TIMEOUT, || {
        Ok((unsent()? >= UNREAD as f64 * 0.5 * MIB).then_some(()))
    })
    .with_context(|| format!("{:?}", memory(&node)))?;
    let (parts, named, resident) = memory(&node)?;
    let text =
        format!("resident {:.1} MiB, named {:.1} MiB: {parts:?}", resident / MIB, named / MIB);
    ensure!(unsent()? <= UNREAD as f64 * 1.5 * MIB, "{text}");
    ensure!(resident - resident_before <= UNREAD as f64 * UNREAD_RESIDENT_MAX, "{text}");
    drop(open);
    wait_until("the memory to be released", WAIT_TIMEOUT, || Ok((unsent()? == 0.0).then_some(())))
        .with_context(|| format!("{:?}", memory(&node)))
}
