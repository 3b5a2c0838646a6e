//! A set of address ids in the form that fits its size and density.
//!
//! Shape: few or scattered ids are one sorted list, four bytes each. Many are split by their upper half
//! into chunks, each a sorted list of two bytes an id, or 8 KiB of bits once that is less. An id costs
//! as little as an eighth of a byte.
//! Cost: looking up an id is a binary search, or two. Sets are changed in bulk: O(set + change) while
//! they are one list, O(chunks touched) beyond. Large sets are created and changed in batches of
//! [`BATCH_IDS`], so that nothing larger than a chunk is ever allocated temporarily: allocators retain
//! the memory that a thread needed once.
//! Not here: the reference counts of the ids (`address_set`).

/// The most ids in a sorted chunk; a larger chunk is bits. At this size both forms have 8 KiB.
const SORTED_CHUNK_MAX: usize = 4_096;
/// 64-bit words of a chunk of bits.
const CHUNK_WORDS: usize = 1_024;
/// The average number of ids from which chunks are worth it: a chunk costs about 48 bytes and saves two bytes for each
/// id.
const CHUNK_IDS_MIN: usize = 32;

/// Ids that are sorted, merged or passed on at once: 4 KiB of them, some 20 microseconds in the index.
pub(crate) const BATCH_IDS: usize = 1_024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IdSet {
    form: Form,
    len: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Form {
    List(Vec<u32>),
    /// Sorted by the upper half of their ids.
    Chunks(Vec<(u16, Chunk)>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Chunk {
    Sorted(Vec<u16>),
    Bits { bits: Box<[u64; CHUNK_WORDS]>, len: u32 },
}

impl Default for IdSet {
    fn default() -> Self {
        Self { form: Form::List(Vec::new()), len: 0 }
    }
}

impl IdSet {
    /// A set of any number of ids that are sorted and distinct.
    pub(crate) fn from_sorted_iter(ids: impl Iterator<Item = u32>) -> Self {
        let mut set = Self::default();
        in_batches(ids, |batch| set.add(batch));
        set
    }

    /// A set of ids that are sorted and distinct.
    fn from_sorted(ids: Vec<u32>) -> Self {
        debug_assert!(ids.is_sorted_by(|a, b| a < b), "sorted and distinct");
        let len = ids.len();
        if worth_chunks(&ids) {
            return Self { form: Form::Chunks(split_chunks(&ids)), len };
        }
        let mut ids = ids;
        ids.shrink_to_fit();
        Self { form: Form::List(ids), len }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn bytes(&self) -> usize {
        match &self.form {
            Form::List(ids) => ids.capacity() * size_of::<u32>(),
            Form::Chunks(chunks) => {
                let chunk_bytes = |(_, chunk): &(u16, Chunk)| match chunk {
                    Chunk::Sorted(ids) => ids.capacity() * size_of::<u16>(),
                    Chunk::Bits { bits, .. } => size_of_val(&**bits),
                };
                chunks.capacity() * size_of::<(u16, Chunk)>()
                    + chunks.iter().map(chunk_bytes).sum::<usize>()
            }
        }
    }

    pub(crate) fn contains(&self, id: u32) -> bool {
        match &self.form {
            Form::List(ids) => ids.binary_search(&id).is_ok(),
            Form::Chunks(chunks) => chunks
                .binary_search_by_key(&upper(id), |(key, _)| *key)
                .is_ok_and(|at| chunks[at].1.contains(id as u16)),
        }
    }

    /// The next [`BATCH_IDS`] ids from `from` on, in ascending order.
    fn batch_from(&self, from: u32) -> Vec<u32> {
        match &self.form {
            Form::List(ids) => {
                let rest = &ids[ids.partition_point(|id| *id < from)..];
                rest[..rest.len().min(BATCH_IDS)].to_vec()
            }
            Form::Chunks(chunks) => {
                let first = chunks.partition_point(|(key, _)| *key < upper(from));
                let ids = chunks[first..].iter().flat_map(|(key, chunk)| {
                    let low = if *key == upper(from) { from as u16 } else { 0 };
                    let base = u32::from(*key) << 16;
                    chunk.iter_from(low).map(move |low| base | u32::from(low))
                });
                ids.take(BATCH_IDS).collect()
            }
        }
    }

    /// All ids, in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let (list, chunks) = match &self.form {
            Form::List(ids) => (ids.as_slice(), &[][..]),
            Form::Chunks(chunks) => (&[][..], chunks.as_slice()),
        };
        let of_chunks = chunks.iter().flat_map(|(key, chunk)| {
            let base = u32::from(*key) << 16;
            chunk.iter().map(move |low| base | u32::from(low))
        });
        list.iter().copied().chain(of_chunks)
    }

    /// Adds ids that are sorted and distinct, and not in the set.
    pub(crate) fn add(&mut self, ids: &[u32]) {
        if ids.is_empty() {
            return;
        }
        self.len += ids.len();
        match &mut self.form {
            Form::List(list) => {
                let merged = merge_sorted(list, ids.iter().copied());
                *self = Self::from_sorted(merged);
            }
            Form::Chunks(chunks) => {
                for part in ids.chunk_by(|a, b| upper(*a) == upper(*b)) {
                    let key = upper(part[0]);
                    match chunks.binary_search_by_key(&key, |(key, _)| *key) {
                        Ok(at) => chunks[at].1.add(part),
                        Err(at) => chunks.insert(at, (key, Chunk::from_ids(part))),
                    }
                }
            }
        }
    }

    /// Removes ids that are sorted and distinct, and all in the set.
    pub(crate) fn remove(&mut self, ids: &[u32]) {
        if ids.is_empty() {
            return;
        }
        self.len -= ids.len();
        match &mut self.form {
            Form::List(list) => {
                let mut removed = ids.iter().peekable();
                list.retain(|id| removed.next_if(|removed| *removed == id).is_none());
                list.shrink_to_fit();
            }
            Form::Chunks(chunks) => {
                for part in ids.chunk_by(|a, b| upper(*a) == upper(*b)) {
                    let Ok(at) = chunks.binary_search_by_key(&upper(part[0]), |(key, _)| *key)
                    else {
                        continue;
                    };
                    chunks[at].1.remove(part);
                }
                chunks.retain(|(_, chunk)| chunk.len() > 0);
                if self.len <= chunks.len() * (CHUNK_IDS_MIN / 2) {
                    *self = Self::from_sorted(self.iter().collect());
                }
            }
        }
    }
}

/// A position in a set that is read batch by batch. The set must not change meanwhile.
#[derive(Clone, Copy, Default)]
pub(crate) struct Cursor {
    from: u32,
    is_over: bool,
}

impl Cursor {
    /// The next [`BATCH_IDS`] ids, in ascending order; `None` after the last.
    pub(crate) fn next(&mut self, set: &IdSet) -> Option<Vec<u32>> {
        if self.is_over {
            return None;
        }
        let batch = set.batch_from(self.from);
        match batch.last().and_then(|last| last.checked_add(1)) {
            Some(from) => self.from = from,
            None => self.is_over = true,
        }
        (!batch.is_empty()).then_some(batch)
    }
}

impl Chunk {
    fn from_ids(ids: &[u32]) -> Self {
        if ids.len() <= SORTED_CHUNK_MAX {
            return Self::Sorted(ids.iter().map(|id| *id as u16).collect());
        }
        let mut bits = Box::new([0; CHUNK_WORDS]);
        for id in ids {
            set_bit(&mut bits, *id as u16);
        }
        Self::Bits { bits, len: ids.len() as u32 }
    }

    fn len(&self) -> usize {
        match self {
            Self::Sorted(ids) => ids.len(),
            Self::Bits { len, .. } => *len as usize,
        }
    }

    fn contains(&self, low: u16) -> bool {
        match self {
            Self::Sorted(ids) => ids.binary_search(&low).is_ok(),
            Self::Bits { bits, .. } => bits[usize::from(low >> 6)] >> (low & 63) & 1 == 1,
        }
    }

    fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        self.iter_from(0)
    }

    fn iter_from(&self, from: u16) -> impl Iterator<Item = u16> + '_ {
        let first = usize::from(from >> 6);
        let (ids, bits) = match self {
            Self::Sorted(ids) => (&ids[ids.partition_point(|id| *id < from)..], &[][..]),
            Self::Bits { bits, .. } => (&[][..], &bits[first..]),
        };
        let of_bits = bits.iter().zip(first..).flat_map(move |(word, at)| {
            let mut left = if at == first { *word & (u64::MAX << (from & 63)) } else { *word };
            std::iter::from_fn(move || {
                if left == 0 {
                    return None;
                }
                let bit = left.trailing_zeros();
                left &= left - 1;
                Some((at as u16) << 6 | bit as u16)
            })
        });
        ids.iter().copied().chain(of_bits)
    }

    fn add(&mut self, ids: &[u32]) {
        match self {
            Self::Bits { bits, len } => {
                for id in ids {
                    set_bit(bits, *id as u16);
                }
                *len += ids.len() as u32;
            }
            Self::Sorted(sorted) if sorted.len() + ids.len() > SORTED_CHUNK_MAX => {
                let mut bits = Box::new([0; CHUNK_WORDS]);
                sorted.iter().for_each(|low| set_bit(&mut bits, *low));
                ids.iter().for_each(|id| set_bit(&mut bits, *id as u16));
                *self = Self::Bits { bits, len: (sorted.len() + ids.len()) as u32 };
            }
            Self::Sorted(sorted) => *sorted = merge_sorted(sorted, ids.iter().map(|id| *id as u16)),
        }
    }

    fn remove(&mut self, ids: &[u32]) {
        match self {
            Self::Bits { bits, len } => {
                for id in ids {
                    let low = *id as u16;
                    bits[usize::from(low >> 6)] &= !(1 << (low & 63));
                }
                *len -= ids.len() as u32;
                // Half of the threshold, so that a set near it does not switch again and again.
                if (*len as usize) < SORTED_CHUNK_MAX / 2 {
                    *self = Self::Sorted(self.iter().collect());
                }
            }
            Self::Sorted(sorted) => {
                let mut removed = ids.iter().map(|id| *id as u16).peekable();
                sorted.retain(|low| removed.next_if(|removed| removed == low).is_none());
                sorted.shrink_to_fit();
            }
        }
    }
}

