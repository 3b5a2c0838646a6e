//! Subscriptions that follow the chain and one signature; those of accounts are with the tokens.

use anyhow::{Context, Result};
use solana_commitment_config::CommitmentConfig;
use solana_rpc_client_api::config::{
    RpcBlockSubscribeConfig, RpcBlockSubscribeFilter, RpcSignatureSubscribeConfig,
};
use solana_rpc_client_api::response::{RpcSignatureResult, SlotUpdate};
use solana_signer::Signer;
use solana_system_interface::instruction::transfer;
use solana_transaction_status_client_types::TransactionDetails;

use super::step;
use crate::socket::Socket;
use crate::world::{CONFIRMED, World};

pub(super) fn steps(world: &World, socket: &Socket) -> Result<()> {
    step("subscriptions: slots and roots follow the chain", || follow_the_chain(socket))?;
    step("subscriptions: slot updates, votes and blocks", || {
        updates_votes_and_blocks(world, socket)
    })?;
    step("subscriptions: a signature, received and at each commitment", || signature(world, socket))
}

fn follow_the_chain(socket: &Socket) -> Result<()> {
    let slots = socket.listen(async |client| client.slot_subscribe().await)?;
    let roots = socket.listen(async |client| client.root_subscribe().await)?;
    let first = slots.next()?;
    assert_eq!(first.parent, first.slot - 1);
    assert_eq!(slots.find(|info| info.slot > first.slot)?.slot, first.slot + 1);
    let root = roots.next()?;
    assert_eq!(roots.find(|later| *later > root)?, root + 1);
    socket.close(slots);
    socket.close(roots);
    Ok(())
}

fn updates_votes_and_blocks(world: &World, socket: &Socket) -> Result<()> {
    let updates = socket.listen(async |client| client.slot_updates_subscribe().await)?;
    updates.find(|update| matches!(update, SlotUpdate::CreatedBank { .. }))?;
    updates.find(|update| matches!(update, SlotUpdate::Frozen { .. }))?;
    updates.find(|update| matches!(update, SlotUpdate::OptimisticConfirmation { .. }))?;
    updates.find(|update| matches!(update, SlotUpdate::Root { .. }))?;

    let votes = socket.listen(async |client| client.vote_subscribe().await)?;
    let vote = votes.next()?;
    assert_eq!(vote.vote_pubkey, world.rpc.get_vote_accounts()?.current[0].vote_pubkey);

    let filter =
        RpcBlockSubscribeFilter::MentionsAccountOrProgram(world.payer.pubkey().to_string());
    let config = RpcBlockSubscribeConfig {
        commitment: Some(CONFIRMED),
        transaction_details: Some(TransactionDetails::Signatures),
        max_supported_transaction_version: Some(0),
        ..RpcBlockSubscribeConfig::default()
    };
    let blocks =
        socket.listen(async |client| client.block_subscribe(filter, Some(config)).await)?;
    let sent =
        world.send(&[transfer(&world.payer.pubkey(), &world.bob.pubkey(), 1_000_000)], &[])?;
    let update = blocks.next()?.value;
    assert_eq!(update.err, None);
    let block = update.block.context("no block")?;
    assert_eq!(block.parent_slot, update.slot - 1);
    assert!(block.signatures.context("no signatures")?.contains(&sent.to_string()));
    socket.close(updates);
    socket.close(votes);
    socket.close(blocks);
    Ok(())
}

fn signature(world: &World, socket: &Socket) -> Result<()> {
    let move_some = transfer(&world.payer.pubkey(), &world.bob.pubkey(), 1_000_001);
    let transaction = world.sign(&[move_some], &[], &[], world.rpc.get_latest_blockhash()?)?;
    let signature = transaction.signatures[0];
    let subscribe = |commitment, received| {
        let config = RpcSignatureSubscribeConfig {
            commitment: Some(commitment),
            enable_received_notification: Some(received),
        };
        socket.listen(async |client| client.signature_subscribe(&signature, Some(config)).await)
    };
    let processed = subscribe(CommitmentConfig::processed(), true)?;
    let finalized = subscribe(CommitmentConfig::finalized(), false)?;
    assert_eq!(world.rpc.send_transaction(&transaction)?, signature);
    assert!(matches!(processed.next()?.value, RpcSignatureResult::ReceivedSignature(_)));
    let ran = processed.next()?;
    let is_final = finalized.next()?;
    for result in [&ran.value, &is_final.value] {
        let RpcSignatureResult::ProcessedSignature(result) = result else {
            anyhow::bail!("not a result: {result:?}");
        };
        assert_eq!(result.err, None);
    }
    assert!(ran.context.slot <= is_final.context.slot);
    let statuses = world.rpc.get_signature_statuses_with_history(&[signature])?.value;
    let status = statuses[0].as_ref().context("no status")?;
    assert!(status.satisfies_commitment(CommitmentConfig::finalized()));
    assert_eq!(status.confirmations, None);
    Ok(())
}
