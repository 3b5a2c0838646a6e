//! The final blocks that a log still has, for an archive that lacks them.
//!
//! In: the messages of one generation of the log, from the newest snapshot before the first needed block on, or from
//! the oldest message if the log has later blocks only. Out: final blocks in their order, up to the message that was
//! the log's last one at the start.
//! Invariant: a record has the digests that it states. The sum over all accounts and the bank hash of its block are the
//! word of its ingester: they are not computed here.
//! Behaviour on damage: damaged records are passed over. The caller finds out from the parents of blocks that some are
//! missing.
//! Bounds: those of the blocks above the root (`unrooted_blocks`), besides one record.
//! Not here: the ledger that follows the log (`log_follower`), the archive (`cluster_snapshot`).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chain_solana::Block;
use chain_solana::wire::{BlockRecord, Mark, ReadRecord, Record, RecordReader, WireError};
use cluster_snapshot::{load_manifest, newest_snapshots};
use depot::Depot;
use ledger::Slot;
use replicated_log::{
    BATCH_MESSAGES_MAX, Log, LogError, LogReader, LogSpace, MessageKind, ReadError, StoredMessage,
    Tail,
};
use solana::VerificationLevel;

use crate::fault::check_level;
use crate::first_record::FirstRecord;
use crate::newest_generations::{NewestGenerations, OpenGeneration};
use crate::unrooted_blocks::{UnrootedBlock, UnrootedBlocks};

/// Number of snapshots before the first block whose manifests are tried.
const MANIFESTS_MAX: usize = 4;
/// Time limit of the wait for a message that exists.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(60);
/// Damaged messages that are passed over: as many as an object of a log has. If it is damaged, all are unreadable.
const DAMAGES_MAX: usize = BATCH_MESSAGES_MAX;

/// Reads final blocks from a log.
pub struct LoggedBlocks {
    log: Arc<dyn Log>,
    reader: Box<dyn LogReader>,
    /// `None` while a thread decodes a message.
    records: Option<RecordReader>,
    /// Sequence of the last message that was read.
    at: u64,
    /// Sequence of the last message to be read.
    end: u64,
    /// Whether messages are skipped up to the next head.
    is_skipping: bool,
    damages: usize,
    is_cut: bool,
    /// The lowest level of proof of an ingester whose records are used.
    level_min: Option<VerificationLevel>,
    unrooted: UnrootedBlocks,
    ready: VecDeque<Block>,
}

impl LoggedBlocks {
    /// Opens the newest generation of the log that continues from a block before the slot `from`, or else the oldest
    /// generation, whose blocks are later ones. Returns `None` if the log has no messages. Records of ingesters below
    /// `level_min` are passed over as damaged ones are.
    ///
    /// # Errors
    ///
    /// The log cannot be reached.
    pub async fn open(
        space: &dyn LogSpace,
        depot: &Depot,
        cluster: &str,
        from: Slot,
        level_min: Option<VerificationLevel>,
    ) -> Result<Option<Self>, LogError> {
        let mut later: Option<LaterGeneration> = None;
        let Some(newest) = space.newest_generation().await? else { return Ok(None) };
        let mut generations = NewestGenerations::new(space, 0, newest);
        while let Some(opened) = generations.open_next().await? {
            let OpenGeneration { generation, log, tail } = opened;
            let Some(tail) = tail.filter(|tail| tail.first <= tail.last) else { continue };
            let start = match find_snapshot(depot, cluster, generation, &tail, from).await {
                Some(position) => Some(position.max(tail.first.saturating_sub(1))),
                None => find_first(&*log, &tail, from).await?,
            };
            if let Some(start) = start {
                let reader = log.read(start).await?;
                let opened = Self::new(log, reader, start, tail.last);
                return Ok(Some(Self { level_min, ..opened }));
            }
            later = Some(LaterGeneration { log, tail });
        }
        let Some(LaterGeneration { log, tail }) = later else { return Ok(None) };
        let start = tail.first.saturating_sub(1);
        let reader = log.read(start).await?;
        Ok(Some(Self { level_min, ..Self::new(log, reader, start, tail.last) }))
    }

    fn new(log: Arc<dyn Log>, reader: Box<dyn LogReader>, start: u64, end: u64) -> Self {
        Self {
            log,
            reader,
            records: None,
            at: start,
            end,
            // A log may be cut within a record.
            is_skipping: true,
            damages: 0,
            is_cut: false,
            level_min: None,
            unrooted: UnrootedBlocks::default(),
            ready: VecDeque::new(),
        }
    }

    /// Returns the next final block, or `None` at the end of the log. The first blocks may be older than the needed one.
    ///
    /// # Errors
    ///
    /// The log cannot be reached.
    pub async fn next_block(&mut self) -> Result<Option<Block>, LogError> {
        loop {
            if let Some(block) = self.ready.pop_front() {
                return Ok(Some(block));
            }
            if self.at >= self.end {
                return Ok(None);
            }
            let wanted = self.at + 1;
            let next = tokio::time::timeout(MESSAGE_TIMEOUT, self.reader.next()).await;
            let Ok(next) = next else {
                tracing::warn!(wanted, "the log sends no message in {MESSAGE_TIMEOUT:?}");
                self.is_cut = true;
                return Ok(None);
            };
            match next {
                Ok(message) => self.push(message).await,
                Err(
                    ReadError::Truncated { first: found, .. } | ReadError::Missing { found, .. },
                ) if found > wanted => self.skip_to(found).await?,
                Err(ReadError::Damaged { .. }) if self.damages < DAMAGES_MAX => {
                    self.damages += 1;
                    self.skip_to(wanted + 1).await?;
                }
                Err(ReadError::Log(err)) => return Err(err),
                Err(err) => {
                    tracing::warn!(wanted, "cannot read on in the log: {err}");
                    self.is_cut = true;
                    return Ok(None);
                }
            }
        }
    }

