//! API keys of a running node: over JSON-RPC, REST and gRPC, and when their file changes.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use http_client::{Client, Endpoint};
use serde_json::{Value, json};
use testkit::child_process::run_to_end;
use testkit::node::Node;
use tonic::Code;
use yellowstone_grpc_proto::geyser::geyser_client::GeyserClient;
use yellowstone_grpc_proto::geyser::{
    GetSlotRequest, SubscribeGossipRequest, SubscribeRequest, SubscribeRequestFilterSlots,
    SubscribeUpdate,
};

use crate::follower::{follow, wait_until_healthy};
use crate::node::{HYDRANT, start_node};
use crate::world::wait_until;

const WAIT: Duration = Duration::from_secs(30);

/// A key as `hydrant api-key new` creates it, and its entry.
pub(crate) fn new_key(name: &str, tier: &str) -> Result<(String, String)> {
    let args = ["api-key", "new", "--name", name, "--tier", tier];
    let created = run_to_end(Command::new(HYDRANT).args(args))?;
    ensure!(created.status.success(), "{}", String::from_utf8_lossy(&created.stderr));
    let text = String::from_utf8(created.stdout)?;
    let (key, entry) = text.split_once('\n').context("a line")?;
    ensure!(!entry.contains(key), "the entry has no key: {text}");
    Ok((key.to_owned(), entry.to_owned()))
}

/// Writes the file as an editor does: a reader never sees a part of it.
fn write(path: &Path, text: &str) -> Result<()> {
    let new = path.with_extension("new");
    fs::write(&new, text)?;
    Ok(fs::rename(new, path)?)
}

/// A node with keys, and the file.
struct World {
    node: Node,
    path: PathBuf,
    _dir: tempfile::TempDir,
}

impl World {
    fn start(file: &str, flags: &[&str]) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("keys.toml");
        write(&path, file)?;
        let keys = path.to_string_lossy();
        let node = start_node(&[&["--api-keys", &keys], flags].concat())?;
        Ok(Self { node, path, _dir: dir })
    }

    /// The status and the body of a request.
    fn request(
        &self,
        method: &str,
        path: &str,
        key: Option<&str>,
        body: Option<&str>,
    ) -> Result<(u16, String)> {
        let headers: Vec<_> = key.map(|key| ("x-api-key", key)).into_iter().collect();
        let request = Endpoint::from(self.node.rpc).request_with(method, path, &headers, body);
        let mut client = Client::open(self.node.rpc)?;
        let response = client.exchange(&request)?;
        Ok((response.status, String::from_utf8(response.body.to_vec())?))
    }

    fn call(&self, key: Option<&str>, method: &str) -> Result<(u16, Value)> {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method }).to_string();
        let (status, body) = self.request("POST", "/", key, Some(&body))?;
        Ok((status, serde_json::from_str(&body).with_context(|| body.clone())?))
    }

    fn grpc(&self) -> Result<SocketAddr> {
        self.node.grpc.context("it serves gRPC")
    }
}

fn with_token<T>(message: T, key: Option<&str>) -> Result<tonic::Request<T>> {
    let mut request = tonic::Request::new(message);
    if let Some(key) = key {
        request.metadata_mut().insert("x-token", key.parse()?);
    }
    Ok(request)
}

