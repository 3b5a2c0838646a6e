//! A real ledger and its model, side by side.

use std::collections::BTreeMap;
use std::sync::Arc;

use ledger::{Address, AddressId, BlockId, Change, Commitment, KeyKind, Record, Slot};
use query::{
    IndexConfig, Ledger, LedgerConfig, LedgerError, LedgerUsage, PageLimits, RankBounds, Reader,
    View,
};

use crate::{ForkEvent, Model, ModelBlock, TestRecord};

/// So small that sets often overflow, become empty and are filled again.
const RANK_BOUNDS: RankBounds = RankBounds { scanned_max: 4, entries_max: 10, refill_batch_len: 3 };

/// A `query::Ledger` under the fork injector, and its model.
pub struct ForkHarness {
    /// The ledger's writer.
    pub ledger: Ledger<TestRecord, ModelBlock>,
    /// The ledger's reader, for other threads.
    pub reader: Reader<TestRecord, ModelBlock>,
    /// The expected state.
    pub model: Model<TestRecord>,
    /// The model at the last publish.
    published: Model<TestRecord>,
    /// The indices of the ledger.
    indices: IndexConfig,
}

/// A view, and the results that it must return as long as it lives.
pub struct PinnedView {
    view: View<TestRecord, ModelBlock>,
    block: BlockId,
    meta: ModelBlock,
    records: BTreeMap<Address, Arc<TestRecord>>,
    slots: BTreeMap<Address, Slot>,
    ids: BTreeMap<Address, AddressId>,
}

impl ForkHarness {
    /// A published ledger whose root has these writes. A write that does not fit into the address table is left
    /// out.
    pub fn new(config: LedgerConfig, writes: Vec<Vec<Change<TestRecord>>>) -> Self {
        let root = BlockId { slot: 0, version: 0 };
        let mut model = Model::new(root);
        let meta = Arc::new(model.meta(root));
        let indices = config.indices.clone();
        let (ledger, reader) = Ledger::new(config, root, Arc::clone(&meta));
        let mut ledger = ledger.with_rank_bounds(RANK_BOUNDS);
        for changes in writes {
            let mut filled = model.clone();
            filled.fill(&changes);
            if ledger.apply(root, changes, Arc::clone(&meta)).is_ok() {
                model = filled;
            }
        }
        ledger.publish();
        Self { ledger, reader, published: model.clone(), model, indices }
    }

    /// Applies one event to both. `changes` is called when a block is written.
    ///
    /// Errors: only a full address table. Then neither has changed.
    pub fn apply_event(
        &mut self,
        step: ForkEvent,
        changes: impl FnOnce() -> Vec<Change<TestRecord>>,
    ) -> Result<(), LedgerError> {
        match step {
            ForkEvent::Open { block, parent } => {
                self.model.open(block, parent);
                self.ledger.open(block, parent, Arc::new(self.model.meta(block)))
            }
            ForkEvent::Write(block) => self.write(block, changes()),
            ForkEvent::Complete(block) => {
                self.model.complete(block);
                self.ledger.complete(block, Arc::new(self.model.meta(block)))
            }
            ForkEvent::Confirm(block) => {
                self.model.confirm(block);
                self.ledger.confirm(block)
            }
            ForkEvent::SetTip(block) => {
                self.model.set_tip(block);
                self.ledger.set_tip(block)
            }
            ForkEvent::Finalize(block) => {
                self.model.finalize(block);
                self.ledger.finalize(block)
            }
            ForkEvent::DropFork(block) => {
                self.model.drop_fork(block);
                self.ledger.drop_fork(block)
            }
            ForkEvent::Publish => {
                self.published = self.model.clone();
                self.ledger.publish();
                Ok(())
            }
        }
    }

    /// Writes in an open block of both.
    pub fn write(
        &mut self,
        block: BlockId,
        changes: Vec<Change<TestRecord>>,
    ) -> Result<(), LedgerError> {
        let mut written = self.model.clone();
        written.apply(block, &changes);
        let addresses: Vec<Address> = changes.iter().map(|change| change.address).collect();
        let ids = self.ledger.apply(block, changes, Arc::new(written.meta(block)))?;
        for (id, address) in ids.iter().zip(&addresses) {
            assert_eq!(self.reader.addresses().address(*id), Some(*address));
        }
        assert_eq!(ids.len(), addresses.len());
        self.model = written;
        Ok(())
    }

