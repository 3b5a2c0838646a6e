//! Forks on request, on a running node: the examples of docs/forks.md, and what clients of each interface see.

use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, ensure};
use chain_solana::{EventSink, ForkTransactions, LedgerEvent};
use follow::VerifyMode;
use http_client::{Client, Endpoint};
use ledger::{Address, Commitment};
use serde_json::{Value, json};
use solana_account::ReadableAccount;
use solana_keypair::Keypair;
use solana_rpc_client_api::config::{
    RpcAccountInfoConfig, RpcBlockConfig, RpcSignatureSubscribeConfig,
};
use solana_rpc_client_api::request::RpcRequest;
use solana_rpc_client_api::response::SlotUpdate;
use solana_signer::Signer;
use solana_system_interface::instruction::transfer;
use yellowstone_grpc_proto::geyser::subscribe_update::UpdateOneof;
use yellowstone_grpc_proto::geyser::{CommitmentLevel, SlotStatus};

use crate::followed_ledger::{Following, Source, assert_equal, wait, write_snapshot};
use crate::grpc;
use crate::node::start_node;
use crate::observability::metrics;
use crate::socket::Socket;
use crate::world::{CONFIRMED, World};

const PAGE: &str = include_str!("../../../../docs/forks.md");

/// The blocks of the page that are marked with a word, in order.
fn examples(mark: &str) -> Vec<Value> {
    let start = format!("```json {mark}\n");
    let blocks = PAGE.split(&start).skip(1);
    let text = blocks.map(|rest| rest.split("```").next().unwrap_or_default());
    text.map(|text| serde_json::from_str(text).expect("an example is JSON")).collect()
}

#[test]
fn the_examples_of_the_page_are_true() -> Result<()> {
    let requests = examples("request");
    let responses = examples("response");
    ensure!(requests.len() == 8 && responses.len() == 8, "{}", requests.len());
    let node = start_node(&["--slot-ms", "0", "--finalize-after", "31"])?;
    let mut client = Client::open(node.rpc)?;
    for (request, expected) in requests.iter().zip(&responses) {
        let bytes = Endpoint::from(node.rpc).body(&request.to_string());
        let response: Value = serde_json::from_slice(client.exchange(&bytes)?.body)?;
        ensure!(response == *expected, "{request}: {response}");
    }
    Ok(())
}

fn call(world: &World, method: &'static str, params: Value) -> Result<Value> {
    Ok(world.rpc.send(RpcRequest::Custom { method }, params)?)
}

