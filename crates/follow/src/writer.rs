//! The one writer of a followed ledger: banks of the feed into state, history and events.
//!
//! In: updates, streams that open and close, the time. Out: the ledger's state, its history, and events to the sinks,
//! each after its state is published.
//! Shape: the writes of an open bank are applied early, as a block that no tip leads to (`prepare_banks`), and the rest
//! when the bank is whole (`write_bank`). Work that no reader waits for follows later (`run_deferred`).
//! Invariant: a tip moves to a bank only when it is whole, so nothing of an open bank is shown.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use chain_solana::{
    Block, BlockInfo, EventSink, ExecutedTransaction, History, LedgerEvent, Reader, RevertReason,
};
use feed::{DropReason, Event, Feed, Gap, GapReason, SourceId, UpdateKind};
use ledger::{Address, BlockId, Commitment, Slot};
use query::Ledger;
use snapshot_solana::stored_rows::{BankRow, JumpRow, LatticeRow};
use solana::Account;
use solana_account::ReadableAccount;
use solana_sdk_ids::sysvar;
use tokio::sync::{mpsc, watch};
use verify::StakedVoters;

use crate::account_updates::WriteVersions;
use crate::archive_status_cache::ArchiveStatusCache;
use crate::clock::{now, unix_ms};
use crate::cluster_tracker::ClusterTracker;
use crate::convert::{BlockFacts, Converted, WrittenAccount};
use crate::deferred::DeferredWork;
use crate::error::FollowError;
use crate::event_sinks::send_events;
use crate::execution::Execution;
use crate::free_thread::FreeThread;
use crate::jump::Jump;
use crate::jumped_block::{DroppedJump, JumpedBlock};
use crate::open_banks::OpenBanks;
use crate::source_slots::HandledStream;
use crate::status::FollowStatus;
use crate::store_thread::{RootedBank, StoreQueue};
use crate::stream::{Message, source_update};
use crate::verification::Verification;
use crate::vote_accounts::VoteAccounts;
use crate::votes::{LandedVotes, StakeTables, VoteFilter};

mod jump;
mod prepare_banks;
mod queue_executions;
mod run_deferred;
mod write_bank;

/// Maximum number of epochs with stakes: the root's, the next one, and the one after it.
const EPOCHS_MAX: usize = 3;

/// A bank above the root, or the root.
struct Frozen {
    block: Arc<Block>,
    info: Arc<BlockInfo>,
    /// Whether its transactions were sent as processed.
    is_executed: bool,
    is_confirmed: bool,
}

/// The writer's part of a start: the ledger at its root, and everything that the writer needs besides.
pub(crate) struct WriterParts {
    pub(crate) feed: Feed<WrittenAccount, Arc<ExecutedTransaction>, BlockFacts>,
    pub(crate) ledger: Ledger<Account, BlockInfo>,
    pub(crate) reader: Reader,
    pub(crate) history: Arc<History>,
    pub(crate) root: Arc<Block>,
    pub(crate) root_info: BlockInfo,
    pub(crate) status: Arc<FollowStatus>,
    pub(crate) older_statuses: Arc<ArchiveStatusCache>,
    /// Gets the session of each gap.
    pub(crate) gaps: watch::Sender<u64>,
    pub(crate) verification: Verification,
    pub(crate) cluster: ClusterTracker,
    /// Selects votes, if they are counted.
    pub(crate) votes: Option<Arc<VoteFilter>>,
    pub(crate) storage: Storage,
    /// Executes transactions again, if the configuration says so.
    pub(crate) execution: Option<Execution>,
    pub(crate) free_thread: FreeThread,
    pub(crate) sinks: Vec<Box<dyn EventSink>>,
}

/// The storage of rooted banks.
pub(crate) struct Storage {
    /// `None` without a directory.
    pub(crate) queue: Option<StoreQueue>,
    /// The stored block of the last jump, which has no known transactions.
    pub(crate) last_jump: Option<JumpRow>,
}

