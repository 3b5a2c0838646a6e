//! The state of a model node: its DAG, its clients and its faults, behind one lock.
//!
//! A change and its notifications happen under the lock, so all clients get the same order.

use kaspa::{Event, Hash, Operation, Outpoint, Scope, ServerError, UtxoEntry};

use super::dag::{BlockEffects, Dag, InvalidBlock, NewBlock};
use super::faults::Faults;
use super::listener::Listener;
use super::notices::{NOTIFICATION_ORDER, Notice};
use super::replies::{BlockStatus, Replies, block_structure, reply};
use super::wire::{Call, Frame, Request, Value};

/// The error of a call that a node in safe mode refuses.
const SAFE_MODE: &str = "Method unavailable in safe mode. Run the node with --unsaferpc argument.";

/// The state of a node.
pub(crate) struct NodeState {
    pub(crate) dag: Dag,
    pub(crate) faults: Faults,
    pub(crate) is_synced: bool,
    /// Whether the node runs with `--utxoindex`.
    pub(crate) has_utxo_index: bool,
    /// Whether the node runs with `--unsaferpc`.
    pub(crate) is_unsafe: bool,
    /// The block whose UTXO set other nodes get.
    pub(crate) pruning_point: Hash,
    /// The set that other nodes get, if it is not that of a block in the DAG.
    pub(crate) foreign_set: Option<Vec<(Outpoint, UtxoEntry)>>,
    /// The order of the notifications of one change.
    pub(crate) order: Vec<Event>,
    pub(crate) listeners: Vec<Listener>,
    pub(crate) next_listener: u64,
    /// The nonce of the next block, so that no two blocks are the same.
    pub(crate) next_nonce: u64,
}

impl NodeState {
    pub(crate) fn new(dag: Dag) -> Self {
        Self {
            pruning_point: dag.genesis(),
            foreign_set: None,
            dag,
            faults: Faults::default(),
            is_synced: true,
            has_utxo_index: true,
            is_unsafe: true,
            order: NOTIFICATION_ORDER.to_vec(),
            listeners: Vec::new(),
            next_listener: 0,
            next_nonce: 1,
        }
    }

    /// Adds a block, and notifies.
    pub(crate) fn add_block(&mut self, block: NewBlock) -> Result<Hash, InvalidBlock> {
        let hash = block.header.hash();
        let effects = self.dag.add_block(block)?;
        self.notify_effects(&effects);
        Ok(hash)
    }

    pub(crate) fn notify_effects(&mut self, effects: &BlockEffects) {
        if let Some(block) = &effects.added {
            // It is sent before the virtual block moves.
            let header = self.faults.report_header(&block.hash, &block.header);
            let added = block_structure(BlockStatus {
                block,
                header: &header,
                include_transactions: true,
                children: &[],
                is_chain_block: false,
            });
            self.notify(Notice::BlockAdded(added));
        }
        for notice in Notice::from_effects(&self.dag, effects, &self.order) {
            self.notify(notice);
        }
    }

    /// Sends a notification to all clients that have subscribed to it.
    pub(crate) fn notify(&mut self, notice: Notice) {
        for notice in self.faults.disturb(notice) {
            let replies = Replies {
                dag: &self.dag,
                faults: &self.faults,
                is_synced: self.is_synced,
                has_utxo_index: self.has_utxo_index,
                pruning_point: self.pruning_point,
            };
            let report =
                |outpoint: &Outpoint, entry: &UtxoEntry| replies.report_entry(outpoint, entry);
            self.listeners.iter_mut().for_each(|listener| listener.notify(&notice, report));
        }
    }

    /// Runs a request of a client, and sends its reply.
    pub(crate) fn run(&mut self, listener_id: u64, request: Request) {
        let Request { id, operation, call } = request;
        let result = match (operation, call) {
            (Operation::Notification(_) | Operation::Unserved(_) | Operation::Own(_), _) => {
                Err(ServerError::NotFound)
            }
            (_, Some(call)) => Ok(self.run_call(listener_id, call)),
            (_, None) => Err(ServerError::InvalidParams),
        };
        let found = self.listeners.iter_mut().find(|listener| listener.id == listener_id);
        // Without an id nothing is sent. A listener that is gone gets nothing either.
        let (Some(listener), Some(id)) = (found, id) else { return };
        let encoding = listener.encoding;
        let frame: Frame = match result {
            Ok(Ok(structure)) => encoding.reply(id, operation, &structure),
            Ok(Err(text)) => encoding.failure(id, operation, &text),
            Err(error) => encoding.rejection(id, operation, &error),
        };
        listener.send(frame);
    }

    fn run_call(&mut self, listener_id: u64, call: Call) -> Result<super::wire::Structure, String> {
        match call {
            Call::Subscribe(Scope::UtxosChanged { addresses })
                if addresses.is_empty() && !self.is_unsafe =>
            {
                Err(SAFE_MODE.to_owned())
            }
            Call::Subscribe(scope) => {
                self.listener(listener_id, |listener| listener.subscribe(scope));
                Ok(reply().field("id", Value::U64(listener_id)))
            }
            Call::Unsubscribe(scope) => {
                self.listener(listener_id, |listener| listener.unsubscribe(scope));
                Ok(reply())
            }
            Call::SubmitBlock { header, transactions } => {
                let added = self.add_block(NewBlock { header: *header, transactions });
                let report = match added {
                    Ok(_) => Value::Recorded { borsh: vec![0], json: r#"{"type":"success"}"# },
                    Err(_) => Value::Recorded {
                        borsh: vec![1, 1],
                        json: r#"{"reason":"blockInvalid","type":"reject"}"#,
                    },
                };
                Ok(reply().field("report", report))
            }
            Call::SubmitTransaction(transaction) => {
                let id = transaction.id();
                let submitted = self.dag.submit_transaction(*transaction);
                submitted.map_err(|text| format!("Rejected transaction {id}: {text}"))?;
                Ok(reply().field("transactionId", Value::Hash(id)))
            }
            call => {
                let replies = Replies {
                    dag: &self.dag,
                    faults: &self.faults,
                    is_synced: self.is_synced,
                    has_utxo_index: self.has_utxo_index,
                    pruning_point: self.pruning_point,
                };
                replies.respond(&call)
            }
        }
    }

    fn listener(&mut self, id: u64, change: impl FnOnce(&mut Listener)) {
        if let Some(listener) = self.listeners.iter_mut().find(|listener| listener.id == id) {
            change(listener);
        }
    }
}
