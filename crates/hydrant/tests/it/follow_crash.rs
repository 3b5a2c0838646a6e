//! `kill -9` of a follower with a ledger directory, at random moments, while the ledger that it follows is under load.
//!
//! After each kill it starts from its own state, without a snapshot. It verifies every bank on from there, and the bank
//! hash, which covers all accounts, is that of the source. Subscribers of its gRPC, one a commitment, resume after each
//! kill: at the end each of them has received every slot once, with the content that the source sent.
//! Kills: 3, or as many as `HYDRANT_KILLS` says.

use std::collections::hash_map::RandomState;
use std::env;
use std::fs;
use std::hash::BuildHasher;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use ledger::Commitment;
use localnet::Config;
use serde_json::{Value, json};
use solana_keypair::Keypair;
use solana_message::{Message, VersionedMessage};
use solana_pubkey::Pubkey;
use solana_rpc_client::rpc_client::RpcClient;
use solana_rpc_client_api::config::RpcSendTransactionConfig;
use solana_rpc_client_api::request::RpcRequest;
use solana_signer::Signer;
use solana_system_interface::instruction::transfer;
use solana_transaction::versioned::VersionedTransaction;
use testkit::clock::now;
use testkit::node::{Node, NodeCommand};
use tokio::sync::watch;
use yellowstone_grpc_proto::geyser::CommitmentLevel;

use crate::followed_ledger::{SLOTS_PER_EPOCH, write_snapshot};
use crate::node::HYDRANT;
use crate::observability::metrics;
use crate::resuming_subscriber::{Received, ResumingSubscriber};
use crate::world::{CONFIRMED, wait_until};

const KILLS: &str = "HYDRANT_KILLS";
const KILLS_DEFAULT: usize = 3;
/// No step takes this long, however slow the machine is.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Short slots: kills then hit every stage of a follower's work, and an epoch ends after 1.3 seconds.
const SLOT_MS: &str = "40";
/// Slots of the source before the snapshot.
const FIRST_SLOTS: u64 = 40;
/// The source's window is longer than a restart takes on a slow machine.
const SOURCE_CONFIG: &str = "[grpc]\nreplay_slots_max = 1500\nreplay_bytes_max = 1073741824\n";
/// Number of transfers with one blockhash.
const BURST: usize = 24;
/// A new account needs 890,880 lamports to exist.
const LAMPORTS: u64 = 1_000_000;
const LEVELS: [CommitmentLevel; 3] =
    [CommitmentLevel::Processed, CommitmentLevel::Confirmed, CommitmentLevel::Finalized];

/// The ledger that is followed: a `hydrant dev` that continued after a snapshot of it was taken.
struct SourceNode {
    node: Node,
    archive: PathBuf,
    root: u64,
    grpc: String,
}

impl SourceNode {
    fn start(files: &Path, mint: &Pubkey) -> Result<Self> {
        let dir = files.join("source");
        let settings = files.join("source.toml");
        fs::write(&settings, SOURCE_CONFIG)?;
        let start = || {
            NodeCommand::dev(Command::new(HYDRANT))
                .args(["--slot-ms", SLOT_MS, "--slots-per-epoch", &SLOTS_PER_EPOCH.to_string()])
                .args(["--history-slots", "100000", "--mint", &mint.to_string()])
                .args(["--ledger".as_ref(), dir.as_os_str()])
                .args(["--config".as_ref(), settings.as_os_str()])
                .logged()
                .start()
        };
        let node = start()?;
        wait_until("the source's first slots", TIMEOUT, || {
            Ok((slot(&node, "confirmed")? >= FIRST_SLOTS).then_some(()))
        })?;
        // The ledger is durable, so nothing is lost by a kill.
        drop(node);
        let config = Config {
            dir: Some(dir.clone()),
            slots_per_epoch: SLOTS_PER_EPOCH,
            ..Config::default()
        };
        let localnet = localnet::open(&config)?;
        let view = localnet.reader().view(Commitment::Finalized);
        let archive = write_snapshot(&view, files);
        let root = view.block().slot;
        drop((view, localnet));
        let node = start()?;
        let grpc = format!("http://{}", node.grpc.context("the source serves gRPC")?);
        Ok(Self { node, archive, root, grpc })
    }

    /// A follower with a ledger directory. Only the first start has a snapshot.
    fn follow(&self, ledger: &Path, is_first: bool) -> Result<Node> {
        let mut command = Command::new(HYDRANT);
        command.args(["follow", "--quiet", "--log", "--rpc-port", "0", "--source", &self.grpc]);
        command.args(["--upstream", &self.node.rpc_url(), "--ledger"]).arg(ledger);
        if is_first {
            command.arg("--snapshot").arg(&self.archive);
        }
        NodeCommand::new(command).logged().start()
    }
}

/// Transfers, each to an account of its own, until it is stopped.
struct Load {
    is_stopped: Arc<AtomicBool>,
    ended: Receiver<()>,
    thread: JoinHandle<Result<Vec<(Pubkey, u64)>>>,
}

