//! What a follower takes at its word: the genesis hash of the chain, and nothing of its state before the first bank that
//! has the level of `--verify agree` or `votes`, whatever the interface.
//! Not here: subscriptions over WebSocket before that bank (`rpc_solana`).

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use futures_util::{FutureExt, StreamExt};
use http_client::{Client, Endpoint};
use serde_json::{Value, json};
use solana_hash::Hash;
use tempfile::TempDir;
use testkit::child_process::run_to_end;
use testkit::json_rpc_client::JsonRpcClient;
use testkit::node::{Node, NodeCommand};
use tokio::runtime::Runtime;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};
use yellowstone_grpc_proto::geyser::geyser_client::GeyserClient;
use yellowstone_grpc_proto::geyser::subscribe_update::UpdateOneof;
use yellowstone_grpc_proto::geyser::{
    CommitmentLevel, GetBlockHeightRequest, GetLatestBlockhashRequest, GetSlotRequest,
    IsBlockhashValidRequest, SubscribeRequest, SubscribeRequestFilterBlocksMeta,
    SubscribeRequestFilterSlots, SubscribeUpdate,
};

use crate::follower::{HEALTHY_TIMEOUT, wait_until_healthy};
use crate::node::{HYDRANT, start_node};
use crate::observability::metrics;
use crate::world::wait_until;
use crate::yellowstone_client::cut_proxy::CutProxy;

/// No step takes this long, however slow the machine is.
const TIMEOUT: Duration = Duration::from_secs(120);
const LEVELS: [CommitmentLevel; 3] =
    [CommitmentLevel::Processed, CommitmentLevel::Confirmed, CommitmentLevel::Finalized];
const CLOCK: &str = "SysvarC1ock11111111111111111111111111111111";
const VOTE_PROGRAM: &str = "Vote111111111111111111111111111111111111111";

/// Paths of REST that read the state.
const STATE_PATHS: [&str; 3] = [
    "/v1/ledger",
    "/v1/accounts/SysvarC1ock11111111111111111111111111111111",
    "/v1/accounts/Vote111111111111111111111111111111111111111/transactions",
];

/// The command that follows a ledger from its snapshot, with a directory.
fn follow_command(source: SocketAddr, dev: &Node, dir: &Path) -> Command {
    let mut command = Command::new(HYDRANT);
    command.args(["follow", "--quiet", "--log", "--rpc-port", "0"]);
    command.args(["--source", &format!("http://{source}"), "--snapshot", &dev.rpc_url()]);
    command.arg("--snapshot-dir").arg(dir).arg("--ledger").arg(dir.join("ledger"));
    command
}

pub(crate) fn start(command: Command, flags: &[&str]) -> Result<Node> {
    NodeCommand::new(command).args(flags).logged().watched().start()
}

fn call(node: &Node, method: &str, params: Value) -> Result<Value> {
    JsonRpcClient::open(node.rpc)?.call(method, params)
}

pub(crate) fn get(node: &Node, path: &str) -> Result<(u16, String)> {
    let endpoint = Endpoint::from(node.rpc);
    let mut client = Client::open(endpoint.clone())?;
    let response = client.exchange(&endpoint.request("GET", path, None))?;
    Ok((response.status, String::from_utf8(response.body.to_vec())?))
}

fn processed_slot(node: &Node) -> Result<u64> {
    let metrics = metrics(node)?;
    let name = "hydrant_follow_slot{at=\"processed\"} ";
    let slot = metrics.lines().find_map(|line| line.strip_prefix(name)?.parse().ok());
    slot.context(name)
}

/// A server that accepts connections and does not answer, until it is opened: then it is a proxy of a ledger's gRPC.
struct Gate {
    listener: TcpListener,
    address: SocketAddr,
}

impl Gate {
    fn new() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    fn open(self, runtime: &Runtime, dev: SocketAddr) -> Result<CutProxy> {
        runtime.block_on(CutProxy::serve(self.listener, dev))
    }
}

/// Calls that read the state, at a commitment.
fn state_calls(level: &str) -> Vec<(&'static str, Value)> {
    let config = json!({ "commitment": level });
    let signature = "1".repeat(64);
    let mut calls = vec![
        ("getSlot", json!([config])),
        ("getBlockHeight", json!([config])),
        ("getEpochInfo", json!([config])),
        ("getLatestBlockhash", json!([config])),
        ("getTransactionCount", json!([config])),
        ("getSupply", json!([config])),
        ("getVoteAccounts", json!([config])),
        ("getBalance", json!([CLOCK, config])),
        ("getAccountInfo", json!([CLOCK, config])),
        ("getMultipleAccounts", json!([[CLOCK], config])),
        ("getProgramAccounts", json!([VOTE_PROGRAM, config])),
        ("getSignatureStatuses", json!([[signature]])),
        ("getFirstAvailableBlock", json!([])),
    ];
    if level != "processed" {
        calls.extend([
            ("getSignaturesForAddress", json!([VOTE_PROGRAM, config])),
            ("getTransaction", json!([signature, config])),
            ("getBlocks", json!([0, config])),
            ("getBlock", json!([1, config])),
        ]);
    }
    calls
}