#[test]
fn keys_are_checked_on_every_interface_and_are_never_in_the_log() -> Result<()> {
    let (alice, alice_entry) = new_key("alice", "paid")?;
    let (bob, bob_entry) = new_key("bob", "small")?;
    let tiers = "[tiers.paid]\nmetrics = true\n[tiers.small]\nrequests_per_s = 1\nburst = 2\n\
                 grpc_streams = 0\ndeny = [\"getBlock\", \"getBlockTime\", \"getAccountInfo\"]\n";
    let file = format!("{tiers}{alice_entry}{bob_entry}");
    let world = World::start(&file, &["--slow-request-ms", "1"])?;
    ensure!(world.call(None, "getSlot")?.0 == 401);
    ensure!(world.call(Some(&alice), "getSlot")?.0 == 200);
    // A node behind its keys is still checked by a load balancer.
    ensure!(world.request("GET", "/health", None, None)?.0 == 200);

    let (status, body) = world.request("GET", "/v1/supply", None, None)?;
    ensure!(status == 401 && body.contains("\"unauthorized\""), "{status} {body}");
    let (status, body) =
        world.request("GET", &format!("/v1/supply?api-key={alice}"), None, None)?;
    ensure!(status == 200, "{status} {body}");
    let address = "/v1/accounts/11111111111111111111111111111111";
    let (status, body) = world.request("GET", address, Some(&bob), None)?;
    ensure!(status == 403 && body.contains("\"method_denied\""), "{status} {body}");
    let (status, _) = world.request("GET", address, Some(&alice), None)?;
    ensure!(status == 200, "{status}");
    let over = (0..20).map(|_| world.request("GET", "/v1/supply", Some(&bob), None));
    let statuses = over.map(|it| it.map(|(status, _)| status)).collect::<Result<Vec<_>>>()?;
    ensure!(statuses.contains(&429), "{statuses:?}");

    let grpc = world.grpc()?;
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        let mut client = GeyserClient::connect(format!("http://{grpc}")).await?;
        let slot = GetSlotRequest { commitment: Some(0) };
        for key in [None, Some("wrong")] {
            let refused = client.get_slot(with_token(slot, key)?).await.err().context("refused")?;
            ensure!(refused.code() == Code::Unauthenticated, "{refused}");
        }
        client.get_slot(with_token(slot, Some(&alice))?).await?;
        let requests = single_message_stream(SubscribeRequest::default());
        let refused = client.subscribe(with_token(requests, Some(&bob))?).await;
        let refused = refused.err().context("bob has no stream, or no rate")?;
        ensure!(refused.code() == Code::ResourceExhausted, "{refused}");
        Ok(())
    })?;

    let (status, metrics) = world.request("GET", "/metrics", Some(&alice), None)?;
    ensure!(status == 200 && metrics.contains("{key=\"alice\",class=\"light\"}"), "{metrics}");
    let log = world.node.log();
    for key in [&alice, &bob] {
        ensure!(!log.contains(&**key) && !metrics.contains(&**key), "a key is in {log} {metrics}");
    }
    Ok(())
}

/// A stream of one message that does not end.
fn single_message_stream<T: Send + 'static>(
    message: T,
) -> impl futures_util::Stream<Item = T> + Send + 'static {
    use futures_util::StreamExt;
    futures_util::stream::once(std::future::ready(message)).chain(futures_util::stream::pending())
}

