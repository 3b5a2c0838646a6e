//! The state machine: updates in, events out.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use ledger::{BlockId, Slot};
use solana_hash::Hash;

use crate::account_writes::{BankAccounts, LastWrite};
use crate::approval::Approval;
use crate::assembly::{Added, Assembly};
use crate::bank::Bank;
use crate::bank_tree::BankTree;
use crate::config::FeedConfig;
use crate::event::{DropReason, Event, Gap, GapReason};
use crate::opened_banks::OpenedBanks;
use crate::session::{CommitmentStatus, ReportedBank, Session, StreamStart, UpdateTarget};
use crate::stats::{FeedStats, FeedStatus, SourceProgress};
use crate::update::{BlockMeta, SlotStatus, SourceId, Update, UpdateKind};
use crate::votes::Votes;

mod decisions;
mod jump;
mod open_banks;

/// From updates to whole banks, tips and roots. `A`, `T` and `M` are the caller's account, transaction and block meta.
///
/// The caller takes all events after each call.
pub struct Feed<A, T, M> {
    config: FeedConfig,
    sessions: BTreeMap<SourceId, Session<A, T, M>>,
    next_source: u64,
    tree: BankTree,
    votes: Votes,
    confirmed: BlockId,
    tip: BlockId,
    approval: Approval,
    /// The block of an archive above the root, until it is final or dropped.
    jumped: Option<BlockId>,
    opened: OpenedBanks,
    events: VecDeque<Event<A, T, M>>,
    stats: FeedStats,
}

enum UpdateEffect {
    /// The content of an open bank grew by this.
    Added(Added),
    /// The update repeats an earlier one.
    Duplicate,
    /// The update belongs to a replaced or dead bank.
    Ignored,
    /// A bank became whole, or a status changed, so waiting banks and statuses are tried again.
    Changed,
}

/// The decision about a whole bank.
enum LinkDecision {
    /// Report it as a child of this bank.
    Report(BlockId),
    /// Another source or session completed the bank before.
    Known(BlockId),
    /// Drop the bank: its parent ended, or is below the root.
    Drop(Option<GapReason>),
    /// Wait: the parent is open.
    Wait,
    /// End the session: the parent was not sent.
    Gap(GapReason),
}

impl<A: Clone, T, M> Feed<A, T, M> {
    /// Creates a feed with the block of a snapshot as its root.
    pub fn new(config: FeedConfig, root: BlockId, blockhash: Hash) -> Self {
        Self {
            votes: Votes::new(config.voters_max),
            approval: Approval::new(config.needs_approval),
            config,
            sessions: BTreeMap::new(),
            next_source: 0,
            tree: BankTree::new(root, blockhash),
            confirmed: root,
            tip: root,
            jumped: None,
            opened: OpenedBanks::default(),
            events: VecDeque::new(),
            stats: FeedStats::default(),
        }
    }

    /// Opens a session of a stream. Returns `None` at the bound (feed.sources_max).
    pub fn open_source(&mut self, start: StreamStart) -> Option<SourceId> {
        if self.sessions.len() >= self.config.sources_max {
            return None;
        }
        let source = SourceId(self.next_source);
        self.next_source += 1;
        self.sessions.insert(source, Session::new(start));
        Some(source)
    }

    /// Ends a session, such as after a lost connection. Its open banks are dropped, and reported banks stay.
    pub fn close_source(&mut self, source: SourceId) {
        if let Some(session) = self.sessions.remove(&source) {
            self.stats.unreported_banks += session.open_banks() as u64;
        }
    }

    /// Whether the session of a source is open.
    pub fn has_source(&self, source: SourceId) -> bool {
        self.sessions.contains_key(&source)
    }

