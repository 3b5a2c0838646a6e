//! A large set: a tree of two levels over its leaves.
//!
//! Shape: nodes of up to 128 leaves, each with the first id of its range; a range ends where the next
//! starts, and the first range starts at 0. A change replaces the smallest unit: usually a leaf's
//! ids, a node's list when leaves are split or joined, the list of nodes when a node is split.
//! Invariant: one thread changes it. A reader that loads a list or a leaf sees all of it, with all ids of
//! its range that were there before; so a reader that walks from range to range meets every id that
//! stays, once, in order.

use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::large_set_leaf::{LeafIds, Outcome};
use crate::small_sets::BLOCK_MAX;
use crate::sync::{AtomicU32, Ordering};

/// Below this many ids a set is better stored in a block. It is somewhat less than the size of a block, so that a set
/// at the bound does not change its form with every write.
pub(crate) const LARGE_MIN: usize = BLOCK_MAX - 16;

const NODE_LEN: usize = 128;
/// Ids of a leaf below which it joins a neighbour, and the maximum of both together.
const JOINED_BELOW: usize = 64;
const JOINED_MAX: usize = 512;

/// Items by the first id of their range.
type Ranges<T> = Vec<(u32, Arc<T>)>;

/// A sorted set of many ids.
pub(crate) struct LargeSet {
    len: AtomicU32,
    nodes: ArcSwap<Ranges<Node>>,
}

struct Node {
    leaves: ArcSwap<Ranges<Leaf>>,
}

struct Leaf {
    ids: ArcSwap<LeafIds>,
}

impl LargeSet {
    /// Creates the set of these sorted ids.
    pub(crate) fn new(ids: &[u32]) -> Self {
        let leaves = LeafIds::cut(0, ids).into_iter();
        let leaves = leaves.map(|(first, ids)| Leaf::new(first, ids)).collect();
        Self {
            len: AtomicU32::new(ids.len() as u32), // different ids
            nodes: ArcSwap::from_pointee(vec![(0, Node::new(leaves))]),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed) as usize
    }

    /// Returns the heap size in bytes. Cost: O(leaves).
    pub(crate) fn bytes(&self) -> usize {
        let ranges = |ranges: usize| ranges * size_of::<(u32, Arc<Leaf>)>();
        let leaf = |leaf: &Leaf| size_of::<Leaf>() + size_of::<LeafIds>() + leaf.ids.load().bytes();
        let node = |node: &Node| {
            let leaves = node.leaves.load();
            let below: usize = leaves.iter().map(|(_, below)| leaf(below)).sum();
            size_of::<Node>() + ranges(leaves.len()) + below
        };
        let nodes = self.nodes.load();
        let below: usize = nodes.iter().map(|(_, below)| node(below)).sum();
        size_of::<Self>() + ranges(nodes.len()) + below
    }

    pub(crate) fn contains(&self, id: u32) -> bool {
        let nodes = self.nodes.load();
        let leaves = nodes[find_range(&nodes, id)].1.leaves.load();
        leaves[find_range(&leaves, id)].1.ids.load().contains(id)
    }

    /// Copies ids from `from` on until there are `len`; returns the id to continue with, if there may be more.
    pub(crate) fn read(&self, mut from: u32, len: usize, ids: &mut Vec<u32>) -> Option<u32> {
        loop {
            let nodes = self.nodes.load();
            let node = find_range(&nodes, from);
            let leaves = nodes[node].1.leaves.load();
            let leaf = find_range(&leaves, from);
            let is_read_out = leaves[leaf].1.ids.load().read(from, len, ids);
            if !is_read_out {
                return ids.last().map(|last| last + 1);
            }
            let next_leaf = leaves.get(leaf + 1).map(|(first, _)| *first);
            from = next_leaf.or_else(|| nodes.get(node + 1).map(|(first, _)| *first))?;
            if ids.len() >= len {
                return Some(from);
            }
        }
    }