#[test]
fn a_reorganization_is_seen_over_http_websocket_and_grpc() -> Result<()> {
    let node = start_node(&["--slot-ms", "0", "--finalize-after", "31"])?;
    let world = World::new(&node);
    let alice = world.alice.pubkey();
    let bob = world.bob.pubkey();
    world.airdrop(&world.payer.pubkey(), 10)?;
    world.airdrop(&alice, 1)?;
    // This blockhash is on both forks.
    let blockhash = world.rpc.get_latest_blockhash()?;
    call(&world, "hydrant_mine", json!([2]))?;
    let config =
        RpcAccountInfoConfig { commitment: Some(CONFIRMED), ..RpcAccountInfoConfig::default() };
    let socket = Socket::open(&node.ws_url())?;
    let accounts =
        socket.listen(async |client| client.account_subscribe(&alice, Some(config)).await)?;
    let slots = socket.listen(async |client| client.slot_updates_subscribe().await)?;
    let runtime = tokio::runtime::Runtime::new()?;
    let address = node.grpc.context("the node serves gRPC")?;
    let mut updates =
        runtime.block_on(grpc::subscribe(address, CommitmentLevel::Processed, None))?;

    let pay = |lamports| -> Result<_> {
        let pay = transfer(&world.payer.pubkey(), &alice, lamports);
        let transaction = world.sign(&[pay], &[], &[], blockhash)?;
        let signature = world.rpc.send_transaction(&transaction)?;
        world.wait_until_confirmed(&signature)??;
        Ok((transaction, signature))
    };
    let (_, first) = pay(1_000_001)?;
    let (second_transaction, second) = pay(1_000_002)?;
    let lamports = |expected: u64| -> Result<()> {
        let found = accounts.next()?.value.lamports;
        ensure!(found == expected, "{found} instead of {expected}");
        Ok(())
    };
    let before = 1_000_000_000;
    lamports(before + 1_000_001)?;
    lamports(before + 2_000_003)?;
    let newest = world.rpc.get_slot()?;

    let result = call(&world, "hydrant_reorg", json!([{ "depth": 2, "transactions": "drop" }]))?;
    let left = [newest - 1, newest, newest + 1];
    let entered = [newest + 2, newest + 3, newest + 4];
    ensure!(result["left"] == json!(left) && result["entered"] == json!(entered), "{result}");
    ensure!(world.rpc.get_balance(&alice)? == before);
    lamports(before)?;
    for signature in [&first, &second] {
        let status = world.rpc.get_signature_statuses(&[*signature])?.value;
        ensure!(status[0].is_none(), "{status:?}");
    }
    let block = |slot| {
        let config = RpcBlockConfig { commitment: Some(CONFIRMED), ..RpcBlockConfig::default() };
        world.rpc.get_block_with_config(slot, config)
    };
    for slot in left {
        ensure!(block(slot).is_err(), "slot {slot} has a block");
    }
    ensure!(block(entered[0])?.parent_slot == newest - 2);

    // The newest left block first, and then the new fork on the block below them.
    let dead = |update: &SlotUpdate| match update {
        SlotUpdate::Dead { slot, .. } => Some(*slot),
        _ => None,
    };
    let seen = slots.through(|update| {
        matches!(update, SlotUpdate::CreatedBank { slot, parent, .. }
            if *slot == entered[0] && *parent == newest - 2)
    })?;
    let seen: Vec<u64> = seen.iter().filter_map(dead).collect();
    ensure!(seen == [left[2], left[1], left[0]], "{seen:?}");
    let seen = runtime.block_on(async {
        let mut seen = Vec::new();
        loop {
            let next = tokio::time::timeout(crate::world::WAIT_TIMEOUT, updates.message()).await?;
            let update = next?.context("the stream ended")?.update_oneof;
            let Some(UpdateOneof::Slot(slot)) = update else { continue };
            let status = SlotStatus::try_from(slot.status)?;
            if status == SlotStatus::SlotDead {
                ensure!(slot.dead_error.is_some(), "{slot:?}");
                seen.push(slot.slot);
            }
            if status == SlotStatus::SlotConfirmed && slot.slot == entered[2] {
                return Ok::<_, anyhow::Error>(seen);
            }
        }
    })?;
    ensure!(seen == [left[2], left[1], left[0]], "{seen:?}");

    // The transaction lands again on the new fork, and its subscriber is notified.
    let config = RpcSignatureSubscribeConfig {
        commitment: Some(CONFIRMED),
        enable_received_notification: None,
    };
    let landed =
        socket.listen(async |client| client.signature_subscribe(&second, Some(config)).await)?;
    let again = world.rpc.send_transaction(&second_transaction)?;
    ensure!(again == second);
    let slot = landed.next()?.context.slot;
    ensure!(slot > entered[1], "{slot}");
    lamports(before + 1_000_002)?;
    ensure!(world.rpc.get_balance(&bob)? == 0);
    Ok(())
}

