//! A leaf of a large set: the ids of one range, in the form that suits them.
//!
//! Shape: `Wide` has up to 1,024 ids of any range, 4 bytes each; `Narrow` those of one window of
//! 65,536, 2 bytes each; `Dense` is a mutable bitmap of a window, 8 KiB. A window gets a
//! leaf of its own once it has 128 ids, and a bitmap above 4,096. So a sparse set costs about 2 to 4
//! bytes per id whatever the span of ids is, and a dense one a few bits.
//! Invariant: only `Dense` is mutated, bit by bit; the others are replaced.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

const WIDE_MAX: usize = 1024;
/// Ids from which a window gets a leaf of its own. It loses the leaf below `NARROW_RETAINED_MIN`.
const NARROW_MIN: usize = 128;
const NARROW_RETAINED_MIN: usize = 32;
/// Ids above which a window becomes a bitmap. It remains one down to `DENSE_RETAINED_MIN`.
const NARROW_MAX: usize = 4096;
const DENSE_RETAINED_MIN: usize = 3072;

const WINDOW_BITS: u32 = 16;
const WINDOW_WORDS: usize = 1 << (WINDOW_BITS - 6);

/// The ids of a leaf, in one of three forms.
pub(crate) enum LeafIds {
    Wide(Box<[u32]>),
    Narrow(u32, Box<[u16]>),
    Dense(Box<Dense>),
}

/// A bitmap of the ids of a window.
pub(crate) struct Dense {
    window: u32,
    len: AtomicU32,
    bits: Box<[AtomicU64]>,
}

/// The result of an insertion or removal.
pub(crate) enum Outcome {
    /// Nothing changed: the id was there already, or was not there.
    Unchanged,
    /// The leaf itself has been changed.
    Changed,
    /// The leaf must be replaced by these, each with the first id of its range.
    Becomes(Vec<(u32, LeafIds)>),
    /// The leaf stays, and this one must be inserted after it.
    Followed(u32, LeafIds),
}

impl LeafIds {
    /// Creates leaves for these sorted ids, which start at `first` or later.
    pub(crate) fn cut(first: u32, ids: &[u32]) -> Vec<(u32, Self)> {
        let mut leaves = Vec::new();
        let mut wide: Vec<u32> = Vec::new();
        let mut wide_first = first;
        for part in ids.chunk_by(|left, right| window(*left) == window(*right)) {
            if part.len() < NARROW_MIN {
                wide.extend_from_slice(part);
                continue;
            }
            let start = window(part[0]) << WINDOW_BITS;
            // The gap before the first window needs a leaf. Later gaps get one when ids are inserted.
            if !wide.is_empty() || (leaves.is_empty() && first < start) {
                push_wide(&mut leaves, wide_first, &wide);
            }
            leaves.push((start.max(first), Self::from_window(part)));
            wide.clear();
            wide_first = start + (1 << WINDOW_BITS);
        }
        if !wide.is_empty() || leaves.is_empty() {
            push_wide(&mut leaves, wide_first, &wide);
        }
        leaves
    }

