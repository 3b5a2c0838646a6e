//! The node's memory by part, compared with its resident memory.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;
use solana_pubkey::Pubkey;
use solana_signature::Signature;
use tempfile::TempDir;
use testkit::node::Node;

use crate::node::start_node;
use crate::world::{World, wait_until};

const ACCOUNTS: u32 = 20_000;
const MIB: f64 = 1_048_576.0;
const WAIT_TIMEOUT: Duration = Duration::from_secs(120);

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
type Parts = Vec<(String, f64)>;

/// The parts, their sum, and the resident size.
fn memory(node: &Node) -> Result<(Parts, f64, f64)> {
    let text = crate::observability::metrics(node)?;
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

/// Bytes that no part accounts for, of a node that has run for some slots.
fn unnamed(node: &Node) -> Result<(f64, String)> {
    let world = World::new(node);
    let slot = world.rpc.get_slot()?;
    world.slot_after(slot + 20)?;
    let (parts, sum, resident) = memory(node)?;
    let text = format!("resident {:.1} MiB, named {:.1} MiB: {parts:?}", resident / MIB, sum / MIB);
    ensure!((resident - sum).abs() <= 0.2 * resident, "more than 20 % is unaccounted for: {text}");
    let start = parts.iter().find(|(part, _)| part == "start").context("the part of the start")?;
    Ok((resident - sum + start.1, text))
}

#[test]
fn resident_memory_is_accounted_for_and_an_account_directory_leaves_only_its_accounts() -> Result<()>
{
    let files = TempDir::new()?;
    write_accounts(files.path())?;
    let flags = ["--slot-ms", "50"];
    let (without, text) = unnamed(&start_node(&flags)?)?;
    let dir = files.path().display().to_string();
    let node = start_node(&[&flags[..], &["--account-dir", &dir]].concat())?;
    let (with, text_with) = unnamed(&node)?;
    // A second copy of 20,000 accounts, as a list and in the VM, would be 20 MiB.
    ensure!(with - without < 8.0 * MIB, "without accounts {text}\nwith them {text_with}");
    Ok(())
}

#[test]
fn blocks_are_retained_for_resuming_clients_only_if_there_are_any() -> Result<()> {
    let node = start_node(&["--slot-ms", "20"])?;
    let resume = || -> Result<f64> {
        let parts = memory(&node)?.0;
        let part = parts.iter().find(|(part, _)| part == "resume");
        part.map(|(_, bytes)| *bytes).context("the part `resume`")
    };
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

#[test]
fn memory_of_open_connections_is_reported_and_released() -> Result<()> {
    const CONNECTIONS: usize = 150;
    const BODIES: usize = 300;
    const BODY_BYTES: usize = 40_000;
    const MESSAGES: usize = 60;
    const MESSAGE_BYTES: usize = 300_000;
    const WAITERS: usize = 100;
    let files = TempDir::new()?;
    let config = files.path().join("hydrant.toml");
    // No timeout ends before the measurement, however slow the machine is.
    fs::write(
        &config,
        "[rpc]\nbody_timeout_ms = 600000\nheader_timeout_ms = 600000\nwrite_timeout_ms = 600000\n\
         [pubsub]\nmessage_timeout_ms = 600000\n",
    )?;
    let node = start_node(&["--slot-ms", "50", "--config", &config.display().to_string()])?;
    let address = node.rpc.to_string();
    let (_, before, resident_before) = memory(&node)?;
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 50000\r\n\r\n";
    let body = [head.as_bytes(), &[b' '; BODY_BYTES]].concat();
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
    for at in 0..WAITERS {
        let mut signature = [1; 64];
        signature[0] = at as u8;
        let signature = Signature::from(signature);
        let wait = format!(
            "GET /v1/transactions/{signature}/status?waitMs=60000 HTTP/1.1\r\nHost: a\r\n\r\n"
        );
        open.push(open_connection(&address, wait.as_bytes())?);
    }
    let least = BODIES * BODY_BYTES + MESSAGES * MESSAGE_BYTES + open.len() * 20_480;
    let least = 0.95 * least as f64;
    let grown = || {
        let (parts, named, resident) = memory(&node)?;
        Ok::<_, anyhow::Error>((parts, named - before, resident - resident_before))
    };
    wait_until("the memory in use, by name", WAIT_TIMEOUT, || {
        Ok((grown()?.1 >= least).then_some(()))
    })
    .with_context(|| format!("{:?}", grown()))?;
    let (parts, named, resident) = grown()?;
    // Tasks of connections are larger in a build for tests, and the allocator retains pages. An unbounded buffer would
    // be far more.
    ensure!(
        resident <= 1.4 * named,
        "resident {:.1} MiB more, named {:.1} MiB more: {parts:?}",
        resident / MIB,
        named / MIB
    );
    drop(open);
    wait_until("the memory to be released", WAIT_TIMEOUT, || {
        Ok((grown()?.1 < 0.2 * least).then_some(()))
    })
    .with_context(|| format!("{:?}", grown()))
}
