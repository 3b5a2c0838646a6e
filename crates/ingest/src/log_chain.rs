//! The chain of blocks as the log has it: the result of its records up to a position.
//!
//! Input: heads of records in the order of the log, of this ingester or of another. Output: the blocks and marks that
//! the log has, its leader, and the link of the next record.
//! Invariant: each record continues the chain of digests, and only a term or the first record of a generation changes
//! the writer. A head that does not is [`Damage`].
//! Bounds: the blocks from the root on, and the names of [`ROOTED_MAX`] older ones.
//! Not here: the order of messages (`record_stream`), own blocks (`own_chain`).

use std::collections::{BTreeMap, VecDeque};

use chain_solana::wire::{
    BlockDigests, BlockKey, BlockName, Mark, RecordChain, RecordDigest, RecordHead, RecordKind,
    RecordLink, WriterId,
};
use ledger::Slot;
use solana_hash::Hash;

/// Rooted blocks whose names are known. A smaller value finds fewer ingesters that follow another chain.
const ROOTED_MAX: usize = 4_096;

/// A block of the log that is neither reverted nor below the root.
#[derive(Clone, Debug)]
pub(crate) struct LogBlock {
    pub(crate) slot: Slot,
    /// `None` for the block of a snapshot, which the record does not name.
    pub(crate) blockhash: Option<Hash>,
    /// Number of the parent's record.
    pub(crate) parent: u64,
    /// Slot of the parent.
    pub(crate) parent_slot: Slot,
    /// Digest of its record.
    pub(crate) record: RecordDigest,
    /// `None` for the block of a snapshot.
    pub(crate) digests: Option<BlockDigests>,
    /// Id of the ingester that appended it. `None` for the block of a snapshot.
    pub(crate) ingester: Option<[u8; 16]>,
    /// Sequence of its record's head.
    pub(crate) head_sequence: u64,
    /// Sequence of its record's last message.
    pub(crate) last_sequence: u64,
    /// Numbers of the blocks on this one.
    children: Vec<u64>,
}

/// The last record that was applied.
#[derive(Clone, Copy, Debug)]
struct LastRecord {
    number: u64,
    digest: RecordDigest,
}

/// A record that does not continue the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} of record {number} at message {sequence} does not continue the log")]
pub(crate) struct Damage {
    /// The part of the head: one of [`crate::plan::DAMAGE_KINDS`].
    pub(crate) what: &'static str,
    /// Number of the record, or of the one before it if its head cannot be read.
    pub(crate) number: u64,
    /// Sequence of the message.
    pub(crate) sequence: u64,
}

/// The state of the log at a position.
#[derive(Clone, Debug, Default)]
pub(crate) struct LogChain {
    /// Sequence of the last message of the last record.
    position: u64,
    last: Option<LastRecord>,
    writer: Option<WriterId>,
    /// The root and the blocks above it, by the number of their records. A child has a higher number than its parent.
    blocks: BTreeMap<u64, LogBlock>,
    /// The numbers of these blocks, in ascending order.
    by_slot: BTreeMap<Slot, Vec<u64>>,
    root: Option<u64>,
    confirmed: Option<u64>,
    tip: Option<u64>,
    /// The newest rooted blocks, by ascending slot.
    rooted: VecDeque<BlockKey>,
}

impl LogChain {
    /// Returns the sequence of the last message that was applied.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Returns the writer whose term is the newest.
    pub(crate) fn writer(&self) -> Option<WriterId> {
        self.writer
    }

    /// Returns the newest term; 0 in an empty log.
    pub(crate) fn term(&self) -> u64 {
        self.writer.map_or(0, |writer| writer.term)
    }

    /// Returns the number of the last record; 0 in an empty log.
    pub(crate) fn last_number(&self) -> u64 {
        self.last.map_or(0, |last| last.number)
    }

    /// Returns the link of the next record. Before the first record it is that of a chain without a past.
    pub(crate) fn next_link(&self) -> RecordLink {
        match self.last {
            Some(LastRecord { number, digest }) => {
                RecordLink { number: number + 1, previous: digest }
            }
            None => RecordLink { number: 1, previous: RecordDigest([0; 32]) },
        }
    }

    /// Returns the number of the root's record.
    pub(crate) fn root(&self) -> Option<u64> {
        self.root
    }

    /// Returns the slot of the root.
    pub(crate) fn root_slot(&self) -> Option<Slot> {
        self.root.and_then(|root| self.blocks.get(&root)).map(|block| block.slot)
    }

