//! Dependencies that are reported as unchanged are unchanged: random forks, writes, roots and publishes, and after each
//! of them all earlier reads are repeated.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::successors;
use std::sync::Arc;

use fastrand::Rng;
use ledger::{Address, BlockId, Change, Commitment, KeyKind, Record};

use crate::{Dependency, Ledger, LedgerConfig, Reader, View};

const OWNER: KeyKind = KeyKind(0);
const COMMITMENTS: [Commitment; 3] =
    [Commitment::Processed, Commitment::Confirmed, Commitment::Finalized];

#[derive(Debug, PartialEq, Eq)]
struct Purse {
    owner: Address,
    amount: u64,
}

impl Record for Purse {
    fn keys(&self, key: &mut dyn FnMut(KeyKind, Address)) {
        key(OWNER, self.owner);
    }
}

fn address(n: u64) -> Address {
    let mut bytes = [7; 32];
    bytes[..8].copy_from_slice(&n.to_le_bytes());
    Address::from(bytes)
}

/// An item that was read before.
#[derive(Clone, Copy)]
enum Item {
    Record(u64),
    Owner(u64),
    Block,
}

impl Item {
    fn watch(self, reader: &Reader<Purse, u64>) -> u64 {
        match self {
            Self::Record(n) => reader.change_tracker().watch(Dependency::Record(&address(n))),
            Self::Owner(n) => reader.change_tracker().watch(Dependency::Key(OWNER, &address(n))),
            Self::Block => reader.change_tracker().watch(Dependency::Block),
        }
    }

    fn read(self, view: &View<Purse, u64>) -> String {
        match self {
            Self::Record(n) => format!("{:?}", view.record(&address(n))),
            Self::Owner(n) => {
                let mut found: Vec<_> = view.records_by_key(OWNER, &address(n)).collect();
                found.sort_by_key(|(address, _)| *address);
                format!("{found:?}")
            }
            Self::Block => format!("{:?} {}", view.block(), view.meta()),
        }
    }
}

struct Observation {
    item: Item,
    commitment: Commitment,
    number: u64,
    version: u64,
    value: String,
}

#[test]
fn what_is_reported_as_unchanged_is_unchanged() {
    let mut good = 0;
    let mut gone = 0;
    for seed in 1..=70 {
        let (unchanged, changed) = run(seed);
        good += unchanged;
        gone += changed;
    }
    assert!(good > 50_000 && gone > 50_000, "{good} unchanged, {gone} changed");
}

fn run(seed: u64) -> (usize, usize) {
    let mut random = Rng::with_seed(seed);
    let root = BlockId { slot: 0, version: 0 };
    let (mut ledger, reader) = Ledger::new(LedgerConfig::new(1_000), root, Arc::new(0));
    let purse =
        |random: &mut Rng| Purse { owner: address(100 + random.u64(..5)), amount: random.u64(..3) };
    let change = |random: &mut Rng| {
        let record = (random.u64(..4) > 0).then(|| Arc::new(purse(random)));
        Change { address: address(random.u64(..12)), record }
    };
    let first = (0..8).map(|_| change(&mut random)).collect();
    ledger.apply(root, first, Arc::new(0)).expect("the root is open");
    ledger.publish();
    let mut complete = BTreeSet::from([root]);
    let mut parents: BTreeMap<BlockId, BlockId> = BTreeMap::new();
    let mut open: Option<BlockId> = None;
    let mut known: Vec<Observation> = Vec::new();
    let mut good = 0;
    let mut gone = 0;
    for step in 1..400_u64 {
        complete.retain(|block| ledger.root() == *block || block.slot > ledger.root().slot);
        let some = |random: &mut Rng| {
            let at = random.usize(..complete.len());
            complete.iter().nth(at).copied().expect("the root is one")
        };
        match (random.u64(..12), open) {
            (0..4, None) => {
                let parent = if random.u64(..4) == 0 {
                    some(&mut random)
                } else {
                    *complete.last().expect("the root")
                };
                let block = BlockId { slot: parent.slot + 1 + random.u64(..2), version: step };
                if ledger.open(block, parent, Arc::new(step)).is_ok() {
                    open = Some(block);
                    parents.insert(block, parent);
                }
            }
            (0..6, Some(block)) => {
                let changes = (0..random.u64(..3)).map(|_| change(&mut random)).collect();
                let _ = ledger.apply(block, changes, Arc::new(step));
            }
            (6, Some(block)) => {
                let other = some(&mut random);
                if ledger.complete(block, Arc::new(step)).is_ok() {
                    complete.insert(block);
                    let _ = ledger.confirm(if random.bool() { block } else { other });
                }
                open = None;
            }
            (7, _) => {
                let block = some(&mut random);
                let _ = ledger.finalize(block);
            }
            (8, None) => {
                let block = some(&mut random);
                if random.u64(..3) == 0 && ledger.drop_fork(block).is_ok() {
                    complete.remove(&block);
                } else {
                    let _ = ledger.set_tip(block);
                }
            }
            _ => {
                // A producer publishes only tips that are on one chain.
                let confirmed = ledger.tip(Commitment::Confirmed);
                let tip = ledger.tip(Commitment::Processed);
                let mut chain = successors(Some(tip), |block| parents.get(block).copied());
                if !chain.any(|block| block == confirmed) {
                    ledger.set_tip(confirmed).expect("it is known");
                }
                ledger.publish();
                watch_more(&reader, &mut known, &mut random);
            }
        }
        // A change is invisible until it is published, so this is true after every step.
        known.retain(|known| {
            let view = reader.view(known.commitment);
            let changed_at = reader.change_tracker().changed_at(known.commitment, known.number);
            if changed_at > known.version {
                gone += 1;
                return false;
            }
            assert_eq!(known.item.read(&view), known.value, "seed {seed} step {step}");
            good += 1;
            true
        });
    }
    (good, gone)
}

