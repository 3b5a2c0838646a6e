//! `yellowstone-grpc-client`, as crates.io ships it, against a running node: the main flow.
//!
//! Each step prints its name before it starts, so the last line of a failure is the step that failed.
//! Bounds: a wait is for a message, 30 s at most.

pub(crate) mod cut_proxy;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use futures_util::{SinkExt, Stream, StreamExt};
use serde_json::{Value, json};
use testkit::json_rpc_client::JsonRpcClient;
use testkit::node::Node;
use tonic::Status;
use tonic::codec::CompressionEncoding;
use yellowstone_grpc_client::{
    Backoff, GeyserGrpcClient, ReconnectConfig, ReconnectEvent, ReconnectPolicy,
};
use yellowstone_grpc_proto::geyser::subscribe_update::UpdateOneof;
use yellowstone_grpc_proto::geyser::{
    CommitmentLevel, SlotStatus, SubscribeRequest, SubscribeRequestFilterAccounts,
    SubscribeRequestFilterBlocks, SubscribeRequestFilterBlocksMeta, SubscribeRequestFilterSlots,
    SubscribeRequestFilterTransactions, SubscribeRequestPing, SubscribeUpdate,
};

use crate::clients::{FOLLOWED_FLAGS, NODE_FLAGS};
use crate::follower::FollowedDev;
use crate::node::start_node;
use cut_proxy::CutProxy;

const WAIT: Duration = Duration::from_secs(30);
/// Blocks before the connection is cut, and after it.
const BLOCKS: usize = 10;
/// Number of times that the connection is cut.
const CUTS: usize = 3;

#[test]
fn yellowstone_rust_flow() -> Result<()> {
    run_flow(&start_node(NODE_FLAGS)?)
}

#[test]
fn yellowstone_rust_flow_on_a_followed_chain() -> Result<()> {
    let nodes = FollowedDev::start(FOLLOWED_FLAGS)?;
    run_flow(&nodes.follower)
        .with_context(|| format!("the ledger's log ends\n{}", nodes.dev.log_end()))
}

fn run_flow(node: &Node) -> Result<()> {
    let grpc = node.grpc.context("the node serves gRPC")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime
        .block_on(flow(node.rpc, grpc))
        .with_context(|| format!("the node's log ends\n{}", node.log_end()))
}

async fn flow(rpc: SocketAddr, grpc: SocketAddr) -> Result<()> {
    let url = format!("http://{grpc}");
    step("the calls agree with JSON-RPC", calls(&url, rpc)).await?;
    step("an airdrop as account, transaction and status, compressed", updates(&url, rpc)).await?;
    step("filters are replaced", replace_filters(&url)).await?;
    step("an invalid filter says why", send_invalid_filters(&url)).await?;
    step("a stream that is cut misses no block", reconnect(grpc)).await
}

/// Runs one step of the flow, and prints its name first.
#[expect(clippy::print_stdout, reason = "the flow's progress is the test's output")]
async fn step(name: &str, body: impl Future<Output = Result<()>>) -> Result<()> {
    println!("step {name}");
    body.await.with_context(|| format!("step {name}"))
}

async fn connect(url: &str) -> Result<GeyserGrpcClient> {
    Ok(GeyserGrpcClient::build_from_shared(url.to_owned())?
        .accept_compressed(CompressionEncoding::Zstd)
        .send_compressed(CompressionEncoding::Gzip)
        .connect()
        .await?)
}

/// The result of a method. The client blocks its thread.
async fn json_rpc(node: SocketAddr, method: &'static str, params: Value) -> Result<Value> {
    tokio::task::spawn_blocking(move || JsonRpcClient::open(node)?.call(method, params)).await?
}

async fn calls(url: &str, rpc: SocketAddr) -> Result<()> {
    let mut client = connect(url).await?;
    ensure!(client.health_check().await?.status == 1, "it is not serving");
    ensure!(client.ping(7).await?.count == 7, "another pong");
    let latest = client.get_latest_blockhash(Some(CommitmentLevel::Finalized)).await?;
    let params = json!([latest.blockhash, { "commitment": "processed" }]);
    let valid = json_rpc(rpc, "isBlockhashValid", params).await?;
    ensure!(valid["value"] == true, "an unknown blockhash");
    ensure!(client.is_blockhash_valid(latest.blockhash, None).await?.valid, "it is not valid");
    // A block may come between the two calls.
    let height = client.get_block_height(None).await?.block_height;
    ensure!(height <= client.get_slot(None).await?.slot, "the height");
    ensure!(client.subscribe_replay_info().await?.first_available.is_some(), "no replay");
    ensure!(client.get_version().await?.version.contains("hydrant"), "another program");
    Ok(())
}

async fn updates(url: &str, rpc: SocketAddr) -> Result<()> {
    let identity = json_rpc(rpc, "getIdentity", json!([])).await?;
    let to = identity["identity"].as_str().context("an address")?.to_owned();
    let account =
        SubscribeRequestFilterAccounts { account: vec![to.clone()], ..Default::default() };
    let transaction = SubscribeRequestFilterTransactions {
        account_include: vec![to.clone()],
        vote: Some(false),
        ..Default::default()
    };
    let request = SubscribeRequest {
        accounts: [("account".to_owned(), account)].into(),
        transactions: [("transaction".to_owned(), transaction.clone())].into(),
        transactions_status: [("status".to_owned(), transaction)].into(),
        ..Default::default()
    };
    let (mut requests, mut updates) =
        connect(url).await?.subscribe_with_request(Some(request)).await?;
    requests.send(ping(1)).await?;
    find(&mut updates, |update| matches!(update, UpdateOneof::Pong(pong) if pong.id == 1)).await?;
    let sent = json_rpc(rpc, "requestAirdrop", json!([to, 1_000_000])).await?;
    let sent = bs58::decode(sent.as_str().context("a signature")?).into_vec()?;
    find(&mut updates, |update| {
        let UpdateOneof::Account(update) = update else { return false };
        update.account.as_ref().is_some_and(|it| it.txn_signature.as_ref() == Some(&sent))
    })
    .await?;
    find(&mut updates, |update| {
        let UpdateOneof::Transaction(update) = update else { return false };
        update.transaction.as_ref().is_some_and(|it| it.signature == sent)
    })
    .await?;
    find(&mut updates, |update| {
        matches!(update, UpdateOneof::TransactionStatus(status) if status.signature == sent)
    })
    .await?;
    Ok(())
}

