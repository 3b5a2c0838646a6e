//! The notifications of changed UTXOs for one move of the virtual block.
//!
//! Input: the steps of the move. Output: a notification for each subscription that they match, with the net change of
//! all steps. As in kaspad, an entry that only gets another DAA score is in both lists.
//! Cost: a lookup for each changed UTXO, an encoding for each that matches, and a copy of it for each distinct
//! subscription.
//! Invariant: an entry is encoded once for each format.

use std::sync::Arc;

use chain_kaspa::{LedgerBlock, NetChanges};
use cpu_pool::fork_join;
use kaspa::{encode_borsh_utxos_changed, encode_json_utxos_changed, encode_protobuf_utxos_changed};
use ledger::Commitment;
use subscriptions::{
    AfterDelivery, BlockStep, Direction, Position, Publication, QueueMemory, SubscriptionId,
};
use websocket::{Payload, SharedBytes};

use crate::changed_utxos::{ChangeLists, ChangedUtxos, SetMatch, split_into_parts};
use crate::kaspa_rpc::{KaspaServer, NoItems};
use crate::message_format::MessageFormat;
use crate::messages::to_message;
use crate::subscription::{SCRIPTS, Subscription};

/// Publishes the changes of a move. `steps` are those of all commitments.
pub(crate) fn publish_utxos(server: &Arc<KaspaServer>, steps: &[BlockStep<LedgerBlock>]) {
    let is_processed = |step: &&BlockStep<LedgerBlock>| step.commitment == Commitment::Processed;
    let Some(last) = steps.iter().rfind(is_processed) else { return };
    let mut net = NetChanges::default();
    for step in steps.iter().filter(is_processed) {
        match step.direction {
            Direction::Applied => net.apply(&step.body.changes),
            Direction::Reverted => net.revert(&step.body.changes),
        }
    }
    let moved = ChangedUtxos::new(net.added_utxos().cloned(), net.removed_utxos().cloned());
    if moved.utxos().is_empty() {
        // Only the virtual DAA score has changed.
        return;
    }
    for format in MessageFormat::ALL {
        publish_move(server, &moved, format, last.number);
    }
}

fn publish_move(server: &Arc<KaspaServer>, moved: &ChangedUtxos, format: MessageFormat, step: u64) {
    let subscriptions = &server.subscriptions;
    let all = Subscription::AllUtxos(format).topic();
    let sets = Subscription::Utxos(format).topic();
    let matches = subscriptions.matches();
    let all = matches.matching(all, []);
    let sets = matches.matching_sets(sets, SCRIPTS, step, moved.items());
    drop(matches);
    // The block that has a UTXO may have been dropped, if the publisher is late.
    let sets = moved.remove_stale(server.chain.utxos.addresses(), sets);
    if all.is_empty() && sets.is_empty() {
        return;
    }
    let mut is_needed = vec![!all.is_empty(); moved.utxos().len()];
    for at in sets.iter().flat_map(|(_, refs)| refs) {
        is_needed[*at as usize] = true;
    }
    let encoded = Arc::new(moved.encode(format, server.prefix(), &is_needed));
    let memory = Arc::clone(subscriptions.queue_memory());
    let to_all: Vec<Publication<Payload<NoItems>>> = all
        .into_iter()
        .map(|found| {
            let message = encode_message(format, &encoded.select_all());
            new_publication(found.id, message, step, format, &memory)
        })
        .collect();
    let parts = split_into_parts(sets);
    let to_sets = fork_join(&server.pool, parts, move |part| {
        let publication = |(found, refs): SetMatch| {
            let message = encode_message(format, &encoded.select(&refs));
            new_publication(found.id, message, step, format, &memory)
        };
        part.into_iter().map(publication).collect::<Vec<_>>()
    });
    subscriptions.deliver(to_all.into_iter().chain(to_sets.into_iter().flatten()));
}

fn encode_message(format: MessageFormat, lists: &ChangeLists<'_>) -> Vec<u8> {
    let ChangeLists { added, removed } = lists;
    match format {
        MessageFormat::Borsh => encode_borsh_utxos_changed(added, removed),
        MessageFormat::Json => encode_json_utxos_changed(added, removed),
        MessageFormat::Protobuf => encode_protobuf_utxos_changed(added, removed),
    }
}

fn new_publication(
    subscription: SubscriptionId,
    message: Vec<u8>,
    step: u64,
    format: MessageFormat,
    memory: &Arc<QueueMemory>,
) -> Publication<Payload<NoItems>> {
    let body = Payload::Whole(SharedBytes::new(to_message(format, message), memory));
    let bytes = body.bytes();
    let at = Position(step);
    Publication { subscription, body, bytes, at, after_delivery: AfterDelivery::Continue }
}