fn upper(id: u32) -> u16 {
    (id >> 16) as u16
}

fn set_bit(bits: &mut [u64; CHUNK_WORDS], low: u16) {
    bits[usize::from(low >> 6)] |= 1 << (low & 63);
}

fn worth_chunks(ids: &[u32]) -> bool {
    ids.len() >= CHUNK_IDS_MIN * 2
        && ids.chunk_by(|a, b| upper(*a) == upper(*b)).count() * CHUNK_IDS_MIN <= ids.len()
}

fn split_chunks(ids: &[u32]) -> Vec<(u16, Chunk)> {
    let parts = ids.chunk_by(|a, b| upper(*a) == upper(*b));
    parts.map(|part| (upper(part[0]), Chunk::from_ids(part))).collect()
}

fn merge_sorted<T: Copy + Ord>(a: &[T], b: impl ExactSizeIterator<Item = T>) -> Vec<T> {
    let mut all = Vec::with_capacity(a.len() + b.len());
    let mut b = b.peekable();
    for id in a {
        while let Some(before) = b.next_if(|b| b < id) {
            all.push(before);
        }
        all.push(*id);
    }
    all.extend(b);
    all
}

/// Calls `each` with batches of ids, in order.
pub(crate) fn in_batches(ids: impl Iterator<Item = u32>, mut each: impl FnMut(&[u32])) {
    let mut ids = ids.peekable();
    let mut batch = Vec::new();
    while ids.peek().is_some() {
        batch.extend(ids.by_ref().take(BATCH_IDS));
        each(&batch);
        batch.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    #[test]
    fn every_form_equals_a_model_set() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for spread in [300, 70_000, 200_000, u32::MAX] {
            let mut set = IdSet::default();
            let mut model = BTreeSet::new();
            for round in 0..60 {
                let count = rng.random_range(0..6_000);
                let ids: BTreeSet<u32> = (0..count).map(|_| rng.random_range(0..spread)).collect();
                if round % 3 == 2 {
                    let removed: Vec<_> = ids.intersection(&model).copied().collect();
                    set.remove(&removed);
                    removed.iter().for_each(|id| assert!(model.remove(id)));
                } else {
                    let new: Vec<_> = ids.difference(&model).copied().collect();
                    set.add(&new);
                    model.extend(new);
                }
                assert_eq!(set.len(), model.len());
                assert!(set.iter().eq(model.iter().copied()));
                let mut at = Cursor::default();
                let batches: Vec<_> = std::iter::from_fn(|| at.next(&set)).collect();
                assert!(batches.iter().all(|batch| !batch.is_empty() && batch.len() <= BATCH_IDS));
                assert!(batches.iter().flatten().eq(&model));
                assert_eq!(set.contains(count), model.contains(&count));
                assert!(model.iter().take(20).all(|id| set.contains(*id)));
            }
            let all: Vec<_> = model.into_iter().collect();
            set.remove(&all);
            assert_eq!(set, IdSet::default(), "an emptied set equals a new one");
        }
    }

    #[test]
    fn the_form_follows_size_and_density() {
        let dense = IdSet::from_sorted_iter(0..1_000_000);
        assert!(matches!(&dense.form, Form::Chunks(chunks) if chunks.len() == 16));
        let scattered = IdSet::from_sorted_iter((0..800).map(|n| n * 100_000));
        assert!(matches!(&scattered.form, Form::List(_)));
    }
}
