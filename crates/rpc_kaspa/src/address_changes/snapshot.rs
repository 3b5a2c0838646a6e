//! The UTXOs of a set at one chain block, in notifications of some [`STEP_BYTES`].
//!
//! Bounds: the view that they are read from pins memory, so the client must read them within
//! [`crate::Settings::list_timeout_ms`].

use std::vec;

use chain_kaspa::View;
use kaspa::{
    AddressChangesHead, AddressPayload, ChainPosition, ChangeKind, encode_json_address_changes,
};
use ledger::AddressId;
use subscriptions::SubscriptionId;
use websocket::{SessionOutput, SharedBytes};

use crate::address_scan::AddressScan;
use crate::call::Call;
use crate::kaspa_rpc::NoItems;
use crate::message_format::MessageFormat;
use crate::messages::to_message;
use crate::read_deadline::ReadDeadline;
use crate::recent_blocks::to_position;

/// Bytes of a notification, and the UTXOs of one step more.
pub(super) const STEP_BYTES: usize = 64 * 1024;
/// Addresses that a step visits.
const STEP_ADDRESSES: usize = 512;
/// UTXOs that are read at once: some 50 KB.
const SCAN_UTXOS: usize = 128;

/// A snapshot that is being written.
pub(super) struct Snapshot {
    view: View,
    position: ChainPosition,
    /// The addresses whose UTXOs were not written.
    ids: vec::IntoIter<AddressId>,
    current: Option<AddressScan>,
    /// When the client must have read the snapshot.
    deadline: ReadDeadline,
}

/// The output of a step.
pub(super) struct SnapshotStep {
    /// A notification, or nothing if many addresses have no UTXO. The last step of a snapshot has one in any case.
    pub(super) output: Vec<SessionOutput<NoItems>>,
    pub(super) has_more: bool,
}

impl Snapshot {
    /// Starts to read the UTXOs of a subscription's set.
    pub(super) fn new(call: &Call, id: SubscriptionId, view: View) -> Self {
        let ids: Vec<AddressId> = match call.session.set(id) {
            Ok(set) => {
                let ids = set.ids().collect();
                call.session.drop_set(set);
                ids
            }
            Err(_) => Vec::new(),
        };
        let deadline = ReadDeadline::start(call);
        let position = to_position(view.meta());
        Self { view, position, ids: ids.into_iter(), current: None, deadline }
    }

    /// Encodes the next UTXOs, of up to [`STEP_ADDRESSES`] addresses.
    pub(super) fn step(&mut self, call: &Call, id: SubscriptionId) -> SnapshotStep {
        if self.deadline.is_past(call.server.pool.now()) {
            let close = self.deadline.close("a snapshot");
            return SnapshotStep { output: vec![close], has_more: false };
        }
        let mut utxos: Vec<Vec<u8>> = Vec::new();
        let mut bytes = 0;
        let mut visited = 0;
        let has_more = loop {
            if bytes >= STEP_BYTES || visited >= STEP_ADDRESSES {
                break true;
            }
            let Some(mut current) = self.current.take().or_else(|| self.next_address(call)) else {
                break false;
            };
            visited += 1;
            let has_utxos = current.step(&self.view, SCAN_UTXOS, |utxo| {
                let mut text = Vec::with_capacity(400);
                utxo.encode_json_into(&mut text);
                bytes += text.len();
                utxos.push(text);
            });
            self.current = has_utxos.then_some(current);
        };
        if has_more && utxos.is_empty() {
            return SnapshotStep { output: Vec::new(), has_more };
        }
        let position = self.position;
        let block = position.chain_block;
        let head = AddressChangesHead { kind: ChangeKind::Snapshot, block, position, has_more };
        let text = encode_json_address_changes(&head, &utxos, &[]);
        let memory = call.server.subscriptions.queue_memory();
        let prefix = SharedBytes::new(to_message(MessageFormat::Json, text), memory);
        SnapshotStep { output: vec![SessionOutput::Prefix(id, prefix)], has_more }
    }

    fn next_address(&mut self, call: &Call) -> Option<AddressScan> {
        let table = call.server.chain.utxos.addresses();
        // Each id is found, because the subscription retains its ids and clients named the addresses.
        let payload =
            self.ids.find_map(|id| AddressPayload::from_ledger_address(&table.address(id)?))?;
        Some(AddressScan::new(payload, call.server.prefix()))
    }
}