#[test]
fn a_file_that_changes_is_read_again_and_ends_the_streams_of_removed_keys() -> Result<()> {
    let (alice, alice_entry) = new_key("alice", "t")?;
    let (bob, bob_entry) = new_key("bob", "t")?;
    let world = World::start(&format!("[tiers.t]\nmetrics = true\n{alice_entry}"), &[])?;
    ensure!(world.call(Some(&alice), "getSlot")?.0 == 200);
    ensure!(world.call(Some(&bob), "getSlot")?.0 == 401);

    let grpc = world.grpc()?;
    let runtime = tokio::runtime::Runtime::new()?;
    let mut updates = runtime.block_on(async {
        let mut client = GeyserClient::connect(format!("http://{grpc}")).await?;
        let slots = [("s".to_owned(), SubscribeRequestFilterSlots::default())].into();
        let request = SubscribeRequest { slots, ..SubscribeRequest::default() };
        let requests = single_message_stream(request);
        let mut updates = client.subscribe(with_token(requests, Some(&alice))?).await?.into_inner();
        let first: Option<SubscribeUpdate> = updates.message().await?;
        first.context("an update")?;
        anyhow::Ok(updates)
    })?;

    // A file that is not valid changes nothing.
    write(&world.path, "garbage")?;
    wait_until("a failed reload", WAIT, || {
        let (_, metrics) = world.request("GET", "/metrics", Some(&alice), None)?;
        Ok(metrics.contains("hydrant_api_key_reloads_total{result=\"failed\"} 1\n").then_some(()))
    })?;
    ensure!(world.node.log().contains("the API keys are unchanged"), "{}", world.node.log());

    write(&world.path, &format!("[tiers.t]\n{bob_entry}"))?;
    wait_until("the reload", WAIT, || {
        Ok((world.call(Some(&bob), "getSlot")?.0 == 200).then_some(()))
    })?;
    ensure!(world.call(Some(&alice), "getSlot")?.0 == 401);
    let ended = runtime.block_on(async {
        let ended = async {
            loop {
                if let Err(status) = updates.message().await {
                    return status;
                }
            }
        };
        tokio::time::timeout(WAIT, ended).await
    })?;
    ensure!(ended.code() == Code::Unauthenticated, "{ended}");
    Ok(())
}