    /// Creates a leaf for ids of one window.
    fn from_window(ids: &[u32]) -> Self {
        let window = window(ids[0]);
        if ids.len() <= NARROW_MAX {
            return Self::Narrow(window, ids.iter().map(|id| *id as u16).collect());
        }
        let dense = Dense::new(window);
        ids.iter().for_each(|id| dense.set(*id));
        Self::Dense(Box::new(dense))
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Wide(ids) => ids.len(),
            Self::Narrow(_, ids) => ids.len(),
            Self::Dense(dense) => dense.len.load(Ordering::Relaxed) as usize,
        }
    }

    /// Returns the heap size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Wide(ids) => size_of_val(&**ids),
            Self::Narrow(_, ids) => size_of_val(&**ids),
            Self::Dense(dense) => size_of::<Dense>() + size_of_val(&*dense.bits),
        }
    }

    pub(crate) fn contains(&self, id: u32) -> bool {
        match self {
            Self::Wide(ids) => ids.binary_search(&id).is_ok(),
            Self::Narrow(own, ids) => *own == window(id) && ids.binary_search(&(id as u16)).is_ok(),
            Self::Dense(dense) => dense.window == window(id) && dense.has(id),
        }
    }

    /// Copies ids from `from` on, until `ids` has `len` of them; false if there are more.
    pub(crate) fn read(&self, from: u32, len: usize, ids: &mut Vec<u32>) -> bool {
        let remaining = len - ids.len().min(len);
        match self {
            Self::Wide(own) => {
                let rest = &own[own.partition_point(|id| *id < from)..];
                ids.extend_from_slice(&rest[..rest.len().min(remaining)]);
                rest.len() <= remaining
            }
            Self::Narrow(window, own) => {
                let start = window << WINDOW_BITS;
                let at = own.partition_point(|id| start | u32::from(*id) < from);
                let rest = &own[at..];
                ids.extend(
                    rest[..rest.len().min(remaining)].iter().map(|id| start | u32::from(*id)),
                );
                rest.len() <= remaining
            }
            Self::Dense(dense) => dense.read(from, len, ids),
        }
    }

    /// Inserts an id of the leaf's range, which starts at `first`.
    pub(crate) fn insert(&self, first: u32, id: u32) -> Outcome {
        match self {
            Self::Wide(ids) => {
                let Err(at) = ids.binary_search(&id) else { return Outcome::Unchanged };
                let (before, after) = ids.split_at(at);
                let mut now = Vec::with_capacity(ids.len() + 1);
                now.extend_from_slice(before);
                now.push(id);
                now.extend_from_slice(after);
                if now.len() > WIDE_MAX || now.len().is_multiple_of(NARROW_MIN) {
                    return Outcome::Becomes(Self::cut(first, &now));
                }
                Outcome::Becomes(vec![(first, Self::Wide(now.into()))])
            }
            Self::Narrow(own, ids) if *own == window(id) => {
                let low = id as u16;
                let Err(at) = ids.binary_search(&low) else { return Outcome::Unchanged };
                if ids.len() == NARROW_MAX {
                    let dense = Dense::new(*own);
                    ids.iter().for_each(|low| dense.set(u32::from(*low)));
                    dense.set(id);
                    return Outcome::Becomes(vec![(first, Self::Dense(Box::new(dense)))]);
                }
                let (before, after) = ids.split_at(at);
                let mut now = Vec::with_capacity(ids.len() + 1);
                now.extend_from_slice(before);
                now.push(low);
                now.extend_from_slice(after);
                Outcome::Becomes(vec![(first, Self::Narrow(*own, now.into()))])
            }
            Self::Dense(dense) if dense.window == window(id) => {
                if dense.has(id) {
                    return Outcome::Unchanged;
                }
                dense.set(id);
                Outcome::Changed
            }
            // After the leaf's window, and before the next leaf's.
            Self::Narrow(own, _) => Self::followed_by(*own, id),
            Self::Dense(dense) => Self::followed_by(dense.window, id),
        }
    }

    /// Removes an id of the leaf's range, which starts at `first`.
    pub(crate) fn remove(&self, first: u32, id: u32) -> Outcome {
        if !self.contains(id) {
            return Outcome::Unchanged;
        }
        let now = match self {
            Self::Wide(ids) => Self::Wide(ids.iter().copied().filter(|own| *own != id).collect()),
            Self::Narrow(own, ids) if ids.len() <= NARROW_RETAINED_MIN => {
                let start = own << WINDOW_BITS;
                let ids = ids.iter().map(|low| start | u32::from(*low));
                Self::Wide(ids.filter(|own| *own != id).collect())
            }
            Self::Narrow(own, ids) => {
                let low = id as u16;
                Self::Narrow(*own, ids.iter().copied().filter(|own| *own != low).collect())
            }
            Self::Dense(dense) => {
                dense.clear(id);
                if self.len() >= DENSE_RETAINED_MIN {
                    return Outcome::Changed;
                }
                let mut ids = Vec::with_capacity(self.len());
                dense.read(0, usize::MAX, &mut ids);
                Self::from_window(&ids)
            }
        };
        Outcome::Becomes(vec![(first, now)])
    }

    fn followed_by(window: u32, id: u32) -> Outcome {
        Outcome::Followed((window + 1) << WINDOW_BITS, Self::Wide([id].into()))
    }
}

impl Dense {
    fn new(window: u32) -> Self {
        let bits = (0..WINDOW_WORDS).map(|_| AtomicU64::new(0)).collect();
        Self { window, len: AtomicU32::new(0), bits }
    }

    fn has(&self, id: u32) -> bool {
        let (word, bit) = bit_position(id);
        self.bits[word].load(Ordering::Relaxed) & bit != 0
    }

    /// Sets a bit that is clear. Writer only.
    fn set(&self, id: u32) {
        let (word, bit) = bit_position(id);
        let word = &self.bits[word];
        word.store(word.load(Ordering::Relaxed) | bit, Ordering::Release);
        self.len.store(self.len.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Clears a bit that is set. Writer only.
    fn clear(&self, id: u32) {
        let (word, bit) = bit_position(id);
        let word = &self.bits[word];
        word.store(word.load(Ordering::Relaxed) & !bit, Ordering::Release);
        self.len.store(self.len.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
    }

    fn read(&self, from: u32, len: usize, ids: &mut Vec<u32>) -> bool {
        let start = self.window << WINDOW_BITS;
        let from = from.saturating_sub(start) as usize;
        for at in from / 64..WINDOW_WORDS {
            let mut bits = self.bits[at].load(Ordering::Acquire);
            if at == from / 64 {
                bits &= u64::MAX << (from % 64);
            }
            while bits != 0 {
                if ids.len() >= len {
                    return false;
                }
                ids.push(start + at as u32 * 64 + bits.trailing_zeros());
                bits &= bits - 1;
            }
        }
        true
    }
}

fn push_wide(leaves: &mut Vec<(u32, LeafIds)>, first: u32, ids: &[u32]) {
    if ids.len() <= WIDE_MAX {
        leaves.push((first, LeafIds::Wide(ids.into())));
        return;
    }
    let (left, right) = ids.split_at(ids.len() / 2);
    push_wide(leaves, first, left);
    push_wide(leaves, right[0], right);
}

fn window(id: u32) -> u32 {
    id >> WINDOW_BITS
}

fn bit_position(id: u32) -> (usize, u64) {
    let low = id as usize % (1 << WINDOW_BITS);
    (low / 64, 1 << (low % 64))
}
