//! The one writer of a followed ledger: banks of the feed into state, history and events.
//!
//! In: updates, streams that open and close, the time. Out: the ledger's state, its history, and events to the sinks,
//! each after its state is published.
//! Invariant: a bank is opened, written and completed between two publications, so nothing of an open bank is shown.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use chain_solana::{
    AccountWrite, Block, BlockInfo, EventSink, ExecutedTransaction, History, LedgerEvent,
    RevertReason,
};
use feed::{Bank, DropReason, Event, Feed, Gap, SourceId};
use ledger::{Address, BlockId, Change, Commitment, KeyKind, Record};
use query::{Ledger, LedgerError};
use solana::Account;
use solana_account::ReadableAccount;
use solana_clock::Clock;
use solana_sdk_ids::sysvar;
use tokio::sync::{mpsc, watch};
use verify::{AccountChange, FrozenBank};

use crate::clock::{now, unix_ms};
use crate::convert::BlockFacts;
use crate::error::FollowError;
use crate::status::FollowStatus;
use crate::stream::{Message, update_of};
use crate::verification::{Reached, Verification};

/// A bank above the root, or the root.
struct Frozen {
    block: Arc<Block>,
    info: Arc<BlockInfo>,
    /// Whether its transactions were sent as processed.
    is_executed: bool,
    is_confirmed: bool,
}

/// The writer's state.
pub(crate) struct Writer {
    pub(crate) feed: Feed<Account, ExecutedTransaction, BlockFacts>,
    pub(crate) ledger: Ledger<Account, BlockInfo>,
    pub(crate) history: Arc<History>,
    pub(crate) sinks: Vec<Box<dyn EventSink>>,
    pub(crate) status: Arc<FollowStatus>,
    pub(crate) gaps: watch::Sender<u64>,
    verification: Verification,
    banks: BTreeMap<BlockId, Frozen>,
    session: Option<(u64, SourceId)>,
    /// Sent after the next publication.
    unsent: Vec<LedgerEvent>,
    started: Instant,
    /// When the last updates came, since the start.
    now: Duration,
}

impl Writer {
    /// A writer whose root is `block`.
    pub(crate) fn new(
        feed: Feed<Account, ExecutedTransaction, BlockFacts>,
        ledger: Ledger<Account, BlockInfo>,
        history: Arc<History>,
        status: Arc<FollowStatus>,
        gaps: watch::Sender<u64>,
        (block, info): (Arc<Block>, BlockInfo),
        verification: Verification,
    ) -> Self {
        let id = block.id;
        let root = Frozen { block, info: Arc::new(info), is_executed: true, is_confirmed: true };
        Self {
            feed,
            ledger,
            history,
            sinks: Vec::new(),
            status,
            gaps,
            verification,
            banks: BTreeMap::from([(id, root)]),
            session: None,
            unsent: Vec::new(),
            started: now(),
            now: Duration::ZERO,
        }
    }

    /// Runs until the streams have ended.
    pub(crate) fn run(mut self, mut messages: mpsc::Receiver<Message>) -> Result<(), FollowError> {
        while let Some(message) = messages.blocking_recv() {
            match message {
                Message::Opened(session) => {
                    self.close_session();
                    self.session = self.feed.open_source().map(|source| (session, source));
                }
                Message::Updates { session, received, updates, _permit } => {
                    let Some((_, source)) = self.session.filter(|(open, _)| *open == session)
                    else {
                        continue;
                    };
                    self.now = received.saturating_duration_since(self.started);
                    for update in updates {
                        if self.verification.is_stopped() {
                            break;
                        }
                        self.feed.handle(update_of(source, update), received);
                        self.take_events()?;
                    }
                }
                Message::Closed(session) => {
                    if self.session.is_some_and(|(open, _)| open == session) {
                        self.close_session();
                    }
                }
                Message::Tick(now) => {
                    self.feed.handle_timeout(now);
                    self.take_events()?;
                    self.update_status();
                }
            }
        }
        Ok(())
    }

    fn close_session(&mut self) {
        if let Some((_, source)) = self.session.take() {
            self.feed.close_source(source);
        }
    }

    /// Applies the events of the feed, publishes, and then sends what became visible.
    fn take_events(&mut self) -> Result<(), FollowError> {
        let mut is_new = false;
        while let Some(event) = self.feed.poll_event() {
            is_new = true;
            match event {
                Event::Bank(bank) => self.write_bank(*bank)?,
                Event::Dropped { bank, reason } => self.drop_bank(bank, reason)?,
                Event::Tip(bank) => self.move_tip(bank)?,
                Event::Confirmed(bank) => self.verification.push(Reached::Confirmed(bank)),
                Event::Root(bank) => self.verification.push(Reached::Rooted(bank)),
                Event::LateWrite { bank, write } => {
                    self.status.late_writes.fetch_add(1, Ordering::Relaxed);
                    let (account, slot) = (write.pubkey, bank.slot);
                    tracing::error!(slot, %account, "a write came after its bank was whole");
                }
                Event::Gap(gap) => self.report_gap(&gap),
            }
            while let Some(reached) = self.verification.pop() {
                match reached {
                    Reached::Confirmed(bank) => self.confirm(bank)?,
                    Reached::Rooted(bank) => self.set_root(bank)?,
                }
            }
        }
        if is_new {
            self.publish();
        }
        Ok(())
    }