    /// Writes, completes, roots and publishes until no record, no fork and no older reader is left. Returns the
    /// ledger's usage, which should be 0.
    pub fn finish(&mut self) -> Result<LedgerUsage, LedgerError> {
        for fork in self.model.unrooted(false).into_iter().chain(self.model.unrooted(true)) {
            // Dropping one may have taken others with it.
            if self.model.unrooted(false).contains(&fork)
                || self.model.unrooted(true).contains(&fork)
            {
                self.apply_event(ForkEvent::DropFork(fork), Vec::new)?;
            }
        }
        let parent = self.model.root();
        let block = BlockId { slot: parent.slot + 1, version: u64::MAX };
        self.apply_event(ForkEvent::Open { block, parent }, Vec::new)?;
        let addresses = self.model.records(block).into_keys();
        let removals = addresses.map(|address| Change { address, record: None }).collect();
        self.write(block, removals)?;
        self.apply_event(ForkEvent::Complete(block), Vec::new)?;
        self.apply_event(ForkEvent::Finalize(block), Vec::new)?;
        // Two of them are for ids whose table no longer has the time when they were freed again: these wait once
        // more.
        for _ in 0..5 {
            self.apply_event(ForkEvent::Publish, Vec::new)?;
        }
        assert_eq!(self.ledger.ranked_len(), 0, "nothing has a rank");
        Ok(self.ledger.usage())
    }

    /// Compares the ledger's usage with the bounds that the model computes.
    pub fn check_usage(&self) {
        let mut entries = self.model.entries();
        entries.retain(|(facet, key, _)| self.indices.has_entries(*facet, key));
        let mut keys: Vec<(KeyKind, Address)> =
            entries.iter().map(|(facet, key, _)| (*facet, *key)).collect();
        keys.dedup();
        let expected = LedgerUsage {
            addresses: self.model.addresses().len(),
            records: self.model.written_addresses().len(),
            index_keys: keys.len(),
            index_entries: entries.len(),
            unrooted_blocks: self.model.unrooted(false).len() + self.model.unrooted(true).len(),
        };
        assert_eq!(self.ledger.usage(), expected);
        for commitment in Commitment::ALL {
            assert_eq!(self.ledger.tip(commitment), self.model.tip(commitment));
        }
        assert_eq!(self.ledger.versions(), self.model.versions());
    }

    /// A view of the last published version, to be checked at any later time.
    pub fn pin_view(&self, commitment: Commitment) -> PinnedView {
        let view = self.reader.view(commitment);
        let block = self.published.tip(commitment);
        let records = self.published.records(block);
        let id = |address: &Address| {
            let id = self.reader.addresses().lookup(address);
            (*address, id.expect("a published record has an id"))
        };
        let ids = records.keys().map(id).collect();
        let facts = self.published.meta(block);
        let slots = self.published.slots(block);
        PinnedView { view, block, meta: facts, records, slots, ids }
    }
}

