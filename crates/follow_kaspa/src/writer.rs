//! The writing thread: the one writer of the chain.
//!
//! In: pages of the chain, blocks in pieces, messages about the virtual state, from one session at a time. Out: the
//! chain's publications, and events to the sinks, each after its state is published.
//! Shape: messages that wait are handled together and published once. A page is published before its session gets the
//! result, so that the session reads the state that it continues from.
//! Invariant: after a refused block nothing is applied until the next session starts.

use std::collections::VecDeque;
use std::sync::Arc;

use chain_kaspa::{Chain, ChainReader, Publication, StepError};
use foldhash::HashMap;
use http_client::Server;
use kaspa::{AcceptingBlock, BlueWork, BorshError, ChainReply, Hash, Method, Outpoint, UtxoEntry};
use ledger::Commitment;
use tokio::sync::mpsc;

use crate::error::FollowError;
use crate::event::EventSink;
use crate::restart_point::RestartPoint;
use crate::source_error::SourceError;
use crate::spent_outputs::fill_spent;
use crate::status::{FollowStatus, Mismatch};
use crate::writer_queue::{Fork, Reply, WriterMessage, count_known};

/// Messages that are published together.
const BATCH_MAX: usize = 64;
/// Blocks of a step. The ledger has room for 4,096 above the root, and up to 1,000 of them are not final.
const STEP_BLOCKS_MAX: usize = 500;

/// The end of a step that is not committed.
enum ApplyError {
    Step(StepError),
    Source(SourceError),
    Fatal(FollowError),
}

impl From<StepError> for ApplyError {
    fn from(error: StepError) -> Self {
        Self::Step(error)
    }
}

impl From<SourceError> for ApplyError {
    fn from(error: SourceError) -> Self {
        Self::Source(error)
    }
}

impl From<BorshError> for ApplyError {
    fn from(error: BorshError) -> Self {
        Self::Source(error.into())
    }
}

impl From<FollowError> for ApplyError {
    fn from(error: FollowError) -> Self {
        Self::Fatal(error)
    }
}

pub(crate) struct Writer {
    chain: Chain,
    reader: ChainReader,
    status: Arc<FollowStatus>,
    sinks: Vec<Box<dyn EventSink>>,
    /// The source of the current session.
    server: Option<Server>,
    /// The blocks from the newest final one to the sink.
    recent: VecDeque<Hash>,
    sink_work: BlueWork,
    /// Whether there is something to publish.
    is_changed: bool,
    /// Publications whose data is freed once the sessions have their results.
    retired: Vec<Publication>,
}

impl Writer {
    pub(crate) fn new(
        chain: Chain,
        status: Arc<FollowStatus>,
        sinks: Vec<Box<dyn EventSink>>,
    ) -> Self {
        let reader = chain.reader();
        let sink_work = reader.utxos.view(Commitment::Confirmed).meta().header.blue_work;
        let recent = VecDeque::from([chain.sink().hash]);
        Self {
            chain,
            reader,
            status,
            sinks,
            server: None,
            recent,
            sink_work,
            is_changed: false,
            retired: Vec::new(),
        }
    }

    /// Runs until all sessions have ended, or the chain has to start again.
    pub(crate) fn run(
        mut self,
        mut messages: mpsc::Receiver<WriterMessage>,
    ) -> Result<(), FollowError> {
        while let Some(message) = messages.blocking_recv() {
            self.handle(message)?;
            for _ in 1..BATCH_MAX {
                let Ok(message) = messages.try_recv() else { break };
                self.handle(message)?;
            }
            if self.is_changed {
                self.publish()?;
            }
            if !self.retired.is_empty() {
                self.retired.clear();
                self.chain.reclaim();
            }
        }
        Ok(())
    }

