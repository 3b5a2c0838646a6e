//! Ids that are not referenced, until no reader can have them: a queue by epoch.
//!
//! Bounds: each id is in the queue at most once. 4 bytes per id, in runs of at most 16 KiB, so that many ids
//! freed at once make no large allocation.

use std::collections::VecDeque;

use ledger::AddressId;

const RUN_LEN: usize = 4096;

/// A queue of retired ids. Epochs are pushed in ascending order.
#[derive(Default)]
pub(crate) struct RetiredIds {
    runs: VecDeque<Run>,
}

struct Run {
    until: u64,
    /// Popped from the front: those before `at` are gone.
    ids: Vec<AddressId>,
    at: usize,
}

impl RetiredIds {
    /// Queues `id` while `until` or an earlier epoch is pinned.
    pub(crate) fn push(&mut self, until: u64, id: AddressId) {
        match self.runs.back_mut() {
            Some(run) if run.until == until && run.ids.len() < RUN_LEN => run.ids.push(id),
            _ => self.runs.push_back(Run { until, ids: vec![id], at: 0 }),
        }
    }

    /// Removes and returns the next id that was queued until an epoch before `oldest_pinned`, with that epoch.
    pub(crate) fn pop_before(&mut self, oldest_pinned: u64) -> Option<(u64, AddressId)> {
        let run = self.runs.front_mut().filter(|run| run.until < oldest_pinned)?;
        let until = run.until;
        let id = run.ids[run.at];
        run.at += 1;
        if run.at == run.ids.len() {
            self.runs.pop_front();
        }
        Some((until, id))
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.runs.iter().map(|run| run.ids.len() - run.at).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_leave_in_order_once_their_epoch_is_over() {
        let mut retired = RetiredIds::default();
        let ids = |range: std::ops::Range<u32>| range.map(AddressId);
        ids(0..10_000).for_each(|id| retired.push(1, id));
        ids(10_000..10_003).for_each(|id| retired.push(2, id));
        assert_eq!(retired.pop_before(1), None);
        for id in ids(0..10_000) {
            assert_eq!(retired.pop_before(2), Some((1, id)));
        }
        assert_eq!((retired.pop_before(2), retired.len()), (None, 3));
        assert_eq!(retired.pop_before(3), Some((2, AddressId(10_000))));
        retired.push(4, AddressId(5));
        assert_eq!(retired.len(), 3);
    }
}