    /// Returns the record number of the confirmed block.
    pub(crate) fn confirmed_number(&self) -> Option<u64> {
        self.confirmed
    }

    /// Returns the record number of the processed tip.
    pub(crate) fn tip(&self) -> Option<u64> {
        self.tip
    }

    /// Returns the block of a record, if it is the root or above it.
    pub(crate) fn block(&self, number: u64) -> Option<&LogBlock> {
        self.blocks.get(&number)
    }

    /// Returns the name of a block of the log.
    pub(crate) fn name(&self, number: u64) -> Option<BlockName> {
        self.blocks.get(&number).map(|block| BlockName { slot: block.slot, number })
    }

    /// Returns the record number of a block that is the root or above it, and not reverted. The block of a snapshot is
    /// found by its slot.
    pub(crate) fn find(&self, key: &BlockKey) -> Option<u64> {
        let numbers = self.by_slot.get(&key.slot)?;
        let is_it = |number: &&u64| {
            let block = self.blocks.get(number);
            block.is_some_and(|it| it.blockhash.is_none_or(|hash| hash == key.blockhash))
        };
        numbers.iter().rev().find(is_it).copied()
    }

    /// Whether `descendant` is `ancestor` or descends from it.
    pub(crate) fn descends(&self, descendant: u64, ancestor: u64) -> bool {
        let mut at = descendant;
        while at > ancestor {
            match self.blocks.get(&at) {
                Some(block) if block.parent < at => at = block.parent,
                _ => return false,
            }
        }
        at == ancestor && self.blocks.contains_key(&ancestor)
    }

    /// Returns the blocks from above the root to `number`, the oldest first. `None` if it does not descend from the
    /// root.
    pub(crate) fn path_from_root(&self, number: u64) -> Option<Vec<u64>> {
        let root = self.root?;
        if !self.descends(number, root) {
            return None;
        }
        let parent = |at: &u64| self.blocks.get(at).map(|block| block.parent);
        let mut path: Vec<u64> =
            std::iter::successors(Some(number), parent).take_while(|at| *at != root).collect();
        path.reverse();
        Some(path)
    }

    /// Returns the blocks that a root leaves when it moves to its child `number`, the newest first. Cost: those blocks.
    pub(crate) fn blocks_on_other_forks(&self, number: u64) -> Vec<u64> {
        let parent = self.blocks.get(&number).and_then(|block| self.blocks.get(&block.parent));
        let siblings = parent.map_or(&[][..], |parent| &parent.children);
        self.with_descendants(siblings.iter().copied().filter(|at| *at != number).collect())
    }

    /// Returns a block and its descendants, the newest first.
    pub(crate) fn descendants(&self, number: u64) -> Vec<u64> {
        self.with_descendants(vec![number])
    }

    fn with_descendants(&self, mut numbers: Vec<u64>) -> Vec<u64> {
        numbers.retain(|number| self.blocks.contains_key(number));
        let mut at = 0;
        while let Some(block) = numbers.get(at).and_then(|number| self.blocks.get(number)) {
            numbers.extend(&block.children);
            at += 1;
        }
        numbers.sort_unstable_by(|one, other| other.cmp(one));
        numbers
    }

    /// Whether the final chain has another block at the slot of this one.
    pub(crate) fn contradicts(&self, key: &BlockKey) -> bool {
        let found = self.rooted.binary_search_by_key(&key.slot, |block| block.slot);
        let rooted = found.ok().and_then(|at| self.rooted.get(at));
        rooted.is_some_and(|block| block.blockhash != key.blockhash)
    }

    /// Returns the sequence before the oldest message that an ingester needs at its start.
    pub(crate) fn needed_after(&self) -> u64 {
        let root = self.root.and_then(|root| self.blocks.get(&root));
        root.map_or(0, |block| block.head_sequence.saturating_sub(1))
    }

    /// Whether the records so far include that of the root, so that all blocks above it are known.
    pub(crate) fn has_root(&self) -> bool {
        self.root.is_some()
    }

