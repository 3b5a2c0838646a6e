//! A followed log: its leader, the next append, and the reactions to the outcome of an append.
//!
//! Invariant: nothing is appended before the log is read up to every message that is known to exist.
//! Not here: the choice of blocks and marks (`fill_batch`), a new generation (`opening`).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use chain_solana::wire::{BlockKey, Mark, RecordHead, RecordKind, WriterId};
use replicated_log::StoredMessage;

use super::phase::{Following, Phase, RECORDS_MAX};
use super::{Action, AppendFailure, Notice, Now, Plan, READ_TIME_MAX, RETRY_DELAY, ReadFailure};
use crate::batch::{Batch, BatchBuilder, BatchError};
use crate::fill_batch;
use crate::log_chain::LogChain;
use crate::own_chain::{Item, ItemKind, ItemNumber, OwnChain};
use crate::record_stream::StreamError;

/// Interval at which an ingester requests the newest generation.
const GENERATION_INTERVAL: Duration = Duration::from_secs(5);
/// Leases after which an ingester whose blocks do not continue the log opens a new generation.
const GAP_LEASES: u32 = 4;
/// The duty of an ingester while the log lacks items.
enum Duty {
    /// It waits for the leader, until this time at most.
    Wait(Duration),
    /// The ingester leads, and appends.
    Append(WriterId),
    /// The ingester starts a term.
    TakeOver(WriterId),
}

impl Plan {
    pub(super) fn start_following(&mut self, following: Following) {
        let root = self.own.root_key();
        if following.chain.contradicts(&root) && !self.own.has_left_root() {
            return self.stop_on_other_chain(root);
        }
        let generation = following.generation;
        self.rejoin = None;
        self.compared_blocks.start_after_record(generation, following.chain.last_number());
        let blocks = self.own.items().filter(|item| item.kind == ItemKind::Block);
        let keys: Vec<BlockKey> = blocks.map(|item| item.key).collect();
        self.phase = Phase::Following(Box::new(following));
        self.note_numbers();
        self.notices.push(Notice::Generation(generation));
        self.note_leader();
        keys.iter().for_each(|key| self.compare_with_log(key));
        // This generation may lack blocks that an earlier one had.
        self.own.requeue();
        self.remove_obsolete_items();
    }

    pub(super) fn is_leader(&self) -> bool {
        let Phase::Following(following) = &self.phase else { return false };
        following.chain.writer().is_some_and(|writer| writer.ingester == self.config.ingester)
    }

    /// Remembers the highest number and term, which a new generation continues.
    pub(super) fn note_numbers(&mut self) {
        if let Phase::Following(following) = &self.phase {
            self.last_number = self.last_number.max(following.chain.last_number());
            self.last_term = self.last_term.max(following.chain.term());
        }
    }

    pub(super) fn next_following_action(&mut self, now: Now) -> Action {
        let Phase::Following(following) = &mut self.phase else { return Action::Wait(None) };
        if following.is_behind() && now.elapsed >= following.read_since + READ_TIME_MAX {
            following.read_since = now.elapsed;
            let is_stuck = following.is_stuck();
            let generation = following.generation;
            let wanted = following.stream.position() + 1;
            following.measure_again();
            if is_stuck && self.replace_at_obstacle(generation, wanted, now) {
                return self.next_opening_action(now);
            }
        }
        let Phase::Following(following) = &mut self.phase else { return Action::Wait(None) };
        if !following.has_reader {
            return Action::Read(following.stream.position());
        }
        if following.needs_tail {
            following.tail_requested_at = following.chain.position();
            return Action::ReadTail;
        }
        let search_at = following.searched_at + GENERATION_INTERVAL;
        if now.elapsed >= search_at {
            return Action::FindGeneration;
        }
        if following.is_behind() {
            return Action::Wait(Some(search_at.min(following.read_since + READ_TIME_MAX)));
        }
        let action = match self.find_duty(now) {
            Duty::Wait(until) => return Action::Wait(Some(until.min(search_at))),
            Duty::Append(writer) => self.plan_append(writer, None, now),
            Duty::TakeOver(writer) => {
                let reason = format!("no append for {:?}", self.config.lease);
                self.plan_append(writer, Some(reason), now)
            }
        };
        action.unwrap_or(Action::Wait(Some(search_at)))
    }

    /// Whether this ingester appends, and in which term.
    fn find_duty(&self, now: Now) -> Duty {
        let never = Duty::Wait(Duration::MAX);
        let Phase::Following(following) = &self.phase else { return never };
        if self.is_leader() {
            return Duty::Append(self.config.writer(following.chain.term()));
        }
        let log = &following.chain;
        let mut lacking = self.own.items().filter(|item| item.kind != ItemKind::TipMoved);
        let Some(first) = lacking.next() else { return never };
        let since = first.received.max(following.advanced_at);
        let due = since + self.config.lease;
        if now.elapsed < due {
            return Duty::Wait(due);
        }
        let gap = fill_batch::find_gap(&self.own, log);
        let gap_due = since + self.config.lease * GAP_LEASES;
        if gap.is_some() && now.elapsed < gap_due {
            return Duty::Wait(gap_due);
        }
        let can_end_gap = gap.is_some_and(|gap| gap.is_closed_by_root(&self.own));
        let is_useful = |item: &Item| fill_batch::can_append(item, &self.own, log);
        if !can_end_gap && !self.own.items().any(is_useful) {
            return never;
        }
        Duty::TakeOver(self.config.writer(following.chain.term() + 1))
    }

