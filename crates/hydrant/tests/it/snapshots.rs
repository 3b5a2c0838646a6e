//! Snapshots that a node serves, as a validator does, and a node that follows from one in one command.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_client::{Client, Endpoint};
use query::LedgerConfig;
use serde_json::{Value, json};
use snapshot_solana::Progress;
use solana_keypair::Keypair;
use solana_pubkey::Pubkey;
use solana_signer::Signer;
use testkit::json_rpc_client::JsonRpcClient;
use testkit::node::Node;
use testkit::raw_http_client::connect_stream_from;

use crate::follower::{FollowedDev, follow, wait_until_healthy};
use crate::node::start_node;
use crate::observability::metrics;
use crate::raw_http::{self, get_text};
use crate::world::wait_until;

/// No step takes this long, however slow the machine is.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Accounts of random bytes, so that an archive is larger than the buffers of a socket.
const LARGE_ACCOUNTS: u8 = 3;
const LARGE_BYTES: usize = 8 << 20;
const DOWNLOADS_MAX: usize = snapshot_server::DOWNLOADS_MAX;
const CLIENT_DOWNLOADS_MAX: usize = snapshot_server::CLIENT_DOWNLOADS_MAX;

/// Status, a header and the body of a response.
fn exchange(
    node: &Node,
    method: &str,
    path: &str,
    header: &str,
) -> Result<(u16, Option<String>, Vec<u8>)> {
    let mut client = Client::open(node.rpc)?;
    let request = Endpoint::from(node.rpc).request(method, path, None);
    let response = client.exchange(&request)?;
    let header = response.header(header).map(str::to_owned);
    Ok((response.status, header, response.body.to_vec()))
}

/// The path of the newest archive.
pub(crate) fn newest(node: &Node) -> Result<String> {
    let (status, location, _) = exchange(node, "GET", "/snapshot.tar.bz2", "location")?;
    ensure!(status == 303, "HTTP {status}");
    location.context("where to")
}

fn call(node: &Node, method: &str, params: Value) -> Result<Value> {
    JsonRpcClient::open(node.rpc)?.call(method, params)
}

fn wait_for_slot(node: &Node, commitment: &str, slot: u64) -> Result<()> {
    let config = json!([{ "commitment": commitment }]);
    wait_until("a slot", TIMEOUT, || {
        let found = call(node, "getSlot", config.clone())?.as_u64();
        Ok(found.filter(|found| *found >= slot))
    })
    .map(drop)
}