/// The stakes and the votes that choose tips and roots.
struct Voting {
    /// The stakes of the known epochs.
    stakes: StakeTables,
    filter: Option<Arc<VoteFilter>>,
    accounts: VoteAccounts,
    /// The votes in the newest bank, until it is the tip.
    newest: Option<(BlockId, LandedVotes)>,
}

/// The events of the writer.
struct Output {
    sinks: Vec<Box<dyn EventSink>>,
    write_versions: WriteVersions,
    /// Events to send after the next publication.
    unsent: Vec<LedgerEvent>,
}

/// The sessions of streams.
struct Sessions {
    /// The open session, and its source in the feed.
    open: Option<(u64, SourceId)>,
    gaps: watch::Sender<u64>,
}

/// The writer's state.
pub(crate) struct Writer {
    feed: Feed<WrittenAccount, Arc<ExecutedTransaction>, BlockFacts>,
    ledger: Ledger<Account, BlockInfo>,
    reader: Reader,
    history: Arc<History>,
    status: Arc<FollowStatus>,
    /// The statuses of transactions up to an archive.
    older_statuses: Arc<ArchiveStatusCache>,
    verification: Verification,
    cluster: ClusterTracker,
    voting: Voting,
    storage: Storage,
    execution: Option<Execution>,
    output: Output,
    sessions: Sessions,
    banks: BTreeMap<BlockId, Frozen>,
    open_banks: OpenBanks,
    deferred: DeferredWork,
    free_thread: FreeThread,
    /// The jump that the feed is about to report.
    pending_jump: Option<Jump>,
    /// The block of an archive above the root.
    jumped: Option<JumpedBlock>,
    /// A dropped block of an archive that the published views may still show.
    dropped_jump: Option<DroppedJump>,
    started: Instant,
    /// When the last updates came, since the start.
    now: Duration,
}

impl Writer {
    /// Creates a writer.
    pub(crate) fn new(parts: WriterParts) -> Self {
        let WriterParts { root, root_info, sinks, gaps, votes, .. } = parts;
        let id = root.id;
        let info = Arc::new(root_info);
        let root = Frozen { block: root, info, is_executed: true, is_confirmed: true };
        let voting = Voting {
            stakes: StakeTables::new(),
            filter: votes,
            accounts: VoteAccounts::default(),
            newest: None,
        };
        let write_versions = WriteVersions::default();
        Self {
            feed: parts.feed,
            ledger: parts.ledger,
            reader: parts.reader,
            history: parts.history,
            status: parts.status,
            older_statuses: parts.older_statuses,
            verification: parts.verification,
            cluster: parts.cluster,
            voting,
            storage: parts.storage,
            execution: parts.execution,
            output: Output { sinks, write_versions, unsent: Vec::new() },
            sessions: Sessions { open: None, gaps },
            banks: BTreeMap::from([(id, root)]),
            open_banks: OpenBanks::default(),
            deferred: DeferredWork::default(),
            free_thread: parts.free_thread,
            pending_jump: None,
            jumped: None,
            dropped_jump: None,
            started: now(),
            now: Duration::ZERO,
        }
    }

