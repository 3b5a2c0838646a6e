//! Three replicas respond to every method and every route byte for byte the same, and notify their subscribers of the
//! same, also about forks.
//!
//! Exceptions are those of `clients/replicas.txt`.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use hydrant::NodeHandle;
use node_differences::NodeDifferences;
use serde_json::{Value, json};
use solana_account_decoder_client_types::UiAccount;
use solana_pubkey::Pubkey;
use solana_rpc_client_api::config::{
    RpcAccountInfoConfig, RpcTransactionLogsConfig, RpcTransactionLogsFilter,
};
use solana_rpc_client_api::response::{
    Response as RpcResponse, RpcLogsResponse, SlotInfo, SlotUpdate,
};
use solana_signer::Signer;
use solana_system_interface::instruction::transfer;
use testkit::raw_http_client::{Client, Response};
use yellowstone_grpc_proto::geyser::subscribe_update::UpdateOneof;
use yellowstone_grpc_proto::geyser::{CommitmentLevel, SlotStatus, SubscribeUpdate};

use crate::grpc;
use crate::methods::{EXTENSIONS, METHODS};
use crate::replicas::calls::Facts;
use crate::replicas::differences::read_differences;
use crate::replicas::rig::{Rig, call, slots};
use crate::socket::{Inbox, Socket};
use crate::world::{CONFIRMED, WAIT_TIMEOUT};

/// Replicas of the test.
const REPLICAS: usize = 3;
/// Lamports of the last transfer, by which its notification is found.
const LAST_LAMPORTS: u64 = 777;

/// The comparable part of a response.
#[derive(Debug, PartialEq, Eq)]
struct ComparedResponse {
    status: u16,
    slot: Option<String>,
    commitment: Option<String>,
    body: String,
}

impl ComparedResponse {
    fn new(name: &str, response: &Response, differences: &NodeDifferences) -> Self {
        let header = |name| response.header(name).map(str::to_owned);
        // All others are equal byte for byte.
        let body = match serde_json::from_str(&response.body) {
            Ok(body) if differences.has_sets(name) => {
                differences.normalize_response(name, body).to_string()
            }
            _ => response.body.clone(),
        };
        Self {
            status: response.status,
            slot: header("hydrant-slot"),
            commitment: header("hydrant-commitment"),
            body,
        }
    }
}

/// Sends one request to all replicas, and adds a line for each response that differs from the first one.
fn compare(
    clients: &mut [Client],
    differences: &NodeDifferences,
    name: &str,
    request: &str,
    failures: &mut Vec<String>,
) {
    let responses: Vec<ComparedResponse> = clients
        .iter_mut()
        .map(|client| {
            client.send(request);
            ComparedResponse::new(name, &client.receive(), differences)
        })
        .collect();
    for response in &responses[1..] {
        if differences.own_reason(name).is_none() && *response != responses[0] {
            failures.push(format!("{request}\n  first {:?}\n  other {response:?}", responses[0]));
        }
    }
}

