//! Applies events to a plain tree and compares it with the chain of the upstream.

use std::collections::BTreeMap;

use feed::{Decision, Event, Feed, Gap};
use ledger::{BlockId, Slot};
use solana_hash::Hash;
use solana_pubkey::Pubkey;

use crate::chain::{Chain, End, ROOT_SLOT};
use crate::stream::transaction;

pub(crate) const ROOT: BlockId = BlockId { slot: ROOT_SLOT, version: 0 };

struct Reported {
    parent: BlockId,
    hash: Hash,
    order: usize,
}

pub(crate) struct Checker<'a> {
    chain: &'a Chain,
    banks: BTreeMap<BlockId, Reported>,
    pub(crate) root: BlockId,
    pub(crate) confirmed: BlockId,
    pub(crate) tip: BlockId,
    pub(crate) rooted: Vec<Slot>,
    pub(crate) gaps: Vec<Gap>,
    ids: Vec<BlockId>,
    /// The quiescent accounts of each open bank.
    prepared: BTreeMap<BlockId, BTreeMap<Pubkey, u64>>,
}

impl<'a> Checker<'a> {
    pub(crate) fn new(chain: &'a Chain) -> Self {
        let root = Reported { parent: ROOT, hash: Chain::root_hash(), order: 0 };
        Self {
            chain,
            banks: BTreeMap::from([(ROOT, root)]),
            root: ROOT,
            confirmed: ROOT,
            tip: ROOT,
            rooted: Vec::new(),
            gaps: Vec::new(),
            ids: Vec::new(),
            prepared: BTreeMap::new(),
        }
    }

    /// Takes all events of one call, and requests to prepare each open bank.
    pub(crate) fn take(&mut self, feed: &mut Feed<u64, u64, ()>) {
        while let Some(event) = feed.poll_event() {
            if let Event::Opened(bank) = &event {
                feed.apply(Decision::Prepare(bank.id));
            }
            self.apply(event);
        }
        assert!(self.descends(self.confirmed, self.root), "confirmed above the root");
        assert!(self.descends(self.tip, self.confirmed), "the tip above confirmed");
        assert_eq!((self.root, self.confirmed), (feed.status().root, feed.status().confirmed));
        assert_eq!(self.tip, feed.status().tip);
    }

    fn apply(&mut self, event: Event<u64, u64, ()>) {
        match event {
            Event::Bank(bank) => {
                let truth = self.chain.by_hash(bank.meta.blockhash);
                assert!(self.ids.iter().all(|id| *id != bank.id), "an id names one bank");
                self.ids.push(bank.id);
                assert_eq!(self.banks[&bank.parent].hash, truth.parent_hash, "after its parent");
                assert!(self.banks.values().all(|it| it.hash != truth.hash), "reported once");
                assert_eq!(bank.id.slot, truth.slot);
                let accounts = bank.accounts.iter().map(|write| (write.pubkey, write.account));
                let accounts: BTreeMap<Pubkey, u64> = accounts.collect();
                assert_eq!(accounts, truth.last_writes());
                if let Some(mut prepared) = self.prepared.remove(&bank.id) {
                    prepared.extend(bank.pending.iter().map(|pubkey| (*pubkey, accounts[pubkey])));
                    assert_eq!(prepared, accounts, "quiescent and pending accounts are all");
                }
                let transactions = (0..truth.transactions()).map(|at| transaction(truth, at));
                assert_eq!(bank.transactions, transactions.collect::<Vec<u64>>());
                let parent = bank.parent;
                let hash = truth.hash;
                let order = self.ids.len();
                self.banks.insert(bank.id, Reported { parent, hash, order });
            }
            Event::Dropped { bank, .. } => {
                assert!(self.banks.values().all(|it| it.parent != bank), "descendants first");
                assert!(!self.descends(self.confirmed, bank), "a confirmed bank stays");
                self.banks.remove(&bank).expect("reported");
            }
            Event::Tip(bank) => self.tip = bank,
            Event::Confirmed(bank) => self.confirmed = bank,
            Event::Root(bank) => {
                assert_eq!(self.banks[&bank].parent, self.root, "no root is skipped");
                self.root = bank;
                self.rooted.push(bank.slot);
                let last = self.chain.finalized_slots().last();
                let all = self.banks.keys().all(|it| *it < bank || self.descends(*it, bank));
                assert!(all || last != Some(&bank.slot), "other forks were dropped before");
            }
            Event::Jumped { from, to } => {
                assert_eq!(from, self.confirmed, "it is on the confirmed bank");
                assert!(self.banks.keys().all(|it| *it <= from), "all other banks were dropped");
                let hash = self.chain.canonical(to.slot).hash;
                self.banks.insert(to, Reported { parent: from, hash, order: self.ids.len() });
            }
            Event::LateWrite { bank, write } => panic!("{write:?} of {bank:?} is not late"),
            Event::Gap(gap) => self.gaps.push(gap),
            Event::Opened(bank) => {
                let known = self.prepared.insert(bank.id, BTreeMap::new());
                assert!(known.is_none() && !self.ids.contains(&bank.id), "opened once");
            }
            Event::FirstWrites { bank, pubkeys } => {
                assert!(self.prepared.contains_key(&bank) && !pubkeys.is_empty());
            }
            Event::Quiescent { bank, accounts } => {
                let prepared = self.prepared.get_mut(&bank).expect("opened, and not ended");
                prepared.extend(accounts.iter().map(|write| (write.pubkey, write.account)));
            }
            Event::Ended(bank) => {
                self.prepared.remove(&bank).expect("opened, and not ended");
            }
        }
    }

