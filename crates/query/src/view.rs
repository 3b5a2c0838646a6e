//! The interface of readers: readers, and views of a published version.

use std::sync::Arc;

use address::AddressTable;
use arc_swap::ArcSwap;
use ledger::{Address, AddressId, BlockId, Commitment, Key, KeyKind, Record};
use state::{Snapshot, VisibleVersion};

use crate::address_resolver::address_resolver;
use crate::published::Published;
use crate::{BaseRecords, ChangeTracker, IndexCoverage, LedgerMemory, rank_index};

/// The readers' access to a ledger. Cheap to clone, usable from any thread, never waits for the writer.
pub struct Reader<R, M> {
    pub(crate) published: Arc<ArcSwap<Published<R, M>>>,
    pub(crate) addresses: Arc<AddressTable>,
    pub(crate) change_tracker: Arc<ChangeTracker>,
    pub(crate) base: Option<Arc<dyn BaseRecords<R>>>,
}

/// One block's state as it was published. Immutable, cheap to clone; its state stays in memory
/// while it lives.
pub struct View<R, M> {
    pub(crate) published: Arc<Published<R, M>>,
    commitment: Commitment,
    base: Option<Arc<dyn BaseRecords<R>>>,
}

/// The views of one published version.
pub struct CommitmentViews<R, M> {
    /// The open block, or the block that the ledger has chosen as its tip.
    pub processed: View<R, M>,
    /// The block that was completed last.
    pub confirmed: View<R, M>,
    /// The newest block that is finalized.
    pub finalized: View<R, M>,
}

impl<R: Record, M> Reader<R, M> {
    /// Returns the newest published state at `commitment`.
    pub fn view(&self, commitment: Commitment) -> View<R, M> {
        View { published: self.published.load_full(), commitment, base: self.base.clone() }
    }

    /// Returns the version and the block of the newest published state at `commitment`, for callers that read nothing
    /// else.
    pub fn version_and_block(&self, commitment: Commitment) -> (u64, BlockId) {
        let published = self.published.load();
        (published.version, published.snapshot(commitment).block())
    }

    /// Returns the newest published state at every commitment, all of one version.
    pub fn views(&self) -> CommitmentViews<R, M> {
        let published = self.published.load_full();
        let base = &self.base;
        let view =
            |commitment| View { published: Arc::clone(&published), commitment, base: base.clone() };
        CommitmentViews {
            processed: view(Commitment::Processed),
            confirmed: view(Commitment::Confirmed),
            finalized: view(Commitment::Finalized),
        }
    }

    /// Returns a reader that stays at the version that is the newest now: for several reads of one
    /// version. The state of that version stays in memory while it lives.
    pub fn pin(&self) -> Self {
        Self {
            published: Arc::new(ArcSwap::new(self.published.load_full())),
            addresses: Arc::clone(&self.addresses),
            change_tracker: Arc::clone(&self.change_tracker),
            base: self.base.clone(),
        }
    }

    /// Adds records that are older than their first block in this ledger. Only reads of single records see them.
    #[must_use]
    pub fn with_base(self, base: Arc<dyn BaseRecords<R>>) -> Self {
        Self { base: Some(base), ..self }
    }

    /// Returns the memory of the ledger. Cost: O(bytes / 1,024) at most; for reports.
    pub fn bytes(&self) -> LedgerMemory {
        let published = self.published.load();
        LedgerMemory::new(
            &self.addresses,
            &published.postings,
            published.state_memory,
            rank_index::heap_bytes(&published.tops),
        )
    }

    /// Returns the tracker of changes to the dependencies of responses.
    pub fn change_tracker(&self) -> &Arc<ChangeTracker> {
        &self.change_tracker
    }

    /// Returns the address table, for callers that register addresses of their own.
    pub fn addresses(&self) -> &Arc<AddressTable> {
        &self.addresses
    }
}

impl<R: Record, M> View<R, M> {
    /// Returns the block of this view.
    pub fn block(&self) -> BlockId {
        self.snapshot().block()
    }

    /// Returns the number of publishes up to this one. The view does not see changes of a later one
    /// ([`ChangeTracker`]).
    pub fn version(&self) -> u64 {
        self.published.version
    }

    /// Returns the block's metadata.
    pub fn meta(&self) -> &Arc<M> {
        self.snapshot().meta()
    }