    /// Runs until the streams have ended.
    pub(crate) fn run(mut self, mut messages: mpsc::Receiver<Message>) -> Result<(), FollowError> {
        while let Some(message) = messages.blocking_recv() {
            match message {
                Message::Opened { session, start } => {
                    self.close_session();
                    self.verification.retry_unverified();
                    self.take_events()?;
                    let source = self.feed.open_source(start);
                    self.sessions.open = source.map(|source| (session, source));
                }
                Message::State(sender) => self.send_state(sender),
                Message::Jump(jump) => self.jump(*jump)?,
                Message::Updates { session, received, updates, _permit } => {
                    let Some((_, source)) = self.sessions.open.filter(|(open, _)| *open == session)
                    else {
                        continue;
                    };
                    self.now = received.saturating_duration_since(self.started);
                    let batch_len = updates.len() as u64;
                    for (update, bytes) in updates {
                        if self.verification.is_stopped() {
                            break;
                        }
                        self.preview_child(&update);
                        self.feed.handle(source_update(source, update, bytes), received);
                        self.take_events()?;
                    }
                    self.run_deferred_if_due(received)?;
                    self.prepare_banks(batch_len)?;
                }
                Message::Closed(session) => {
                    if self.sessions.open.is_some_and(|(open, _)| open == session) {
                        self.close_session();
                    }
                }
                Message::Votes(votes) => {
                    let decided = self.verification.count_votes(&votes, self.now);
                    if let (Some(slot), Some(filter)) = (decided, &self.voting.filter) {
                        filter.decide(slot);
                    }
                    self.take_events()?;
                }
                Message::Checked(checked) => {
                    self.verification.record_checked(&checked);
                    self.take_events()?;
                }
                Message::Executed(bank) => self.verification.record_executed(bank),
                Message::Reports(reports) => {
                    self.verification.compare_reports(&reports, self.now);
                    self.take_events()?;
                }
                Message::Tick(now) => {
                    if !self.verification.is_stopped() {
                        self.feed.handle_timeout(now);
                    }
                    self.now = now.saturating_duration_since(self.started).max(self.now);
                    self.check_jump();
                    self.take_events()?;
                    self.run_deferred_if_due(now)?;
                    self.prepare_banks(0)?;
                    self.update_status();
                    self.report_progress(now);
                }
            }
        }
        self.run_deferred()
    }

    /// A bank that was just created lists the hash of its parent, which may be known.
    fn preview_child(&mut self, update: &Converted) {
        let UpdateKind::Account { pubkey, account, .. } = &update.kind else { return };
        if *pubkey != sysvar::slot_hashes::ID {
            return;
        }
        if update.slot > self.feed.status().tip.slot {
            self.deferred.end_wait();
        }
        let Some((slot, hash)) = verify::newest_slot_hash(account.account.0.data()) else { return };
        let of_slot = BlockId { slot, version: 0 }..=BlockId { slot, version: u64::MAX };
        let mut banks = self.banks.range(of_slot);
        if let Some((bank, _)) = banks.find(|(_, frozen)| frozen.block.bank_hash == hash) {
            self.verification.preview_child(*bank, hash, self.now);
        }
    }

    fn close_session(&mut self) {
        if let Some((_, source)) = self.sessions.open.take() {
            self.feed.close_source(source);
        }
    }

    /// Applies the events of the feed, publishes, and then sends what became visible.
    fn take_events(&mut self) -> Result<(), FollowError> {
        let mut has_visible = false;
        loop {
            while let Some(decision) = self.verification.pop_decision() {
                self.feed.apply(decision);
            }
            let Some(event) = self.feed.poll_event() else { break };
            has_visible |= !event.is_about_open_bank();
            match event {
                Event::Opened(bank) => self.record_opened(&bank),
                Event::FirstWrites { bank, pubkeys } => self.replace_accounts(bank, pubkeys),
                Event::Quiescent { bank, accounts } => self.write_quiescent(bank, accounts)?,
                Event::Ended(bank) => self.end_open(bank)?,
                Event::Bank(bank) => self.write_bank(*bank)?,
                Event::Dropped { bank, reason } => self.drop_bank(bank, reason)?,
                Event::Tip(bank) => self.move_tip(bank)?,
                Event::Confirmed(bank) => self.confirm(bank)?,
                Event::Root(bank) => self.defer_root(bank)?,
                Event::Jumped { from, to } => self.apply_jump(from, to)?,
                Event::LateWrite { bank, write } => {
                    self.status.late_writes.fetch_add(1, Ordering::Relaxed);
                    let account = write.pubkey;
                    let slot = bank.slot;
                    tracing::error!(slot, %account, "a write came after its bank was whole");
                }
                Event::Gap(gap) => self.report_gap(&gap),
            }
        }
        if has_visible {
            self.publish();
        }
        Ok(())
    }

