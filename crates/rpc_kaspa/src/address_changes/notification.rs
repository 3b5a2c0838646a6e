//! The notifications of chain blocks: for all subscriptions when a block is published, and for one that catches up.
//!
//! Cost: a lookup for each changed UTXO of a block if there is a subscription, an encoding for each that matches, and a
//! copy of it for each distinct subscription.
//! Invariant: a UTXO matches by the present id of its script, however long its block has been final.

use std::sync::Arc;

use chain_kaspa::LedgerBlock;
use cpu_pool::fork_join;
use kaspa::{
    AddressChangesHead, ChangeKind, encode_json_address_changes, encode_json_address_changes_end,
};
use ledger::{AddressId, Commitment};
use subscriptions::{
    AddressSet, AfterDelivery, BlockStep, Direction, Position, Publication, QueueMemory,
    SubscriptionId,
};
use websocket::{Payload, SharedBytes, SplitPayload};

use crate::changed_utxos::{ChangedUtxos, EncodedUtxos, SetMatch, split_into_parts};
use crate::kaspa_rpc::{KaspaRpc, KaspaServer, NoItems};
use crate::message_format::MessageFormat;
use crate::messages::to_message;
use crate::recent_blocks::to_position;
use crate::subscription::{SCRIPTS, Subscription};

/// Publishes the blocks that joined or left the chain up to the sink. `steps` are those of all commitments.
pub(crate) fn publish_blocks(server: &Arc<KaspaServer>, steps: &[BlockStep<LedgerBlock>]) {
    let topic = Subscription::Addresses.topic();
    // A later subscription starts after these steps.
    if !server.subscriptions.matches().has_key_kind(topic, SCRIPTS) {
        return;
    }
    for step in steps.iter().filter(|step| step.commitment == Commitment::Confirmed) {
        publish_block(server, step);
    }
}

fn publish_block(server: &Arc<KaspaServer>, step: &BlockStep<LedgerBlock>) {
    let table = server.chain.utxos.addresses();
    let changed = ChangedUtxos::from_step(step, table);
    let subscriptions = &server.subscriptions;
    let topic = Subscription::Addresses.topic();
    let sets = subscriptions.matches().matching_sets(topic, SCRIPTS, step.number, changed.items());
    let sets = changed.remove_stale(table, sets);
    if sets.is_empty() {
        return;
    }
    let mut is_needed = vec![false; changed.utxos().len()];
    for at in sets.iter().flat_map(|(_, refs)| refs) {
        is_needed[*at as usize] = true;
    }
    let encoded = Arc::new(changed.encode(MessageFormat::Json, server.prefix(), &is_needed));
    let head = block_head(step);
    let at = Position(step.number);
    let memory = Arc::clone(subscriptions.queue_memory());
    let published = fork_join(&server.pool, split_into_parts(sets), move |part| {
        let publication = |(found, refs): SetMatch| {
            let prefix = encode_prefix(&head, &encoded, &refs, &memory);
            let body = Payload::Split(SplitPayload { prefix, items: None });
            let bytes = body.bytes();
            let after_delivery = AfterDelivery::Continue;
            Publication { subscription: found.id, body, bytes, at, after_delivery }
        };
        part.into_iter().map(publication).collect::<Vec<Publication<Payload<NoItems>>>>()
    });
    subscriptions.deliver(published.into_iter().flatten());
}

/// Encodes the notification of a block for one set. `None` if the block does not change it.
pub(super) fn encode_for_set(
    rpc: &KaspaRpc,
    memory: &Arc<QueueMemory>,
    step: &BlockStep<LedgerBlock>,
    set: &AddressSet,
) -> Option<SharedBytes> {
    let table = rpc.chain.utxos.addresses();
    let changed = ChangedUtxos::from_step(step, table);
    let is_in_set = |(id, at)| set.contains(AddressId(id)) && changed.is_current(at, table);
    let is_needed: Vec<bool> = changed.items().map(is_in_set).collect();
    let numbered = (0..).zip(&is_needed);
    let refs: Vec<u32> = numbered.filter(|(_, is_needed)| **is_needed).map(|(at, _)| at).collect();
    if refs.is_empty() {
        return None;
    }
    let encoded = changed.encode(MessageFormat::Json, rpc.prefix(), &is_needed);
    Some(encode_prefix(&block_head(step), &encoded, &refs, memory))
}

/// Encodes the numbers of a listener, which end a notification.
pub(crate) fn encode_end(subscription: SubscriptionId, sequence: u64) -> Vec<u8> {
    encode_json_address_changes_end(subscription.0, sequence)
}

fn block_head(step: &BlockStep<LedgerBlock>) -> AddressChangesHead {
    let LedgerBlock { info, parent_info, .. } = step.body.as_ref();
    let block = info.hash;
    let has_more = false;
    match step.direction {
        Direction::Applied => {
            let position = to_position(info);
            AddressChangesHead { kind: ChangeKind::Update, block, position, has_more }
        }
        Direction::Reverted => {
            let position = to_position(parent_info);
            AddressChangesHead { kind: ChangeKind::Rollback, block, position, has_more }
        }
    }
}

fn encode_prefix(
    head: &AddressChangesHead,
    encoded: &EncodedUtxos,
    refs: &[u32],
    memory: &Arc<QueueMemory>,
) -> SharedBytes {
    let lists = encoded.select(refs);
    let text = encode_json_address_changes(head, &lists.added, &lists.removed);
    SharedBytes::new(to_message(MessageFormat::Json, text), memory)
}