    /// Handles an update that was received at `now`.
    ///
    /// Cost: a few lookups; more only if it makes a bank whole or moves a commitment.
    pub fn handle(&mut self, update: Update<A, T, M>, now: Instant) {
        let source = update.source;
        let slot = update.slot;
        self.stats.updates += 1;
        let Some(session) = self.sessions.get(&source) else {
            self.stats.ignored += 1;
            return;
        };
        if slot <= self.tree.root().slot.max(session.joined_at) {
            self.stats.stale += 1;
            self.check_rooted(&update);
            return;
        }
        match self.add(update, now) {
            Ok(UpdateEffect::Added(Added::New { .. })) => {}
            Ok(UpdateEffect::Added(Added::Duplicate) | UpdateEffect::Duplicate) => {
                self.stats.duplicates += 1;
            }
            Ok(UpdateEffect::Ignored) => self.stats.ignored += 1,
            Ok(UpdateEffect::Changed) => self.settle(now),
            Err(reason) => {
                self.end_session(source, slot, reason);
                self.settle(now);
            }
        }
    }

    /// Reports the banks that have lacked something for too long. Call it a few times a second.
    ///
    /// Cost: O(slots above the root).
    pub fn handle_timeout(&mut self, now: Instant) {
        let mut overdue = Vec::new();
        let mut is_changed = false;
        for (source, session) in
            self.sessions.iter_mut().filter(|(_, session)| !session.is_detached)
        {
            let mut lacks_entries = false;
            for (slot, entry) in &session.slots {
                let Some(frozen_at) = entry.frozen_at.filter(|_| entry.is_awaited()) else {
                    continue;
                };
                let waited = now.saturating_duration_since(frozen_at);
                if waited >= self.config.incomplete_timeout {
                    let missing = entry.missing();
                    if missing.is_only_entries() {
                        lacks_entries = true;
                        continue;
                    }
                    let reason = session.conflict.clone();
                    let reason = reason.unwrap_or(GapReason::Incomplete { missing, waited });
                    overdue.push((*source, *slot, reason));
                    break;
                }
            }
            if lacks_entries {
                self.stats.banks_without_entries += session.give_up_entries();
                is_changed = true;
            }
        }
        if overdue.is_empty() && !is_changed {
            return;
        }
        for (source, slot, reason) in overdue {
            self.end_session(source, slot, reason);
        }
        self.settle(now);
    }

    /// Returns the next event, in the order in which the caller must apply them.
    pub fn poll_event(&mut self) -> Option<Event<A, T, M>> {
        self.events.pop_front()
    }

    /// Returns the tips, the counters and the memory in use. Cost: O(slots above the root).
    pub fn status(&self) -> FeedStatus {
        FeedStatus {
            root: self.tree.root(),
            confirmed: self.confirmed,
            tip: self.tip,
            joinable_from: self.joinable_from(),
            bytes_max: self.config.bytes_max,
            stats: FeedStats {
                open_banks: self.sessions.values().map(Session::open_banks).sum(),
                open_bytes: self.sessions.values().map(|session| session.bytes).sum(),
                unrooted_banks: self.tree.count_unrooted(),
                ..self.stats
            },
        }
    }

    /// Returns the whole banks of a source, or `None` if its session has ended. Cost: O(1); O(slots above the root) for
    /// a session that started above the root.
    pub fn source_progress(&self, source: SourceId) -> Option<SourceProgress> {
        self.sessions.get(&source).map(Session::progress)
    }

    /// Whether a source contradicts the rooted chain.
    fn check_rooted(&mut self, update: &Update<A, T, M>) {
        let UpdateKind::BlockMeta(meta) = &update.kind else { return };
        let Some(ours) = self.tree.rooted_hash(update.slot) else { return };
        let theirs = meta.blockhash;
        if ours != theirs
            && let Some(session) = self.sessions.get_mut(&update.source)
        {
            session.conflict = Some(GapReason::OtherChain { ours, theirs });
        }
    }