/// A ping as clients send it that repeat fields of their first request. Its pong says that the requests before it are
/// handled.
fn ping(id: i32) -> SubscribeRequest {
    let commitment = Some(CommitmentLevel::Confirmed.into());
    SubscribeRequest { ping: Some(SubscribeRequestPing { id }), commitment, ..Default::default() }
}

async fn replace_filters(url: &str) -> Result<()> {
    let metas = SubscribeRequest {
        blocks_meta: [("meta".to_owned(), SubscribeRequestFilterBlocksMeta {})].into(),
        ..Default::default()
    };
    let by_commitment =
        SubscribeRequestFilterSlots { filter_by_commitment: Some(true), ..Default::default() };
    let slots = SubscribeRequest {
        slots: [("slot".to_owned(), by_commitment)].into(),
        commitment: Some(CommitmentLevel::Confirmed.into()),
        ..Default::default()
    };
    let (mut requests, mut updates) =
        connect(url).await?.subscribe_with_request(Some(metas)).await?;
    find(&mut updates, |update| matches!(update, UpdateOneof::BlockMeta(_))).await?;
    requests.send(slots).await?;
    requests.send(ping(2)).await?;
    find(&mut updates, |update| matches!(update, UpdateOneof::Pong(pong) if pong.id == 2)).await?;
    let next = find(&mut updates, |update| !matches!(update, UpdateOneof::Ping(_))).await?;
    let UpdateOneof::Slot(slot) = next else { bail!("not a slot: {next:?}") };
    ensure!(slot.status() == SlotStatus::SlotConfirmed, "{slot:?}");
    Ok(())
}

async fn send_invalid_filters(url: &str) -> Result<()> {
    let bad = SubscribeRequestFilterAccounts { owner: vec!["x".into()], ..Default::default() };
    let request =
        SubscribeRequest { accounts: [("bad".to_owned(), bad)].into(), ..Default::default() };
    let mut updates = connect(url).await?.subscribe_once(request).await?;
    let status = match tokio::time::timeout(WAIT, updates.next()).await? {
        Some(Err(status)) => status,
        other => bail!("no error: {other:?}"),
    };
    ensure!(status.code() == tonic::Code::InvalidArgument, "{status}");
    ensure!(status.message().contains("is no address"), "{status}");
    Ok(())
}

/// Blocks through a proxy that cuts the connection. The client reconnects with `from_slot`.
async fn reconnect(grpc: SocketAddr) -> Result<()> {
    let proxy = CutProxy::start(grpc).await?;
    let backoff =
        Backoff { initial_interval: Duration::from_millis(50), multiplier: 1.0, max_retries: 20 };
    let policy = ReconnectPolicy::Replay { slots_behind: 0 };
    let mut client = GeyserGrpcClient::build_from_shared(format!("http://{}", proxy.address))?
        .set_reconnect_config(ReconnectConfig { backoff, policy })
        .connect()
        .await?;
    let request = SubscribeRequest {
        blocks: [("all".to_owned(), SubscribeRequestFilterBlocks::default())].into(),
        ..Default::default()
    };
    let (_requests, mut events) = client.subscribe_with_reconnect(Some(request)).await?;
    let mut slots = BTreeSet::new();
    let mut first = None;
    let mut disconnects = 0;
    let mut since_cut = 0;
    while disconnects < CUTS || since_cut < BLOCKS {
        let event = tokio::time::timeout(WAIT, events.next()).await.context("no update in time")?;
        match event.context("the stream has ended")?? {
            ReconnectEvent::Disconnected(lost) => {
                ensure!(lost.replay_from_slot.is_some(), "it does not resume: {lost:?}");
                disconnects += 1;
                since_cut = 0;
            }
            ReconnectEvent::Update(update) => {
                let Some(UpdateOneof::Block(block)) = update.update_oneof else { continue };
                let first = *first.get_or_insert(block.slot);
                if block.slot > first {
                    ensure!(slots.contains(&block.parent_slot), "{} is missing", block.parent_slot);
                }
                since_cut += usize::from(slots.insert(block.slot));
                if since_cut == BLOCKS && disconnects < CUTS {
                    proxy.cut();
                }
            }
        }
    }
    Ok(())
}

/// The next update that matches.
async fn find(
    updates: &mut (impl Stream<Item = Result<SubscribeUpdate, Status>> + Unpin),
    matches: impl Fn(&UpdateOneof) -> bool,
) -> Result<UpdateOneof> {
    let finding = async {
        loop {
            let update = updates.next().await.context("the stream has ended")??;
            if let Some(update) = update.update_oneof
                && matches(&update)
            {
                return anyhow::Ok(update);
            }
        }
    };
    tokio::time::timeout(WAIT, finding).await.context("no such update in time")?
}