impl Load {
    fn start(source: &Node, payer: Keypair) -> Self {
        let is_stopped = Arc::new(AtomicBool::new(false));
        let url = source.rpc_url();
        let stopped = Arc::clone(&is_stopped);
        // Nothing is ever sent. The end of the thread drops the sender.
        let (end, ended) = sync_channel::<()>(0);
        let thread = thread::spawn(move || {
            let _end = end;
            let rpc = RpcClient::new_with_commitment(url, CONFIRMED);
            let mut sent = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                send_burst(&rpc, &payer, &mut sent)?;
            }
            Ok(sent)
        });
        Self { is_stopped, ended, thread }
    }

    /// Lets the load continue for a while. It is an error if it ends.
    fn run_for(&self, time: Duration) -> Result<()> {
        match self.ended.recv_timeout(time) {
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Ok(()) | Err(RecvTimeoutError::Disconnected) => bail!("the load ended"),
        }
    }

    /// Ends. Returns the accounts that got lamports.
    fn stop(self) -> Result<Vec<(Pubkey, u64)>> {
        self.is_stopped.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow!("the load panicked"))?
    }
}

fn send_burst(rpc: &RpcClient, payer: &Keypair, sent: &mut Vec<(Pubkey, u64)>) -> Result<()> {
    let blockhash = rpc.get_latest_blockhash()?;
    for _ in 0..BURST {
        let to = Keypair::new().pubkey();
        let lamports = LAMPORTS + sent.len() as u64;
        let instruction = transfer(&payer.pubkey(), &to, lamports);
        let message =
            Message::new_with_blockhash(&[instruction], Some(&payer.pubkey()), &blockhash);
        let transaction =
            VersionedTransaction::try_new(VersionedMessage::Legacy(message), &[payer])?;
        let config = RpcSendTransactionConfig {
            skip_preflight: true,
            ..RpcSendTransactionConfig::default()
        };
        rpc.send_transaction_with_config(&transaction, config)?;
        sent.push((to, lamports));
    }
    Ok(())
}

fn call(node: &Node, method: &'static str, params: Value) -> Result<Value> {
    RpcClient::new(node.rpc_url()).send(RpcRequest::Custom { method }, params).context(method)
}

fn slot(node: &Node, commitment: &str) -> Result<u64> {
    let slot = call(node, "getSlot", json!([{ "commitment": commitment }]))?;
    slot.as_u64().context("a slot")
}

/// A metric of a follower: one of its slots.
fn slot_at(node: &Node, at: &str) -> Result<u64> {
    let text = metrics(node)?;
    let name = format!("hydrant_follow_slot{{at=\"{at}\"}} ");
    let value = text.lines().find_map(|line| line.strip_prefix(&name)).context("a metric")?;
    Ok(value.parse()?)
}

/// Waits until a follower has verified a slot. Its bank hash is the source's then, and so are all accounts.
fn wait_for_proof(source: &Node, follower: &Node, slot: u64) -> Result<()> {
    let proof = wait_until("the proof of a slot", TIMEOUT, || {
        let proof = call(follower, "hydrantGetVerification", json!([]))?;
        ensure!(proof["mismatchedBanks"] == 0 && proof["limitation"].is_null(), "{proof}");
        Ok((proof["verifiedSlot"].as_u64() >= Some(slot)).then_some(proof))
    })?;
    let verified = &proof["verifiedSlot"];
    let expected = call(source, "hydrantGetVerification", json!([verified]))?;
    ensure!(proof["bank"]["level"] == "consistent", "{proof}");
    for part in ["bankHash", "ltHashChecksum", "blockhash", "signatureCount"] {
        let found = &proof["bank"][part];
        let expected = &expected["bank"][part];
        ensure!(!found.is_null() && found == expected, "{part} of {verified}: {found}, {expected}");
    }
    Ok(())
}

/// The times that a restart took.
struct Restart {
    /// From the start of the process until it serves.
    ready: Duration,
    /// From then until the slot that the source had then is verified.
    caught_up: Duration,
    /// Slots from the state that it started from to that slot.
    behind: u64,
}

fn random_ms(max: u64) -> Duration {
    Duration::from_millis(RandomState::new().hash_one(()) % max)
}