impl PinnedView {
    /// Checks that every read returns what it returned when the view was taken, and that its ids still belong to the
    /// same addresses. `key` supplies a few keys to look up.
    pub fn check(
        &self,
        reader: &Reader<TestRecord, ModelBlock>,
        address: Address,
        (facet, key): (KeyKind, Address),
    ) {
        assert_eq!(self.view.block(), self.block);
        assert_eq!(**self.view.meta(), self.meta);
        let all: Vec<_> = self.view.all().collect();
        assert_eq!(all.len(), self.records.len(), "each record once");
        assert!(all.len() <= self.view.len());
        assert_eq!(BTreeMap::from_iter(all), self.records);
        assert_eq!(self.view.record(&address), self.records.get(&address).cloned());

        let keyed: Vec<_> = self.view.records_by_key(facet, &key).collect();
        let is_keyed = |note: &TestRecord| note.keys.contains(&(facet, key));
        let expected = self.records.iter().filter(|(_, note)| is_keyed(note));
        assert!(keyed.len() <= self.view.records_by_key_len(facet, &key));
        assert_eq!(keyed.len(), expected.clone().count(), "each keyed record once");
        assert_eq!(
            BTreeMap::from_iter(keyed),
            expected.map(|(address, note)| (*address, Arc::clone(note))).collect()
        );

        let both = [(facet, key), (KeyKind(1), address)];
        let found: BTreeMap<_, _> = self.view.records_by_keys(&both).collect();
        let has_both = |note: &TestRecord| both.iter().all(|key| note.keys.contains(key));
        let expected = self.records.iter().filter(|(_, note)| has_both(note));
        assert_eq!(found, expected.map(|(address, note)| (*address, Arc::clone(note))).collect());
        assert!(found.len() <= self.view.records_by_keys_len(&both));

        self.check_highest(None);
        self.check_highest(Some((facet, key)));
        let since = self.block.slot.saturating_sub(2);
        self.check_pages((facet, key), None);
        self.check_pages((facet, key), Some(since));

        for (address, id) in &self.ids {
            assert_eq!(reader.addresses().lookup(address), Some(*id));
            assert_eq!(reader.addresses().address(*id), Some(*address));
        }
    }

    /// Checks the highest ranks of all records, or of those under a key, with and without odd values.
    fn check_highest(&self, key: Option<(KeyKind, Address)>) {
        let rank = |note: &TestRecord| match key {
            None => note.global_rank(),
            Some(key) => note.keys.contains(&key).then(|| note.rank_in(key.0)).flatten(),
        };
        for (limit, keeps_odd) in [(1, true), (3, false), (5, true), (1_000, false)] {
            let is_match = |note: &TestRecord| keeps_odd || note.value.is_multiple_of(2);
            let matching = self.records.iter().filter(|(_, note)| is_match(note));
            let mut expected: Vec<_> =
                matching.filter_map(|(address, note)| Some((rank(note)?, *address))).collect();
            expected.sort_unstable_by(|one, other| other.cmp(one));
            expected.truncate(limit);
            let key = key.as_ref().map(|(facet, key)| (*facet, key));
            let found = self.view.highest(key, limit, |_, note| is_match(note));
            for ranked in &found {
                assert_eq!(self.records.get(&ranked.address), Some(&ranked.record));
            }
            let found: Vec<_> = found.iter().map(|one| (one.rank, one.address)).collect();
            assert_eq!(found, expected, "the {limit} highest under {key:?}");
        }
    }

    /// Checks that the pages of a list, for all page sizes, are together the list in the order of ids.
    fn check_pages(&self, (facet, key): (KeyKind, Address), changed_since: Option<Slot>) {
        let is_match = |address: &Address, note: &TestRecord| {
            let is_new = changed_since.is_none_or(|since| self.slots[address] >= since);
            is_new && note.keys.contains(&(facet, key)) && !note.value.is_multiple_of(3)
        };
        let matching = self.records.iter().filter(|(address, note)| is_match(address, note));
        let mut expected: Vec<Address> = matching.map(|(address, _)| *address).collect();
        expected.sort_unstable_by_key(|address| self.ids[address]);
        for (records_max, weight_max, visits_max) in
            [(1, 100, 100), (3, 3, 100), (100, 2, 100), (2, 100, 2), (100, 100, 1)]
        {
            let mut limits =
                PageLimits { after: None, changed_since, records_max, weight_max, visits_max };
            let mut found = Vec::new();
            loop {
                let weigh = |note: &TestRecord| {
                    let weight = (note.value % 3) as usize;
                    (weight > 0).then_some(weight)
                };
                let mut search = self.view.start_page(limits).expect("the same run");
                let step = records_max + 2;
                while self.view.continue_page(&mut search, &[(facet, key)], step, weigh) {}
                let page = search.into_page();
                assert!(page.records.len() <= records_max);
                found.extend(page.records.iter().map(|(address, _)| *address));
                let Some(next) = page.next else { break };
                limits.after = Some(query::Cursor::from_bytes(next.to_bytes()));
            }
            assert_eq!(found, expected, "pages of {records_max} {weight_max} {visits_max}");
        }
    }
}
