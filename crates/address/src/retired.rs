//! Ids that nobody counts on, until no reader can hold them: a queue by epoch.
//!
//! Bounds: each id is in it at most once. 4 bytes an id, in runs of at most 16 KiB, so that many ids
//! freed at once make no large allocation.

use std::collections::VecDeque;

use ledger::AddressId;

const RUN_LEN: usize = 4096;

/// The queue. Epochs never go back.
#[derive(Default)]
pub(crate) struct RetiredIds {
    runs: VecDeque<Run>,
}

struct Run {
    until: u64,
    /// Taken from the front: those before `at` are gone.
    ids: Vec<AddressId>,
    at: usize,
}

impl RetiredIds {
    /// Lets `id` wait while somebody holds `until` or an earlier epoch.
    pub(crate) fn push(&mut self, until: u64, id: AddressId) {
        match self.runs.back_mut() {
            Some(run) if run.until == until && run.ids.len() < RUN_LEN => run.ids.push(id),
            _ => self.runs.push_back(Run { until, ids: vec![id], at: 0 }),
        }
    }

    /// The next id whose wait ended before `oldest_held`, and until when it was to wait.
    pub(crate) fn pop_before(&mut self, oldest_held: u64) -> Option<(u64, AddressId)> {
        let run = self.runs.front_mut().filter(|run| run.until < oldest_held)?;
        let (until, id) = (run.until, run.ids[run.at]);
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
        let mut waiting = RetiredIds::default();
        let ids = |range: std::ops::Range<u32>| range.map(AddressId);
        ids(0..10_000).for_each(|id| waiting.push(1, id));
        ids(10_000..10_003).for_each(|id| waiting.push(2, id));
        assert_eq!(waiting.pop_before(1), None);
        for id in ids(0..10_000) {
            assert_eq!(waiting.pop_before(2), Some((1, id)));
        }
        assert_eq!((waiting.pop_before(2), waiting.len()), (None, 3));
        assert_eq!(waiting.pop_before(3), Some((2, AddressId(10_000))));
        waiting.push(4, AddressId(5));
        assert_eq!(waiting.len(), 3);
    }
}