    /// Inserts an id; false if it is there. Writer only.
    pub(crate) fn insert(&self, id: u32) -> bool {
        let is_new = self.change(id, LeafIds::insert);
        if is_new {
            self.len.store(self.len.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        is_new
    }

    /// Removes an id; false if it is not there. Writer only.
    pub(crate) fn remove(&self, id: u32) -> bool {
        let was_there = self.change(id, LeafIds::remove);
        if was_there {
            self.len.store(self.len.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
            self.join(id);
        }
        was_there
    }

    /// Changes the leaf of `id`; false if nothing changed.
    fn change(&self, id: u32, how: impl Fn(&LeafIds, u32, u32) -> Outcome) -> bool {
        let nodes = self.nodes.load();
        let at_node = find_range(&nodes, id);
        let leaves = nodes[at_node].1.leaves.load();
        let at = find_range(&leaves, id);
        let (first, leaf) = &leaves[at];
        let outcome = how(&leaf.ids.load(), *first, id);
        let mut now: Ranges<Leaf>;
        match outcome {
            Outcome::Unchanged => return false,
            Outcome::Changed => return true,
            Outcome::Becomes(mut ids) if ids.len() == 1 => {
                if let Some((_, ids)) = ids.pop() {
                    leaf.ids.store(Arc::new(ids));
                }
                return true;
            }
            Outcome::Becomes(ids) => {
                now = leaves[..at].to_vec();
                now.extend(ids.into_iter().map(|(first, ids)| Leaf::new(first, ids)));
            }
            Outcome::Followed(first, ids) => {
                now = leaves[..=at].to_vec();
                now.push(Leaf::new(first, ids));
            }
        }
        now.extend_from_slice(&leaves[at + 1..]);
        self.replace(&nodes, at_node, now);
        true
    }

    /// Replaces the leaves of a node, and splits it if there are too many.
    fn replace(&self, nodes: &Ranges<Node>, at: usize, leaves: Ranges<Leaf>) {
        if leaves.len() <= NODE_LEN {
            nodes[at].1.leaves.store(Arc::new(leaves));
            return;
        }
        let parts = leaves.chunks(NODE_LEN / 2).map(|part| (part[0].0, Node::new(part.to_vec())));
        let before = nodes[..at].iter().cloned();
        let now = before.chain(parts).chain(nodes[at + 1..].iter().cloned()).collect();
        self.nodes.store(Arc::new(now));
    }

    /// Joins the leaf from which `id` was removed with a neighbour, if both are small.
    fn join(&self, id: u32) {
        let nodes = self.nodes.load();
        let at_node = find_range(&nodes, id);
        let leaves = nodes[at_node].1.leaves.load();
        let at = find_range(&leaves, id);
        let ids = leaves[at].1.ids.load();
        let LeafIds::Wide(own) = &**ids else { return };
        if own.len() >= JOINED_BELOW {
            return;
        }
        for left in [at, at.wrapping_sub(1)] {
            let (Some((first, one)), Some((_, two))) =
                (leaves.get(left), leaves.get(left.wrapping_add(1)))
            else {
                continue;
            };
            let one = one.ids.load();
            let two = two.ids.load();
            if let (LeafIds::Wide(one), LeafIds::Wide(two)) = (&**one, &**two)
                && one.len() + two.len() <= JOINED_MAX
            {
                let joined = Leaf::new(*first, LeafIds::Wide([&**one, two].concat().into()));
                let before = leaves[..left].iter().cloned();
                let after = leaves[left + 2..].iter().cloned();
                let now = before.chain([joined]).chain(after).collect();
                nodes[at_node].1.leaves.store(Arc::new(now));
                return;
            }
        }
        if own.is_empty() && at > 0 {
            let mut now = leaves.to_vec();
            now.remove(at);
            nodes[at_node].1.leaves.store(Arc::new(now));
        } else if own.is_empty() && leaves.len() == 1 && at_node > 0 {
            let mut now = nodes.to_vec();
            now.remove(at_node);
            self.nodes.store(Arc::new(now));
        }
    }

    /// Checks that ranges, forms and counts are consistent.
    #[cfg(all(test, not(loom)))]
    fn check(&self) {
        let nodes = self.nodes.load();
        let mut len = 0;
        let mut firsts = Vec::new();
        for (first_of_node, node) in nodes.iter() {
            let leaves = node.leaves.load();
            assert!(leaves.len() <= NODE_LEN);
            assert_eq!(leaves.first().map(|(first, _)| first), Some(first_of_node));
            for (first, leaf) in leaves.iter() {
                firsts.push(*first);
                let mut ids = Vec::new();
                leaf.ids.load().read(0, usize::MAX, &mut ids);
                assert_eq!(ids.len(), leaf.ids.load().len());
                assert!(ids.first().is_none_or(|id| id >= first));
                len += ids.len();
            }
        }
        assert_eq!(firsts.first(), Some(&0));
        assert!(firsts.is_sorted_by(|left, right| left < right));
        assert_eq!(len, self.len());
    }
}

impl Node {
    fn new(leaves: Ranges<Leaf>) -> Arc<Self> {
        Arc::new(Self { leaves: ArcSwap::from_pointee(leaves) })
    }
}

impl Leaf {
    fn new(first: u32, ids: LeafIds) -> (u32, Arc<Self>) {
        (first, Arc::new(Self { ids: ArcSwap::from_pointee(ids) }))
    }
}

/// Returns the index of the range of `id`. It always exists: the first range starts at or below every id.
fn find_range<T>(ranges: &[(u32, T)], id: u32) -> usize {
    ranges.partition_point(|(first, _)| *first <= id).saturating_sub(1)
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn all(large: &LargeSet, batch: usize) -> Vec<u32> {
        let mut all = Vec::new();
        let mut from = Some(0);
        while let Some(at) = from {
            let mut ids = Vec::new();
            from = large.read(at, batch, &mut ids);
            assert!(ids.len() <= batch);
            all.extend(ids);
        }
        all
    }

    /// Grows and shrinks a set over a span of ids, through every form.
    fn run(seed: u64, span: u32, steps: usize) {
        let mut random = seed;
        let mut below = |bound: u32| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((random >> 33) % u64::from(bound)) as u32
        };
        let start: Vec<u32> = (0..65).map(|n| n * (span / 65)).collect();
        let large = LargeSet::new(&start);
        let mut model: BTreeSet<u32> = start.into_iter().collect();
        for step in 0..steps {
            let id = below(span);
            let grows = (step * 4 / steps).is_multiple_of(2);
            if grows || model.len() < 200 {
                assert_eq!(large.insert(id), model.insert(id));
            } else {
                let id = model.range(id..).next().copied().unwrap_or(id);
                assert_eq!(large.remove(id), model.remove(&id));
            }
            if step.is_multiple_of(steps / 16) {
                large.check();
                assert!(
                    all(&large, 1 + below(3_000) as usize).into_iter().eq(model.iter().copied())
                );
            }
            let probe = below(span);
            assert_eq!(large.contains(probe), model.contains(&probe));
        }
        for id in model.clone() {
            assert!(large.remove(id) && !large.contains(id));
        }
        large.check();
        assert_eq!(all(&large, 100), []);
        assert!(large.insert(span) && large.contains(span));
    }

    #[test]
    fn a_sparse_set_behaves_like_a_plain_one() {
        run(1, i32::MAX as u32, 120_000);
        run(2, 50_000_000, 200_000);
    }

    #[test]
    fn a_dense_set_behaves_like_a_plain_one() {
        run(3, 150_000, 300_000);
        run(4, 3_000_000, 400_000);
    }

    #[test]
    fn ids_in_order_and_clusters_far_apart_are_stored_too() {
        let ids = (0..40_u32).flat_map(|far| (0..3_000).map(move |near| far * 50_000_000 + near));
        let large = LargeSet::new(&ids.clone().take(100).collect::<Vec<_>>());
        for id in ids.clone().skip(100) {
            assert!(large.insert(id));
        }
        large.check();
        assert!(all(&large, 777).into_iter().eq(ids.clone()));
        for id in ids.clone().filter(|id| id % 5 != 0) {
            assert!(large.remove(id));
        }
        large.check();
        assert!(all(&large, 777).into_iter().eq(ids.filter(|id| id % 5 == 0)));
    }
}
