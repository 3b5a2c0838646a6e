//! The one writer of a replica's ledger: records of the log into state, history and events.
//!
//! In: whole records, in the order of the log. Out: the ledger's state, its history, and events to the sinks, each after
//! its state is published.
//! Shape: a block is written hidden and compared with its record (`write_block`); marks make it visible (`apply_marks`).
//! A record that cannot be right halts the writer: it reports the fault, and ignores the log until it jumps to a snapshot
//! (`jump`), or until a new generation of the log continues from a block that it has.
//! Bounds: [`UNROOTED_MAX`] blocks above the root; [`UNSENT_MAX`] events between two publications.
//! Invariant: nothing of a block is shown before its sum and its bank hash are those of its record.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use chain_solana::wire::BlockKey;
use chain_solana::{Block, BlockInfo, EventSink, History, LedgerEvent, Reader, RevertReason};
use follow::bank::{ClusterTracker, FreeThread, LandedVotes, send_events};
use lattice::{HardFork, LtHash};
use ledger::{BlockId, Commitment};
use query::{Ledger, LedgerError};
use snapshot_solana::stored_rows::ChainRow;
use solana::{Account, VerificationLevel};
use tokio::sync::mpsc;

use crate::error::ReplicaError;
use crate::fault::Fault;
use crate::input_queue::{Input, QueuedInput, Rebase};
use crate::known_blocks::{KnownBlocks, NamedBlock, Resolved};
use crate::log_position::RecordPosition;
use crate::proof::ReplicaProof;
use crate::snapshot_bank::{RootState, SnapshotBank};
use crate::status::ReplicaStatus;

mod apply_marks;
mod jump;
mod write_block;

/// Maximum number of blocks above the root. The state can hold twice as many.
const UNROOTED_MAX: usize = 2_048;
/// Number of unsent events from which on they are published even if more input waits.
const UNSENT_MAX: usize = 64;
/// Number of publications that may be skipped one after another because marks of the tips are incomplete.
const SKIPPED_PUBLICATIONS_MAX: u32 = 16;

/// A block above the root, or the root.
struct Frozen {
    block: Arc<Block>,
    info: Arc<BlockInfo>,
    /// The sum over all accounts after the block.
    lt_hash: LtHash,
    position: RecordPosition,
    /// The votes among its transactions, until these are sent as executed.
    votes: LandedVotes,
    /// Whether its transactions were sent as processed.
    is_executed: bool,
    is_confirmed: bool,
    /// The level of proof of the ingester that logged the block, or of the one that confirmed it if that is lower.
    level: Option<VerificationLevel>,
}

/// Why a record was not applied.
enum WriteError {
    /// The record, or the log, is wrong.
    Fault(Fault),
    /// The replica cannot continue.
    Fatal(ReplicaError),
}

impl From<Fault> for WriteError {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<ReplicaError> for WriteError {
    fn from(err: ReplicaError) -> Self {
        Self::Fatal(err)
    }
}

/// The writer's part of a start.
pub(crate) struct WriterParts {
    pub(crate) ledger: Ledger<Account, BlockInfo>,
    pub(crate) reader: Reader,
    pub(crate) history: Arc<History>,
    pub(crate) cluster: ClusterTracker,
    pub(crate) status: Arc<ReplicaStatus>,
    pub(crate) proof: Arc<ReplicaProof>,
    pub(crate) root: SnapshotBank,
    pub(crate) free_thread: FreeThread,
    /// Gets the fault that halts the writer.
    pub(crate) faults: mpsc::Sender<Fault>,
    pub(crate) sinks: Vec<Box<dyn EventSink>>,
}

/// The events of the writer.
struct Output {
    sinks: Vec<Box<dyn EventSink>>,
    /// Events to send after the next publication.
    unsent: Vec<LedgerEvent>,
    /// The block of the last `TipMoved`.
    tip: BlockId,
    skipped_publications: u32,
}

/// The writer's state.
pub(crate) struct Writer {
    ledger: Ledger<Account, BlockInfo>,
    reader: Reader,
    history: Arc<History>,
    cluster: ClusterTracker,
    status: Arc<ReplicaStatus>,
    proof: Arc<ReplicaProof>,
    /// The level of proof of the writer of the newest record.
    level: Option<VerificationLevel>,
    chain: ChainRow,
    hard_forks: Vec<HardFork>,
    known: KnownBlocks,
    banks: BTreeMap<BlockId, Frozen>,
    free_thread: FreeThread,
    faults: mpsc::Sender<Fault>,
    output: Output,
    is_halted: bool,
}

impl Writer {
    /// Creates a writer of a ledger whose root is the block of a snapshot.
    pub(crate) fn new(parts: WriterParts) -> Self {
        let SnapshotBank { block, info, lt_hash, hard_forks, chain, level, position, .. } =
            parts.root;
        let id = block.id;
        let known = KnownBlocks::new(position.number, block_key(&block), named_block(&block));
        let root = Frozen {
            block,
            info,
            lt_hash,
            position,
            votes: LandedVotes::default(),
            is_executed: true,
            is_confirmed: true,
            level,
        };
        let output =
            Output { sinks: parts.sinks, unsent: Vec::new(), tip: id, skipped_publications: 0 };
        let writer = Self {
            ledger: parts.ledger,
            reader: parts.reader,
            history: parts.history,
            cluster: parts.cluster,
            status: parts.status,
            proof: parts.proof,
            level,
            chain,
            hard_forks,
            known,
            banks: BTreeMap::from([(id, root)]),
            free_thread: parts.free_thread,
            faults: parts.faults,
            output,
            is_halted: false,
        };
        writer.update_status();
        writer
    }

