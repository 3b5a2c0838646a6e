//! A record as blocks hold it: whole, or as what differs from another one.
//!
//! Shape: most blocks change some bytes of the records that they write, so a record that many blocks wrote is held once,
//! and a patch for each block. A patch is always one of a whole record: no read applies more than one.
//! Bounds: a patch takes less than half of what the record would.
//! Not here: what a patch has (the chain's [`Record`] says), which records are patched (`state`).

use std::sync::Arc;

use crate::{KeyKind, Record};

/// The heap bytes of a reference count.
const ARC_BYTES: usize = 16;

/// A record, whole or patched. Copies share it.
///
/// ```
/// use std::sync::Arc;
///
/// use ledger::{Address, KeyKind, Record, StoredRecord};
///
/// struct Counter([u64; 32]);
///
/// impl Record for Counter {
///     fn keys(&self, _: &mut dyn FnMut(KeyKind, Address)) {}
///
///     fn patch(&self, base: &Self, patch: &mut Vec<u8>) -> bool {
///         patch.extend(self.0[0].to_le_bytes());
///         self.0[1..] == base.0[1..]
///     }
///
///     fn apply_patch(base: &Self, patch: &[u8]) -> Option<Self> {
///         let mut counter = Self(base.0);
///         counter.0[0] = u64::from_le_bytes(patch.try_into().ok()?);
///         Some(counter)
///     }
/// }
///
/// let [first, second] = [1, 2].map(|count| {
///     let mut counts = [7; 32];
///     counts[0] = count;
///     Arc::new(Counter(counts))
/// });
/// let first = StoredRecord::from(first);
/// let stored = StoredRecord::new(Arc::clone(&second), Some(&first));
/// assert!(stored.weight() < first.weight() / 2);
/// assert_eq!(stored.record().0, second.0);
/// ```
///
/// Size: 24 bytes, and as many if it is optional.
#[derive(Debug)]
pub struct StoredRecord<R> {
    base: Arc<R>,
    /// The differences from `base`. `None` if that is the record.
    patch: Option<Arc<[u8]>>,
}

impl<R> StoredRecord<R> {
    /// The whole record that it was patched from, or that it is.
    pub fn base(&self) -> &Arc<R> {
        &self.base
    }

    /// Whether it is a patch of [`Self::base`].
    pub fn is_patched(&self) -> bool {
        self.patch.is_some()
    }
}

impl<R: Record> StoredRecord<R> {
    /// A record, as a patch if it differs little from `other`.
    pub fn new(record: Arc<R>, other: Option<&Self>) -> Self {
        let Some(base) = other.map(Self::base) else { return Self::from(record) };
        if Arc::ptr_eq(base, &record) {
            return Self::from(record);
        }
        let mut patch = Vec::new();
        let is_shorter = record.patch(base, &mut patch)
            && 2 * (ARC_BYTES + patch.len()) < whole_weight(&*record);
        if !is_shorter {
            return Self::from(record);
        }
        Self { base: Arc::clone(base), patch: Some(patch.into()) }
    }

    /// Returns the record. A patched one is built from its base.
    pub fn record(&self) -> Arc<R> {
        let Some(patch) = &self.patch else { return Arc::clone(&self.base) };
        let record = R::apply_patch(&self.base, patch);
        Arc::new(record.expect("these bytes were made by `patch`, with this base"))
    }

    /// The rank of the record. The record is made only if necessary.
    pub fn rank(&self, kind: Option<KeyKind>) -> Option<u64> {
        if let Some(patch) = &self.patch
            && let Some(rank) = R::patched_rank(&self.base, patch, kind)
        {
            return rank;
        }
        let record = self.record();
        match kind {
            None => record.global_rank(),
            Some(kind) => record.rank_in(kind),
        }
    }

    /// Its heap bytes. Those of the base of a patch are not included.
    pub fn weight(&self) -> usize {
        match &self.patch {
            None => whole_weight(&*self.base),
            Some(patch) => ARC_BYTES + patch.len(),
        }
    }

    /// The heap bytes of the base of a patch, which others may share; 0 for a whole record.
    pub fn base_weight(&self) -> usize {
        if self.is_patched() { whole_weight(&*self.base) } else { 0 }
    }
}

impl<R> From<Arc<R>> for StoredRecord<R> {
    fn from(record: Arc<R>) -> Self {
        Self { base: record, patch: None }
    }
}

impl<R> Clone for StoredRecord<R> {
    fn clone(&self) -> Self {
        Self { base: Arc::clone(&self.base), patch: self.patch.clone() }
    }
}

fn whole_weight<R: Record>(record: &R) -> usize {
    ARC_BYTES + record.weight()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_optional_record_has_no_more_bytes_than_its_pointers() {
        assert_eq!(size_of::<StoredRecord<u64>>(), 24);
        assert_eq!(size_of::<Option<StoredRecord<u64>>>(), 24);
    }
}