    fn publish(&mut self) {
        // What a view shows as confirmed or final, history shows too.
        self.history.publish();
        self.ledger.publish();
        self.update_status();
        for event in std::mem::take(&mut self.unsent) {
            for sink in &mut self.sinks {
                sink.send(&event);
            }
        }
    }

    fn update_status(&self) {
        let (status, stats) = (&self.status, self.feed.stats());
        let set = |counter: &std::sync::atomic::AtomicU64, value: u64| {
            counter.store(value, Ordering::Relaxed);
        };
        set(&status.processed, self.feed.tip().slot);
        set(&status.confirmed, self.ledger.tip(Commitment::Confirmed).slot);
        set(&status.root, self.ledger.root().slot);
        set(&status.updates, stats.updates);
        set(&status.banks, stats.banks);
        set(&status.duplicates, stats.duplicates);
        set(&status.open_banks, stats.open_banks as u64);
        set(&status.open_bytes, stats.open_bytes as u64);
        set(&status.verifier_bytes, self.verification.bytes() as u64);
        status.upstream.fetch_max(self.feed.tip().slot, Ordering::Relaxed);
    }

    fn report_gap(&self, gap: &Gap) {
        self.status.gaps.fetch_add(1, Ordering::Relaxed);
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
        *self.status.last_gap.lock() = Some(text);
        if let Some((session, _)) = self.session {
            self.gaps.send_replace(session);
        }
    }

    fn write_bank(
        &mut self,
        bank: Bank<Account, ExecutedTransaction, BlockFacts>,
    ) -> Result<(), FollowError> {
        let id = bank.id;
        let failed = |err: LedgerError| FollowError::Ledger { bank: id, err };
        // The feed reports a bank after its parent, and removes it before.
        let Some(parent) = self.banks.get(&bank.parent) else { return Ok(()) };
        let (parent_info, previous_blockhash) = (Arc::clone(&parent.info), parent.block.blockhash);
        let tip = self.ledger.tip(Commitment::Processed);
        self.ledger.open(id, bank.parent, Arc::clone(&parent_info)).map_err(failed)?;
        let clock = bank.accounts.iter().find(|write| write.pubkey == sysvar::clock::ID);
        let clock =
            clock.and_then(|write| bincode::deserialize::<Clock>(write.account.0.data()).ok());
        let facts = bank.meta.meta;
        let clock_time = clock.map_or(parent_info.unix_timestamp, |clock| clock.unix_timestamp);
        let block_time = facts.block_time.unwrap_or(clock_time);
        let mut capitalization = i128::from(parent_info.capitalization);
        let (mut changes, mut writes, mut account_changes) = (Vec::new(), Vec::new(), Vec::new());
        for write in bank.accounts {
            let address = Address::from(write.pubkey.to_bytes());
            let before = self.ledger.record(&address);
            let record = write.account.into_record();
            let lamports = |account: &Option<Arc<Account>>| {
                account.as_ref().map_or(0, |account| i128::from(account.0.lamports()))
            };
            capitalization += lamports(&record) - lamports(&before);
            writes.push((write.pubkey, record.clone(), removed_keys(&before, &record)));
            account_changes.push(AccountChange {
                pubkey: write.pubkey,
                before,
                after: record.clone(),
            });
            changes.push(Change { address, record });
        }
        let signatures =
            bank.transactions.iter().map(|executed| executed.transaction.signatures.len() as u64);
        let frozen = FrozenBank {
            block: id,
            parent: bank.parent,
            changes: &account_changes,
            signature_count: signatures.sum(),
            blockhash: bank.meta.blockhash,
        };
        let hashes = self.verification.freeze(&frozen, self.now);
        let hashes = hashes.map_err(|err| FollowError::Verify { bank: id, err })?;
        let info = Arc::new(BlockInfo {
            block: id,
            parent: bank.parent,
            block_height: facts.block_height.unwrap_or(parent_info.block_height + 1),
            blockhashes: Arc::new(parent_info.blockhashes.with(bank.meta.blockhash)),
            transaction_count: parent_info.transaction_count + bank.transactions.len() as u64,
            unix_timestamp: clock_time,
            capitalization: u64::try_from(capitalization).unwrap_or_default(),
            bank_hash: hashes.bank_hash,
            hash_components: hashes.components,
            complete: true,
        });
        let ids = self.ledger.apply(id, changes, Arc::clone(&info)).map_err(failed)?;
        self.ledger.complete(id, Arc::clone(&info)).map_err(failed)?;
        // Opening it made it the tip; the feed says which bank is.
        self.ledger.set_tip(tip).map_err(failed)?;
        let writes = writes.into_iter().zip(ids);
        let block = Arc::new(Block {
            id,
            parent: bank.parent,
            block_height: info.block_height,
            blockhash: bank.meta.blockhash,
            previous_blockhash,
            bank_hash: hashes.bank_hash,
            hash_components: hashes.components,
            block_time,
            transaction_count: info.transaction_count,
            transactions: bank
                .transactions
                .into_iter()
                .map(|transaction| Arc::new(ExecutedTransaction { block_time, ..transaction }))
                .collect(),
            rewards: facts.rewards,
            reward_partitions: facts.reward_partitions,
            writes: writes
                .map(|((pubkey, account, removed_keys), id)| AccountWrite {
                    pubkey,
                    id,
                    account,
                    removed_keys,
                })
                .collect(),
        });
        let timestamp_ms = unix_ms();
        let root = self.ledger.root().slot;
        self.unsent.push(LedgerEvent::BankCreated {
            block: id,
            parent: bank.parent,
            root,
            timestamp_ms,
        });
        self.unsent.push(LedgerEvent::Frozen { block: Arc::clone(&block), timestamp_ms });
        self.history.record_block(&block);
        let (is_executed, is_confirmed) = (false, false);
        self.banks.insert(id, Frozen { block, info, is_executed, is_confirmed });
        Ok(())
    }