#[test]
fn a_ledger_serves_a_snapshot_of_its_newest_final_block() -> Result<()> {
    let node = start_node(&["--slot-ms", "20", "--finalize-after", "4"])?;
    let refused = call(&node, "getHighestSnapshotSlot", json!([])).err().context("no snapshot")?;
    ensure!(format!("{refused:#}").contains("-32008"), "{refused:#}");
    wait_for_slot(&node, "finalized", 3)?;
    let path = newest(&node)?;
    let highest = call(&node, "getHighestSnapshotSlot", json!([]))?;
    let slot = highest["full"].as_u64().context("a slot")?;
    ensure!(
        path.starts_with(&format!("/snapshot-{slot}-")) && path.ends_with(".tar.zst"),
        "{path}"
    );
    ensure!(highest["incremental"].is_null(), "{highest}");
    let (status, length, _) = exchange(&node, "HEAD", &path, "content-length")?;
    let length: usize = length.context("a length")?.parse()?;
    ensure!(status == 200, "HTTP {status}");
    let (status, _, archive) = exchange(&node, "GET", &path, "content-length")?;
    ensure!(status == 200 && archive.len() == length, "HTTP {status}, {} bytes", archive.len());
    let dir = tempfile::tempdir()?;
    let file = dir.path().join(path.trim_start_matches('/'));
    std::fs::write(&file, archive)?;
    let limits = LedgerConfig::new(100_000);
    let loaded = snapshot_ledger::load_snapshot(&limits, &file, None, 1, &Progress::default())?;
    let bank = &loaded.snapshot().bank;
    ensure!(bank.slot == slot && bank.epoch_stakes.len() == 2, "{bank:?}");
    ensure!(bank.epoch_stakes.iter().all(|it| !it.voters.is_empty()), "{:?}", bank.epoch_stakes);
    for (method, path, expected) in [
        ("GET", "/snapshot-1-1111.tar.zst", 404),
        ("GET", "/snapshot-../../etc/passwd", 404),
        ("GET", "/incremental-snapshot.tar.bz2", 404),
        ("POST", "/snapshot.tar.bz2", 405),
    ] {
        let (status, ..) = exchange(&node, method, path, "allow")?;
        ensure!(status == expected, "{method} {path}: HTTP {status}");
    }
    // The next one is made once this one is old, and the one before is still there.
    wait_for_slot(&node, "finalized", slot + 40)?;
    let next = wait_until("another snapshot", TIMEOUT, || {
        Ok(Some(newest(&node)?).filter(|next| *next != path))
    })?;
    for path in [&next, &path] {
        let (status, ..) = exchange(&node, "HEAD", path, "content-length")?;
        ensure!(status == 200, "{path}: HTTP {status}");
    }
    let metrics = metrics(&node)?;
    ensure!(
        metrics.contains("hydrant_snapshot_events_total{event=\"downloaded\"} 1\n"),
        "{metrics}"
    );
    Ok(())
}

/// A ledger with accounts that do not compress, and whose clients must read within half a second.
fn start_large(dir: &std::path::Path) -> Result<Node> {
    let mut rng = fastrand::Rng::with_seed(7);
    let mut args = Vec::new();
    for number in 0..LARGE_ACCOUNTS {
        let data: Vec<u8> = std::iter::repeat_with(|| rng.u8(..)).take(LARGE_BYTES).collect();
        let pubkey = Pubkey::new_from_array([number + 1; 32]).to_string();
        let account = json!({
            "pubkey": pubkey,
            "account": {
                "lamports": 100_000_000_000_u64,
                "data": [STANDARD.encode(data), "base64"],
                "owner": "11111111111111111111111111111111",
                "executable": false,
                "rentEpoch": 0,
            },
        });
        let path = dir.join(format!("{number}.json"));
        std::fs::write(&path, account.to_string())?;
        args.extend(["--account".to_owned(), pubkey, path.display().to_string()]);
    }
    let config = dir.join("config.toml");
    std::fs::write(&config, "[rpc]\nwrite_timeout_ms = 500\n")?;
    args.extend(["--config".to_owned(), config.display().to_string()]);
    args.extend(["--slot-ms", "20", "--finalize-after", "4"].map(str::to_owned));
    start_node(&args.iter().map(String::as_str).collect::<Vec<_>>())
}

/// A download of a client that reads no more than the status.
pub(crate) fn download_silently(
    node: &Node,
    ip: [u8; 4],
    path: &str,
) -> Result<(TcpStream, String)> {
    let mut socket = connect_stream_from(ip, node.rpc);
    write!(socket, "GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")?;
    let mut status = [0; 12];
    socket.read_exact(&mut status)?;
    Ok((socket, String::from_utf8(status[9..].to_vec())?))
}

