//! Agave's TPU client, unmodified: transfers, and the deployment of a program, over QUIC.
//!
//! It finds the port itself: leaders by RPC, their TPU addresses by `getClusterNodes`.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use solana_client::nonblocking::rpc_client::RpcClient;
use solana_client::nonblocking::tpu_client::TpuClient;
use solana_client::send_and_confirm_transactions_in_parallel::{
    SendAndConfirmConfigV2, send_and_confirm_transactions_in_parallel_v2,
};
use solana_client::tpu_client::TpuClientConfig;
use solana_keypair::Keypair;
use solana_loader_v3_interface::instruction::{create_buffer, deploy_with_max_program_len, write};
use solana_loader_v3_interface::state::UpgradeableLoaderState;
use solana_message::Message;
use solana_rpc_client_api::config::RpcSendTransactionConfig;
use solana_signer::Signer;
use solana_system_interface::instruction::transfer;
use solana_transaction::versioned::VersionedTransaction;
use testkit::node::Node;
use tokio::runtime::{Builder, Runtime};

use crate::clients::{NODE_FLAGS, ProgramElves};
use crate::node::start_node;
use crate::world::{CONFIRMED, WAIT_TIMEOUT, World, wait_until};

const CHUNK: usize = 900;

#[test]
fn transfers_over_quic_land() -> Result<()> {
    let node = start_node(NODE_FLAGS)?;
    let world = World::new(&node);
    world.airdrop(&world.payer.pubkey(), 10)?;
    let nodes = world.rpc.get_cluster_nodes()?;
    ensure!(nodes[0].tpu_quic.is_some() && nodes[0].tpu_quic == node.tpu, "{nodes:?}");
    let blockhash = world.rpc.get_latest_blockhash()?;
    let transfers = (1_000_000..1_000_100).map(|lamports| {
        let transfer = transfer(&world.payer.pubkey(), &world.bob.pubkey(), lamports);
        world.sign(&[transfer], &[], &[], blockhash)
    });
    let transfers: Vec<_> = transfers.collect::<Result<_>>()?;
    let _client = send(&node, &transfers)?;
    for transfer in &transfers {
        let signature = &transfer.signatures[0];
        let confirmed = world.wait_until_confirmed(signature).with_context(|| node.log_end())?;
        confirmed.with_context(|| format!("transfer {signature}"))?;
    }
    let expected: u64 = (1_000_000..1_000_100).sum();
    assert_eq!(world.rpc.get_balance(&world.bob.pubkey())?, expected);
    Ok(())
}

/// Sends over QUIC only: this client has no fallback. It transmits only while it and its runtime exist.
pub(crate) fn send(
    node: &Node,
    transactions: &[VersionedTransaction],
) -> Result<(impl Sized + use<>, Runtime)> {
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    let tpu = runtime.block_on(async {
        let rpc = Arc::new(RpcClient::new_with_commitment(node.rpc_url(), CONFIRMED));
        let tpu = TpuClient::new("test", rpc, &node.ws_url(), TpuClientConfig::default()).await?;
        for transaction in transactions {
            tpu.try_send_transaction(transaction).await?;
        }
        anyhow::Ok(tpu)
    })?;
    Ok((tpu, runtime))
}

#[test]
fn a_program_is_deployed_over_quic() -> Result<()> {
    let node = start_node(NODE_FLAGS)?;
    let world = World::new(&node);
    world.airdrop(&world.payer.pubkey(), 100)?;
    let elf = fs::read(&ProgramElves::find()?.first).context("read the ELF")?;
    let payer = world.payer.pubkey();
    let buffer = Keypair::new();
    let program = Keypair::new();
    let rent = world.rent(UpgradeableLoaderState::size_of_buffer(elf.len()))?;
    world.send(&create_buffer(&payer, &buffer.pubkey(), &payer, rent, elf.len())?, &[&buffer])?;

    // All chunks are sent at once through the TPU, as by `solana program deploy`.
    let chunks = elf.chunks(CHUNK).zip((0..).step_by(CHUNK));
    let messages: Vec<Message> = chunks
        .map(|(chunk, at)| {
            let write = write(&buffer.pubkey(), &payer, at, chunk.to_vec());
            Message::new(&[write], Some(&payer))
        })
        .collect();
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    let errors = runtime.block_on(async {
        let rpc = Arc::new(RpcClient::new_with_commitment(node.rpc_url(), CONFIRMED));
        let config = TpuClientConfig::default();
        let tpu = TpuClient::new("deploy", Arc::clone(&rpc), &node.ws_url(), config).await?;
        let config = SendAndConfirmConfigV2 {
            with_spinner: false,
            resign_txs_count: Some(5),
            rpc_send_transaction_config: RpcSendTransactionConfig::default(),
        };
        let signers: [&Keypair; 1] = [&world.payer];
        anyhow::Ok(
            send_and_confirm_transactions_in_parallel_v2(
                rpc,
                Some(tpu),
                &messages,
                &signers,
                config,
            )
            .await?,
        )
    })?;
    ensure!(errors.iter().all(Option::is_none), "{errors:?}");

    let rent = world.rent(UpgradeableLoaderState::size_of_program())?;
    let deploy = deploy_with_max_program_len(
        &payer,
        &program.pubkey(),
        &buffer.pubkey(),
        &payer,
        rent,
        elf.len(),
        true,
    )?;
    world.send(&deploy, &[&program])?;
    assert!(world.rpc.get_account(&program.pubkey())?.executable);

    // The client may fall back to RPC. The node's own counter shows that it did not.
    let expected = messages.len() as u64;
    wait_until("the node's count of transactions over QUIC", WAIT_TIMEOUT, || {
        Ok((count_accepted(&node.log_end()) >= expected).then_some(()))
    })
}

/// The last count of accepted transactions in a node's log.
fn count_accepted(log: &str) -> u64 {
    let mut counts = log.lines().filter_map(|line| {
        let (_, counts) = line.split_once("transactions over QUIC: ")?;
        counts.split(", ").nth(1)?.strip_suffix(" accepted")?.parse().ok()
    });
    counts.next_back().unwrap_or_default()
}

#[test]
fn what_is_accepted_is_forwarded() -> Result<()> {
    // Two ledgers do not share blockhashes, so the second refuses the forwarded transactions; but they arrive
    // there, and are counted.
    let second = start_node(NODE_FLAGS)?;
    let to = second.tpu.context("endpoints without tpu")?.to_string();
    let first = start_node(&[NODE_FLAGS, &["--forward", &to]].concat())?;
    let world = World::new(&first);
    world.airdrop(&world.payer.pubkey(), 10)?;
    let blockhash = world.rpc.get_latest_blockhash()?;
    let transfers = (1_000_000..1_000_010).map(|lamports| {
        let transfer = transfer(&world.payer.pubkey(), &world.bob.pubkey(), lamports);
        world.sign(&[transfer], &[], &[], blockhash)
    });
    let _client = send(&first, &transfers.collect::<Result<Vec<_>>>()?)?;
    wait_until("the second node's count", WAIT_TIMEOUT, || {
        Ok(second.log_end().contains("10 received").then_some(()))
    })
    .with_context(|| format!("{}\n{}", first.log_end(), second.log_end()))?;
    wait_until("the first node's count", Duration::from_secs(15), || {
        Ok(first.log_end().contains("10 sent, 10 delivered").then_some(()))
    })?;
    Ok(())
}