#[test]
fn gossip_is_a_stream_of_its_key_and_ends_with_it() -> Result<()> {
    let (alice, entry) = new_key("alice", "t")?;
    let (bob, bob_entry) = new_key("bob", "t")?;
    let tier = "[tiers.t]\ngrpc_streams = 1\n";
    let world = World::start(&format!("{tier}{entry}{bob_entry}"), &[])?;
    let grpc = world.grpc()?;
    let runtime = tokio::runtime::Runtime::new()?;
    let mut gossip = runtime.block_on(async {
        let mut client = GeyserClient::connect(format!("http://{grpc}")).await?;
        let request = SubscribeGossipRequest::default();
        let mut gossip =
            client.subscribe_gossip(with_token(request, Some(&alice))?).await?.into_inner();
        gossip.message().await?.context("the nodes")?;
        let second = client.subscribe_gossip(with_token(request, Some(&alice))?).await;
        let refused = second.err().context("a key with one stream has two")?;
        ensure!(refused.code() == Code::ResourceExhausted, "{refused}");
        ensure!(refused.message().contains("tiers.grpc_streams"), "{refused}");
        let requests = single_message_stream(SubscribeRequest::default());
        let other_kind = client.subscribe(with_token(requests, Some(&alice))?).await;
        ensure!(other_kind.is_err(), "streams of both kinds count together");
        // Another key has a stream, and a closed one is free again.
        drop(client.subscribe_gossip(with_token(request, Some(&bob))?).await?);
        anyhow::Ok(gossip)
    })?;
    let reopened = || {
        let subscribed = runtime.block_on(async {
            let mut client = GeyserClient::connect(format!("http://{grpc}")).await?;
            let request = with_token(SubscribeGossipRequest::default(), Some(&bob))?;
            anyhow::Ok(client.subscribe_gossip(request).await?)
        });
        Ok(subscribed.ok())
    };
    drop(wait_until("the stream that was closed", WAIT, reopened)?);

    write(&world.path, &format!("{tier}{bob_entry}"))?;
    let ended = runtime.block_on(async {
        let ended = async {
            loop {
                match gossip.message().await {
                    Ok(Some(_)) => {}
                    Ok(None) => return Err("the stream ended without a status"),
                    Err(status) => return Ok(status),
                }
            }
        };
        tokio::time::timeout(WAIT, ended).await
    })?;
    let ended = ended.map_err(anyhow::Error::msg)?;
    ensure!(ended.code() == Code::Unauthenticated, "{ended}");
    Ok(())
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a rate is measured in real time")]
fn wrong_keys_over_grpc_are_delayed_and_a_right_one_is_served() -> Result<()> {
    const CALLS: u64 = 1_000;
    let (alice, entry) = new_key("alice", "t")?;
    let world = World::start(&format!("[tiers.t]\nmetrics = true\n{entry}"), &[])?;
    let count = |name: &str| -> Result<u64> {
        let (_, text) = world.request("GET", "/metrics", Some(&alice), None)?;
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        Ok(value.with_context(|| text.clone())?.parse()?)
    };
    let count_delayed = || count("hydrant_api_key_refusals_delayed_total");
    let grpc = world.grpc()?;
    let slot = GetSlotRequest { commitment: Some(0) };
    let connections = count("hydrant_grpc_connections_total")?;
    let before = count_delayed()?;
    let started = Instant::now();
    let honest_served = tokio::runtime::Runtime::new()?.block_on(async {
        let hostile = tonic::transport::Endpoint::from_shared(format!("http://{grpc}"))?;
        let hostile = hostile.local_address(Some([127, 0, 0, 2].into())).connect().await?;
        let hostile = GeyserClient::new(hostile);
        let guess = |_| {
            let mut client = hostile.clone();
            async move {
                let refused = client.get_slot(with_token(slot, Some("wrong"))?).await.err();
                let refused = refused.context("a wrong key")?;
                let codes = [Code::Unauthenticated, Code::ResourceExhausted];
                ensure!(codes.contains(&refused.code()), "{refused:?}");
                ensure!(!refused.message().is_empty(), "{refused:?}");
                anyhow::Ok(())
            }
        };
        let honest = async {
            let mut client = GeyserClient::connect(format!("http://{grpc}")).await?;
            for _ in 0..20 {
                client.get_slot(with_token(slot, Some(&alice))?).await?;
            }
            anyhow::Ok(())
        };
        let guesses = futures_util::future::try_join_all((0..CALLS).map(guess));
        futures_util::future::try_join(guesses, honest).await
    });
    honest_served?;
    // A hundred refusals are sent at once, and ten more a second.
    let at_once_max = 101 + 10 * (started.elapsed().as_secs() + 1);
    let delayed = count_delayed()? - before;
    ensure!(delayed <= CALLS && delayed + at_once_max >= CALLS, "{delayed} of {CALLS}");
    // The hostile connection outlives its refusals: otherwise its client would connect again.
    let connections = count("hydrant_grpc_connections_total")? - connections;
    ensure!(connections == 2, "{connections} connections");
    Ok(())
}

/// The statuses of calls until one is refused, or of ten.
fn statuses_until_refused(node: &Node, key: &str) -> Result<Vec<u16>> {
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"getHealth"}"#;
    let request = Endpoint::from(node.rpc).with_api_key(key)?.body(body);
    let mut client = Client::open(node.rpc)?;
    let mut statuses = Vec::new();
    while statuses.len() < 10 && !statuses.contains(&429) {
        statuses.push(client.exchange(&request)?.status);
    }
    Ok(statuses)
}

#[test]
fn a_daily_quota_continues_after_a_restart_and_a_damaged_file_refuses_no_client() -> Result<()> {
    let (alice, entry) = new_key("alice", "t")?;
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("keys.toml");
    write(&path, &format!("[tiers.t]\nrequests_per_day = 4\n{entry}"))?;
    let keys = path.display().to_string();
    let start = || start_node(&["--api-keys", &keys]);
    let day = || -> Result<u64> {
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed()?;
        Ok(now.as_secs() / 86_400)
    };
    let first_day = day()?;
    let first = start()?;
    ensure!(statuses_until_refused(&first, &alice)? == [200, 200, 200, 200, 429]);
    // A node stores the used quota when it ends.
    drop(first);
    let usage = dir.path().join("keys.toml.usage");
    let stored = fs::read_to_string(&usage).context("the file of the requests")?;
    ensure!(stored.ends_with('\n') && !stored.contains(&*alice), "{stored}");
    let second = start()?;
    let statuses = statuses_until_refused(&second, &alice)?;
    // The quota is whole again if midnight was in between.
    ensure!(statuses == [429] || day()? != first_day, "{statuses:?}");
    drop(second);

    for damaged in [&stored[..stored.len() / 2], "garbage", ""] {
        fs::write(&usage, damaged)?;
        let node = start()?;
        ensure!(
            node.log().contains("the daily quotas of API keys start at zero"),
            "{}",
            node.log()
        );
        let statuses = statuses_until_refused(&node, &alice)?;
        ensure!(statuses == [200, 200, 200, 200, 429], "{statuses:?}");
    }
    ensure!(fs::read_to_string(&usage)?.starts_with("hydrant api key usage 1\n"), "it is mended");
    Ok(())
}