    fn add(&mut self, update: Update<A, T, M>, now: Instant) -> Result<UpdateEffect, GapReason> {
        let Update { source, slot, bank_id, bytes, kind } = update;
        let config = &self.config;
        let Some(session) = self.sessions.get_mut(&source) else {
            return Ok(UpdateEffect::Ignored);
        };
        if let UpdateKind::Status(status) = kind {
            return self.add_status(source, slot, bank_id, status, now);
        }
        let lacks_entries = session.lacks_entries;
        let entry = session.slot(slot, config)?;
        let reserve_id = || self.tree.reserve(slot);
        let (outcome, is_whole) = match entry.target(bank_id, reserve_id, now)? {
            UpdateTarget::Ended => return Ok(UpdateEffect::Ignored),
            UpdateTarget::Reported(at) => {
                let UpdateKind::Account { pubkey, write_version, account } = kind else {
                    return Ok(UpdateEffect::Duplicate);
                };
                let reported = &mut entry.reported[at];
                let Some(more) = reported.record_late(pubkey, write_version) else {
                    return Ok(UpdateEffect::Duplicate);
                };
                let write = LastWrite { pubkey, write_version, account };
                self.events.push_back(Event::LateWrite { bank: reported.id, write });
                self.stats.late_writes += 1;
                (Added::New { before: 0, after: more }, false)
            }
            UpdateTarget::Open(at) => {
                let bank = &mut entry.open[at];
                let added = match kind {
                    UpdateKind::Account { pubkey, write_version, account } => {
                        bank.add_account(LastWrite { pubkey, write_version, account }, bytes)
                    }
                    UpdateKind::Transaction { index, transaction } => {
                        bank.add_transaction(index, transaction, bytes)?
                    }
                    UpdateKind::Entry { index, entry } => bank.add_entry(index, entry),
                    UpdateKind::BlockMeta(mut meta) => {
                        if lacks_entries && meta.entries_count > 0 {
                            meta.entries_count = 0;
                            let is_new = bank.meta.is_none();
                            self.stats.banks_without_entries += u64::from(is_new);
                        }
                        bank.set_meta(meta, bytes)?
                    }
                    UpdateKind::Status(_) => Added::Duplicate, // it was taken above
                };
                (added, bank.is_whole())
            }
        };
        await_frozen(entry, now);
        session.record_added(&outcome);
        if session.bytes > config.bytes_max {
            let bytes = session.bytes;
            let limit = config.bytes_max;
            let update = if let Added::New { after, .. } = outcome { after } else { 0 };
            return Err(GapReason::Bytes { update, bytes, limit });
        }
        Ok(if is_whole { UpdateEffect::Changed } else { UpdateEffect::Added(outcome) })
    }

    fn add_status(
        &mut self,
        source: SourceId,
        slot: Slot,
        bank_id: Option<u64>,
        status: SlotStatus,
        now: Instant,
    ) -> Result<UpdateEffect, GapReason> {
        let Some(session) = self.sessions.get_mut(&source) else {
            return Ok(UpdateEffect::Ignored);
        };
        let entry = session.slot(slot, &self.config)?;
        let named = CommitmentStatus { bank_id, is_applied: false, is_found: false };
        let mut replaced_bytes = 0;
        match status {
            SlotStatus::CreatedBank => {
                let reserve_id = || self.tree.reserve(slot);
                let Some((bytes, banks)) = entry.create(bank_id, reserve_id, now)? else {
                    return Ok(UpdateEffect::Duplicate);
                };
                self.stats.unreported_banks += banks;
                replaced_bytes = bytes;
            }
            SlotStatus::Processed if entry.is_processed => return Ok(UpdateEffect::Duplicate),
            SlotStatus::Processed => entry.is_processed = true,
            SlotStatus::Confirmed if entry.confirmed.is_some() => {
                return Ok(UpdateEffect::Duplicate);
            }
            SlotStatus::Confirmed => entry.confirmed = Some(named),
            SlotStatus::Finalized if entry.finalized.is_some() => {
                return Ok(UpdateEffect::Duplicate);
            }
            SlotStatus::Finalized => entry.finalized = Some(named),
            SlotStatus::Dead { error } => {
                return Ok(self.end_dead(source, slot, bank_id, error));
            }
        }
        await_frozen(entry, now);
        session.bytes -= replaced_bytes;
        Ok(UpdateEffect::Changed)
    }

