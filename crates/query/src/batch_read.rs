//! Reading many ids: while one record is on its way from memory, so are the others.
//!
//! Shape: ids in, what the block sees under each out, in the same order. Versions are read in batches,
//! then the addresses that unpacking them takes are touched; each is unpacked only when it is asked for.
//! Bounds: batches grow from [`FIRST_BATCH_LEN`] ids to `Snapshot::BATCH_MAX`, so that who wants few records does
//! not read many.

use std::iter;

use ledger::{AddressId, Record};
use state::{Snapshot, VisibleVersion};

use crate::View;

/// Ids in the first batch.
const FIRST_BATCH_LEN: usize = 16;

impl<R: Record, M> View<R, M> {
    /// Each of `ids` with what this block sees under it, unless that is not `wanted`.
    pub(crate) fn read_batched<'a>(
        &'a self,
        ids: impl Iterator<Item = AddressId> + 'a,
        wanted: impl Fn(&VisibleVersion<'a, R>) -> bool + 'a,
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
                self.snapshot().versions_of(&batch, &mut found);
                for version in &mut found {
                    *version = version.take().filter(&wanted);
                }
                self.prefetch(&batch, &found);
            }
            let id = *batch.get(at)?;
            let version = found[at].take();
            at += 1;
            Some((id, version))
        })
    }

    /// Has the addresses in the caches that it takes to answer with `found`.
    fn prefetch(&self, ids: &[AddressId], found: &[Option<VisibleVersion<'_, R>>]) {
        if ids.len() < 2 {
            return;
        }
        let found = ids.iter().zip(found).filter_map(|(id, seen)| Some((*id, seen.as_ref()?)));
        let named =
            found.flat_map(|(id, seen)| iter::once(id).chain(seen.keys().map(|key| key.id)));
        self.published.addresses.prefetch(named);
    }
}