async fn connect(node: &Node) -> Result<GeyserClient<Channel>> {
    let address = node.grpc.context("it serves gRPC")?;
    Ok(GeyserClient::connect(format!("http://{address}")).await?)
}

/// The errors of the unary calls of gRPC that read the state.
async fn unary_errors(node: &Node, level: CommitmentLevel) -> Result<[Option<Status>; 4]> {
    let commitment = Some(level.into());
    let mut client = connect(node).await?;
    let blockhash = Hash::default().to_string();
    let valid = IsBlockhashValidRequest { blockhash, commitment };
    Ok([
        client.get_slot(GetSlotRequest { commitment }).await.err(),
        client.get_block_height(GetBlockHeightRequest { commitment }).await.err(),
        client.get_latest_blockhash(GetLatestBlockhashRequest { commitment }).await.err(),
        client.is_blockhash_valid(valid).await.err(),
    ])
}

/// A stream of the slots and blocks that are final.
async fn subscribe_to_final(node: &Node) -> Result<Streaming<SubscribeUpdate>> {
    let name = || "final".to_owned();
    let slots = SubscribeRequestFilterSlots {
        filter_by_commitment: Some(true),
        ..SubscribeRequestFilterSlots::default()
    };
    let request = SubscribeRequest {
        slots: [(name(), slots)].into(),
        blocks_meta: [(name(), SubscribeRequestFilterBlocksMeta::default())].into(),
        commitment: Some(CommitmentLevel::Finalized.into()),
        ..SubscribeRequest::default()
    };
    let requests = futures_util::stream::iter([request]).chain(futures_util::stream::pending());
    Ok(connect(node).await?.subscribe(requests).await?.into_inner())
}

/// Returns the next update that is not a ping.
async fn next_update(updates: &mut Streaming<SubscribeUpdate>) -> Result<SubscribeUpdate> {
    loop {
        let update = updates.next().await.context("the stream ended")??;
        if !matches!(update.update_oneof, Some(UpdateOneof::Ping(_))) {
            return Ok(update);
        }
    }
}

/// Whether the node jumped to an archive: it closes every client, because no bank leads there.
fn is_jump(err: &anyhow::Error) -> bool {
    err.downcast_ref().is_some_and(|status: &Status| status.code() == Code::DataLoss)
}

/// Returns the next update of a client that subscribes again after a jump.
async fn next_final_update(
    node: &Node,
    updates: &mut Streaming<SubscribeUpdate>,
) -> Result<SubscribeUpdate> {
    loop {
        match next_update(updates).await {
            Err(err) if is_jump(&err) => *updates = subscribe_to_final(node).await?,
            next => return next,
        }
    }
}

fn is_verified(node: &Node) -> Result<bool> {
    Ok(call(node, "hydrantGetVerification", json!([]))?["verifiedSlot"].is_u64())
}

/// Nothing of the state is served.
fn check_withheld(node: &Node, runtime: &Runtime) -> Result<()> {
    for level in ["processed", "confirmed", "finalized"] {
        for (method, params) in state_calls(level) {
            let text = match call(node, method, params) {
                Ok(result) => format!("{result}"),
                Err(err) => format!("{err:#}"),
            };
            ensure!(text.contains("-32005"), "{method} at {level}: {text}");
        }
    }
    let health = call(node, "getHealth", json!([])).expect_err("nothing is verified");
    ensure!(format!("{health:#}").contains("-32005"), "{health:#}");
    for method in ["getVersion", "getIdentity", "getGenesisHash"] {
        call(node, method, json!([])).context(method)?;
    }
    for path in STATE_PATHS {
        let (status, body) = get(node, path)?;
        ensure!(status == 503, "{path}: {status} {body}");
    }
    let (status, body) = get(node, "/ready")?;
    // The second, if the stored state was older than the banks that the ledger still has.
    let reasons = ["no bank after the start is verified", "is not proven"];
    ensure!(status == 503 && reasons.iter().any(|reason| body.contains(reason)), "{body}");
    for level in LEVELS {
        for error in runtime.block_on(unary_errors(node, level))? {
            let code = error.as_ref().map(Status::code);
            ensure!(code == Some(Code::Unavailable), "{level:?}: {error:?}");
        }
    }
    ensure!(!is_verified(node)?, "a bank was verified meanwhile");
    Ok(())
}

/// The state is served.
fn check_served(node: &Node, runtime: &Runtime) -> Result<()> {
    wait_until_healthy(node)?;
    for (method, params) in [("getSlot", json!([])), ("getBalance", json!([CLOCK]))] {
        call(node, method, params).context(method)?;
    }
    for path in STATE_PATHS {
        let (status, body) = get(node, path)?;
        ensure!(status == 200, "{path}: {status} {body}");
    }
    // It is 503 while the follower falls behind for a moment.
    wait_until("/ready to be 200", HEALTHY_TIMEOUT, || {
        Ok((get(node, "/ready")?.0 == 200).then_some(()))
    })?;
    for level in LEVELS {
        for error in runtime.block_on(unary_errors(node, level))? {
            ensure!(error.is_none(), "{level:?}: {error:?}");
        }
    }
    Ok(())
}