fn post(path: &str, min_slot: u64, body: &Value) -> String {
    let body = body.to_string();
    format!(
        "POST {path} HTTP/1.1\r\nhost: test\r\nhydrant-min-slot: {min_slot}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Transfers, forks, and transfers on the new fork. The last one has [`LAST_LAMPORTS`].
fn run(rig: &Rig) -> Result<()> {
    let world = &rig.stage.world;
    let bob = world.bob.pubkey();
    let pay = |lamports| world.send(&[transfer(&world.payer.pubkey(), &bob, lamports)], &[]);
    for round in 0..3 {
        pay(1_000 + round)?;
        pay(2_000 + round)?;
        rig.mine(2)?;
        let options = match round {
            0 => json!({ "depth": 2, "transactions": "drop" }),
            _ => json!({ "depth": 3 }),
        };
        call(rig.stage.node.rpc, "hydrant_reorg", json!([options]))?;
    }
    pay(LAST_LAMPORTS)?;
    // All of it becomes final.
    rig.mine(12)
}

/// The subscriptions of one replica.
struct Listener {
    _socket: Socket,
    slots: Inbox<SlotInfo>,
    updates: Inbox<SlotUpdate>,
    roots: Inbox<u64>,
    bob: Inbox<RpcResponse<UiAccount>>,
    logs: Inbox<RpcResponse<RpcLogsResponse>>,
}

impl Listener {
    fn open(replica: &NodeHandle, bob: &Pubkey) -> Result<Self> {
        let socket = Socket::open(&format!("ws://{}", replica.addresses().pubsub))?;
        let config =
            RpcAccountInfoConfig { commitment: Some(CONFIRMED), ..RpcAccountInfoConfig::default() };
        let logs = RpcTransactionLogsConfig { commitment: Some(CONFIRMED) };
        Ok(Self {
            slots: socket.listen(async |client| client.slot_subscribe().await)?,
            updates: socket.listen(async |client| client.slot_updates_subscribe().await)?,
            roots: socket.listen(async |client| client.root_subscribe().await)?,
            bob: socket.listen(async |client| client.account_subscribe(bob, Some(config)).await)?,
            logs: socket.listen(async |client| {
                client.logs_subscribe(RpcTransactionLogsFilter::All, logs).await
            })?,
            _socket: socket,
        })
    }

    /// All notifications up to those of the last blocks, as text.
    fn notifications(&self, end: &End) -> Result<[String; 5]> {
        let is_root = |update: &SlotUpdate| match update {
            SlotUpdate::Root { slot, .. } => *slot == end.root,
            _ => false,
        };
        Ok([
            format!("{:?}", self.slots.through(|info| info.slot == end.processed)?),
            format!("{:?}", self.updates.through(is_root)?),
            format!("{:?}", self.roots.through(|root| *root == end.root)?),
            format!("{:?}", self.bob.through(|change| change.value.lamports == end.lamports)?),
            format!("{:?}", self.logs.through(|logs| logs.context.slot == end.last_transfer)?),
        ])
    }
}

/// The state after the last block.
struct End {
    processed: u64,
    root: u64,
    lamports: u64,
    /// The slot of the last transfer.
    last_transfer: u64,
}

impl End {
    fn read(rig: &Rig, replica: SocketAddr) -> Result<Self> {
        let bob = rig.stage.world.bob.pubkey();
        let balance = call(replica, "getBalance", json!([bob.to_string()]))?;
        let params = json!([bob.to_string(), { "limit": 1 }]);
        let newest = call(replica, "getSignaturesForAddress", params)?;
        let [processed, _, root] = slots(replica)?;
        Ok(Self {
            processed,
            root,
            lamports: balance["value"].as_u64().context("a balance")?,
            last_transfer: newest[0]["slot"].as_u64().context("a slot")?,
        })
    }
}

/// All updates of final blocks from a slot to another one, as the server replays them.
async fn replay(server: SocketAddr, from: u64, to: u64) -> Result<Vec<SubscribeUpdate>> {
    let mut stream = grpc::subscribe(server, CommitmentLevel::Finalized, from).await?;
    let mut updates = Vec::new();
    loop {
        let next = tokio::time::timeout(WAIT_TIMEOUT, stream.message()).await?;
        let mut update = next?.context("the stream ended")?;
        update.created_at = None;
        let is_ping =
            matches!(update.update_oneof, Some(UpdateOneof::Ping(_) | UpdateOneof::Pong(_)));
        let is_end = match &update.update_oneof {
            Some(UpdateOneof::Slot(slot)) => {
                slot.slot == to && slot.status == SlotStatus::SlotFinalized as i32
            }
            _ => false,
        };
        if !is_ping {
            updates.push(update);
        }
        if is_end {
            return Ok(updates);
        }
    }
}

#[test]
fn three_replicas_give_equal_responses_and_notifications() -> Result<()> {
    let rig = Rig::start()?;
    let replicas: Vec<NodeHandle> =
        (0..REPLICAS).map(|_| rig.replica(|config| config)).collect::<Result<_>>()?;
    let bob = rig.stage.world.bob.pubkey();
    let listeners: Vec<Listener> =
        replicas.iter().map(|replica| Listener::open(replica, &bob)).collect::<Result<_>>()?;
    run(&rig)?;
    let addresses: Vec<SocketAddr> =
        replicas.iter().map(|replica| replica.addresses().rpc).collect();
    addresses.iter().try_for_each(|address| rig.wait_for(*address))?;

    let [processed, slot, root] = slots(addresses[0])?;
    for address in &addresses {
        ensure!(slots(*address)? == [processed, slot, root], "{address} is at another slot");
    }
    let world = &rig.stage.world;
    let blockhash = world.rpc.get_latest_blockhash()?;
    let unsent = transfer(&world.payer.pubkey(), &bob, 5);
    let facts = Facts {
        stage: &rig.stage,
        slot,
        blockhash: blockhash.to_string(),
        alice: world.alice.pubkey().to_string(),
        bob: bob.to_string(),
        unsent: world.sign(&[unsent], &[], &[], blockhash)?,
    };
    let mut clients: Vec<Client> =
        addresses.iter().map(|address| Client::connect(*address)).collect();
    let differences = read_differences();
    let mut failures = Vec::new();
    let mut called = BTreeSet::new();
    for (method, params) in facts.calls() {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        called.insert(method);
        compare(&mut clients, &differences, method, &post("/", root, &body), &mut failures);
    }
    let missing = METHODS.iter().chain(&EXTENSIONS).filter(|name| !called.contains(*name));
    let missing: Vec<_> = missing.collect();
    ensure!(missing.is_empty(), "{missing:?} are not called");
    for path in facts.paths() {
        let head = format!("host: test\r\nhydrant-min-slot: {root}");
        let request = format!("GET {path} HTTP/1.1\r\n{head}\r\n\r\n");
        compare(&mut clients, &differences, &path, &request, &mut failures);
    }
    for (path, body) in facts.posts() {
        compare(&mut clients, &differences, &path, &post(&path, root, &body), &mut failures);
    }
    ensure!(failures.is_empty(), "{}", failures.join("\n"));
    drop(clients);

    let end = End::read(&rig, addresses[0])?;
    let heard: Vec<[String; 5]> =
        listeners.iter().map(|listener| listener.notifications(&end)).collect::<Result<_>>()?;
    for other in &heard[1..] {
        for (first, other) in heard[0].iter().zip(other) {
            ensure!(first == other, "notifications differ\n  first {first}\n  other {other}");
        }
    }
    let first = call(addresses[0], "getFirstAvailableBlock", json!([]))?;
    let first = first.as_u64().context("a slot")?;
    let runtime = tokio::runtime::Runtime::new()?;
    let mut replays = Vec::new();
    for replica in &replicas {
        let grpc = replica.addresses().grpc.context("a replica serves gRPC")?;
        replays.push(runtime.block_on(replay(grpc, first, root))?);
    }
    ensure!(replays[0].len() > 100, "{} updates", replays[0].len());
    for other in &replays[1..] {
        let differs = replays[0].iter().zip(other).find(|(first, other)| first != other);
        ensure!(differs.is_none() && other.len() == replays[0].len(), "{differs:?}");
    }
    replicas.into_iter().try_for_each(|replica| Ok(replica.stop()?))
}