    fn publish(&mut self) {
        // History must show each block that a view shows as confirmed or final.
        let history = self.history.publish_first();
        let ledger = self.ledger.publish_first();
        self.report_dropped_jump();
        self.deferred.retire((history, ledger), self.now);
        self.update_status();
        send_events(&mut self.output.sinks, std::mem::take(&mut self.output.unsent));
    }

    fn update_status(&self) {
        let status = &self.status;
        let feed = self.feed.status();
        let stats = feed.stats;
        let set = |counter: &std::sync::atomic::AtomicU64, value: u64| {
            counter.store(value, Ordering::Relaxed);
        };
        set(&status.cluster.processed, feed.tip.slot);
        set(&status.confirmed, self.ledger.tip(Commitment::Confirmed).slot);
        set(&status.root, self.ledger.root().slot);
        set(&status.banks, stats.banks);
        set(&status.duplicates, stats.duplicates);
        set(&status.banks_without_entries, stats.banks_without_entries);
        set(&status.open_banks, stats.open_banks as u64);
        set(&status.open_bytes, stats.open_bytes as u64);
        set(&status.joinable_from, feed.joinable_from.unwrap_or_default());
        let verifier_bytes = self.verification.bytes() + self.voting.accounts.bytes();
        set(&status.proof.verifier_bytes, verifier_bytes as u64);
        // Before the banks: a reader that finds no unproven bank also finds the roots that these banks became.
        set(&status.deferred_roots, self.deferred.roots.len() as u64);
        let unproven_banks = self.verification.unproven_banks();
        set(&status.proof.checks.unproven_banks, unproven_banks as u64);
        // Last, so that the others are of these updates.
        status.updates.store(stats.updates, Ordering::Release);
    }

    /// Reports the whole banks of the open stream, unless no more are accepted, which is not a fault of the source.
    fn report_progress(&self, now: Instant) {
        let open = self.sessions.open.filter(|_| !self.verification.is_stopped());
        let Some((session, source)) = open else { return };
        let Some(progress) = self.feed.source_progress(source) else { return };
        *self.status.handled_stream.lock() = Some(HandledStream { session, progress, as_of: now });
    }

    fn report_gap(&self, gap: &Gap) {
        let dropped = (gap.dropped_slots.first(), gap.dropped_slots.last());
        let text = format!("slot {}: {}", gap.slot, gap.reason);
        tracing::warn!(
            slot = gap.slot,
            reason = gap.reason.name(),
            resume_from = gap.resume_from,
            dropped_slots = ?dropped,
            dropped_bytes = gap.dropped_bytes,
            "gap: {}",
            gap.reason
        );
        if matches!(gap.reason, GapReason::OtherChain { .. }) {
            let refusal = format!("a source follows another chain: {text}");
            self.status.proof.set_refusal(Some(refusal));
        }
        // Before the count: a reader that finds a gap also finds its reason.
        *self.status.last_gap.lock() = Some(text);
        self.status.gaps.fetch_add(1, Ordering::Release);
        if let Some((session, _)) = self.sessions.open {
            self.sessions.gaps.send_replace(session);
        }
    }

    /// Takes the stakes that the cluster's tracker computed.
    pub(crate) fn take_epoch_stakes(&mut self) {
        for stakes in self.cluster.take_new_stakes() {
            self.set_epoch_stakes(Arc::new(stakes));
        }
    }

    /// The stakes of an epoch became known.
    pub(crate) fn set_epoch_stakes(&mut self, stakes: Arc<StakedVoters>) {
        self.verification.set_epoch_stakes(&stakes);
        self.voting.stakes.retain(|known| known.slots() != stakes.slots());
        self.voting.stakes.push(stakes);
        self.voting.stakes.sort_by_key(|stakes| *stakes.slots().start());
        if self.voting.stakes.len() > EPOCHS_MAX {
            self.voting.stakes.remove(0);
        }
        if let Some(filter) = &self.voting.filter {
            filter.set_stakes(self.voting.stakes.clone());
        }
    }

