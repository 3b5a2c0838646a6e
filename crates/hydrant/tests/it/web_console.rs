//! The console over HTTP: the requests that get it, its headers, and that every other request is served as before. Its scripts run
//! in a browser (`clients::console_flow`).

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http_client::{Client, Endpoint};
use serde_json::json;
use testkit::node::Node;

use crate::follower::FollowedDev;
use crate::node::start_node;
use crate::world::wait_until;

/// The header that browsers send when they load a page.
const BROWSER: (&str, &str) =
    ("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8");

/// Time limit of a follower to verify its first bank.
const VERIFIED_TIMEOUT: Duration = Duration::from_secs(60);

/// A response of the console.
struct Received {
    status: u16,
    headers: Vec<(&'static str, Option<String>)>,
    text: String,
}

/// The headers that these tests read.
const HEADERS: &[&str] = &[
    "allow",
    "cache-control",
    "content-encoding",
    "content-security-policy",
    "content-type",
    "etag",
    "referrer-policy",
    "retry-after",
    "vary",
    "x-content-type-options",
];

impl Received {
    fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(it, _)| *it == name);
        found.and_then(|(_, value)| value.as_deref()).unwrap_or_default()
    }
}

fn send(node: &Node, method: &str, path: &str, headers: &[(&str, &str)]) -> Result<Received> {
    let request = Endpoint::from(node.rpc).request_with(method, path, headers, None);
    let mut client = Client::open(node.rpc)?;
    let response = client.exchange(&request)?;
    let headers = HEADERS.iter().map(|name| (*name, response.header(name).map(str::to_owned)));
    Ok(Received {
        status: response.status,
        headers: headers.collect(),
        text: String::from_utf8_lossy(response.body).into_owned(),
    })
}

/// The paths in `src` and `href` of the page that are files of the console.
fn files(page: &str) -> Vec<&str> {
    let values = page.split(['"']).filter(|value| value.starts_with("/console/"));
    let mut files: Vec<_> = values.collect();
    files.sort_unstable();
    files.dedup();
    files
}

#[test]
fn a_browser_gets_the_page_and_other_clients_what_they_got_before() -> Result<()> {
    let node = start_node(&[])?;
    let page = send(&node, "GET", "/", &[BROWSER])?;
    assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"));
    ensure!(page.text.contains("<dt>Health</dt><dd>ok</dd>"), "{}", page.text);
    ensure!(page.text.contains("data-ledger=\"local\" data-faucet=\"true\""), "{}", page.text);
    let head = send(&node, "HEAD", "/", &[BROWSER])?;
    assert_eq!((head.status, head.text.as_str()), (200, ""));
    assert_eq!(head.header("content-type"), "text/html; charset=utf-8");
    // As before there was a page.
    for (method, headers) in [
        ("GET", &[][..]),
        ("GET", &[("Accept", "*/*")]),
        ("GET", &[("Accept", "application/json")]),
        ("HEAD", &[]),
        ("PUT", &[BROWSER]),
        ("DELETE", &[BROWSER]),
    ] {
        let refused = send(&node, method, "/", headers)?;
        assert_eq!(refused.status, 405, "{method} {headers:?}");
        assert_eq!(refused.header("content-security-policy"), "", "{method} {headers:?}");
    }
    let options = send(&node, "OPTIONS", "/", &[BROWSER])?;
    assert_eq!((options.status, options.header("allow")), (200, "OPTIONS, POST"));
    assert_eq!(send(&node, "GET", "/other", &[BROWSER])?.status, 405);
    let mut client = Client::open(node.rpc)?;
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "getHealth" }).to_string();
    let call = Endpoint::from(node.rpc).request_with("POST", "/", &[BROWSER], Some(&body));
    let response = client.exchange(&call)?;
    let text = String::from_utf8_lossy(response.body).into_owned();
    assert_eq!(text.trim_end(), r#"{"jsonrpc":"2.0","result":"ok","id":1}"#);
    Ok(())
}