/// A follower of a ledger that cannot verify anything before its gate is opened: nothing is served, then all of it.
fn check_start(dev: &Node, dir: &Path, mode: &str) -> Result<()> {
    let grpc = dev.grpc.context("the ledger serves gRPC")?;
    let runtime = Runtime::new()?;
    let gate = Gate::new()?;
    let gate_url = format!("http://{}", gate.address);
    // In `agree` the banks come, and in `votes` none does.
    let has_banks = mode == "agree";
    let source = if has_banks { grpc } else { gate.address };
    let mut flags = vec!["--verify", mode];
    flags.extend(has_banks.then_some(["--verify-source", &gate_url]).into_iter().flatten());
    let follower = start(follow_command(source, dev, dir), &flags)?;
    check_withheld(&follower, &runtime)?;
    let mut updates = runtime.block_on(subscribe_to_final(&follower))?;
    let before = processed_slot(&follower)?;
    if has_banks {
        let has_more = || Ok((processed_slot(&follower)? > before + 40).then_some(()));
        wait_until("banks that are not verified", TIMEOUT, has_more)?;
        check_withheld(&follower, &runtime)?;
    }
    match runtime.block_on(async { next_update(&mut updates).now_or_never() }) {
        None => {}
        // The stored state was older than the banks that the ledger still has.
        Some(Err(err)) if is_jump(&err) => {
            updates = runtime.block_on(subscribe_to_final(&follower))?;
        }
        Some(early) => bail!("{early:?} is final, and nothing is verified"),
    }
    let _proxy = gate.open(&runtime, grpc)?;
    let first = runtime.block_on(async {
        tokio::time::timeout(TIMEOUT, next_final_update(&follower, &mut updates)).await
    });
    let first = first.context("nothing became final")??;
    ensure!(is_verified(&follower)?, "{first:?} is final, and nothing is verified");
    check_served(&follower, &runtime)
}

#[test]
fn before_the_first_verified_bank_nothing_is_served_as_final() -> Result<()> {
    let dev = start_node(&["--slot-ms", "20"])?;
    for mode in ["agree", "votes"] {
        let dir = tempfile::tempdir()?;
        check_start(&dev, dir.path(), mode).with_context(|| format!("--verify {mode}"))?;
        // The stored state is no more than a snapshot.
        check_start(&dev, dir.path(), mode).with_context(|| format!("--verify {mode}, again"))?;
    }
    Ok(())
}

/// A follower's process that ends: its output.
fn refusal(mut command: Command, genesis_hash: &str) -> Result<String> {
    let run = run_to_end(command.args(["--genesis-hash", genesis_hash]))?;
    let output = String::from_utf8([run.stdout, run.stderr].concat())?;
    ensure!(!run.status.success(), "{genesis_hash}: {output}");
    Ok(output)
}

#[test]
fn a_chain_with_another_genesis_hash_is_refused_also_after_a_restart() -> Result<()> {
    let dev = start_node(&["--slot-ms", "20"])?;
    let grpc = dev.grpc.context("the ledger serves gRPC")?;
    let right = call(&dev, "getGenesisHash", json!([]))?.as_str().context("a hash")?.to_owned();
    let wrong = Hash::new_from_array([7; 32]).to_string();
    let dir: TempDir = tempfile::tempdir()?;
    let command = || follow_command(grpc, &dev, dir.path());
    let expected = format!("the chain has the genesis hash {right}, and --genesis-hash is {wrong}");
    let text = refusal(command(), &wrong)?;
    ensure!(text.contains(&expected) && text.contains("--upstream"), "{text}");
    let text = refusal(command(), "no hash")?;
    ensure!(text.contains("--genesis-hash: not a hash in base58"), "{text}");

    let flags = ["--genesis-hash", &right];
    let follower = start(command(), &flags)?;
    wait_until_healthy(&follower)?;
    drop(follower);
    let text = refusal(command(), &wrong)?;
    ensure!(text.contains(&expected) && text.contains("start from --ledger"), "{text}");
    let follower = start(command(), &flags)?;
    wait_until_healthy(&follower)?;
    drop(follower);

    // Without the upstream, the stored hash is compared.
    let command = command();
    drop(dev);
    let copy = || {
        let mut same = Command::new(HYDRANT);
        same.args(command.get_args());
        same
    };
    let text = refusal(copy(), &wrong)?;
    ensure!(text.contains(&expected), "{text}");
    let follower = start(copy(), &flags)?;
    ensure!(call(&follower, "getGenesisHash", json!([]))? == right.as_str());
    Ok(())
}