#[test]
#[expect(clippy::print_stdout, reason = "a run reports what it took")]
fn a_killed_follower_comes_back_verified_and_its_subscribers_miss_nothing() -> Result<()> {
    let kills = env::var(KILLS).map_or(Ok(KILLS_DEFAULT), |kills| kills.parse())?;
    let files = tempfile::tempdir()?;
    let payer = Keypair::new();
    let source = SourceNode::start(files.path(), &payer.pubkey())?;
    let runtime = tokio::runtime::Runtime::new()?;
    let (server, servers) = watch::channel(None);
    let (end, ends) = watch::channel(None);
    let subscribers = LEVELS.map(|level| {
        runtime.spawn(
            ResumingSubscriber {
                level,
                server: servers.clone(),
                end: ends.clone(),
                newest: source.root,
                is_deduplicated: true,
            }
            .run(),
        )
    });
    let (_source_server, source_servers) = watch::channel(source.node.grpc);
    let expected = LEVELS.map(|level| {
        runtime.spawn(
            ResumingSubscriber {
                level,
                server: source_servers.clone(),
                end: ends.clone(),
                newest: source.root,
                is_deduplicated: false,
            }
            .run(),
        )
    });
    let load = Load::start(&source.node, payer);
    let ledger = files.path().join("follower");
    let mut restarts = Vec::new();
    let mut follower = source.follow(&ledger, true)?;
    server.send_replace(follower.grpc);
    wait_until("the first stored bank", TIMEOUT, || {
        Ok((slot_at(&follower, "stored")? > source.root).then_some(()))
    })?;
    for kill in 0..kills {
        load.run_for(random_ms(1_500))?;
        let newest = slot_at(&follower, "consistent")?;
        follower.process().kill()?;
        follower.process().wait()?;
        server.send_replace(None);
        let started = now();
        follower = source.follow(&ledger, false).with_context(|| format!("kill {kill}"))?;
        let ready = now() - started;
        server.send_replace(follower.grpc);
        let at = slot(&source.node, "confirmed")?;
        let stored = slot(&follower, "finalized")?;
        // Now and then it is killed again before it has caught up.
        if kill + 1 < kills && kill % 4 == 3 {
            println!("kill {}: at {newest}, from {stored}, ready in {ready:.2?}", kill + 1);
            continue;
        }
        let caught_up = now();
        wait_for_proof(&source.node, &follower, at.max(newest) - 1)
            .with_context(|| format!("kill {kill}"))?;
        let caught_up = now() - caught_up;
        let behind = at.saturating_sub(stored);
        println!(
            "kill {}: at {newest}, from {stored}, {behind} behind, ready in {ready:.2?}, caught \
             up in {caught_up:.2?}",
            kill + 1
        );
        restarts.push(Restart { ready, caught_up, behind });
    }
    let sent = load.stop()?;
    let last = slot(&source.node, "confirmed")? + 1;
    end.send_replace(Some(last));
    runtime.block_on(async {
        for (subscriber, expected) in subscribers.into_iter().zip(expected) {
            check_received(subscriber.await??, expected.await??, last, kills)?;
        }
        Ok::<_, anyhow::Error>(())
    })?;
    wait_for_proof(&source.node, &follower, last)?;
    check_accounts(&source.node, &follower, &sent)?;
    print_summary(&restarts, sent.len(), last - source.root);
    Ok(())
}

/// Both got the same of every slot.
fn check_received(found: Received, expected: Received, last: u64, kills: usize) -> Result<()> {
    ensure!(expected.resumed == 0, "the source ended");
    ensure!(found.resumed >= kills.min(1), "it never resumed");
    for (slot, expected) in expected.slots.range(..=last) {
        let found = found.slots.get(slot).with_context(|| format!("slot {slot} is missing"))?;
        ensure!(found == expected, "slot {slot}: {found:?}, expected {expected:?}");
    }
    Ok(())
}

/// Both have the same accounts of all transfers.
fn check_accounts(source: &Node, follower: &Node, sent: &[(Pubkey, u64)]) -> Result<()> {
    let [source, follower] =
        [source, follower].map(|node| RpcClient::new_with_commitment(node.rpc_url(), CONFIRMED));
    let mut landed = 0;
    for sent in sent.chunks(100) {
        let keys: Vec<Pubkey> = sent.iter().map(|(to, _)| *to).collect();
        let expected = source.get_multiple_accounts(&keys)?;
        ensure!(follower.get_multiple_accounts(&keys)? == expected, "accounts differ");
        landed += expected.iter().flatten().count();
    }
    ensure!(landed > sent.len() / 2, "{landed} of {} transfers landed", sent.len());
    Ok(())
}

#[expect(clippy::print_stdout, reason = "a run reports what it took")]
fn print_summary(restarts: &[Restart], sent: usize, slots: u64) {
    let median = |mut all: Vec<f64>| {
        all.sort_by(f64::total_cmp);
        let last = all.last().copied().unwrap_or_default();
        (all.get(all.len() / 2).copied().unwrap_or_default(), last)
    };
    let (ready, ready_max) = median(restarts.iter().map(|it| it.ready.as_secs_f64()).collect());
    let (caught_up, caught_up_max) =
        median(restarts.iter().map(|it| it.caught_up.as_secs_f64()).collect());
    let (behind, behind_max) = median(restarts.iter().map(|it| it.behind as f64).collect());
    println!(
        "{} restarts, {slots} slots, {sent} transfers; median and maximum: ready in {ready:.2} and \
         {ready_max:.2} s, {behind} and {behind_max} slots behind, caught up in {caught_up:.2} and \
         {caught_up_max:.2} s",
        restarts.len()
    );
}