#[test]
fn the_page_and_its_files_are_sent_once() -> Result<()> {
    let node = start_node(&["--slot-ms", "60000"])?;
    let page = send(&node, "GET", "/", &[BROWSER])?;
    assert_eq!(page.header("cache-control"), "no-cache");
    ensure!(page.header("vary").contains("accept"), "{}", page.header("vary"));
    let etag = page.header("etag").to_owned();
    let same = send(&node, "GET", "/", &[BROWSER, ("If-None-Match", &etag)])?;
    assert_eq!((same.status, same.text.as_str()), (304, ""), "no slot has passed");
    let files = files(&page.text);
    ensure!(files.len() > 20, "{files:?}");
    let mut bytes = 0;
    for file in files {
        let plain = send(&node, "GET", file, &[])?;
        assert_eq!(plain.status, 200, "{file}");
        assert_eq!(plain.header("cache-control"), "public, max-age=31536000, immutable", "{file}");
        assert_eq!(plain.header("x-content-type-options"), "nosniff", "{file}");
        let request = &[("Accept-Encoding", "gzip")];
        let mut client = Client::open(node.rpc)?;
        let request = Endpoint::from(node.rpc).request_with("GET", file, request, None);
        let sent = client.exchange(&request)?;
        assert_eq!(sent.header("content-encoding"), Some("gzip"), "{file}");
        bytes += sent.body.len();
        let etag = plain.header("etag");
        assert_eq!(send(&node, "GET", file, &[("If-None-Match", etag)])?.status, 304, "{file}");
        assert_eq!(send(&node, "HEAD", file, &[])?.text, "", "{file}");
        assert_eq!(send(&node, "PUT", file, &[])?.status, 405, "{file}");
    }
    ensure!(bytes < 60 * 1024, "{bytes} bytes");
    assert_eq!(send(&node, "GET", "/console/0/app.js", &[])?.status, 404);
    Ok(())
}

#[test]
fn the_policy_of_the_page_allows_only_the_files_of_the_node() -> Result<()> {
    let node = start_node(&[])?;
    let page = send(&node, "GET", "/", &[BROWSER])?;
    let policy = page.header("content-security-policy");
    for rule in [
        "default-src 'none'; ",
        "script-src 'self'; ",
        "style-src 'self'; ",
        "connect-src 'self'; ",
        "form-action 'none'; ",
        "frame-ancestors 'none'; ",
        "require-trusted-types-for 'script'; ",
        "trusted-types 'none'",
    ] {
        ensure!(policy.contains(rule), "{rule} is not in {policy}");
    }
    ensure!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
    assert_eq!(page.header("referrer-policy"), "no-referrer");
    // Other pages of the node have no such policy, as before.
    assert_eq!(send(&node, "GET", "/v1/", &[BROWSER])?.header("content-security-policy"), "");
    Ok(())
}

#[test]
fn a_node_without_the_console_refuses_a_browser_as_before() -> Result<()> {
    let node = start_node(&["--no-console"])?;
    assert_eq!(send(&node, "GET", "/", &[BROWSER])?.status, 405);
    assert_eq!(send(&node, "GET", "/console/", &[BROWSER])?.status, 405);
    assert_eq!(send(&node, "GET", "/v1/", &[BROWSER])?.status, 200);
    Ok(())
}

#[test]
fn a_client_at_its_limit_gets_no_page() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let config = dir.path().join("limit.toml");
    // A page of some kilobytes is paid off in half a minute.
    std::fs::write(&config, "[pool.clients]\nbytes_per_s = 100\n")?;
    let node = start_node(&["--config", &config.display().to_string()])?;
    assert_eq!(send(&node, "HEAD", "/", &[BROWSER])?.status, 200, "nothing is sent");
    assert_eq!(send(&node, "GET", "/", &[BROWSER])?.status, 200);
    let refused = send(&node, "GET", "/", &[BROWSER])?;
    assert_eq!(refused.status, 429);
    ensure!(refused.text.contains("pool.clients.bytes_per_s"), "{}", refused.text);
    let wait_s: u64 = refused.header("retry-after").parse()?;
    ensure!(wait_s > 1, "{wait_s}");
    Ok(())
}

#[test]
fn a_followers_page_says_how_far_the_chain_is_verified() -> Result<()> {
    let nodes = FollowedDev::start(&["--slot-ms", "100"])?;
    let page = send(&nodes.follower, "GET", "/", &[BROWSER])?;
    ensure!(page.text.contains("data-ledger=\"followed\" data-faucet=\"false\""), "{}", page.text);
    wait_until("a verified slot", VERIFIED_TIMEOUT, || {
        let page = send(&nodes.follower, "GET", "/", &[BROWSER])?.text;
        let heading = "<dt>Newest consistent slot</dt><dd>";
        let (_, verified) = page.split_once(heading).context("it is there")?;
        let (slot, _) = verified.split_once('<').context("the element ends")?;
        Ok(slot.parse::<u64>().ok().filter(|slot| *slot > 0))
    })?;
    let level = "<dt>Verification level</dt><dd>consistent</dd>";
    ensure!(page.text.contains(level), "{}", page.text);
    ensure!(!page.text.contains("#/faucet"), "a followed chain has no faucet");
    Ok(())
}