    /// Applies the record of a head, whose last message has `sequence`. The first record is taken as it is.
    pub(crate) fn apply(&mut self, head: &RecordHead, sequence: u64) -> Result<(), Damage> {
        self.advance(head, sequence)?;
        match &head.kind {
            RecordKind::Block { name, blockhash, parent, digests } => {
                let block = LogBlock {
                    slot: name.slot,
                    blockhash: Some(*blockhash),
                    parent: parent.number,
                    parent_slot: parent.slot,
                    record: head.digest,
                    digests: Some(*digests),
                    ingester: Some(head.writer.ingester),
                    head_sequence: sequence - u64::from(head.body_messages),
                    last_sequence: sequence,
                    children: Vec::new(),
                };
                // After a revert of its parent, a block is of a fork that ended.
                if self.root.is_none() || self.blocks.contains_key(&parent.number) {
                    self.insert(name.number, block);
                }
            }
            RecordKind::Marks(marks) => marks.iter().for_each(|mark| self.apply_mark(mark)),
            RecordKind::Term => {}
            RecordKind::Snapshot(snapshot) => {
                // A later one names a snapshot of a block that the log has.
                if sequence == 1 {
                    self.start_from_snapshot(snapshot.block, snapshot.block_digest, sequence);
                }
            }
        }
        Ok(())
    }

    /// Moves the position behind a record whose effects were applied.
    pub(crate) fn advance(&mut self, head: &RecordHead, sequence: u64) -> Result<(), Damage> {
        self.check(head, sequence)?;
        self.last = Some(LastRecord { number: head.link.number, digest: head.digest });
        self.writer = Some(head.writer);
        self.position = sequence;
        Ok(())
    }

    fn check(&self, head: &RecordHead, sequence: u64) -> Result<(), Damage> {
        let Some(LastRecord { number, digest }) = self.last else { return Ok(()) };
        let chain = RecordChain { number, digest, writer: self.writer };
        let begins_term = matches!(head.kind, RecordKind::Term);
        let checked = chain.check(head.link, head.writer, begins_term);
        let number = head.link.number;
        checked.map_err(|fault| Damage { what: fault.name(), number, sequence })
    }

    /// Applies one mark.
    pub(crate) fn apply_mark(&mut self, mark: &Mark) {
        match mark {
            Mark::TipMoved(block) => self.tip = Some(block.number),
            Mark::Confirmed(block) => self.confirmed = Some(block.number),
            Mark::Rooted(block) => self.set_root(block.number),
            Mark::Reverted { block, .. } => self.revert(block.number),
        }
    }

    fn insert(&mut self, number: u64, block: LogBlock) {
        self.by_slot.entry(block.slot).or_default().push(number);
        if let Some(parent) = self.blocks.get_mut(&block.parent) {
            parent.children.push(number);
        }
        self.blocks.insert(number, block);
    }

    fn remove(&mut self, number: u64) -> Option<LogBlock> {
        let block = self.blocks.remove(&number)?;
        if let Some(numbers) = self.by_slot.get_mut(&block.slot) {
            numbers.retain(|at| *at != number);
            if numbers.is_empty() {
                self.by_slot.remove(&block.slot);
            }
        }
        if let Some(parent) = self.blocks.get_mut(&block.parent) {
            parent.children.retain(|at| *at != number);
        }
        Some(block)
    }

    /// Cost: the blocks that are removed.
    fn set_root(&mut self, number: u64) {
        let Some(root) = self.blocks.get(&number) else { return };
        let slot = root.slot;
        if let Some(blockhash) = root.blockhash {
            self.rooted.push_back(BlockKey { slot, blockhash });
            let excess = self.rooted.len().saturating_sub(ROOTED_MAX);
            self.rooted.drain(..excess);
        }
        self.root = Some(number);
        let ended: Vec<u64> = self.by_slot.range(..=slot).flat_map(|(_, at)| at).copied().collect();
        for at in ended.into_iter().filter(|at| *at != number) {
            self.remove(at);
        }
    }

    /// Removes a block. Tips fall back to its parent, as they do in a ledger.
    fn revert(&mut self, number: u64) {
        let Some(block) = self.remove(number) else { return };
        for tip in [&mut self.tip, &mut self.confirmed] {
            if *tip == Some(number) {
                *tip = Some(block.parent);
            }
        }
    }

    fn start_from_snapshot(&mut self, block: BlockName, record: RecordDigest, sequence: u64) {
        let root = LogBlock {
            slot: block.slot,
            blockhash: None,
            parent: block.number,
            parent_slot: block.slot,
            record,
            digests: None,
            ingester: None,
            head_sequence: sequence,
            last_sequence: sequence,
            children: Vec::new(),
        };
        self.insert(block.number, root);
        let number = Some(block.number);
        self.root = number;
        self.confirmed = number;
        self.tip = number;
    }
}