    /// Takes the stakes of the epoch of a slot, and the state of their vote accounts in the parent of its bank.
    fn enter_epoch(&mut self, slot: Slot, parent: BlockId) {
        if self.voting.accounts.has_stakes(slot) {
            return;
        }
        let table = self.voting.stakes.iter().find(|stakes| stakes.slots().contains(&slot));
        self.voting.accounts.set_stakes(slot, table.cloned());
        let pubkeys: Vec<_> = self.voting.accounts.pubkeys().copied().collect();
        let accounts = pubkeys.iter().filter_map(|pubkey| {
            let account = self.ledger.record_at(parent, &Address::from(pubkey.to_bytes()))?;
            Some((pubkey, account))
        });
        for (pubkey, account) in accounts {
            self.voting.accounts.record(pubkey, &account, slot);
        }
    }

    fn drop_bank(&mut self, bank: BlockId, reason: DropReason) -> Result<(), FollowError> {
        // A bank that came when the verifier was full was never written.
        let Some(Frozen { block, .. }) = self.banks.remove(&bank) else { return Ok(()) };
        self.ledger.drop_fork(bank).map_err(|err| FollowError::Ledger { bank, err })?;
        self.history.drop_fork(bank);
        self.verification.drop_bank(bank);
        self.cluster.remove_bank(bank);
        self.drop_jump(bank);
        if let Some(execution) = &self.execution {
            execution.remove(bank);
        }
        self.status.reverted.fetch_add(1, Ordering::Relaxed);
        let reason = match reason {
            DropReason::Dead { error } => RevertReason::Dead { error },
            DropReason::Abandoned => RevertReason::Abandoned,
            DropReason::Replaced => RevertReason::Replaced,
        };
        self.output.unsent.push(LedgerEvent::Reverted { block, reason, timestamp_ms: unix_ms() });
        Ok(())
    }

    /// The banks from above `stop` to `bank`, the oldest first. `stop` says of a bank whether the chain ends there.
    fn chain_to(&self, bank: BlockId, stop: impl Fn(&BlockId, &Frozen) -> bool) -> Vec<BlockId> {
        let mut chain = Vec::new();
        let mut at = bank;
        while let Some(frozen) = self.banks.get(&at).filter(|frozen| !stop(&at, frozen)) {
            chain.push(at);
            at = frozen.block.parent;
        }
        chain.reverse();
        chain
    }

    fn move_tip(&mut self, bank: BlockId) -> Result<(), FollowError> {
        if !self.banks.contains_key(&bank) {
            // It came when the verifier was full, and its removal follows.
            return Ok(());
        }
        self.ledger.set_tip(bank).map_err(|err| FollowError::Ledger { bank, err })?;
        self.history.enter_tip(bank);
        self.deferred.defer_limits(self.now);
        for id in self.chain_to(bank, |_, frozen| frozen.is_executed) {
            let Some(frozen) = self.banks.get_mut(&id) else { continue };
            frozen.is_executed = true;
            if self.execution.is_some() {
                self.deferred.push_execution(id, self.now);
            }
            if !frozen.block.transactions.is_empty() {
                let transactions = frozen.block.transactions.clone();
                let known = self.voting.newest.take_if(|(known, _)| *known == id);
                let mut votes = known.map_or_else(LandedVotes::default, |(_, votes)| votes);
                votes.read(0, &transactions);
                let votes = votes.into_votes();
                self.output.unsent.push(LedgerEvent::Executed(transactions.into()));
                if !votes.is_empty() {
                    self.output.unsent.push(LedgerEvent::Voted(votes));
                }
            }
        }
        self.output.unsent.push(LedgerEvent::TipMoved { block: bank });
        Ok(())
    }

