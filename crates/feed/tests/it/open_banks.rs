//! What an open bank has can be taken before it is whole, and a whole bank says what was not taken.

use std::collections::BTreeMap;
use std::time::Instant;

use fastrand::Rng;
use feed::{
    Bank, BlockMeta, Event, Feed, FeedConfig, OpenId, SlotStatus, SourceId, StreamStart, Update,
    UpdateKind,
};
use ledger::{BlockId, Slot};
use solana_pubkey::Pubkey;

use crate::chain::{SYSVARS, hash};

const SLOT_HISTORY: Pubkey = solana_sdk_ids::sysvar::slot_history::ID;

const ROOT: BlockId = BlockId { slot: 10, version: 0 };

struct Rig {
    feed: Feed<u64, u64, ()>,
    source: SourceId,
    now: Instant,
}

impl Rig {
    #[expect(
        clippy::disallowed_methods,
        reason = "the first moment; all others are counted from it"
    )]
    fn new(quiescent_after: u64, hot_quiescent_after: u64) -> Self {
        let config = FeedConfig { quiescent_after, hot_quiescent_after, ..FeedConfig::default() };
        let mut feed = Feed::new(config, ROOT, hash(10));
        let source = feed.open_source(StreamStart::AfterRoot).expect("a free source");
        Self { feed, source, now: Instant::now() }
    }

    fn send(&mut self, slot: Slot, bank_id: u64, kind: UpdateKind<u64, u64, ()>) {
        let (source, bank_id) = (self.source, Some(bank_id));
        self.feed.handle(Update { source, slot, bank_id, bytes: 100, kind }, self.now);
    }

    fn write(&mut self, slot: Slot, bank_id: u64, pubkey: Pubkey, account: u64) {
        let kind = UpdateKind::Account { pubkey, write_version: account, account };
        self.send(slot, bank_id, kind);
    }

    fn create(&mut self, slot: Slot, bank_id: u64) -> OpenId {
        self.send(slot, bank_id, UpdateKind::Status(SlotStatus::CreatedBank));
        self.feed.open_banks().filter(|open| open.slot == slot).last().expect("it is open")
    }

    fn meta(&mut self, slot: Slot, bank_id: u64, transactions: u64) {
        let meta = BlockMeta {
            parent_slot: slot - 1,
            parent_blockhash: hash(slot - 1),
            blockhash: hash(slot),
            executed_transaction_count: transactions,
            entries_count: 0,
            meta: (),
        };
        self.send(slot, bank_id, UpdateKind::BlockMeta(meta));
    }

    fn bank(&mut self) -> Option<Bank<u64, u64, ()>> {
        std::iter::from_fn(|| self.feed.poll_event()).find_map(|event| match event {
            Event::Bank(bank) => Some(*bank),
            _ => None,
        })
    }

    /// Takes what is quiescent into `taken`. Returns how much it was.
    fn take(&mut self, open: OpenId, taken: &mut BTreeMap<Pubkey, u64>) -> usize {
        let quiescent = self.feed.drain_quiescent(open, 0);
        taken.extend(quiescent.iter().map(|write| (write.pubkey, write.account)));
        quiescent.len()
    }
}

fn key(n: u8) -> Pubkey {
    Pubkey::new_from_array([n; 32])
}

#[test]
fn what_was_taken_and_what_is_unsettled_is_the_bank() {
    for seed in 0..50 {
        let mut rng = Rng::with_seed(seed);
        let mut rig = Rig::new(rng.u64(..20), rng.u64(..40));
        let open = rig.create(11, 1);
        let id = rig.feed.reserve_block(open).expect("it is open");
        let (mut taken, mut takes, mut version) = (BTreeMap::new(), 0, 0);
        let mut new = Vec::new();
        for _ in 0..200 {
            version += rng.u64(..3);
            // Some are hot, and some writes are not newer than the one before.
            let n = if rng.bool() { rng.u8(..3) } else { rng.u8(..200) };
            rig.write(11, 1, key(n), version);
            if rng.u8(..5) == 0 {
                new.extend(rig.feed.drain_first_writes(open));
                takes += rig.take(open, &mut taken);
            }
            if rng.u8(..60) == 0 {
                // A caller that begins anew gets all of it once more.
                taken.clear();
                new.clear();
                assert_eq!(rig.feed.reserve_block(open), Some(id), "the id stays");
            }
        }
        for pubkey in SYSVARS {
            rig.write(11, 1, pubkey, version);
        }
        assert_eq!(rig.bank().map(|bank| bank.id), None);
        new.extend(rig.feed.drain_first_writes(open));
        rig.meta(11, 1, 0);
        let bank = rig.bank().expect("it is whole");
        assert!(takes > 0, "seed {seed}");
        assert_eq!((bank.id, bank.open, rig.feed.is_open(open)), (id, open, false));
        let last: BTreeMap<Pubkey, u64> =
            bank.accounts.iter().map(|write| (write.pubkey, write.account)).collect();
        for pubkey in &bank.pending {
            taken.insert(*pubkey, last[pubkey]);
        }
        assert_eq!(taken, last, "seed {seed}");
        new.sort_unstable();
        assert!(new.iter().eq(last.keys()), "each account is new once");
    }
}