#[test]
fn clients_that_do_not_read_a_snapshot_are_disconnected_and_delay_no_other() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let node = start_large(dir.path())?;
    wait_for_slot(&node, "finalized", 1)?;
    let path = newest(&node)?;
    let mut silent = Vec::new();
    let mut download = |client: usize| {
        let ip = [127, 0, 0, 2 + u8::try_from(client)?];
        let (socket, status) = download_silently(&node, ip, &path)?;
        ensure!(status == "200", "HTTP {status} to {ip:?}");
        silent.push(socket);
        anyhow::Ok(())
    };
    (0..CLIENT_DOWNLOADS_MAX).try_for_each(|_| download(0))?;
    // A client has its share, and another one downloads meanwhile.
    let (_, status) = download_silently(&node, [127, 0, 0, 2], &path)?;
    ensure!(status == "429", "HTTP {status}");
    let (status, _, archive) = exchange(&node, "GET", &path, "content-length")?;
    ensure!(status == 200 && archive.len() > usize::from(LARGE_ACCOUNTS) * LARGE_BYTES);
    (CLIENT_DOWNLOADS_MAX..DOWNLOADS_MAX)
        .try_for_each(|nth| download(nth / CLIENT_DOWNLOADS_MAX))?;
    let (status, retry_after, _) = exchange(&node, "GET", &path, "retry-after")?;
    ensure!((status, retry_after.as_deref()) == (503, Some("5")), "HTTP {status}");
    // Other requests are answered meanwhile.
    call(&node, "getHealth", json!([]))?;
    let aborted = format!("hydrant_snapshot_events_total{{event=\"aborted\"}} {DOWNLOADS_MAX}\n");
    wait_until("the downloads end", TIMEOUT, || {
        Ok(metrics(&node)?.contains(&aborted).then_some(()))
    })?;
    let text = metrics(&node)?;
    for metric in ["hydrant_snapshot_downloads 0\n", "event=\"refused\"} 2\n"] {
        ensure!(text.contains(metric), "{metric} is not in {text}");
    }
    for mut socket in silent {
        // The bytes that were sent before can be read, and they are not the whole archive.
        let mut read = Vec::new();
        let _ = socket.read_to_end(&mut read);
        ensure!(read.len() < usize::from(LARGE_ACCOUNTS) * LARGE_BYTES, "{}", read.len());
    }
    let (status, _, archive) = exchange(&node, "GET", &path, "content-length")?;
    ensure!(status == 200 && archive.len() > usize::from(LARGE_ACCOUNTS) * LARGE_BYTES);
    Ok(())
}

#[test]
fn requests_have_few_archives_made_and_pages_of_other_sites_none() -> Result<()> {
    let node = start_node(&["--slot-ms", "20", "--finalize-after", "4"])?;
    wait_for_slot(&node, "finalized", 3)?;
    for header in ["Sec-Fetch-Site: cross-site", "Origin: https://evil.example"] {
        let head = format!("Host: {}\r\n{header}\r\n", node.rpc);
        let text = get_text("/snapshot.tar.bz2", &head);
        let refused = raw_http::exchange(raw_http::connect(node.rpc)?, &text)?;
        ensure!(refused.starts_with("HTTP/1.1 403 "), "{refused}");
    }
    ensure!(metrics(&node)?.contains("hydrant_snapshot_events_total{event=\"made\"} 0\n"));
    for _ in 0..7 {
        let newest = newest(&node)?;
        let slot = newest.split('-').nth(1).context("a slot")?.parse::<u64>()?;
        // The next one would be due, and more so each time.
        wait_for_slot(&node, "finalized", slot + 20)?;
        let newest_slot = call(&node, "getSlot", json!([{ "commitment": "finalized" }]))?;
        wait_for_slot(&node, "finalized", newest_slot.as_u64().context("a slot")? + 20)?;
    }
    let text = metrics(&node)?;
    let event = |event: &str| {
        let start = format!("hydrant_snapshot_events_total{{event=\"{event}\"}} ");
        let value = text.lines().find_map(|line| line.strip_prefix(&start));
        Ok::<u64, anyhow::Error>(value.context("an event")?.parse()?)
    };
    // Four, and another one if all of this took a minute.
    ensure!(event("made")? <= 5 && event("made")? + event("limited")? == 7, "{text}");
    Ok(())
}