    fn end_dead(
        &mut self,
        source: SourceId,
        slot: Slot,
        bank_id: Option<u64>,
        error: String,
    ) -> UpdateEffect {
        let Some(session) = self.sessions.get_mut(&source) else { return UpdateEffect::Ignored };
        let Some(entry) = session.slots.get_mut(&slot) else { return UpdateEffect::Ignored };
        if let Some(bytes) = entry.end_open(bank_id) {
            session.bytes -= bytes;
            self.stats.unreported_banks += 1;
            self.tree.record_end(slot);
            return UpdateEffect::Changed;
        }
        entry.record_end(bank_id);
        self.tree.record_end(slot);
        let dead = entry.resolve(CommitmentStatus { bank_id, is_applied: false, is_found: false });
        let Some(dead) = dead.filter(|dead| self.is_droppable(*dead)) else {
            return UpdateEffect::Ignored;
        };
        self.drop_banks(dead, &DropReason::Dead { error });
        UpdateEffect::Changed
    }

    /// Whether a reported bank may still be dropped, because it is not confirmed.
    fn is_droppable(&self, bank: BlockId) -> bool {
        self.tree.contains(bank) && !self.tree.is_on_chain(bank, self.confirmed)
    }

    /// Removes a bank and its descendants, the newest first.
    fn drop_banks(&mut self, bank: BlockId, reason: &DropReason) {
        for bank in self.tree.subtree(bank) {
            self.drop_bank(bank, reason.clone());
        }
    }

    fn drop_bank(&mut self, bank: BlockId, reason: DropReason) {
        self.tree.remove(bank);
        for session in self.sessions.values_mut() {
            let Some(entry) = session.slots.get_mut(&bank.slot) else { continue };
            if let Some(at) = entry.reported.iter().position(|reported| reported.id == bank) {
                let reported = entry.reported.remove(at);
                session.bytes -= reported.bytes();
                entry.record_end(reported.bank_id);
            }
        }
        self.events.push_back(Event::Dropped { bank, reason });
    }

    /// Tries everything that waits, until nothing changes: whole banks without parents, then statuses.
    fn settle(&mut self, now: Instant) {
        while self.link_one(now) || self.apply_one_status() {}
        self.move_tip();
        for entry in self.sessions.values_mut().flat_map(|session| session.slots.values_mut()) {
            await_frozen(entry, now);
        }
    }

    /// Reports or drops one whole bank. Returns false if all of them wait.
    fn link_one(&mut self, now: Instant) -> bool {
        for (source, session) in &self.sessions {
            for (slot, entry) in &session.slots {
                for (at, bank) in entry.open.iter().enumerate().filter(|(_, it)| it.is_whole()) {
                    let Some(meta) = &bank.meta else { continue };
                    let link = match self.decide_link(*slot, meta) {
                        // It is on a fork that left the chain before the archive, and may be partial.
                        LinkDecision::Report(parent) if parent.slot < session.joined_at => {
                            LinkDecision::Drop(None)
                        }
                        LinkDecision::Gap(GapReason::ParentUnknown { parent, .. })
                            if parent < *slot && parent <= session.joined_at =>
                        {
                            LinkDecision::Drop(None)
                        }
                        LinkDecision::Gap(GapReason::ParentUnknown { .. })
                            if session.is_detached =>
                        {
                            LinkDecision::Wait
                        }
                        LinkDecision::Report(parent) if !session.has_all_children(parent) => {
                            LinkDecision::Wait
                        }
                        link => link,
                    };
                    if !matches!(link, LinkDecision::Wait) {
                        let source = *source;
                        let slot = *slot;
                        self.apply_link(source, slot, at, link, now);
                        return true;
                    }
                }
            }
        }
        false
    }