    fn drop_bank(&mut self, bank: BlockId, reason: DropReason) -> Result<(), FollowError> {
        self.ledger.drop_fork(bank).map_err(|err| FollowError::Ledger { bank, err })?;
        self.history.drop_fork(bank);
        self.verification.drop_bank(bank);
        self.status.reverted.fetch_add(1, Ordering::Relaxed);
        let Some(Frozen { block, .. }) = self.banks.remove(&bank) else { return Ok(()) };
        let reason = match reason {
            DropReason::Dead { error } => RevertReason::Dead { error },
            DropReason::Abandoned => RevertReason::Abandoned,
            DropReason::Replaced => RevertReason::Replaced,
        };
        self.unsent.push(LedgerEvent::Reverted { block, reason, timestamp_ms: unix_ms() });
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
        self.ledger.set_tip(bank).map_err(|err| FollowError::Ledger { bank, err })?;
        self.history.set_tip(bank);
        for id in self.chain_to(bank, |_, frozen| frozen.is_executed) {
            let Some(frozen) = self.banks.get_mut(&id) else { continue };
            frozen.is_executed = true;
            if !frozen.block.transactions.is_empty() {
                let transactions = frozen.block.transactions.clone();
                self.unsent.push(LedgerEvent::Executed(transactions.into()));
            }
        }
        self.unsent.push(LedgerEvent::TipMoved { block: bank });
        Ok(())
    }

    fn confirm(&mut self, bank: BlockId) -> Result<(), FollowError> {
        self.ledger.confirm(bank).map_err(|err| FollowError::Ledger { bank, err })?;
        self.history.confirm(bank);
        for id in self.chain_to(bank, |_, frozen| frozen.is_confirmed) {
            let Some(frozen) = self.banks.get_mut(&id) else { continue };
            frozen.is_confirmed = true;
            let (block, timestamp_ms) = (Arc::clone(&frozen.block), unix_ms());
            self.unsent.push(LedgerEvent::Confirmed { block, timestamp_ms });
        }
        Ok(())
    }

    fn set_root(&mut self, bank: BlockId) -> Result<(), FollowError> {
        self.ledger.finalize(bank).map_err(|err| FollowError::Ledger { bank, err })?;
        self.history.finalize(bank);
        self.verification.root(bank).map_err(|err| FollowError::Verify { bank, err })?;
        self.banks = self.banks.split_off(&bank);
        if let Some(frozen) = self.banks.get(&bank) {
            let (block, timestamp_ms) = (Arc::clone(&frozen.block), unix_ms());
            self.unsent.push(LedgerEvent::Rooted { block, timestamp_ms });
        }
        Ok(())
    }
}

/// The keys by which an account was found before a bank and is not after it.
fn removed_keys(
    before: &Option<Arc<Account>>,
    after: &Option<Arc<Account>>,
) -> Vec<(KeyKind, Address)> {
    let keys = |account: &Option<Arc<Account>>| {
        let mut keys = Vec::new();
        if let Some(account) = account {
            account.keys(&mut |kind, address| keys.push((kind, address)));
        }
        keys
    };
    let after = keys(after);
    let mut before = keys(before);
    before.retain(|key| !after.contains(key));
    before
}