    fn handle(&mut self, message: WriterMessage) -> Result<(), FollowError> {
        match message {
            WriterMessage::SourceOpened { server } => {
                self.server = Some(server);
                // Not shown before the session has something newer.
                self.chain.change_source();
            }
            WriterMessage::ApplyPage { start, page, reply } => {
                let applied = self.apply_page(start, page.structure());
                drop(page);
                self.send_result(applied, reply)?;
            }
            WriterMessage::ApplyBlock { fork, block, reply } => {
                let applied = self.apply_block(fork, *block);
                self.send_result(applied, reply)?;
            }
            WriterMessage::RecentBlocks { reply } => {
                // The session may have ended.
                let _ = reply.send(self.recent.iter().copied().collect());
            }
            WriterMessage::JoinVirtual => {
                self.chain.join_virtual();
                self.is_changed = true;
            }
            WriterMessage::SeedVirtual { daa_score, merged, reply } => {
                self.chain.announce_virtual_daa_score(daa_score);
                self.chain.seed_virtual(merged.as_slice(), daa_score);
                drop(merged);
                self.is_changed = true;
                // The session may have ended.
                let _ = reply.send(());
            }
            WriterMessage::CheckTemplate { template, reply } => {
                self.chain.check_template(&template);
                self.is_changed = true;
                let _ = reply.send(self.chain.virtual_mode());
            }
            WriterMessage::UtxosChanged { changes, permit } => {
                self.chain.apply_utxos_changed(&changes);
                self.is_changed = true;
                drop(permit);
            }
            WriterMessage::AnnounceDaaScore(score) => {
                self.chain.announce_virtual_daa_score(score);
                self.is_changed = true;
            }
            WriterMessage::ReleaseDaaScore => {
                self.chain.release_virtual_daa_score();
                self.is_changed = true;
            }
            WriterMessage::ReplaceUtxoSet => {
                self.chain.handle_utxo_set_override();
                self.is_changed = true;
            }
            WriterMessage::Restart(RestartPoint { block, base }) => {
                return Err(FollowError::Restart { block, base });
            }
            WriterMessage::Relay { encoding, notification, permit } => {
                // Events of the state before it come first.
                if self.is_changed {
                    self.publish()?;
                }
                let sinks = self.sinks.iter_mut();
                sinks.for_each(|sink| sink.send_notification(encoding, &notification));
                drop(permit);
            }
        }
        Ok(())
    }

    /// Sends the result of a change of the chain to its session.
    fn send_result(
        &mut self,
        applied: Result<usize, ApplyError>,
        reply: Reply,
    ) -> Result<(), FollowError> {
        let result = match applied {
            Ok(added) => Ok(added),
            Err(ApplyError::Source(error)) => Err(error),
            Err(ApplyError::Fatal(error)) => return Err(error),
            Err(ApplyError::Step(StepError::Ledger(error))) => return Err(error.into()),
            Err(ApplyError::Step(error)) => Err(self.step_failure(error)?),
        };
        if let Err(SourceError::TooDeep { .. }) = &result {
            self.status.count_too_deep();
        }
        // The session may have ended.
        let _ = reply.send(result);
        Ok(())
    }

    /// Converts the error of a step. After a lie readers see that the source is refused.
    fn step_failure(&mut self, error: StepError) -> Result<SourceError, FollowError> {
        Ok(match error {
            StepError::Refused { hash, reason } => {
                let server = self.server.as_ref().map(Server::to_string).unwrap_or_default();
                let refused = Mismatch { server, block: hash, reason: reason.clone() };
                self.status.set_mismatch(refused);
                self.publish()?;
                SourceError::RefusedBlock { block: hash, reason }
            }
            StepError::TooDeep { removed, depth_max } => {
                SourceError::TooDeep { removed, depth_max }
            }
            StepError::Ledger(error) => return Err(error.into()),
            // The session continues after a refusal, or the source removes blocks that are not the newest ones.
            _ => SourceError::Contradiction {
                method: Method::GetVirtualChainFromBlock,
                what: "the removed blocks are not the newest ones of our chain",
            },
        })
    }

