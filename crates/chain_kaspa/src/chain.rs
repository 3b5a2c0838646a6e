//! The writer of a chain: its state, and the publication to readers.
//!
//! Shape: steps of the selected chain (`step`) and messages about the virtual state (`virtual_messages`) change the state
//! of the writer. [`Chain::publish`] shows the result to readers, all at once: the virtual block as processed, the sink as
//! confirmed, the block at the configured depth as finalized.
//! Invariant: readers see a chain block only after its hash, link and commitment were checked. After a refused block nothing
//! of the source is applied.
//! No socket, no clock: the caller decides when to publish.

use std::sync::Arc;

use arc_swap::ArcSwap;
use kaspa::{ChainChange, Hash, KaspaRecord, Outpoint, UtxoEntry};
use ledger::{BlockId, Commitment};
use query::{LedgerError, LedgerUsage, Retired};

use crate::block_changes::BlockChanges;
use crate::block_info::{BlockInfo, Ledger, Reader};
use crate::chain_reader::ChainReader;
use crate::config::ChainConfig;
use crate::event::{ChainEvent, Tips};
use crate::history::{History, HistorySnapshot};
use crate::ledger_block::{ChainBlock, ChainWindow, LedgerBlock};
use crate::overlay::Differences;
use crate::records::{ChangeSet, RecordChanges, ScriptIds, find_utxo};
use crate::script_utxo::ScriptUtxo;
use crate::status::{ChainCounters, ChainPoint, ChainStatus, RefusedBlock};
use crate::virtual_state::{VirtualMode, VirtualState};

/// The writer of a chain. It has one owner, on one thread.
pub struct Chain {
    pub(crate) depth_max: usize,
    pub(crate) ledger: Ledger,
    pub(crate) reader: Reader,
    pub(crate) window: ChainWindow,
    pub(crate) history: History,
    pub(crate) virtual_state: VirtualState,
    /// The virtual block in the ledger, if readers see one.
    virtual_block: Option<Arc<LedgerBlock>>,
    virtual_error: Option<LedgerError>,
    pub(crate) refused: Option<RefusedBlock>,
    pub(crate) counters: ChainCounters,
    status: Arc<ArcSwap<ChainStatus>>,
    next_version: u64,
    pub(crate) pending: PendingEvents,
    /// The scores that were sent last.
    sent: SentScores,
}

/// Events of the next publication.
#[derive(Default)]
pub(crate) struct PendingEvents {
    pub(crate) blocks: Vec<Arc<LedgerBlock>>,
    /// The lowest blocks of forks that no tip is on any longer.
    pub(crate) dropped: Vec<BlockId>,
    pub(crate) chain: ChainChange,
    pub(crate) is_replaced: bool,
    pub(crate) refused: Vec<Hash>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct SentScores {
    sink_blue_score: u64,
    virtual_daa_score: u64,
}

/// The result of a publication. Dropping it frees the data that only earlier readers used, which may take milliseconds.
pub struct Publication {
    /// The events of the step, in order.
    pub events: Vec<ChainEvent>,
    _retired: Retired<KaspaRecord, BlockInfo>,
    _history: Arc<HistorySnapshot>,
}

impl Chain {
    /// Creates a chain of one root. The ledger has its UTXO set.
    pub(crate) fn new(
        config: &ChainConfig,
        ledger: Ledger,
        reader: Reader,
        root: ChainBlock,
    ) -> Self {
        let depth_max = config.depth();
        let virtual_state = VirtualState::new(config.virtual_limits);
        let virtual_daa_score = virtual_state.daa_score(&root.block, None);
        let status = ChainStatus {
            sink: chain_point(&root),
            root: chain_point(&root),
            supply: root.block.info.supply,
            virtual_daa_score,
            virtual_state: virtual_state.status(),
            refused: None,
            virtual_error: None,
            counters: ChainCounters::default(),
        };
        let sent =
            SentScores { sink_blue_score: root.block.info.header.blue_score, virtual_daa_score };
        Self {
            depth_max,
            ledger,
            reader,
            next_version: root.block.id.version + 1,
            window: ChainWindow::new(root),
            history: History::new(config.history),
            virtual_state,
            virtual_block: None,
            virtual_error: None,
            refused: None,
            counters: ChainCounters::default(),
            status: Arc::new(ArcSwap::from_pointee(status)),
            pending: PendingEvents::default(),
            sent,
        }
    }

    /// Returns the readers' access.
    pub fn reader(&self) -> ChainReader {
        let status = Arc::clone(&self.status);
        ChainReader::new(self.reader.clone(), self.history.reader(), status)
    }

    /// Returns the sink: the next step starts here. It may be newer than the one that readers see.
    pub fn sink(&self) -> ChainPoint {
        chain_point(self.window.sink())
    }

    /// Returns the newest block that no reorganization may remove.
    pub fn root(&self) -> ChainPoint {
        chain_point(self.window.root())
    }

