//! Yellowstone gRPC: `grpc [--toy]`. The CPU time of publishing, and the bytes of the messages, by clients.
//!
//! In one round a server publishes account updates of 100 programs, once to one client of all programs and once to 100
//! clients of one program each. So both have the same matches, and each update has one. The time is that of the
//! publisher's thread, as Linux counts it. The clients are connected over sockets and read everything.
//! Updates come in the batches of a ledger under load, as fast as the clients take them: `window` bounds what they lag.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use chain_solana::{AccountUpdate, EventSink, LedgerEvent};
use futures_util::StreamExt;
use grpc::{Config, GrpcEventSink, GrpcNode, Server};
use ledger::BlockId;
use prost::Message;
use solana::Account;
use solana_account::AccountSharedData;
use solana_pubkey::Pubkey;
use testkit::cluster_info::cluster_info;
use testkit::forked_chain;
use tokio::task::JoinHandle;
use yellowstone_grpc_proto::geyser::geyser_client::GeyserClient;
use yellowstone_grpc_proto::geyser::subscribe_update::UpdateOneof;
use yellowstone_grpc_proto::geyser::{
    SubscribeRequest, SubscribeRequestFilterAccounts, SubscribeRequestPing,
};

use crate::median::median;
use crate::threshold;

/// Programs, each with a client in the second setup.
const PROGRAMS: u8 = 100;
/// Bytes of an account: a token account.
const ACCOUNT_BYTES: usize = 165;
/// Updates of one event, as a batch of executed transactions has.
const BATCH: usize = 64;
/// Updates that the clients may lag.
const WINDOW: usize = 8_192;
const SLOT: BlockId = BlockId { slot: 1, version: 1 };
const THREAD: &str = "grpc-publisher";
/// Time limit of a client that waits for its updates.
const TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) fn run(args: &[String]) -> Result<()> {
    let is_toy = args.iter().any(|arg| arg == "--toy");
    let (rounds, updates) = if is_toy { (1, 2_000) } else { (9, 400_000) };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    println!("publishing {updates} account updates, CPU time of the publisher for each:");
    let mut ratios = Vec::new();
    let mut ones = Vec::new();
    let mut hundreds = Vec::new();
    let mut bytes_ratios = Vec::new();
    for _ in 0..rounds {
        let (one, one_bytes) = runtime.block_on(publish(1, updates))?;
        let (hundred, hundred_bytes) = runtime.block_on(publish(usize::from(PROGRAMS), updates))?;
        bytes_ratios.push(hundred_bytes / one_bytes);
        println!(
            "  one client {one:.0} ns, {PROGRAMS} clients {hundred:.0} ns: {:.3} times",
            hundred / one
        );
        ratios.push(hundred / one);
        ones.push(one);
        hundreds.push(hundred);
    }
    let one = median(ones);
    let hundred = median(hundreds);
    println!(
        "  median: {one:.0} and {hundred:.0} ns; at mainnet's 54,000 updates a second {:.1} % of a core",
        hundred * 54_000.0 / 1e7
    );
    threshold::at_most("grpc_publish_100_clients", median(ratios), "x", 1.1);
    threshold::at_most("grpc_bytes_100_clients", median(bytes_ratios), "x", 1.1);
    Ok(())
}

/// The updates and bytes that the clients have received together.
#[derive(Default)]
struct Received {
    updates: AtomicUsize,
    bytes: AtomicUsize,
}