    /// Returns the record of `address`.
    pub fn record(&self, address: &Address) -> Option<Arc<R>> {
        let found = self
            .published
            .addresses
            .lookup(address)
            .and_then(|id| Some(self.snapshot().version(id)?.record(self.address_resolver())));
        found.or_else(|| self.base_record(address))
    }

    /// Returns the record of an address that this block does not have, if it is older than its first block.
    fn base_record(&self, address: &Address) -> Option<Arc<R>> {
        let base = self.base.as_ref()?;
        base.record(address, self.block().slot, self.version())
    }

    /// Returns the rank of the record of `address` among all. A packed record is not unpacked for it.
    pub fn global_rank(&self, address: &Address) -> Option<u64> {
        let version = self.published.addresses.lookup(address);
        match version.and_then(|id| self.snapshot().version(id)) {
            Some(version) => version.rank(None, self.address_resolver()),
            None => self.base_record(address)?.global_rank(),
        }
    }

    /// Returns the records that have `key` of `kind`, by id. The ids of a large set are copied a thousand at a
    /// time. A record that has an entry but that this block does not see under the key is
    /// skipped. If the index has no entries for the key, all records are scanned.
    pub fn records_by_key(
        &self,
        kind: KeyKind,
        key: &Address,
    ) -> impl Iterator<Item = (Address, Arc<R>)> + use<'_, R, M> {
        let key = self.resolve_key(kind, key);
        key.into_iter().flat_map(move |key| {
            let ids = self.candidates(self.entries(key), AddressId(0));
            let versions = self.read_batched(ids, move |version| version.has_key(key));
            versions.filter_map(|(id, version)| self.resolve_record(id, &version?))
        })
    }

    /// Returns the maximum records that [`Self::records_by_key`] returns, if no more are inserted into the index
    /// meanwhile. Cost: two lookups; for cost classes.
    pub fn records_by_key_len(&self, kind: KeyKind, key: &Address) -> usize {
        self.resolve_key(kind, key).map_or(0, |key| self.candidates_len(self.entries(key)))
    }

    /// Returns whether the index covers a key. If not, its records are found at the cost of another
    /// key, or of all records.
    pub fn index_coverage(&self, kind: KeyKind, key: &Address) -> IndexCoverage {
        self.published.indices.coverage(kind, key)
    }

    /// Returns all records of the block, by id.
    pub fn all(&self) -> impl Iterator<Item = (Address, Arc<R>)> + use<'_, R, M> {
        self.snapshot().versions().filter_map(|(id, version)| self.resolve_record(id, &version))
    }

    /// Returns the maximum records that [`Self::all`] returns. O(1).
    pub fn len(&self) -> usize {
        self.snapshot().len_max()
    }

    /// Returns whether there is certainly no record.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn resolve_key(&self, kind: KeyKind, key: &Address) -> Option<Key> {
        let id = self.published.addresses.lookup(key)?;
        Some(Key { kind, id })
    }

    pub(crate) fn resolve_record(
        &self,
        id: AddressId,
        version: &VisibleVersion<'_, R>,
    ) -> Option<(Address, Arc<R>)> {
        let address = self.published.addresses.address(id);
        debug_assert!(address.is_some(), "the epoch keeps the address of {id:?}");
        Some((address?, version.record(self.address_resolver())))
    }

    /// Returns the addresses of the records and keys that this block sees. The epoch prevents their reuse.
    pub(crate) fn address_resolver(&self) -> impl Fn(AddressId) -> Address {
        address_resolver(&self.published.addresses)
    }

    pub(crate) fn snapshot(&self) -> &Snapshot<R, M> {
        self.published.snapshot(self.commitment)
    }
}

impl<R, M> Clone for Reader<R, M> {
    fn clone(&self) -> Self {
        Self {
            published: Arc::clone(&self.published),
            addresses: Arc::clone(&self.addresses),
            change_tracker: Arc::clone(&self.change_tracker),
            base: self.base.clone(),
        }
    }
}

impl<R, M> Clone for View<R, M> {
    fn clone(&self) -> Self {
        Self {
            published: Arc::clone(&self.published),
            commitment: self.commitment,
            base: self.base.clone(),
        }
    }
}

impl<R, M> Clone for CommitmentViews<R, M> {
    fn clone(&self) -> Self {
        Self {
            processed: self.processed.clone(),
            confirmed: self.confirmed.clone(),
            finalized: self.finalized.clone(),
        }
    }
}