    fn decide_link(&self, slot: Slot, meta: &BlockMeta<M>) -> LinkDecision {
        let parent = meta.parent_slot;
        let hash = &meta.parent_blockhash;
        let root = self.tree.root();
        if let Some(id) = self.tree.find(slot, &meta.blockhash) {
            return LinkDecision::Known(id);
        }
        if parent >= slot {
            return LinkDecision::Gap(GapReason::ParentUnknown { parent, root: root.slot });
        }
        if let Some(id) = self.tree.find(parent, hash) {
            return LinkDecision::Report(id);
        }
        if parent <= root.slot {
            let other = |ours| GapReason::OtherChain { ours, theirs: *hash };
            return LinkDecision::Drop(
                self.tree.rooted_hash(parent).filter(|it| it != hash).map(other),
            );
        }
        let is_open = |session: &Session<A, T, M>| {
            session.slots.get(&parent).is_some_and(|entry| !entry.open.is_empty())
        };
        if self.sessions.values().any(is_open) {
            LinkDecision::Wait
        } else if self.tree.has_ended(parent) {
            LinkDecision::Drop(None)
        } else {
            LinkDecision::Gap(GapReason::ParentUnknown { parent, root: root.slot })
        }
    }

    fn apply_link(
        &mut self,
        source: SourceId,
        slot: Slot,
        at: usize,
        link: LinkDecision,
        now: Instant,
    ) {
        if let LinkDecision::Gap(reason) = link {
            return self.end_session(source, slot, reason);
        }
        let Some(session) = self.sessions.get_mut(&source) else { return };
        let Some(entry) = session.slots.get_mut(&slot) else { return };
        let mut bank = entry.open.remove(at);
        session.bytes -= bank.bytes;
        let entries = bank.take_entries();
        let pending = bank.drain_pending();
        let Assembly { id, bank_id, first_received, accounts, transactions, meta, .. } = bank;
        let Some(meta) = meta else { return };
        let reported = match link {
            LinkDecision::Known(id) => {
                self.stats.duplicate_banks += 1;
                ReportedBank::new(bank_id, id, std::iter::empty::<&LastWrite<A>>())
            }
            LinkDecision::Report(parent) => {
                let accounts = BankAccounts(accounts);
                self.opened.remove(id);
                self.tree.add(id, parent, meta.blockhash);
                let reported = ReportedBank::new(bank_id, id, accounts.iter());
                self.stats.banks += 1;
                if meta.entries_count > 0 && entries.is_empty() {
                    self.stats.banks_without_entries += 1;
                }
                self.events.push_back(Event::Bank(Box::new(Bank {
                    id,
                    parent,
                    source,
                    pending,
                    first_received,
                    completed: now,
                    accounts,
                    transactions: transactions.into_values().collect(),
                    entries,
                    meta,
                })));
                reported
            }
            LinkDecision::Drop(conflict) => {
                session.conflict = conflict.or_else(|| session.conflict.take());
                entry.record_end(bank_id);
                self.stats.unreported_banks += 1;
                self.tree.record_end(slot);
                return;
            }
            LinkDecision::Wait | LinkDecision::Gap(_) => return,
        };
        let id = reported.id;
        session.linked.record(slot);
        session.bytes += reported.bytes();
        entry.reported.retain(|known| known.id != id);
        let replaced: Vec<BlockId> = entry.reported.iter().map(|reported| reported.id).collect();
        entry.reported.push(reported);
        for bank in replaced {
            if self.is_droppable(bank) {
                self.drop_banks(bank, &DropReason::Replaced);
            }
        }
    }