/// Nanoseconds of the publisher for an update, and bytes of its messages.
async fn publish(clients: usize, updates: usize) -> Result<(f64, f64)> {
    let config = Config {
        queue_messages_max: updates,
        queue_bytes_max: 1 << 30,
        queues_bytes_max: 1 << 30,
        // Writes take three quarters of them.
        events_max: 2 * updates,
        ..Config::default()
    };
    let (_, reader) = forked_chain::ledger();
    let node = GrpcNode {
        reader: Box::new(reader),
        cluster: Some(Arc::new(cluster_info())),
        program: ("benchmarks", "0"),
        stored_blocks: Vec::new(),
    };
    let (server, mut events) = Server::start(config, node, TcpListener::bind("127.0.0.1:0")?)?;
    let received = Arc::new(Received::default());
    let mut readers = Vec::new();
    for client in 0..clients {
        let programs = (0..PROGRAMS).filter(|n| usize::from(*n) % clients == client);
        let received = Arc::clone(&received);
        readers.push(subscribe(server.address(), programs, received).await?);
    }
    events.send(&LedgerEvent::BankCreated { block: SLOT, parent: SLOT, root: 0, timestamp_ms: 0 });
    // A thread has its name once it runs.
    tokio::time::timeout(TIMEOUT, async {
        while publisher_ns().is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await
    .context("the publisher does not start")?;
    let before = publisher_ns()?;
    let sending = send_all(&mut events, updates, &received.updates);
    tokio::time::timeout(TIMEOUT, sending).await.context("a client has not got its updates")?;
    let after = publisher_ns()?;
    for reader in readers {
        ensure!(!reader.is_finished(), "a client was closed");
        reader.abort();
    }
    drop((server, events));
    // The next server's publisher has the same name.
    while publisher_ns().is_ok() {
        tokio::task::yield_now().await;
    }
    let each = |sum: f64| sum / updates as f64;
    let bytes = received.bytes.load(Ordering::Relaxed);
    Ok((each((after - before) as f64), each(bytes as f64)))
}

/// Sends all updates, and waits until they are received.
async fn send_all(events: &mut GrpcEventSink, updates: usize, received: &AtomicUsize) {
    for start in (0..updates).step_by(BATCH) {
        let batch = (start..updates.min(start + BATCH)).map(update).collect();
        events.send(&LedgerEvent::AccountsWritten { block: SLOT, updates: batch });
        while start.saturating_sub(received.load(Ordering::Relaxed)) > WINDOW {
            tokio::task::yield_now().await;
        }
    }
    while received.load(Ordering::Relaxed) < updates {
        tokio::task::yield_now().await;
    }
}

fn update(number: usize) -> AccountUpdate {
    let program = u8::try_from(number % usize::from(PROGRAMS)).unwrap_or_default();
    let mut key = [7; 32];
    key[..8].copy_from_slice(&(number as u64 % 10_000).to_le_bytes());
    AccountUpdate {
        pubkey: key.into(),
        account: Arc::new(Account(AccountSharedData::new(1, ACCOUNT_BYTES, &program_id(program)))),
        write_version: number as u64 + 1,
        signature: None,
        executed: None,
    }
}

/// A client that counts its updates.
async fn subscribe(
    address: SocketAddr,
    programs: impl Iterator<Item = u8>,
    received: Arc<Received>,
) -> Result<JoinHandle<()>> {
    let mut client = GeyserClient::connect(format!("http://{address}")).await?;
    let owner = programs.map(|n| program_id(n).to_string()).collect();
    let filter = SubscribeRequestFilterAccounts { owner, ..Default::default() };
    let request = SubscribeRequest {
        accounts: [("programs".to_owned(), filter)].into(),
        ..SubscribeRequest::default()
    };
    let ping = Some(SubscribeRequestPing { id: 1 });
    let ping = SubscribeRequest { ping, ..SubscribeRequest::default() };
    let requests = futures_util::stream::iter([request, ping]);
    let mut updates = client.subscribe(requests).await?.into_inner();
    loop {
        let update = updates.next().await.context("the stream has ended")??;
        if matches!(update.update_oneof, Some(UpdateOneof::Pong(_))) {
            break;
        }
    }
    Ok(tokio::spawn(async move {
        while let Some(Ok(update)) = updates.next().await {
            if matches!(update.update_oneof, Some(UpdateOneof::Account(_))) {
                received.bytes.fetch_add(update.encoded_len(), Ordering::Relaxed);
                received.updates.fetch_add(1, Ordering::Relaxed);
            }
        }
    }))
}

fn program_id(number: u8) -> Pubkey {
    Pubkey::new_from_array([number + 1; 32])
}

/// CPU time of the publisher's thread in nanoseconds. There is one.
fn publisher_ns() -> Result<u64> {
    for task in fs::read_dir("/proc/self/task")? {
        let task = task?.path();
        // A thread may have ended.
        let Ok(name) = fs::read_to_string(task.join("comm")) else { continue };
        if name.trim_end() == THREAD {
            let times = fs::read_to_string(task.join("schedstat"))?;
            let first = times.split_whitespace().next().context("an empty schedstat")?;
            return first.parse().context("a number in schedstat");
        }
    }
    anyhow::bail!("no thread {THREAD}")
}