    /// The banks that were reported and not dropped, in order.
    pub(crate) fn banks(&self) -> Vec<BlockId> {
        self.banks.keys().copied().collect()
    }

    fn descends(&self, bank: BlockId, ancestor: BlockId) -> bool {
        let mut at = bank;
        while at != ancestor {
            let Some(parent) = self.banks.get(&at).map(|it| it.parent).filter(|it| *it != at)
            else {
                return false;
            };
            at = parent;
        }
        true
    }

    /// Compares the tree with the chain of the upstream after all messages.
    pub(crate) fn check_end(&self) {
        assert_eq!(self.rooted, self.chain.finalized_slots());
        self.check_banks();
    }

    /// Compares the banks after a jump to a slot.
    pub(crate) fn check_end_after(&self, slot: Slot) {
        let finalized = self.chain.finalized_slots().iter().filter(|it| **it >= slot);
        assert!(self.rooted.iter().eq(finalized), "{:?}", self.rooted);
        self.check_banks();
    }

    fn check_banks(&self) {
        let confirmed = self.chain.confirmed.last().copied().unwrap_or(ROOT_SLOT);
        assert_eq!(self.confirmed.slot, confirmed);
        let mut expected: Vec<Slot> = Vec::new();
        let mut alive = vec![self.banks[&self.root].hash];
        for bank in &self.chain.banks {
            if bank.end == End::Frozen && alive.contains(&bank.parent_hash) {
                alive.push(bank.hash);
                expected.push(bank.slot);
            }
        }
        expected.sort_unstable();
        let reported = self.banks.keys().filter(|id| **id > self.root).map(|id| id.slot);
        assert_eq!(reported.collect::<Vec<Slot>>(), expected);
        assert_eq!(self.tip, self.best(self.confirmed, &[]));
    }

    /// Returns the tip, by the definition of the rule.
    pub(crate) fn best(&self, from: BlockId, votes: &[(Slot, u64)]) -> BlockId {
        let children = self.banks.iter().filter(|(id, it)| it.parent == from && **id != from);
        let rank = |child: BlockId| {
            let above: Vec<BlockId> =
                self.banks.keys().copied().filter(|id| self.descends(*id, child)).collect();
            let on = |slot: Slot| above.iter().any(|id| id.slot == slot);
            let stake: u64 = votes.iter().filter(|vote| on(vote.0)).map(|vote| vote.1).sum();
            let highest = above.iter().map(|id| id.slot).max();
            (stake, highest, std::cmp::Reverse(self.banks[&child].order))
        };
        let best = children.map(|(id, _)| *id).max_by_key(|id| rank(*id));
        best.map_or(from, |child| self.best(child, votes))
    }
}