    /// Runs until it is stopped.
    pub(crate) fn run(
        mut self,
        mut inputs: mpsc::Receiver<QueuedInput>,
    ) -> Result<(), ReplicaError> {
        while let Some(QueuedInput { input, .. }) = inputs.blocking_recv() {
            if matches!(input, Input::Stop) {
                break;
            }
            self.handle_input(input)?;
            if inputs.is_empty() || self.output.unsent.len() >= UNSENT_MAX {
                self.publish_if_consistent();
            }
        }
        self.publish_if_consistent();
        Ok(())
    }

    fn handle_input(&mut self, input: Input) -> Result<(), ReplicaError> {
        let applied = match input {
            Input::Block(_) | Input::Marks { .. } if self.is_halted => Ok(()),
            // The loop has ended.
            Input::Stop => Ok(()),
            Input::Block(block) => {
                self.set_level(block.record.writer.level);
                self.write_block(*block)
            }
            Input::Marks { marks, made_at_ms, level } => {
                self.set_level(level);
                self.apply_marks(marks, made_at_ms)
            }
            Input::State(reply) => {
                self.publish_if_consistent();
                // The receiver may have ended.
                let _ = reply.send(self.reader.view(Commitment::Confirmed));
                Ok(())
            }
            Input::Jump(jump) => self.jump(*jump),
            Input::Rebase(rebase) => {
                self.rebase(rebase);
                Ok(())
            }
            Input::Root(reply) => {
                self.publish_if_consistent();
                if let Some(state) = self.root_state() {
                    let _ = reply.send(state);
                }
                Ok(())
            }
        };
        match applied {
            Ok(()) => Ok(()),
            Err(WriteError::Fatal(err)) => Err(err),
            Err(WriteError::Fault(fault)) => {
                self.halt(fault);
                Ok(())
            }
        }
    }

    /// The records from here on are of a writer with this level of proof.
    fn set_level(&mut self, level: Option<VerificationLevel>) {
        self.level = level;
        self.proof.set_level(level);
    }

    /// Ignores the log from here on. Records that were applied before are shown.
    fn halt(&mut self, fault: Fault) {
        tracing::error!(what = fault.name(), "the log is wrong: {fault}");
        self.is_halted = true;
        if !self.are_tips_consistent() {
            let confirmed = self.ledger.tip(Commitment::Confirmed);
            // The confirmed block is always one that the ledger has.
            let _ = self.ledger.set_tip(confirmed);
            self.history.set_tip(confirmed);
        }
        self.publish();
        // The reader drains the faults, and a halted writer has no other one.
        let _ = self.faults.try_send(fault);
    }

    /// Continues in a new generation of the log. A generation may start at a block that is older than all known ones.
    /// Then the blocks that it lists up to a known one are skipped, and a root that is unknown here is noticed as the
    /// root of another chain.
    fn rebase(&mut self, rebase: Rebase) {
        let Rebase { slot, known, key, position, done } = rebase;
        let by_number = known.and_then(|number| match self.known.resolve(number) {
            Resolved::Block(id) if id.slot == slot => Some(id),
            _ => None,
        });
        let by_name = || key.and_then(|key| self.known.find(&key)).map(|named| named.id);
        let found = by_number.or_else(by_name);
        let is_older = slot <= self.ledger.tip(Commitment::Confirmed).slot;
        let can_continue = found.is_some() || is_older;
        if can_continue {
            self.known.rebase(position.number, found);
            if let Some(id) = found {
                self.set_position(id, position);
            }
            self.is_halted = false;
        }
        let _ = done.send(can_continue);
    }