    /// Returns the outputs that the newest blocks spend: the set below these blocks has them, unless one of them created
    /// it, and the sink's set does not. A block of another branch may spend them.
    pub fn outputs_spent_by_newest(&self, blocks: usize) -> Vec<(Outpoint, UtxoEntry)> {
        let spent = self.window.newest(blocks).flat_map(|chain| chain.block.changes.spent_utxos());
        spent.map(|spent| (spent.utxo.outpoint(), spent.utxo.to_entry())).collect()
    }

    /// Returns the block that was refused last, until the source is changed.
    pub fn refused_block(&self) -> Option<&RefusedBlock> {
        self.refused.as_ref()
    }

    /// Returns the completeness of the virtual UTXO set.
    pub fn virtual_mode(&self) -> VirtualMode {
        self.virtual_state.mode()
    }

    /// Returns the numbers of addresses, records and blocks in use.
    pub fn usage(&self) -> LedgerUsage {
        self.ledger.usage()
    }

    /// Accepts blocks and messages again after a refusal: they come from another source. The virtual state is off.
    pub fn change_source(&mut self) {
        self.refused = None;
        self.virtual_state.restart(VirtualMode::Off);
    }

    pub(crate) fn allocate_version(&mut self) -> u64 {
        let version = self.next_version;
        self.next_version += 1;
        version
    }

    /// Shows the state to readers. The history is shown first: it has every block that a view has.
    ///
    /// Cost: the virtual block, which has a record for each script in which the virtual set differs from the sink's, and
    /// the records of the blocks that become final or are dropped.
    ///
    /// Errors: none that a caller can cause. The virtual block is left out if the ledger has no room for its addresses
    /// ([`ChainStatus::virtual_error`]).
    pub fn publish(&mut self) -> Result<Publication, LedgerError> {
        self.replace_virtual_block();
        let sink = self.window.sink();
        let sink_id = sink.block.id;
        let sink_blue_score = sink.block.info.header.blue_score;
        let tip = self.virtual_block.as_ref().map_or(sink_id, |block| block.id);
        self.ledger.set_tip(tip)?;
        self.ledger.confirm(sink_id)?;
        for fork in &self.pending.dropped {
            if self.ledger.contains_block(*fork) {
                self.ledger.drop_fork(*fork)?;
            }
        }
        if let Some(root) = self.window.advance_root(self.depth_max) {
            self.ledger.finalize(root)?;
        }
        let history = self.history.publish(sink_blue_score);
        let retired = self.ledger.publish_first();
        self.status.store(Arc::new(self.status()));
        Ok(Publication { events: self.take_events(), _retired: retired, _history: history })
    }

    /// Frees some of the index entries that no reader needs. Call it when the writer has time, after the last publication
    /// was dropped.
    pub fn reclaim(&mut self) {
        self.ledger.reclaim();
    }

    /// Returns the state as of now, published or not.
    pub fn status(&self) -> ChainStatus {
        let sink = self.window.sink();
        ChainStatus {
            sink: chain_point(sink),
            root: chain_point(self.window.root()),
            supply: sink.block.info.supply,
            virtual_daa_score: self.shown_daa_score(),
            virtual_state: self.virtual_state.status(),
            refused: self.refused.clone(),
            virtual_error: self.virtual_error,
            counters: self.counters,
        }
    }

    /// Returns the DAA score of the virtual block in the ledger. Without one it is the score that the source announced.
    fn shown_daa_score(&self) -> u64 {
        match &self.virtual_block {
            Some(block) => block.info.daa_score,
            None => self.virtual_state.daa_score(&self.window.sink().block, None),
        }
    }

    /// Writes a new virtual block if the one before is out of date. The one before is dropped later: until then its
    /// addresses are counted, so that those of both are not registered again.
    fn replace_virtual_block(&mut self) {
        let sink = self.window.sink().clone();
        let is_off = self.virtual_state.mode() == VirtualMode::Off;
        let has_steps = !self.pending.blocks.is_empty() || !self.pending.dropped.is_empty();
        let is_above_sink = self.virtual_block.is_some() && !has_steps;
        if is_above_sink && !is_off && !self.virtual_state.has_changes() {
            return;
        }
        self.pending.dropped.extend(self.virtual_block.take().map(|block| block.id));
        if is_off {
            self.virtual_error = None;
            return;
        }
        match self.write_virtual_block(&sink) {
            Ok(block) => {
                let block = Arc::new(block);
                self.pending.blocks.push(Arc::clone(&block));
                self.virtual_block = Some(block);
                self.virtual_state.note_shown();
                self.virtual_error = None;
            }
            Err(error) => self.virtual_error = Some(error),
        }
    }