#[test]
fn a_reverted_snapshot_is_seen_by_subscribers_also_below_the_finalized_block() -> Result<()> {
    let node = start_node(&["--slot-ms", "0"])?;
    let world = World::new(&node);
    let alice = world.alice.pubkey();
    world.airdrop(&world.payer.pubkey(), 10)?;
    world.airdrop(&alice, 1)?;
    // All events of the airdrops have been sent.
    call(&world, "hydrant_mine", json!([1]))?;
    let socket = Socket::open(&node.ws_url())?;
    let config = |commitment| RpcAccountInfoConfig {
        commitment: Some(commitment),
        ..RpcAccountInfoConfig::default()
    };
    let finalized = solana_commitment_config::CommitmentConfig::finalized();
    let [confirmed, finalized] = [CONFIRMED, finalized].map(|commitment| {
        socket
            .listen(async |client| client.account_subscribe(&alice, Some(config(commitment))).await)
    });
    let confirmed = confirmed?;
    let finalized = finalized?;
    let id = call(&world, "hydrant_snapshot", json!([]))?;
    for n in 1..=3 {
        world.send(&[transfer(&world.payer.pubkey(), &alice, n)], &[])?;
    }
    ensure!(metrics(&node)?.contains("hydrant_fork_snapshots 1\n"));
    ensure!(call(&world, "hydrant_revert", json!([id]))? == json!(true));
    for inbox in [&confirmed, &finalized] {
        let seen = inbox.through(|change| change.value.lamports == 1_000_000_000)?;
        let lamports: Vec<u64> = seen.iter().map(|change| change.value.lamports).collect();
        let base = 1_000_000_000;
        ensure!(lamports == [base + 1, base + 3, base + 6, base], "{lamports:?}");
    }
    ensure!(metrics(&node)?.contains("hydrant_fork_snapshots 0\n"));
    // Subscribers stay, and see what follows.
    world.send(&[transfer(&world.payer.pubkey(), &alice, 7)], &[])?;
    for inbox in [&confirmed, &finalized] {
        ensure!(inbox.next()?.value.lamports == 1_000_000_007);
    }
    Ok(())
}

/// The banks that a follower left.
#[derive(Clone, Default)]
struct Left(Arc<Mutex<Vec<u64>>>);

impl EventSink for Left {
    fn send(&mut self, event: &LedgerEvent) {
        if let LedgerEvent::Reverted { block, .. } = event {
            self.0.lock().expect("no panic").push(block.id.slot);
        }
    }
}

#[test]
fn a_follower_verifies_the_new_fork_of_a_reorganization() {
    let source = Source::start();
    source.run_to(10);
    let dir = tempfile::tempdir().expect("a directory");
    let rooted = source.reader.view(Commitment::Finalized);
    let archive = write_snapshot(&rooted, dir.path());
    let left = Left::default();
    let config = crate::followed_ledger::config(source.grpc.address());
    let config = follow::FollowerConfig { verify: VerifyMode::Sequence, ..config };
    let following = Following::start_with(config, &archive, vec![Box::new(left.clone())]);
    source.run_to(14);
    wait("the blocks that are left", || following.status.processed() >= 13);
    let wallet = Keypair::new().pubkey();
    let blockhash = source.reader.view(Commitment::Finalized).meta().last_blockhash();
    source.faucet.airdrop(clients::ClientId(1).into(), wallet, 5_000_000, blockhash).expect("sent");
    wait("the airdrop", || source.slot(Commitment::Confirmed) >= 15);
    let mut newest = 0;
    for transactions in [ForkTransactions::Reexecute, ForkTransactions::Drop] {
        source.forks.reorg(clients::ClientId(1), 2, transactions).wait().expect("not too deep");
        newest = source.slot(Commitment::Confirmed);
        source.run_to(newest + 3);
    }
    let end = source.slot(Commitment::Confirmed);
    wait("the last bank", || {
        following.status.processed() >= end || following.status.mismatch().is_some()
    });
    assert_eq!(following.status.mismatch(), None);
    wait("the bank before it is verified", || following.status.verified() + 1 >= end);
    let account = |reader: &chain_solana::Reader| {
        let account = reader.view(Commitment::Confirmed).record(&Address::from(wallet.to_bytes()));
        account.map_or(0, |account| account.0.lamports())
    };
    assert_eq!(account(&following.reader), account(&source.reader));
    assert_equal(&source, &following, newest);
    assert!(!left.0.lock().expect("no panic").is_empty(), "it was on the left fork");
    following.stop();
    source.stop();
}