    /// Applies one confirmed or finalized status of a reported bank. Returns false if there is none.
    fn apply_one_status(&mut self) -> bool {
        if self.apply_jump() {
            return true;
        }
        let mut found = None;
        for session in self.sessions.values_mut() {
            for (slot, entry) in &mut session.slots {
                // A session that resumed later than the bank names a bank of an earlier one.
                let earlier = entry.is_empty().then(|| self.tree.find_only(*slot)).flatten();
                for is_root in [false, true] {
                    let status = if is_root { entry.finalized } else { entry.confirmed };
                    let Some(named) = status.filter(|named| !named.is_applied) else { continue };
                    let bank = entry.resolve(named).or(earlier);
                    let Some(bank) = bank.filter(|it| self.tree.contains(*it)) else { continue };
                    let is_applied = self.approval.allows(bank, is_root);
                    let named = CommitmentStatus { is_applied, is_found: true, ..named };
                    if is_root {
                        entry.finalized = Some(named);
                    } else {
                        entry.confirmed = Some(named);
                    }
                    if !is_applied {
                        continue;
                    }
                    found = Some((bank, is_root));
                    break;
                }
                if found.is_some() {
                    break;
                }
            }
            if found.is_some() {
                break;
            }
        }
        match found {
            Some((bank, true)) => self.set_root(bank),
            Some((bank, false)) => self.confirm(bank),
            None => return false,
        }
        true
    }

    fn confirm(&mut self, bank: BlockId) {
        let is_newer = bank.slot > self.confirmed.slot;
        if is_newer && bank != self.confirmed && !self.tree.is_on_chain(bank, self.confirmed) {
            self.confirmed = bank;
            self.move_tip();
            self.events.push_back(Event::Confirmed(bank));
        }
    }

    fn set_root(&mut self, bank: BlockId) {
        let before = self.tree.root();
        if bank == before || !self.tree.is_on_chain(before, bank) {
            return;
        }
        for dropped in self.tree.on_other_forks(bank) {
            self.drop_bank(dropped, DropReason::Abandoned);
        }
        if !self.tree.is_on_chain(bank, self.confirmed) {
            self.confirmed = bank;
            self.move_tip();
            self.events.push_back(Event::Confirmed(bank));
        }
        self.move_tip();
        for rooted in self.tree.above(before, bank).into_iter().rev() {
            self.events.push_back(Event::Root(rooted));
        }
        self.tree.set_root(bank);
        self.votes.prune(bank.slot);
        self.approval.prune(bank);
        for session in self.sessions.values_mut() {
            self.stats.unreported_banks += session.prune(bank.slot);
            // Its next banks are children of the root.
            if session.is_detached && !session.is_partial {
                session.attach();
            }
        }
    }

    fn move_tip(&mut self) {
        let best = self.votes.best(&self.tree, self.confirmed);
        if best != self.tip {
            self.tip = best;
            self.events.push_back(Event::Tip(best));
        }
    }

    fn end_session(&mut self, source: SourceId, slot: Slot, reason: GapReason) {
        let Some(session) = self.sessions.remove(&source) else { return };
        let (dropped_slots, dropped_bytes) = session.open_slots();
        self.stats.gaps += 1;
        self.stats.unreported_banks += session.open_banks() as u64;
        let resume_from = self.tree.root().slot + 1;
        // At a bound of slots, a contradiction of the rooted chain is the better explanation.
        let reason = match (reason, session.conflict) {
            (GapReason::Slots { .. }, Some(conflict)) => conflict,
            (reason, _) => reason,
        };
        let gap = Gap { source, slot, resume_from, reason, dropped_slots, dropped_bytes };
        self.events.push_back(Event::Gap(gap));
    }
}

/// Starts or ends the time in which an awaited bank must become whole.
fn await_frozen<A, T, M>(entry: &mut crate::session::SlotEntry<A, T, M>, now: Instant) {
    if entry.is_awaited() {
        entry.frozen_at.get_or_insert(now);
    } else {
        entry.frozen_at = None;
    }
}
