//! The notifications of changed UTXOs for one move of the virtual block.
//!
//! Input: the steps of the move. Output: a notification for each subscription that they match, with the net change of
//! all steps. As in kaspad, an entry that only gets another DAA score is in both lists.
//! Cost: a lookup for each changed UTXO, an encoding for each that matches, and a copy of it for each distinct
//! subscription.
//! Invariant: an entry is encoded once for each format.

use std::sync::Arc;

use address::AddressTable;
use chain_kaspa::{ChangedUtxo, LedgerBlock, NetChanges};
use cpu_pool::fork_join;
use kaspa::{
    AddressUtxo, Prefix, UtxoList, encode_borsh_utxos_changed, encode_json_utxos_changed,
    encode_protobuf_utxos_changed,
};
use ledger::Commitment;
use subscriptions::{
    AfterDelivery, BlockStep, Direction, Match, Position, Publication, QueueMemory, SubscriptionId,
};
use websocket::{Payload, SharedBytes};

use crate::kaspa_rpc::{KaspaServer, NoItems};
use crate::message_format::MessageFormat;
use crate::messages::to_message;
use crate::subscription::{SCRIPTS, Subscription};

/// Subscriptions whose messages are encoded in one part of shared work: some 100 microseconds.
const PART_MATCHES: usize = 64;

/// A subscription to a set, and the numbers of the UTXOs that match it.
type SetMatch = (Match<Subscription>, Vec<u32>);

/// The changed UTXOs of a move.
struct MovedUtxos<'a> {
    /// The added ones, then the removed ones.
    utxos: Vec<ChangedUtxo<'a>>,
    added_len: usize,
}

/// Encoded entries, at the indices of the changed UTXOs. One that no subscription needs is empty.
struct EncodedUtxos {
    format: MessageFormat,
    entries: Vec<Vec<u8>>,
    added_len: usize,
}

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
    let mut utxos: Vec<ChangedUtxo<'_>> = net.added_utxos().collect();
    let added_len = utxos.len();
    utxos.extend(net.removed_utxos());
    if utxos.is_empty() {
        // Only the virtual DAA score has changed.
        return;
    }
    let moved = MovedUtxos { utxos, added_len };
    for format in MessageFormat::ALL {
        moved.publish(server, format, last.number);
    }
}

impl MovedUtxos<'_> {
    fn publish(&self, server: &Arc<KaspaServer>, format: MessageFormat, step: u64) {
        let subscriptions = &server.subscriptions;
        let all = Subscription::AllUtxos(format).topic();
        let sets = Subscription::Utxos(format).topic();
        let items = || (0..).zip(&self.utxos).map(|(at, changed)| (changed.script_id.0, at));
        let matches = subscriptions.matches();
        let all = matches.matching(all, []);
        let sets = matches.matching_sets(sets, SCRIPTS, step, items());
        drop(matches);
        let sets = self.remove_stale(server.chain.utxos.addresses(), sets);
        if all.is_empty() && sets.is_empty() {
            return;
        }
        let mut is_needed = vec![!all.is_empty(); self.utxos.len()];
        for at in sets.iter().flat_map(|(_, refs)| refs) {
            is_needed[*at as usize] = true;
        }
        let encoded = Arc::new(self.encode(format, server.prefix(), &is_needed));
        let memory = Arc::clone(subscriptions.queue_memory());
        let to_all: Vec<Publication<Payload<NoItems>>> = all
            .into_iter()
            .map(|found| new_publication(found.id, encoded.encode_all(), step, format, &memory))
            .collect();
        let parts = split_into_parts(sets);
        let to_sets = fork_join(&server.pool, parts, move |part| {
            let publication = |(found, refs): SetMatch| {
                new_publication(found.id, encoded.encode_some(&refs), step, format, &memory)
            };
            part.into_iter().map(publication).collect::<Vec<_>>()
        });
        subscriptions.deliver(to_all.into_iter().chain(to_sets.into_iter().flatten()));
    }

    /// Removes matches by an id that has become that of another script: the block that has the UTXO was dropped, and the
    /// publisher is late.
    fn remove_stale(&self, addresses: &AddressTable, sets: Vec<SetMatch>) -> Vec<SetMatch> {
        let is_current = |at: &u32| {
            let ChangedUtxo { script_id, utxo } = self.utxos[*at as usize];
            addresses.address(script_id).as_ref() == Some(utxo.script())
        };
        let current = sets.into_iter().map(|(found, mut refs)| {
            refs.retain(is_current);
            (found, refs)
        });
        current.filter(|(_, refs)| !refs.is_empty()).collect()
    }

    fn encode(&self, format: MessageFormat, prefix: Prefix, is_needed: &[bool]) -> EncodedUtxos {
        let encode = |(at, changed): (usize, &ChangedUtxo<'_>)| {
            if !is_needed[at] {
                return Vec::new();
            }
            let entry = changed.utxo.to_entry();
            let address = entry.script_public_key.address(prefix);
            let utxo = AddressUtxo { address, outpoint: changed.utxo.outpoint(), entry };
            match format {
                MessageFormat::Borsh => {
                    let mut bytes = Vec::with_capacity(utxo.borsh_bytes());
                    utxo.encode_borsh_into(&mut bytes);
                    bytes
                }
                MessageFormat::Json => {
                    let mut text = Vec::with_capacity(400);
                    utxo.encode_json_into(&mut text);
                    text
                }
                MessageFormat::Protobuf => {
                    let is_added = at < self.added_len;
                    let list = if is_added { UtxoList::Added } else { UtxoList::Removed };
                    let mut bytes = Vec::with_capacity(320);
                    utxo.encode_protobuf_into(list, &mut bytes);
                    bytes
                }
            }
        };
        let entries = self.utxos.iter().enumerate().map(encode).collect();
        EncodedUtxos { format, entries, added_len: self.added_len }
    }
}

impl EncodedUtxos {
    /// The notification of all UTXOs.
    fn encode_all(&self) -> Vec<u8> {
        let (added, removed) = self.entries.split_at(self.added_len);
        encode_message(self.format, added, removed)
    }

    /// The notification of some UTXOs, whose numbers ascend.
    fn encode_some(&self, refs: &[u32]) -> Vec<u8> {
        let added_len = refs.partition_point(|at| (*at as usize) < self.added_len);
        let (added, removed) = refs.split_at(added_len);
        let entries = |refs: &[u32]| -> Vec<&[u8]> {
            refs.iter().map(|at| self.entries[*at as usize].as_slice()).collect()
        };
        encode_message(self.format, &entries(added), &entries(removed))
    }
}

fn encode_message<T: AsRef<[u8]>>(format: MessageFormat, added: &[T], removed: &[T]) -> Vec<u8> {
    match format {
        MessageFormat::Borsh => encode_borsh_utxos_changed(added, removed),
        MessageFormat::Json => encode_json_utxos_changed(added, removed),
        MessageFormat::Protobuf => encode_protobuf_utxos_changed(added, removed),
    }
}

fn split_into_parts(mut sets: Vec<SetMatch>) -> Vec<Vec<SetMatch>> {
    let mut parts = Vec::new();
    while !sets.is_empty() {
        let rest = sets.split_off(sets.len().min(PART_MATCHES));
        parts.push(std::mem::replace(&mut sets, rest));
    }
    parts
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