#[test]
fn a_follower_of_a_node_with_keys_sends_its_own_and_so_does_a_benchmark() -> Result<()> {
    let (follower, entry) = new_key("follower", "t")?;
    let world = World::start(&format!("[tiers.t]\n{entry}"), &["--slot-ms", "50"])?;
    let dir = tempfile::tempdir()?;
    let key = dir.path().join("key");
    fs::write(&key, format!("{follower}\n"))?;
    let key = key.display().to_string();
    let node = follow(&world.node)?
        .args(["--upstream-key", &key, "--x-token", &key])
        .args(["--snapshot-dir", &dir.path().to_string_lossy()])
        .start()?;
    wait_until_healthy(&node)?;
    for log in [node.log(), world.node.log()] {
        ensure!(!log.contains(&*follower), "the key is in {log}");
    }
    drop(node);

    let run = |more: &[&str]| -> Result<(bool, String)> {
        let url = world.node.rpc_url();
        let short = ["--suite", "slot", "--runs", "1", "--warm-up", "0.05", "--duration", "0.2"];
        let mut bench = Command::new(HYDRANT);
        let run = run_to_end(bench.args(["bench", "--url", &url]).args(short).args(more))?;
        let output = String::from_utf8([run.stdout, run.stderr].concat())?;
        Ok((run.status.success(), output))
    };
    let usage = || -> Result<u64> {
        let path = dir.path().join("bench.json");
        let (is_done, output) = run(&["--api-key-file", &key, "--json", &path.to_string_lossy()])?;
        ensure!(is_done, "{output}");
        let report: Value = serde_json::from_str(&fs::read_to_string(path)?)?;
        let counts = &report["rows"][0]["counts"];
        ensure!(counts["errors"] == 0 && counts["rejected"] == 0, "{counts}");
        counts["ok"].as_u64().context("a count")
    };
    ensure!(usage()? > 0, "nothing was served");
    let wrong = dir.path().join("wrong");
    fs::write(&wrong, "two words")?;
    let (is_done, output) = run(&["--api-key-file", &wrong.to_string_lossy()])?;
    ensure!(!is_done && output.contains("--api-key-file: an API key has 1 to 256"), "{output}");
    ensure!(!output.contains("two words"), "{output}");
    Ok(())
}

#[test]
fn a_node_does_not_start_with_a_file_that_is_not_valid() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("keys.toml");
    fs::write(
        &path,
        "[[keys]]\nname = \"a\"\nsha256 = \"hyd_in-clear\"\ntier = \"t\"\n[tiers.t]\n",
    )?;
    for command in [
        &["dev", "--check"][..],
        &["follow", "--source", "http://127.0.0.1:1", "--snapshot", "http://127.0.0.1:1"],
    ] {
        let mut node = Command::new(HYDRANT);
        let refused = run_to_end(node.args(command).arg("--api-keys").arg(&path))?;
        let text = String::from_utf8(refused.stderr)?;
        ensure!(!refused.status.success() && text.contains("key \"a\": sha256: 64"), "{text}");
        ensure!(!text.contains("hyd_in-clear"), "{text}");
    }
    Ok(())
}