    /// Whether the reading ended before the end of the log. The log may have more blocks when it is opened again.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Estimates the bytes of the blocks in memory.
    pub fn bytes(&self) -> u64 {
        self.unrooted.bytes() + self.ready.iter().map(Block::bytes).sum::<u64>()
    }

    /// Reads from this message on.
    async fn skip_to(&mut self, sequence: u64) -> Result<(), LogError> {
        self.at = sequence - 1;
        self.restart_records();
        self.reader = self.log.read(self.at).await?;
        Ok(())
    }

    /// Continues with the next head, whatever record it follows.
    fn restart_records(&mut self) {
        self.records = None;
        self.is_skipping = true;
    }

    async fn push(&mut self, message: StoredMessage) {
        let StoredMessage { sequence, kind, payload, .. } = message;
        if sequence <= self.at {
            return;
        }
        if sequence > self.at + 1 {
            self.restart_records();
        }
        self.at = sequence;
        let is_head = matches!(kind, MessageKind::Head);
        if self.is_skipping && !is_head {
            return;
        }
        let mut read = self.decode(is_head, payload.clone()).await;
        if read.is_err() && is_head {
            // The record that starts with this head may be undamaged.
            self.records = None;
            read = self.decode(true, payload).await;
        }
        match read {
            Ok(read) => {
                self.is_skipping = false;
                if let Some(ReadRecord { record, .. }) = read {
                    self.take_record(record);
                }
            }
            Err(err) => {
                tracing::warn!(sequence, "passes over a record of the log: {err}");
                self.restart_records();
            }
        }
    }

    /// Decodes a message on a thread that may wait: a block takes milliseconds.
    async fn decode(
        &mut self,
        is_head: bool,
        payload: Bytes,
    ) -> Result<Option<ReadRecord>, WireError> {
        let mut records = self.records.take().unwrap_or_default();
        let decoded = tokio::task::spawn_blocking(move || {
            let read = records.push(is_head, payload);
            (records, read)
        });
        match decoded.await {
            Ok((records, read)) => {
                self.records = Some(records);
                read
            }
            // The runtime ends.
            Err(_) => Ok(None),
        }
    }

    fn take_record(&mut self, record: Record) {
        if check_level(record.writer(), record.link().number, self.level_min).is_err() {
            return;
        }
        match record {
            Record::Block(record) => {
                let BlockRecord { link, parent_number, block, is_jump, .. } = *record;
                // The transactions of a block that the ingester jumped to are unknown.
                if !is_jump {
                    let block = Block { entries: Vec::new(), ..block };
                    self.unrooted.insert(link.number, UnrootedBlock { parent_number, block });
                }
            }
            Record::Marks(record) => {
                for mark in record.marks {
                    match mark {
                        Mark::Rooted(root) => self.ready.extend(self.unrooted.take_chain(root)),
                        Mark::Reverted { block, .. } => {
                            self.unrooted.remove(block.number);
                        }
                        Mark::TipMoved(_) | Mark::Confirmed(_) => {}
                    }
                }
            }
            Record::Term(_) | Record::Snapshot(_) => {}
        }
    }
}

/// Returns the position of the newest snapshot of a generation before a slot. Records after it have the blocks after
/// its own.
async fn find_snapshot(
    depot: &Depot,
    cluster: &str,
    generation: u64,
    tail: &Tail,
    from: Slot,
) -> Option<u64> {
    let keys = match newest_snapshots(depot, cluster).await {
        Ok(keys) => keys,
        Err(err) => {
            tracing::warn!(err = &err as &dyn std::error::Error, "cannot list the snapshots");
            return None;
        }
    };
    let before = keys.into_iter().filter(|key| key.generation == generation && key.slot < from);
    for key in before.take(MANIFESTS_MAX) {
        match load_manifest(depot, &key.key, None).await {
            Ok(manifest) if manifest.position <= tail.last => return Some(manifest.position),
            // It is of another log of this generation.
            Ok(_) => {}
            Err(err) => tracing::warn!(%err, "a snapshot is not used"),
        }
    }
    None
}

/// Returns the start of a generation, unless its first record shows that it continues from `from` or a later block.
async fn find_first(log: &dyn Log, tail: &Tail, from: Slot) -> Result<Option<u64>, LogError> {
    let first = FirstRecord::read(log, tail, MESSAGE_TIMEOUT).await?;
    let is_later = first.is_some_and(|first| first.record.block.slot >= from);
    Ok((!is_later).then(|| tail.first.saturating_sub(1)))
}

/// A generation that does not continue from a block before the needed one.
struct LaterGeneration {
    log: Arc<dyn Log>,
    tail: Tail,
}