    /// Makes the next batch. A leader with nothing that it could append may have a gap, which a new generation closes.
    fn plan_append(&mut self, writer: WriterId, term: Option<String>, now: Now) -> Option<Action> {
        let Phase::Following(following) = &mut self.phase else { return None };
        let has_term = term.is_some();
        let log = &following.chain;
        let tip = self.own.tip();
        let has_tip = tip.is_none_or(|tip| log.find(&tip).is_some_and(|it| log.tip() == Some(it)));
        if !has_term && self.own.item_count() == 0 && has_tip {
            return None;
        }
        let builder = BatchBuilder::new(log, writer, now.unix_ms, following.records_max);
        match make_batch(builder, term, &self.own) {
            Ok(batch) if !batch.messages.is_empty() => {
                following.append = Some(batch.clone());
                return Some(Action::Append(Box::new(batch)));
            }
            Ok(batch) => {
                let done: BTreeSet<ItemNumber> = batch.items.into_iter().collect();
                self.own.remove_items(|item, _| done.contains(&item.number));
            }
            Err(err) => {
                self.stop(format!("a batch cannot be made: {err}"));
                return Some(Action::Stop);
            }
        }
        let Phase::Following(following) = &self.phase else { return None };
        let gap = fill_batch::find_gap(&self.own, &following.chain)?;
        if !gap.is_closed_by_root(&self.own) {
            // Until then another ingester may have the block from its source, and takes over.
            return None;
        }
        let generation = following.generation;
        self.open_generation(generation + 1, gap.reason);
        Some(self.next_opening_action(now))
    }

    pub(super) fn end_append(&mut self, result: Result<u64, AppendFailure>, now: Now) {
        if let Phase::Opening(_) = self.phase {
            return self.end_first_append(result, now);
        }
        let Phase::Following(following) = &mut self.phase else { return };
        let Some(batch) = following.append.take() else { return };
        match result {
            Ok(last) if last == batch.chain.position() => self.commit(batch, now),
            Ok(_) => {
                following.needs_tail = true;
                self.own.remove_tips();
            }
            Err(failure) => self.handle_append_failure(failure, &batch, now),
        }
    }

    /// The log has the batch.
    fn commit(&mut self, batch: Batch, now: Now) {
        let Phase::Following(following) = &mut self.phase else { return };
        let was_leader =
            following.chain.writer().is_some_and(|it| it.ingester == self.config.ingester);
        // The reader may be ahead of the reply.
        if following.chain.position() < batch.chain.position() {
            following.chain = batch.chain;
        }
        following.known_last = following.known_last.max(following.chain.position());
        following.advanced_at = now.elapsed;
        following.records_max = RECORDS_MAX;
        self.counters.blocks += batch.blocks.len() as u64;
        self.counters.records += batch.records as u64;
        let done: BTreeSet<ItemNumber> = batch.items.into_iter().collect();
        self.own.remove_items(|item, _| done.contains(&item.number));
        self.note_numbers();
        if !was_leader {
            self.note_leader();
        }
        self.remove_obsolete_items();
    }

    fn handle_append_failure(&mut self, failure: AppendFailure, batch: &Batch, now: Now) {
        // The batch may be in the log. Two moves to one tip look alike, so only the newest tip is compared with the
        // log's.
        self.own.remove_tips();
        let Phase::Following(following) = &mut self.phase else { return };
        match failure {
            // The tail says how far to read: the log may count messages that it lost.
            AppendFailure::Fenced { .. } => {
                self.counters.fenced += 1;
                following.needs_tail = true;
            }
            AppendFailure::Unknown => {
                self.counters.unknown += 1;
                following.needs_tail = true;
                self.retry_at = now.elapsed + RETRY_DELAY;
            }
            AppendFailure::Full => {
                self.counters.full += 1;
                self.notices.push(Notice::Full);
                self.retry_at = now.elapsed + RETRY_DELAY;
            }
            AppendFailure::Refused(reason) => {
                self.counters.refused += 1;
                following.records_max = 1;
                if let ([number], 1) = (&batch.blocks[..], batch.records) {
                    self.own.refuse_content(*number, Arc::from(reason.as_str()));
                }
                self.notices.push(Notice::RefusedBatch(reason));
                self.retry_at = now.elapsed + RETRY_DELAY;
            }
        }
    }