    fn confirm(&mut self, bank: BlockId) -> Result<(), FollowError> {
        self.ledger.confirm(bank).map_err(|err| FollowError::Ledger { bank, err })?;
        self.history.confirm(bank);
        self.status.proof.confirm(bank);
        self.status.proof.set_refusal(None);
        self.confirm_jump(bank);
        for id in self.chain_to(bank, |_, frozen| frozen.is_confirmed) {
            let Some(frozen) = self.banks.get_mut(&id) else { continue };
            frozen.is_confirmed = true;
            let block = Arc::clone(&frozen.block);
            let timestamp_ms = unix_ms();
            self.output.unsent.push(LedgerEvent::Confirmed { block, timestamp_ms });
        }
        Ok(())
    }

    /// Defers a root. That of an archive is applied at once, so that its events are together in mode `off`.
    fn defer_root(&mut self, bank: BlockId) -> Result<(), FollowError> {
        self.deferred.push_root(bank, self.now);
        if self.jumped.as_ref().is_none_or(|jumped| jumped.id != bank) {
            return Ok(());
        }
        let roots = std::mem::take(&mut self.deferred.roots);
        roots.into_iter().try_for_each(|bank| self.set_root(bank))
    }

    fn set_root(&mut self, bank: BlockId) -> Result<(), FollowError> {
        let jumped = self.root_jump(bank);
        let rooted = self.rooted_banks(bank, jumped.as_ref());
        self.ledger.finalize(bank).map_err(|err| FollowError::Ledger { bank, err })?;
        self.history.finalize(bank);
        self.verification.root(bank).map_err(|err| FollowError::Verify { bank, err })?;
        self.cluster.set_root(bank);
        match jumped {
            Some(jumped) => self.end_jump(jumped),
            None => self.take_epoch_stakes(),
        }
        self.store_banks(rooted)?;
        self.banks = self.banks.split_off(&bank);
        if let Some(frozen) = self.banks.get(&bank) {
            let block = Arc::clone(&frozen.block);
            let timestamp_ms = unix_ms();
            self.output.unsent.push(LedgerEvent::Rooted { block, timestamp_ms });
        }
        Ok(())
    }
}

impl Writer {
    /// The banks to be stored when `bank` becomes the root, the oldest first. `jumped` is the bank if an archive brought
    /// it: those before it are not its ancestors.
    fn rooted_banks(&self, bank: BlockId, jumped: Option<&JumpedBlock>) -> Vec<RootedBank> {
        if self.storage.queue.is_none() {
            return Vec::new();
        }
        let root = self.ledger.root();
        if let Some(jumped) = jumped {
            let stored = self.rooted_bank(bank, Some(jumped.lattice()));
            return stored.map(|bank| RootedBank { is_next: false, ..bank }).into_iter().collect();
        }
        let ids = self.chain_to(bank, |id, _| *id == root);
        let bank = |id| self.rooted_bank(id, self.verification.lattice(id));
        ids.into_iter().filter_map(bank).collect()
    }

    /// Returns a bank as it is stored.
    fn rooted_bank(&self, id: BlockId, lattice: Option<LatticeRow>) -> Option<RootedBank> {
        let Frozen { block, info, .. } = self.banks.get(&id)?;
        let blockhashes = info.blockhashes.iter().copied().collect();
        let row = BankRow { blockhashes, lattice, jump: self.storage.last_jump };
        let block = Arc::clone(block);
        let bank = row.to_bytes();
        let retain_from = self.history.snapshot().first_slot().unwrap_or(0);
        Some(RootedBank { block, bank, epochs: None, retain_from, is_next: true })
    }

    /// Stores final banks, the oldest first, and the epochs that changed.
    fn store_banks(&mut self, mut rooted: Vec<RootedBank>) -> Result<(), FollowError> {
        let epochs = self.cluster.take_changed_epochs();
        let Some(store) = &self.storage.queue else { return Ok(()) };
        if let Some(oldest) = rooted.first_mut() {
            // A restart from any of them knows these epochs.
            oldest.epochs = epochs;
        }
        rooted.into_iter().try_for_each(|bank| store.push(bank))
    }
}
