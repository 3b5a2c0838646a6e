//! The memory of 10,000 keys: heap bytes of their table in this process, and resident memory of a node.
//!
//! Shape: each key is used once, with a method that has a limit of its own. The node starts with one key, reads the file
//! with all of them, and serves the last. Its difference has what reading the file leaves behind, too.

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use api_keys::{ApiKeys, Caller, Charge, Credentials, KeyFile};
use http_client::{Connection, Endpoint};

use super::key_text::entry;
use crate::index::heap;
use crate::{node, threshold};

const KEYS: usize = 10_000;
const KEYS_TOY: usize = 100;
/// "10,000 keys cost less than 4 MB".
const MEGABYTES_MAX: f64 = 4.0;
/// Noon of 2026-11-24, in seconds since 1970.
const NOON: u64 = 1_795_478_400 + 43_200;
/// Time limit of the node to read the file again.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(20);

pub(super) fn run(is_toy: bool) -> Result<()> {
    let count = if is_toy { KEYS_TOY } else { KEYS };
    let text = file(count);
    let heap_bytes = heap_bytes(&text, count)?;
    let resident = resident_growth(&text, count)?;
    println!(
        "{count} keys: {heap_bytes} bytes of heap, {} each; a node that reads them again grows by {:.2} MB resident",
        heap_bytes / count,
        resident as f64 / 1e6
    );
    threshold::at_most("keys_heap", heap_bytes as f64 / 1e6, "MB", MEGABYTES_MAX);
    Ok(())
}

/// A file of keys, in a tier with a limit for each of the methods that it may name.
fn file(count: usize) -> String {
    let mut text = "[tiers.t]\nrequests_per_s = 10\nrequests_per_day = 1000\n".to_owned();
    for method in 0..16 {
        // Writing to a string does not fail.
        let _ = write!(text, "[tiers.t.methods.method{method}]\nrequests_per_s = 1\n");
    }
    (0..count).for_each(|at| text += &entry(&format!("key-{at}"), &key(at), "t"));
    text
}

fn key(at: usize) -> String {
    format!("hyd_key-number-{at:08}")
}

/// Heap bytes of the table, after each key was used.
fn heap_bytes(text: &str, count: usize) -> Result<usize> {
    let before = heap::now();
    let keys = ApiKeys::new(KeyFile::parse(text)?, NOON);
    for at in 0..count {
        let key = key(at);
        let credentials = Credentials { key: Some(key.as_bytes()), ..Credentials::default() };
        let found = keys.authenticate(&credentials, 1, Duration::ZERO)?;
        let caller = Caller::Key(found.context("a key")?);
        keys.admit(caller, Charge::call(1), std::iter::once("method3"), Duration::ZERO)?;
    }
    let bytes = heap::now().saturating_sub(before);
    ensure!(keys.keys() == count, "{} keys of {count}", keys.keys());
    Ok(bytes)
}

/// Resident bytes by which a node grows as it reads the file.
fn resident_growth(text: &str, count: usize) -> Result<u64> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("keys.toml");
    std::fs::write(&path, format!("[tiers.t]\n{}", entry("first", "the-first-key", "t")))?;
    let node = node::dev(&["--api-keys", &path.to_string_lossy()])?.start()?;
    wait_until_served(node.rpc, "the-first-key")?;
    let before = node.resident_bytes()?;
    replace(&path, text)?;
    wait_until_served(node.rpc, &key(count - 1))?;
    Ok(node.resident_bytes()?.saturating_sub(before))
}

/// Replaces a file by a rename.
fn replace(path: &Path, text: &str) -> Result<()> {
    let next = path.with_extension("next");
    std::fs::write(&next, text)?;
    Ok(std::fs::rename(&next, path)?)
}

fn wait_until_served(rpc: SocketAddr, key: &str) -> Result<()> {
    let endpoint = Endpoint::from(rpc);
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"getHealth"}"#;
    let request = endpoint.request_with("POST", "/", &[("x-api-key", key)], Some(body));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let served = async {
            loop {
                // A refusal closes its connection.
                let mut connection = Connection::open(endpoint.clone()).await?;
                if connection.exchange(&request).await?.status == 200 {
                    return Ok::<(), anyhow::Error>(());
                }
                // Not more wrong keys a second than have responses of their own.
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        };
        match tokio::time::timeout(RELOAD_TIMEOUT, served).await {
            Ok(served) => served,
            Err(_) => bail!("the node did not read the keys within {RELOAD_TIMEOUT:?}"),
        }
    })
}