    /// Takes a message of the followed log.
    pub(super) fn follow(&mut self, message: &StoredMessage, now: Now) {
        let Phase::Following(following) = &mut self.phase else { return };
        if !following.has_reader {
            // The reader that is about to be replaced may be ahead.
            return;
        }
        following.read_since = now.elapsed;
        following.known_last = following.known_last.max(message.sequence + message.pending);
        let record = match following.stream.push(message) {
            // The leader's own record, as the log has stored it.
            Ok(Some(record)) if record.sequence <= following.chain.position() => {
                self.damages = 0;
                return;
            }
            Ok(Some(record)) => record,
            Ok(None) => return,
            Err(StreamError::Version(err)) => return self.stop(err.to_string()),
            Err(StreamError::Damage(damage)) => {
                let generation = following.generation;
                return self.handle_damage(generation, damage, now);
            }
        };
        let writer = following.chain.writer();
        let has_lost_block = find_reverted_keys(&record.head, &following.chain)
            .any(|key| self.own.find(&key).is_some());
        if let Err(damage) = following.chain.apply(&record.head, record.sequence) {
            let generation = following.generation;
            return self.handle_damage(generation, damage, now);
        }
        following.advanced_at = now.elapsed;
        let is_new_writer = writer != following.chain.writer();
        self.damages = 0;
        if is_new_writer {
            self.note_leader();
        }
        self.note_numbers();
        self.compare_record(&record.head, record.sequence);
        if has_lost_block {
            // This ingester appends the block again if it leads.
            self.own.requeue();
        }
        self.remove_obsolete_items();
    }

    pub(super) fn lose_reader(&mut self, failure: ReadFailure, now: Now) {
        self.note_read_failure(failure);
        self.note_numbers();
        let Phase::Following(following) = &mut self.phase else { return };
        following.measure_again();
        let generation = following.generation;
        match failure {
            ReadFailure::Failed | ReadFailure::Damaged { .. } => self.delay(now),
            // All that is missing was final: the end of the log has the rest.
            ReadFailure::Truncated { .. } => {
                self.note_truncation(failure);
                self.phase = Phase::Measuring { generation };
                self.delay(now);
            }
            ReadFailure::Gone => {
                self.replace_generation(generation, "the log was deleted".into(), now)
            }
        }
    }

    fn note_leader(&mut self) {
        let is_leader = self.is_leader();
        let Phase::Following(following) = &self.phase else { return };
        let generation = following.generation;
        let term = following.chain.term();
        if !is_leader {
            self.own.remove_tips();
            self.reports.note_other_leader();
        }
        self.notices.push(match is_leader {
            true => Notice::Leads { generation, term },
            false => Notice::Follows { generation, term },
        });
    }

    /// Removes the newest item, if the log has it. The other items change with the log only, or with a removed block.
    /// Stops if the log has another final chain.
    pub(super) fn remove_obsolete_event(&mut self) {
        let Phase::Following(following) = &self.phase else { return };
        let log = &following.chain;
        let newest = self.own.items().next_back();
        let other = newest.filter(|item| self.is_contradicted(item, log)).map(|item| item.key);
        if let Some(key) = other {
            return self.stop_on_other_chain(key);
        }
        self.own.remove_newest_item(|item, own| fill_batch::is_obsolete(item, own, log));
    }

    fn is_contradicted(&self, item: &Item, log: &LogChain) -> bool {
        item.kind == ItemKind::Rooted && !self.own.has_left_root() && log.contradicts(&item.key)
    }

    /// Removes the items that the log has. Stops if the log has another final chain. Cost: all items.
    pub(super) fn remove_obsolete_items(&mut self) {
        let Phase::Following(following) = &self.phase else { return };
        let log = &following.chain;
        let other = self.own.items().find(|item| self.is_contradicted(item, log));
        if let Some(key) = other.map(|item| item.key) {
            return self.stop_on_other_chain(key);
        }
        self.own.remove_items(|item, own| fill_batch::is_obsolete(item, own, log));
    }

    fn stop_on_other_chain(&mut self, key: BlockKey) {
        let BlockKey { slot, blockhash } = key;
        self.stop(format!(
            "the log has another final block at slot {slot} than this node, whose block is {blockhash}: \
             it is of another chain, one of the two sources is wrong, or the ledger was restored from an older \
             state: give a restored ledger another --log-cluster"
        ));
    }
}

/// Returns the names of the blocks that a record removes from the log.
fn find_reverted_keys<'a>(
    head: &'a RecordHead,
    log: &'a LogChain,
) -> impl Iterator<Item = BlockKey> + 'a {
    let marks = match &head.kind {
        RecordKind::Marks(marks) => &marks[..],
        _ => &[],
    };
    marks.iter().filter_map(|mark| match mark {
        Mark::Reverted { block, .. } => {
            let blockhash = log.block(block.number)?.blockhash?;
            Some(BlockKey { slot: block.slot, blockhash })
        }
        _ => None,
    })
}

/// Fills a batch: the start of a term, if it has one, and then the own items.
fn make_batch(
    mut builder: BatchBuilder,
    term: Option<String>,
    own: &OwnChain,
) -> Result<Batch, BatchError> {
    if let Some(reason) = term {
        builder.add_term(reason)?;
    }
    fill_batch::add_items(&mut builder, own)?;
    builder.finish()
}
