//! Reading many ids at once, so that the loads of all records from memory overlap.
//!
//! Shape: ids in; out, for each id, the version that the block sees, in the same order. Versions are read in batches,
//! then the addresses that unpacking them needs are prefetched; each is unpacked only when it is requested.
//! Bounds: batches grow from [`FIRST_BATCH_LEN`] ids to `Snapshot::BATCH_MAX`, so that a caller that needs few records
//! does not read many.

use std::iter;

use ledger::{AddressId, Record};
use state::{Snapshot, VisibleVersion};

use crate::View;

/// Number of ids in the first batch.
const FIRST_BATCH_LEN: usize = 16;

impl<R: Record, M> View<R, M> {
    /// Returns each of `ids` with the version that this block sees, or `None` if it sees none or `filter` rejects it.
    pub(crate) fn read_batched<'a>(
        &'a self,
        ids: impl Iterator<Item = AddressId> + 'a,
        filter: impl Fn(&VisibleVersion<'a, R>) -> bool + 'a,
    ) -> impl Iterator<Item = (AddressId, Option<VisibleVersion<'a, R>>)> + 'a {
        let mut ids = ids.fuse();
        let mut batch = Vec::new();
        let mut found: Vec<Option<VisibleVersion<'a, R>>> = Vec::new();
        let mut batch_max = FIRST_BATCH_LEN;
        let mut at = 0;
        iter::from_fn(move || {
            if at == batch.len() {
                at = 0;
                batch.clear();
                batch.extend(ids.by_ref().take(batch_max));
                batch_max = (batch_max * 2).min(Snapshot::<R, M>::BATCH_MAX);
                self.snapshot().find_versions(&batch, &mut found);
                for version in &mut found {
                    *version = version.take().filter(&filter);
                }
                self.prefetch(&batch, &found);
            }
            let id = *batch.get(at)?;
            let version = found[at].take();
            at += 1;
            Some((id, version))
        })
    }

    /// Loads the addresses that unpacking `found` needs into the CPU caches.
    fn prefetch(&self, ids: &[AddressId], found: &[Option<VisibleVersion<'_, R>>]) {
        if ids.len() < 2 {
            return;
        }
        let found =
            ids.iter().zip(found).filter_map(|(id, version)| Some((*id, version.as_ref()?)));
        let named =
            found.flat_map(|(id, version)| iter::once(id).chain(version.keys().map(|key| key.id)));
        self.published.addresses.prefetch(named);
    }
}