#[test]
fn a_node_follows_a_ledger_by_one_command_and_calls_it_for_what_only_it_knows() -> Result<()> {
    let flags =
        ["--slot-ms", "50", "--finalize-after", "8", "--faucet-per-request-sol-cap", "1000"];
    let nodes = FollowedDev::start(&flags)?;
    let dev = &nodes.dev;
    let follower = &nodes.follower;
    let verified = || {
        let verification = call(follower, "hydrantGetVerification", json!([]))?;
        Ok(verification["verifiedSlot"].as_u64())
    };
    let first = wait_until("a verified slot", TIMEOUT, verified)?;
    wait_until("more of them", TIMEOUT, || Ok(verified()?.filter(|slot| *slot > first + 5)))?;
    // The airdrop is made by the ledger, and seen by the follower.
    let wallet = Keypair::new().pubkey().to_string();
    let signature = call(follower, "requestAirdrop", json!([wallet, 5_000_000_000_u64]))?;
    let config = json!({ "commitment": "confirmed" });
    wait_until("the lamports", TIMEOUT, || {
        let balance = call(follower, "getBalance", json!([wallet, config]))?;
        Ok((balance["value"] == 5_000_000_000_u64).then_some(()))
    })?;
    let status = call(follower, "getSignatureStatuses", json!([[signature]]))?;
    ensure!(status["value"][0]["err"].is_null() && status["value"][0]["slot"].is_u64(), "{status}");
    // An error of the ledger is passed on.
    let refused = |node: &Node| {
        let params = json!([wallet, u64::MAX]);
        let refused = call(node, "requestAirdrop", params).err().context("it is too much")?;
        anyhow::Ok(format!("{refused:#}"))
    };
    ensure!(refused(follower)? == refused(dev)?, "{}", refused(follower)?);
    let highest = |node: &Node| call(node, "getHighestSnapshotSlot", json!([]));
    ensure!(highest(follower)? == highest(dev)?, "{}", highest(follower)?);
    let text = metrics(follower)?;
    ensure!(text.contains("hydrant_upstream_calls_total{result=\"refused\"} "), "{text}");
    ensure!(text.contains("hydrant_upstream_pending 0\n"), "{text}");
    Ok(())
}

#[test]
fn a_transaction_before_the_snapshot_is_known_to_a_follower() -> Result<()> {
    let dev = start_node(&["--slot-ms", "50", "--finalize-after", "4"])?;
    let wallet = Keypair::new().pubkey().to_string();
    let signature = call(&dev, "requestAirdrop", json!([wallet, 1_000_000_000_u64]))?;
    let config = json!({ "encoding": "base64", "commitment": "confirmed" });
    let sent = wait_until("the transaction", TIMEOUT, || {
        let found = call(&dev, "getTransaction", json!([signature, config]))?;
        Ok((!found.is_null()).then_some(found))
    })?;
    let slot = sent["slot"].as_u64().context("a slot")?;
    wait_for_slot(&dev, "finalized", slot + 1)?;
    let dir = tempfile::tempdir()?;
    let follower = follow(&dev)?.args(["--snapshot-dir"]).args([dir.path()]).start()?;
    let first = call(&follower, "getFirstAvailableBlock", json!([]))?;
    ensure!(first.as_u64() > Some(slot), "{first}");
    let status = call(&follower, "getSignatureStatuses", json!([[signature]]))?;
    let status = &status["value"][0];
    ensure!(status["slot"] == slot && status["confirmationStatus"] == "finalized", "{status}");
    let simulated = |node: &Node| {
        let config = json!({ "encoding": "base64" });
        let params = json!([sent["transaction"][0], config]);
        anyhow::Ok(call(node, "simulateTransaction", params)?["value"]["err"].clone())
    };
    ensure!(simulated(&follower)? == "AlreadyProcessed", "{}", simulated(&follower)?);
    wait_until_healthy(&follower)?;
    let params = json!([sent["transaction"][0], { "encoding": "base64" }]);
    let refused = call(&follower, "sendTransaction", params).err().context("it was executed")?;
    ensure!(format!("{refused:#}").contains("already been processed"), "{refused:#}");
    Ok(())
}