    /// Applies a page of full blocks. Returns how many joined the chain.
    fn apply_page(&mut self, start: Hash, structure: &[u8]) -> Result<usize, ApplyError> {
        let mut page = ChainReply::parse(structure)?;
        let method = Method::GetVirtualChainFromBlockV2;
        let contradiction = |what| SourceError::Contradiction { method, what };
        if page.added.len() != page.blocks_left() {
            return Err(contradiction("its hashes and its blocks differ in number").into());
        }
        let added = std::mem::take(&mut page.added);
        let mut hashes = added.into_iter();
        let removed = std::mem::take(&mut page.removed);
        let mut removed = self.find_removed(&Fork { start, removed })?;
        // A page from an older block of ours may start with blocks that the chain already has.
        let known_len = count_known(&removed, hashes.as_slice());
        for _ in 0..known_len {
            hashes.next();
            page.next_block()?;
        }
        removed.truncate(removed.len() - known_len);
        let mut added = 0;
        loop {
            let step_removed = std::mem::take(&mut removed);
            let mut step = self.chain.start_step(&step_removed)?;
            let mut joined = Vec::new();
            let mut work = None;
            while joined.len() < STEP_BLOCKS_MAX
                && let Some(block) = page.next_block()?
            {
                if hashes.next() != Some(block.hash) {
                    return Err(contradiction("its hashes and its blocks differ").into());
                }
                joined.push(block.hash);
                work = Some(block.header.blue_work);
                step.add_block(block)?;
            }
            if joined.is_empty() && step_removed.is_empty() {
                return Ok(added);
            }
            // A source that is behind, and knows our sink from elsewhere, would take blocks away.
            let is_whole = page.blocks_left() == 0;
            if !step_removed.is_empty() && is_whole && work.is_none_or(|it| it < self.sink_work) {
                let sink = self.recent.back().copied().unwrap_or_default();
                return Err(SourceError::LessWork { sink }.into());
            }
            step.commit();
            added += joined.len();
            self.finish_step(step_removed.len(), &joined, work)?;
        }
    }

    /// Applies one block that was requested in pieces. The blocks that leave the chain stay if it is refused.
    fn apply_block(&mut self, fork: Fork, mut block: AcceptingBlock) -> Result<usize, ApplyError> {
        let removed = self.find_removed(&fork)?;
        let restored = self.chain.outputs_spent_by_newest(removed.len());
        let restored: HashMap<Outpoint, UtxoEntry> = restored.into_iter().collect();
        fill_spent(&mut block, &self.reader, &restored)?;
        let hash = block.hash;
        let work = block.header.blue_work;
        let mut step = self.chain.start_step(&removed)?;
        step.add_block(block)?;
        step.commit();
        self.finish_step(removed.len(), &[hash], Some(work))?;
        Ok(1)
    }

    /// Returns all blocks that leave, from the sink down: those above the start of the request, and those that the
    /// source removes.
    fn find_removed(&self, fork: &Fork) -> Result<Vec<Hash>, SourceError> {
        let newest_first = self.recent.iter().rev().copied();
        let mut removed: Vec<Hash> = newest_first.take_while(|hash| *hash != fork.start).collect();
        if removed.len() == self.recent.len() {
            return Err(SourceError::Contradiction {
                method: Method::GetVirtualChainFromBlock,
                what: "our chain does not have its start any longer",
            });
        }
        removed.extend_from_slice(&fork.removed);
        Ok(removed)
    }

    /// Publishes a committed step.
    fn finish_step(
        &mut self,
        removed_len: usize,
        joined: &[Hash],
        work: Option<BlueWork>,
    ) -> Result<(), FollowError> {
        self.recent.truncate(self.recent.len() - removed_len);
        self.recent.extend(joined);
        self.publish()?;
        let root = self.chain.root().hash;
        while self.recent.len() > 1 && self.recent.front() != Some(&root) {
            self.recent.pop_front();
        }
        let sink = self.reader.utxos.view(Commitment::Confirmed);
        self.sink_work = work.unwrap_or(sink.meta().header.blue_work);
        if !joined.is_empty() {
            self.status.clear_mismatch();
        }
        Ok(())
    }

    /// Shows the state to readers, and sends the events to the sinks.
    fn publish(&mut self) -> Result<(), FollowError> {
        self.is_changed = false;
        let publication = self.chain.publish()?;
        if !publication.events.is_empty() {
            self.sinks.iter_mut().for_each(|sink| sink.send_events(&publication.events));
        }
        self.retired.push(publication);
        Ok(())
    }
}
