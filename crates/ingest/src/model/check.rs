//! Checks of a log that ingesters have written.

use std::collections::{BTreeMap, BTreeSet};

use chain_solana::wire::{
    BlockName, Mark, ReadRecord, Record, RecordDigest, RecordLink, RecordReader, WireError,
    WriterId,
};
use ledger::Slot;
use replicated_log::MessageKind;
use solana_hash::Hash;

use super::source::{SLOTS, is_fork, key};
use super::world::World;

/// The last slot whose block becomes the root.
const LAST_ROOT: Slot = SLOTS - 4;

/// The records of a generation so far.
#[derive(Default)]
struct Replay {
    last: Option<(RecordLink, RecordDigest)>,
    writer: Option<WriterId>,
    /// Blocks by number: name and parent.
    blocks: BTreeMap<u64, LoggedBlock>,
    keys: BTreeSet<(Slot, Hash)>,
    first_root: Option<BlockName>,
    tip: u64,
    confirmed: u64,
    root: u64,
    confirmed_once: BTreeSet<u64>,
    ended: BTreeSet<u64>,
}

struct LoggedBlock {
    slot: Slot,
    parent: u64,
}

/// Checks all generations of a world, and that the newest one has the whole chain.
pub(super) fn check_world(world: &World) {
    let seed = world.config.seed;
    let last = world.newest_generation().unwrap_or_else(|| panic!("seed {seed}: there is no log"));
    (0..last).for_each(|generation| drop(check_generation(world, generation)));
    let newest = check_generation(world, last);
    let first = newest.first_root.expect("the first record is of a snapshot").slot;
    for slot in first + 1..=SLOTS {
        let key = key(slot, false);
        assert!(newest.keys.contains(&(slot, key.blockhash)), "seed {seed}: slot {slot}");
    }
    let root = &newest.blocks[&newest.root];
    assert_eq!(root.slot, LAST_ROOT.max(first), "seed {seed}");
    assert_eq!(newest.blocks[&newest.confirmed].slot, SLOTS, "seed {seed}");
    assert_eq!(newest.blocks[&newest.tip].slot, SLOTS, "seed {seed}");
}

fn check_generation(world: &World, generation: u64) -> Replay {
    let seed = world.config.seed;
    let mut reader = RecordReader::new();
    let mut replay = Replay::default();
    for message in world.appended_messages(generation) {
        let is_head = message.kind == MessageKind::Head;
        let read = match reader.push(is_head, message.payload) {
            Ok(read) => read,
            // A log that was created again has the fence of the old one if both end at the same sequence. Its readers
            // find the record, and a new generation follows.
            Err(WireError::Unexpected { .. } | WireError::Digest { .. } | WireError::Chain(_))
                if world.config.faults.recreation > 0
                    && world.newest_generation() > Some(generation) =>
            {
                return replay;
            }
            Err(err) => panic!("seed {seed}: generation {generation}: {err}"),
        };
        if let Some(ReadRecord { record, digest }) = read {
            replay.apply(
                &record,
                digest,
                &format!("seed {seed}: generation {generation}: {record:?}"),
            );
        }
    }
    replay
}

impl Replay {
    fn apply(&mut self, record: &Record, digest: RecordDigest, at: &str) {
        let link = record.link();
        if let Some((last, last_digest)) = self.last {
            assert_eq!(link.number, last.number + 1, "{at}");
            assert_eq!(link.previous, last_digest, "{at}");
        }
        self.last = Some((link, digest));
        let writer = record.writer();
        let term = self.writer.map_or(writer.term, |writer| writer.term);
        match record {
            Record::Term(_) => assert_eq!(writer.term, term + 1, "{at}"),
            _ => assert!(self.writer.is_none_or(|it| it == writer), "{at}"),
        }
        self.writer = Some(writer);
        match record {
            Record::Block(block) => {
                let name = block.block.id;
                assert_eq!(name.version, link.number, "{at}");
                let parent = &self.blocks[&block.parent_number];
                assert!(parent.slot < name.slot, "{at}");
                let is_root = self.root == block.parent_number;
                assert!(is_root || !self.ended.contains(&block.parent_number), "{at}");
                let key = (name.slot, block.block.blockhash);
                // A fork that one ledger has left may still exist for the next leader.
                assert!(self.keys.insert(key) || is_fork(&key.1), "{at}: twice");
                let logged = LoggedBlock { slot: name.slot, parent: block.parent_number };
                self.blocks.insert(link.number, logged);
            }
            Record::Marks(marks) => {
                marks.marks.iter().for_each(|mark| self.apply_mark(mark, at));
                assert!(self.descends(self.confirmed, self.root), "{at}");
                assert!(self.descends(self.tip, self.confirmed), "{at}");
            }
            Record::Snapshot(snapshot) => {
                assert!(self.first_root.is_none(), "{at}");
                let number = snapshot.block.number;
                assert_eq!(link.number, number + 1, "{at}");
                self.first_root = Some(snapshot.block);
                let root = LoggedBlock { slot: snapshot.block.slot, parent: number };
                self.blocks.insert(number, root);
                self.tip = number;
                self.confirmed = number;
                self.root = number;
            }
            Record::Term(_) => {}
        }
    }

    fn apply_mark(&mut self, mark: &Mark, at: &str) {
        match mark {
            Mark::TipMoved(block) => {
                assert_ne!(self.tip, block.number, "{at}");
                self.tip = block.number;
            }
            Mark::Confirmed(block) => {
                assert!(self.confirmed_once.insert(block.number), "{at}: twice");
                self.confirmed = block.number;
            }
            Mark::Rooted(block) => {
                assert!(self.ended.insert(block.number), "{at}: twice");
                assert_eq!(self.blocks[&block.number].parent, self.root, "{at}: out of order");
                self.root = block.number;
            }
            Mark::Reverted { block, .. } => {
                assert!(self.ended.insert(block.number), "{at}: twice");
                let parent = self.blocks[&block.number].parent;
                for tip in [&mut self.tip, &mut self.confirmed] {
                    if *tip == block.number {
                        *tip = parent;
                    }
                }
            }
        }
    }

    fn descends(&self, descendant: u64, ancestor: u64) -> bool {
        let mut at = descendant;
        while at > ancestor {
            at = self.blocks[&at].parent;
        }
        at == ancestor
    }
}