fn watch_more(reader: &Reader<Purse, u64>, known: &mut Vec<Observation>, random: &mut Rng) {
    for _ in 0..6 {
        let commitment = COMMITMENTS[random.usize(..3)];
        let item = match random.u64(..5) {
            0 => Item::Block,
            1 | 2 => Item::Record(random.u64(..12)),
            _ => Item::Owner(100 + random.u64(..5)),
        };
        let number = item.watch(reader);
        let view = reader.view(commitment);
        known.push(Observation {
            item,
            commitment,
            number,
            version: view.version(),
            value: item.read(&view),
        });
    }
}

/// The number of an item, and the version of the view in which it was read.
#[derive(Clone, Copy)]
struct Watched {
    number: u64,
    version: u64,
}

/// A ledger whose tip is a block on the root that is replaced by a sibling at each step.
struct ReplacedTip {
    ledger: Ledger<Purse, u64>,
    reader: Reader<Purse, u64>,
    tip: BlockId,
}

impl ReplacedTip {
    /// Ten purses, of owners 100 to 104.
    fn new() -> Self {
        let root = BlockId { slot: 0, version: 0 };
        let (mut ledger, reader) = Ledger::new(LedgerConfig::new(1_000), root, Arc::new(0));
        let purses = (0..10).map(|n| change(n, 100 + n % 5, 1)).collect();
        ledger.apply(root, purses, Arc::new(0)).expect("the root is open");
        ledger.publish();
        Self { ledger, reader, tip: root }
    }

    /// Replaces the tip by a block on the root with these changes, as one publish.
    fn replace(&mut self, version: u64, changes: Vec<Change<Purse>>) {
        let root = self.ledger.root();
        // Some replacements are in the same slot.
        let block = BlockId { slot: root.slot + 1 + version % 2, version };
        self.ledger.open_hidden(block, root, Arc::new(version)).expect("the root is complete");
        self.ledger.apply(block, changes, Arc::new(version)).expect("it is open");
        self.ledger.complete(block, Arc::new(version)).expect("it is open");
        self.ledger.set_tip(block).expect("it is complete");
        if self.tip != root {
            self.ledger.drop_fork(self.tip).expect("it is above the root");
        }
        self.tip = block;
        self.ledger.publish();
    }

    /// Watches an item in the current view.
    fn watch(&self, item: Item) -> Watched {
        let number = item.watch(&self.reader);
        Watched { number, version: self.reader.view(Commitment::Processed).version() }
    }

    fn has_changed(&self, watched: Watched) -> bool {
        let tracker = self.reader.change_tracker();
        tracker.changed_at(Commitment::Processed, watched.number) > watched.version
    }
}

fn change(n: u64, owner: u64, amount: u64) -> Change<Purse> {
    let purse = Purse { owner: address(owner), amount };
    Change { address: address(n), record: Some(Arc::new(purse)) }
}

#[test]
fn a_tip_that_moves_to_a_sibling_changes_only_what_the_forks_wrote() {
    let mut ledger = ReplacedTip::new();
    ledger.replace(1, vec![change(0, 100, 2), change(1, 103, 1)]);
    let items = [
        (Item::Record(0), true),  // the first fork wrote it
        (Item::Record(1), true),  // the first fork gave it to another owner
        (Item::Record(2), true),  // the second fork writes it
        (Item::Record(3), false), // none does
        (Item::Record(30), false),
        (Item::Owner(100), true),
        (Item::Owner(101), true), // it owned purse 1 at the root, and does again
        (Item::Owner(102), true),
        (Item::Owner(103), true), // it owned purse 1 in the first fork
        (Item::Owner(104), false),
        (Item::Block, true),
    ];
    let watched = items.map(|(item, _)| ledger.watch(item));
    ledger.replace(2, vec![change(2, 102, 2)]);
    let changed = watched.map(|watched| ledger.has_changed(watched));
    assert_eq!(changed, items.map(|(_, is_changed)| is_changed));
    // The second fork is left for the root: its writes are gone.
    let watched = items.map(|(item, _)| ledger.watch(item));
    ledger.ledger.drop_fork(ledger.tip).expect("it is above the root");
    ledger.ledger.publish();
    let changed: Vec<usize> =
        (0..items.len()).filter(|at| ledger.has_changed(watched[*at])).collect();
    assert_eq!(changed, [2, 7, 10], "purse 2, its owner and the block");
}

#[test]
fn each_replaced_tip_changes_what_it_and_the_tip_before_wrote() {
    let mut random = Rng::with_seed(3);
    let mut ledger = ReplacedTip::new();
    let mut before: BTreeSet<u64> = BTreeSet::new();
    for version in 1..2_000 {
        let watched: Vec<Watched> = (0..10).map(|n| ledger.watch(Item::Record(n))).collect();
        let confirmed = ledger.reader.view(Commitment::Confirmed).version();
        let written: BTreeSet<u64> = (0..random.u64(..4)).map(|_| random.u64(..10)).collect();
        let changes = written.iter().map(|n| change(*n, 100 + random.u64(..5), version)).collect();
        ledger.replace(version, changes);
        let changed: BTreeSet<u64> =
            (0..10).filter(|n| ledger.has_changed(watched[*n as usize])).collect();
        assert_eq!(changed, &before | &written, "step {version}");
        let tracker = ledger.reader.change_tracker();
        for item in watched {
            assert!(tracker.changed_at(Commitment::Confirmed, item.number) <= confirmed);
        }
        before = written;
    }
}