    /// The log has a block again that the ledger has.
    fn set_position(&mut self, id: BlockId, position: RecordPosition) {
        if let Some(frozen) = self.banks.get_mut(&id) {
            frozen.position = position;
        }
    }

    fn publish_if_consistent(&mut self) {
        if self.are_tips_consistent() {
            return self.publish();
        }
        self.output.skipped_publications += 1;
        if self.output.skipped_publications > SKIPPED_PUBLICATIONS_MAX {
            let confirmed = self.ledger.tip(Commitment::Confirmed);
            let processed = self.ledger.tip(Commitment::Processed);
            self.halt(Fault::Tips { confirmed, processed });
        }
    }

    /// Whether the confirmed block is on the chain of the processed one. Between two marks it may not be.
    fn are_tips_consistent(&self) -> bool {
        let confirmed = self.ledger.tip(Commitment::Confirmed);
        self.is_on_chain(confirmed, self.ledger.tip(Commitment::Processed))
    }

    /// Whether a block is `descendant` or one of its ancestors down to the root.
    fn is_on_chain(&self, block: BlockId, descendant: BlockId) -> bool {
        let mut at = descendant;
        while at != block {
            match self.banks.get(&at) {
                Some(frozen) if at != self.ledger.root() && at.slot > block.slot => {
                    at = frozen.block.parent;
                }
                _ => return false,
            }
        }
        true
    }

    fn publish(&mut self) {
        self.output.skipped_publications = 0;
        // History must show each block that a view shows as confirmed or final.
        let history = self.history.publish_first();
        let ledger = self.ledger.publish_first();
        self.free_thread.free((history, ledger));
        self.ledger.reclaim();
        self.update_status();
        send_events(&mut self.output.sinks, std::mem::take(&mut self.output.unsent));
    }

    fn update_status(&self) {
        let status = &self.status;
        let slot = |at| self.ledger.tip(at).slot;
        let set = |counter: &AtomicU64, value: u64| counter.store(value, Ordering::Relaxed);
        set(&status.cluster.processed, slot(Commitment::Processed));
        set(&status.root, self.ledger.root().slot);
        set(&status.unrooted, self.banks.len().saturating_sub(1) as u64);
    }

    /// The published state at the root. `None` while the root is not published.
    fn root_state(&self) -> Option<RootState> {
        let view = self.reader.view(Commitment::Finalized);
        let Frozen { block, info, lt_hash, position, level, .. } = self.banks.get(&view.block())?;
        let bank = SnapshotBank {
            block: Arc::clone(block),
            info: Arc::clone(info),
            lt_hash: lt_hash.clone(),
            hard_forks: self.hard_forks.clone(),
            chain: self.chain.clone(),
            epoch_stakes: self.cluster.epoch_stakes().cloned().collect(),
            level: *level,
            position: *position,
        };
        (block.id == self.ledger.root()).then_some(RootState { view, bank })
    }

    /// The blocks from above `stop` to `block`, the oldest first. `stop` says of a block whether the chain ends there.
    fn chain_to(&self, block: BlockId, stop: impl Fn(&BlockId, &Frozen) -> bool) -> Vec<BlockId> {
        let mut chain = Vec::new();
        let mut at = block;
        while let Some(frozen) = self.banks.get(&at).filter(|frozen| !stop(&at, frozen)) {
            chain.push(at);
            at = frozen.block.parent;
        }
        chain.reverse();
        chain
    }

    /// Removes a block that is not the root and has no children, with its event.
    fn revert_leaf(
        &mut self,
        id: BlockId,
        reason: RevertReason,
        timestamp_ms: u64,
    ) -> Result<(), WriteError> {
        let Some(Frozen { block, .. }) = self.banks.remove(&id) else { return Ok(()) };
        self.ledger.drop_fork(id).map_err(|err| ledger_error(id, err))?;
        self.history.drop_fork(id);
        self.cluster.remove_bank(id);
        self.known.remove(id, &block_key(&block));
        self.status.reverted.fetch_add(1, Ordering::Relaxed);
        self.output.unsent.push(LedgerEvent::Reverted { block, reason, timestamp_ms });
        Ok(())
    }
}

fn ledger_error(block: BlockId, err: LedgerError) -> WriteError {
    WriteError::Fatal(ReplicaError::Ledger { block, err })
}

fn block_key(block: &Block) -> BlockKey {
    BlockKey { slot: block.id.slot, blockhash: block.blockhash }
}

fn named_block(block: &Block) -> NamedBlock {
    NamedBlock { id: block.id, bank_hash: block.bank_hash }
}