    /// Writes the virtual block above the sink.
    fn write_virtual_block(&mut self, sink: &ChainBlock) -> Result<LedgerBlock, LedgerError> {
        let sink_id = sink.block.id;
        let sink_info = &sink.block.info;
        let ledger = &self.ledger;
        let in_chain = |utxo: &ScriptUtxo| find_utxo(ledger, sink_id, utxo);
        let differences = self.virtual_state.differences(&in_chain);
        let newest = differences.newest_daa_score();
        let daa_score = self.virtual_state.daa_score(&sink.block, newest);
        let Differences { removed, added } = differences;
        let mut records = RecordChanges::new(ledger, sink_id);
        let mut supply = sink_info.supply;
        let mut spent = Vec::with_capacity(removed.len());
        let mut created = Vec::with_capacity(added.len());
        for utxo in removed {
            if let Some(reduced) = supply.with_removed(utxo.amount())
                && records.remove(&utxo).is_ok()
            {
                supply = reduced;
                spent.push(utxo);
            }
        }
        // The source may claim any amount here. One that does not fit is left out.
        for utxo in added {
            if let Some(increased) = supply.with_added(utxo.amount())
                && records.insert(&utxo).is_ok()
            {
                supply = increased;
                created.push(utxo);
            }
        }
        let set = records.finish();
        let info = BlockInfo { daa_score, is_virtual: true, supply, ..sink_info.as_ref().clone() };
        let new_block = NewBlock {
            parent: sink_id,
            parent_info: Arc::clone(sink_info),
            info: Arc::new(info),
            created,
            spent,
        };
        self.write_block(new_block, set)
    }

    /// Writes a complete block that readers do not see. If that fails, nothing of it stays.
    pub(crate) fn write_block(
        &mut self,
        new_block: NewBlock,
        set: ChangeSet,
    ) -> Result<LedgerBlock, LedgerError> {
        let NewBlock { parent, parent_info, info, created, spent } = new_block;
        // A chain block has a lower score than the largest one (`acceptance`). A virtual block may have that, because
        // no block is above it.
        let slot = info.daa_score.saturating_add(1);
        let id = BlockId { slot, version: self.allocate_version() };
        self.ledger.open_hidden(id, parent, Arc::clone(&info))?;
        let scripts = set.scripts();
        let ids = match self.ledger.apply(id, set.changes, Arc::clone(&info)) {
            Ok(ids) => ids,
            Err(error) => {
                self.ledger.drop_fork(id)?;
                return Err(error);
            }
        };
        self.ledger.complete(id, Arc::clone(&info))?;
        let script_ids = ScriptIds::new(scripts, &ids);
        let changes = BlockChanges::new(script_ids.index(&created), script_ids.index(&spent));
        Ok(LedgerBlock { id, parent, info, parent_info, changes, accepted_ids: Vec::new() })
    }

    /// Returns the events since the last publication. Readers see the state already.
    fn take_events(&mut self) -> Vec<ChainEvent> {
        let pending = std::mem::take(&mut self.pending);
        let mut events: Vec<ChainEvent> =
            pending.refused.into_iter().map(|hash| ChainEvent::BlockRefused { hash }).collect();
        let is_moved = !pending.blocks.is_empty() || !pending.dropped.is_empty();
        events.extend(pending.blocks.into_iter().map(ChainEvent::BlockAdded));
        if is_moved {
            let tip = |commitment| self.ledger.tip(commitment);
            events.push(ChainEvent::TipsMoved(Tips {
                processed: tip(Commitment::Processed),
                confirmed: tip(Commitment::Confirmed),
                finalized: tip(Commitment::Finalized),
            }));
        }
        if pending.is_replaced {
            events.push(ChainEvent::UtxoSetReplaced);
        }
        let sink = &self.window.sink().block.info;
        let scores = SentScores {
            sink_blue_score: sink.header.blue_score,
            virtual_daa_score: self.shown_daa_score(),
        };
        let before = std::mem::replace(&mut self.sent, scores);
        if scores.sink_blue_score != before.sink_blue_score {
            events.push(ChainEvent::SinkBlueScoreChanged { blue_score: scores.sink_blue_score });
        }
        if scores.virtual_daa_score != before.virtual_daa_score {
            let daa_score = scores.virtual_daa_score;
            events.push(ChainEvent::VirtualDaaScoreChanged { daa_score });
        }
        if pending.chain != ChainChange::default() {
            events.push(ChainEvent::ChainChanged(Arc::new(pending.chain)));
        }
        events.extend(pending.dropped.into_iter().map(ChainEvent::BlockDropped));
        events
    }
}

/// The content of a block of the ledger, before it has an id.
pub(crate) struct NewBlock {
    pub(crate) parent: BlockId,
    pub(crate) parent_info: Arc<BlockInfo>,
    pub(crate) info: Arc<BlockInfo>,
    pub(crate) created: Vec<ScriptUtxo>,
    pub(crate) spent: Vec<ScriptUtxo>,
}

pub(crate) fn chain_point(chain: &ChainBlock) -> ChainPoint {
    let BlockInfo { hash, header, .. } = chain.block.info.as_ref();
    ChainPoint {
        hash: *hash,
        daa_score: header.daa_score,
        blue_score: header.blue_score,
        timestamp_ms: header.timestamp_ms,
    }
}