#[test]
fn an_account_that_is_written_again_and_again_is_not_taken() {
    let mut rig = Rig::new(4, 4);
    let open = rig.create(11, 1);
    rig.feed.reserve_block(open).expect("it is open");
    let mut taken = BTreeMap::new();
    for version in 1..=40 {
        rig.write(11, 1, key(1), version * 2);
        rig.write(11, 1, key(100 + version as u8), version * 2);
        rig.take(open, &mut taken);
    }
    assert!(!taken.contains_key(&key(1)), "each of its writes would cost a hash");
    assert!(taken.len() >= 30, "{}", taken.len());
}

#[test]
fn an_account_that_was_written_again_waits_longer() {
    let mut rig = Rig::new(2, 6);
    let open = rig.create(11, 1);
    rig.feed.reserve_block(open).expect("it is open");
    let mut taken = BTreeMap::new();
    for (version, n) in [(1, 1), (2, 1), (3, 2)] {
        rig.write(11, 1, key(n), version);
    }
    let mut found = Vec::new();
    for version in 4..=12 {
        rig.write(11, 1, key(100 + version as u8), version);
        rig.take(open, &mut taken);
        found.push((taken.contains_key(&key(1)), taken.contains_key(&key(2))));
    }
    let when = |is_there: fn(&(bool, bool)) -> bool| found.iter().position(is_there);
    assert_eq!(when(|it| it.1), Some(1), "the third write has left it alone for three");
    assert_eq!(when(|it| it.0), Some(4), "the second write has left it alone for seven");
}

#[test]
fn all_accounts_are_taken_when_the_bank_freezes() {
    let mut rig = Rig::new(4, 4);
    let open = rig.create(11, 1);
    rig.feed.reserve_block(open).expect("it is open");
    let mut taken = BTreeMap::new();
    for version in 1..=3 {
        rig.write(11, 1, key(version as u8), version);
    }
    assert_eq!(rig.take(open, &mut taken), 0, "they may be written again");
    rig.write(11, 1, SLOT_HISTORY, 4);
    assert_eq!(rig.take(open, &mut taken), 4, "SlotHistory is written last");
    rig.write(11, 1, key(1), 5);
    assert_eq!(rig.take(open, &mut taken), 1, "and little follows it");
    assert_eq!((taken[&key(1)], taken.len()), (5, 4));
    // If much follows, it was not written last.
    for version in 6..=40 {
        rig.write(11, 1, key(1), version);
        rig.write(11, 1, key(version as u8), version);
        rig.take(open, &mut taken);
    }
    assert_eq!(taken[&key(1)], 6, "each of its writes would cost a hash");
}

#[test]
fn transactions_are_taken_up_to_the_first_that_is_missing() {
    let mut rig = Rig::new(0, 0);
    let open = rig.create(11, 1);
    let mut found = Vec::new();
    for (index, expected) in [(1, 0), (0, 2), (3, 2), (2, 4)] {
        rig.send(11, 1, UpdateKind::Transaction { index, transaction: index });
        let next = rig.feed.open_transactions(open, found.len() as u64);
        found.extend(next.map(|transaction| *transaction));
        assert_eq!(found.len(), expected);
    }
    assert_eq!(found, [0, 1, 2, 3]);
}

#[test]
fn a_bank_that_ends_while_it_is_open_has_nothing_more() {
    let mut rig = Rig::new(0, 0);
    let first = rig.create(11, 1);
    let id = rig.feed.reserve_block(first).expect("it is open");
    rig.write(11, 1, key(1), 1);
    // Another bank of the slot replaces it.
    let second = rig.create(11, 2);
    assert_ne!(first, second);
    assert!(!rig.feed.is_open(first) && rig.feed.is_open(second));
    assert_eq!(
        (rig.feed.reserve_block(first), rig.feed.drain_quiescent(first, 0)),
        (None, Vec::new())
    );
    assert!(rig.feed.open_account(first, &key(1)).is_none());
    assert!(rig.feed.drain_first_writes(first).is_empty());
    let other = rig.feed.reserve_block(second).expect("it is open");
    assert!(other.slot == id.slot && other.version != id.version, "no id is used twice");
    rig.send(11, 2, UpdateKind::Status(SlotStatus::Dead { error: "dead".into() }));
    assert!(!rig.feed.is_open(second));
    let third = rig.create(12, 3);
    rig.feed.close_source(rig.source);
    assert!(!rig.feed.is_open(third));
}
